"""Frequencies of people's items: the error of the most frequent ones under a norm, and under a number of records."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from beam_dpsketch import ADD_OR_REMOVE_ONE, REPLACE_ONE, SketchSpec
from beam_dpsketch.privacy.contributions import Bounds, NeighboringRelation
from benchmarks.people import best
from benchmarks.people.best import Best, Effort
from benchmarks.people.bounded import Counted, released
from benchmarks.people.data import People
from benchmarks.table import Bar, Table

DEPTH, WIDTH = 5, 2048
TOPS = (10, 100)
RECORDS, NORM, CENTRED = "RecordBounds, CountSketch", "NormBound, CountSketch", "NormBound, Count-Min centred"
# The largest mean errors allowed of the top 10 and of the top 100 flights by destination.
FLIGHTS_BARS = {
    (REPLACE_ONE, NORM): (820, 510),
    (REPLACE_ONE, CENTRED): (660, 420),
    (ADD_OR_REMOVE_ONE, NORM): (510, 325),
}
LEAST_RATIO_BY_ORIGIN = 1.8


class Grids(NamedTuple):
    """The bounds that are tried."""

    records: Sequence[Bounds]
    norms: Sequence[Bounds]


@dataclasses.dataclass
class TopErrors:
    """The mean absolute error of the true top items, of each relation in turn.

    Attributes:
      counted: the people.
      spec: of the sketches, but for their seed.
      relations: one release is made for each.
    """

    counted: Counted
    spec: SketchSpec
    relations: tuple[NeighboringRelation, ...]

    def __post_init__(self) -> None:
        people = self.counted.people
        keys = np.zeros_like(people.items) if people.keys is None else people.keys
        cells, counts = np.unique(np.stack([keys, people.items]), axis=1, return_counts=True)
        order = np.argsort(-counts, kind="stable")[: max(TOPS)]
        self._keys, self._items, self._truth = *cells[:, order], counts[order]

    def __call__(self, seed: int, bounds: Bounds) -> list[float]:
        raw = self.counted.raw(dataclasses.replace(self.spec, seed=seed), bounds)
        found = []
        for relation in self.relations:
            estimates = np.zeros(len(self._truth))
            for number, release in enumerate(released(raw, bounds, relation)):
                of_key = self._keys == number
                estimates[of_key] = release.estimate(self._items[of_key])
            found += [float(np.abs(estimates - self._truth)[:top].mean()) for top in TOPS]
        return found


def compared(
    people: People, grids: Grids, effort: Effort, centred: bool
) -> dict[tuple[NeighboringRelation, str], list[Best]]:
    """Return, for each relation and rule, the best for each of `TOPS`."""
    spec = SketchSpec(depth=DEPTH, width=WIDTH)
    counted = Counted(people, spec)
    both = (REPLACE_ONE, ADD_OR_REMOVE_ONE)
    found = {}
    for rule, candidates in ((RECORDS, grids.records), (NORM, grids.norms)):
        columns = best.best(TopErrors(counted, spec, both), candidates, effort)
        for place, relation in enumerate(both):
            found[relation, rule] = columns[place * len(TOPS) :][: len(TOPS)]
    if centred:
        spec = dataclasses.replace(spec, kind="count_min")
        errors = TopErrors(counted, spec, (REPLACE_ONE,))
        found[REPLACE_ONE, CENTRED] = best.best(errors, grids.norms, effort)
    return found


def measure(people: People, grids: Grids, effort: Effort, *, centred: bool = True, bars: str = "") -> None:
    """Print the table of one data set; bars are those of "flights" or of "keys"."""
    found = compared(people, grids, effort, centred)
    heads = ("", *(head for top in TOPS for head in (f"top {top}", "ratio  ")))
    table = Table(f"{people}\n{effort}", heads, (46, 34, -8, 34, -8), bar=20)
    for (relation, rule), columns in sorted(found.items(), key=lambda each: each[0][0] is not REPLACE_ONE):
        ratios = [base.mean / ours.mean for ours, base in zip(columns, found[relation, RECORDS], strict=True)]
        demanded: list[Bar] = []
        if bars == "flights" and (relation, rule) in FLIGHTS_BARS:
            limits = FLIGHTS_BARS[relation, rule]
            demanded = [Bar(ours.mean, "<=", limit) for ours, limit in zip(columns, limits, strict=True)]
        elif bars == "keys" and rule == NORM:
            demanded = [Bar(ratio, ">=", LEAST_RATIO_BY_ORIGIN, " x") for ratio in ratios]
        cells = (cell for ours, ratio in zip(columns, ratios, strict=True) for cell in (ours.text(), f"{ratio:.2f}  "))
        table.row(f"{relation.name}, {rule}", *cells, bars=demanded)
