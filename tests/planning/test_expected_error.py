"""The planner's closed form is the error of the fitted tree, and its refusals and words are right."""

import math
import re

import numpy as np
import pytest

from beam_dpsketch import (
    REPLACE_ONE,
    DyadicCountSketch,
    IntegerDomain,
    IPv4Domain,
    PrivacySpec,
    RecordBounds,
    ReleaseTerms,
    SketchSpec,
    TreeSpec,
    release,
)
from beam_dpsketch.answers.estimators import tree_fit
from beam_dpsketch.answers.estimators.tree_fit import CumulativeTree, fitted_tree
from beam_dpsketch.answers.estimators.tree_levels import tree_levels
from beam_dpsketch.noise.calibration import calibrate
from beam_dpsketch.planning import expected_error
from beam_dpsketch.planning.kinds.layouts import plan
from beam_dpsketch.privacy.contributions import ONE_RECORD, PrivacyUnit

TERMS = ReleaseTerms(PrivacySpec(rho=1, relation=REPLACE_ONE, summary_counts=None))
SHAPES = [(64, 2), (256, 4), (512, 4), (512, 8), (4096, 16), (48, 4)]


@pytest.fixture(autouse=True)
def _expand_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    """The closed form is for trees whose nodes are all expanded."""
    monkeypatch.setattr(tree_fit, "EXPANSION_DEVIATIONS", -math.inf)


@pytest.mark.parametrize(("size", "arity"), SHAPES)
@pytest.mark.parametrize("total", [None, 1000.0])
def test_the_closed_form_is_the_mean_variance_over_all_positions(size, arity, total):
    """The variances are themselves tested against a dense covariance matrix in `test_least_squares`."""
    spec = TreeSpec.for_memory(IntegerDomain(0, size - 1), 10**6, arity=arity)
    sigma_squared = calibrate(spec, ReleaseTerms(PrivacySpec(rho=0.5), ONE_RECORD))
    levels = tree_levels(spec, np.zeros(spec.cells, dtype=np.int64), tuple(map(float, sigma_squared)))
    tree = CumulativeTree(levels, fitted_tree(levels, total=total), size=size, total=total)
    mean = tree.variances.rank_variance(np.arange(size, dtype=np.uint64)).mean()
    closed = expected_error.exact_tree_deviation(spec, sigma_squared, known_total=total is not None)
    assert closed**2 == pytest.approx(mean, rel=0.02 if size == 48 else 1e-6)


@pytest.mark.one_fast_case
@pytest.mark.parametrize("total", [None, 500.0])
def test_the_closed_form_is_within_15_percent_of_the_measured_error(total):
    """600 releases: the root mean square is known to 1.4 %, so 15 % is more than ten standard deviations.

    The planted factors are more than ten away from these limits too.
    """
    size, spec = 256, TreeSpec.for_memory(IntegerDomain(0, 255), 10**6, arity=4)
    sigma_squared = calibrate(spec, ReleaseTerms(PrivacySpec(rho=0.5), ONE_RECORD))
    truth = np.bincount(np.arange(500) * 7919 % 97, minlength=size)
    raw = DyadicCountSketch(spec).accumulate(np.repeat(np.arange(size), truth))
    squares = []
    for _ in range(600):
        noisy = release(raw, ReleaseTerms(PrivacySpec(rho=0.5))).counters
        tree = fitted_tree(tree_levels(spec, noisy, tuple(map(float, sigma_squared))), total=total)
        squares.append(np.mean((np.cumsum(tree[-1].fitted) - np.cumsum(truth)) ** 2))
    measured = math.sqrt(np.mean(squares))
    for factor, holds in ((1.0, True), (1.4, False), (0.7, False)):
        closed = factor * expected_error.exact_tree_deviation(spec, sigma_squared, known_total=total is not None)
        assert (0.85 <= closed / measured <= 1.15) == holds


def test_a_plan_says_the_layout_the_noise_and_the_error():
    text = str(plan(IntegerDomain(0, 65_535), TERMS.without_summary_counts(), n=100_000))
    assert "Counters      square-root factorization: 65,536 counters, 262,144 bytes at 4 per counter" in text
    assert "at most about 4.32 of 100,000 (0.0043 %)" in text
    tree = str(plan(TreeSpec.for_memory(IntegerDomain(0, 65_535)), TERMS.without_summary_counts(), n=100_000))
    assert "Counters      tree: 8 levels, 87,380 counters, 349,520 bytes at 4 per counter" in tree
    assert "level 7: exact 65,536, sigma = 2.828" in tree
    assert "at most about 5.86 of 100,000 (0.0059 %)" in tree
    assert re.search(r"\n  any data, with a public total +at most about 5\.13$", tree, re.MULTILINE)


def test_a_plan_is_of_the_part_of_rho_that_side_counters_leave():
    """Units and losses cost a fiftieth each: each variance grows by 25 / 24, each deviation by its root."""
    domain, grown = IntegerDomain(0, 65_535), math.sqrt(25 / 24)
    spec, bounds = PrivacySpec(rho=1, relation=REPLACE_ONE), RecordBounds(2)
    usual = ReleaseTerms(spec, bounds, privacy_unit=PrivacyUnit.PRIVACY_ID)
    both = [plan(domain, terms, n=100_000) for terms in (usual, usual.without_summary_counts())]
    assert [24 * variance for variance in both[0].sigma_squared] == [
        25 * variance for variance in both[1].sigma_squared
    ]
    assert both[0].rank_deviation == pytest.approx(
        {data: grown * deviation for data, deviation in both[1].rank_deviation.items()}, rel=1e-12
    )
    assert both[0].rank_deviation_known_total == pytest.approx(grown * both[1].rank_deviation_known_total, rel=1e-12)
    tree = plan(TreeSpec.for_memory(domain), usual, n=100_000)
    assert f"level 7: exact 65,536, sigma = {math.sqrt(4 * 2 * 8 / (2 * 0.96)):.4g}" in str(tree)


def test_a_plan_of_a_wide_domain_names_its_reference_distributions(monkeypatch):
    monkeypatch.setattr(tree_fit, "EXPANSION_DEVIATIONS", 2.0)
    planned = plan(TreeSpec.for_memory(IPv4Domain(), 100_000), TERMS, n=20_000)
    assert set(planned.rank_deviation) == set(expected_error.REFERENCES)
    assert planned.memory <= 100_000
    assert planned.rank_deviation_known_total is None
    assert all(0 < value < 2_000 for value in planned.rank_deviation.values())


@pytest.mark.parametrize("reference", expected_error.REFERENCES)
@pytest.mark.parametrize(("size", "weight"), [(1, 5), (10, 1000), (1 << 64, 3000)])
def test_reference_distributions_are_inside_the_domain_and_of_the_weight(reference, size, weight):
    positions, weights = expected_error.reference_distribution(reference, size, weight)
    assert weights.sum() == weight
    assert (positions[1:] > positions[:-1]).all()
    assert int(positions[-1]) < size


def test_useless_settings_are_said_with_the_numbers():
    with pytest.raises(ValueError, match=r"memory must be at least \d+ bytes for 16 levels with 5 rows, got 1000"):
        TreeSpec.for_memory(IPv4Domain(), 1000)
    useless = plan(IntegerDomain(0, 65_535), ReleaseTerms(PrivacySpec(rho=0.01)), n=100)
    assert useless.is_mostly_noise
    assert "answers would be mostly noise; use more data, a larger rho, more memory or a " in str(useless)
    assert not plan(IntegerDomain(0, 65_535), TERMS, n=100_000).is_mostly_noise
    with pytest.raises(ValueError, match="n must be between"):
        plan(IntegerDomain(0, 9), TERMS, n=0)


def test_keys_multiply_the_memory_and_windows_are_said():
    terms = ReleaseTerms(PrivacySpec(rho=1), RecordBounds(2), privacy_unit=PrivacyUnit.PRIVACY_ID, window_count=7)
    one, seven = (plan(SketchSpec(), terms, keys=keys) for keys in (None, 7))
    assert seven.memory == 7 * one.memory
    assert "for each of 7 keys" in str(seven)
    assert "rho covers the 7 windows" in str(seven)
    assert "<td>Contribution</td><td>up to 2 records per privacy id" in one._repr_html_()
