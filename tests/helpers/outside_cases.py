"""Cases by which another library judges its own counts and sums, and its way to judge: histograms of many releases.

The numbers are those of google/differential-privacy, proto/testing/count_dp_test_cases.textproto and
bounded_sum_dp_test_cases.textproto, of 2020 and under Apache-2.0: the cases of Gaussian noise, each set of parameters
once. Counters here are whole, so sums are in steps of the granularity of their case. Where it asks for noise at a
smaller delta than it judges by, the latter is taken for both, which is harder to pass.

The judgement. Two inputs are neighbours. Of many releases of each, `excess` is the sum over all outputs x of
max(0, P(x) - e^epsilon Q(x)), with P and Q the observed frequencies; the larger one of both directions. They pass if it
is at most delta and a tolerance.

False alarms, for X(x) and Y(x) the numbers of releases of either input that give x, of n each, and c = e^epsilon. Of
s > 0, E exp(s n excess) is at most the product over x of E exp(s max(0, X - c Y)): numbers of one multinomial are
negatively associated, and each factor grows in X and falls in Y (Joag-Dev and Proschan 1983). A factor is at most
1 + E exp(u (X - c Y)) for every u >= s, and 1 + E exp(s X) - P(X = 0). Moments of a binomial are at most those of a
Poisson number of equal mean. Markov's inequality does the rest.

Misses, for any set S of outputs: excess is at least P(S) - c Q(S), whose lower tail has the same kind of bound.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

MILLION = 10**6
"""Releases of each input in one vote of a case; nine votes are cast."""
_POWERS = np.geomspace(0.01, 4, 40)


class OutsideCase(NamedTuple):
    """What a case asks for.

    Attributes:
      epsilon: of the noise and of the judgement.
      delta: the same.
      tolerance: what excess may be more than delta.
      partitions: to how many counts or sums one unit adds.
      millions: how many releases of each input suffice for a false alarm and a miss below 1e-9, in millions.
      largest: the largest contribution, in steps.
      signed: whether it may be negative.
      bucket: how many steps of output count as one.
      counts: what the units of both inputs add.
    """

    epsilon: float
    delta: float
    tolerance: float
    partitions: int = 1
    millions: int = 1
    largest: int = 1
    signed: bool = False
    bucket: int = 1
    counts: tuple[int, ...] = ()

    @property
    def limit(self) -> float:
        return self.delta + self.tolerance


LN3 = math.log(3)
SMALL, LARGE = (7, 1, 8, 12), (2147483647, 2146736422, 1383713414, 2146374624, 1989764249)
COUNTS = {
    "default": OutsideCase(LN3, 1e-5, 1e-4, millions=6, bucket=3),
    "two partitions": OutsideCase(LN3, 1e-5, 1e-4, 2, millions=6, bucket=3, counts=SMALL),
    "many partitions": OutsideCase(LN3, 1e-5, 3.1e-4, 250, millions=3, bucket=4, counts=LARGE),
    "small epsilon": OutsideCase(0.1, 1e-5, 1e-3, millions=3, bucket=3),
    "large epsilon": OutsideCase(2 * LN3, 1e-5, 1e-4, millions=7, bucket=3, counts=SMALL),
    "small delta": OutsideCase(LN3, 1e-6, 1e-4, millions=4, bucket=2, counts=LARGE),
    "large delta": OutsideCase(LN3, 1e-4, 5e-4, millions=2),
}
SUMS = {
    "up to 1": OutsideCase(LN3, 1e-5, 1.17e-3, largest=128, bucket=27),
    "up to 1, many partitions": OutsideCase(LN3, 1e-5, 2.42e-3, 25, largest=64, bucket=68),
    "up to 1, small epsilon": OutsideCase(0.25, 1e-5, 3e-4, millions=4, largest=2, bucket=7),
    "up to 1, large epsilon": OutsideCase(2 * LN3, 1e-5, 9.2e-4, largest=128, bucket=15),
    "up to 1, small delta": OutsideCase(LN3, 1e-6, 9.2e-4, largest=128, bucket=31),
    "up to 50, small epsilon": OutsideCase(0.25, 1e-5, 1.13e-3, millions=2, largest=25, bucket=21),
    "-50 to 50": OutsideCase(LN3, 1e-5, 5.13e-3, largest=800, signed=True, bucket=171),
    "-50 to 50, large epsilon": OutsideCase(2 * LN3, 1e-5, 3.5e-3, largest=800, signed=True, bucket=92),
    "-50 to 50, small delta": OutsideCase(LN3, 1e-6, 4.8e-3, largest=800, signed=True, bucket=194),
}


def excess(first: NDArray[np.int64], second: NDArray[np.int64], epsilon: float) -> float:
    """Return the excess of two samples of one size."""
    low = min(int(first.min()), int(second.min()))
    size = max(int(first.max()), int(second.max())) - low + 1
    one, other = (np.bincount(each - low, minlength=size) for each in (first, second))
    factor = math.exp(epsilon)
    sums = [np.maximum(0, a - factor * b).sum() for a, b in ((one, other), (other, one))]
    return float(max(sums)) / len(first)


def passes(case: OutsideCase, first: NDArray[np.int64], second: NDArray[np.int64]) -> bool:
    return excess(first // case.bucket, second // case.bucket, case.epsilon) <= case.limit


def log_false_alarm(case: OutsideCase, first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    """Return a bound on the logarithm of the probability that outputs of these distributions do not pass."""
    size, factor = case.millions * MILLION, math.exp(case.epsilon)
    bounds = []
    for one, other in ((size * first, size * second), (size * second, size * first)):
        moments = one[:, None] * np.expm1(_POWERS) + other[:, None] * np.expm1(-factor * _POWERS)
        least = np.minimum.accumulate(moments[:, ::-1], axis=1)[:, ::-1]
        with np.errstate(divide="ignore", over="ignore"):
            of_few = np.log(np.exp(one[:, None] * np.expm1(_POWERS)) - np.exp(-one[:, None]))
        factors = np.logaddexp(0, np.minimum(least, of_few))
        bounds.append(float((factors.sum(axis=0) - _POWERS * size * case.limit).min()))
    return float(np.logaddexp(*bounds))


def log_miss(case: OutsideCase, first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    """Return a bound on the logarithm of the probability that outputs of these distributions pass."""
    size, factor, powers = case.millions * MILLION, math.exp(case.epsilon), np.linspace(0.0005, 1, 2000)
    over = first > factor * second
    inside, outside = float(first[over].sum()), float(second[over].sum())
    exponents = inside * np.expm1(-powers) + outside * np.expm1(factor * powers) + powers * case.limit
    return size * float(exponents.min())
