"""Tempting shortcuts in side counters, planted: the brute force that accepts them refuses each of these.

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

from beam_dpsketch import ADD_OR_REMOVE_ONE, NeighboringRelation, NormBound, SketchSpec
from beam_dpsketch.privacy import terms
from beam_dpsketch.privacy.norm_bounding import SCALE_BITS
from beam_dpsketch.privacy.side_counters import SideCounter
from beam_dpsketch.records.bounding import netting, norm_rule, side_sums
from beam_dpsketch.records.bounding.netting import NetRecords
from beam_dpsketch.records.items import SketchInput
from tests.helpers import side_sums as reference
from tests.helpers.joint_loss import joint_loss
from tests.helpers.norms import Case
from tests.helpers.side_sums import NAMES

Plant = Callable[[pytest.MonkeyPatch], None]
LAYOUTS = ("count_sketch", "histogram", "prefixes")
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


def no_clip_of(name: str) -> Plant:
    def plant(patch: pytest.MonkeyPatch) -> None:
        exact = SideCounter.limited

        def limited(
            counter: SideCounter, values: np.ndarray, units: np.ndarray, *, bits: int, **rest: Any
        ) -> np.ndarray:
            return in_full(values, bits) if counter.name == name else exact(counter, values, units, bits=bits, **rest)

        patch.setattr(SideCounter, "limited", limited)

    return plant


def a_clip_for_each_cell_of(name: str) -> Plant:
    def plant(patch: pytest.MonkeyPatch) -> None:
        exact = SideCounter.limited

        def limited(
            counter: SideCounter, values: np.ndarray, units: np.ndarray, *, bits: int, **rest: Any
        ) -> np.ndarray:
            return exact(counter, values, np.arange(len(units)) if counter.name == name else units, bits=bits, **rest)

        patch.setattr(SideCounter, "limited", limited)

    return plant


def on_the_factor_of_the_norm(patch: pytest.MonkeyPatch) -> None:
    """Scale records as the norm scales weights, and count what is left."""
    exact = norm_rule.sums_of_scaled

    def sums(
        counters: Any, selection: Any, netted: NetRecords, magnitudes: np.ndarray, factors: np.ndarray, **rest: Any
    ) -> pa.Table:
        (records,) = (counter for counter in counters if counter.name == "records")
        found = exact(counters, selection, netted, magnitudes, factors, **rest)
        counts = np.abs(netted.weights) if netted.records is None else netted.records
        groups = side_sums.Groups({name: codes for name, codes in netted.codes.items() if name != "item"})
        scaled = groups.add_up(np.clip(counts, 0, 1 << 30) * factors >> 16)
        return found.set_column(found.column_names.index(records.name), records.name, pa.array(scaled))

    patch.setattr(norm_rule, "sums_of_scaled", sums)


def weight_clipped_at_the_square_of_the_norm(patch: pytest.MonkeyPatch) -> None:
    exact = SideCounter.limited

    def limited(counter: SideCounter, values: np.ndarray, units: np.ndarray, *, bits: int, **rest: Any) -> np.ndarray:
        if counter.name == "weight":
            counter = counter._replace(squared_limit=(counter.squared_limit / 16) ** 2)
        return exact(counter, values, units, bits=bits, **rest)

    patch.setattr(SideCounter, "limited", limited)


def rounding_up(patch: pytest.MonkeyPatch) -> None:
    exact = SideCounter.limited

    def limited(counter: SideCounter, *arguments: Any, **settings: Any) -> np.ndarray:
        found = exact(counter, *arguments, **settings)
        return found + np.sign(found) * 2

    patch.setattr(SideCounter, "limited", limited)


def sensitivity(squared: Callable[[SideCounter, NeighboringRelation], Fraction]) -> Plant:
    def plant(patch: pytest.MonkeyPatch) -> None:
        exact = SideCounter.squared_sensitivity

        def planted(counter: SideCounter, relation: NeighboringRelation) -> Fraction:
            return (exact if relation is ADD_OR_REMOVE_ONE else squared)(counter, relation)

        patch.setattr(SideCounter, "squared_sensitivity", planted)

    return plant


EXACT = SideCounter.squared_sensitivity
UNSIGNED = sensitivity(lambda counter, relation: EXACT(counter._replace(signed=False), relation))
AS_IN_ONE_CELL = sensitivity(
    lambda counter, relation: EXACT(counter, relation if counter.signed else ADD_OR_REMOVE_ONE)
)
UNITS_ARE_CONSTANT = sensitivity(
    lambda counter, relation: Fraction(0) if counter.name == "units" else EXACT(counter, relation)
)


def counts_forgotten_on_the_way(patch: pytest.MonkeyPatch) -> None:
    ones = lambda records: np.ones(len(records), dtype=np.int64)  # noqa: E731
    patch.setattr(netting, "count_records", ones)
    patch.setattr(side_sums, "count_records", ones)


def records_that_cancelled_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(NetRecords, "without_zeros", lambda netted: netted.take(netted.weights != 0))


def records_counted_after_netting(patch: pytest.MonkeyPatch) -> None:
    exact = norm_rule.net

    def net(records: pa.Table, *, count: bool = False) -> NetRecords:
        netted = exact(records, count=count)
        return netted._replace(records=np.ones(len(netted.weights), dtype=np.int64) if count else None)

    patch.setattr(norm_rule, "net", net)


FAULTS: dict[str, tuple[Plant, str]] = {
    **{f"no clip of {name}": (no_clip_of(name), TOO_MUCH) for name in NAMES},
    **{f"a clip for each cell of {name}": (a_clip_for_each_cell_of(name), TOO_MUCH) for name in NAMES},
    "records on the factor of the norm": (on_the_factor_of_the_norm, TOO_MUCH),
    "weight clipped at the square of the norm": (weight_clipped_at_the_square_of_the_norm, TOO_MUCH),
    "rounding up": (rounding_up, TOO_MUCH),
    "signs forgotten": (UNSIGNED, TOO_MUCH),
    "several cells as one": (AS_IN_ONE_CELL, TOO_MUCH),
    "units are constant": (UNITS_ARE_CONSTANT, TOO_MUCH),
    "counts forgotten on the way": (counts_forgotten_on_the_way, SPLIT),
    "records that cancelled forgotten": (records_that_cancelled_forgotten, f"records is not as said|{SPLIT}"),
    "records counted after netting": (records_counted_after_netting, f"records .*(said|changed)|{SPLIT}"),
}


def test_the_counters_themselves_are_accepted() -> None:
    check_all()


@pytest.mark.one_fast_case
@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_refused(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant, message = FAULTS[fault]
    plant(monkeypatch)
    with pytest.raises(AssertionError, match=message):
        check_all()


def all_for_the_sketch(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(terms, "share_left", lambda counters, *others: Fraction(1))


def clipped_paid_twice(patch: pytest.MonkeyPatch) -> None:
    """The number of scaled units spends a share of its own that is not taken from the sketch."""
    exact = SideCounter.sigma_squared

    def sigma_squared(counter: SideCounter, *arguments: Any, **settings: Any) -> Fraction:
        twice = counter.name in ("clipped", "scaled")
        return exact(counter._replace(share=counter.share * (2 if twice else 1)), *arguments, **settings)

    patch.setattr(SideCounter, "sigma_squared", sigma_squared)


def one_counter_not_charged(patch: pytest.MonkeyPatch) -> None:
    exact = terms.share_left
    patch.setattr(terms, "share_left", lambda counters, *others: exact(counters[1:], *others))


@pytest.mark.parametrize("plant", [all_for_the_sketch, clipped_paid_twice, one_counter_not_charged])
def test_shares_that_do_not_add_up_are_refused(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    """One unit then costs more than rho."""
    assert joint_loss(10, RHO) <= RHO
    plant(monkeypatch)
    assert joint_loss(10, RHO) > RHO
