"""Counts and sums pass the statistical cases of another library: epsilon and delta, seen from many releases.

`tests.helpers.outside_cases` has the cases, what is judged, and proofs of the bounds. Each test computes its
probability of a false alarm, or of a miss where a fault is planted, and asserts that it is below 1e-9.
"""

from __future__ import annotations

import functools
import math
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from scipy import stats

from beam_dpsketch import (
    ItemFrequencies,
    ListedHistogram,
    ListedItems,
    NormBound,
    PrivacyId,
    PrivacySpec,
    PrivacyUnit,
    Record,
    RecordBounds,
    ReleaseSpec,
    ReleaseTerms,
    release,
    release_frame,
)
from beam_dpsketch.engine import calibration
from tests.helpers import laws, noise
from tests.helpers.outside_cases import COUNTS, MILLION, SUMS, OutsideCase, log_false_alarm, log_miss, passes

RARE = math.log(1e-9)
BEYOND = 1000
"""How many times the largest contribution a unit gives."""
WEAK = Fraction(2, 5)
"""The part of sigma that is left of it by the planted fault."""
Outputs = tuple[NDArray[np.int64], NDArray[np.int64], Fraction]


@functools.cache
def one_million_items() -> ListedItems:
    """Each item is an input of its own: its counter has noise of its own."""
    return ListedItems(range(MILLION))


def outputs(case: OutsideCase) -> Outputs:
    """Return many releases of each input, in steps, and sigma^2."""
    return sums(case) if case.largest > 1 else counts(case)


def counts(case: OutsideCase) -> Outputs:
    """Release counts, without and with what one unit adds at most to one of its partitions, by their squares."""
    bounds, privacy = RecordBounds(1, max_keys=case.partitions, max_weight=1), privacy_of(case)
    terms, items = ReleaseTerms(privacy, bounds, unit=PrivacyUnit.PRIVACY_ID), np.arange(MILLION)
    found, common = [], sum(case.counts)
    for added in (0, math.isqrt(case.partitions)):
        raw = ListedHistogram(one_million_items()).accumulate(items, np.full(MILLION, common + added))
        released = [release(raw, terms) for _ in range(case.millions)]
        found.append(np.concatenate([np.rint(each.counters.ravel()).astype(np.int64) for each in released]))
    return found[0], found[1], released[0].privacy.sigma_squared


def sums(case: OutsideCase) -> Outputs:
    """Release sums of a table, without and with a unit whose records are far beyond what may count."""
    most = math.isqrt(case.partitions) * case.largest
    unit: Record | PrivacyId = Record(max_weight=case.largest, signed=case.signed)
    if case.partitions > 1:
        unit = PrivacyId("person", NormBound(most, max_weight=most, signed=case.signed))
    declared = ReleaseSpec(ItemFrequencies(one_million_items()), privacy_of(case), unit, "item", "n")
    number, copies = np.arange(MILLION), 2 if case.partitions > 1 else 1
    weights = np.full(copies * MILLION, -BEYOND * most if case.signed else BEYOND * most)
    items = np.tile(number, copies)
    table, found = pa.table({"person": items, "item": items, "n": weights}), []
    for size in (0, len(table)):
        released = [release_frame(table.slice(0, size), declared) for _ in range(case.millions)]
        found.append(np.concatenate([np.rint(each.counters.ravel()).astype(np.int64) for each in released]))
    return found[0], found[1], released[0].privacy.sigma_squared


def privacy_of(case: OutsideCase) -> PrivacySpec:
    return PrivacySpec(epsilon=case.epsilon, delta=case.delta, side_counters=None, noise="gaussian")


def distributions(case: OutsideCase, sigma_squared: Fraction) -> list[NDArray[np.float64]]:
    """Return the probabilities of all outputs of both inputs, rounded to whole numbers, in buckets."""
    sigma, shift = math.sqrt(sigma_squared), math.isqrt(case.partitions) * case.largest
    places = np.arange(math.ceil(15 * sigma) + 1)
    tails = stats.norm.sf((places - 0.5) / sigma)
    noise = tails - np.append(tails[1:], stats.norm.sf((len(places) - 0.5) / sigma))
    noise = np.append(noise[:0:-1], noise)
    size = -(-(len(noise) + shift) // case.bucket) * case.bucket
    found = [np.zeros(size), np.zeros(size)]
    found[0][: len(noise)], found[1][shift : shift + len(noise)] = noise, noise
    return [each.reshape(-1, case.bucket).sum(axis=1) for each in found]


@pytest.mark.slow
@pytest.mark.parametrize("case", [*COUNTS.values(), *SUMS.values()], ids=[*COUNTS, *SUMS])
def test_releases_of_neighbouring_inputs_pass(case: OutsideCase) -> None:
    first, second, sigma_squared = outputs(case)
    assert log_false_alarm(case, *distributions(case, sigma_squared)) <= RARE
    assert passes(case, first, second)


def check(case: OutsideCase) -> None:
    first, second, sigma_squared = outputs(case)
    assert log_miss(case, *distributions(case, sigma_squared)) <= RARE
    assert passes(case, first, second), "the releases do not pass"


WEAK_NOISE = laws.around(
    calibration,
    "counter_tables",
    lambda exact, *terms: tuple(noise.with_parameter(each, WEAK**2) for each in exact(*terms)),
    "do not pass",
)
FAULTS = {
    name: WEAK_NOISE._replace(given=(case._replace(millions=2),))
    for name, case in {**COUNTS, "up to 1": SUMS["up to 1"], "-50 to 50": SUMS["-50 to 50"]}.items()
}
test_too_weak_noise_is_found = pytest.mark.slow(laws.mutants(FAULTS, check))
