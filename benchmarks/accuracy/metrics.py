"""Compare errors of several metrics in one release with separate releases: ``python -m benchmarks.accuracy.metrics``.

The data are the flights of 2013, and all flights of an aircraft are protected. The metrics are destinations in a
CountSketch (half of rho), arrival delays as quantiles (a quarter), and the same delays as sums (a quarter). Each
separate release spends the same part of rho under the same bounds. In one release, a record counts for all metrics or
for none. Separate releases each draw or scale the records on their own. No summary counts are kept.

Errors compare the bounded release with all flights:
  destinations  the mean error of the shares of the 30 most frequent destinations
  delays        the mean error of ranks, at 19 quantiles
  mean          the error of the mean, in minutes
A ratio divides the mean error over all releases by that of the separate releases. Its range comes from splitting the
releases into four parts. It takes about 3 minutes.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

from beam_dpsketch import (
    IntegerDomain,
    ItemFrequencies,
    Metric,
    Metrics,
    NormBound,
    PrivacyId,
    PrivacySpec,
    Quantiles,
    RecordBounds,
    ReleaseSpec,
    SketchSpec,
    Statistics,
    release_frame,
)
from benchmarks.command import Command
from benchmarks.table import Bar, Table
from pipelines import flights

RHO, TOP, PARTS = Fraction(1, 10), 30, 4
MIDDLE = 90.0
DELAYS = IntegerDomain(-60, 240)
METRICS = {
    "destinations": Metric(ItemFrequencies(SketchSpec(width=1024, seed=5)), "dest", Fraction(1, 2)),
    "delays": Metric(Quantiles(DELAYS), "arr_delay", Fraction(1, 4)),
    "mean": Metric(Statistics(DELAYS), "arr_delay", Fraction(1, 4)),
}
BOUNDS: dict[str, Any] = {"RecordBounds(20)": RecordBounds(20), "NormBound(20)": NormBound(20)}


class Errors:
    """Errors of each metric, given the exact data."""

    def __init__(self, table: pa.Table) -> None:
        counts = sorted(table["dest"].value_counts().to_pylist(), key=lambda each: -each["counts"])[:TOP]
        self.names = [each["values"] for each in counts]
        self.shares = np.array([each["counts"] for each in counts]) / len(table)
        self.delays = np.sort(np.clip(table["arr_delay"].to_numpy(), -60, 240))
        self.of: dict[str, Callable[[Any], float]] = {
            "destinations": self.destinations,
            "delays": self.ranks,
            "mean": self.mean,
        }

    def destinations(self, released: Any) -> float:
        found = np.array([released.estimate(name) for name in self.names])
        return float(np.abs(found / found.sum() - self.shares / self.shares.sum()).mean())

    def ranks(self, released: Any) -> float:
        shares = np.arange(1, 20) / 20
        values = np.asarray(released.quantile(shares).estimate)
        low, high = (np.searchsorted(self.delays, values, side) / len(self.delays) for side in ("left", "right"))
        return float(np.maximum(0, np.maximum(low - shares, shares - high)).mean())

    def mean(self, released: Any) -> float:
        estimate = released.mean().estimate
        return abs((MIDDLE if estimate is None else estimate) - float(self.delays.mean()))


def measure(table: pa.Table, releases: int) -> None:
    """Print the errors."""
    errors, whole = Errors(table), PrivacySpec(rho=RHO, summary_counts=None)
    printed = Table(
        f"flights by aircraft, rho = {float(RHO)}, {releases} releases",
        ("", "one release", "of its own", "  ratio"),
        (34, -14, -14, 32),
    )
    for words, bounds in BOUNDS.items():
        privacy_unit = PrivacyId("tailnum", bounds)
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in METRICS}
        for _ in range(releases):
            together = release_frame(table, ReleaseSpec(Metrics(METRICS), whole, privacy_unit))
            for name, metric in METRICS.items():
                alone = PrivacySpec(rho=RHO * Fraction(metric.share or 1), summary_counts=None)
                own = release_frame(table, ReleaseSpec(metric.count, alone, privacy_unit, metric.item))
                found[name].append((errors.of[name](together[name]), errors.of[name](own)))
        for name, pairs in found.items():
            one, own = np.array(pairs).T
            ratio = float(one.mean() / own.mean())
            parts = [float(one[part::PARTS].mean() / own[part::PARTS].mean()) for part in range(PARTS)]
            cells = (f"{words}, {name}", f"{one.mean():.6f}", f"{own.mean():.6f}")
            shown = f"  {ratio:.3f} ({min(parts):.3f} to {max(parts):.3f})"
            printed.row(*cells, shown, bars=[Bar(min(parts), "<=", 1.0)])


def main() -> None:
    command = Command(__file__, __doc__, "numpy")
    command.number("--releases", 400, "releases of each line")
    arguments = command.parse_args()
    columns = flights.read_table(flights.data_file("flights.csv.zip")).select(["dest", "tailnum", "arr_delay"])
    table = columns.filter(columns["arr_delay"].is_valid()).combine_chunks()
    with command.writing(arguments, "noise and sampling: operating system; met if the range holds 1 or less."):
        measure(table, arguments.releases)


if __name__ == "__main__":
    main()
