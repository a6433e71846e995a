"""Specs for distances: the width is the best one, and the expected error is what releases have."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from beam_dpsketch import (
    REPLACE_ONE,
    AutoNorm,
    CountSketch,
    NormBound,
    PrivacySpec,
    PrivacyUnit,
    ReleaseTerms,
    SketchSpec,
    distance_error,
    release,
    spec_for_distance,
)

TERMS = ReleaseTerms(PrivacySpec(rho=0.1, side_counters=None))


@pytest.mark.parametrize("kind", ["count_sketch", "count_min"])
@pytest.mark.parametrize("distance", [150, 1000.5])
def test_no_other_width_is_better(kind: str, distance: float) -> None:
    spec = spec_for_distance(distance, TERMS, kind=kind, seed=7)
    best = distance_error(spec, TERMS, distance).deviation
    assert (spec.kind, spec.depth, spec.seed) == (kind, 5, 7)
    for factor in (0.5, 0.9, 1.1, 2):
        other = dataclasses.replace(spec, width=round(spec.width * factor))
        assert distance_error(other, TERMS, distance).deviation >= best


def test_small_distances_need_narrow_sketches_and_large_ones_what_memory_allows() -> None:
    widths = [spec_for_distance(distance, TERMS, memory=40_000).width for distance in (1e-3, 100, 200, 1e9)]
    assert widths == [16, 200, 800, 2000]
    floors = [distance_error(SketchSpec(width=width), TERMS, 100).floor for width in widths]
    assert floors == sorted(floors)


def test_replaced_units_and_rows_cost_what_their_noise_costs() -> None:
    replaced = ReleaseTerms(PrivacySpec(rho=0.1, relation=REPLACE_ONE, side_counters=None))
    assert spec_for_distance(200, replaced).width == spec_for_distance(200, TERMS).width / 4
    assert spec_for_distance(200, replaced, kind="count_min").width == spec_for_distance(200, TERMS).width / 2
    assert spec_for_distance(200, TERMS, depth=1).width == 5 * spec_for_distance(200, TERMS).width


def test_the_expected_error_is_that_of_releases() -> None:
    """Of 80 pairs, with 200 items that gain 30 each: within a factor 2.5 below, for a bound, and 1.3 above.

    The measured ratio is 0.82. A chi square of 80 degrees is beyond these limits with a probability below 1e-11.
    """
    distance = 30 * math.sqrt(200)
    spec, errors = spec_for_distance(distance, TERMS), []
    for seed in range(80):
        own = dataclasses.replace(spec, seed=seed)
        before = release(CountSketch(own), TERMS)
        after = release(CountSketch(own).accumulate(np.repeat(np.arange(200), 30)), TERMS)
        errors.append(after.distance(before).estimate - distance)
    measured = math.sqrt(np.mean(np.square(errors)))
    assert 1 / 2.5 < measured / distance_error(spec, TERMS, distance).deviation < 1.3


def test_what_cannot_be_planned_is_refused() -> None:
    with pytest.raises(ValueError, match="distance must be finite and greater than 0"):
        spec_for_distance(0, TERMS)
    with pytest.raises(ValueError, match="memory must be at least 320 bytes for 5 rows, got 100"):
        spec_for_distance(100, TERMS, memory=100)
    chosen = ReleaseTerms(TERMS.privacy, AutoNorm(), unit=PrivacyUnit.PRIVACY_ID)
    with pytest.raises(ValueError, match="terms must say the norm, as in NormBound"):
        distance_error(SketchSpec(), chosen, 100)
    known = ReleaseTerms(TERMS.privacy, NormBound(10), unit=PrivacyUnit.PRIVACY_ID)
    assert distance_error(SketchSpec(), known, 100).floor > 9 * distance_error(SketchSpec(), TERMS, 100).floor
