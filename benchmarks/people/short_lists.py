"""Errors of lists of up to 64 items with the default L1 norm of `AutoNorm`, over errors with an L2 norm.

Statistics: errors of counts with these defaults, and of means with `optimize_for="means"`, over the best errors.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from beam_dpsketch import (
    AutoNorm,
    IntegerDomain,
    ItemFrequencies,
    ListedItems,
    NormBound,
    PrivacyId,
    PrivacySpec,
    PublicKeys,
    ReleaseSpec,
    Statistics,
    release_frame,
)
from benchmarks.people import data
from benchmarks.people.bounded import DELTA
from benchmarks.people.data import People
from benchmarks.table import Bar, Table, mean

EPSILONS = (2.0, 1.0, 0.5)
LARGEST_MEAN, LARGEST = 0.8, 1.5
"""Of the ratios of errors: their geometric mean, and each."""
LARGEST_OF_TOTALS, LARGEST_OF_MEANS, LARGEST_OVER_BEST = 0.9, 0.7, 1.7
"""Limits of ratios of errors: counts with the defaults over an L2 norm; means with `optimize_for="means"` over the
defaults, and their median over the best norm."""
_AS_LONGER_LISTS = AutoNorm(norm="l2")
_AUTOS = (_AS_LONGER_LISTS, AutoNorm(), AutoNorm(optimize_for="means"))
_GIVEN = [NormBound(4**power, norm=norm) for power in range(6) for norm in ("l1", "l2")]


def _lists() -> list[People]:
    """Return people with lists of 2 to 64 items."""
    flights, log = data.flights_by("origin"), data.some_of(data.web_log(), 20_000)
    months, distances = data.flights_by("month"), data.flights_by("distance")
    bands, light = np.minimum(distances.items // 400, 5), data.visits("poisson")
    return [
        flights,
        months._replace(items=months.items - 1),
        distances._replace(title="flights, aircraft protected, band of 400 miles", items=bands),
        log._replace(title=f"{log.title} of the first ten", items=(log.items < 10).astype(np.int64)),
        log._replace(title=f"{log.title} modulo 4", items=log.items % 4),
        log._replace(title=f"{log.title}, the first 15 and all others", items=np.minimum(log.items, 15)),
        data.flights_by("hour"),
        distances._replace(
            title="flights, aircraft protected, band of 100 miles", items=np.minimum(distances.items // 100, 25)
        ),
        light._replace(title=f"{light.title}, the first 31 and all others", items=np.minimum(light.items, 31)),
        log._replace(title=f"{log.title} modulo 64", items=log.items % 64),
        log._replace(title=f"{log.title}, the first 63 and all others", items=np.minimum(log.items, 63)),
    ]


def _error(people: People, auto: AutoNorm, epsilon: float, releases: int) -> np.ndarray:
    """Return the mean absolute error over all items of each release."""
    truth = np.bincount(people.items)
    items, table = range(len(truth)), pa.table({"person": people.units, "item": people.items})
    count, privacy_unit, found = ItemFrequencies(ListedItems(items)), PrivacyId("person", auto), []
    for _ in range(releases):
        declared = ReleaseSpec(count, PrivacySpec(epsilon=epsilon, delta=DELTA), privacy_unit, item="item")
        found.append(np.abs(np.asarray(release_frame(table, declared).estimate(items)) - truth).mean())
    return np.array(found)


def measure(releases: int) -> None:
    """Print a line for each list and epsilon, and the ratios of all."""
    words = f'Mean absolute error over all items, {releases} releases: AutoNorm(norm="l2"), AutoNorm(), their ratio.'
    table = Table(words, ("", "L2", "usual", "ratio"), (78, 26, 26, 8), bar=20)
    ratios = []
    for people in _lists():
        for epsilon in EPSILONS:
            before, after = (_error(people, auto, epsilon, releases) for auto in (_AS_LONGER_LISTS, AutoNorm()))
            ratios.append(after.mean() / before.mean())
            label = f"{people.title}, epsilon {epsilon:g}, {len(np.bincount(people.items))} items"
            bars = [Bar(ratios[-1], "<=", LARGEST)]
            table.row(label, mean(before.tolist()), mean(after.tolist()), f"{ratios[-1]:.2f}", bars=bars)
    all_of = float(np.exp(np.log(ratios).mean()))
    table.row("geometric mean", "", "", f"{all_of:.2f}", bars=[Bar(all_of, "<=", LARGEST_MEAN)])


def _numbers() -> list[tuple[People, IntegerDomain]]:
    """Return people with numbers, by key if they have keys."""
    flights = [data.flights_by("arr_delay", key) for key in ("carrier", "origin", "month", "dest", None)]
    log = data.some_of(data.web_log(), 20_000)
    made_up = [(data.visits("poisson"), 5), (data.visits("lognormal"), 50), (log, 4), (log, 100)]
    numbers = [(people, IntegerDomain(-60, 300)) for people in (*flights, _some(flights[-1], 300))]
    numbers += [(_percentages(people, keys), IntegerDomain(0, 100)) for people, keys in made_up]
    return [*numbers, (data.latencies(), IntegerDomain(0, 1000))]


def _some(people: People, count: int) -> People:
    return data.some_of(people, count)._replace(title=f"{people.title}, {count} aircraft")


def _percentages(people: People, keys: int) -> People:
    """Return records with percentages around a mean of each person, by the item modulo the number of keys."""
    generator = np.random.default_rng(data.SEED + 1)  # the visits are drawn from the seed
    means = generator.normal(30, 10, int(people.units.max()) + 1)
    values = np.rint(generator.normal(means[people.units], 20)).astype(np.int64)
    title = people.title.rpartition(",")[0]
    return people._replace(title=f"{title}, percentage in {keys} keys", items=values, keys=people.items % keys)


def _errors(people: People, domain: IntegerDomain, bounds: Any, epsilon: float, releases: int) -> np.ndarray:
    """Return the mean absolute errors of counts and of means, over keys with 0.3 % of the records or more."""
    values = np.clip(people.items, domain.low, domain.high)
    keys = np.zeros_like(values) if people.keys is None else people.keys
    counts, sums = np.bincount(keys), np.bincount(keys, values)
    large = np.flatnonzero(counts >= 0.003 * len(keys))
    truth = np.stack([counts[large], sums[large] / counts[large]])
    table, found = pa.table({"person": people.units, "item": values, "key": keys}), np.zeros(2)
    count, privacy_unit = Statistics(domain), PrivacyId("person", bounds)
    public = PublicKeys(range(len(counts)), "key")
    for _ in range(releases):
        privacy = PrivacySpec(epsilon=epsilon, delta=DELTA)
        released: Any = release_frame(table, ReleaseSpec(count, privacy, privacy_unit, item="item", keys=public))
        answers = [(released[key].count().estimate, released[key].mean().estimate) for key in large.tolist()]
        middle = (domain.low + domain.high) / 2
        known = np.array([(number, middle if mean is None else mean) for number, mean in answers])
        found += np.abs(known.T - truth).mean(axis=1) / releases
    return found


def measure_statistics(releases: int) -> None:
    """Print a line for each data set and epsilon: errors over those at the best of some norms."""
    title = (
        f"Mean absolute error of counts and of means, over that at the best of {len(_GIVEN)} given norms, {releases} "
        'releases:\nAutoNorm(norm="l2"), AutoNorm(), AutoNorm(optimize_for="means").'
    )
    heads = ("", "counts: L2", "usual", "means: L2", "usual", "for means")
    table, found = Table(title, heads, (70, -12, -8, -12, -8, -12)), []
    for people, domain in _numbers():
        for epsilon in EPSILONS:
            best = np.min([_errors(people, domain, each, epsilon, releases // 2) for each in _GIVEN], axis=0)
            ratios = np.array([_errors(people, domain, each, epsilon, releases) / best for each in _AUTOS])
            found.append([*ratios[:2, 0], *ratios[:, 1]])
            table.row(f"{people.title}, epsilon {epsilon:g}", *(f"{each:.2f}" for each in found[-1]))
    over, middle = np.exp(np.log(found).mean(axis=0)), np.median(found, axis=0)
    bars = [
        Bar(float(over[1] / over[0]), "<=", LARGEST_OF_TOTALS, " of L2"),
        Bar(float(over[4] / over[3]), "<=", LARGEST_OF_MEANS, " of usual"),
        Bar(float(middle[4]), "<=", LARGEST_OVER_BEST, " in the median"),
    ]
    table.row("geometric mean", *(f"{each:.2f}" for each in over), bars=bars[:2])
    table.row("median", *(f"{each:.2f}" for each in middle), bars=bars[2:])
