"""Sums of repeats, of sorted keys and of the cells of sketches, compiled.

The mixing is that of `hashing.cells`, and never changes: the hash is part of the file format.
"""

from __future__ import annotations

import numpy as np
from numba import types

from beam_dpsketch.compiled.jit import compiled, inlined, reads, writes

_WORDS, _NUMBERS = types.uint64, types.int64
_HALF, _ONE = np.uint64(32), np.uint64(1)
_ODD = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_SHIFTS = np.uint64(30), np.uint64(27), np.uint64(31)
_BLOCK = 1024  # fingerprints at a time, so that what is mixed stays in the cache
_SLOTS_BITS = 12
_SAMPLE = 4096
_DIGIT = 11  # bits that a pass of sorting looks at


@inlined
def _avalanche(word):  # type: ignore[no-untyped-def]
    """Let each bit of a word change all of them."""
    word ^= word >> _SHIFTS[0]
    word *= _FIRST
    word ^= word >> _SHIFTS[1]
    word *= _SECOND
    return word ^ (word >> _SHIFTS[2])


@inlined
def _mix(product, first, second):  # type: ignore[no-untyped-def]
    """Mix a fingerprint times `_ODD` with the two keys of a row."""
    return _avalanche(_avalanche(product + first) + second)


@compiled(
    types.void(
        writes(_NUMBERS, 2), reads(_WORDS), reads(_NUMBERS), _NUMBERS, reads(_WORDS), reads(_WORDS), types.boolean
    )
)
def _add_cells(counters, fingerprints, weights, step, first, second, has_signs):  # type: ignore[no-untyped-def]
    depth, width = counters.shape[0], np.uint64(counters.shape[1])
    products = np.empty(_BLOCK, dtype=np.uint64)
    mixed = np.empty(_BLOCK, dtype=np.uint64)
    for start in range(0, len(fingerprints), _BLOCK):
        size = min(_BLOCK, len(fingerprints) - start)
        for place in range(size):
            products[place] = fingerprints[start + place] * _ODD
        for row in range(depth):
            cells, keys = counters[row], (first[row], second[row])
            for place in range(size):
                mixed[place] = _mix(products[place], keys[0], keys[1])
            if has_signs:
                for place in range(size):
                    sign = np.int64(mixed[place] & _ONE) - 1  # 0 as it is, -1 negates
                    cells[((mixed[place] >> _HALF) * width) >> _HALF] += (weights[(start + place) * step] ^ sign) - sign
            else:
                for place in range(size):
                    cells[((mixed[place] >> _HALF) * width) >> _HALF] += weights[(start + place) * step]


def add_to_rows(
    counters: np.ndarray,
    fingerprints: np.ndarray,
    weights: np.ndarray | None,
    first: np.ndarray,
    second: np.ndarray,
    *,
    has_signs: bool,
) -> None:
    """Do as `hashing.cells.add_to_rows`, given the two keys of each row."""
    keys = first.ravel(), second.ravel()
    _add_cells(counters, np.ascontiguousarray(fingerprints), *_in_steps(weights), *keys, has_signs)


def _in_steps(weights: np.ndarray | None) -> tuple[np.ndarray, int]:
    """Return weights, and how far they are apart: one that is that of all is written once."""
    if weights is None:
        return np.ones(1, dtype=np.int64), 0
    return (weights[:1].copy(), 0) if weights.strides == (0,) else (np.ascontiguousarray(weights, dtype=np.int64), 1)


def _sum_repeats(numbers, found, sums):  # type: ignore[no-untyped-def]
    """Add up what repeats in a table of two places for each of some thousand hashes; return how many come out.

    A number that finds no place takes that of a lighter one, which comes out; so a number may come out several times.
    What is empty is a 0 that never came. -1 if few of the first numbers repeat.
    """
    sets = 1 << _SLOTS_BITS
    shift = np.uint64(64 - _SLOTS_BITS)
    keys = np.zeros((sets, 2), dtype=np.uint64)
    counts = np.zeros((sets, 2), dtype=np.int64)
    out, added = np.uint64(0), 0
    for place in range(len(numbers)):
        key = np.uint64(numbers[place])
        slot = (key * _ODD) >> shift
        if keys[slot, 0] == key:
            way = np.int64(0)
        elif keys[slot, 1] == key:
            way = np.int64(1)
        else:
            way = np.int64(counts[slot, 1] < counts[slot, 0])
            if counts[slot, way]:
                found[out], sums[out] = keys[slot, way], counts[slot, way]
                out += _ONE
            keys[slot, way], counts[slot, way] = key, 0
            added -= 1
        counts[slot, way] += 1
        added += 1
        if place == _SAMPLE and 10 * added < _SAMPLE:
            return -1
    for row in range(sets):
        for side in range(2):
            if counts[row, side]:
                found[out], sums[out] = keys[row, side], counts[row, side]
                out += _ONE
    return np.int64(out)


_SUM_REPEATS = compiled(
    *(types.int64(reads(kind), writes(_WORDS), writes(_NUMBERS)) for kind in (types.uint64, types.uint32))
)(_sum_repeats)


def count_repeats(values: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
    """Return uint32 or uint64 values, fewer than there are, and counts that add up; or all and `None`: few repeat."""
    found, sums = np.empty(len(values), dtype=np.uint64), np.empty(len(values), dtype=np.int64)
    size = _SUM_REPEATS(np.ascontiguousarray(values), found, sums)
    return (values, None) if size < 0 else (found[:size].astype(values.dtype), sums[:size].copy())


@compiled(types.void(writes(_WORDS), writes(_NUMBERS), types.int64))
def _sort_pairs(keys, weights, bits):  # type: ignore[no-untyped-def]
    """Sort keys of a number of bits, and weights with them, digit by digit."""
    other_keys, other_weights = np.empty_like(keys), np.empty_like(weights)
    mask = np.uint64((1 << _DIGIT) - 1)
    for low in range(0, bits, _DIGIT):
        shift = np.uint64(low)
        starts = np.zeros((1 << _DIGIT) + 1, dtype=np.int64)
        for key in keys:
            starts[((key >> shift) & mask) + _ONE] += 1
        for digit in range(1 << _DIGIT):
            starts[digit + 1] += starts[digit]
        for place in range(len(keys)):
            digit = (keys[place] >> shift) & mask
            other_keys[starts[digit]] = keys[place]
            other_weights[starts[digit]] = weights[place]
            starts[digit] += 1
        keys[:], weights[:] = other_keys, other_weights


def sort_by_key(keys: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sort uint64 keys, and their int64 weights with them."""
    keys, weights = keys.copy(), np.array(weights)
    _sort_pairs(keys, weights, int(keys.max(initial=0)).bit_length())
    return keys, weights


@compiled(types.int64(reads(_WORDS), reads(_NUMBERS), _NUMBERS, writes(_WORDS), writes(_NUMBERS)))
def _sum_sorted(ordered, weights, step, keys, sums):  # type: ignore[no-untyped-def]
    last = -1
    for place in range(len(ordered)):
        if last >= 0 and keys[last] == ordered[place]:
            sums[last] += weights[place * step]
        else:
            last += 1
            keys[last], sums[last] = ordered[place], weights[place * step]
    return last + 1


def sum_by_key(ordered: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct keys of a sorted array of uint64, and the sum of the int64 weights of each."""
    keys, sums = np.empty(len(ordered), dtype=np.uint64), np.empty(len(ordered), dtype=np.int64)
    size = _sum_sorted(np.ascontiguousarray(ordered), *_in_steps(weights), keys, sums)
    return keys[:size].copy(), sums[:size].copy()
