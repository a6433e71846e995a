"""Items to canonical bytes and back: distinct items have distinct bytes, whatever their types.

Guarantee: the same bytes in every process, on every platform and in every later version; `decode` inverts `encode`.
Supported are text, bytes, integers of 64 bits (signed or unsigned, Python's or numpy's) and tuples of these. Part of
the file format.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Item: TypeAlias = "str | bytes | int | tuple[Item, ...]"

WORD = 1 << 64
_INT_LOW, _INT_HIGH = -(1 << 63), WORD - 1
TEXT, BYTES, _NON_NEGATIVE, _NEGATIVE, _TUPLE = b"s", b"b", b"u", b"n", b"t"


def encode(item: Any) -> bytes:
    """The canonical bytes of an item: distinct items have distinct bytes, whatever their types."""
    if isinstance(item, str):
        return TEXT + item.encode("utf-8", "surrogatepass")
    if isinstance(item, bytes):
        return BYTES + item
    if isinstance(item, tuple):
        parts = [encode(part) for part in item]
        return _TUPLE + b"".join(len(part).to_bytes(4, "little") + part for part in parts)
    value = to_integer(item)
    return (_NEGATIVE if value < 0 else _NON_NEGATIVE) + (value % WORD).to_bytes(8, "little")


def decode(data: bytes) -> Item:
    """The item that `encode` turned into these bytes; `ValueError` for any others."""
    tag, body = data[:1], data[1:]
    if tag == TEXT:
        return body.decode("utf-8", "surrogatepass")
    if tag == BYTES:
        return body
    if tag in (_NON_NEGATIVE, _NEGATIVE) and len(body) == 8:
        return int.from_bytes(body, "little", signed=tag == _NEGATIVE)
    if tag != _TUPLE:
        raise ValueError("not the encoding of an item")
    parts = []
    while body:
        end = 4 + int.from_bytes(body[:4], "little")
        if len(body) < 4 or len(body) < end:
            raise ValueError("not the encoding of an item")
        parts.append(decode(body[4:end]))
        body = body[end:]
    return tuple(parts)


def is_item(value: Any) -> bool:
    """Whether a value can be counted: text, bytes, a 64-bit integer or a tuple of these."""
    if isinstance(value, (str, bytes)):
        return True
    if isinstance(value, tuple):
        return all(map(is_item, value))
    return is_integer(value) and _INT_LOW <= value <= _INT_HIGH


def encode_all(items: Sequence[Any]) -> pa.LargeBinaryArray:
    """The canonical bytes of many items, null where one cannot be encoded; vectorised for one type."""
    types = set(map(type, items))
    if types == {str}:
        try:
            text = pa.array(items, pa.large_string()).cast(pa.large_binary())
        except (UnicodeEncodeError, pa.ArrowInvalid):
            return _one_by_one(items)
        empty = pa.scalar(b"", pa.large_binary())
        return pc.binary_join_element_wise(pa.scalar(TEXT, pa.large_binary()), text, empty)
    if types == {int}:
        try:
            values = np.array(items, dtype="<i8")
        except OverflowError:
            return _one_by_one(items)
        packed = np.empty((len(items), 9), dtype=np.uint8)
        packed[:, 0] = np.where(values < 0, _NEGATIVE[0], _NON_NEGATIVE[0])
        packed[:, 1:] = values[:, None].view(np.uint8)
        fixed = pa.Array.from_buffers(pa.binary(9), len(items), [None, pa.py_buffer(packed)])
        return fixed.cast(pa.large_binary())
    return _one_by_one(items)


def _one_by_one(items: Sequence[Any]) -> pa.LargeBinaryArray:
    return pa.array([encode(item) if is_item(item) else None for item in items], pa.large_binary())


def is_integer(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def to_integer(value: Any) -> int:
    """The value as an integer of 64 bits."""
    if not is_integer(value):
        raise TypeError(f"items must be text, bytes, 64-bit integers or tuples of these, got {type(value).__name__}")
    if not _INT_LOW <= value <= _INT_HIGH:
        raise ValueError("integer items must be at least -2**63 and less than 2**64")
    return int(value)
