"""How far one unit can move a whole tree: never more than rho pays for, and just as far in the worst case.

The loss between two inputs is the sum over levels of (squared change) / (2 sigma_l^2). It is taken over all pairs of
contributions of one unit by brute force, with the columns and signs of the sketched levels as the worst adversary
would have them (the hash is public).
"""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from beam_dpsketch import (
    ADD_OR_REMOVE_ONE,
    REPLACE_ONE,
    IntegerDomain,
    PrivacySpec,
    RecordBounds,
    ReleaseTerms,
    TreeSpec,
)
from beam_dpsketch.exact.sketches.trees import Level
from beam_dpsketch.noise.calibration import calibrate
from beam_dpsketch.privacy.contributions import NeighboringRelation, PrivacyUnit
from tests.helpers import norms, strategies, trees

DOMAIN = IntegerDomain(0, 3)
LAYOUTS = {
    "exact": trees.custom(DOMAIN, (1, "exact", 1, 0), (1, "exact", 1, 0)),
    "CountSketch": trees.custom(DOMAIN, (1, "count_sketch", 2, 2), (1, "count_sketch", 2, 2)),
    "Count-Min": trees.custom(DOMAIN, (1, "count_min", 2, 2), (1, "count_min", 2, 2)),
    "exact above CountSketch": trees.custom(DOMAIN, (1, "exact", 1, 0), (1, "count_sketch", 3, 2)),
    "a factor above CountSketch": trees.custom(DOMAIN, (1, "factor", 1, 0), (1, "count_sketch", 3, 2)),
    "a factor above exact": trees.custom(IntegerDomain(0, 5), (2, "factor", 1, 0), (1, "exact", 1, 0)),
    "one level": trees.custom(DOMAIN, (2, "exact", 1, 0)),
    "uneven shares": dataclasses.replace(
        trees.custom(DOMAIN, (1, "exact", 1, 0), (1, "count_sketch", 1, 2)),
        levels=tuple(
            dataclasses.replace(level, share=share)
            for level, share in zip(
                trees.custom(DOMAIN, (1, "exact", 1, 0), (1, "count_sketch", 1, 2)).levels,
                (Fraction(1, 5), Fraction(4, 5)),
                strict=True,
            )
        ),
    ),
}
BOUNDS = [RecordBounds(1), RecordBounds(1, max_weight=2, signed=True), RecordBounds(max_records=2)]
RHO = Fraction(1, 7)
every_case = [
    pytest.mark.parametrize("layout", LAYOUTS),
    pytest.mark.parametrize("bounds", BOUNDS, ids=["one record", "signed", "two records"]),
    pytest.mark.parametrize("relation", list(NeighboringRelation), ids=lambda relation: relation.name),
]


def each_case(function: Any) -> Any:
    for mark in every_case:
        function = mark(function)
    return function


def units(spec: TreeSpec, bounds: RecordBounds) -> Iterator[tuple[tuple[int, int], ...]]:
    """All that one unit may contribute: records of (position, weight)."""
    weights = [weight for weight in range(bounds.min_weight, bounds.max_weight + 1) if weight]
    records = [None, *itertools.product(range(spec.domain.size), weights)]
    for chosen in itertools.combinations_with_replacement(records, bounds.max_records):
        yield tuple(record for record in chosen if record is not None)


def node_weights(spec: TreeSpec, number: int, contributions: Any) -> np.ndarray:
    """The weight that each contribution brings to each node of a level, of shape (contributions, nodes)."""
    weights = np.zeros((len(contributions), spec.nodes(number)), dtype=np.int64)
    for place, records in enumerate(contributions):
        for position, weight in records:
            weights[place, position >> spec.shift(number)] += weight
    return weights


def row_functions(level: Level, nodes: int) -> np.ndarray:
    """Every hash function of one row: (functions, nodes, width), with the sign where a node has its cell."""
    if level.sketch == "exact":
        return np.eye(nodes, dtype=np.int64)[None]
    if level.sketch == "factor":
        columns = norms.columns_of_factor(nodes)
        return np.array([[0] * node + column for node, column in enumerate(columns)], dtype=np.int64)[None]
    signs = (1, -1) if level.sketch == "count_sketch" else (1,)
    cells = [sign * np.eye(level.width, dtype=np.int64)[column] for column in range(level.width) for sign in signs]
    return np.array([np.stack(chosen) for chosen in itertools.product(cells, repeat=nodes)])


def in_lengths(level: Level, changes: np.ndarray) -> np.ndarray:
    """Squared changes in the unit of the noise: for rows of a factor, the longest column."""
    if level.sketch != "factor":
        return changes
    return changes.astype(object) * Fraction(1, norms.factor_by_hand(level.width).squared_length)


def squared_changes(counters: np.ndarray) -> np.ndarray:
    """Squared distances between all pairs of contributions, for each function: (functions, contributions, same)."""
    squares = (counters**2).sum(axis=-1)
    products = counters @ counters.swapaxes(-1, -2)
    return squares[..., :, None] + squares[..., None, :] - 2 * products


def worst_changes(spec: TreeSpec, contributions: Any) -> list[np.ndarray]:
    """For each level and pair, the largest squared change over all hash functions; rows may all be the worst."""
    changes = []
    for number, level in enumerate(spec.levels):
        counters = node_weights(spec, number, contributions) @ row_functions(level, spec.nodes(number))
        changes.append(level.depth * in_lengths(level, squared_changes(counters).max(axis=0)))
    return changes


def largest_loss(
    changes: list[np.ndarray], contributions: Any, relation: NeighboringRelation, sigmas: Sequence[Fraction]
) -> Fraction:
    """The largest sum of squared change / (2 sigma^2) over all pairs of neighbours, exactly."""
    empty = contributions.index(())
    pairs = {
        tuple(Fraction(level[first, second]) for level in changes)
        for first in range(len(contributions))
        for second in ([empty] if relation is ADD_OR_REMOVE_ONE else range(len(contributions)))
    }
    return max(sum(change / (2 * sigma) for change, sigma in zip(pair, sigmas, strict=True)) for pair in pairs)


@each_case
def test_no_pair_of_neighbours_loses_more_than_rho_and_the_worst_hash_attains_it(
    layout: str, bounds: RecordBounds, relation: NeighboringRelation
) -> None:
    """Attained by two positions that part at the root, if the nodes of each share cells with opposite signs.

    No two columns of a factor are at right angles, so a replacement without signs costs less there.
    """
    spec = LAYOUTS[layout]
    sigmas = calibrate(
        spec,
        ReleaseTerms(
            PrivacySpec(rho=RHO, relation=relation, summary_counts=None), bounds, privacy_unit=PrivacyUnit.PRIVACY_ID
        ),
    )
    contributions = list(units(spec, bounds))
    found = largest_loss(worst_changes(spec, contributions), contributions, relation, sigmas)
    attained = not spec.has_factor or relation is ADD_OR_REMOVE_ONE or bounds.signed
    assert found == RHO if attained else RHO / 2 < found < RHO


def test_the_measure_finds_a_level_that_got_too_little_noise() -> None:
    spec = LAYOUTS["exact above CountSketch"]
    privacy = PrivacySpec(rho=RHO, relation=REPLACE_ONE, summary_counts=None)
    sigmas = calibrate(spec, ReleaseTerms(privacy, BOUNDS[0], privacy_unit=PrivacyUnit.PRIVACY_ID))
    contributions = list(units(spec, BOUNDS[0]))
    for number in range(len(sigmas)):
        fewer = [sigma * (Fraction(99, 100) if level == number else 1) for level, sigma in enumerate(sigmas)]
        assert largest_loss(worst_changes(spec, contributions), contributions, REPLACE_ONE, fewer) > RHO


def squared_sensitivity(sketch: str, depth: int, bounds: RecordBounds, relation: NeighboringRelation) -> int:
    """The table of the documentation, line by line."""
    contribution = bounds.max_records * bounds.max_weight
    if relation is ADD_OR_REMOVE_ONE:
        factor = {"exact": 1, "factor": 1, "count_min": depth, "count_sketch": depth}[sketch]
    elif bounds.signed:
        factor = {"exact": 4, "factor": 4, "count_min": 4 * depth, "count_sketch": 4 * depth}[sketch]
    else:
        factor = {"exact": 2, "factor": 2, "count_min": 2 * depth, "count_sketch": 4 * depth}[sketch]
    return factor * contribution**2 * bounds.kept_keys


@given(
    spec=trees.layouts(),
    bounds=strategies.bounds(),
    relation=st.sampled_from(NeighboringRelation),
    windows=st.integers(1, 5),
    rho=st.fractions(Fraction(1, 100), Fraction(1, 10), max_denominator=10**6),
)
def test_the_parts_of_rho_sum_to_rho_exactly(
    spec: TreeSpec, bounds: RecordBounds, relation: NeighboringRelation, windows: int, rho: Fraction
) -> None:
    try:
        privacy, privacy_unit = PrivacySpec(rho=rho, relation=relation, summary_counts=None), PrivacyUnit.PRIVACY_ID
        sigmas = calibrate(spec, ReleaseTerms(privacy, bounds, privacy_unit=privacy_unit, window_count=windows))
    except ValueError as error:
        limit = r"2\*\*\d\d\." if spec.has_factor else r"2\*\*50\."  # rows of a factor leave less room
        if not re.search(f"sigma would exceed {limit}", str(error)):
            raise
        reject()
    spent = Fraction(0)
    for level, sigma in zip(spec.levels, sigmas, strict=True):
        delta = squared_sensitivity(level.sketch, level.depth, bounds, relation) * windows
        assert sigma == Fraction(delta) / (2 * rho * level.share)
        spent += Fraction(delta) / (2 * sigma)
    assert spent == rho
