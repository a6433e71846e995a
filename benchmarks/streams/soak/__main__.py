"""A stream on a Flink cluster for a long time, with kills: ``python -m benchmarks.streams.soak``, or ``make soak``.

A job manager and two task managers, each a process, run Beam's own count and three private transforms of one source in
real time: a release of each window of 10 seconds, rows over time, and a norm with `max_windows`. Workers and task
managers are killed. Then it judges: memory, state, checkpoints and delays are flat in the long span without kills;
all that left is exact, against the same transforms in memory; and nothing that is made again has other bytes.
`verdicts.py` has the rules; `--plant` shows that they can fail. Without `--rate` it first looks for the highest rate
that holds, which takes some minutes, and takes 85 % of it. Needs Linux, and what `make engines` fetches.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from benchmarks.command import RESULTS, Command
from benchmarks.streams.soak.killer import KILLS
from benchmarks.streams.soak.pipelines import SPEC
from benchmarks.streams.soak.records import SEED, WINDOW
from benchmarks.streams.soak.report import report
from benchmarks.streams.soak.run import PLAN, run
from benchmarks.streams.soak.search import highest_rate
from tests.engines import fetch

SHARE = 0.85
PLANTS = ("leak", "loss", "fresh")


def main() -> None:
    """Run, judge, and end with an error where a bar is not met."""
    command = Command(__file__, __doc__, "apache-beam", "numpy", "pyarrow", "beam-dpsketch")
    command.number("--minutes", 40.0, "of the stream")
    command.number("--rate", 0, f"records a second; 0 takes {SHARE:.0%} of the highest that holds")
    command.add_argument("--plant", nargs="+", choices=PLANTS, default=[], help="faults to see found")
    command.add_argument("--no-kills", action="store_true", help="kill nothing")
    command.add_argument("--folder", type=Path, help="is left there, and only judged if a run has left it")
    arguments = command.parse_args()
    try:
        jar = fetch.flink_job_server()
    except fetch.MissingError as missing:
        sys.exit(str(missing))
    output = arguments.output or RESULTS / "streams" / "soak.txt"
    planted = ", ".join(arguments.plant) or "none"
    with (
        tempfile.TemporaryDirectory() as temporary,
        command.writing(
            arguments,
            f"Windows of {WINDOW} seconds; two task managers of one slot, each with a worker process;",
            f"{SPEC.depth} x {SPEC.width:,} CountSketch; data seed {SEED}; planted faults: {planted}.",
            more=(jar.stem,),
        ),
    ):
        folder = arguments.folder or Path(temporary)
        if not (folder / "stream" / PLAN).exists():
            rate = arguments.rate or round(SHARE * highest_rate(jar, folder / "search"))
            rates = (rate,) * round(60 * arguments.minutes / WINDOW)
            kills = () if arguments.no_kills else KILLS
            run(jar, rates, folder / "stream", kills=kills, planted=frozenset(arguments.plant))
        report(folder / "stream", output.with_suffix(".png"))
    sys.exit("Not met: nothing" not in output.read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
