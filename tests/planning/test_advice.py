"""Advice is what a plan of the other setting says, needs no more than brute force finds, and follows the known laws.

Plans say losses in words.
"""

from __future__ import annotations

import dataclasses
import math
import re
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_dpsketch import (
    DyadicCountSketch,
    Horizon,
    IntegerDomain,
    IPv4Domain,
    ListedItems,
    NormBound,
    PrivacyId,
    PrivacySpec,
    Record,
    RecordBounds,
    ReleaseTerms,
    SketchSpec,
    TreeSpec,
    plan,
    release,
)
from beam_dpsketch.answers.estimators.row_mean import noise_margin
from beam_dpsketch.cli.planning import in_words
from beam_dpsketch.config import read_release
from beam_dpsketch.noise.calibration import calibrate
from beam_dpsketch.planning import advice as advising
from beam_dpsketch.planning.advice import Advice
from beam_dpsketch.planning.expected_error import noise_rank_deviation
from beam_dpsketch.privacy.contributions import Bounds, NeighboringRelation, PrivacyUnit
from beam_dpsketch.privacy.loss import gaussian_curve
from beam_dpsketch.privacy.norm.bounds import AutoNorm
from beam_dpsketch.privacy.summary_counts import SummaryCounts
from beam_dpsketch.transforms import PrivateFrequencies, PrivateQuantiles, PrivateTopK

SPECS: dict[str, Any] = {
    "listed items": ListedItems(range(500)),
    "count_sketch": SketchSpec(width=512),
    "count_min": SketchSpec(kind="count_min", width=512),
    "exact tree": TreeSpec.for_memory(IntegerDomain(0, 1000)),
    "mixed tree": TreeSpec.for_memory(IPv4Domain(), 50_000),
    "search": TreeSpec.for_memory(IntegerDomain(0, 1000)),
}
ROUNDED = {"listed items": 1}
"""By how much an error may exceed what is proportional to the noise."""
every_spec = pytest.mark.parametrize("name", SPECS)
every_relation = pytest.mark.parametrize("relation", NeighboringRelation)


def terms_of(bounds: Bounds, privacy_unit: PrivacyUnit = PrivacyUnit.PRIVACY_ID, **privacy: Any) -> ReleaseTerms:
    privacy = privacy if "rho" in privacy else {"epsilon": 2, "delta": 1e-6, "noise": "gaussian"} | privacy
    return ReleaseTerms(PrivacySpec(**privacy), bounds, privacy_unit=privacy_unit)


def advice(name: str, terms: ReleaseTerms, **arguments: Any) -> Advice:
    found = plan(SPECS[name], terms, search=name == "search", **arguments).advice
    assert found is not None
    return found


def error_of_plan(name: str, terms: ReleaseTerms) -> float:
    """Return what a plan says of its own terms."""
    planned = plan(SPECS[name], terms, search=name == "search")
    if planned.detection is not None:
        return planned.detection.likely
    return noise_rank_deviation(SPECS[name], planned.sigma_squared) if "tree" in name else planned.half_width


@pytest.mark.one_fast_case
@every_spec
@every_relation
@pytest.mark.parametrize("bounds", [NormBound(7), RecordBounds(7)], ids=["norm", "records"])
def test_errors_grow_in_proportion_to_the_bound(name: str, relation: NeighboringRelation, bounds: Bounds) -> None:
    found = advice(name, terms_of(bounds, relation=relation))
    assert [each.setting for each in found.by_bound] == [2, 5, 7, 10, 20]
    errors = {each.setting: each.error for each in found.by_bound}
    assert errors[7] == error_of_plan(name, terms_of(bounds, relation=relation))
    for size, error in errors.items():
        assert error == pytest.approx(errors[7] * size / 7, rel=1e-9, abs=(1 + size / 7) * ROUNDED.get(name, 0) + 1e-9)


@every_relation
def test_the_half_width_of_a_sketch_is_that_of_the_formula(relation: NeighboringRelation) -> None:
    """Sigma = Delta / sqrt(2 rho); Delta = b sqrt(depth), and twice that where one unit is replaced."""
    found = advice("count_sketch", terms_of(NormBound(7), relation=relation, summary_counts=None))
    rho = gaussian_curve.rho(epsilon=2, delta=1e-6)
    for size, error in found.by_bound:
        largest = float(size) * math.sqrt(5) * (2 if relation is NeighboringRelation.REPLACE_ONE else 1)
        assert error == pytest.approx(noise_margin(5, 0.95) * largest / math.sqrt(2 * rho))


@pytest.mark.one_fast_case
@every_spec
@every_relation
@pytest.mark.parametrize("shares", [None, SummaryCounts()], ids=["alone", "summary counts"])
def test_each_epsilon_has_the_error_of_its_own_plan(name: str, relation: NeighboringRelation, shares: Any) -> None:
    terms = terms_of(NormBound(7), relation=relation, summary_counts=shares)
    found = advice(name, terms)
    assert [each.setting for each in found.by_epsilon] == pytest.approx([0.5, 1, 2, 4, 8])
    assert found.by_epsilon[2].error == error_of_plan(name, terms)
    for epsilon, error in found.by_epsilon:
        other = terms_of(NormBound(7), relation=relation, summary_counts=shares, epsilon=epsilon)
        assert error == pytest.approx(error_of_plan(name, other), rel=1e-6)
        ratio = math.sqrt(terms.privacy.rho / other.privacy.rho)
        rounded = ROUNDED.get(name, 0) * (1 + ratio) + 1e-9
        assert error == pytest.approx(found.by_epsilon[2].error * ratio, rel=1e-6, abs=rounded)


@pytest.mark.one_fast_case
@every_spec
@pytest.mark.parametrize("wanted", [0.5, 0.037, "0.01"])
def test_no_smaller_weight_and_no_fewer_people_are_enough(name: str, wanted: Any) -> None:
    terms = terms_of(NormBound(7))
    needed = advice(name, terms, target_error=Fraction(wanted) if isinstance(wanted, str) else wanted).needed
    error, share = Fraction(error_of_plan(name, terms)), Fraction(str(wanted))
    low, high = 0, 1 << 50
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if error <= share * middle else (middle, high)
    assert (needed.target_error, needed.weight, needed.each) == (share, high, 7)
    assert needed.people == next(people for people in range(1 << 30) if 7 * people >= high)


@given(
    st.sampled_from([name for name in SPECS if name != "mixed tree"]),
    st.fractions(1, 1000, max_denominator=16),
    st.floats(0.1, 5),
    st.fractions(Fraction(1, 1000), Fraction(1, 2)),
)
def test_the_laws_hold(name: str, norm: Fraction, epsilon: float, wanted: Fraction) -> None:
    """Errors grow with the norm and fall with epsilon; people fall with both, but not with the norm."""
    terms = terms_of(NormBound(norm), epsilon=epsilon)
    found = advice(name, terms, target_error=wanted)
    for errors, sign in ((found.by_bound, 1), (found.by_epsilon, -1)):
        assert [each.setting for each in errors] == sorted(each.setting for each in errors)
        steps = np.diff([sign * each.error for each in errors])
        assert (steps >= 0 if name in ROUNDED else steps > 0).all()
    assert found.bound == norm
    assert norm in [each.setting for each in found.by_bound]
    ten = advice(name, terms_of(NormBound(10 * norm), epsilon=epsilon), target_error=wanted)
    more = advice(name, terms_of(NormBound(norm), epsilon=2 * epsilon), target_error=wanted)
    assert more.needed.weight <= found.needed.weight <= ten.needed.weight
    rounded = 2 + ROUNDED.get(name, 0) / (norm * wanted)
    assert abs(found.needed.people - ten.needed.people) <= rounded + found.needed.people * 1e-9


@pytest.mark.one_fast_case
@every_spec
def test_a_norm_that_the_data_choose_is_shown_for_many_norms(name: str) -> None:
    terms = terms_of(AutoNorm(share=0.1))
    found = advice(name, terms)
    assert [each.setting for each in found.by_bound] == [5, 10, 20, 50, 100, 200, 500]
    for norm, error in found.by_bound:
        assert error == error_of_plan(name, terms.under(norm))
    assert (found.bound, found.needed.each) == (50, 50)
    assert found.by_epsilon == advice(name, terms.under(50)).by_epsilon
    words = str(plan(SPECS[name], terms, 10_000))
    assert "an L2 norm per privacy id, chosen from the data with 10 % of rho" in words
    assert "\n  epsilon at a norm of 50  " in words
    assert "% of the total at a norm of 50: at least " in words
    assert "imulated data" not in words
    assert "mostly noise" not in words


def flat(planned: object) -> str:
    return " ".join(str(planned).split())


def test_one_record_has_no_other_bound_and_needs_records() -> None:
    terms = terms_of(RecordBounds(1), PrivacyUnit.RECORD, rho=0.02, summary_counts=None)
    planned = plan(SPECS["listed items"], terms, target_error=0.05)
    assert planned.advice.by_bound == ()
    assert planned.advice.needed == (Fraction(1, 20), 197, None, 1)
    assert "For a margin of error of 5 % of the total: at least 197 records.\n" in f"{planned}\n"
    assert "max_records" not in str(planned)
    assert "for example" not in str(planned)


def test_people_with_weights_count_what_their_bound_allows() -> None:
    of_records = plan(SPECS["count_sketch"], terms_of(RecordBounds(10, max_weight=3), summary_counts=None))
    of_norm = plan(SPECS["count_sketch"], terms_of(NormBound(30, max_weight=3), summary_counts=None))
    assert of_records.advice.needed == of_norm.advice.needed
    assert of_norm.advice.needed.each == 30
    for planned in (of_records, of_norm):
        assert "of 1 % of the total: at least a total weight of " in str(planned)
        assert f"for example {planned.advice.needed.people:,} privacy ids with a weight of 30 each." in flat(planned)


def test_bounds_and_epsilons_that_a_release_would_refuse_are_left_out() -> None:
    strong = advice("count_min", terms_of(NormBound(3), rho=1280, summary_counts=None))
    assert [each.setting for each in strong.by_bound] == [2, 3, 5, 10]
    assert calibrate(SPECS["count_min"], terms_of(NormBound(2), rho=1280, summary_counts=None))
    with pytest.raises(ValueError, match="sigma below 1/16"):
        calibrate(SPECS["count_min"], terms_of(NormBound(1), rho=1280, summary_counts=None))
    largest = advice("listed items", terms_of(RecordBounds(1 << 31)))
    assert [each.setting for each in largest.by_bound] == [500_000_000, 1_000_000_000, 1 << 31]


def test_the_epsilon_that_is_spent_is_shown_between_round_ones() -> None:
    found = advice("count_sketch", terms_of(NormBound(7), epsilon=3, delta=1e-8))
    assert [each.setting for each in found.by_epsilon] == pytest.approx([1, 2, 3, 4, 8])
    other = advising.of_epsilon(terms_of(NormBound(7), delta=1e-8), 1.0)
    assert other.privacy.reported_delta == 1e-8
    assert other.privacy.epsilon(1e-8) <= 1


def test_settings_are_kept_in_the_advice() -> None:
    bounds = NormBound(7, max_weight=2, max_per_item=3, signed=True)
    terms = dataclasses.replace(terms_of(bounds, relation=NeighboringRelation.REPLACE_ONE), window_count=4)
    assert advising.of_bound(terms, 7) == terms
    assert advising.of_bound(terms, 9).bounds == dataclasses.replace(bounds, max_norm=9)
    found = advising.of_epsilon(terms, 1.0)
    assert dataclasses.replace(found, privacy=terms.privacy) == terms
    assert found.privacy.relation is NeighboringRelation.REPLACE_ONE


@pytest.mark.parametrize("wanted", [0, 1, -0.1, math.nan, True])
def test_an_error_that_is_not_a_share_is_refused(wanted: Any) -> None:
    with pytest.raises((ValueError, TypeError), match="target_error must be"):
        plan(SPECS["count_sketch"], terms_of(NormBound(7)), target_error=wanted)


def test_transforms_advise_in_words() -> None:
    common: dict[str, Any] = {
        "privacy": PrivacySpec(epsilon=2, delta=1e-6),
        "privacy_unit": PrivacyId("user", NormBound(20)),
        "item": "page",
    }
    transforms = {
        "margin of error": PrivateFrequencies(SPECS["count_sketch"], **common),
        "rank error": PrivateQuantiles(SPECS["exact tree"], **common),
        "detection limit": PrivateTopK(IPv4Domain(), k=5, **common),
    }
    for measure, transform in transforms.items():
        explained = transform.explain(target_error=0.025)
        assert f"What would change the {measure} (noise only)\n  norm     5: " in explained
        assert "\n  epsilon  0.5: " in explained
        assert f"For a {measure} of 2.5 % of the total: " in explained
        assert "privacy ids with 20 records each." in flat(explained)


def test_continual_release_has_no_advice() -> None:
    transform = PrivateFrequencies(
        SPECS["count_sketch"],
        PrivacySpec(rho=1),
        windows=Horizon(0, window_size=60, windows=8),
        privacy_unit=Record(),
        item="page",
    )
    assert "What would change" not in transform.explain()


@pytest.mark.one_fast_case
@pytest.mark.parametrize("depth", [None, 5, 4])
def test_ranks_are_at_most_as_wrong_as_advised_and_half_as_wrong_at_least(depth: int | None) -> None:
    """One value's data and 100 releases, each a mean over 1,024 ranks.

    If all ranks of a release were equal, the sum of squares would be a chi square of 100 degrees. The root mean square
    would be 1.55 times its expectation with a probability below 1e-9; or 0.52 times. The measured ratios are 0.6 to
    0.8, since ranks are made to ascend and nodes without weight are not expanded.
    """
    domain = IntegerDomain(0, 1023)
    spec = TreeSpec.for_memory(domain) if depth is None else TreeSpec.paper_layout(domain, depth=depth, width=64)
    terms = ReleaseTerms(PrivacySpec(rho=0.5))
    values = np.arange(500) * 7919 % 97
    exact = np.searchsorted(np.sort(values), np.arange(1024), side="right")
    raw = DyadicCountSketch(spec).accumulate(values)
    squares = [np.mean((release(raw, terms).rank(np.arange(1024)) - exact) ** 2) for _ in range(100)]
    advised = noise_rank_deviation(spec, calibrate(spec, terms))
    assert 0.3 * advised < math.sqrt(np.mean(squares)) < 1.3 * advised


@pytest.mark.parametrize(
    "privacy", [{"rho": rho, "delta": delta} for rho in ("1", "1/3") for delta in (1e-6, 1.234564e-7)]
)
def test_no_loss_is_shown_below_the_truth(privacy: dict[str, object]) -> None:
    config = read_release({"kind": "frequencies", "item": "i", "privacy": privacy, "privacy_unit": "record"})
    for words in (str(config.plan()), in_words(config)):
        found = re.search(r"epsilon = ([\d.e-]+), delta = ([\d.e-]+) \(rho = ([\d.e-]+)\), for ", words)
        assert found is not None
        epsilon, delta, rho = map(Fraction, found.groups())
        assert rho >= config.terms.privacy.rho
        assert epsilon >= Fraction(config.terms.epsilon)
        assert delta >= Fraction(str(privacy["delta"]))


@pytest.mark.parametrize("privacy", [{"rho": 1}, {"epsilon": 1}, {"epsilon": 1, "delta": 1e-6}], ids=str)
def test_plan_and_check_say_a_loss_alike(privacy: dict[str, object]) -> None:
    config = read_release({"kind": "frequencies", "item": "i", "privacy": privacy, "privacy_unit": "record"})
    (loss,) = [line[14:] for line in str(config.plan()).splitlines() if line.startswith("Privacy  ")]
    assert ", for adding or removing one record" in loss
    assert in_words(config).endswith(f"\n  privacy       {loss}")
