"""Bounds on the exponential and on cumulative probabilities contain them, by mpmath, and are narrow."""

from __future__ import annotations

import hashlib
import math
from fractions import Fraction

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_dpsketch.privacy.noise import gaussian_bounds as exponential_module
from beam_dpsketch.privacy.noise.gaussian_bounds import GaussianTable, ceiling_shift, exponential_bounds, gaussian_table
from tests.helpers.tails import true_cumulative


class TestExponentialBounds:
    """The intervals contain the true exponential and are narrow."""

    @settings(max_examples=300, deadline=None)
    @given(st.integers(0, 2**80), st.integers(1, 2**80), st.integers(1, 400))
    def test_contain_the_true_value(self, numerator: int, denominator: int, bits: int) -> None:
        self.check(numerator, denominator, bits)

    @pytest.mark.parametrize("bits", [1, 20, 64, 192, 400])
    @pytest.mark.parametrize("numerator", [0, 1, 49, 50, 51, 100, 101, 700, 10**4, 10**9])
    def test_contain_the_true_value_on_a_grid(self, numerator: int, bits: int) -> None:
        self.check(numerator, 100, bits)

    def check(self, numerator: int, denominator: int, bits: int) -> None:
        lower, upper = exponential_bounds(numerator, denominator, bits)
        with mpmath.workprec(bits + 300):
            true = mpmath.exp(-mpmath.mpf(numerator) / denominator) * mpmath.mpf(2) ** bits
            assert lower <= true <= upper
        assert 0 <= lower <= upper <= lower + 2
        assert upper <= 1 << bits

    @pytest.mark.parametrize("bits", range(1, 13))
    def test_rounding_is_outwards(self, bits: int, monkeypatch: pytest.MonkeyPatch) -> None:
        # Guard bits make the intervals narrow but must not be what makes them right.
        monkeypatch.setattr(exponential_module, "_GUARD_BITS", 0)
        with mpmath.workprec(200):
            for numerator in range(1, 400, 3):
                lower, upper = exponential_bounds(numerator, 101, bits)
                assert lower <= mpmath.exp(-mpmath.mpf(numerator) / 101) * 2**bits <= upper
            for numerator in range(1, 51):
                lower, upper = exponential_module._taylor_bounds(numerator, 101, bits)
                assert lower <= mpmath.exp(-mpmath.mpf(numerator) / 101) * 2**bits <= upper

    def test_certain_value_is_exact(self) -> None:
        assert exponential_bounds(0, 7, 20) == (1 << 20, 1 << 20)

    @pytest.mark.parametrize(("numerator", "denominator"), [(-1, 1), (1, 0), (1, -1)])
    def test_refuses_what_is_not_a_nonnegative_fraction(self, numerator: int, denominator: int) -> None:
        with pytest.raises(ValueError, match="numerator must be >= 0 and denominator > 0"):
            exponential_bounds(numerator, denominator, 10)

    def test_refuses_no_bits(self) -> None:
        with pytest.raises(ValueError, match="bits must be >= 1, got 0"):
            exponential_bounds(1, 1, 0)

    @given(st.integers(-(2**70), 2**70), st.integers(0, 80))
    def test_ceiling_shift(self, value: int, bits: int) -> None:
        assert ceiling_shift(value, bits) == math.ceil(Fraction(value, 1 << bits))


def table_digest(table: GaussianTable) -> str:
    """SHA-256 of all thresholds, 17 bytes each."""
    thresholds = [*table.lower, *table.upper]
    return hashlib.sha256(b"".join(value.to_bytes(17, "big") for value in thresholds)).hexdigest()


class TestGaussianTable:
    """The thresholds contain the true cumulative probabilities, and never change."""

    @pytest.mark.parametrize(
        ("sigma_squared", "step_bits"),
        [
            (Fraction(1, 4), 0),
            (Fraction(1), 0),
            (Fraction(37, 10) ** 2, 0),
            (Fraction(127) ** 2, 0),
            (Fraction(1000) ** 2, 3),
            (Fraction(2) ** 100, 44),
            (Fraction(4), 3),
        ],
    )
    def test_contains_the_true_cumulative_probabilities(self, sigma_squared: Fraction, step_bits: int) -> None:
        table = gaussian_table(sigma_squared, step_bits, 128)
        with mpmath.workprec(400):
            for true, lower, upper in zip(
                true_cumulative(sigma_squared, step_bits, len(table.lower)), table.lower, table.upper, strict=True
            ):
                assert lower <= true * mpmath.mpf(2) ** 128 <= upper
                assert upper - lower <= 2

    @pytest.mark.parametrize("precision", [64, 256, 320])
    def test_other_precisions(self, precision: int) -> None:
        table = gaussian_table(Fraction(9), 0, precision)
        with mpmath.workprec(600):
            for index, true in enumerate(true_cumulative(Fraction(9), 0, len(table.lower))):
                assert table.lower[index] <= true * mpmath.mpf(2) ** precision <= table.upper[index]
                assert table.upper[index] - table.lower[index] <= 2

    def test_is_nondecreasing_and_ends_saturated(self) -> None:
        table = gaussian_table(Fraction(100), 0, 128)
        assert list(table.lower) == sorted(table.lower)
        assert list(table.upper) == sorted(table.upper)
        assert table.upper[-1] == 1 << 128

    @pytest.mark.one_fast_case
    @pytest.mark.parametrize("sigma_squared", [Fraction(1, 4), Fraction(9), Fraction(400)])
    def test_locate_decides_what_is_certain_and_nothing_else(self, sigma_squared: Fraction) -> None:
        bits = 11
        table = gaussian_table(sigma_squared, 0, 128)
        with mpmath.workprec(400):
            inner = [value * 2**bits for value in true_cumulative(sigma_squared, 0, len(table.lower))]
            holding = {int(mpmath.floor(value)) for value in inner} | {(1 << bits) - 1}
            for prefix in range(1 << bits):
                expected = None if prefix in holding else sum(value < prefix for value in inner)
                assert table.locate(prefix, bits) == expected

    def test_locate_does_not_decide_beyond_the_table(self) -> None:
        table = gaussian_table(Fraction(1), 0, 128)
        assert table.locate((1 << 128) - 1, 128) is None
        assert table.locate(0, 128) == 0

    @pytest.mark.parametrize(
        ("sigma_squared", "step_bits", "digest"),
        [
            (Fraction(1), 0, "574cca5d3ad8762839141319a42abcb7b76346f0fa65c572a20e5a2e365976c3"),
            (Fraction(1000) ** 2, 3, "dbeddf71c2c211993544edb5c6b39f5749e5f51bb69890418d6d189c262f3e9c"),
        ],
    )
    def test_never_changes(self, sigma_squared: Fraction, step_bits: int, digest: str) -> None:
        assert table_digest(gaussian_table(sigma_squared, step_bits, 128)) == digest
