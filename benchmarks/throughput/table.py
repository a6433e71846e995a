"""Rows that take turns within a repetition, and the table of what they cost."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.measuring import ratios, spread

_HEADER = f"  {'':<46}{'ns a record':<32}{'MB':>6}  {'times':<30}{'of':<36}{'bar':<10}met"


class Bar(NamedTuple):
    """What a row must show against another: at most, or with `faster` at least, so many times."""

    against: str
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
    bars: tuple[Bar, ...] = ()


class Table:
    """Prints blocks of rows and remembers what was not met.

    Args:
      repetitions: of each row.
      scale: of all sizes, for toy runs.
    """

    def __init__(self, repetitions: int, scale: float) -> None:
        self.repetitions = repetitions
        self.scale = scale
        self.missed: list[str] = []

    def sizes(self, few: int, many: int, multiple: int = 1) -> tuple[int, int]:
        """Two sizes, scaled; both multiples of so many records, and different."""
        low = int(few * self.scale) // multiple * multiple
        return low, max(low + multiple, int(many * self.scale) // multiple * multiple)

    def block(self, title: str, rows: Sequence[Row]) -> None:
        """Measures rows and prints one line for each, or for each of its bars."""
        times: dict[str, list[float]] = {row.name: [] for row in rows}
        peaks: dict[str, list[float]] = {row.name: [] for row in rows}
        for row in rows:
            row.run(row.sizes[0] or row.sizes[1])  # a warm-up
        for _ in range(self.repetitions):
            for row in rows:
                nanoseconds, megabytes = _measured(row)
                times[row.name].append(nanoseconds)
                peaks[row.name].append(megabytes)
        print(f"\n{title}\n{_HEADER}")
        for row in rows:
            peak = statistics.median(peaks[row.name])
            start = f"  {row.name:<46}{spread(times[row.name], 1):<32}{f'{peak:,.0f}' if peak == peak else '-':>6}  "
            if not row.bars:
                base = rows[0].name
                print(f"{start}{spread(ratios(times[row.name], times[base]), 2):<30}{base:<36}-", flush=True)
            for bar in row.bars:
                print(f"{start}{self._compared(row.name, bar, times)}", flush=True)

    def _compared(self, name: str, bar: Bar, times: dict[str, list[float]]) -> str:
        ours, theirs = times[name], times[bar.against]
        found = ratios(theirs, ours) if bar.faster else ratios(ours, theirs)
        sign, words = (">=", f"faster than {bar.against}") if bar.faster else ("<=", bar.against)
        met = self.judged(name, statistics.median(found), bar.limit, bar.faster)
        return f"{spread(found, 2):<30}{words:<36}{f'{sign} {bar.limit:g}':<10}{met}"

    def judged(self, name: str, value: float, limit: float, at_least: bool = False) -> str:
        """Yes or NO, remembered."""
        if value >= limit if at_least else value <= limit:
            return "yes"
        self.missed.append(f"{name} ({value:.2f}, bar {limit:g})")
        return "NO"


def _measured(row: Row) -> tuple[float, float]:
    """Nanoseconds of processor time per record, and megabytes of memory above those at the start."""
    few, many = row.sizes
    spent = -_seconds(row, few) if few else 0.0
    with _Peak() as peak:
        spent += _seconds(row, many)
    return 1e9 * spent / (many - few), peak.megabytes


def _seconds(row: Row, size: int) -> float:
    start = time.process_time()
    row.run(size)
    return time.process_time() - start


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


def status(name: str) -> float | None:
    """Kilobytes of this process, from Linux."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return None
    return next((float(line.split()[1]) for line in lines if line.startswith(name)), None)
