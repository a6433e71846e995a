"""Time and peak memory of whole processes: batches of 10^5 to 10^8 rows, and many keys with a small sketch each.

Each pipeline runs in a process of its own, after one of a few records; peak memory is that of the process, with
Python, Beam and what the pipeline reads.
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import time

from benchmarks.measuring import spread
from benchmarks.throughput.table import Table, status

ROWS = (100_000, 1_000_000, 10_000_000, 100_000_000)
KEYS = (1_000, 10_000, 100_000)
PER_KEY = 10
_BATCH = 50_000
_COUNT, _SKETCH = "Count.PerKey", "PrivateFrequencies.PerKey 5 x 64"


def measure(table: Table) -> None:
    """Prints the blocks of growth."""
    sizes = [table.sizes(0, rows, _BATCH)[1] for rows in ROWS]
    found: dict[int, tuple[list[float], list[float]]] = {size: ([], []) for size in sizes}
    for _ in range(table.repetitions):
        for size, (seconds, peaks) in found.items():
            _append(seconds, peaks, "rows", size)
    print(f"\nGrowth with N: PrivateFrequencies of batches of {_BATCH:,} integers in memory, unit='record'")
    print(f"  {'':<46}{'seconds':<32}{'ns a row':>10}  {'peak MB':<28}{'of 10^6 rows':<14}{'bar':<10}met")
    base = statistics.median(found[sizes[1]][1])
    for size, (seconds, peaks) in found.items():
        middle = statistics.median(peaks) / base
        judged = table.judged("peak memory of 10^8 rows", middle, 1.1) if size == sizes[-1] else ""
        print(
            f"  {size:<46,}{spread(seconds, 2):<32}{1e9 * statistics.median(seconds) / size:>10.1f}  "
            f"{spread(peaks):<28}{middle:<14.2f}{'<= 1.1' if judged else '-':<10}{judged or '-'}",
            flush=True,
        )
    print(f"\nGrowth with keys: pairs, {PER_KEY} a key, with releases")
    print(f"  {'':<46}{'seconds':<32}{'us a key':>10}  {'peak MB':<28}{'':<14}{'bar':<10}met")
    for keys in sorted({max(10, int(count * table.scale)) for count in KEYS}):
        for name in (_COUNT, _SKETCH):
            seconds, peaks = [], []
            for _ in range(table.repetitions):
                _append(seconds, peaks, name, keys)
            barred = name == _SKETCH and keys == int(KEYS[-1] * table.scale)
            judged = table.judged(f"memory of {keys:,} keys", statistics.median(peaks), 1000) if barred else "-"
            each = 1e6 * statistics.median(seconds) / keys
            print(
                f"  {f'{keys:,} keys, {name}':<48}{spread(seconds, 2):<30}{each:>10.1f}  "
                f"{spread(peaks):<42}{'<= 1000' if barred else '-':<10}{judged}",
                flush=True,
            )


def _append(seconds: list[float], peaks: list[float], what: str, size: int) -> None:
    command = [sys.executable, "-m", "benchmarks.throughput.growth", what, str(size)]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    seconds.append(float(printed[-2]))
    peaks.append(float(printed[-1]))


def main() -> None:
    """Print seconds and megabytes of one pipeline in this process."""
    import apache_beam as beam
    import numpy as np
    import pyarrow as pa

    from benchmarks import ordered_data, sources
    from benchmarks.throughput.pipelines import SEED, per_key, run, sketch

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
    start = time.process_time()
    run(*arguments, size)
    seconds = time.process_time() - start
    kilobytes = status("VmHWM")  # not ru_maxrss, which is inherited from the parent, except where there is no other
    if kilobytes is None:
        kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024 if sys.platform == "darwin" else 1)
    print(seconds, kilobytes * 1024 / 1e6)


if __name__ == "__main__":
    main()
