"""What items weigh, by key: in all records of a public sample, and in what the bounds keep of it.

It is exact, so it is for public data alone.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_dpsketch.answers.rows import as_list
from beam_dpsketch.domains.base import short_keys
from beam_dpsketch.frames.steps.plan import tally_of
from beam_dpsketch.frames.steps.tables import TableParts
from beam_dpsketch.hashing.encodings import decode, encode, is_unicode
from beam_dpsketch.records.groups import dictionary_codes, group_rows, split_pair
from beam_dpsketch.records.reading import parse_or_ones
from beam_dpsketch.records.release_spec import ReleaseSpec

_NO_KEY = b""


class Weights(NamedTuple):
    """The items of one key, and what each weighs.

    Attributes:
      items: their short keys, each once, ascending; of an ordered domain in the order of values.
      weights: float64 of shape (items,).
      places: where each is first, in all records; int64 of shape (items,).
    """

    items: pa.Array
    weights: np.ndarray
    places: np.ndarray

    def largest(self, k: int) -> Weights:
        """Return the k items that weigh most, largest first; those that come first of equal ones."""
        order = np.lexsort((self.places, -self.weights))[:k]
        return Weights(self.items.take(pa.array(order)), self.weights[order], self.places[order])

    def of(self, items: pa.Array) -> np.ndarray:
        """Return the weight of each of some items, 0 where there is none."""
        found = pc.index_in(items, value_set=self.items)
        return np.append(self.weights, 0.0)[found.fill_null(len(self.weights)).to_numpy()]

    @property
    def positions(self) -> np.ndarray:
        """The items of an ordered domain, uint64."""
        return np.array([int.from_bytes(key, "big") for key in self.items.to_pylist()], dtype=np.uint64)

    def quantile(self, domain: Any, share: float) -> Any:
        """Return the smallest value whose rank is the share of the weight, or more; `None` without weight."""
        ranks = np.cumsum(self.weights)
        if not len(ranks) or ranks[-1] <= 0:
            return None
        reached = (self.weights > 0) & (ranks >= share * ranks[-1] * (1 - 2.0**-40))
        return domain.from_short_keys([self.items[int(np.argmax(reached))].as_py()])[0]


NOTHING = Weights(pa.nulls(0, pa.large_binary()), np.zeros(0), np.zeros(0, dtype=np.int64))


class Sample(NamedTuple):
    """What is exactly in a sample.

    Attributes:
      by_key: the weights of each key; `None` is the key where there are none.
      weight: of all records that can be counted, each 0 or more.
      records: how many there are.
      unused: how many of them cannot be counted.
      outside: how many lie outside of the domain, and count at its ends.
      items: the items of all records, in parts.
    """

    by_key: dict[Any, Weights]
    weight: float
    records: int
    unused: int
    outside: int
    items: list[Any]

    @classmethod
    def of(cls, declared: ReleaseSpec, table: TableParts) -> Sample:
        """Return what is in a table."""
        reader, sketch_input, items = declared.reader, declared.sketch_input, []
        tally = tally_of(declared, table)
        tables, weight, size, unused, outside = [], 0.0, 0, 0, 0
        for part in table.parts:
            columns = reader.read_batch(part, sketch_input, tally)
            positions, usable = sketch_input.keys(columns.items)  # of several metrics, where any counts
            for argument, values in columns.by_argument(reader.selectors).items():
                usable = usable if argument in reader.selectors.items else usable & tally.counting(argument, values)
            weights, _ = parse_or_ones(columns.weights, len(columns.items))
            encoded = reader.encode_keys(columns.keys) if declared.is_keyed else _repeated(_NO_KEY, len(usable))
            counted = usable & (weights != 0)
            of_items = sketch_input.as_column(positions[counted])
            places = size + np.flatnonzero(counted)
            tables.append(_add_up(_records(encoded.filter(counted), of_items, weights[counted], places)))
            weight += float(np.maximum(weights[usable], 0).sum(dtype=np.float64))
            size, unused = size + len(usable), unused + int(np.count_nonzero(~usable))
            outside += _count_outside(declared.spec.domain, columns.items, positions, usable)
            items.append(columns.items)
        found = _by_key(_shortened(_add_up(pa.concat_tables(tables))), declared) if tables else {}
        return cls(found, weight, size, unused, outside, items)

    def values(self, places: np.ndarray) -> list[Any]:
        """Return the items of the records at these places, as plain Python values."""
        ends = np.cumsum([len(each) for each in self.items])
        parts = np.searchsorted(ends, places, side="right")
        starts = np.append(0, ends)[parts]
        return [
            as_list(self.items[part][place : place + 1])[0]
            for part, place in zip(parts.tolist(), (places - starts).tolist(), strict=True)
        ]


def kept_weights(declared: ReleaseSpec, contributed: Iterable[Any]) -> dict[Any, Weights]:
    """Return the weight that the bounds keep of each item, by key, given what adds up in the global window."""
    sketch_input, tables = declared.sketch_input, []
    one = 1 << sketch_input.scale_bits
    if declared.count.by_item:
        pairs = [(*split_pair(pair, per_key=declared.is_keyed), row[0] / one) for _, (pair, row) in contributed]
        keys, items, weights = map(list, zip(*pairs, strict=True)) if pairs else ([], [], [])
        arrays = pa.array(keys, pa.large_binary()), pa.array(items, pa.large_binary())
        return _by_key(_add_up(_records(*arrays, np.array(weights), np.zeros(len(pairs), np.int64))), declared)
    for _, each in contributed:
        key, items = each if declared.is_keyed else (None, each)
        size, encoded = len(items.keys), encode(key) if declared.is_keyed else _NO_KEY
        column = sketch_input.as_column(items.keys)
        tables.append(_records(_repeated(encoded, size), column, items.weights / one, np.zeros(size, np.int64)))
    return _by_key(_shortened(_add_up(pa.concat_tables(tables))), declared) if tables else {}


def of_metric(declared: ReleaseSpec, contributed: Iterable[Any], name: str) -> Iterator[Any]:
    """Yield of what adds up what goes into the counters of one metric."""
    for window, each in contributed:
        key, items = each if declared.is_keyed else (None, each)
        own = declared.count.split(items)[name]
        yield window, (key, own) if declared.is_keyed else own


def _repeated(key: bytes, size: int) -> pa.Array:
    return pa.repeat(pa.scalar(key, pa.large_binary()), size)


def _records(keys: pa.Array, items: pa.Array, weights: np.ndarray, places: np.ndarray) -> pa.Table:
    columns = {"key": keys, "item": items, "weight": weights.astype(np.float64), "place": places}
    return pa.table(columns)


def _add_up(records: pa.Table) -> pa.Table:
    """Return each pair of key and item once, with the sum of its weights and its first place."""
    sums = records.group_by(["key", "item"]).aggregate([("weight", "sum"), ("place", "min")])
    return sums.select(["key", "item", "weight_sum", "place_min"]).rename_columns(records.column_names)


def _shortened(records: pa.Table) -> pa.Table:
    codes, items = dictionary_codes(records["item"])
    short = pa.array(short_keys(items.to_pylist()), pa.large_binary())
    return records.set_column(1, "item", short.take(pa.array(codes)))


def _by_key(records: pa.Table, declared: ReleaseSpec) -> dict[Any, Weights]:
    """Return what is known of each key, in the order of their places."""
    ordered = records.sort_by("item").combine_chunks()
    codes, keys = dictionary_codes(ordered["key"])
    order, groups = group_rows(codes, len(keys))
    ordered, found = ordered.take(pa.array(order)).combine_chunks(), {}
    for encoded, group in zip(keys.to_pylist(), groups, strict=True):
        key = decode(encoded) if declared.is_keyed else None
        if key is None or is_unicode(key):
            each = ordered[group].combine_chunks()
            items, weights, places = (each[name] for name in ("item", "weight", "place"))
            found[key] = Weights(items.combine_chunks(), weights.to_numpy(), places.to_numpy())
    return found


def _count_outside(domain: Any, items: Any, positions: np.ndarray, usable: np.ndarray) -> int:
    """Return how many records lie outside of a domain that has an order."""
    if domain is None or not domain.is_ordered:
        return 0
    at_ends = usable & ((positions == 0) | (positions == positions.max(initial=0)))
    values = Counter(itertools.compress(as_list(items), at_ends.tolist()))
    return sum(count for value, count in values.items() if not domain.is_inside(value))
