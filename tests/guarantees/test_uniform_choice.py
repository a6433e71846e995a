"""Which records of a privacy id are kept in a window has nothing to do with the bundles and parts that they come in."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from apache_beam.transforms.window import IntervalWindow
from apache_beam.utils.windowed_value import PANE_INFO_UNKNOWN
from scipy import stats

from beam_dpsketch import RecordBounds
from beam_dpsketch.encodings import decode
from beam_dpsketch.exact.bounding.bounded import MergeTables
from beam_dpsketch.exact.bounding.record_rule import RandomPriorities, RecordRule
from beam_dpsketch.exact.reading.columns import encode_ids
from beam_dpsketch.exact.reading.reading import RecordReader
from beam_dpsketch.exact.reading.selectors import Selectors
from beam_dpsketch.transforms.steps import bounding as steps

WINDOWS = [IntervalWindow(0, 60), IntervalWindow(60, 120)]
KEPT, UNITS = 2, 1_000
BUNDLES = {
    "one at a time": [[0], [1], [2], [3], [4]],
    "too many, then few": [[0, 1, 2], [3], [4]],
    "few, then too many": [[0], [1], [2, 3, 4]],
    "two halves": [[0, 1], [2, 3, 4]],
}


def choice_p_value(bundles: list[list[int]], kind: Any, *, in_state: bool, signed: bool) -> float:
    """Whether each of five records is kept as often: of each of many ids, in each of two windows.

    Args:
      bundles: which of the five each holds, of all ids.
      kind: makes ids of numbers; if it is `None`, bundles have them as int64 and as canonical bytes by turns.
      in_state: whether parts are merged as on streams, or gathered until they are many.
      signed: whether weights may be negative.
    """
    bounds = RecordBounds(max_records=KEPT, signed=signed)
    bound = RecordRule(bounds, RandomPriorities())
    records = RecordReader(Selectors(item="item", privacy_id="user"), per_key=False)
    shard = steps.ShardWindowedRecords(records, bound, None)
    payloads: dict[Any, list[bytes]] = defaultdict(list)
    for number, bundle in enumerate(bundles):
        id_of = kind or (np.int64 if number % 2 else int)
        shard.start_bundle()
        rows = [{"user": id_of(privacy_unit), "item": item} for item in bundle for privacy_unit in range(UNITS)]
        emitted = [value for window in WINDOWS for row in rows for value in shard.process(row, window) or ()]
        for value in [*emitted, *shard.finish_bundle()]:
            payloads[value.windows[0], value.value[0]].append(value.value[1])
    counts = np.zeros(5, dtype=np.int64)
    kept_of_each: Counter[Any] = Counter()
    for (window, key), parts in payloads.items():
        if in_state:
            merged = parts[:1]
            for part in parts[1:]:
                merged = [MergeTables(bound)([*merged, part])]
            parts = merged
        for bounded in steps.BoundShard(bound).process((key, parts), PANE_INFO_UNKNOWN):
            table = bounded.kept
            counts += np.bincount(list(map(decode, table["item"].to_pylist())), minlength=5)
            kept_of_each.update((window, privacy_unit) for privacy_unit in encode_ids(table["unit"]).to_pylist())
    assert len(kept_of_each) == 2 * UNITS
    assert set(kept_of_each.values()) == {KEPT}
    return float(stats.chisquare(counts).pvalue)


@pytest.mark.one_fast_case
@pytest.mark.parametrize("bundles", BUNDLES.values(), ids=BUNDLES)
@pytest.mark.parametrize("kind", [int, str, None], ids=["numbers", "text", "both forms"])
def test_all_records_are_kept_as_often_whatever_comes_with_them(
    bundles: list[list[int]], kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """False alarm <= 1e-9: three checks at 1e-10, and counts drawn without replacement vary less."""
    monkeypatch.setattr(steps, "SHARDS", 8)
    monkeypatch.setattr("beam_dpsketch.exact.bounding.parts.BLOCK", 500)
    monkeypatch.setattr(steps, "_READ_BYTES", 1)
    monkeypatch.setattr(steps, "BUFFERED_RECORDS", 3 * UNITS)
    for in_state, signed in ((False, False), (True, False), (True, True)):
        assert choice_p_value(bundles, kind, in_state=in_state, signed=signed) >= 1e-10


def _late_ones_last(priorities: pa.Array, drawn: pa.Array) -> pa.Array:
    return pc.if_else(priorities.is_valid(), priorities, pa.array(drawn.to_numpy() // 2 + (1 << 31), pa.uint32()))


def _drawn_again(priorities: pa.Array, drawn: pa.Array) -> pa.Array:
    return drawn


@pytest.mark.parametrize("coalesce", [_late_ones_last, _drawn_again])
def test_priorities_that_favour_some_parts_would_be_found(coalesce: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("beam_dpsketch.exact.bounding.record_rule.pc.coalesce", coalesce)
    assert choice_p_value(BUNDLES["too many, then few"], int, in_state=False, signed=False) < 1e-10
