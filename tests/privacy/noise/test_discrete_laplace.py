"""The discrete Laplace sampler is exact: each decision against mpmath, and statistics of every sampling path.

A test of correct noise (randomness of the operating system) fails with probability at most 1e-9: each statistic has
one of at most 1e-12, see tests/helpers/tolerances.py. Fixed seeds serve the assertions that a statistic detects a
fault.
"""

from __future__ import annotations

import hashlib
import importlib
import math
import os
import pickle
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any

import mpmath
import numpy as np
import pytest
from scipy import stats

from beam_dpsketch.privacy.noise import discrete_laplace, rejection
from beam_dpsketch.privacy.noise.gaussian_bounds import exponential_bounds
from tests.helpers import tolerances

SCALES = [Fraction(1, 5), Fraction(1, 2), Fraction(1), Fraction(3), Fraction(37, 3), Fraction(100)]
LARGE_SCALES = [Fraction(2**16), Fraction(10**7, 3), Fraction(2**40), Fraction(2**50)]
Sampler = discrete_laplace._LaplaceSampler


def seeded(seed: int) -> Callable[[int], bytes]:
    """Reproducible bytes in place of those of the operating system."""
    return np.random.default_rng(seed).bytes


def power(scale: Fraction, magnitude: int) -> Any:
    """exp(-magnitude / scale) at the precision of mpmath."""
    return mpmath.exp(-mpmath.mpf(magnitude * scale.denominator) / scale.numerator)


def probabilities(scale: Fraction, reach: int) -> np.ndarray:
    """P(x) for x from -reach to reach; the ends have all that lies beyond them too."""
    with mpmath.workdps(50):
        ratio = power(scale, 1)
        whole = 1 + 2 * ratio / (1 - ratio)
        half = [power(scale, x) / whole for x in range(reach)] + [power(scale, reach) / (1 - ratio) / whole]
        return np.array([*half[:0:-1], *half], dtype=float)


def chi_square_accepts(samples: np.ndarray, scale: Fraction) -> bool:
    """Whether the histogram is plausible, in bins of 1,000 expected samples or more; false alarm below 1e-12.

    The nominal level is a tenth of that, because the law of the statistic is an approximation.
    """
    reach = max(1, int(scale * 4))
    expected = probabilities(scale, reach) * len(samples)
    observed = np.bincount(np.clip(samples, -reach, reach) + reach, minlength=2 * reach + 1)
    bins = np.zeros(len(expected), dtype=np.int64)
    filled = 0.0
    for place in range(1, len(expected)):
        filled += expected[place - 1]
        enough = filled >= max(1000, len(samples) / 200) and expected[place:].sum() >= 1000
        bins[place] = bins[place - 1] + enough
        filled *= not enough
    assert bins[-1] > 0
    found, due = np.bincount(bins, observed), np.bincount(bins, expected)
    return bool(stats.chi2.sf(np.sum((found - due) ** 2 / due), bins[-1]) >= tolerances.APPROXIMATE_FALSE_ALARM)


def distance_accepts(samples: np.ndarray, scale: Fraction) -> bool:
    """Whether the empirical distribution is as near as Massart's bound says; false alarm below 1e-12 (proved)."""
    values, counts = np.unique(samples, return_counts=True)
    ratio = math.exp(-1 / scale)
    tails = np.exp(-(np.abs(values) + (values >= 0)) / float(scale)) / (1 + ratio)
    below_or_at = np.where(values >= 0, 1 - tails, tails)
    distance = np.max(np.abs(np.cumsum(counts) / len(samples) - below_or_at))
    return bool(distance <= math.sqrt(math.log(2 / tolerances.FALSE_ALARM) / (2 * len(samples))))


def enumerated(sampler: Any, monkeypatch: pytest.MonkeyPatch) -> dict[int, int]:
    """How often each integer comes out of all prefixes and signs, without those that need further bits."""
    far = 1 << 40
    monkeypatch.setattr(type(sampler), "_refine_multiple", lambda *_: far)
    prefixes = np.arange(1 << sampler._prefix_bits, dtype=np.uint64) << np.uint64(64 - sampler._prefix_bits)
    words = np.concatenate([prefixes, prefixes | np.uint64(1)]).astype("<u8")
    drawn = sampler._draw_accepted(len(words), lambda size: words.tobytes())
    values, counts = np.unique(drawn[np.abs(drawn) < far], return_counts=True)
    return dict(zip(values.tolist(), counts.tolist(), strict=True))


def miscounted(counts: dict[int, int], scale: Fraction, bits: int) -> list[int]:
    """The integers that come out of more prefixes than they may, or of two fewer than they should."""
    with mpmath.workdps(50):
        shares = {x: power(scale, abs(x)) * (1 - power(scale, 1)) * 2**bits for x in counts}
        return [x for x, share in shares.items() if not share - 2 <= counts[x] <= share]


class TestInversion:
    """Every decision on a short prefix is right, by enumeration of all prefixes."""

    @pytest.mark.parametrize("bits", [5, 12, 14])
    @pytest.mark.parametrize("scale", [Fraction(1, 20), *SCALES[:5], Fraction(40)], ids=str)
    def test_each_integer_has_its_share_of_the_prefixes(
        self, scale: Fraction, bits: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        counts = enumerated(Sampler(scale, prefix_bits=bits), monkeypatch)
        assert miscounted(counts, scale, bits) == []
        assert counts == {-x: count for x, count in counts.items()}
        with mpmath.workdps(50):
            least = [x for x in range(200) if power(scale, x) * (1 - power(scale, 1)) * 2**bits > 2]
        assert {*least} <= {*counts}

    @pytest.mark.parametrize("scale", SCALES[2:], ids=str)
    def test_scale_one_percent_off_is_found(self, scale: Fraction, monkeypatch: pytest.MonkeyPatch) -> None:
        counts = enumerated(Sampler(scale * Fraction(101, 100), prefix_bits=20), monkeypatch)
        assert len(miscounted(counts, scale, 20)) > 3

    @pytest.mark.parametrize("scale", SCALES, ids=str)
    def test_zero_counted_twice_is_found(self, scale: Fraction, monkeypatch: pytest.MonkeyPatch) -> None:
        counts = enumerated(Sampler(scale, prefix_bits=12), monkeypatch)
        counts[0] *= 2
        assert miscounted(counts, scale, 12) == [0]

    def test_thresholds_from_floats_are_found(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def rounded(numerator: int, denominator: int, bits: int) -> tuple[int, int]:
            value = int(math.exp(-numerator / denominator) * 2**53) << (bits - 53)
            return value, value

        assert self.wrong_thresholds(Fraction(3)) == 0
        monkeypatch.setattr(discrete_laplace, "exponential_bounds", rounded)
        assert self.wrong_thresholds(Fraction(3)) > 10

    @pytest.mark.parametrize("scale", [Fraction(1, 20), *SCALES, *LARGE_SCALES], ids=str)
    def test_thresholds_contain_the_true_ones(self, scale: Fraction) -> None:
        assert self.wrong_thresholds(scale) == 0

    @staticmethod
    def wrong_thresholds(scale: Fraction) -> int:
        """How many thresholds of 63 bits are not around the true ones, or are wide."""
        sampler = Sampler(scale)
        step, wrong = 1 << sampler._step_bits, 0
        with mpmath.workdps(60):
            for k, (below, certain) in enumerate(
                zip(sampler._certain_below.tolist(), sampler._certain_from.tolist(), strict=True)
            ):
                true = (1 - power(scale, step * (k + 1))) * 2**63
                wrong += not (below <= true <= certain and certain - below <= 1)
        assert sampler._certain_from[-1] == 1 << 63
        assert sampler._certain_from[-2] < 1 << 63
        return wrong

    @pytest.mark.parametrize("bits", range(4, 13))
    def test_rounding_is_outwards(self, bits: int, monkeypatch: pytest.MonkeyPatch) -> None:
        # Guard bits make the thresholds narrow but must not be what makes them right.
        monkeypatch.setattr(discrete_laplace, "_GUARD_BITS", 0)
        for scale in (Fraction(1, 3), Fraction(3), Fraction(37, 3)):
            sampler = Sampler(scale, prefix_bits=bits)
            for k, (below, certain) in enumerate(zip(sampler._certain_below, sampler._certain_from, strict=True)):
                with mpmath.workdps(50):
                    assert int(below) <= (1 - power(scale, k + 1)) * 2**bits <= int(certain)

    @pytest.mark.parametrize("scale", [Fraction(1, 5), Fraction(3), Fraction(100)], ids=str)
    def test_the_index_agrees_with_the_search(self, scale: Fraction, monkeypatch: pytest.MonkeyPatch) -> None:
        sampler = Sampler(scale, prefix_bits=17)
        monkeypatch.setattr(Sampler, "_refine_multiple", lambda self, multiple, *_: multiple)
        prefixes = np.arange(1 << 17, dtype=np.uint64)
        assert np.array_equal(sampler._invert_prefixes(prefixes, os.urandom), sampler._search(prefixes)[0])
        assert np.mean(sampler._multiple_by_index >= 0) > 0.8

    @pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(3), Fraction(100)], ids=str)
    def test_refinement_agrees_with_a_longer_prefix(self, scale: Fraction) -> None:
        # Six bits and a refinement, or 63 bits at once: the same uniform must give the same multiple.
        short, long = Sampler(scale, prefix_bits=6), Sampler(scale)
        generator = np.random.default_rng(1)
        for _ in range(500):
            prefix, tail = int(generator.integers(1 << 6)), generator.bytes(8)
            uniform = (prefix << 64 | int.from_bytes(tail, "little")) >> 7
            expected = long._invert_prefixes(np.array([uniform], dtype=np.uint64), os.urandom)[0]
            least = int(short._search(np.array([prefix], dtype=np.uint64))[0][0])
            assert short._refine_multiple(least, prefix, partial(bytes.ljust, tail)) == expected

    @pytest.mark.parametrize("words", [0, 1, 5])
    def test_refinement_goes_on_beyond_the_table(self, words: int) -> None:
        # All-ones bytes stay above every threshold of the table; the zeros that follow decide.
        answers = iter([b"\xff" * 8] * words + [b"\0" * 8] * 10)
        multiple = Sampler(Fraction(3))._refine_multiple(0, (1 << 63) - 1, lambda size: next(answers))
        # With U = 1 - 2**-bits, the largest k with exp(-k / 3) >= 2**-bits.
        assert multiple == math.floor(3 * math.log(2) * (63 + 64 * words))


class TestOffsets:
    """Offsets are accepted by exact decisions, which the float filter never contradicts."""

    @pytest.mark.parametrize("scale", LARGE_SCALES, ids=str)
    def test_filter_agrees_with_the_exact_decision(self, scale: Fraction) -> None:
        sampler = Sampler(scale)
        words = np.random.default_rng(2).bytes(8 * 2_000)
        served = iter([words])
        offsets, keep = sampler._draw_offsets(2_000, lambda size: next(served, b"\0" * size))
        bits = 64 - sampler._step_bits
        for index, word in enumerate(np.frombuffer(words, dtype="<u8").tolist()):
            offset, uniform = word >> bits, word & ((1 << bits) - 1)
            assert offsets[index] == offset
            assert keep[index] == sampler._accepts_exactly(offset, uniform, bits, lambda size: b"\0" * size)
        assert 0.97 < keep.mean() < 1

    @pytest.mark.parametrize("scale", LARGE_SCALES, ids=str)
    def test_filter_leaves_close_decisions_to_the_exact_one(self, scale: Fraction) -> None:
        assert self.close_decisions(scale) == [True, False]

    @pytest.mark.parametrize("scale", LARGE_SCALES, ids=str)
    def test_filter_by_floats_alone_is_found(self, scale: Fraction, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(rejection, "_FLOAT_SLACK", -1.0)
        assert self.close_decisions(scale) != [True, False]

    @staticmethod
    def close_decisions(scale: Fraction) -> list[bool]:
        """Decide by the next bits: the given uniform is the one whose interval holds the acceptance probability."""
        sampler = Sampler(scale)
        bits, offset = 64 - sampler._step_bits, (1 << sampler._step_bits) - 1
        with mpmath.workdps(60):
            uniform = int(mpmath.floor(power(scale, offset) * 2**bits))
        word = (offset << bits | uniform).to_bytes(8, "little")
        kept = []
        for tail in (b"\0" * 8, b"\xff" * 8):
            served = iter([word, tail])
            offsets, keep = sampler._draw_offsets(1, lambda size, served=served: next(served))
            assert offsets.tolist() == [offset]
            kept += keep.tolist()
        return kept

    @pytest.mark.parametrize("bits", [3, 8])
    def test_exact_decision_is_right_for_each_uniform(self, bits: int) -> None:
        scale, followed = Fraction(37, 3), b"\x80".rjust(8, b"\0")  # one half, little-endian
        sampler = Sampler(scale, step_bits=5)
        with mpmath.workdps(50):
            for offset in range(32):
                for uniform in range(1 << bits):
                    expected = mpmath.mpf(2 * uniform + 1) / 2 ** (bits + 1) < power(scale, offset)
                    assert sampler._accepts_exactly(offset, uniform, bits, lambda size: followed) == expected


class TestDistribution:
    """The histogram is that of the discrete Laplace, on every path."""

    @pytest.mark.parametrize("scale", [*SCALES, Fraction(130), Fraction(1000)], ids=str)
    def test_matches_the_exact_probabilities(self, scale: Fraction) -> None:
        samples = discrete_laplace.sample(400_000, scale)
        assert chi_square_accepts(samples, scale)
        assert distance_accepts(samples, scale)

    @pytest.mark.parametrize("prefix_bits", [1, 3, 6, 9])
    @pytest.mark.parametrize("step_bits", [0, 2])
    def test_refinement_keeps_the_distribution(self, prefix_bits: int, step_bits: int) -> None:
        samples = Sampler(Fraction(3), prefix_bits=prefix_bits, step_bits=step_bits).sample(10_000, os.urandom)
        assert chi_square_accepts(samples, Fraction(3))

    @pytest.mark.parametrize("step_bits", [1, 2, 3, 5])
    def test_rejection_keeps_the_distribution(self, step_bits: int) -> None:
        samples = Sampler(Fraction(37, 3), step_bits=step_bits).sample(100_000, os.urandom)
        assert chi_square_accepts(samples, Fraction(37, 3))

    def test_exact_acceptance_keeps_the_distribution(self, monkeypatch: pytest.MonkeyPatch) -> None:
        # A slack of 1 sends every draw to the integer decision.
        monkeypatch.setattr(rejection, "_FLOAT_SLACK", 1.0)
        assert chi_square_accepts(Sampler(Fraction(3), step_bits=2).sample(10_000, os.urandom), Fraction(3))

    @pytest.mark.parametrize("scale", LARGE_SCALES, ids=str)
    def test_large_scale(self, scale: Fraction) -> None:
        samples = discrete_laplace.sample(200_000, scale)
        assert distance_accepts(samples, scale)
        # Low bits of the offset are there: the residues modulo 16 are uniform, up to 1e-8 of their probabilities.
        residues = np.bincount(np.mod(samples, 16), minlength=16)
        assert stats.chisquare(residues).pvalue >= tolerances.APPROXIMATE_FALSE_ALARM

    def test_smallest_scale(self) -> None:
        # P(x = 0) = 1 - 4.1e-9: among 1,000 there are four others with probability below 1e-20.
        assert np.count_nonzero(discrete_laplace.sample(1_000, Fraction(1, 20))) < 4

    @pytest.mark.slow
    @pytest.mark.parametrize("scale", [*SCALES, Fraction(127), Fraction(128), Fraction(1000)], ids=str)
    def test_matches_the_exact_probabilities_at_length(self, scale: Fraction) -> None:
        samples = discrete_laplace.sample(20_000_000, scale)
        assert chi_square_accepts(samples, scale)
        assert distance_accepts(samples, scale)


class TestStatisticsCanFail:
    """The statistics above refuse wrong noise; fixed seeds, so this cannot fail by chance."""

    @pytest.mark.parametrize("scale", SCALES, ids=str)
    @pytest.mark.parametrize("factor", [Fraction(99, 100), Fraction(101, 100)])
    def test_refuse_scale_one_percent_off(self, scale: Fraction, factor: Fraction) -> None:
        assert not chi_square_accepts(Sampler(scale * factor).sample(4_000_000, seeded(3)), scale)

    @pytest.mark.parametrize("scale", [Fraction(3), *LARGE_SCALES], ids=str)
    def test_distance_refuses_scale_ten_percent_off(self, scale: Fraction) -> None:
        assert not distance_accepts(Sampler(scale * Fraction(11, 10)).sample(200_000, seeded(4)), scale)

    @pytest.mark.parametrize("scale", SCALES[:5], ids=str)
    def test_refuse_zero_counted_twice(self, scale: Fraction) -> None:
        # What the sampler would do if it kept -0.
        samples = discrete_laplace.sample(400_000, scale, random_bytes=seeded(5))
        zeros = np.zeros(int(np.sum(samples == 0)), dtype=np.int64)
        assert not chi_square_accepts(np.concatenate([samples, zeros]), scale)

    @pytest.mark.parametrize("scale", SCALES[:4], ids=str)
    def test_refuse_rounded_floats(self, scale: Fraction) -> None:
        floats = np.random.default_rng(6).laplace(0, float(scale), 400_000)
        assert not chi_square_accepts(np.rint(floats).astype(np.int64), scale)

    def test_refuse_offsets_without_rejection(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(Sampler, "_accepts_exactly", lambda *_: True)
        monkeypatch.setattr(rejection, "_FLOAT_SLACK", 1.0)
        assert not chi_square_accepts(Sampler(Fraction(3), step_bits=2).sample(10_000, seeded(7)), Fraction(3))

    def test_two_sample_test_refuses_scale_ten_percent_off(self) -> None:
        theirs = geometric_difference(200_000, 3.3)
        ours = discrete_laplace.sample(200_000, Fraction(3), random_bytes=seeded(8))
        assert tolerances.two_sample_p_value(ours, theirs) < tolerances.APPROXIMATE_FALSE_ALARM


def geometric_difference(size: int, scale: float) -> np.ndarray:
    """The same distribution in another way: two independent geometric integers, one minus the other."""
    first, second = np.random.default_rng(9).geometric(-math.expm1(-1 / scale), (2, size))
    return first - second


class TestOracle:
    """Independent implementations of the same distribution agree."""

    @pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(3), Fraction(100)], ids=str)
    def test_agrees_with_a_difference_of_geometrics(self, scale: Fraction) -> None:
        theirs = geometric_difference(200_000, float(scale))
        ours = discrete_laplace.sample(200_000, scale)
        assert tolerances.two_sample_p_value(ours, theirs) >= tolerances.APPROXIMATE_FALSE_ALARM

    @pytest.mark.one_fast_case
    @pytest.mark.parametrize("scale", [3, 1, 150])
    def test_agrees_with_opendp(self, scale: int) -> None:
        dp: Any = importlib.import_module("opendp.prelude")
        dp.enable_features("contrib")
        space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64")
        theirs = np.array(dp.m.make_laplace(*space, scale=float(scale))([0] * 10_000), dtype=np.int64)
        ours = discrete_laplace.sample(60_000, Fraction(scale))
        assert tolerances.two_sample_p_value(ours, theirs) >= tolerances.APPROXIMATE_FALSE_ALARM


class TestVariance:
    """The variance is right for all scales."""

    @pytest.mark.parametrize("scale", [Fraction(1, 20), Fraction(1, 3), *SCALES, *LARGE_SCALES], ids=str)
    def test_agrees_with_mpmath(self, scale: Fraction) -> None:
        with mpmath.workdps(80):
            ratio = power(scale, 1)
            true = 2 * ratio / (1 - ratio) ** 2
            assert abs(discrete_laplace.variance(scale) / true - 1) <= 1e-14

    @pytest.mark.parametrize("scale", SCALES[:4], ids=str)
    def test_agrees_with_the_sum(self, scale: Fraction) -> None:
        support = np.arange(-200, 201)
        total = float(np.sum(support**2 * probabilities(scale, 200)))
        assert discrete_laplace.variance(scale) == pytest.approx(total, rel=1e-12)

    def test_refuses_what_sample_refuses(self) -> None:
        with pytest.raises(ValueError, match="scale must be a Fraction between"):
            discrete_laplace.variance(Fraction(1, 21))


class TestRing:
    """What does not fit int64 wraps around, as counters do."""

    @pytest.mark.parametrize("multiple", [1 << 18, (1 << 19) - 1, 1 << 19, (1 << 19) + 5, 1 << 20, (1 << 21) + 3])
    @pytest.mark.parametrize("sign", [0, 1])
    @pytest.mark.parametrize("offset", [0, 1])
    def test_large_integers_are_returned_modulo_the_ring(
        self, multiple: int, sign: int, offset: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        sampler = Sampler(Fraction(2**50))
        assert sampler._step_bits == 44
        monkeypatch.setattr(Sampler, "_refine_multiple", lambda *_: multiple)
        served = iter([(2**64 - 2 + sign).to_bytes(8, "little"), (offset << 20).to_bytes(8, "little")])
        drawn = sampler._draw_accepted(1, lambda size: next(served))
        true = (-1) ** sign * ((multiple << 44) + offset)
        assert drawn.tolist() == [(true + 2**63) % 2**64 - 2**63]  # a multiple of 2**64 is not taken for -0


class TestRefusals:
    """Arguments out of range are refused with the name of the argument and the range."""

    @pytest.mark.parametrize("scale", [Fraction(49, 1000), Fraction(0), Fraction(-1), 2**50 + 1, 0])
    def test_scale_out_of_range(self, scale: Fraction) -> None:
        with pytest.raises(ValueError, match=r"scale must be a Fraction between 1/20 and 2\*\*50, got "):
            discrete_laplace.sample(1, scale)

    @pytest.mark.parametrize("scale", [1.5, math.nan, math.inf, "1", None, True, 1j])
    def test_scale_not_a_fraction(self, scale: Any) -> None:
        with pytest.raises(ValueError, match="scale must be a Fraction between"):
            discrete_laplace.sample(1, scale)

    @pytest.mark.parametrize("size", [-1, 1.0, math.nan, "3", None, True])
    def test_size(self, size: Any) -> None:
        with pytest.raises(ValueError, match="size must be an integer >= 0, got "):
            discrete_laplace.sample(size, Fraction(1))

    def test_too_few_random_bytes(self) -> None:
        with pytest.raises(ValueError, match="buffer is smaller"):
            discrete_laplace.sample(10, Fraction(1), random_bytes=lambda size: b"\1" * (size - 8))

    @pytest.mark.parametrize("scale", [Fraction(1, 20), Fraction(2**50), 9, np.int64(9)])
    def test_limits_and_integers_are_accepted(self, scale: Any) -> None:
        assert discrete_laplace.sample(np.int64(3), scale).shape == (3,)


class TestRandomness:
    """Noise depends on the bytes given, and on nothing that is kept."""

    @pytest.mark.parametrize("size", [0, 1, 2, rejection.DRAWN_AT_ONCE + 1])
    def test_shape_and_type(self, size: int) -> None:
        samples = discrete_laplace.sample(size, Fraction(1))
        assert samples.shape == (size,)
        assert samples.dtype == np.int64
        assert samples.flags.writeable

    @pytest.mark.parametrize(
        ("scale", "digest"),
        [
            (Fraction(1, 5), "d900d61907fd6f93ed2ce6fe33f02b74b52b87201adb9404ce9f12f0481f2642"),
            (Fraction(100), "de7a0b9c25b71e78b3b025490fd39a32c971a6fd993ea51b9b4fcaaf4d7abe08"),
            (Fraction(2**40), "968f88c3e7b9c1bc305eb47adbfc49bf0bee68e959ab5fa1477523971985f552"),
        ],
        ids=str,
    )
    def test_same_bytes_give_the_same_noise_in_all_versions(self, scale: Fraction, digest: str) -> None:
        first, again, other = (
            discrete_laplace.sample(50_000, scale, random_bytes=seeded(seed)) for seed in (10, 10, 11)
        )
        assert np.array_equal(first, again)
        assert not np.array_equal(first, other)
        assert hashlib.sha256(first.astype("<i8").tobytes()).hexdigest() == digest

    def test_known_bytes_give_known_noise(self) -> None:
        # One word a draw, little-endian: 63 bits of inversion, and the lowest bit is the sign.
        words = [2, 1, 1 << 63 | 1 << 62, 1 << 63 | 1 << 62 | 1, *[0] * 40]
        samples = discrete_laplace.sample(
            4, Fraction(1), random_bytes=lambda size: np.array(words[: size // 8], dtype="<u8").tobytes()
        )
        # The second word is -0, rejected and replaced. The half-line has P(0) = 0.63 and P(<= 1) = 0.86.
        assert samples.tolist() == [0, 1, -1, 0]

    def test_known_bytes_give_a_known_offset(self) -> None:
        # The second word: 10 bits of offset, and 54 bits that accept it if they are below exp(-5 / 2**16) = 0.99992.
        scale = Fraction(2**16)
        lower, upper = exponential_bounds(5, 2**16, 54)
        for uniform, expected in ((lower - 1, [-5]), (upper, [])):
            served = iter([1, 5 << 54 | uniform])
            drawn = Sampler(scale)._draw_accepted(1, lambda size, served=served: next(served).to_bytes(8, "little"))
            assert drawn.tolist() == expected

    def test_two_calls_differ(self) -> None:
        # Equal with probability below 2**-2000.
        first, second = (discrete_laplace.sample(1000, Fraction(100)) for _ in range(2))
        assert not np.array_equal(first, second)

    def test_sampler_holds_no_randomness(self) -> None:
        sampler = discrete_laplace._sampler(Fraction(49))
        before = pickle.dumps(sampler)
        discrete_laplace.sample(10_000, Fraction(49))
        assert pickle.dumps(sampler) == before
        assert b"Generator" not in before
