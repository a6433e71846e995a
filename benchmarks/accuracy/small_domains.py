"""Quantiles and searches where the usual layout is a histogram: ``python -m benchmarks.accuracy.small_domains``.

Records at epsilon 1, and people with `AutoNorm()` at epsilon 2; delta 1e-6. The other layout is that of larger domains,
on the same data: a square-root factor for records, and for people a tree of exact levels, with the norm that larger
domains have. For each data set it prints the mean error in records of the 20 largest values, of 200 random ranges, and
of ranks at 99 centiles as shares of the total; then each over that of the other layout.

Searches compare a histogram with the tree of `TreeSpec.for_search`, over domains of 256 to 131,072 values: the mean
error of the 20 largest values, where one that is not found counts with all its weight, and the overlap with them,
2 |both| / (|found| + 20). Takes about 8 minutes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from beam_dpsketch import (
    AutoNorm,
    FactorizationSpec,
    IntegerDomain,
    PrivacyId,
    PrivacySpec,
    Quantiles,
    Record,
    ReleaseSpec,
    TopKSearch,
    TreeSpec,
    release_frame,
)
from benchmarks.command import Command
from benchmarks.people import data
from benchmarks.people.data import People
from benchmarks.table import Bar, Table

DELTA, PEOPLE, RANGES, LARGEST_VALUES = 1e-6, 20_000, 200, 20
RELEASES = {"records": 200, "people": 20}
"""Of records, errors of ranks are sums of noise that move together, so releases differ much."""
SIZES = {"records": (4, 16, 64, 256), "people": (3, 5, 8)}
BARS = {"values": (0.45, 0.7), "ranges": (0.8, 1.1), "ranks": (0.9, 1.1)}
"""Of the ratios of errors: their geometric mean, and each."""
SEARCHES, MEAN_SEARCH, WORST_SEARCH = 10, 0.7, 1.05


class Asked(NamedTuple):
    """The true answers, and the questions."""

    counts: np.ndarray
    at: np.ndarray
    low: np.ndarray
    high: np.ndarray
    largest: np.ndarray

    @classmethod
    def of(cls, items: np.ndarray, size: int, rng: np.random.Generator) -> Asked:
        counts = np.bincount(items, minlength=size)
        at = np.unique(np.quantile(items, np.arange(0.01, 1, 0.01)).astype(np.int64))
        low = rng.integers(0, size, RANGES)
        high = low + ((size - low) * rng.random(RANGES) ** 2).astype(np.int64)
        return cls(counts, at, low, high, np.argsort(-counts, kind="stable")[:LARGEST_VALUES])

    def errors(self, released: Any) -> np.ndarray:
        """Return the mean errors of values, ranges and ranks, in records."""
        ranks = np.cumsum(self.counts)
        of_ranges = ranks[self.high] - np.append(0, ranks)[self.low]
        cdf = np.asarray(released.cdf(self.at)) - ranks[self.at] / ranks[-1]
        values = np.asarray(released.estimate(self.largest)) - self.counts[self.largest]
        ranges = np.asarray(released.range_count(self.low, self.high)) - of_ranges
        return np.array([np.abs(values).mean(), np.abs(ranges).mean(), ranks[-1] * np.abs(cdf).mean()])


def _made_up(size: int) -> People:
    """Return people whose values are about normal."""
    rng = np.random.default_rng(6)
    records = np.ceil(rng.lognormal(1.5, 0.9, PEOPLE)).astype(np.int64)
    units = np.repeat(np.arange(PEOPLE), records)
    items = np.clip(rng.normal(0.4 * size, 0.17 * size, len(units)), 0, size - 1).astype(np.int64)
    return People(f"normal values of {PEOPLE:,} people", units, items)


def _own_values(size: int) -> People:
    """Return people who have about one value each."""
    rng = np.random.default_rng(7)
    records = np.ceil(rng.lognormal(1.5, 0.9, PEOPLE)).astype(np.int64)
    units, own = np.repeat(np.arange(PEOPLE), records), rng.normal(0.4 * size, 0.17 * size, PEOPLE)
    items = np.clip(own[units] + rng.normal(0, 0.02 * size, len(units)), 0, size - 1).astype(np.int64)
    return People(f"values that {PEOPLE:,} people keep", units, items)


def _banded(people: People, width: int, low: int, size: int) -> tuple[People, int]:
    """Return people with values in bands of a width from a low one; the last band holds all that is above."""
    return people._replace(items=np.clip((people.items - low) // width, 0, size - 1)), size


def _sets(privacy_unit: str) -> Iterator[tuple[People, int]]:
    """Yield data sets with the sizes of their domains."""
    for size in SIZES[privacy_unit]:
        yield _made_up(size), size
        yield _own_values(size), size
    hours, months = data.flights_by("hour"), data.flights_by("month")
    distances, delays = data.flights_by("distance"), data.flights_by("arr_delay")
    log = data.some_of(data.web_log(), PEOPLE)
    if privacy_unit == "people":
        yield _banded(hours, 3, 0, 8)
        yield _banded(months, 3, 1, 4)
        yield _banded(distances, 400, 0, 8)
        yield _banded(delays, 30, -60, 8)
        yield _banded(log, 1, 0, 8)
    else:
        yield hours, 24
        yield _banded(months, 1, 1, 12)
        yield _banded(distances, 40, 0, 128)
        yield _banded(delays, 1, -60, 256)
        yield _banded(log, 1, 0, 32)


def _released(table: pa.Table, layout: Any, privacy_unit: str, auto: AutoNorm) -> Any:
    privacy = PrivacySpec(epsilon=1 if privacy_unit == "records" else 2, delta=DELTA)
    of = Record() if privacy_unit == "records" else PrivacyId("person", auto)
    return release_frame(table, ReleaseSpec(Quantiles(layout), privacy, of, item="item"))


def measure() -> None:
    """Print a line for each data set, and the geometric mean of the ratios."""
    heads = ("", "domain", *(f"{name}: usual / other" for name in BARS), *BARS)
    words = ", ".join(f"{number} of {privacy_unit}" for privacy_unit, number in RELEASES.items())
    table = Table(f"Releases of each layout: {words}", heads, (62, -7, -24, -24, -24, -8), bar=22)
    all_of = []
    for privacy_unit in SIZES:
        for people, size in _sets(privacy_unit):
            if privacy_unit == "records":  # noise does not grow with them
                people = people._replace(units=people.units[:PEOPLE], items=people.items[:PEOPLE])
            domain, rows = IntegerDomain(0, size - 1), pa.table({"person": people.units, "item": people.items})
            asked = Asked.of(people.items, size, np.random.default_rng(size))
            wide = FactorizationSpec(domain) if privacy_unit == "records" else TreeSpec.for_memory(domain)
            layouts = (domain, AutoNorm()), (wide, AutoNorm(norm="l2"))
            usual, other = (
                np.mean(
                    [asked.errors(_released(rows, layout, privacy_unit, auto)) for _ in range(RELEASES[privacy_unit])],
                    axis=0,
                )
                for layout, auto in layouts
            )
            all_of.append(usual / other)
            errors = (f"{one:,.1f} / {two:,.1f}" for one, two in zip(usual, other, strict=True))
            bars = [Bar(each, "<=", most) for each, (_, most) in zip(all_of[-1], BARS.values(), strict=True)]
            table.row(f"{privacy_unit}: {people.title}", f"{size}", *errors, *_ratios(all_of[-1]), bars=bars)
    means = np.exp(np.mean(np.log(all_of), axis=0))
    bars = [Bar(each, "<=", most) for each, (most, _) in zip(means, BARS.values(), strict=True)]
    table.row("geometric mean", "", "", "", "", *_ratios(means), bars=bars)


def search() -> None:
    """Print a line for each data set, and the geometric mean of the ratios."""
    heads = ("", "domain", "error: histogram / tree", "F1: histogram / tree", "ratio")
    table = Table(f"Searches: {SEARCHES} releases of each layout", heads, (62, -7, -24, -24, -8), bar=22)
    all_of = []
    for privacy_unit in RELEASES:
        for people, size in _searched():
            domain, rows = IntegerDomain(0, size - 1), pa.table({"person": people.units, "item": people.items})
            counts = np.bincount(people.items, minlength=size)
            layouts = domain, TreeSpec.for_search(domain)
            usual, other = (
                np.mean([_of_search(rows, layout, privacy_unit, counts) for _ in range(SEARCHES)], axis=0)
                for layout in layouts
            )
            all_of.append(usual[0] / other[0])
            shown = f"{usual[0]:,.1f} / {other[0]:,.1f}", f"{usual[1]:.2f} / {other[1]:.2f}", f"{all_of[-1]:.2f}"
            table.row(f"{privacy_unit}: {people.title}", f"{size}", *shown, bars=[Bar(all_of[-1], "<=", WORST_SEARCH)])
    mean = float(np.exp(np.mean(np.log(all_of))))
    table.row("geometric mean", "", "", "", f"{mean:.2f}", bars=[Bar(mean, "<=", MEAN_SEARCH)])


def _searched() -> Iterator[tuple[People, int]]:
    """Yield data sets with the sizes of their domains."""
    yield _banded(data.flights_by("arr_delay"), 1, -60, 256)
    yield _banded(data.flights_by("distance"), 1, 0, 5_000)
    yield _banded(data.some_of(data.web_log(), PEOPLE), 1, 0, 50_000)
    yield _banded(data.flights_by("distance"), 1, 0, 1 << 17)


def _of_search(table: pa.Table, layout: Any, privacy_unit: str, counts: np.ndarray) -> tuple[float, float]:
    """Return the error of the largest values, and the overlap with them."""
    privacy = PrivacySpec(epsilon=1 if privacy_unit == "records" else 2, delta=DELTA)
    of = Record() if privacy_unit == "records" else PrivacyId("person", AutoNorm())
    released = release_frame(table, ReleaseSpec(TopKSearch(layout, LARGEST_VALUES), privacy, of, item="item"))
    found = {each.item: each.estimate for each in released.top_k(LARGEST_VALUES)}
    largest = np.argsort(-counts, kind="stable")[:LARGEST_VALUES].tolist()
    error = float(np.mean([abs(found.get(each, 0.0) - counts[each]) for each in largest]))
    return error, 2 * len(found.keys() & set(largest)) / (len(found) + len(largest))


def _ratios(found: np.ndarray) -> list[str]:
    return [f"{each:.2f}" for each in found]


def main() -> None:
    """Print the table."""
    command = Command(__file__, __doc__, "numpy", "pyarrow", "beam-dpsketch")
    arguments = command.parse_args()
    with command.writing(arguments, "Mean absolute errors in records, and their ratios. Noise: operating system."):
        measure()
        search()


if __name__ == "__main__":
    main()
