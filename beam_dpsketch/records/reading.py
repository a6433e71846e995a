"""Elements to columns of records: who, in which partition, what, how much."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_dpsketch.hashing.encodings import WORD, decode, encode, encode_all, is_unicode
from beam_dpsketch.privacy.contributions import RecordBounds
from beam_dpsketch.records.columns import HASHED, WEIGHTS, all_valid, batch_column
from beam_dpsketch.records.containers import check_values
from beam_dpsketch.records.ids import id_column
from beam_dpsketch.records.items import SketchInput, WeightedItems
from beam_dpsketch.records.selectors import Selectors, reader, select_all
from beam_dpsketch.records.weights import parse_weights

MISSING_KEY = object()


class Columns(NamedTuple):
    """Records by column: lists or Arrow arrays; `None` for those that are not read."""

    privacy_ids: Any
    keys: Any
    items: Any
    weights: Any

    def check_values(self) -> None:
        """Refuses arrays among the values; asked where some are left out."""
        for argument, values in zip(("privacy_id", "key", "item", "weight"), self, strict=True):
            if isinstance(values, list):
                check_values(argument, values)


class RecordReader:
    """Reads elements of one transform: which records they hold, and under which of the allowed keys.

    Args:
      elements: the selectors.
      keyed: whether records have keys.
      public_keys: the only keys allowed, if listed.
    """

    def __init__(self, elements: Selectors, *, keyed: bool, public_keys: tuple[Any, ...] | None = None) -> None:
        self.elements = elements
        self.keyed = keyed
        self.is_batch_type = elements.is_batch_type
        self._item = reader(elements.item)
        self._weight = None if elements.weight is None else reader(elements.weight)
        self._privacy_id = None if elements.privacy_id is None else reader(elements.privacy_id)
        self._key = None if elements.key is None else reader(elements.key)
        self._allowed = None if public_keys is None else {encode(key) for key in public_keys}

    def split(self, element: Any) -> tuple[Any, Any]:
        """Key and value of an element; the key is `MISSING_KEY` if there is none."""
        if self._key is not None:
            return self._key(element), element
        if isinstance(element, tuple) and len(element) == 2:
            return element
        return MISSING_KEY, element

    def columns(self, elements: list[Any]) -> Columns:
        """The columns of elements that are one record each."""
        names, keys, values = self.elements, None, elements
        if self.keyed:
            keys, values = map(list, zip(*map(self._record, elements), strict=True))
        return Columns(
            select_all(names.privacy_id, values) if self._privacy_id else None,
            keys,
            select_all(names.item, values),
            select_all(names.weight, values) if self._weight else None,
        )

    def privacy_id(self, element: Any) -> Any:
        """The privacy id of an element that is one record, `None` if it has none."""
        return None if self._privacy_id is None else self._privacy_id(self._record(element)[1])

    def batch(self, element: Any, recipe: SketchInput | None) -> Columns:
        """The columns of an element that is a batch; without a recipe, items are to be hashed."""
        names = self.elements
        return Columns(
            self.batch_privacy_ids(element) if self._privacy_id else None,
            batch_column(element, "key", names.key, HASHED) if self.keyed else None,
            batch_column(element, "item", names.item, recipe.readable if recipe else HASHED),
            batch_column(element, "weight", names.weight, WEIGHTS) if self._weight else None,
        )

    def batch_privacy_ids(self, element: Any) -> Any:
        """The privacy ids of an element that is a batch."""
        return batch_column(element, "privacy_id", self.elements.privacy_id, HASHED)

    def _record(self, element: Any) -> tuple[Any, Any]:
        """Key (`None` without keys) and value of an element that is one record."""
        key, value = self.split(element) if self.keyed else (None, element)
        if self.is_batch_type(type(value)):
            raise TypeError('batches must hold their keys: name the column with key="..." instead of making pairs')
        return key, value

    def encoded_keys(self, keys: Any) -> pa.LargeBinaryArray:
        """The canonical bytes of keys, null for those that do not count."""
        encoded = encode_all(keys)
        if self._allowed is None:
            return encoded
        allowed = pc.is_in(encoded, value_set=pa.array(sorted(self._allowed), pa.large_binary()))
        return pc.if_else(allowed, encoded, pa.scalar(None, pa.large_binary()))

    def known_key(self, key: Any) -> Any:
        """The key in its plain form, or `MISSING_KEY` if it does not count."""
        kind = type(key)
        if kind is str and not is_unicode(key):
            return MISSING_KEY
        if self._allowed is None and (kind in (str, bytes) or (kind is int and -(1 << 63) <= key < WORD)):
            return key  # without encoding, which takes longer than all else that happens to it here
        try:
            encoded = encode(key)
        except (TypeError, ValueError):
            return MISSING_KEY
        if self._allowed is not None and encoded not in self._allowed:
            return MISSING_KEY
        plain = key if type(key) in (str, int, bytes) else decode(encoded)
        return plain if is_unicode(plain) else MISSING_KEY


def usable(argument: str, values: Any, records: RecordReader, recipe: SketchInput | None) -> np.ndarray:
    """Where values of an argument count, by the steps that `read_table` takes, as bool."""
    if argument == "weight":
        return parse_weights(values)[1]
    if argument == "item":
        return all_valid(encode_all(values) if recipe is None else _hashed(recipe, values))
    return all_valid(id_column(values) if argument == "privacy_id" else records.encoded_keys(values))


def any_usable(columns: Columns, records: RecordReader, recipe: SketchInput | None) -> dict[str, bool]:
    """Whether any value counts, for each argument that is read."""
    read = zip(("privacy_id", "key", "item", "weight"), columns, strict=True)
    return {name: bool(usable(name, values, records, recipe).any()) for name, values in read if values is not None}


def read_table(records: RecordReader, columns: Columns, bounds: RecordBounds, recipe: SketchInput | None) -> pa.Table:
    """The records that count, as columns unit (as `hashing.ids` makes them), key (if keyed), item and weight.

    Args:
      records: the reader.
      columns: what it read.
      bounds: clamp the weights, unless signed: then records are to be netted first.
      recipe: turns items into keys; without it they are canonical bytes.
    """
    privacy_ids, keys, items, weights = columns
    parts = {"unit": id_column(privacy_ids)}
    if records.keyed:
        parts["key"] = records.encoded_keys(keys)
    parts["item"] = encode_all(items) if recipe is None else _hashed(recipe, items)
    mask = all_valid(*parts.values())
    values, whole = _weights(weights, len(items))
    if weights is not None:
        values = values if bounds.signed else np.clip(values, 0, bounds.max_weight)
        mask = mask & whole & (values != 0)
    read = pa.table({**parts, "weight": pa.array(values)})
    if mask.all():
        return read
    columns.check_values()
    return read.filter(pa.array(mask))


def keyed_table(records: RecordReader, columns: Columns, recipe: SketchInput) -> pa.Table:
    """The records of a batch that count and need no privacy id, as columns key, item and weight."""
    parts = {"key": records.encoded_keys(columns.keys), "item": _hashed(recipe, columns.items)}
    values, mask = _weights(columns.weights, len(columns.items))
    mask = mask & all_valid(*parts.values())
    if not mask.all():
        columns.check_values()
    return pa.table({**parts, "weight": pa.array(values)}).filter(pa.array(mask))


def _hashed(recipe: SketchInput, items: Any) -> pa.Array:
    """The keys of items, null for those that cannot be counted."""
    keys, usable = recipe.keys(items)
    if keys.dtype.kind == "S":  # Arrow would read numpy's bytes up to the first zero
        return pa.array(keys.tolist(), pa.large_binary(), mask=~usable)
    return pa.array(keys, mask=~usable)


def _weights(weights: Any, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Weights as int64, 1 if none are read, and where they were whole numbers."""
    return (np.ones(size, np.int64), np.ones(size, bool)) if weights is None else parse_weights(weights)


def total_weights(bounded: pa.Table, bounds: RecordBounds) -> np.ndarray:
    """The weights of bounded records, times their copies if they have a number of these."""
    weights = np.clip(bounded["weight"].to_numpy(), bounds.min_weight, bounds.max_weight)
    return weights * bounded["copies"].to_numpy() if "copies" in bounded.column_names else weights


def by_key(bounded: pa.Table, recipe: SketchInput) -> Iterator[tuple[Any, WeightedItems]]:
    """The contributions of each key in a table."""
    keys = bounded["key"].combine_chunks().dictionary_encode()
    codes = keys.indices.to_numpy(zero_copy_only=False)
    order = np.argsort(codes, kind="stable")
    ends = np.cumsum(np.bincount(codes, minlength=len(keys.dictionary)))
    items = recipe.column_keys(bounded["item"])[order]
    weights = total_weights(bounded, recipe.bounds)[order]
    for encoded, start, end in zip(keys.dictionary.to_pylist(), [0, *ends[:-1]], ends, strict=False):
        key = decode(encoded)
        if is_unicode(key):
            yield key, WeightedItems(items[start:end], weights[start:end])
