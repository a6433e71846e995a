"""Answers as curves: shares at or below values, and answers over time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from beam_dpsketch.answers.rows import Intervals, Many, as_list
from beam_dpsketch.plots.drawing import Look, add_legend, axes_for, draw_band, draw_intervals
from beam_dpsketch.plots.scales import mark, numbers_of, places_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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
    """Return places as a list; refuse more or fewer than answers."""
    listed = as_list(places)
    listed = listed if isinstance(listed, list) else list(listed)
    if not listed or len(listed) != len(answers):
        raise ValueError(
            f"values and answers must be of one length and not empty, got {len(listed)} and {len(answers)}"
        )
    return listed
