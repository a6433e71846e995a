"""Figures of the paper on Zipf data, their numbers and ours, as a table: ``python -m benchmarks.paper.figures``.

It reads `published.csv` and `results/`, and measures nothing. Sketches have 147 KB, quantiles are the mean over all
numbers of quantiles.
"""

from __future__ import annotations

from benchmarks.paper.demands import LAST
from benchmarks.paper.records import PUBLISHED, only, published, read, select

RESULTS = PUBLISHED.parent / "results"
SKETCHES = {"count_min": "Count-Min", "count_sketch": "CountSketch"}
RHOS = ("0.1", "1", "10")


def shown(number: float) -> str:
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


def lines() -> list[str]:
    """Rows of a Markdown table."""
    frequencies, quantiles = (read(RESULTS / f"{name}_zipf.csv") for name in ("frequency", "quantiles"))
    found = ["| figure | what | rho | paper | ours |", "|---|---|---|---|---|"]
    for metric, words in (("ARE", "relative error"), ("F1", "F1 of the ten largest")):
        for sketch, name in SKETCHES.items():
            for rho in RHOS:
                theirs = only(published(metric, "zipf"), "value", sketch=sketch, rho=rho, x=LAST)
                at = {"metric": metric, "sketch": sketch, "rho": rho, "x": LAST}
                ours = only(frequencies, "mean", curve="as written", **at)
                found.append(f"| 1 | {words}, {name} | {rho} | {shown(theirs)} | {shown(ours)} |")
    for rho in RHOS:
        errors = [row["value"] for row in select(published("rank error", "zipf"), rho=rho)]
        own = [row["mean"] for row in select(quantiles, curve="ours, chosen", rho=rho)]
        means = " | ".join(shown(sum(each) / len(each)) for each in (errors, own))
        found.append(f"| 2 | rank error in records, quantiles | {rho} | {means} |")
    return found


if __name__ == "__main__":
    print("\n".join(lines()))
