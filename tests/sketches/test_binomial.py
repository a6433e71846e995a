"""The binomial tail, compared with scipy's."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from beam_dpsketch.sketches.binomial import half_or_more


@pytest.mark.parametrize("trials", [1, 2, 3, 4, 5, 8, 9, 64])
def test_half_or_more_is_the_upper_tail_for_one_probability_or_many(trials: int) -> None:
    probabilities = np.linspace(0, 1, 21)
    expected = stats.binom(trials, probabilities).sf((trials - 1) // 2)
    np.testing.assert_allclose(half_or_more(trials, probabilities), expected, rtol=1e-9, atol=1e-15)
    for probability, tail in zip(probabilities.tolist(), expected.tolist(), strict=True):
        assert half_or_more(trials, probability) == pytest.approx(tail, rel=1e-9, abs=1e-15)
