"""Which decoder reads the rows of a mechanism; that of the binary tree is least squares over all nodes so far.

The windows 0 to t split into complete subtrees, one for each bit of t + 1. No node reaches over two of them, so each is
fitted alone. Upwards, a node's average z is a share s of its own row and 1 - s of the sum of its children's averages:
the share that has the least variance is 2^l / (2^(l+1) - 1). Downwards, what a node has more than its children's
averages goes to both alike. The leaves are then the least-squares estimate (N'N)^-1 N'y of all windows, where N has a
row for each node.

Both passes are linear in y, so a . x = w . y, and the transposed passes, first down's and then up's, turn a into w =
N (N'N)^-1 a; so w . w = a . (N'N)^-1 a. Where a is equal over a subtree, only the average of its root counts. So a
range needs O(log T) averages, and these are kept.

Guarantee: post-processing. Rows that come later make estimates of earlier windows closer, so these change. Source: Hay,
Rastogi, Miklau and Suciu 2010 (the two passes); Honaker 2015 (the averages).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from beam_dpsketch.estimators.over_time.root_decoder import RootDecoder, RowDecoder
from beam_dpsketch.privacy.over_time.binned import BinaryTree, BinnedRoot
from beam_dpsketch.privacy.over_time.mechanism import RowMechanism


class TreeDecoder(RowDecoder):
    """Fits a `BinaryTree` over the windows that coefficients are given for, and keeps averages of its nodes."""

    def estimate(self, coefficients: np.ndarray) -> np.ndarray:
        total = np.zeros_like(self._row(0))
        for level, shares in enumerate(_of_averages(coefficients)):
            for place in np.flatnonzero(shares).tolist():
                total += shares[place] * self._average(level, place)
        return total

    def weights(self, coefficients: np.ndarray) -> np.ndarray:
        windows = len(coefficients)
        first_rows = np.array([self._mechanism.first_row(window) for window in range(windows)])
        found = np.zeros(self._mechanism.first_row(windows))
        above = np.zeros(0)
        for level, own in reversed([*enumerate(_of_averages(coefficients))]):
            inherited = np.zeros(len(own))
            inherited[: 2 * len(above)] = (1 - _share(level + 1)) * np.repeat(above, 2)
            above = own + inherited
            found[first_rows[(1 << level) - 1 :: 1 << level] + level] = _share(level) * above
        return found

    def rows_used(self, coefficients: np.ndarray) -> Sequence[int]:
        numbers: list[int] = np.flatnonzero(self.weights(coefficients)).tolist()
        return numbers

    def _average(self, level: int, place: int) -> np.ndarray:
        last = ((place + 1) << level) - 1  # the window whose rows, in order of size, hold that of the node
        own = self._row(self._mechanism.first_row(last) + level)
        if not level:
            return own
        found = self._kept.get((level, place))
        if found is None:
            children = self._average(level - 1, 2 * place) + self._average(level - 1, 2 * place + 1)
            found = _share(level) * own + (1 - _share(level)) * children
            self._kept.put((level, place), found)
        return found


def _share(level: int) -> float:
    """Return the share of a node's own row in its average, and the variance of the average over that of a row."""
    return 2**level / (2 ** (level + 1) - 1)


def _of_averages(coefficients: np.ndarray) -> list[np.ndarray]:
    """Return, for each level, how often each node's average counts, by the downward pass transposed."""
    found, fitted = [], coefficients
    for _ in range(len(coefficients).bit_length()):
        pairs = fitted[: len(fitted) // 2 * 2].reshape(-1, 2)
        own = fitted.copy()  # what is left at an odd end is the root of a subtree
        own[: pairs.size] = (pairs - pairs[:, ::-1]).ravel() / 2
        found.append(own)
        fitted = pairs.sum(axis=1) / 2
    return found


_DECODERS = {BinnedRoot: RootDecoder, BinaryTree: TreeDecoder}


def decoder_of(mechanism: RowMechanism, row: Callable[[int], np.ndarray]) -> RowDecoder:
    """Return the decoder; `row` gives the values of a row by its number."""
    return _DECODERS[type(mechanism)](mechanism, row)
