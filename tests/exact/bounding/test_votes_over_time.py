"""Votes where windows go into rows over time: keys are chosen once, so an id votes once for each of max_keys keys."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_dpsketch import NormBound, RecordBounds, SketchSpec
from beam_dpsketch.exact.bounding import side_sums
from beam_dpsketch.exact.bounding.norm_rule import NormRule
from beam_dpsketch.exact.bounding.record_rule import RandomPriorities, RecordRule
from beam_dpsketch.exact.reading.codec import concat_tables, from_bytes, to_bytes
from beam_dpsketch.exact.reading.items import SketchInput
from beam_dpsketch.privacy.selection import SelectionRule
from tests.helpers import laws, rows

SPEC = SketchSpec(depth=2, width=8)
OVER_TIME = rows.over(rows.MECHANISMS["binned"](5))
MAX_KEYS = 3
RULE = SelectionRule(delta=Fraction(1, 100), max_keys=MAX_KEYS)
Rows = list[tuple[int, bytes, int]]
"""Records by unit, key and window."""


def by_norm(*, signed: bool = False, max_norm: int = 1000) -> NormRule:
    bounds = NormBound(max_norm, max_keys=MAX_KEYS, max_weight=9, signed=signed)
    return NormRule(bounds, SketchInput(SPEC, bounds, (), RULE, OVER_TIME), (), RULE)


def by_records() -> RecordRule:
    bounds = RecordBounds(1000, max_keys=1000)  # keeps all, so that only votes are bounded
    return RecordRule(bounds, RandomPriorities(5), (), RULE, OVER_TIME)


RULES: dict[str, Callable[[], Any]] = {
    "norm": by_norm,
    "norm, scaled": lambda: by_norm(max_norm=1),
    "norm, signs": lambda: by_norm(signed=True),
    "records": by_records,
}
every_rule = pytest.mark.parametrize("name", RULES)


def table(records: Rows, weights: list[int] | None = None) -> pa.Table:
    return pa.table(
        {
            "unit": pa.array([unit for unit, _, _ in records], pa.int64()),
            "key": pa.array([key for _, key, _ in records], pa.large_binary()),
            "item": pa.array([0] * len(records), pa.uint64()),
            "weight": pa.array([1] * len(records) if weights is None else weights, pa.int64()),
            "window": pa.array([rows.end(window) for _, _, window in records], pa.int64()),
        }
    )


def votes_of(rule: Any, *parts: pa.Table) -> dict[tuple[bytes, int], tuple[int, int]]:
    """Return votes and voters of each key and window where there are any, of records that come in these parts."""
    if len(parts) > 1:
        parts = tuple(from_bytes(to_bytes(rule.prune(part))) for part in parts)
    side = rule.bound(concat_tables(list(parts))).side
    found = {(row["key"], row["window"]): (row["votes"], row["voters"]) for row in side.to_pylist()}
    return {place: counts for place, counts in found.items() if any(counts)}


def check(name: str, records: Rows) -> None:
    """Raise unless each unit votes once for each of its keys, and for max_keys at most, in its first window."""
    for unit in {unit for unit, _, _ in records}:
        firsts: dict[bytes, int] = defaultdict(lambda: 99)
        for other, key, window in records:
            if other == unit:
                firsts[key] = min(firsts[key], window)
        found = votes_of(RULES[name](), table([record for record in records if record[0] == unit]))
        keys = [key for key, _ in found]
        assert len(keys) == len(set(keys)), "a key has two votes"
        assert len(keys) == min(MAX_KEYS, len(firsts)), "max_keys"
        assert sum(votes**2 for votes, _ in found.values()) <= RULE.grid**2, "too many votes"
        weight = next(weight for size, weight in RULE.classes if size >= len(keys))
        assert found == {(key, rows.end(firsts[key])): (weight, 1) for key in keys}


RECORDS = st.lists(
    st.tuples(st.integers(0, 2), st.sampled_from([b"a", b"b", b"c", b"d", b"e"]), st.integers(0, 4)),
    min_size=1,
    max_size=40,
)


@every_rule
@given(records=RECORDS)
def test_a_unit_votes_once_for_each_key(name: str, records: Rows) -> None:
    check(name, records)


@every_rule
@given(data=st.data())
def test_order_split_and_other_units_do_not_matter(name: str, data: Any) -> None:
    records = data.draw(RECORDS)
    expected: dict[Any, Any] = defaultdict(lambda: np.zeros(2, dtype=int))
    for unit in {unit for unit, _, _ in records}:
        for place, counts in votes_of(RULES[name](), table([each for each in records if each[0] == unit])).items():
            expected[place] += counts
    order = data.draw(st.permutations(list(records)))
    cut = data.draw(st.integers(0, len(order)))
    parts = [table(part) for part in (order[:cut], order[cut:]) if part]
    assert votes_of(RULES[name](), *parts) == {place: tuple(counts) for place, counts in expected.items()}


def test_windows_in_which_a_unit_cancels_have_no_vote() -> None:
    """The first window that is left has it; a key without any is not voted for."""
    records = [(1, b"a", 0), (1, b"a", 0), (1, b"a", 3), (1, b"a", 2), (1, b"b", 4), (1, b"b", 4)]
    found = votes_of(by_norm(signed=True), table(records, [1, -1, 1, 1, 2, -2]))
    assert found == {(b"a", rows.end(2)): (48, 1)}


def test_which_keys_a_unit_votes_for_does_not_depend_on_its_windows() -> None:
    keys = [b"%d" % number for number in range(20)]
    chosen = set()
    for rule, shift in ((by_norm(), 0), (by_norm(), 3), (by_records(), 1)):
        records = [(1, key, (place + shift) % 5) for place, key in enumerate(keys)]
        chosen.add(frozenset(key for key, _ in votes_of(rule, table(records))))
    assert len(chosen) == 1


@every_rule
def test_streams_vote_as_ever(name: str) -> None:
    """Tables without a column of windows."""
    records = [(1, key, 0) for key in (b"a", b"b", b"b", b"c", b"d")]
    side = RULES[name]().bound(table(records).drop_columns(["window"])).side
    assert sum(row["voters"] for row in side.to_pylist()) == MAX_KEYS


# Faults.


def votes_repeated(exact: Any, rule: Any, groups: Any, *given: Any) -> Any:
    keys = groups.without_windows()
    return {
        name: pa.array(np.bincount(keys.numbers, each).astype(int)[keys.numbers])
        for name, each in exact(rule, groups, *given).items()
    }


def votes_of_voters(voters: Callable[[Any, np.ndarray], np.ndarray]) -> laws.Fault:
    return laws.put(
        side_sums,
        "_votes_once",
        lambda rule, groups, present, windows, values: side_sums._votes(
            rule, groups, voters(groups, windows), present, values
        ),
    )


FAULTS = {
    "a_vote_in_each_window": votes_of_voters(lambda groups, windows: groups.units),
    "windows_as_voters": votes_of_voters(lambda groups, windows: 5 * groups.units + windows),
    "votes_repeated": laws.around(side_sums, "_votes_once", votes_repeated),
}
test_a_planted_fault_is_found = every_rule(
    laws.mutants(FAULTS, lambda name: check(name, [(1, b"a", 0), (1, b"a", 1), (1, b"b", 3)]), words="two votes")
)
