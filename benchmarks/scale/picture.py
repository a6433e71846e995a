"""The picture of all scenarios: where the time of each kind of release goes, and its bytes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import FuncFormatter, PercentFormatter

from benchmarks.paper.plots import BLACK, BLUE, GREEN, ORANGE, PURPLE, SKY
from benchmarks.scale.predicting import Result, shown_bytes, shown_time

_COLOURS = {"sum": SKY, "shard": BLUE, "bound": ORANGE, "merge": GREEN, "last merge": PURPLE, "release": BLACK}

_GREY = "#7F7F7F"


def draw(file: Path, scenarios: Mapping[str, Mapping[str, Result]]) -> None:
    """Draw a row of panels for each scenario: shares of the time of each step, with the time of all, and bytes."""
    figure, panels = plt.subplots(len(scenarios), 2, figsize=(12, 2.9 * len(scenarios) + 0.6), squeeze=False)
    for (scenario, results), (of_time, of_bytes) in zip(scenarios.items(), panels, strict=True):
        for place, made in enumerate(results.values()):
            start = 0.0
            for each in made.stages:
                share = each.seconds / made.seconds
                of_time.barh(place, share, left=start, color=_COLOURS[each.stage.name])
                start += share
            of_time.text(start, place, f"  {shown_time(made.seconds)}", va="center", fontsize=8)
            of_bytes.barh(place, made.sent, color=_GREY)
            of_bytes.text(made.sent, place, f"  {shown_bytes(made.sent)}", va="center", fontsize=8)
        of_time.set(title=f"{scenario}: share of each step in the time by the clock", xlim=(0, 1.2))
        of_time.set_xticks(np.linspace(0, 1, 5))
        of_time.xaxis.set_major_formatter(PercentFormatter(1))
        of_time.set_yticks(range(len(results)), results, fontsize=8)
        of_bytes.set(title=f"{scenario}: bytes between workers, log scale", xscale="log", yticks=[])
        least, most = min(made.sent for made in results.values()), max(made.sent for made in results.values())
        of_bytes.set_xlim(least / 3, most * 30)
        of_bytes.xaxis.set_major_formatter(FuncFormatter(lambda size, _: shown_bytes(size)))
        for panel in (of_time, of_bytes):
            panel.invert_yaxis()
            panel.spines[["top", "right"]].set_visible(False)
            panel.title.set_fontsize(10)
            panel.tick_params(axis="x", labelsize=8)
    patches = [plt.Rectangle((0, 0), 1, 1, color=colour) for colour in _COLOURS.values()]
    figure.legend(patches, _COLOURS, loc="lower center", ncols=len(_COLOURS), frameon=False, fontsize=9)
    figure.tight_layout(rect=(0, 0.05, 1, 1))
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=110, facecolor="white")
    plt.close(figure)
