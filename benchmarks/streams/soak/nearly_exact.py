"""Whether two releases with very little noise have the same exact counters."""

from __future__ import annotations

import math

import numpy as np

from beam_dpsketch import CountSketch
from beam_dpsketch.answers.released_sketch import ReleasedSketch
from beam_dpsketch.exact.hashing import cells
from benchmarks.streams.soak.records import PAGE_NAMES

SIGMAS = 8
"""Beyond the noise of a difference: 1.3e-15 for each page, so 3e-10 for 1,000 pages of 240 windows."""


def same_counters(first: bytes, second: bytes) -> bool:
    """Return whether no page differs by more than the noise of both.

    Of each page it is the mean of its counters, which a single record changes by what its user's norm leaves of it.
    """
    one, other = (ReleasedSketch.from_bytes(each) for each in (first, second))
    keys = CountSketch.keys(one.spec, PAGE_NAMES)
    rows = cells.read_rows(one.counters - other.counters, keys, seed=one.spec.seed, has_signs=True)
    variance = sum(float(each.privacy.sigma_squared_per_level[0]) for each in (one, other)) / one.spec.depth
    return bool(np.abs(rows.mean(axis=0)).max() <= SIGMAS * math.sqrt(variance))
