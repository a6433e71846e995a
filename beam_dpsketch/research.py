"""Noise from a public seed, and checks of a sketch and a noise of your own.

The checks search for counterexamples to your statements, and prove nothing. Let a shift by s lose at most rho s^2 in
zCDP, or epsilon `|s|`. Independent noise on each counter then loses rho `|v|^2`, or epsilon times the sum of `|v_i|`,
for a change v, because Renyi divergences and log-ratios of probabilities add up over counters.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from beam_dpsketch import checks as _validate
from beam_dpsketch.encodings import encode
from beam_dpsketch.errors import ArgumentError
from beam_dpsketch.privacy.mechanism import Sensitivity
from beam_dpsketch.privacy.noise.keyed_randomness import PublicRandomness, RandomBytes

__all__ = ["Sensitivity", "check_noise", "check_sketch", "noise_for_tests"]

_ORDERS, _SHIFTS = (1.001, 1.5, 2.0, 4.0, 16.0), (1, -1, 2, -2, 3, -3)
_DRAWS, _DEVIATIONS, _OFTEN, _ROUNDING, _CERTAIN = 20_000, 8.0, 200, 1e-9, math.log(1e-10)


def noise_for_tests(seed: int) -> PublicRandomness:
    """Derive randomness from a public seed: NOT PRIVATE. Pass it to `release` as `randomness`.

    Equal calls give equal releases, whose statement and notes report NOT PRIVATE. Anyone who guesses the seed can
    subtract the noise. `noise_for_tests(seed).random_bytes(name)` is a source of bytes for a noise of your own.

    >>> from beam_dpsketch import CountSketch, PrivacySpec, ReleaseTerms, SketchSpec, release
    >>> raw = CountSketch(SketchSpec(width=64)).accumulate(["a"] * 9)
    >>> release(raw, ReleaseTerms(PrivacySpec(rho=1)), noise_for_tests(7)).notes[-1].code
    'not_private'
    """
    _validate.whole(low=0, high=(1 << 63) - 1, seed=seed)
    return PublicRandomness(hashlib.sha256(encode(("noise for tests", int(seed)))).digest(), b"")


def check_sketch(
    counters: Callable[[Sequence[Any]], NDArray[np.int64]], items: Sequence[Any], change: Sensitivity
) -> None:
    """Raise if counters are not linear on pairs of public items, or an item changes them by more than is stated.

    A pair may contain an item twice.

    Args:
      counters: computes the exact counters of a list of items, in one shape for all lists.
      items: public items, because errors contain numbers about them.
      change: the largest change if a record is added or removed: squared, and in total or `None`.
    """
    _validate.instance(Sensitivity, change=change)

    def exactly(several: Sequence[Any]) -> NDArray[np.object_]:
        found = np.asarray(counters(several))
        if not np.issubdtype(found.dtype, np.integer):
            raise ArgumentError("counters", f"must be integers, got {found.dtype}", "E517")
        return found.astype(object)  # Python numbers do not overflow

    alone, nothing = [exactly([item]) for item in items], exactly([])
    pairs = [*itertools.combinations_with_replacement(range(len(items)), 2)]
    is_sum = (
        np.array_equal(exactly([items[first], items[second]]), alone[first] + alone[second]) for first, second in pairs
    )
    if nothing.any() or any(each.shape != nothing.shape for each in alone) or not all(is_sum):
        words = "must be linear: zeros without items, and the sum of two items' counters for both items"
        raise ArgumentError("counters", words, "E517")
    squared, total = (max((int(np.sum(abs(each) ** power)) for each in alone), default=0) for power in (2, 1))
    if squared > change.squared or (change.total is not None and total > change.total):
        words = f"must be at least {squared} squared and {total} in total, the change by a checked item. Increase it"
        raise ArgumentError("change", words, "E518")


def check_noise(
    sample: Callable[[int, RandomBytes], NDArray[np.int64]],
    log_probability: Callable[[NDArray[np.int64]], NDArray[np.float64]],
    *,
    reach: int = 1000,
    **stated: float,
) -> None:
    """Raise if probabilities contradict the stated loss for shifts up to 3, or 20,000 draws contradict probabilities.

    Draws are from a public seed. Noise that is right fails with a probability below 1e-9, and then always.

    Args:
      sample: draws whole numbers from bytes alone: `sample(size, random_bytes)`.
      log_probability: computes the natural logarithm of the probability of each value.
      reach: the largest absolute value that is checked. Others must be very rare.
      **stated: `rho` or `epsilon`, as in the module's documentation.
    """
    if not stated:
        raise ArgumentError("stated", "must contain rho or epsilon, the loss to check", "E519")
    for name, loss in stated.items():
        _validate.one_of(("rho", "epsilon"), stated=name)
        _validate.real(**{name: loss})
    _validate.whole(low=1, high=1 << 20, reach=reach)

    def logarithms(values: NDArray[np.int64]) -> NDArray[np.float64]:
        found = np.asarray(log_probability(values), dtype=np.float64)
        if found.shape != values.shape or not (found < np.inf).all():
            words = "must compute the logarithm of a probability for each value of an array, and never NaN"
            raise ArgumentError("log_probability", words, "E519")
        return found

    values = np.arange(-reach, reach + 1)
    logs = logarithms(values)
    _check_loss(logarithms, values[logs > -np.inf], stated)
    drawn = _checked_draws(sample, _DRAWS * float(np.log(np.exp(2 * logs).sum())))
    counts, expected = np.bincount(np.clip(drawn, -reach, reach) + reach, minlength=len(values)), _DRAWS * np.exp(logs)
    is_often = expected >= _OFTEN
    counts, expected = (np.append(each[is_often], each[~is_often].sum()) for each in (counts, expected))
    missing = abs(expected.sum() - _DRAWS) > _DRAWS * _ROUNDING
    if missing or (abs(counts - expected) > _DEVIATIONS * np.sqrt(np.maximum(expected, _OFTEN))).any():
        raise ArgumentError("sample", "must draw values with the probabilities of log_probability", "E520")


def _check_loss(
    logarithms: Callable[[NDArray[np.int64]], NDArray[np.float64]], seen: NDArray[np.int64], stated: Mapping[str, float]
) -> None:
    here = logarithms(seen)
    for shift in _SHIFTS:
        there = logarithms(seen - shift)
        renyi = max(np.logaddexp.reduce(order * here + (1 - order) * there) / (order - 1) / order for order in _ORDERS)
        found = {"rho": float(renyi) / shift**2, "epsilon": float(abs(here - there).max()) / abs(shift)}
        for name, loss in stated.items():
            if found[name] == np.inf:
                words = "is -inf near likely values. Use noise without ends, a logarithm that does not underflow, or a "
                raise ArgumentError("log_probability", f"{words}smaller reach", "E519")
            if not found[name] <= loss + _ROUNDING:  # neither for NaN
                raise ArgumentError(
                    name, f"must be at least {found[name]:.6g}, the loss for a shift by {shift}", "E519"
                )


def _checked_draws(sample: Callable[[int, RandomBytes], NDArray[np.int64]], log_chance: float) -> NDArray[np.int64]:
    """Draw from bytes alone. `log_chance` is the logarithm of the probability that two samples are equal."""
    drawn, again, others = (
        np.asarray(sample(_DRAWS, noise_for_tests(0).random_bytes(part))) for part in (b"draws", b"draws", b"others")
    )
    if not np.issubdtype(drawn.dtype, np.integer):
        raise ArgumentError("sample", f"must draw integers, got {drawn.dtype}", "E520")
    if drawn.shape != (_DRAWS,):
        raise ArgumentError("sample", f"must draw an array with shape ({_DRAWS},), got {drawn.shape}", "E520")
    if not np.array_equal(drawn, again):
        raise ArgumentError("sample", "must use random_bytes alone. Equal bytes gave different draws", "E520")
    if np.array_equal(drawn, others) and log_chance < _CERTAIN:
        raise ArgumentError("sample", "must use random_bytes. Different bytes gave equal draws", "E520")
    return drawn
