"""`plot` of a release and of a timeline: which picture draws which question."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from beam_dpsketch.answers.over_time.timeline import SketchTimeline
from beam_dpsketch.answers.released_sketch import ReleasedSketch
from beam_dpsketch.answers.rows import Many
from beam_dpsketch.errors import ArgumentError
from beam_dpsketch.plots.asking import ask_of, counted
from beam_dpsketch.plots.drawing import Look
from beam_dpsketch.plots.over_time import plot_timeline
from beam_dpsketch.plots.pictures import plot_cdf, plot_histogram, plot_top_k

_PICTURES: Mapping[str, Callable[..., Any]] = {"cdf": plot_cdf, "histogram": plot_histogram, "top_k": plot_top_k}


def draw_release(
    released: ReleasedSketch, kind: str, what: Any, *, candidates: Many | None, axes: Any, look: Look | None
) -> Any:
    """Do what `ReleasedSketch.plot` says."""
    look = (look or Look()).or_else(weight=counted(released))
    if candidates is not None and kind != "top_k":
        raise ArgumentError("candidates", "are for top_k alone: leave them out", "E709")
    if kind == "items":
        return plot_top_k(ask_of(kind, what, look).answer(released).answer, axes=axes, look=look)
    if kind not in _PICTURES:
        raise ArgumentError(
            "kind", f"must be one of {', '.join(_PICTURES)}, items; a SketchTimeline draws others, over time", "E719"
        )
    asked = () if what is None else (what,)
    chosen = {} if candidates is None else {"candidates": candidates}
    return _PICTURES[kind](released, *asked, **chosen, axes=axes, look=look)


def draw_timeline(timeline: SketchTimeline, kind: str, what: Any, *, look: Look | None, **more: Any) -> Any:
    """Do what `SketchTimeline.plot` says."""
    return plot_timeline(timeline, kind, what, look=look or Look(), **more)
