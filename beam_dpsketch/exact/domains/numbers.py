"""Number domains: integers in a range, and real numbers on even or logarithmic grids.

Logarithmic grids suit positive numbers such as latencies, sizes and incomes.
"""

from __future__ import annotations

import dataclasses
import decimal
import functools
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

from beam_dpsketch import checks as _validate
from beam_dpsketch.columns import plain_column
from beam_dpsketch.encodings import named
from beam_dpsketch.errors import ArgumentError
from beam_dpsketch.exact.domains.base import (
    MAX_SIZE,
    Domain,
    index_distinct,
    index_numbers,
    is_number_type,
    is_real,
    is_whole_type,
    read_numbers,
    unwrap_type,
)

_MAX_DECIMALS = 15  # maximum decimals of a float
DOUBT = "check the range, the unit (s or ms) and the sign"


@named("IntegerDomain")
@dataclasses.dataclass(frozen=True)
class IntegerDomain(Domain):
    """All integers from low to high, both included, at most 2**64.

    Args:
      low: the smallest value.
      high: the largest value.

    >>> domain = IntegerDomain(-10, 10)
    >>> positions, usable = domain.index([-99, 0, 10, None])
    >>> positions.tolist(), usable.tolist(), domain.values(positions[:3])
    ([0, 10, 20, 0], [True, True, True, False], [-10, 0, 10])
    """

    low: int
    high: int
    type_name = "integer"
    number = 0
    takes = parsed = "whole numbers"
    doubt = DOUBT
    plain_type = int
    column_type = pa.int64()

    def __post_init__(self) -> None:
        _validate.whole_fields(self, "low", "high", low=-(1 << 63), high=MAX_SIZE - 1)
        if not self.low <= self.high or self.size > MAX_SIZE:
            raise ArgumentError(
                "high", f"must be at least low ({self.low}) and less than low + 2**64, got {self.high}", "E501"
            )

    @property
    def size(self) -> int:
        return self.high - self.low + 1

    def index(self, values: Sequence[Any] | np.ndarray | pa.Array) -> tuple[np.ndarray, np.ndarray]:
        return index_numbers(values, self.low, self.high)

    def reads_column(self, kind: pa.DataType) -> bool:
        return is_whole_type(unwrap_type(kind))

    def is_inside(self, value: Any) -> bool:
        return bool(self.low <= value <= self.high)

    def parse(self, text: str) -> int:
        return int(text)

    def describe(self) -> str:
        return f"whole numbers {self.low} to {self.high}"

    def values(self, indices: np.ndarray) -> list[int]:
        return [self.low + position for position in indices.tolist()]

    def reading(self) -> dict[str, Any]:
        return {**super().reading(), "low": str(self.low)}


class RealDomain(Domain):
    """Real numbers from low to high. Numbers outside are clamped, infinities too. NaN is unusable."""

    low: float
    high: float
    takes = parsed = "numbers"
    doubt = DOUBT
    plain_type = float
    column_type = pa.float64()

    def place(self, numbers: np.ndarray) -> np.ndarray:
        """Convert float64 numbers from low to high to positions, uint64. low has position 0."""
        raise NotImplementedError

    def index(self, values: Sequence[Any] | np.ndarray | pa.Array) -> tuple[np.ndarray, np.ndarray]:
        present: np.ndarray | bool = True
        if isinstance(values, pa.Array):
            values = plain_column(values)
            if pa.types.is_decimal(values.type):
                return index_distinct(values, self.index)
            numbers, present = read_numbers(values)
        elif isinstance(values, np.ndarray) and values.dtype.kind in "iuf":
            numbers = values
        else:
            numbers = np.array(list(map(_to_float, values)), dtype=float)
        numbers = numbers.astype(np.float64)
        usable = ~np.isnan(numbers) & present
        return self.place(np.clip(np.where(usable, numbers, self.low), self.low, self.high)), usable

    def reads_column(self, kind: pa.DataType) -> bool:
        kind = unwrap_type(kind)
        return is_number_type(kind) or pa.types.is_decimal(kind) or pa.types.is_null(kind)

    def is_inside(self, value: Any) -> bool:
        return bool(self.low <= value <= self.high)

    def parse(self, text: str) -> float:
        number = float(text)
        if math.isnan(number):
            raise ValueError("not a number")
        return number


@named("FloatDomain")
@dataclasses.dataclass(frozen=True)
class FloatDomain(RealDomain):
    """Even grid low, low + step, ... with at most 2**53 points. Each number is moved to the nearest point.

    The last point is nearest to high, and may be up to half the step above or below it. Infinities are clamped
    like other numbers outside. NaN is unusable.

    Args:
      low: the smallest value.
      high: the largest value.
      step: the distance between two values, as 0.01.

    >>> domain = FloatDomain(0.0, 1.0, step=0.25)
    >>> domain.values(domain.index([0.3, 7.0, float("nan")])[0])
    [0.25, 1.0, 0.0]
    """

    low: float
    high: float
    step: float
    type_name = "float"
    number = 2

    def __post_init__(self) -> None:
        _validate.positive_finite(step=self.step)
        for name in ("low", "high", "step"):
            object.__setattr__(self, name, _validate.real(**{name: getattr(self, name)}))
        if not math.isfinite(self.low) or not math.isfinite(self.high) or not self.low < self.high:
            raise ArgumentError(
                "", f"low must be less than high, and both must be finite, got {self.low} and {self.high}", "E501"
            )
        if not (self.high - self.low) / self.step < 2**53 - 1:
            raise ArgumentError(
                "step", "must leave at most 2**53 values between low and high. Use a larger step", "E502"
            )
        if not math.isfinite(self.low + (self.size - 1) * self.step):
            raise ArgumentError("step", "must be smaller: the value nearest to high is not a finite float", "E502")

    @property
    def size(self) -> int:
        return round((self.high - self.low) / self.step) + 1

    def place(self, numbers: np.ndarray) -> np.ndarray:
        return np.rint((numbers - self.low) / self.step).astype(np.uint64)

    def describe(self) -> str:
        return f"numbers {self.low:g} to {self.high:g} in steps of {self.step:g}"

    def values(self, indices: np.ndarray) -> list[float]:
        values = self.low + indices.astype(np.float64) * self.step
        if self._decimals <= _MAX_DECIMALS:
            values = np.round(values, self._decimals)
        return values.tolist()

    def reading(self) -> dict[str, Any]:
        decimals = self._decimals if self._decimals <= _MAX_DECIMALS else None
        settings = {"low": self.low, "high": self.high, "step": self.step}
        return {**super().reading(), **settings, "decimals": decimals}

    @functools.cached_property
    def _decimals(self) -> int:
        """Number of decimals in written values: 598 steps of 0.1 are 59.8, not 59.800000000000004."""
        exponents = (decimal.Decimal(repr(number)).as_tuple().exponent for number in (self.low, self.step))
        return max(0, *(-int(exponent) for exponent in exponents))


def _to_float(value: Any) -> float:
    if isinstance(value, decimal.Decimal):
        return math.nan if value.is_nan() else float(value)
    if not is_real(value):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


_MOST = 1 << 20
_FINEST = 1e-12
"""The finest step. A float has all the digits that remain after rounding."""
_BITS = 256
_MORE_DIGITS = 2  # additional digits: rounding moves a value by at most a hundredth of a step


@named("LogDomain")
@dataclasses.dataclass(frozen=True)
class LogDomain(RealDomain):
    """Grid from low to high in which each value exceeds the previous one by about the fraction `relative_step`.

    Each number is moved to the nearest value, by at most about half of `relative_step` times itself. This needs far
    fewer values than an even grid: 2,316 from 1 to 10^10 at 1 %. Values are rounded to few digits, and the last step
    may be smaller. Numbers outside are clamped: 0 and less count as low. Infinities are clamped too. NaN is unusable.

    Args:
      low: the smallest value, above 0.
      high: the largest value.
      relative_step: relative step between two values, 1e-12 to 1. At most 2**20 values.

    >>> domain = LogDomain(1, 1000, relative_step=0.1)
    >>> domain.size, domain.values(domain.index([0, 1.04, 52.0, 1e9])[0])
    (74, [1.0, 1.0, 49.79, 1000.0])
    """

    low: float
    high: float
    relative_step: float = 0.01
    type_name = "log"
    number = 6
    is_logarithmic = True

    def __post_init__(self) -> None:
        for name in ("low", "high", "relative_step"):
            _validate.positive_finite(**{name: getattr(self, name)})
            object.__setattr__(self, name, float(getattr(self, name)))
            _validate.positive_finite(**{name: getattr(self, name)})  # a positive fraction may underflow as a float
        if not self.low < self.high:
            raise ArgumentError("high", f"must be greater than low ({self.low:g}), got {self.high:g}", "E501")
        if not _FINEST <= self.relative_step <= 1 or self._steps > _MOST - 2:
            raise ArgumentError(
                "relative_step",
                f"must be between {_FINEST:g} and 1, with at most 2**20 values between low and high, got "
                f"{self.relative_step:g}",
                "E502",
            )

    @property
    def _steps(self) -> float:
        """Approximate number of steps. high / low may overflow a float."""
        return (math.log(self.high) - math.log(self.low)) / math.log1p(self.relative_step)

    @property
    def size(self) -> int:
        return len(self._grid)

    @property
    def _grid(self) -> np.ndarray:
        return _grid(self.low, self.high, self.relative_step)

    def place(self, numbers: np.ndarray) -> np.ndarray:
        grid = self._grid
        above = np.clip(np.searchsorted(grid, numbers), 1, len(grid) - 1)
        is_lower = numbers - grid[above - 1] < grid[above] - numbers
        return (above - is_lower).astype(np.uint64)

    def values(self, indices: np.ndarray) -> list[float]:
        return self._grid[indices.astype(np.int64)].tolist()

    def reading(self) -> dict[str, Any]:
        ratio, digits, exact, shift = _exactly(self.low, self.relative_step)
        ends = {"low": self.low, "high": self.high, "digits": digits, "shift": shift}
        step = {"exact": str(exact), "numerator": str(ratio.numerator), "denominator": str(ratio.denominator)}
        return {**super().reading(), **ends, **step}

    def describe(self) -> str:
        return f"numbers {self.low:g} to {self.high:g} in steps of {100 * self.relative_step:g} %"


@functools.lru_cache(maxsize=16)
def _grid(low: float, high: float, relative: float) -> np.ndarray:
    """Compute all values, ascending, float64. Integer arithmetic makes them equal on every machine."""
    ratio, digits, exact, shift = _exactly(low, relative)
    found, context = [low], decimal.Context(prec=digits)
    whole, over = max(0, -shift), decimal.Decimal(1 << max(0, shift))
    while True:
        exact = exact * ratio.numerator // ratio.denominator
        rounded = float(context.divide(decimal.Decimal(exact << whole), over))
        if rounded >= high:
            return np.array([*found, high])
        if rounded > found[-1]:
            found.append(rounded)


def _exactly(low: float, relative: float) -> tuple[Fraction, int, int, int]:
    """Compute the ratio of steps, the number of digits, and the smallest value as a whole number with its shift."""
    shift = _BITS - math.frexp(low)[1]
    exact = math.floor(Fraction(low) * Fraction(2) ** shift)
    return 1 + Fraction(repr(relative)), math.ceil(-math.log10(relative)) + 1 + _MORE_DIGITS, exact, shift
