"""Streams on real engines: state and timers give one release of each key and window, of exactly what was in time."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.transforms.periodicsequence import PeriodicImpulse
from apache_beam.transforms.window import FixedWindows, TimestampedValue

from beam_dpsketch import NormBound, PrivacyId, PublicKeys, Record, RecordBounds, TimeRange
from beam_dpsketch.exact.bounding.bounded import MergeTables
from beam_dpsketch.exact.horizon import MECHANISMS, Mechanism
from beam_dpsketch.exact.reading.reading import RecordReader
from beam_dpsketch.exact.reading.selectors import Selectors
from beam_dpsketch.transforms.steps import bounding, bounding_over_windows, stream_state, sums
from beam_dpsketch.transforms.steps.bounding_over_windows import FirstWindows
from beam_dpsketch.transforms.steps.stream_state import MergedInState, keeps_state
from beam_dpsketch.transforms.steps.sums import MergeSums
from beam_dpsketch.transforms.steps.windows import RestoreWindows
from tests.engines.checks import assert_greedy_id_is_bounded, assert_nothing_lost
from tests.engines.conftest import Engine
from tests.helpers import continual, max_windows
from tests.helpers.pipelines import FN_API, SPEC, ExactCounters, seen_by_sink
from tests.helpers.stream_cases import BY_ID, CASES, END, LATE, VISITS, Visit, bounded, globally, outputs, stated
from tests.helpers.streams import for_any_runner, stepped, unbounded

JUMPING = ["global", "declared sliding", "keyed", "ids", "ids, keyed, declared"]
STARTING, SECONDS, PER_SECOND, WINDOW = 15, 10, 10, 2


def with_late_data(engine: Engine) -> tuple[str, ...]:
    """The options for streams that have some."""
    return *engine.streaming, *engine.options, *engine.in_order


def in_time_and_late(pipeline: beam.Pipeline) -> beam.PCollection:
    """A bounded input where nothing can be late."""
    return pipeline | beam.Create([*VISITS, LATE]) | beam.MapTuple(TimestampedValue)


@functools.cache
def expected(name: str) -> tuple[Any, Any]:
    """The counters of all that is in time, and of that and the late record."""
    windows, make = CASES[name]
    without, with_late = (
        outputs(source, ExactCounters(make()), windows, runner=FN_API) for source in (bounded, in_time_and_late)
    )
    return without, with_late


def assert_counters(found: Any, name: str, engine: Engine) -> None:
    """On Flink the watermark also waits for what declares windows, and so what is late by the clock may be in time."""
    dropped = not (engine.in_order and "declared" in name)
    assert_nothing_lost(found, *expected(name), dropped=dropped)


@pytest.mark.parametrize("name", CASES)
def test_exact_counters_without_late_data(name: str, engine: Engine) -> None:
    """The watermark stops at the end of each window; `outputs` checks that each is out once."""
    check_stepped(name, 60, engine)


@pytest.mark.parametrize("name", JUMPING)
def test_exact_counters_where_the_watermark_jumps_over_windows(name: str, engine: Engine) -> None:
    check_stepped(name, END // 3, engine)


def check_stepped(name: str, step: int, engine: Engine) -> None:
    windows, make = CASES[name]
    stream = for_any_runner(stepped(VISITS, step, END, late=LATE))
    found = outputs(stream, ExactCounters(make()), windows, *with_late_data(engine), runner=engine.runner)
    assert_counters(found, name, engine)


@pytest.mark.parametrize("name", ["global", "keyed", "ids", "declared sliding"])
def test_state_that_is_merged_all_the_time(name: str, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """One shard, and small bundles that are merged as they come: more merges than there are windows and keys."""
    monkeypatch.setattr(stream_state, "MIN_WAITING", 0)
    monkeypatch.setattr(sums, "SUM_SHARDS", 1)
    monkeypatch.setattr(bounding, "SHARDS", 1)
    merges: list[int] = []
    for merge in (MergeSums, MergeTables):
        monkeypatch.setattr(merge, "__call__", counted(merge.__call__, merges))
    windows, make = CASES[name]
    stream = for_any_runner(stepped(VISITS, 60, END, late=LATE, bundle=2))
    found = outputs(stream, ExactCounters(make()), windows, *with_late_data(engine), runner=engine.runner)
    assert_counters(found, name, engine)
    assert len(merges) > len(found)


def counted(merge: Callable[[Any, Any], bytes], calls: list[int]) -> Callable[[Any, Any], bytes]:
    """A merge that adds to a list when it is called."""

    def merge_and_count(self: Any, payloads: Any) -> bytes:
        calls.append(1)
        return merge(self, payloads)

    return merge_and_count


class Slow:
    """A merge of payloads that takes longer than a runner waits before it splits a bundle."""

    def __call__(self, payloads: Iterable[bytes]) -> bytes:
        time.sleep(0.5)
        return b"".join(payloads)


def test_a_slow_step_keeps_the_state_of_each_key(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """All payloads come in one bundle, and are merged one by one."""
    monkeypatch.setattr(stream_state, "MIN_WAITING", 0)
    payloads = [(b"key", bytes(8 << number)) for number in range(12)]  # each is more than all before it

    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        one = pipeline | beam.Impulse() | beam.FlatMap(lambda _: payloads).with_output_types(tuple[bytes, bytes])
        return one | beam.WindowInto(FixedWindows(60)) | MergedInState(Slow()) | beam.MapTuple(sized)

    merged = seen_by_sink(build, *engine.streaming, *engine.options, runner=engine.runner)
    assert merged == [(b"key", sum(len(payload) for _, payload in payloads))]


def sized(key: bytes, payload: bytes) -> tuple[bytes, int]:
    return key, len(payload)


def test_a_slow_step_takes_the_first_windows_of_an_id(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """All elements of an id come in one bundle: it has the windows that it has taken, however long each takes."""
    monkeypatch.setattr(bounding_over_windows, "RestoreWindows", SlowlyRestoreWindows)
    visits = [TimestampedValue(Visit("user", "page", 1), 60.0 * minute) for minute in range(20)]

    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        one = pipeline | beam.Impulse() | beam.FlatMap(lambda _: visits).with_output_types(Visit)
        records = RecordReader(Selectors(privacy_id="user"), per_key=False)
        return one | beam.WindowInto(FixedWindows(60)) | FirstWindows(records, 2, FixedWindows(1200))

    passed = seen_by_sink(build, *engine.streaming, *engine.options, runner=engine.runner)
    assert len(passed) == 2


class SlowlyRestoreWindows(RestoreWindows):
    """The same after a wait, in one bundle with what is before it."""

    def expand(self, pcoll: beam.PCollection) -> beam.PCollection:
        return super().expand(pcoll | "Wait" >> beam.Map(after_a_while).with_output_types(pcoll.element_type))


def after_a_while(element: Any) -> Any:
    time.sleep(0.5)
    return element


def test_an_id_has_so_many_windows_of_a_period(engine: Engine) -> None:
    """Half of the records come out of order."""
    minutes = [max_windows.GREEDY[start : start + 16] for start in range(0, 160, 16)]
    bundles = [[*minutes[i][::2], *(minutes[i - 1][1::2] if i else [])] for i in reversed(range(10))]
    assert_greedy_id_is_bounded(for_any_runner(max_windows.stream(bundles, [0] * 10)), engine)


def test_each_window_has_a_norm(engine: Engine) -> None:
    transform = globally(privacy_unit=PrivacyId("user", NormBound(9), max_windows=4, period=END))
    stream = for_any_runner(stepped(VISITS, 60, END))
    found = outputs(stream, ExactCounters(transform), 60, *engine.streaming, *engine.options, runner=engine.runner)
    assert found == outputs(unbounded(VISITS), ExactCounters(transform), 60, runner=FN_API)


@pytest.mark.parametrize("step", [1, 3])
@pytest.mark.parametrize("which", MECHANISMS)
def test_continual_rows_without_late_records(
    which: Mechanism, step: int, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The watermark stops at the end of each window, or jumps over some; windows come out of order then."""
    build = streamed(continual.frequencies(mechanism=which), step)
    rows = continual.sums(monkeypatch, build, *with_late_data(engine), runner=engine.runner)
    visits = continual.VISITS
    without, with_late = (continual.expected(each, mechanism=which) for each in (visits, [*visits, continual.LATE]))
    if engine.in_order:  # the late record is in all rows from its window on, or in none
        assert continual.same(rows, without) or continual.same(rows, with_late)
    else:
        assert continual.same(rows, without)


def streamed(transform: beam.PTransform, step: int) -> Callable[[beam.Pipeline], beam.PCollection]:
    return lambda pipeline: for_any_runner(continual.live(step=step))(pipeline) | transform


CONTINUAL = {
    "ids": PrivacyId("item", RecordBounds(9, max_keys=2), max_windows=continual.WINDOWS),
    "norm": PrivacyId("item", NormBound(20), max_windows=continual.WINDOWS),
    "records": Record(),
}


@pytest.mark.parametrize("privacy_unit", CONTINUAL.values(), ids=CONTINUAL)
def test_continual_rows_of_keys(privacy_unit: Any, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each key of a list has all rows, also the one without data; bounds that nobody exceeds take nothing."""
    transform = continual.per_key(PublicKeys(["ann", "absent"], "who"), privacy_unit=privacy_unit)
    rows = continual.sums(monkeypatch, streamed(transform, 3), *with_late_data(engine), runner=engine.runner)
    visits = [visit for visit in continual.VISITS if visit.who == "ann"]
    wanted = {"ann": continual.expected(visits), "absent": continual.expected([])}
    assert continual.same(rows, continual.of_each(wanted, wanted.__getitem__))


def test_continual_rows_are_out_when_their_window_closes(engine: Engine) -> None:
    """What is grouped downstream, window by window, is the row that closed with the window."""

    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        rows = streamed(continual.frequencies(), 3)(pipeline)
        numbers = rows | beam.Map(lambda row: ("", row.number)).with_output_types(tuple[str, int])
        return numbers | beam.GroupByKey() | beam.MapTuple(lambda _, together: list(together))

    seen = seen_by_sink(build, *with_late_data(engine), runner=engine.runner)
    assert sorted(seen) == [[number] for number in range(continual.WINDOWS)]


@pytest.mark.parametrize("name", ["global", "declared", "keyed", "ids"])
def test_releases_say_what_those_of_a_batch_say(name: str, engine: Engine) -> None:
    windows, make = CASES[name]
    stream = for_any_runner(stepped(VISITS, 60, END, late=LATE))
    here = outputs(stream, make(), windows, *with_late_data(engine), runner=engine.runner)
    there = outputs(bounded, make(), windows, runner=FN_API)
    assert stated(here) == stated(there)


class Beat(NamedTuple):
    """What a source sends ten times a second."""

    user: str
    page: str = "beat"


def of_time(seconds: float, last: float, ended: Path) -> Beat:
    """The beat of a time; marks that the stream has ended with the last one."""
    if seconds >= last:
        ended.touch()
    return Beat(f"user {int(seconds * PER_SECOND) % 4}")


class WithEnd(beam.DoFn):
    """(start of the window, whether the stream has ended, counters)."""

    def __init__(self, ended: Path) -> None:
        self._ended = ended

    def process(self, counters: Any, where: Any = beam.DoFn.WindowParam) -> Any:
        yield float(where.start), self._ended.exists(), counters


def records(start: int) -> beam.PTransform:
    return globally(privacy_unit=Record())


def declared_ids(start: int) -> beam.PTransform:
    return globally(privacy_unit=BY_ID, windows=TimeRange(start, start + SECONDS))


@pytest.mark.parametrize("make", [records, declared_ids])
def test_an_unbounded_source_in_real_time(
    make: Callable[[int], beam.PTransform], engine: Engine, tmp_path: Path
) -> None:
    """A window is out before the last record is in; each is out once, and all that was sent is in them."""
    start = int(time.time()) + STARTING
    last, ended = start + SECONDS - 1.5 / PER_SECOND, tmp_path / "ended"

    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        impulses = pipeline | PeriodicImpulse(start, start + SECONDS, fire_interval=1 / PER_SECOND)
        assert keeps_state(impulses)
        beats = impulses | beam.Map(of_time, last, ended) | beam.WindowInto(FixedWindows(WINDOW, start))
        return beats | ExactCounters(make(start)) | beam.ParDo(WithEnd(ended))

    seen = sorted(seen_by_sink(build, *engine.streaming, *engine.options, runner=engine.runner))
    assert [first for first, _, _ in seen] == [*range(start, start + SECONDS, WINDOW)]
    assert ended.exists()
    assert not seen[0][1]
    beats = np.abs([counters for _, _, counters in seen]).sum(axis=2)
    assert beats.tolist() == [[WINDOW * PER_SECOND] * SPEC.depth] * len(seen)
