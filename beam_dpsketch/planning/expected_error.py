"""How good answers will be, before any data is read: ranks, top-K lists and frequencies.

Ranks. Guarantee: for trees of exact levels the closed form is the root mean square, over all positions, of the error of
the fully expanded, fitted tree; expanding only what exceeds the noise and monotone ranks reduce it on most data. Where
collisions matter there is no useful formula (bounds that hold for all data are several times too large), so the release
is simulated on declared reference distributions. Source of the fit: Hay et al. 2010.

Lists and frequencies. Guarantee: what noise alone does to a search has a closed form, with the median of noisy rows
taken as normal. The interval of a CountSketch that holds noise alone is found as a release finds it, from normal
values. What collisions add depends on the data, and no useful formula holds for all. So for an expected weight, the
release of made-up data is simulated and asked. Its frequencies are proportional to 1/rank (Zipf). Its values share no
beginnings, which helps a search least.
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
REFERENCES = ("uniform", "lognormal", "zipf", "scattered zipf")


def noise_variances(spec: Any, sigma_squared: Sequence[Fraction]) -> list[float]:
    """Return the variance that noise alone gives to a node's estimate, for each level of a tree.

    The median of an even number of rows counts as that of one less.
    """
    depths = [table.cells_per_item for table in raw_type(spec).tables(spec)]
    odd = [depth - 1 + depth % 2 for depth in depths]
    found = [float(each) * median_variance(depth) for depth, each in zip(odd, sigma_squared, strict=True)]
    if spec.has_factor:
        found[0] *= spec.factor.squared_length * float(np.mean(factors.value_variances(spec.factor)))
    return found


def factor_rank_deviation(spec: Any, sigma_squared: Sequence[Fraction], *, known_total: bool = False) -> float | None:
    """Return the root mean square error of ranks by a square-root factor alone; `None` of another layout."""
    if spec.kind != "factor":
        return None
    unit = float(sigma_squared[0]) * spec.factor.squared_length
    return rank_deviation(spec.factor, unit, known_total=known_total)


def factor_value_deviation(spec: Any, sigma_squared: Sequence[Fraction]) -> float:
    """Return the root mean square error of single values by a square-root factor."""
    unit = float(sigma_squared[0]) * spec.factor.squared_length
    return math.sqrt(float(np.mean(factors.value_variances(spec.factor))) * unit)


def noise_rank_deviation(spec: Any, sigma_squared: Sequence[Fraction], *, known_total: bool = False) -> float:
    """Return the root mean square rank error from noise alone; of a tree, as if each node had noise of its own."""
    closed = factor_rank_deviation(spec, sigma_squared, known_total=known_total)
    return (
        closed
        if closed is not None
        else exact_tree_deviation(spec, noise_variances(spec, sigma_squared), known_total=known_total)
    )


def exact_tree_deviation(spec: TreeSpec, variances: Sequence[Fraction | float], *, known_total: bool) -> float:
    """Return the root mean square rank error of a tree whose levels are all exact, or below a factor.

    Each level adds the mean, over all positions, of the variance of the siblings left of the path and the counted part
    of the node on it, less that of their common share; where the total is not known, the coarsest level keeps its
    common share. A factor adds the mean variance of its ranks, also in the middle of a node.
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
    """Return the root mean square rank error, at evenly spaced quantiles, on a reference distribution of a weight."""
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
    """Return the spec with another seed, if it has one."""
    return dataclasses.replace(spec, seed=seed) if hasattr(spec, "seed") else spec


def _with_seed(calibration: Calibration, seed: int) -> Calibration:
    """Return the noise of the spec with another seed: it is the same."""
    return dataclasses.replace(calibration, spec=with_seed(calibration.spec, seed))


def made_up_release(calibration: Calibration, keys: np.ndarray, weights: np.ndarray) -> Released:
    """Return a release of made-up data, which costs nothing; bounds keep all of it."""
    spec, terms = calibration.spec, calibration.terms
    raw = raw_type(spec)(spec).in_units_of(terms.scale_bits)
    raw = raw.accumulate_keys(keys, weights << np.int64(terms.scale_bits))
    part = Part(raw, np.zeros(terms.aside, dtype=np.int64))
    free = calibration.with_terms(terms.without_budget())
    (released,) = answers_of(release_parts([part], free, lost=calibration.empty_lost))
    assert isinstance(released, Released)
    return released


def reference_distribution(name: str, size: int, weight: int) -> tuple[np.ndarray, np.ndarray]:
    """Return positions, ascending, and whole weights that sum to about `weight`, of one of `REFERENCES`."""
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
    """Return distinct positions, ascending, with whole weights by these shares."""
    weights = np.diff(np.rint(np.cumsum(shares) * weight).astype(np.int64), prepend=0)
    distinct, sums = sum_by_key(*sort_by_key(positions, weights))
    return distinct[sums > 0], sums[sums > 0]


@shown_plainly
class QuantileError(NamedTuple):
    """How wrong a quantile is, in values.

    Attributes:
      quantile: which one.
      value: the true one, in made-up data.
      deviation: the root mean square error of released ones.
    """

    quantile: float
    value: float
    deviation: float


def has_numbers(spec: Any) -> bool:
    """Return whether values are numbers, so that their errors are numbers too."""
    return spec.domain is not None and spec.domain.plain_type in (int, float)


def value_errors(calibration: Calibration, weight: int, guess: Guess) -> tuple[QuantileError, ...]:
    """Return how wrong quantiles are in values: of releases of made-up data of the shape that is guessed.

    Errors of ranks do not say it: where a domain is empty, its noise alone decides how far up a quantile lies.
    """
    spec = calibration.spec
    domain, shares = spec.domain, (np.arange(_ATOMS) + 0.5) / _ATOMS
    if not has_numbers(spec) or not all(map(domain.is_inside, guess[:2])):
        raise ArgumentError("typical", f"must be two of the values that are counted: {domain.describe()}", "E117")
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
        squares.append((np.array(released.quantile(guess.quantiles), dtype=float) - true) ** 2)
    deviations = np.sqrt(np.mean(squares, axis=0))
    return tuple(map(QuantileError, guess.quantiles, true.tolist(), deviations.tolist()))


def _upward_variances(spec: TreeSpec, of_levels: Sequence[Fraction | float]) -> list[float]:
    """Return the variance of a node's estimate from itself and all below it, for each level."""
    variances = [float(each) for each in of_levels]
    for number in reversed(range(int(spec.has_factor), len(variances) - 1)):
        children = variances[number + 1] * (1 << spec.levels[number + 1].bits)
        variances[number] = 1 / (1 / variances[number] + 1 / children)
    return variances


def _mean_coefficients(children: int, leaves: int) -> tuple[float, float]:
    """Return the means of k + f^2 and (k + f)^2, k uniform in 0 ... children - 1, f in 1/leaves, 2/leaves, ..., 1."""
    k, k_squared = (children - 1) / 2, (children - 1) * (2 * children - 1) / 6
    f, f_squared = (leaves + 1) / (2 * leaves), (leaves + 1) * (2 * leaves + 1) / (6 * leaves**2)
    return k + f_squared, k_squared + 2 * k * f + f_squared


CONFIDENCE = 0.95
_MAX_VALUES = 100_000


@shown_plainly
class Detection(NamedTuple):
    """The weights that a search finds with probabilities of 95 % and 50 %, and how many made-up values reach 95 %."""

    likely: float
    even: float
    reaching: int = 0


@shown_plainly
class Errors(NamedTuple):
    """How wrong estimates are on made-up data: the root mean square, and half the mean width of a 95 % interval."""

    deviation: float
    half_width: float


def noise_detection(spec: Any, terms: ReleaseTerms, parameters: Sequence[Fraction]) -> Detection:
    """Tell from which weight on a search finds values, if noise alone disturbs it."""
    return _detection(spec, terms, [math.sqrt(each) for each in noise_variances(spec, parameters)])


def simulated_detection(calibration: Calibration, weight: int) -> Detection:
    """Tell from which weight on a search finds values, in made-up data of a total weight."""
    spec, terms = calibration.spec, calibration.terms
    keys, weights = reference_distribution("scattered zipf", spec.domain.size, weight)
    released: Any = made_up_release(calibration, keys, weights)
    found = _detection(spec, terms, released.search_deviations)
    return found._replace(reaching=int(np.sum(weights >= found.likely)))


def simulated_errors(calibration: Calibration, weight: int) -> Errors:
    """Return the errors of a flat sketch, over all values of made-up data of a total weight."""
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
