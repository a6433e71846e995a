"""Pipelines beside the same pipelines with a plain aggregation: elements, text lines, Parquet, keys, windows."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from apache_beam.io.parquetio import ReadFromParquet, ReadFromParquetBatched
from apache_beam.transforms.window import FixedWindows, TimestampedValue

from beam_dpsketch import (
    REPLACE_ONE,
    AssumePublicKeys,
    IntegerDomain,
    IPv4Domain,
    NormBound,
    PrivacyId,
    PrivacySpec,
    Record,
    RecordBounds,
    SketchSpec,
)
from beam_dpsketch.privacy.contributions import Bounds
from beam_dpsketch.transforms import PrivateFrequencies, PrivateQuantiles
from benchmarks import sources
from benchmarks.speed.throughput.turns import Against, Row, Turns

SPEC = SketchSpec(depth=5, width=4096)
SMALL = SketchSpec(depth=5, width=64)
PRIVACY = PrivacySpec(rho=1.0, relation=REPLACE_ONE)
BATCH_ROWS = 50_000
_KEYS = 1_000
SEED = 1
COUNT, SUM = "Count.Globally", "sum of the column"
FREQUENCIES, QUANTILES = "PrivateFrequencies", "PrivateQuantiles"

Aggregate = Callable[[], beam.PTransform]


def sketch(item: str | None = None) -> beam.PTransform:
    """The sketch, with its release."""
    return PrivateFrequencies(SPEC, PRIVACY, item=item, privacy_unit=Record())


def quantiles(item: str | None = None) -> beam.PTransform:
    """The tree over 32 bits, with its release."""
    domain = IPv4Domain() if item is not None else IntegerDomain(0, (1 << 32) - 1)
    return PrivateQuantiles(domain, PRIVACY, item=item, privacy_unit=Record())


def run(pool: str, element_type: Any, rows: int, aggregate: Aggregate, size: int) -> None:
    """One pipeline over `size` records in elements of so many rows."""
    with sources.pipeline() as pipeline:
        _ = pipeline | sources.Elements(pool, size // rows, element_type) | aggregate()


def measure(turns: Turns, trace: Path | None, column: str) -> None:
    """Prints the blocks of pipelines."""
    few, many = turns.sizes(100_000, 500_000)
    _, text = sources.columns(many, 1, SEED)
    numbers = [int(item[-5:]) for item in text]
    sources.keep("integers", numbers)
    sources.keep("text", text)
    for pool, kind, limit in (("integers", int, 1.7), ("text", str, 2.2)):
        aggregates: dict[str, Aggregate] = {
            COUNT: beam.combiners.Count.Globally,
            "Count.PerElement": beam.combiners.Count.PerElement,
            FREQUENCIES: sketch,
        }
        if pool == "integers":
            aggregates["ApproximateQuantiles"] = partial(beam.transforms.stats.ApproximateQuantiles.Globally, 101)
            aggregates[QUANTILES] = quantiles
        rows = [
            Row(
                name, partial(run, pool, kind, 1, step), (few, many), (Against(COUNT, limit),) if step is sketch else ()
            )
            for name, step in aggregates.items()
        ]
        turns.block(f"Elements, {pool}, Zipf; difference of {many:,} and {few:,}", rows)
    with tempfile.TemporaryDirectory() as folder:
        _text_lines(turns, Path(folder), text)
        parquet_batches(turns, Path(folder), trace, column)
        bounded(turns, Path(folder))
    _keyed(turns)
    _windowed(turns)


def _text_lines(turns: Turns, folder: Path, text: list[str]) -> None:
    sizes = turns.sizes(50_000, 250_000)
    for size in sizes:
        (folder / f"{size}.txt").write_text("\n".join(text[:size]) + "\n")
        pq.write_table(pa.table({"page": text[:size]}), folder / f"{size}.parquet")

    def lines(aggregate: Aggregate, size: int) -> None:
        with sources.pipeline() as pipeline:
            _ = pipeline | beam.io.ReadFromText(str(folder / f"{size}.txt")) | aggregate()

    def parquet(aggregate: Aggregate, size: int) -> None:
        with sources.pipeline() as pipeline:
            _ = pipeline | ReadFromParquet(str(folder / f"{size}.parquet")) | aggregate()

    count = beam.combiners.Count.Globally
    rows = [
        Row(COUNT, partial(lines, count), sizes),
        Row(FREQUENCIES, partial(lines, sketch), sizes, (Against(COUNT, 1.2),)),
    ]
    turns.block(f"Lines of a text file; difference of {sizes[1]:,} and {sizes[0]:,}", rows)
    rows = [
        Row(COUNT, partial(parquet, count), sizes),
        Row(FREQUENCIES, partial(parquet, partial(sketch, "page")), sizes),
    ]
    turns.block(f"Rows of a Parquet file, as elements; difference of {sizes[1]:,} and {sizes[0]:,}", rows)


def parquet_batches(turns: Turns, folder: Path, trace: Path | None, column: str) -> None:
    """Prints the blocks of batches: uniform values, and the trace if there is one."""
    sizes = turns.sizes(1_800_000, 7_200_000)
    uniform = records(sizes[1])
    _batches(turns, folder, "uniform values", uniform, "address", sizes, (1.8, 8.0))
    if trace is None:
        print("\nSkipped: the trace (--trace FILE --column NAME)")
        return
    known = pq.read_table(trace)
    many = pa.concat_tables([known] * -(-sizes[1] // len(known))).slice(0, sizes[1]).combine_chunks()
    _batches(turns, folder, "the trace", many, column, sizes, (1.8, 4.0))


def _batches(
    turns: Turns,
    folder: Path,
    title: str,
    all_records: pa.Table,
    column: str,
    sizes: tuple[int, int],
    limits: tuple[float, float],
) -> None:
    for size in sizes:
        pq.write_table(all_records.slice(0, size), folder / f"batches {size}.parquet")

    def read(columns: list[str] | None, aggregate: Aggregate, size: int) -> None:
        with sources.pipeline() as pipeline:
            source = ReadFromParquetBatched(str(folder / f"batches {size}.parquet"), columns=columns)
            _ = pipeline | source | aggregate()

    width = all_records.num_columns
    for what, columns in ((f"records of {width} columns", None), ("that column alone", [column])):
        rows = [
            Row(SUM, partial(read, columns, partial(column_sum, column)), sizes),
            Row(FREQUENCIES, partial(read, columns, partial(sketch, column)), sizes, (Against(SUM, limits[0]),)),
            Row(QUANTILES, partial(read, columns, partial(quantiles, column)), sizes, (Against(SUM, limits[1]),)),
        ]
        turns.block(f"Parquet batches, {title}, {what}; difference of {sizes[1]:,} and {sizes[0]:,}", rows)


def bounded(turns: Turns, folder: Path) -> None:
    """Prints the blocks of privacy ids: most addresses have one record; half of all records are of one port."""
    sizes = turns.sizes(1_800_000, 7_200_000)
    pairs = records(sizes[1]).select(["address", "port"])
    for size in sizes:
        pq.write_table(pairs.slice(0, size), folder / f"pairs {size}.parquet")

    def read(item: str, privacy_id: str, bounds: Bounds, size: int) -> None:
        with sources.pipeline() as pipeline:
            source = pipeline | ReadFromParquetBatched(str(folder / f"pairs {size}.parquet"))
            privacy_unit = PrivacyId(privacy_id, bounds)
            _ = source | PrivateFrequencies(SPEC, PRIVACY, item=item, privacy_unit=privacy_unit)

    addresses, ports = partial(read, "port", "address"), partial(read, "address", "port")
    rows = [
        Row("RecordBounds(1)", partial(addresses, RecordBounds(1)), sizes),
        Row("NormBound(1)", partial(addresses, NormBound(1)), sizes, (Against("RecordBounds(1)", 1.3),)),
    ]
    turns.block(f"Parquet batches, addresses as ids, ports as items; difference of {sizes[1]:,} and {sizes[0]:,}", rows)
    limited = NormBound(100, max_distinct_items=10_000)
    rows = [
        Row("RecordBounds(100)", partial(ports, RecordBounds(100)), sizes),
        Row("NormBound(100)", partial(ports, NormBound(100)), sizes),
        Row("NormBound(100, max_distinct_items=10_000)", partial(ports, limited), sizes),
    ]
    turns.block(f"Parquet batches, ports as ids, addresses as items; difference of {sizes[1]:,} and {sizes[0]:,}", rows)


def records(size: int) -> pa.Table:
    """Connections: a time, a place, a uniform IPv4 address, a protocol and a port."""
    generator = np.random.default_rng(SEED)
    places, protocols = np.array([f"sensor-{place}" for place in range(9)]), np.array(["TCP", "UDP", "ICMP"])
    seconds = 1_700_000_000 + np.cumsum(generator.integers(0, 60, size))
    return pa.table(
        {
            "time": pa.array(seconds * 1000, pa.timestamp("ms")),
            "place": places[generator.integers(0, len(places), size)],
            "address": generator.integers(0, 1 << 32, size, dtype=np.uint32),
            "protocol": protocols[generator.integers(0, len(protocols), size)],
            "port": generator.zipf(1.5, size).astype(np.uint16),
        }
    )


def column_sum(column: str) -> beam.PTransform:
    """The sum of one column of each batch, and of all."""
    return beam.Map(functools.partial(_summed, column)) | beam.CombineGlobally(sum)


def _summed(column: str, batch: pa.Table) -> int:
    return int(batch[column].to_numpy().sum())


def _keyed(turns: Turns) -> None:
    few, many = turns.sizes(100_000, 400_000)
    generator = np.random.default_rng(SEED)
    columns = generator.integers(0, _KEYS, many), generator.integers(0, 999, many)
    sources.keep("pairs", list(zip(*(values.tolist() for values in columns), strict=True)))
    pair = tuple[int, int]
    rows = [
        Row("Count.PerKey", partial(run, "pairs", pair, 1, beam.combiners.Count.PerKey), (few, many)),
        Row("PrivateFrequencies by key 5 x 64", partial(run, "pairs", pair, 1, per_key), (few, many)),
    ]
    turns.block(f"Pairs of {_KEYS:,} keys; difference of {many:,} and {few:,}", rows)


def per_key() -> beam.PTransform:
    """A small sketch for each key, with its release."""
    return PrivateFrequencies(SMALL, PRIVACY, privacy_unit=Record(), keys=AssumePublicKeys())


def _windowed(turns: Turns) -> None:
    few, many = turns.sizes(20_000, 100_000)

    def windowed(aggregate: Aggregate, size: int) -> None:
        with sources.pipeline() as pipeline:
            timed = pipeline | sources.Elements("integers", size, int) | beam.Map(_timed)
            _ = timed | beam.WindowInto(FixedWindows(8_000)) | aggregate()

    rows = [
        Row("Count.Globally in windows", partial(windowed, _count_in_windows), (few, many)),
        Row("PrivateFrequencies in windows", partial(windowed, sketch), (few, many)),
    ]
    turns.block(f"Integers in fixed windows; difference of {many:,} and {few:,}", rows)


def _timed(number: int) -> TimestampedValue:
    return TimestampedValue(number, number)


def _count_in_windows() -> beam.PTransform:
    return beam.combiners.Count.Globally().without_defaults()
