"""Short lists: the norm and the order that `AutoNorm` takes for lists of up to 16 items, over those of longer lists."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from beam_dpsketch import AutoNorm, ItemFrequencies, ListedItems, PrivacyId, PrivacySpec, ReleaseSpec, release_frame
from benchmarks.people import data
from benchmarks.people.bounded import DELTA
from benchmarks.people.data import People
from benchmarks.table import Bar, Table, mean

EPSILONS = (2.0, 1.0, 0.5)
LARGEST_MEAN, LARGEST = 0.75, 1.35
"""Of the ratios of errors: their geometric mean, and each."""
_AS_LONGER_LISTS = AutoNorm(norm="l2")


def _lists() -> list[People]:
    """Return people with lists of 2 to 16 items."""
    flights, log = data.flights_by("origin"), data.some_of(data.web_log(), 20_000)
    months, distances = data.flights_by("month"), data.flights_by("distance")
    bands = np.minimum(distances.items // 400, 5)
    return [
        flights,
        months._replace(items=months.items - 1),
        distances._replace(title="flights, aircraft protected, band of 400 miles", items=bands),
        log._replace(title=f"{log.title} of the first ten", items=(log.items < 10).astype(np.int64)),
        log._replace(title=f"{log.title} modulo 4", items=log.items % 4),
        log._replace(title=f"{log.title}, the first 15 and all others", items=np.minimum(log.items, 15)),
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
