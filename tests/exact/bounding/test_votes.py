"""Votes of privacy ids for their keys: own records alone decide, even among keys of equal hash."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from beam_dpsketch import NormBound, RecordBounds, SketchSpec
from beam_dpsketch.encodings import encode
from beam_dpsketch.exact.bounding import record_rule, selection
from beam_dpsketch.exact.bounding.norm_rule import NormRule
from beam_dpsketch.exact.bounding.parts import shard_hash
from beam_dpsketch.exact.bounding.record_rule import RandomPriorities, RecordRule
from beam_dpsketch.exact.hashing import cells
from beam_dpsketch.exact.reading.codec import concat_tables, from_bytes, to_bytes
from beam_dpsketch.exact.reading.items import SketchInput
from beam_dpsketch.privacy.selection import SelectionRule

SPEC = SketchSpec(depth=2, width=8)
GRID = 48


def rule_of(max_keys: int) -> SelectionRule:
    return SelectionRule(delta=Fraction(1, 100), max_keys=max_keys)


def by_norm(max_keys: int, max_norm: int = 1000, **settings: Any) -> NormRule:
    bounds, rule = NormBound(max_norm, max_keys=max_keys, **settings), rule_of(max_keys)
    return NormRule(bounds, SketchInput(SPEC, bounds, (), rule), (), rule)


def by_records(max_keys: int, **settings: Any) -> RecordRule:
    bounds = RecordBounds(2, max_keys=max_keys, **settings)
    return RecordRule(bounds, RandomPriorities(5), (), rule_of(max_keys))


def table(rows: list[tuple[Any, ...]]) -> pa.Table:
    """Return rows of unit, key, and perhaps weight and window."""
    full = [(*row, *(1, 0)[len(row) - 2 :]) for row in rows]
    return pa.table(
        {
            "unit": pa.array([row[0] for row in full], pa.int64()),
            "key": pa.array([row[1] for row in full], pa.large_binary()),
            "window": pa.array([row[3] for row in full], pa.int64()),
            "item": pa.array(range(len(rows)), pa.uint64()),
            "weight": pa.array([row[2] for row in full], pa.int64()),
        }
    )


def votes_of(rule: Any, rows: list[tuple[Any, ...]], *, parts: int = 1) -> dict[Any, tuple[int, int]]:
    """Return votes and voters by key and window, where there are any, of rows that come in parts."""
    tables = [table(rows[part::parts]) for part in range(parts) if rows[part::parts]]
    pruned = [tables[0], *(from_bytes(to_bytes(rule.prune(each))) for each in tables[1:])]
    side = rule.bound(concat_tables(pruned)).side
    return {(row["key"], row["window"]): (row["votes"], row["voters"]) for row in side.to_pylist() if row["votes"]}


def word(data: bytes) -> np.uint64:
    return np.frombuffer(data, "<u8")[0]


def mixed(value: np.uint64) -> np.uint64:
    return cells.mix(np.array([value], dtype=np.uint64), seed=0, row=0)[0]


def keys_of_equal_hash() -> tuple[bytes, bytes]:
    """Return two keys that the public hash cannot tell apart: each mixing step can be turned back."""
    one, start = encode(b"the first, 15 b"), encode(b"another")
    initial = mixed(np.uint64(16))
    last = mixed(initial ^ word(one[:8])) ^ word(one[8:]) ^ mixed(initial ^ word(start))
    other = start + int(last).to_bytes(8, "little")
    hashes = shard_hash(pa.array([one, other], pa.large_binary()))
    assert len(one) == len(other) == 16
    assert hashes[0] == hashes[1]
    return one, other


RULES = {
    "norm, in full": by_norm(1),
    "norm, scaled": by_norm(1, 1),
    "norm, signed": by_norm(1, signed=True, max_weight=5),
    "records": by_records(1),
    "signed records": by_records(1, signed=True, max_weight=5),
}


def check_no_other_id_decides(rule: Any) -> None:
    """100 ids are in both keys; one more id, in one of them, must change the votes by its own alone."""
    for new in keys_of_equal_hash():
        rows = [(unit, key) for unit in range(100) for key in keys_of_equal_hash()]
        before = Counter({place: count for place, (count, _) in votes_of(rule, rows).items()})
        after = Counter({place: count for place, (count, _) in votes_of(rule, [(1000, new), *rows]).items()})
        before[new, 0] += GRID
        assert after == before


@pytest.mark.parametrize("name", RULES)
def test_no_other_id_decides_between_keys_of_equal_hash(name: str) -> None:
    check_no_other_id_decides(RULES[name])


@pytest.mark.parametrize(("name", "module"), [("norm, in full", selection), ("records", record_rule)])
def test_keys_in_the_order_in_which_they_come_are_found(
    name: str, module: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "in_order_of_values", lambda codes, values: (codes, values))
    with pytest.raises(AssertionError):
        check_no_other_id_decides(RULES[name])
