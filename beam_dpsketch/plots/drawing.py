"""Common parts of pictures: style, figures and their bytes, intervals, and axis positions.

Equal answers give equal bytes, without a timestamp. matplotlib is imported when a picture is drawn. Numbers, times and
IPv4 addresses have axis positions and labeled ticks.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import io
import itertools
import logging
import math
import warnings
from collections import defaultdict
from collections.abc import Sequence
from textwrap import fill
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from beam_dpsketch import checks as _validate
from beam_dpsketch.answers.questions.entries import Answered
from beam_dpsketch.answers.rows import Rows, as_list
from beam_dpsketch.errors import ArgumentTypeError
from beam_dpsketch.exact.domains import DOMAINS
from beam_dpsketch.exact.domains.base import AxisScale
from beam_dpsketch.statement.clipping import in_one_line
from beam_dpsketch.statement.showing import interval_words

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis


Told: TypeAlias = Rows[Any] | Answered
"""Answers with their clipping and notes."""
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#595959", "#e69f00", "#56b4e9")
"""Distinguishable with color blindness. `Look.series` selects an entry."""

_DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (8, 2)), (0, (1, 3)))
_MARKERS = "osD^vPX"
_SIZE = (8.0, 4.5)
_BAND, _BAR = 0.25, 0.35
_LINE = 130
_NO_TIME = {"png": {"Software": None}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Look:
    """Labels and style for answers.

    Args:
      value: label and unit for values or items, such as "delay, minutes". The default is "value" or "item".
      weight: label for counts, such as "flights". The default is "records", or "weight" if the release has weights.
      confidence: the confidence of the intervals, in (0, 1).
      name: the legend entry for estimates.
      interval_name: the legend entry for intervals. The default is their scope and confidence.
      series: the index for color and dashes, from 0. Give different answers on the same axes different indexes.
      upright: whether bars are vertical. By default, bins are vertical, and item bars horizontal to fit their names.
      logarithmic: whether the values of a curve have a logarithmic axis. The default is true for a `LogDomain`.
    """

    value: str | None = None
    weight: str | None = None
    confidence: float = 0.95
    name: str = "private estimate"
    interval_name: str | None = None
    series: int = 0
    upright: bool | None = None
    logarithmic: bool | None = None

    def __post_init__(self) -> None:
        _validate.open_unit_interval(confidence=self.confidence)
        _validate.whole_fields(self, "series", low=0, high=1 << 31)

    def or_else(self, **usual: Any) -> Look:
        """Fill unset fields with defaults."""
        return dataclasses.replace(
            self, **{name: value for name, value in usual.items() if getattr(self, name) is None}
        )

    @property
    def colour(self) -> str:
        return COLOURS[self.series % len(COLOURS)]

    @property
    def line(self) -> dict[str, Any]:
        return {"color": self.colour, "linestyle": _DASHES[self.series % len(_DASHES)], "linewidth": 1.8}

    @property
    def marker(self) -> str:
        return _MARKERS[self.series % len(_MARKERS)]

    @property
    def intervals(self) -> str:
        """Legend entry for intervals."""
        return self.interval_name or interval_words(self.confidence)

    def of(self, answers: Rows[Any]) -> Look:
        """Use the interval name from these answers, if none is set."""
        return dataclasses.replace(self, interval_name=self.interval_name or answers.intervals)


def new_figure(size: tuple[float, float]) -> Any:
    """Create an empty figure with a size in inches. Raise `ImportError` without matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ImportError("plots require matplotlib: pip install 'beam-dpsketch[plot]'") from None
    return Figure(figsize=size, dpi=120, layout="constrained")


def axes_for(axes: Axes | None) -> Axes:
    """Prepare the given axes, or axes in a new figure, without the top and right spines."""
    if axes is None:
        axes = new_figure(_SIZE).add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_axisbelow(True)
    return axes


def add_legend(axes: Axes, *answers: Told) -> None:
    """Add the legend below a figure, with the clipping and notes of its answers."""
    handles, names = axes.get_legend_handles_labels()
    _add_below(axes.figure, handles, names, answers)


def _add_below(figure: Any, handles: Sequence[Any], names: Sequence[str], answers: Sequence[Told]) -> None:
    clipping = [each.clipping for each in answers if each.clipping is not None]
    told = [in_one_line(clipping)] if clipping else []
    told += [f"Note: {note.message}" for note in dict.fromkeys(note for each in answers for note in each.notes)]
    words = "\n".join(fill(line, _LINE) for line in told)
    place = {"loc": "outside lower center", "ncols": 4, "frameon": False}
    figure.legend(handles, names, title=words or None, title_fontsize=8, **place)


def draw_band(axes: Axes, places: np.ndarray, lower: Any, upper: Any, look: Look, step: str | None = None) -> None:
    """Draw intervals as a shaded band."""
    label = look.intervals
    axes.fill_between(places, lower, upper, step=step, color=look.colour, alpha=_BAND, linewidth=0, label=label)


def draw_bars(axes: Axes, places: np.ndarray, weights: np.ndarray, widths: Any, look: Look) -> None:
    """Draw estimates as vertical or horizontal bars."""
    style = {"color": look.colour, "alpha": _BAR, "label": look.name, "edgecolor": "white", "linewidth": 0.5}
    if look.upright:
        axes.bar(places, weights, width=widths, **style)
    else:
        axes.barh(places, weights, height=widths, **style)


def draw_intervals(axes: Axes, places: np.ndarray, answers: Sequence[np.ndarray], look: Look, upright: bool) -> None:
    """Draw the interval of each estimate as a line with caps. Unbounded intervals are omitted."""
    estimates, lower, upper = answers
    lines, ends = (axes.vlines, "_") if upright else (axes.hlines, "|")
    style: dict[str, Any] = {"linestyle": "none", "color": look.colour}
    bounded = np.isfinite(lower) & np.isfinite(upper)
    lines(places[bounded], lower[bounded], upper[bounded], color=look.colour, linewidth=2, label=look.intervals)
    many = len(places) > 40
    for bound in (lower, upper):
        points = (places[bounded], bound[bounded])
        size = 4 if many else 10
        axes.plot(*(points if upright else points[::-1]), marker=ends, markersize=size, markeredgewidth=2, **style)
    points = (places, estimates)
    axes.plot(*(points if upright else points[::-1]), marker=look.marker, markersize=2.5 if many else 4, **style)


def panel_grid(panels: int, columns: int, size: tuple[float, float]) -> tuple[Any, list[Any]]:
    """Create a figure and its panels, row by row. `size` is the panel size in inches."""
    rows = -(-panels // columns)
    figure = new_figure((size[0] * columns, size[1] * rows + 0.4))
    grid = figure.subplots(rows, columns, squeeze=False)
    for axes in grid.flat[panels:]:
        axes.set_visible(False)
    return figure, list(grid.flat[:panels])


def share_limits(panels: Sequence[Any], sides: str, values: Sequence[Any] = ()) -> None:
    """Give panels with equal labels and scales the same limits on these axes, "x", "y" or "xy".

    Args:
      panels: axes of matplotlib.
      sides: the axes that are shared.
      values: for each panel, the values on its axis. Panels with other values, such as another domain, are not shared.
    """
    for side in sides:
        alike = defaultdict(list)
        for axes, own in itertools.zip_longest(panels, values):
            alike[getattr(axes, f"get_{side}label")(), getattr(axes, f"get_{side}scale")(), repr(own)].append(axes)
        for group in alike.values():
            low, high = zip(*(getattr(axes, f"get_{side}lim")() for axes in group), strict=True)
            for axes in group:
                getattr(axes, f"set_{side}lim")(min(low), max(high))


def add_common_legend(figure: Any, grid: list[Any], answers: Sequence[Told]) -> None:
    """Add a shared legend below all panels, with clipping and notes. Equal names are merged."""
    handles: dict[str, Any] = {}
    for axes in grid:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    _add_below(figure, [*handles.values()], [*handles], answers)


def to_bytes(figure: Any, kind: str) -> bytes:
    """Render a figure as PNG, SVG or PDF. Characters that the font lacks appear as boxes."""
    import matplotlib as mpl

    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    data = io.BytesIO()
    with mpl.rc_context({"svg.hashsalt": "dpsketch"}), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        figure.savefig(data, format=kind, metadata=_NO_TIME[kind])
    return data.getvalue()


MAX_LABEL = 32
_MIN_PLAIN, _MAX_PLAIN = 1e-6, 1e9


def places_of(values: Any) -> np.ndarray:
    """Compute axis positions, float64 of shape (n,): NaN for `None`. Raise `TypeError` for values without an order."""
    values = as_list(values)
    if None in values:
        places = np.full(len(values), math.nan)
        places[[each is not None for each in values]] = places_of([each for each in values if each is not None])
        return places
    if any(isinstance(each, datetime.datetime) for each in values):
        from matplotlib.dates import date2num

        return np.asarray(date2num(values), dtype=np.float64)
    try:
        scale = _scale_of(next(iter(values), 0))
        return np.array([float(scale.place(each) if scale else each) for each in values], dtype=np.float64)
    except (TypeError, ValueError):
        raise ArgumentTypeError("values", "must be numbers, times or IPv4 addresses", "E719") from None


def mark(axis: Axis, values: Any) -> None:
    """Label the ticks of an axis in the format of its values."""
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
    """Label the ticks of a weight axis."""
    axis.set_major_formatter(lambda place, _: number(place))


def number(place: float) -> str:
    """Format a number with thousands separators.

    >>> number(12000.0), number(0.25), number(-2e12)
    ('12,000', '0.25', '-2e+12')
    """
    return f"{place:.4g}" if abs(place) >= _MAX_PLAIN else f"{round(place, 9):,.10g}"


def _small_number(place: float) -> str:
    """Format a positive number without rounding to 0. Linear axes round, because float noise appears around 0."""
    return number(place) if place >= _MIN_PLAIN else f"{place:.4g}"


def text(value: Any) -> str:
    r"""Format an item as short text. Unprintable characters and math markup are escaped.

    >>> text("a" * 50), text("$x$")
    ('aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa…', '\\$x\\$')
    """
    if isinstance(value, datetime.datetime):
        return value.strftime("%Y-%m-%d" if not (value.hour or value.minute) else "%Y-%m-%d %H:%M")
    shown = value.hex() if isinstance(value, bytes) else str(value)
    shown = shown if len(shown) <= MAX_LABEL else f"{shown[: MAX_LABEL - 1]}…"
    if not shown.isprintable():
        shown = shown.encode("unicode_escape", "surrogatepass").decode("ascii")
    return shown.replace("$", r"\$")


def numbers_of(columns: Sequence[Any]) -> list[np.ndarray]:
    """Convert columns with weights or shares to float64 arrays of shape (n,)."""
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
