"""Measure the errors of released means and variances of flight delays: ``python -m benchmarks.accuracy.means``.

The data are the arrival delays of 2013 by destination, clipped to [-60, 240]. Destinations are public keys. An error is
the mean absolute error in minutes over all destinations with 100 flights or more. If a release cannot tell a mean, the
middle of the clip bounds stands in for it. The peers are simulated in numpy, on the same clipped records. The first two
parts are measured with summary counts and without:
  records   Single records are protected, at rho = 0.1. The peer of the mean is a Gaussian count and a Gaussian sum of
            distances from the middle, each with half of rho. The peer of the standard deviation adds a sum of squared
            distances, and gives a third of rho to each of its three sums.
  aircraft  All flights of an aircraft are protected, at epsilon 2 and delta 1e-6. The peer is the mean of PipelineDP.
            It keeps a few destinations of each aircraft and a few records in each, at random. Then it splits epsilon
            between a count and a sum of distances, with Laplace or analytic Gaussian noise. Both sides use the bound
            that suits them best, chosen on other releases. Only destinations with 2,000 flights or more count: with
            fewer, noise hides nearly everything on both sides.
  coverage  The share of 95 % intervals that hold the true mean or variance, also with 20 flights for each key.
It takes about 5 minutes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from beam_dpsketch import (
    IntegerDomain,
    NormBound,
    PrivacyId,
    PrivacySpec,
    PublicKeys,
    Record,
    RecordBounds,
    ReleaseSpec,
    Statistics,
    SummaryCounts,
    release_frame,
)
from beam_dpsketch.answers.statistics import ReleasedStatistics
from benchmarks.accuracy.noise_peers.promises import gaussian_scale
from benchmarks.command import Command
from benchmarks.table import Bar, Table, mean
from pipelines import flights

LOW, HIGH = -60, 240
MIDDLE, HALF = (LOW + HIGH) / 2, (HIGH - LOW) / 2
RHO, EPSILON, DELTA = 0.1, 2.0, 1e-6
LEAST, LEAST_OF_AIRCRAFT, FEW = 100, 2_000, 20
LARGEST = {"mean": 1.12, "mean with variance": 1.12, "variance": 1.15, "aircraft": 0.8}
COVERED = (0.93, 0.97)
BOUNDS = (1, 2, 3, 5, 10, 20, 40)
SIDES: dict[str, SummaryCounts | None] = {"summary counts": SummaryCounts(), "no summary counts": None}


class Sums(NamedTuple):
    """Records, distances from the middle and their squares, by destination, over the half width: float64 each."""

    number: np.ndarray
    total: np.ndarray
    squares: np.ndarray

    def mean(self) -> np.ndarray:
        """Means in minutes, clipped; the middle where there are no records."""
        places = np.divide(self.total, self.number, out=np.zeros_like(self.total), where=self.number > 0)
        return MIDDLE + HALF * np.clip(places, -1, 1)

    def variance(self) -> np.ndarray:
        squares = np.divide(self.squares, self.number, out=np.zeros_like(self.total), where=self.number > 0)
        return HALF**2 * np.clip(squares - ((self.mean() - MIDDLE) / HALF) ** 2, 0, 1)

    def noisy(self, generator: np.random.Generator, draw: Callable[..., np.ndarray], *scales: float) -> Sums:
        return Sums(*(each + draw(generator, scale, len(each)) for each, scale in zip(self, scales, strict=True)))


def gaussian(generator: np.random.Generator, scale: float, size: int) -> np.ndarray:
    """Gaussian noise."""
    return generator.normal(0, scale, size)


def laplace(generator: np.random.Generator, scale: float, size: int) -> np.ndarray:
    """Laplace noise."""
    return generator.laplace(0, scale, size)


class Delays:
    """Delays by destination, as a table and as sums."""

    def __init__(self, table: pa.Table, least: int = LEAST) -> None:
        counts = table["dest"].value_counts().to_pylist()
        self.keys = sorted(each["values"] for each in counts if each["counts"] >= least)
        place = {key: number for number, key in enumerate(self.keys)}
        table = table.filter(pa.array([key in place for key in table["dest"].to_pylist()]))
        self.table = table
        self.places = np.array([place[key] for key in table["dest"].to_pylist()])
        self.units = np.unique(np.asarray(table["tailnum"].fill_null("").to_pylist()), return_inverse=True)[1]
        self.distances = (np.clip(table["arr_delay"].to_numpy(), LOW, HIGH) - MIDDLE) / HALF
        self.exact = self.sums(np.ones(len(table), dtype=bool))

    def sums(self, kept: np.ndarray) -> Sums:
        """Exact sums of some records."""
        size, places, values = len(self.keys), self.places[kept], self.distances[kept]
        found = (np.bincount(places, weights, size) for weights in (None, values, values**2))
        return Sums(*(each.astype(np.float64) for each in found))

    def released(self, privacy_unit: Any, privacy: PrivacySpec, variance: bool = False) -> list[ReleasedStatistics]:
        """One release of all destinations."""
        count = Statistics(IntegerDomain(LOW, HIGH), variance)
        keys = PublicKeys(self.keys, field="dest")
        found: Any = release_frame(self.table, ReleaseSpec(count, privacy, privacy_unit, "arr_delay", keys=keys))
        return [found[key] for key in self.keys]

    def kept(self, generator: np.random.Generator, keys: int, each: int) -> np.ndarray:
        """Which records stay where an aircraft has so many destinations, and so many records in each."""
        order = generator.permutation(len(self.places))
        groups = self.units[order] * len(self.keys) + self.places[order]
        first = order[_rank(groups) < each]
        pairs = np.unique(self.units[first] * len(self.keys) + self.places[first])
        pairs = pairs[generator.permutation(len(pairs))]
        chosen = pairs[_rank(pairs // len(self.keys)) < keys]
        kept = np.zeros(len(self.places), dtype=bool)
        kept[first[np.isin(self.units[first] * len(self.keys) + self.places[first], chosen)]] = True
        return kept


def _rank(groups: np.ndarray) -> np.ndarray:
    """Return how many of the same group came before each."""
    order = np.argsort(groups, kind="stable")
    ordered = groups[order]
    starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
    ranks = np.empty(len(groups), dtype=np.int64)
    ranks[order] = np.arange(len(groups)) - np.repeat(starts, np.diff(np.append(starts, len(groups))))
    return ranks


def known(answers: Iterable[Any], otherwise: float) -> np.ndarray:
    """Return estimates, and something else where a release cannot tell."""
    return np.array([otherwise if each.estimate is None else each.estimate for each in answers])


def records(delays: Delays, releases: int) -> None:
    """Print errors where single records are protected."""
    truth, spread = delays.exact.mean(), np.sqrt(delays.exact.variance())
    generator = np.random.default_rng(1)

    def error(of: Callable[[], np.ndarray], exact: np.ndarray) -> list[float]:
        return [float(np.abs(of() - exact).mean()) for _ in range(releases)]

    two, three = (math.sqrt(parts / (2 * RHO)) for parts in (2, 3))
    peer = error(lambda: delays.exact.noisy(generator, gaussian, two, two, 0).mean(), truth)
    peer_spread = error(
        lambda: np.sqrt(delays.exact.noisy(generator, gaussian, three, three, three).variance()), spread
    )
    table = Table(
        f"records: {len(delays.keys)} destinations, rho = {RHO}, {releases} releases. Mean error in minutes (range).",
        ("", "error", "ratio"),
        (52, 30, 10),
    )
    table.row("mean: Gaussian count and sum", mean(peer, 4))
    for words, side in SIDES.items():
        privacy = PrivacySpec(rho=RHO, summary_counts=side)
        for name, variance in (("mean", False), ("mean with variance", True)):
            own = error(lambda: known((r.mean() for r in delays.released(Record(), privacy, variance)), MIDDLE), truth)  # noqa: B023
            ratio = float(np.mean(own) / np.mean(peer))
            table.row(f"{name}, {words}", mean(own, 4), f"{ratio:.3f}", bars=[Bar(ratio, "<=", LARGEST[name])])
    table.row("standard deviation: three Gaussian sums", mean(peer_spread, 4))
    for words, side in SIDES.items():
        privacy = PrivacySpec(rho=RHO, summary_counts=side)
        own = error(lambda: known((r.std() for r in delays.released(Record(), privacy, True)), HALF), spread)  # noqa: B023
        ratio = float(np.mean(own) / np.mean(peer_spread))
        table.row(
            f"standard deviation, {words}", mean(own, 4), f"{ratio:.3f}", bars=[Bar(ratio, "<=", LARGEST["variance"])]
        )


def aircraft(delays: Delays, releases: int) -> None:
    """Print errors where all flights of an aircraft are protected."""
    delays = Delays(delays.table, LEAST_OF_AIRCRAFT)
    truth, generator = delays.exact.mean(), np.random.default_rng(2)
    what = f"{len(np.unique(delays.units)):,} of them, {len(delays.keys)} destinations"
    table = Table(
        f"aircraft: {what}, epsilon = {EPSILON:g}, delta = {DELTA:g}, {releases} "
        "releases at the best bound. Mean error in minutes (range).",
        ("", "error", "ratio"),
        (52, 40, 10),
    )

    def best(candidates: Sequence[Any], once: Callable[[Any], np.ndarray]) -> tuple[Any, list[float]]:
        def error(bound: Any, count: int) -> list[float]:
            return [float(np.abs(once(bound) - truth).mean()) for _ in range(count)]

        chosen = min(candidates, key=lambda each: np.mean(error(each, 3)))
        return chosen, error(chosen, releases)

    def pipelinedp(bound: tuple[int, int, bool]) -> np.ndarray:
        keys, each, is_laplace = bound
        kept = delays.sums(delays.kept(generator, keys, each))
        scale = 2 * keys * each / EPSILON
        if not is_laplace:
            scale = math.sqrt(keys) * each * gaussian_scale(EPSILON / 2, DELTA / 2)
        return kept.noisy(generator, laplace if is_laplace else gaussian, scale, scale, 0).mean()

    grid = [(keys, each, kind) for keys in (2, 3, 5, 10, 20) for each in (1, 2, 3, 5, 10) for kind in (True, False)]
    chosen, peer = best(grid, pipelinedp)
    noise = "Laplace" if chosen[2] else "Gaussian"
    table.row(f"PipelineDP, {noise}, {chosen[1]} in each of {chosen[0]}", mean(peer, 3))
    for words, side in SIDES.items():
        privacy = PrivacySpec(epsilon=EPSILON, delta=DELTA, summary_counts=side)
        bounds: list[Any] = [NormBound(bound, norm=norm) for bound in BOUNDS for norm in ("l1", "l2")]
        bounds += [RecordBounds(each, max_keys=keys) for each in (1, 2) for keys in (5, 10)]

        def ours(bound: Any, privacy: PrivacySpec = privacy) -> np.ndarray:
            return known((each.mean() for each in delays.released(PrivacyId("tailnum", bound), privacy)), MIDDLE)

        chosen, own = best(bounds, ours)
        ratio = float(np.mean(own) / np.mean(peer))
        table.row(
            f"{chosen.size} of {getattr(chosen, 'norm', '-').upper()}, {words}",
            mean(own, 3),
            f"{ratio:.3f}",
            bars=[Bar(ratio, "<=", LARGEST["aircraft"])],
        )


def coverage(delays: Delays, releases: int) -> None:
    """Print how many intervals hold the truth."""
    few = delays.table.take(np.flatnonzero(_rank(delays.places) < FEW))
    table = Table(
        f"coverage of 95 % intervals, {releases} releases of all destinations",
        ("", "mean", "variance", "cannot tell"),
        (52, 10, 10, 14),
    )
    promises = {"rho = 0.1": PrivacySpec(rho=RHO), "epsilon = 1": PrivacySpec(epsilon=1)}
    for words, privacy in promises.items():
        for name, of in (("all flights", delays), (f"{FEW} flights for each key", Delays(few, least=1))):
            exact, variance = of.exact.mean(), of.exact.variance()
            held, untold = np.zeros(2), 0
            for _ in range(releases):
                for each, first, second in zip(of.released(Record(), privacy, True), exact, variance, strict=True):
                    answers = each.mean(), each.variance()
                    held += [low <= true <= high for (_, low, high), true in zip(answers, (first, second), strict=True)]
                    untold += answers[1].estimate is None
            held /= releases * len(of.keys)
            bars = [Bar(held[0], ">=", COVERED[0]), Bar(held[0], "<=", COVERED[1]), Bar(held[1], ">=", COVERED[0])]
            share = untold / releases / len(of.keys)
            table.row(f"{name}, {words}", f"{held[0]:.4f}", f"{held[1]:.4f}", f"{share:.3f}", bars=bars)


PARTS: dict[str, Callable[[Delays, int], None]] = {"records": records, "aircraft": aircraft, "coverage": coverage}


def main() -> None:
    command = Command(__file__, __doc__, parts=[*PARTS])
    command.number("--releases", 20, "releases of each line")
    arguments = command.parse_args()
    columns = flights.read_table(flights.data_file("flights.csv.zip")).select(["dest", "tailnum", "arr_delay"])
    delays = Delays(columns.filter(columns["arr_delay"].is_valid()))
    for part in arguments.parts or PARTS:
        with command.writing(arguments, f"delays clipped to [{LOW}, {HIGH}]; noise: operating system", part=part):
            PARTS[part](delays, arguments.releases)


if __name__ == "__main__":
    main()
