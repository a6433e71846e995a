"""What one unit adds to rows over time: brute force in whole numbers, with the dense matrix.

The cells of an item are those that it changes alone (`norms.changed_cells`); nothing here uses the kernel or G.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import numpy as np

from beam_dpsketch.exact.horizon import WindowRows
from beam_dpsketch.privacy.over_time.binned import BinaryTree, BinnedRoot
from beam_dpsketch.privacy.over_time.mechanism import RowMechanism
from tests.helpers import norms
from tests.helpers.norms import Place

UNIT = 1 << 8
"""One record, in the units of scaled weights in rows."""
MECHANISMS = {"binned": BinnedRoot.over, "tree": BinaryTree}
_FIRST_END, _SIZE = -3_600_001, 1_800_000


def over(mechanism: RowMechanism) -> WindowRows:
    """Return windows of half an hour that open before 1970."""
    return WindowRows(mechanism, _FIRST_END, _SIZE)


def end(window: int) -> int:
    """Return the last millisecond of a window of `over`."""
    return _FIRST_END + window * _SIZE


def matrix(mechanism: RowMechanism) -> np.ndarray:
    """Return C in Python integers, of shape (rows, windows), from the bins of each row."""
    rows = []
    for window in range(mechanism.windows):
        for bins in mechanism.rows_of(window):
            row = [0] * mechanism.windows
            for level, place, weight in bins:
                for each in range(place << level, (place + 1) << level):
                    row[each] += weight * int(mechanism.gains[each])
            rows.append(row)
    return np.array(rows, dtype=object)


def longest(mechanism: RowMechanism) -> int:
    """Return the largest squared length of a column."""
    return max(int(square) for square in (matrix(mechanism) ** 2).sum(axis=0))


def squared_rows(mechanism: RowMechanism, of_windows: Iterable[tuple[int, int]]) -> int:
    """Return the sum of squares of all rows, of one cell that holds numbers in windows."""
    cells = [0] * mechanism.windows
    for window, value in of_windows:
        cells[window] += value
    return int(((matrix(mechanism) @ np.array(cells, dtype=object)) ** 2).sum())


def squared_length(
    spec: Any, mechanism: RowMechanism, weights: Iterable[tuple[Place, int]], *, sizes: bool
) -> Fraction:
    """Return the squared length of all rows over the longest column, tables weighted, in the unit of the weights.

    Windows of places are their last milliseconds. With `sizes`, parts of a cell do not cancel: this is N^2.
    """
    tables: list[dict[Any, list[int]]] = [defaultdict(lambda: [0] * mechanism.windows) for _ in norms.tables_of(spec)]
    for place, weight in weights:
        for table, cells in zip(tables, norms.changed_cells(spec, place.item), strict=True):
            for cell, sign in cells.items():
                window = (place.window - _FIRST_END) // _SIZE
                table[place.key, cell][window] += abs(sign * weight) if sizes else sign * weight
    dense, total = matrix(mechanism), Fraction(0)
    for table, (rows, share) in zip(tables, norms.tables_of(spec), strict=True):
        if table:
            over_time = dense @ np.array(list(table.values()), dtype=object).T
            total += share / rows * (over_time**2).sum()
    return total / longest(mechanism)
