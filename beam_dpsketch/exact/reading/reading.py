"""Read elements as columns of records: privacy id, key, item and weight."""

from __future__ import annotations

import functools
from collections.abc import Collection
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from beam_dpsketch.encodings import WORD, decode, encode, encode_all, is_unicode
from beam_dpsketch.errors import ArgumentTypeError
from beam_dpsketch.exact.domains.calendar import Calendar
from beam_dpsketch.exact.domains.spelling import INTEGER
from beam_dpsketch.exact.domains.weights import parse_weights
from beam_dpsketch.exact.hashing.lookup import ItemSet
from beam_dpsketch.exact.reading.codec import LOST_COLUMN
from beam_dpsketch.exact.reading.columns import TIMES, Readable, all_valid, batch_column, id_column, readable_of
from beam_dpsketch.exact.reading.groups import join_pairs
from beam_dpsketch.exact.reading.items import SketchInput, WeightedItems, by_argument, clamped_by
from beam_dpsketch.exact.reading.selectors import Selectors, check_values, column_of, make_getter, select_all
from beam_dpsketch.exact.reading.unreadable import Listing, Tally
from beam_dpsketch.privacy.contributions import ContributionLimit

MISSING_KEY = object()


class Columns(NamedTuple):
    """Records by column, as lists or Arrow arrays. `None` for columns that are not read."""

    privacy_ids: Any
    keys: Any
    items: Any
    weights: Any

    def by_argument(self, selectors: Selectors) -> dict[str, Any]:
        """Columns that are read, by argument."""
        items = by_argument(selectors, self.items)
        read = {"privacy_id": self.privacy_ids, "key": self.keys, **items, "weight": self.weights}
        return {argument: values for argument, values in read.items() if values is not None}

    def take(self, rows: np.ndarray) -> Columns:
        return Columns(*(None if each is None else _taken(each, rows) for each in self))

    def check_values(self, selectors: Selectors) -> None:
        for argument, values in self.by_argument(selectors).items():
            if isinstance(values, list):
                check_values(argument, values)


class RecordReader:
    """Reader of a transform's elements. It drops records with unlisted keys."""

    def __init__(
        self, selectors: Selectors, *, per_key: bool, public_keys: tuple[Any, ...] | None = None, by_item: bool = False
    ) -> None:
        self.selectors = selectors
        self.per_key, self.by_item = per_key, by_item
        self.is_batch_type = selectors.is_batch_type
        self._privacy_id = None if selectors.privacy_id is None else make_getter(selectors.privacy_id)
        self._key = None if selectors.key is None else make_getter(selectors.key)
        self._allowed = None if public_keys is None else ItemSet(map(encode, public_keys))
        columns = zip(*public_keys or (), strict=True) if isinstance(selectors.key, tuple) else [public_keys or ()]
        self._listed = {**dict.fromkeys(selectors.keys, ()), **dict(zip(selectors.keys, columns, strict=False))}

    @property
    def listed_keys(self) -> list[tuple[Any, ...]]:
        """Listed values for each key column."""
        return [*filter(None, self._listed.values())]

    def split_pair(self, element: Any) -> tuple[Any, Any]:
        """Split an element into key and value. The key is `MISSING_KEY` if it has none."""
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

    def read_batch(self, element: Any, sketch_input: SketchInput | None, tally: Tally | None = None) -> Columns:
        """Read a batch. Without a sketch input, items must have canonical bytes."""
        names, readables = self.selectors, self.readables(sketch_input)

        def read(argument: str, selector: Any) -> Any:
            return batch_column(element, argument, selector, readables[argument], tally)

        items = [read(argument, selector) for argument, selector in names.items.items()]
        return Columns(
            None if names.privacy_id is None else read("privacy_id", names.privacy_id),
            self._read_keys(element, readables, tally) if self.per_key else None,
            _joined(items, names) if isinstance(names.item, tuple) else items[0],
            None if names.weight is None else read("weight", names.weight),
        )

    def _read_keys(self, batch: Any, readables: dict[str, Readable], tally: Tally | None) -> Any:
        """Read the key column, or tuples from several columns, null if a part is missing."""
        columns = []
        for argument, selector in self.selectors.keys.items():
            values = batch_column(batch, argument, column_of(selector), readables[argument], tally)
            if isinstance(selector, Calendar):
                values, outside = selector.read(values)
                if tally is not None:
                    tally.leave_out(argument, outside)
            columns.append(values)
        if not isinstance(self.selectors.key, tuple):
            return columns[0]
        keys = _tuples(columns)
        if tally is not None and self._allowed is not None:
            usable = functools.reduce(np.logical_and, map(tally.counting, self.selectors.keys, columns))
            unlisted = usable & ~all_valid(self.encode_keys(keys))
            tally.note_outside("key", int(usable.sum()), int(unlisted.sum()))
        return keys

    def readables(self, sketch_input: SketchInput | None) -> dict[str, Readable]:
        """Look up the requirements for each argument."""
        items = {} if sketch_input is None else sketch_input.readables
        found = {name: readable_of(name, items, self.selectors.opaque) for name in (*self.selectors.fields, "time")}
        for argument, selector in self.selectors.keys.items():
            whole = {"parsed": INTEGER} if {*map(type, self._listed[argument])} == {int} else {}
            found[argument] = TIMES if isinstance(selector, Calendar) else found["key"]._replace(**whole)
        return found

    def tally(self, sketch_input: SketchInput | None, *, time: str | None = None, **others: Any) -> Tally:
        """Create a `Tally` for these arguments and a time column."""
        listings = {} if sketch_input is None else sketch_input.listings
        if (allowed := self._allowed) is not None:
            listings["key"] = Listing(lambda: map(decode, allowed), lambda keys: all_valid(self.encode_keys(keys)))
            for argument, selector in self.selectors.keys.items():
                if argument != "key" and not isinstance(selector, Calendar):
                    listings[argument] = _listing({*self._listed[argument]})
        return Tally(self.readables(sketch_input), {**self.selectors.fields, "time": time}, listings, **others)

    def read_batch_privacy_ids(self, element: Any, tally: Tally | None = None) -> Any:
        readable = readable_of("privacy_id", {}, self.selectors.opaque)
        return batch_column(element, "privacy_id", self.selectors.privacy_id, readable, tally)

    def _split_record(self, element: Any) -> tuple[Any, Any]:
        """Split an element that is a single record into key (`None` without keys) and value."""
        key, value = self.split_pair(element) if self.per_key else (None, element)
        if self.is_batch_type(type(value)):
            raise ArgumentTypeError(
                "", "Batches must contain their keys as a column, not in pairs. Name it: $selection_of_pages", "E610"
            )
        return key, value

    def encode_keys(self, keys: Any) -> pa.LargeBinaryArray:
        encoded = encode_all(keys)
        return encoded if self._allowed is None else _only(self._allowed, encoded)

    def normalize_key(self, key: Any) -> Any:
        """Convert the key to a plain Python value, or to `MISSING_KEY` if it does not count."""
        kind = type(key)
        if kind is str and not is_unicode(key):
            return MISSING_KEY
        if self._allowed is None and (kind in (str, bytes) or (kind is int and -(1 << 63) <= key < WORD)):
            return key  # encoding would dominate the runtime
        try:
            encoded = encode(key)
        except (TypeError, ValueError):
            return MISSING_KEY
        if self._allowed is not None and encoded not in self._allowed:
            return MISSING_KEY
        plain = key if type(key) in (str, int, bytes) else decode(encoded)
        return plain if is_unicode(plain) else MISSING_KEY


def read_table(
    reader: RecordReader, columns: Columns, bounds: ContributionLimit, sketch_input: SketchInput | None
) -> pa.Table:
    """Build a table from usable records: columns unit (as in `records.columns`), key (if per key), item and weight.

    If the release reports clipping loss and reading clamps a weight, the column `lost` contains the removed weight of
    each record.

    Args:
      reader: the reader.
      columns: its output.
      bounds: clamp the weights. Signed weights of `RecordBounds` are not clamped, because they are split later.
      sketch_input: converts items to fingerprints. Without it they become canonical bytes.
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
                lost = {LOST_COLUMN: pa.array(clamped_by(values, clamped))}
            values = clamped
        mask = mask & whole & (values != 0)
    read = pa.table({**parts, "weight": pa.array(values), **lost})
    if not mask.all():
        columns.check_values(reader.selectors)
        read = read.filter(pa.array(mask))
    return join_pairs(read) if reader.by_item else read


def read_units(reader: RecordReader, columns: Columns, sketch_input: SketchInput) -> pa.Table:
    """Build a table from usable records without a privacy id: columns key (if per key), item and unclamped weight.

    By item, the records are pairs with positive, clamped weights.
    """
    parts = {"key": reader.encode_keys(columns.keys)} if reader.per_key else {}
    parts["item"] = _encode_items(sketch_input, columns.items)
    values, mask = parse_or_ones(columns.weights, len(columns.items))
    mask = mask & all_valid(*parts.values())
    if reader.by_item:
        values = sketch_input.clamp(values)
        mask &= values > 0
    if not mask.all():
        columns.check_values(reader.selectors)
    read = pa.table({**parts, "weight": pa.array(values)}).filter(pa.array(mask))
    return join_pairs(read) if reader.by_item else read


def read_single(columns: Columns, sketch_input: SketchInput) -> WeightedItems:
    """Convert a batch's usable records without privacy id or key."""
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


def _only(allowed: ItemSet, encoded: pa.LargeBinaryArray) -> pa.LargeBinaryArray:
    """Replace values that are not allowed by null."""
    distinct = encoded.dictionary_encode()
    known = [value if value in allowed else None for value in distinct.dictionary.to_pylist()]
    return pa.array(known, pa.large_binary()).take(distinct.indices)


def _listing(listed: Collection[Any]) -> Listing:
    allowed = ItemSet(map(encode, listed))
    return Listing(lambda: listed, lambda values: all_valid(_only(allowed, encode_all(values))))


def _tuples(columns: list[Any]) -> Any:
    """Combine key columns in a column with structs, null if a part is null, or in a list of tuples."""
    if not all(isinstance(each, pa.Array) for each in columns):
        return list(zip(*(each.to_pylist() if isinstance(each, pa.Array) else each for each in columns), strict=True))
    columns = [each.dictionary_decode() if pa.types.is_dictionary(each.type) else each for each in columns]
    names = [str(place) for place in range(len(columns))]
    return pa.StructArray.from_arrays(columns, names, mask=pa.array(~all_valid(*columns)))


def _joined(columns: list[Any], selectors: Selectors) -> Any:
    """Combine the items of several metrics in a column with structs or tuples."""
    if all(isinstance(each, pa.Array) for each in columns):
        return pa.StructArray.from_arrays(columns, [*selectors.items])
    return list(zip(*(each.to_pylist() if isinstance(each, pa.Array) else each for each in columns), strict=True))


def _taken(values: Any, rows: np.ndarray) -> Any:
    return values.take(pa.array(rows)) if isinstance(values, pa.Array) else [values[row] for row in rows.tolist()]


def parse_or_ones(weights: Any, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Parse weights like `parse_weights`. Without a column, each record weighs 1."""
    return (np.ones(size, np.int64), np.ones(size, bool)) if weights is None else parse_weights(weights)


def total_weights(bounded: pa.Table, bounds: ContributionLimit) -> np.ndarray:
    """Compute the weights of bounded records, times their copies if counted."""
    if bounds.has_norm:
        return bounded["weight"].to_numpy()  # scaled by a norm, which clamping would undo
    weights = np.clip(bounded["weight"].to_numpy(), bounds.min_weight, bounds.max_weight)
    return weights * bounded["copies"].to_numpy() if "copies" in bounded.column_names else weights
