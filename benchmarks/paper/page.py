"""The Markdown page: figures, tables and what they show. The text is in page.md, numbers come from the CSV files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from benchmarks.paper import demands, departures
from benchmarks.paper.records import TRACE, Row, only, published, select

OUR_COUNTS, THEIR_COUNTS = "beam_dpsketch, CountSketch", "PipelineDP, COUNT per item"


def section_text(name: str, **numbers: float | str) -> str:
    """A section of page.md, with its numbers."""
    sections = re.split(r"<!-- (\w+) -->\n", (Path(__file__).parent / "page.md").read_text(encoding="utf-8"))
    return sections[sections.index(name) + 1].format(**numbers)


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; numbers are texts already."""
    every = ([cell.replace("|", "\\|") for cell in cells] for cells in (header, ["---"] * len(header), *rows))
    lines = [f"| {' | '.join(cells)} |" for cells in every]
    return "\n".join(lines)


def image(name: str, caption: str) -> str:
    """A figure in the folder of results."""
    return f"![{caption}](results/{name}.png)"


def write(path: Path, tables: dict[str, list[Row]]) -> None:
    """Writes the page from all measurements that there are."""
    parts = [section_text("title"), *_demands(tables), *_frequencies(tables), *_quantiles(tables)]
    parts += [*_theorems(tables), *_privacy(tables), *_peers(tables), *_departures(tables)]
    path.write_text("\n\n".join(part.strip() for part in parts) + "\n", encoding="utf-8")


def _demands(tables: dict[str, list[Row]]) -> list[str]:
    rows = [(each.what, each.bar, each.measured, each.verdict) for each in demands.all_demands(tables)]
    return ["## What it must show", markdown_table(("", "bar", "measured", "met"), rows)] if rows else []


def _frequencies(tables: dict[str, list[Row]]) -> list[str]:
    rows = tables["frequency_zipf"]
    if not demands.is_complete(rows):
        return []
    written = {"metric": "ARE", "rho": "0.1", "curve": "as written"}
    count_min = [only(rows, "mean", sketch="count_min", x=x, **written) for x in (demands.FIRST, demands.LAST)]
    last = {"sketch": "count_sketch", "rho": "0.1", "x": demands.LAST}
    text = section_text(
        "figure_1",
        deviation=demands.deviation(rows, "count_sketch"),
        cs=only(rows, "mean", metric="ARE", curve="as written", **last),
        cs_published=only(published("ARE", "zipf"), "value", **last),
        cm_first=count_min[0],
        cm_last=count_min[1],
    )
    parts = [
        text,
        image("frequency_zipf_ARE", "Relative error, Zipf"),
        image("frequency_zipf_F1", "F1, Zipf"),
        section_text("figure_1_note"),
    ]
    if trace := tables["frequency_trace"]:
        if trace[0]["data"] == TRACE:
            parts.append(section_text("trace_1", sets=trace[0]["data_sets"]))
        parts += [image("frequency_trace_ARE", "Relative error, trace"), image("frequency_trace_F1", "F1, trace")]
    return parts


def _quantiles(tables: dict[str, list[Row]]) -> list[str]:
    zipf, trace, privacy = tables["quantiles_zipf"], tables["quantiles_trace"], tables["privacy"]
    if not zipf or not privacy:
        return []
    kilobytes = [4 * select(rows, curve="prototype re-run")[0]["counters"] / 1024 for rows in (zipf, trace) if rows]
    text = section_text(
        "figure_2",
        narrow=kilobytes[0],
        wide=f", {kilobytes[1]:.0f} KB at U = 2^32" if trace else "",
        spent=max(row["spent_theirs"] for row in privacy if "tree" in row["settings"]),
    )
    parts = [text, image("quantiles_zipf", "Rank error, Zipf")]
    if trace:
        parts.append(image("quantiles_trace", "Rank error, trace"))
    found = [demands.ratio(rows, "paper, 3 rows", "ours, chosen", "1") for rows in (zipf, trace) if rows]
    note = section_text(
        "figure_2_note",
        zipf=found[0],
        trace=f" and {found[1]:.1f} times on {_name(trace)}" if trace else "",
        eight=demands.ratio(zipf, "paper, 8 rows", "ours, chosen", "1"),
    )
    return [*parts, note]


def _name(trace: list[Row]) -> str:
    data = trace[0]["data"]
    return "the trace" if data == TRACE else str(data)


def _theorems(tables: dict[str, list[Row]]) -> list[str]:
    uniform, sizes, failures = (tables[name] for name in ("uniform_bound", "size_independence", "accuracy_guarantee"))
    lower = select(tables["lower_bound"], sketch="count_sketch", data="empty")
    if not (uniform and sizes and failures and lower):
        return []
    growth = [
        max(row["mean"] for row in group) / min(row["mean"] for row in group)
        for group in (select(sizes, sketch=row["sketch"], rho=row["rho"]) for row in sizes)
    ]
    text = section_text(
        "theorems",
        sketches=uniform[0]["sketches"],
        above=max(row["above"] for row in uniform),
        middle=select(uniform, share=0.5)[-1]["largest_over_E"],
        flat=lower[-1]["rms"],
        growth=max(growth),
    )
    return [text]


def _privacy(tables: dict[str, list[Row]]) -> list[str]:
    header = (
        "settings",
        "sketch",
        "shape",
        "items (seed)",
        "their sigma^2",
        "spent",
        "worst",
        "our sigma^2",
        "spent",
        "worst",
    )
    rows = [
        (
            row["settings"],
            row["sketch"],
            row["shape"],
            f"{row['pair']} ({row['seed']:.0f})",
            *(f"{row[name]:.2f}" for name in ("their_sigma_squared", "spent_theirs", "worst_theirs")),
            *(f"{row[name]:.2f}" for name in ("our_sigma_squared", "spent_ours", "worst_ours")),
        )
        for row in tables["privacy"]
    ]
    return [section_text("privacy"), markdown_table(header, rows)] if rows else []


def _peers(tables: dict[str, list[Row]]) -> list[str]:
    quantiles, counts = (select(tables["peers"], task=task) for task in ("quantiles", "frequencies"))
    if not quantiles or not counts:
        return []
    widest = select(quantiles, bits=max(row["bits"] for row in quantiles))
    ours = {row["rho"]: row["mean"] for row in widest if row["library"] == "beam_dpsketch"}
    ours_counts = select(counts, library=OUR_COUNTS)
    others = [row for row in widest if row["library"].startswith(("PipelineDP", "OpenDP"))]
    text = section_text(
        "peers",
        worst=min(row["mean"] / ours[row["rho"]] for row in others),
        epsilons=", ".join(f"rho {row['rho']}: {row['epsilon']:.2f}" for row in ours_counts),
        counts=", ".join(
            f"{row['mean'] / only(counts, 'mean', library=THEIR_COUNTS, rho=row['rho']):.1f} (rho = {row['rho']})"
            for row in ours_counts
        ),
    )
    table = markdown_table(
        ("log2 U", "rho", "library", "error / N", "point error / N"),
        (
            (f"{row['bits']:.0f}", row["rho"], row["library"], f"{row['mean']:.6f}", f"{row['point_error']:.6f}")
            for row in quantiles
        ),
    )
    frequent = markdown_table(
        ("rho", "library", "mean error of the 100 most frequent items, records", "share of them released"),
        ((row["rho"], row["library"], f"{row['mean']:.2f}", f"{row['released']:.2f}") for row in counts),
    )
    return [text, table, frequent]


def _departures(tables: dict[str, list[Row]]) -> list[str]:
    if not tables["privacy"] or not tables["accuracy_guarantee"]:
        return []
    parts = ["## Where the prototype departs from the paper", _departed(departures.of_prototype())]
    found = departures.of_paper(tables["privacy"], tables["accuracy_guarantee"])
    return [*parts, "## Where the paper departs from a guarantee that holds", _departed(found)]


def _departed(found: Iterable[departures.Departure]) -> str:
    return markdown_table(("expected", "found", "evidence"), found)
