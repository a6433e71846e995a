"""What rows of a square-root factor say of ranks, by the inverse of the whole matrix."""

from __future__ import annotations

import numpy as np

from beam_dpsketch.privacy.factor.toeplitz import ToeplitzRoot


def matrix(factor: ToeplitzRoot) -> np.ndarray:
    """W, from its definition."""
    places = np.arange(factor.size)
    lags = places[:, np.newaxis] - places
    return np.where(lags >= 0, factor.coefficients[np.abs(lags)] * factor.gains, 0).astype(np.float64)


def covariances(factor: ToeplitzRoot, *, total: bool = False) -> np.ndarray:
    """Those of all ranks, where rows have a variance of 1; given the total, if it is known."""
    inverse = np.linalg.inv(matrix(factor))
    prefixes = np.tril(np.ones((factor.size, factor.size)))
    found = prefixes @ inverse @ inverse.T @ prefixes.T
    return found - np.outer(found[:, -1], found[-1]) / found[-1, -1] if total else found
