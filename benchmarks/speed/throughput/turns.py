"""Rows that take turns within a repetition, and the table of what they cost."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from benchmarks.measuring import in_turns, ratios, seconds, status
from benchmarks.table import Bar, Table, spread


class Against(NamedTuple):
    """What a row must show against another: at most, or with `faster` at least, so many times."""

    row: str
    limit: float
    faster: bool = False


class Row(NamedTuple):
    """One line: something that handles as many records as it is told to.

    Attributes:
      name: as in the table.
      run: handles so many records.
      sizes: it is measured as the difference between these two, or as all of the second if the first is 0.
      bars: what it must show; without any, it is compared with the first row.
    """

    name: str
    run: Callable[[int], object]
    sizes: tuple[int, int]
    bars: tuple[Against, ...] = ()


class Turns(NamedTuple):
    """How much is measured.

    Attributes:
      repetitions: of each row.
      scale: of all sizes, for toy runs.
    """

    repetitions: int
    scale: float

    def sizes(self, few: int, many: int, multiple: int = 1) -> tuple[int, int]:
        """Two sizes, scaled; both multiples of so many records, and different."""
        low = int(few * self.scale) // multiple * multiple
        return low, max(low + multiple, int(many * self.scale) // multiple * multiple)

    def block(self, title: str, rows: Sequence[Row]) -> None:
        """Measure rows and print one line for each, or for each of its bars."""
        for row in rows:
            row.run(row.sizes[0] or row.sizes[1])  # a warm-up
        found = in_turns({row.name: partial(_measured, row) for row in rows}, self.repetitions)
        times = {name: [nanoseconds for nanoseconds, _ in values] for name, values in found.items()}
        table = Table(title, ("", "ns a record", "MB", "  times", "of"), (46, 32, -8, 34, 38))
        for row in rows:
            peak = statistics.median(megabytes for _, megabytes in found[row.name])
            cells = (f"  {row.name}", spread(times[row.name], 1), f"{peak:,.0f}" if peak == peak else "-")
            if not row.bars:
                of = ratios(times[row.name], times[rows[0].name])
                table.row(*cells, f"  {spread(of, 2)}", rows[0].name)
            for against, limit, faster in row.bars:
                pair = (times[against], times[row.name]) if faster else (times[row.name], times[against])
                of = ratios(*pair)
                bar = Bar(statistics.median(of), ">=" if faster else "<=", limit)
                table.row(*cells, f"  {spread(of, 2)}", f"faster than {against}" if faster else against, bars=[bar])


def _measured(row: Row) -> tuple[float, float]:
    """Nanoseconds of processor time per record, and megabytes of memory above those at the start."""
    few, many = row.sizes
    spent = -seconds(partial(row.run, few)) if few else 0.0
    with _Peak() as peak:
        spent += seconds(partial(row.run, many))
    return 1e9 * spent / (many - few), peak.megabytes


class _Peak:
    """The largest resident memory of this process within a block, above that at its start; NaN where not known."""

    megabytes = float("nan")

    def __enter__(self) -> _Peak:
        self._start = status("VmRSS")
        try:
            Path("/proc/self/clear_refs").write_text("5")
        except OSError:
            self._start = None
        return self

    def __exit__(self, *_: object) -> None:
        highest = status("VmHWM")
        if self._start is not None and highest is not None:
            self.megabytes = (highest - self._start) / 1e3
