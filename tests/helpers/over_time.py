"""What one unit can do to all nodes of a tree over time, by brute force."""

from __future__ import annotations

import itertools

import numpy as np

from beam_dpsketch import ADD_OR_REMOVE_ONE, NeighboringRelation, RecordBounds


def every_node(leaves: np.ndarray) -> np.ndarray:
    """Counters of all nodes, (n, all cells), of the counters of windows, (n, windows, cells)."""
    levels = [leaves]
    while levels[-1].shape[1] > 1:
        levels.append(levels[-1][:, ::2] + levels[-1][:, 1::2])
    return np.concatenate([level.reshape(len(leaves), -1) for level in levels], axis=1)


def units(*, windows: int, bounds: RecordBounds) -> np.ndarray:
    """Net weight by (window, item) of all that a unit may hold over two items, of shape (n, windows, 2)."""
    weights = range(bounds.min_weight, bounds.max_weight + 1)
    records = [(weight, 0) for weight in weights] + [(0, weight) for weight in weights]
    chosen = itertools.combinations_with_replacement(records, bounds.max_contributions_per_partition)
    of_window = sorted({tuple(np.sum(each, axis=0).tolist()) for each in chosen})
    found = set()
    for reached in itertools.combinations(range(windows), bounds.max_partitions):
        for held in itertools.product(of_window, repeat=len(reached)):
            unit = np.zeros((windows, 2), dtype=int)
            unit[list(reached)] = held
            found.add(unit.tobytes())
    return np.array([np.frombuffer(unit, dtype=int).reshape(windows, 2) for unit in found])


def worst(*, windows: int, bounds: RecordBounds, signs: bool, relation: NeighboringRelation) -> int:
    """The largest squared change of all nodes: two items in one row of two columns, placed in every way."""
    largest = 0
    for column, sign in itertools.product((0, 1), (1, -1) if signs else (1,)):
        matrix = np.zeros((2, 2), dtype=int)  # item, column
        matrix[0, 0], matrix[1, column] = 1, sign
        nodes = every_node(units(windows=windows, bounds=bounds) @ matrix)
        squares = np.square(nodes).sum(axis=1)
        if relation is ADD_OR_REMOVE_ONE:
            largest = max(largest, int(squares.max()))
        else:
            largest = max(largest, int((squares[:, None] + squares - 2 * nodes @ nodes.T).max()))
    return largest
