"""Unit costs of the steps of a release, from the file that `measure` writes, at any size."""

from __future__ import annotations

import csv
import dataclasses
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np


@dataclasses.dataclass(frozen=True)
class Cost:
    """What one step took.

    Attributes:
      kind: of the release, as in `kinds.KINDS`.
      step: which; `unit_costs` describes each.
      rows: how many rows it had, or elements, or keys.
      parts: into how many parts it took them apart, or came to it.
      per_id: how many rows each privacy id had.
      nanoseconds: of processor time.
      size: bytes that it made, or held at most.
    """

    kind: str
    step: str
    rows: int
    parts: int = 0
    per_id: int = 0
    nanoseconds: float = 0.0
    size: int = 0


class PerRow(NamedTuple):
    """Seconds of processor time, and bytes."""

    seconds: float
    size: float


_FIELDS = ("nanoseconds", "size")
SUMS = {"encode", "merge"}
"""Steps of a sum: however many rows it has, its counters are as many, and only wider."""


class Costs:
    """The costs of one kind."""

    def __init__(self, costs: Iterable[Cost]) -> None:
        self._steps: dict[str, list[Cost]] = {}
        for each in costs:
            self._steps.setdefault(each.step, []).append(each)

    def seconds(self, step: str, rows: float, per_id: float = 0) -> float:
        """Return how long a step takes for a number of rows, with `per_id` of each id."""
        return 1e-9 * self._read(step, "nanoseconds", rows, per_id)

    def size(self, step: str, rows: float, per_id: float = 0) -> float:
        """Return how many bytes a step makes of a number of rows."""
        return self._read(step, "size", rows, per_id)

    def a_row_and_a_part(self, step: str) -> tuple[PerRow, PerRow]:
        """Return what a row and a part take of a step that was measured at two numbers of parts."""
        measured = self._steps[step]
        ways = np.array([[each.rows, each.parts] for each in measured], dtype=float)
        seconds, sizes = (np.linalg.solve(ways, [getattr(each, field) for each in measured]) for field in _FIELDS)
        row, part = (PerRow(1e-9 * max(one, 0.0), max(size, 0.0)) for one, size in zip(seconds, sizes, strict=True))
        return row, part

    def rows_of_a_part(self, step: str) -> float:
        """Return how many rows the parts had that came to the largest task of a step."""
        largest = max(self._steps[step], key=lambda each: each.rows)
        return largest.rows / largest.parts

    def largest_part(self, step: str) -> float:
        """Return the most bytes a part has, on average, of those that were measured."""
        return max(each.size / each.parts for each in self._steps[step])

    def of_one(self, step: str, per_id: float = 0) -> PerRow:
        """Return what one row, key or element takes, of a step that was measured at one size."""
        rows = self._steps[step][0].rows
        return PerRow(self.seconds(step, rows, per_id) / rows, self.size(step, rows, per_id) / rows)

    def _read(self, step: str, field: str, rows: float, per_id: float) -> float:
        by_ids: dict[int, list[tuple[float, float]]] = {}
        for each in self._steps[step]:
            by_ids.setdefault(each.per_id, []).append((each.rows, getattr(each, field)))
        ids = sorted(by_ids)
        found = [_at(by_ids[each], rows, saturates=step in SUMS) for each in ids]
        return _between([max(each, 1) for each in ids], found, max(per_id, 1))


def _at(points: Sequence[tuple[float, float]], place: float, *, saturates: bool) -> float:
    """Return a value between measured ones, straight in logarithms; below the first it is that.

    Beyond the last it grows in proportion to rows, or, where it saturates, to their logarithm.
    """
    places, values = zip(*sorted(points), strict=True)
    if place <= places[-1] or len(places) == 1 or values[-1] <= values[-2]:
        return _between(places, values, place)
    if saturates:
        of_one = (values[-1] - values[-2]) / math.log(places[-1] / places[-2])
        return values[-1] + of_one * math.log(place / places[-1])
    return values[-1] + (values[-1] - values[-2]) / (places[-1] - places[-2]) * (place - places[-1])


def _between(places: Sequence[float], values: Sequence[float], place: float) -> float:
    logs = np.log(np.maximum(values, 1e-9))
    return float(np.exp(np.interp(math.log(max(place, 1e-9)), np.log(places), logs)))


def write(file: Path, costs: Iterable[Cost]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("w", newline="", encoding="utf-8") as opened:
        rows = csv.writer(opened, lineterminator="\n")
        rows.writerow([field.name for field in dataclasses.fields(Cost)])
        rows.writerows(
            [each.kind, each.step, each.rows, each.parts, each.per_id, round(each.nanoseconds), each.size]
            for each in costs
        )


def every(file: Path) -> list[Cost]:
    """Return all costs of a file."""
    with file.open(newline="", encoding="utf-8") as opened:
        return [
            Cost(
                row["kind"],
                row["step"],
                int(row["rows"]),
                int(row["parts"]),
                int(row["per_id"]),
                float(row["nanoseconds"]),
                int(row["size"]),
            )
            for row in csv.DictReader(opened)
        ]


def read(file: Path) -> dict[str, Costs]:
    """Return the costs of each kind."""
    found = every(file)
    return {kind: Costs(each for each in found if each.kind == kind) for kind in {each.kind: None for each in found}}
