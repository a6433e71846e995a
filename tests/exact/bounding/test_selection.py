"""The bounding kernel against a slow reference, and how it chooses."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from beam_dpsketch import RecordBounds
from beam_dpsketch.exact.bounding.record_rule import RandomPriorities, RecordRule
from beam_dpsketch.exact.bounding.selection import select_parts, select_within_bounds, split_weights

# Nominal level of chi-square tests with >= 1,000 expected counts: at most 1e-9 with the approximation.
LEVEL = 1e-10
BOUNDS = st.builds(RecordBounds, max_records=st.integers(1, 4), max_keys=st.integers(1, 3))
GROUPS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4)), max_size=60)


@st.composite
def records(draw: Any, partition_count: int = 5) -> tuple[np.ndarray, ...]:
    """Draw units, partitions and the priorities of both; those of partitions differ within a unit."""
    groups = draw(GROUPS)
    units = np.array([unit for unit, _ in groups], dtype=np.int32)
    partitions = np.array([partition % partition_count for _, partition in groups], dtype=np.int32)
    priority_of = np.random.default_rng(draw(st.integers(0, 1 << 30))).permutation(20).reshape(4, 5).astype(np.uint64)
    partition_priorities = priority_of[units, partitions] if groups else np.zeros(0, dtype=np.uint64)
    drawn = draw(st.lists(st.integers(0, 50), min_size=len(groups), max_size=len(groups)))
    return units, partitions, partition_priorities, np.array(drawn, dtype=np.uint32)


def reference(columns: tuple[np.ndarray, ...], bounds: RecordBounds) -> set[int]:
    """The same choice, one record at a time."""
    groups: dict[int, dict[tuple[int, int], list[tuple[int, int]]]] = defaultdict(lambda: defaultdict(list))
    for position, (unit, partition, partition_priority, priority) in enumerate(
        zip(*map(np.ndarray.tolist, columns), strict=True)
    ):
        groups[unit][partition_priority, partition].append((priority, position))
    positions: set[int] = set()
    for of_unit in groups.values():
        for group in sorted(of_unit)[: bounds.kept_keys]:
            of_group = sorted(of_unit[group])[: bounds.max_records]
            positions.update(position for _, position in of_group)
    return positions


@given(records(), st.integers(1, 4))
def test_all_records_of_the_first_windows_are_kept(columns: tuple[np.ndarray, ...], max_windows: int) -> None:
    units, windows, window_priorities, _ = columns
    found: dict[int, set[tuple[int, int]]] = defaultdict(set)
    places = list(zip(units.tolist(), window_priorities.tolist(), windows.tolist(), strict=True))
    for unit, priority, window in places:
        found[unit].add((priority, window))
    of_unit = {unit: set(sorted(groups)[:max_windows]) for unit, groups in found.items()}
    expected = [position for position, (unit, *group) in enumerate(places) if tuple(group) in of_unit[unit]]
    assert sorted(select_parts(units, windows, window_priorities, max_windows).tolist()) == expected


def test_windows_of_equal_priority_are_two_windows() -> None:
    """Ranks are hashes, which may collide."""
    units, priorities = np.zeros(4, dtype=int), np.zeros(4, dtype=np.uint64)
    assert len(select_parts(units, np.array([1, 2, 1, 2]), priorities, 1)) == 2


@given(st.sampled_from([1, 5]).flatmap(records), BOUNDS)
def test_exactly_as_many_are_kept_as_the_bounds_allow(columns: tuple[np.ndarray, ...], bounds: RecordBounds) -> None:
    units, partitions, _, _ = columns
    groups = Counter(zip(units.tolist(), partitions.tolist(), strict=True))
    positions = select_within_bounds(*columns, list, bounds).tolist()
    kept_groups = Counter((int(units[position]), int(partitions[position])) for position in positions)
    assert len(set(positions)) == len(positions)
    for group, size in kept_groups.items():
        assert size == min(groups[group], bounds.max_records)
    available, used = (Counter(unit for unit, _ in found) for found in (groups, kept_groups))
    assert used == {unit: min(count, bounds.kept_keys) for unit, count in available.items()}


@given(st.sampled_from([1, 5]).flatmap(records), BOUNDS)
def test_the_records_of_smallest_priority_are_kept(columns: tuple[np.ndarray, ...], bounds: RecordBounds) -> None:
    distinct = np.random.default_rng(len(columns[0])).permutation(len(columns[0])).astype(np.uint32)
    columns = (*columns[:3], distinct)
    assert set(select_within_bounds(*columns, list, bounds).tolist()) == reference(columns, bounds)


@given(st.sampled_from([1, 5]).flatmap(records), BOUNDS, st.integers(0, 60))
def test_bounding_in_stages_keeps_what_bounding_at_once_keeps(
    columns: tuple[np.ndarray, ...], bounds: RecordBounds, cut: int
) -> None:
    columns = (*columns[:3], np.random.default_rng(cut).permutation(len(columns[0])).astype(np.uint32))
    everything = np.arange(len(columns[0]))
    first = [
        part[select_within_bounds(*(column[part] for column in columns), list, bounds)]
        for part in (everything[:cut], everything[cut:])
    ]
    union = np.concatenate(first)
    staged = union[select_within_bounds(*(column[union] for column in columns), list, bounds)]
    assert set(staged.tolist()) == set(select_within_bounds(*columns, list, bounds).tolist())


def subset_p_value(priorities: np.ndarray, per_key: bool) -> float:
    """Whether all 10 choices of 2 in 5 records are equally frequent, over units of 5 records."""
    units = np.repeat(np.arange(len(priorities) // 5), 5)
    partitions = np.ones(len(units), dtype=int) * per_key
    kept = select_within_bounds(units, partitions, partitions.astype(np.uint64), priorities, list, TWO)
    positions = np.sort(kept).reshape(-1, 2) % 5
    codes = positions @ np.array([5, 1])
    observed = [int(np.sum(codes == 5 * low + high)) for low, high in combinations(range(5), 2)]
    assert sum(observed) == len(units) // 5
    return float(stats.chisquare(observed).pvalue)


TWO = RecordBounds(max_records=2)


@pytest.mark.parametrize("per_key", [False, True])
def test_with_random_priorities_every_choice_is_equally_likely(per_key: bool) -> None:
    """False alarm <= 1e-9 a run."""
    priorities = np.random.default_rng().integers(0, 1 << 32, 500_000, dtype=np.uint32)
    assert subset_p_value(priorities, per_key) >= LEVEL


@pytest.mark.parametrize("per_key", [False, True])
def test_one_unit_in_thirty_with_its_first_records_is_noticed(per_key: bool) -> None:
    priorities = np.random.default_rng(1).integers(0, 1 << 32, 500_000, dtype=np.uint32).reshape(-1, 5)
    priorities[::30].sort(axis=1)
    assert subset_p_value(priorities.ravel(), per_key) < LEVEL


def split_by_hand(weight: int, bounds: RecordBounds) -> list[int]:
    """Records of a net weight, one by one."""
    sign, left, records = (1 if weight > 0 else -1), abs(weight), []
    while left and len(records) < bounds.max_records:
        records.append(sign * min(left, bounds.max_weight))
        left -= abs(records[-1])
    return records


NET = st.one_of(st.integers(-20, 20), st.sampled_from([-(1 << 63), (1 << 63) - 1]))


@given(weights=st.lists(NET), most=st.integers(1, 6), largest=st.integers(1, 5))
def test_net_weights_are_split_into_records_within_the_bounds(weights: list[int], most: int, largest: int) -> None:
    bounds = RecordBounds(max_records=most, max_weight=largest, signed=True)
    positions, parts, copies = split_weights(np.array(weights, dtype=np.int64), bounds)
    assert copies.min(initial=1) > 0
    assert len(positions) <= 2 * len(weights)
    found = [
        np.repeat(*(each[positions == place] for each in (parts, copies))).tolist() for place in range(len(weights))
    ]
    assert found == [split_by_hand(weight, bounds) for weight in weights]


UNITS = st.lists(st.sampled_from(["a", "b", "c", "a much longer privacy id"]), max_size=20)


@settings(deadline=None)
@given(UNITS, st.integers(1, 4), st.integers(1, 4))
def test_what_keeps_all_drops_nothing(units: list[str], records: int, partitions: int) -> None:
    bounds = RecordBounds(max_records=records, max_keys=partitions)
    bound = RecordRule(bounds, RandomPriorities(salt=1))
    words = np.array([hash(unit) & 0xFFFF for unit in units], dtype=np.uint64)
    table = pa.table({"unit": pa.array([unit.encode() for unit in units], pa.large_binary())})
    table = table.append_column("item", pa.array(np.arange(len(units))))
    most = max(Counter(units).values(), default=0)
    if bound.keeps_all(words):
        assert len(bound.prune(table)) == len(units)
        assert most <= min(records, partitions)
    assert not RecordRule(RecordBounds(1, signed=True), RandomPriorities(salt=1)).keeps_all(words)
