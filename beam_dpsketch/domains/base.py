"""What every domain is: a finite ordered universe of values, and the way to and from positions in it.

Guarantee: `index` preserves order; values outside the universe are clamped to its ends; what is no value at all (a
null, NaN, another type) is marked as unusable, never raised; `value(index(v))` is v up to the domain's resolution.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

MAX_SIZE = 1 << 64


class Domain(ABC):
    """A finite ordered universe of at most 2**64 values. Domains are frozen and comparable.

    Attributes:
      takes: the values that are read, in words.
      value_types: their types.
    """

    takes: ClassVar[str]
    value_types: ClassVar[tuple[type, ...]]

    @property
    @abstractmethod
    def size(self) -> int:
        """How many values there are, U."""

    @abstractmethod
    def index(self, values: Sequence[Any] | np.ndarray | pa.Array) -> tuple[np.ndarray, np.ndarray]:
        """Positions in [0, size), uint64, and where a value was usable (elsewhere the position is 0), bool."""

    def reads_column(self, kind: pa.DataType) -> bool:
        """Whether an Arrow column of this type can hold usable values; of another type, every one would be lost."""
        return True

    def reads_type(self, kind: type) -> bool:
        """Whether values of a Python type are read, by their type alone: integers in floats are not meant."""
        return issubclass(kind, self.value_types)

    @abstractmethod
    def is_inside(self, value: Any) -> bool:
        """Whether a usable value is in the universe, so that it is not clamped."""

    @abstractmethod
    def values(self, indices: np.ndarray) -> list[Any]:
        """The values at these positions (uint64), as plain Python values."""

    @property
    def bits(self) -> int:
        """The binary digits of the largest position."""
        return (self.size - 1).bit_length()


def clamped_difference(values: np.ndarray, low: int, high: int) -> np.ndarray:
    """min(max(value, low), high) - low as uint64, for an array of integers of any type."""
    limits = np.iinfo(values.dtype)
    if high < limits.min:  # every value is above
        return np.full(len(values), high - low, dtype=np.uint64)
    if low > limits.max:
        return np.zeros(len(values), dtype=np.uint64)
    top = min(high, int(limits.max))
    clamped = np.clip(values, values.dtype.type(max(low, int(limits.min))), values.dtype.type(top))
    return clamped.astype(np.uint64) - np.uint64(low % MAX_SIZE)


def whole_numbers(values: Sequence[Any] | np.ndarray | pa.Array, low: int, high: int) -> tuple[np.ndarray, np.ndarray]:
    """Whole numbers as positions in [low, high], clamped, and where they were whole numbers at all."""
    if isinstance(values, pa.Array):
        values, usable = numbers_of_column(values)
    else:
        values = values if isinstance(values, np.ndarray) else _array(values)
        usable = np.full(len(values), values.dtype.kind not in "mM")  # tolist() turns nanoseconds into integers
    positions = np.zeros(len(values), dtype=np.uint64)
    if values.dtype.kind in "iu":
        return np.where(usable, clamped_difference(values, low, high), positions), usable
    for place, value in enumerate(values.tolist()):
        number = _whole(value, low, high)
        if number is None or not usable[place]:
            usable[place] = False
        else:
            positions[place] = number - low
    return positions, usable


def numbers_of_column(values: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """A column as numbers, and where it had one: nowhere if it is of another type."""
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if not is_number_type(values.type):
        return np.zeros(len(values), dtype=np.int64), np.zeros(len(values), dtype=bool)
    return values.fill_null(0).to_numpy(zero_copy_only=False), np.asarray(values.is_valid())


def is_number_type(kind: pa.DataType) -> bool:
    """Whether a column of this type holds integers or floats."""
    return pa.types.is_integer(kind) or pa.types.is_floating(kind)


def is_real(value: Any) -> bool:
    """Whether a value is an integer or a float; numpy counts durations among its integers."""
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, (bool, np.timedelta64))


def type_of_values(kind: pa.DataType) -> pa.DataType:
    """The type of the values in a column, which a dictionary column hides."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _array(values: Sequence[Any]) -> np.ndarray:
    """A list as an integer array if it holds nothing but small integers, else as it is."""
    if set(map(type, values)) == {int}:
        try:
            return np.array(values, dtype=np.int64)
        except OverflowError:
            pass
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def _whole(value: Any, low: int, high: int) -> int | None:
    """A whole number clamped to [low, high]; `None` for anything else."""
    if not is_real(value):
        return None
    if isinstance(value, (float, np.floating)):
        if value != value:
            return None
        if value in (float("inf"), float("-inf")):
            return high if value > 0 else low
        if not float(value).is_integer():
            return None
    return min(max(int(value), low), high)
