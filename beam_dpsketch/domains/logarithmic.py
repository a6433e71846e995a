"""Positive numbers on a grid of equal ratios: latencies, sizes, incomes."""

from __future__ import annotations

import dataclasses
import decimal
import functools
import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from beam_dpsketch import _validate
from beam_dpsketch.domains.base import Setting
from beam_dpsketch.domains.numbers import RealDomain
from beam_dpsketch.errors import ArgumentError
from beam_dpsketch.hashing.encodings import named

_MOST = 1 << 20
_FINEST = 1e-12
"""The finest step: a float holds the digits of one that are kept."""
_BITS = 256
_MORE_DIGITS = 2  # than the ratio needs, so that rounding moves a value by a hundredth of a step at most


@named("LogDomain")
@dataclasses.dataclass(frozen=True)
class LogDomain(RealDomain):
    """A grid from low to high in which each value is larger than the one before by about the part `relative`.

    Each number is moved to the nearest value, so by at most about half of `relative` of itself. That takes far fewer
    values than steps of equal size: 2,316 from 1 to 10^10 at 1 %. Values are rounded to few digits, and the last step
    may be smaller. Numbers outside are clamped: 0 and less count as low. Infinities are clamped too; NaN is not usable.

    Args:
      low: the smallest value, above 0.
      high: the largest value.
      relative: the step from one value to the next, as a part of it: 1e-12 to 1. At most 2**20 values.

    >>> domain = LogDomain(1, 1000, relative=0.1)
    >>> domain.size, domain.values(domain.index([0, 1.04, 52.0, 1e9])[0])
    (74, [1.0, 1.0, 49.79, 1000.0])
    """

    low: float
    high: float
    relative: float = 0.01
    type_name = "log"
    number = 6
    is_logarithmic = True
    settings: ClassVar[Mapping[str, Setting]] = {
        "low": Setting("number", "the smallest value, above 0"),
        "high": Setting("number", "the largest value"),
        "relative": Setting("number"),
    }

    def __post_init__(self) -> None:
        for name in ("low", "high", "relative"):
            _validate.positive_finite(**{name: getattr(self, name)})
            object.__setattr__(self, name, float(getattr(self, name)))
            _validate.positive_finite(**{name: getattr(self, name)})  # a fraction above 0 may be too small for a float
        if not self.low < self.high:
            raise ArgumentError("high", f"must be above low, got {self.low:g} and {self.high:g}", "E501")
        if not _FINEST <= self.relative <= 1 or self._steps > _MOST - 2:
            raise ArgumentError(
                "relative",
                f"must be from {_FINEST:g} to 1, and leave at most 2**20 values between low and high; got "
                f"{self.relative:g}",
                "E502",
            )

    @property
    def _steps(self) -> float:
        """About how many steps there are; high / low may be too large for a float."""
        return (math.log(self.high) - math.log(self.low)) / math.log1p(self.relative)

    @property
    def size(self) -> int:
        return len(self._grid)

    @property
    def _grid(self) -> np.ndarray:
        return _grid(self.low, self.high, self.relative)

    def place(self, numbers: np.ndarray) -> np.ndarray:
        grid = self._grid
        above = np.clip(np.searchsorted(grid, numbers), 1, len(grid) - 1)
        is_lower = numbers - grid[above - 1] < grid[above] - numbers
        return (above - is_lower).astype(np.uint64)

    def values(self, indices: np.ndarray) -> list[float]:
        return self._grid[indices.astype(np.int64)].tolist()

    def reading(self) -> dict[str, Any]:
        ratio, digits, exact, shift = _exactly(self.low, self.relative)
        ends = {"low": self.low, "high": self.high, "digits": digits, "shift": shift}
        step = {"exact": str(exact), "numerator": str(ratio.numerator), "denominator": str(ratio.denominator)}
        return {**super().reading(), **ends, **step}

    def describe(self) -> str:
        return f"numbers {self.low:g} to {self.high:g} in steps of {100 * self.relative:g} %"


@functools.lru_cache(maxsize=16)
def _grid(low: float, high: float, relative: float) -> np.ndarray:
    """Return all values, ascending, float64: the same on every machine, because integers make them."""
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
    """Return the ratio of steps, how many digits are kept, and the smallest value as a whole number and its shift."""
    shift = _BITS - math.frexp(low)[1]
    exact = math.floor(Fraction(low) * Fraction(2) ** shift)
    return 1 + Fraction(repr(relative)), math.ceil(-math.log10(relative)) + 1 + _MORE_DIGITS, exact, shift
