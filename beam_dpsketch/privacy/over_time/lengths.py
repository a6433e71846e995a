"""The length of a unit over all rows: what norms and side counters must bound where windows go into rows over time.

Guarantee: let a unit add v_s to the cells of window s, for all keys, with parts of sizes that sum to a_j[s] in cell j,
all in units of 2^-ROW_SCALE_BITS. Let N^2 be the sum below, of the unit's net weights, and let `norm.scaling` scale
each of them by c = min(1, max_norm / N), rounded down. Then over all rows, keys and tables t

    sum of (share_t / cells_t) |sum over s of C_s v_s|^2 <= (2^ROW_SCALE_BITS max_norm)^2 max_s G_ss,

where C_s is column s of C and G = C^T C. `RowMechanism.squared_length` is max_s G_ss, by which sigma^2 is multiplied.

The rule. Q is the sum over tables of share_t / cells_t times the sum over keys and cells j of a_j' G a_j, and N^2 is
Q / max_s G_ss. Pairs of windows count too: rows hold several windows, and the parts of a unit add up there. The
diagonal alone is a length 2.0 times too small for five windows in a row at T = 1,024.

Proof. C has no entry below 0. So in row n and cell j the unit adds at most sum over s of C_ns a_j[s] in size, with any
signs. Squared and summed over rows this is a_j' G a_j. All entries of G are at least 0: it grows with each size, and
shrinks by c^2 or more where all sizes shrink by c and are rounded down. No entry of G is above max_s G_ss, by Cauchy
and Schwarz. So a_j' G a_j / max_s G_ss <= (sum of a_j)^2, and N is at most the unit's total weight, as without rows: a
unit with at most max_norm records is not changed. Replacing a unit costs 2 and 4 times as much as in `norm.scaling`,
because C f and C g have no entry below 0 where f and g have none.

Numbers. `RowMechanism.pair_weights` gives G / max_s G_ss in units of 2^-PAIR_BITS, rounded up, at most 1. With them N^2
is a whole number over one denominator, exact in float64 below 2^53. Above, it is rounded up by more than the error of
2^28 additions. Where `pair_weights` is `None`, each pair counts as 1, and a_j' G a_j as (sum of a_j)^2.

Rows over time from the exact counters of windows: integers in, integers out, with O(log T) sums in memory.

Guarantee: the rows are C x of `mechanism`, exactly, also where it is stored and read back in between. It refuses
weights by which a row could reach 2^62, before anything wraps around and answers are wrong. The refusal depends on the
exact data, and rho does not cover it: whoever sees it learns that they are that heavy.
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
    """Return denominator * 2^PAIR_BITS * N^2 of each unit: float64 of shape (units,), exact below 2^53.

    Args:
      mechanism: which rows there are.
      groups: the unit and key of each net weight as one number: from 0, none left out, int64 of shape (n,).
      units: the unit of each group: whole numbers from 0, ascending, none left out.
      windows: the number of each net weight's window, int64 of shape (n,).
      rows: as `norm.scaling.squared_norms` takes them.
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
    """Squares numbers of units in windows, each number together with those of the same group in other windows.

    Args:
      mechanism: which rows there are.
      groups: what adds up in a row, a unit and key, as a whole number from 0: int64 of shape (n,).
      windows: the number of each number's window, int64 of shape (n,); each only once in a group.
    """

    def __init__(self, mechanism: RowMechanism, groups: np.ndarray, windows: np.ndarray) -> None:
        self._weights = mechanism.pair_weights()
        self._order, self._groups, self._windows = np.lexsort((windows, groups)), groups, windows

    def squares(self, sizes: np.ndarray, needed: np.ndarray) -> np.ndarray:
        """Return numbers whose sum over a group is 2^PAIR_BITS a' G a / max_s G_ss: float64, exact below 2^53.

        Args:
          sizes: a of each group and window, not below 0, of shape (n,).
          needed: which are asked for, bool of shape (n,), all of a group or none; the others get 0.
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
    """Return the distinct pairs of place and window, ascending, and the sum of the magnitudes at each; all int64."""
    if (int(places.max(initial=0)) + 1) * count < _MAX_PLACE:
        packed, sums = scaling.sum_by_place(places * np.int64(count) + windows, magnitudes)
        return packed // count, packed % count, sums
    distinct, numbers = np.unique(places, return_inverse=True)
    packed, sums = scaling.sum_by_place(numbers.astype(np.int64) * count + windows, magnitudes)
    return distinct[packed // count], packed % count, sums


class _Sum(NamedTuple):
    """The sum of gain times counters over a bin, and what no counter in it exceeds."""

    counters: np.ndarray
    most: int


class RowEncoder:
    """Turns windows, in order, into rows."""

    def __init__(self, mechanism: RowMechanism) -> None:
        self._mechanism = mechanism
        self._gains = mechanism.gains
        self._sums: dict[tuple[int, int], _Sum] = {}
        self.next_window = 0

    def push(self, counters: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
        """Yield the number and the exact counters of each row that the next window brings; use all of them."""
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
        """Encode the state; the bytes travel between workers only."""
        header = np.array([self.next_window, *itertools.chain(*self._sums)], dtype=np.int64)
        counters = [each.counters.tobytes() for each in self._sums.values()]
        return zstandard.compress(join_parts([header.tobytes(), *counters]), 1)

    @classmethod
    def from_bytes(cls, mechanism: RowMechanism, data: bytes) -> RowEncoder:
        """Return an encoder that goes on where `to_bytes` was called."""
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
            "the weight in these windows is too large for rows over time, whose counters have 64 bits: declare fewer "
            "windows, or give weights in larger units"
        )
