"""Processor time of `SelectKeys` by one round of votes and by two: ``python -m benchmarks.speed.selecting``.

Privacy ids with 1 to 15 records in keys drawn by 1 / rank, each id voting for at most 16. Each pipeline runs in a
process of its own, the methods in turns. Times are processor time, all threads, divided by the records. Elements are
made one by one while the pipeline runs, as a source would. Takes about 2 minutes.
"""

from __future__ import annotations

import json
import statistics
import time
from functools import partial

from benchmarks.command import Command
from benchmarks.measuring import in_new_process, in_turns
from benchmarks.speed.many_keys import Rows
from benchmarks.table import Bar, Table, spread

METHODS = ("gaussian", "two_rounds")
KEYS, MAX_KEYS, SEED, MOST = 20_000, 16, 1, 2.2


def measure(method: str, ids: int) -> dict[str, float]:
    """Microseconds of processor time for each record of one pipeline in this process."""
    import apache_beam as beam
    import numpy as np

    from beam_dpsketch import KeySelection, PrivacyId, PrivacySpec, RecordBounds
    from beam_dpsketch.transforms import SelectKeys
    from benchmarks import sources

    generator = np.random.default_rng(SEED)
    users = np.repeat(np.arange(ids), generator.integers(1, 16, ids))
    masses = np.cumsum(1 / np.arange(1, KEYS + 1))
    sources.keep("rows", Rows(user=users, shop=np.searchsorted(masses / masses[-1], generator.random(len(users)))))
    privacy_unit = PrivacyId("user", RecordBounds(1, max_keys=MAX_KEYS))
    selected = SelectKeys(
        PrivacySpec(epsilon=1, delta=1e-6), privacy_unit=privacy_unit, keys=KeySelection(5e-7, "shop", method=method)
    )
    before = time.process_time()
    with sources.pipeline() as pipeline:
        keys = pipeline | sources.Elements("rows", len(users), dict) | selected
        _ = keys | beam.combiners.Count.Globally()
    return {"processor": 1e6 * (time.process_time() - before) / len(users)}


def main() -> None:
    """Print a line for each method, and the ratio with its bar."""
    command = Command(__file__, __doc__, "apache-beam", "numpy", "beam-dpsketch")
    command.number("--ids", 50_000, "privacy ids")
    command.number("--repetitions", 5, "processes of each method")
    command.add_argument("--method", choices=METHODS, help="measure one method in this process, print JSON only")
    arguments = command.parse_args()
    if arguments.method:
        print(json.dumps(measure(arguments.method, arguments.ids)))
        return
    with command.writing(
        arguments,
        f"FnApiRunner, in memory, one worker. {arguments.ids:,} ids, {KEYS:,} keys, at most {MAX_KEYS} for an id.",
        f"Data seed {SEED}; noise from the operating system. Median (range) of {arguments.repetitions} processes.",
    ):
        runs = {
            method: partial(in_new_process, "speed.selecting", "--method", method, "--ids", arguments.ids)
            for method in METHODS
        }
        found = {
            method: [run["processor"] for run in each] for method, each in in_turns(runs, arguments.repetitions).items()
        }
        table = Table(None, ("microseconds of processor time a record", ""), (42, 22))
        for method, times in found.items():
            table.row(f"  {method}", spread(times, 1))
        ratios = [twice / once for once, twice in zip(*found.values(), strict=True)]
        table.row("two_rounds over gaussian", spread(ratios, 2), bars=[Bar(statistics.median(ratios), "<=", MOST)])


if __name__ == "__main__":
    main()
