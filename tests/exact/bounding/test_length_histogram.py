"""How many ids there are of each length: counted from single records, and by the rule that bounds them."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_dpsketch import ListedItems, NormBound, SketchSpec
from beam_dpsketch.exact.bounding.norm_rule import NormRule, UnitLengths
from beam_dpsketch.exact.reading.items import SketchInput
from tests.helpers import laws, lengths, norms
from tests.helpers.norms import Case, Place, Records

LAYOUTS = [layout for layout in norms.LAYOUTS if layout not in norms.ROUNDED]


def found(sketch_input: SketchInput, records: Records, parts: list[Records] | None = None) -> list[int]:
    assert isinstance(sketch_input.bounds, NormBound)
    rule = NormRule(sketch_input.bounds, sketch_input)
    if parts is None:
        return rule.length_histogram(norms.to_table(sketch_input, records)).tolist()
    pruned = [rule.prune(norms.to_table(sketch_input, part)) for part in parts if part]
    return rule.length_histogram(pa.concat_tables(pruned)).tolist()


def check(case: Case) -> None:
    """Raise unless each unit is in the bin of its length, in any order and split, next to any other units."""
    counts = found(case.sketch_input, case.records)
    assert counts == lengths.histogram(case), "wrong bins"
    assert counts == found(case.sketch_input, case.records, case.parts), "the order or the split matters"


def check_changes(case: Case) -> None:
    """Raise if a unit changes the histogram by more than 1, or its replacement by more than the root of 2."""
    by_unit = [[each for each in case.records if each[0].unit == unit] for unit in range(3)]
    *changing, others = sorted(filter(None, by_unit), key=len)
    without = np.array(found(case.sketch_input, others))
    with_each = [np.array(found(case.sketch_input, others + records)) for records in changing]
    assert all(((each - without) ** 2).sum() <= 1 for each in with_each), "one unit counts more than once"
    assert all(((a - b) ** 2).sum() <= 2 for a, b in itertools.combinations(with_each, 2)), "a replacement counts more"


@pytest.mark.one_fast_case
@pytest.mark.parametrize("layout", LAYOUTS)
@given(seed=st.integers(0, 1 << 40))
def test_each_unit_is_in_the_bin_of_its_length(layout: str, seed: int) -> None:
    check(norms.draw_case(layout, seed))


@pytest.mark.one_fast_case
@pytest.mark.parametrize("layout", norms.LAYOUTS)
@given(seed=st.integers(0, 1 << 40), limited=st.booleans())
def test_one_unit_changes_one_count(layout: str, seed: int, limited: bool) -> None:
    check_changes(norms.draw_case(layout, seed, max_distinct_items=limited))


def of_units(*totals: int, item: Any) -> list[tuple[Place, int]]:
    return [(Place(unit, b"k", 0, item), total) for unit, total in enumerate(totals)]


@pytest.mark.parametrize("spec", [SketchSpec(depth=3, width=16), ListedItems(range(9))], ids=["flat", "listed"])
def test_a_unit_of_a_single_item_is_as_long_as_its_weight(spec: Any) -> None:
    """Next to each edge: N^2 = 2^j where j is even; the roots of 2 are between whole numbers."""
    sketch_input = SketchInput(spec, NormBound(1, max_weight=1 << 20))
    item = norms.keys_of(SketchSpec())[0] if isinstance(spec, SketchSpec) else 0
    weights = [1, 2, 3, 4, 7, 8, 1023, 1024, 1448, 1449, (1 << 15) - 1, 1 << 15, 46340, 46341, 1 << 20]
    expected = np.bincount([(weight**2).bit_length() - 1 for weight in weights], minlength=62)
    assert found(sketch_input, of_units(*weights, item=item)) == expected.tolist()


def test_units_that_cancel_are_not_counted_and_huge_ones_are() -> None:
    sketch_input = SketchInput(SketchSpec(depth=2, width=4), NormBound(1, max_weight=1 << 31, signed=True))
    records = of_units(1 << 31, 5, item=7) * 3 + of_units(0, -15, item=7)
    assert found(sketch_input, records) == [0] * 61 + [1]


def test_no_records_are_no_units() -> None:
    sketch_input = SketchInput(SketchSpec(depth=2, width=4), NormBound(1))
    empty = norms.to_table(sketch_input, of_units(1, item=7)).slice(0, 0)
    assert NormRule(NormBound(1), sketch_input).length_histogram(empty).tolist() == [0] * 32


def check_all(checks: Callable[[Case], None]) -> None:
    for layout in LAYOUTS:
        for seed in range(25):
            checks(norms.draw_case(layout, seed))


def a_length_for_each_key(exact: Any, rule: NormRule, records: pa.Table) -> np.ndarray:
    keys = records["key"].to_numpy()
    return np.sum([exact(rule, records.filter(pa.array(keys == key))) for key in set(keys)], axis=0)


MORE_THAN_ONCE = "one unit counts more than once"
FAULTS = {
    "records change it": lengths.RECORDS_IN_PLACE_OF_UNITS.found(MORE_THAN_ONCE, check_changes),
    "records in place of units": lengths.RECORDS_IN_PLACE_OF_UNITS.found("wrong bins", check),
    "a length for each key": laws.around(
        NormRule, "length_histogram", a_length_for_each_key, MORE_THAN_ONCE, check_changes
    ),
    "lengths before the cap": laws.put(
        UnitLengths, "sizes", lambda lengths, rows: np.abs(rows.weights), "wrong bins", check
    ),
}
test_planted_faults_are_refused = pytest.mark.one_fast_case(laws.mutants(FAULTS, check_all, intact=True))
