"""PipelineDP and OpenDP as their users call them, at epsilon 1 and delta 1e-6."""

from __future__ import annotations

import functools
import importlib
import itertools
import math
import operator
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from benchmarks.public.contest import CONFIDENCE, DELTA, EPSILON, Answers

COLUMNS = ("privacy_id_extractor", "partition_extractor", "value_extractor")


@functools.cache
def opendp() -> Any:
    dp = importlib.import_module("opendp.prelude")
    dp.enable_features("contrib", "honest-but-curious")
    return dp


def pipeline_dp(
    rows: Sequence[tuple[Any, ...]],
    metrics: Sequence[str],
    public: Iterable[Any] | None = None,
    *,
    keys: int = 1,
    each: int = 1,
    total: int | None = None,
    **more: Any,
) -> dict[Any, Any]:
    """Metrics of (privacy id, partition, value) by partition, on the local backend, with the noise of less deviation.

    Partitions are public, or chosen privately by the truncated geometric selection for one partition of each id, and by
    Gaussian thresholding for more, which then releases more. "PERCENTILE(50)" is a metric too. The naive accountant,
    which its documentation recommends, divides epsilon and delta equally among partition selection, counts and sums.
    A privacy id has so many partitions with so many records in each, or so many records in total.
    """
    dp: Any = importlib.import_module("pipeline_dp")
    parts = (public is None) + 1 + ("MEAN" in metrics)
    sigma = importlib.import_module("pipeline_dp.dp_computations").compute_sigma
    laplace = math.sqrt(2) * keys * each * parts / EPSILON
    noise = "LAPLACE" if laplace < sigma(EPSILON / parts, DELTA / parts, math.sqrt(keys) * each) else "GAUSSIAN"
    bounds = {"max_partitions_contributed": keys, "max_contributions_per_partition": each}
    if total:
        bounds, noise = {"max_contributions": total}, "LAPLACE"
    selection = "TRUNCATED_GEOMETRIC" if keys == 1 else "GAUSSIAN_THRESHOLDING"
    accountant = dp.NaiveBudgetAccountant(total_epsilon=EPSILON, total_delta=DELTA)
    parameters = dp.AggregateParams(
        noise_kind=dp.NoiseKind[noise],
        metrics=[_metric(dp.Metrics, name) for name in metrics],
        partition_selection_strategy=dp.PartitionSelectionStrategy[selection],
        **bounds,
        **more,
    )
    extractors = dp.DataExtractors(**{name: operator.itemgetter(place) for place, name in enumerate(COLUMNS)})
    found = dp.DPEngine(accountant, dp.LocalBackend()).aggregate(rows, parameters, extractors, public and list(public))
    accountant.compute_budgets()
    return dict(found)


def _metric(metrics: Any, name: str) -> Any:
    name, _, argument = name.partition("(")
    return getattr(metrics, name)(float(argument[:-1])) if argument else getattr(metrics, name)


def counts(found: dict[Any, Any], asked: Iterable[Any]) -> Answers:
    """PipelineDP's counts in the order of the questions. A partition that was not released counts as 0."""
    return Answers(np.array([found[each].count if each in found else 0.0 for each in asked]))


def noisy(exact: np.ndarray, l1: int, l2: float, parts: int = 1) -> Answers:
    """Whole numbers with OpenDP's noise of less deviation, for a unit that changes them by these norms.

    Epsilon and delta are divided equally by `parts`.
    """
    dp = opendp()
    integers, epsilon, delta = dp.vector_domain(dp.atom_domain(T="i64")), EPSILON / parts, DELTA / parts
    scale, sigma = l1 / epsilon, _gaussian_scale(l2, epsilon, delta)
    if math.sqrt(2) * scale < sigma:
        mechanism = (integers, dp.l1_distance(T="i64")) >> dp.m.then_laplace(scale=scale)
        margin = dp.discrete_laplacian_scale_to_accuracy(scale, 1 - CONFIDENCE)
    else:
        mechanism = (integers, dp.l2_distance(T="f64")) >> dp.m.then_gaussian(scale=sigma)
        margin = dp.discrete_gaussian_scale_to_accuracy(sigma, 1 - CONFIDENCE)
    return Answers.with_margin(np.array(mechanism(exact.tolist()), dtype=np.float64), margin)


@functools.cache
def _gaussian_scale(l2: float, epsilon: float, delta: float) -> float:
    """The smallest scale that OpenDP accepts."""
    dp = opendp()
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="f64")

    def measure(scale: float) -> Any:
        return dp.c.make_fix_delta(dp.c.make_zCDP_to_approxDP(space >> dp.m.then_gaussian(scale=scale)), delta=delta)

    return float(dp.binary_search_param(measure, d_in=float(l2), d_out=(epsilon, delta), bounds=(l2, l2 * 100)))


def thresholded(exact: dict[int, int], keys: int, each: int, law: str) -> dict[int, int]:
    """OpenDP's counts of the keys above a threshold, for a unit with so many keys and so many records in each."""
    scale, threshold = _threshold(keys, each, law)
    return _threshold_mechanism(law, scale, threshold)(exact)


@functools.cache
def _threshold(keys: int, each: int, law: str) -> tuple[float, int]:
    """The smallest scale for epsilon (Gaussian noise: and half of delta), then the smallest threshold for delta."""
    dp, far = opendp(), 10**9
    norms = keys, each * (keys if law == "Laplace" else math.sqrt(keys)), each

    def is_enough(scale: float, threshold: int) -> bool:
        try:
            spent = _threshold_mechanism(law, scale, threshold, fixed=DELTA / 2).map(norms)
        except dp.OpenDPException:
            return False
        return spent[0] <= EPSILON and spent[1] <= DELTA

    scale = dp.binary_search(lambda scale: is_enough(scale, far), bounds=(0.5, 1e4))
    return scale, dp.binary_search(lambda threshold: is_enough(scale, threshold), bounds=(each + 1, far))


def _threshold_mechanism(law: str, scale: float, threshold: int, fixed: float | None = None) -> Any:
    dp = opendp()
    integers = dp.atom_domain(T="i64")
    domain = dp.map_domain(integers, integers)
    if law == "Laplace":
        space = domain, dp.l01inf_distance(dp.absolute_distance(T="i64"))
        return space >> dp.m.then_laplace_threshold(scale=scale, threshold=threshold)
    space = domain, dp.l02inf_distance(dp.absolute_distance(T="f64"))
    mechanism = space >> dp.m.then_gaussian_threshold(scale=scale, threshold=threshold)
    return dp.c.make_fix_delta(dp.c.make_zCDP_to_approxDP(mechanism), delta=fixed) if fixed else mechanism


def tree_counts(values: np.ndarray, size: int, records: int = 1) -> np.ndarray:
    """Counts of the values 0 to size - 1 from OpenDP's consistent tree, for a unit with so many records."""
    dp = opendp()
    arity = dp.t.choose_branching_factor(size)
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.symmetric_distance()
    leaves = space >> dp.t.then_count_by_categories(list(range(size)), null_category=False, MO="L1Distance<i64>")
    tree = leaves >> dp.t.then_b_ary_tree(leaf_count=size, branching_factor=arity)
    scale = dp.binary_search_param(
        lambda scale: tree >> dp.m.then_laplace(scale=scale), d_in=records, d_out=EPSILON, bounds=(0.01, 1e5)
    )
    noisy_tree = (tree >> dp.m.then_laplace(scale=scale))(values.tolist())
    return np.array(dp.t.make_consistent_b_ary_tree(branching_factor=arity)(noisy_tree)[:size])


def scored_quantiles(values: np.ndarray, candidates: Sequence[int], shares: Sequence[float], records: int) -> list[int]:
    """Quantiles by OpenDP's exponential mechanism, composed by zCDP, for a unit with so many records."""
    dp = opendp()
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.symmetric_distance()
    measure = dp.zero_concentrated_divergence()

    def all_of(scale: float) -> Any:
        return [space >> dp.m.then_private_quantile(measure, candidates, share, scale) for share in shares]

    def composed(scale: float) -> Any:
        return dp.c.make_fix_delta(dp.c.make_zCDP_to_approxDP(dp.c.make_composition(all_of(scale))), delta=DELTA)

    scale = dp.binary_search_param(
        composed, d_in=records, d_out=(EPSILON, DELTA), bounds=(1.0 * records, 1e6 * records)
    )
    return composed(scale)(values.tolist())


def kept(groups: np.ndarray, most: int, generator: np.random.Generator) -> np.ndarray:
    """Places of at most so many random records of each group, as a user of OpenDP bounds them."""
    order = generator.permutation(len(groups))
    order = order[np.argsort(groups[order], kind="stable")]
    starts = np.flatnonzero(np.r_[True, np.diff(groups[order]) != 0])
    place = np.arange(len(groups)) - np.repeat(starts, np.diff(np.r_[starts, len(groups)]))
    return order[place < most]


def bounded(units: np.ndarray, keys: np.ndarray, most: int, each: int, generator: np.random.Generator) -> np.ndarray:
    """Places of the records in at most so many random keys of a unit, and at most so many in each."""
    pairs, pair_of = np.unique(np.stack([units, keys], axis=1), axis=0, return_inverse=True)
    chosen = np.zeros(len(pairs), dtype=bool)
    chosen[kept(pairs[:, 0], most, generator)] = True
    places = kept(pair_of, each, generator)
    return places[chosen[pair_of[places]]]


def grid(most: Iterable[int], each: Iterable[int]) -> Iterable[tuple[str, int, int]]:
    """Contribution bounds with their names."""
    return ((f"{a} keys with {b} records", a, b) for a, b in itertools.product(most, each))
