"""How often intervals of numbers hold the truth, over the noise: exact binomial tests.

A mean is to be held in 93 to 97 of 100 releases; a variance, a count and a total in 93 or more. A rate is refused
where one within these ends is as far off with a probability below 1e-11. So a test refuses right intervals with 1e-9 at
most, as it has no more than 100 rates.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy import stats

from beam_dpsketch import IntegerDomain, PrivacySpec, RecordBounds, ReleaseTerms
from beam_dpsketch.answers import statistics as released
from beam_dpsketch.answers.batch import answers_of
from beam_dpsketch.exact.sketches.statistics import NumberSums, StatisticsSpec
from beam_dpsketch.noise.calibration import Calibration
from beam_dpsketch.noise.noising import Part, release_parts
from beam_dpsketch.privacy.contributions import PrivacyUnit
from tests.helpers import laws, noise_audit

ALARM, LEAST, MOST = 1e-11, 0.93, 0.97
SPEC = StatisticsSpec(IntegerDomain(0, 200), variance=True)
NOISES: dict[str, dict[str, Any]] = {
    "Gaussian": {"rho": Fraction(1, 2)},
    "much Gaussian": {"rho": Fraction(1, 20)},
    "Laplace": {"epsilon": 2},
    "much Laplace": {"epsilon": Fraction(1, 2)},
}
PLACES = {"the middle": (60, 140), "an end": (185, 200), "equal numbers": (150, 150), "both ends": (0, 200)}


class Held(NamedTuple):
    """How many of all releases told an interval that holds the truth, and how many told a mean."""

    mean: int
    variance: int
    count: int
    total: int
    told: int


def measure(noise: str, place: str, records: int, releases: int) -> Held:
    """Return how often the truth is held, in releases of the same numbers."""
    values = np.linspace(*PLACES[place], records).round().astype(np.int64)
    raw = NumberSums(SPEC).accumulate(values)
    privacy = PrivacySpec(**NOISES[noise], summary_counts=None)
    terms = ReleaseTerms(privacy, RecordBounds(1), privacy_unit=PrivacyUnit.PRIVACY_ID)
    part = Part(raw, np.zeros(0, dtype=np.int64))
    held = np.zeros(5, dtype=int)
    for each in answers_of(release_parts([part] * releases, Calibration.of(SPEC, terms))):
        mean, variance, count, total = each.mean(), each.variance(), each.count(), each.total()
        held += (
            mean.lower <= values.mean() <= mean.upper,
            variance.lower <= values.var() <= variance.upper,
            count.lower <= records <= count.upper,
            total.lower <= values.sum() <= total.upper,
            mean.estimate is not None,
        )
    return Held(*held.tolist())


def check(noise: str, place: str, records: int, releases: int = 3000) -> None:
    """Raise if one of the rates is refused. Where few means are told, all others are held."""
    held = measure(noise, place, records, releases)
    for name, hits in zip(Held._fields[:4], held[:4], strict=True):
        assert stats.binomtest(hits, releases, LEAST, "less").pvalue >= ALARM, f"too few of a {name}: {hits}"
    if held.told == releases:
        assert stats.binomtest(held.mean, releases, MOST, "greater").pvalue >= ALARM, f"too many: {held.mean}"


@pytest.mark.one_fast_case
@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("records", [20, 1000])
def test_intervals_hold_as_often_as_they_say(noise: str, place: str, records: int) -> None:
    check(noise, place, records)


@pytest.mark.slow
@pytest.mark.parametrize("place", PLACES)
def test_three_records_are_no_promise_that_is_broken(place: str) -> None:
    for noise in NOISES:
        check(noise, place, 3)


def less_noise(asked: str, factor: float) -> laws.Fault:
    """Plant answers of sums that are said to have this part of their noise."""
    return laws.around(released, asked, lambda exact, sums, parameter, *rest: exact(sums, parameter * factor, *rest))


def of_the_form_alone(exact: Any, sums: Any, coefficients: Any, parameter: float, lost: float, k: float) -> Any:
    """Plant that the noise of the number of records is forgotten."""
    found = exact(sums, coefficients, parameter, lost, k)
    half = k * math.sqrt(parameter * sum(each**2 for each in coefficients)) / sum(sums)
    return found and (found[0], found[0] - half, found[0] + half)


TOO_FEW, FINE = "too few of a", ("Gaussian", "an end", 1000)
FAULTS = {
    "half the noise of a mean": less_noise("mean_of", 0.5).found(f"{TOO_FEW} mean", *FINE),
    "half the noise of a variance": less_noise("variance_of", 0.5).found(f"{TOO_FEW} var", *FINE),
    "the noise of the number forgotten": laws.around(released, "_ratio", of_the_form_alone).found(
        "too many", "Gaussian", "both ends", 1000
    ),
    "intervals of half the width": laws.around(
        released, "_ratio", lambda exact, *terms: exact(*terms[:-1], terms[-1] / 2)
    ).found(TOO_FEW, *FINE),
    "intervals of twice the width": laws.around(
        released, "_ratio", lambda exact, *terms: exact(*terms[:-1], terms[-1] * 2)
    ).found("too many", *FINE),
}

test_wrong_noise_is_found = pytest.mark.one_fast_case(laws.mutants(FAULTS, check))


def check_noise(size: int = 10_000) -> None:
    """Raise unless the noise of each sum is the discrete Gaussian that the statement says, times the amount by hand."""
    spec = StatisticsSpec(IntegerDomain(5, 8), variance=True)
    raw = NumberSums(spec).accumulate([5, 6, 6, 99])
    terms = ReleaseTerms(PrivacySpec(rho=Fraction(1, 20), summary_counts=None), RecordBounds(1))
    parts = [Part(raw, np.zeros(0, dtype=np.int64))] * 2 * size
    released = [*answers_of(release_parts(parts, Calibration.of(spec, terms)))]
    residuals = np.array([each.counters for each in released]) - raw.counters
    assert raw.counters.tolist() == [11, 8, 17]
    for column in residuals.T:
        assert noise_audit.audit(column[:size], column[size:], Fraction(81 * 20, 2)) == set()


def test_the_noise_of_each_sum_is_that_of_its_amount() -> None:
    """Three audits: 2e-11."""
    check_noise()


NO_AMOUNT = laws.around(
    NumberSums, "tables", lambda exact, spec: tuple(each._replace(squared_amount=1) for each in exact(spec)), "variance"
)
test_noise_without_an_amount_is_found = laws.mutants({"no amount": NO_AMOUNT}, check_noise)
