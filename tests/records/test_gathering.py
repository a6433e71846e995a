"""Records of many parts are pruned on the way, and not more often than new ones come in."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from beam_dpsketch import NormBound
from beam_dpsketch.records.bounding.priorities import RandomPriorities
from beam_dpsketch.records.bounding.rules import gather_tables, rule_of
from beam_dpsketch.records.items import SketchInput
from tests.helpers.pipelines import SPEC

ROWS, PARTS = 100, 64


def part(units: np.ndarray) -> pa.Table:
    items = np.ones(len(units), dtype=np.uint64)
    return pa.table({"unit": units, "item": items, "weight": np.ones(len(units), dtype=np.int64)})


@pytest.mark.parametrize(("kept_of_each", "most_sorted"), [(ROWS, 4 * PARTS), (1, 2 * PARTS)])
def test_the_work_of_pruning_is_in_proportion_to_the_records(kept_of_each: int, most_sorted: int) -> None:
    """Pruning at every part would sort 32 times as many where every record must be kept."""
    rule = rule_of(SketchInput(SPEC, NormBound(1)), RandomPriorities())
    sizes, prune = [], rule.prune

    def counted(records: pa.Table) -> Any:
        sizes.append(len(records))
        return prune(records)

    rule.prune = counted  # type: ignore[method-assign]
    parts = (part(np.arange(ROWS) % kept_of_each + place * (kept_of_each > 1) * ROWS) for place in range(PARTS))
    gathered = gather_tables(rule, parts, 3 * ROWS)
    assert sizes
    assert sum(sizes) <= most_sorted * ROWS
    assert rule.bound(gathered).kept["unit"].to_numpy().max() < PARTS * ROWS
    assert gathered["weight"].to_numpy().sum() == PARTS * ROWS
