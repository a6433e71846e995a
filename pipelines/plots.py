"""The plot of the demo; the only module here that needs matplotlib."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt

from beam_dpsketch import Frequency

BLUE, ORANGE, GREY = "#0072b2", "#d55e00", "#595959"  # told apart by everybody, and in print


def plot_frequencies(
    path: str, frequencies: Sequence[Frequency], exact: Sequence[int], kept: Sequence[float], *, title: str
) -> None:
    """Private estimates with intervals as bars; beside them what is true, and what bounding kept of it, as markers."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    places = range(len(frequencies))
    estimates = [frequency.estimate for frequency in frequencies]
    margins = [
        [frequency.estimate - max(0, frequency.lower) for frequency in frequencies],
        [frequency.upper - frequency.estimate for frequency in frequencies],
    ]
    with plt.rc_context({"font.size": 12, "axes.spines.top": False, "axes.spines.right": False}):
        figure, axes = plt.subplots(figsize=(10, 6), layout="constrained")
        axes.bar(places, estimates, color=BLUE, alpha=0.35, width=0.7, label="private estimate")
        axes.errorbar(
            places,
            estimates,
            margins,
            fmt="none",
            ecolor=BLUE,
            elinewidth=2,
            capsize=6,
            capthick=2,
            label="95 % interval",
        )
        axes.plot(places, exact, "D", color=ORANGE, markersize=8, label="exact (public data only)")
        axes.plot(places, kept, "_", color=GREY, markersize=22, markeredgewidth=2.5, label="exact, after bounding")
        axes.set_xticks(places, [frequency.item for frequency in frequencies])
        axes.set_xlabel("destination airport")
        axes.set_ylabel("flights from New York in 2013")
        axes.yaxis.set_major_formatter("{x:,.0f}")
        axes.set_ylim(bottom=0)
        axes.grid(axis="y", alpha=0.3)
        axes.set_axisbelow(True)
        axes.set_title(title, loc="left", fontsize=13)
        figure.legend(loc="outside lower center", ncols=4, frameon=False)
        figure.savefig(path, dpi=120)
    plt.close(figure)
