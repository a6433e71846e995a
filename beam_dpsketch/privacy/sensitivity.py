"""How far one privacy unit can move the counters of a sketch, in the worst case over all hash functions.

The hash is public, so an adversary may choose items by where they land, and a small sketch has every coincidence
anyway. Two things follow that a histogram does not teach. (1) k distinct items of one unit may share all their
cells, so they count k times, not sqrt(k). (2) Two items may share their cells with opposite signs, so replacing one
by the other moves each cell by 2: for CountSketch `REPLACE_ONE` costs 2 sqrt(depth), not the sqrt(2 depth) of the
paper. Each entry is attained by brute force in the tests.

Under a `NormBound` with max_norm b the changes of all tables together are bounded (`norm_bounding`), and each table has
the noise of b records of one item. What is returned for a table is then its part of that bound: in a flat sketch of
`cells_per_item` rows, the largest squared change itself, attained by b records of one item.
"""

from __future__ import annotations

import dataclasses
from fractions import Fraction

from beam_dpsketch import _validate
from beam_dpsketch.privacy.contributions import Bounds, NeighboringRelation, RecordBounds

MAX_WINDOWS = (1 << 32) - 1
MAX_HORIZON = 1 << 20


def squared_l2_sensitivity(
    *, cells_per_item: int, has_signs: bool, bounds: Bounds, relation: NeighboringRelation, window_count: int = 1
) -> Fraction:
    """Return the largest squared L2 change of all counters that one privacy unit can cause.

    With C the total weight a unit may contribute to one sketch (or max_norm), one row changes by at most

    * C when a unit is added or removed: all its weight in one cell;
    * sqrt(2) C when it is replaced, if its cells only grow: C leaves one cell and enters another;
    * 2 C when it is replaced and cells may grow or shrink, because the sketch has signs or the weights do: C in
      one cell turns into -C.

    All rows can do so together (cells_per_item of them), and so can max_partitions sketches and `window_count` windows,
    whose changes are orthogonal: each factor multiplies the square.

    Args:
      cells_per_item: counters that one item touches (the depth; 1 for an exact histogram).
      has_signs: whether an item may count negatively in a cell.
      bounds: what one unit may contribute.
      relation: the relation between neighbouring inputs.
      window_count: releases (windows) that one unit can reach, each within the bounds.
    """
    _validate.whole(low=1, high=MAX_WINDOWS, cells_per_item=cells_per_item, window_count=window_count)
    row = row_factor(has_signs=has_signs, bounds=bounds, relation=relation)
    return row * int(cells_per_item) * bounds.squared_length * int(window_count)  # int: numpy's integers overflow


def row_factor(*, has_signs: bool, bounds: Bounds, relation: NeighboringRelation) -> int:
    """Return the largest squared change of one row, in parts of that of adding a unit."""
    if relation is NeighboringRelation.ADD_OR_REMOVE_ONE:
        return 1
    return 4 if has_signs or bounds.signed else 2


def squared_l2_sensitivity_over_time(
    *, cells_per_item: int, has_signs: bool, bounds: Bounds, relation: NeighboringRelation, window_count: int
) -> Fraction:
    """Return the largest squared L2 change that one privacy unit can cause in all nodes of a binary tree over time.

    The leaves are the windows of a horizon, and a node is the sketch of all windows below it. A unit reaches m =
    max_partitions windows, each within the bounds. In a node above k of them its weight adds up, so the square is
    k^2 times that of one window; nodes of a level are orthogonal. The most that m windows can do on a level whose
    nodes have s windows is to fill m // s nodes and to put the rest into another: (m // s) s^2 + (m mod s)^2. m
    neighbouring windows from the first on do so on all levels at once. A record (m = 1) is in one node a level:
    log2(windows) + 1 times the square of one window.

    Args:
      cells_per_item: as in `squared_l2_sensitivity`.
      has_signs: as there.
      bounds: what one unit may contribute; a partition is a window.
      relation: as in `squared_l2_sensitivity`.
      window_count: the windows of the horizon, a power of two.
    """
    if not isinstance(bounds, RecordBounds):
        raise ValueError(f"bounds must be RecordBounds over a horizon of windows, got {type(bounds).__name__}")
    reached = bounds.max_partitions
    if reached > window_count:
        raise ValueError(
            f"bounds.max_partitions must be at most the {window_count} windows of the horizon, got {reached}"
        )
    factor = 0
    for level in range(tree_height(window_count)):
        full, rest = divmod(reached, 1 << level)
        factor += full * 4**level + rest**2
    one_window = squared_l2_sensitivity(
        cells_per_item=cells_per_item,
        has_signs=has_signs,
        bounds=dataclasses.replace(bounds, max_partitions=1),
        relation=relation,
    )
    return one_window * factor


def tree_height(windows: int) -> int:
    """Return the number of levels of a binary tree over windows, log2(windows) + 1; refuse numbers that have none.

    >>> tree_height(1024)
    11
    """
    _validate.whole(low=2, high=MAX_HORIZON, windows=windows)
    if int(windows) & (int(windows) - 1):
        raise ValueError(f"windows must be a power of two, got {windows}: declare a longer horizon")
    return int(windows).bit_length()
