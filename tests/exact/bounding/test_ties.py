"""Where priorities or hashes tie, what is kept of a privacy id is still a function of its own records alone.

Priorities have two bits here and hashes one, so nearly every choice is a tie. What a rule makes of all ids at once, in
any order, any parts and any form of ids, must be what it makes of each id alone.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from beam_dpsketch import NormBound, RecordBounds, SketchSpec, release_frame
from beam_dpsketch.exact.bounding import netting, parts, record_rule, selection
from beam_dpsketch.exact.bounding.norm_rule import NormRule
from beam_dpsketch.exact.bounding.parts import Parts
from beam_dpsketch.exact.bounding.record_rule import KeyedPriorities, RandomPriorities, RecordRule
from beam_dpsketch.exact.bounding.window_rule import RuleOverWindows
from beam_dpsketch.exact.hashing import cells
from beam_dpsketch.exact.reading.codec import concat_tables, from_bytes, to_bytes
from beam_dpsketch.exact.reading.columns import encode_ids
from beam_dpsketch.exact.reading.items import SketchInput
from beam_dpsketch.privacy.noise.keyed_randomness import KeyedRandomness
from beam_dpsketch.privacy.selection import SelectionRule
from beam_dpsketch.privacy.summary_counts import LostCounter

SPEC = SketchSpec(depth=2, width=8)
COLUMNS = ("unit", "key", "window", "item", "weight", "priority")
CASES, MORE_CASES = 8, 100
LOST = LostCounter(Fraction(1, 50), 0, None, 1)
CHOSEN = SelectionRule(delta=Fraction(1, 100), max_keys=2)
_TYPES: dict[str, Any] = {"key": pa.large_binary(), "item": pa.uint64(), "priority": pa.uint32()}


class KeyedInTwoBits(KeyedPriorities):
    """A keyed hash of two bits."""

    def assign(self, records: pa.Table) -> pa.Table:
        assigned = super().assign(records)
        few = assigned["priority"].to_numpy() & np.uint64(3)
        return assigned.set_column(assigned.column_names.index("priority"), "priority", pa.array(few))


def keyed() -> KeyedPriorities:
    return KeyedInTwoBits(lambda: KeyedRandomness(b"0123456789abcdef0123456789abcdef", b"ties"))


def over_windows(priorities: Any) -> RecordRule:
    bounds = RecordBounds(2, max_keys=2, max_weight=9)
    return RuleOverWindows(bounds, SketchInput(SPEC, bounds, lost=LOST), priorities, 2)


def by_norm(max_norm: int = 3, **settings: Any) -> NormRule:
    bounds, lost = NormBound(max_norm, max_keys=2, max_weight=9, **settings), None if settings.get("signed") else LOST
    return NormRule(bounds, SketchInput(SPEC, bounds, (), CHOSEN, lost=lost), (), CHOSEN)


def by_records(priorities: Any, **settings: Any) -> RecordRule:
    return RecordRule(RecordBounds(2, max_weight=9, **settings), priorities, lost=LOST)


def by_votes(*, signed: bool = False) -> RecordRule:
    """Keep all, so that only votes are bounded."""
    return RecordRule(RecordBounds(1000, max_keys=1000, max_weight=9, signed=signed), RandomPriorities(1), (), CHOSEN)


RULES: dict[str, tuple[Callable[[], Any], tuple[str, ...]]] = {
    "records": (lambda: by_records(RandomPriorities(1)), ("priority",)),
    "keys": (lambda: by_records(RandomPriorities(1), max_keys=2), ("key", "priority")),
    "windows": (lambda: over_windows(RandomPriorities(1)), ("key", "window", "priority")),
    "records, keyed": (lambda: by_records(keyed()), ()),
    "keys and windows, keyed": (lambda: over_windows(keyed()), ("key", "window")),
    "norm": (by_norm, ("key",)),
    "norm in full": (lambda: by_norm(1000), ("key",)),
    "items of a norm": (lambda: by_norm(max_distinct_items=2), ("key",)),
    "norm, signed": (lambda: by_norm(signed=True), ("key", "window", "signs")),
    "votes of records": (by_votes, ("key", "priority")),
    "votes of signed records": (lambda: by_votes(signed=True), ("key", "signs")),
}


@pytest.fixture(autouse=True)
def _hashes_of_one_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    mix = cells.mix
    monkeypatch.setattr(cells, "mix", lambda values, seed, row: mix(values, seed=seed, row=row) & np.uint64(1))


def draw_records(columns: tuple[str, ...], random: np.random.Generator) -> pa.Table:
    """Return records of a few ids, with priorities of two bits where the rule takes what records carry."""
    size = int(random.integers(2, 40))
    drawn = {
        "unit": random.integers(0, 3, size),
        "key": [f"k{number}".encode() for number in random.integers(0, 5, size)],
        "window": random.integers(0, 4, size),
        "item": random.integers(0, 4, size),
        "weight": random.integers(1, 4, size) * (random.choice([1, -1], size) if "signs" in columns else 1),
        "priority": random.integers(0, 4, size),
    }
    used = [name for name in COLUMNS if name in ("unit", "item", "weight", *columns)]
    return pa.table({name: pa.array(drawn[name], _TYPES.get(name, pa.int64())) for name in used})


def outcome(rule: Any, records: pa.Table) -> tuple[dict[Any, int], ...]:
    """Return the weight that a rule keeps of each id, key, window and item, the votes by key, and what ids lost."""
    bounded = rule.bound(records)
    kept, side = bounded.kept, bounded.side
    kept = kept.set_column(0, "unit", encode_ids(kept["unit"]))
    names = [name for name in ("unit", "key", "window", "item") if name in kept.column_names]
    weights: Counter[Any] = Counter()
    copies = kept["copies"].to_pylist() if "copies" in kept.column_names else [1] * len(kept)
    for *place, weight, count in zip(*(kept[name].to_pylist() for name in [*names, "weight"]), copies, strict=True):
        weights[tuple(place)] += weight * count
    cast: Counter[Any] = Counter()
    for row in [] if side is None else side.to_pylist():
        cast[row["key"]] += row["votes"]
    lost = Counter(dict(enumerate([] if bounded.lost is None else bounded.lost.tolist())))
    return tuple({place: number for place, number in each.items() if number} for each in (weights, cast, lost))


def added(found: Iterable[dict[Any, int]]) -> dict[Any, int]:
    total: Counter[Any] = Counter()
    for each in found:
        total.update(each)
    return dict(total)


def in_parts(rule: Any, records: pa.Table, random: np.random.Generator) -> pa.Table:
    """Return the records as workers gather them: in any order, parts and form of ids, pruned or not."""
    shuffled = records.take(pa.array(random.permutation(len(records))))
    cuts = np.sort(random.integers(0, len(records) + 1, int(random.integers(0, 4))))
    tables = []
    for start, stop in zip([0, *cuts], [*cuts, len(records)], strict=True):
        part = shuffled.slice(start, stop - start)
        if random.integers(2):
            part = part.set_column(0, "unit", encode_ids(part["unit"]))
        if len(part) and random.integers(2):
            part = from_bytes(to_bytes(rule.prune(part)))
        tables.append(part)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(parts, "BLOCK", int(random.integers(1, 99)))
        return concat_tables(Parts(rule, tables))


def check(name: str, cases: int, seed: int) -> None:
    make, columns = RULES[name]
    for case in range(cases):
        random, rule = np.random.default_rng((seed, case)), make()
        records = draw_records(columns, random)
        units = records["unit"].to_numpy()
        alone = [outcome(rule, records.filter(pa.array(units == unit))) for unit in np.unique(units)]
        expected = tuple(map(added, zip(*alone, strict=True)))
        assert outcome(rule, in_parts(rule, records, random)) == expected


@pytest.mark.parametrize("name", RULES)
def test_no_other_id_and_no_order_decides_a_tie(name: str) -> None:
    check(name, CASES, 0)


@pytest.mark.slow
@pytest.mark.parametrize("name", RULES)
def test_no_other_id_and_no_order_decides_a_tie_of_many(name: str) -> None:
    check(name, MORE_CASES, 1)


FAULTS: dict[str, tuple[str, Callable[[pytest.MonkeyPatch], None]]] = {
    "records as they come": ("records", lambda patch: patch.setattr(record_rule, "_contents", lambda _: [])),
    "records of keys as they come": ("keys", lambda patch: patch.setattr(record_rule, "_contents", lambda _: [])),
    "keys as they come": (
        "keys",
        lambda patch: patch.setattr(record_rule, "in_order_of_values", lambda codes, values: (codes, values)),
    ),
    "votes as they come": (
        "norm in full",
        lambda patch: patch.setattr(selection, "in_order_of_values", lambda codes, values: (codes, values)),
    ),
    "votes of records as they come": (
        "votes of records",
        lambda patch: patch.setattr(selection, "in_order_of_values", lambda codes, values: (codes, values)),
    ),
    "items as they come": (
        "items of a norm",
        lambda patch: patch.setattr(netting, "in_order_of_values", lambda codes, values: (codes, values)),
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_found(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, plant = FAULTS[fault]
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        check(name, CASES, 0)


def test_a_tie_in_a_release_is_decided_by_the_id_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """All priorities are 0. One person has a weight of 1,000 for each of two items. One counts; noise is below 100."""
    monkeypatch.setattr(os, "urandom", bytes)
    settings = {
        "kind": "frequencies",
        "item": "item",
        "weight": "weight",
        "listed_items": ["a", "b", "c"],
        "privacy": {"rho": 100},
        "privacy_unit": {"privacy_id": "who", "records": {"max_records": 1, "max_weight": 1000}},
    }
    random = np.random.default_rng(5)
    for _ in range(30):
        others = [(f"person {number}", "c", 1) for number in random.integers(0, 9, int(random.integers(0, 40)))]
        rows = [("A", "b", 1000), ("A", "a", 1000), *others]
        rows = [rows[place] for place in random.permutation(len(rows))]
        table = pa.table(dict(zip(("who", "item", "weight"), map(list, zip(*rows, strict=True)), strict=True)))
        released = release_frame(table, settings)
        assert released.estimate(["a"])[0] > 500 > released.estimate(["b"])[0]
