"""How long the command `dpsketch` takes from start to end on small files: what a user waits for an answer.

Each is run as a process of its own, on a small file. The bars are seconds on the clock. Takes a minute.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import NamedTuple

from benchmarks.command import Command
from benchmarks.measuring import in_turns
from benchmarks.table import Bar, Table, spread

RELEASES = Path(__file__).parents[2] / "docs" / "releases"
SETTINGS = (
    "{kind: frequencies, item: city, privacy: {rho: 1}, privacy_unit: {privacy_id: person, norm: {max_norm: 10}}}"
)
COMMANDS = {
    "inspect": (1.2, "inspect delays.dpsketch"),
    "query": (1.2, "query delays.dpsketch --quantile 0.5"),
    "plot": (3.0, "plot delays.dpsketch --cdf --output {folder}/delays.png --replace"),
    "plan": (3.0, "plan --config {folder}/settings.yaml"),
    "check": (3.0, "check {folder}/settings.yaml"),
}
"""The bar in seconds, and the rest of the line."""


class Seconds(NamedTuple):
    """How long a process took, and how long of this the processor worked, which other processes disturb less."""

    waited: float
    worked: float


def run(line: str) -> Seconds:
    """Run a command in a process of its own."""
    environ = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, "-m", "beam_dpsketch", *line.split()],
        cwd=RELEASES,
        env=environ,
        capture_output=True,
        check=True,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    worked = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Seconds(time.perf_counter() - start, worked)


def main() -> None:
    command = Command(__file__, __doc__, "beam-dpsketch", "numpy", "pyarrow", "matplotlib")
    command.number("--runs", 7, "of each command")
    arguments = command.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "settings.yaml").write_text(SETTINGS, encoding="utf-8")
        runs = {name: partial(run, line.format(folder=folder)) for name, (_, line) in COMMANDS.items()}
        in_turns(runs, 1)  # what is read once stays in memory
        times = in_turns(runs, arguments.runs)
    with command.writing(arguments, f"Median (range) of {arguments.runs} runs of each command"):
        table = Table(None, ("command", "seconds", "of the processor"), (10, 28))
        for name, found in times.items():
            waited, worked = zip(*found, strict=True)
            bar = Bar(statistics.median(waited), "<=", COMMANDS[name][0])
            table.row(name, spread(waited, 2), spread(worked, 2), bars=[bar])


if __name__ == "__main__":
    main()
