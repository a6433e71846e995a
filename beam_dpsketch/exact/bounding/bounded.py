"""The result of bounding a shard (clipped records and summary counts), and the protocol for bounding rules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from beam_dpsketch.exact.reading.codec import from_payloads, to_bytes
from beam_dpsketch.exact.reading.groups import Row, dictionary_codes, group_rows, sum_by_pair
from beam_dpsketch.exact.reading.items import SketchInput, WeightedItems
from beam_dpsketch.exact.reading.reading import RecordReader, total_weights
from beam_dpsketch.exact.sums.keyed_sums import KeyedSums
from beam_dpsketch.privacy.contributions import Bounds


class Bounded(NamedTuple):
    """Clipped records with their summary counts.

    Attributes:
      kept: the clipped records, in columns.
      side: a row for each key and window, with a column for each name in `side_names`. `None` without summary counts.
      lost: histogram of clipping loss per unit, followed by the clipped weight if it covers a run. `None` if the
        release has no clipping loss.
      max_norm: the clipping norm, if it is chosen from the data.
      edges: votes per voter, if votes are cast twice. See `vote_rounds`.
      shard: the shard of the ids, in pipelines.
    """

    kept: pa.Table
    side: pa.Table | None = None
    lost: np.ndarray | None = None
    max_norm: Fraction | None = None
    edges: pa.Table | None = None
    shard: bytes = b""

    def contributions(self, reader: RecordReader, sketch_input: SketchInput) -> Iterator[Any]:
        """Yield the summands of the exact counters: (pair, row) by item, sums per key, or items alone."""
        if reader.by_item:
            yield from self.by_pair(sketch_input)
        elif reader.per_key:
            yield self.to_keyed(sketch_input)
        else:
            yield self.to_items(sketch_input)

    def to_items(self, sketch_input: SketchInput) -> WeightedItems:
        """Convert to items, weights and summary counts over all keys."""
        items = sketch_input.column_keys(self.kept["item"])
        counted = sketch_input.bounded(items, total_weights(self.kept, sketch_input.bounds))
        side = sketch_input.side_of(self._side_rows(sketch_input).sum(axis=0), self.lost)
        return counted._replace(side=side, max_norm=self.max_norm)

    def to_keyed(self, sketch_input: SketchInput) -> KeyedSums:
        codes, keys = dictionary_codes(self._all_of("key"))
        side = np.zeros((len(keys), len(sketch_input.side_names)), dtype=np.int64)
        np.add.at(side, codes[len(self.kept) :], self._side_rows(sketch_input))
        places, items = codes[: len(self.kept)].astype(np.int64), sketch_input.column_keys(self.kept["item"])
        weights = total_weights(self.kept, sketch_input.bounds)
        return KeyedSums.of_entries(sketch_input, keys, side, places, items, weights, self.max_norm)

    def by_pair(self, sketch_input: SketchInput) -> Iterator[tuple[bytes, Row]]:
        """Yield each (key, item) pair with its total weight, in units of 2**-scale_bits, and its votes."""
        side = self._side_rows(sketch_input)
        rows = np.zeros((len(self.kept) + len(side), 1 + side.shape[1]), dtype=np.int64)
        rows[: len(self.kept), 0] = total_weights(self.kept, sketch_input.bounds)
        rows[len(self.kept) :, 1:] = side
        return sum_by_pair(self._all_of("key"), rows)

    def by_window(self) -> Iterator[tuple[int, Bounded]]:
        ends, codes = np.unique(self._all_of("window").to_numpy(), return_inverse=True)
        order, groups = group_rows(codes[: len(self.kept)], len(ends))
        kept = self.kept.drop_columns(["window"]).take(pa.array(order))
        side_codes = codes[len(self.kept) :]
        for number, (end, group) in enumerate(zip(ends.tolist(), groups, strict=True)):
            side = None if self.side is None else self.side.filter(pa.array(side_codes == number))
            yield end, Bounded(kept[group], side, max_norm=self.max_norm)

    def _all_of(self, name: str) -> pa.ChunkedArray:
        tables = [self.kept] if self.side is None else [self.kept, self.side]
        return pa.chunked_array([chunk for table in tables for chunk in table[name].chunks], self.kept[name].type)

    def _side_rows(self, sketch_input: SketchInput) -> np.ndarray:
        if self.side is None:
            return np.zeros((0, len(sketch_input.side_names)), dtype=np.int64)
        return np.stack([self.side[name].to_numpy() for name in sketch_input.side_names], axis=1)


class Rule(Protocol):
    """Bounding rule for tables of records. `bound` needs all records of a privacy id in a single table."""

    @property
    def bounds(self) -> Bounds:
        """Contribution bounds per privacy id."""

    def pays_to_prune(self, records: pa.Table, unit_hashes: np.ndarray) -> bool:
        """Whether pruning saves more than it costs, given one hash per record, equal for equal ids."""

    def prune(self, records: pa.Table) -> pa.Table:
        """Shrink a part of the records without changing the result of `bound` for all of them."""

    def bound(self, records: pa.Table) -> Bounded:
        """Clip the records, and compute the summary counts of their ids."""


class MergeTables:
    """Merge encoded tables and prune the result. The rule's final choice does not change."""

    def __init__(self, rule: Rule) -> None:
        self._rule = rule

    def __call__(self, payloads: Iterable[bytes]) -> bytes:
        return to_bytes(self._rule.prune(from_payloads(payloads)))
