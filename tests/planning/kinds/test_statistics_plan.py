"""Plans of means and ranks promise what releases of that many records say, and warn where counters have no room."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from beam_dpsketch import (
    ArgumentError,
    FactorizationSpec,
    FloatDomain,
    IntegerDomain,
    NormBound,
    PrivacyId,
    PrivacySpec,
    Quantiles,
    Record,
    RecordBounds,
    ReleaseSpec,
    Statistics,
    TreeSpec,
)
from beam_dpsketch.by_hand import release
from beam_dpsketch.exact.sketches.factor import FactorHistogram
from beam_dpsketch.exact.sketches.statistics import NumberSums
from beam_dpsketch.planning import sketch_plan

NORM, RECORDS = PrivacyId("who", NormBound(20)), PrivacyId("who", RecordBounds(3))
CASES: dict[str, tuple[Any, Any, Any]] = {
    "a norm": (IntegerDomain(0, 1_000_000), NORM, 0.5),
    "a norm, few steps": (IntegerDomain(0, 600), NORM, 0.5),
    "a norm, much noise": (IntegerDomain(0, 1_000_000), NORM, 1e-4),
    "a record": (FloatDomain(0, 1, 1e-7), Record(), 0.5),
    "a record, little noise": (FloatDomain(0, 1, 1e-7), Record(), 100),
    "a record, much noise": (IntegerDomain(-9, 9), Record(), 1e-4),
    "records": (IntegerDomain(0, 90), RECORDS, 0.1),
}


def declared(case: str, variance: bool = False) -> ReleaseSpec:
    domain, privacy_unit, rho = CASES[case]
    privacy = PrivacySpec(rho=rho, summary_counts=None)
    return ReleaseSpec(Statistics(domain, variance), privacy, privacy_unit, item="x")


def released(spec: ReleaseSpec, records: int) -> Any:
    """A release of this many equal numbers in the middle of the domain, each with a weight of 1."""
    bits = 16 if isinstance(spec.privacy_unit.bounds, NormBound) else 0
    middle = np.array([spec.spec.steps // 2], dtype=np.uint64)
    raw = NumberSums(spec.spec).accumulate_keys(middle, np.array([records << bits]))
    return release(raw.in_units_of(bits), spec.resolved.terms)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("records", [10**6, 10**7, 10**8])
def test_a_mean_is_as_wide_as_its_plan_says(case: str, records: int) -> None:
    """Of 10^6 records or more, the interval is the noise of the sum, and what coarse steps moved."""
    spec = declared(case)
    planned, found = spec.plan(records).mean[0], released(spec, records).mean()
    assert (found.upper - found.lower) / 2 == pytest.approx(planned, rel=0.03)


@pytest.mark.parametrize("case", CASES)
def test_a_plan_says_from_how_many_records_on_nothing_may_be_told(case: str) -> None:
    """One part has half of the whole in the middle, so it wraps around at twice the room; there, noise decides.

    The guard has 2^10 times the room.
    """
    spec = declared(case, variance=True)
    numbers = [1 << bits for bits in range(24, 46)]
    plans = {number: spec.plan(number) for number in numbers}
    told = [number for number in numbers if released(spec, number).mean().estimate is not None]
    warned = [number for number, plan in plans.items() if any("do not fit" in each for each in plan.warnings)]
    first = min(warned, default=1 << 60)
    surely = [number for number in numbers if number != 2 * first and number < first << 10]
    assert [number for number in surely if number in told] == [number for number in surely if number < 2 * first]
    assert warned == [number for number in numbers if number >= first]
    assert [number for number, plan in plans.items() if plan.mean is None] == warned


@pytest.mark.parametrize(
    "privacy_unit", [Record(), PrivacyId("who", NormBound(20, norm="l1"))], ids=["a record", "a norm"]
)
@pytest.mark.parametrize("size", [2, 1001, pytest.param((1 << 17) + 5, marks=pytest.mark.slow)])
def test_a_plan_of_ranks_says_how_many_records_of_one_value_rows_have_room_for(privacy_unit: Any, size: int) -> None:
    layout = FactorizationSpec(IntegerDomain(0, size - 1))
    spec = ReleaseSpec(Quantiles(layout), PrivacySpec(rho=0.5, summary_counts=None), privacy_unit, item="x")
    bits = 16 if isinstance(privacy_unit.bounds, NormBound) else 0
    terms = spec.resolved.terms
    room = layout.factor.room(bits + terms.grid_bits(spec.plan().sigma_squared[0]))
    assert not any("E515" in each for each in spec.plan(room - 1).warnings)
    assert any("E515" in each for each in spec.plan(room).warnings)

    def made(records: int, place: int) -> Any:
        raw = FactorHistogram(layout)
        raw._counters[place] = records << bits
        return release(raw.in_units_of(bits), terms)

    for place in (0, size // 2, size - 1):
        assert made(room - 1, place).total_weight().estimate == pytest.approx(room, rel=1e-3)
    with pytest.raises(ArgumentError, match="E515"):
        made(room + room // 500, size - 1)


def test_a_tree_below_a_factor_has_its_room_and_a_plain_one_has_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sketch_plan, "_expected_answers", lambda *_: {})  # of made-up data, which would take minutes
    domain, privacy_unit = IntegerDomain(0, (1 << 20) - 1), PrivacyId("who", NormBound(20, norm="l1"))
    for layout, is_full in ((TreeSpec.for_ranks(domain), True), (TreeSpec.for_memory(domain), False)):
        spec = ReleaseSpec(Quantiles(layout), PrivacySpec(rho=0.5), privacy_unit, item="x")
        assert any("E515" in each for each in spec.plan(1 << 29).warnings) == is_full
