"""Plots of given answers, or of a release at the confidence in a `Look`.

Bars show items and histogram bins, and curves show shares at or below values. Lines show answers over time: for each
window in a timeline, or for all windows so far. `draw_release` and `draw_timeline` choose the plot for `plot`.
"""

from __future__ import annotations

import dataclasses
import datetime
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from beam_dpsketch import checks as _validate
from beam_dpsketch.answers.over_time import SketchTimeline
from beam_dpsketch.answers.questions.ask import Ask
from beam_dpsketch.answers.questions.entries import Row, Takes
from beam_dpsketch.answers.questions.kinds import Kind
from beam_dpsketch.answers.released import Released
from beam_dpsketch.answers.released_sketch import ReleasedSketch
from beam_dpsketch.answers.rows import Frequencies, Intervals, Many, as_list, as_many
from beam_dpsketch.errors import ArgumentError, ArgumentTypeError
from beam_dpsketch.plots.drawing import (
    COLOURS,
    Look,
    Told,
    add_legend,
    axes_for,
    draw_band,
    draw_bars,
    draw_intervals,
    mark,
    mark_weights,
    number,
    numbers_of,
    places_of,
    text,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes


Answers = TypeVar("Answers")


def to_draw(
    answers: Any, expected: type[Answers], kind: Kind, what: Any, look: Look, candidates: Many | None = None
) -> tuple[Answers, list[Row]]:
    """Accept given answers, or ask a release for answers with their rows. Reject anything else."""
    if isinstance(answers, expected):
        return answers, []
    if not isinstance(answers, Released):
        raise ArgumentTypeError(
            "answers",
            f"must be a release or its {expected.__name__}, got {type(answers).__name__}. From a dict, pass the "
            "release of a single key. From a SketchTimeline, pass timeline.between(first, last)",
            "E701",
        )
    found = ask_of(kind, what, look, candidates).answer(answers)
    return found.answer, found.rows


def ask_of(kind: Any, what: Any, look: Look, candidates: Many | None = None) -> Ask:
    """Build a question. A single value stands for a list if the question accepts several."""
    ask = Ask(kind, what, look.confidence, None if candidates is None else _validate.many(candidates=candidates))
    if ask.entry.takes not in (Takes.SHARES, Takes.VALUES):
        return ask
    if what is None:
        raise ArgumentError("what", f"must list the {kind} to draw", "E719")
    return dataclasses.replace(ask, what=as_many(what)[0])


def is_logarithmic(answers: Any) -> bool:
    """Whether a release has a logarithmic domain. False for given answers, which have no domain."""
    domain = answers.spec.domain if isinstance(answers, Released) else None
    return domain is not None and domain.is_logarithmic


def intervals_of(rows: Iterable[Row]) -> Intervals:
    """Convert rows to intervals."""
    rows = list(rows)
    return Intervals(*([row[name] for row in rows] for name in ("estimate", "lower", "upper")))


def counted(answers: Any) -> str:
    """Label for the counts in a release, or "records" for given answers."""
    if not isinstance(answers, Released):
        return "records"
    bounds = answers.privacy.bounds
    return "weight" if bounds.has_weights or bounds.has_norm else "records"


_USUAL = Look()
_WIDTH, _ROOM = 0.7, 0.3
_EQUAL, _TAIL = 1e-6, 0.005
_ALL_UPRIGHT = 80
_USUAL_ITEMS, _USUAL_BINS, _USUAL_PLACES = 10, 20, 1000


def plot_top_k(
    answers: ReleasedSketch | Frequencies,
    k: int | None = None,
    *,
    candidates: Many | None = None,
    axes: Axes | None = None,
    look: Look = _USUAL,
) -> Axes:
    """Draw items in their order, with a bar for each estimate and a line for its interval. Return the axes.

    Args:
      answers: a release with a `top_k`, or the answer of a release's `top_k` or `interval`.
      k: the number of items to draw, by default 10 from a release and all from an answer.
      candidates: public items to choose from, for a flat sketch, which stores no items. See `ReleasedSketch.top_k`.
      axes: where to draw. `None` makes a new figure, higher for more items.
      look: names, confidence and color. `look.upright` draws vertical bars.

    Raises `ValueError` without items, and `ImportError` without matplotlib.

    >>> from beam_dpsketch import CountSketch, PrivacySpec, ReleaseTerms, SketchSpec, release
    >>> raw = CountSketch(SketchSpec(width=64)).accumulate(["a"] * 900 + ["b"] * 100)
    >>> released = release(raw, ReleaseTerms(PrivacySpec(rho=1.0)))
    >>> axes = plot_top_k(released, 2, candidates=["a", "b", "c"])
    >>> [label.get_text() for label in axes.get_yticklabels()]
    ['a', 'b']
    """
    frequencies, _ = to_draw(answers, Frequencies, "top_k", _USUAL_ITEMS if k is None else k, look, candidates)
    frequencies, look = frequencies[:k], look.or_else(value="item", weight=counted(answers), upright=False)
    if not len(frequencies):
        raise ArgumentError("answers", "must contain at least one item to draw", "E719")
    is_new, axes, look = axes is None, axes_for(axes), look.of(frequencies)
    if is_new:
        _make_room(axes, len(frequencies), look)
    columns = numbers_of((frequencies.estimate, frequencies.lower, frequencies.upper))
    _draw(axes, np.arange(len(frequencies)), [text(item) for item in frequencies.item], columns, look)
    if is_new:
        add_legend(axes, frequencies)
    return axes


def plot_histogram(
    answers: ReleasedSketch | Intervals,
    edges: Many | int = _USUAL_BINS,
    *,
    axes: Axes | None = None,
    look: Look = _USUAL,
) -> Axes:
    """Draw the weight per bin as bars, with a line for each interval. Return the axes.

    Each bin starts at its lower edge and ends before the next edge, but the last bin includes its end. Bins of equal
    width are drawn on the scale of their values. Other bins have equal bars, labeled with their ends.

    Args:
      answers: a release with an ordered domain, or the answer of its `histogram(edges)`.
      edges: ascending edges: numbers, times or IPv4 addresses, one more than there are bins. For a release also a
        number of bins, which divides its domain into equal parts, except for the last.
      axes: where to draw. `None` makes a new figure.
      look: names, confidence and color. `look.upright=False` draws horizontal bars.

    Raises `ValueError` unless edges are one more than weights, and `ImportError` without matplotlib.
    """
    weights, rows = to_draw(answers, Intervals, "histogram", edges, look)
    listed = [*(row["range_low"] for row in rows), rows[-1]["range_high"]] if rows else list(as_list(edges))
    look = look.or_else(value="value", weight=counted(answers), upright=True)
    if len(listed) != len(weights) + 1 or len(listed) < 2:
        raise ArgumentError("edges", f"must be longer than weights by 1, got {len(listed)} and {len(weights)}", "E719")
    is_new, axes, look = axes is None, axes_for(axes), look.of(weights)
    columns = numbers_of((weights.estimate, weights.lower, weights.upper))
    ends = places_of(listed)
    widths = np.diff(ends)
    # The last bin includes its end, so its last edge is often 1 below an even edge.
    is_even = len(widths) > 1 and np.ptp(widths[:-1]) <= _EQUAL * widths[0] >= widths[-1] - widths[0] - 1
    if look.upright and is_even:
        draw_bars(axes, ends[:-1] + widths / 2, columns[0], widths, look)
        draw_intervals(axes, ends[:-1] + widths / 2, columns, look, upright=True)
        mark(axes.xaxis, listed)
        _name(axes, look)
    else:
        names = [f"{_edge(low)} to\n{_edge(high)}" for low, high in itertools.pairwise(listed)]
        names[-1] += " incl."
        _draw(axes, np.arange(len(names)), names, columns, look)
    if is_new:
        add_legend(axes, weights)
    return axes


def _draw(axes: Axes, places: np.ndarray, names: list[str], columns: list[np.ndarray], look: Look) -> None:
    draw_bars(axes, places, columns[0], _WIDTH, look)
    draw_intervals(axes, places, columns, look, upright=bool(look.upright))
    if look.upright:
        slanted = {"rotation": 30, "horizontalalignment": "right", "rotation_mode": "anchor"}
        is_long = len(names) * max(len(line) for name in names for line in name.split("\n")) > _ALL_UPRIGHT
        axes.set_xticks(places, names, **(slanted if is_long else {}))
    else:
        axes.set_yticks(places, names)
        axes.set_ylim(len(places) - 0.5, -0.5)
    _name(axes, look)


def _name(axes: Axes, look: Look) -> None:
    weights, values = ("y", "x") if look.upright else ("x", "y")
    getattr(axes, f"set_{weights}label")(look.weight)
    getattr(axes, f"set_{values}label")(look.value)
    mark_weights(getattr(axes, f"{weights}axis"))
    axes.grid(axis=weights, alpha=0.3)
    (axes.axhline if look.upright else axes.axvline)(0, color="black", linewidth=0.8)


def _make_room(axes: Axes, items: int, look: Look) -> None:
    width, height = axes.figure.get_size_inches()
    if look.upright:
        axes.figure.set_size_inches(max(width, 1 + 2 * _ROOM * items), height)
    else:
        axes.figure.set_size_inches(width, 1.2 + _ROOM * max(items, 4))


def _edge(value: Any) -> str:
    return number(value) if isinstance(value, (int, float)) else text(value)


def plot_cdf(
    answers: ReleasedSketch | Intervals,
    values: Many | int | None = None,
    *,
    axes: Axes | None = None,
    look: Look = _USUAL,
) -> Axes:
    """Draw the share of the weight at or below values, with the band of the intervals. Return the axes.

    The curve consists of steps and needs enough values. Each interval has its confidence for its value alone.

    Args:
      answers: a release with an ordered domain, or the answer of its `cdf_interval(values)`.
      values: ascending numbers, times or IPv4 addresses. For a release also a number of equal parts of its domain,
        1,000 by default, whose ends are the values. The axis then shows the values between which the share grows.
      axes: where to draw. `None` makes a new figure.
      look: names, confidence and color.

    Raises `ValueError` if values and shares differ in length, and `ImportError` without matplotlib.

    >>> from beam_dpsketch import IntegerDomain, DyadicCountSketch, PrivacySpec, ReleaseTerms, TreeSpec, release
    >>> raw = DyadicCountSketch(TreeSpec.for_memory(IntegerDomain(0, 99))).accumulate(range(100))
    >>> axes = plot_cdf(release(raw, ReleaseTerms(PrivacySpec(rho=1.0))), look=Look(value="delay, minutes"))
    >>> axes.get_xlabel(), axes.get_legend_handles_labels()[1]
    ('delay, minutes', ['95 % intervals', 'private estimate'])
    """
    asked = _USUAL_PLACES if values is None else values
    shares, rows = to_draw(answers, Intervals, "cdf", asked, look)
    look = look.or_else(value="value", weight=counted(answers), logarithmic=is_logarithmic(answers))
    values = checked([row["value"] for row in rows] if rows else values, shares)
    is_new, axes, look = axes is None, axes_for(axes), look.of(shares)
    places, (estimate, lower, upper) = places_of(values), numbers_of((shares.estimate, shares.lower, shares.upper))
    draw_band(axes, places, 100 * lower, 100 * upper, look, "post")
    axes.step(places, 100 * estimate, where="post", label=look.name, **look.line)
    axes.set_ylim(0, 100)
    if look.logarithmic:
        axes.set_xscale("log")
    axes.margins(x=0)
    axes.grid(alpha=0.3)
    if rows and isinstance(asked, int):
        show_growth(axes, places, estimate)
    mark(axes.xaxis, values)
    axes.set_xlabel(look.value)
    axes.set_ylabel(f"{look.weight} at or below, %")
    if is_new:
        add_legend(axes, shares)
    return axes


def show_growth(axes: Axes, places: np.ndarray, shares: np.ndarray) -> None:
    """Limit an axis to the places between which shares grow."""
    growing = np.flatnonzero((shares > _TAIL) & (shares < 1 - _TAIL))
    if len(growing):
        first, last = max(growing[0] - 1, 0), min(growing[-1] + 1, len(places) - 1)
        room = 0.03 * (places[last] - places[first])
        axes.set_xlim(max(places[0], places[first] - room), min(places[-1], places[last] + room))


def checked(places: Any, answers: Intervals) -> list[Any]:
    """Convert places to a list. Reject a list whose length differs from the number of answers."""
    listed = [] if places is None else as_list(places)
    listed = listed if isinstance(listed, list) else list(listed)
    if not listed or len(listed) != len(answers):
        raise ArgumentError(
            "",
            f"values and answers must have the same length and not be empty, got {len(listed)} and {len(answers)}",
            "E719",
        )
    return listed


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
    """Draw answers over time as lines, with their intervals. Return the axes.

    Up to 12 windows have an interval each, more have a band. Each interval has its confidence for its window alone.

    Args:
      answers: a timeline, or the answers about each window: weights, shares, or values such as quantiles.
      about: for a timeline, the kind of question: "items", "quantiles", "records", "privacy_units", "total_weight", and
        for numbers "count", "total", "mean", "variance" or "std". For answers, the times or numbers of their windows.
      what: for a timeline, up to 7 items or shares, with a line each.
      windows: for a timeline, the first and the last window, by default all available windows.
      so_far: for a timeline, whether each answer covers all windows up to its own.
      axes: where to draw. `None` makes a new figure. Several series on the same axes need different `look.series`.
      look: names, confidence and color. `look.value` names the times, and `look.weight` the answers.

    Raises `ValueError` if times and answers differ in length, and `ImportError` without matplotlib.
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
            "answers", f"must be a SketchTimeline or Intervals, got {type(answers).__name__}", "E701"
        )
    if is_new:
        add_legend(axes, *told)
    return axes


def _draw_windows(
    windows: Iterable[tuple[datetime.datetime, ReleasedSketch]], ask: Ask, so_far: bool, axes: Axes, look: Look
) -> tuple[Axes, Sequence[Told]]:
    """Draw a line for each row in the answer about a window. Return the axes and the answers."""
    drawing = ask.entry.drawing
    if drawing is None or drawing.form != "lines":
        raise ArgumentError(
            "", f"{ask.kind} cannot be drawn over time. Draw a release of some windows: $some_windows", "E719"
        )
    times, releases = zip(*windows, strict=True)
    asked = [ask.answer(released) for released in releases]
    series = [*zip(*(each.rows for each in asked), strict=True)]
    if len(series) > len(COLOURS):
        raise ArgumentError("what", f"must give at most {len(COLOURS)} lines, got {len(series)}", "E719")
    axis = drawing.axis or counted(releases[0])
    starts, intervals = WINDOW_ENDS if so_far else WINDOW_STARTS, asked[0].intervals
    look = look.or_else(value=starts, weight=axis, interval_name=intervals)
    for place, rows in enumerate(series):
        name = drawing.line.format(**{**rows[0], "item": text(rows[0].get("item"))})
        line = dataclasses.replace(look, name=name, series=look.series + place)
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
    mark(axes.yaxis, answers.lower)
    axes.set_xlabel(look.value)
    axes.set_ylabel(look.weight)
    return axes


_PICTURES: Mapping[str, Callable[..., Any]] = {"cdf": plot_cdf, "histogram": plot_histogram, "top_k": plot_top_k}


def draw_release(
    released: ReleasedSketch, kind: str, what: Any, *, candidates: Many | None, axes: Any, look: Look | None
) -> Any:
    """Draw the plot of `ReleasedSketch.plot`."""
    look = (look or Look()).or_else(weight=counted(released))
    if candidates is not None and kind != "top_k":
        raise ArgumentError("candidates", "are supported for top_k only. Remove them", "E709")
    if kind == "items":
        return plot_top_k(ask_of(kind, what, look).answer(released).answer, axes=axes, look=look)
    if kind not in _PICTURES:
        raise ArgumentError(
            "kind",
            f"must be one of {', '.join(_PICTURES)}, items. A SketchTimeline draws other kinds, over time",
            "E719",
        )
    asked = () if what is None else (what,)
    chosen = {} if candidates is None else {"candidates": candidates}
    return _PICTURES[kind](released, *asked, **chosen, axes=axes, look=look)


def draw_timeline(timeline: SketchTimeline, kind: str, what: Any, *, look: Look | None, **more: Any) -> Any:
    """Draw the plot of `SketchTimeline.plot`."""
    return plot_timeline(timeline, kind, what, look=look or Look(), **more)
