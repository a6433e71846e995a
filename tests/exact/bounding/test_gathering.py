"""Records that gather are parted by privacy id where they are many, and pruned on the way."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from beam_dpsketch import NormBound, RecordBounds
from beam_dpsketch.exact.bounding import parts
from beam_dpsketch.exact.bounding.bounded import Bounded
from beam_dpsketch.exact.bounding.parts import Gathered, Parts
from beam_dpsketch.exact.bounding.record_rule import KeyedPriorities, RandomPriorities
from beam_dpsketch.exact.bounding.rules import rule_of
from beam_dpsketch.exact.reading.codec import to_bytes
from beam_dpsketch.exact.reading.columns import encode_ids
from beam_dpsketch.exact.reading.items import SketchInput
from beam_dpsketch.privacy.noise.keyed_randomness import KeyedRandomness
from beam_dpsketch.privacy.summary_counts import SummaryCount
from beam_dpsketch.transforms.steps import bounding
from tests.helpers.pipelines import SPEC

ROWS, TABLES = 100, 64


def part(units: np.ndarray) -> pa.Table:
    items = np.ones(len(units), dtype=np.uint64)
    return pa.table({"unit": units, "item": items, "weight": np.ones(len(units), dtype=np.int64)})


@pytest.mark.parametrize(("kept_of_each", "most_sorted"), [(ROWS, 4 * TABLES), (1, 2 * TABLES)])
def test_the_work_of_pruning_is_in_proportion_to_the_records(kept_of_each: int, most_sorted: int) -> None:
    """Pruning at every table would sort 32 times as many where every record must be kept."""
    rule = rule_of(SketchInput(SPEC, NormBound(1)), RandomPriorities())
    sizes, prune = [], rule.prune

    def counted(records: pa.Table) -> Any:
        sizes.append(len(records))
        return prune(records)

    rule.prune = counted  # type: ignore[method-assign]
    gathered = Gathered(rule, 3 * ROWS)
    for place in range(TABLES):
        units = np.arange(ROWS) % kept_of_each + place * (kept_of_each > 1) * ROWS
        gathered.add(to_bytes(part(units)), ROWS)
    found = gathered.table()
    assert sizes
    assert sum(sizes) <= most_sorted * ROWS
    assert rule.bound(found).kept["unit"].to_numpy().max() < TABLES * ROWS
    assert found["weight"].to_numpy().sum() == TABLES * ROWS


class Whole:
    """A rule that drops nothing."""

    def prune(self, records: pa.Table) -> pa.Table:
        return records


def tables(random: np.random.Generator) -> Iterator[pa.Table]:
    """Records of few ids, as numbers; in some tables with what was lost."""
    for _ in range(40):
        table = part(random.integers(0, 300, random.integers(0, 50)))
        lost = pa.array(np.ones(len(table), dtype=np.int64))
        yield table.append_column("lost", lost) if random.integers(2) else table


@pytest.mark.parametrize("block", [1, 100, 1 << 20])
def test_each_record_is_in_one_part_with_all_of_its_id(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """And a second reading finds the same."""
    monkeypatch.setattr(parts, "BLOCK", block)
    given = [*tables(np.random.default_rng(block))]
    gathered: Any = Parts(Whole(), given)  # type: ignore[arg-type]
    found, again = ([[*table["unit"].to_pylist()] for table in gathered] for _ in range(2))
    assert found == again
    assert sorted(unit for units in found for unit in units) == sorted(
        unit for table in given for unit in table["unit"].to_pylist()
    )
    assert sum(len({*units}) for units in found) == len({unit for units in found for unit in units})
    assert (len(found) > 40) == (block < 1 << 20)
    assert len(found) <= parts.PARTS


def test_what_never_counts_is_dropped_on_the_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "BLOCK", 640)

    class Rule(Whole):
        def prune(self, records: pa.Table) -> pa.Table:
            return records.slice(0, 3)

    same = [part(np.ones(100, dtype=np.int64))] * 20
    (found,) = Parts(Rule(), same)  # type: ignore[arg-type]
    assert 3 <= len(found) < 700  # of 2,000: pruned each time the part has grown
    assert [len(each) for each in Parts(Rule(), same[:2])] == [200]  # type: ignore[arg-type]


def test_where_little_is_dropped_more_records_come_before_the_next_time() -> None:
    pruned: list[int] = []

    class Rule(Whole):
        kept = 100

        def prune(self, records: pa.Table) -> pa.Table:
            pruned.append(len(records))
            return records.slice(0, self.kept)

    rule = Rule()
    gathered, payload = parts.Gathered(rule, 90), to_bytes(part(np.ones(10, dtype=np.int64)))
    for step in range(90):
        rule.kept = 100 if step < 50 else 30
        gathered.add(payload, 10)
    # None of 100 is dropped, so 300 more come; of 410 most are dropped, so 100 more; 30 are kept, and 90 may wait.
    assert pruned == [100, 410, 210, 130, 130, 130]
    assert len(gathered.table()) == 30 + 80


SECRET = KeyedRandomness(bytes(range(32)), b"gathering")
RECORDS = (SummaryCount(("records",), Fraction(1, 50), Fraction(4)),)
COUNTED = SketchInput(SPEC, NormBound(2, max_weight=9), counters=RECORDS)
RULES: dict[str, Any] = {
    "records": lambda: rule_of(SketchInput(SPEC, RecordBounds(2)), RandomPriorities()),
    "records, under a secret": lambda: rule_of(SketchInput(SPEC, RecordBounds(2)), KeyedPriorities(lambda: SECRET)),
    "a norm": lambda: rule_of(COUNTED, RandomPriorities()),
}


@pytest.mark.parametrize("name", RULES)
def test_some_payloads_are_pruned_and_others_not(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pruning adds columns. Every part has as much weight as the ids of that part have in one table."""
    random, rule = np.random.default_rng(5), RULES[name]()
    given = [part(random.integers(0, 40, 50)) for _ in range(40)]
    payloads = [to_bytes(rule.prune(each) if place % 2 else each) for place, each in enumerate(given)]
    monkeypatch.setattr(parts, "BLOCK", 300)
    monkeypatch.setattr(bounding, "_READ_BYTES", 2000)
    bounded = [rule.bound(each) for each in bounding.gather_records(rule, payloads)]
    assert len(bounded) > 10
    whole = rule.bound(pa.concat_tables(given))
    assert sum(each.kept["weight"].to_numpy().sum() for each in bounded) == whole.kept["weight"].to_numpy().sum()
    assert sorted({*units(bounded)}) == sorted({*units([whole])})


def units(bounded: list[Bounded]) -> list[Any]:
    return [unit for each in bounded for unit in encode_ids(each.kept["unit"]).to_pylist()]
