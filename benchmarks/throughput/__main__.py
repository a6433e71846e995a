"""Time and memory beside numpy, DataSketches, Beam, PipelineDP and OpenDP: ``python -m benchmarks.throughput``.

Rows of a block take turns within a repetition, and ratios are taken within it; printed are medians and ranges. Times
are processor time of the process, all threads. Times of pipelines are the difference of two sizes, divided by the
difference in records, so that starting a pipeline does not count; data is made before. MB is peak resident memory above
that before the pipeline, on Linux. Where something is demanded, the bar and whether it is met stand at the end of the
line. Libraries that are not installed are skipped (`pip install -e '.[peers]'`), and so is the trace if none is given.
Takes about a quarter of an hour.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks.measuring import environment
from benchmarks.throughput import answers, growth, kernels, peers, pipelines, profile
from benchmarks.throughput.table import Table

PARTS = ("kernels", "pipelines", "peers", "answers", "growth", "profile")


def main() -> None:
    """Print all blocks, and what was not met."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=5, help="default: %(default)s")
    parser.add_argument("--scale", type=float, default=1.0, help="of all sizes (default: %(default)s)")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--trace", type=Path, help="a Parquet file of real records")
    parser.add_argument("--column", default="source_ip", help="its column of IPv4 addresses (default: %(default)s)")
    known = parser.parse_args()
    print(environment("apache-beam", "numpy", "pyarrow", "beam-dpsketch"))
    print("Runner: FnApiRunner, in memory, one worker. 5 x 4096 CountSketch, rho = 1; trees of 490,000 bytes.")
    print(f"Data seed {pipelines.SEED}; {known.repetitions} repetitions: median (range). Scale {known.scale:g}.")
    table = Table(known.repetitions, known.scale)
    if "kernels" in known.only:
        kernels.measure(table)
    if "pipelines" in known.only:
        pipelines.measure(table, known.trace, known.column)
    if "peers" in known.only:
        peers.measure(table)
    if "answers" in known.only:
        answers.measure(table)
    if "growth" in known.only:
        growth.measure(table)
    if "profile" in known.only:
        profile.measure(table)
    print("\nNot met: " + ("; ".join(table.missed) or "empty"))


if __name__ == "__main__":
    main()
