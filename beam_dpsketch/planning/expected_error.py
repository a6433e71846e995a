"""Expected errors from public settings: ranks, top-K lists and frequencies.

Ranks. Guarantee: for trees with exact levels, the closed form is the root mean square error over all positions for the
fully expanded, fitted tree. Pruning to nodes above the noise, and monotone ranks, reduce the error on most data. With
collisions no formula is useful, because bounds for all data are several times too large. The release is then simulated
on the reference distributions. Source for the fit: Hay et al. 2010.

Lists and frequencies. Guarantee: the effect of noise on a search has a closed form, which treats the median of noisy
rows as normal. The interval for a CountSketch that contains only noise is computed by the release's own method from
normal values. Collisions depend on the data, and no formula is useful for all data. For an expected weight, a release
is therefore simulated on Zipf-distributed data (frequencies proportional to 1/rank). Its values share no prefixes,
which is the worst case for a search.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from fractions import Fraction
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from beam_dpsketch.answers.batch import answers_of
from beam_dpsketch.answers.estimators import factor as factors
from beam_dpsketch.answers.estimators.factor import FactorVariances, PartialRanks, rank_deviation
from beam_dpsketch.answers.estimators.tree_levels import median_variance
from beam_dpsketch.answers.released import Released
from beam_dpsketch.answers.tree import FOUND, detection_limit, expansion
from beam_dpsketch.errors import ArgumentError
from beam_dpsketch.exact.declared.count import Guess
from beam_dpsketch.exact.hashing import cells
from beam_dpsketch.exact.hashing.lookup import sort_by_key, sum_by_key
from beam_dpsketch.exact.sketches import raw_type
from beam_dpsketch.exact.sketches.trees import TreeSpec
from beam_dpsketch.noise.calibration import Calibration
from beam_dpsketch.noise.noising import Part, release_parts
from beam_dpsketch.privacy.terms import ReleaseTerms
from beam_dpsketch.words import shown_plainly

_MAX_ATOMS = 1_000_000
_RANKS = 1_024
_ATOMS, _RELEASES = 1 << 14, 64
_NARROW = 1e-9
"""Confidence of an interval that is its estimate, also if the release cannot tell a usual one."""
REFERENCES = ("uniform", "lognormal", "zipf", "scattered zipf")


def noise_variances(spec: Any, sigma_squared: Sequence[Fraction]) -> list[float]:
    """Compute the variance from noise alone for a node's estimate, per tree level.

    An even number of rows counts as the next smaller odd number. For a square-root factorization, the first variance is
    the mean over its values.
    """
    depths = [table.cells_per_item for table in raw_type(spec).tables(spec)]
    odd = [depth - 1 + depth % 2 for depth in depths]
    found = [float(each) * median_variance(depth) for depth, each in zip(odd, sigma_squared, strict=True)]
    if spec.has_factor:
        found[0] *= spec.factor.squared_length * float(np.mean(factors.value_variances(spec.factor)))
    return found


def factor_rank_deviation(spec: Any, sigma_squared: Sequence[Fraction], *, known_total: bool = False) -> float | None:
    """Compute the root mean square rank error for a square-root factorization. `None` for another layout."""
    if spec.kind != "factor":
        return None
    unit = float(sigma_squared[0]) * spec.factor.squared_length
    return rank_deviation(spec.factor, unit, known_total=known_total)


def factor_value_deviation(spec: Any, sigma_squared: Sequence[Fraction]) -> float:
    """Compute the root mean square error per value for a square-root factorization."""
    unit = float(sigma_squared[0]) * spec.factor.squared_length
    return math.sqrt(float(np.mean(factors.value_variances(spec.factor))) * unit)


def noise_rank_deviation(spec: Any, sigma_squared: Sequence[Fraction], *, known_total: bool = False) -> float:
    """Compute the root mean square rank error from noise alone. Each tree node counts as an independent counter."""
    closed = factor_rank_deviation(spec, sigma_squared, known_total=known_total)
    return (
        closed
        if closed is not None
        else exact_tree_deviation(spec, noise_variances(spec, sigma_squared), known_total=known_total)
    )


def exact_tree_deviation(spec: TreeSpec, variances: Sequence[Fraction | float], *, known_total: bool) -> float:
    """Compute the rank error for a tree with only exact levels, or exact levels below a factorization.

    Each level adds a mean variance over all positions. The variance covers siblings to the left of the path and the
    counted part of the path's own node, minus the variance of their common share. With an unknown total, the coarsest
    level keeps its common share. A factorization adds the mean variance of its ranks, including positions within a
    node.
    """
    total = 0.0
    for number, variance in enumerate(_upward_variances(spec, variances)):
        if number == 0 and spec.has_factor:
            of_nodes = factors.value_variances(spec.factor).mean()
            ranks = PartialRanks(FactorVariances(spec.factor, variance / of_nodes, known_total=known_total))
            total += ranks.mean_variance(1 << spec.shift(0))
            continue
        children = spec.nodes(0) if number == 0 else 1 << spec.levels[number].bits
        counted, counted_squared = _mean_coefficients(children, 1 << spec.shift(number))
        keeps_share = number == 0 and not known_total
        total += variance * (counted if keeps_share else counted - counted_squared / children)
    return math.sqrt(total)


def simulated_deviation(calibration: Calibration, weight: int, *, reference: str, runs: int = 3) -> float:
    """Simulate the root mean square rank error, at evenly spaced quantiles, on a reference distribution."""
    spec = calibration.spec
    positions, weights = reference_distribution(reference, spec.domain.size, weight)
    true_ranks = np.cumsum(weights)
    at = np.searchsorted(true_ranks, np.arange(1, _RANKS + 1) * (true_ranks[-1] / (_RANKS + 1)))
    squares = []
    for seed in range(runs):
        released: Any = made_up_release(_with_seed(calibration, seed), positions, weights)
        ranks = released.rank(spec.domain.values(positions[at]))
        squares.append(np.mean((ranks - true_ranks[at]) ** 2))
    return math.sqrt(float(np.mean(squares)))


def with_seed(spec: Any, seed: int) -> Any:
    """Replace the seed, if the spec has a seed."""
    return dataclasses.replace(spec, seed=seed) if hasattr(spec, "seed") else spec


def _with_seed(calibration: Calibration, seed: int) -> Calibration:
    """Replace the seed in the spec. The noise stays the same."""
    return dataclasses.replace(calibration, spec=with_seed(calibration.spec, seed))


def made_up_release(calibration: Calibration, keys: np.ndarray, weights: np.ndarray) -> Released:
    """Simulate a release without clipping or privacy cost."""
    spec, terms = calibration.spec, calibration.terms
    raw = raw_type(spec)(spec).in_units_of(terms.scale_bits)
    raw = raw.accumulate_keys(keys, weights << np.int64(terms.scale_bits))
    part = Part(raw, np.zeros(terms.aside, dtype=np.int64))
    free = calibration.with_terms(terms.without_budget())
    (released,) = answers_of(release_parts([part], free, lost=calibration.empty_lost))
    assert isinstance(released, Released)
    return released


def reference_distribution(name: str, size: int, weight: int) -> tuple[np.ndarray, np.ndarray]:
    """Generate ascending positions and whole weights that sum to about `weight`, for a name in `REFERENCES`."""
    atoms = min(weight, size, _MAX_ATOMS)
    steps = np.arange(atoms, dtype=np.float64)
    shares = np.full(atoms, 1.0 / atoms)
    if name == "uniform":
        places = (steps + 0.5) / atoms
    elif name == "lognormal":
        normal = NormalDist(0.5, 0.1)
        grid = [normal.inv_cdf((step + 0.5) / 1024) for step in range(1024)]
        places = np.clip(float(size) ** (np.interp((steps + 0.5) / atoms * 1024, np.arange(1024), grid) - 1), 0, 1)
    else:
        shares = 1 / (steps + 1) / np.sum(1 / (steps + 1))
        places = steps / size
        if name == "scattered zipf":
            places = cells.mix(steps.astype(np.uint64), seed=0, row=0) / 2.0**64
    positions = np.minimum(np.floor(places * float(size)), float(size - 1)).astype(np.uint64)
    return _weighed(positions, shares, weight)


def _weighed(positions: np.ndarray, shares: np.ndarray, weight: int) -> tuple[np.ndarray, np.ndarray]:
    """Distribute a total weight by shares, in whole weights at distinct, ascending positions."""
    weights = np.diff(np.rint(np.cumsum(shares) * weight).astype(np.int64), prepend=0)
    distinct, sums = sum_by_key(*sort_by_key(positions, weights))
    return distinct[sums > 0], sums[sums > 0]


@shown_plainly
class QuantileError(NamedTuple):
    """Quantile error, in values.

    Attributes:
      quantile: the quantile, such as 0.5.
      value: its true value in simulated data.
      deviation: the root mean square error.
    """

    quantile: float
    value: float
    deviation: float


def has_numbers(spec: Any) -> bool:
    """Whether values are numbers, which have numeric errors."""
    return spec.domain is not None and spec.domain.plain_type in (int, float)


def value_errors(calibration: Calibration, weight: int, guess: Guess) -> tuple[QuantileError, ...]:
    """Simulate quantile errors, in values, on data with the guessed shape.

    Rank errors do not show this, because in an empty part of the domain only noise decides where a quantile lies.
    """
    spec = calibration.spec
    domain, shares = spec.domain, (np.arange(_ATOMS) + 0.5) / _ATOMS
    if not has_numbers(spec) or not all(map(domain.is_inside, guess[:2])):
        raise ArgumentError("typical", f"must be two numbers in a numeric domain. Domain: {domain.describe()}", "E117")
    exact = round if domain.plain_type is int else float
    positions, weights = _weighed(
        domain.index([exact(value) for value in guess.values(shares).tolist()])[0], np.full(_ATOMS, 1 / _ATOMS), weight
    )
    ranks = np.cumsum(weights)
    at = np.searchsorted(ranks, np.array(guess.quantiles) * ranks[-1])
    true = np.array(domain.values(positions[at]), dtype=float)
    squares = []
    for seed in range(_RELEASES):
        released: Any = made_up_release(_with_seed(calibration, seed), positions, weights)
        squares.append((np.array(released.quantile(guess.quantiles, _NARROW).lower, dtype=float) - true) ** 2)
    deviations = np.sqrt(np.mean(squares, axis=0))
    return tuple(map(QuantileError, guess.quantiles, true.tolist(), deviations.tolist()))


def _upward_variances(spec: TreeSpec, of_levels: Sequence[Fraction | float]) -> list[float]:
    """Variance of a node's estimate from itself and its descendants, per level."""
    variances = [float(each) for each in of_levels]
    for number in reversed(range(int(spec.has_factor), len(variances) - 1)):
        children = variances[number + 1] * (1 << spec.levels[number + 1].bits)
        variances[number] = 1 / (1 / variances[number] + 1 / children)
    return variances


def _mean_coefficients(children: int, leaves: int) -> tuple[float, float]:
    """Means of k + f^2 and (k + f)^2, k uniform in 0 ... children - 1, f in 1/leaves, 2/leaves, ..., 1."""
    k, k_squared = (children - 1) / 2, (children - 1) * (2 * children - 1) / 6
    f, f_squared = (leaves + 1) / (2 * leaves), (leaves + 1) * (2 * leaves + 1) / (6 * leaves**2)
    return k + f_squared, k_squared + 2 * k * f + f_squared


CONFIDENCE = 0.95
_MAX_VALUES = 100_000


@shown_plainly
class Detection(NamedTuple):
    """Weights that a search finds with 95 % and 50 % probability, and how many simulated values reach the first."""

    likely: float
    even: float
    reaching: int = 0


@shown_plainly
class Errors(NamedTuple):
    """Errors on simulated data: root mean square, and half the mean width of a 95 % interval."""

    deviation: float
    half_width: float


def noise_detection(spec: Any, terms: ReleaseTerms, parameters: Sequence[Fraction]) -> Detection:
    """Compute the weights that a search finds in the presence of noise alone."""
    return _detection(spec, terms, [math.sqrt(each) for each in noise_variances(spec, parameters)])


def simulated_detection(calibration: Calibration, weight: int) -> Detection:
    """Compute the weights that a search finds in simulated data with a total weight."""
    spec, terms = calibration.spec, calibration.terms
    keys, weights = reference_distribution("scattered zipf", spec.domain.size, weight)
    released: Any = made_up_release(calibration, keys, weights)
    found = _detection(spec, terms, released.search_deviations)
    return found._replace(reaching=int(np.sum(weights >= found.likely)))


def simulated_errors(calibration: Calibration, weight: int) -> Errors:
    """Simulate errors over all values of a flat sketch, for data with a total weight."""
    values, weights = reference_distribution("zipf", min(weight, _MAX_VALUES), weight)
    items = values.astype(np.int64)
    keys, _ = raw_type(calibration.spec).usable_keys(calibration.spec, items)
    released: Any = made_up_release(calibration, keys, weights)
    found = released.interval(items, CONFIDENCE)
    squares = np.mean((released.estimate(items) - weights) ** 2)
    return Errors(math.sqrt(float(squares)), float(np.mean(found.upper - found.lower)) / 2)


def _detection(spec: Any, terms: ReleaseTerms, deviations: Sequence[float]) -> Detection:
    limit = functools.partial(detection_limit, deviations, expansion=expansion(spec, terms.noise))
    return Detection(limit(probability=FOUND), limit(probability=0.5))
