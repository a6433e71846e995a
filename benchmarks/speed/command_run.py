"""`dpsketch run` beside a pipeline that makes the same release: ``python -m benchmarks.speed.command_run``.

Parquet files of 10 million records, a tenth as many people; start-up and writing included. Seconds of the processor, of
a process of its own and its threads, variants taking turns. Takes about five minutes.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.command import Command
from benchmarks.measuring import in_turns, ratios, seconds_of_children
from benchmarks.table import Bar, Table, spread

SEED, BAR = 1, 1.5
SETTINGS = """
kind: quantiles
item: delay
domain: {type: integer, low: -120, high: 1500}
privacy: {epsilon: 2, delta: 1.0e-6}
privacy_unit: {privacy_id: person, norm: {max_norm: 10}}
"""
PIPELINE = """
import sys
import apache_beam as beam
from apache_beam.io.parquetio import ReadFromParquetBatched
from beam_dpsketch.config import read_release
from beam_dpsketch.rows.base import private_transform
from beam_dpsketch.transforms import WriteReleases
files, settings, output = sys.argv[1:]
private = private_transform(read_release(open(settings).read()))
with beam.Pipeline("FnApiRunner") as pipeline:
    read = pipeline | ReadFromParquetBatched(files, columns=["person", "delay"])
    _ = read | private | WriteReleases(output, overwrite=True)
"""


def write(folder: Path, records: int, files: int = 4) -> None:
    """Files of people and delays."""
    random = np.random.default_rng(SEED)
    for file in range(files):
        size = records // files
        delays = np.clip(random.normal(10, 40, size).astype(np.int64), -120, 1500)
        people = random.integers(0, max(records // 10, 1), size)
        table = pa.table({"person": people, "delay": delays, "note": random.integers(0, 9, size)})
        pq.write_table(table, folder / f"visits{file}.parquet", row_group_size=1 << 18)


def seconds(command: list[str]) -> float:
    """Processor time of a process."""
    before = seconds_of_children()
    subprocess.run([sys.executable, *command], check=True, capture_output=True)
    return seconds_of_children() - before


def main() -> None:
    """Print a line for the command, and one for the pipeline."""
    command = Command(__file__, __doc__, "apache-beam", "numpy", "pyarrow", "beam-dpsketch")
    command.number("--records", 10_000_000, "in all files")
    command.number("--repetitions", 5, "of each")
    given = command.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder, given.records)
        (folder / "release.yaml").write_text(SETTINGS)
        files, settings, out = (str(folder / each) for each in ("*.parquet", "release.yaml", "out"))
        run = ["-m", "beam_dpsketch", "run", files, "--config", settings, "--output", f"{out}.dpsketch", "--replace"]
        variants = {"pipeline": ["-c", PIPELINE, files, settings, out], "dpsketch run": run}
        times = in_turns({name: partial(seconds, each) for name, each in variants.items()}, given.repetitions)
    with command.writing(
        given,
        f"{given.records:,} records in Parquet; data seed {SEED}; {given.repetitions} repetitions: median (range)",
    ):
        table = Table(None, ("", "seconds", "over the pipeline"), (14, 26))
        for variant, values in times.items():
            over = ratios(values, times["pipeline"])
            bars = [] if variant == "pipeline" else [Bar(statistics.median(over), "<=", BAR)]
            table.row(variant, spread(values, 1), spread(over, 2), bars=bars)


if __name__ == "__main__":
    main()
