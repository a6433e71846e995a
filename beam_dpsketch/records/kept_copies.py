"""How many copies of each record are kept of a group: sampling without replacement, without writing copies out.

Guarantee: the numbers are distributed as if each copy were a record and `most` of each group were drawn uniformly
without replacement: the multivariate hypergeometric distribution. Each binomial draw below is within 2**-45 of its
distribution in total variation. Memory and time grow with records and with the logarithm of copies.

Proof. Give each copy a rank in [0, 1) whose binary digits are independent fair coins. All orders of the ranks are
equally likely, so the `most` copies of least rank are a uniform sample. Find them digit by digit. Among the copies that
are undecided so far, those with next digit 0 have the lesser ranks. If they fit into the room that is left, they are
kept, and those with digit 1 are undecided; if not, those with digit 1 are dropped. Which copy of a record has which
digit does not matter: of n undecided ones, Binomial(n, 1/2) have digit 0, independently of all digits before. The end
is where all that are undecided fit, or no room is left.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import TypeAlias

import numpy as np

Words: TypeAlias = Callable[[np.ndarray, int], np.ndarray]
"""(places of records, a number) to a uniform uint64 for each, independent for other places and numbers."""

_POWERS = 32
"""Numbers of copies are less than 2**32."""
_SCALE, _LEAST = 1 << 128, 1 << 56
"""The largest weight in a table of probabilities, and the least that is not left out."""


def kept_copies(groups: np.ndarray, copies: np.ndarray, most: int, words: Words) -> np.ndarray:
    """How many copies of each record are kept, int64 of shape (n,).

    Args:
      groups: which group each record is in, whole numbers of shape (n,).
      copies: how many copies of each record there are, int64 in [0, 2**32).
      most: how many copies are kept of each group.
      words: the randomness.
    """
    kept = np.zeros_like(copies)
    distinct, groups = np.unique(groups, return_inverse=True)
    room = np.full(len(distinct), most, dtype=np.int64)
    places, undecided = np.arange(len(copies)), copies
    for digit in itertools.count():
        fits = _sums(groups[places], undecided, room) <= room
        ends = fits[groups[places]]
        kept[places[ends]] += undecided[ends]
        goes_on = ~ends & (undecided > 0) & (room[groups[places]] > 0)
        places, undecided = places[goes_on], undecided[goes_on]
        if not len(places):
            break
        zeros = _halves(undecided, places, digit, words)
        sums = _sums(groups[places], zeros, room)
        fits = sums <= room
        room -= np.where(fits, sums, 0)
        keeps = fits[groups[places]]
        kept[places] += np.where(keeps, zeros, 0)
        undecided = np.where(keeps, undecided - zeros, zeros)
    return kept


def _sums(groups: np.ndarray, values: np.ndarray, room: np.ndarray) -> np.ndarray:
    """The sum of the values of each group."""
    sums = np.zeros_like(room)
    np.add.at(sums, groups, values)
    return sums


def _halves(counts: np.ndarray, places: np.ndarray, digit: int, words: Words) -> np.ndarray:
    """One draw from Binomial(count, 1/2) for each: the sum of one for each power of two in the count."""
    drawn = np.zeros_like(counts)
    for power in range(int(counts.max()).bit_length()):
        chosen = np.flatnonzero(counts >> power & 1)
        if len(chosen):
            low, thresholds = _binomial(power)
            uniform = words(places[chosen], digit * _POWERS + power)
            drawn[chosen] += low + np.searchsorted(thresholds, uniform, side="right")
    return drawn


@functools.lru_cache(maxsize=_POWERS)
def _binomial(power: int) -> tuple[int, np.ndarray]:
    """Binomial(2**power, 1/2) as its least value and, for each but the largest, 2**64 P(X <= value) rounded down."""
    if not power:
        return 0, np.array([1 << 63], dtype=np.uint64)
    weights, successes = [_SCALE], 1 << power - 1  # from the middle up; they are symmetric
    while weights[-1] >= _LEAST:
        weights.append(weights[-1] * ((1 << power) - successes) // (successes + 1))
        successes += 1
    weights.pop()
    sums = list(itertools.accumulate(weights[:0:-1] + weights))
    thresholds = np.array([(each << 64) // sums[-1] for each in sums[:-1]], dtype=np.uint64)
    return (1 << power - 1) - len(weights) + 1, thresholds
