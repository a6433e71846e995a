"""The discrete Gaussian sampler is exact: its tables against mpmath, and statistics of every sampling path.

A test of correct noise (randomness of the operating system) fails with probability at most 1e-9, see
tests/helpers/tolerances.py. Fixed seeds serve the assertions that a statistic detects a fault.
"""

from __future__ import annotations

import hashlib
import importlib
import math
import multiprocessing
import os
import pickle
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_dpsketch.privacy.noise import discrete_gaussian, rejection
from beam_dpsketch.privacy.noise import gaussian_bounds as exponential_module
from beam_dpsketch.privacy.noise.gaussian_bounds import GaussianTable, ceiling_shift, exponential_bounds, gaussian_table
from tests.helpers import tolerances

SIGMAS = [Fraction(1, 2), Fraction(1), Fraction(2), Fraction(37, 10), Fraction(10), Fraction(100)]
Sampler = discrete_gaussian._Sampler


def seeded(seed: int) -> Callable[[int], bytes]:
    """Reproducible bytes in place of those of the operating system."""
    return np.random.default_rng(seed).bytes


def accepts(samples: np.ndarray, sigma_squared: Fraction) -> dict[str, bool]:
    """The verdicts of the three statistics of a single sample."""
    return {
        "mean": tolerances.mean_accepts(samples, sigma_squared),
        "variance": tolerances.variance_accepts(samples, sigma_squared),
        "chi-square": tolerances.chi_square_accepts(samples, sigma_squared),
    }


ALL_ACCEPT = {"mean": True, "variance": True, "chi-square": True}


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


def true_cumulative(sigma_squared: Fraction, step_bits: int, entries: int) -> list[mpmath.mpf]:
    """P(multiple <= k) for the first k, at the precision of mpmath; the total by Poisson summation."""
    variance = mpmath.mpf(sigma_squared.numerator) / sigma_squared.denominator / 4**step_bits
    if variance > 1:
        # Independent of the table's own tail bound.
        dual = sum(mpmath.exp(-2 * mpmath.pi**2 * variance * k * k) for k in range(-40, 41))
        total = (mpmath.sqrt(2 * mpmath.pi * variance) * dual + 1) / 2
    else:
        total = sum(mpmath.exp(-mpmath.mpf(k * k) / (2 * variance)) for k in range(60))
    cumulative, partial = [], mpmath.mpf(0)
    for k in range(entries):
        partial += mpmath.exp(-mpmath.mpf(k * k) / (2 * variance))
        cumulative.append(partial / total)
    return cumulative


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


class TestInversion:
    """Every decision on a short prefix is right, by enumeration of all prefixes."""

    @pytest.mark.parametrize("sigma", [Fraction(1, 2), Fraction(1), Fraction(37, 10), Fraction(40)])
    def test_no_wrong_certified_decision(self, sigma: Fraction, monkeypatch: pytest.MonkeyPatch) -> None:
        bits = 12
        sampler = Sampler(sigma**2, prefix_bits=bits)
        monkeypatch.setattr(Sampler, "_refine_multiple", lambda self, prefix, random_bytes: -1)
        prefixes = np.arange(1 << bits, dtype=np.uint64)
        decided = sampler._invert_prefixes(prefixes, os.urandom)
        certified = np.flatnonzero(decided >= 0)
        with mpmath.workprec(400):
            cumulative = [mpmath.mpf(0), *true_cumulative(sigma**2, 0, int(decided.max()) + 1)]
            for prefix in certified.tolist():
                multiple = int(decided[prefix])
                assert cumulative[multiple] <= mpmath.mpf(prefix) / 2**bits
                assert mpmath.mpf(prefix + 1) / 2**bits <= cumulative[multiple + 1]
            # Only a prefix whose interval holds a threshold may stay undecided.
            holding = {int(mpmath.floor(value * 2**bits)) for value in true_cumulative(sigma**2, 0, 800)}
        undecided = set(np.flatnonzero(decided < 0).tolist())
        assert undecided == {prefix for prefix in holding if prefix < 1 << bits} | {(1 << bits) - 1}

    def test_refinement_agrees_with_a_longer_prefix(self) -> None:
        # Twelve bits and a refinement, or 63 bits at once: the same uniform must select the same multiple.
        short, long = Sampler(Fraction(100), prefix_bits=12), Sampler(Fraction(100), prefix_bits=63)
        generator = np.random.default_rng(1)
        for _ in range(2_000):
            prefix, tail = int(generator.integers(1 << 12)), generator.bytes(8)
            uniform = (prefix << 64 | int.from_bytes(tail, "little")) >> 13
            expected = long._invert_prefixes(np.array([uniform], dtype=np.uint64), os.urandom)[0]
            assert short._refine_multiple(prefix, partial(bytes.ljust, tail)) == expected

    def test_refinement_continues_beyond_the_first_table(self) -> None:
        # All-ones bytes stay above every threshold of 128 and of 256 bits; the zeros that follow decide.
        answers = iter([b"\xff" * 8] * 3 + [b"\0" * 8] * 10)
        multiple = Sampler(Fraction(1))._refine_multiple((1 << 63) - 1, lambda size: next(answers))
        tail_bits = 63 + 3 * 64
        # P(|x| > k) is about 2**-tail_bits for k near sqrt(2 tail_bits log 2).
        assert abs(multiple - math.sqrt(2 * tail_bits * math.log(2))) < 2

    def test_thresholds_survive_the_conversion_to_words(self) -> None:
        sampler = Sampler(Fraction(1000) ** 2)
        table = gaussian_table(Fraction(1000) ** 2, 3, 128)
        entries = len(sampler._lower)
        assert [int(value) for value in sampler._lower] == [value >> 65 for value in table.lower[:entries]]
        assert int(sampler._certain_from[0]) == 0
        assert int(sampler._certain_from[-1]) == 1 << 63
        assert int(sampler._certain_from[-2]) < 1 << 63


class TestAcceptance:
    """The float filter never contradicts the exact decision."""

    @pytest.mark.parametrize("sigma", [Fraction(200), Fraction(10**6), Fraction(2**50)])
    def test_filter_agrees_with_the_exact_decision(self, sigma: Fraction) -> None:
        sampler = Sampler(sigma**2)
        generator = np.random.default_rng(2)
        base = generator.integers(0, 1000, 2_000) << sampler._step_bits
        before = base.copy()
        words = generator.bytes(8 * len(base))
        served = iter([words])
        keep = sampler._add_offsets(base, lambda size: next(served, b"\0" * size))
        uniform_bits = 64 - sampler._step_bits
        for index, word in enumerate(np.frombuffer(words, dtype="<u8").tolist()):
            offset, uniform = word >> uniform_bits, word & ((1 << uniform_bits) - 1)
            arguments = int(before[index]), offset, uniform, uniform_bits
            assert base[index] == before[index] + offset
            assert keep[index] == sampler._accepts_exactly(*arguments, lambda size: b"\0" * size)
        assert 0.5 < keep.mean() < 1

    @pytest.mark.parametrize("sigma", [Fraction(200), Fraction(10**6), Fraction(2**50)])
    def test_filter_leaves_close_decisions_to_the_exact_one(self, sigma: Fraction) -> None:
        # The uniform whose interval holds the acceptance probability: only the bits that follow can decide.
        sampler = Sampler(sigma**2)
        uniform_bits, base = 64 - sampler._step_bits, 100 << sampler._step_bits
        offset = (1 << sampler._step_bits) - 1
        lower, upper = exponential_bounds(offset * (offset + 2 * base), 2 * int(sigma) ** 2, uniform_bits)
        assert upper - lower <= 1
        word = (offset << uniform_bits | lower).to_bytes(8, "little")
        for tail, expected in ((b"\0" * 8, True), (b"\xff" * 8, False)):
            served = iter([word, tail])
            keep = sampler._add_offsets(np.array([base]), partial(next, served))
            assert keep.tolist() == [expected]

    def test_exact_decision_draws_more_bits_when_needed(self) -> None:
        sampler = Sampler(Fraction(200) ** 2)
        lower, upper = exponential_bounds(1 * (1 + 2 * 10), 2 * 200**2, 20)
        assert upper - lower <= 1
        low = sampler._accepts_exactly(10, 1, lower, 20, lambda size: b"\0" * size)
        high = sampler._accepts_exactly(10, 1, lower, 20, lambda size: b"\xff" * size)
        assert (low, high) == (True, False)


class TestDistribution:
    """Mean, variance and histogram are those of the discrete Gaussian, on every path."""

    @pytest.mark.parametrize("sigma", SIGMAS, ids=str)
    def test_matches_the_exact_probabilities(self, sigma: Fraction) -> None:
        assert accepts(discrete_gaussian.sample(200_000, sigma**2), sigma**2) == ALL_ACCEPT

    @pytest.mark.parametrize("sigma", [Fraction(128), Fraction(1000)], ids=str)
    def test_matches_the_exact_probabilities_with_a_step(self, sigma: Fraction) -> None:
        assert accepts(discrete_gaussian.sample(200_000, sigma**2), sigma**2) == ALL_ACCEPT

    @pytest.mark.parametrize("prefix_bits", [1, 3, 6, 9])
    @pytest.mark.parametrize("step_bits", [0, 2])
    def test_refinement_keeps_the_distribution(self, prefix_bits: int, step_bits: int) -> None:
        sampler = Sampler(Fraction(9), prefix_bits=prefix_bits, step_bits=step_bits)
        assert accepts(sampler.sample(20_000, os.urandom), Fraction(9)) == ALL_ACCEPT

    @pytest.mark.parametrize("step_bits", [1, 2, 3, 5])
    def test_rejection_keeps_the_distribution(self, step_bits: int) -> None:
        sampler = Sampler(Fraction(37, 10) ** 2, step_bits=step_bits)
        assert accepts(sampler.sample(50_000, os.urandom), Fraction(37, 10) ** 2) == ALL_ACCEPT

    def test_exact_acceptance_keeps_the_distribution(self, monkeypatch: pytest.MonkeyPatch) -> None:
        # A slack of 1 sends every draw to the integer decision.
        monkeypatch.setattr(rejection, "_FLOAT_SLACK", 1.0)
        sampler = Sampler(Fraction(9), step_bits=2)
        assert accepts(sampler.sample(10_000, os.urandom), Fraction(9)) == ALL_ACCEPT

    def test_sign_is_independent_of_the_magnitude(self) -> None:
        samples = discrete_gaussian.sample(200_000, Fraction(100))
        for magnitude in range(1, 20):
            positive = int(np.sum(samples == magnitude))
            total = positive + int(np.sum(samples == -magnitude))
            # Hoeffding; false-alarm probability 1e-9 / 20 for each of the 19 magnitudes.
            assert abs(positive - total / 2) <= math.sqrt(total / 2 * math.log(2 * 20 / 1e-9))

    @pytest.mark.parametrize("sigma", [Fraction(10**6), Fraction(2**50)], ids=str)
    def test_large_sigma(self, sigma: Fraction) -> None:
        # Close to a continuous Gaussian; Kolmogorov-Smirnov by Massart's bound, 2 exp(-2 n d**2) = 9e-10.
        samples = discrete_gaussian.sample(100_000, sigma**2)
        normal = np.sort(samples) / float(sigma)
        levels = np.arange(1, len(normal) + 1) / len(normal)
        probabilities = np.array([0.5 * math.erfc(-value / math.sqrt(2)) for value in normal])
        limit = math.sqrt(math.log(2 / 9e-10) / (2 * len(normal)))
        assert np.max(np.abs(probabilities - levels)) <= limit + 1e-5
        # Low bits of the offset are there: the residues modulo 16 are uniform.
        residues = np.bincount(np.mod(samples, 16), minlength=16)
        expected = len(samples) / 16
        statistic = float(np.sum((residues - expected) ** 2) / expected)
        assert statistic < 80  # chi-square with 15 degrees of freedom exceeds 80 with probability 8e-11

    @pytest.mark.slow
    @pytest.mark.parametrize("sigma", [*SIGMAS, Fraction(127), Fraction(300), Fraction(1000)], ids=str)
    def test_matches_the_exact_probabilities_at_length(self, sigma: Fraction) -> None:
        assert accepts(discrete_gaussian.sample(20_000_000, sigma**2), sigma**2) == ALL_ACCEPT

    @pytest.mark.slow
    @pytest.mark.parametrize("prefix_bits", [2, 5, 8])
    def test_refinement_keeps_the_distribution_at_length(self, prefix_bits: int) -> None:
        sampler = Sampler(Fraction(9), prefix_bits=prefix_bits, step_bits=1)
        assert accepts(sampler.sample(400_000, os.urandom), Fraction(9)) == ALL_ACCEPT


class TestStatisticsCanFail:
    """The statistics above refuse wrong noise; fixed seeds, so this cannot fail by chance."""

    @pytest.mark.parametrize("sigma", SIGMAS, ids=str)
    @pytest.mark.parametrize("factor", [Fraction(97, 100), Fraction(103, 100)])
    def test_refuse_sigma_three_percent_off(self, sigma: Fraction, factor: Fraction) -> None:
        sampler = Sampler((sigma * factor) ** 2)  # without the lower limit of sigma
        verdicts = accepts(sampler.sample(200_000, seeded(3)), sigma**2)
        assert not verdicts["variance"]
        assert not verdicts["chi-square"]

    @pytest.mark.parametrize("sigma", [1, 2, 10])
    def test_refuse_rounding_down(self, sigma: int) -> None:
        samples = np.floor(np.random.default_rng(4).normal(0, sigma, 200_000)).astype(np.int64)
        verdicts = accepts(samples, Fraction(sigma) ** 2)
        assert not verdicts["mean"]
        assert not verdicts["chi-square"]

    @pytest.mark.parametrize("sigma", [1, 2, 10])
    def test_refuse_laplace(self, sigma: int) -> None:
        laplace = np.random.default_rng(5).laplace(0, sigma / math.sqrt(2), 200_000)
        assert not accepts(np.rint(laplace).astype(np.int64), Fraction(sigma) ** 2)["chi-square"]

    def test_refuse_zero_counted_twice(self) -> None:
        # What the sampler would do if it kept -0.
        samples = discrete_gaussian.sample(200_000, Fraction(9), random_bytes=seeded(6))
        zeros = np.zeros(int(np.sum(samples == 0)), dtype=np.int64)
        assert not accepts(np.concatenate([samples, zeros]), Fraction(9))["chi-square"]

    def test_refuse_constant_noise(self) -> None:
        verdicts = accepts(np.zeros(200_000, dtype=np.int64), Fraction(9))
        assert verdicts == {"mean": True, "variance": False, "chi-square": False}

    def test_two_sample_test_refuses_sigma_ten_percent_off(self) -> None:
        first = discrete_gaussian.sample(20_000, Fraction(9), random_bytes=seeded(7))
        second = discrete_gaussian.sample(20_000, Fraction(33, 10) ** 2, random_bytes=seeded(8))
        assert tolerances.two_sample_p_value(first, second) < tolerances.APPROXIMATE_FALSE_ALARM

    @pytest.mark.one_fast_case
    @pytest.mark.parametrize("level", [0.05, 0.5])
    def test_p_values_are_calibrated(self, level: float) -> None:
        # 400 reproducible runs. Chi-square p-values are uniform; Chernoff bounds are valid, hence larger.
        draws = seeded(9)
        runs = [discrete_gaussian.sample(10_000, Fraction(4), random_bytes=draws) for _ in range(400)]
        chi_square = np.mean([tolerances.chi_square_p_value(run, Fraction(4)) <= level for run in runs])
        assert abs(chi_square - level) <= 4 * math.sqrt(level * (1 - level) / 400)
        for p_value in (tolerances.mean_p_value, tolerances.variance_p_value):
            assert np.mean([p_value(run, Fraction(4)) <= level for run in runs]) <= level


class TestOracle:
    """An independent implementation of the same distribution agrees."""

    @staticmethod
    def opendp_samples(size: int, sigma: float) -> np.ndarray:
        dp: Any = importlib.import_module("opendp.prelude")
        dp.enable_features("contrib")
        space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="f64")
        return np.array(dp.m.make_gaussian(*space, scale=sigma)([0] * size), dtype=np.int64)

    @pytest.mark.one_fast_case
    @pytest.mark.parametrize("sigma", [1, 3, 150])
    def test_agrees_with_opendp(self, sigma: int) -> None:
        theirs = self.opendp_samples(15_000, float(sigma))
        ours = discrete_gaussian.sample(60_000, Fraction(sigma) ** 2)
        assert tolerances.two_sample_p_value(ours, theirs) >= tolerances.APPROXIMATE_FALSE_ALARM

    @pytest.mark.slow
    @pytest.mark.parametrize("sigma", [1, 3, 150])
    def test_agrees_with_opendp_at_length(self, sigma: int) -> None:
        theirs = self.opendp_samples(300_000, float(sigma))
        ours = discrete_gaussian.sample(3_000_000, Fraction(sigma) ** 2)
        assert tolerances.two_sample_p_value(ours, theirs, 1000) >= tolerances.APPROXIMATE_FALSE_ALARM


class TestRefusals:
    """Arguments out of range are refused with the name of the argument and the range."""

    @pytest.mark.parametrize("sigma_squared", [Fraction(24, 100), Fraction(0), Fraction(-1), 2**100 + 1, 0])
    def test_sigma_squared_out_of_range(self, sigma_squared: Fraction) -> None:
        with pytest.raises(ValueError, match=r"sigma_squared must be a Fraction between 1/4 and 2\*\*100, got "):
            discrete_gaussian.sample(1, sigma_squared)

    @pytest.mark.parametrize("sigma_squared", [1.5, math.nan, math.inf, "1", None, True, 1j])
    def test_sigma_squared_not_a_fraction(self, sigma_squared: Any) -> None:
        with pytest.raises(ValueError, match="sigma_squared must be a Fraction between"):
            discrete_gaussian.sample(1, sigma_squared)

    @pytest.mark.parametrize("size", [-1, 1.0, math.nan, "3", None, True])
    def test_size(self, size: Any) -> None:
        with pytest.raises(ValueError, match="size must be an integer >= 0, got "):
            discrete_gaussian.sample(size, Fraction(1))

    def test_too_few_random_bytes(self) -> None:
        with pytest.raises(ValueError, match="buffer is smaller"):
            discrete_gaussian.sample(10, Fraction(1), random_bytes=lambda size: b"\1" * (size - 8))

    @pytest.mark.parametrize("sigma_squared", [Fraction(1, 4), Fraction(2**100), 9, np.int64(9)])
    def test_limits_and_integers_are_accepted(self, sigma_squared: Any) -> None:
        assert discrete_gaussian.sample(np.int64(3), sigma_squared).shape == (3,)


class TestRandomness:
    """Noise depends on the bytes given, and on nothing that is kept."""

    @pytest.mark.parametrize("size", [0, 1, 2, rejection.DRAWN_AT_ONCE + 1])
    def test_shape_and_type(self, size: int) -> None:
        samples = discrete_gaussian.sample(size, Fraction(1))
        assert samples.shape == (size,)
        assert samples.dtype == np.int64
        assert samples.flags.writeable

    @pytest.mark.parametrize("sigma_squared", [Fraction(1, 4), Fraction(100), Fraction(10**6)])
    def test_same_bytes_give_the_same_noise(self, sigma_squared: Fraction) -> None:
        first, again, other = (
            discrete_gaussian.sample(50_000, sigma_squared, random_bytes=seeded(seed)) for seed in (10, 10, 11)
        )
        assert np.array_equal(first, again)
        assert not np.array_equal(first, other)

    def test_known_bytes_give_known_noise(self) -> None:
        # One word a draw, little-endian: 63 bits of inversion, and the lowest bit is the sign.
        words = [0x0000_0000_0000_0002, 0x0000_0000_0000_0001, 1 << 63 | 2**62, 1 << 63 | 2**62 | 1, 0]
        served = iter(words)
        samples = discrete_gaussian.sample(
            4,
            Fraction(1),
            random_bytes=lambda size: b"".join(next(served).to_bytes(8, "little") for _ in range(size // 8)),
        )
        # The second word is -0, rejected and replaced. The half-line has P(0) = 0.57 and P(<= 1) = 0.92.
        assert samples.tolist() == [0, 1, -1, 0]

    def test_two_calls_differ(self) -> None:
        # Equal with probability below 2**-2000.
        first, second = (discrete_gaussian.sample(1000, Fraction(100)) for _ in range(2))
        assert not np.array_equal(first, second)

    def test_sampler_holds_no_randomness(self) -> None:
        sampler = discrete_gaussian._sampler(Fraction(49))
        before = pickle.dumps(sampler)
        discrete_gaussian.sample(10_000, Fraction(49))
        assert pickle.dumps(sampler) == before
        assert b"Generator" not in before
        assert b"BitGenerator" not in before

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
    @pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
    def test_forked_children_draw_distinct_noise(self) -> None:
        discrete_gaussian.sample(1000, Fraction(100))  # everything cached is inherited by the children
        processes = 4
        context = multiprocessing.get_context("fork")
        receivers = []
        for _ in range(processes):
            receiver, sender = context.Pipe(duplex=False)
            child = context.Process(target=_send_noise, args=(sender,))
            child.start()
            receivers.append((receiver, child))
        vectors = {receiver.recv_bytes() for receiver, _ in receivers}
        for _, child in receivers:
            child.join()
        vectors.add(discrete_gaussian.sample(100, Fraction(100)).tobytes())
        assert len(vectors) == processes + 1


def _send_noise(sender: Any) -> None:
    """Draw noise in a child process."""
    sender.send_bytes(discrete_gaussian.sample(100, Fraction(100)).tobytes())
