"""With which probability to release a key, given how many units count in it: the largest that rho and delta allow.

Setting: a unit counts in at most j keys and adds the whole number w_j to the statistic of each; j is its class. A key
of statistic n is released with probability p(n), by random bits of its own, and p(0) = 0.

Guarantee: adding or removing one unit of any class changes which keys are released by at most (delta, rho), over all
its keys together. This is delta-approximate rho-zCDP (Bun and Steinke 2016, Definition 8.1). It holds for the rounded
table, which is checked before it is returned.

The rule. Let d = delta / j and rho_j = rho w_j^2 / grid^2. Two probabilities are close if Bernoulli releases of them
are rho_j-zCDP, both ways. Up_j(p) = (1 - d) q' + d, with the largest q' that is close to min(1, p / (1 - d)). Then

    p(n) = the minimum over classes of Up_j(p(n - w_j)), where p is 0 below 0.

Proof.
* Each pair: p(n) and p(n + w_j) are mixtures, with weight 1 - d of close releases and with weight d of any. Two
  probabilities at most d apart are mixtures of equal releases.
* A unit: its keys are released independently. Over j of them delta adds up to j d = delta, and rho to j rho_j <= rho.
* All orders: f(a) = (a - 1) D_a is the logarithm of a sum of two exponentials of a. So f is convex, and f(1) = 0.
  Between two orders f lies below its chord. Where the chord is at most rho_j a (a - 1), these orders are certified.
  From a = D_infinity / rho_j on, D_a <= D_infinity <= rho_j a. So finitely many chords certify every order.
* Rounding: probabilities are whole numbers of 2^-128. They, their differences and d, rounded down, are exact in the
  certificate. It alone decides, so an error of the construction can only make `keep_table` raise.

Numbers. The certificate allows 1 - 2^-20 of rho, because it uses float64. With b = a - 1 and c = 1 - p, it computes f
as log1p(S), where S = p expm1(b log(p / q)) + c expm1(b log(c / (1 - q))). The negative term is at most b in size,
because p log(q / p) <= q - p, and the same for complements. So S is wrong by a few 2^-53 (2 b + S), and f by less than
2^-22 rho_j b (b + 1), because rho_j >= 2^-26. A test compares f with 60 digits. Neighbouring chords may miss orders
within one unit of rounding, where f and its bound change by about 2^-50 of themselves.

The construction aims at 1 - 2^-10 of rho. Its steps are interpolated, and a test measures what they need at 2,000
probabilities: more than 0.999 of rho, less than 0.9998. So the certificate accepts them, and little of rho is unused.

Source: Desfontaines, Voss, Gipson and Mandayam 2022 (arXiv:2006.03684) have the largest p for one key and (epsilon,
delta)-DP. Harrison and Manurangsi (arXiv:2603.09167) have the same idea under approximate Renyi DP.
"""

from __future__ import annotations

import bisect
import functools
import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from beam_dpsketch import _validate
from beam_dpsketch.errors import ArgumentError
from beam_dpsketch.privacy.noise.random_words import RandomBytes

MIN_DELTA = Fraction(1, 1 << 96)
MAX_SIZE = 1 << 19  # entries times classes: a few seconds of work
_BYTES = 16
_ONE = 1 << 8 * _BYTES
_MIN_CLASS_RHO = Fraction(1, 1 << 26)
_MAX_CLASS_RHO = Fraction(2)  # above, the largest step jumps with p and cannot be interpolated
_SPENT = 1 - 2.0**-10
_CERTIFIED = 1 - 2.0**-20

_NODES = 32  # for each unit of asinh(logit / 2)
_ORDERS = 16
_ROUNDS = (10, 5, 5)  # steps of Newton's method, each round on a finer grid of orders
_MAX_HALVINGS = 16


class _Class(NamedTuple):
    """What one key of a unit may cost: probabilities in units of 2^-128."""

    weight: int
    reserve: int
    rho: Fraction


@dataclass(frozen=True)
class KeepTable:
    """The probability to release a key, by its statistic; statistics beyond the end are kept for certain."""

    thresholds: tuple[int, ...] = field(repr=False)

    def keeps(self, statistic: int, random_bytes: RandomBytes) -> bool:
        """Decide at random whether to release a key: it always takes 16 of the uniform `random_bytes`."""
        word = random_bytes(_BYTES)
        if len(word) != _BYTES:
            raise ValueError(f"random_bytes must return {_BYTES} bytes, got {len(word)}")
        return int.from_bytes(word, "little") < self._threshold(statistic)

    def probability(self, statistic: int) -> Fraction:
        """Return the exact probability to release a key of this statistic."""
        return Fraction(self._threshold(statistic), _ONE)

    def least(self, probability: Fraction) -> int:
        """Return the least statistic that is kept with at least this probability, from 0 to 1."""
        if not 0 <= probability <= 1:
            raise ValueError(f"probability must be between 0 and 1, got {probability}")
        return bisect.bisect_left(self.thresholds, math.ceil(probability * _ONE))

    def _threshold(self, statistic: int) -> int:
        if statistic < 0:
            return 0
        return self.thresholds[statistic] if statistic < len(self.thresholds) else _ONE


@functools.lru_cache(maxsize=32)
def keep_table(classes: tuple[tuple[int, int], ...], grid: int, rho: Fraction, delta: Fraction) -> KeepTable:
    """Return the table of largest probabilities that cost one unit at most (delta, rho), over all its keys.

    Args:
      classes: (j, w_j), ascending in j: a unit in at most j keys adds w_j to each, 1 <= w_j and j w_j^2 <= grid^2.
      grid: what a unit adds that is in one key only, if 1 is among the classes.
      rho: for one unit. No key gets more than 2, even if rho is larger.
      delta: for one unit, below 1; for each of its keys at least 2^-96.

    Raises:
      ValueError: an argument is out of range, or entries times classes would exceed 2^19.
      RuntimeError: the table failed its check, which no arguments are known to cause.
    """
    priced = _price(classes, grid, rho, delta)
    thresholds = _build(priced)
    with np.errstate(over="ignore", invalid="ignore"):  # what is not a number is not certified
        certified = all(_is_certified(thresholds, key) for key in priced)
    if not certified:
        raise RuntimeError("the keep-table failed its privacy check: please report the arguments of keep_table")
    return KeepTable(thresholds)


def _price(classes: tuple[tuple[int, int], ...], grid: int, rho: Fraction, delta: Fraction) -> list[_Class]:
    """Split the loss among the classes, for one key each; check the arguments."""
    _validate.positive_finite(rho=rho)
    _validate.open_unit_interval(delta=delta)
    _validate.whole(low=1, high=1 << 31, grid=grid)
    numbers = [j for j, _ in classes]
    if not numbers or numbers[0] < 1 or sorted(set(numbers)) != numbers:
        raise ValueError(f"classes must be (j, w_j) with ascending j >= 1, got {classes!r}")
    if not all(weight >= 1 and j * weight**2 <= grid**2 for j, weight in classes):
        raise ValueError(f"classes must have w_j >= 1 and j w_j^2 <= grid^2 = {grid**2}, got {classes!r}")
    priced = [
        _Class(weight, _reserve(delta, j), min(_class_rho(rho, weight, grid), _MAX_CLASS_RHO)) for j, weight in classes
    ]
    if min(key.rho for key in priced) < _MIN_CLASS_RHO:
        words = 'rho, or keys.share, is too small for the method "table"; raise it, or take "gaussian"'
        raise ArgumentError("", words, "E310")
    if delta / numbers[-1] < MIN_DELTA:
        least = f"{float(MIN_DELTA * numbers[-1]):.2g}"
        words = f'must be at least {least} for the method "table": raise it, or use "gaussian"'
        raise ArgumentError("delta", words, "E309")
    return priced


def _reserve(delta: Fraction, keys: int) -> int:
    return math.floor(Fraction(delta) * _ONE / keys)


def _class_rho(rho: Fraction, weight: int, grid: int) -> Fraction:
    """Return the part of rho for one key, in which a unit counts with this weight."""
    return Fraction(rho) * weight**2 / grid**2


def _build(classes: list[_Class]) -> tuple[int, ...]:
    end = max(math.log(_ONE / key.reserve) for key in classes) + 1
    climbs = [(key.weight, _Climb(key, end)) for key in classes]
    thresholds = [0]
    while thresholds[-1] < _ONE:
        size = len(thresholds)
        if size * len(classes) > MAX_SIZE:
            words = 'rho and delta are too small for the method "table"; raise one of them, or take "gaussian"'
            raise ArgumentError("", words, "E310")
        largest = min(climb.above(thresholds[size - weight] if size >= weight else 0) for weight, climb in climbs)
        thresholds.append(max(largest, thresholds[-1]))
    return tuple(thresholds[:-1])


class _Climb:
    """Up_j, by interpolation between steps of the logit."""

    def __init__(self, key: _Class, end: float) -> None:
        self._reserve, self._span = key.reserve, _ONE - key.reserve
        self._scale = float(self._span)
        self._middle = math.ceil(_NODES * math.asinh(end / 2))
        nodes = 2 * np.sinh(np.arange(-self._middle, self._middle + 1) / _NODES)
        steps = _largest_steps(nodes, float(key.rho) * _SPENT)
        self._steps, self._slopes = steps.tolist(), np.diff(steps).tolist()

    def above(self, threshold: int) -> int:
        """Return Up_j of a probability, both in units of 2^-128, rounded down."""
        if not threshold:
            return self._reserve
        complement = self._span - threshold
        if complement <= 0:
            return _ONE
        odds = threshold / complement
        place = self._middle + _NODES * math.asinh(math.log(odds) / 2)
        node = min(max(int(place), 0), len(self._slopes) - 1)
        odds *= math.exp(self._steps[node] + self._slopes[node] * min(max(place - node, 0.0), 1.0))
        if odds < 1:
            return self._reserve + int(self._scale * (odds / (1 + odds)))
        return _ONE - 1 - int(self._scale / (1 + odds))


def _largest_steps(logits: np.ndarray, rho: float) -> np.ndarray:
    """Return by how much each logit may grow: float64 of shape (logits,). The certificate does not rely on it.

    For each direction and order, Newton's method in log y solves log f = log(rho a (a - 1)) for the step y. The least
    step over a grid of orders a = cosh(t)^2 is taken, and the grid refined about the order that binds.
    """
    # The second direction is the first with the roles of 0 and 1 exchanged, and starts at the other end of the step.
    start = np.stack([logits, -logits])[:, :, None]
    lowest, highest = math.sqrt(8 * rho), 2 * np.sqrt(rho * (np.abs(start) + 2)) + rho
    step = np.full(start.shape, lowest)
    low, width = np.zeros(start.shape), np.arccosh(np.sqrt(highest / rho))
    for newtons in _ROUNDS:
        grid = np.maximum(low + width * np.arange(1, _ORDERS + 1) / _ORDERS, 2.0**-12)
        b = np.sinh(grid) ** 2
        target = rho * b * (b + 1)
        for _ in range(newtons):
            logit = start - np.array([0, 1])[:, None, None] * step
            value, slope = _loss_of_step(logit, step, b)
            newton = np.log(target / value) * value / np.maximum(step * slope, 1e-300)
            best = newton.argmin(axis=2)[:, :, None]
            step = np.clip(step * np.exp(np.clip(np.take_along_axis(newton, best, 2), -2, 2)), lowest, highest)
        width = width / _ORDERS
        low, width = np.take_along_axis(grid, best, 2) - width, 2 * width
    return step.min(axis=0)[:, 0]


def _loss_of_step(logit: np.ndarray, step: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return b D_{b+1} from a logit to a logit larger by step, and its derivative by the end that moves.

    Row 0 moves the larger logit. Row 1 moves the smaller one away, which is the other direction of divergence.
    """
    p, c = _sigmoid(logit), _sigmoid(-logit)
    value = _loss(p, c, np.log1p(c * np.expm1(-step)), np.log1p(p * np.expm1(step)), b)
    tilted = _sigmoid(logit - b * step)
    first = b[:1] * (_sigmoid(logit + step)[:1] - tilted[:1])
    return value, np.concatenate([first, (b[1:] + 1) * (p[1:] - tilted[1:])])


def _sigmoid(logit: np.ndarray) -> np.ndarray:
    return np.exp(-np.logaddexp(0, -logit))


def _loss(p: np.ndarray, c: np.ndarray, u: np.ndarray, v: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return f = b D_{b+1}(Bern(p) || Bern(q)), given c = 1 - p, u = log(p / q) and v = log((1 - p) / (1 - q))."""
    return np.log1p(p * np.expm1(b * u) + c * np.expm1(b * v))


def _is_certified(thresholds: tuple[int, ...], key: _Class) -> bool:
    """Return whether the table climbs from 0, and each statistic is close to the one larger by the class's weight."""
    if thresholds[0] or thresholds[-1] > _ONE or sorted(thresholds) != list(thresholds):
        return False
    moved = (*thresholds[key.weight :], *[_ONE] * key.weight)[: len(thresholds)]
    p, q = np.array(thresholds, dtype=object), np.array(moved, dtype=object) - key.reserve
    far = np.flatnonzero(q > p)  # others are at most d apart
    p, q, span = p[far], q[far], _ONE - key.reserve
    if not len(far):
        return True
    if not (p.min() > 0 and q.max() < span):
        return False
    gap, p, q, c, d = (part.astype(float) for part in (q - p, p, q, span - p, span - q))
    u, v, rho, total = -np.log1p(gap / p), np.log1p(gap / d), float(key.rho) * _CERTIFIED, float(span)
    return _is_close(p / total, c / total, u, v, rho) and _is_close(q / total, d / total, -u, -v, rho)


def _is_close(p: np.ndarray, c: np.ndarray, u: np.ndarray, v: np.ndarray, rho: float) -> bool:
    """Return whether D_a <= rho a is certain for all pairs, as in `_loss`, and all orders a > 1."""
    ends = np.arcsinh(np.sqrt(np.maximum(np.maximum(np.abs(u), np.abs(v)) / rho * (1 + 2.0**-40) - 1, 0)))
    pairs = np.flatnonzero(ends > 0)
    low, width = np.zeros(len(pairs)), ends[pairs]
    for _ in range(_MAX_HALVINGS):
        if not len(pairs):
            return True
        chosen = p[pairs], c[pairs], u[pairs], v[pairs]
        b, end = np.sinh(low) ** 2, np.sinh(low + width) ** 2
        value = _loss(*chosen, b)
        slope = (_loss(*chosen, end) - value) / (end - b)
        highest = np.clip((slope / rho - 1) / 2, b, end)  # where the chord exceeds rho b (b + 1) most
        fails = np.flatnonzero(~(value + slope * (highest - b) <= rho * highest * (highest + 1)))
        pairs = np.repeat(pairs[fails], 2)
        width = np.repeat(width[fails] / 2, 2)
        low = np.repeat(low[fails], 2) + width * np.tile([0, 1], len(fails))
    return False
