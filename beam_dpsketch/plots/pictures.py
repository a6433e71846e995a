"""Answers as bars (items, bins of a histogram) and as curves (shares at or below values)."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from beam_dpsketch.answers.released_sketch import ReleasedSketch
from beam_dpsketch.answers.rows import Frequencies, Intervals, Many, as_list
from beam_dpsketch.errors import ArgumentError
from beam_dpsketch.plots.asking import counted, is_logarithmic, to_draw
from beam_dpsketch.plots.drawing import Look, add_legend, axes_for, draw_band, draw_bars, draw_intervals
from beam_dpsketch.plots.scales import mark, mark_weights, number, numbers_of, places_of, text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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
    """Draw items in their order, with a bar for each estimate and a line for its interval; return the axes.

    Args:
      answers: a release, which is asked for its `top_k`; or what `top_k` or `interval` of a release answers.
      k: how many items to draw; 10 of a release, all of answers.
      candidates: what a flat sketch chooses from, which stores no items; public. See `ReleasedSketch.top_k`.
      axes: where to draw; `None` makes a new figure, higher for more items.
      look: names, confidence and colour; `look.upright` puts the bars upright.

    Raises `ValueError` where there are no items, and `ImportError` without matplotlib.

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
        raise ArgumentError("answers", "must have an item or more to draw", "E719")
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
    """Draw the weight of bins as bars, with a line for each interval; return the axes.

    Each bin begins with its lower edge and ends before the next one, and the last one holds its end too. Bins of one
    width lie on the scale of their values. Others have bars of one width, with the ends of each bin below.

    Args:
      answers: a released tree over a domain, which is asked; or what `histogram(edges)` of one answers.
      edges: the edges of the bins: numbers, times or IPv4 addresses, ascending; one more than there are bins. Of a
        release also a number of bins: parts of its domain that are equal, but for the last one.
      axes: where to draw; `None` makes a new figure.
      look: names, confidence and colour; `look.upright=False` lets the bars lie.

    Raises `ValueError` where there is not one more edge than weights, and `ImportError` without matplotlib.
    """
    weights, rows = to_draw(answers, Intervals, "histogram", edges, look)
    listed = [*(row["range_low"] for row in rows), rows[-1]["range_high"]] if rows else list(as_list(edges))
    look = look.or_else(value="value", weight=counted(answers), upright=True)
    if len(listed) != len(weights) + 1 or len(listed) < 2:
        raise ArgumentError("edges", f"must be one more than weights, got {len(listed)} and {len(weights)}", "E719")
    is_new, axes, look = axes is None, axes_for(axes), look.of(weights)
    columns = numbers_of((weights.estimate, weights.lower, weights.upper))
    ends = places_of(listed)
    widths = np.diff(ends)
    # The last bin has its end, so that its last edge is often one less than that of bins of one width.
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
    """Draw the share of the weight at or below values, with the band of the intervals; return the axes.

    The curve is made of steps, so ask at enough values. Each interval holds for its value alone.

    Args:
      answers: a released tree over a domain, which is asked; or what `cdf_interval(values)` of one answers.
      values: where shares are asked: numbers, times or IPv4 addresses, ascending. Of a release also a number: the ends
        of that many equal parts of its domain, 1,000 if nothing is given; the axis then shows where the share grows.
      axes: where to draw; `None` makes a new figure.
      look: names, confidence and colour.

    Raises `ValueError` where values and shares are not of one length, and `ImportError` without matplotlib.

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
    """Let an axis show the places between which shares grow."""
    growing = np.flatnonzero((shares > _TAIL) & (shares < 1 - _TAIL))
    if len(growing):
        first, last = max(growing[0] - 1, 0), min(growing[-1] + 1, len(places) - 1)
        room = 0.03 * (places[last] - places[first])
        axes.set_xlim(max(places[0], places[first] - room), min(places[-1], places[last] + room))


def checked(places: Any, answers: Intervals) -> list[Any]:
    """Return places as a list; refuse them where answers are not about each of them."""
    listed = [] if places is None else as_list(places)
    listed = listed if isinstance(listed, list) else list(listed)
    if not listed or len(listed) != len(answers):
        raise ArgumentError(
            "", f"values and answers must be of one length and not empty, got {len(listed)} and {len(answers)}", "E719"
        )
    return listed
