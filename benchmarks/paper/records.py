"""CSV files of measurements: every row carries its seeds and the version of the package that made it."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

Row = dict[str, Any]

PUBLISHED = Path(__file__).parent / "published.csv"
TRACE, OWN = "trace", "your data"
"""Data of the file in `--trace`: the trace of the paper's page, which has demands, or any other."""
RHOS = ("none", "10", "1", "0.1")


def write(path: Path, rows: Iterable[Row], seeds: str) -> None:
    """Writes rows that have the same columns."""
    rows = [row | {"seeds": seeds, "version": f"beam-dpsketch {metadata.version('beam-dpsketch')}"} for row in rows]
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows({name: _short(value) for name, value in row.items()} for row in rows)


def read(path: Path) -> list[Row]:
    """The rows of a file, numbers as float; none if there is no file. Lines that start with # are comments."""
    if not path.exists():
        return []
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    return [{name: _value(name, value) for name, value in row.items()} for row in csv.DictReader(lines)]


def published(metric: str, data: str) -> list[Row]:
    """The authors' values as rows of a curve: "zipf", or "caida" for any other data."""
    source = "zipf" if data == "zipf" else "caida"
    found = (row for row in read(PUBLISHED) if row["metric"] == metric and row["data"] == source)
    return [row | {"curve": "published", "mean": row["value"]} for row in found]


def summary(values: Sequence[float]) -> Row:
    """Mean, median, and the 10th and 90th percentile over data sets."""
    low, median, high = (float(each) for each in np.percentile(values, (10, 50, 90)))
    return {"mean": float(np.mean(values)), "median": median, "low": low, "high": high}


def select(rows: Iterable[Row], **wanted: Any) -> list[Row]:
    """The rows that have these values."""
    return [row for row in rows if all(row[name] == value for name, value in wanted.items())]


def only(rows: Iterable[Row], column: str, **wanted: Any) -> float:
    """One number of the one row that has these values."""
    (row,) = select(rows, **wanted)
    return row[column]


def as_rho(name: str) -> float | None:
    """A column heading as a number."""
    return None if name == "none" else float(name)


def _short(value: Any) -> Any:
    return f"{value:.7g}" if isinstance(value, float) else value


def _value(name: str, value: str) -> Any:
    if name in ("rho", "seeds", "version"):
        return value
    try:
        return float(value)
    except ValueError:
        return value
