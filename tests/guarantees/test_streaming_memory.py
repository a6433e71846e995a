"""What a runner keeps of a stream: sums in an open window, nothing of a closed one, no more after a day of windows."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.runners.direct.direct_userstate import BagRuntimeState
from apache_beam.transforms.trigger import InMemoryUnmergedState

from beam_dpsketch import (
    AssumePublicKeys,
    NormBound,
    PrivacyId,
    PrivacySpec,
    Record,
    RecordBounds,
    SketchSpec,
    SummaryCounts,
)
from beam_dpsketch.transforms import PrivateFrequencies
from beam_dpsketch.transforms.steps import stream_state
from tests.helpers.pipelines import BUNDLE_BASED, seen_by_sink
from tests.helpers.streams import in_windows, state_everywhere, stepped

pytestmark = pytest.mark.usefixtures(state_everywhere.__name__)
STATM = Path("/proc/self/statm")
DAY = 24 * 60 * 60
MARGIN = 22_000_000
"""Bytes of growth that are no leak: the runner itself keeps about 3 KB of each window; the rest is the allocator's."""
UNITS = {"record": Record(), "privacy id": PrivacyId(str, RecordBounds(max_records=9))}
MARKER = "-----"
SMALL = SketchSpec(depth=5, width=64)
_kept: list[Any] = []


class Sample(beam.DoFn):
    """Releases to (start of the window, resident bytes of this process, bytes in its states), now and then measured."""

    def __init__(self, every: int, *, keep: bool) -> None:
        self._every = every
        self._keep = keep

    def process(self, release: Any, window: Any = beam.DoFn.WindowParam) -> Iterator[tuple[float, int, int]]:
        if self._keep:
            _kept.append(release)
        start, resident, state = float(window.start), 0, 0
        if start % self._every == 0:
            gc.collect()
            resident = int(STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
            state = bytes_in_states()
        yield start, resident, state


def bytes_in_states() -> int:
    """What stateful steps of the bundle-based runner keep."""
    states = [state for state in gc.get_objects() if type(state) is InMemoryUnmergedState]
    cells = [cell for state in states for cells in state.state.values() for cell in cells.items()]
    return sum(len(value) for tag, values in cells if tag.startswith("user/") for value in values)


class Peek(beam.DoFn):
    """Markers to the bytes in states when they come."""

    def process(self, element: str) -> Iterator[int]:
        if element == MARKER:
            yield bytes_in_states()


def kept_of_a_window(
    elements: int,
    privacy_unit: Any,
    summary_counts: SummaryCounts | None = SummaryCounts(),  # noqa: B008
    weight: Any = None,
) -> int:
    """The most bytes that states of an open window with these elements hold, of one key, seen after each bundle."""
    timed = [(MARKER if i % 50 == 0 else f"{i:05d}", 50 * i / elements) for i in range(elements + 1)]
    privacy = PrivacySpec(rho=0.1, summary_counts=summary_counts)
    transform = PrivateFrequencies(SMALL, privacy, privacy_unit=privacy_unit, weight=weight, keys=AssumePublicKeys(len))

    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        source = pipeline | stepped(timed, 60, 60, bundle=50)
        _ = source | in_windows(60) | transform
        return source | beam.ParDo(Peek())

    return max(seen_by_sink(build, "--streaming", runner=BUNDLE_BASED))


@pytest.mark.one_fast_case
@pytest.mark.parametrize("elements", [50, 3000])
def test_a_runner_keeps_sums_of_an_open_window(elements: int) -> None:
    """Of one key, in bundles of 50, whose sums are 27 KB together where there are 3,000 different items."""
    assert 0 < kept_of_a_window(elements, Record()) <= 2 * 8 * SMALL.cells + stream_state.MIN_WAITING


def last_digits(element: str) -> str:
    return element[-2:]


OF_STATE = {
    "record": (Record(max_weight=9, signed=True), int),
    "privacy id": (PrivacyId(last_digits, RecordBounds(9, max_keys=1)), None),
    "norm": (PrivacyId(last_digits, NormBound(9, max_weight=9, signed=True), max_windows=1, period=60), int),
}


@pytest.mark.slow
@pytest.mark.parametrize("privacy_unit", OF_STATE)
def test_side_counters_add_little_to_an_open_window(privacy_unit: str) -> None:
    """A few bytes to a sum of records; to net records of ids, how many records they are, where weights are read."""
    bounds, weight = OF_STATE[privacy_unit]
    without, with_them = (kept_of_a_window(3000, bounds, each, weight) for each in (None, SummaryCounts()))
    print(f"{without} bytes without summary counts, {with_them} with them")
    assert with_them <= 1.1 * without


def growth(privacy_unit: str, windows: int, spec: SketchSpec, *, keep: bool = False) -> tuple[int, int]:
    """How much more memory and state the last quarter of a day of windows takes than the second, at most."""
    length = DAY // windows
    timed = [(f"page {i % 97}", 1 + i * length / 3) for i in range(3 * windows)]
    transform = PrivateFrequencies(spec, PrivacySpec(rho=0.1), privacy_unit=UNITS[privacy_unit])

    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        released = pipeline | stepped(timed, length, DAY) | in_windows(length) | transform
        return released | beam.ParDo(Sample(DAY // 24, keep=keep))

    samples = sorted(seen_by_sink(build, "--streaming", runner=BUNDLE_BASED))
    assert [start for start, _, _ in samples] == list(range(0, DAY, length))
    second, last = samples[windows // 4 : windows // 2], samples[3 * windows // 4 :]
    resident, state = ([max(row[place] for row in rows) for rows in (second, last)] for place in (1, 2))
    return resident[1] - resident[0], state[1] - state[0]


@pytest.mark.slow
@pytest.mark.skipif(not STATM.exists(), reason="reads /proc/self/statm")
@pytest.mark.parametrize(("privacy_unit", "windows"), [("record", 240), ("privacy id", 144)])
def test_memory_is_flat_over_a_day_of_windows(privacy_unit: str, windows: int) -> None:
    resident, state = growth(privacy_unit, windows, SketchSpec(depth=5, width=2048))
    assert resident <= MARGIN
    assert state <= 0


@pytest.mark.slow
@pytest.mark.skipif(not STATM.exists(), reason="reads /proc/self/statm")
def test_releases_that_are_kept_would_be_found() -> None:
    """0.65 MB in each of the 48 windows between the quarters."""
    try:
        assert growth("record", 96, SketchSpec(depth=5, width=1 << 14), keep=True)[0] > MARGIN
    finally:
        _kept.clear()


@pytest.mark.slow
@pytest.mark.skipif(not STATM.exists(), reason="reads /proc/self/statm")
@pytest.mark.parametrize("privacy_unit", UNITS)
def test_state_that_is_not_cleared_would_be_found(privacy_unit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BagRuntimeState, "clear", lambda self: None)
    assert growth(privacy_unit, 24, SketchSpec(depth=5, width=2048))[1] > 0
