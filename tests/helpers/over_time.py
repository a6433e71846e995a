"""What one unit can do to all rows over time, by brute force."""

from __future__ import annotations

import itertools

import numpy as np

from beam_dpsketch import ADD_OR_REMOVE_ONE, NeighboringRelation, RecordBounds
from beam_dpsketch.privacy.over_time.mechanism import RowMechanism, matrix_rows


def every_row(mechanism: RowMechanism, windows: np.ndarray) -> np.ndarray:
    """Counters of all rows, (n, all cells), of the counters of windows, (n, windows, cells)."""
    dense = np.array(list(matrix_rows(mechanism)))
    return np.einsum("rw,nwc->nrc", dense, windows).reshape(len(windows), -1)


def units(*, windows: int, reached: int, bounds: RecordBounds) -> np.ndarray:
    """Net weight by (window, item) of all that a unit may hold over two items, of shape (n, windows, 2)."""
    weights = range(bounds.min_weight, bounds.max_weight + 1)
    records = [(weight, 0) for weight in weights] + [(0, weight) for weight in weights]
    drawn = itertools.combinations_with_replacement(records, bounds.max_per_key)
    of_window = sorted({tuple(np.sum(each, axis=0).tolist()) for each in drawn})
    found = set()
    for chosen in itertools.combinations(range(windows), reached):
        for held in itertools.product(of_window, repeat=reached):
            unit = np.zeros((windows, 2), dtype=int)
            unit[list(chosen)] = held
            found.add(unit.tobytes())
    return np.array([np.frombuffer(unit, dtype=int).reshape(windows, 2) for unit in found])


def worst(
    mechanism: RowMechanism, *, reached: int, bounds: RecordBounds, signs: bool, relation: NeighboringRelation
) -> int:
    """The largest squared change of all rows: two items in one row of two columns, placed in every way."""
    largest = 0
    for column, sign in itertools.product((0, 1), (1, -1) if signs else (1,)):
        matrix = np.zeros((2, 2), dtype=int)  # item, column
        matrix[0, 0], matrix[1, column] = 1, sign
        rows = every_row(mechanism, units(windows=mechanism.windows, reached=reached, bounds=bounds) @ matrix)
        squares = np.square(rows).sum(axis=1)
        if relation is ADD_OR_REMOVE_ONE:
            largest = max(largest, int(squares.max()))
        else:
            largest = max(largest, int((squares[:, None] + squares - 2 * rows @ rows.T).max()))
    return largest
