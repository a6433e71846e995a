"""Where the time goes, by what the code belongs to, from Python's profiler."""

from __future__ import annotations

import cProfile
import pstats
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import apache_beam as beam
import pyarrow.parquet as pq
from apache_beam.io.parquetio import ReadFromParquetBatched

from beam_dpsketch import PrivacyId, RecordBounds
from beam_dpsketch.transforms import PrivateFrequencies
from benchmarks import sources
from benchmarks.speed.throughput import pipelines
from benchmarks.speed.throughput.turns import Turns
from benchmarks.table import Table

# The first that a function's file or name has is what it belongs to.
_PARTS = (
    ("mixing (hash to cells)", ("hashing/cells", "hashing/scattering")),
    ("adding to counters", ("'at' of 'numpy.ufunc'", "reduceat")),
    ("sorting and counting", ("'sort'", "argsort", "nonzero", "repeats", "_count_elements")),
    ("fingerprints of text", ("hashing/", "mmh3", "'encode'", "'join' of 'bytes'")),
    (
        "noise and release",
        ("dpsketch/privacy/noise/", "/statement/", "/answers/", "dpsketch/noise/", "urandom", "fractions"),
    ),
    ("bounding and records", ("bounding", "transforms/record", "transforms/ranks")),
    ("the rest of this package", ("beam_dpsketch/",)),
    ("reading (pyarrow)", ("pyarrow", "textio", "filebasedsource")),
    ("waiting for other threads", ("'acquire'", "select", "wait")),
    ("Beam and Python", ("",)),
)


def measure(turns: Turns) -> None:
    """Prints one column per pipeline."""
    elements, rows = turns.sizes(0, 200_000)[1], turns.sizes(0, 8_000_000)[1]
    _, text = sources.columns(elements, 1, pipelines.SEED)
    sources.keep("text", text)
    pairs = [(f"key {key}", item) for item in range(10) for key in range(turns.sizes(0, 5_000)[1])]
    sources.keep("pairs", pairs)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "records.parquet"
        pq.write_table(pipelines.records(rows).select(["address", "port"]), path)

        def read(columns: list[str], step: beam.PTransform) -> None:
            with sources.pipeline() as pipeline:
                _ = pipeline | ReadFromParquetBatched(str(path), columns=columns) | step

        bounded = partial(
            PrivateFrequencies,
            pipelines.SPEC,
            pipelines.PRIVACY,
            item="port",
            privacy_unit=PrivacyId("address", RecordBounds(1, max_weight=1)),
        )
        runs: dict[str, Callable[[], None]] = {
            "text": lambda: pipelines.run("text", str, 1, pipelines.sketch, elements),
            "ports": lambda: read(["port"], pipelines.sketch("port")),
            "addresses": lambda: read(["address"], pipelines.sketch("address")),
            "quantiles": lambda: read(["address"], pipelines.quantiles("address")),
            "bounded": lambda: read(["port", "address"], bounded()),
            "keys": lambda: pipelines.run("pairs", tuple[str, int], 1, pipelines.per_key, len(pairs)),
        }
        shares = {name: _shares(run) for name, run in runs.items()}
    title = (
        f"Where the time goes, percent, profiled. text: {elements:,} elements; keys: {len(pairs) // 10:,} with ten\n"
        f"elements and a release each; the others: {rows:,} rows of Parquet batches, frequencies of a skewed and of a\n"
        "uniform column, quantiles of that, frequencies of the first with the second as privacy id"
    )
    table = Table(title, ("", *shares), (32, -12), bar=0)
    for part, _ in _PARTS:
        table.row(f"  {part}", *(f"{found.get(part, 0.0):.0f}" for found in shares.values()))


def _shares(run: Callable[[], None]) -> dict[str, float]:
    """The percentage of time of each part; the second run, so that imports do not count."""
    run()
    profiler = cProfile.Profile()
    profiler.runcall(run)
    times: dict[str, float] = {}
    statistics = pstats.Stats(profiler).stats  # type: ignore[attr-defined]
    for (path, _, function), (_, _, own, _, _) in statistics.items():
        part = next(part for part, words in _PARTS if any(word in f"{path}:{function}" for word in words))
        times[part] = times.get(part, 0.0) + own
    return {part: 100 * own / sum(times.values()) for part, own in times.items()}
