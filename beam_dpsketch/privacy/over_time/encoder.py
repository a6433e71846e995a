"""Rows over time from the exact counters of windows: integers in, integers out, with O(log T) sums in memory.

Guarantee: the rows are C x of `mechanism`, exactly, also where it is stored and read back in between. It refuses
weights by which a row could reach 2^62, before anything wraps around and answers are wrong. The refusal depends on the
exact data, and rho does not cover it: whoever sees it learns that they are that heavy.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import zstandard

from beam_dpsketch.hashing.encodings import join_parts, split_parts
from beam_dpsketch.privacy.over_time.mechanism import RowMechanism

MAX_ROW = 1 << 62


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
