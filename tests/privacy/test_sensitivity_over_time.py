"""The sensitivity of a tree over time against brute force: all hash functions, all inputs, the maximum attained."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

from beam_dpsketch import (
    ADD_OR_REMOVE_ONE,
    REPLACE_ONE,
    CountMin,
    CountSketch,
    NeighboringRelation,
    PrivacySpec,
    PrivacyUnit,
    RecordBounds,
    ReleaseTerms,
    SketchSpec,
)
from beam_dpsketch.privacy.sensitivity import squared_l2_sensitivity_over_time, tree_height
from beam_dpsketch.release.noising import calibrate
from tests.helpers.over_time import every_node, worst
from tests.helpers.raw import of_kind, raw_of

RELATIONS = [ADD_OR_REMOVE_ONE, REPLACE_ONE]


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("signs", [False, True])
@pytest.mark.parametrize(
    ("windows", "bounds"),
    [
        (2, RecordBounds(1)),
        (8, RecordBounds(1)),
        (8, RecordBounds(1, max_weight=2, signed=True)),
        (4, RecordBounds(1, max_partitions=2)),
        (4, RecordBounds(1, max_partitions=3)),
        (4, RecordBounds(1, max_partitions=4)),
        (4, RecordBounds(max_partitions=2, max_contributions_per_partition=2)),
        (4, RecordBounds(1, max_partitions=2, max_weight=2, signed=True)),
        (8, RecordBounds(1, max_partitions=3)),
    ],
)
def test_the_formula_is_the_worst_case_and_is_attained(
    windows: int, bounds: RecordBounds, signs: bool, relation: NeighboringRelation
) -> None:
    assert worst(windows=windows, bounds=bounds, signs=signs, relation=relation) == (
        squared_l2_sensitivity_over_time(
            cells_per_item=1, has_signs=signs, bounds=bounds, relation=relation, window_count=windows
        )
    )


@pytest.mark.parametrize("kind", [CountMin, CountSketch])
@pytest.mark.parametrize("relation", RELATIONS)
def test_rho_covers_every_record_under_the_package_s_hash(
    kind: type[CountMin] | type[CountSketch], relation: NeighboringRelation
) -> None:
    """Squared change / (2 sigma^2) over every item, window and seed of a small sketch; a record may also leave."""
    privacy, largest = PrivacySpec(rho=0.5, relation=relation), Fraction(0)
    for seed in range(30):
        spec = SketchSpec(depth=2, width=2, seed=seed)
        (sigma_squared,) = calibrate(
            of_kind(kind, spec),
            ReleaseTerms(privacy, RecordBounds(1), unit=PrivacyUnit.RECORD_OVER_HORIZON, window_count=4),
        )
        inputs = [np.zeros((4, spec.cells), dtype=int)]
        for window, item in itertools.product(range(4), range(6)):
            inputs.append(np.zeros((4, spec.cells), dtype=int))
            inputs[-1][window] = raw_of(kind, spec).accumulate([item]).counters.ravel()
        nodes = every_node(np.array(inputs))
        others = nodes[:1] if relation is ADD_OR_REMOVE_ONE else nodes
        change = int(np.square(nodes[:, None] - others[None]).sum(axis=2).max())
        largest = max(largest, Fraction(change) / (2 * sigma_squared))
    assert largest == privacy.rho


@pytest.mark.parametrize(("windows", "reached"), [(1024, 1), (64, 5), (64, 64), (16, 7)])
def test_at_most_the_square_of_all_windows_on_each_level(windows: int, reached: int) -> None:
    """m^2 (log2 T + 1) is the bound without looking at levels; a single window attains it."""
    of = {"cells_per_item": 3, "has_signs": True, "relation": REPLACE_ONE, "window_count": windows}
    bounds = RecordBounds(1, max_partitions=reached, max_weight=2)
    square = squared_l2_sensitivity_over_time(**of, bounds=bounds)
    simple = 4 * 3 * 4 * reached**2 * tree_height(windows)
    assert square == simple if reached == 1 else square < simple


def test_more_windows_than_the_horizon_has_are_refused() -> None:
    with pytest.raises(ValueError, match="max_partitions must be at most the 4 windows of the horizon, got 5"):
        squared_l2_sensitivity_over_time(
            cells_per_item=1,
            has_signs=True,
            bounds=RecordBounds(1, max_partitions=5),
            relation=REPLACE_ONE,
            window_count=4,
        )


@pytest.mark.parametrize("windows", [3, 6, 1000])
def test_horizons_are_powers_of_two(windows: int) -> None:
    with pytest.raises(ValueError, match=f"windows must be a power of two, got {windows}: declare a longer horizon"):
        tree_height(windows)


def test_heights() -> None:
    assert [tree_height(windows) for windows in (2, 4, 1024)] == [2, 3, 11]
    with pytest.raises(ValueError, match="windows must be between 2 and 1048576"):
        tree_height(1)
