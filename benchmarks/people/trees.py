"""Distributions of people's values: their error under a norm, and under a number of records."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from beam_dpsketch import ADD_OR_REMOVE_ONE, REPLACE_ONE, TreeSpec
from beam_dpsketch.answers.released_sketch import ReleasedSketch
from beam_dpsketch.answers.tree import ReleasedRanks
from beam_dpsketch.exact.domains import Domain
from beam_dpsketch.planning.expected_error import with_seed
from beam_dpsketch.privacy.contributions import Bounds
from benchmarks.people import best
from benchmarks.people.best import Best, Effort
from benchmarks.people.bounded import Counted, released
from benchmarks.people.data import People
from benchmarks.table import Bar, Table

RELATIONS = (REPLACE_ONE, ADD_OR_REMOVE_ONE)
QUANTILES = 1024
LARGEST_RATIO = 1.05
LARGEST_ERROR_BY_ORIGIN = 0.72  # percent, arrival delays by origin, REPLACE_ONE


def shares_at(people: People) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return, for each key, its quantiles and the share of its records at or below each."""
    found = []
    keys = np.zeros_like(people.items) if people.keys is None else people.keys
    for key in range(int(keys.max()) + 1):
        values = np.sort(people.items[keys == key])
        at = values[np.arange(1, QUANTILES + 1) * len(values) // (QUANTILES + 1)]
        found.append((at, np.searchsorted(values, at, side="right") / len(values)))
    return found


class CdfErrors:
    """The mean absolute error of the distribution function, in percent, of each relation in turn.

    Args:
      counted: the people.
      spec: the layout, but for its seed.
    """

    def __init__(self, counted: Counted, spec: TreeSpec) -> None:
        self.counted, self.spec, self._truth = counted, spec, shares_at(counted.people)

    def __call__(self, seed: int, bounds: Bounds) -> list[float]:
        raw = self.counted.raw(with_seed(self.spec, seed), bounds)
        return [
            100 * float(np.mean(list(map(_error, released(raw, bounds, relation), self._truth))))
            for relation in RELATIONS
        ]


def _error(release: ReleasedSketch, truth: tuple[np.ndarray, np.ndarray]) -> float:
    """Return the mean error at some values, given the truth there."""
    assert isinstance(release, ReleasedRanks)
    at, shares = truth
    return float(np.abs(release.cdf(at) - shares).mean())


def compared(people: People, spec: TreeSpec, rules: Sequence[Sequence[Bounds]], effort: Effort) -> list[list[Best]]:
    """Return the best of each rule for each of `RELATIONS`."""
    errors = CdfErrors(Counted(people, spec), spec)
    return [best.best(errors, candidates, effort) for candidates in rules]


def measure(
    people: People, domain: Domain, rules: Sequence[Sequence[Bounds]], effort: Effort, largest: float | None = None
) -> None:
    """Print two lines for one data set; `largest` is the bar of the error under REPLACE_ONE, if there is one.

    A new error that is larger meets its bar too if twice the noise of both means explains the difference.
    """
    spec = TreeSpec.for_memory(domain)
    found = compared(people, spec, rules, effort)
    title = f"{people}\n{spec.title}, {spec.cells:,} counters; {effort}"
    table = Table(title, ("", "RecordBounds", "NormBound", "new / old"), (20, 34, 34, 11), bar=26)
    for relation, old, new in zip(RELATIONS, *found, strict=True):
        noise = 2 * (old.standard_error**2 + new.standard_error**2) ** 0.5
        ratio = new.mean / old.mean
        bars = [Bar(ratio, "<=", LARGEST_RATIO), Bar(new.mean - old.mean, "<=", noise, " %")]
        table.row(relation.name, old.text(3), new.text(3), f"{ratio:.2f}", bars=bars, either=True)
        if largest is not None and relation is REPLACE_ONE:
            table.row("", "", new.text(3), bars=[Bar(new.mean, "<=", largest, " %")])
