"""Answers to a picture: one panel for each release or key, side by side, with one legend."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from beam_dpsketch.answers.released_sketch import ReleasedSketch
from beam_dpsketch.answers.rows import Frequencies, Intervals
from beam_dpsketch.cli.text import AnswerError, UsageError, shown
from beam_dpsketch.plots import Look, plot_cdf, plot_histogram, plot_timeline, plot_top_k
from beam_dpsketch.plots.drawing import add_common_legend, panel_grid, to_bytes
from beam_dpsketch.plots.scales import places_of, text
from beam_dpsketch.questions.kinds import Drawing

MAX_PANELS = 12
_WIDE, _ONE_WIDE, _HIGH, _BAR = 6.0, 8.0, 3.6, 0.3
_TAIL = 0.005


class Names(NamedTuple):
    """What is drawn, and how it is called; `None` takes what the release says."""

    drawing: Drawing
    value: str | None
    weight: str | None
    confidence: float
    so_far: bool = False
    whole_domain: bool = False


class Panel(NamedTuple):
    """What one panel shows.

    Attributes:
      place: the columns that say where it was found.
      series: the rows of each line; of one release, its rows.
      released: a release that answered, which says what is counted.
    """

    place: dict[str, Any]
    series: list[list[dict[str, Any]]]
    released: ReleasedSketch


def draw(panels: Sequence[Panel], names: Names, kind: str) -> bytes:
    """Return the picture of all panels.

    Raises `UsageError` without matplotlib, and `AnswerError` for answers that do not fit on an axis.
    """
    columns = 1 if len(panels) == 1 else 2 if len(panels) <= 4 else 3
    size = (_ONE_WIDE if columns == 1 else _WIDE, max(_height(panel, names) for panel in panels))
    try:
        figure, grid = panel_grid(len(panels), columns, size)
        for axes, panel, title in zip(grid, panels, _titles(panels), strict=True):
            _DRAWN[names.drawing.form](axes, panel, names)
            axes.set_title(title, fontsize=11)
        add_common_legend(figure, grid)
        return to_bytes(figure, kind)
    except ImportError as error:
        raise UsageError(error) from None
    except (ValueError, OverflowError, TypeError):  # the message may hold an item
        raise AnswerError("these answers do not fit on an axis") from None


def _draw_cdf(axes: Any, panel: Panel, names: Names) -> None:
    """Draw the shares; of a whole domain, as far as they change, because most of a wide one is often empty."""
    (rows,) = panel.series
    values = [row["value"] for row in rows]
    plot_cdf(values, _intervals(rows), axes, look=_look(panel, names, "value"))
    shares, places = np.array([row["estimate"] for row in rows]), places_of(values)
    moving = np.flatnonzero((shares > _TAIL) & (shares < 1 - _TAIL))
    if names.whole_domain and len(moving):
        first, last = max(moving[0] - 1, 0), min(moving[-1] + 1, len(places) - 1)
        room = 0.03 * (places[last] - places[first])
        axes.set_xlim(max(places[0], places[first] - room), min(places[-1], places[last] + room))


def _draw_top(axes: Any, panel: Panel, names: Names) -> None:
    (rows,) = panel.series
    answers = _intervals(rows)
    frequencies = Frequencies([shown(row["item"]) for row in rows], answers.estimate, answers.lower, answers.upper)
    plot_top_k(frequencies, axes, look=_look(panel, names, ""))


def _draw_histogram(axes: Any, panel: Panel, names: Names) -> None:
    (rows,) = panel.series
    edges = [*(row["range_low"] for row in rows), rows[-1]["range_high"]]
    plot_histogram(edges, _intervals(rows), axes, look=_look(panel, names, "value"))


def _draw_over_time(axes: Any, panel: Panel, names: Names) -> None:
    """Draw one line for each item or share."""
    times = "end of the window, from the start (UTC)" if names.so_far else "start of the window (UTC)"
    axis = (names.value or "value") if names.drawing.axis == "value" else names.drawing.axis
    weight = axis or names.weight or _counted(panel.released)
    for number, rows in enumerate(panel.series):
        look = Look(
            value=times,
            weight=_escaped(weight),
            confidence=names.confidence,
            name=names.drawing.line.format(**{**rows[0], "item": text(shown(rows[0].get("item")))}),
            series=number,
        )
        plot_timeline([row["time"] for row in rows], _intervals(rows), axes, look=look)


_DRAWN = {"cdf": _draw_cdf, "bars": _draw_top, "histogram": _draw_histogram, "lines": _draw_over_time}


def _look(panel: Panel, names: Names, value: str) -> Look:
    """Return how a panel of one release is labelled."""
    return Look(
        value=_escaped(names.value or value),
        weight=_escaped(names.weight or _counted(panel.released)),
        confidence=names.confidence,
        upright=names.drawing.form == "histogram",
    )


def _counted(released: ReleasedSketch) -> str:
    """Return what a release counts: records, or where they weigh differently, weight."""
    bounds = released.privacy.bounds
    return "weight" if bounds.has_weights or bounds.has_norm else "records"


def _intervals(rows: Sequence[dict[str, Any]]) -> Intervals:
    columns = ([row[name] for row in rows] for name in ("estimate", "lower", "upper"))
    return Intervals(*columns)


def _titles(panels: Sequence[Panel]) -> list[str]:
    """Return what tells panels apart: the key, and what else differs."""
    names = dict.fromkeys(name for panel in panels for name in panel.place)
    telling = [name for name in names if name == "key" or len({shown(panel.place.get(name)) for panel in panels}) > 1]
    return [
        ", ".join(_escaped(shown(panel.place[name])) for name in telling if panel.place.get(name) is not None)
        for panel in panels
    ]


def _escaped(words: str) -> str:
    """Return words of a label, which may be longer than names of items."""
    return " ".join(text(word) for word in words.split(" "))


def _height(panel: Panel, names: Names) -> float:
    """Return how high a panel must be, in inches."""
    return 0.9 + _BAR * max(5, len(panel.series[0])) if names.drawing.form == "bars" else _HIGH
