"""The picture: the error of each library, divided by ours."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from benchmarks.paper.plots import BLACK, BLUE, DPI, GREEN, ORANGE, PURPLE, VERMILION
from benchmarks.paper.records import Row
from benchmarks.public.contest import DATASKETCHES, OPENDP, OURS, OURS_AUTO, PIPELINE_DP, PLAIN

LOOKS = {
    PIPELINE_DP: (VERMILION, "v", "PipelineDP"),
    OPENDP: (GREEN, "s", "OpenDP"),
    PLAIN: (ORANGE, "D", "plain histogram"),
    OURS_AUTO: (BLUE, "^", "beam_dpsketch, norm chosen privately"),
    DATASKETCHES: (PURPLE, "x", "DataSketches (not private)"),
}
TICKS = (0.1, 0.2, 0.5, 1, 2, 5, 10)


def draw(path: Path, questions: Sequence[dict[str, Row]]) -> None:
    """A line for each question, in which ours is not 0."""
    shown = [each for each in questions if each[OURS]["error"]]
    figure, panel = plt.subplots(figsize=(10, 1.4 + 0.27 * len(shown)))
    for library, (color, marker, label) in LOOKS.items():
        points = [(each[library], each[OURS], place) for place, each in enumerate(shown) if library in each]
        ratios = [(row["error"] / ours["error"], place) for row, ours, place in points if row["error"]]
        if ratios:
            panel.plot(*zip(*ratios, strict=True), marker, color=color, label=label, markersize=7, alpha=0.85)
    panel.axvline(1, color=BLACK, linewidth=1)
    panel.set_yticks(
        range(len(shown)), [f"{each[OURS]['data']}: {each[OURS]['question']}" for each in shown], fontsize=8
    )
    panel.set(xscale="log", xlabel="error / error of beam_dpsketch (log scale): right of 1, beam_dpsketch is closer")
    panel.set_xticks(TICKS, [f"{tick:g}" for tick in TICKS])
    panel.minorticks_off()
    panel.invert_yaxis()
    panel.grid(alpha=0.3)
    panel.legend(loc="lower center", bbox_to_anchor=(0.35, 1), ncols=3, fontsize=8, frameon=False)
    figure.tight_layout()
    figure.savefig(path, dpi=DPI, pil_kwargs={"optimize": True})
    plt.close(figure)
