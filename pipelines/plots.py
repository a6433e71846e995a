"""Plot functions for the examples: private answers by `beam_dpsketch.plots`, with exact figures."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from beam_dpsketch import Frequencies
from beam_dpsketch.answers.rows import Frequency, Intervals
from beam_dpsketch.plots import COLOURS, Look, plot_cdf, plot_timeline

BLUE, ORANGE, GREY = COLOURS[0], COLOURS[1], COLOURS[4]
BAR = "#d9d9d9"
STYLE = {"font.size": 12, "axes.spines.top": False, "axes.spines.right": False}


class Shares(NamedTuple):
    """Share of flights at or below each delay, released and exact."""

    released: Intervals
    flights: np.ndarray
    kept: np.ndarray


class SoFar(NamedTuple):
    """A share so far, in percent, at the end of several days, released and exact."""

    days: np.ndarray
    released: Intervals
    exact: np.ndarray


def plot_frequencies(path: str, exact: Sequence[int], published: Frequencies, *, title: str, weight: str) -> None:
    """Plot published counts with intervals over bars of exact counts, which may be shown only for public data."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    places, numbers = np.arange(len(exact)), _not_negative(published)
    margins = (numbers.estimate - numbers.lower, numbers.upper - numbers.estimate)
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(9, 5.5), layout="constrained")
        axes = figure.subplots()
        axes.barh(places, exact, color=BAR, height=0.7, label="exact count")
        style = {"elinewidth": 2.5, "capsize": 4, "capthick": 2, "markersize": 7, "color": BLUE}
        axes.errorbar(numbers.estimate, places, xerr=margins, fmt="o", label="published count, 95 % interval", **style)
        axes.set_yticks(places, numbers.item)
        axes.invert_yaxis()
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        axes.set_xlabel(weight)
        axes.set_title(title, loc="left", fontsize=13)
        figure.legend(loc="outside lower center", ncols=2, frameon=False)
        figure.savefig(path, dpi=120)


def _not_negative(frequencies: Sequence[Frequency]) -> Frequencies:
    """Raise negative lower bounds to 0, because nothing was deleted."""
    item, *numbers = zip(*frequencies, strict=True)
    estimate, lower, upper = map(np.array, numbers)
    return Frequencies(item, estimate, np.maximum(0, lower), upper)


def plot_shares(path: str, delays: np.ndarray, shares: Mapping[str, Shares], *, title: str) -> None:
    """Plot a column for each airport: private over exact shares, and below it their differences, which are small."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(12, 6.5), layout="constrained")
        grid = figure.subplots(2, len(shares), sharex=True, sharey="row", height_ratios=(3, 2), squeeze=False)
        for (airport, each), (above, below) in zip(shares.items(), grid.T, strict=True):
            look = Look(value="", weight="flights", interval_name="95 % interval")
            plot_cdf(each.released, delays.tolist(), axes=above, look=look)
            _exact_steps(above, delays, 100 * each.flights, 100 * each.kept)
            columns = each.released.estimate, each.released.lower, each.released.upper
            estimate, lower, upper = (100 * (np.asarray(values) - each.flights) for values in columns)
            below.fill_between(delays, lower, upper, step="post", color=BLUE, alpha=0.25, linewidth=0)
            below.step(delays, estimate, where="post", color=BLUE, linewidth=1.8)
            _exact_steps(below, delays, 0 * each.flights, 100 * (each.kept - each.flights))
            below.grid(alpha=0.3)
            below.margins(x=0)
            above.set_ylabel("")
            above.set_title(f"from {airport}")
            below.set_xticks(range(-60, int(delays[-1]) + 1, 60))
            below.set_xlabel("arrival delay, minutes")
        grid[0, 0].set_ylabel("flights with at most\nthis delay, %")
        grid[1, 0].set_ylabel("difference from exact,\npercentage points")
        figure.get_layout_engine().set(wspace=0.06)
        figure.suptitle(title, x=0.01, ha="left", fontsize=13)
        figure.legend(*grid[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
        figure.savefig(path, dpi=120)


def plot_so_far(path: str, panels: Mapping[str, SoFar], *, title: str) -> None:
    """Plot a panel for each name: the share with its interval band, and the exact share as dots."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    size = 5 if max(len(shares.days) for shares in panels.values()) <= 100 else 3.5
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(10, 6.5), layout="constrained")
        grid = figure.subplots(len(panels), 1, sharex=True, height_ratios=(2, 3), squeeze=False)
        for (name, shares), axes in zip(panels.items(), grid[:, 0], strict=True):
            look = Look(value="", weight=f"flights over 15 minutes\nlate, {name}, %", interval_name="95 % interval")
            plot_timeline(shares.released, shares.days.tolist(), axes=axes, look=look)
            dots = {"markersize": size, "markeredgecolor": "white", "markeredgewidth": size / 10}
            axes.plot(shares.days, shares.exact, "o", color=ORANGE, label="exact (public data only)", **dots)
        axes.set_xlabel("days since the start")
        figure.align_ylabels()
        figure.suptitle(title, x=0.01, ha="left", fontsize=13)
        figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
        figure.savefig(path, dpi=120)


def _exact_steps(axes: Axes, delays: np.ndarray, flights: np.ndarray, kept: np.ndarray) -> None:
    """Draw steps, because shares change only at whole minutes."""
    for values, colour, line, label in (
        (flights, ORANGE, "dashed", "exact (public data only)"),
        (kept, GREY, "dotted", "exact, after bounding"),
    ):
        axes.step(delays, values, where="post", color=colour, linestyle=line, linewidth=1.9, label=label)


def plot_changes(
    path: str,
    changes: Sequence[tuple[str, float, float, float]],
    exact: Sequence[float],
    kept: Sequence[float],
    *,
    title: str,
    changed: str,
) -> None:
    """Plot private changes (item, change, lower, upper) as bars, gray if the interval contains 0."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    style = {"fmt": "o", "elinewidth": 2, "capsize": 5, "capthick": 2, "markersize": 3}
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(10, 6), layout="constrained")
        axes = figure.add_subplot()
        for may_be_zero, colour, label in ((False, BLUE, "private change"), (True, GREY, "private change, may be 0")):
            rows = [(n, each) for n, each in enumerate(changes) if (each[2] <= 0 <= each[3]) == may_be_zero]
            if rows:
                places = [place for place, _ in rows]
                change, lower, upper = np.array([each[1:] for _, each in rows]).T
                axes.barh(places, change, color=colour, alpha=0.35, height=0.7, label=f"{label}, with 95 % interval")
                axes.errorbar(change, places, xerr=(change - lower, upper - change), color=colour, **style)
        middles = np.arange(len(changes))
        axes.plot(exact, middles, "D", color=ORANGE, markersize=8, label="exact (public data only)")
        axes.plot(
            kept,
            middles,
            "|",
            color="black",
            markersize=22,
            markeredgewidth=2,
            label="exact, after scaling to the norm",
        )
        axes.axvline(0, color="black", linewidth=1)
        axes.set_yticks(middles, [each[0] for each in changes])
        axes.invert_yaxis()
        axes.set_ylabel("destination")
        axes.set_xlabel(changed)
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:+,.0f}" if value else "0")
        axes.grid(axis="x", alpha=0.3)
        axes.set_axisbelow(True)
        axes.set_title(title, loc="left", fontsize=13)
        figure.legend(loc="outside lower center", ncols=2, frameon=False)
        figure.savefig(path, dpi=120)
