"""Variances of many ranges: from a grid, close to the exact ones everywhere in the domain."""

from __future__ import annotations

from typing import Any

import numpy as np

from beam_dpsketch.estimators import factor as module
from beam_dpsketch.estimators.factor import FEW, range_variances
from beam_dpsketch.privacy.factor.toeplitz import ToeplitzRoot
from tests.helpers import laws


def ranges_of(size: int) -> tuple[np.ndarray, np.ndarray]:
    """Ranges of every length, near both ends and in the middle, more than are worked out one by one."""
    generator = np.random.default_rng(size)
    scales = np.exp(generator.uniform(0, np.log(size), (3, FEW))).astype(np.int64)
    starts = np.concatenate([scales[0] - 1, size - 1 - scales[1], generator.integers(0, size, FEW)])
    ends = starts + np.tile(scales[2], 3)
    inside = (starts >= 0) & (ends < size)
    return starts[inside], ends[inside]


def check() -> None:
    for size in (180, 900, 5000):
        factor, (first, last) = ToeplitzRoot(size), ranges_of(size)
        assert len(first) > FEW
        some = np.random.default_rng(1).choice(len(first), 300, replace=False)
        exact = range_variances(factor, first[some], last[some])
        found = range_variances(factor, first, last)[some]
        assert np.abs(found / exact - 1).max() < 0.08, "too far"
        assert np.abs(found / exact - 1).mean() < 0.005, "too far on average"


def without_short_ends(exact: Any, factor: ToeplitzRoot) -> Any:
    """All places of a length have the variance of the one in the middle."""
    lengths, variances = exact(factor)
    return lengths, np.repeat(variances[:, [variances.shape[1] // 2]], variances.shape[1], axis=1)


test_many_ranges_are_close_to_exact = laws.mutants(
    {"the middle everywhere": laws.around(module, "_grid", without_short_ends, "too far")}, check, intact=True
)
