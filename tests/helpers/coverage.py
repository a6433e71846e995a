"""How often intervals cover the truth, over seeds and noise: the data, and an exact test of the rate."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from fractions import Fraction

import numpy as np
from scipy import stats

from beam_dpsketch import ADD_OR_REMOVE_ONE, PrivacySpec, ReleaseTerms, SketchSpec, release
from beam_dpsketch.exact.sketches import LinearSketch
from tests.helpers.raw import raw_of

FALSE_ALARM = 1e-9

WEIGHTS = {
    "Zipf": (20_000 / np.arange(1, 301) ** 1.1).astype(np.int64),
    "uniform": np.full(300, 70, dtype=np.int64),
    "a single heavy item": np.array([20_000] + [1] * 299),
}
"""Total weight of items 0, 1, ... ; the truth."""

NOISES = {"little noise": Fraction(1), "much noise": Fraction(1, 40_000)}
"""rho of a release of SPEC under ADD_OR_REMOVE_ONE: sigma is 1.6 and 316."""

SPEC = SketchSpec(depth=5, width=64)

QUERIES = {"the heaviest": 0, "a middle one": 150, "an absent one": 10_000}


@dataclasses.dataclass
class Coverage:
    """For each query: how many intervals missed the truth, and their mean width."""

    misses: np.ndarray
    mean_width: float
    releases: int

    def accepts(self, miss_probability: float) -> bool:
        """Exact one-sided binomial tests of each rate; false alarm at most 1e-9 together."""
        each = FALSE_ALARM / len(self.misses)
        return all(
            stats.binomtest(int(misses), self.releases, miss_probability, "greater").pvalue >= each
            for misses in self.misses
        )


def measure(
    kind: type[LinearSketch],
    weights: np.ndarray,
    rho: Fraction,
    intervals: dict[str, Callable],
    *,
    releases: int,
    spec: SketchSpec = SPEC,
) -> dict[str, Coverage]:
    """Coverage of each way of making intervals (a released sketch and items to bounds), over new seeds and noise."""
    items = np.arange(len(weights))
    queries = np.array(list(QUERIES.values()))
    truth = np.array([weights[query] if query < len(weights) else 0 for query in queries])
    found = {name: Coverage(np.zeros(len(queries), dtype=np.int64), 0.0, releases) for name in intervals}
    for seed in range(releases):
        raw = raw_of(kind, dataclasses.replace(spec, seed=seed)).accumulate_keys(items.astype(np.uint64), weights)
        released = release(raw, ReleaseTerms(PrivacySpec(rho=rho, relation=ADD_OR_REMOVE_ONE)))
        for name, interval in intervals.items():
            bounds = interval(released, queries)
            found[name].misses += (truth < bounds.lower) | (truth > bounds.upper)
            found[name].mean_width += float(np.mean(bounds.upper - bounds.lower)) / releases
    return found
