"""Movers of trees: intervals hold for all candidates, because the finest level has no part in the search."""

from __future__ import annotations

import dataclasses
from collections import Counter

import numpy as np
import pytest
from scipy import stats

from beam_dpsketch import DyadicCountSketch, IntegerDomain, PrivacySpec, RecordBounds, ReleaseTerms, TreeSpec, release
from beam_dpsketch.answers.estimators.comparing import leaves_below_heavy_nodes
from beam_dpsketch.answers.tree import ReleasedDyadicCountSketch

DOMAIN = IntegerDomain(0, (1 << 24) - 1)
TERMS = ReleaseTerms(PrivacySpec(rho=1.0, summary_counts=None), RecordBounds(1, max_weight=1))
FALSE_ALARM = 1e-9


def two_windows(seed: int) -> tuple[Counter[int], Counter[int]]:
    """Two samples of 40,000 from 20,000 scattered values of Zipf weight."""
    random = np.random.default_rng(seed)
    values = random.choice(DOMAIN.size, 20_000, replace=False)
    shares = 1 / np.arange(1, 20_001)
    samples = random.multinomial(40_000, shares / shares.sum(), size=2)
    return tuple(Counter(dict(zip(values.tolist(), each.tolist(), strict=True))) for each in samples)  # type: ignore[return-value]


def released(counts: Counter[int], seed: int) -> ReleasedDyadicCountSketch:
    spec = TreeSpec.for_search(DOMAIN, 100_000, seed=seed)
    raw = DyadicCountSketch(spec).accumulate(list(counts), list(counts.values()))
    return release(raw, TERMS)


def held(seeds: range, *, share: float) -> np.ndarray:
    """Whether the intervals of this share of the candidates hold, those of the largest change."""
    found = []
    for seed in seeds:
        before, after = two_windows(seed)
        earlier, later = (released(each, seed) for each in (before, after))
        rows = later.movers(earlier, 1 << 31)
        largest = rows[: round(share * len(rows))]
        found += [row.lower <= after[row.item] - before[row.item] <= row.upper for row in largest]
    return np.array(found)


def test_candidates_do_not_depend_on_the_finest_level() -> None:
    before, _ = two_windows(0)
    levels = released(before, 0)._levels
    found = leaves_below_heavy_nodes(levels)
    other = dataclasses.replace(levels[-1], counters=levels[-1].counters[::-1] + 10**6)
    np.testing.assert_array_equal(leaves_below_heavy_nodes([*levels[:-1], other]), found)
    assert {value for value, count in before.items() if count > 500} <= set(found.tolist())
    assert len(found) < 10_000


@pytest.mark.slow
def test_intervals_of_movers_hold_for_all_candidates_and_not_for_those_that_noise_moved_most() -> None:
    """A candidate shares counters with few others: half of them count as independent."""
    right, wrong = (held(range(40), share=each) for each in (1.0, 0.05))
    for sample, expected in ((right, True), (wrong, False)):
        missed = int(np.sum(~sample)) // 2
        test = stats.binomtest(missed, len(sample) // 2, 0.07, "greater")
        assert (test.pvalue >= FALSE_ALARM) == expected
