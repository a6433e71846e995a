"""Continual release: every row of the horizon once, exactly, with noise of its own, on bounded and on live input."""

from __future__ import annotations

import collections
import functools
import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.transforms import trigger, window
from apache_beam.utils.timestamp import Duration, Timestamp

from beam_dpsketch import (
    ADD_OR_REMOVE_ONE,
    REPLACE_ONE,
    Horizon,
    IntegerDomain,
    ListedItems,
    NormBound,
    PrivacyId,
    PrivacySpec,
    PublicKeys,
    Record,
    RecordBounds,
    SketchSpec,
    SketchTimeline,
    TreeSpec,
    WindowingError,
)
from beam_dpsketch.exact.horizon import MECHANISMS, Mechanism
from beam_dpsketch.exact.sketches import raw_type
from beam_dpsketch.exact.sketches.statistics import StatisticsSpec
from beam_dpsketch.noise import tables
from beam_dpsketch.privacy.contributions import PrivacyUnit
from beam_dpsketch.privacy.noise import drawing
from beam_dpsketch.privacy.terms import Disclosure
from beam_dpsketch.transforms import PrivateFrequencies, PrivateQuantiles, PrivateStatistics
from tests.helpers import noise
from tests.helpers.continual import (
    HORIZON,
    PRIVACY,
    SIZE,
    START,
    VISITS,
    WINDOWS,
    Visit,
    bounded,
    exact,
    expected,
    frequencies,
    live,
    made_by,
    matrix,
    of_windows,
    released,
    same,
    streamed,
    sums,
)
from tests.helpers.noise_audit import audit
from tests.helpers.pipelines import BUNDLE_BASED, COUNT_MIN, FN_API, SPEC, seen_by_sink

EDGES = [START - 0.001, START, START + 9.999, START + 10, START + 109.999, START + 110]
"""Just before the horizon, in windows 0, 0, 1 and 10, just after it."""
AUDITED = SketchSpec(depth=4, width=512)
LOUD = PrivacySpec(rho=1.0, relation=REPLACE_ONE, summary_counts=None)


@pytest.mark.one_fast_case
@pytest.mark.parametrize("which", MECHANISMS)
@pytest.mark.parametrize("spec", [SPEC, COUNT_MIN], ids=["count_sketch", "count_min"])
def test_every_row_is_the_exact_combination_of_windows(
    spec: SketchSpec, which: Mechanism, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Windows without data are in rows too, and records outside the horizon are in none."""
    rows = sums(monkeypatch, bounded(frequencies(spec, mechanism=which)))
    assert same(rows, expected(VISITS, spec, which))
    assert not same(rows, expected([*VISITS, VISITS[4]], spec, which))


def test_edges_of_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    visits = [Visit("ann", "a", time) for time in EDGES]
    assert same(sums(monkeypatch, bounded(frequencies(), visits)), expected(visits))
    assert np.abs(of_windows(visits)).sum(axis=1).tolist() == [2 * 3, 3, *[0] * 8, 3]


@pytest.mark.one_fast_case
@pytest.mark.parametrize(("start", "size"), [(0, 10), (0.001, 0.001), (107.5, 2.25), (1.7e9, 86_400)])
def test_windows_of_any_start_and_length(start: float, size: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """One record at the start of each window but the second: window t counts as much as the weight of the others."""
    visits = [Visit("ann", "a", start + size * index) for index in range(WINDOWS) if index != 1]
    rows = sums(monkeypatch, bounded(frequencies(horizon=Horizon(start, size, WINDOWS)), visits))
    weights = matrix() @ np.array([1, 0, *[1] * (WINDOWS - 2)])
    assert [int(np.abs(row).max()) for row in rows.values()] == weights.tolist()


@pytest.mark.one_fast_case
@pytest.mark.parametrize("which", MECHANISMS)
def test_empty_input_is_released_as_well(which: Mechanism) -> None:
    rows = released(frequencies(mechanism=which), [])
    assert [row.number for row in rows] == [*expected([], mechanism=which)]
    assert len({row.privacy.release_ids for row in rows}) == len(rows)
    assert len({row.privacy.release_ids[0][:16] for row in rows}) == 1


def test_the_statement() -> None:
    """The noise of a counter is that of one record, as in one release: sigma^2 = depth / (2 rho share)."""
    rows = released(frequencies())
    for number, row in enumerate(rows):
        statement = row.privacy
        assert (row.number, row.window, row.mechanism) == (number, number, made_by("binned").rows)
        assert (statement.privacy_unit, statement.relation) == (PrivacyUnit.RECORD_OVER_HORIZON, ADD_OR_REMOVE_ONE)
        assert (statement.rho, statement.disclosed) == (Fraction(1, 10), Disclosure.NONE)
        assert statement.sigma_squared == Fraction(SPEC.depth, 2) / (Fraction(1, 10) * Fraction(49, 50))
    line = SketchTimeline(rows, HORIZON)
    assert line.available == WINDOWS
    assert line.prefix(6).privacy.rho == Fraction(1, 10)


def test_answers_without_noise_are_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counters, records, units and totals of every range of windows; ann and bob are in window 0, ann alone in 3."""
    privacy_unit = PrivacyId("who", RecordBounds(9), max_windows=WINDOWS)
    line = SketchTimeline(exact(monkeypatch, bounded(frequencies(privacy_unit=privacy_unit))), HORIZON)
    windows = of_windows(VISITS)
    for first, last in ((0, 0), (0, WINDOWS - 1), (2, 2), (1, 4), (6, 10)):
        answer = line.between(first, last)
        start, end = START + SIZE * first, START + SIZE * (last + 1)
        within = [visit for visit in VISITS if start <= visit.time < end]
        present = {(visit.who, (visit.time - START) // SIZE) for visit in within}
        np.testing.assert_allclose(answer.counters.ravel(), windows[first : last + 1].sum(axis=0), atol=1e-3)
        assert math.isclose(answer.records().estimate, len(within), abs_tol=1e-3)
        assert math.isclose(answer.total_weight().estimate, len(within), abs_tol=1e-3)
        assert math.isclose(answer.privacy_units().estimate, len(present), abs_tol=1e-3)


def number_of(visit: Visit) -> int:
    return ord(visit.item[0])


LETTERS = IntegerDomain(97, 122)
OVER_TIME: dict[str, tuple[Any, Callable[[Visit], Any], Callable[..., Any]]] = {
    "listed items": (ListedItems(["b", "absent"]), lambda visit: visit.item, PrivateFrequencies),
    "Count-Min": (COUNT_MIN, lambda visit: visit.item, PrivateFrequencies),
    "tree": (TreeSpec.for_memory(LETTERS, 1 << 14), number_of, PrivateQuantiles),
    "numbers": (
        StatisticsSpec(LETTERS),
        number_of,
        lambda spec, *rest, **given: PrivateStatistics(LETTERS, *rest, **given),
    ),
}
PEOPLE = {None: None, "listed": PublicKeys(["ann", "bob", "absent"], "who")}


@pytest.mark.parametrize("keys", PEOPLE)
@pytest.mark.parametrize("kind", OVER_TIME)
def test_answers_of_every_kind_are_those_of_the_windows(
    kind: str, keys: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without noise the counters of a range of windows are those of a raw sketch of what is within, for each key."""
    spec, item, make = OVER_TIME[kind]
    transform = make(spec, PRIVACY, windows=HORIZON, privacy_unit=Record(), item=item, keys=PEOPLE[keys])
    rows = exact(monkeypatch, bounded(transform))
    lines = SketchTimeline.by_key(rows, HORIZON) if keys else {None: SketchTimeline(rows, HORIZON)}
    assert lines.keys() == ({"ann", "bob", "absent"} if keys else {None})
    for (key, line), (first, last) in itertools.product(lines.items(), [(0, 0), (2, 2), (1, 4), (0, WINDOWS - 1)]):
        start, end = START + SIZE * first, START + SIZE * (last + 1)
        within = [visit for visit in VISITS if start <= visit.time < end and key in (None, visit.who)]
        counted = [each for each in map(item, within) if not getattr(spec, "is_listed", False) or each in spec.items]
        raw = raw_type(spec)(spec).accumulate(counted).to_vector()
        np.testing.assert_allclose(line.between(first, last).counters.ravel(), raw, atol=1e-2)


def audited(which: Mechanism, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The alarms of even rows against odd ones; sigma^2 is that of one record, times the longest column of C.

    Residuals are in the units in which noise is drawn, to the last bit.
    """
    monkeypatch.setattr(tables, "drowned_bits", lambda *_: 0)
    rows, wanted = released(frequencies(AUDITED, LOUD, mechanism=which)), expected(VISITS, AUDITED, which)
    residuals = [row.counters - wanted[row.number] for row in rows]
    length = int(np.square(matrix(which)).sum(axis=0).max())
    even, odd = (np.concatenate(half) for half in (residuals[:-1:2], residuals[1::2]))
    return audit(even, odd, Fraction(4 * AUDITED.depth, 2) * length)


@pytest.mark.slow
@pytest.mark.parametrize("which", MECHANISMS)
def test_noise_is_drawn_once_for_each_row_and_independently(which: Mechanism, monkeypatch: pytest.MonkeyPatch) -> None:
    """False alarms have probability 6e-12 at most. Shared or repeated noise would correlate."""
    assert audited(which, monkeypatch) == set()


def test_noise_shared_by_rows_would_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    sample, drawn = drawing.discrete_gaussian.sample, []

    def repeated(size: int, sigma_squared: Fraction, **source: Any) -> np.ndarray:
        drawn.append(drawn[0] if drawn else sample(AUDITED.cells, sigma_squared))
        return np.resize(drawn[0], size)  # the same again for each of those drawn at once

    monkeypatch.setattr(drawing.discrete_gaussian, "sample", repeated)
    assert "cross-correlation" in audited("tree", monkeypatch)


def test_noise_of_a_record_and_not_of_a_row_would_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if each window were in one row only, with weight 1."""
    squared = made_by("tree").rows.squared_length
    wrong = noise.with_variance(lambda variance: variance / squared)
    monkeypatch.setattr(tables, "add_noise", functools.partial(wrong, tables.add_noise))
    assert "variance" in audited("tree", monkeypatch)


@pytest.mark.slow
def test_a_replayed_bundle_shows_one_value() -> None:
    seen = collections.defaultdict(set)
    for row in seen_by_sink(bounded(frequencies()), "--direct_runner_bundle_repeat=3"):
        seen[row.number].add(row.to_bytes())
    assert {number: len(values) for number, values in seen.items()} == dict.fromkeys(range(WINDOWS), 1)


class WithTimes(beam.DoFn):
    """A row with the start and the end of its window, and its timestamp."""

    def process(self, element: Any, where: Any = beam.DoFn.WindowParam, when: Any = beam.DoFn.TimestampParam) -> Any:
        yield element, float(where.start), float(where.end), float(when)


@pytest.mark.one_fast_case
@pytest.mark.parametrize("which", MECHANISMS)
def test_rows_come_in_the_last_of_their_windows(which: Mechanism) -> None:
    outputs = seen_by_sink(bounded(frequencies(mechanism=which) | "Times" >> beam.ParDo(WithTimes())))
    assert len(outputs) == made_by(which).rows.row_count
    for row, start, end, when in outputs:
        assert start == START + SIZE * row.window
        assert start <= when < end == start + SIZE


@pytest.mark.slow
@pytest.mark.parametrize("step", [1, 3, 4])
@pytest.mark.parametrize("which", MECHANISMS)
def test_a_stream_gives_the_same_rows_without_late_records(
    which: Mechanism, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The watermark stops at the end of each window, or jumps over some."""
    build = streamed(frequencies(mechanism=which), live(step=step))
    found = sums(monkeypatch, build, "--streaming", runner=BUNDLE_BASED)
    assert same(found, expected(VISITS, mechanism=which))


def by_window(source: Any, which: Mechanism, *options: str, runner: str) -> list[list[int]]:
    """The numbers of the rows that a step sees together which groups what it gets, window by window."""

    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        rows = source(frequencies(mechanism=which))(pipeline)
        return rows | beam.Map(lambda row: (None, row.number)) | beam.GroupByKey()

    return sorted(sorted(numbers) for _, numbers in seen_by_sink(build, *options, runner=runner))


CLOSING = {
    "binned": [[number] for number in range(WINDOWS)],
    "tree": [[0], [1, 2], [3], [4, 5, 6], [7], [8, 9], [10], [11, 12, 13, 14], [15], [16, 17], [18]],
}


@pytest.mark.slow
@pytest.mark.parametrize("step", [1, 3, WINDOWS + 1])
@pytest.mark.parametrize("which", MECHANISMS)
def test_rows_of_a_stream_are_out_when_their_last_window_closes(which: Mechanism, step: int) -> None:
    """What is grouped downstream, window by window, is what closed with the window, and nothing is late."""
    found = by_window(lambda it: streamed(it, live(step=step)), which, "--streaming", runner=BUNDLE_BASED)
    assert found == CLOSING[which]


@pytest.mark.one_fast_case
@pytest.mark.parametrize("options", [(), ("--streaming",)], ids=["batch", "streaming"])
def test_no_row_of_bounded_input_is_late(options: tuple[str, ...]) -> None:
    """A runner that drops what is late drops rows that come after the end of their window has been."""
    assert by_window(bounded, "binned", *options, runner=BUNDLE_BASED) == CLOSING["binned"]


def test_privacy_ids_are_bounded_over_the_whole_horizon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ann has 5 records in one window and one in each of four others: two windows are kept, two records in each."""
    privacy_unit = PrivacyId("who", RecordBounds(2), max_windows=2)
    visits = [visit for visit in VISITS if visit.who != "bob"]
    line = SketchTimeline(exact(monkeypatch, bounded(frequencies(privacy_unit=privacy_unit), visits)), HORIZON)
    records = [round(line.between(index, index).records().estimate) for index in range(WINDOWS)]
    assert sum(count > 0 for count in records) == 2
    assert sum(records) in (2, 3)
    assert round(line.prefix(WINDOWS - 1).records().estimate) == sum(records)


@pytest.mark.slow
@pytest.mark.parametrize("which", MECHANISMS)
def test_privacy_ids_within_the_bounds_lose_nothing(which: Mechanism, monkeypatch: pytest.MonkeyPatch) -> None:
    privacy_unit = PrivacyId("who", RecordBounds(9), max_windows=8)
    transform = frequencies(
        privacy_unit=privacy_unit, privacy=PrivacySpec(rho=0.1, relation=REPLACE_ONE), mechanism=which
    )
    assert same(sums(monkeypatch, bounded(transform)), expected(VISITS, mechanism=which))
    statement = released(transform)[0].privacy
    assert statement.privacy_unit is PrivacyUnit.PRIVACY_ID_OVER_HORIZON
    reach, share = made_by(which).rows.squared_reach(8), Fraction(24, 25)
    assert statement.sigma_squared == Fraction(4 * SPEC.depth * 81, 2) * reach / (Fraction(1, 10) * share)


@pytest.mark.slow
def test_of_the_ids_of_a_stream_the_first_windows_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ann and bob have data in windows 0 and 1 and in later ones; the late record of bob is in none."""

    def rows(records: int, windows: int) -> Any:
        transform = frequencies(privacy_unit=PrivacyId("who", RecordBounds(records), max_windows=windows))
        return sums(monkeypatch, streamed(transform), "--streaming", runner=BUNDLE_BASED)

    assert same(rows(9, WINDOWS), expected(VISITS))
    first = [visit for visit in VISITS if START <= visit.time < START + 2 * SIZE]
    two_of_ann = [visit for visit in first if visit != VISITS[4]] + [VISITS[4]] * 2
    assert same(rows(2, 2), expected(two_of_ann))


def test_a_norm_within_which_all_are_scales_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = sums(monkeypatch, bounded(frequencies(privacy_unit=PrivacyId("who", NormBound(9)))))
    assert same(rows, expected(VISITS))


@pytest.mark.one_fast_case
@pytest.mark.parametrize("which", MECHANISMS)
def test_a_norm_scales_an_id_in_all_windows_alike(which: Mechanism, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left of ann is one factor times her windows, and moves rows by no more than the norm."""
    ann = [visit for visit in VISITS if visit.who == "ann"]
    rows = sums(monkeypatch, bounded(frequencies(privacy_unit=PrivacyId("who", NormBound(3)), mechanism=which), ann))
    wanted, C = expected(ann, mechanism=which), matrix(which)  # noqa: N806
    factors = {
        round(value / whole, 2)
        for number in rows
        for value, whole in zip(rows[number].tolist(), wanted[number].tolist(), strict=True)
        if whole
    }
    length = sum(np.square(row).sum() for row in rows.values()) / np.square(C).sum(axis=0).max() / SPEC.depth
    assert max(factors) - min(factors) <= 0.0201
    assert 0.9 * 3 <= math.sqrt(length) <= 3


@pytest.mark.slow
def test_on_a_stream_each_window_has_a_norm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ann's five records in window 0 are as long as two; her one record in each other window is not scaled."""
    ann = [visit for visit in VISITS if visit.who == "ann"]
    privacy_unit = PrivacyId("who", NormBound(2), max_windows=WINDOWS)
    visits = streamed(frequencies(privacy_unit=privacy_unit))
    line = SketchTimeline(exact(monkeypatch, visits, "--streaming", runner=BUNDLE_BASED), HORIZON)
    largest = [float(np.abs(line.between(index, index).counters).max()) for index in (0, 1, 3)]
    assert len(ann) == 9
    assert 1.98 <= largest[0] <= 3.01
    assert 0.99 <= largest[2] <= 1.01


def test_batches_have_the_time_of_their_element(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = pa.RecordBatch.from_pydict({"item": ["a", "b", "b"]})

    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        return pipeline | beam.Create([batch]) | beam.Map(window.TimestampedValue, START + 25) | frequencies()

    assert same(sums(monkeypatch, build), expected([Visit("", item, START + 25.0) for item in "abb"]))


@pytest.mark.slow
def test_records_of_a_batch_are_bounded_by_privacy_id(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = pa.RecordBatch.from_pydict({"item": ["a", "a", "b"], "who": ["ann", "ann", "bob"]})

    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        timed = pipeline | beam.Create([batch]) | beam.Map(window.TimestampedValue, START + 25)
        return timed | frequencies(privacy_unit=PrivacyId("who", RecordBounds(1), max_windows=1))

    assert same(sums(monkeypatch, build), expected([Visit("", item, START + 25.0) for item in "ab"]))


def test_deletions_leave_the_rows_of_what_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights with signs: what is deleted in the window of its insert is in no row."""
    visits = [beam.Row(item=visit.item, weight=1, time=visit.time) for visit in VISITS]
    gone = [beam.Row(item="gone", weight=weight, time=START + 21.0) for weight in (2, -1, -1)]

    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        timed = pipeline | beam.Create([*visits, *gone]) | beam.Map(lambda row: window.TimestampedValue(row, row.time))
        return timed | frequencies(privacy_unit=Record(max_weight=2, signed=True), weight="weight")

    assert same(sums(monkeypatch, build), expected(VISITS))


def test_starts_and_sizes_may_be_those_of_beam() -> None:
    given = Horizon(Timestamp(START), Duration(SIZE), WINDOWS)
    assert (given.start_micros, given.size_micros) == (HORIZON.start_micros, HORIZON.size_micros)


def test_explanation_and_settings() -> None:
    text = frequencies().explain()
    assert "48 counters" in text
    assert "11 over 11 windows; rho covers all of them together" in text
    assert "delta = 1e-06 (rho = " in text
    assert "sigma = 3.912" in text  # the root of depth / (2 rho 49/50)
    norm = frequencies(privacy_unit=PrivacyId("who", NormBound(20), max_windows=5)).explain()
    words = "in its first 5 windows of the horizon; up to 20 records count in full in each window"
    assert f"L2 norm of 20 records per privacy id and window, {words}" in " ".join(norm.split())
    assert "its first" not in frequencies(privacy_unit=PrivacyId("who", NormBound(20))).explain()
    assert frequencies().display_data()["windows"] == WINDOWS
    assert frequencies().default_label() == "PrivateFrequencies"


WINDOWED = {
    "fixed": (
        beam.WindowInto(window.FixedWindows(60)),
        "FixedWindows before a continual release.* Remove the WindowInto",
    ),
    "sliding": (beam.WindowInto(window.SlidingWindows(60, 20)), "SlidingWindows before a continual release"),
    "sessions": (beam.WindowInto(window.Sessions(60)), "Sessions before a continual release"),
    "trigger": (
        beam.WindowInto(
            window.GlobalWindows(),
            trigger=trigger.Repeatedly(trigger.AfterCount(1)),
            accumulation_mode=trigger.AccumulationMode.DISCARDING,
        ),
        "trigger=Repeatedly .* Remove it from WindowInto",
    ),
    "lateness": (beam.WindowInto(window.GlobalWindows(), allowed_lateness=10), "allowed_lateness must be 0"),
}


@pytest.mark.parametrize(("windowing", "message"), WINDOWED.values(), ids=WINDOWED)
def test_other_windows_and_triggers_are_refused(windowing: beam.WindowInto, message: str) -> None:
    elements = beam.Pipeline(runner=FN_API) | beam.Create(["a"]) | windowing
    with pytest.raises(WindowingError, match=message):
        elements | frequencies(item=None)


@pytest.mark.parametrize("is_bounded", [True, False], ids=["bounded", "unbounded"])
def test_windows_of_a_norm_are_given_for_streams_alone(is_bounded: bool) -> None:
    elements = beam.Pipeline(runner=FN_API) | beam.Create([VISITS[4]])
    elements.is_bounded = is_bounded
    privacy_unit, message = (
        (
            PrivacyId("who", NormBound(1), max_windows=2),
            "max_windows is not supported with a NormBound on bounded input",
        )
        if is_bounded
        else (PrivacyId("who", NormBound(1)), "max_windows is required with a NormBound on unbounded input")
    )
    with pytest.raises(WindowingError, match=message):
        elements | frequencies(privacy_unit=privacy_unit)
