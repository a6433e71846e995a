"""Laplace noise of a few steps: its law, by direct sums, against what answers, notes and plans say of it."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pyarrow as pa
import pytest

from beam_dpsketch import (
    IntegerDomain,
    ItemFrequencies,
    KeySelection,
    ListedItems,
    PrivacyId,
    PrivacySpec,
    Record,
    RecordBounds,
    ReleaseSpec,
    SketchSpec,
    Thresholding,
    TimeRange,
    release_frame,
)
from beam_dpsketch.answers.estimators.comparing import ReleasedTable, second_moment
from beam_dpsketch.answers.estimators.presence import exceeds_noise
from beam_dpsketch.answers.notes import Basis
from beam_dpsketch.planning.kinds.thresholded_counts import ThresholdedCounts
from beam_dpsketch.privacy.loss.composition import Loss
from beam_dpsketch.privacy.noise import discrete_laplace
from beam_dpsketch.privacy.noise.laws import Noise
from beam_dpsketch.transforms import PrivateFrequencies, SelectKeys
from tests.helpers.binomials import binomial_tails

EPSILONS = (Fraction(1, 2), Fraction(1), Fraction(2), Fraction(4), Fraction(6))
LISTED = ItemFrequencies(ListedItems(range(50)))


def moment(scale: Fraction, power: int) -> Any:
    """E x^power of a discrete Laplace on whole numbers, by its definition."""
    with mpmath.workdps(40):
        q = mpmath.exp(-1 / mpmath.mpf(scale.numerator) * scale.denominator)
        reach = math.ceil(200 * float(scale)) + 50
        weights = [q**x for x in range(reach)]
        whole = 2 * mpmath.fsum(weights) - 1
        return 2 * mpmath.fsum(w * mpmath.mpf(x) ** power for x, w in enumerate(weights)) / whole


@pytest.mark.parametrize("bits", [0, 3])
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_the_fourth_cumulant_is_that_of_the_law(epsilon: Fraction, bits: int) -> None:
    steps = 2**bits / epsilon
    variance, fourth = (moment(steps, power) / mpmath.mpf(2) ** (power * bits) for power in (2, 4))
    found = Noise.LAPLACE.fourth_cumulant(float(variance), bits)
    assert found == pytest.approx(float(fourth - 3 * variance**2), rel=1e-9)
    assert Noise.SUM.fourth_cumulant(2 * float(variance), bits) >= 2 * found  # of two such noises
    assert Noise.GAUSSIAN.fourth_cumulant(float(variance), bits) == 0


def test_a_second_moment_varies_as_the_squares_of_its_noise_do() -> None:
    """The variance of a sum of (f + x)^2 is 4 V f^2 + 2 V^2 + kappa for each counter."""
    f, variance, fourth = np.arange(10.0), 0.04, 0.05
    found = second_moment(ReleasedTable.of(f[np.newaxis], variance, "exact", fourth))
    of_gaussian = second_moment(ReleasedTable.of(f[np.newaxis], variance, "exact"))
    assert of_gaussian.normal == pytest.approx(4 * variance * (f @ f - 10 * variance) + 20 * variance**2)
    assert found.normal == pytest.approx(of_gaussian.normal + 10 * fourth)


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [2, 3, 4, 6])
def test_intervals_of_distances_and_products_hold_often_enough(epsilon: int) -> None:
    """2,000 releases: no fewer than may be by chance, with a false alarm of 1e-9, if 94 % hold.

    Taken as those of a Gaussian, 61 % of the distances held at epsilon 6.
    """
    table, runs = pa.table({"item": [i for i in range(50) for _ in range(20)]}), 2000
    privacy = PrivacySpec(epsilon=epsilon, summary_counts=None)
    declared = ReleaseSpec(LISTED, privacy, Record(), item="item")
    released = [release_frame(table, declared) for _ in range(runs)]
    pairs = [*zip(released, released[1:] + released[:1], strict=True)]
    products = sum(lower <= 20_000 <= upper for _, lower, upper in (one.inner_product(other) for one, other in pairs))
    distances = sum(one.distance(other).lower <= 0 for one, other in pairs)
    for found in (products, distances):
        assert found >= 0.94 * runs or binomial_tails(found, runs, 0.94) > 1e-9
    assert binomial_tails(round(0.9 * runs), runs, 0.94) < 1e-9


@pytest.mark.parametrize("epsilon", [1, 4, 6])
def test_counters_of_noise_alone_are_taken_as_empty(epsilon: int) -> None:
    """Fixed bytes, so this cannot fail by chance: about one of 1,000 tables of noise may exceed it."""
    random, scale = np.random.default_rng(epsilon), Fraction(1, epsilon)
    noise = discrete_laplace.sample(400 * 50, scale, random_bytes=random.bytes).reshape(400, 50)
    variance = discrete_laplace.variance(scale)
    fourth = Noise.LAPLACE.fourth_cumulant(variance, 0)
    assert sum(exceeds_noise(each, variance, has_signs=False, fourth=fourth) for each in noise) <= 3
    assert all(exceeds_noise(each + 9, variance, has_signs=False, fourth=fourth) for each in noise[:9])


def test_answers_within_the_tail_of_a_laplace_are_within_the_noise() -> None:
    """Of 200 counts of scale 1 the largest is about 6: a normal of the same 95 % interval reaches 5 at most."""
    margin = Noise.LAPLACE.margin(Fraction(2), 0.95, 10)
    estimate = np.append(np.zeros(199), 7.0)
    for noise, codes in ((Noise.LAPLACE, ["within_noise"]), (Noise.GAUSSIAN, [])):
        basis = Basis(0.95, asked=200, noise=noise)
        found = basis.within_noise(estimate, estimate - margin, estimate + margin)
        assert [note.code for note in found] == codes


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_a_plan_of_groups_says_the_least_count_that_is_likely(epsilon: Fraction) -> None:
    """P[count + noise >= threshold] is 99 % or more from it on, and less below; at the threshold, 1/2 or more."""
    privacy = PrivacySpec(epsilon=epsilon, delta=1e-6, noise="laplace")
    count = ThresholdedCounts(IntegerDomain(0, 9), 3, Thresholding(1e-7))
    note = ReleaseSpec(count, privacy, PrivacyId("p", RecordBounds(1, max_keys=1)), item="item").plan().items
    q = mpmath.exp(-mpmath.mpf(epsilon.numerator) / epsilon.denominator)

    def released(number: int) -> Any:
        below = note.threshold - number  # noise of this, or more
        return q**below / (1 + q) if below > 0 else 1 - q ** (1 - below) / (1 + q)

    assert released(note.most) >= 0.99 > released(note.most - 1)
    assert released(note.threshold) >= 0.5
    assert "passes with probability 99 %)" in note.words("privacy id")


def test_a_run_in_windows_has_the_noise_that_the_plan_says() -> None:
    """An element in 60 sliding windows would make a Gaussian closer; the plan without windows promised no delta."""
    declared = ReleaseSpec(LISTED, PrivacySpec(epsilon=2, delta=1e-6), Record(), item="item", windows=TimeRange(0, 600))
    assert "epsilon = 2 (pure differential privacy)" in str(declared.plan())
    in_windows = declared.terms_of_each(in_windows=True, overlapping=60)
    assert (in_windows.noise, in_windows.loss) == (Noise.LAPLACE, Loss.of_pure(Fraction(2)))
    assert in_windows.window_count == 60
    groups = ThresholdedCounts(IntegerDomain(0, 9), 3, Thresholding(1e-7))
    declared = ReleaseSpec(groups, PrivacySpec(epsilon=2, delta=1e-6), Record(), item="item")
    assert declared.terms_of_each(in_windows=True, overlapping=60).noise is declared.terms.noise


def test_what_is_shown_of_an_open_noise_is_what_is_spent() -> None:
    privacy = PrivacySpec(epsilon=2, delta=1e-6)
    assert repr(privacy) == "<PrivacySpec of epsilon = 2 at delta = 1e-06, ADD_OR_REMOVE_ONE>"
    shown = [
        PrivateFrequencies(spec, privacy, privacy_unit=PrivacyId("p", RecordBounds(9)), item="item").display_data()
        for spec in (ListedItems(range(9)), SketchSpec(depth=30, width=64))
    ]
    assert [("rho" in each, each.get("epsilon")) for each in shown] == [(False, 2.0), (True, None)]


def test_a_pure_epsilon_is_asked_at_its_own_delta() -> None:
    released = release_frame(
        pa.table({"item": [1] * 99}), ReleaseSpec(LISTED, PrivacySpec(epsilon=2), Record(), "item")
    )
    assert released.privacy.epsilon(released.privacy.delta_of_epsilon) == 2
    assert Loss.of_pure(Fraction(2), Fraction(1, 10**6)).epsilon(1e-6) == 2
    with pytest.raises(ValueError, match="delta must be above"):
        Loss.of_pure(Fraction(2), Fraction(1, 10**6)).epsilon(1e-7)
    with pytest.raises(ValueError, match="delta must be above"):
        Loss(Fraction(2), Fraction(1, 10**6)).epsilon(1e-6)


def test_a_list_takes_gaussian_noise_where_a_table_would_be_too_long() -> None:
    def listed(**method: Any) -> SelectKeys:
        privacy_unit, privacy = PrivacyId("p", RecordBounds(1, max_keys=1)), PrivacySpec(epsilon=1e-4, delta=1e-6)
        return SelectKeys(privacy, privacy_unit=privacy_unit, keys=KeySelection(1e-8, "key", **method))

    assert listed().choice.note == listed(method="gaussian").choice.note
    with pytest.raises(ValueError, match=r"Epsilon is too small for key selection with this delta.*dpsketch-E312"):
        listed(method="geometric")


def test_a_combination_of_different_choices_speaks_of_items_too() -> None:
    count = ThresholdedCounts(IntegerDomain(0, 9), 3, Thresholding(1e-7))
    table = pa.table({"item": [1] * 999})
    one, other = (
        release_frame(table, ReleaseSpec(count, PrivacySpec(epsilon=2, delta=1e-6, noise=noise), Record(), item="item"))
        for noise in ("laplace", "gaussian")
    )
    words = str(one.combine(other).privacy)
    assert (
        "Keys          keys or items, chosen from the data with noise by several rules; one record alone causes"
        in words
    )
