"""How long the command `dpsketch` takes from start to end on small files: what a user waits for an answer.

python -m benchmarks.cold_start [--runs 7]
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from benchmarks.measuring import environment, spread

RELEASES = Path(__file__).parents[1] / "docs" / "releases"
SETTINGS = "{kind: frequencies, item: city, privacy: {rho: 1}, unit: {privacy_id: person, norm: {max_norm: 10}}}"
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
    environ = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
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
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--runs", type=int, default=7, help="of each command (%(default)s)")
    runs = arguments.parse_args().runs
    print(environment("beam-dpsketch", "numpy", "pyarrow", "matplotlib"))
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "settings.yaml").write_text(SETTINGS, encoding="utf-8")
        lines = {name: line.format(folder=folder) for name, (_, line) in COMMANDS.items()}
        for line in lines.values():  # what is read once stays in memory
            run(line)
        times: dict[str, list[Seconds]] = {name: [] for name in lines}
        for _ in range(runs):
            for name, line in lines.items():
                times[name].append(run(line))
    print(f"{'command':<10}{'seconds, median (range)':<28}{'of the processor':<28}{'bar':<6}met")
    for name, found in times.items():
        bar, waited, worked = COMMANDS[name][0], *zip(*found, strict=True)
        met = "yes" if statistics.median(waited) <= bar else "NO"
        print(f"{name:<10}{spread(waited, 2):<28}{spread(worked, 2):<28}{bar:<6}{met}")


if __name__ == "__main__":
    main()
