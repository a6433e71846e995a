"""The table that every benchmark prints: a title, columns, what is demanded, and whether it is met."""

from __future__ import annotations

import itertools
import operator
import statistics
from collections.abc import Sequence
from typing import NamedTuple

_SIGNS = {"<=": operator.le, "<": operator.lt, ">=": operator.ge}


def spread(values: Sequence[float], decimals: int = 0) -> str:
    """Median and range."""
    return _ranged(statistics.median(values), values, decimals)


def mean(values: Sequence[float], decimals: int = 0) -> str:
    """Mean and range."""
    return _ranged(statistics.fmean(values), values, decimals)


def _ranged(middle: float, values: Sequence[float], decimals: int) -> str:
    parts = (f"{part:,.{decimals}f}" for part in (middle, min(values), max(values)))
    return "{} ({} to {})".format(*parts)


class Bar(NamedTuple):
    """What a value must be.

    Attributes:
      value: what was measured.
      sign: "<=", "<" or ">=".
      limit: the value must be at most, below, or at least this.
      unit: words after the limit.
    """

    value: float
    sign: str
    limit: float
    unit: str = ""

    @property
    def met(self) -> bool:
        return bool(_SIGNS[self.sign](self.value, self.limit))

    def __str__(self) -> str:
        return f"{self.sign} {self.limit:,.7g}{self.unit}"


class Table:
    """Lines of cells, printed one by one as they are measured.

    Args:
      title: is printed above; None leaves it out.
      heads: of the columns.
      widths: of the columns, to the left or, if negative, to the right. The last is that of all columns that follow.
      bar: the width of the bars, which stand at the end of each line; 0 leaves them out.
    """

    def __init__(self, title: str | None, heads: Sequence[str], widths: Sequence[int], bar: int = 12) -> None:
        self._widths, self._bar = [*widths, *[widths[-1]] * (len(heads) - len(widths))], bar
        if title is not None:
            print(f"\n{title}")
        self._print(heads, "bar", "met")

    def row(self, *cells: str, bars: Sequence[Bar | None] = (), either: bool = False) -> bool:
        """Print a line, and say whether its bars are met: all of them, or either."""
        demanded = [bar for bar in bars if bar is not None]
        met = (any if either else all)(bar.met for bar in demanded)
        self._print(
            cells, ", ".join(dict.fromkeys(map(str, demanded))) or "-", ("yes" if met else "NO") if demanded else "-"
        )
        return met

    def _print(self, cells: Sequence[str], bars: str, met: str) -> None:
        placed = itertools.starmap(_placed, itertools.zip_longest(cells, self._widths, fillvalue=""))
        judged = f"  {bars:<{self._bar}}  {met}" if self._bar else ""
        print(("".join(placed) + judged).rstrip(), flush=True)


def _placed(cell: str, width: int) -> str:
    return f"{'  ' + cell:>{-width}}" if width < 0 else f"{cell + '  ':<{width}}"
