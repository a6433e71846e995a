"""Base classes of domains: finite ordered universes whose values map to positions and back.

A domain's class defines how values are read, written and shown. A new domain is a file and an entry in `DOMAINS`.

Guarantee: `index` preserves order and clamps values outside the universe to its ends. It marks nulls, NaN and values
with another type as unusable, and never raises for them. `values(index(v))` is v up to the domain's resolution.
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
    """Axis for values that are neither numbers nor times. Marks are at round powers of two.

    Attributes:
      place: converts a value to a number. Raises `ValueError` or `TypeError` for values in other domains.
      words: formats a number as the text of a mark.
    """

    place: Callable[[Any], int]
    words: Callable[[float], str]


class Universe(ABC):
    """Set of all possible values. Universes are frozen and comparable.

    The fields of a class are its settings, in the order of release bytes.

    Attributes:
      type_name: name in settings.
      number: unique number of the domain in release bytes, never reused.
      takes: description of readable values, for messages.
      plain_type: type of values in answers.
      parsed: description of text that `parse` reads, for messages.
      written: description of a value in settings, for messages. Only for values that are text.
      column_type: Arrow type to read a CSV column as.
      reads_all: whether every value in a readable column is usable, including text columns.
      is_ordered: whether values are ordered, as ranks and quantiles require.
      scale: axis for the values. `None` for numbers and times, and for values without an order.
      is_logarithmic: whether the axis is logarithmic.
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
        """The domain itself, so that code can use a domain in place of a layout over it."""
        return self

    @property
    @abstractmethod
    def key_type(self) -> np.dtype[Any]:
        """Numpy type of the keys from `index`."""

    @abstractmethod
    def index(self, values: Sequence[Any] | np.ndarray | pa.Array) -> tuple[np.ndarray, np.ndarray]:
        """Convert values to keys, and mark usable values. Keys of unusable values are meaningless."""

    @abstractmethod
    def parse(self, text: str) -> Any:
        """Parse text as a value. Raise `ValueError` or `OverflowError` for other text."""

    @abstractmethod
    def describe(self) -> str:
        """Describe the possible values in a few words."""

    def reads_column(self, kind: pa.DataType) -> bool:
        """Whether an Arrow column with this type can contain usable values."""
        return True

    @abstractmethod
    def is_inside(self, value: Any) -> bool:
        """Whether a usable value is in the universe, and so is not clamped."""

    @abstractmethod
    def is_short_key(self, key: bytes) -> bool:
        """Whether these bytes are a valid key without padding."""

    @abstractmethod
    def from_short_keys(self, keys: Sequence[bytes]) -> list[Any]:
        """Convert keys to plain Python values. `None` where no value exists."""

    def is_cut(self, key: bytes) -> bool:
        """Whether a short key contains only the beginning of a value."""
        return False


class Domain(Universe):
    """Finite ordered universe with at most 2**64 values. The key of a value is its position."""

    doubt: ClassVar[str] = ""
    """Likely mistake if nearly all values are at one end. Empty if no value can be outside."""

    @property
    @abstractmethod
    def size(self) -> int:
        """Number of values, U."""

    @abstractmethod
    def index(self, values: Sequence[Any] | np.ndarray | pa.Array) -> tuple[np.ndarray, np.ndarray]:
        """Convert values to positions in [0, size), uint64, and mark usable values. Others have position 0."""

    @abstractmethod
    def values(self, indices: np.ndarray) -> list[Any]:
        """Convert positions (uint64) to plain Python values."""

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
        """List the settings that other languages need to read and show values. Whole numbers are text."""
        return {"type": self.type_name, "parsed": self.parsed, "size": str(self.size)}

    def is_short_key(self, key: bytes) -> bool:
        return len(key) == _POSITION_BYTES and int.from_bytes(key, "big") < self.size

    def from_short_keys(self, keys: Sequence[bytes]) -> list[Any]:
        return self.values(np.array([int.from_bytes(key, "big") for key in keys], dtype=np.uint64))


def short_keys(keys: Iterable[Any]) -> list[bytes]:
    """Encode keys in few bytes: 8 bytes for a position, or text without padding."""
    return [
        key.to_bytes(_POSITION_BYTES, "big") if isinstance(key, int) else key[:-1][: key[-1] - 1] + key[-1:]
        for key in keys
    ]


def clamp_difference(values: np.ndarray, low: int, high: int) -> np.ndarray:
    """Compute min(max(value, low), high) - low as uint64, for an array with any integer type."""
    limits = np.iinfo(values.dtype)
    if high < limits.min:  # all values are above
        return np.full(len(values), high - low, dtype=np.uint64)
    if low > limits.max:
        return np.zeros(len(values), dtype=np.uint64)
    top = min(high, int(limits.max))
    clamped = np.clip(values, values.dtype.type(max(low, int(limits.min))), values.dtype.type(top))
    return clamped.astype(np.uint64) - np.uint64(low % MAX_SIZE)


def index_numbers(values: Sequence[Any] | np.ndarray | pa.Array, low: int, high: int) -> tuple[np.ndarray, np.ndarray]:
    """Clamp whole numbers to [low, high]. Return their positions, and mark values that are whole numbers."""
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
    """Index a plain column by its distinct values, like values in rows."""
    coded = values if pa.types.is_dictionary(values.type) else values.dictionary_encode()
    positions, usable = index(coded.dictionary.to_pylist())
    if not len(positions):
        return np.zeros(len(values), dtype=np.uint64), np.zeros(len(values), dtype=bool)
    codes = coded.indices.fill_null(0).to_numpy(zero_copy_only=False)
    usable = usable[codes] & np.asarray(values.is_valid())
    return np.where(usable, positions[codes], np.uint64(0)), usable


def read_numbers(values: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Convert a plain column to numbers, and mark its values. No value is marked in columns with another type."""
    if not is_number_type(values.type):
        return np.zeros(len(values), dtype=np.int64), np.zeros(len(values), dtype=bool)
    return values.fill_null(0).to_numpy(zero_copy_only=False), np.asarray(values.is_valid())


def is_number_type(kind: pa.DataType) -> bool:
    """Whether a column with this type contains integers or floats."""
    return pa.types.is_integer(kind) or pa.types.is_floating(kind)


def is_real(value: Any) -> bool:
    """Whether a value is an integer or a float. Durations, which numpy counts among its integers, are neither."""
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, (bool, np.timedelta64))


def unwrap_type(kind: pa.DataType) -> pa.DataType:
    """Unwrap the value type of dictionary and run-end encoded columns."""
    is_wrapped = pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind)
    return unwrap_type(kind.value_type) if is_wrapped else kind


def is_text_type(kind: pa.DataType) -> bool:
    """Whether a column with this type contains text, or only nulls."""
    return kind in (pa.string(), pa.large_string(), pa.string_view(), pa.null())


def has_text_form(kind: pa.DataType) -> bool:
    """Whether the plain form of a column with this type is text, including dates and UUIDs."""
    return is_text_type(kind) or pa.types.is_date(kind) or is_uuid_type(kind)


def is_whole_type(kind: pa.DataType) -> bool:
    """Whether a column with this type contains only whole numbers, or only nulls."""
    return pa.types.is_integer(kind) or (pa.types.is_decimal(kind) and kind.scale <= 0) or pa.types.is_null(kind)


def is_bytes_type(kind: pa.DataType) -> bool:
    """Whether a column with this type contains bytes, or only nulls."""
    return kind in (pa.binary(), pa.large_binary(), pa.binary_view(), pa.null()) or pa.types.is_fixed_size_binary(kind)


def _to_array(values: Sequence[Any]) -> np.ndarray:
    """Convert a list to an integer array if all values fit int64, otherwise to an array of objects."""
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
        if not float(value).is_integer() or (low < value < high and abs(float(value)) >= EXACT):  # or NaN
            return None
    return min(max(int(value), low), high)
