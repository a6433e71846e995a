"""A grid of equal ratios: each number moves by half a step at most, and every machine has the same values."""

from __future__ import annotations

import decimal
import hashlib
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_dpsketch import LogDomain, PrivacySpec, Quantiles, Record, ReleaseSpec, release_frame
from beam_dpsketch.exact.domains.numbers import _grid

LATENCIES = LogDomain(0.1, 60_000)
BOUNDS = st.tuples(st.floats(1e-9, 1e6), st.floats(1.001, 1e9), st.sampled_from([1e-3, 0.01, 0.05, 1 / 3, 1]))


def all_values(domain: LogDomain) -> np.ndarray:
    return np.array(domain.values(np.arange(domain.size, dtype=np.uint64)))


@given(BOUNDS)
def test_each_value_is_larger_than_the_one_before_by_the_ratio(bounds: tuple[float, float, float]) -> None:
    low, factor, relative = bounds
    domain = LogDomain(low, low * factor, relative)
    values = all_values(domain)
    steps = values[1:] / values[:-1] - 1
    assert (values[0], values[-1]) == (domain.low, domain.high)
    assert np.all(steps > 0)
    assert np.all(steps <= relative * 1.02)
    assert np.all(steps[:-1] >= relative * 0.98)


@given(BOUNDS, st.floats(0, 1))
def test_a_number_moves_to_the_nearest_value(bounds: tuple[float, float, float], share: float) -> None:
    low, factor, relative = bounds
    domain = LogDomain(low, low * factor, relative)
    number = min(max(domain.low * (domain.high / domain.low) ** share, domain.low), domain.high)
    positions, usable = domain.index([number])
    (found,) = domain.values(positions)
    assert usable.all()
    assert abs(found - number) == np.abs(all_values(domain) - number).min()
    assert abs(found - number) <= 0.51 * relative * number


def test_what_is_outside_is_clamped_and_nan_is_not_used() -> None:
    positions, usable = LATENCIES.index([0, -5.0, math.inf, -math.inf, math.nan, None, "1", 1e300, True])
    assert usable.tolist() == [True] * 4 + [False] * 3 + [True, False]
    assert positions[:4].tolist() == [0, 0, LATENCIES.size - 1, 0]


def test_the_grid_is_the_same_on_every_machine() -> None:
    """Workers of one job would count in other places; integers make the grid, and no logarithm."""
    digest = hashlib.sha256(all_values(LATENCIES).astype("<f8").tobytes()).hexdigest()
    assert (LATENCIES.size, digest[:16]) == (1339, "822597fdd224b219")
    assert all_values(LATENCIES)[:4].tolist() == [0.1, 0.101, 0.10201, 0.10303]


@pytest.mark.parametrize("low", [5e-324, 1e-300])
def test_all_numbers_of_a_float_fit(low: float) -> None:
    """The ratio of the ends is too large for a float, and the smallest numbers lie further apart than a step."""
    domain = LogDomain(low, 1.7976931348623157e308, 0.5)
    values = all_values(domain)
    assert (values[0], values[-1]) == (domain.low, domain.high)
    assert domain.index(values)[0].tolist() == [*range(domain.size)]


def test_a_context_of_decimals_changes_no_grid() -> None:
    """A thread may have rounded to five digits; a grid that depends on it is another one in each worker."""
    with decimal.localcontext(decimal.Context(prec=5)):
        rounded = LogDomain(1e80, 1e82, 0.0123)
        values = all_values(rounded)
    _grid.cache_clear()
    assert all_values(rounded).tolist() == values.tolist()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 5), "low must be finite and greater than 0"),
        ((-1, 5), "low must be finite and greater than 0"),
        ((1, math.inf), "high must be finite"),
        ((5, 5), r"high must be greater than low \(5\), got 5"),
        ((1, 5, 0), "relative_step must be finite and greater than 0"),
        ((Fraction(1, 10**400), 5), "low must be finite and greater than 0"),
        ((1, 5, 2), "relative_step must be between 1e-12 and 1"),
        ((1.9999999999999996, 1.9999999999999998, 5e-324), "relative_step must be between 1e-12 and 1"),
        ((1e-9, 1e9, 1e-6), r"with at most 2\*\*20 values"),
        ((True, 5), "low must be"),
    ],
)
def test_what_is_no_grid_is_refused(arguments: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        LogDomain(*arguments)


def test_quantiles_of_latencies_are_within_half_a_step() -> None:
    """With little noise: a rank error of a hundred of 100,000 moves these quantiles by less than a step."""
    numbers = np.random.default_rng(0).lognormal(5, 1, 100_000)
    declared = ReleaseSpec(Quantiles(LATENCIES), PrivacySpec(rho=100), Record(), item="ms")
    released = release_frame(pa.table({"ms": numbers}), declared)
    for share in (0.1, 0.5, 0.99):
        assert released.quantile(share).estimate == pytest.approx(np.quantile(numbers, share), rel=0.02)
