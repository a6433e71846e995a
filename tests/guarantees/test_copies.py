"""With `Record()`, no graph of steps of Beam that is accepted makes a record count more often than the release says.

Graphs are random. Each is built, and each that is accepted runs without noise on databases that differ by one record,
as in `tests/helpers/copies.py`. Nothing here is left to chance: each graph is that of its seed.
"""

from __future__ import annotations

import apache_beam as beam
import pytest

from beam_dpsketch.transforms import private_release
from beam_dpsketch.transforms.steps.checks import copy_guard
from beam_dpsketch.transforms.steps.checks.copy_guard import Origin, origin_of
from tests.helpers import copies, laws
from tests.helpers.copies import Measured, measure
from tests.helpers.graphs import Graph

SIZE = 50


def check(seeds: range) -> Measured:
    measured = measure(Graph(seed) for seed in seeds)
    assert not measured.broken
    assert len(measured.losses) + len(measured.refusals) == len(seeds)
    return measured


def test_one_record_counts_as_often_as_the_statement_says() -> None:
    measured = check(range(12))
    assert len(measured.losses) >= 4
    assert len(measured.refusals) >= 2


@pytest.mark.slow
@pytest.mark.parametrize("part", range(1, 7))
def test_one_record_counts_as_often_as_said_in_many_graphs(part: int) -> None:
    measured = check(range(part * SIZE, part * SIZE + SIZE))
    assert len(measured.losses) >= SIZE / 2
    assert sum(loss == 1 for loss in measured.losses.values()) >= SIZE / 3  # others lose the record on the way
    assert len(measured.refusals) >= SIZE / 8


@pytest.mark.slow
def test_most_refused_graphs_copy_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others lose the record, join disjoint filters, or group bounded input, where a trigger fires once."""
    seeds = [int(label.split()[1]) for label in measure(Graph(seed) for seed in range(24)).refusals]
    for module in (copies, private_release):
        monkeypatch.setattr(module, "check_no_copies", lambda elements: None)
    measured = measure(Graph(seed) for seed in seeds)
    assert len(measured.broken) >= len(seeds) / 2
    assert max(measured.losses.values()) > 50


def no_side_inputs(collection: beam.PCollection) -> Origin:
    return origin_of(collection)._replace(sides=())


def filters_make_records(collection: beam.PCollection) -> Origin:
    origin = origin_of(collection)
    return origin._replace(is_new=True) if "Filter(" in str(origin.step) else origin


def functions_end_the_walk(collection: beam.PCollection) -> Origin:
    origin = origin_of(collection)
    return origin._replace(mains=(), sides=()) if origin.is_new else origin


def check_each(seeds: list[int]) -> None:
    assert len(measure(Graph(seed) for seed in seeds).broken) < len(seeds), "all are broken"


test_a_planted_fault_is_found = laws.mutants(
    {
        "side inputs": laws.put(copy_guard, "origin_of", no_side_inputs, "", [9, 33]),
        "filters": laws.put(copy_guard, "origin_of", filters_make_records, "", [6, 143]),
        "functions": laws.put(copy_guard, "origin_of", functions_end_the_walk, "", [16, 41]).slow(),
        "windows": laws.put(copy_guard, "_check_windows", lambda windowing: None, "", [38, 41]).slow(),
    },
    check_each,
    words="all are broken",
)
