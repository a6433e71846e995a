"""The picture of a soak: memory, checkpoints and delay over time, with what was killed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from benchmarks.paper.plots import BLACK, BLUE, DPI, GREEN, ORANGE, PURPLE, SKY, VERMILION
from benchmarks.streams.soak.verdicts import Series

COLORS = (BLUE, ORANGE, GREEN, PURPLE, SKY)
Panel = tuple[str, Mapping[str, Series]]


def draw(
    path: Path, panels: Sequence[Panel], kills: Sequence[tuple[float, str]], span: tuple[float, float], start: float
) -> None:
    """A panel below the other for each unit; the span that has to be flat is shaded, and kills are lines."""
    figure, axes = plt.subplots(len(panels), 1, figsize=(10, 2.5 * len(panels)), sharex=True)
    for axis, (title, curves) in zip(axes, panels, strict=True):
        measured = {name: series for name, series in curves.items() if series}
        for color, (name, series) in zip(COLORS, measured.items(), strict=False):
            minutes = [(time - start) / 60 for time, _ in series]
            axis.plot(minutes, [value for _, value in series], ".-", color=color, label=name, linewidth=1, markersize=3)
        axis.axvspan(*((time - start) / 60 for time in span), color=BLACK, alpha=0.06, linewidth=0)
        for place, (time, what) in enumerate(kills):
            minute = (time - start) / 60
            axis.axvline(
                minute,
                color=VERMILION,
                linestyle="--",
                linewidth=1,
                label="kills" if axis is axes[0] and place == 0 else None,
            )
            if axis is axes[0]:
                axis.annotate(
                    f"{what} ",
                    (minute, 1.02 + 0.1 * (place % 3)),
                    xycoords=("data", "axes fraction"),
                    fontsize=8,
                    ha="center",
                    color=VERMILION,
                )
        axis.set(ylabel=title, ylim=(0, None))
        axis.grid(alpha=0.3)
        axis.legend(fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
    axes[-1].set_xlabel("minutes of the stream; shaded: has to be flat")
    figure.tight_layout()
    figure.savefig(path, dpi=DPI, pil_kwargs={"optimize": True})
    plt.close(figure)
