"""Clipping by scaling: reduce a privacy unit's contribution to all counters to a length of at most max_norm.

Guarantee: for all records of a unit, all hash functions and any number of keys and windows,

    sum over tables t of (share_t / cells_t) ||h_t||^2 <= (2^SCALE_BITS max_norm)^2,

where h_t is the unit's contribution to table t, cells_t the number of counters that an item touches there, and share_t
the table's budget share. A unit with at most max_norm records is not changed. The result depends on the unit's net
weights alone.

The rule. Let n(x) be the net weight of item x in a key and window, and A_j the sum of |n(x)| over the items in cell j.
Let N^2 = sum over t of (share_t / cells_t) sum over cells j of A_j^2: for a flat sketch, the mean over its rows. Then c
= min(1, max_norm / N), rounded down, and item x adds sign(n(x)) floor(|n(x)| c 2^SCALE_BITS).

Proof. A cell receives a signed sum, at most the sum of its absolute terms, at most c 2^SCALE_BITS A_j. Squared,
weighted and summed, this is at most c^2 4^SCALE_BITS N^2. Rounding down is safe, because unsigned sums never grow when
weights shrink. Signed sums can. A unit with total weight W has at most cells_t W^2 in table t. The shares sum to 1,
hence N <= W: a unit with W <= max_norm keeps all, and c is never below max_norm / W.

Noise. In units of 2^-SCALE_BITS, `mechanism` gives sigma_t^2 = 4^SCALE_BITS row_t cells_t max_norm^2 / (2 rho share_t).
Adding or removing a unit has row_t = 1. Replacing h by h' has row_t = 2 in tables whose cells only grow, where ||h -
h'||^2 <= ||h||^2 + ||h'||^2, and 4 in others, where it is at most 2 ||h||^2 + 2 ||h'||^2. In each case the sum over t
of ||change_t||^2 / (2 sigma_t^2) is at most rho, which is rho-zCDP (Canonne, Kamath and Steinke 2020).

L1 norm. W, the sum of |n(x)| over all items, keys and windows, replaces N. Hence the unit adds at most
2^SCALE_BITS max_norm in sum to the net weights of all items, and N <= W: every statement about the L2 norm also
applies. If windows enter timeline rows, `over_time.lengths` has the rule, and weights have ROW_SCALE_BITS.

Parts. The tables of several metrics form parts, one for each metric. Part p has the share s_p of rho, a separate length
N_p, and a separate factor: c_p = min(1, T / N_p), with the largest T for which the sum of s_p c_p^2 N_p^2 is at most
max_norm^2. That sum replaces c^2 N^2 in the proof. The shares sum to 1, hence T is at least max_norm: in each part a
unit loses at most as much as in a release of that metric alone. The L1 norm has a common factor for all parts.

If an item adds less than the amount of a table to a cell, A_j uses its contribution divided by that amount and rounded
up, in place of |n(x)|. Hence the unit adds at most c 2^SCALE_BITS A_j, as above, in units of the amount. Rounding makes
N exceed W by at most 2^-10 W. A unit with W <= max_norm is not scaled, even if N is larger.

Numbers. N^2 is a whole number over a common denominator, exact in float64 below 2^53. Above, it is rounded up. Counters
wrap around at a weight of 2^47 in a cell, which is also post-processing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np

SCALE_BITS = 16
ROW_SCALE_BITS = 8
"""For scaled weights if windows enter timeline rows, which multiply counters by up to 2^24."""
MAX_ITEM_WEIGHT = (1 << 31) - 1
_FACTOR_BITS = 32
NO_SCALING = 1 << _FACTOR_BITS
_MAX_DENOMINATOR = 1 << 20
_EXACT = 1 << 53
_SUMMING_ERROR = 1 + 2.0**-24  # covers 2**28 additions in float64
_ROOT_ERROR = 1 - 2.0**-48


class TableWeights(NamedTuple):
    """share / cells of each table, as whole numbers over a common denominator."""

    numerators: tuple[int, ...]
    denominator: int

    @classmethod
    def of(cls, tables: Iterable[tuple[int, Fraction]]) -> TableWeights:
        """Build the weights from (cells per item, budget share) of each table, rounded up for a huge denominator."""
        weights = [share / cells for cells, share in tables]
        denominator = min(math.lcm(*(weight.denominator for weight in weights)), _MAX_DENOMINATOR)
        return cls(tuple(math.ceil(weight * denominator) for weight in weights), denominator)


class Row(NamedTuple):
    """Contribution of net weights to a table row: the table's numerator, and each weight's cell and size, int64."""

    numerator: int
    cells: np.ndarray
    sizes: np.ndarray


def squared_norms(groups: np.ndarray, units: np.ndarray, rows: Iterable[Row]) -> np.ndarray:
    """Compute denominator * N^2 per unit: float64, shape (units,), exact below 2^53.

    Args:
      groups: the unit, key and window of each net weight as a single number: from 0, ascending, int64, shape (n,).
      units: the unit of each group: whole numbers from 0, ascending, without gaps.
      rows: all rows in all tables. Sizes are |net weight|, at most `MAX_ITEM_WEIGHT`, or in units of 2^-bits, where the
        denominator of N^2 is 4^bits as large.
    """
    norms = np.zeros(int(units[-1]) + 1 if len(units) else 0)
    for row in rows:
        width = int(row.cells.max()) + 1 if len(row.cells) else 1
        places, sums = sum_by_place(groups * np.int64(width) + row.cells, row.sizes)
        squares = np.square(sums.astype(np.float64))
        norms += row.numerator * np.bincount(units[places // width], squares, len(norms))
    return norms


def squared_totals(units: np.ndarray, magnitudes: np.ndarray, denominator: int) -> np.ndarray:
    """Compute denominator * W^2 per unit for the L1 norm, like `squared_norms` for N^2, exact below 2^53."""
    return denominator * np.square(np.bincount(units, magnitudes).astype(np.float64))


def sum_by_place(places: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Compute the distinct places, ascending, and the sum of the weights at each, both int64 and nonnegative."""
    if not np.all(places[1:] >= places[:-1]):
        bits = int(weights.max()).bit_length()
        if int(places.max()).bit_length() + bits < 64:  # sorting single integers is several times faster
            packed = np.sort(places << np.int64(bits) | weights)
            places, weights = packed >> np.int64(bits), packed & np.int64((1 << bits) - 1)
        else:
            order = np.argsort(places)
            places, weights = places[order], weights[order]
    starts = np.flatnonzero(np.append(True, places[1:] != places[:-1])[: len(places)])
    return places[starts], np.add.reduceat(weights, starts) if len(starts) else weights


def factors(norms: np.ndarray, max_norm: Fraction | int, denominator: int) -> np.ndarray:
    """Compute c per unit in units of 2^-32, int64, from the result of `squared_norms`."""
    shrunk = shrinkage(norms, denominator * Fraction(max_norm) ** 2)
    return np.floor(shrunk * NO_SCALING).astype(np.int64)


def factors_of_parts(
    squares: np.ndarray, shares: Sequence[Fraction], max_norm: Fraction | int, denominator: int
) -> np.ndarray:
    """Compute c_p per part and unit in units of 2^-32: int64, shape (parts, units).

    T^2 may be rounded: the sum after clipping is computed, and shrunk to the limit if it exceeds the limit.

    Args:
      squares: denominator * s_p N_p^2 per part and unit, shape (parts, units), as returned by `squared_norms`.
      shares: s_p of each part.
      max_norm: the largest length.
      denominator: denominator of the squares.
    """
    limit, of_parts = denominator * Fraction(max_norm) ** 2, np.array(shares, dtype=np.float64)[:, np.newaxis]
    order = np.argsort(squares / of_parts, axis=0)
    ascending = np.take_along_axis(squares, order, axis=0)
    rest = np.cumsum(of_parts[order[::-1], 0], axis=0)[::-1]
    below = np.cumsum(np.vstack([np.zeros_like(ascending[:1]), ascending[:-1]]), axis=0)
    level = ((float(limit) / _SUMMING_ERROR**2 - below) / rest).max(axis=0)
    with np.errstate(divide="ignore"):
        kept = np.minimum(1.0, np.sqrt(of_parts * level / squares))  # 1 for a unit without a contribution
    shrunk = kept * shrinkage(np.sum(np.square(kept) * squares, axis=0) * _SUMMING_ERROR, limit)
    untouched = shrinkage(squares.sum(axis=0), limit) == 1.0
    return np.floor(np.where(untouched, 1.0, shrunk) * NO_SCALING).astype(np.int64)


def shrinkage(squares: np.ndarray, limit: Fraction) -> np.ndarray:
    """Compute min(1, sqrt(limit / square)) per unit, rounded down: float64, exactly 1 if an exact square is within.

    A number times this, in float64, is also at most the true product.

    Args:
      squares: sums of squares of whole numbers, float64, shape (units,), exact below 2^53.
      limit: the largest square.
    """
    within = squares <= min(math.floor(limit), _EXACT - 1)
    above = np.where(squares < _EXACT, squares, squares * _SUMMING_ERROR)
    roots = math.sqrt(limit) / np.sqrt(np.where(within, 1.0, above)) * _ROOT_ERROR
    return np.where(within, 1.0, np.minimum(roots, 1.0))


def scaled(magnitudes: np.ndarray, factors: np.ndarray, bits: int = SCALE_BITS) -> np.ndarray:
    """Compute floor(magnitude c 2^bits), int64, given the factor of each magnitude's unit."""
    return magnitudes * factors >> np.int64(_FACTOR_BITS - bits)


def fits_untouched(total: np.ndarray, max_norm: Fraction | int) -> np.ndarray:
    """Mask the units that cannot exceed the norm, even if all their items collide, given their total weights, bool."""
    return total <= math.floor(max_norm)
