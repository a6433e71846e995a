"""What the figures must show, beside what they show."""

from __future__ import annotations

import itertools
from typing import NamedTuple

from benchmarks.paper.records import RHOS, TRACE, Row, only, published, select

LAST = 147.3654
FIRST = 9.2103
OURS = ("ours, chosen", "ours, least squares", "ours, residual")


class Demand(NamedTuple):
    """A sentence, the bar, the measured value, and whether it is met (`None`: nothing is demanded)."""

    what: str
    bar: str
    measured: str
    met: bool | None

    @property
    def verdict(self) -> str:
        """Yes, NO or -."""
        return "-" if self.met is None else "yes" if self.met else "NO"


def deviation(rows: list[Row], sketch: str) -> float:
    """The largest relative distance of a re-run mean ARE from the published one."""
    found = []
    for point in select(published("ARE", "zipf"), sketch=sketch):
        again = select(rows, metric="ARE", sketch=sketch, curve="re-run", rho=point["rho"], x=point["x"])
        found += [abs(row["mean"] / point["value"] - 1) for row in again]
    return max(found)


def of_frequencies(rows: list[Row]) -> list[Demand]:
    """Figure 1 on Zipf data."""
    demands = []
    for sketch, name, most in (("count_min", "Count-Min", 0.03), ("count_sketch", "CountSketch", 0.15)):
        off = deviation(rows, sketch)
        text = f"re-run {name} ARE agrees with the published one, largest deviation"
        demands.append(Demand(text, f"<= {most:.0%}", f"{off:.1%}", off <= most))
    theirs = only(published("ARE", "zipf"), "value", sketch="count_sketch", rho="0.1", x=LAST)
    ours = only(rows, "mean", metric="ARE", sketch="count_sketch", rho="0.1", curve="as written", x=LAST)
    text = "CountSketch ARE at 147 KB, rho = 0.1: published / as written"
    demands.append(Demand(text, ">= 9.5", f"{theirs:.1f} / {ours:.2f} = {theirs / ours:.1f}", theirs / ours >= 9.5))
    written = select(rows, metric="ARE", sketch="count_min", rho="0.1", curve="as written")
    means = [row["mean"] for row in sorted(written, key=lambda row: row["x"])]
    falls = all(after < before for before, after in itertools.pairwise(means))
    text = "Count-Min ARE as written falls with space at rho = 0.1 (published: 942 rises to 3,100)"
    measured = f"{means[0]:.0f} falls to {means[-1]:.0f}"
    demands.append(Demand(text, "105 falls to about 30", measured, falls and means[0] <= 110 and means[-1] <= 34))
    return demands


def of_decoding(rows: list[Row]) -> list[Demand]:
    """What a decoded dictionary gains over reading each item alone."""
    demands = []
    for rho, bar in (("0.1", 0.65), ("1", 0.45)):
        readings = ("median", "decoded", "shrunk", "noise alone")
        median, decoded, shrunk, least = (only(rows, "mean", reading=reading, rho=rho) for reading in readings)
        text = f"CountSketch ARE at 147 KB, rho = {rho}"
        over = f"{decoded:.3g} / {least:.3g} = {decoded / least:.3f}"
        demands.append(
            Demand(f"{text}, decoded / noise alone, the least possible", "<= 1.15", over, decoded <= 1.15 * least)
        )
        words = f"{text}, shrunk; the median over rows has {median:.2f}"
        demands.append(Demand(words, f"<= {bar:g}", f"{shrunk:.3g}", shrunk <= bar))
    return demands


def of_comparing(rows: list[Row]) -> list[Demand]:
    """How far answers about two releases are from the truth."""
    demands = []
    for rho, bar in (("0.1", 0.2), ("1", 0.12)):
        ours, usual, noise = (
            only(rows, "rms", quantity="join", reading=reading, rho=rho) for reading in ("ours", "usual", "noise alone")
        )
        text = f"join of two releases, Zipf, 147 KB, rho = {rho}, relative rms"
        measured = f"{ours:.3f} % (median over rows: {usual:.3f} %; noise alone: {noise:.3f} %)"
        demands.append(Demand(text, f"<= {bar:g} %", measured, ours <= bar))
    return demands


def ratio(rows: list[Row], theirs: str, ours: str, rho: str, of: str = "mean") -> float:
    """How many times larger the rank error of one curve is than that of another, over all numbers of quantiles."""
    totals = [sum(row[of] for row in select(rows, curve=curve, rho=rho)) for curve in (theirs, ours)]
    return totals[0] / totals[1]


def of_quantiles(rows: list[Row], data: str, bar: float) -> list[Demand]:
    """Figure 2: ratios of rank errors; where data sets differ much, of means and of medians over them."""
    pairs = [(theirs, ours) for theirs in ("paper, 3 rows", "prototype re-run") for ours in OURS]
    demands = []
    for theirs, ours in (*pairs, ("paper, 8 rows", OURS[0])):
        found = [ratio(rows, theirs, ours, "1", of) for of in ("mean", "median")]
        measured = f"{found[0]:.1f} (medians: {found[1]:.1f})"
        text = f"rank error on {data}, rho = 1: {theirs} / {ours}"
        if theirs == "paper, 8 rows":
            demands.append(Demand(f"{text} in 1 / 2.7 of the memory", "-", measured, None))
        else:
            demands.append(Demand(text, f">= {bar:g}", measured, min(found) >= bar))
    return demands


def of_theorems(uniform: list[Row], failures: list[Row]) -> list[Demand]:
    """Bounds that must hold, and those that must be seen to fail."""
    demands = []
    for sketch, name in (("count_min", "Count-Min"), ("count_sketch", "CountSketch")):
        row = select(uniform, sketch=sketch)[-1]
        text = f"{name}: sketches of {row['sketches']:,.0f} with an item beyond the uniform bound (beta = 1 %)"
        demands.append(Demand(text, "<= 1 %", f"{row['above']:.0f}", row["above"] <= 0.01 * row["sketches"]))
        for dimensions, fails in (("paper", True), ("for_accuracy", False)):
            failed = only(failures, "failed", sketch=sketch, dimensions=dimensions)
            text = f"{name}, {dimensions}: answers beyond gamma N from collisions alone (allotted: 0.5 %)"
            met = failed > 0.005 if fails else failed <= 0.005
            demands.append(Demand(text, "fails" if fails else "<= 0.5 %", f"{failed:.2%}", met))
    return demands


def of_privacy(rows: list[Row]) -> list[Demand]:
    """No pair may cost more than was claimed."""
    most = max(row["spent_ours"] for row in rows)
    return [
        Demand(
            "rho spent by the worst pair found, of 1 claimed, with our noise", "<= 1", f"{most:.3f}", most <= 1 + 1e-6
        )
    ]


def is_complete(rows: list[Row]) -> bool:
    """Whether the smallest and the largest space were measured."""
    return {FIRST, LAST} <= {row["x"] for row in rows}


def all_demands(tables: dict[str, list[Row]]) -> list[Demand]:
    """Those for which there are measurements."""
    demands: list[Demand] = []
    if is_complete(tables["frequency_zipf"]):
        demands += of_frequencies(tables["frequency_zipf"])
    if tables["decoding"]:
        demands += of_decoding(tables["decoding"])
    if tables["comparing"]:
        demands += of_comparing(tables["comparing"])
    for data, bar in (("zipf", 6), (TRACE, 5)):
        rows = select(tables[f"quantiles_{data}"], data=data)
        if rows and all(select(rows, rho=rho) for rho in RHOS):
            demands += of_quantiles(rows, data, bar)
    if tables["uniform_bound"] and tables["accuracy_guarantee"]:
        demands += of_theorems(tables["uniform_bound"], tables["accuracy_guarantee"])
    if tables["privacy"]:
        demands += of_privacy(tables["privacy"])
    return demands
