"""Check arguments: the keyword is the name in the message, and `not value > 0` also refuses NaN."""

from __future__ import annotations

import math
import numbers
from fractions import Fraction
from typing import Any


def whole(*, low: int, high: int, **arguments: Any) -> None:
    """Refuse arguments that are not whole numbers in [low, high]."""
    for name, value in arguments.items():
        _check_whole(name, value, low, high)


def whole_fields(frozen: Any, *names: str, low: int, high: int) -> None:
    """Check fields of a frozen dataclass like `whole` and make them Python integers; numpy's overflow in arithmetic."""
    for name in names:
        value = getattr(frozen, name)
        _check_whole(name, value, low, high)
        object.__setattr__(frozen, name, int(value))


def open_unit_interval(**arguments: Any) -> None:
    """Refuse arguments that are not numbers in (0, 1)."""
    for name, value in arguments.items():
        _check_number(name, value)
        if not 0 < value < 1:
            raise ValueError(f"{name} must be greater than 0 and less than 1, got {value}")


def positive_finite(**arguments: Any) -> None:
    """Refuse arguments that are not finite numbers above 0."""
    for name, value in arguments.items():
        _check_number(name, value)
        if not value > 0 or not _is_finite(value):
            raise ValueError(f"{name} must be finite and greater than 0, got {value}")


def one_of(choices: Any, **arguments: Any) -> None:
    """Refuse arguments that are not among the choices."""
    for name, value in arguments.items():
        if value not in choices:
            raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}")


def instance(*kinds: type, **arguments: Any) -> None:
    """Refuse arguments of other types."""
    for name, value in arguments.items():
        if not isinstance(value, kinds):
            words = " or ".join(kind.__name__ for kind in kinds)
            raise TypeError(f"{name} must be a {words}, got {type(value).__name__}")


def exact(**arguments: Any) -> Fraction:
    """Return the one argument, finite and above 0, as the fraction of its shortest decimal spelling (0.1 is 1/10)."""
    (value,) = arguments.values()
    positive_finite(**arguments)
    if isinstance(value, numbers.Rational):
        # numpy integers would survive in a Fraction and overflow in arithmetic.
        return Fraction(int(value.numerator), int(value.denominator))
    return Fraction(repr(float(value)))


def _check_whole(name: str, value: Any, low: int, high: int) -> None:
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise TypeError(f"{name} must be a whole number, got {type(value).__name__}")
    if not low <= int(value) <= high:
        raise ValueError(f"{name} must be between {low} and {high}, got {value}")


def _is_finite(value: Any) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer or fraction that no float can hold
        return False


def _check_number(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} must be a number, got {type(value).__name__}")
