"""Tempting shortcuts in summary counts, planted: the brute force that accepts them refuses each of these.

The cases are the same in every run, so that a fault is found in each run or in none.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from beam_dpsketch import ADD_OR_REMOVE_ONE, NormBound, SketchSpec
from beam_dpsketch.exact.bounding import netting, norm_rule, side_sums
from beam_dpsketch.exact.bounding.netting import NetRecords
from beam_dpsketch.exact.reading.items import SketchInput
from beam_dpsketch.privacy.contributions import NeighboringRelation
from beam_dpsketch.privacy.mechanism import Sensitivity
from beam_dpsketch.privacy.norm.scaling import SCALE_BITS
from beam_dpsketch.privacy.summary_counts import SummaryCount
from tests.helpers import laws
from tests.helpers import side_sums as reference
from tests.helpers.laws import Fault
from tests.helpers.norms import Case
from tests.helpers.side_sums import NAMES

LAYOUTS = ("count_sketch", "histogram", "exact and count_sketch")
CASES_OF_A_LAYOUT = 25
WIDE = SketchSpec(kind="count_sketch", depth=1, width=1 << 12, seed=3)
TOO_MUCH, SPLIT = "changes by too much", "order or the split"
RHO = Fraction(1, 1000)


def cases() -> Iterator[tuple[Case, int | None]]:
    for signed, weight in itertools.product((False, True), (1, 300)):
        yield worst_case(signed=signed, weight=weight, cells=[(b"", 0)]), 1
        yield worst_case(signed=signed, weight=weight, cells=[(b"k", 0), (b"k", 1), (b"l", 0)]), 2
    for layout in LAYOUTS:
        for seed in range(CASES_OF_A_LAYOUT):
            yield reference.draw(layout, seed)


def worst_case(*, signed: bool, weight: int, cells: list[tuple[bytes, int]]) -> Case:
    """Units with enough items to keep 12 times their norm.

    Two are in the same cells, with opposite signs if there are any, and one in other cells.
    """
    sketch_input = SketchInput(WIDE, NormBound(12, max_weight=300, signed=signed))
    first = reference.heavy_unit(sketch_input, cells, weight, items=range(160))
    second = reference.heavy_unit(sketch_input, cells, weight, -1 if signed else 1, items=range(160))
    records = [*first, *((place._replace(unit=1), size) for place, size in second)]
    if len(cells) > 1:
        records += [(place._replace(unit=2, key=b"other " + place.key), size) for place, size in first]
    return Case(sketch_input, records, [records[::2], records[1::2]])


def check_all() -> None:
    for case, max_cells in cases():
        reference.check(case, max_cells)


def in_full(values: np.ndarray, bits: int) -> np.ndarray:
    return np.clip(values, -(1 << 44), 1 << 44) << np.int64(SCALE_BITS - bits)


def limited(faulty: Callable[..., np.ndarray], words: str = TOO_MUCH) -> Fault:
    return laws.around(SummaryCount, "limited", faulty, words)


def no_clip_of(name: str) -> Fault:
    def fault(exact: Any, counter: SummaryCount, values: np.ndarray, units: np.ndarray, **rest: Any) -> np.ndarray:
        return in_full(values, rest["bits"]) if counter.name == name else exact(counter, values, units, **rest)

    return limited(fault)


def a_clip_for_each_cell_of(name: str) -> Fault:
    def fault(exact: Any, counter: SummaryCount, values: np.ndarray, units: np.ndarray, **rest: Any) -> np.ndarray:
        return exact(counter, values, np.arange(len(units)) if counter.name == name else units, **rest)

    return limited(fault)


def on_the_factor_of_the_norm(
    exact: Any,
    counters: Any,
    selection: Any,
    netted: NetRecords,
    magnitudes: np.ndarray,
    factors: np.ndarray,
    **rest: Any,
) -> pa.Table:
    """Scale records as the norm scales weights, and count what is left."""
    (records,) = (counter for counter in counters if counter.name == "records")
    found = exact(counters, selection, netted, magnitudes, factors, **rest)
    counts = np.abs(netted.weights) if netted.records is None else netted.records
    groups = side_sums.RowGroups({name: codes for name, codes in netted.codes.items() if name != "item"})
    scaled = groups.add_up(np.clip(counts, 0, 1 << 30) * factors >> 16)
    return found.set_column(found.column_names.index(records.name), records.name, pa.array(scaled))


def at_the_square_of_the_norm(exact: Any, counter: SummaryCount, *arguments: Any, **rest: Any) -> np.ndarray:
    if counter.name == "weight":
        counter = counter._replace(squared_limit=(counter.squared_limit / 16) ** 2)
    return exact(counter, *arguments, **rest)


def rounding_up(exact: Any, *arguments: Any, **rest: Any) -> np.ndarray:
    found = exact(*arguments, **rest)
    return found + np.sign(found) * 2


def sensitivity(squared: Callable[[Any, SummaryCount, NeighboringRelation], Fraction]) -> Fault:
    """Another sensitivity where one unit is replaced."""
    return laws.around(
        SummaryCount,
        "sensitivity",
        lambda exact, counter, relation: (
            exact(counter, relation)
            if relation is ADD_OR_REMOVE_ONE
            else Sensitivity(squared(lambda *each: exact(*each).squared, counter, relation))
        ),
        TOO_MUCH,
    )


def ones(records: Any) -> np.ndarray:
    return np.ones(len(records), dtype=np.int64)


def records_counted_after_netting(exact: Any, records: pa.Table, *, count: bool = False, **more: Any) -> NetRecords:
    netted = exact(records, count=count, **more)
    return netted._replace(records=ones(netted.weights) if count else None)


FAULTS = {
    **{f"no clip of {name}": no_clip_of(name) for name in NAMES},
    **{f"a clip for each cell of {name}": a_clip_for_each_cell_of(name) for name in NAMES},
    "records on the factor of the norm": laws.around(norm_rule, "sums_of_scaled", on_the_factor_of_the_norm, TOO_MUCH),
    "weight clipped at the square of the norm": limited(at_the_square_of_the_norm),
    "rounding up": limited(rounding_up),
    "signs forgotten": sensitivity(lambda exact, counter, relation: exact(counter._replace(signed=False), relation)),
    "several cells as one": sensitivity(
        lambda exact, counter, relation: exact(counter, relation if counter.signed else ADD_OR_REMOVE_ONE)
    ),
    "units are constant": sensitivity(
        lambda exact, counter, relation: Fraction(0) if counter.name == "units" else exact(counter, relation)
    ),
    "counts forgotten on the way": laws.together(
        *(laws.put(module, "count_records", ones) for module in (netting, side_sums))
    ).found(SPLIT),
    "records that cancelled forgotten": laws.put(
        NetRecords, "without_zeros", lambda netted: netted.take(netted.weights != 0), f"records is not as said|{SPLIT}"
    ),
    "records counted after netting": laws.around(
        norm_rule, "net", records_counted_after_netting, f"records .*(said|changed)|{SPLIT}"
    ),
}


def test_the_counters_themselves_are_accepted() -> None:
    check_all()


test_a_planted_fault_is_refused = pytest.mark.one_fast_case(laws.mutants(FAULTS, check_all))
