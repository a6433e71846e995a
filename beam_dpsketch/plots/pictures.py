"""Answers as bars (items, bins of a histogram) and as curves (shares at or below values, answers over time)."""

from __future__ import annotations

import datetime
import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from beam_dpsketch.answers.rows import Frequencies, Intervals, Many, as_list
from beam_dpsketch.errors import ArgumentError
from beam_dpsketch.plots.drawing import Look, add_legend, axes_for, draw_band, draw_bars, draw_intervals
from beam_dpsketch.plots.scales import mark, mark_weights, number, numbers_of, places_of, text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_ITEMS, _BINS = Look(value=""), Look(upright=True)
_WIDTH, _ROOM = 0.7, 0.3
_EQUAL = 1e-6
_ALL_UPRIGHT = 80


def plot_top_k(frequencies: Frequencies, axes: Axes | None = None, *, look: Look = _ITEMS) -> Axes:
    """Draw items in their order, with a bar for each estimate and a line for its interval; return the axes.

    Args:
      frequencies: what `top_k` or `interval` of a release answers.
      axes: where to draw; `None` makes a new figure, higher for more items.
      look: names, confidence and colour; `look.upright` puts the bars upright.

    Raises `ValueError` where there are no items, and `ImportError` without matplotlib.

    >>> from beam_dpsketch import CountSketch, PrivacySpec, ReleaseTerms, SketchSpec, release
    >>> raw = CountSketch(SketchSpec(width=64)).accumulate(["a"] * 900 + ["b"] * 100)
    >>> top = release(raw, ReleaseTerms(PrivacySpec(rho=1.0))).top_k(2, ["a", "b", "c"])
    >>> [label.get_text() for label in plot_top_k(top).get_yticklabels()]
    ['a', 'b']
    """
    if not len(frequencies):
        raise ArgumentError("frequencies", "must have an item or more to draw", "E719")
    is_new, axes = axes is None, axes_for(axes)
    if is_new:
        _make_room(axes, len(frequencies), look)
    answers = numbers_of((frequencies.estimate, frequencies.lower, frequencies.upper))
    _draw(axes, np.arange(len(frequencies)), [text(item) for item in frequencies.item], answers, look)
    if is_new:
        add_legend(axes)
    return axes


def plot_histogram(edges: Many, weights: Intervals, axes: Axes | None = None, *, look: Look = _BINS) -> Axes:
    """Draw the weight of bins as bars, with a line for each interval; return the axes.

    Bins of one width lie on the scale of their values. Others have bars of one width, with the ends of each bin below.

    Args:
      edges: the edges of the bins: numbers, times or IPv4 addresses, ascending; one more than there are bins.
      weights: what `histogram(edges)` of a release over a domain answers.
      axes: where to draw; `None` makes a new figure.
      look: names, confidence and colour.

    Raises `ValueError` where there is not one more edge than weights, and `ImportError` without matplotlib.
    """
    listed = list(as_list(edges))
    if len(listed) != len(weights) + 1 or len(listed) < 2:
        raise ArgumentError("edges", f"must be one more than weights, got {len(listed)} and {len(weights)}", "E719")
    is_new, axes = axes is None, axes_for(axes)
    answers = numbers_of((weights.estimate, weights.lower, weights.upper))
    ends = places_of(listed)
    widths = np.diff(ends)
    # The last bin has its end, so that its last edge is often one less than that of bins of one width.
    if (
        look.upright
        and len(widths) > 1
        and np.ptp(widths[:-1]) <= _EQUAL * widths[0] >= abs(widths[-1] - widths[0]) - 1
    ):
        draw_bars(axes, ends[:-1] + widths / 2, answers[0], widths, look)
        draw_intervals(axes, ends[:-1] + widths / 2, answers, look, upright=True)
        mark(axes.xaxis, listed)
        _name(axes, look)
    else:
        names = [f"{_edge(low)} to\n{_edge(high)}" for low, high in itertools.pairwise(listed)]
        _draw(axes, np.arange(len(names)), names, answers, look)
    if is_new:
        add_legend(axes)
    return axes


def _draw(axes: Axes, places: np.ndarray, names: list[str], answers: list[np.ndarray], look: Look) -> None:
    draw_bars(axes, places, answers[0], _WIDTH, look)
    draw_intervals(axes, places, answers, look, upright=look.upright)
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
    if isinstance(value, datetime.datetime):
        return value.strftime("%Y-%m-%d") if not (value.hour or value.minute) else value.strftime("%Y-%m-%d %H:%M")
    return number(value) if isinstance(value, (int, float)) else text(value)


_USUAL = Look()
_FEW, _MARKED = 12, 60


def plot_cdf(values: Many, shares: Intervals, axes: Axes | None = None, *, look: Look = _USUAL) -> Axes:
    """Draw the share of the weight at or below values, with the band of the intervals; return the axes.

    The curve is made of steps, so ask at enough values. Each interval holds for its value alone.

    Args:
      values: where shares were asked: numbers, times or IPv4 addresses, ascending.
      shares: what `cdf_interval(values)` of a release over a domain answers.
      axes: where to draw; `None` makes a new figure.
      look: names, confidence and colour.

    Raises `ValueError` where values and shares are not of one length, and `ImportError` without matplotlib.

    >>> from beam_dpsketch import IntegerDomain, DyadicCountSketch, PrivacySpec, ReleaseTerms, TreeSpec, release
    >>> raw = DyadicCountSketch(TreeSpec.for_memory(IntegerDomain(0, 99))).accumulate(range(100))
    >>> released = release(raw, ReleaseTerms(PrivacySpec(rho=1.0)))
    >>> axes = plot_cdf(range(100), released.cdf_interval(range(100)), look=Look(value="delay, minutes"))
    >>> axes.get_xlabel(), axes.get_legend_handles_labels()[1]
    ('delay, minutes', ['95 % intervals', 'private estimate'])
    """
    values = _checked(values, shares)
    is_new, axes = axes is None, axes_for(axes)
    places, (estimate, lower, upper) = places_of(values), numbers_of((shares.estimate, shares.lower, shares.upper))
    draw_band(axes, places, 100 * lower, 100 * upper, look, "post")
    axes.step(places, 100 * estimate, where="post", label=look.name, **look.line)
    axes.set_ylim(0, 100)
    axes.margins(x=0)
    axes.grid(alpha=0.3)
    mark(axes.xaxis, values)
    axes.set_xlabel(look.value)
    axes.set_ylabel(f"{look.weight} at or below, %")
    if is_new:
        add_legend(axes)
    return axes


def plot_timeline(times: Many, answers: Intervals, axes: Axes | None = None, *, look: Look = _USUAL) -> Axes:
    """Draw one answer for each window, with its interval; return the axes.

    Up to 12 windows have an interval each, more have a band. Each interval holds for its window alone.

    Args:
      times: when the windows are: times, or their numbers.
      answers: what was answered about each: weights, shares, or values such as quantiles.
      axes: where to draw; `None` makes a new figure. Several series on the same axes need different `look.series`.
      look: names, confidence and colour; `look.value` names the times, and `look.weight` the answers.

    Raises `ValueError` where times and answers are not of one length, and `ImportError` without matplotlib.
    """
    times = _checked(times, answers)
    is_new, axes = axes is None, axes_for(axes)
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
    if is_new:
        add_legend(axes)
    return axes


def _checked(places: Many, answers: Intervals) -> list[Any]:
    listed = as_list(places)
    listed = listed if isinstance(listed, list) else list(listed)
    if not listed or len(listed) != len(answers):
        raise ArgumentError(
            "", f"values and answers must be of one length and not empty, got {len(listed)} and {len(answers)}", "E719"
        )
    return listed
