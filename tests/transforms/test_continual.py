"""Continual release: every node of the horizon once, exactly, with noise of its own, on bounded and on live input."""

from __future__ import annotations

import collections
import math
from fractions import Fraction
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.transforms import trigger, window
from apache_beam.utils.timestamp import MAX_TIMESTAMP, Duration, Timestamp

from beam_dpsketch import (
    ADD_OR_REMOVE_ONE,
    REPLACE_ONE,
    CountSketch,
    Horizon,
    IntegerDomain,
    PrivacyId,
    PrivacySpec,
    PrivacyUnit,
    Record,
    RecordBounds,
    ReleasedDyadicCountSketch,
    SketchSpec,
    SketchTimeline,
    TreeSpec,
    WindowingError,
)
from beam_dpsketch.privacy import mechanism
from beam_dpsketch.release.statement import Disclosure
from beam_dpsketch.transforms import PrivateContinualQuantiles
from tests.helpers.continual import (
    HORIZON,
    SIZE,
    START,
    VISITS,
    WINDOWS,
    Counters,
    Visit,
    bounded,
    expected,
    frequencies,
    live,
    released,
    same,
    sums,
    unpacked,
)
from tests.helpers.noise_audit import audit
from tests.helpers.pipelines import BUNDLE_BASED, COUNT_MIN, FN_API, SPEC, seen_by_sink

EDGES = [START - 0.001, START, START + 9.999, START + 10, START + 79.999, START + 80]
"""Just before the horizon, in windows 0, 0, 1 and 7, just after it."""
AUDITED = SketchSpec(depth=4, width=512)
LOUD = PrivacySpec(rho=1.0, relation=REPLACE_ONE)


@pytest.mark.one_fast_case
@pytest.mark.parametrize("spec", [SPEC, COUNT_MIN], ids=["count_sketch", "count_min"])
def test_every_node_is_the_exact_sum_of_its_windows(spec: SketchSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows without data are nodes too, and records outside the horizon are in none."""
    assert same(sums(monkeypatch, bounded(frequencies(spec))), expected(VISITS, spec))


def test_edges_of_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    visits = [Visit("ann", "a", time) for time in EDGES]
    nodes = sums(monkeypatch, bounded(frequencies(), visits))
    assert same(nodes, expected(visits))
    assert [int(np.abs(nodes[0, index]).sum() / SPEC.depth) for index in range(WINDOWS)] == [2, 1, 0, 0, 0, 0, 0, 1]


@pytest.mark.one_fast_case
@pytest.mark.parametrize(("start", "size"), [(0, 10), (0.001, 0.001), (107.5, 2.25), (1.7e9, 86_400)])
def test_windows_of_any_start_and_length(start: float, size: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """One record at the start of each window but the second, so that each node has as many as it has windows."""
    visits = [Visit("ann", "a", start + size * index) for index in range(WINDOWS) if index != 1]
    nodes = sums(monkeypatch, bounded(frequencies(horizon=Horizon(start, size, WINDOWS)), visits))
    for (level, index), counters in nodes.items():
        assert np.abs(counters).max() == (1 << level) - (index == 1 >> level)


def test_empty_input_is_released_as_well() -> None:
    nodes = released(frequencies(), [])
    assert sorted((node.level, node.index) for node in nodes) == sorted(expected([]))
    assert len({node.release.privacy.release_ids for node in nodes}) == 15


def test_the_statement() -> None:
    nodes = released(frequencies())
    for node in nodes:
        statement = node.release.privacy
        assert statement.unit is PrivacyUnit.RECORD_OVER_HORIZON
        assert statement.relation is ADD_OR_REMOVE_ONE
        assert (statement.rho, statement.window_count) == (Fraction(1, 10), WINDOWS)
        assert statement.disclosed is Disclosure.NONE
        assert statement.sigma_squared == Fraction(SPEC.depth * 4, 2) / Fraction(1, 10)
    line = SketchTimeline(nodes, HORIZON)
    assert line.available == WINDOWS
    assert line.prefix(6).privacy.rho == Fraction(1, 10)


@pytest.mark.slow
def test_noise_is_drawn_once_for_each_node_and_independently() -> None:
    """Residuals of all nodes, halves against each other: shared or repeated noise would correlate."""
    nodes = sorted(released(frequencies(spec=AUDITED, privacy=LOUD)), key=lambda node: (node.level, node.index))
    residuals = []
    for node in nodes[:-1]:  # an even number
        windows = [START + SIZE * end for end in (node.windows[0], node.windows[-1] + 1)]
        items = [visit.item for visit in VISITS if windows[0] <= visit.time < windows[1]]
        residuals.append((node.release.counters - CountSketch(AUDITED).accumulate(items).counters).ravel())
    halves = np.concatenate(residuals[::2]), np.concatenate(residuals[1::2])
    assert audit(*halves, Fraction(4 * 4 * 4, 2)) == set()


def test_noise_shared_by_nodes_would_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    sample, drawn = mechanism.discrete_gaussian.sample, []

    def repeated(size: int, sigma_squared: Fraction, **source: Any) -> np.ndarray:
        drawn.append(drawn[0] if drawn else sample(AUDITED.cells, sigma_squared))
        return np.resize(drawn[0], size)  # the same again for each of those drawn at once

    monkeypatch.setattr(mechanism.discrete_gaussian, "sample", repeated)
    nodes = released(frequencies(spec=AUDITED, privacy=LOUD), [])
    residuals = [node.release.counters.ravel() for node in nodes[:-1]]
    alarms = audit(np.concatenate(residuals[::2]), np.concatenate(residuals[1::2]), Fraction(4 * 4 * 4, 2))
    assert "cross-correlation" in alarms


@pytest.mark.slow
def test_a_replayed_bundle_shows_one_value() -> None:
    nodes = seen_by_sink(bounded(frequencies()), "--direct_runner_bundle_repeat=3")
    seen = collections.defaultdict(set)
    for node in nodes:
        seen[node.level, node.index].add(node.release.to_bytes())
    assert len(seen) == 15
    assert {len(values) for values in seen.values()} == {1}


class WithTimes(beam.DoFn):
    """A node with the start and the end of its window, and its timestamp."""

    def process(self, element: Any, where: Any = beam.DoFn.WindowParam, when: Any = beam.DoFn.TimestampParam) -> Any:
        yield element, float(where.start), float(where.end), float(when)


def test_nodes_come_in_the_last_of_their_windows() -> None:
    outputs = released(frequencies() | "Times" >> beam.ParDo(WithTimes()))
    assert len(outputs) == 15
    for node, start, end, when in outputs:
        assert start == START + SIZE * node.windows[-1]
        assert start <= when < end == start + SIZE


@pytest.mark.slow
def test_a_stream_gives_the_same_nodes_without_late_records(monkeypatch: pytest.MonkeyPatch) -> None:
    found = sums(monkeypatch, lambda pipeline: pipeline | live() | frequencies(), "--streaming", runner=BUNDLE_BASED)
    assert same(found, expected(VISITS))


@pytest.mark.slow
def test_nodes_of_a_stream_are_out_when_their_last_window_closes() -> None:
    """What is grouped downstream, window by window, is what closed with the window."""

    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        nodes = pipeline | live() | frequencies()
        return nodes | beam.Map(lambda node: (None, (node.level, node.index))) | beam.GroupByKey()

    groups = [sorted(places) for _, places in seen_by_sink(build, "--streaming", runner=BUNDLE_BASED)]
    assert sorted(groups) == sorted(
        [
            [(0, 0)],
            [(0, 1), (1, 0)],
            [(0, 2)],
            [(0, 3), (1, 1), (2, 0)],
            [(0, 4)],
            [(0, 5), (1, 2)],
            [(0, 6)],
            [(0, 7), (1, 3), (2, 1), (3, 0)],
        ]
    )


def test_privacy_ids_are_bounded_over_the_whole_horizon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ann has 5 records in one window and one in each of four others: two windows are kept, two records in each."""
    bounds = RecordBounds(max_contributions_per_partition=2, max_partitions=2)
    visits = [visit for visit in VISITS if visit.who != "bob"]
    nodes = sums(monkeypatch, bounded(frequencies(unit=PrivacyId("who", bounds)), visits))
    records = [int(np.abs(nodes[0, index]).max()) for index in range(WINDOWS)]
    assert sum(count > 0 for count in records) == 2
    assert sum(records) in (2, 3)
    assert int(np.abs(nodes[3, 0]).sum()) > 0
    for level in range(3):
        for index in range(WINDOWS >> (level + 1)):
            children = nodes[level, 2 * index] + nodes[level, 2 * index + 1]
            np.testing.assert_array_equal(nodes[level + 1, index], children)


@pytest.mark.slow
def test_privacy_ids_within_the_bounds_lose_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    bounds = RecordBounds(max_contributions_per_partition=9, max_partitions=8)
    transform = frequencies(unit=PrivacyId("who", bounds), privacy=PrivacySpec(rho=0.1, relation=REPLACE_ONE))
    assert same(sums(monkeypatch, bounded(transform)), expected(VISITS))
    statement = released(transform)[0].release.privacy
    assert statement.unit is PrivacyUnit.PRIVACY_ID_OVER_HORIZON
    assert "9 record(s) per window, 8 of the 8 windows" in str(statement)
    levels = 8 * 1 + 4 * 4 + 2 * 16 + 1 * 64
    assert statement.sigma_squared == Fraction(4 * SPEC.depth * 81 * levels, 2) / Fraction(1, 10)


@pytest.mark.slow
def test_of_the_ids_of_a_stream_the_first_windows_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ann and bob have data in windows 0 and 1 and in later ones; the late record of bob is in none."""

    def nodes(**bounds: int) -> Counters:
        transform = frequencies(unit=PrivacyId("who", RecordBounds(**bounds)))
        return sums(monkeypatch, lambda pipeline: pipeline | live() | transform, "--streaming", runner=BUNDLE_BASED)

    assert same(nodes(max_contributions_per_partition=9, max_partitions=8), expected(VISITS))
    first = [visit for visit in VISITS if START <= visit.time < START + 2 * SIZE]
    two_of_ann = [visit for visit in first if visit != VISITS[4]] + [VISITS[4]] * 2
    assert same(nodes(max_contributions_per_partition=2, max_partitions=2), expected(two_of_ann))


def test_batches_have_the_time_of_their_element(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = pa.RecordBatch.from_pydict({"item": ["a", "b", "b"]})

    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        return pipeline | beam.Create([batch]) | beam.Map(window.TimestampedValue, START + 25) | frequencies()

    nodes = sums(monkeypatch, build)
    assert same(nodes, expected([Visit("", item, START + 25.0) for item in "abb"]))


@pytest.mark.slow
def test_quantiles_over_time() -> None:
    transform = PrivateContinualQuantiles.Globally(
        TreeSpec.for_memory(IntegerDomain(0, 999), 1 << 14), PrivacySpec(rho=1.0), HORIZON, unit=Record()
    )
    values = [window.TimestampedValue(i % 1000, START + (i // 1000) * 2) for i in range(40_000)]
    nodes = seen_by_sink(lambda pipeline: pipeline | beam.Create(values) | beam.Map(unpacked) | transform)
    answer = SketchTimeline(nodes, HORIZON).between(1, 5)
    assert isinstance(answer, ReleasedDyadicCountSketch)
    assert abs(answer.quantile(0.5) - 500) <= 20
    assert math.isclose(answer.total().estimate, 25_000, rel_tol=0.02)


def test_starts_and_sizes_may_be_those_of_beam() -> None:
    given = Horizon(Timestamp(START), Duration(SIZE), WINDOWS)
    assert (given.start_micros, given.size_micros) == (HORIZON.start_micros, HORIZON.size_micros)


def test_explanation_and_settings() -> None:
    text = frequencies().explain()
    assert "count_sketch: 1 table, 48 counters" in text
    assert "15 releases over 8 windows, rho for all of them together" in text
    assert "up to 4 of them adds up in a prefix, of up to 6 in another range" in text
    assert "rho = 0.1, ADD_OR_REMOVE_ONE" in text
    assert "sigma = 7.746" in text  # the root of depth * levels / (2 rho) = 60
    assert frequencies().display_data()["windows"] == WINDOWS
    assert frequencies().default_label() == "PrivateContinualFrequencies.Globally"


WINDOWED = {
    "fixed": (
        beam.WindowInto(window.FixedWindows(60)),
        "FixedWindows before continual release.* remove the WindowInto",
    ),
    "sliding": (beam.WindowInto(window.SlidingWindows(60, 20)), "SlidingWindows before continual release"),
    "sessions": (beam.WindowInto(window.Sessions(60)), "Sessions before continual release"),
    "trigger": (
        beam.WindowInto(
            window.GlobalWindows(),
            trigger=trigger.Repeatedly(trigger.AfterCount(1)),
            accumulation_mode=trigger.AccumulationMode.DISCARDING,
        ),
        "trigger=Repeatedly .* remove it from WindowInto",
    ),
    "lateness": (beam.WindowInto(window.GlobalWindows(), allowed_lateness=10), "allowed_lateness must be 0"),
}


@pytest.mark.parametrize(("windowing", "message"), WINDOWED.values(), ids=WINDOWED)
def test_other_windows_and_triggers_are_refused(windowing: beam.WindowInto, message: str) -> None:
    elements = beam.Pipeline(runner=FN_API) | beam.Create(["a"]) | windowing
    with pytest.raises(WindowingError, match=message):
        elements | frequencies(item=None)


def test_records_of_a_batch_are_bounded_by_privacy_id(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = pa.RecordBatch.from_pydict({"item": ["a", "a", "b"], "who": ["ann", "ann", "bob"]})

    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        timed = pipeline | beam.Create([batch]) | beam.Map(window.TimestampedValue, START + 25)
        return timed | frequencies(unit=PrivacyId("who", RecordBounds(1)))

    assert same(sums(monkeypatch, build), expected([Visit("", item, START + 25.0) for item in "ab"]))


REFUSED_HORIZONS: dict[str, tuple[tuple[Any, Any, Any], str]] = {
    "not a power of two": ((START, SIZE, 6), "windows must be a power of two, got 6"),
    "one window": ((START, SIZE, 1), "windows must be between 2 and 1048576"),
    "no length": ((START, 0, WINDOWS), "window_size must be greater than 0"),
    "before 1970": ((-0.5, SIZE, WINDOWS), "start must be in 1970 or later"),
    "start between milliseconds": ((1e-4, SIZE, WINDOWS), "start must be whole milliseconds"),
    "size between milliseconds": ((START, 0.5001, WINDOWS), "window_size must be whole milliseconds"),
    "too far": ((MAX_TIMESTAMP, SIZE, WINDOWS), "must end before the last timestamp"),
}


@pytest.mark.parametrize(("horizon", "message"), REFUSED_HORIZONS.values(), ids=REFUSED_HORIZONS)
def test_horizons_that_cannot_be_are_refused(horizon: tuple[Any, Any, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Horizon(*horizon)


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no unit": ({"unit": None}, r'unit must be PrivacyId\("field", NormBound\(...\)\).*, or Record\(\).* got NoneType'),
    "no horizon": ({"horizon": (START, SIZE, WINDOWS)}, "horizon must be a Horizon, got tuple"),
    "limited windows": (
        {"unit": PrivacyId("who", RecordBounds(1), max_windows=2)},
        "max_windows must be left out in continual release: bounds.max_partitions says",
    ),
    "too many windows": (
        {"unit": PrivacyId("who", RecordBounds(1, max_partitions=9))},
        "max_partitions must be at most the 8 windows",
    ),
    "too much rho": ({"privacy": PrivacySpec(rho=1000)}, "rho must be at most"),
    "a domain": ({"spec": IntegerDomain(0, 9)}, "spec must be a SketchSpec or ListedItems, got IntegerDomain"),
}


@pytest.mark.parametrize(("arguments", "message"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_work_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        frequencies(**arguments)
