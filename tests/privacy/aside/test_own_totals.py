"""Totals that the counters of a release sum to: where they replace a summary count, and how exact they are."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import pickle
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from beam_dpsketch import (
    AutoNorm,
    Horizon,
    IntegerDomain,
    ItemFrequencies,
    ListedItems,
    Metric,
    Metrics,
    NormBound,
    PrivacyId,
    PrivacySpec,
    Quantiles,
    Record,
    RecordBounds,
    ReleaseSpec,
    SketchSpec,
    Statistics,
    SummaryCounts,
    TreeSpec,
    release_frame,
)
from beam_dpsketch.answers.estimators import factor as factors
from beam_dpsketch.planning.kinds.layouts import layout_of
from beam_dpsketch.privacy.contributions import NeighboringRelation
from beam_dpsketch.privacy.factor.toeplitz import ToeplitzRoot
from beam_dpsketch.privacy.mechanism import Spending, sensitivity
from beam_dpsketch.privacy.noise.laws import Noise
from beam_dpsketch.privacy.summary_counts import summary_counts
from beam_dpsketch.statement.clipping import ClippingState

DOMAIN = IntegerDomain(0, 99)
SPENDINGS = {Noise.GAUSSIAN: Spending(Fraction(1, 10)), Noise.LAPLACE: Spending(Fraction(2), Fraction(2))}
BOUNDS = [NormBound(7), NormBound(7, norm="l1"), RecordBounds(3, max_keys=2, max_weight=5), Record(max_weight=9).bounds]
FALSE_ALARM = 1e-9


@pytest.mark.parametrize("relation", NeighboringRelation, ids=lambda relation: relation.name)
@pytest.mark.parametrize(("noise", "spending"), SPENDINGS.items(), ids=lambda each: getattr(each, "name", ""))
def test_weight_is_counted_aside_only_where_the_sum_of_counters_has_more_noise(
    noise: Noise, spending: Spending, relation: NeighboringRelation
) -> None:
    """The parameters of both are worked out, with all of the loss for the counters."""
    found = set()
    for bounds, share in itertools.product(BOUNDS, (Fraction(1, 50), Fraction(1, 5))):
        if noise is Noise.LAPLACE and bounds.total_weight is None:
            continue
        one = spending.parameter(sensitivity(bounds=bounds, relation=relation, cells_per_item=1, has_signs=False))
        for cells in (1, 4, 5, 24, 25, 50, 51, 79, 80, 800, 801, 2499, 2501, 9_999, 10_001):
            asked: Any = {"noise": noise, "total_cells": cells}
            kept = [
                each for each in summary_counts(SummaryCounts(weight=share), bounds, **asked) if "weight" in each.names
            ]
            (aside,) = (
                each
                for each in summary_counts(SummaryCounts(weight=share), bounds, noise=noise)
                if "weight" in each.names
            )
            is_closer = cells * one > spending.parameter(aside.sensitivity(relation), share=aside.share)
            assert kept == [aside] * is_closer
            found.add(is_closer)
    assert found == {False, True}


@pytest.mark.parametrize("size", [*range(1, 40), 255, 256, 1440, 4096, 1 << 17])
def test_the_total_of_a_factor_has_no_more_noise_than_it_is_said_to(size: int) -> None:
    factor = ToeplitzRoot(size)
    exact = float(factors.total_covariances(factor)[-1]) * factor.squared_length
    assert exact <= factor.total_cells <= 2 * exact + 1


UNITS: list[Any] = [
    Record(),
    Record(max_weight=3),
    PrivacyId("u", RecordBounds(1)),
    PrivacyId("u", RecordBounds(4, max_weight=3)),
    PrivacyId("u", NormBound(6)),
    PrivacyId("u", NormBound(6, norm="l1")),
    PrivacyId("u", AutoNorm()),
]


@pytest.mark.parametrize("spent", [{"rho": 0.1}, {"epsilon": 1, "delta": 1e-6}], ids=["rho", "epsilon"])
@pytest.mark.parametrize("privacy_unit", UNITS, ids=str)
def test_quantiles_and_statistics_never_pay_for_weight(privacy_unit: Any, spent: dict[str, Any]) -> None:
    """A counter of units is weight too, where these are equal; it stays if it is closer than the sum."""
    for count in (Quantiles(DOMAIN), Quantiles(IntegerDomain(0, 1 << 20)), Statistics(DOMAIN, variance=True)):
        over_time = isinstance(privacy_unit, Record) or isinstance(privacy_unit.bounds, NormBound)
        for windows in (None, Horizon(0, 3600, 8))[: 1 + over_time]:
            declared = ReleaseSpec(count, PrivacySpec(**spent), privacy_unit, "i", windows=windows)
            paid = [each.names for each in declared.terms.counters if "weight" in each.names]
            assert paid in ([], [("units", "records", "weight")])
            assert not any("records" in each for each in paid) or not declared.privacy_unit.bounds.has_weights
            assert declared.terms.total_cells is not None
    sketch = ReleaseSpec(ItemFrequencies(SketchSpec()), PrivacySpec(**spent), privacy_unit, "i")
    assert "weight" in {name for each in sketch.terms.counters for name in each.names}


@pytest.mark.parametrize("bits", [1, 3, 6, 10, 16, 20, 32])
def test_usual_layouts_tell_their_total_as_exactly_as_a_fiftieth_of_rho(bits: int) -> None:
    for domain in (IntegerDomain(0, (1 << bits) - 1), IntegerDomain(0, (1 << bits) + 5)):
        layouts = [layout_of(domain), layout_of(domain, needs_tree=True), TreeSpec.for_memory(domain, 1 << 20)]
        assert max(each.total_cells or 99 for each in layouts) <= 50


def test_explain_names_what_is_not_paid_for() -> None:
    privacy_unit = PrivacyId("u", NormBound(6))
    plans = [
        str(ReleaseSpec(ItemFrequencies(spec), PrivacySpec(rho=0.1), privacy_unit, "i").plan())
        for spec in (SPEC, SketchSpec())
    ]
    assert "the total from the counters themselves, without a budget share" in plans[0]
    assert "weight after clipping" not in plans[0]
    assert "weight after clipping ±" in plans[1]
    assert "the total from the counters" not in plans[1]
    assert not any("records ±" in plan for plan in plans)


SPEC = ListedItems(range(8))
RECORDS = 400
TABLE = pa.table(
    {"u": [str(number) for number in range(RECORDS)], "i": np.arange(RECORDS) % 8, "w": np.arange(RECORDS) % 4}
)
KINDS: dict[str, Any] = {
    "list": ItemFrequencies(SPEC),
    "count_min": ItemFrequencies(SketchSpec(kind="count_min", depth=3, width=4)),
    "tree": Quantiles(TreeSpec.for_memory(DOMAIN)),
    "histogram": Quantiles(TreeSpec.histogram(IntegerDomain(0, 15))),
    "factor": Quantiles(DOMAIN),
    "statistics": Statistics(DOMAIN, variance=True),
}


def held_with(kind: str, spent: dict[str, Any], privacy_unit: Any, scale: float = 1.0) -> float:
    """How probable it is that so few intervals of the total hold, if 95 % of them should."""
    declared, times = ReleaseSpec(KINDS[kind], PrivacySpec(**spent), privacy_unit, "i", weight="w"), 150
    truth, held = sum(TABLE["w"].to_pylist()), 0
    for _ in range(times):
        note = release_frame(TABLE, declared).privacy.note("weight")
        estimate, lower, upper = note.interval(0.95)
        held += estimate - scale * (estimate - lower) <= truth <= estimate + scale * (upper - estimate)
    return float(stats.binomtest(held, times, 0.95, "less").pvalue)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_intervals_of_totals_hold(kind: str) -> None:
    """False alarm below 1e-9 in all. Intervals of half the width are found out."""
    people = PrivacyId("u", NormBound(3, max_weight=3, norm="l1"))
    for spent in ({"rho": 0.5}, {"epsilon": 1, "delta": 1e-6, "noise": "laplace"}):
        if "epsilon" in spent and not KINDS[kind].spec.takes_laplace:
            continue
        for privacy_unit in (Record(max_weight=3), people):
            assert held_with(kind, spent, privacy_unit) >= FALSE_ALARM / 24
    assert held_with(kind, {"rho": 0.5}, people, 0.3) < FALSE_ALARM


HEAVY = pa.table({"u": [str(number % 500) for number in range(20_000)], "i": np.arange(20_000) % 8})  # 40 of each


def test_a_difference_has_the_clipping_of_both_sides() -> None:
    """Its own counters are near 0, and are not what is kept."""
    declared = ReleaseSpec(ItemFrequencies(SPEC), PrivacySpec(rho=5), PrivacyId("u", NormBound(4)), "i")
    first, second = (release_frame(HEAVY, again(declared)) for _ in range(2))
    both, difference = first.combine(second), first.minus(second)
    assert both.clipping().state is ClippingState.ESTIMATED
    assert difference.clipping() == both.clipping()
    assert difference.interval([1, 2]).clipping == both.clipping()
    assert difference.privacy.note("weight") == both.privacy.note("weight")


def again(declared: ReleaseSpec) -> ReleaseSpec:
    """Return an equal declaration: one that is used twice is a warning."""
    return ReleaseSpec(declared.count, PrivacySpec(rho=5), declared.privacy_unit, "i")


@pytest.mark.parametrize(("bounds", "is_asked"), [(NormBound(4), True), (NormBound(4, max_per_item=1), False)])
def test_ids_of_one_record_are_noted_without_a_counter_of_records(bounds: Any, is_asked: bool) -> None:
    """Where more of one item are left out, nothing tells how many records an id has."""
    table = pa.table({"u": [str(number) for number in range(20_000)], "i": np.arange(20_000) % 8})
    declared = ReleaseSpec(ItemFrequencies(SPEC), PrivacySpec(rho=50), PrivacyId("u", bounds), "i")
    released = release_frame(table, declared)
    assert released.privacy.note("records") is None
    assert ("one_record_each" in [note.code for note in released.notes]) == is_asked


FEW = {
    "list": lambda size: ItemFrequencies(ListedItems(range(size))),
    "histogram": lambda size: Quantiles(TreeSpec.histogram(IntegerDomain(0, size - 1))),
}


@pytest.mark.parametrize("kind", FEW)
@pytest.mark.parametrize("epsilon", [0.5, 1, 2, 2.5, 3, 3.2, 4, 6])
def test_intervals_of_totals_hold_by_the_exact_law_of_few_laplace_noises(kind: str, epsilon: float) -> None:
    """On whole records, where one step holds up to half of the mass; also of two releases together."""
    for size in (1, 2, 3, 5, 20):
        declared = ReleaseSpec(FEW[kind](size), PrivacySpec(epsilon=epsilon, summary_counts=None), Record(), "i")
        one, other = (
            release_frame(pa.table({"i": [0]}), dataclasses.replace(declared, privacy=PrivacySpec(**spent)))
            for spent in 2 * [{"epsilon": epsilon, "summary_counts": None}]
        )
        assert one.privacy.noise is Noise.LAPLACE
        law = law_of_noise(float(one.privacy.sigma_squared))
        for released, cells in ((one, size), (one.combine(other), 2 * size)):
            total = functools.reduce(np.convolve, cells * [law])
            steps = np.arange(len(total)) - len(total) // 2
            for confidence in (0.5, 0.8, 0.9, 0.95, 0.99):
                estimate, lower, upper = released.total_weight(confidence)
                assert estimate == round(estimate)
                reach = min(estimate - lower, upper - estimate) if lower > 0 else upper - estimate
                assert total[np.abs(steps) <= reach].sum() >= confidence


def law_of_noise(parameter: float, most: int = 60) -> np.ndarray:
    """The probabilities of -most to most of the discrete Laplace of a scale, with 2 scale^2 as the parameter."""
    p = math.exp(-1 / math.sqrt(parameter / 2))
    found = (1 - p) / (1 + p) * p ** np.abs(np.arange(-most, most + 1))
    return np.asarray(found / found.sum())


def test_a_difference_that_is_copied_has_the_same_clipping() -> None:
    declared = ReleaseSpec(
        ItemFrequencies(ListedItems(range(3))), PrivacySpec(rho=5), PrivacyId("u", NormBound(8)), "i"
    )
    first, second = (release_frame(HEAVY, again(declared)) for _ in range(2))
    difference = first.minus(second)
    copied = pickle.loads(pickle.dumps(difference))
    assert copied.clipping() == difference.clipping() == first.combine(second).clipping()
    assert str(copied) == str(difference)
    assert np.array_equal(copied.estimate([0, 1]), difference.estimate([0, 1]))


def test_the_total_of_one_metric_has_an_upper_end_and_statements_list_it() -> None:
    metrics = Metrics({"a": Metric(ItemFrequencies(ListedItems(range(8))), "i")})
    released = release_frame(HEAVY, ReleaseSpec(metrics, PrivacySpec(rho=5), PrivacyId("u", NormBound(8))))
    assert released["a"].total_weight().upper < math.inf
    alone = release_frame(HEAVY, ReleaseSpec(ItemFrequencies(ListedItems(range(8))), PrivacySpec(rho=5), Record(), "i"))
    assert alone.privacy.as_dict()["own_total"]["estimate"] == alone.total_weight().estimate
