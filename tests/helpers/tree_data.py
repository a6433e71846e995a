"""Data of known shape for trees, and how often intervals of a release cover the truth about it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from beam_dpsketch import DyadicCountSketch, IntegerDomain, PrivacySpec, ReleaseTerms, TreeSpec, release

COUNT = 100_000
SMALL = IntegerDomain(0, (1 << 16) - 1)
LARGE = IntegerDomain(0, (1 << 32) - 1)


def zipf(random: np.random.Generator) -> np.ndarray:
    return np.minimum(random.zipf(1.2, COUNT), 1 << 16) - 1


def normal(random: np.random.Generator) -> np.ndarray:
    return random.normal(30_000, 5_000, COUNT)


def uniform(random: np.random.Generator) -> np.ndarray:
    return random.integers(0, 1 << 16, COUNT)


def lognormal(random: np.random.Generator) -> np.ndarray:
    return random.lognormal(7, 1, COUNT)


def clustered(random: np.random.Generator) -> np.ndarray:
    """Like addresses: 300 networks of very different sizes, hosts near each other."""
    centres = random.integers(0, 1 << 32, 300)
    sizes = 1 / np.arange(1, 301)
    networks = random.choice(300, COUNT, p=sizes / sizes.sum())
    return centres[networks] + random.geometric(0.02, COUNT)


SHAPES: dict[Callable[[np.random.Generator], np.ndarray], IntegerDomain] = {
    zipf: SMALL,
    normal: SMALL,
    uniform: SMALL,
    lognormal: SMALL,
    clustered: LARGE,
}


def drawn(shape: Callable[[np.random.Generator], np.ndarray], seed: int) -> np.ndarray:
    """Sorted values of a shape, within its domain."""
    values = shape(np.random.default_rng(seed)).astype(np.int64)
    return np.sort(np.clip(values, 0, SHAPES[shape].high))


@dataclasses.dataclass
class Covered:
    """The share of true answers that their interval covers, by kind of question."""

    rank: float
    cdf: float
    quantile: float
    range_count: float
    total: float


def covered(values: np.ndarray, domain: IntegerDomain, rho: float, spec: TreeSpec, questions: int = 199) -> Covered:
    """Of one release: ranks at true quantiles, quantiles, and ranges between random values of the data."""
    released = release(DyadicCountSketch(spec).accumulate(values), ReleaseTerms(PrivacySpec(rho=rho)))
    shares = np.arange(1, questions + 1) / (questions + 1)
    at = values[np.ceil(shares * len(values)).astype(int) - 1]
    ranks = np.searchsorted(values, at, side="right")
    lows, highs = np.sort(np.random.default_rng(7).choice(values, (2, questions)), axis=0)
    ranges = np.searchsorted(values, highs, side="right") - np.searchsorted(values, lows, side="left")

    def share(interval: Any, truth: Any) -> float:
        return float(np.mean((np.array(interval.lower) <= truth) & (truth <= np.array(interval.upper))))

    return Covered(
        rank=share(released.rank_interval(at), ranks),
        cdf=share(released.cdf_interval(at), ranks / len(values)),
        quantile=share(released.quantile(shares), at),
        range_count=share(released.range_interval(lows, highs), ranges),
        total=share(released.total_weight(), len(values)),
    )
