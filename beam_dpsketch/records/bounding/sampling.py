"""Sample copies of records without replacement, without writing the copies out.

Guarantee: the numbers are distributed as if each copy were a record and `most` of each group were drawn uniformly
without replacement: the multivariate hypergeometric distribution. Each binomial draw below is within 2**-45 of its
distribution in total variation. Memory and time grow with records and with the logarithm of copies.

Proof. Give each copy a priority in [0, 1) whose binary digits are independent fair coins. All orders of the priorities
are equally likely, so the `most` copies of smallest priority are a uniform sample. Find them digit by digit. Among the
copies that are still undecided, those with next digit 0 have the smaller priorities. If they fit into the remaining
room, they are kept, and those with digit 1 stay undecided; if not, those with digit 1 are dropped. It does not matter
which copy of a record has which digit: of n undecided ones, Binomial(n, 1/2) have digit 0, independently of all digits
before. Stop as soon as all undecided copies fit, or no room is left.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import TypeAlias

import numpy as np

UniformBits: TypeAlias = Callable[[np.ndarray, int], np.ndarray]
"""Maps (places of records, a number) to a uniform uint64 for each place, independent across places and numbers."""

_POWERS = 32  # numbers of copies are less than 2**32
_MAX_WEIGHT, _MIN_WEIGHT = 1 << 128, 1 << 56  # in a table of probabilities; smaller ones are left out


def sample_copies(groups: np.ndarray, copies: np.ndarray, most: int, uniform_bits: UniformBits) -> np.ndarray:
    """Draw how many copies of each record are kept, int64 of shape (n,).

    Args:
      groups: the group of each record, whole numbers of shape (n,).
      copies: the number of copies of each record, int64 in [0, 2**32).
      most: how many copies to keep of each group.
      uniform_bits: the randomness.
    """
    kept = np.zeros_like(copies)
    distinct, groups = np.unique(groups, return_inverse=True)
    room = np.full(len(distinct), most, dtype=np.int64)
    places, undecided = np.arange(len(copies)), copies
    for digit in itertools.count():
        fits = _sum_groups(groups[places], undecided, room) <= room
        ends = fits[groups[places]]
        kept[places[ends]] += undecided[ends]
        goes_on = ~ends & (undecided > 0) & (room[groups[places]] > 0)
        places, undecided = places[goes_on], undecided[goes_on]
        if not len(places):
            break
        zeros = _draw_halves(undecided, places, digit, uniform_bits)
        sums = _sum_groups(groups[places], zeros, room)
        fits = sums <= room
        room -= np.where(fits, sums, 0)
        keeps = fits[groups[places]]
        kept[places] += np.where(keeps, zeros, 0)
        undecided = np.where(keeps, undecided - zeros, zeros)
    return kept


def _sum_groups(groups: np.ndarray, values: np.ndarray, room: np.ndarray) -> np.ndarray:
    """Return the sum of the values of each group."""
    sums = np.zeros_like(room)
    np.add.at(sums, groups, values)
    return sums


def _draw_halves(counts: np.ndarray, places: np.ndarray, digit: int, uniform_bits: UniformBits) -> np.ndarray:
    """Draw from Binomial(count, 1/2) for each count, as a sum of one draw per power of two in it."""
    drawn = np.zeros_like(counts)
    for power in range(int(counts.max()).bit_length()):
        chosen = np.flatnonzero(counts >> power & 1)
        if len(chosen):
            low, thresholds = _binomial_table(power)
            uniform = uniform_bits(places[chosen], digit * _POWERS + power)
            drawn[chosen] += low + np.searchsorted(thresholds, uniform, side="right")
    return drawn


@functools.lru_cache(maxsize=_POWERS)
def _binomial_table(power: int) -> tuple[int, np.ndarray]:
    """Return the smallest value of Binomial(2**power, 1/2), and floor(2**64 P(X <= x)) for each x but the largest."""
    if not power:
        return 0, np.array([1 << 63], dtype=np.uint64)
    weights, successes = [_MAX_WEIGHT], 1 << power - 1  # from the middle up; they are symmetric
    while weights[-1] >= _MIN_WEIGHT:
        weights.append(weights[-1] * ((1 << power) - successes) // (successes + 1))
        successes += 1
    weights.pop()
    sums = list(itertools.accumulate(weights[:0:-1] + weights))
    thresholds = np.array([(each << 64) // sums[-1] for each in sums[:-1]], dtype=np.uint64)
    return (1 << power - 1) - len(weights) + 1, thresholds
