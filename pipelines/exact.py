"""Exact figures to compare with the private ones. The examples show them only because their data is public."""

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_dpsketch import RecordBounds


class ExactCounts(NamedTuple):
    """Flights to each destination, and how many of them contribution bounding keeps, on average over its choices."""

    flights: dict[str, int]
    kept: dict[str, float]

    @property
    def share_dropped(self) -> float:
        """The part of all flights that the private release cannot see."""
        return 1 - sum(self.kept.values()) / sum(self.flights.values())

    def top(self, k: int, *, kept: bool = False) -> list[str]:
        """The k destinations with the most flights, or with the most that bounding keeps."""
        counts = self.kept if kept else self.flights
        return sorted(counts, key=lambda dest: -counts[dest])[:k]


def exact_counts(flights: pa.Table, bounds: RecordBounds) -> ExactCounts:
    """Counts the column `dest`, and applies the bounds to each `tailnum`; flights without one are not kept."""
    per_dest = pc.value_counts(flights["dest"].drop_null()).to_pylist()
    known = flights.select(["tailnum", "dest"]).drop_null()
    kept = _sampled(known.append_column("weight", pa.array(np.ones(len(known)))), bounds)
    sums = kept.group_by("dest").aggregate([("kept", "sum")])
    return ExactCounts(
        {count["values"]: count["counts"] for count in per_dest},
        dict(zip(sums["dest"].to_pylist(), sums["kept_sum"].to_pylist(), strict=True)),
    )


class Distribution(NamedTuple):
    """Values in ascending order, and how much weight there is up to each."""

    values: np.ndarray
    cumulated: np.ndarray

    @classmethod
    def of(cls, values: pa.ChunkedArray, weights: np.ndarray) -> "Distribution":
        numbers = values.to_numpy()
        order = np.argsort(numbers, kind="stable")
        return cls(numbers[order], np.cumsum(weights[order]))

    def quantile(self, share: float) -> int:
        """The smallest value with this share of the weight at or below it."""
        place = np.searchsorted(self.cumulated, share * self.cumulated[-1])
        return int(self.values[min(place, len(self.values) - 1)])

    def cdf(self, values: np.ndarray) -> np.ndarray:
        """The share of the weight at or below each value."""
        cumulated = np.append(0.0, self.cumulated)
        return cumulated[np.searchsorted(self.values, values, side="right")] / cumulated[-1]


class ExactDelays(NamedTuple):
    """Arrival delays of all flights, and of those that contribution bounding keeps, on average over its choices."""

    flights: Distribution
    kept: Distribution


def exact_delays(flights: pa.Table, airport: str, bounds: RecordBounds) -> ExactDelays:
    """The column `arr_delay` of flights from an airport; the bounds must leave room for every airport."""
    arrived = flights.filter(pc.equal(flights["origin"], airport)).select(["tailnum", "arr_delay"])
    arrived = arrived.filter(arrived["arr_delay"].is_valid())
    known = arrived.drop_null()
    kept = _sampled(known.append_column("weight", pa.array(np.ones(len(known)))), bounds)
    return ExactDelays(
        Distribution.of(arrived["arr_delay"], np.ones(len(arrived))),
        Distribution.of(kept["arr_delay"], kept["kept"].to_numpy()),
    )


def _sampled(records: pa.Table, bounds: RecordBounds) -> pa.Table:
    """The records with their weight times the share of an aircraft's records that is kept."""
    aircraft = records["tailnum"].combine_chunks().dictionary_encode().indices.to_numpy()
    counts = np.bincount(aircraft, minlength=1)[aircraft]
    share = np.minimum(1.0, bounds.max_contributions_per_partition / counts)
    return records.append_column("kept", pa.array(records["weight"].to_numpy() * share))
