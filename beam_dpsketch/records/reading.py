"""Read elements as columns of records: privacy id, key, item and weight."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from beam_dpsketch.errors import ArgumentTypeError
from beam_dpsketch.hashing.encodings import WORD, decode, encode, encode_all, is_unicode
from beam_dpsketch.hashing.lookup import ItemSet
from beam_dpsketch.privacy.contributions import ContributionLimit
from beam_dpsketch.records.codec import LOST
from beam_dpsketch.records.columns import HASHED, WEIGHTS, Readable, all_valid, batch_column, id_column, parse_weights
from beam_dpsketch.records.groups import dictionary_codes, group_rows, join_pairs, sum_by_pair
from beam_dpsketch.records.items import SketchInput, WeightedItems, by_argument, clamped_by
from beam_dpsketch.records.selectors import Selectors, check_values, make_getter, select_all
from beam_dpsketch.records.unused import Unused

MISSING_KEY = object()
_FIRST = 256


class Columns(NamedTuple):
    """Records by column, as lists or Arrow arrays; `None` for columns that are not read."""

    privacy_ids: Any
    keys: Any
    items: Any
    weights: Any

    def by_argument(self, selectors: Selectors) -> dict[str, Any]:
        """Return those that are read, by argument."""
        items = by_argument(selectors, self.items)
        read = {"privacy_id": self.privacy_ids, "key": self.keys, **items, "weight": self.weights}
        return {argument: values for argument, values in read.items() if values is not None}

    def check_values(self, selectors: Selectors) -> None:
        for argument, values in self.by_argument(selectors).items():
            if isinstance(values, list):
                check_values(argument, values)


class RecordReader:
    """Reads the records of a transform's elements, and which of them have an allowed key."""

    def __init__(
        self, selectors: Selectors, *, per_key: bool, public_keys: tuple[Any, ...] | None = None, by_item: bool = False
    ) -> None:
        self.selectors = selectors
        self.per_key, self.by_item = per_key, by_item
        self.is_batch_type = selectors.is_batch_type
        self._privacy_id = None if selectors.privacy_id is None else make_getter(selectors.privacy_id)
        self._key = None if selectors.key is None else make_getter(selectors.key)
        self._allowed = None if public_keys is None else ItemSet(map(encode, public_keys))

    def split_pair(self, element: Any) -> tuple[Any, Any]:
        """Return key and value of an element; the key is `MISSING_KEY` if it has none."""
        if self._key is not None:
            return self._key(element), element
        if isinstance(element, tuple) and len(element) == 2:
            return element
        return MISSING_KEY, element

    def read_rows(self, elements: list[Any]) -> Columns:
        names, keys, values = self.selectors, None, elements
        if self.per_key:
            keys, values = map(list, zip(*map(self._split_record, elements), strict=True))
        return Columns(
            None if names.privacy_id is None else select_all(names.privacy_id, values),
            keys,
            select_all(names.item, values),
            None if names.weight is None else select_all(names.weight, values),
        )

    def read_privacy_id(self, element: Any) -> Any:
        return None if self._privacy_id is None else self._privacy_id(self._split_record(element)[1])

    def read_batch(self, element: Any, sketch_input: SketchInput | None) -> Columns:
        """Read an element that is a batch; without a sketch input, items must have canonical bytes."""
        names = self.selectors
        return Columns(
            None if names.privacy_id is None else self.read_batch_privacy_ids(element),
            batch_column(element, "key", names.key, HASHED) if self.per_key else None,
            _batch_items(element, names, sketch_input.readables if sketch_input else {"item": HASHED}),
            None if names.weight is None else batch_column(element, "weight", names.weight, WEIGHTS),
        )

    def read_batch_privacy_ids(self, element: Any) -> Any:
        return batch_column(element, "privacy_id", self.selectors.privacy_id, HASHED)

    def _split_record(self, element: Any) -> tuple[Any, Any]:
        """Return key (`None` without keys) and value of an element that is one record."""
        key, value = self.split_pair(element) if self.per_key else (None, element)
        if self.is_batch_type(type(value)):
            raise ArgumentTypeError(
                "", "batches must hold their keys: name the column, as in $selection_of_pages, make no pairs", "E610"
            )
        return key, value

    def encode_keys(self, keys: Any) -> pa.LargeBinaryArray:
        encoded = encode_all(keys)
        if self._allowed is None:
            return encoded
        distinct = encoded.dictionary_encode()
        known = [key if key in self._allowed else None for key in distinct.dictionary.to_pylist()]
        return pa.array(known, pa.large_binary()).take(distinct.indices)

    def normalize_key(self, key: Any) -> Any:
        """Return the key as a plain Python value, or `MISSING_KEY` if it does not count."""
        kind = type(key)
        if kind is str and not is_unicode(key):
            return MISSING_KEY
        if self._allowed is None and (kind in (str, bytes) or (kind is int and -(1 << 63) <= key < WORD)):
            return key  # encoding it would take longer than everything else here
        try:
            encoded = encode(key)
        except (TypeError, ValueError):
            return MISSING_KEY
        if self._allowed is not None and encoded not in self._allowed:
            return MISSING_KEY
        plain = key if type(key) in (str, int, bytes) else decode(encoded)
        return plain if is_unicode(plain) else MISSING_KEY


def find_usable(argument: str, values: Any, reader: RecordReader, sketch_input: SketchInput | None) -> np.ndarray:
    """Return where values of an argument count, by the steps that `read_table` takes, as bool."""
    if argument == "weight":
        return parse_weights(values)[1]
    if argument in reader.selectors.items:
        if sketch_input is None:
            return all_valid(encode_all(values))
        return sketch_input.keys_of(argument, values)[1]
    return all_valid(id_column(values) if argument == "privacy_id" else reader.encode_keys(values))


def usable_by_argument(
    columns: Columns, reader: RecordReader, sketch_input: SketchInput | None
) -> dict[str, np.ndarray]:
    """Return, for each argument that is read, where values count, as bool."""
    read = columns.by_argument(reader.selectors)
    return {name: find_usable(name, values, reader, sketch_input) for name, values in read.items()}


def any_usable(columns: Columns, reader: RecordReader, sketch_input: SketchInput | None) -> dict[str, bool]:
    """Return, for each argument that is read, whether any value counts; few are read if one of the first does."""
    read = columns.by_argument(reader.selectors)
    return {
        name: any(bool(find_usable(name, some, reader, sketch_input).any()) for some in (values[:_FIRST], values))
        for name, values in read.items()
    }


def note_use(
    unused: Unused, kept: int, columns: Columns, reader: RecordReader, sketch_input: SketchInput | None
) -> None:
    """Note how many of the records that were read are kept, and if none ever was, which arguments drop them."""
    if kept and len(reader.selectors.items) == 1:
        unused.anything_counts = True
    elif not unused.anything_counts:
        used = any_usable(columns, reader, sketch_input)
        unused.note_dropped(len(columns.items), used)
        unused.anything_counts = bool(kept) and all(used.values())


def read_table(
    reader: RecordReader, columns: Columns, bounds: ContributionLimit, sketch_input: SketchInput | None
) -> pa.Table:
    """Return the records that count: columns unit (as in `records.columns`), key (if per key), item and weight.

    Where lost weight is told and reading clamps some, the column `lost` says how much of each record.

    Args:
      reader: the reader.
      columns: what it read.
      bounds: clamp the weights; signed weights of `RecordBounds` are left alone, because they are split later.
      sketch_input: turns items into fingerprints; without it they become canonical bytes.
    """
    (privacy_ids, keys, items, weights), lost = columns, {}
    parts = {"unit": id_column(privacy_ids)}
    if reader.per_key:
        parts["key"] = reader.encode_keys(keys)
    parts["item"] = _encode_items(sketch_input, items)
    mask = all_valid(*parts.values())
    values, whole = parse_or_ones(weights, len(items))
    if weights is not None:
        if bounds.has_norm or not bounds.signed:
            clamped = np.clip(values, bounds.min_weight, bounds.max_weight)
            if sketch_input is not None and sketch_input.lost is not None and (values > clamped).any():
                lost = {LOST: pa.array(clamped_by(values, clamped))}
            values = clamped
        mask = mask & whole & (values != 0)
    read = pa.table({**parts, "weight": pa.array(values), **lost})
    if not mask.all():
        columns.check_values(reader.selectors)
        read = read.filter(pa.array(mask))
    return join_pairs(read) if reader.by_item else read


def read_counts(reader: RecordReader, columns: Columns, sketch_input: SketchInput) -> pa.Table:
    """Return the records that count and need no privacy id, as pairs: columns key, item and weight, above 0."""
    parts = {"key": reader.encode_keys(columns.keys)} if reader.per_key else {}
    parts["item"] = _encode_items(sketch_input, columns.items)
    values, mask = parse_or_ones(columns.weights, len(columns.items))
    values = sketch_input.clamp(values)
    mask = mask & all_valid(*parts.values()) & (values > 0)
    if not mask.all():
        columns.check_values(reader.selectors)
    return join_pairs(pa.table({**parts, "weight": pa.array(values)}).filter(pa.array(mask)))


def read_keyed_table(reader: RecordReader, columns: Columns, sketch_input: SketchInput) -> pa.Table:
    """Return the records of a batch that count and need no privacy id: columns key, item and weight."""
    parts = {"key": reader.encode_keys(columns.keys), "item": _encode_items(sketch_input, columns.items)}
    values, mask = parse_or_ones(columns.weights, len(columns.items))
    mask = mask & all_valid(*parts.values())
    if not mask.all():
        columns.check_values(reader.selectors)
    return pa.table({**parts, "weight": pa.array(values)}).filter(pa.array(mask))


def read_single(columns: Columns, sketch_input: SketchInput) -> WeightedItems:
    """Return the records of a batch that count and need neither privacy id nor key."""
    items, weights = columns.items, columns.weights
    if weights is None:
        return sketch_input.contributions(items.drop_null() if isinstance(items, pa.Array) else items, None)
    if isinstance(items, pa.Array) and isinstance(weights, pa.Array):
        mask = all_valid(items, weights)
        items, weights = items.filter(mask), weights.filter(mask)
    return sketch_input.contributions(items, weights)


def _encode_items(sketch_input: SketchInput | None, items: Any) -> pa.Array:
    if sketch_input is None:
        return encode_all(items)
    keys, usable = sketch_input.keys(items)
    return sketch_input.as_column(keys, ~usable)


def _batch_items(batch: Any, selectors: Selectors, readables: Mapping[str, Readable]) -> Any:
    """Return the items of a batch: one column, or several as one, of structs or of tuples."""
    columns = [batch_column(batch, name, each, readables[name]) for name, each in selectors.items.items()]
    if not isinstance(selectors.item, tuple):
        return columns[0]
    if all(isinstance(each, pa.Array) for each in columns):
        return pa.StructArray.from_arrays(columns, [*selectors.items])
    return list(zip(*(each.to_pylist() if isinstance(each, pa.Array) else each for each in columns), strict=True))


def parse_or_ones(weights: Any, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Return weights as `parse_weights` does; without any, each record weighs 1."""
    return (np.ones(size, np.int64), np.ones(size, bool)) if weights is None else parse_weights(weights)


def total_weights(bounded: pa.Table, bounds: ContributionLimit) -> np.ndarray:
    """Return the weights of bounded records, times their copies if they have a column of these."""
    if bounds.has_norm:
        return bounded["weight"].to_numpy()  # scaled by a norm: to clamp them again would undo that
    weights = np.clip(bounded["weight"].to_numpy(), bounds.min_weight, bounds.max_weight)
    return weights * bounded["copies"].to_numpy() if "copies" in bounded.column_names else weights


def split_by_key(
    records: pa.Table, sketch_input: SketchInput, codes: np.ndarray, keys: pa.Array
) -> Iterator[tuple[int, Any, WeightedItems]]:
    """Yield each key, after its place among all, with its items and weights; the code of a record is such a place."""
    order, groups = group_rows(codes, len(keys))
    items = sketch_input.column_keys(records["item"])[order]
    weights = total_weights(records, sketch_input.bounds)[order]
    for place, (encoded, group) in enumerate(zip(keys.to_pylist(), groups, strict=True)):
        key = decode(encoded)
        if is_unicode(key):
            yield place, key, WeightedItems(items[group], weights[group])


def read_units(reader: RecordReader, columns: Columns, sketch_input: SketchInput) -> tuple[int, Iterator[Any]]:
    """Return how many records count, each a unit of its own, and what they add, as `Bounded.contributions` does."""
    if reader.by_item:
        records = read_counts(reader, columns, sketch_input)
        return len(records), sum_by_pair(records["key"], records["weight"].to_numpy())
    if reader.per_key:
        records = read_keyed_table(reader, columns, sketch_input)
        return len(records), split_single(records, sketch_input)
    items = read_single(columns, sketch_input)
    return len(items.keys), iter([items])


def split_single(records: pa.Table, sketch_input: SketchInput) -> Iterator[tuple[Any, WeightedItems]]:
    """Yield each key with its items, weights and side counters, where each record is a unit of its own."""
    codes, keys = dictionary_codes(records["key"])
    order, groups = group_rows(codes, len(keys))
    weights = records["weight"].to_numpy()[order]  # not clamped yet
    for place, key, items in split_by_key(records, sketch_input, codes, keys):
        yield key, items._replace(side=sketch_input.side_of_single(weights[groups[place]]))
