"""The binary tree over time: a noisy row for each dyadic range of windows, as soon as its last window closes.

Guarantee: `mechanism` says why all rows together are rho-zCDP. A record is in one node of each level. The windows of a
unit add up in nodes that hold several of them: the most that m windows can do on a level whose nodes have s windows is
to fill m // s nodes and to put the rest into another. The first m windows do so on all levels at once.

Sources: Chan, Shi and Song 2011 (the tree); Zhao et al., NeurIPS 2022, Appendix D (its sketches).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from fractions import Fraction

from beam_dpsketch import _validate
from beam_dpsketch.privacy.over_time.mechanism import Bin, RowMechanism


@dataclasses.dataclass(frozen=True)
class BinaryTree(RowMechanism):
    """All nodes of a binary tree that end within the windows; those that end with one window are in order of size."""

    words = "the binary tree"

    @property
    def row_count(self) -> int:
        return self.first_row(self.windows)

    def first_row(self, window: int) -> int:
        return 2 * window - window.bit_count()

    def window_of(self, row: int) -> int:
        window = row // 2
        while self.first_row(window + 1) <= row:
            window += 1
        return window

    def rows_of(self, window: int) -> Sequence[Sequence[Bin]]:
        end = window + 1
        return [[Bin(level, (end >> level) - 1, 1)] for level in range((end & -end).bit_length())]

    @property
    def gains(self) -> Sequence[int]:
        return (1,) * self.windows

    @property
    def squared_length(self) -> int:
        return self.windows.bit_length()

    def squared_reach(self, reached: int) -> Fraction:
        """Return the squared change of all nodes by a unit in this many windows, over that of one; attained."""
        _validate.whole(low=1, high=self.windows, reached=reached)
        most = 0
        for level in range(self.windows.bit_length()):
            nodes = self.windows >> level
            full = min(reached >> level, nodes)
            rest = reached - (full << level) if full < nodes else 0
            most += (full << 2 * level) + rest**2
        return Fraction(most, self.squared_length)
