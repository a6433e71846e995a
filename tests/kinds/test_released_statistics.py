"""Released statistics: numpy's figures where there is no noise, all that is possible where nothing can be told."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from beam_dpsketch import FloatDomain, IntegerDomain
from beam_dpsketch.kinds.statistics.sums import NumberSums, StatisticsSpec
from tests.helpers import by_hand

TENTH, LEAST_NOISE, MANY = Fraction(1, 10), Fraction(1, 256), 100_000
DOMAINS = {
    "two values": IntegerDomain(3, 4),
    "integers": IntegerDomain(-20, 300),
    "many integers": IntegerDomain(0, 100_000),
    "integers, more than steps": IntegerDomain(-(1 << 40), 1 << 41),
    "fractions": FloatDomain(-1.5, 2.5, 0.25),
    "fine fractions": FloatDomain(0.0, 1.0, 1e-4),
    "fractions, more than steps": FloatDomain(-10.0, 5000.0, 1e-9),
}
every_domain = pytest.mark.parametrize("name", DOMAINS)


def sums_of(domain: Any, values: Any, weights: Any = None) -> NumberSums:
    return NumberSums(StatisticsSpec(domain, TENTH)).accumulate(values, weights)


def moved(domain: Any, values: np.ndarray) -> np.ndarray:
    """The values of the domain that numbers are moved to: within the clip bounds, and to whole steps of it."""
    return np.array(domain.values(domain.index(values)[0]), dtype=np.float64)


def samples(domain: Any) -> Iterator[np.ndarray]:
    """Numbers that are spread out, skewed, equal, at both ends, and outside the clip bounds."""
    low, high = (float(end) for end in domain.values(np.array([0, domain.size - 1], dtype=np.uint64)))
    rng, width = np.random.default_rng(5), high - low
    yield low + width * rng.random(1000)
    yield low + width * rng.random(700) ** 9
    yield np.full(50, low + 0.3 * width)
    yield np.array([low, high] * 20)
    yield np.full(3, high)
    yield low + width * (3 * rng.random(500) - 1)


def errors(spec: StatisticsSpec, deviation: float) -> tuple[float, float]:
    """How far a mean and a variance may be from those of numbers, by the rounding that `sums` states.

    Numbers are moved by 2^-18 of the width at most where there are more than 2^17 steps, and 2 x^2 - 1 by 2^-18 where
    it has no whole number of steps.
    """
    width = spec.ends[1] - spec.ends[0]
    step = width * 2.0**-18 if spec.domain.size - 1 > 1 << 17 else 0.0
    of_square = (width / 2) ** 2 * 2.0**-19 if (spec.domain.size - 1) ** 2 > 1 << 18 else 0.0
    floats = 1e-12 * max(map(abs, spec.ends))
    return step + floats, of_square + step * (2 * deviation + step) + 1e-9 * (width / 2) ** 2


def check_exact(domain: Any) -> None:
    for values in samples(domain):
        values = np.rint(values).astype(np.int64) if isinstance(domain, IntegerDomain) else values
        clipped = moved(domain, values)
        raw = sums_of(domain, values, np.full(len(values), MANY))
        released = by_hand.numbers(raw, noise=LEAST_NOISE)
        of_mean, of_variance = errors(raw.spec, float(clipped.std()))
        count, total, mean = released.count(), released.total(), released.mean()
        variance, std = released.variance(), released.std()
        assert count.estimate == len(values) * MANY
        assert mean.estimate is not None, "not told"
        assert variance.estimate is not None, "not told"
        assert std.estimate is not None, "not told"
        assert abs(mean.estimate - clipped.mean()) <= of_mean, "another mean"
        assert abs(total.estimate - math.fsum(clipped) * MANY) <= of_mean * len(values) * MANY, "another total"
        assert abs(variance.estimate - clipped.var()) <= of_variance, "another variance"
        assert std.estimate == pytest.approx(math.sqrt(variance.estimate), rel=1e-12), "another root"
        floats = 1e-12 * max(map(abs, raw.spec.ends))
        for told, true in ((total, math.fsum(clipped) * MANY), (mean, clipped.mean())):
            slack = floats * (len(values) * MANY if told is total else 1)
            assert told.lower - slack <= true <= told.upper + slack, "an interval forgets the rounding"
        for told, true in ((variance, clipped.var()), (std, clipped.std())):
            slack = 1e-9 * float(np.ptp(raw.spec.ends)) ** (2 if told is variance else 1)
            assert told.lower - slack <= true <= told.upper + slack, "a spread forgets the rounding"
        assert (mean.notes, variance.notes) == ((), ())


@every_domain
def test_without_noise_figures_are_those_of_numpy(name: str) -> None:
    check_exact(DOMAINS[name])
