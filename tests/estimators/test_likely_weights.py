"""Likely weights: blocks below their noise share their weight evenly, and values in others keep their steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from beam_dpsketch.estimators import factor as factors
from beam_dpsketch.estimators.factor import likely_weights
from beam_dpsketch.privacy.factor.toeplitz import ToeplitzRoot
from tests.helpers.factors import covariances

ROW_VARIANCE = 9.0


def deviation_of_blocks(factor: ToeplitzRoot, size: int) -> float:
    """The root of the mean variance of the weights of all blocks of this size, by the inverse of the matrix."""
    exact = np.pad(covariances(factor), ((1, 0), (1, 0)))
    ends = [(start, min(start + size, factor.size)) for start in range(0, factor.size, size)]
    variances = [exact[end, end] - 2 * exact[start, end] + exact[start, start] for start, end in ends]
    return float(np.sqrt(np.mean(variances) * ROW_VARIANCE))


def check_blocks() -> None:
    factor, rng = ToeplitzRoot(16), np.random.default_rng(4)
    sizes = np.array([-3.0, 0.5, 1.95, 2.05]) * deviation_of_blocks(factor, 4)
    weights = np.repeat(sizes / 4, 4) + np.tile([5.0, -5.0, 1.0, -1.0], 4)
    steps = rng.uniform(0, 30, 16)
    found = likely_weights(factor, weights, steps, ROW_VARIANCE).reshape(4, 4)
    for block, size in enumerate(sizes[:3]):
        np.testing.assert_allclose(found[block], max(size, 0.0) / 4, err_msg="a closed block")
    np.testing.assert_allclose(found[3], steps[12:], err_msg="an open block")


def check_blocks_in_blocks() -> None:
    """A block of 4 above its noise in one of 16 below it stays closed, with all of the larger one."""
    factor = ToeplitzRoot(64)
    small, large = (deviation_of_blocks(factor, size) for size in (4, 16))
    weights = np.zeros(64)
    weights[[0, 1]], weights[4] = 1.5 * small, 1.9 * large - 3 * small  # more than 2 of a block of 4, less than 2 of 16
    weights[40] = 3 * large
    steps = np.arange(64.0)
    found = likely_weights(factor, weights, steps, ROW_VARIANCE)
    np.testing.assert_allclose(found[:16], 1.9 * large / 16, err_msg="a closed block")
    np.testing.assert_allclose(found[40:44], steps[40:44], err_msg="an open block")
    assert not found[44:48].any(), "a closed block"


@pytest.mark.parametrize("check", [check_blocks, check_blocks_in_blocks])
def test_blocks_are_opened_above_two_deviations(check: Any) -> None:
    check()


@pytest.mark.parametrize("deviations", [0.0, 1.0, 3.5])
def test_another_threshold_is_found(deviations: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(factors, "_OPENED_DEVIATIONS", deviations)
    with pytest.raises(AssertionError, match="block"):
        check_blocks()


def test_weights_are_never_below_0() -> None:
    rng = np.random.default_rng(5)
    for size in (1, 3, 17, 100):
        found = likely_weights(ToeplitzRoot(size), rng.normal(0, 50, size), rng.normal(0, 50, size), ROW_VARIANCE)
        assert (found >= 0).all()
