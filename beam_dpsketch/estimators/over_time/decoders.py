"""Which decoder reads the rows of a mechanism; those of the binary tree are read by least squares.

Given the rows of C that came out so far, w = C (C^T C)^-1 a is the least-squares estimate: among all w with C^T w = a,
none is shorter. Complete subtrees that share no node have blocks of their own in C^T C, so rows outside the subtrees
that are asked for count exactly 0.

Guarantee: post-processing. Rows that come later make estimates of earlier windows closer, so these change.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable

import numpy as np

from beam_dpsketch.estimators.over_time.root_decoder import RootDecoder, RowDecoder
from beam_dpsketch.privacy.over_time.binned import BinaryTree, BinnedRoot
from beam_dpsketch.privacy.over_time.mechanism import RowMechanism, matrix_rows

_ROUNDED = 1e-12  # what rounding leaves of a weight of 0


class TreeDecoder(RowDecoder):
    """The normal equations of a `BinaryTree`, over the windows that coefficients are given for."""

    def weights(self, coefficients: np.ndarray) -> np.ndarray:
        found = coefficients @ _inverse(self._mechanism, len(coefficients))
        return np.where(np.abs(found) > _ROUNDED * np.abs(found).max(), found, 0.0)


@functools.lru_cache(maxsize=2)
def _inverse(mechanism: RowMechanism, windows: int) -> np.ndarray:
    """Compute (C^T C)^-1 C^T of the rows of the first windows, of shape (windows, rows)."""
    rows = itertools.islice(matrix_rows(mechanism), mechanism.first_row(windows))
    matrix = np.array([row[:windows] for row in rows], dtype=np.float64)
    return np.linalg.solve(matrix.T @ matrix, matrix.T)


_DECODERS = {BinnedRoot: RootDecoder, BinaryTree: TreeDecoder}


def decoder_of(mechanism: RowMechanism, row: Callable[[int], np.ndarray]) -> RowDecoder:
    """Return the decoder; `row` gives the values of a row by its number."""
    return _DECODERS[type(mechanism)](mechanism, row)
