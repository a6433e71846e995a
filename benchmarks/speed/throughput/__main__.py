"""Time and memory beside numpy, DataSketches, Beam, PipelineDP and OpenDP: ``python -m benchmarks.speed.throughput``.

Rows of a block take turns within a repetition, and ratios are taken within it; printed are medians and ranges. Times
are processor time of the process, all threads. Times of pipelines are the difference of two sizes, divided by the
difference in records, so that starting a pipeline does not count; data is made before. MB is peak resident memory above
that before the pipeline, on Linux. Libraries that are not installed are skipped (`pip install -e '.[peers]'`),
and so is the trace if none is given. Takes about a quarter of an hour.

The bars of Parquet batches were set where reading a column took 31 ns a row. Beside a faster scan frequencies do not
meet theirs: sorting a column takes about as long as reading it, and what does not repeat is hashed into five rows.
Quantiles meet theirs where values repeat from batch to batch: these are put into the tree once. Beside PipelineDP lines
of text that are read and parsed, and nothing else, take a ninth of its time for counts, so that its twelfth cannot be
reached there; bounding and counting them add a quarter.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from benchmarks.command import Command
from benchmarks.speed.throughput import answers, growth, kernels, peers, pipelines, profile
from benchmarks.speed.throughput.turns import Turns


def main() -> None:
    """Print all blocks, part by part."""
    parts = ("kernels", "pipelines", "peers", "answers", "growth", "profile")
    command = Command(__file__, __doc__, "apache-beam", "numpy", "pyarrow", "beam-dpsketch", parts=parts)
    command.number("--repetitions", 5, "of each row")
    command.number("--scale", 1.0, "of all sizes")
    command.add_argument("--trace", type=Path, help="a Parquet file of real records")
    command.number("--column", "source_ip", "its column of IPv4 addresses")
    known = command.parse_args()
    turns = Turns(known.repetitions, known.scale)
    measures: dict[str, Callable[[Turns], None]] = {
        "kernels": kernels.measure,
        "pipelines": partial(pipelines.measure, trace=known.trace, column=known.column),
        "peers": peers.measure,
        "answers": answers.measure,
        "growth": growth.measure,
        "profile": profile.measure,
    }
    for part in known.parts or parts:
        with command.writing(
            known,
            "Runner: FnApiRunner, in memory, one worker. 5 x 4096 CountSketch, rho = 1; trees of 490,000 bytes.",
            f"Data seed {pipelines.SEED}; {known.repetitions} repetitions: median (range). Scale {known.scale:g}.",
            part=part,
        ):
            measures[part](turns)


if __name__ == "__main__":
    main()
