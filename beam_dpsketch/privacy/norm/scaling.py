"""Norm bounding: scale what a privacy unit adds to all counters together down to a length of at most max_norm.

Guarantee: for all records of one unit, all hash functions and any number of keys and windows,

    sum over tables t of (share_t / cells_t) ||h_t||^2 <= (2^SCALE_BITS max_norm)^2,

where h_t is what the unit adds to table t, cells_t the counters that one item touches there, and share_t the table's
part of rho. A unit with at most max_norm records is not changed. The result is a function of the unit's net weights.

The rule. Let n(x) be the net weight of item x in a key and window, and A_j the sum of |n(x)| over the items in cell j.
Let N^2 = sum over t of (share_t / cells_t) sum over cells j of A_j^2: for a flat sketch, the mean over its rows. Then
c = min(1, max_norm / N), rounded down, and item x adds sign(n(x)) floor(|n(x)| c 2^SCALE_BITS).

Proof. A cell receives a sum of signed parts, at most the sum of their sizes, at most c 2^SCALE_BITS A_j. Squared,
weighted and summed, this is at most c^2 4^SCALE_BITS N^2. Rounding down is safe, because sums without signs never grow
when weights shrink; sums with signs can. A unit of total weight W has at most cells_t W^2 in table t. The shares sum to
1, so N <= W: a unit with W <= max_norm keeps all, and c is never below max_norm / W.

Noise. In units of 2^-SCALE_BITS, `mechanism` gives sigma_t^2 =
4^SCALE_BITS row_t cells_t max_norm^2 / (2 rho share_t). Adding or removing a unit has row_t = 1. Replacing h by h' has
row_t = 2 in tables whose cells only grow, where ||h - h'||^2 <= ||h||^2 + ||h'||^2, and 4 in others, where it is at
most 2 ||h||^2 + 2 ||h'||^2. In each case the sum over t of ||change_t||^2 / (2 sigma_t^2) is at most rho, which is
rho-zCDP (Canonne, Kamath and Steinke 2020).

Order 1. In place of N stands W, the sum of |n(x)| over all items, keys and windows. So the unit adds at most
2^SCALE_BITS max_norm in sum to the net weights of all items, and N <= W: what is said of order 2 holds too.

Where windows go into rows over time, `over_time.lengths` has the rule, and weights have ROW_SCALE_BITS.

Parts. The tables of several metrics are in parts, one for each metric. Part p has the share s_p of rho, the length N_p
alone, and a factor of its own: c_p = min(1, T / N_p), with the largest T for which the sum of s_p c_p^2 N_p^2 is at
most max_norm^2. That sum takes the place of c^2 N^2 in the proof. The shares sum to 1, so T is at least max_norm: of no
part does a unit lose more than in a release of that metric alone. Order 1 has one factor for all parts.

Where an item adds less than the amount of a table to a cell, A_j has what it adds, over that amount and rounded up, in
place of |n(x)|. So the unit adds at most c 2^SCALE_BITS A_j, as above, in units of the amount. Rounding makes N larger
than W by 2^-10 of it at most; a unit with W <= max_norm is not scaled, even if N is larger.

Numbers. N^2 is a whole number over a common denominator, exact in float64 below 2^53. Above, it is rounded up.
Counters wrap around at a weight of 2^47 in one cell, which is post-processing too.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np

SCALE_BITS = 16
ROW_SCALE_BITS = 8
"""Of scaled weights where windows go into rows over time, which multiply counters by up to 2^24."""
MAX_ITEM_WEIGHT = (1 << 31) - 1
_FACTOR_BITS = 32
NO_SCALING = 1 << _FACTOR_BITS
_MAX_DENOMINATOR = 1 << 20
_EXACT = 1 << 53
_SUMMING_ERROR = 1 + 2.0**-24  # covers 2**28 additions in float64
_ROOT_ERROR = 1 - 2.0**-48


class TableWeights(NamedTuple):
    """share / cells of each table, as whole numbers over one denominator."""

    numerators: tuple[int, ...]
    denominator: int

    @classmethod
    def of(cls, tables: Iterable[tuple[int, Fraction]]) -> TableWeights:
        """Return those of tables given by (cells of an item, share of rho); rounded up if the denominator is huge."""
        weights = [share / cells for cells, share in tables]
        denominator = min(math.lcm(*(weight.denominator for weight in weights)), _MAX_DENOMINATOR)
        return cls(tuple(math.ceil(weight * denominator) for weight in weights), denominator)


class Row(NamedTuple):
    """What net weights add to one row of a table: the numerator of the table, and of each its cell and size, int64."""

    numerator: int
    cells: np.ndarray
    sizes: np.ndarray


def squared_norms(groups: np.ndarray, units: np.ndarray, rows: Iterable[Row]) -> np.ndarray:
    """Return denominator * N^2 of each unit: float64 of shape (units,), exact below 2^53.

    Args:
      groups: the unit, key and window of each net weight as one number: from 0, ascending, int64 of shape (n,).
      units: the unit of each group: whole numbers from 0, ascending, none left out.
      rows: all rows of all tables. Sizes are |net weight|, at most `MAX_ITEM_WEIGHT`, or in units of 2^-bits of it,
        where N^2 has a denominator that is 4^bits as large.
    """
    norms = np.zeros(int(units[-1]) + 1 if len(units) else 0)
    for row in rows:
        width = int(row.cells.max()) + 1 if len(row.cells) else 1
        places, sums = sum_by_place(groups * np.int64(width) + row.cells, row.sizes)
        squares = np.square(sums.astype(np.float64))
        norms += row.numerator * np.bincount(units[places // width], squares, len(norms))
    return norms


def squared_totals(units: np.ndarray, magnitudes: np.ndarray, denominator: int) -> np.ndarray:
    """Return denominator * W^2 of each unit of order 1, as `squared_norms` does of N^2; exact below 2^53."""
    return denominator * np.square(np.bincount(units, magnitudes).astype(np.float64))


def sum_by_place(places: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct places, ascending, and the sum of the weights at each; both int64 and not negative."""
    if not np.all(places[1:] >= places[:-1]):
        bits = int(weights.max()).bit_length()
        if int(places.max()).bit_length() + bits < 64:  # sorting single numbers is several times faster
            packed = np.sort(places << np.int64(bits) | weights)
            places, weights = packed >> np.int64(bits), packed & np.int64((1 << bits) - 1)
        else:
            order = np.argsort(places)
            places, weights = places[order], weights[order]
    starts = np.flatnonzero(np.append(True, places[1:] != places[:-1])[: len(places)])
    return places[starts], np.add.reduceat(weights, starts) if len(starts) else weights


def factors(norms: np.ndarray, max_norm: Fraction | int, denominator: int) -> np.ndarray:
    """Return c of each unit in units of 2^-32, int64, given what `squared_norms` returned."""
    shrunk = shrinkage(norms, denominator * Fraction(max_norm) ** 2)
    return np.floor(shrunk * NO_SCALING).astype(np.int64)


def factors_of_parts(
    squares: np.ndarray, shares: Sequence[Fraction], max_norm: Fraction | int, denominator: int
) -> np.ndarray:
    """Return c_p of each part and unit in units of 2^-32: int64 of shape (parts, units).

    T^2 may be rounded: the sum of what is kept is measured, and shrunk to the limit if it is above.

    Args:
      squares: denominator * s_p N_p^2 of each part and unit, of shape (parts, units), as `squared_norms` returns it.
      shares: s_p of each part.
      max_norm: the largest length.
      denominator: that of the squares.
    """
    limit, of_parts = denominator * Fraction(max_norm) ** 2, np.array(shares, dtype=np.float64)[:, np.newaxis]
    order = np.argsort(squares / of_parts, axis=0)
    ascending = np.take_along_axis(squares, order, axis=0)
    rest = np.cumsum(of_parts[order[::-1], 0], axis=0)[::-1]
    below = np.cumsum(np.vstack([np.zeros_like(ascending[:1]), ascending[:-1]]), axis=0)
    level = ((float(limit) / _SUMMING_ERROR**2 - below) / rest).max(axis=0)
    with np.errstate(divide="ignore"):
        kept = np.minimum(1.0, np.sqrt(of_parts * level / squares))  # 1 where a unit has nothing
    shrunk = kept * shrinkage(np.sum(np.square(kept) * squares, axis=0) * _SUMMING_ERROR, limit)
    untouched = shrinkage(squares.sum(axis=0), limit) == 1.0
    return np.floor(np.where(untouched, 1.0, shrunk) * NO_SCALING).astype(np.int64)


def shrinkage(squares: np.ndarray, limit: Fraction) -> np.ndarray:
    """Return min(1, sqrt(limit / square)) of each unit, rounded down: float64, exactly 1 if an exact square is within.

    A number times this, in float64, is at most the true product too.

    Args:
      squares: sums of squares of whole numbers, float64 of shape (units,); exact below 2^53.
      limit: the largest square.
    """
    within = squares <= min(math.floor(limit), _EXACT - 1)
    above = np.where(squares < _EXACT, squares, squares * _SUMMING_ERROR)
    roots = math.sqrt(limit) / np.sqrt(np.where(within, 1.0, above)) * _ROOT_ERROR
    return np.where(within, 1.0, np.minimum(roots, 1.0))


def scaled(magnitudes: np.ndarray, factors: np.ndarray, bits: int = SCALE_BITS) -> np.ndarray:
    """Return floor(magnitude c 2^bits), int64, given the factor of each magnitude's unit."""
    return magnitudes * factors >> np.int64(_FACTOR_BITS - bits)


def fits_untouched(total: np.ndarray, max_norm: Fraction | int) -> np.ndarray:
    """Return which units cannot exceed the norm, even if all their items collide, given their total weights; bool."""
    return total <= math.floor(max_norm)
