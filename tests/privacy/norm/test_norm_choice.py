"""The choice of a norm: bins without rounding, a histogram that is worth its noise, and the rule from first principles.

What is compared is exact, or the statement says how far it may be off. Nothing here draws noise, but for one test that
cannot fail by chance.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_dpsketch import ADD_OR_REMOVE_ONE, REPLACE_ONE
from beam_dpsketch.answers.estimators.row_mean import noise_margin
from beam_dpsketch.noise import tables
from beam_dpsketch.privacy.contributions import NeighboringRelation
from beam_dpsketch.privacy.mechanism import Spending
from beam_dpsketch.privacy.noise.drawing import add_noise
from beam_dpsketch.privacy.norm import choice
from beam_dpsketch.privacy.norm.bounds import AutoNorm
from beam_dpsketch.privacy.norm.choice import GRID, bin_count, choose, units_to_scale

RHO = Fraction(9, 100)
BINS = 32
ONE_DEVIATION = math.erf(math.sqrt(0.5))
denominators = st.sampled_from([1, 2, 3, 5, 7, 60, 1023, 1 << 20, (1 << 20) - 1]) | st.integers(1, 1 << 20)
counts = st.lists(st.integers(-50, 3000) | st.integers(-9, 9), min_size=BINS, max_size=BINS)
deviations = st.fractions(Fraction(1, 4), 200)
wanted = st.fractions(Fraction(1, 100), 2000)


def histogram(norms: np.ndarray, denominator: int, bins: int = BINS) -> np.ndarray:
    return choice.histogram(norms, denominator, bins)


def exact_bin(numerator: int, denominator: int) -> int:
    """The largest j with 2^j <= numerator / denominator, in whole numbers; bins end at 31."""
    return min(BINS - 1, max(place for place in range(90) if denominator << place <= numerator))


def bin_of(numerator: int, denominator: int) -> int:
    (place,) = np.flatnonzero(histogram(np.array([float(numerator)]), denominator))
    return int(place)


def check_edges() -> None:
    """Raise unless lengths at the edge of a bin, and next to it, are in the right one."""
    for denominator in (1, 3, 5, 60, (1 << 20) - 1, 1 << 20):
        for place, step in itertools.product(range(BINS + 1), (-1, 0, 1)):
            numerator = (denominator << place) + step
            if numerator >= denominator:
                assert bin_of(numerator, denominator) == exact_bin(numerator, denominator), (denominator, place, step)


def test_bins_are_exact_at_their_edges() -> None:
    """N^2 = 2^j is of bin j, and the next smaller length that exists is of bin j - 1."""
    check_edges()


@given(denominators, st.integers(0, 1 << 53))
def test_bins_are_exact_everywhere(denominator: int, more: int) -> None:
    numerator = min(denominator + more, (1 << 53) - 1)
    assert bin_of(numerator, denominator) == exact_bin(numerator, denominator)


@pytest.mark.parametrize("norm", [2.0**53, 2.0**62, 2.0**140, 1e300])
def test_huge_lengths_are_in_the_last_bin(norm: float) -> None:
    assert histogram(np.array([norm]), 1 << 20)[-1] == 1


def test_bins_of_logarithms_in_float_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def by_logarithm(norms: np.ndarray, denominator: int, bins: int) -> np.ndarray:
        found = np.floor(2 * np.log2(np.sqrt(norms / denominator))).astype(int)
        return np.bincount(np.clip(found, 0, bins - 1), minlength=bins)

    monkeypatch.setattr(choice, "histogram", by_logarithm)
    with pytest.raises(AssertionError):
        check_edges()


@pytest.mark.parametrize(("max_weight", "bins"), [(1, 32), (2, 34), (3, 36), (1000, 52), (1 << 15, 62), (1 << 31, 62)])
def test_heavier_records_have_more_bins(max_weight: int, bins: int) -> None:
    """So that 2^16 records of this weight fit, up to a norm of 2^31, the largest there is."""
    assert bin_count(max_weight) == bins
    assert 2 ** (bins / 2) >= min(max_weight * 2**16, 2**31)
    full = np.array([0] * (bins - 1) + [900])
    norm = choose(full, parameter=Fraction(4), scaled_units=Fraction(1, 100))
    assert 2 ** (bins / 2) * 0.99 <= AutoNorm().bound(norm).max_norm <= 2 ** (bins / 2)
    edge = 2.0 ** (bins - 1)
    assert histogram(np.array([np.nextafter(edge, 0), edge]), 1, bins)[-2:].tolist() == [1, 1]


def test_no_units_and_units_without_weight_count_nothing() -> None:
    assert not histogram(np.zeros(0), 5).any()
    assert histogram(np.array([0.0, 5.0, 0.0]), 5).tolist() == [1] + [0] * 31


@pytest.mark.parametrize(("relation", "squared"), [(ADD_OR_REMOVE_ONE, 1), (REPLACE_ONE, 2)])
def test_the_histogram_changes_by_as_much_as_its_noise_hides(relation: NeighboringRelation, squared: int) -> None:
    """By brute force over the lengths of the unit that changes; attained, and independent of all others."""
    lengths, others = [0.0, *(2.0**place for place in range(34))], np.array([1.0, 8.0, 9.0, 2.0**20])
    inputs = [others] if relation is ADD_OR_REMOVE_ONE else [np.append(others, length) for length in lengths]
    changes = [
        int(((histogram(np.append(others, length), 1) - histogram(before, 1)) ** 2).sum())
        for length, before in itertools.product(lengths, inputs)
    ]
    assert max(changes) == squared
    auto = AutoNorm(Fraction(1, 20))
    assert tables.lengths(auto, Spending(RHO), relation).parameter == Fraction(squared) / (2 * Fraction(1, 20) * RHO)


@given(counts, deviations, wanted)
def test_a_choice_is_on_the_public_grid(noisy: list[int], sigma: Fraction, units: Fraction) -> None:
    norm = choose(np.array(noisy), parameter=sigma**2, scaled_units=units)
    assert (norm * GRID).denominator == 1
    assert 1 <= norm <= 1 << 16
    again = choose(np.array(noisy, dtype=object), parameter=sigma**2, scaled_units=units)
    assert again == norm
    assert AutoNorm().bound(norm).max_norm == norm


@given(counts, deviations, wanted, wanted)
def test_more_units_to_scale_never_raise_the_norm(
    noisy: list[int], sigma: Fraction, one: Fraction, two: Fraction
) -> None:
    norms = [choose(np.array(noisy), parameter=sigma**2, scaled_units=units) for units in sorted((one, two))]
    assert norms[0] >= norms[1]


@given(st.lists(st.integers(0, 999), min_size=BINS, max_size=BINS), deviations, wanted, st.integers(0, BINS - 1))
def test_more_units_never_lower_the_norm(noisy: list[int], sigma: Fraction, units: Fraction, place: int) -> None:
    """Without negative counts, which stand for noise."""
    more = np.array(noisy)
    more[place] += 70
    norms = [choose(each, parameter=sigma**2, scaled_units=units) for each in (np.array(noisy), more)]
    assert norms[0] <= norms[1]


@given(st.lists(st.integers(-20, 999), min_size=20, max_size=20), deviations, wanted, st.integers(0, 5))
def test_lengths_twice_as_large_choose_twice_the_norm(
    noisy: list[int], sigma: Fraction, units: Fraction, doublings: int
) -> None:
    """Up to the grid; 16 bins at the bottom are empty, so that no norm is at its least."""
    low, high = (
        choose(np.array(([0] * at + noisy + [0] * BINS)[:BINS]), parameter=sigma**2, scaled_units=units)
        for at in (0, 2 * doublings)
    )
    if low > 1:
        assert 0 <= high - low * 2**doublings < Fraction(2**doublings, GRID)


def starts(noisy: Sequence[int], limit: float) -> set[int]:
    """The bins that start a weighted sum above a limit, in deviations of a sum of noise of 1."""
    weights = 0.75 ** np.arange(8)
    sums = np.convolve([*noisy, *[0] * 7], weights[::-1], mode="valid")
    return set(np.flatnonzero(sums > limit * math.sqrt((weights**2).sum()) + 1e-9).tolist())


def choose_in_float(noisy: Sequence[int], sigma: float, units: float) -> float:
    """The rule in floating point, in other words: every sum, chains of bins, and all running sums from above."""
    near, far = (starts(noisy, deviations * sigma) for deviations in (3.2, 4.5))
    if not far:
        return 1.0
    shown = max(next(end for end in itertools.count(start) if end + 1 not in near) for start in far)
    read = noisy[: shown + 4]
    sums = list(itertools.accumulate(reversed(read), initial=0))
    place = next((len(read) - after for after, total in enumerate(sums) if total >= units), None)
    if place is None:
        return 1.0
    above = sums[len(read) - place - 1]
    return float(2 ** (min(place + 1 - (units - above) / read[place], shown + 37 / 32) / 2))


@given(counts, st.integers(1, 200), st.integers(1, 2000))
def test_the_choice_is_that_of_the_rule(noisy: list[int], sigma: int, units: int) -> None:
    """Steps of a 64th of a bin, and the grid below."""
    norm = choose(np.array(noisy), parameter=Fraction(sigma) ** 2, scaled_units=Fraction(units))
    expected = choose_in_float(noisy, sigma, units)
    assert expected * 2 ** (-1 / 250) - 1 / GRID - 1e-9 <= norm <= expected * 2 ** (1 / 250)


def test_the_norm_is_the_length_that_so_many_units_exceed() -> None:
    """Without noise, on lengths that are even in their logarithm, to a step."""
    lengths = 2 ** (np.arange(0, 10_000) / 1000)
    counted = histogram(np.floor(lengths**2 * (1 << 20)), 1 << 20)
    for units in (1, 30, 500, 501, 4000, 9999):
        norm = choose(counted, parameter=Fraction(1, 4), scaled_units=Fraction(units))
        assert lengths[-units] / 1.006 - 1 / GRID <= norm <= lengths[-units] * 1.006


def test_noise_above_the_lengths_is_not_taken_for_units() -> None:
    """Noise of three standard deviations in some of the empty bins, which adds up to more units than are wanted."""
    noisy = np.array([2000] * 12 + [0] * 10 + [30, 0, 0] * 3 + [0])
    assert choose(noisy, parameter=Fraction(100), scaled_units=Fraction(50)) < 2**6
    assert choose(noisy, parameter=Fraction(1, 4), scaled_units=Fraction(50)) > 2**12  # were they no noise


def test_a_bin_far_above_the_lengths_must_stand_out_more() -> None:
    """Noise of 10 has sums with a deviation of 15: 48 are needed next to a bin that is shown, and 68 elsewhere."""
    near, far = (np.array([2000] * 8 + [0] * gap + [60] + [0] * (23 - gap)) for gap in (0, 8))
    assert choose(far, parameter=Fraction(100), scaled_units=Fraction(38)) < 2**4
    assert 2**4 < choose(near, parameter=Fraction(100), scaled_units=Fraction(38)) < 2**4.5
    far[16] = 70
    assert 2**8 < choose(far, parameter=Fraction(100), scaled_units=Fraction(38)) < 2**8.5


def test_empty_bins_above_a_full_one_are_left_out() -> None:
    """Sums exceed the noise by their lowest bin alone; what is above it is less than noise."""
    noisy = np.array([2000] * 8 + [180, 10, 0, 14, 20, 0, 0, 18] + [0] * 16)
    assert 2**4 < choose(noisy, parameter=Fraction(100), scaled_units=Fraction(38)) <= 1.5 * 2**4


def test_a_thin_tail_is_found() -> None:
    """No bin above the first ten has more than two standard deviations; together they have more than five."""
    noisy = np.array([2000] * 10 + [20, 19, 20, 18, 19, 18, 18, 18] + [0] * 14)
    assert choose(noisy, parameter=Fraction(100), scaled_units=Fraction(38)) > 2**6


@given(st.lists(st.integers(0, 3000), min_size=BINS, max_size=BINS), deviations, wanted)
def test_without_noise_no_norm_is_above_the_longest_unit_by_half(
    exact: list[int], sigma: Fraction, units: Fraction
) -> None:
    longest = max((place for place, count in enumerate(exact) if count), default=0)
    assert choose(np.array(exact), parameter=sigma**2, scaled_units=units) <= 1.5 * 2 ** (longest / 2)


@pytest.mark.parametrize("relation", NeighboringRelation)
@pytest.mark.parametrize("lengths", [[], [1.0], [1e6], [100.0] * 9], ids=["nobody", "one", "one heavy", "nine"])
def test_few_units_get_the_least_norm(lengths: list[float], relation: NeighboringRelation) -> None:
    """Without noise. With noise too, but in a few of a thousand draws: then any norm, and never an error."""
    auto = AutoNorm()
    sigma_squared = tables.lengths(auto, Spending(RHO / 100), relation).parameter
    units = units_to_scale(auto, **SKETCH, relation=relation, spending=Spending(RHO / 100), share=1 - auto.share)
    exact = histogram(np.array(lengths), 1)
    assert choose(exact, parameter=sigma_squared, scaled_units=units) == 1
    norm = choose(add_noise(exact, sigma_squared), parameter=sigma_squared, scaled_units=units)
    assert 1 <= norm <= 1 << 16


SKETCH: dict[str, Any] = {"cells_per_item": 5, "has_signs": True, "reading": noise_margin(5, ONE_DEVIATION)}
LISTED: dict[str, Any] = {"cells_per_item": 1, "has_signs": False, "reading": 1}


def test_the_reading_of_five_rows_is_that_of_the_huber_mean() -> None:
    """0.74 times the variance of the median of five normals, 0.287; to one part in 50."""
    assert noise_margin(5, ONE_DEVIATION) ** 2 == pytest.approx(0.74 * 0.287, rel=0.02)


@pytest.mark.parametrize("rho", [Fraction(1, 50), RHO, Fraction(7, 3)])
@pytest.mark.parametrize(
    ("sketch", "relation", "row"),
    [
        (SKETCH, ADD_OR_REMOVE_ONE, 1),
        (SKETCH, REPLACE_ONE, 4),
        (SKETCH | {"has_signs": False}, REPLACE_ONE, 2),
        (LISTED, ADD_OR_REMOVE_ONE, 1),
        (LISTED, REPLACE_ONE, 2),
    ],
)
def test_so_many_units_are_scaled_that_loss_and_noise_balance(
    sketch: dict[str, Any], relation: NeighboringRelation, row: int, rho: Fraction
) -> None:
    """m = 0.8 kappa / phi; kappa is the deviation of an estimate under a norm of 1, with this much of rho."""
    kappa = float(sketch["reading"]) * math.sqrt(row * sketch["cells_per_item"] / (2 * float(rho)))
    m = units_to_scale(AutoNorm(), **sketch, relation=relation, spending=Spending(rho), share=Fraction(1))
    assert 0 <= 0.8 * kappa / 0.07 - m < 1e-4


def test_the_part_that_buys_the_choice_is_not_taken_off_again() -> None:
    """Whoever calls knows what other shares there are: rho is what the sketch's counters get."""
    one, two = (
        units_to_scale(AutoNorm(spend), **SKETCH, relation=REPLACE_ONE, spending=Spending(RHO), share=Fraction(1))
        for spend in (Fraction(1, 20), Fraction(1, 2))
    )
    assert one == two


def test_signed_weights_double_the_noise_of_cells_that_would_only_grow() -> None:
    whole, signed = (
        units_to_scale(
            AutoNorm(signed=signed), **LISTED, relation=REPLACE_ONE, spending=Spending(RHO), share=Fraction(1)
        )
        for signed in (False, True)
    )
    assert float(signed / whole) == pytest.approx(math.sqrt(2), rel=1e-5)


@pytest.mark.parametrize("cells", [1, 2, 16, 365])
def test_a_unit_that_is_spread_over_sketches_holds_less_of_an_item(cells: int) -> None:
    """The same records in each of k sketches: n(x) / N by the definition of N, compared with one sketch."""
    counts = np.array([7, 40, 3, 50])
    in_one, in_all = (math.sqrt(k * float(np.square(counts).sum())) for k in (1, cells))
    smaller = (counts[0] / in_all) / (counts[0] / in_one)
    one, many = (
        units_to_scale(
            AutoNorm(), **SKETCH, relation=REPLACE_ONE, spending=Spending(RHO), share=Fraction(1), output_cells=k
        )
        for k in (1, cells)
    )
    assert float(one / many) == pytest.approx(smaller, rel=1e-5)


@pytest.mark.parametrize("cells", [1, 4, 25])
def test_the_rule_is_near_the_least_error_of_a_model_of_keys(cells: int) -> None:
    """Units spread evenly over keys: each estimate loses 1 / sqrt(keys) of what one sketch would.

    The lengths over all keys have the tail of the model below. At the m of one sketch the error is more than 1.35 times
    the least with 25 keys.
    """
    lengths, kappa, phi = 10 * (np.arange(1, 20_001) / 20_000) ** (-1 / 1.6), 5.0, 0.07 / math.sqrt(cells)

    def error(norm: float) -> float:
        return mean_error(phi * np.maximum(0, lengths - norm).sum(), kappa * norm)

    least = min(map(error, np.geomspace(1, lengths[0], 400)))
    rho = Fraction(0.463**2 * 20 / (2 * kappa**2))  # so that kappa is that of the sketch
    keyed, flat = (
        units_to_scale(
            AutoNorm(), **SKETCH, relation=REPLACE_ONE, spending=Spending(rho), share=Fraction(1), output_cells=k
        )
        for k in (cells, 1)
    )
    assert error(lengths[int(keyed)]) <= 1.05 * least
    assert (error(lengths[int(flat)]) > 1.35 * least) == (cells == 25)


def mean_error(loss: float, sigma: float) -> float:
    """E |sigma Z - loss| of a standard normal Z."""
    normal, t = NormalDist(), loss / sigma
    return sigma * (2 * normal.pdf(t) + t * (2 * normal.cdf(t) - 1))


@pytest.mark.parametrize("phi", [0.02, 0.07, 0.3])
def test_the_rule_is_near_the_least_error_of_a_model(phi: float) -> None:
    """Units whose lengths have a Pareto tail: the error at the m-th largest length is at most 1.05 times the least.

    x holds phi of each unit's length, so b costs x phi times the sum of what each unit is longer than b.
    """
    lengths = 10 * (np.arange(1, 20_001) / 20_000) ** (-1 / 1.6)  # descending
    kappa = 5.0
    m = 0.8 * kappa / phi
    candidates = np.geomspace(1, lengths[0], 400)
    errors = [mean_error(phi * np.maximum(0, lengths - b).sum(), kappa * b) for b in candidates]
    chosen = lengths[int(m)]
    assert mean_error(phi * np.maximum(0, lengths - chosen).sum(), kappa * chosen) <= 1.05 * min(errors)
