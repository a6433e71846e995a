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

from beam_dpsketch.privacy.noise import discrete_gaussian, keyed_randomness, rejection
from beam_dpsketch.privacy.noise.gaussian_bounds import exponential_bounds, gaussian_table
from tests.helpers import tolerances
from tests.helpers.tails import true_cumulative

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


def check_thresholds(sampler: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check the decision on the prefixes around each threshold, each start of the guide, and the ends."""
    bits = sampler._prefix_bits
    monkeypatch.setattr(Sampler, "_refine_multiple", lambda self, prefix, random_bytes: -1)
    with mpmath.workprec(200):
        true = true_cumulative(sampler._sigma_squared, sampler._step_bits, len(sampler._lower) + 200)
        cells = np.array([int(mpmath.floor(value * 2**bits)) for value in true]).clip(max=(1 << bits) - 1)
    starts = np.arange(len(sampler._guide)) << int(sampler._guide_shift)
    edges = np.concatenate([cells, starts, [0, (1 << bits) - 1]])
    prefixes = np.unique((edges[:, None] + [-1, 0, 1]).clip(0, (1 << bits) - 1))
    decided = sampler._invert_prefixes(prefixes.astype(np.uint32), os.urandom)
    # A uniform selects the number of thresholds at or below it, hence of smaller cells, and nothing if it is in a cell.
    expected = np.where(np.isin(prefixes, cells), -1, np.searchsorted(cells, prefixes))
    assert np.array_equal(decided, expected)


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
        # Twelve bits and a refinement, or 31 bits at once: the same uniform must select the same multiple.
        short, long = Sampler(Fraction(100), prefix_bits=12), Sampler(Fraction(100))
        generator = np.random.default_rng(1)
        for _ in range(2_000):
            prefix, tail = int(generator.integers(1 << 12)), generator.bytes(8)
            uniform = (prefix << 64 | int.from_bytes(tail, "little")) >> 45
            expected = long._invert_prefixes(np.array([uniform], dtype=np.uint32), os.urandom)[0]
            assert short._refine_multiple(prefix, partial(bytes.ljust, tail)) == expected

    def test_refinement_continues_beyond_the_first_table(self) -> None:
        # All-ones bytes stay above every threshold of 96 and of 192 bits; the zeros that follow decide.
        answers = iter([b"\xff" * 8] * 3 + [b"\0" * 8] * 10)
        multiple = Sampler(Fraction(1))._refine_multiple((1 << 31) - 1, lambda size: next(answers))
        tail_bits = 31 + 3 * 64
        # P(|x| > k) is about 2**-tail_bits for k near sqrt(2 tail_bits log 2).
        assert abs(multiple - math.sqrt(2 * tail_bits * math.log(2))) < 2

    def test_thresholds_survive_the_conversion_to_words(self) -> None:
        sampler = Sampler(Fraction(1000) ** 2)
        table = gaussian_table(Fraction(1000) ** 2, 3, 128)
        entries = len(sampler._lower)
        assert [int(value) for value in sampler._lower] == [value >> 97 for value in table.lower[:entries]]
        assert int(sampler._certain_from[0]) == 0
        assert int(sampler._certain_from[-1]) == 1 << 31
        assert int(sampler._certain_from[-2]) < 1 << 31

    @pytest.mark.parametrize(
        ("sigma", "step_bits"), [(Fraction(1, 2), None), (Fraction(37, 10), None), (1044, 4), (1044, 0), (2044, 0)]
    )
    def test_decisions_at_all_thresholds(
        self, sigma: Fraction | int, step_bits: int | None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        check_thresholds(Sampler(Fraction(sigma) ** 2, step_bits=step_bits), monkeypatch)

    @pytest.mark.parametrize("table", ["_lower", "_guide", "_certain_from"])
    def test_a_threshold_that_is_1_off_is_found(self, table: str, monkeypatch: pytest.MonkeyPatch) -> None:
        sampler = Sampler(Fraction(1044) ** 2, step_bits=0)
        place = int(np.flatnonzero(getattr(sampler, table) > 0)[1000])
        getattr(sampler, table)[place] -= 1
        with pytest.raises(AssertionError):
            check_thresholds(sampler, monkeypatch)


OFFSET_SIGMAS = [Fraction(sigma) for sigma in (200, 1044, 10**6, 2**23 - 1, 2**23, 2**50)]


def word_bits_of(sampler: Any) -> int:
    """Bits of the word that contains an offset and its uniform: at least 16 are left for the uniform."""
    return 32 if sampler._step_bits <= 16 else 64


class TestAcceptance:
    """The float filter never contradicts the exact decision."""

    @pytest.mark.parametrize("sigma", OFFSET_SIGMAS)
    def test_filter_agrees_with_the_exact_decision(self, sigma: Fraction) -> None:
        sampler = Sampler(sigma**2)
        generator = np.random.default_rng(2)
        base = generator.integers(0, 1000, 2_000) << sampler._step_bits
        before = base.copy()
        word_bits = word_bits_of(sampler)
        words = generator.bytes(word_bits // 8 * len(base))
        served = iter([words])
        keep = sampler._add_offsets(base, lambda size: next(served, b"\0" * size))
        uniform_bits = word_bits - sampler._step_bits
        for index, word in enumerate(np.frombuffer(words, dtype=f"<u{word_bits // 8}").tolist()):
            offset, uniform = word >> uniform_bits, word & ((1 << uniform_bits) - 1)
            arguments = int(before[index]), offset, uniform, uniform_bits
            assert base[index] == before[index] + offset
            assert keep[index] == sampler._accepts_exactly(*arguments, lambda size: b"\0" * size)
        assert 0.5 < keep.mean() < 1

    @pytest.mark.parametrize("sigma", OFFSET_SIGMAS)
    def test_filter_leaves_close_decisions_to_the_exact_one(self, sigma: Fraction) -> None:
        # The uniform whose interval holds the acceptance probability: only the bits that follow can decide.
        sampler = Sampler(sigma**2)
        word_bits = word_bits_of(sampler)
        uniform_bits, base = word_bits - sampler._step_bits, 100 << sampler._step_bits
        offset = (1 << sampler._step_bits) - 1
        lower, upper = exponential_bounds(offset * (offset + 2 * base), 2 * int(sigma) ** 2, uniform_bits)
        assert upper - lower <= 1
        word = (offset << uniform_bits | lower).to_bytes(word_bits // 8, "little")
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


class TestEnumeration:
    """All words of 10 bits, counted: each integer has the share of the discrete Gaussian, but for undecided words."""

    @pytest.mark.parametrize("step_bits", [0, 1, 2, 3])
    def test_each_integer_has_its_share(self, step_bits: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.check(step_bits, monkeypatch)

    @pytest.mark.parametrize(
        ("function", "fault"),
        [
            ("with_signs", lambda exact, values, sign: exact(values, values & 1)),
            ("draw_offsets", lambda exact, *terms: (lambda offset, *rest: (offset | 1, *rest))(*exact(*terms))),
        ],
    )
    def test_bits_used_twice_are_found(self, function: str, fault: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(discrete_gaussian, function, partial(fault, getattr(discrete_gaussian, function)))
        with pytest.raises(AssertionError):
            self.check(2, monkeypatch)

    def check(self, step_bits: int, monkeypatch: pytest.MonkeyPatch) -> None:
        bits, sigma, far = 10, Fraction(37, 10), 1000
        first, second = (
            words.ravel().astype(np.uint32) for words in np.meshgrid(np.arange(1 << bits), np.arange(1 << bits))
        )
        monkeypatch.setattr(discrete_gaussian, "_SHORT_BITS", bits)
        monkeypatch.setattr(discrete_gaussian, "random_words", lambda *_: first)
        monkeypatch.setattr(rejection, "random_words", lambda *_: second)
        monkeypatch.setattr(Sampler, "_refine_multiple", lambda *_: far)
        sampler, counts = Sampler(sigma**2, prefix_bits=bits - 1, step_bits=step_bits), []
        for undecided in (False, True):
            monkeypatch.setattr(Sampler, "_accepts_exactly", lambda *_, found=undecided: found)
            drawn = sampler._draw_accepted(len(first), os.urandom)
            counts.append(np.bincount(drawn[np.abs(drawn) < far] + far, minlength=2 * far))
        unrefined = np.count_nonzero(
            sampler._invert_prefixes(np.arange(1 << bits - 1, dtype=np.uint32), os.urandom) == far
        )
        exact = np.exp(-(np.arange(-far, far) ** 2) / (2 * float(sigma) ** 2))
        exact *= 4**bits / exact[far :: 1 << step_bits].sum() / 2 ** (step_bits + 1)
        assert np.all(counts[0] <= exact + 1e-6)
        assert np.all(exact <= counts[1] + unrefined * 2 ** (bits + 1) + 1e-6)
        assert unrefined < 25
        assert counts[0].sum() > 0.9 * exact.sum()


class TestDistribution:
    """Mean, variance and histogram are those of the discrete Gaussian, on every path."""

    @pytest.mark.parametrize("sigma", SIGMAS, ids=str)
    def test_matches_the_exact_probabilities(self, sigma: Fraction) -> None:
        assert accepts(discrete_gaussian.sample(200_000, sigma**2), sigma**2) == ALL_ACCEPT

    @pytest.mark.parametrize("sigma", [Fraction(128), Fraction(1044), Fraction(2044)], ids=str)
    @pytest.mark.parametrize("fewest", [1, discrete_gaussian._MIN_STEPLESS_DRAWS])
    def test_matches_the_exact_probabilities_with_and_without_a_step(
        self, sigma: Fraction, fewest: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(discrete_gaussian, "_MIN_STEPLESS_DRAWS", fewest)
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

    @pytest.mark.parametrize("sigma", OFFSET_SIGMAS[2:], ids=str)
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

    @pytest.mark.parametrize("fault", ["prefix", "uniform"])
    def test_refuse_offset_bits_used_twice(self, fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
        given, exact = seeded(9), discrete_gaussian.draw_offsets
        words: list[np.ndarray] = []

        def offsets(count: int, *terms: Any) -> Any:
            offset, uniform, bits = exact(count, *terms)
            if fault == "prefix":
                return (words[-1] >> 28 & 3).astype(np.int64), uniform, bits
            return offset, uniform >> 2 | (offset << bits - 2).astype(np.uint32), bits

        def kept_words(*terms: Any) -> np.ndarray:
            words.append(keyed_randomness.random_words(*terms))
            return words[-1]

        monkeypatch.setattr(discrete_gaussian, "random_words", kept_words)
        monkeypatch.setattr(discrete_gaussian, "draw_offsets", offsets)
        samples = Sampler(Fraction(37, 10) ** 2, step_bits=2).sample(200_000, given)
        assert not accepts(samples, Fraction(37, 10) ** 2)["chi-square"]

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

    @pytest.mark.parametrize(
        ("sigma_squared", "step_bits", "digest"),
        [
            (Fraction(1, 4), None, "abb0fe1e598f375b58df8665d7205118b5b04145b747a2b250513aa3a3f12b07"),
            (Fraction(1044) ** 2, None, "dc70a77c079508130b9d380845f7e86374c42fc678c149efc477e5dbeef83b63"),
            (Fraction(1044) ** 2, 0, "a5c8cdb310d046a6316ed467b95b57246ea28ea41c6867c3abf04107b92deaad"),
            (Fraction(2**100), None, "8f54026d6b3ada31d829c46057ea9fdde06480e6053ef964e74c621284b2b87e"),
        ],
    )
    def test_same_bytes_give_the_same_noise_in_all_versions(
        self, sigma_squared: Fraction, step_bits: int | None, digest: str
    ) -> None:
        sampler = discrete_gaussian._sampler(sigma_squared, step_bits)
        first, again, other = (sampler.sample(50_000, seeded(seed)) for seed in (10, 10, 11))
        assert np.array_equal(first, again)
        assert not np.array_equal(first, other)
        assert hashlib.sha256(first.astype("<i8").tobytes()).hexdigest() == digest

    def test_known_bytes_give_known_noise(self) -> None:
        # One word a draw, little-endian: 31 bits of inversion, and the lowest bit is the sign.
        words = [2, 1, 1 << 31 | 1 << 30, 1 << 31 | 1 << 30 | 1, *[0] * 40]
        samples = discrete_gaussian.sample(
            4, Fraction(1), random_bytes=lambda size: np.array(words[: size // 4], dtype="<u4").tobytes()
        )
        # The second word is -0, rejected and replaced. The half-line has P(0) = 0.57 and P(<= 1) = 0.92.
        assert samples.tolist() == [0, 1, -1, 0]

    def test_known_bytes_give_a_known_offset(self) -> None:
        # The second word: 4 bits of offset, and 28 bits that accept it, or not: exp(-5 (5 + 2 * 16) / 2 / 1044**2).
        lower, upper = exponential_bounds(5 * (5 + 2 * 16), 2 * 1044**2, 28)
        prefix = int(Sampler(Fraction(1044) ** 2)._certain_from[1])
        for uniform, expected in ((lower - 1, [-21]), (upper, [])):
            served = iter([prefix << 1 | 1, 5 << 28 | uniform])
            drawn = Sampler(Fraction(1044) ** 2)._draw_accepted(
                1, lambda size, served=served: next(served).to_bytes(4, "little")
            )
            assert drawn.tolist() == expected

    def test_size_and_sigma_alone_choose_the_table(self, monkeypatch: pytest.MonkeyPatch) -> None:
        chosen, exact = [], discrete_gaussian._sampler
        monkeypatch.setattr(discrete_gaussian, "_MIN_STEPLESS_DRAWS", 1000)
        monkeypatch.setattr(
            discrete_gaussian, "_sampler", lambda *terms: chosen.append(exact(*terms)._step_bits) or exact(*terms)
        )
        for size, sigma in ((999, 1044), (1000, 1044), (1000, 4095), (1000, 4096), (1000, 10**6)):
            first, again = (discrete_gaussian.sample(size, sigma**2, random_bytes=seeded(12)) for _ in range(2))
            assert np.array_equal(first, again)
        assert chosen[::2] == chosen[1::2] == [4, 0, 0, 6, 13]

    @pytest.mark.parametrize("size", [1, 100, rejection.DRAWN_AT_ONCE + 1])
    def test_the_first_accepted_candidates_are_returned(self, size: int) -> None:
        served: list[np.ndarray] = []

        def draw_accepted(candidates: int) -> np.ndarray:
            assert candidates <= rejection.DRAWN_AT_ONCE
            served.append(np.arange(candidates * 2 // 3) + 10**6 * len(served))
            return served[-1]

        values = rejection.fill(size, draw_accepted)
        assert np.array_equal(values, np.concatenate(served)[:size])

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
