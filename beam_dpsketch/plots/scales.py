"""Values on an axis: numbers, times and IPv4 addresses as places, and the marks that name them."""

from __future__ import annotations

import contextlib
import datetime
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from beam_dpsketch.answers.rows import as_list
from beam_dpsketch.domains import DOMAINS
from beam_dpsketch.domains.base import AxisScale
from beam_dpsketch.errors import ArgumentTypeError

if TYPE_CHECKING:
    from matplotlib.axis import Axis

MAX_TEXT = 32
_MIN_PLAIN, _MAX_PLAIN = 1e-6, 1e9


def places_of(values: Any) -> np.ndarray:
    """Return where values lie on an axis, float64 of shape (n,); raise `TypeError` for those without an order."""
    values = as_list(values)
    if any(isinstance(each, datetime.datetime) for each in values):
        from matplotlib.dates import date2num

        return np.asarray(date2num(values), dtype=np.float64)
    try:
        scale = _scale_of(next(iter(values), 0))
        return np.array([float(scale.place(each) if scale else each) for each in values], dtype=np.float64)
    except (TypeError, ValueError):
        raise ArgumentTypeError(
            "values", "must be numbers, times or IPv4 addresses, which have an order on an axis", "E719"
        ) from None


def mark(axis: Axis, values: Any) -> None:
    """Name the marks of an axis in the way of its values."""
    values = as_list(values)
    first = next(iter(values), 0)
    if isinstance(first, datetime.datetime):
        from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

        locator = AutoDateLocator(tz=first.tzinfo)
        axis.set_major_locator(locator)
        axis.set_major_formatter(ConciseDateFormatter(locator, tz=first.tzinfo))
    elif (scale := _scale_of(first)) is not None:
        axis.set_major_locator(_at_powers())
        axis.set_major_formatter(lambda place, _: scale.words(place))
        axis.set_tick_params(rotation=20)
    else:
        if axis.get_scale() != "log" and all(isinstance(each, (int, np.integer)) for each in values):
            _at_whole_numbers(axis)
        say = _small_number if axis.get_scale() == "log" else number
        axis.set_major_formatter(lambda place, _: say(place))


def mark_weights(axis: Axis) -> None:
    """Name the marks of an axis of weights."""
    axis.set_major_formatter(lambda place, _: number(place))


def number(place: float) -> str:
    """Return a number with groups of digits.

    >>> number(12000.0), number(0.25), number(-2e12)
    ('12,000', '0.25', '-2e+12')
    """
    return f"{place:.4g}" if abs(place) >= _MAX_PLAIN else f"{round(place, 9):,.10g}"


def _small_number(place: float) -> str:
    """Return a number above 0, which is not rounded to 0, as the noise of floats around 0 is."""
    return number(place) if place >= _MIN_PLAIN else f"{place:.4g}"


def text(value: Any) -> str:
    r"""Return an item as a short text, with escapes for what is not printable, and without mathematics.

    >>> text("a" * 50), text("$x$")
    ('aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa…', '\\$x\\$')
    """
    if isinstance(value, datetime.datetime):
        return value.strftime("%Y-%m-%d" if not (value.hour or value.minute) else "%Y-%m-%d %H:%M")
    shown = value.hex() if isinstance(value, bytes) else str(value)
    shown = shown if len(shown) <= MAX_TEXT else f"{shown[: MAX_TEXT - 1]}…"
    if not shown.isprintable():
        shown = shown.encode("unicode_escape", "surrogatepass").decode("ascii")
    return shown.replace("$", r"\$")


def numbers_of(columns: Sequence[Any]) -> list[np.ndarray]:
    """Return columns of weights or shares as float64 of shape (n,)."""
    return [np.array(column, dtype=np.float64) for column in columns]


def _at_whole_numbers(axis: Axis) -> None:
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(nbins="auto", integer=True, steps=[1, 2, 2.5, 5, 10]))


def _at_powers() -> Any:
    from matplotlib.ticker import Locator

    class Multiples(Locator):
        def __call__(self) -> Any:
            return self.tick_values(*self.axis.get_view_interval())

        def tick_values(self, vmin: float, vmax: float) -> Any:
            step = 2 ** max(0, math.ceil(math.log2(max(abs(vmax - vmin), 1) / 6)))
            return step * np.arange(math.ceil(min(vmin, vmax) / step), math.floor(max(vmin, vmax) / step) + 1)

    return Multiples()


def _scale_of(value: Any) -> AxisScale | None:
    for kind in DOMAINS:
        with contextlib.suppress(TypeError, ValueError):
            if kind.scale is not None:
                kind.scale.place(value)
                return kind.scale
    return None
