"""Two voting rounds for key selection: in the second round each unit votes for its keys that the first left undecided.

Guarantee: the released keys are delta-approximate rho-zCDP for the unit, with the (epsilon, delta) curve of Gaussian
noise, over both rounds and over all keys and windows. A release that follows adds its own rho. Units are added, removed
or replaced, and each unit votes with equal weights.

The rule, with f = 1/5, k = max_keys and the change factor cf (1 if units are added, 2 if a unit is replaced):

    G1 = the grid of one round,                      G2 = 5 G1
    s1 = G1^2 cf windows / (2 rho f),                s2 = G2^2 cf windows / (2 rho (1 - f));    drawn: s1 + 4, s2 + 4
    d = delta / windows,                             d1 = f d,   d2 = (1 - f) d
    w_1(j) = floor(G1 / sqrt(class of j)),           w_2(j) = floor(G2 / sqrt(j))
    T1 = max over classes j of  w_1(j) + t(s1 + 4, d1 / j),                       P(Z1 >= t) <= d1 / j
    Tc = max over classes j of  w_1(j) + G2 + t(s1 + s2 + 8, (1 - 2^-40) d2 / j)
    H  = floor(max over classes j of (5 w_1(j) + t(s2 + 4, d2 / j)) / 10)

Round one: a unit votes for a set S of at most k of its keys, chosen from its own records alone, and adds w_1(|S|) to
each. Every key with a vote gets N1 = V1 + Z1, drawn once. Round two: with A = {x in S : H <= N1(x) < T1}, the unit adds
w_2(|A|) to each key in A, and every key with a vote in round one gets N2 = V2 + Z2, with independent noise. A key with
a vote in round one is released if N1 >= T1 or N1 + N2 >= Tc. Any public H is safe. N1 and N2 are not published.

Proof for adding a unit u. Let L be the j keys in u's S without a vote from any other unit in round one, and C all other
keys. Without u, a key in L has no noise, is not read by any unit, and is not released.

1. Other units. A unit v reads N1 at its own S alone, which is disjoint from L. Hence its votes in round two are the
   same function of N1 on C on both inputs.
2. Event E: no key in L is released. Fix N1 on C = c. A key in L has w_1 of u's class in round one, and independent
   noise, hence P(N1 >= T1) <= d1 / j. For any votes of u, a key in L has at most G2 in round two, hence P(N1 + N2 >=
   Tc) <= P(Z1 + Z2 >= Tc - w_1 - G2) <= d2 / j. Over L, P(E | c) >= 1 - d for every c. Thin E by independent coins to
   P(E' | c) = 1 - d exactly, which keeps the law of c under conditioning.
3. Given E'. N1 on C is Gaussian noise on votes that differ by the votes of u, whose squares sum to at most G1^2: a cost
   of rho f. Given c, the law of N1 on L affects only u's own votes in round two, whose squares sum to at most G2^2 for
   each value of N1 on L. Hence N2 on C is a mixture of Gaussian mechanisms, each at distance at most G2 from the
   mechanism without u. Renyi divergence is quasi-convex, and hockey-stick divergence convex, both ways. Hence the
   mixture costs rho (1 - f), with the curve of a single Gaussian. Both rounds compose adaptively (`noise.drawing`).
   Keys in C are released by post-processing of (N1, N2) on C. On the other input, use the whole space as the event.
4. Replacing u by u'. Both inputs have their event, hence delta does not double. Keys for which only u and u' vote
   belong to L in both. In each round the votes on C differ by a - a', with |a - a'|^2 <= |a|^2 + |a'|^2 because votes
   are not negative: at most 2 G_i^2 for each pair of values of N1 on both L. That is cf = 2.
5. The tail of Z1 + Z2. With v1 and v2 the drawn parameters and tau^2 = v1 v2 / (v1 + v2), Poisson summation bounds
   P(Z1 + Z2 = m) by (1 + 2.01 exp(-2 pi^2 tau^2)) times the density of N(0, v1 + v2) at m, which `tail_bound` sums.
   tau^2 >= 2.1, because s1 >= 1/4 and s2 = 25/4 s1, hence the factor is below 1 + 2^-58, and 2^-40 covers it.
6. Windows. If each window has separate votes, N1 of a window is read in that window alone, the noise parameter is
   multiplied by `windows`, and delta is split. If a single bound covers all windows, a key stands for a pair of key and
   window.

Violations: `min_units` above 1 (units that read N1 of a key that is considered only because of u depend on u), drawing
N1 twice (rho f is spent twice), and votes in round two for keys without the unit's vote in round one. Under
`RecordBounds` with replacement, votes that sketches do not pay for are proved for one round alone. On streams no votes
are stored, and with one key per unit, round two has no votes to move. `SelectionRule.suited` then uses one round.

Sources: Canonne, Kamath and Steinke 2020 (arXiv:2004.00010) for the noise; Bun and Steinke 2016 (arXiv:1605.02065),
section 8, for approximate zCDP; Swanberg et al. 2023 (arXiv:2301.01998) for keys in several rounds.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from beam_dpsketch.errors import ArgumentError
from beam_dpsketch.privacy.contributions import NeighboringRelation
from beam_dpsketch.privacy.noise.drawing import drawn_variance
from beam_dpsketch.privacy.noise.gaussian_bounds import least_quantile
from beam_dpsketch.privacy.selection import MAX_THRESHOLD, SelectionRule, votes_sigma_squared

FIRST_PART = Fraction(1, 5)
"""Fraction f of rho and delta for round one."""
RATIO = 5
"""G2 / G1."""
MOST_NOISE = math.ceil(1 / FIRST_PART + RATIO**2 / (1 - FIRST_PART))
"""Largest s1 + s2, divided by the parameter of a single round with the same rho."""
_TAIL = 1 - Fraction(1, 1 << 40)
_HOPE = 2 * RATIO  # H is half of the threshold for round two alone, in votes of round one
_POINTS = np.linspace(-8, 8, 4097)


def _threshold(classes: Sequence[tuple[int, int]], drawn: Fraction, delta: Fraction) -> int:
    """Compute the largest w(j) + t(drawn, delta / j). The quantile t falls as j falls, hence few classes need it."""
    largest = tail = 0
    for size, weight in reversed(classes):
        if not tail or weight + tail > largest:
            tail = least_quantile(drawn, delta / size)
            largest = max(largest, weight + tail)
    return largest


@dataclasses.dataclass(frozen=True)
class TwoRounds:
    """Rule for two voting rounds under some terms. All of it is known before the data.

    Attributes:
      grid: G1.
      classes: the classes j, ascending, each with w_1(j).
      sigma_squared: s1 and s2, without the 4 that noise adds.
      least: H.
      at_once: T1.
      together: Tc.
    """

    grid: int
    classes: tuple[tuple[int, int], ...]
    sigma_squared: tuple[Fraction, Fraction]
    least: int
    at_once: int
    together: int

    @classmethod
    def of(cls, rule: SelectionRule, rho: Fraction, relation: NeighboringRelation, windows: int = 1) -> TwoRounds:
        """Build the rule for votes that cost this rho, for units that reach this number of windows."""
        grid, second = rule.grid, RATIO * rule.grid
        first_squared = votes_sigma_squared(grid, rho * FIRST_PART, relation) * windows
        second_squared = votes_sigma_squared(second, rho * (1 - FIRST_PART), relation) * windows
        drawn, drawn_second = drawn_variance(first_squared), drawn_variance(second_squared)
        first_delta, second_delta = (rule.delta / windows * part for part in (FIRST_PART, 1 - FIRST_PART))
        at_once = _threshold(rule.classes, drawn, first_delta)
        together = second + _threshold(rule.classes, drawn + drawn_second, _TAIL * second_delta)
        alone = _threshold([(size, RATIO * weight) for size, weight in rule.classes], drawn_second, second_delta)
        if together > MAX_THRESHOLD:
            raise ArgumentError("", "No key could be released. Use a larger budget share for the votes", "E310")
        return cls(grid, rule.classes, (first_squared, second_squared), alone // _HOPE, at_once, together)

    @property
    def whole_grid(self) -> int:
        """Sum of both rounds' votes by a unit with a single key."""
        return (1 + RATIO) * self.grid

    def considers(self, first: np.ndarray) -> np.ndarray:
        """Select the keys with votes in round two, given N1 of each key."""
        return (first >= self.least) & (first < self.at_once)

    def second_weights(self, counts: np.ndarray) -> np.ndarray:
        """Compute w_2 for each |A|, between 1 and max_keys."""
        sizes, places = np.unique(counts, return_inverse=True)
        weights = [math.isqrt((RATIO * self.grid) ** 2 // size) for size in sizes.tolist()]
        return np.array(weights, dtype=np.int64)[places]

    def releases(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """Select the released keys, given N1 and N2 of keys with a vote in round one."""
        return (first >= self.at_once) | (first + second >= self.together)

    def probability(self, first: int, second: int) -> float:
        """Approximate the release probability of a key with V1, and with V2 if round two considers the key.

        Normal laws approximate the noise, with a continuity correction of half a vote. Use the result in messages only.
        """
        sigma, sigma_second = (math.sqrt(drawn_variance(each)) for each in self.sigma_squared)
        density = np.exp(-(_POINTS**2) / 2)
        noisy = np.round(first + sigma * _POINTS)
        missing = self.together - 0.5 - noisy - np.where(self.considers(noisy), second, 0)
        kept = [math.erfc(each / (sigma_second * math.sqrt(2))) / 2 for each in missing.tolist()]
        return float(density @ np.where(noisy >= self.at_once, 1.0, kept) / density.sum())

    def needed(self, probability: float) -> int:
        """Approximate the fewest votes, both rounds together, with which a key is released with this probability.

        All units of the key have the same number of keys in both rounds.
        """
        low, high = 0, 1
        while self._reached(high) < probability:
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self._reached(middle) >= probability else (middle, high)
        return high

    def _reached(self, votes: int) -> float:
        first = votes // (1 + RATIO)
        return self.probability(first, votes - first)
