"""Lines of ours beside those of others: the ratio, the bar, and why a bar is missed."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from benchmarks.accuracy.noise_peers.promises import TOLERANCE
from benchmarks.table import Bar, Table

UNKNOWN = "No reason is known."


def at_most(ratio: float) -> Bar:
    """The bar of an error of ours over the least of others."""
    return Bar(ratio, "<=", 1 + TOLERANCE)


def at_least(ratio: float) -> Bar:
    """The bar of a number of keys of ours over the most of others."""
    return Bar(ratio, ">=", 1 - TOLERANCE)


class Judge:
    """The lines of one table.

    Args:
      title: is printed above.
      heads: of the columns.
      widths: of the columns.
      bar: the width of the bars.
    """

    def __init__(self, title: str, heads: Sequence[str], widths: Sequence[int], bar: int = 8) -> None:
        self._table, self._missed = Table(title, heads, widths, bar), Counter[str]()

    def line(self, *cells: str, bars: Sequence[Bar], why: str) -> None:
        """Print a line, and keep the reason if a bar is missed."""
        if not self._table.row(*cells, bars=bars):
            self._missed[why] += 1

    def close(self) -> None:
        """Say why bars were missed."""
        for why, lines in self._missed.items():
            print(f"  NO on {lines} line{'s' * (lines > 1)}: {why}")


def number(value: float, decimals: int = 2) -> str:
    """A number, or a dash if there is none."""
    return f"{value:,.{decimals}f}" if math.isfinite(value) else "-"
