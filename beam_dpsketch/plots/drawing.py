"""What all pictures share: how they look, figures and their bytes, axes, intervals.

Equal answers give equal bytes, without the time of the drawing. matplotlib is imported when a picture is drawn.
"""

from __future__ import annotations

import dataclasses
import io
import logging
import warnings
from collections.abc import Sequence
from textwrap import fill
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from beam_dpsketch import _validate
from beam_dpsketch.answers.questions.entries import Answered
from beam_dpsketch.answers.rows import Rows
from beam_dpsketch.statement.clipping import in_one_line
from beam_dpsketch.statement.showing import interval_words

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Told: TypeAlias = Rows[Any] | Answered
"""Answers with their clipping and notes."""
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#595959", "#e69f00", "#56b4e9")
"""Told apart by all people; `Look.series` picks one."""

_DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (8, 2)), (0, (1, 3)))
_MARKERS = "osD^vPX"
_SIZE = (8.0, 4.5)
_BAND, _BAR = 0.25, 0.35
_LINE = 130
_NO_TIME = {"png": {"Software": None}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Look:
    """How answers are named and drawn.

    Args:
      value: what the values or items are, with their unit: "delay, minutes". A release does not know; "value" or
        "item" if not given.
      weight: what is counted: "flights"; "records" if not given, or "weight" of a release where records weigh.
      confidence: that of the intervals, as they were asked for, in (0, 1).
      name: what the estimates are called in a legend.
      interval_name: what the intervals are called there; if not given, what they are about, with their confidence.
      series: which colour and dashes, from 0 on; answers on the same axes take different ones.
      upright: whether bars stand; if not given, those of items lie, which leaves room for names, and bins stand.
      logarithmic: whether the values of a curve lie by their logarithms; if not given, those over a `LogDomain` do.
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
        """Return the same, with what a picture usually has where nothing is given."""
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
        """What the intervals are called in a legend."""
        return self.interval_name or interval_words(self.confidence)

    def of(self, answers: Rows[Any]) -> Look:
        """Return the look of these answers, which say themselves what their intervals are about."""
        return dataclasses.replace(self, interval_name=self.interval_name or answers.intervals)


def new_figure(size: tuple[float, float]) -> Any:
    """Return an empty figure of a size in inches; raise `ImportError` without matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ImportError("plots need matplotlib: pip install 'beam-dpsketch[plot]'") from None
    return Figure(figsize=size, dpi=120, layout="constrained")


def axes_for(axes: Axes | None) -> Axes:
    """Return the given axes, or those of a new figure, without what takes ink and says nothing."""
    if axes is None:
        axes = new_figure(_SIZE).add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_axisbelow(True)
    return axes


def add_legend(axes: Axes, *answers: Told) -> None:
    """Put the legend of a new figure below it, with the clipping and the notes of what it shows."""
    handles, names = axes.get_legend_handles_labels()
    _add_below(axes.figure, handles, names, answers)


def _add_below(figure: Any, handles: Sequence[Any], names: Sequence[str], answers: Sequence[Told]) -> None:
    clipping = [each.clipping for each in answers if each.clipping is not None]
    told = [in_one_line(clipping)] if clipping else []
    told += [f"Note: {note.words}" for note in dict.fromkeys(note for each in answers for note in each.notes)]
    words = "\n".join(fill(line, _LINE) for line in told)
    place = {"loc": "outside lower center", "ncols": 4, "frameon": False}
    figure.legend(handles, names, title=words or None, title_fontsize=8, **place)


def draw_band(axes: Axes, places: np.ndarray, lower: Any, upper: Any, look: Look, step: str | None = None) -> None:
    """Draw intervals as an area."""
    label = look.intervals
    axes.fill_between(places, lower, upper, step=step, color=look.colour, alpha=_BAND, linewidth=0, label=label)


def draw_bars(axes: Axes, places: np.ndarray, weights: np.ndarray, widths: Any, look: Look) -> None:
    """Draw estimates as bars, upright or lying."""
    style = {"color": look.colour, "alpha": _BAR, "label": look.name, "edgecolor": "white", "linewidth": 0.5}
    if look.upright:
        axes.bar(places, weights, width=widths, **style)
    else:
        axes.barh(places, weights, height=widths, **style)


def draw_intervals(axes: Axes, places: np.ndarray, answers: Sequence[np.ndarray], look: Look, upright: bool) -> None:
    """Draw the interval of each estimate as a line with ends; those without a bound are left out."""
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
    """Return a new figure and its panels, row by row; `size` is that of one panel in inches."""
    rows = -(-panels // columns)
    figure = new_figure((size[0] * columns, size[1] * rows + 0.4))
    grid = figure.subplots(rows, columns, squeeze=False)
    for axes in grid.flat[panels:]:
        axes.set_visible(False)
    return figure, list(grid.flat[:panels])


def add_common_legend(figure: Any, grid: list[Any], answers: Sequence[Told]) -> None:
    """Put one legend below all panels, with clipping and notes; equal names are one entry."""
    handles: dict[str, Any] = {}
    for axes in grid:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    _add_below(figure, [*handles.values()], [*handles], answers)


def to_bytes(figure: Any, kind: str) -> bytes:
    """Return a figure as PNG, SVG or PDF; characters that the font lacks are drawn as boxes."""
    import matplotlib as mpl

    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    data = io.BytesIO()
    with mpl.rc_context({"svg.hashsalt": "dpsketch"}), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        figure.savefig(data, format=kind, metadata=_NO_TIME[kind])
    return data.getvalue()
