"""Define a domain: a finite ordered universe of values, mapped to positions in it and back.

A domain answers for itself. Whoever reads, writes or shows values asks its class, so a new one is a file and a line in
`DOMAINS`.

Guarantee: `index` preserves order and clamps values outside the universe to its ends. It marks nulls, NaN and values
of another type as unusable and never raises for them. `values(index(v))` is v up to the domain's resolution.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa

from beam_dpsketch.columns import is_uuid_type, plain_column, plain_value

MAX_SIZE = 1 << 64
_POSITION_BYTES = 8
EXACT = 1 << 53
"""From here on, floats are whole numbers that may have lost their last digits."""


class AxisScale(NamedTuple):
    """Values on an axis of a picture, where they are neither numbers nor times; marks are at round powers of two.

    Attributes:
      place: turns a value into a number; raises `ValueError` or `TypeError` for values of other domains.
      words: turns a number into the text of a mark.
    """

    place: Callable[[Any], int]
    words: Callable[[float], str]


class Universe(ABC):
    """All values that there can be. Universes are frozen and comparable.

    The fields of a class are its settings, and their order is that of the bytes of releases.

    Attributes:
      type_name: what settings call it.
      number: its place among the domains in the bytes of releases, which no other one ever gets.
      takes: a description of the values that are read, for messages.
      plain_type: the type of values in answers.
      parsed: a description of what `parse` reads, for messages.
      written: a description of a value in settings, for messages; of values that are text.
      column_type: the type that a column of CSV is read as.
      reads_all: whether every value of a column that is read, of text too, is usable.
      is_ordered: whether values have an order, so that ranks and quantiles make sense.
      scale: how values lie on an axis; `None` for numbers and times, which need no help, and for what has no order.
      is_logarithmic: whether they lie there by their logarithms.
    """

    type_name: ClassVar[str]
    number: ClassVar[int]
    takes: ClassVar[str]
    plain_type: ClassVar[type]
    parsed: ClassVar[str]
    written: ClassVar[str]
    column_type: ClassVar[pa.DataType] = pa.large_string()
    reads_all: ClassVar[bool] = True
    is_ordered: ClassVar[bool] = True
    scale: ClassVar[AxisScale | None] = None
    is_logarithmic: ClassVar[bool] = False

    @property
    def domain(self) -> Universe:
        """Return the domain itself, so that a domain stands where a layout over it may stand too."""
        return self

    @property
    @abstractmethod
    def key_type(self) -> np.dtype[Any]:
        """Return the numpy type of what `index` returns."""

    @abstractmethod
    def index(self, values: Sequence[Any] | np.ndarray | pa.Array) -> tuple[np.ndarray, np.ndarray]:
        """Return the key of each value, and where a value was usable; elsewhere the key means nothing."""

    @abstractmethod
    def parse(self, text: str) -> Any:
        """Return the value that a text stands for; raise `ValueError` or `OverflowError` for other text."""

    @abstractmethod
    def describe(self) -> str:
        """Return which values there are, in a few words."""

    def reads_column(self, kind: pa.DataType) -> bool:
        """Return whether an Arrow column of this type can hold usable values."""
        return True

    @abstractmethod
    def is_inside(self, value: Any) -> bool:
        """Return whether a usable value is in the universe, so that it is not clamped."""

    @abstractmethod
    def is_short_key(self, key: bytes) -> bool:
        """Return whether these are the bytes of a key, without what it is filled up with."""

    @abstractmethod
    def from_short_keys(self, keys: Sequence[bytes]) -> list[Any]:
        """Return the values with these keys, as plain Python values; `None` where there is none."""

    def is_cut(self, key: bytes) -> bool:
        """Return whether a short key holds only the beginning of a value."""
        return False


class Domain(Universe):
    """A finite ordered universe of at most 2**64 values; the key of a value is its position."""

    doubt: ClassVar[str] = ""
    """What may be wrong if nearly all values are at one end; empty where none can lie outside."""

    @property
    @abstractmethod
    def size(self) -> int:
        """Return the number of values, U."""

    @abstractmethod
    def index(self, values: Sequence[Any] | np.ndarray | pa.Array) -> tuple[np.ndarray, np.ndarray]:
        """Return positions in [0, size), uint64, and where a value was usable, bool; elsewhere the position is 0."""

    @abstractmethod
    def values(self, indices: np.ndarray) -> list[Any]:
        """Return the values at these positions (uint64), as plain Python values."""

    @property
    def key_type(self) -> np.dtype[Any]:
        return np.dtype(np.uint64)

    @property
    def last(self) -> Any:
        return self.values(np.array([self.size - 1], dtype=np.uint64))[0]

    @property
    def bits(self) -> int:
        return (self.size - 1).bit_length()

    def reading(self) -> dict[str, Any]:
        """Return all that a program in another language needs to read and show values, with whole numbers as text."""
        return {"type": self.type_name, "parsed": self.parsed, "size": str(self.size)}

    def is_short_key(self, key: bytes) -> bool:
        return len(key) == _POSITION_BYTES and int.from_bytes(key, "big") < self.size

    def from_short_keys(self, keys: Sequence[bytes]) -> list[Any]:
        return self.values(np.array([int.from_bytes(key, "big") for key in keys], dtype=np.uint64))


def short_keys(keys: Iterable[Any]) -> list[bytes]:
    """Return keys of a domain in few bytes: a position in 8, text without what it is filled up with."""
    return [
        key.to_bytes(_POSITION_BYTES, "big") if isinstance(key, int) else key[:-1][: key[-1] - 1] + key[-1:]
        for key in keys
    ]


def clamp_difference(values: np.ndarray, low: int, high: int) -> np.ndarray:
    """Return min(max(value, low), high) - low as uint64, for an array of integers of any type."""
    limits = np.iinfo(values.dtype)
    if high < limits.min:  # every value is above
        return np.full(len(values), high - low, dtype=np.uint64)
    if low > limits.max:
        return np.zeros(len(values), dtype=np.uint64)
    top = min(high, int(limits.max))
    clamped = np.clip(values, values.dtype.type(max(low, int(limits.min))), values.dtype.type(top))
    return clamped.astype(np.uint64) - np.uint64(low % MAX_SIZE)


def index_numbers(values: Sequence[Any] | np.ndarray | pa.Array, low: int, high: int) -> tuple[np.ndarray, np.ndarray]:
    """Clamp whole numbers to [low, high]; return their positions there, and where a value was a whole number."""
    if isinstance(values, pa.Array):
        values = plain_column(values)
        if pa.types.is_decimal(values.type):
            return index_distinct(values, lambda distinct: index_numbers(distinct, low, high))
        values, usable = read_numbers(values)
    else:
        values = values if isinstance(values, np.ndarray) else _to_array(values)
        usable = np.full(len(values), values.dtype.kind not in "mM")  # tolist() turns nanoseconds into integers
    positions = np.zeros(len(values), dtype=np.uint64)
    if values.dtype.kind in "iu":
        return np.where(usable, clamp_difference(values, low, high), positions), usable
    for place, value in enumerate(values.tolist()):
        number = _clamp_whole(value, low, high)
        if number is None or not usable[place]:
            usable[place] = False
        else:
            positions[place] = number - low
    return positions, usable


def index_distinct(
    values: pa.Array, index: Callable[[list[Any]], tuple[np.ndarray, np.ndarray]]
) -> tuple[np.ndarray, np.ndarray]:
    """Index a plain column by its distinct values, as rows hold them."""
    coded = values if pa.types.is_dictionary(values.type) else values.dictionary_encode()
    positions, usable = index(coded.dictionary.to_pylist())
    if not len(positions):
        return np.zeros(len(values), dtype=np.uint64), np.zeros(len(values), dtype=bool)
    codes = coded.indices.fill_null(0).to_numpy(zero_copy_only=False)
    usable = usable[codes] & np.asarray(values.is_valid())
    return np.where(usable, positions[codes], np.uint64(0)), usable


def read_numbers(values: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Return a plain column as numbers, and where it had one: nowhere if it is of another type."""
    if not is_number_type(values.type):
        return np.zeros(len(values), dtype=np.int64), np.zeros(len(values), dtype=bool)
    return values.fill_null(0).to_numpy(zero_copy_only=False), np.asarray(values.is_valid())


def is_number_type(kind: pa.DataType) -> bool:
    """Return whether a column of this type holds integers or floats."""
    return pa.types.is_integer(kind) or pa.types.is_floating(kind)


def is_real(value: Any) -> bool:
    """Return whether a value is an integer or a float; numpy counts durations among its integers."""
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, (bool, np.timedelta64))


def unwrap_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of the values in a column, which dictionaries and runs hide."""
    is_wrapped = pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind)
    return unwrap_type(kind.value_type) if is_wrapped else kind


def is_text_type(kind: pa.DataType) -> bool:
    """Return whether a column of this type holds text, or nothing."""
    return kind in (pa.string(), pa.large_string(), pa.string_view(), pa.null())


def has_text_form(kind: pa.DataType) -> bool:
    """Return whether the plain form of a column of this type is text: of dates and UUIDs too."""
    return is_text_type(kind) or pa.types.is_date(kind) or is_uuid_type(kind)


def is_whole_type(kind: pa.DataType) -> bool:
    """Return whether a column of this type holds whole numbers alone, or nothing."""
    return pa.types.is_integer(kind) or (pa.types.is_decimal(kind) and kind.scale <= 0) or pa.types.is_null(kind)


def is_bytes_type(kind: pa.DataType) -> bool:
    """Return whether a column of this type holds bytes, or nothing."""
    return kind in (pa.binary(), pa.large_binary(), pa.binary_view(), pa.null()) or pa.types.is_fixed_size_binary(kind)


def _to_array(values: Sequence[Any]) -> np.ndarray:
    """Convert a list to an integer array if all values fit int64, else to an array of objects."""
    if set(map(type, values)) == {int}:
        try:
            return np.array(values, dtype=np.int64)
        except OverflowError:
            pass
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def _clamp_whole(value: Any, low: int, high: int) -> int | None:
    value = plain_value(value)
    if not is_real(value):
        return None
    if isinstance(value, (float, np.floating)):
        if value in (float("inf"), float("-inf")):
            return high if value > 0 else low
        if not float(value).is_integer() or (low < value < high and abs(float(value)) >= EXACT):  # NaN neither
            return None
    return min(max(int(value), low), high)
