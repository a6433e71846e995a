"""Integers between two bounds."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from beam_dpsketch import _validate
from beam_dpsketch.domains.base import MAX_SIZE, Domain, Setting, index_numbers, is_number_type, unwrap_type


@dataclasses.dataclass(frozen=True)
class IntegerDomain(Domain):
    """All integers from low to high, both included; at most 2**64.

    >>> domain = IntegerDomain(-10, 10)
    >>> positions, usable = domain.index([-99, 0, 10, None])
    >>> positions.tolist(), usable.tolist(), domain.values(positions[:3])
    ([0, 10, 20, 0], [True, True, True, False], [-10, 0, 10])
    """

    low: int
    high: int
    type_name = "integer"
    number = 0
    settings: ClassVar[Mapping[str, Setting]] = {
        "low": Setting("whole", "the smallest value"),
        "high": Setting("whole", "the largest value"),
    }
    takes = parsed = "whole numbers"
    plain_type = int
    column_type = pa.int64()
    value_types: ClassVar[tuple[type, ...]] = (int, np.integer)

    def __post_init__(self) -> None:
        _validate.whole_fields(self, "low", "high", low=-(1 << 63), high=MAX_SIZE - 1)
        if not self.low <= self.high or self.size > MAX_SIZE:
            raise ValueError(f"high must be at least low and less than low + 2**64, got {self.low} and {self.high}")

    @property
    def size(self) -> int:
        return self.high - self.low + 1

    def index(self, values: Sequence[Any] | np.ndarray | pa.Array) -> tuple[np.ndarray, np.ndarray]:
        return index_numbers(values, self.low, self.high)

    def reads_column(self, kind: pa.DataType) -> bool:
        return is_number_type(unwrap_type(kind)) or pa.types.is_null(kind)

    def is_inside(self, value: Any) -> bool:
        return bool(self.low <= value <= self.high)

    def parse(self, text: str) -> int:
        return int(text)

    def describe(self) -> str:
        return f"whole numbers {self.low} to {self.high}"

    def values(self, indices: np.ndarray) -> list[int]:
        return [self.low + position for position in indices.tolist()]
