"""Length of a unit over all timeline rows, which norms and summary counts bound.

Guarantee: let a unit add v_s to the cells in window s, for all keys, as terms whose sizes sum to a_j[s] in cell j, all
in units of 2^-ROW_SCALE_BITS. Let N^2 be the sum below, over the unit's net weights, and let `norm.scaling` scale each
of them by c = min(1, max_norm / N), rounded down. Then over all rows, keys and tables t

    sum of (share_t / cells_t) |sum over s of C_s v_s|^2 <= (2^ROW_SCALE_BITS max_norm)^2 max_s G_ss,

where C_s is column s of C and G = C^T C. `RowMechanism.squared_length` is max_s G_ss, by which sigma^2 is multiplied.

The rule. Q is the sum over tables of share_t / cells_t times the sum over keys and cells j of a_j' G a_j, and N^2 is Q
/ max_s G_ss. Pairs of windows also count: rows contain several windows, and a unit's contributions add up there. The
diagonal alone gives a length that is 2.0 times too small for five consecutive windows at T = 1,024.

Proof. C has no negative entry. Hence in row n and cell j the unit adds at most sum over s of C_ns a_j[s] in size, with
any signs. Squared and summed over rows this is a_j' G a_j. All entries of G are at least 0: it grows with each size,
and shrinks by c^2 or more if all sizes shrink by c and are rounded down. No entry of G exceeds max_s G_ss, by Cauchy
and Schwarz. Hence a_j' G a_j / max_s G_ss <= (sum of a_j)^2, and N is at most the unit's total weight, as without rows:
a unit with at most max_norm records is not changed. Replacing a unit costs 2 and 4 times as much as in `norm.scaling`,
because C f and C g have no negative entry if f and g have none.

Numbers. `RowMechanism.pair_weights` gives G / max_s G_ss in units of 2^-PAIR_BITS, rounded up, at most 1. With them N^2
is a whole number over a common denominator, exact in float64 below 2^53. Above, it is rounded up by more than the error
of 2^28 additions. If `pair_weights` is `None`, each pair counts as 1, and a_j' G a_j as (sum of a_j)^2.

Encoder. Timeline rows from the exact counters of windows: integers in, integers out, with O(log T) sums in memory.

Guarantee: the rows are C x in `mechanism`, exactly, including after storing and reading the state. The encoder refuses
weights by which a row could reach 2^62, before anything wraps around and answers are wrong. The refusal depends on the
exact data, and rho does not cover it: everyone who sees it learns that the weights are that large.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import zstandard

from beam_dpsketch.encodings import join_parts, split_parts
from beam_dpsketch.privacy.factor.toeplitz import MAX_ROW
from beam_dpsketch.privacy.norm import scaling
from beam_dpsketch.privacy.norm.scaling import Row
from beam_dpsketch.privacy.over_time.mechanism import RowMechanism
from beam_dpsketch.privacy.over_time.pairs import ONE_PAIR, pair_up

_MAX_PLACE = 1 << 62


def squared_norms(
    mechanism: RowMechanism, groups: np.ndarray, units: np.ndarray, windows: np.ndarray, rows: Iterable[Row]
) -> np.ndarray:
    """Compute denominator * 2^PAIR_BITS * N^2 per unit: float64, shape (units,), exact below 2^53.

    Args:
      mechanism: defines the rows.
      groups: the unit and key of each net weight as a single number: from 0, without gaps, int64, shape (n,).
      units: the unit of each group: whole numbers from 0, ascending, without gaps.
      windows: the number of each net weight's window, int64, shape (n,).
      rows: as in `norm.scaling.squared_norms`.
    """
    weights = mechanism.pair_weights()
    if weights is None:
        return scaling.squared_norms(groups, units, rows) * ONE_PAIR
    norms = np.zeros(int(units[-1]) + 1 if len(units) else 0)
    for row in rows:
        width = int(row.cells.max()) + 1 if len(row.cells) else 1
        at = groups * np.int64(width) + row.cells
        places, in_windows, sums = _sum_by_window(at, windows, row.sizes, len(weights))
        squares = pair_up(places, in_windows, sums, weights)
        norms += row.numerator * np.bincount(units[places // width], squares, len(norms))
    return norms


class WindowPairs:
    """Squared sums of a unit's numbers across windows, including products between windows in the same group.

    Args:
      mechanism: defines the rows.
      groups: numbers that add up in a row, a unit and key, as a whole number from 0: int64, shape (n,).
      windows: the window of each number, int64, shape (n,), each only once per group.
    """

    def __init__(self, mechanism: RowMechanism, groups: np.ndarray, windows: np.ndarray) -> None:
        self._weights = mechanism.pair_weights()
        self._order, self._groups, self._windows = np.lexsort((windows, groups)), groups, windows

    def squares(self, sizes: np.ndarray, needed: np.ndarray) -> np.ndarray:
        """Compute numbers whose sum over a group is 2^PAIR_BITS a' G a / max_s G_ss: float64, exact below 2^53.

        Args:
          sizes: a of each group and window, nonnegative, shape (n,).
          needed: mask of requested numbers, bool, shape (n,), whole groups only. The others get 0.
        """
        squares, order = np.zeros(len(sizes)), self._order[needed[self._order]]
        groups, sizes = self._groups[order], sizes[order].astype(np.float64)
        if self._weights is not None:
            squares[order] = pair_up(groups, self._windows[order], sizes, self._weights)
        else:
            starts = np.flatnonzero(np.diff(groups, prepend=-1))
            sums = np.add.reduceat(sizes, starts) if len(starts) else sizes
            squares[order[starts]] = np.square(sums) * ONE_PAIR
        return squares


def _sum_by_window(
    places: np.ndarray, windows: np.ndarray, magnitudes: np.ndarray, count: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Compute the distinct pairs of place and window, ascending, and the sum of the magnitudes at each, all int64."""
    if (int(places.max(initial=0)) + 1) * count < _MAX_PLACE:
        packed, sums = scaling.sum_by_place(places * np.int64(count) + windows, magnitudes)
        return packed // count, packed % count, sums
    distinct, numbers = np.unique(places, return_inverse=True)
    packed, sums = scaling.sum_by_place(numbers.astype(np.int64) * count + windows, magnitudes)
    return distinct[packed // count], packed % count, sums


class _Sum(NamedTuple):
    """Sum of gain times counters over a bin, and an upper bound on its counters."""

    counters: np.ndarray
    most: int


class RowEncoder:
    """Encoder from windows, in order, to timeline rows."""

    def __init__(self, mechanism: RowMechanism) -> None:
        self._mechanism = mechanism
        self._gains = mechanism.gains
        self._sums: dict[tuple[int, int], _Sum] = {}
        self.next_window = 0

    def push(self, counters: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
        """Yield the number and the exact counters of each row released with the next window. Consume all of them."""
        window, gain = self.next_window, self._gains[self.next_window]
        most = _largest(counters)
        _check(gain * most)
        self._sums[0, window] = _Sum(counters * np.int64(gain), gain * most)
        self.next_window += 1
        for number, bins in enumerate(self._mechanism.rows_of(window), self._mechanism.first_row(window)):
            parts = [(weight, self._join(level, place)) for level, place, weight in bins]
            _check(sum(weight * each.most for weight, each in parts))
            row = np.zeros_like(counters)
            for weight, each in parts:
                row += np.int64(weight) * each.counters
            yield number, row

    @property
    def size(self) -> int:
        return len(self._sums)

    def to_bytes(self) -> bytes:
        """Encode the state. The bytes travel between workers only."""
        header = np.array([self.next_window, *itertools.chain(*self._sums)], dtype=np.int64)
        counters = [each.counters.tobytes() for each in self._sums.values()]
        return zstandard.compress(join_parts([header.tobytes(), *counters]), 1)

    @classmethod
    def from_bytes(cls, mechanism: RowMechanism, data: bytes) -> RowEncoder:
        """Restore an encoder from the bytes of `to_bytes`."""
        encoder, (header, *counters) = cls(mechanism), split_parts(zstandard.decompress(data))
        encoder.next_window, *places = np.frombuffer(header, dtype=np.int64).tolist()
        for level, place, each in zip(places[::2], places[1::2], counters, strict=True):
            values = np.frombuffer(each, dtype=np.int64)
            encoder._sums[level, place] = _Sum(values, _largest(values))
        return encoder

    def _join(self, level: int, place: int) -> _Sum:
        if (level, place) not in self._sums:
            first, second = (self._join(level - 1, 2 * place + half) for half in (0, 1))
            _check(first.most + second.most)
            del self._sums[level - 1, 2 * place], self._sums[level - 1, 2 * place + 1]
            self._sums[level, place] = _Sum(first.counters + second.counters, first.most + second.most)
        return self._sums[level, place]


def _largest(counters: np.ndarray) -> int:
    return max(int(counters.max(initial=0)), -int(counters.min(initial=0)))


def _check(most: int) -> None:
    if most >= MAX_ROW:
        raise OverflowError(
            "The weight in these windows is too large for the 64-bit counters of timeline rows. Declare fewer windows, "
            "or use larger units for weights"
        )
