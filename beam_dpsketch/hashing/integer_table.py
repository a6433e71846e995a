"""Find integers among distinct ones, exactly and many at a time: a hash table with linear probing.

Guarantee: a number is found if and only if it is in the table, since numbers are compared and not their hashes. Source:
Knuth, The Art of Computer Programming, volume 3, section 6.4 (with multiplicative hashing).
"""

from __future__ import annotations

import numpy as np

ABSENT = -1
_CHUNK = 1 << 13  # its arrays fit in the cache
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


class IntegerTable:
    """Distinct int64 numbers, each with a place of 0 or more; an eighth to a quarter of the slots are taken."""

    def __init__(self, numbers: np.ndarray, places: np.ndarray) -> None:
        bits = (4 * len(numbers) + 1).bit_length()
        self._mask, self._shift = (1 << bits) - 1, np.uint64(64 - bits)
        self._numbers = np.zeros(self._mask + 1, dtype=np.int64)
        self._places = np.full(self._mask + 1, ABSENT, dtype=np.int64)
        slots = self._slots(numbers)
        while len(slots):
            free = self._places[slots] == ABSENT
            self._places[slots[free]] = places[free]  # of several numbers for one slot, the last one stays
            self._numbers[slots[free]] = numbers[free]
            waiting = self._places[slots] != places
            slots, numbers, places = (slots[waiting] + 1) & self._mask, numbers[waiting], places[waiting]

    def find(self, numbers: np.ndarray) -> np.ndarray:
        """Return the place of each int64 number, or `ABSENT`: int64 of shape (n,)."""
        places = np.empty(len(numbers), dtype=np.int64)
        for start in range(0, len(numbers), _CHUNK):
            places[start : start + _CHUNK] = self._find_chunk(numbers[start : start + _CHUNK])
        return places

    def _find_chunk(self, numbers: np.ndarray) -> np.ndarray:
        slots = self._slots(numbers)
        places = self._places[slots]
        left = np.flatnonzero((places != ABSENT) & (self._numbers[slots] != numbers))
        while len(left):  # an empty slot ends the search, as nothing was moved past it
            slots[left] = (slots[left] + 1) & self._mask
            places[left] = self._places[slots[left]]
            left = left[(places[left] != ABSENT) & (self._numbers[slots[left]] != numbers[left])]
        return places

    def _slots(self, numbers: np.ndarray) -> np.ndarray:
        """Return the first slot to look at, int64."""
        return (numbers.view(np.uint64) * _GOLDEN >> self._shift).view(np.int64)
