"""The figures, drawn from CSV files: colours for the colour-blind (Okabe and Ito), one legend outside the panels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.ticker import FixedLocator, NullLocator, ScalarFormatter

from benchmarks.paper.records import RHOS, Row, select

BLACK, ORANGE, SKY, GREEN, BLUE, VERMILION, PURPLE = (
    "#000000",
    "#E69F00",
    "#56B4E9",
    "#009E73",
    "#0072B2",
    "#D55E00",
    "#CC79A7",
)
SKETCHES = {"count_min": "Count-Min", "count_sketch": "CountSketch", "tree": ""}
DPI = 100


class Style(NamedTuple):
    """How a curve looks; later ones are drawn above earlier ones."""

    label: str
    color: str
    marker: str
    line: str = "-"
    size: float = 4.5
    hollow: bool = False


PUBLISHED = {
    "zipf": Style("published", BLACK, "s", "--", 8, True),
    "trace": Style("published (CAIDA, another trace)", BLACK, "s", "--", 8, True),
}
FREQUENCY = {
    "re-run": Style("the notebook's settings, re-run with our sketches", ORANGE, "o"),
    "as written": Style("the algorithm as the paper writes it, safe noise, in this space", BLUE, "^", size=5.5),
}
QUANTILES = {
    "prototype re-run": Style("prototype re-run (3 rows, its noise)", ORANGE, "o", "-", 8, True),
    "paper, 3 rows": Style("paper's DCS, safe noise, 3 rows", PURPLE, "v", size=5.5),
    "paper, 8 rows": Style("paper's DCS, safe noise, 8 rows (2.7 times the memory)", SKY, "D"),
    "ours, least squares": Style("ours, least squares", GREEN, "P", "-.", 5.5),
    "ours, residual": Style("ours, residual rounds", VERMILION, "x", ":", 7),
    "ours, chosen": Style("ours, default: chooses between both", BLUE, "^", size=5.5),
}


def curves(path: Path, rows: Sequence[Row], styles: dict[str, Style], axes: dict[str, Any], title: str) -> None:
    """A grid of panels: its rows are sketches, its columns rho; bands go from the 10th to the 90th percentile."""
    sketches = [sketch for sketch in SKETCHES if select(rows, sketch=sketch)]
    height = 1.5 + (2.3 if len(sketches) > 1 else 3) * len(sketches)
    figure, panels = plt.subplots(
        len(sketches), len(RHOS), figsize=(10, height), sharex=True, sharey="row", squeeze=False
    )
    for across, sketch in zip(panels, sketches, strict=True):
        for panel, rho in zip(across, RHOS, strict=True):
            for curve, style in styles.items():
                _curve(panel, select(rows, sketch=sketch, rho=rho, curve=curve), style)
            name = "no privacy" if rho == "none" else f"rho = {rho}"
            panel.set_title(", ".join(filter(None, (SKETCHES[sketch], name))), fontsize=9)
            _x_axis(panel, sorted({row["x"] for row in rows}), axes["ticks"])
            panel.set_yscale(axes.get("scale", "linear"))
            panel.grid(alpha=0.3, which="major")
        if "low" in axes:
            across[0].set_ylim(axes["low"], axes.get("high"))
        across[0].set_ylabel(axes["y"])
    for panel in panels[-1]:
        panel.set_xlabel(axes["x"], fontsize=9)
    _finish(figure, panels[0][0], path, title, columns=2)


def _curve(panel: Any, rows: Iterable[Row], style: Style) -> None:
    rows = sorted(rows, key=lambda row: row["x"])
    if not rows:
        return
    x = [row["x"] for row in rows]
    panel.plot(
        x,
        [row["mean"] for row in rows],
        style.line,
        marker=style.marker,
        color=style.color,
        label=style.label,
        markersize=style.size,
        markerfacecolor="none" if style.hollow else style.color,
        linewidth=1.3,
    )
    if "low" in rows[0]:
        panel.fill_between(
            x, [row["low"] for row in rows], [row["high"] for row in rows], color=style.color, alpha=0.13
        )


def _x_axis(panel: Any, values: Sequence[float], labels: str) -> None:
    panel.set_xscale("log", base=2)
    panel.xaxis.set_major_locator(FixedLocator(values))
    panel.xaxis.set_minor_locator(NullLocator())
    panel.xaxis.set_major_formatter(lambda value, _: format(value, labels))
    panel.tick_params(labelsize=8)


def _finish(figure: Any, panel: Any, path: Path, title: str, columns: int) -> None:
    handles, labels = panel.get_legend_handles_labels()
    lines = -(-len(labels) // columns)
    top = 1 - (0.3 + 0.2 * lines) / figure.get_figheight()
    figure.tight_layout(rect=(0, 0, 1, top))
    figure.suptitle(title, y=0.995, fontsize=11)
    anchor = (0.5, 1 - 0.2 / figure.get_figheight())
    figure.legend(handles, labels, loc="upper center", bbox_to_anchor=anchor, ncol=columns, fontsize=8.5, frameon=False)
    figure.savefig(path, dpi=DPI, pil_kwargs={"optimize": True})
    plt.close(figure)


def theorems(path: Path, uniform: list[Row], lower: list[Row], sizes: list[Row], failures: list[Row]) -> None:
    """Four panels, one for each theorem; Count-Min is orange, CountSketch blue."""
    figure, ((one, two), (three, four)) = plt.subplots(2, 2, figsize=(10, 7.4))
    colors = {"count_min": ORANGE, "count_sketch": BLUE}
    for sketch, color in colors.items():
        name = SKETCHES[sketch]
        found = select(uniform, sketch=sketch)
        one.plot([row["largest_over_E"] for row in found], [row["share"] for row in found], color=color, label=name)
        for data, line, marker in (("adversarial", "-", "o"), ("empty", ":", "^")):
            found = select(lower, sketch=sketch, data=data)
            label = f"{name}, {'adversarial data' if data == 'adversarial' else 'no other items'}"
            x = [row["depth"] for row in found]
            two.plot(x, [row["rms"] for row in found], line, marker=marker, color=color, label=label, markersize=5)
        found = select(lower, sketch=sketch, data="adversarial")
        two.plot(
            [row["depth"] for row in found],
            [row["sigma"] for row in found],
            "--",
            color=BLACK,
            linewidth=0.9,
            label="sigma of one counter" if sketch == "count_sketch" else None,
        )
        for rho, line, marker in (("0.1", "-", "o"), ("1", "--", "^"), ("10", ":", "s")):
            found = select(sizes, sketch=sketch, rho=rho)
            x, y = [row["N"] for row in found], [row["mean"] for row in found]
            three.plot(x, y, line, marker=marker, color=color, label=f"{name}, rho = {rho}", markersize=5)
    one.axvline(1, color=BLACK, linestyle="--", linewidth=0.9, label="E at beta = 1 %")
    one.set(
        xlabel="largest |private - exact| over 65,535 items, in units of E", ylabel="share of sketches", xlim=(0.3, 1.2)
    )
    one.set_title("Uniform bound: at most 1 % of sketches beyond E, rho = 1", fontsize=10)
    two.set(xlabel="rows k", ylabel="rms error added to an answer, records", ylim=(0, None))
    two.set_title("Lower bound: adversarial data attain sqrt(k / rho), rho = 1", fontsize=10)
    three.set(xlabel="records N", ylabel="mean |added error|, records", xscale="log", yscale="log", ylim=(0.2, 60))
    three.yaxis.set_major_formatter(ScalarFormatter())
    three.set_title("The error that noise adds does not grow with N", fontsize=10)
    labels = [
        f"{SKETCHES[row['sketch']]}\n{row['dimensions'].replace('paper', 'paper, 1/gamma')}\n{row['shape']}"
        for row in failures
    ]
    shades = [colors[row["sketch"]] for row in failures]
    bars = four.bar(range(len(failures)), [100 * row["failed"] for row in failures], color=shades, width=0.6)
    four.bar_label(bars, [f"{100 * row['failed']:.2f} %" for row in failures], fontsize=8)
    four.axhline(100 * failures[0]["allotted"], color=BLACK, linestyle="--", linewidth=0.9, label="allotted: beta / 2")
    four.set_xticks(range(len(failures)), labels, fontsize=7.5)
    four.set(ylabel="answers off by more than gamma N, %", yscale="log", ylim=(0.01, 40))
    four.set_title("gamma N guarantee on 1 / gamma - 1 equal items", fontsize=10)
    for panel in (one, two, three, four):
        panel.grid(alpha=0.3)
        panel.legend(fontsize=7.5, ncol=2 if panel is three else 1)
    figure.tight_layout()
    figure.savefig(path, dpi=DPI, pil_kwargs={"optimize": True})
    plt.close(figure)


def peers(path: Path, rows: list[Row]) -> None:
    """Rank error of quantiles against the universe, one panel for each rho."""
    rows = select(rows, task="quantiles")
    rhos = [rho for rho in reversed(RHOS[1:]) if select(rows, rho=rho)]
    figure, panels = plt.subplots(1, len(rhos), figsize=(10, 4.2), sharey=True, squeeze=False)
    looks = dict(zip(dict.fromkeys(row["library"] for row in rows if row["library"] != "exact"), LOOKS, strict=False))
    for panel, rho in zip(panels[0], rhos, strict=True):
        for place, (library, (color, marker)) in enumerate(looks.items()):
            found = [row for row in select(rows, library=library) if row["rho"] in (rho, "none")]
            private = found and found[0]["rho"] != "none"
            panel.plot(
                [row["bits"] + 0.35 * (place - (len(looks) - 1) / 2) for row in found],  # side by side
                [max(row["mean"], 1e-6) for row in found],
                "-" if private else ":",
                marker=marker,
                color=color,
                label=library,
                markersize=6,
            )
        panel.set(yscale="log", xlabel="log2 of the universe U", xticks=sorted({row["bits"] for row in rows}))
        panel.set_title(f"rho = {rho}", fontsize=10)
        panel.grid(alpha=0.3)
    panels[0][0].set_ylabel("mean rank error / N")
    _finish(
        figure, max(panels[0], key=lambda panel: len(panel.lines)), path, "Quantiles of N = 100,000 records", columns=3
    )


LOOKS = ((SKY, "x"), (PURPLE, "+"), (BLUE, "^"), (VERMILION, "v"), (ORANGE, "D"), (GREEN, "s"))
