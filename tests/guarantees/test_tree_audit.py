"""The noise of trees on the real path: released minus exact counters of two keys of one run, level by level.

The audit of one level raises a false alarm with probability at most 6e-12 (1e-12 for each of six statistics). The exact
counters come from raw trees and sigma^2 from the documented formula, worked out by hand; neither from the release. In
a planted fault one level gets the noise of its neighbour's share; sigma is then off by 22 % or more, where the audit
of 32,768 and more cells finds 3 %: a miss has probability below 1e-9.
"""

from __future__ import annotations

import dataclasses
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from beam_dpsketch import (
    REPLACE_ONE,
    DyadicCountSketch,
    IntegerDomain,
    PrivacySpec,
    PublicKeys,
    Record,
    ReleaseTerms,
    TreeSpec,
)
from beam_dpsketch.engine import calibration
from beam_dpsketch.sketches.levels import Level
from beam_dpsketch.transforms import PrivateQuantiles
from tests.helpers import noise
from tests.helpers.noise_audit import audit
from tests.helpers.pipelines import FN_API, run

DOMAIN = IntegerDomain(0, (1 << 18) - 1)
LEVELS = (
    Level(15, "exact", 1, 1 << 15, Fraction(1, 6)),
    Level(1, "count_sketch", 4, 1 << 14, Fraction(2, 6)),
    Level(2, "count_min", 2, 1 << 15, Fraction(3, 6)),
)
SPEC = TreeSpec(domain=DOMAIN, levels=LEVELS)
RHO = Fraction(1, 50)
PRIVACY = PrivacySpec(rho=RHO, relation=REPLACE_ONE, side_counters=None)
SIGMA_SQUARED = (Fraction(2, 2) / (RHO / 6), Fraction(4 * 4, 2) / (RHO / 3), Fraction(2 * 2, 2) / (RHO / 2))
"""Delta^2 / (2 rho_l) with Delta^2 = 2, 4 depth and 2 depth under REPLACE_ONE."""
KEYS = ["first", "second"]
VALUES = [value * 911 % (1 << 18) for value in range(500)]


def residuals() -> list[list[np.ndarray]]:
    """Of each key, level by level."""
    transform = PrivateQuantiles(SPEC, PRIVACY, unit=Record(), keys=PublicKeys(KEYS))
    released = dict(run([(key, value) for value in VALUES for key in KEYS], transform, runner=FN_API))
    exact = DyadicCountSketch(SPEC).accumulate(VALUES)
    ends = np.cumsum([level.counters.size for level in exact.levels])[:-1]
    return [np.split(released[key].counters - exact.to_vector(), ends) for key in KEYS]


def alarms() -> list[set[str]]:
    """Of each level."""
    first, second = residuals()
    return [audit(*pair, sigma) for *pair, sigma in zip(first, second, SIGMA_SQUARED, strict=True)]


def test_each_level_has_the_documented_noise_of_its_share() -> None:
    assert SIGMA_SQUARED == (300, 1200, 200)
    assert alarms() == [set(), set(), set()]


def test_levels_are_independent_of_each_other() -> None:
    """Of each key: no level's noise is another's, scaled; one cross-correlation per pair, at 1e-12."""
    for levels in residuals():
        standard = [np.rint(100 * level / np.sqrt(float(s))) for level, s in zip(levels, SIGMA_SQUARED, strict=True)]
        for one in range(3):
            for other in range(one):
                size = min(len(standard[one]), len(standard[other]))
                found = audit(standard[one][:size].astype(int), standard[other][:size].astype(int), Fraction(10_000))
                assert "cross-correlation" not in found


@pytest.mark.one_fast_case
@pytest.mark.parametrize("number", range(3))
def test_a_level_with_the_share_of_its_neighbour_is_found(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    right = calibration.counter_tables

    def wrong(spec: TreeSpec, terms: ReleaseTerms) -> Any:
        swapped = (number - 1) % 3
        levels = list(right(spec, terms))
        factor = spec.levels[number].share / spec.levels[swapped].share
        levels[number] = noise.with_parameter(levels[number], factor)
        return tuple(levels)

    monkeypatch.setattr(calibration, "counter_tables", wrong)
    found = alarms()
    assert "variance" in found[number]
    assert all(found[other] == set() for other in range(3) if other != number)


def test_the_seed_changes_where_values_go_and_not_the_noise() -> None:
    other = dataclasses.replace(SPEC, seed=1)
    first, second = (DyadicCountSketch(spec).accumulate(VALUES) for spec in (SPEC, other))
    np.testing.assert_array_equal(first.levels[0].counters, second.levels[0].counters)
    assert not np.array_equal(first.levels[1].counters, second.levels[1].counters)
    noise = [calibration.calibrate(spec, ReleaseTerms(PRIVACY)) for spec in (SPEC, other)]
    assert noise[0] == noise[1] == SIGMA_SQUARED
