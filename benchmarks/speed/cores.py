"""`dpsketch run` in two threads beside one: ``python -m benchmarks.speed.cores``.

The files and the release of `speed.command_run`, with text of 15 characters as privacy ids. A process of its own,
start-up and writing included, variants taking turns. Arrow uses both cores for reading in either variant. Other work on
the machine disturbs wall time, so "alone" estimates the wall time on two idle cores: processor time, halved while two
or more threads can run, from samples of /proc on Linux. Takes two minutes, and more on a busy machine.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.command import Command
from benchmarks.measuring import in_turns, ratios, seconds_of_children
from benchmarks.speed.command_run import SEED, SETTINGS, write
from benchmarks.table import Bar, Table, spread

CORES, PAUSE = 2, 0.004
ALONE_BAR, MEMORY_BAR = 0.8, 1.5
RUN = """
import sys
from beam_dpsketch.cli.main import main
from beam_dpsketch.frames.steps import cores
from benchmarks.measuring import peak_megabytes
most, *line = sys.argv[1:]
cores._MOST = int(most)
assert main(line) == 0
print(peak_megabytes())
"""


class Measured(NamedTuple):
    """Seconds alone on two cores, of wall time and of the processor, and peak memory in MB."""

    alone: float
    wall: float
    processor: float
    memory: float


def to_text(path: Path) -> None:
    """Replace the ids of a file by text."""
    table = pq.read_table(path)
    ids = pc.binary_join_element_wise("person-", pc.utf8_lpad(table["person"].cast(pa.string()), 8, "0"), "")
    pq.write_table(table.set_column(0, "person", ids), path, row_group_size=1 << 18)


def sample(process: int) -> tuple[int, dict[str, int]]:
    """Count the threads that run or can run, and read the nanoseconds that each has run."""
    ready, run = 0, {}
    for thread in Path(f"/proc/{process}/task").glob("*"):
        with contextlib.suppress(OSError, IndexError):  # a thread that has ended
            ready += (thread / "stat").read_text().rpartition(")")[2].split()[0] == "R"
            run[thread.name] = int((thread / "schedstat").read_text().split()[0])
    return ready, run


def measure(command: list[str]) -> Measured:
    """Run a process, and sample its threads."""
    start, before_run, alone = time.perf_counter(), seconds_of_children(), 0.0
    before, known = 1, defaultdict[str, int](int)
    with subprocess.Popen([sys.executable, *command], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as run:
        while run.poll() is None:
            ready, now = sample(run.pid)
            used = sum(each - known[thread] for thread, each in now.items()) / 1e9
            alone += used / min(max((before + ready) / 2, 1), CORES)
            before = ready
            known.update(now)
            time.sleep(PAUSE)
        wall = time.perf_counter() - start
        assert run.returncode == 0
        assert run.stdout is not None
        memory = float(run.stdout.read())
    return Measured(alone, wall, seconds_of_children() - before_run, memory)


def main() -> None:
    """Print a line for one thread, and one for two."""
    command = Command(__file__, __doc__, "numpy", "pyarrow", "beam-dpsketch")
    command.number("--records", 10_000_000, "in all files")
    command.number("--repetitions", 3, "of each")
    given = command.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder, given.records)
        for path in folder.glob("*.parquet"):
            to_text(path)
        files, settings, output = (str(folder / each) for each in ("*.parquet", "release.yaml", "out.dpsketch"))
        (folder / "release.yaml").write_text(SETTINGS)
        line = ["run", files, "--config", settings, "--output", output, "--replace"]
        variants = {name: ["-c", RUN, str(most), *line] for name, most in (("one", 1), ("two", 2))}
        found = in_turns({name: partial(measure, each) for name, each in variants.items()}, given.repetitions)
    with command.writing(
        given,
        f"{given.records:,} records in Parquet; data seed {SEED}; {given.repetitions} repetitions: median (range)",
        f"load of the machine in the last minute {os.getloadavg()[0]:.0f}",
    ):
        heads = ("threads", "alone, s", "over one", "wall, s", "processor, s", "memory, MB")
        table = Table(None, heads, (9, 22, 22, 22, 22, 20), bar=16)
        one = found["one"]
        for name, each in found.items():
            alone, wall, processor, memory = zip(*each, strict=True)
            over = ratios(alone, [every.alone for every in one])
            more = statistics.median(memory) / statistics.median([every.memory for every in one])
            bars = [] if each is one else [Bar(statistics.median(over), "<=", ALONE_BAR), Bar(more, "<=", MEMORY_BAR)]
            shown = spread(alone, 2), spread(over, 2), spread(wall, 2), spread(processor, 2), spread(memory)
            table.row(name, *shown, bars=bars)


if __name__ == "__main__":
    main()
