"""The numbers of norm bounding: exact below 2^53, rounded to the safe side above it, and low bits that noise drowns."""

from __future__ import annotations

import math
from collections import defaultdict
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_dpsketch.privacy.noise import drawing
from beam_dpsketch.privacy.noise.laws import Noise
from beam_dpsketch.privacy.norm import scaling
from beam_dpsketch.privacy.norm.scaling import NO_SCALING, SCALE_BITS, Row, TableWeights
from tests.helpers.tolerances import discrete_gaussian

NORMS = st.one_of(st.integers(1, 1 << 31), st.fractions(Fraction(1, 1 << 16), 1000, max_denominator=1 << 16))
ONE_IN_16_MILLION = Fraction(1, 1 << 24)


@st.composite
def net_weights(draw: st.DrawFn, largest: int, width: int) -> tuple[np.ndarray, np.ndarray, list[Row]]:
    """Thresholding, their units, and rows of tables with the sizes of net weights, which differ from row to row."""
    groups = np.cumsum(draw(st.lists(st.integers(0, 1), min_size=1, max_size=40)))
    groups -= groups[0]
    count = int(groups[-1]) + 1
    units = np.cumsum([0, *draw(st.lists(st.integers(0, 1), min_size=count - 1, max_size=count - 1))])
    size = len(groups)
    sizes = st.lists(st.integers(0, largest), min_size=size, max_size=size)
    cells = st.lists(st.integers(0, width - 1) | st.integers(0, 1), min_size=size, max_size=size)
    rows = draw(st.lists(st.tuples(st.integers(1, 9), cells, sizes), min_size=1, max_size=4))
    return (
        groups,
        units,
        [Row(number, *(np.array(each, dtype=np.int64) for each in of_row)) for number, *of_row in rows],
    )


def exact_norms(groups: np.ndarray, units: np.ndarray, rows: list[Row]) -> list[int]:
    """The same in Python integers."""
    norms = [0] * (int(units[-1]) + 1)
    for numerator, cells, sizes in rows:
        sums: dict[tuple[int, int], int] = defaultdict(int)
        for group, cell, size in zip(groups.tolist(), cells.tolist(), sizes.tolist(), strict=True):
            sums[group, cell] += size
        for (group, _), total in sums.items():
            norms[int(units[group])] += numerator * total**2
    return norms


@pytest.mark.one_fast_case
@pytest.mark.parametrize("width", [1, 5, 1 << 26, 1 << 40])
@pytest.mark.parametrize("largest", [1, 1000, scaling.MAX_ITEM_WEIGHT])
@given(data=st.data())
def test_squared_norms_are_exact_below_2_to_53_and_close_above(width: int, largest: int, data: Any) -> None:
    """Wide and heavy input takes another sort."""
    drawn = data.draw(net_weights(largest, width))
    found = scaling.squared_norms(*drawn)
    assert found.dtype == np.float64
    for norm, exact in zip(found.tolist(), exact_norms(*drawn), strict=True):
        assert norm == exact if exact < 1 << 53 else norm >= 1 << 53
        assert abs(Fraction(norm) - exact) <= exact * ONE_IN_16_MILLION / 2


def test_no_input_has_no_norms() -> None:
    nothing = np.zeros(0, dtype=np.int64)
    assert scaling.squared_norms(nothing, nothing, [Row(1, nothing, nothing)]).tolist() == []


@given(
    max_norm=NORMS,
    denominator=st.integers(1, 1 << 20),
    norm=st.integers(1, (1 << 53) - 1) | st.integers(1, 1 << 100) | st.integers(-3, 3),
)
def test_factors_keep_within_the_norm_and_are_as_large_as_they_can_be(
    max_norm: Any, denominator: int, norm: int
) -> None:
    """A float above 2^53 stands for any number within its rounding error; small ones are moved next to the limit."""
    limit = denominator * Fraction(max_norm) ** 2
    norm = max(1, math.floor(limit) + norm) if abs(norm) <= 3 else norm
    shown = float(norm)
    (factor,) = scaling.factors(np.array([shown]), max_norm, denominator).tolist()
    true = Fraction(norm) if norm < 1 << 53 else Fraction(shown) * (1 + ONE_IN_16_MILLION / 2)
    assert 0 <= factor <= NO_SCALING
    assert norm >= 1 << 53 or (factor == NO_SCALING) == (norm <= limit)
    assert factor**2 * true <= limit * NO_SCALING**2
    if factor < NO_SCALING:
        assert (factor + 1) ** 2 * true * (1 + 3 * ONE_IN_16_MILLION) > limit * NO_SCALING**2


def level_of(squares: list[Fraction], shares: list[Fraction], limit: Fraction) -> Fraction:
    """T^2 by hand: parts are filled up one by one, from the shortest; 0 if all of them fit."""
    left, rest = limit, list(zip(squares, shares, strict=True))
    while rest:
        square, share = min(rest, key=lambda part: part[0] / part[1])
        level = left / sum(share for _, share in rest)
        if square > share * level:
            return level
        rest.remove((square, share))
        left -= square
    return Fraction(0)


@given(
    max_norm=NORMS,
    denominator=st.integers(1, 1 << 20),
    parts=st.lists(
        st.tuples(st.integers(0, 1 << 20) | st.integers(0, 1 << 60), st.integers(1, 50)), min_size=1, max_size=5
    ),
)
def test_parts_share_the_norm_and_each_keeps_as_much_as_the_level_lets_it(
    max_norm: Any, denominator: int, parts: list[tuple[int, int]]
) -> None:
    limit, total = denominator * Fraction(max_norm) ** 2, sum(share for _, share in parts)
    shares = [Fraction(share, total) for _, share in parts]
    squares = np.array([[float(square)] for square, _ in parts])
    factors = scaling.factors_of_parts(squares, shares, max_norm, denominator)[:, 0].tolist()
    true = [Fraction(square) for square, _ in parts]
    assert sum(factor**2 * square for factor, square in zip(factors, true, strict=True)) <= limit * NO_SCALING**2
    level = level_of(true, shares, limit)
    if sum(true) <= limit:
        assert set(factors) == {NO_SCALING}
    for factor, square, share in zip(factors, true, shares, strict=True):
        wanted = min(Fraction(1), share * level / square) if square and level else Fraction(1)
        assert (factor + 1) ** 2 >= wanted * (1 - 8 * ONE_IN_16_MILLION) * NO_SCALING**2
        assert wanted >= min(Fraction(1), share * limit / max(square, 1)), "less than a release of its own keeps"


@given(magnitude=st.integers(0, scaling.MAX_ITEM_WEIGHT), factor=st.integers(0, NO_SCALING))
def test_scaled_weights_are_rounded_down(magnitude: int, factor: int) -> None:
    (scaled,) = scaling.scaled(np.array([magnitude]), np.array([factor])).tolist()
    assert scaled == math.floor(Fraction(magnitude * factor, NO_SCALING) * (1 << SCALE_BITS))


@given(
    tables=st.lists(st.tuples(st.integers(1, 64), st.integers(1, 1 << 40)), min_size=1, max_size=65),
    scale=st.integers(1, 1 << 40),
)
def test_weights_of_tables_are_whole_and_never_too_small(tables: list[tuple[int, int]], scale: int) -> None:
    total = sum(part for _, part in tables)
    shares = [(cells, Fraction(part, total)) for cells, part in tables]
    weights = TableWeights.of(shares)
    assert 1 <= weights.denominator <= 1 << 20
    for numerator, (cells, share) in zip(weights.numerators, shares, strict=True):
        exact = share / cells * weights.denominator
        assert numerator >= 1
        assert exact <= numerator < exact + 1
        if math.lcm(*((share / cells).denominator for cells, share in shares)) <= 1 << 20:
            assert numerator == exact


def test_ordinary_tables_have_exact_weights() -> None:
    assert TableWeights.of([(5, Fraction(1))]) == ((1,), 5)
    assert TableWeights.of([(1, Fraction(1, 3)), (2, Fraction(2, 3))]) == ((1, 1), 3)
    assert TableWeights.of([(3, Fraction(1, 16))] * 16) == ((1,) * 16, 48)


@pytest.mark.parametrize(("max_norm", "kept"), [(1, 1), (Fraction(5, 2), 2), (Fraction(1, 2), 0), (1 << 31, 1 << 31)])
def test_units_that_fit_untouched_have_at_most_that_weight(max_norm: Any, kept: int) -> None:
    totals = np.array([0, kept, kept + 1, (1 << 63) - 1])
    assert scaling.fits_untouched(totals, max_norm).tolist() == [True, True, False, False]


VARIANCES = st.fractions(Fraction(1, 1 << 32), 1 << 68)


@given(variances=st.lists(VARIANCES, min_size=1, max_size=5))
def test_drowned_bits_are_those_within_a_64th_of_the_smallest_sigma(variances: list[Fraction]) -> None:
    bits = drawing.drowned_bits(variances, 4**SCALE_BITS)
    allowed = min(variances) / 64**2  # of the square of a step
    assert bits == 0 or Fraction(1 << bits, 1 << SCALE_BITS) ** 2 <= allowed
    assert Fraction(2 << bits, 1 << SCALE_BITS) ** 2 > allowed


@given(variances=st.lists(VARIANCES, min_size=1, max_size=3), unit=st.integers(1, 1 << 100))
def test_drowned_bits_in_another_unit(variances: list[Fraction], unit: int) -> None:
    bits, allowed = drawing.drowned_bits(variances, unit), min(variances) * unit / 64**2
    assert bits == 0 or 4**bits <= allowed
    assert 4 ** (bits + 1) > allowed


@given(variance=st.fractions(Fraction(1, 256), 1 << 20))
def test_whole_counters_stay_whole_from_a_sigma_of_8_on(variance: Fraction) -> None:
    grid = Noise.GAUSSIAN.grid_bits(variance)
    bits = drawing.drowned_bits([variance], 4**grid, grid)
    assert bits >= grid if variance >= 64 else 4**bits <= max(1, variance * 4**grid / 64**2)
    assert variance * 4**grid >= 1 << 20
    assert grid == 0 or variance * 4 ** (grid - 1) < (1 << 20) + (1 << 11)


@given(counter=st.integers(-(1 << 62), 1 << 62), bits=st.integers(0, SCALE_BITS))
def test_rounding_off_is_to_the_nearest(counter: int, bits: int) -> None:
    (rounded,) = drawing.round_off(np.array([counter]), bits).tolist()
    assert rounded == math.floor(Fraction(counter, 1 << bits) + Fraction(1, 2)) if bits else rounded == counter


@pytest.mark.parametrize("bits", range(SCALE_BITS + 1))
def test_rounding_off_adds_no_more_variance_than_said(bits: int) -> None:
    """Over every low part once: sigma is at least 64 steps, so that all of them are as likely."""
    low = np.arange(-(1 << bits), 1 << bits)
    errors = [int(error) for error in (drawing.round_off(low, bits) << bits) - low]
    mean = Fraction(sum(errors), len(errors))
    variance = Fraction(sum(error**2 for error in errors), len(errors)) - mean**2
    assert mean == (Fraction(1, 2) if bits else 0)  # of a 2**-16th of a record
    smallest = 64 << bits
    assert variance <= Fraction(smallest**2, 49_152)


@pytest.mark.parametrize("bits", [1, 2, 4])
def test_rounded_noise_has_its_variance_and_that_of_rounding(bits: int) -> None:
    """From the exact probabilities of noise with the smallest sigma that drowns these bits."""
    sigma_squared = (64 << bits) ** 2
    noise = discrete_gaussian(sigma_squared)
    rounded = (drawing.round_off(noise.support, bits) << bits).astype(float)
    mean = float(np.sum(rounded * noise.probabilities))
    variance = float(np.sum(rounded**2 * noise.probabilities)) - mean**2
    assert mean == pytest.approx(0.5, abs=1e-6)
    assert variance <= sigma_squared * (1 + 1 / 49_152) * (1 + 1e-9)
    assert variance == pytest.approx(sigma_squared + (4**bits - 1) / 12, rel=1e-9)
