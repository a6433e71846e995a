"""Quantiles and searches over small domains: where a histogram is the usual layout, its noise, what plans report."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from beam_dpsketch import (
    REPLACE_ONE,
    AutoNorm,
    DyadicCountSketch,
    FactorizationSpec,
    Horizon,
    IntegerDomain,
    KeySelection,
    Metric,
    Metrics,
    NormBound,
    PrivacyId,
    PrivacySpec,
    PublicKeys,
    Quantiles,
    Record,
    RecordBounds,
    ReleaseSpec,
    ReleaseTerms,
    TimeRange,
    TopKSearch,
    TreeSpec,
    plan,
    release_frame,
)
from beam_dpsketch.answers.released_sketch import ReleasedSketch
from beam_dpsketch.config import read_release
from beam_dpsketch.errors import ArgumentError
from beam_dpsketch.privacy.contributions import PrivacyUnit
from beam_dpsketch.privacy.noise.laws import Noise
from tests.helpers.binomials import binomial_tails

EPSILON, RHO, PURE = PrivacySpec(epsilon=1, delta=1e-6), PrivacySpec(rho=0.1), PrivacySpec(epsilon=1)
FALSE_ALARM = 1e-9


def of(size: int, privacy: PrivacySpec = EPSILON, privacy_unit: Any = None, **others: Any) -> ReleaseSpec:
    return ReleaseSpec(Quantiles(IntegerDomain(0, size - 1)), privacy, privacy_unit or Record(), item="value", **others)


def person(bounds: Any, **others: Any) -> PrivacyId:
    return PrivacyId("person", bounds, **others)


IN_ONE_KEY = person(RecordBounds(1, max_keys=1))
HISTOGRAMS: dict[str, Callable[[], ReleaseSpec]] = {
    "records": lambda: of(256),
    "records, epsilon alone": lambda: of(256, PURE),
    "records, in windows": lambda: of(256, windows=TimeRange(0, 86_400)),
    "records, of listed keys": lambda: of(256, keys=PublicKeys(["a", "b"], "key")),
    "people, one record each": lambda: of(200, privacy_unit=person(RecordBounds(1))),
    "people, an L1 norm": lambda: of(200, privacy_unit=person(NormBound(5, norm="l1"))),
    "people, an L1 norm, epsilon alone": lambda: of(200, PURE, person(NormBound(5, norm="l1"))),
    "people, a norm that the data choose": lambda: of(8, privacy_unit=person(AutoNorm())),
    "people, of L1, that the data choose": lambda: of(200, privacy_unit=person(AutoNorm(norm="l1"))),
    "people, in two keys": lambda: of(4, privacy_unit=person(AutoNorm()), keys=PublicKeys(["a", "b"], "key")),
    "named": lambda: ReleaseSpec(Quantiles(TreeSpec.histogram(IntegerDomain(0, 999))), RHO, Record(), item="value"),
    "in settings": lambda: read_release(
        "{kind: quantiles, item: value, domain: {type: integer, low: 0, high: 9}, privacy_unit: record, "
        "privacy: {epsilon: 1}}"
    ),
    "named in settings": lambda: read_release(
        "{kind: quantiles, item: value, domain: {type: integer, low: 0, high: 999}, layout: histogram, "
        "privacy_unit: record, privacy: {epsilon: 1, delta: 1.0e-6}}"
    ),
}
OTHERS: dict[str, tuple[Callable[[], ReleaseSpec], type]] = {
    "257 values": (lambda: of(257), FactorizationSpec),
    "a rho": (lambda: of(9, RHO), FactorizationSpec),
    "Gaussian noise": (lambda: of(9, PrivacySpec(epsilon=1, delta=1e-6, noise="gaussian")), FactorizationSpec),
    "more noise than a factor": (lambda: of(256, PrivacySpec(epsilon=0.1, delta=1e-5)), FactorizationSpec),
    "people in many keys": (
        lambda: of(64, privacy_unit=person(RecordBounds(1, max_keys=32)), keys=PublicKeys(range(64), "key")),
        FactorizationSpec,
    ),
    "chosen keys": (
        lambda: of(9, privacy_unit=person(RecordBounds(1, max_keys=1)), keys=KeySelection(1e-8, "key")),
        FactorizationSpec,
    ),
    "an L2 norm": (lambda: of(9, privacy_unit=person(NormBound(5))), TreeSpec),
    "9 values of people": (lambda: of(9, privacy_unit=person(AutoNorm())), TreeSpec),
    "8 values of people in three keys": (
        lambda: of(8, privacy_unit=person(AutoNorm()), keys=PublicKeys(["a", "b", "c"], "key")),
        TreeSpec,
    ),
    "over time": (lambda: of(9, windows=Horizon(0, 60, 4)), TreeSpec),
}


def flat(planned: Any) -> str:
    """Return the text of a plan in one line."""
    return " ".join(str(planned).split())


@pytest.mark.parametrize("name", HISTOGRAMS)
def test_a_histogram_is_usual_where_laplace_noise_suits_it(name: str) -> None:
    declared = HISTOGRAMS[name]()
    assert declared.spec == TreeSpec.histogram(declared.spec.domain)
    text, is_named = flat(declared.plan(10_000)), "named" in name
    assert f" Counters histogram: {declared.spec.domain.size:,} counters, " in text
    assert ("Layout a histogram with Laplace noise, for ranks; a square-root factorization " in text) is not is_named
    if name != "named":
        assert declared.terms.noise is Noise.LAPLACE
        assert "Noise discrete Laplace, scale = " in text


@pytest.mark.parametrize("name", OTHERS)
def test_elsewhere_the_layouts_are_those_of_wide_domains(name: str) -> None:
    make, layout = OTHERS[name]
    declared = make()
    assert isinstance(declared.spec, layout)
    assert declared.spec != TreeSpec.histogram(declared.spec.domain)
    assert declared.terms.noise is Noise.GAUSSIAN


def test_a_plan_says_what_the_others_would_give() -> None:
    words = "a square-root factorization has 1.10 times this noise at equal bounds; a plain tree has 1.22 times"
    assert words in flat(of(256).plan())
    more = of(256, PrivacySpec(epsilon=0.1, delta=1e-5)).plan()
    assert "Layout a square-root factorization, for ranks; a plain tree has 1.30 times" in flat(more)
    assert "; a histogram with Laplace noise has 1." in flat(more)
    assert "a square-root factorization needs a delta; a plain tree needs a delta Noise" in flat(of(256, PURE).plan())
    assert "histogram" not in str(of(256, RHO).plan())
    of_domain = plan(IntegerDomain(0, 9), ReleaseTerms(EPSILON))
    assert of_domain.spec == TreeSpec.histogram(IntegerDomain(0, 9))


def test_metrics_have_one_noise_so_layouts_are_those_of_gaussian_noise() -> None:
    quantiles = Quantiles(IntegerDomain(0, 9))
    (part,) = ReleaseSpec(Metrics({"a": Metric(quantiles, "x")}), EPSILON, Record()).spec.parts
    assert isinstance(part.spec, FactorizationSpec)


@pytest.mark.parametrize("size", [1, 2, 5, 256])
def test_a_norm_that_the_data_choose_is_that_of_short_lists_up_to_8_values(size: int) -> None:
    bounds = of(size, privacy_unit=person(AutoNorm())).privacy_unit.bounds
    assert bounds == (AutoNorm().suiting(size) if size <= 8 else AutoNorm())
    assert bounds.bound(5).norm == ("l1" if size <= 8 else "l2")  # type: ignore[attr-defined]


@pytest.mark.parametrize("relation", [REPLACE_ONE, None])
@pytest.mark.parametrize("bounds", [RecordBounds(1), RecordBounds(2), RecordBounds(1, max_weight=2, signed=True)])
def test_the_scale_is_the_largest_change_of_any_unit_over_epsilon(bounds: RecordBounds, relation: Any) -> None:
    """By brute force over all that a unit may have, before and after."""
    domain, epsilon = IntegerDomain(0, 3), Fraction(1, 2)
    weights = [each for each in range(bounds.min_weight, bounds.max_weight + 1) if each]
    records = [(value, weight) for value in range(4) for weight in weights]
    units = [()] + [
        chosen
        for count in range(1, bounds.max_records + 1)
        for chosen in itertools.combinations_with_replacement(records, count)
    ]
    counters = []
    for privacy_unit in units:
        raw = DyadicCountSketch(TreeSpec.histogram(domain))
        values, own = (np.array([each[place] for each in privacy_unit], dtype=np.int64) for place in (0, 1))
        counters.append(raw.accumulate_keys(values.astype(np.uint64), own).to_vector())
    others = counters if relation else [counters[0]]
    largest = max(int(np.abs(one - other).sum()) for one in counters for other in others)
    privacy = PrivacySpec(epsilon=epsilon, summary_counts=None, **({"relation": relation} if relation else {}))
    terms = ReleaseTerms(privacy, bounds, privacy_unit=PrivacyUnit.PRIVACY_ID)
    (parameter,) = plan(domain, terms).sigma_squared
    assert parameter == 2 * (largest / epsilon) ** 2


@pytest.mark.parametrize("epsilon", [0.5, 3.1])
def test_intervals_hold_of_released_histograms(epsilon: float) -> None:
    """At 90 %, of single values and of ranges that share none: noises are independent, so hits are binomial."""
    size, runs, firsts = 256, 12, np.arange(0, 255, 3)
    table, held = pa.table({"value": np.repeat(np.arange(size), 100)}), np.zeros(2)
    for _ in range(runs):
        released = release_frame(table, of(size, PrivacySpec(epsilon=epsilon, delta=1e-6)))
        answers = (
            (released.interval(np.arange(size), 0.9), 100),
            (released.range_interval(firsts, firsts + 2, 0.9), 300),
        )
        held += [np.count_nonzero((found.lower <= truth) & (truth <= found.upper)) for found, truth in answers]
    for found, asked in zip(held.astype(int).tolist(), (runs * size, runs * len(firsts)), strict=True):
        assert found >= 0.9 * asked or binomial_tails(found, asked, 0.9) > FALSE_ALARM / 2


def test_releases_are_stored_combined_and_compared() -> None:
    table = pa.table({"value": np.repeat(np.arange(10), 300)})
    one, other = (release_frame(table, of(10, PURE)) for _ in range(2))
    stored = ReleasedSketch.from_bytes(one.to_bytes())
    assert stored == one
    assert "a histogram over" in repr(stored)
    assert stored.privacy.noise is Noise.LAPLACE
    assert stored.quantile(0.55).estimate == 5
    both = one.combine(other)
    assert both.privacy.noise is Noise.SUM
    usual, surely = both.rank_interval(4), both.rank_interval(4, 1 - 1e-9)
    assert surely.lower < 3000 < surely.upper
    assert usual.upper - usual.lower < 30
    assert one.range_count(0, 9) == pytest.approx(3000, abs=100)
    change = one.minus(other).interval([3], 1 - 1e-9)
    assert change.lower[0] <= 0 <= change.upper[0]
    assert {each.item for each in one.top_k(10)} == set(range(10))


# Searches


def searched(size: int, privacy: PrivacySpec = EPSILON, privacy_unit: Any = None, **others: Any) -> ReleaseSpec:
    return ReleaseSpec(
        TopKSearch(IntegerDomain(0, size - 1), 3), privacy, privacy_unit or Record(), item="value", **others
    )


@pytest.mark.parametrize("size", [1, 2, 16, 17, 257, 65_536, 122_501, 1 << 17])
def test_a_search_has_a_histogram_that_takes_little_more_memory_than_a_tree(size: int) -> None:
    domain = IntegerDomain(0, size - 1)
    for declared in (searched(size), searched(size, RHO), searched(size, privacy_unit=person(NormBound(5)))):
        assert declared.spec == TreeSpec.histogram(domain)
    assert plan(domain, ReleaseTerms(EPSILON), search=True).spec == TreeSpec.histogram(domain)
    assert declared.spec.cells <= 1.07 * max(TreeSpec.for_search(domain).cells, 2)


def test_wider_domains_have_a_tree_and_layouts_are_as_given() -> None:
    wide, few = IntegerDomain(0, 1 << 17), TreeSpec.for_search(IntegerDomain(0, 999))
    assert TopKSearch(wide, 3).spec == TreeSpec.for_search(wide)
    assert "a tree for searches, because a histogram has room" in str(searched((1 << 17) + 1).plan())
    given = ReleaseSpec(TopKSearch(few, 3), EPSILON, Record(), item="value")
    assert given.spec == few
    assert "Layout" not in str(given.plan())
    with pytest.raises(ArgumentError, match=r"TreeSpec.histogram\(domain\).*E102"):
        ReleaseSpec(TopKSearch(few, 3), PURE, Record(), item="value").plan()


def test_a_plan_of_a_search_reports_what_a_tree_would_find() -> None:
    assert "Layout a histogram, one counter for each value; a tree for searches, 4,268 bytes, has 1.4" in flat(
        searched(1000, RHO).plan()
    )
    assert "bytes, needs a delta Noise" in flat(searched(1000, PURE).plan())
    assert "Layout a histogram, one counter for each value Noise" in flat(searched(16).plan())


def test_people_have_a_norm_l1_over_few_values() -> None:
    for size, norm in ((64, "l1"), (65, "l2")):
        bounds = searched(size, privacy_unit=person(AutoNorm())).privacy_unit.bounds
        assert bounds.bound(5).norm == norm  # type: ignore[attr-defined]


def test_the_most_frequent_values_are_found_by_epsilon_alone_and_deletions_count() -> None:
    """Noise of scale 1, or 30 where weights are signed: an error of 1,000 has a probability below 1e-14."""
    values = np.repeat([7, 300, 41, 5], [9_000, 6_000, 3_000, 500])
    settings = "{kind: top_k, k: 3, item: value, domain: {type: integer, low: 0, high: 999}, privacy_unit: record, "
    for declared in (searched(1000, PURE), read_release(settings + "privacy: {epsilon: 1}}")):
        released = release_frame(pa.table({"value": values}), declared)
        assert [each.item for each in released.top_k(3)] == [7, 300, 41]
        assert released.privacy.noise is Noise.LAPLACE
    table = pa.table({"value": [7, 300, 7], "n": pa.array([30, 20, -30])}).take(np.repeat(np.arange(3), 300))
    signed = Record(max_weight=30, signed=True)
    (found,) = release_frame(table, searched(1000, PURE, signed, weight="n")).top_k(1)
    assert found.item == 300


def test_a_search_beside_other_metrics_has_a_histogram() -> None:
    metrics = Metrics({"a": Metric(TopKSearch(IntegerDomain(0, 99), 3), "x")})
    (part,) = ReleaseSpec(metrics, EPSILON, Record()).spec.parts
    assert part.spec == TreeSpec.histogram(IntegerDomain(0, 99))
