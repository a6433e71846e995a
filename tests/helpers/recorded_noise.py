"""What the noise of whole releases of tables is added to: exact numbers and noise parameters, recorded.

The inputs of a group differ by one unit. The first one gets numbers that are made up; the others get the same ones, as
if noise had led to the same output. So what the data choose on the way, as a norm or keys, is equal for all of them.
Whatever else a release says must be equal too: else it says something of the data that no noise hides. Common units
draw the same random numbers. Nothing here raises a false alarm.
"""

from __future__ import annotations

import functools
import math
import sys
from fractions import Fraction
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest

from beam_dpsketch import ReleaseSpec, release_frame
from beam_dpsketch.encodings import encode
from beam_dpsketch.exact.bounding import record_rule as priorities
from beam_dpsketch.exact.bounding.record_rule import KeyedPriorities, RandomPriorities
from beam_dpsketch.frames import releasing
from beam_dpsketch.frames.releasing import KeyedReleases
from beam_dpsketch.frames.steps import sums as frame_sums
from beam_dpsketch.noise import noising
from beam_dpsketch.noise import run as engine_run
from beam_dpsketch.noise.tables import NoisyTable
from beam_dpsketch.privacy.noise import discrete_gaussian, discrete_laplace, drawing
from beam_dpsketch.privacy.noise.keyed_randomness import KeyedRandomness
from beam_dpsketch.privacy.noise.laws import Noise
from beam_dpsketch.statement.accounting import add_up

SECRET = b"planted-secret-4711-4711-4711-4711-4711"
CHOSEN_ABOVE_A_THRESHOLD = ("votes", "items")
MORE_THAN_A_THRESHOLD = 1 << 40


class Drawn(NamedTuple):
    """One array of exact numbers, the parameter of the noise that is added to each, and the name of their table."""

    place: str
    exact: np.ndarray
    sigma_squared: Fraction
    noise: Noise


class Run(NamedTuple):
    """All that noise was added to in a release of one table, what it claims to lose, and what was released.

    The claim is a rho, or the epsilon of Laplace noise.
    """

    drawn: list[Drawn]
    claim: Fraction
    released: Any


def cost(change: list[int], drawn: Drawn) -> Fraction:
    """Return the loss of changing numbers by so much under their noise: the one place that reads noise parameters."""
    if drawn.noise is Noise.LAPLACE:
        squared = drawn.sigma_squared / 2
        scale = Fraction(math.isqrt(squared.numerator), math.isqrt(squared.denominator))
        assert scale**2 == squared
        return sum(map(abs, change)) / scale
    return Fraction(sum(each * each for each in change)) / (2 * drawn.sigma_squared)


def loss(first: Run, second: Run) -> Fraction:
    """Return the rho, or epsilon, that tells two runs apart, exactly; raise if anything but noisy numbers does."""
    assert len(first.drawn) == len(second.drawn), "one unit changes how often noise is drawn"
    assert first.released == second.released, "a release says more than its noisy numbers"
    total = Fraction(0)
    for one, other in zip(first.drawn, second.drawn, strict=True):
        assert (one.place, one[2:]) == (other.place, other[2:]), "one unit changes the noise"
        assert one.noise is first.drawn[0].noise, "one release has two kinds of noise"
        total += cost((one.exact - other.exact).ravel().tolist(), one)
    return total


class Recorder:
    """Takes the place of the noise, of release ids and of the random choice of records."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._drawn: list[Drawn] = []
        self._outputs: list[np.ndarray] = []
        self._seed, self._is_keyed, self._replays = 0, False, False
        self._place = ""
        modules = {name: module for name, module in sys.modules.items() if name.startswith("beam_dpsketch.")}
        for module in modules.values():
            if module is not drawing and getattr(module, "add_noise", None) is drawing.add_noise:
                patch.setattr(module, "add_noise", self._add_noise)
        exact = NoisyTable.draw

        def draw(table: NoisyTable, *given: Any) -> np.ndarray:
            self._place = table.names[0]
            return exact(table, *given)

        patch.setattr(NoisyTable, "draw", draw)
        for law in (discrete_gaussian, discrete_laplace):
            patch.setattr(law, "sample", _refuse)
        for module in (noising, engine_run):
            patch.setattr(module, "os", SimpleNamespace(urandom=bytes))
        patch.setattr(frame_sums, "RandomPriorities", self._priorities)
        for name in ("release_sums", "release_counts"):
            patch.setattr(releasing, name, functools.partial(_in_order, getattr(releasing, name)))
        self._patch = patch

    def start(self, seed: int, *, is_keyed: bool) -> None:
        """Begin a group of inputs.

        With `is_keyed`, a hash of what records say decides which of them count, so they may be in any order. Else it is
        their place in the table, and the records of the unit that differs come last.
        """
        self._seed, self._is_keyed, self._replays, self._outputs = seed, is_keyed, False, []

    def run(self, table: Any, declared: ReleaseSpec) -> Run:
        """Release a table, with the numbers of the first one of its group."""
        self._drawn, rng = [], np.random.default_rng([self._seed, 1])
        has_ties = self._seed % 3 == 1
        random = SimpleNamespace(urandom=functools.partial(_priorities_of, rng, 4 if has_ties else 1 << 32))
        self._patch.setattr(priorities, "os", random)
        released = release_frame(table, declared)
        self._replays = True
        return Run(self._drawn, _claimed(released), _contents(released))

    def _add_noise(
        self, counters: np.ndarray, sigma_squared: Fraction, bits: int = 0, *, noise: Noise = Noise.GAUSSIAN, **_: Any
    ) -> np.ndarray:
        number, place = len(self._drawn), self._place
        self._drawn.append(Drawn(place, counters.copy(), sigma_squared, noise))
        if not self._replays:
            self._outputs.append(self._make_up(place, counters, sigma_squared) << np.int64(bits))
        assert number < len(self._outputs), "one unit changes how often noise is drawn"
        assert self._outputs[number].shape == counters.shape, "one unit changes how many numbers are released"
        return self._outputs[number].copy()

    def _make_up(self, place: str, counters: np.ndarray, sigma_squared: Fraction) -> np.ndarray:
        """Return numbers that noise might lead to; all, or some, that are compared with a threshold are above it."""
        rng = np.random.default_rng([self._seed, 2, len(self._outputs)])
        noise = rng.normal(0, float(sigma_squared) ** 0.5, counters.shape)
        if place in CHOSEN_ABOVE_A_THRESHOLD:
            least = 0 if self._seed % 3 == 0 else 1
            noise += MORE_THAN_A_THRESHOLD * rng.integers(least, 2, counters.shape)
        if place == "lengths":
            noise[rng.integers(noise.size)] += 40 * float(sigma_squared) ** 0.5
        return counters + np.rint(noise).astype(np.int64)

    def _priorities(self) -> RandomPriorities | KeyedPriorities:
        if self._is_keyed:
            return KeyedPriorities(lambda: KeyedRandomness(SECRET, encode((self._seed,))))
        return RandomPriorities(self._seed)


def _refuse(*_: Any, **__: Any) -> np.ndarray:
    raise AssertionError("noise is drawn where nothing is recorded")


def _priorities_of(rng: np.random.Generator, below: int, size: int) -> bytes:
    return rng.integers(0, below, size // 4).astype("<u4").tobytes()


def _in_order(exact: Any, sums: dict[Any, Any], *others: Any) -> Any:
    """Release keys, or pairs of key and item, in the order of their names, so that those of two inputs are compared."""
    return exact({key: _ordered(sums[key]) for key in sorted(sums, key=repr)}, *others)


def _ordered(found: Any) -> Any:
    if isinstance(found, dict):
        return {pair: found[pair] for pair in sorted(found)}
    return found.ordered(np.argsort(found.keys.to_numpy(zero_copy_only=False)))


def _claimed(released: Any) -> Fraction:
    """Return the loss of all releases together, as their statements say it."""
    releases = list(released.values()) if isinstance(released, KeyedReleases) else [released]
    statements = [each.privacy for each in releases or [released.unreleased]]
    (spent,) = add_up(statements)
    return spent.loss.pure if spent.loss.is_pure else spent.rho


def _contents(released: Any) -> Any:
    if not isinstance(released, KeyedReleases):
        return released.to_bytes()
    return [(key, each.to_bytes()) for key, each in released.items()], released.unreleased
