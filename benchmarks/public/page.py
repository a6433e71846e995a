"""The Markdown page: one table, where others are closer, and the method. The text is in page.md."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.paper import records
from benchmarks.paper.page import markdown_table
from benchmarks.paper.records import Row
from benchmarks.public.contest import DATASKETCHES, OPENDP, OURS, OURS_AUTO, PIPELINE_DP, PLAIN
from benchmarks.public.flights import DIGEST
from benchmarks.public.histograms import DIGESTS
from benchmarks.public.picture import draw
from benchmarks.public.reasons import REASONS

PARTS = ("histograms", "bids", "flights", "zipf")
OTHERS = (PIPELINE_DP, OPENDP, PLAIN)
COLUMNS = ("data", "question", "ours", "ours, auto norm", *OTHERS, DATASKETCHES, "covered: ours; plain")
SECONDS = "processor seconds: ours; PipelineDP; OpenDP; plain"
UNKNOWN = "Not investigated."


class Loss(NamedTuple):
    """Another library that is closer than a method of ours."""

    ours: Row
    other: Row

    def __str__(self) -> str:
        return f"{self.other['library']} has {ratio(self.other, self.ours)} of this error"


def read(folder: Path) -> list[Row]:
    """The rows of all CSV files."""
    return [row for part in PARTS for row in records.read(folder / "results" / f"{part}.csv")]


def is_loss(ours: Row, other: Row) -> bool:
    """Whether the other library is closer by more than two standard errors of the difference."""
    deviation = (ours["standard_error"] ** 2 + other["standard_error"] ** 2) ** 0.5
    return ours["error"] - other["error"] > 2 * deviation


def ratio(other: Row, ours: Row) -> str:
    return f"{other['error'] / ours['error']:.2f}" if ours["error"] else "-"


def questions(rows: Sequence[Row]) -> Iterator[dict[str, Row]]:
    """The rows of each question by library."""
    for data, question in dict.fromkeys((row["data"], row["question"]) for row in rows):
        yield {row["library"]: row for row in records.select(rows, data=data, question=question)}


def losses(by_library: dict[str, Row]) -> list[Loss]:
    mine = [by_library[name] for name in (OURS, OURS_AUTO) if name in by_library]
    others = [by_library[name] for name in OTHERS if name in by_library]
    return [Loss(ours, other) for ours in mine for other in others if is_loss(ours, other)]


def table(rows: Sequence[Row]) -> str:
    """The one table."""
    return markdown_table((*COLUMNS, SECONDS), map(_cells, questions(rows)))


def _cells(by_library: dict[str, Row]) -> list[str]:
    ours, lost = by_library[OURS], losses(by_library)
    libraries = (OURS, OURS_AUTO, *OTHERS, DATASKETCHES)
    cells = [_cell(by_library.get(name), ours, lost) for name in libraries]
    covered = "; ".join(_short(by_library[name]["coverage"]) for name in (OURS, PLAIN) if name in by_library)
    timed = (by_library.get(name) for name in (OURS, *OTHERS))
    seconds = "; ".join("-" if row is None else f"{row['processor_seconds']:.2g}" for row in timed)
    return [ours["data"], ours["question"], *cells, covered, seconds]


def _cell(row: Row | None, ours: Row, lost: list[Loss]) -> str:
    if row is None:
        return "-"
    text = f"{row['error']:.3g} ±{row['standard_error']:.2g}"
    if row is ours:
        return text
    words = [f"{ratio(row, ours)}"]
    words += ["**loss**"] if any(loss.other is row and loss.ours is ours for loss in lost) else []
    closer = [loss.other["library"] for loss in lost if loss.ours is row]
    words += [f"**loss** to {', '.join(closer)}"] if closer else []
    return f"{text} ({'; '.join(words)})"


def _short(coverage: float | str) -> str:
    return f"{coverage:.2f}" if isinstance(coverage, float) else "-"


def lost_lines(rows: Sequence[Row]) -> str:
    """A line for each method of ours and question to which another library is closer, with the reason."""
    lines = []
    for by_library in questions(rows):
        found = losses(by_library)
        for name in (OURS, OURS_AUTO):
            mine = [loss for loss in found if loss.ours["library"] == name]
            if mine:
                row = mine[0].ours
                reason = reason_of(row)
                lines.append(
                    f"* **{row['data']}, {row['question']}** ({row['bounds']}): {', '.join(map(str, mine))}. {reason}"
                )
    return "\n".join(lines) or "No library is."


def reason_of(ours: Row) -> str:
    key = re.sub(r"^DPBench \w+", "DPBench", ours["data"]), ours["question"], ours["library"]
    return REASONS.get(key, UNKNOWN)


def bounds(rows: Sequence[Row]) -> str:
    """The bounds of each library, and the errors of all bounds that were tried."""
    shown = [row for row in rows if row["tried"]]
    cells = [[row[name] for name in ("data", "question", "library", "bounds", "tried")] for row in shown]
    first = {(row["data"], row["library"], row["tried"]): row for row in reversed(shown)}
    cells = [each for each, row in zip(cells, shown, strict=True) if row in first.values()]
    return markdown_table(("data", "question", "library", "used", "tried, with errors in trial runs"), cells)


def write(folder: Path) -> None:
    """Write the picture, and the page from all measurements that exist."""
    rows = read(folder)
    draw(folder / "results" / "errors.png", list(questions(rows)))
    text = (Path(__file__).parent / "page.md").read_text(encoding="utf-8")
    versions = ", ".join(dict.fromkeys(row["library_version"] for row in rows))
    digests = "\n".join(f"  * {name} `{digest}`" for name, digest in DIGESTS.items())
    numbers = {"versions": versions, "digests": digests, "flights_digest": DIGEST}
    parts = {"table": table(rows), "losses": lost_lines(rows), "bounds": bounds(rows), **numbers}
    (folder / "README.md").write_text(text.format(**parts), encoding="utf-8")
