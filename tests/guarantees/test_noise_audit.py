"""The noise audit is silent on correct noise and raises the expected alarm for each fault.

Correct noise comes from the operating system: false-alarm probability at most 6e-12 a run. Faulty noise comes
from fixed seeds, so its detection is reproducible and cannot be missed by chance.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from beam_dpsketch.privacy.noise import discrete_gaussian
from tests.helpers.noise_audit import audit

CELLS = 131_072
DEPTH = 6
SIGMA_SQUARED = Fraction(144)
SIGMA = 12.0
Noise = NDArray[np.int64]
Pair = tuple[Noise, Noise]


def draw(generator: np.random.Generator, scale_squared: Fraction = Fraction(1)) -> Noise:
    """Reproducible noise of one key, with sigma_squared off by a factor."""
    return discrete_gaussian.sample(CELLS, SIGMA_SQUARED * scale_squared, random_bytes=generator.bytes)


def no_noise(generator: np.random.Generator) -> Pair:
    """Release the exact counters."""
    return np.zeros(CELLS, dtype=np.int64), np.zeros(CELLS, dtype=np.int64)


def added_twice(generator: np.random.Generator) -> Pair:
    """Add the noise in two places."""
    return draw(generator) + draw(generator), draw(generator) + draw(generator)


def sigma_too_small(generator: np.random.Generator) -> Pair:
    """Take 97 % of sigma."""
    return draw(generator, Fraction(97, 100) ** 2), draw(generator, Fraction(97, 100) ** 2)


def sigma_too_large(generator: np.random.Generator) -> Pair:
    """Take 103 % of sigma."""
    return draw(generator, Fraction(103, 100) ** 2), draw(generator, Fraction(103, 100) ** 2)


def depth_off_by_one(generator: np.random.Generator) -> Pair:
    """Calibrate for five rows and release six."""
    return draw(generator, Fraction(DEPTH - 1, DEPTH)), draw(generator, Fraction(DEPTH - 1, DEPTH))


def shared_between_keys(generator: np.random.Generator) -> Pair:
    """Reuse the noise of the first key."""
    noise = draw(generator)
    return noise, noise.copy()


def shifted_between_keys(generator: np.random.Generator) -> Pair:
    """Read both keys from one stream, 5,000 cells apart."""
    noise = discrete_gaussian.sample(CELLS + 5_000, SIGMA_SQUARED, random_bytes=generator.bytes)
    return noise[:CELLS], noise[5_000:]


def shifted_backwards(generator: np.random.Generator) -> Pair:
    """Read the second key from earlier in the stream."""
    first, second = shifted_between_keys(generator)
    return second, first


def five_percent_shared(generator: np.random.Generator) -> Pair:
    """Share every twentieth part of the cells."""
    first, second = draw(generator), draw(generator)
    second[: CELLS // 20] = first[: CELLS // 20]
    return first, second


def second_row_is_first_row(generator: np.random.Generator) -> Pair:
    """Reuse the noise of a row within a key."""
    first, second = draw(generator), draw(generator)
    width = CELLS // DEPTH
    first[width : 2 * width] = first[:width]
    return first, second


def neighbours_correlated(generator: np.random.Generator) -> Pair:
    """Repeat one draw in 32 in the neighbouring cell."""
    first, second = draw(generator), draw(generator)
    first[1 : CELLS // 16 : 2] = first[: CELLS // 16 : 2]
    return first, second


def floored(generator: np.random.Generator) -> Pair:
    """Round a continuous Gaussian down."""
    first, second = np.floor(generator.normal(0, SIGMA, (2, CELLS))).astype(np.int64)
    return first, second


def laplace(generator: np.random.Generator) -> Pair:
    """Take Laplace noise of equal variance."""
    first, second = np.rint(generator.laplace(0, SIGMA / np.sqrt(2), (2, CELLS))).astype(np.int64)
    return first, second


FAULTS: list[tuple[Callable[[np.random.Generator], Pair], set[str]]] = [
    (no_noise, {"variance", "chi-square"}),
    (added_twice, {"variance", "chi-square"}),
    (sigma_too_small, {"variance", "chi-square"}),
    (sigma_too_large, {"variance", "chi-square"}),
    (depth_off_by_one, {"variance", "chi-square"}),
    (shared_between_keys, {"cross-correlation"}),
    (shifted_between_keys, {"cross-correlation"}),
    (shifted_backwards, {"cross-correlation"}),
    (five_percent_shared, {"cross-correlation"}),
    (second_row_is_first_row, {"autocorrelation"}),
    (neighbours_correlated, {"lag-1"}),
    (floored, {"mean", "chi-square"}),
    (laplace, {"chi-square"}),
]


def test_correct_noise_raises_no_alarm() -> None:
    first = discrete_gaussian.sample(CELLS, SIGMA_SQUARED)
    second = discrete_gaussian.sample(CELLS, SIGMA_SQUARED)
    assert audit(first, second, SIGMA_SQUARED) == set()


@pytest.mark.one_fast_case
@pytest.mark.parametrize(("fault", "expected"), FAULTS, ids=[fault.__name__ for fault, _ in FAULTS])
def test_fault_raises_the_alarm(fault: Callable[[np.random.Generator], Pair], expected: set[str]) -> None:
    first, second = fault(np.random.default_rng(20_200_401))
    assert expected <= audit(first, second, SIGMA_SQUARED)


def test_every_alarm_is_shown_to_ring() -> None:
    alarms = {"mean", "variance", "chi-square", "lag-1", "autocorrelation", "cross-correlation"}
    assert set().union(*(expected for _, expected in FAULTS)) == alarms


@pytest.mark.parametrize("cells", [(20_000, 20_001), (100, 100)])
def test_refuses_residuals_too_short_or_unequal(cells: tuple[int, int]) -> None:
    first, second = (np.zeros(size, dtype=np.int64) for size in cells)
    with pytest.raises(ValueError, match="residuals must be two equally long vectors"):
        audit(first, second, SIGMA_SQUARED)


@pytest.mark.slow
def test_correct_noise_raises_no_alarm_in_many_runs() -> None:
    # False-alarm probability at most 100 x 6e-12; small and large sigma have different sampling paths.
    for sigma_squared in (Fraction(1), SIGMA_SQUARED, Fraction(1000) ** 2, Fraction(7, 3)):
        for _ in range(25):
            first = discrete_gaussian.sample(CELLS, sigma_squared)
            second = discrete_gaussian.sample(CELLS, sigma_squared)
            assert audit(first, second, sigma_squared) == set()
