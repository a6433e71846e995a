"""Square root of the prefix-sum matrix in integers, the basis for ranks and timeline rows.

The prefix-sum matrix T is lower triangular, and all of its nonzero entries are 1. Its square root is the lower
triangular Toeplitz matrix with c_k = binom(2k, k) / 4^k. Released rows C x + noise then give prefixes with almost the
least error of any mechanism. Later columns are shorter. A gain per column makes all columns about as long as the
longest, to which the noise is calibrated in any case.

Source: Fichtenberger, Henzinger and Upadhyay 2023.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

FRACTION_BITS = 64


def coefficients(count: int) -> Iterator[int]:
    """Yield c_0 to c_(count-1) in units of 2**-FRACTION_BITS, each rounded down from its predecessor."""
    term = 1 << FRACTION_BITS
    for k in range(1, count + 1):
        yield term
        term = term * (2 * k - 1) // (2 * k)


def gains_of(squared_columns: np.ndarray, bits: int) -> tuple[np.ndarray, int]:
    """Compute the gain of each column in units of 2**-bits, int64, and the largest squared length including gains.

    Args:
      squared_columns: the squared lengths of the columns without gains, int64, above 0.
      bits: precision of the gains.
    """
    lengths, which = np.unique(squared_columns, return_inverse=True)
    longest = int(lengths.max()) << 2 * bits
    gains = [math.isqrt(longest // length) for length in lengths.tolist()]
    squared_length = max(gain**2 * length for gain, length in zip(gains, lengths.tolist(), strict=True))
    return np.array(gains, dtype=np.int64)[which], squared_length
