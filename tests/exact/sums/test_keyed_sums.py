"""Sums of many keys in columns are those of one accumulator for each key, to the bit, in any split and order."""

from __future__ import annotations

import pickle
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_dpsketch import IntegerDomain, SketchSpec, TreeSpec
from beam_dpsketch.encodings import encode
from beam_dpsketch.exact.reading.items import SketchInput, WeightedItems
from beam_dpsketch.exact.sketches.factor import FactorizationSpec
from beam_dpsketch.exact.sketches.listed_items import ListedItems
from beam_dpsketch.exact.sums.accumulator import SketchAccumulator
from beam_dpsketch.exact.sums.keyed_sums import GatheredSums, KeyedSums
from beam_dpsketch.privacy.contributions import RecordBounds
from beam_dpsketch.privacy.selection import SelectionRule
from beam_dpsketch.statement.release_id import key_part_names, part_name
from beam_dpsketch.transforms.steps.sums import SumKeys, by_shard

SPECS: dict[str, Any] = {
    "count_sketch": SketchSpec(depth=3, width=16),
    "count_min": SketchSpec(kind="count_min", depth=2, width=64),
    "listed": ListedItems(["a", "b", "c"]),
    "tree": TreeSpec.for_ranks(IntegerDomain(0, 255)),
    "factor": FactorizationSpec(IntegerDomain(0, 99)),
}
KEYS = ["a", "b", 7, b"a", ("a", (1, "b")), "\ud800", "", -1]


def input_of(name: str) -> SketchInput:
    return SketchInput(SPECS[name], RecordBounds(9), selection=SelectionRule(delta=Fraction(1, 100), max_keys=1))


def items_of(name: str, numbers: np.ndarray) -> list[Any]:
    return (
        numbers.tolist() if name in ("tree", "factor") else ["abc"[number % 3] * (1 + number % 2) for number in numbers]
    )


def parts_of(recipe: SketchInput, name: str, sizes: list[int], seed: int) -> list[KeyedSums]:
    """Some parts, each with entries of some of the keys."""
    found, random = [], np.random.default_rng(seed)
    for size in sizes:
        own = random.permutation(len(KEYS))[: 1 + size % len(KEYS)]
        keys, usable = recipe.keys(items_of(name, random.integers(0, 99, size)))
        keys, side = keys[usable], random.integers(-9, 9, (len(own), recipe.side_size))
        places, weights = random.integers(0, len(own), len(keys)), random.integers(-(1 << 60), 1 << 60, len(keys))
        column = pa.array([encode(KEYS[place]) for place in own.tolist()], pa.large_binary())
        found.append(KeyedSums.of_entries(recipe, column, side, places, keys, weights))
    return found


def one_by_one(recipe: SketchInput, parts: list[KeyedSums]) -> dict[bytes, tuple[Any, Any]]:
    """The counters of each key, and what is counted aside, by an accumulator for each."""
    sums: dict[bytes, SketchAccumulator] = {}
    for part in parts:
        for place, key in enumerate(part.keys.to_pylist()):
            own = part.places == place
            added = WeightedItems(part.items[own], part.weights[own], part.side[place])
            sums.setdefault(key, SketchAccumulator(recipe)).add_contributions(added)
    return {key: (each.to_sketch().to_vector().tolist(), each.side.tolist()) for key, each in sums.items()}


def in_columns(sums: KeyedSums) -> dict[bytes, tuple[Any, Any]]:
    columns = zip(sums.keys.to_pylist(), sums.counters.tolist(), sums.side.tolist(), strict=True)
    return {key: (counters, side) for key, counters, side in columns}


@pytest.mark.parametrize("name", SPECS)
@given(sizes=st.lists(st.integers(0, 60), min_size=1, max_size=5), seed=st.integers(0, 1 << 30))
def test_columns_hold_what_accumulators_hold(name: str, sizes: list[int], seed: int) -> None:
    recipe = input_of(name)
    parts = parts_of(recipe, name, sizes, seed)
    wanted = one_by_one(recipe, parts)
    merged = KeyedSums.merged(parts)
    assert in_columns(merged) == wanted
    assert in_columns(KeyedSums.merged([merged, KeyedSums.merged(parts[:1])])) == one_by_one(recipe, [*parts, parts[0]])
    copied = [pickle.loads(pickle.dumps(each)) for each in parts]
    gathered = GatheredSums(seed % 10_000)
    for number, each in enumerate(copied[::-1]):
        gathered.add(number % 2, each)
    assert in_columns(KeyedSums.merged([*gathered.merged().values()])) == wanted
    sharded = [payload for part in parts for _, payload in by_shard(part, 3)]
    assert in_columns(KeyedSums.merged([KeyedSums.from_bytes(recipe, each) for each in sharded])) == wanted
    order = np.random.default_rng(seed).permutation(len(merged))
    blocks: dict[bytes, Any] = {}
    for block in merged.ordered(order).blocks(2):
        blocks |= in_columns(block)
    assert blocks == wanted
    assert [*blocks] == merged.keys.take(pa.array(order)).to_pylist()
    assert [key for key, _ in merged.each()] == merged.keys.to_pylist()
    assert [in_columns(each) for _, each in merged.each()] == [{key: wanted[key]} for key in merged.keys.to_pylist()]
    joined = KeyedSums.joined(parts)
    assert joined.numbers.tolist() == [numbers for part in parts for numbers in part.numbers.tolist()]
    assert joined.keys.to_pylist() == [key for part in parts for key in part.keys.to_pylist()]
    one, (key, _) = SketchAccumulator(recipe), next(merged.each())
    for part in parts:
        for found, each in part.each():
            if found == key:
                one.absorb(each)
    assert in_columns(one.to_sums(key)) == {key: wanted[key]}
    assert in_columns(KeyedSums.from_bytes(recipe, one.to_sums(key).to_bytes())) == {key: wanted[key]}


def test_a_norm_goes_with_the_bytes_and_two_norms_are_refused() -> None:
    recipe = input_of("count_sketch")
    first, second = (KeyedSums.of_nothing(recipe, [b"sa"], Fraction(norm, 16)) for norm in (33, 34))
    assert KeyedSums.from_bytes(recipe, first.to_bytes()).max_norm == Fraction(33, 16)
    assert KeyedSums.merged([first, KeyedSums.of_nothing(recipe, [b"sb"])]).max_norm == Fraction(33, 16)
    with pytest.raises(RuntimeError, match="chosen twice"):
        KeyedSums.merged([first, second])


def test_nothing_shows_what_is_in_them() -> None:
    assert repr(KeyedSums.of_nothing(input_of("listed"), [b"splanted"])) == (
        f"<KeyedSums of {SPECS['listed']}, contents hidden>"
    )


@pytest.mark.parametrize("key", KEYS)
def test_names_of_many_keys_are_names_of_each(key: Any) -> None:
    for start, end in ((0, 1), (-5, 1 << 60)):
        assert key_part_names([encode(key)] * 2, start, end) == [part_name(("key", key), start, end)] * 2


def test_a_bundle_keeps_no_more_than_its_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = input_of("count_sketch")
    monkeypatch.setattr("beam_dpsketch.transforms.steps.sums.PENDING_BYTES", 4000)
    shards = [parts_of(recipe, "count_sketch", [30], number)[0] for number in range(60)]
    step, emitted, most = SumKeys(4), [], 0
    step.start_bundle()
    window = type("Window", (), {"max_timestamp": lambda self: 0})()
    for shard in shards:
        emitted += step.process(shard, window)
        most = max(most, step._sums.size)
    assert emitted
    assert most <= 4000
    emitted += step.finish_bundle()
    sums = [KeyedSums.from_bytes(recipe, each.value[1]) for each in emitted]
    wanted = one_by_one(recipe, shards)
    assert in_columns(KeyedSums.merged(sums)) == wanted
