"""A public seed repeats a release and never passes as private; checks find false statements of sketches and noise."""

from __future__ import annotations

import json
import math
import os
from fractions import Fraction
from pathlib import Path
from typing import Any

import dp_accounting
import numpy as np
import pytest

from beam_dpsketch import CountMin, CountSketch, PrivacySpec, Released, ReleaseTerms, SketchSpec, release
from beam_dpsketch.answers.flat import ReleasedCountSketch
from beam_dpsketch.explore import explore
from beam_dpsketch.privacy.mechanism import Randomness
from beam_dpsketch.privacy.noise import discrete_gaussian
from beam_dpsketch.privacy.noise.keyed_randomness import KeyedRandomness
from beam_dpsketch.research import Sensitivity, check_noise, check_sketch, noise_for_tests
from benchmarks.paper import figures
from tests.cli.consoles import run, write
from tests.helpers.pages import PAGES, fenced, printed_by

ITEMS = [f"item {number}" for number in range(12)]
SIZES = np.arange(-200, 201)
NORMAL = float(np.logaddexp.reduce(-(SIZES**2) / 18))


def released(seed: int | None = None, secret: KeyedRandomness | None = None) -> ReleasedCountSketch:
    raw = CountSketch(SketchSpec(width=64)).accumulate(["a"] * 900)
    randomness = secret if seed is None else noise_for_tests(seed)
    return release(raw, ReleaseTerms(PrivacySpec(rho=1)), randomness)


def test_a_seed_gives_the_same_release_and_another_seed_another() -> None:
    assert released(7).to_bytes() == released(7).to_bytes()
    assert not np.array_equal(released(7).counters, released(8).counters)


@pytest.mark.parametrize("wrong", [-1, 1.5, True, "7", None])
def test_a_seed_is_a_whole_number(wrong: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="seed"):
        noise_for_tests(wrong)


def test_a_release_with_a_public_seed_is_never_private() -> None:
    secret = KeyedRandomness(bytes(range(32)), b"context")
    public = released(7)
    stored = Released.from_bytes(public.to_bytes())
    for each in (public, stored, public.combine(released()), released(secret=secret).combine(public)):
        statement = each.privacy
        assert statement.randomness is Randomness.PUBLIC
        assert "NOT PRIVATE" in str(statement)
        assert "NOT PRIVATE" in str(each)
        assert (statement.attack_accuracy, statement.reported_epsilon) == (1.0, math.inf)
        assert statement.epsilon(1e-3) == math.inf
        assert statement.to_dp_event() == dp_accounting.NonPrivateDpEvent()
        assert "Definition" not in statement.details()
    assert released(secret=secret).combine(released()).privacy.randomness is Randomness.KEYED


def test_changes_from_a_public_seed_are_never_private() -> None:
    change = released().minus(released(7))
    assert "NOT PRIVATE" in repr(change)
    assert [each.code for each in change.top_k(1, ["a"]).notes] == ["not_private"]
    assert "NOT PRIVATE" not in repr(released().minus(released()))


def test_the_spent_loss_of_a_public_seed_is_marked(tmp_path: Path) -> None:
    write(tmp_path / "public.dpsketch", released(7))
    code, printed = run("spent", str(tmp_path / "public.dpsketch"))
    assert code == 0
    assert "1 release(s) are NOT PRIVATE: the seed of their noise is public" in printed
    for more in ((), ("--delta", "1e-3")):
        row = json.loads(run("spent", str(tmp_path / "public.dpsketch"), "--format", "json", *more)[1].splitlines()[0])
        assert (row["epsilon"], row["attack_accuracy"]) == (None, 1.0)


def test_a_page_never_gives_a_loss_to_releases_with_public_seeds() -> None:
    page = explore([released(7), released(8)])
    assert '["A release of this page is NOT PRIVATE: the seed of its noise is public."]' in page
    assert "together: epsilon" not in page
    assert "All 2 runs of this page together: epsilon = " in explore([released(), released()])


def test_derived_randomness_of_a_public_seed_is_public() -> None:
    derived = noise_for_tests(7).derive(b"part")
    assert Randomness.of(derived) is Randomness.PUBLIC
    assert "hidden" in repr(derived)


@pytest.mark.parametrize("kind", [CountSketch, CountMin])
def test_a_true_change_passes_and_a_smaller_one_is_found(kind: type[CountSketch]) -> None:
    spec = SketchSpec(kind=kind.name, depth=3, width=8)

    def counters(items: Any) -> np.ndarray:
        return kind(spec).accumulate(list(items)).counters

    check_sketch(counters, ITEMS, Sensitivity(Fraction(3), Fraction(3)))
    check_sketch(counters, ITEMS, Sensitivity(Fraction(3)))
    for small in (Sensitivity(Fraction(2)), Sensitivity(Fraction(3), Fraction(2))):
        with pytest.raises(ValueError, match=r"change must be at least 3 squared and 3 in total.*E518"):
            check_sketch(counters, ITEMS, small)
    with pytest.raises(ValueError, match=r"counters must be linear.*E517"):
        check_sketch(lambda items: counters(items) ** 2 * len(items), ITEMS, Sensitivity(Fraction(100)))


def gaussian(size: int, random_bytes: Any) -> np.ndarray:
    return discrete_gaussian.sample(size, Fraction(5), random_bytes=random_bytes)


def log_gaussian(values: np.ndarray) -> np.ndarray:
    """Logarithms of the probabilities of `wide`."""
    return -(values**2) / 18 - NORMAL


def wide(size: int, random_bytes: Any) -> np.ndarray:
    return discrete_gaussian.sample(size, Fraction(9), random_bytes=random_bytes)


def test_a_true_loss_passes_and_a_smaller_one_is_found() -> None:
    check_noise(wide, log_gaussian, reach=100, rho=1 / 18)
    with pytest.raises(ValueError, match=r"rho must be at least 0\.05555.*E519"):
        check_noise(wide, log_gaussian, reach=100, rho=1 / 18.1)
    with pytest.raises(ValueError, match=r"epsilon must be at least .*E519"):
        check_noise(wide, log_gaussian, reach=100, epsilon=1)
    with pytest.raises(ValueError, match=r"must be one of 'rho', 'epsilon'"):
        check_noise(wide, log_gaussian, delta=1e-6)
    with pytest.raises(ValueError, match=r"rho must be at least 0\.05555"):
        check_noise(wide, log_gaussian, reach=100, rho=math.nan)
    with pytest.raises(ValueError, match="must contain rho or epsilon"):
        check_noise(wide, log_gaussian)
    with pytest.raises(TypeError, match="rho must be a number"):
        check_noise(wide, log_gaussian, rho="1")  # type: ignore[arg-type]


def test_noise_on_one_side_has_no_finite_loss() -> None:
    def coins(values: np.ndarray) -> np.ndarray:
        return np.where(values < 0, -np.inf, -(values + 1.0) * math.log(2))

    with pytest.raises(ValueError, match=r"log_probability is -inf near likely values.*E519"):
        check_noise(wide, coins, epsilon=math.log(2))


def test_probabilities_that_underflow_are_named() -> None:
    with (
        np.errstate(divide="ignore"),
        pytest.raises(ValueError, match=r"log_probability is -inf near likely values.*smaller reach.*E519"),
    ):
        check_noise(wide, lambda values: np.log(np.exp(log_gaussian(values))), rho=1 / 18)


def test_draws_from_another_source_are_found() -> None:
    with pytest.raises(ValueError, match=r"sample must use random_bytes alone.*E520"):
        check_noise(lambda size, _: wide(size, os.urandom), log_gaussian, reach=100, rho=1 / 18)


def test_draws_of_another_law_are_found() -> None:
    with pytest.raises(ValueError, match=r"sample must draw values.*E520"):
        check_noise(gaussian, log_gaussian, reach=100, rho=1 / 18)
    with pytest.raises(ValueError, match=r"sample must draw values.*E520"):
        check_noise(wide, lambda values: log_gaussian(values) - 0.1, reach=100, rho=1 / 18)
    fixed = noise_for_tests(3)
    with pytest.raises(ValueError, match=r"sample must use random_bytes. Different.*E520"):
        check_noise(lambda size, _: wide(size, fixed.random_bytes(b"")), log_gaussian, reach=100, rho=1 / 18)
    with pytest.raises(ValueError, match=r"sample must draw integers, got float64.*E520"):
        check_noise(lambda *given: wide(*given) / 2, log_gaussian, reach=100, rho=1 / 18)


@pytest.mark.parametrize(
    "wrong", [lambda _: -1.0, lambda _: None, lambda values: log_gaussian(values)[:5], lambda values: values * np.nan]
)
def test_probabilities_of_another_shape_and_nan_are_found(wrong: Any) -> None:
    with pytest.raises(ValueError, match=r"log_probability must compute the logarithm.*E519"):
        check_noise(wide, wrong, reach=100, rho=1 / 18)


def test_draws_of_another_shape_and_a_wrong_reach_are_found() -> None:
    check_noise(lambda *given: wide(*given).tolist(), lambda values: list(log_gaussian(values)), reach=100, rho=1 / 18)
    with pytest.raises(ValueError, match=r"sample must draw an array with shape \(20000,\), got \(2, 10000\).*E520"):
        check_noise(lambda *given: wide(*given).reshape(2, -1), log_gaussian, reach=100, rho=1 / 18)
    for reach in (0, 1.5):
        with pytest.raises((TypeError, ValueError), match="reach"):
            check_noise(wide, log_gaussian, reach=reach, rho=1 / 18)  # type: ignore[arg-type]


def test_noise_that_is_almost_always_zero_passes() -> None:
    """Different bytes then give equal draws."""

    def logs(values: np.ndarray) -> np.ndarray:
        return math.log(math.tanh(20)) - 40 * np.abs(values)

    check_noise(lambda size, random_bytes: np.zeros(size, int), logs, reach=9, epsilon=40)


def test_the_page_shows_arrays_and_a_seed() -> None:
    """The deviation of 5,120 draws is within 10 % of sigma, which is 1.58: 10 deviations of it."""
    shapes, numbers, guarantee = printed_by(fenced("## Counters as arrays", PAGES["researchers"])).splitlines()
    assert shapes == "(5, 1024) int64 (5, 1024)"
    estimate, spread = map(float, numbers.split()[:2])
    assert (estimate, spread) == (pytest.approx(4000, abs=10), pytest.approx(1.58, rel=0.1))
    assert guarantee.startswith("none, NOT PRIVATE")


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda items: np.array([items.count(each) ** 2 for each in ITEMS]), "must be linear"),
        (lambda items: np.array([len(items) + 1]), "must be linear"),
        (lambda items: [len(items) / 2], "must be integers, got float64"),
        (lambda items: np.array([len(items) << 32]), "at least 18446744073709551616 squared"),
        (lambda items: np.array([len(items)] if items else [], int), "must be linear"),
        (lambda items: 3 * len(items), "at least 9 squared and 3 in total"),
    ],
    ids=["squares", "offset", "floats", "overflow", "shapes", "a number"],
)
def test_false_sketches_are_found(wrong: Any, words: str) -> None:
    """Squares differ from a sum only if a pair contains an item twice."""
    for items in (ITEMS[:2], ITEMS[:1]):
        with pytest.raises(ValueError, match=words):
            check_sketch(wrong, items, Sensitivity(Fraction(4), Fraction(4)))


def test_the_sketch_and_the_noise_of_the_page_pass_their_checks() -> None:
    shape, error = printed_by(fenced("## Your own sketch and noise", PAGES["researchers"])).splitlines()
    assert shape == "(2, 8) epsilon = 1.3863"
    assert error == "epsilon must be at least 0.693147, the loss for a shift by 1 [dpsketch-E519]"


def test_the_figures_of_the_page_are_those_of_the_command() -> None:
    assert "\n".join(figures.lines()) in PAGES["researchers"]
