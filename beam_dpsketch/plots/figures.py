"""Figures of several panels, and their bytes: equal answers give equal bytes, without the time of the drawing."""

from __future__ import annotations

import io
import logging
import warnings
from typing import Any

from beam_dpsketch.plots.drawing import new_figure

_NO_TIME = {"png": {"Software": None}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}


def panel_grid(panels: int, columns: int, size: tuple[float, float]) -> tuple[Any, list[Any]]:
    """Return a new figure and its panels, row by row; `size` is that of one panel in inches."""
    rows = -(-panels // columns)
    figure = new_figure((size[0] * columns, size[1] * rows + 0.4))
    grid = figure.subplots(rows, columns, squeeze=False)
    for axes in grid.flat[panels:]:
        axes.set_visible(False)
    return figure, list(grid.flat[:panels])


def add_common_legend(figure: Any, grid: list[Any]) -> None:
    """Put one legend below all panels; equal names are one entry."""
    handles: dict[str, Any] = {}
    for axes in grid:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    figure.legend([*handles.values()], [*handles], loc="outside lower center", ncols=4, frameon=False)


def to_bytes(figure: Any, kind: str) -> bytes:
    """Return a figure as PNG, SVG or PDF; characters that the font lacks are drawn as boxes."""
    import matplotlib as mpl

    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    data = io.BytesIO()
    with mpl.rc_context({"svg.hashsalt": "dpsketch"}), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        figure.savefig(data, format=kind, metadata=_NO_TIME[kind])
    return data.getvalue()
