"""Input files of commands, with progress reports in bytes, files and time left.

Guarantee: a report contains bytes, files and times, and no record count. Within a Parquet file, bytes are estimated
from the share of rows read in batches, so reports show about how many rows the file has.
"""

from __future__ import annotations

import datetime
import math
import sys
import time
from collections.abc import Sequence

from beam_dpsketch.cli.text import is_terminal, note
from beam_dpsketch.exact.declared.release_spec import ReleaseSpec
from beam_dpsketch.frames.steps.files import Input, Position, open_files

_QUIET_SECONDS, _STEP = 2.0, 10
FILES = "Parquet or CSV files, folders, or patterns with wildcards"


def open_input(names: Sequence[str], declared: ReleaseSpec, *, asked: bool = False) -> Input:
    """Open files as in `open_files`, with notes and progress on stderr.

    Args:
      names: paths and patterns.
      declared: the release.
      asked: whether to report progress at once and without a terminal.
    """
    return open_files(names, declared, Progress(asked=asked), note)


class Progress:
    """Progress report for every 10 % of the input, if requested, or after 2 seconds on a terminal."""

    def __init__(self, *, asked: bool) -> None:
        self._waits = 0.0 if asked else _QUIET_SECONDS if is_terminal(sys.stderr) else math.inf
        self._start, self._said = time.monotonic(), 0

    def __call__(self, at: Position) -> None:
        step = at.read * 100 // max(at.total, 1) // _STEP * _STEP
        if step > self._said and (took := time.monotonic() - self._start) >= self._waits:
            self._said = step
            read, total = (f"{size / 1e6:,.1f}" for size in (at.read, at.total))
            left = datetime.timedelta(seconds=round(took * (at.total - at.read) / at.read))
            note(f"read {read} of {total} MB ({step} %), {at.done} of {at.files} file(s) complete, about {left} left")
