"""Exact figures for comparison with private results. The examples show them only because their data is public."""

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_dpsketch import NormBound, TreeSpec
from beam_dpsketch.privacy.contributions import Bounds


class ExactCounts(NamedTuple):
    """Flights to each destination, before and after contribution bounding."""

    flights: dict[str, int]
    kept: dict[str, float]

    @property
    def share_dropped(self) -> float:
        """Share of all flights removed by contribution bounding."""
        return 1 - sum(self.kept.values()) / sum(self.flights.values())

    def top(self, k: int, *, kept: bool = False) -> list[str]:
        """List the k destinations with the most flights, before or after contribution bounding."""
        counts = self.kept if kept else self.flights
        return sorted(counts, key=lambda dest: -counts[dest])[:k]


def exact_counts(flights: pa.Table, bounds: Bounds | None = None) -> ExactCounts:
    """Count the column `dest`, and bound each `tailnum`. Flights without a `tailnum` are not kept.

    Each destination is assumed to have its own counter, because an aircraft's destinations rarely collide in a wide
    sketch. If records are sampled, the kept counts are expected values.
    """
    per_dest = pc.value_counts(flights["dest"].drop_null()).to_pylist()
    known = flights.select(["tailnum", "dest"]).drop_null()
    if bounds is None:
        factors = np.ones(len(known))
    elif bounds.total_weight is not None:
        units = _codes(known["tailnum"])
        factors = np.minimum(1.0, float(bounds.total_weight) / np.bincount(units)[units])
    else:
        assert isinstance(bounds, NormBound)
        factors = _factors(known["tailnum"], [(1.0, _codes(known["dest"]))], float(bounds.max_norm))
    sums = known.append_column("kept", pa.array(factors)).group_by("dest").aggregate([("kept", "sum")])
    return ExactCounts(
        {count["values"]: count["counts"] for count in per_dest},
        dict(zip(sums["dest"].to_pylist(), sums["kept_sum"].to_pylist(), strict=True)),
    )


def exact_changes(flights: pa.Table, before: int, after: int, bounds: Bounds) -> ExactCounts:
    """Compute the changes in the column `dest` between two values of `month`. A norm bounds each `tailnum` over both.

    The table must contain only counted destinations.
    """
    flights = flights.filter(pc.is_in(flights["month"], pa.array([before, after])))
    cells = pc.binary_join_element_wise(pc.cast(flights["month"], pa.string()), flights["dest"], " ")
    counts = exact_counts(pa.table({"dest": cells, "tailnum": flights["tailnum"]}), bounds)
    dests = flights["dest"].unique().drop_null().to_pylist()
    return ExactCounts(
        {dest: counts.flights.get(f"{after} {dest}", 0) - counts.flights.get(f"{before} {dest}", 0) for dest in dests},
        {dest: counts.kept.get(f"{after} {dest}", 0) - counts.kept.get(f"{before} {dest}", 0) for dest in dests},
    )


class Distribution(NamedTuple):
    """Values in ascending order, with cumulative weights."""

    values: np.ndarray
    cumulated: np.ndarray

    @classmethod
    def of(cls, values: pa.ChunkedArray, weights: np.ndarray) -> "Distribution":
        numbers = values.to_numpy()
        order = np.argsort(numbers, kind="stable")
        return cls(numbers[order], np.cumsum(weights[order]))

    def quantile(self, share: float) -> int:
        """Find the smallest value with this share of the weight at or below it."""
        place = np.searchsorted(self.cumulated, share * self.cumulated[-1])
        return int(self.values[min(place, len(self.values) - 1)])

    def cdf(self, values: np.ndarray) -> np.ndarray:
        """Compute the share of the weight at or below each value."""
        cumulated = np.append(0.0, self.cumulated)
        return cumulated[np.searchsorted(self.values, values, side="right")] / cumulated[-1]


class ExactDelays(NamedTuple):
    """Arrival delays of all flights, unweighted and with their weights after contribution bounding."""

    flights: Distribution
    kept: Distribution


def exact_delays(flights: pa.Table, spec: TreeSpec, max_norm: float) -> dict[str, ExactDelays]:
    """Read the column `arr_delay` by `origin`. A single norm bounds each `tailnum` over the trees of all origins."""
    arrived = flights.select(["origin", "tailnum", "arr_delay"]).filter(flights["arr_delay"].is_valid())
    known = arrived.drop_null()
    origins = _codes(known["origin"])
    positions, _ = spec.domain.index(known["arr_delay"].combine_chunks())
    levels = [
        (
            float(level.share),
            origins * spec.nodes(number) + (positions >> np.uint64(spec.shift(number))).astype(np.int64),
        )
        for number, level in enumerate(spec.levels)
    ]
    known = known.append_column("kept", pa.array(_factors(known["tailnum"], levels, max_norm)))
    found = {}
    for origin in arrived["origin"].unique().to_pylist():
        all_of, kept = (each.filter(pc.equal(each["origin"], origin)) for each in (arrived, known))
        found[origin] = ExactDelays(
            Distribution.of(all_of["arr_delay"], np.ones(len(all_of))),
            Distribution.of(kept["arr_delay"], kept["kept"].to_numpy()),
        )
    return found


def _factors(aircraft: pa.ChunkedArray, tables: list[tuple[float, np.ndarray]], max_norm: float) -> np.ndarray:
    """Compute each record's clipping factor, min(1, max_norm / N), from the share and cells of each counter table."""
    units = _codes(aircraft)
    squares = np.zeros(int(units.max(initial=0)) + 1)
    for share, cells in tables:
        width = int(cells.max(initial=0)) + 1
        places, counts = np.unique(units * width + cells, return_counts=True)
        squares += share * np.bincount(places // width, counts**2.0, len(squares))
    return np.minimum(1.0, max_norm / np.sqrt(np.maximum(squares, 1.0)))[units]


def _codes(column: pa.ChunkedArray) -> np.ndarray:
    return column.combine_chunks().dictionary_encode().indices.to_numpy().astype(np.int64)
