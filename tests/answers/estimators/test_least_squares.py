"""The fitted tree is the weighted least squares solution, and its variances are those of that solution.

Both are derived a second time here, by dense linear algebra: node estimates are y = A x + noise for the leaf weights x,
with A the ancestors, so x = (A' W A)^-1 A' W y, and the covariance of x is (A' W A)^-1.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, stats

from beam_dpsketch import IntegerDomain, TreeSpec
from beam_dpsketch.answers.estimators import tree_fit
from beam_dpsketch.answers.estimators.ranks import isotonic, reach
from beam_dpsketch.answers.estimators.tree_fit import CumulativeTree, Nodes, TreeVariances, fitted_tree
from beam_dpsketch.answers.estimators.tree_levels import TreeLevel, tree_levels
from tests.helpers import trees

layouts = st.one_of(
    st.tuples(st.integers(1, 40), st.sampled_from([2, 4, 8, 16])).map(lambda drawn: trees.exact_tree(*drawn)),
    st.just(trees.custom(IntegerDomain(0, 21), (2, "exact", 1, 0), (1, "exact", 1, 0), (2, "exact", 1, 0))),
)


@pytest.fixture(autouse=True)
def everything_is_expanded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree_fit, "EXPANSION_DEVIATIONS", -np.inf)


@dataclasses.dataclass
class Noisy:
    """An exact tree with noise of its own variance on each level, expanded to the leaves."""

    spec: TreeSpec
    levels: list[TreeLevel]
    ancestors: np.ndarray
    observed: np.ndarray
    precision: np.ndarray

    @classmethod
    def drawn(cls, spec: TreeSpec, seed: int) -> Noisy:
        random = np.random.default_rng(seed)
        size, count = spec.domain.size, len(spec.levels)
        variances = random.uniform(0.5, 50.0, count)
        counters = random.integers(-40, 200, spec.cells)
        levels = tree_levels(spec, counters, tuple(variances))
        rows = [np.arange(size) >> spec.shift(number) for number in range(count)]
        ancestors = np.concatenate(
            [(row[None, :] == np.arange(spec.nodes(number))[:, None]) for number, row in enumerate(rows)]
        ).astype(float)
        precision = np.concatenate([np.full(spec.nodes(n), 1 / variance) for n, variance in enumerate(variances)])
        return cls(spec, levels, ancestors, counters.astype(float), precision)

    def leaves(self, total: float | None) -> tuple[np.ndarray, np.ndarray]:
        """The least squares leaf weights and their covariance."""
        information = self.ancestors.T @ (self.precision[:, None] * self.ancestors)
        covariance = np.linalg.inv(information)
        weights = covariance @ (self.ancestors.T @ (self.precision * self.observed))
        if total is None:
            return weights, covariance
        ones = np.ones(len(weights))
        gain = covariance @ ones / (ones @ covariance @ ones)
        return weights + gain * (total - weights.sum()), covariance - np.outer(gain, ones @ covariance)


totals = st.none() | st.floats(1, 5000)
seeds = st.integers(0, 10_000)


@given(spec=layouts, seed=seeds, total=totals)
def test_the_fit_is_the_weighted_least_squares_solution(spec: TreeSpec, seed: int, total: float | None) -> None:
    noisy = Noisy.drawn(spec, seed)
    tree = fitted_tree(noisy.levels, total=total)
    expected, _ = noisy.leaves(total)
    fitted = np.concatenate([nodes.fitted for nodes in tree])
    np.testing.assert_allclose(fitted, noisy.ancestors @ expected, rtol=1e-6, atol=1e-5)


@given(spec=layouts, seed=seeds, total=totals)
def test_children_sum_to_their_parent_and_the_first_level_to_a_known_total(
    spec: TreeSpec, seed: int, total: float | None
) -> None:
    tree = fitted_tree(Noisy.drawn(spec, seed).levels, total=total)
    for above, below in itertools.pairwise(tree):
        np.testing.assert_allclose(np.bincount(below.parents, below.fitted), above.fitted, atol=1e-6)
    if total is not None:
        assert tree[0].fitted.sum() == pytest.approx(total, abs=1e-5)


@given(spec=trees.layouts(), seed=seeds)
def test_children_sum_to_their_parent_in_truncated_trees_too(spec: TreeSpec, seed: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tree_fit, "EXPANSION_DEVIATIONS", 2.0)
        random = np.random.default_rng(seed)
        counters = random.integers(-30, 100, spec.cells)
        levels = tree_levels(spec, counters, (25.0,) * len(spec.levels))
        tree = fitted_tree(levels)
    for above, below in itertools.pairwise(tree):
        sums = np.bincount(below.parents, below.fitted, minlength=len(above.ids))
        np.testing.assert_allclose(sums[above.expanded], above.fitted[above.expanded], rtol=1e-9, atol=1e-6)
        assert not sums[~above.expanded].any()
        assert (np.diff(below.ids.astype(object)) > 0).all()


def test_a_level_without_noise_decides_alone() -> None:
    spec = trees.exact_tree(30)
    items = [0, 3, 3, 17, 29, 29, 29]
    raw = trees.noiseless(spec, items)
    wrong = [dataclasses.replace(level, counters=level.counters + 50, sigma_squared=1e6) for level in raw[:-1]]
    tree = fitted_tree([*wrong, raw[-1]])
    np.testing.assert_allclose(tree[-1].fitted, np.bincount(items, minlength=30), atol=1e-6)


@given(values=st.lists(st.floats(-1e6, 1e6) | st.integers(-3, 3).map(float), min_size=1, max_size=40))
def test_isotonic_is_the_nearest_non_decreasing_sequence(values: list[float]) -> None:
    found = isotonic(np.array(values))
    assert (np.diff(found) >= 0).all()
    np.testing.assert_allclose(found, optimize.isotonic_regression(values).x, rtol=1e-9, atol=1e-9)


def expanded(spec: TreeSpec, seed: int, total: float | None) -> tuple[Noisy, TreeVariances, list[Nodes]]:
    noisy = Noisy.drawn(spec, seed)
    tree = fitted_tree(noisy.levels, total=total)
    return noisy, TreeVariances(noisy.levels, tree, size=spec.domain.size, known_total=total is not None), tree


shares = st.floats(0, 1)


@given(spec=layouts, seed=seeds, total=totals, share=shares)
def test_variances_of_ranks_are_those_of_the_dense_covariance(
    spec: TreeSpec, seed: int, total: float | None, share: float
) -> None:
    noisy, variances, _ = expanded(spec, seed, total)
    _, covariance = noisy.leaves(total)
    size = spec.domain.size
    below = np.tri(size)
    for part in (0.0, share):
        coefficients = below - part
        expected = np.einsum("ij,jk,ik->i", coefficients, covariance, coefficients)
        found = variances.rank_variance(np.arange(size, dtype=np.uint64), part)
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-5)


@given(spec=layouts, seed=seeds, total=totals, data=st.data())
def test_variances_of_ranges_are_those_of_the_dense_covariance(
    spec: TreeSpec, seed: int, total: float | None, data: Any
) -> None:
    noisy, variances, _ = expanded(spec, seed, total)
    _, covariance = noisy.leaves(total)
    size = spec.domain.size
    lows, highs = np.triu_indices(size)
    below = np.tri(size)
    coefficients = below[highs] - below[lows]
    expected = np.einsum("ij,jk,ik->i", coefficients, covariance, coefficients)
    found = variances.range_variance(lows.astype(np.uint64), highs.astype(np.uint64))
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-5)


def test_the_cumulative_tree_asks_for_the_variances_of_its_own_case() -> None:
    noisy = Noisy.drawn(trees.exact_tree(20), 1)
    last = np.array([19], dtype=np.uint64)
    for total in (None, 500.0):
        tree = CumulativeTree(noisy.levels, fitted_tree(noisy.levels, total=total), size=20, total=total)
        assert (tree.variances.rank_variance(last)[0] > 1e-3) == (total is None)
        assert tree.variances.rank_variance(last, 1.0)[0] == pytest.approx(0, abs=1e-6)


def closed(size: int, sigma_squared: float, *items: int) -> CumulativeTree:
    """Exact counters with a known variance, of which only the coarsest level is expanded."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tree_fit, "EXPANSION_DEVIATIONS", np.inf)
        raw = trees.noiseless(trees.exact_tree(size), items)
        levels = [dataclasses.replace(level, sigma_squared=sigma_squared) for level in raw]
        return CumulativeTree(levels, fitted_tree(levels), size=size, total=None)


def test_a_range_inside_a_node_that_was_not_expanded_weighs_from_nothing_to_all_of_it() -> None:
    """The node fails with a part of the probability for each of two levels; 10 items are in one of its 4 values."""
    tree = closed(16, 4.0, *[5] * 10)
    lows, highs = np.array([4, 5, 6], dtype=np.uint64), np.array([5, 7, 7], dtype=np.uint64)
    middle, lower, upper = tree.range_bounds(lows, highs, 0.9)
    np.testing.assert_allclose(middle, 10 * np.array([2, 3, 2]) / 4)
    assert not lower.any()
    np.testing.assert_allclose(upper, 10 + 2 * stats.norm.isf(0.1 / 2))


def test_a_range_that_cuts_nodes_weighs_from_what_is_whole_in_it_to_all_that_it_touches() -> None:
    """By hand: 5 in the first node, 10 in the second, and 20 in the third one, each with a variance of 4."""
    tree = closed(16, 4.0, *[3] * 5, *[5] * 10, *[8] * 20)
    _, lower, upper = tree.range_bounds(np.array([2], dtype=np.uint64), np.array([9], dtype=np.uint64), 0.95)
    deviation = math.sqrt(12.0)
    (margin,) = reach(0.95, np.array([25.0]), np.array([12.0]))
    assert stats.norm.isf(0.05) * deviation < margin < (stats.norm.isf(0.05) + 0.03) * deviation
    np.testing.assert_allclose((lower[0], upper[0]), (10 - margin, 35 + margin))
    _, lower, upper = tree.share_bounds(np.array([9], dtype=np.uint64), 0.95)
    assert lower[0] < 15 / 35  # where the third node may have nothing
    assert upper[0] == 1


def test_a_value_inside_a_node_that_was_not_expanded_has_the_interval_of_its_leaf() -> None:
    tree = closed(16, 4.0, *[5] * 10)
    values = np.array([4, 5], dtype=np.uint64)
    _, lower, upper = tree.range_bounds(values, values, 0.95)
    margin = 2 * stats.norm.isf(0.025)
    np.testing.assert_allclose(lower, [0, 10 - margin])
    np.testing.assert_allclose(upper, [margin, 10 + margin])
    np.testing.assert_allclose(tree.weights(values), [0, 10])


@given(own=st.floats(-50, 50), around=st.floats(-50, 50), leaf=st.floats(0.1, 30), node=st.floats(0.1, 30))
def test_the_weight_of_a_value_is_the_likeliest_that_is_not_more_than_its_node(
    own: float, around: float, leaf: float, node: float
) -> None:
    """Against least squares of both readings, for a value and a rest of its node that are at least 0."""
    tree = closed(16, 1.0)
    counters = np.full((1, 16), 0.0)
    counters[0, 5] = own
    tree._leaves = dataclasses.replace(tree._leaves, counters=counters, sigma_squared=leaf)
    tree._weights[1], tree._node_variances[1] = around, node
    found = tree.weights(np.array([5], dtype=np.uint64))[0]
    limited = max(around, 0.0)  # a node of a weight below 0 counts as empty
    of_leaf, of_node = math.sqrt(leaf), math.sqrt(node)
    parts = np.array([[1 / of_leaf, 0], [1 / of_node, 1 / of_node]])
    (best, _), _ = optimize.nnls(parts, np.array([own / of_leaf, limited / of_node]))
    assert found == pytest.approx(best, abs=1e-9)


@given(confidence=st.floats(0.02, 0.999), distance=st.floats(0, 40), deviation=st.floats(0.1, 10))
def test_the_reach_beyond_two_estimates_is_at_least_the_exact_one_and_little_more(
    confidence: float, distance: float, deviation: float
) -> None:
    """The exact one solves the equation of Imbens and Manski."""
    (found,) = reach(confidence, np.array([distance]), np.array([deviation**2])) / deviation
    apart = distance / deviation

    def holds(reached: float) -> float:
        return float(stats.norm.cdf(reached + apart) - stats.norm.cdf(-reached)) - confidence

    exact = optimize.brentq(holds, -10, 10)
    assert max(exact, 0.0) - 1e-9 <= found
    if confidence >= 0.95:
        assert found <= exact + 0.03


@pytest.mark.parametrize("size", [5, 13, 1000, 4097])
def test_a_node_that_the_domain_cuts_off_counts_in_full_at_its_end(size: int) -> None:
    """The last rank is the total: the sum of all nodes of the coarsest level."""
    last = np.array([size - 1], dtype=np.uint64)
    variance = closed(size, 4.0, 0, size - 1).variances.rank_variance(last)[0]
    assert variance == pytest.approx(4.0 * trees.exact_tree(size).nodes(0))
