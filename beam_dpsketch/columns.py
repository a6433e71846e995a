"""Plain form of values and Arrow columns, so that equal values count alike in rows and in all Arrow types.

A date becomes ISO text, a UUID text with 36 characters, and a whole decimal an integer, in rows and in columns.

Guarantee: chunks, slices, runs, dictionaries and views change no value. Text that is not UTF-8 becomes null, because
Arrow does not check it, and a later read would raise an error that contains the value. The resulting form depends on
the column type and on whether text decodes. No value raises an error.
"""

from __future__ import annotations

import datetime
import decimal
import uuid
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_LARGE = {
    pa.string(): pa.large_string(),
    pa.string_view(): pa.large_string(),
    pa.binary(): pa.large_binary(),
    pa.binary_view(): pa.large_binary(),
    pa.date32(): pa.large_string(),
    pa.date64(): pa.large_string(),
}
_MOST = {str, bytes, int, float, type(None)}
_MAX_DIGITS = 100
_DIGITS_OF_INT64 = 18


def plain_value(value: Any) -> Any:
    """Convert a date or a UUID to text and a whole decimal to an integer. Keep other values.

    Decimals with more than 100 digits are kept too. An Arrow column contains at most 76 digits.
    """
    if type(value) in _MOST:
        return value
    if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
        return datetime.date.isoformat(value)  # a subclass cannot override it
    if isinstance(value, decimal.Decimal):
        number = decimal.Decimal(value)
        is_small = number.is_finite() and number.adjusted() < _MAX_DIGITS
        return int(number) if is_small and number == number.to_integral_value() else value
    return uuid.UUID.__str__(value) if isinstance(value, uuid.UUID) else value


def is_uuid_type(kind: pa.DataType) -> bool:
    """Whether a column of this type contains UUIDs."""
    return getattr(kind, "extension_name", None) == "arrow.uuid"


def plain_column(values: pa.Array | pa.ChunkedArray, *, as_times: bool = False) -> pa.Array:
    """Convert a column to an array of large text, large bytes, a dictionary of these without nulls, or another type.

    Nulls and text that is not UTF-8 become null. With `as_times`, dates become times instead of text, which has four
    digits per year.
    """
    return mask_undecodable(decode(values, as_times=as_times))


def decode(values: pa.Array | pa.ChunkedArray, *, as_times: bool = False) -> pa.Array:
    """Convert like `plain_column`, but keep text that is not UTF-8."""
    chunks = values.chunks if isinstance(values, pa.ChunkedArray) else [values]
    parts = [_decode(chunk, as_times) for chunk in chunks or [pa.nulls(0, values.type)]]
    if len(parts) > 1 and any(_has_null_entry(part) for part in parts):  # Arrow does not join such dictionaries
        parts = [part.dictionary.take(part.indices) for part in parts]
    return parts[0] if len(parts) == 1 else pa.concat_arrays(parts)


def mask_undecodable(values: pa.Array) -> pa.Array:
    """Replace text that is not UTF-8 by null, in the result of `decode`."""
    if not pa.types.is_dictionary(values.type):
        return _mask_undecodable(values)
    distinct = _mask_undecodable(values.dictionary)
    return distinct.take(values.indices) if distinct.null_count else values


def _decode(values: pa.Array, as_times: bool) -> pa.Array:
    """Expand runs and views, and all dictionaries except for text and bytes."""
    if pa.types.is_run_end_encoded(values.type):
        runs = pa.RunEndEncodedArray.from_arrays(values.run_ends, pa.array(np.arange(len(values.values))))
        return _decode(values.values, as_times).take(pc.run_end_decode(runs.slice(values.offset, len(values))))
    if pa.types.is_dictionary(values.type):
        distinct, indices = _decode(values.dictionary, as_times), values.indices.cast(pa.int64(), safe=False)
        if distinct.type in (pa.large_string(), pa.large_binary()):
            return pa.DictionaryArray.from_arrays(indices, distinct, safe=False)  # wide indices for joins
        return distinct.take(indices)
    if as_times and pa.types.is_date(values.type):
        return values.cast(pa.timestamp("s" if pa.types.is_date32(values.type) else "ms"))
    if is_uuid_type(values.type):
        texts = [data and str(uuid.UUID(bytes=data)) for data in values.storage.to_pylist()]
        return pa.array(texts, pa.large_string())
    if pa.types.is_decimal(values.type):
        digits, scale = values.type.precision, values.type.scale
        if values.type.bit_width < 128:  # Arrow supports few operations on these
            values = values.cast(pa.decimal128(digits, scale))
        return values.cast(pa.int64()) if scale <= 0 and digits - scale <= _DIGITS_OF_INT64 else values
    return values.cast(_LARGE[values.type]) if values.type in _LARGE else values


def _has_null_entry(values: pa.Array) -> bool:
    return pa.types.is_dictionary(values.type) and values.dictionary.null_count > 0


def _mask_undecodable(values: pa.Array) -> pa.Array:
    if values.type != pa.large_string():
        return values
    data = values.cast(pa.large_binary())
    try:
        return data.cast(pa.large_string())  # checks all bytes at once
    except pa.ArrowInvalid:
        kept = [value if value is not None and _decodes(value) else None for value in data.to_pylist()]
        return pa.array(kept, pa.large_binary()).cast(pa.large_string())


def _decodes(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True
