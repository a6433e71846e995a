"""Real releases of made-up people, with fresh noise, beside what is expected of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from beam_dpsketch import release_frame
from benchmarks.accuracy.noise_peers import keys, ours, peers
from benchmarks.accuracy.noise_peers.promises import DELTA, GAUSSIAN, LAPLACE, Person, Promise
from benchmarks.table import Table

UNITS, RELEASES, SEARCHES = 1_000, 30, 10
PURE, WHOLE, SPLIT = Promise(1.0, 0.0), Promise(1.0, DELTA), Promise(0.1, DELTA, 5)


def people(person: Person) -> pa.Table:
    """People who have different items, and as many records of each as they may."""
    units = np.repeat(np.arange(UNITS), person.total)
    places = np.tile(np.repeat(np.arange(person.items), person.each), UNITS)
    return pa.table({"person": units, "item": (units + 7 * places) % ours.LISTED, "one": np.ones_like(units)})


def errors(own: Callable[[Promise, Person], ours.Noise], promise: Promise, person: Person) -> Iterator[np.ndarray]:
    """The errors of the counts of all items, in each release; a budget pays for the first of its releases."""
    table = people(person)
    truth = np.bincount(table["item"].to_numpy(), minlength=ours.LISTED)
    for _ in range(RELEASES):
        released = release_frame(table, own(promise, person).spec)
        if isinstance(released, dict):
            found = np.array([released[item].estimate([1])[0] for item in range(ours.LISTED)])
        else:
            found = released.estimate(range(ours.LISTED))
        yield found - truth


def pdp_errors(kind: str, promise: Promise, person: Person) -> Iterator[np.ndarray]:
    """The same by PipelineDP's own engine, with public partitions."""
    library = peers.module("pipeline_dp")
    table = people(person)
    truth = np.bincount(table["item"].to_numpy(), minlength=ours.LISTED)
    rows = list(zip(table["person"].to_pylist(), table["item"].to_pylist(), strict=True))
    extractors = library.DataExtractors(
        privacy_id_extractor=lambda row: row[0], partition_extractor=lambda row: row[1], value_extractor=lambda row: 0
    )
    parameters = library.AggregateParams(
        metrics=[library.Metrics.COUNT],
        noise_kind=library.NoiseKind[kind.upper()],
        max_partitions_contributed=person.items,
        max_contributions_per_partition=person.each,
    )
    for _ in range(RELEASES):
        accountant = library.NaiveBudgetAccountant(promise.epsilon, promise.delta)
        engine = library.DPEngine(accountant, library.LocalBackend())
        answers = engine.aggregate(rows, parameters, extractors, public_partitions=list(range(ours.LISTED)))
        accountant.compute_budgets()
        found = dict(answers)
        yield np.array([found[item].count for item in range(ours.LISTED)]) - truth


def opendp_errors(promise: Promise, person: Person) -> Iterator[np.ndarray]:
    """The same by OpenDP's discrete Laplace."""
    dp: Any = peers.opendp()
    scale = person.total * peers.opendp_scale(LAPLACE, promise)
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64")
    noisy = space >> dp.m.then_laplace(scale=scale)
    for _ in range(RELEASES):
        yield np.array(noisy([0] * ours.LISTED))


def measure() -> None:
    """Print a line for each way, and one for items that the data choose."""
    title = (
        f"Real releases, {RELEASES} a line: root mean square error of {ours.LISTED} counts\n"
        "The standard error of a ratio is 0.9 % for a Gaussian, and 1.4 % for a Laplace."
    )
    table = Table(title, ("", "expected", "measured", "ratio"), (72, -10, -10, -8), bar=0)
    for name, own in (("ours, listed", ours.listed), ("ours, public keys", ours.by_key)):
        for person, promise in ((Person(3), WHOLE), (Person(3), PURE), (Person(1, 30), WHOLE), (Person(10), SPLIT)):
            expected = own(promise, person)
            if expected.law:
                kind = f"{expected.law}, {'' if promise.delta else 'pure, '}{person}, {promise}"
                _print(table, f"{name}, {kind}", expected.deviation, errors(own, promise, person))
    for kind in (LAPLACE, GAUSSIAN):
        of = pdp_errors(kind, WHOLE, Person(3))
        _print(table, f"PipelineDP, {kind}, {Person(3)}, {WHOLE}", peers.pdp(kind)(WHOLE, Person(3)), of)
    name, expected_noise = f"OpenDP, {LAPLACE}, {Person(3)}, {WHOLE}", peers.opendp_laplace(WHOLE, Person(3))
    _print(table, name, expected_noise, opendp_errors(WHOLE, Person(3)))
    _search(Person(10))


def _print(table: Table, name: str, expected: float, found: Iterator[np.ndarray]) -> None:
    measured = math.sqrt(float(np.mean(np.square(np.concatenate(list(found))))))
    table.row(name, f"{expected:.2f}", f"{measured:.2f}", f"{measured / expected:.3f}")


def _search(person: Person) -> None:
    held = keys.edges(person.items)
    named, spec = ours.grouped(WHOLE, person, keys.counts(person.items))
    rows = pa.table({"person": held.units, "item": held.keys})
    found = [len(release_frame(rows, spec).top_k(keys.ITEMS)) for _ in range(SEARCHES)]
    title = f"Items that the data choose, with counts, {SEARCHES} releases a line: mean number"
    table = Table(title, ("", "expected", "measured", "ratio"), (72, -10, -10, -8), bar=0)
    measured = float(np.mean(found))
    name = f"ours, {named.law}, {person}, {WHOLE}"
    table.row(name, f"{named.keys:.1f}", f"{measured:.1f}", f"{measured / named.keys:.3f}")
