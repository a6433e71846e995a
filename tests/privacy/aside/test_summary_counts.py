"""Summary counts: limits, sensitivities, which of them are one, and shares that add up to rho exactly."""

from __future__ import annotations

import math
import pickle
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_dpsketch import (
    ADD_OR_REMOVE_ONE,
    REPLACE_ONE,
    NormBound,
    PrivacyBudget,
    PrivacySpec,
    Record,
    RecordBounds,
    ReleaseTerms,
    SketchSpec,
)
from beam_dpsketch.answers.privacy_statement import PrivacyStatement
from beam_dpsketch.errors import BudgetExceededError
from beam_dpsketch.noise.calibration import calibrate
from beam_dpsketch.privacy.contributions import Bounds, NeighboringRelation, PrivacyUnit
from beam_dpsketch.privacy.mechanism import Randomness, Spending
from beam_dpsketch.privacy.noise.laws import Noise, scale_of
from beam_dpsketch.privacy.norm.bounds import AutoNorm
from beam_dpsketch.privacy.over_time.binned import BinaryTree
from beam_dpsketch.privacy.summary_counts import SummaryCount, SummaryCounts, share_left, summary_counts
from beam_dpsketch.privacy.terms import RowTerms
from tests.helpers.norms import UNIT
from tests.helpers.side_sums import EVERY, NAMES

FIFTIETH = Fraction(1, 50)
NORM = NormBound(Fraction(5, 2), max_weight=9)
every_relation = pytest.mark.parametrize("relation", NeighboringRelation, ids=lambda relation: relation.name)


def by_name(bounds: Bounds, shares: SummaryCounts | None = None, **settings: Any) -> dict[str, SummaryCount]:
    found = summary_counts(EVERY if shares is None else shares, bounds, clips=True, **settings)
    return {name: counter for counter in found for name in counter.names}


def test_each_counter_has_a_fiftieth_and_the_sketch_has_the_rest() -> None:
    found = by_name(NORM)
    assert {name: counter.share for name, counter in found.items()} == {
        "units": FIFTIETH,
        "records": FIFTIETH,
        "weight": FIFTIETH,
        "clipped": FIFTIETH / 2,
        "scaled": FIFTIETH / 2,
    }
    assert share_left(tuple(found.values())) == Fraction(23, 25)
    # Noise of the sketch grows by less than 5 %.
    assert float(1 / share_left(tuple(found.values()))) ** 0.5 < 1.05


def test_limits_under_a_norm() -> None:
    norm = Fraction(5, 2)
    limits = {name: counter.squared_limit for name, counter in by_name(NORM, max_cells=3).items()}
    assert limits == {
        "units": 3,
        "scaled": 3,
        "records": (4 * norm) ** 2,
        "weight": (4 * norm) ** 2,
        "clipped": norm**2,
    }
    assert by_name(NORM)["units"].squared_limit == by_name(NORM)["scaled"].squared_limit == 6
    assert by_name(NormBound(Fraction(1, 2)))["units"].squared_limit == 1
    assert [name for name, counter in by_name(NORM).items() if counter.signed] == []
    signed = NormBound(3, max_weight=9, signed=True)
    assert [name for name, counter in by_name(signed).items() if counter.signed] == ["weight"]


@pytest.mark.parametrize("signed", [False, True])
def test_limits_under_record_bounds(signed: bool) -> None:
    found = by_name(RecordBounds(4, max_keys=3, max_weight=7, signed=signed))
    assert {name: counter.squared_limit for name, counter in found.items()} == {
        "units": 3,
        "records": 3 * 4**2,
        "weight": 3 * 28**2,
    }
    assert [name for name, counter in found.items() if counter.signed] == ["weight"] * signed


@pytest.mark.parametrize(
    ("bounds", "groups"),
    [
        (Record().bounds, [("units", "records", "weight")]),
        (Record(max_weight=1).bounds, [("units", "records", "weight")]),
        (Record(max_weight=5).bounds, [("units", "records"), ("weight",)]),
        (Record(signed=True).bounds, [("units", "records"), ("weight",)]),
        (RecordBounds(1, max_keys=4), [("units", "records", "weight")]),
        (RecordBounds(3), [("units",), ("records", "weight")]),
        (RecordBounds(3, max_weight=2), [("units",), ("records",), ("weight",)]),
        (RecordBounds(3, signed=True), [("units",), ("records",), ("weight",)]),
        (NormBound(1), [(name,) for name in NAMES]),
        (NormBound(20, max_per_item=1), [(name,) for name in NAMES]),
    ],
)
def test_counters_that_are_equal_by_definition_are_one(bounds: Bounds, groups: list[tuple[str, ...]]) -> None:
    assert [counter.names for counter in summary_counts(EVERY, bounds, clips=True)] == groups
    largest = SummaryCounts(units=0.01, records=0.05, weight=0.02)
    for counter in summary_counts(largest, bounds):
        if counter.name not in ("clipped", "scaled"):
            shares = {"units": Fraction(1, 100), "records": Fraction(1, 20), "weight": FIFTIETH}
            assert counter.share == max(shares[name] for name in counter.names)


def test_counters_can_be_left_out() -> None:
    assert summary_counts(None, NORM) == ()
    assert share_left(()) == 1
    none = SummaryCounts(units=None, weight=None, clipping=None)
    assert summary_counts(none, NORM) == summary_counts(none, RecordBounds(1)) == ()
    assert set(by_name(NORM, SummaryCounts(clipping=None))) == {"units", "weight"}
    assert set(by_name(NORM, SummaryCounts(clipping=None, weight=None, records=0.1))) == {"units", "records"}
    assert set(by_name(NORM, SummaryCounts(units=None, weight=None))) == {"clipped", "scaled"}
    # What is equal by definition comes for nothing.
    assert set(by_name(RecordBounds(1), SummaryCounts(units=None))) == {"units", "records", "weight"}


@every_relation
@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("windows", [1, 5])
def test_sensitivities(relation: NeighboringRelation, signed: bool, windows: int) -> None:
    counter = SummaryCount(("weight",), FIFTIETH, Fraction(9), signed)
    factors = {ADD_OR_REMOVE_ONE: 1, REPLACE_ONE: 4 if signed else 2}
    squared = counter.sensitivity(relation, reach=windows).squared
    assert squared == 9 * windows * factors[relation]
    sigma = Spending(Fraction(1, 10)).parameter(counter.sensitivity(relation, reach=windows), share=counter.share)
    assert sigma == squared / (2 * Fraction(1, 10) * FIFTIETH)


@pytest.mark.parametrize("shares", [{"units": 0}, {"records": 1}, {"weight": -0.1}, {"clipping": 2}])
def test_shares_are_between_0_and_1(shares: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="must be greater than 0 and less than 1"):
        SummaryCounts(**shares)


def test_shares_leave_a_part_for_the_sketch() -> None:
    with pytest.raises(ValueError, match="must sum to less than 1"):
        SummaryCounts(units=0.5, records=0.25, weight=0.25)
    counters = summary_counts(SummaryCounts(units=0.5, records=0.25), NORM)
    with pytest.raises(ValueError, match="must sum to less than 1"):
        share_left(counters, Fraction(1, 4))
    with pytest.raises(TypeError, match="units must be a number"):
        SummaryCounts(units="1/50")  # type: ignore[arg-type]
    assert SummaryCounts(units=0.1).units == Fraction(1, 10)


def test_a_limit_of_cells_is_a_whole_number() -> None:
    with pytest.raises(ValueError, match="max_cells must be between"):
        summary_counts(SummaryCounts(), NORM, max_cells=0)
    with pytest.raises(TypeError, match="bounds must be"):
        summary_counts(SummaryCounts(), 3)  # type: ignore[arg-type]


@pytest.mark.parametrize("bits", [0, 16])
@pytest.mark.parametrize("signed", [False, True])
def test_sizes_of_every_length_are_limited(bits: int, signed: bool) -> None:
    """Sums that wrapped around too; and a unit of the largest sizes still reaches its limit."""
    limit = 1 << 40
    counter = SummaryCount(("weight",), FIFTIETH, Fraction(limit), signed)
    ends = [(1 << 63) - 1, -(1 << 63), 1 - (1 << 63), 1 << 62, 1 << 45, 1 << 31, (1 << 20) + 1, 5, -5, 0]
    values = np.array([*ends, *ends, *ends[4:], 1 << 20], dtype=np.int64)
    units = np.array([*range(len(ends)), *([len(ends)] * len(ends)), *([len(ends) + 1] * len(ends[4:])), len(ends) + 2])
    found = counter.limited(values, units, bits=bits)
    for privacy_unit in set(units.tolist()):
        length = sum(int(each) ** 2 for each in found[units == privacy_unit])
        assert length <= limit * UNIT**2
        own = [value if signed else max(value, 0) for value in values[units == privacy_unit].tolist()]
        if sum(value**2 for value in own) > limit * UNIT**2:
            assert length > limit * UNIT**2 * (1 - 1e-6)
    assert np.all((np.sign(found) == np.sign(values)) | (found == 0))
    assert signed or found.min() >= 0
    assert found[-1] == (1 << 20) * UNIT >> bits  # within the limit


def test_a_spec_carries_the_shares() -> None:
    shares = SummaryCounts(units=0.1)
    spec = PrivacySpec(rho=0.5, summary_counts=shares)
    assert spec.summary_counts == shares == spec.without_budget().summary_counts == spec.paying_for(1).summary_counts
    assert PrivacyBudget(rho=1, summary_counts=shares).spend(rho=0.5).summary_counts == shares
    assert pickle.loads(pickle.dumps(spec)) == spec
    assert PrivacySpec(rho=0.5).summary_counts == PrivacyBudget(rho=1).spend(rho=0.5).summary_counts == SummaryCounts()
    assert PrivacySpec(rho=0.5, summary_counts=None).summary_counts is None
    assert PrivacyBudget(rho=1, summary_counts=None).spend(rho=0.5).summary_counts is None
    assert len({PrivacySpec(rho=0.5), PrivacySpec(rho=0.5, summary_counts=None), spec}) == 3
    with pytest.raises(TypeError, match="summary_counts must be a SummaryCounts"):
        PrivacySpec(rho=0.5, summary_counts=0.1)  # type: ignore[arg-type]


def test_a_spec_without_summary_counts_is_of_the_same_budget() -> None:
    spec = PrivacyBudget(rho=1).spend(rho=0.5)
    without = spec.with_summary_counts()
    assert without == PrivacySpec(rho=0.5, summary_counts=None)
    without.paying_for("first")
    with pytest.raises(BudgetExceededError, match="has already paid for another release"):
        spec.paying_for("second")


def test_terms_leave_the_rest_to_the_sketch() -> None:
    spec, every, none = SketchSpec(width=8), PrivacySpec(rho=1), PrivacySpec(rho=1, summary_counts=None)
    of_people: Any = {"privacy_unit": PrivacyUnit.PRIVACY_ID}
    for terms, share in (
        (ReleaseTerms(none), Fraction(1)),
        (ReleaseTerms(every), Fraction(49, 50)),  # units, records and weight are one
        (ReleaseTerms(every).without_summary_counts(), Fraction(1)),
        (ReleaseTerms(every, RecordBounds(2, max_weight=3), **of_people), Fraction(47, 50)),
        (ReleaseTerms(every, NORM, **of_people), Fraction(47, 50)),
        (ReleaseTerms(every, NORM, norm_share=Fraction(1, 20), **of_people), Fraction(47, 50) - Fraction(1, 20)),
        (ReleaseTerms(none, NORM, norm_share=Fraction(1, 20), **of_people), Fraction(19, 20)),
        (
            RowTerms(every, privacy_unit=PrivacyUnit.RECORD_OVER_HORIZON, window_count=3, mechanism=BinaryTree(8)),
            Fraction(49, 50),
        ),
    ):
        assert terms.share_left == share
        # Of the nodes that three windows are in, over those of one: (3 + 4 + 1 + 9 + 9) / 4.
        factor = Fraction(26, 4) if terms.privacy_unit.over_horizon else 1
        assert calibrate(spec, terms) == (factor * spec.depth * terms.bounds.squared_length / (2 * share),)


def test_terms_with_an_automatic_norm_keep_its_part() -> None:
    before = ReleaseTerms(PrivacySpec(rho=1), AutoNorm(0.1, max_weight=7), privacy_unit=PrivacyUnit.PRIVACY_ID)  # type: ignore[arg-type]
    after = before.under(Fraction(5, 2))
    assert after.bounds == NormBound(Fraction(5, 2), max_weight=7)
    assert (before.norm_share, after.norm_share) == (None, Fraction(1, 10))
    assert before.share_left == after.share_left == Fraction(47, 50) - Fraction(1, 10)
    half = PrivacySpec(rho=1, summary_counts=SummaryCounts(units=0.5))
    with pytest.raises(ValueError, match="must sum to less than 1"):
        ReleaseTerms(half, AutoNorm(Fraction(1, 2)), privacy_unit=PrivacyUnit.PRIVACY_ID)


@pytest.mark.parametrize(("cells", "windows", "limit"), [(1, 1, 1), (4, 1, 4), (1, 3, 1), (None, 1, 6)])
def test_terms_know_in_how_many_cells_a_unit_counts(cells: Any, windows: int, limit: int) -> None:
    terms = ReleaseTerms(
        PrivacySpec(rho=1), NORM, privacy_unit=PrivacyUnit.PRIVACY_ID, output_cells=cells, window_count=windows
    )
    assert terms.counters[0].squared_limit == limit


def test_terms_refuse_no_cells() -> None:
    with pytest.raises(ValueError, match="output_cells must be between 1"):
        ReleaseTerms(PrivacySpec(rho=1), output_cells=0)


@given(
    values=st.lists(st.tuples(st.integers(0, 3), st.integers(-(1 << 40), 1 << 40)), min_size=1, max_size=30),
    limit=st.integers(1, 1 << 20),
    signed=st.booleans(),
    bits=st.sampled_from([0, 16]),
)
def test_the_sum_of_sizes_is_limited_where_it_counts(
    values: list[tuple[int, int]], limit: int, signed: bool, bits: int
) -> None:
    """Order 1: over all cells of a unit, numbers sum to the limit at most; what is within it stays."""
    units, sizes = (np.array(column, dtype=np.int64) for column in zip(*values, strict=True))
    units = np.unique(units, return_inverse=True)[1]
    counter = SummaryCount(("weight",), FIFTIETH, Fraction(limit**2), signed, Fraction(limit))
    found = counter.limited(sizes, units, bits=bits)
    for privacy_unit in set(units.tolist()):
        own = sizes[units == privacy_unit] if signed else np.maximum(sizes[units == privacy_unit], 0)
        total = int(np.abs(own).sum())
        assert int(np.abs(found[units == privacy_unit]).sum()) <= limit * UNIT
        if total <= limit << bits:
            assert found[units == privacy_unit].tolist() == (own << np.int64(16 - bits)).tolist()


def test_a_limit_of_squares_would_not_limit_the_sum() -> None:
    four = np.full(4, 100, dtype=np.int64)
    by_squares = SummaryCount(("weight",), FIFTIETH, Fraction(100**2))
    assert by_squares.limited(four, np.zeros(4, dtype=np.int64), bits=0).sum() > 150 * UNIT
    by_sums = by_squares._replace(limit=Fraction(100))
    assert 99.9 * UNIT < by_sums.limited(four, np.zeros(4, dtype=np.int64), bits=0).sum() <= 100 * UNIT


@pytest.mark.parametrize("relation", [ADD_OR_REMOVE_ONE, REPLACE_ONE])
def test_laplace_noise_has_usual_shares_of_its_own_and_parts_sum_to_epsilon(relation: NeighboringRelation) -> None:
    epsilon, bounds = Fraction(2), NormBound(6, norm="l1")
    spending = Spending(epsilon**2 / 2, epsilon)
    counters = summary_counts(EVERY, bounds, max_cells=3, noise=Noise.LAPLACE)
    assert [each.share for each in counters] == [Fraction(1, 100), Fraction(1, 200), Fraction(1, 100)]
    assert [each.limit for each in counters] == [3, 6, 6]
    spent = [
        each.sensitivity(relation).total / scale_of(spending.parameter(each.sensitivity(relation), share=each.share))
        for each in counters
    ]
    assert sum(spent) == epsilon * Fraction(1, 40)
    given = SummaryCounts(units=0.03, clipping=0.1)
    assert [given.share(name, Noise.LAPLACE) * 100 for name in ("units", "records", "weight", "clipping")] == [
        3,
        0,
        1,
        10,
    ]
    assert [each.limit for each in summary_counts(EVERY, NormBound(6), noise=Noise.GAUSSIAN)] == [None] * 3


@given(st.lists(st.integers(0, 200), min_size=1, max_size=9), st.fractions(1, 900, max_denominator=16))
def test_under_a_norm_l1_all_of_the_scaled_weight_counts(values: list[int], norm: Fraction) -> None:
    """It cannot exceed the norm, so `total_weight()` has an upper end; under an L2 norm it may."""
    sizes = np.array(values, dtype=np.int64) << 16
    total = Fraction(int(sizes.sum()), 1 << 16)
    factor = min(Fraction(1), norm / total) if total else Fraction(1)
    scaled = np.array([math.floor(int(size) * factor) for size in sizes], dtype=np.int64)
    (weight,) = (each for each in summary_counts(SummaryCounts(), NormBound(norm, norm="l1")) if each.name == "weight")
    counted = weight.limited(scaled, np.zeros(len(values), dtype=np.int64), bits=16)
    assert abs(int(counted.sum()) - int(scaled.sum())) <= len(values)
    at_least = [
        PrivacyStatement.of(
            ReleaseTerms(PrivacySpec(rho=1), NormBound(norm, norm=order), privacy_unit=PrivacyUnit.PRIVACY_ID),
            (Fraction(1),),
            randomness=Randomness.SYSTEM,
            release_id=bytes(48),
        ).is_at_least("weight")
        for order in ("l1", "l2")
    ]
    assert at_least == [False, True]
