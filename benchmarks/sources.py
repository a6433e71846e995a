"""Elements for the benchmarks: made once, before the clock starts, and yielded inside the pipeline by a DoFn.

They wait in a dict of this module, so that pipelines do not carry them in their graph and every variant of a
pipeline reads the same objects.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner

from benchmarks import ordered_data

_POOLS: dict[str, Sequence[Any]] = {}


class Visit(NamedTuple):
    """One record with named fields."""

    user: str
    page: str


def pipeline() -> beam.Pipeline:
    """A pipeline on Beam's FnApiRunner: in memory, one process, one worker."""
    return beam.Pipeline(runner=FnApiRunner(), options=PipelineOptions([]))


def keep(pool: str, elements: Sequence[Any]) -> None:
    """Makes elements available to `Elements(pool)`, out of sight of the garbage collector."""
    _POOLS[pool] = elements
    gc.collect()
    gc.freeze()


class Elements(beam.PTransform):
    """The first `size` elements of a pool, in one bundle."""

    def __init__(self, pool: str, size: int, element_type: Any = Any) -> None:
        super().__init__()
        self._pool, self._size, self._type = pool, size, element_type

    def expand(self, pbegin: Any) -> beam.PCollection:
        source = beam.ParDo(_Yield(self._pool, self._size)).with_output_types(self._type)
        return pbegin | beam.Impulse() | "Yield" >> source


class _Yield(beam.DoFn):
    """An impulse to elements of a pool."""

    def __init__(self, pool: str, size: int) -> None:
        self._pool, self._size = pool, size

    def process(self, element: bytes) -> Iterator[Any]:
        pool = _POOLS[self._pool]
        for place in range(self._size):
            yield pool[place]


def columns(size: int, records_per_user: int, seed: int) -> tuple[list[str], list[str]]:
    """User ids (36 characters, each `records_per_user` times, shuffled) and pages (27 characters, Zipf)."""
    generator = np.random.default_rng(seed)
    users = np.repeat(np.arange(-(-size // records_per_user)), records_per_user)[:size]
    generator.shuffle(users)
    words = generator.integers(0, 1 << 63, size=(len(users), 2), dtype=np.int64)[users]
    ids = [f"{a:016x}-{b:019d}" for a, b in words.tolist()]
    return ids, [f"/encyclopedia/article/{page:05d}" for page in ordered_data.zipf(generator, size).tolist()]


def tables(columns: dict[str, Sequence[Any]], rows: int) -> list[pa.Table]:
    """Columns as tables of so many rows, each with memory of its own: Beam pickles some elements to learn their size.

    A slice would be pickled with the whole that it was cut from.
    """
    size = len(next(iter(columns.values())))
    return [
        pa.table({name: values[start : start + rows] for name, values in columns.items()})
        for start in range(0, size, rows)
    ]
