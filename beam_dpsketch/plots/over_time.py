"""Answers over time as lines: of each window of a timeline, or of all windows so far."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from beam_dpsketch.answers.over_time.timeline import SketchTimeline
from beam_dpsketch.answers.questions.ask import Ask
from beam_dpsketch.answers.questions.kinds import Kind
from beam_dpsketch.answers.released_sketch import ReleasedSketch
from beam_dpsketch.answers.rows import Intervals, Many
from beam_dpsketch.errors import ArgumentError, ArgumentTypeError
from beam_dpsketch.plots.asking import ask_of, counted, intervals_of
from beam_dpsketch.plots.drawing import COLOURS, Look, Told, add_legend, axes_for, draw_band, draw_intervals
from beam_dpsketch.plots.pictures import checked
from beam_dpsketch.plots.scales import mark, places_of, text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_USUAL = Look()
_FEW, _MARKED = 12, 60
WINDOW_STARTS, WINDOW_ENDS = "start of the window (UTC)", "end of the window, from the start (UTC)"


def plot_timeline(
    answers: SketchTimeline | Intervals,
    about: Many | Kind = "total_weight",
    what: Any = None,
    *,
    windows: tuple[int, int] | None = None,
    so_far: bool = False,
    axes: Axes | None = None,
    look: Look = _USUAL,
) -> Axes:
    """Draw answers over time as lines, with their intervals; return the axes.

    Up to 12 windows have an interval each, more have a band. Each interval holds for its window alone.

    Args:
      answers: a timeline, which is asked about each window; or what was answered about each: weights, shares, or values
        such as quantiles.
      about: of a timeline, the kind of question: "items", "quantiles", "records", "privacy_units", "total_weight"; of
        numbers "count", "total", "mean", "variance" or "std". Of answers, when the windows are: times, or their
        numbers.
      what: of a timeline, the items or the shares that are asked, up to 7 lines.
      windows: of a timeline, the first and the last window; all that are available if not given.
      so_far: of a timeline, whether each answer is about all windows up to that one.
      axes: where to draw; `None` makes a new figure. Several series on the same axes need different `look.series`.
      look: names, confidence and colour; `look.value` names the times, and `look.weight` the answers.

    Raises `ValueError` where times and answers are not of one length, and `ImportError` without matplotlib.
    """
    is_new = axes is None
    if isinstance(answers, SketchTimeline):
        ask = ask_of(about, what, look)
        asked = answers.each_window(*windows or (), so_far=so_far)
        axes, told = _draw_windows(asked, ask, so_far, axes_for(axes), look)
    elif isinstance(answers, Intervals):
        axes = _draw_line(answers, about, axes_for(axes), look.or_else(value="time", weight="records"))
        told = (answers,)
    else:
        raise ArgumentTypeError(
            "answers", f"must be a SketchTimeline, or Intervals, got {type(answers).__name__}", "E701"
        )
    if is_new:
        add_legend(axes, *told)
    return axes


def _draw_windows(
    windows: Iterable[tuple[datetime.datetime, ReleasedSketch]], ask: Ask, so_far: bool, axes: Axes, look: Look
) -> tuple[Axes, Sequence[Told]]:
    """Draw one line for each row of the answer about a window; return the answers too."""
    drawing = ask.entry.drawing
    if drawing is None or drawing.form != "lines":
        raise ArgumentError(
            "", f"{ask.kind} is not drawn over time: plot a release of some windows, by $some_windows", "E719"
        )
    times, releases = zip(*windows, strict=True)
    asked = [ask.answer(released) for released in releases]
    series = [*zip(*(each.rows for each in asked), strict=True)]
    if len(series) > len(COLOURS):
        raise ArgumentError("what", f"must be at most {len(COLOURS)}, one line each, got {len(series)}", "E719")
    axis = drawing.axis or counted(releases[0])
    starts, intervals = WINDOW_ENDS if so_far else WINDOW_STARTS, asked[0].intervals
    look = look.or_else(value=starts, weight=axis, interval_name=intervals)
    for number, rows in enumerate(series):
        name = drawing.line.format(**{**rows[0], "item": text(rows[0].get("item"))})
        line = dataclasses.replace(look, name=name, series=look.series + number)
        _draw_line(intervals_of(rows), times, axes, line)
    return axes, asked


def _draw_line(answers: Intervals, times: Any, axes: Axes, look: Look) -> Axes:
    times, look = checked(times, answers), look.of(answers)
    places = places_of(times)
    drawn = [places_of(column) for column in (answers.estimate, answers.lower, answers.upper)]
    few, marked = len(times) <= _FEW, len(times) <= _MARKED
    if few:
        draw_intervals(axes, places, drawn, look, upright=True)
    else:
        lower, upper = (np.where(np.isfinite(bound), bound, np.nan) for bound in drawn[1:])
        draw_band(axes, places, lower, upper, look)
    axes.plot(places, drawn[0], marker=look.marker if marked else "", markersize=4, label=look.name, **look.line)
    axes.margins(x=0.04 if marked else 0.01)
    axes.grid(alpha=0.3)
    mark(axes.xaxis, times)
    mark(axes.yaxis, answers.estimate)
    axes.set_xlabel(look.value)
    axes.set_ylabel(look.weight)
    return axes
