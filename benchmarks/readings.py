"""Frequencies and ranks straight from counters, without a release: exact counters, or noise that a release never has.

Ranks are computed by the functions that releases use, frequencies as the paper does.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from beam_dpsketch import DyadicCountSketch, TreeSpec
from beam_dpsketch.answers.estimators.tree_fit import PaperTree, choose, least_squares_fit, residual_fit
from beam_dpsketch.answers.estimators.tree_levels import tree_levels
from beam_dpsketch.exact.hashing import cells
from beam_dpsketch.exact.sketches import LinearSketch
from beam_dpsketch.privacy.noise.drawing import add_noise
from beam_dpsketch.privacy.noise.laws import Noise


def frequencies(sketch: LinearSketch, items: np.ndarray, noise: np.ndarray | float = 0) -> np.ndarray:
    """Minimum (Count-Min) or median (CountSketch) over the rows of the counters plus noise (depth, width)."""
    keys, counters = sketch.keys(sketch.spec, items), sketch.counters + noise
    rows = cells.read_rows(counters, keys, seed=sketch.spec.seed, has_signs=sketch.has_signs)
    return np.median(rows, axis=0) if sketch.has_signs else np.min(rows, axis=0)


def with_noise(counters: np.ndarray, sigma_squared: Fraction) -> np.ndarray:
    """Counters with the noise of a release, drawn on its grid."""
    bits = Noise.GAUSSIAN.grid_bits(sigma_squared)
    return np.ldexp(add_noise(counters, sigma_squared, bits).astype(np.float64), -bits)


def mean_relative_error(estimates: np.ndarray, counts: np.ndarray) -> float:
    """ARE: the mean of |estimate - f| / f over the items that occur."""
    return float(np.mean(np.abs(estimates - counts) / counts))


def top_ten_f1(estimates: np.ndarray, counts: np.ndarray) -> float:
    """F1 of the ten largest estimates; the candidates are the items that occur, which is not private."""
    largest, truth = (set(np.argsort(-values, kind="stable")[:10].tolist()) for values in (estimates, counts))
    return len(largest & truth) / 10


def all_counters(raw: DyadicCountSketch) -> np.ndarray:
    """The exact counters of all levels, one after the other."""
    return np.concatenate(raw.counter_tables(), axis=None)


def ranks(spec: TreeSpec, counters: np.ndarray, items: np.ndarray, method: str) -> np.ndarray:
    """Return ranks by one of the methods of a release, from counters without noise or with unknown noise."""
    levels = tree_levels(spec, counters, (0.0,) * len(spec.levels))
    if method == "paper":
        return PaperTree(levels, size=spec.domain.size, total=None).rank(items)
    fit = least_squares_fit(levels, size=spec.domain.size, total=None)
    if method != "least_squares":
        residual = residual_fit(fit, size=spec.domain.size, total=None)
        fit = residual if method == "residual" else choose(fit, residual)
    return fit.ranks.rank(items)
