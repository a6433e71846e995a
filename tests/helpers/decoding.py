"""Sketches of known weights with noise from a fixed generator, so that a test of decoding passes or fails for good."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from beam_dpsketch import SketchSpec
from beam_dpsketch.exact.hashing.cells import Places
from beam_dpsketch.exact.sketches import CountSketch, LinearSketch
from tests.helpers import by_hand
from tests.helpers.raw import raw_of


def zipf_weights(items: int, heaviest: float = 20_000.0) -> np.ndarray:
    """The weights of items 0, 1, ..., int64."""
    return (heaviest / np.arange(1, items + 1) ** 1.1).astype(np.int64)


def noisy_release(
    weights: np.ndarray,
    *,
    sigma: int,
    kind: type[LinearSketch] = CountSketch,
    depth: int = 5,
    width: int = 512,
    seed: int = 1,
    **changes: Any,
) -> Any:
    """A release of items 0, 1, ... of these weights, with rounded normal noise."""
    raw = raw_of(kind, SketchSpec(depth=depth, width=width, seed=seed))
    raw.accumulate_keys(np.arange(len(weights), dtype=np.uint64), np.asarray(weights, dtype=np.int64))
    noise = np.rint(np.random.default_rng(seed).normal(0, sigma, raw.counters.shape)).astype(np.int64)
    sigma_squared = (Fraction(sigma**2),)
    return by_hand.released(
        kind, raw.spec, raw.counters + noise, **{"sigma_squared_per_level": sigma_squared, **changes}
    )


def places(spec: SketchSpec, keys: np.ndarray) -> Places:
    """The cells of some keys."""
    has_signs = spec.kind == "count_sketch"
    return Places(keys, seed=spec.seed, depth=spec.depth, width=spec.width, has_signs=has_signs)


def root_mean_square(errors: np.ndarray) -> float:
    return float(np.sqrt(np.mean(errors**2)))
