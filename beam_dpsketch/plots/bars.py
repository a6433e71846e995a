"""Answers as bars: items, and bins of a histogram."""

from __future__ import annotations

import datetime
import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from beam_dpsketch.answers.rows import Frequencies, Intervals, Many, as_list
from beam_dpsketch.plots.drawing import Look, add_legend, axes_for, draw_bars, draw_intervals
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
        raise ValueError("frequencies must have an item or more to draw")
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
        raise ValueError(f"edges must be one more than weights, got {len(listed)} and {len(weights)}")
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
    """Draw bars at whole places, with a name for each."""
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
    """Name both axes, with a line at 0."""
    weights, values = ("y", "x") if look.upright else ("x", "y")
    getattr(axes, f"set_{weights}label")(look.weight)
    getattr(axes, f"set_{values}label")(look.value)
    mark_weights(getattr(axes, f"{weights}axis"))
    axes.grid(axis=weights, alpha=0.3)
    (axes.axhline if look.upright else axes.axvline)(0, color="black", linewidth=0.8)


def _make_room(axes: Axes, items: int, look: Look) -> None:
    """Make a new figure large enough for the names of items."""
    width, height = axes.figure.get_size_inches()
    if look.upright:
        axes.figure.set_size_inches(max(width, 1 + 2 * _ROOM * items), height)
    else:
        axes.figure.set_size_inches(width, 1.2 + _ROOM * max(items, 4))


def _edge(value: Any) -> str:
    """Return an edge of a bin in words."""
    if isinstance(value, datetime.datetime):
        return value.strftime("%Y-%m-%d") if not (value.hour or value.minute) else value.strftime("%Y-%m-%d %H:%M")
    return number(value) if isinstance(value, (int, float)) else text(value)
