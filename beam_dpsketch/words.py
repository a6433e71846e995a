"""Blanks, numbers with few digits, losses rounded up, and fields and documentation of value objects."""

from __future__ import annotations

import ast
import dataclasses
import decimal
import inspect
import math
import sys
import textwrap
from fractions import Fraction
from typing import Any, TypeVar

Kind = TypeVar("Kind", bound=type)
_WHOLE_FROM, _WHOLE_TO = 1e6, 1e16
BLANKS = " \t\u00a0\u202f\u2007\u2009"
"""Blanks with all widths, ignored around numbers, times and fields."""
_UNITS = ((86400 * 10**6, "day"), (3600 * 10**6, "hour"), (60 * 10**6, "minute"), (10**6, "second"))


def documentation(of: Any) -> str:
    """Get the docstring of a class or a function, from its source under `python -OO`, which drops docstrings."""
    if sys.flags.optimize < 2:
        return inspect.getdoc(of) or ""
    try:
        (definition,) = ast.parse(textwrap.dedent(inspect.getsource(of))).body
    except OSError:  # no source file
        return ""
    return ast.get_docstring(definition) or ""  # type: ignore[arg-type]


def round_up(value: Fraction | float, digits: int) -> float:
    """Round up to this many significant digits. A float means its decimal spelling."""
    exact = value if isinstance(value, Fraction) else Fraction(repr(value))
    context = decimal.Context(prec=digits, rounding=decimal.ROUND_CEILING)
    rounded = float(context.divide(decimal.Decimal(exact.numerator), decimal.Decimal(exact.denominator)))
    return rounded if rounded or not exact else math.ulp(0)  # positive, but below the smallest float


def round_down(value: Fraction | float, digits: int) -> float:
    """Round down to this many significant digits. A float means its decimal spelling."""
    exact = value if isinstance(value, Fraction) else Fraction(repr(value))
    context = decimal.Context(prec=digits, rounding=decimal.ROUND_FLOOR)
    return float(context.divide(decimal.Decimal(exact.numerator), decimal.Decimal(exact.denominator)))


def float_above(exact: Fraction) -> float:
    """Compute the least float whose decimal spelling is at least this fraction.

    >>> float_above(Fraction(3, 10))
    0.3
    """
    nearest = float(exact)
    return nearest if Fraction(repr(nearest)) >= exact else math.nextafter(nearest, math.inf)


def up_to(most: int, what: str) -> str:
    """Format a limit, as in "one key" or "up to 3 keys"."""
    return f"one {what}" if most == 1 else f"up to {most} {what}s"


def length_of_time(micros: int) -> str:
    """Format microseconds in the largest unit that divides them, otherwise in seconds.

    >>> length_of_time(7 * 86400 * 10**6), length_of_time(1_500_000)
    ('7 days', '1.5 seconds')
    """
    size, unit = next((each for each in _UNITS if micros % each[0] == 0), (10**6, "second"))
    number = decimal.Decimal(micros) / size
    return f"{number:f} {unit}" + "s" * (number != 1)


def plain(value: Any) -> str:
    """Format like `repr`, with six digits for a fraction or a float."""
    if isinstance(value, (Fraction, float)):
        number = float(value)
        return f"{number:.0f}" if _WHOLE_FROM <= abs(number) < _WHOLE_TO else f"{number:.6g}"
    if type(value) is dict:
        return f"{{{', '.join(f'{name!r}: {plain(each)}' for name, each in value.items())}}}"
    if type(value) is tuple:
        return f"({', '.join(map(plain, value))}{',' * (len(value) == 1)})"
    return repr(value)


def shown_plainly(kind: Kind) -> Kind:
    """Give a dataclass or a named tuple a `repr` with plain numbers."""
    kind.__repr__ = _repr  # type: ignore[method-assign, assignment]
    return kind


def _repr(fields: Any) -> str:
    if dataclasses.is_dataclass(fields):
        names = [field.name for field in dataclasses.fields(fields) if field.repr]
    else:
        names = fields._fields
    said = ", ".join(f"{name}={plain(getattr(fields, name))}" for name in names)
    return f"{type(fields).__qualname__}({said})"
