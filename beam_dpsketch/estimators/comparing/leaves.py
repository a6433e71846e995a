"""The finest level of two trees: where to look for what changed, and what it says of single values.

Guarantee: post-processing. A search of the difference would fail: +500 and -500 cancel in a node above both. Where
weights are not negative, a value that changed by t weighs t or more in one of the two releases. So the candidates are
what stands below heavy nodes of either tree.

The finest level does not take part in the search. Its noise is independent of what is found, so intervals read from it
alone hold for each candidate as for a value that was chosen before.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from beam_dpsketch import _validate
from beam_dpsketch.estimators.row_mean import RowReader
from beam_dpsketch.estimators.tree.least_squares import children_of, fitted_tree, heaviest
from beam_dpsketch.estimators.tree.levels import TreeLevel
from beam_dpsketch.privacy.gaussian_tail import noise_margin

_HEAVY_DEVIATIONS = 3.0
_MAX_LEAVES = 1 << 22


def changed_leaves(before: Sequence[TreeLevel], after: Sequence[TreeLevel], k: int) -> np.ndarray:
    """Return positions among which the k largest changes are: uint64, ascending."""
    if not after[-1].is_exact:
        return np.union1d(leaves_below_heavy_nodes(before), leaves_below_heavy_nodes(after))
    earlier, later = (levels[-1].counters[0].astype(np.float64) for levels in (before, after))
    return np.sort(np.argsort(-np.abs(later - earlier), kind="stable")[:k]).astype(np.uint64)


def leaves_below_heavy_nodes(levels: Sequence[TreeLevel]) -> np.ndarray:
    """Return the positions below nodes that exceed the noise, found without the finest level: uint64, ascending."""
    above, leaves = levels[:-1], levels[-1]
    if not above:
        return np.zeros(0, dtype=np.uint64)
    tree = fitted_tree(above)
    if len(tree) < len(above):
        return np.zeros(0, dtype=np.uint64)
    weights = tree[-1].fitted
    heavy = heaviest(weights, weights > _HEAVY_DEVIATIONS * np.sqrt(tree[-1].upward_variance), leaves, _MAX_LEAVES)
    positions = children_of(tree[-1].ids[heavy], leaves)
    return positions[positions <= np.uint64(leaves.nodes - 1)]


def leaf_bounds(
    leaves: TreeLevel, positions: np.ndarray, confidence: float, *, sigma_squared: Fraction, rounding: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return estimates of leaves with lower and upper bounds, unbiased also where weights may be negative."""
    _validate.open_unit_interval(confidence=confidence)
    if leaves.is_exact:
        middle = leaves.estimates(positions)
        below = above = noise_margin(sigma_squared, confidence) + rounding
    else:
        reader = RowReader(leaves.spec, leaves.counters, sigma_squared)
        middle, (below, above) = reader.estimates(positions), reader.margins(confidence)
    return middle, middle - below, middle + above
