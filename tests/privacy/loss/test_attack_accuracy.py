"""The accuracy of the best attack: never above what a loss reports, and attained by the noise."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.stats import binom

from beam_dpsketch import ListedItems, PrivacySpec, ReleaseTerms, release
from beam_dpsketch.exact.sketches.listed_items import ListedHistogram
from beam_dpsketch.privacy.loss.composition import Loss

GRID = 8
"""Steps of Gaussian noise in a record; the package draws it on a grid that is at least as fine."""


def laplace(epsilon: float, center: int) -> np.ndarray:
    """The discrete Laplace of scale 1 / epsilon, at whole numbers where more than 1e-15 is left."""
    most = math.ceil(35 / epsilon)
    steps = np.abs(np.arange(-most, most + 2) - center)
    return np.tanh(epsilon / 2) * np.exp(-epsilon * steps)


def gaussian(rho: float, center: int) -> np.ndarray:
    """The discrete Gaussian of sigma^2 = 1 / (2 rho) records, and 4 steps, which is drawn for this rho."""
    variance = GRID**2 / (2 * rho) + 4
    most = math.ceil(9 * math.sqrt(variance))
    steps = np.arange(-most, most + GRID + 1) - GRID * center
    weights = np.exp(-(steps**2) / (2 * variance))
    return weights / weights.sum()


def best_accuracy(first: Iterable[np.ndarray], second: Iterable[np.ndarray]) -> float:
    """The accuracy of the likelihood ratio test between two products of independent laws."""
    together = (functools.reduce(np.multiply.outer, side) for side in (first, second))
    return float(np.maximum(*together).sum()) / 2


@pytest.mark.parametrize("epsilon", ["0.5", "1", "2", "5"])
def test_the_best_attack_on_laplace_noise_attains_the_accuracy(epsilon: str) -> None:
    found = best_accuracy([laplace(float(epsilon), 0)], [laplace(float(epsilon), 1)])
    assert found <= Loss.of_pure(Fraction(epsilon)).attack_accuracy <= found + 1e-9


@pytest.mark.parametrize("rho", ["0.003", "0.03", "0.3"])
def test_the_best_attack_on_gaussian_noise_nearly_attains_the_accuracy(rho: str) -> None:
    found = best_accuracy([gaussian(float(rho), 0)], [gaussian(float(rho), 1)])
    assert found <= Loss(Fraction(rho)).attack_accuracy <= found + 0.012


@pytest.mark.parametrize("parts", [("L1", "G0.1"), ("L0.3", "L0.3"), ("L0.5", "L1"), ("G0.2", "G0.1")])
def test_no_attack_on_several_releases_is_more_accurate(parts: tuple[str, ...]) -> None:
    laws = [functools.partial({"L": laplace, "G": gaussian}[part[0]], float(part[1:])) for part in parts]
    losses = [(Loss.of_pure if part[0] == "L" else Loss)(Fraction(part[1:])) for part in parts]
    found = best_accuracy([law(0) for law in laws], [law(1) for law in laws])
    together = functools.reduce(Loss.plus, losses)
    assert max(each.attack_accuracy for each in losses) < found + 1e-9
    assert found <= together.attack_accuracy < found + 0.05


def test_many_small_pure_losses_are_bounded_by_their_divergence() -> None:
    many = functools.reduce(Loss.plus, [Loss.of_pure(Fraction(1, 10))] * 100)
    assert many.pure == 10
    assert many.attack_accuracy < 0.82 < Loss.of_pure(Fraction(10)).attack_accuracy


@given(st.fractions("1/1000", "1/2"), st.fractions("1/100", 3))
def test_exceptions_that_show_the_unit_attain_the_accuracy(delta: Fraction, epsilon: Fraction) -> None:
    """With probability delta a mechanism shows its input, else it is a randomized response of this epsilon."""
    right = mp.exp(mp.mpf(epsilon.numerator) / epsilon.denominator)
    shown = mp.mpf(delta.numerator) / delta.denominator
    found = shown + (1 - shown) * right / (1 + right)
    assert found <= Loss.of_pure(epsilon, delta).attack_accuracy <= found + 1e-9


@pytest.mark.parametrize("loss", [Loss(), Loss(Fraction(1, 1 << 200)), Loss.of_pure(Fraction(1, 10**9))])
def test_hardly_any_loss_is_a_coin_flip(loss: Loss) -> None:
    assert 0.5 <= loss.attack_accuracy < 0.5 + 1e-6


@pytest.mark.parametrize("loss", [Loss(Fraction(1 << 64)), Loss.of_pure(Fraction(1 << 40)), Loss(delta=Fraction(1))])
def test_no_accuracy_is_above_one(loss: Loss) -> None:
    assert loss.attack_accuracy == 1


def attack(spent: PrivacySpec, tries: int) -> int:
    """Guess of each item of a release whether 10 or 11 records were counted; return how many guesses are right."""
    items = range(tries)
    raw = ListedHistogram(ListedItems(items))
    raw.accumulate([item for item in items for _ in range(10 + item % 2)])
    guesses = release(raw, ReleaseTerms(spent)).estimate(items) > 10.5
    return int(np.count_nonzero(guesses == np.arange(tries) % 2))


@pytest.mark.parametrize("loss", [{"epsilon": 1}, {"rho": 0.1}])
def test_an_attacker_of_releases_is_as_accurate_as_is_reported(loss: dict[str, float]) -> None:
    """Each of the two bounds fails with a probability of 5e-10 on correct code; four times the loss is found."""
    tries, spec = 3000, PrivacySpec(**loss, summary_counts=None)
    accuracy, right = spec.loss().attack_accuracy, attack(spec, tries)
    assert binom.ppf(5e-10, tries, accuracy - 0.012) <= right <= binom.isf(5e-10, tries, accuracy)
    much = PrivacySpec(**{name: 4 * value for name, value in loss.items()}, summary_counts=None)
    assert attack(much, tries) > binom.isf(5e-10, tries, accuracy)


@example(28.626327006598217, 0.25)
@given(st.floats(1e-6, 50), st.floats(1e-12, 0.4))
def test_a_reported_epsilon_is_not_below_the_exact_one_as_decimal_text(rho: float, delta: float) -> None:
    epsilon = Loss(Fraction(repr(rho))).epsilon(delta)
    with mp.workdps(60):
        mu, text = mp.sqrt(2 * mp.mpf(repr(rho))), mp.mpf(repr(epsilon))
        exact = mp.ncdf(mu / 2 - text / mu) - mp.exp(text) * mp.ncdf(-mu / 2 - text / mu)
        assert exact <= mp.mpf(repr(delta))


@example(Decimal("1.57"), 1e-6)
@given(st.decimals("0.01", "9", places=2), st.sampled_from([1e-6, 1e-9, 1e-3]))
def test_a_promised_epsilon_holds_as_decimal_text(epsilon: Decimal, delta: float) -> None:
    spec = PrivacySpec(epsilon=float(str(epsilon)), delta=delta)
    with mp.workdps(60):
        rho, text = mp.mpf(spec.rho.numerator) / spec.rho.denominator, mp.mpf(str(epsilon))
        mu = mp.sqrt(2 * rho)
        exact = mp.ncdf(mu / 2 - text / mu) - mp.exp(text) * mp.ncdf(-mu / 2 - text / mu)
        assert exact <= mp.mpf(repr(delta))
