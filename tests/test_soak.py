"""The rules by which the soak judges, and what its source sends; the stream itself runs in `make soak`."""

from __future__ import annotations

import math
import os
from pathlib import Path

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.transforms.window import FixedWindows, TimestampedValue

from benchmarks.streams.soak import expected, pipelines, search
from benchmarks.streams.soak.expected import Published
from benchmarks.streams.soak.nearly_exact import same_counters
from benchmarks.streams.soak.records import (
    MAX_WINDOWS,
    PERIOD,
    SHARDS,
    TICKS,
    WINDOW,
    Plan,
    Visit,
    in_first_windows,
    of_window,
    visits,
)
from benchmarks.streams.soak.verdicts import FEWEST, Flat, Judged, flat, judge
from benchmarks.table import Bar

PLAN = Plan(PERIOD * 10, (50, 60, 70, 50, 60, 70, 80))
SPAN = (100.0, 200.0)
GENERATOR = np.random.default_rng(1)


def series(growth: float) -> list[tuple[float, float]]:
    """A value a second, noisy, which falls at first and then grows by so much a second."""
    return [
        (time, 100 + 200 * (time < 125) + growth * (time - 100) + noise)
        for time, noise in zip(np.arange(50.0, 250.0), GENERATOR.normal(0, 3, 200), strict=True)
    ]


@pytest.mark.parametrize(("growth", "met"), [(0.0, True), (-1.0, True), (0.5, False)])
def test_what_grows_is_not_flat(growth: float, met: bool) -> None:
    found = flat(series(growth), SPAN)
    assert found.second == pytest.approx(100 + 37.5 * growth, abs=5)
    assert found.last == pytest.approx(100 + 87.5 * growth, abs=5)
    assert Bar(found.growth, "<=", 1.1).met is met


def test_a_leak_that_a_restart_hides_is_outside_the_span_or_seen() -> None:
    grows = [(float(time), float(time % 100)) for time in range(300)]
    assert Bar(flat(grows, SPAN).growth, "<=", 1.1).met is False


def test_too_few_values_are_not_flat() -> None:
    few = [(float(time), 1.0) for time in np.linspace(*SPAN, 4 * FEWEST - 4)]
    assert math.isnan(flat(few, SPAN).growth)
    assert Bar(flat(few, SPAN).growth, "<=", 1.1).met is False
    assert Bar(Flat(1.0, float("nan")).growth, "<=", 1.1).met is False


@pytest.mark.parametrize(
    ("first", "found"),
    [
        ({0: b"a", 1: b"b"}, Judged(2, 0, 0, 0, 0)),
        ({0: b"a"}, Judged(2, 1, 0, 0, 0)),
        ({0: b"a", 1: b"x"}, Judged(2, 0, 1, 0, 0)),
        ({0: b"a", 1: b"b", 2: b"c"}, Judged(2, 0, 1, 0, 0)),
        ({}, Judged(2, 2, 0, 0, 0)),
    ],
)
def test_what_is_missing_wrong_or_too_much_is_found(first: dict[int, bytes], found: Judged) -> None:
    due = {("one", 0): b"a", ("one", 1): b"b", ("other", 0): b"z"}
    there = {("one", window): Published(value, 0.0, []) for window, value in first.items()}
    assert judge(due, there | {("other", 0): Published(b"y", 0.0, [b"x"])}, "one") == found


def test_what_is_made_again_has_the_same_bytes_or_is_found() -> None:
    due = {("one", window): b"a" for window in range(3)}
    again: list[list[bytes]] = [[], [b"a", b"a"], [b"a", b"b"]]
    there = {("one", window): Published(b"a", 0.0, others) for window, others in enumerate(again)}
    assert judge(due, there, "one") == Judged(3, 0, 0, 2, 1)


def test_the_first_step_that_falls_behind_ends_the_search() -> None:
    assert search.holding([]) == 0
    assert search.holding([5, 6, search.BEHIND]) == 3
    assert search.holding([5, search.BEHIND + 1, 6]) == 1
    assert search.holding([90, 60, 30, 5, 31]) == 4  # workers start late, and catch up


def test_the_source_sends_at_its_rate_and_the_same_again() -> None:
    for window, rate in enumerate(PLAN.rates):
        assert of_window(PLAN, window).shape == (2, rate * WINDOW)
    assert of_window(PLAN, len(PLAN.rates)).shape == (2, 0)
    sent = [visit for shard in range(SHARDS) for tick in range(TICKS) for visit in visits(PLAN, shard, tick)]
    assert sent == [visit for shard in range(SHARDS) for tick in range(TICKS) for visit in visits(PLAN, shard, tick)]
    assert len(set(sent)) > 100


def test_a_user_has_so_many_windows_of_a_period() -> None:
    taken: dict[tuple[int, int], set[int]] = {}
    for window, (users, _) in in_first_windows(PLAN):
        assert 0 < len(users) <= of_window(PLAN, window).shape[1]
        for user in users.tolist():
            taken.setdefault((user, window * WINDOW // PERIOD), set()).add(window)
    assert max(map(len, taken.values())) == MAX_WINDOWS


class Lost(beam.DoFn):
    """Passes on all but a number of elements."""

    def __init__(self, lost: int) -> None:
        self._lost = lost

    def process(self, element: Visit) -> list[Visit]:
        self._lost -= 1
        return [] if self._lost >= 0 else [element]


@pytest.mark.slow
@pytest.mark.pipeline
@pytest.mark.parametrize("lost", [0, 1])
def test_elements_leave_what_columns_are_expected_to_leave(
    lost: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pipelines of the soak in memory; a single record that is lost is found by each."""
    monkeypatch.setitem(os.environ, pipelines.SECRET, "made up for a test, " * 3)
    timed = [
        TimestampedValue(visit, PLAN.time_of(tick))
        for shard in range(SHARDS)
        for tick in range(TICKS * len(PLAN.rates))
        for visit in visits(PLAN, shard, tick)
    ]
    names = (pipelines.COUNT, *pipelines.PRIVATE)
    with beam.Pipeline(runner=FnApiRunner()) as pipeline:
        for name in names:
            elements = pipeline | f"Create {name}" >> beam.Create(timed, reshuffle=False)
            elements = elements | f"Time {name}" >> beam.Map(lambda visit: visit)
            elements = elements | f"Lost {name}" >> beam.ParDo(Lost(lost)).with_output_types(Visit)
            if name != pipelines.ROWS:
                elements = elements | f"Windows {name}" >> beam.WindowInto(FixedWindows(WINDOW))
            elements.is_bounded = name != pipelines.BY_NORM
            made = (
                beam.combiners.Count.Globally().without_defaults()
                if name == pipelines.COUNT
                else pipelines.private(name, PLAN)
            )
            _ = elements | name >> made | f"P {name}" >> beam.ParDo(pipelines.Publish(name, PLAN, tmp_path))
    there, due = expected.published(tmp_path), expected.releases(PLAN)
    wrong = {pipelines.COUNT: lost, pipelines.WINDOWS: lost, pipelines.ROWS: lost * len(PLAN.rates)}
    wrong[pipelines.BY_NORM] = lost
    for name in names:
        same = same_counters if name == pipelines.BY_NORM else bytes.__eq__
        assert judge(due, there, name, same) == Judged(len(PLAN.rates), 0, wrong[name], 0, 0)
