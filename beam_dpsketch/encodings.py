"""Canonical bytes of items and settings: distinct items have distinct bytes, across all types.

Guarantee: the bytes are equal in every process, on every platform and in every later version, and `decode` inverts
`encode`. Items are text, bytes, 64-bit integers (signed or unsigned, from Python or numpy) and tuples of these. A date
becomes ISO text, a UUID text, and a whole decimal an integer. Part of the file format.

`canonical` encodes settings, for messages of keyed randomness. Equal settings have equal bytes, in every process, under
every Python version, and after a settings class is renamed. Settings that differ in any field of any part have
different bytes. 1, 1.0 and `Fraction(1)` are equal.
"""

from __future__ import annotations

import dataclasses
import datetime
import enum
import numbers
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from typing import Any, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_dpsketch.columns import plain_value
from beam_dpsketch.errors import ArgumentError, ArgumentTypeError

T = TypeVar("T")
Item: TypeAlias = "str | bytes | int | tuple[Item, ...]"

WORD = 1 << 64
MAX_NESTING = 16
_MICROSECOND = datetime.timedelta(microseconds=1)
_PLAIN = {str, bytes, int, tuple}
_MIN_INT, _MAX_INT = -(1 << 63), WORD - 1
TEXT_TAG, BYTES_TAG, NON_NEGATIVE, NEGATIVE, TUPLE = b"s", b"b", b"u", b"n", b"t"


def encode(item: Any, nesting: int = 0) -> bytes:
    """Encode an item as canonical bytes. Raise `TypeError` or `ValueError` for unsupported items."""
    item = item if type(item) in _PLAIN else plain_value(item)
    if isinstance(item, str):
        return TEXT_TAG + str.encode(item, "utf-8", "surrogatepass")  # a subclass cannot override it
    if isinstance(item, bytes):
        return BYTES_TAG + item
    if isinstance(item, tuple):
        if nesting == MAX_NESTING:
            raise ArgumentError("items", f"must not nest tuples deeper than {MAX_NESTING}", "E615")
        return TUPLE + join_parts([encode(part, nesting + 1) for part in item])
    value = item if type(item) is int and 0 <= item < WORD else to_integer(item)
    return (NEGATIVE if value < 0 else NON_NEGATIVE) + (value % WORD).to_bytes(8, "little")


def decode(data: bytes, nesting: int = 0) -> Item:
    """Invert `encode`. Raise `ValueError` for any other bytes."""
    tag, body = data[:1], data[1:]
    if tag == TEXT_TAG:
        return body.decode("utf-8", "surrogatepass")
    if tag == BYTES_TAG:
        return body
    if tag in (NON_NEGATIVE, NEGATIVE) and len(body) == 8:
        value = int.from_bytes(body, "little", signed=tag == NEGATIVE)
        if tag == NEGATIVE and value >= 0:
            raise ValueError("not the encoding of an item")
        return value
    if tag != TUPLE or nesting == MAX_NESTING:
        raise ValueError("not the encoding of an item")
    return tuple(decode(part, nesting + 1) for part in split_parts(body))


def join_parts(parts: Iterable[bytes]) -> bytes:
    """Join encoded items, each after its length in four bytes."""
    return b"".join([len(part).to_bytes(4, "little") + part for part in parts])


def split_parts(data: bytes) -> list[bytes]:
    """Invert `join_parts`. Raise `ValueError` for any other bytes."""
    parts, start = [], 0
    while start < len(data):
        end = start + 4 + int.from_bytes(data[start : start + 4], "little")
        if len(data) < end:
            raise ValueError("not the encoding of an item")
        parts.append(data[start + 4 : end])
        start = end
    return parts


def is_item(value: Any, nesting: int = 0) -> bool:
    """Whether a value is countable: text, bytes, 64-bit integer, date, UUID, whole decimal, or a tuple of these."""
    value = value if type(value) in _PLAIN else plain_value(value)
    if isinstance(value, (str, bytes)):
        return True
    if isinstance(value, tuple):
        return nesting < MAX_NESTING and all(is_item(part, nesting + 1) for part in value)
    return is_integer(value) and _MIN_INT <= value <= _MAX_INT


def is_unicode(item: Item) -> bool:
    """Whether all text in an item is valid Unicode without lone surrogates, as Beam requires."""
    if isinstance(item, str):
        return item.isascii() or not any("\ud800" <= character <= "\udfff" for character in item)
    return not isinstance(item, tuple) or all(map(is_unicode, item))


def encode_all(items: Sequence[Any] | pa.Array) -> pa.LargeBinaryArray:
    """Encode many items as canonical bytes, with null for unsupported items. Vectorized for items of the same type."""
    if isinstance(items, pa.Array):
        return _encode_column(items)
    if isinstance(items, pa.ChunkedArray):  # as rows, all its values would be dropped
        raise TypeError("a column must be a single array. Combine its chunks first")
    types = set(map(type, items))
    try:
        if types == {str}:
            return _prepend_tag(TEXT_TAG, pa.array(items, pa.large_string()))
        if types == {bytes}:
            return _prepend_tag(BYTES_TAG, pa.array(items, pa.large_binary()))
        if types == {int}:
            return _encode_integers(np.array(items, dtype=np.int64))
    except (UnicodeEncodeError, OverflowError):  # lone surrogates, integers beyond int64
        pass
    return pa.array([encode(item) if is_item(item) else None for item in items], pa.large_binary())


def _encode_column(items: pa.Array) -> pa.LargeBinaryArray:
    kind = items.type
    if pa.types.is_dictionary(kind):
        return encode_all(items.dictionary).take(items.indices)
    if pa.types.is_struct(kind):
        return _encode_tuples(items)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _prepend_tag(TEXT_TAG, items)
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return _prepend_tag(BYTES_TAG, items)
    if pa.types.is_integer(kind):
        encoded = _encode_integers(items.fill_null(0).to_numpy(zero_copy_only=False))
        return pc.if_else(items.is_valid(), encoded, pa.scalar(None, pa.large_binary()))
    return pa.array([encode(item) if is_item(item) else None for item in items.to_pylist()], pa.large_binary())


def _encode_tuples(items: pa.StructArray) -> pa.LargeBinaryArray:
    parts = []
    for column in items.flatten():
        distinct = encode_all(column).dictionary_encode()
        sized = [None if part is None else join_parts([part]) for part in distinct.dictionary.to_pylist()]
        parts.append(pa.array(sized, pa.large_binary()).take(distinct.indices))
    return pc.binary_join_element_wise(pa.scalar(TUPLE, pa.large_binary()), *parts, pa.scalar(b"", pa.large_binary()))


def _prepend_tag(tag: bytes, values: pa.Array) -> pa.LargeBinaryArray:
    binary = pa.large_binary()
    return pc.binary_join_element_wise(pa.scalar(tag, binary), values.cast(binary), pa.scalar(b"", binary))


def _encode_integers(values: np.ndarray) -> pa.LargeBinaryArray:
    packed = np.empty((len(values), 9), dtype=np.uint8)
    packed[:, 0] = np.where(values < 0, NEGATIVE[0], NON_NEGATIVE[0])
    wide = values.astype("<u8" if values.dtype.kind == "u" else "<i8")
    packed[:, 1:] = wide[:, None].view(np.uint8)
    fixed = pa.Array.from_buffers(pa.binary(9), len(values), [None, pa.py_buffer(packed)])
    return fixed.cast(pa.large_binary())


def is_integer(value: Any) -> bool:
    """Whether a value is an integer, but not a bool."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def to_integer(value: Any) -> int:
    """Convert a value to a Python integer. Reject any other type and more than 64 bits."""
    if not is_integer(value):
        raise ArgumentTypeError(
            "items", f"must be text, bytes, 64-bit integers or tuples of these, got {type(value).__name__}", "E615"
        )
    if not _MIN_INT <= value <= _MAX_INT:
        raise ArgumentError("", "Integer items must be at least -2**63 and less than 2**64", "E615")
    return int(value)


_NAMES: dict[type, str] = {type(None): "NoneType"}
"""Name of each settings class in `canonical`."""


def named(name: str) -> Callable[[type[T]], type[T]]:
    """Register a permanent name for a settings dataclass in `canonical`, which remains if the class is renamed.

    Keyed noise and `ReleaseSpec.identify` depend on the name. Therefore names are unique and never change.
    """

    def register(settings: type[T]) -> type[T]:
        if name in _NAMES.values():
            raise ValueError(f"two settings classes have the name {name}")
        _NAMES[settings] = name
        return settings

    return register


def name_of(settings: type) -> str:
    """Find the name of a class in `canonical`. Raise `TypeError` for a class without a name.

    A class derived from a named class has that name followed by its own.
    """
    base = next((each for each in settings.__mro__ if each in _NAMES), None)
    if base is None:
        raise TypeError(f"{settings.__name__} is not a setting")
    own = "" if base is settings else f" {settings.__module__}.{settings.__qualname__}"
    return f"{_NAMES[base]}{own}"


def canonical(value: Any) -> bytes:
    """Encode a setting: a named dataclass, a tuple of settings, or a single value. Raise `TypeError` for others."""
    if isinstance(value, bytes):  # first, because there may be many keys
        return b"b" + value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = [getattr(value, field.name) for field in dataclasses.fields(value) if field.compare]
        return b"d" + join_parts([name_of(type(value)).encode(), *map(canonical, fields)])
    if isinstance(value, tuple):
        return b"t" + join_parts(map(canonical, value))
    if isinstance(value, enum.Enum):
        value = value.value if isinstance(value, enum.Flag) else value.name
    if isinstance(value, datetime.timedelta):
        return b"l" + str(value // _MICROSECOND).encode()
    if isinstance(value, datetime.datetime):
        return b"m" + value.isoformat().encode()
    if isinstance(value, (numbers.Rational, float)):
        return b"n" + str(Fraction(value)).encode()
    if isinstance(value, str):
        return b"s" + value.encode("utf-8", "surrogatepass")
    if value is None:
        return b"0"
    raise TypeError(f"{type(value).__name__} is not a setting")
