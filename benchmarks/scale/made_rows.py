"""Batches of rows that a worker makes itself, each from its number and a seed: no file, and no size is too large."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import apache_beam as beam
import numpy as np
import pyarrow as pa

BATCH = 50_000
SKEW = 1.5
"""The share of the first `n` of `N` ids is (n / N) ** (1 / SKEW): the first of a million has one row in 10,000."""
ITEMS = 1 << 20
_HEX = np.frombuffer(b"0123456789abcdef", dtype=np.uint8)
_CHARACTERS = 36


@dataclasses.dataclass(frozen=True)
class Rows:
    """What rows hold.

    Attributes:
      people: how many different ids there are; 0 leaves the column out.
      keys: how many different keys there are, equally frequent; 0 leaves the column out.
      items: items are whole numbers below this, log-uniform: about Zipf(1.0).
      text: whether ids are text of 36 characters, or whole numbers.
      seed: of all batches.
    """

    people: int = 0
    keys: int = 0
    items: int = ITEMS
    text: bool = True
    seed: int = 1

    def batch(self, number: int, size: int = BATCH) -> pa.RecordBatch:
        """Return the batch of this number."""
        generator = np.random.default_rng((self.seed, number))
        columns: dict[str, pa.Array] = {}
        if self.people:
            ids = (self.people * generator.random(size) ** SKEW).astype(np.int64)
            columns["person"] = as_text(ids) if self.text else pa.array(ids)
        if self.keys:
            columns["key"] = pa.array(generator.integers(0, self.keys, size))
        columns["item"] = pa.array(np.exp(generator.random(size) * np.log(self.items)).astype(np.int64))
        return pa.record_batch(columns)


def as_text(ids: np.ndarray) -> pa.Array:
    """Return ids below 2**64 as text of 36 characters, as UUIDs have, without a loop in Python."""
    mixed = ids.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)  # odd, so that different ids stay different
    shifts = np.arange(_CHARACTERS, dtype=np.uint64) * np.uint64(4) % np.uint64(64)
    letters = _HEX[(mixed[:, None] >> shifts) & np.uint64(15)]
    offsets = np.arange(len(ids) + 1, dtype=np.int32) * _CHARACTERS
    return pa.Array.from_buffers(pa.string(), len(ids), [None, pa.py_buffer(offsets), pa.py_buffer(letters)])


class Source(beam.PTransform):
    """Make `size` rows, in batches, on all workers."""

    def __init__(self, rows: Rows, size: int) -> None:
        super().__init__()
        self._rows, self._size = rows, size

    def expand(self, pbegin: beam.Pipeline) -> beam.PCollection:
        numbers = pbegin | "Numbers" >> beam.Create(range(-(-self._size // BATCH))) | beam.Reshuffle()
        return numbers | "Make" >> beam.ParDo(_Make(self._rows, self._size)).with_output_types(pa.RecordBatch)


class _Make(beam.DoFn):
    def __init__(self, rows: Rows, size: int) -> None:
        self._rows, self._size = rows, size

    def process(self, element: int) -> Iterator[pa.RecordBatch]:
        yield self._rows.batch(element, min(BATCH, self._size - element * BATCH))
