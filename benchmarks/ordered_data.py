"""Data over ordered universes for the benchmarks of quantiles and top-K lists, and how far from the truth a rank is.

A distribution is a function from a generator and a number of records to as many positions (uint64). Those of 16 bits
lie in 0..65,535, those of 32 bits in 0..4,294,967,295. No constant of a method was chosen for `UNTUNED`, though it was
looked at; `FRESH` was first measured when the methods were settled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import pyarrow.csv
import pyarrow.parquet

from beam_dpsketch import IntegerDomain, IPv4Domain

QUANTILES = 1024
WIDE = 1 << 32
ZIPF_RANKS = (1 << 16) - 1
Distribution = Callable[[np.random.Generator, int], np.ndarray]


class Truth(NamedTuple):
    """Items at evenly spaced quantiles, with their exact ranks (how many records are at or below)."""

    items: np.ndarray
    ranks: np.ndarray

    def mean_error(self, estimated: np.ndarray) -> float:
        """The mean distance of estimated ranks from the exact ones, in records."""
        return float(np.mean(np.abs(estimated - self.ranks)))


def truth(positions: np.ndarray, quantiles: int = QUANTILES) -> Truth:
    """The items at ceil(i / (quantiles + 1) * N), i = 1..quantiles."""
    ordered = np.sort(positions)
    wanted = np.ceil(np.arange(1, quantiles + 1) / (quantiles + 1) * len(ordered)).astype(np.int64)
    items = ordered[wanted - 1]
    return Truth(items, np.searchsorted(ordered, items, side="right").astype(np.float64))


def zipf(generator: np.random.Generator, size: int) -> np.ndarray:
    """Rank r in 1..65,535 with probability proportional to 1/r."""
    ranks = np.arange(1, ZIPF_RANKS + 1, dtype=np.uint64)
    return generator.choice(ranks, size=size, p=(1 / ranks) / (1 / ranks).sum())


def normal(generator: np.random.Generator, size: int) -> np.ndarray:
    """16 bits, mean 2^15, standard deviation 2^13."""
    return _clipped(generator.normal(2.0**15, 2.0**13, size), 1 << 16)


def uniform(generator: np.random.Generator, size: int) -> np.ndarray:
    """16 bits."""
    return generator.integers(0, 1 << 16, size=size, dtype=np.uint64)


def lognormal(generator: np.random.Generator, size: int) -> np.ndarray:
    """16 bits, median e^8, one standard deviation a factor e."""
    return _clipped(generator.lognormal(8.0, 1.0, size), 1 << 16)


def clustered(generator: np.random.Generator, size: int) -> np.ndarray:
    """32 bits: 200 centres of Zipf weight, records spread around each with a scale between 1 and 2^20."""
    masses = 1 / np.arange(1, 201)
    centre = generator.choice(200, size=size, p=masses / masses.sum())
    centres = generator.uniform(0, WIDE, 200)
    scales = 2.0 ** generator.uniform(0, 20, 200)
    return _clipped(centres[centre] + scales[centre] * generator.normal(size=size), WIDE)


def spikes(generator: np.random.Generator, size: int) -> np.ndarray:
    """32 bits: half uniform, half at 50 places with two-sided geometric tails of mean 100 on each side."""
    places = generator.integers(0, WIDE, 50)[generator.integers(0, 50, size)]
    tails = generator.geometric(0.01, size) - generator.geometric(0.01, size)
    background = generator.integers(0, WIDE, size)
    return _clipped(np.where(generator.random(size) < 0.5, places + tails, background), WIDE)


def log_uniform(generator: np.random.Generator, size: int) -> np.ndarray:
    """32 bits: the logarithm is uniform, so that each power of two has the same weight."""
    return _clipped(2.0 ** generator.uniform(0, 32, size), WIDE)


def bimodal(generator: np.random.Generator, size: int) -> np.ndarray:
    """32 bits: two normal humps, one four times as wide as the other."""
    hump = generator.integers(0, 2, size)
    middles, widths = np.array([2.0**30, 3 * 2.0**30]), np.array([2.0**26, 2.0**28])
    return _clipped(generator.normal(middles[hump], widths[hump]), WIDE)


def point_mass(generator: np.random.Generator, size: int) -> np.ndarray:
    """32 bits: half of all records are one item, the others are uniform."""
    item = generator.integers(0, WIDE)
    return np.where(generator.random(size) < 0.5, item, generator.integers(0, WIDE, size)).astype(np.uint64)


def wide_uniform(generator: np.random.Generator, size: int) -> np.ndarray:
    """32 bits."""
    return generator.integers(0, WIDE, size=size, dtype=np.uint64)


def sizes(generator: np.random.Generator, size: int) -> np.ndarray:
    """32 bits: heavy-tailed sizes (Pareto, exponent 0.8) in whole blocks of 512."""
    return _clipped(512 * np.ceil(generator.pareto(0.8, size) + 1), WIDE)


def daily(generator: np.random.Generator, size: int) -> np.ndarray:
    """32 bits: milliseconds of 49 days, more of them around the middle of each day, one in twenty in one second."""
    day = 86_400_000
    times = generator.integers(0, 49, size) * day + day * generator.beta(3, 3, size)
    burst = generator.integers(0, 49 * day) + generator.integers(0, 1000, size)
    return _clipped(np.where(generator.random(size) < 0.05, burst, times), WIDE)


def generated(distribution: Distribution, seeds: int, size: int) -> Iterator[np.ndarray]:
    """One data set for each seed, from 0."""
    for seed in range(seeds):
        yield distribution(np.random.default_rng(seed), size)


NARROW = (zipf, normal, uniform, lognormal)
UNTUNED = (spikes, log_uniform, bimodal, point_mass, wide_uniform)
FRESH = (sizes, daily)


def domain(distribution: Distribution) -> IntegerDomain:
    """The universe of a distribution."""
    return IntegerDomain(0, (1 << 16 if distribution in NARROW else WIDE) - 1)


def trace_slices(path: str, column: str, rows: int, most: int) -> Iterator[np.ndarray]:
    """Consecutive slices of a column of IPv4 addresses (integers or dotted text) in a Parquet or CSV file.

    They start at equal steps, and overlap if the file is too short for `most` slices that do not.
    """
    read = pyarrow.csv.read_csv if path.endswith(".csv") else pyarrow.parquet.read_table
    addresses, usable = IPv4Domain().index(read(path)[column].combine_chunks())
    addresses = addresses[usable]
    if len(addresses) < rows:
        raise ValueError(f"the trace must have at least {rows} addresses, it has {len(addresses)}")
    step = min(rows, (len(addresses) - rows) // max(1, most - 1))
    for start in range(0, step * most, step):
        yield addresses[start : start + rows]


def _clipped(values: np.ndarray, size: int) -> np.ndarray:
    return np.clip(np.floor(values), 0, size - 1).astype(np.uint64)
