"""Define a domain: a finite ordered universe of values, mapped to positions in it and back.

Guarantee: `index` preserves order and clamps values outside the universe to its ends. It marks nulls, NaN and values
of another type as unusable and never raises for them. `values(index(v))` is v up to the domain's resolution.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from beam_dpsketch._columns import plain_column

MAX_SIZE = 1 << 64


class Domain(ABC):
    """A finite ordered universe of at most 2**64 values. Domains are frozen and comparable.

    Attributes:
      takes: a description of the values that are read, for messages.
      value_types: the types of these values.
    """

    takes: ClassVar[str]
    value_types: ClassVar[tuple[type, ...]]

    @property
    @abstractmethod
    def size(self) -> int:
        """Return the number of values, U."""

    @abstractmethod
    def index(self, values: Sequence[Any] | np.ndarray | pa.Array) -> tuple[np.ndarray, np.ndarray]:
        """Return positions in [0, size), uint64, and where a value was usable, bool; elsewhere the position is 0."""

    def reads_column(self, kind: pa.DataType) -> bool:
        """Return whether an Arrow column of this type can hold usable values."""
        return True

    def reads_type(self, kind: type) -> bool:
        """Return whether the type alone says that values are read; a float that holds a whole number does not count."""
        return issubclass(kind, self.value_types)

    @abstractmethod
    def is_inside(self, value: Any) -> bool:
        """Return whether a usable value is in the universe, so that it is not clamped."""

    @abstractmethod
    def values(self, indices: np.ndarray) -> list[Any]:
        """Return the values at these positions (uint64), as plain Python values."""

    @property
    def bits(self) -> int:
        """Return the number of bits of the largest position."""
        return (self.size - 1).bit_length()


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


def read_numbers(values: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Return a column as numbers, and where it had one: nowhere if it is of another type."""
    values = plain_column(values)
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
    """Clamp a whole number to [low, high]; return `None` for anything else."""
    if not is_real(value):
        return None
    if isinstance(value, (float, np.floating)):
        if value in (float("inf"), float("-inf")):
            return high if value > 0 else low
        if not float(value).is_integer():  # NaN neither
            return None
    return min(max(int(value), low), high)
