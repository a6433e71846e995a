"""PipelineDP beside the same unit, bounds and source: one record a privacy id, from text lines and from Parquet.

PipelineDP counts all records of one public partition, or answers 99 percentiles; here a release holds the frequencies
of all items, or all quantiles. Both keep one record of each id and use Gaussian noise. "Unbounded" reads batches
without privacy ids, Record(): a weaker guarantee, shown as what it is.
"""

from __future__ import annotations

import importlib
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from apache_beam.io.parquetio import ReadFromParquet, ReadFromParquetBatched

from beam_dpsketch import IntegerDomain, PrivacyId, RecordBounds
from beam_dpsketch.transforms import PrivateFrequencies, PrivateQuantiles
from benchmarks import sources
from benchmarks.speed.throughput.pipelines import PRIVACY, SEED, SPEC, sketch
from benchmarks.speed.throughput.turns import Against, Row, Turns

LARGEST = 65_535
BOUNDS = RecordBounds(1)
EPSILON, DELTA = 7.77, 1e-6  # what rho = 1 implies


def measure(turns: Turns) -> None:
    """Prints the blocks beside PipelineDP."""
    try:
        importlib.import_module("pipeline_dp")
    except ImportError:
        print("\nSkipped: PipelineDP is not installed (pip install -e '.[peers]')")
        return
    theirs, ours = turns.sizes(4_000, 20_000), turns.sizes(50_000, 200_000)
    batches = turns.sizes(1_000_000, 4_000_000)
    with tempfile.TemporaryDirectory() as folder:
        for size in {*theirs, *ours, *batches}:
            _write(Path(folder), size, as_text=size not in batches)
        for title, theirs_of, ours_of, unbounded in (
            ("count", _their_count, _our_frequencies, sketch),
            ("99 percentiles", _their_percentiles, _our_quantiles, None),
        ):
            names = {kind: f"PipelineDP, {kind}" for kind in ("text lines", "Parquet rows")}
            rows = [Row(name, partial(_read, folder, kind, theirs_of), theirs) for kind, name in names.items()]
            lines, parquet = names.values()
            for kind, sizes, bar in (
                ("text lines", ours, Against(lines, 12, faster=True)),
                ("Parquet rows", ours, Against(parquet, 12, faster=True)),
                ("Parquet batches", batches, Against(parquet, 100, faster=True)),
            ):
                rows.append(Row(f"ours, {kind}", partial(_read, folder, kind, ours_of), sizes, (bar,)))
            if unbounded:
                rows.append(
                    Row("text lines, read and parsed only", partial(_read, folder, "text lines", _dropped), ours)
                )
                bars = (Against(lines, 300, True), Against(parquet, 300, True))
                rows.append(Row("ours, batches, unbounded", partial(_read_items, folder, unbounded), batches, bars))
            turns.block(f"Beside PipelineDP: {title}, one record a privacy id", rows)


def _write(folder: Path, size: int, as_text: bool) -> None:
    generator = np.random.default_rng(SEED)
    users = generator.permutation(size)
    items = generator.zipf(1.2, size) % (LARGEST + 1)
    if as_text:
        lines = (f"{user},{item}\n" for user, item in zip(users.tolist(), items.tolist(), strict=True))
        (folder / f"{size}.csv").write_text("".join(lines))
    pq.write_table(pa.table({"user": users, "item": items}), folder / f"{size}.parquet")


def _read(folder: str, kind: str, aggregate: Any, size: int) -> None:
    with sources.pipeline() as pipeline:
        if kind == "text lines":
            source = beam.io.ReadFromText(f"{folder}/{size}.csv") | beam.Map(_parsed)
        else:
            reader = ReadFromParquet if kind == "Parquet rows" else ReadFromParquetBatched
            source = reader(f"{folder}/{size}.parquet")
        aggregate(pipeline | "Read" >> source)


def _read_items(folder: str, aggregate: Any, size: int) -> None:
    with sources.pipeline() as pipeline:
        _ = pipeline | ReadFromParquetBatched(f"{folder}/{size}.parquet", columns=["item"]) | aggregate("item")


def _parsed(line: str) -> dict[str, int]:
    user, item = line.split(",")
    return {"user": int(user), "item": int(item)}


def _dropped(rows: beam.PCollection) -> None:
    """What all rows of text lines take before anything is aggregated."""


def _our_frequencies(rows: beam.PCollection) -> None:
    _ = rows | PrivateFrequencies(SPEC, PRIVACY, item="item", privacy_unit=PrivacyId("user", BOUNDS))


def _our_quantiles(rows: beam.PCollection) -> None:
    _ = rows | PrivateQuantiles(IntegerDomain(0, LARGEST), PRIVACY, item="item", privacy_unit=PrivacyId("user", BOUNDS))


def _their_count(rows: beam.PCollection) -> None:
    _their_aggregate(rows, [importlib.import_module("pipeline_dp").Metrics.COUNT])


def _their_percentiles(rows: beam.PCollection) -> None:
    metrics = importlib.import_module("pipeline_dp").Metrics
    _their_aggregate(rows, [metrics.PERCENTILE(percent) for percent in range(1, 100)])


def _their_aggregate(rows: beam.PCollection, metrics: list[Any]) -> None:
    pipeline_dp = importlib.import_module("pipeline_dp")
    accountant = pipeline_dp.NaiveBudgetAccountant(total_epsilon=EPSILON, total_delta=DELTA)
    parameters = pipeline_dp.AggregateParams(
        metrics=metrics,
        noise_kind=pipeline_dp.NoiseKind.GAUSSIAN,
        max_partitions_contributed=1,
        max_contributions_per_partition=1,
        min_value=0,
        max_value=LARGEST,
    )
    extractors = pipeline_dp.DataExtractors(
        partition_extractor=_partition, privacy_id_extractor=_user, value_extractor=_item
    )
    engine = pipeline_dp.DPEngine(accountant, pipeline_dp.BeamBackend())
    _ = engine.aggregate(rows, parameters, extractors, public_partitions=["all"])
    accountant.compute_budgets()


def _partition(row: dict[str, int]) -> str:
    return "all"


def _user(row: dict[str, int]) -> int:
    return row["user"]


def _item(row: dict[str, int]) -> int:
    return row["item"]
