"""Real numbers on a declared grid."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from beam_dpsketch import _validate
from beam_dpsketch.domains.base import Domain, is_number_type, is_real, numbers_of_column, type_of_values


@dataclasses.dataclass(frozen=True)
class FloatDomain(Domain):
    """low, low + resolution, ... up to high; a number stands for the nearest grid point. At most 2**53 points.

    Infinities are clamped like other numbers outside; NaN is not usable.

    >>> domain = FloatDomain(0.0, 1.0, resolution=0.25)
    >>> domain.values(domain.index([0.3, 7.0, float("nan")])[0])
    [0.25, 1.0, 0.0]
    """

    low: float
    high: float
    resolution: float
    takes: ClassVar[str] = "numbers"
    value_types: ClassVar[tuple[type, ...]] = (int, float, np.integer, np.floating)

    def __post_init__(self) -> None:
        _validate.positive_finite(resolution=self.resolution)
        for name in ("low", "high", "resolution"):
            object.__setattr__(self, name, float(getattr(self, name)))
        if not math.isfinite(self.low) or not math.isfinite(self.high) or not self.low < self.high:
            raise ValueError(f"low and high must be finite and low less than high, got {self.low} and {self.high}")
        if not (self.high - self.low) / self.resolution < 2**53 - 1:
            raise ValueError("resolution must leave at most 2**53 grid points between low and high")

    @property
    def size(self) -> int:
        return round((self.high - self.low) / self.resolution) + 1

    def index(self, values: Sequence[Any] | np.ndarray | pa.Array) -> tuple[np.ndarray, np.ndarray]:
        present: np.ndarray | bool = True
        if isinstance(values, pa.Array):
            numbers, present = numbers_of_column(values)
        elif isinstance(values, np.ndarray) and values.dtype.kind in "iuf":
            numbers = values
        else:
            numbers = np.array(list(map(_number, values)), dtype=float)
        numbers = numbers.astype(np.float64)
        usable = ~np.isnan(numbers) & present
        clamped = np.clip(np.where(usable, numbers, self.low), self.low, self.high)
        return np.rint((clamped - self.low) / self.resolution).astype(np.uint64), usable

    def reads_column(self, kind: pa.DataType) -> bool:
        return is_number_type(type_of_values(kind)) or pa.types.is_null(kind)

    def is_inside(self, value: Any) -> bool:
        return bool(self.low <= value <= self.high)

    def values(self, indices: np.ndarray) -> list[float]:
        return np.minimum(self.low + indices.astype(np.float64) * self.resolution, self.high).tolist()


def _number(value: Any) -> float:
    """A real number as a float, NaN for anything else."""
    if not is_real(value):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
