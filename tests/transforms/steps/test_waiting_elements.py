"""Elements wait in a bundle until enough can be read at once: none is lost, counted twice or kept for long."""

from __future__ import annotations

import weakref
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from apache_beam.transforms.window import IntervalWindow
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_dpsketch import RecordBounds
from beam_dpsketch.exact.bounding.record_rule import RandomPriorities, RecordRule
from beam_dpsketch.exact.reading.codec import from_bytes
from beam_dpsketch.exact.reading.reading import RecordReader
from beam_dpsketch.exact.reading.selectors import Selectors
from beam_dpsketch.transforms.steps import bounding as steps

WINDOWS = [IntervalWindow(60 * start, 60 * start + 60) for start in range(7)]


def shard_records(*, per_key: bool = False) -> steps.ShardWindowedRecords:
    bounds = RecordBounds(max_records=10_000)
    records = RecordReader(Selectors(item="item", privacy_id="user"), per_key=per_key)
    return steps.ShardWindowedRecords(records, RecordRule(bounds, RandomPriorities(1)), None)


def counted(emitted: list[Any]) -> Counter[Any]:
    """How many records there are in each window, at its end."""
    found: Counter[Any] = Counter()
    for value in emitted:
        (window,) = value.windows
        assert value.timestamp == window.max_timestamp()
        found[window] += len(from_bytes(value.value[1]))
    return found


def emitted_of(shard: steps.ShardWindowedRecords, bundle: list[Any], window: IntervalWindow) -> list[Any]:
    """What a bundle of elements in one window gives."""
    shard.start_bundle()
    emitted = [value for element in bundle for value in shard.process(element, window) or ()]
    return [*emitted, *shard.finish_bundle()]


class Visit:
    """An element of which one can ask whether it is still kept."""

    def __init__(self, user: int) -> None:
        self.user, self.item = user, "x"


@settings(max_examples=40)
@given(
    bundles=st.lists(st.lists(st.tuples(st.integers(0, 6), st.sampled_from([0, 0, 0, 1, 5])), max_size=60), max_size=3),
    read=st.sampled_from([3, 100]),
    unread=st.sampled_from([8, 1000]),
    buffered=st.sampled_from([5, 1 << 18]),
)
def test_each_element_and_batch_is_in_its_window_once(
    bundles: list[list[tuple[int, int]]], read: int, unread: int, buffered: int
) -> None:
    """Where the second number is not 0, it is the rows of a batch."""
    shard = shard_records()
    with pytest.MonkeyPatch.context() as patched:
        for name, limit in (("_READ_ELEMENTS", read), ("_UNREAD_ELEMENTS", unread), ("BUFFERED_RECORDS", buffered)):
            patched.setattr(steps, name, limit)
        for bundle in bundles:
            shard.start_bundle()
            emitted: list[Any] = []
            for number, (window, rows) in enumerate(bundle):
                batch = pa.table({"user": [number] * rows, "item": ["x"] * rows})
                emitted += shard.process(batch if rows else Visit(number), WINDOWS[window]) or ()
            emitted += shard.finish_bundle()
            expected: Counter[Any] = Counter()
            for window, rows in bundle:
                expected[WINDOWS[window]] += rows or 1
            assert counted(emitted) == expected
            assert not list(shard.finish_bundle())


def test_few_elements_are_kept_however_many_windows_they_are_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "_READ_ELEMENTS", 20)
    monkeypatch.setattr(steps, "_UNREAD_ELEMENTS", 50)
    shard, alive = shard_records(), weakref.WeakSet[Visit]()
    shard.start_bundle()
    for number in range(1000):
        visit = Visit(number)
        alive.add(visit)
        assert not shard.process(visit, WINDOWS[number % 7])
        del visit
        assert len(alive) < 50
    assert sum(counted(list(shard.finish_bundle())).values()) == 1000
    assert not alive


@pytest.mark.parametrize("size", [1, 30])
def test_what_cannot_be_read_fails_its_bundle_alone(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the element with which enough can be read, or at the end of the bundle."""
    monkeypatch.setattr(steps, "_READ_ELEMENTS", 10)
    shard = shard_records(per_key=True)
    pairs = [("k", {"user": np.int64(number), "item": "x"}) for number in range(5)]
    unreadable = [("k", pa.table({"user": ["secret"], "item": ["x"]}))] * size
    with pytest.raises(TypeError, match="Batches must contain their keys as a column") as caught:
        emitted_of(shard, pairs + unreadable, WINDOWS[0])
    assert "secret" not in str(caught.value)
    assert counted(emitted_of(shard, pairs, WINDOWS[1])) == {WINDOWS[1]: 5}
