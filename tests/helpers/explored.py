"""Releases that pages are about in tests."""

from __future__ import annotations

import functools

import numpy as np

from beam_dpsketch import (
    CountSketch,
    FactorizationSpec,
    Horizon,
    IntegerDomain,
    PrivacySpec,
    ReleaseTerms,
    SketchSpec,
    release,
)
from beam_dpsketch.answers.factor import ReleasedFactorization
from beam_dpsketch.answers.flat import ReleasedFrequencies
from beam_dpsketch.answers.over_time import TimelineRow
from beam_dpsketch.answers.statistics import ReleasedStatistics
from beam_dpsketch.exact.sketches.factor import FactorHistogram
from beam_dpsketch.exact.sketches.statistics import NumberSums, StatisticsSpec
from beam_dpsketch.privacy.noise.keyed_randomness import KeyedRandomness
from tests.helpers.timeline_rows import released_rows

CITIES = ["Oslo", "Rome", "Bergen", "Milan"]
HOSTILE = "<img src=x onerror=window.hacked=1>"
HORIZON = Horizon(start=1_714_521_600, window_size=3600, windows=4)
_TERMS = ReleaseTerms(PrivacySpec(rho=1.0))


@functools.cache
def cities() -> ReleasedFrequencies:
    items = ["Oslo"] * 900 + ["Rome"] * 400 + ["Bergen"] * 90
    same_noise = KeyedRandomness(b"a secret of thirty-two bytes ...", b"cities")
    return release(CountSketch(SketchSpec(width=256)).accumulate(items), _TERMS, same_noise)


@functools.cache
def hostile() -> ReleasedFrequencies:
    return release(CountSketch(SketchSpec(width=64)).accumulate([HOSTILE] * 500), _TERMS)


@functools.cache
def delays(seed: int = 0) -> ReleasedFactorization:
    values = np.random.default_rng(seed).gamma(2.0, 15.0, 5000).astype(np.int64) - 10
    return release(FactorHistogram(FactorizationSpec(IntegerDomain(-20, 240))).accumulate(values), _TERMS)


@functools.cache
def statistics() -> ReleasedStatistics:
    values = np.random.default_rng(0).integers(-20, 200, 2000)
    spec = StatisticsSpec(IntegerDomain(-60, 240), variance=True)
    return release(NumberSums(spec).accumulate(values), _TERMS)


def rides() -> list[TimelineRow]:
    """Rows for four hours; each hour more people ride to Oslo."""
    spec = SketchSpec(width=64, seed=3)
    hours = [CountSketch(spec).accumulate(["Oslo"] * 100 * hour + ["Rome"] * 50) for hour in range(1, 5)]
    return released_rows(hours, HORIZON, records=[100 * hour + 50 for hour in range(1, 5)])
