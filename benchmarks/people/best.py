"""Give each rule the bound that suits it best: chosen with some releases, judged with others."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from beam_dpsketch import NormBound, RecordBounds
from beam_dpsketch.privacy.contributions import Bounds
from benchmarks.table import mean

_FIRST_CHOOSING_SEED = 1_000_000

Errors = Callable[[int, Bounds], Sequence[float]]
"""The errors of releases with a hash seed and bounds, one for each column of a table."""


class Effort(NamedTuple):
    """How many releases, each with a hash seed and noise of its own."""

    choosing: int
    judging: int

    def __str__(self) -> str:
        """The releases and their seeds."""
        seeds = f"hash seeds 0 to {self.judging - 1}"
        return f"{self.judging} releases, {seeds}; bounds chosen with {self.choosing} others, seeds from 1,000,000"


class Best(NamedTuple):
    """The best of some bounds for one column, and the errors of the releases that judge it."""

    bounds: Bounds
    errors: list[float]

    @property
    def mean(self) -> float:
        return statistics.fmean(self.errors)

    @property
    def standard_error(self) -> float:
        return statistics.stdev(self.errors) / len(self.errors) ** 0.5

    def text(self, decimals: int = 0) -> str:
        """Mean, range and bound."""
        return f"{mean(self.errors, decimals)} at {brief(self.bounds)}"


def brief(bounds: Bounds) -> str:
    """Return the number that counts, and max_keys if above 1."""
    if isinstance(bounds, NormBound):
        return f"{float(bounds.max_norm):,.4g}"
    assert isinstance(bounds, RecordBounds)
    more = f" x {bounds.kept_keys}" if bounds.kept_keys > 1 else ""
    return f"{bounds.max_records:,}{more}"


def best(errors: Errors, candidates: Sequence[Bounds], effort: Effort) -> list[Best]:
    """Return the best of the candidates for each column."""
    tried = [
        np.mean([errors(_FIRST_CHOOSING_SEED + seed, bounds) for seed in range(effort.choosing)], axis=0)
        for bounds in candidates
    ]
    chosen = np.argmin(tried, axis=0).tolist()
    judged = {each: [errors(seed, candidates[each]) for seed in range(effort.judging)] for each in set(chosen)}
    return [Best(candidates[each], [run[column] for run in judged[each]]) for column, each in enumerate(chosen)]


def powers(low: float, high: float, factor: float) -> list[int]:
    """Return whole numbers from low to high, each larger than the one before by about the same factor."""
    count = int(np.log(high / low) / np.log(factor) + 1e-9)
    return sorted({round(low * factor**place) for place in range(count + 1)})


def records(low: float, high: float, factor: float, max_keys: Sequence[int] = (1,)) -> list[Bounds]:
    """Return bounds on the number of records."""
    return [RecordBounds(each, max_keys=most) for each in powers(low, high, factor) for most in max_keys]


def norms(low: float, high: float, factor: float) -> list[Bounds]:
    """Return bounds on the norm."""
    return [NormBound(each) for each in powers(low, high, factor)]
