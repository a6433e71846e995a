"""Time and peak memory of whole processes: batches of 10^5 to 10^8 rows, and many keys with a small sketch each.

Each pipeline runs in a process of its own, after one of a few records; peak memory is that of the process, with
Python, Beam and what the pipeline reads.
"""

from __future__ import annotations

import json
import statistics
import sys
from functools import partial

from benchmarks.measuring import in_new_process, in_turns, peak_megabytes, seconds
from benchmarks.speed.throughput.turns import Turns
from benchmarks.table import Bar, Table, spread

ROWS = (100_000, 1_000_000, 10_000_000, 100_000_000)
KEYS = (1_000, 10_000, 100_000)
PER_KEY = 10
_BATCH = 50_000
_COUNT, _SKETCH = "Count.PerKey", "PrivateFrequencies by key 5 x 64"


def measure(turns: Turns) -> None:
    """Print the blocks of growth."""
    title = f"Growth with N: PrivateFrequencies of batches of {_BATCH:,} integers in memory, unit='record'"
    table = Table(title, ("", "seconds", "ns a row", "  peak MB", "of 10^6 rows"), (48, 32, -10, 30, 14))
    sizes = [turns.sizes(0, rows, _BATCH)[1] for rows in ROWS]
    found = in_turns({str(size): partial(_run, "rows", size) for size in dict.fromkeys(sizes)}, turns.repetitions)
    base = statistics.median(peak for _, peak in found[str(sizes[1])])
    for size in dict.fromkeys(sizes):
        times, peaks = zip(*found[str(size)], strict=True)
        of = statistics.median(peaks) / base
        cells = (f"  {size:,}", spread(times, 2), f"{1e9 * statistics.median(times) / size:.1f}", f"  {spread(peaks)}")
        table.row(*cells, f"{of:.2f}", bars=[Bar(of, "<=", 1.1)] if size == sizes[-1] else [])
    title = f"Growth with keys: pairs, {PER_KEY} a key, with releases"
    table = Table(title, ("", "seconds", "us a key", "  peak MB"), (48, 32, -10, 44))
    for keys in sorted({max(10, int(count * turns.scale)) for count in KEYS}):
        for name in (_COUNT, _SKETCH):
            times, peaks = zip(*(_run(name, keys) for _ in range(turns.repetitions)), strict=True)
            each, peak = 1e6 * statistics.median(times) / keys, statistics.median(peaks)
            bars = [Bar(peak, "<=", 1000)] if name == _SKETCH and keys == int(KEYS[-1] * turns.scale) else []
            cells = (f"  {keys:,} keys, {name}", spread(times, 2), f"{each:.1f}", f"  {spread(peaks)}")
            table.row(*cells, bars=bars)


def _run(what: str, size: int) -> tuple[float, float]:
    """Seconds and megabytes of one pipeline in a process of its own."""
    spent, peak = in_new_process("speed.throughput.growth", what, size)
    return spent, peak


def main() -> None:
    """Print seconds and megabytes of one pipeline in this process."""
    import apache_beam as beam
    import numpy as np
    import pyarrow as pa

    from benchmarks import ordered_data, sources
    from benchmarks.speed.throughput.pipelines import SEED, per_key, run, sketch

    what, size = sys.argv[1], int(sys.argv[2])
    if what == "rows":
        numbers = ordered_data.zipf(np.random.default_rng(SEED), 20 * _BATCH)
        starts = range(0, len(numbers), _BATCH)
        batches = [pa.record_batch({"number": numbers[start : start + _BATCH].copy()}) for start in starts]
        sources.keep("pool", batches * -(-size // len(numbers)))
        few, arguments = _BATCH, ("pool", pa.RecordBatch, _BATCH, lambda: sketch("number"))
    else:
        sources.keep("pool", [(f"key {key}", item) for item in range(PER_KEY) for key in range(size)])
        size, few = size * PER_KEY, 10
        arguments = ("pool", tuple[str, int], 1, beam.combiners.Count.PerKey if what == _COUNT else per_key)
    run(*arguments, few)
    print(json.dumps([seconds(lambda: run(*arguments, size)), peak_megabytes()]))


if __name__ == "__main__":
    main()
