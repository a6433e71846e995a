"""The sensitivity table against brute force: every hash function, every unit, the maximum attained exactly."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

from beam_dpsketch import ADD_OR_REMOVE_ONE, REPLACE_ONE, CountSketch, NormBound, RecordBounds, SketchSpec
from beam_dpsketch.privacy.mechanism import sensitivity, sigma_squared, squared_l2_sensitivity

_RELATIONS = [ADD_OR_REMOVE_ONE, REPLACE_ONE]


def _hash_functions(*, items, depth, width, signed):
    """Every sketch matrix (functions, depth * width, items): each item has one cell in each row.

    The first item is in column 0 with sign 1: renaming columns and negating cells changes no distance.
    """
    cells = list(itertools.product(range(width), (1, -1) if signed else (1,)))
    choices = [cells[:1] if item == 0 else cells for _ in range(depth) for item in range(items)]
    matrices = []
    for assignment in itertools.product(*choices):
        matrix = np.zeros((depth, width, items), dtype=np.int64)
        for (row, item), (column, sign) in zip(itertools.product(range(depth), range(items)), assignment, strict=True):
            matrix[row, column, item] = sign
        matrices.append(matrix.reshape(-1, items))
    return np.array(matrices)


def _identity(*, items):
    """An exact histogram: every injective assignment of items to as many columns and one."""
    return np.array(
        [
            np.eye(items + 1, dtype=np.int64)[list(columns)].T
            for columns in itertools.permutations(range(items + 1), items)
        ]
    )


def _units(*, items, bounds):
    """Net weight by item of everything one unit may hold in one partition."""
    weights = range(bounds.min_weight, bounds.max_weight + 1)
    one = [np.eye(items, dtype=np.int64)[item] * weight for item in range(items) for weight in weights]
    records = bounds.max_records
    return {tuple(sum(chosen)) for chosen in itertools.combinations_with_replacement(one, records)}


def _worst_in_sum(matrices, units, relation):
    """The largest L1 distance between the sketches of two neighbouring inputs, over all matrices."""
    sketches = np.array(sorted(units)) @ matrices.swapaxes(1, 2)
    if relation is ADD_OR_REMOVE_ONE:
        return int(np.abs(sketches).sum(axis=2).max())
    return max(int(np.abs(each[:, None, :] - each[None, :, :]).sum(axis=2).max()) for each in sketches)


def _worst(matrices, units, relation):
    """The largest squared L2 distance between the sketches of two neighbouring inputs, over all matrices."""
    sketches = np.array(sorted(units)) @ matrices.swapaxes(1, 2)
    squares = np.square(sketches).sum(axis=2)
    if relation is ADD_OR_REMOVE_ONE:
        return int(squares.max())
    products = sketches @ sketches.swapaxes(1, 2)
    return int((squares[:, :, None] + squares[:, None, :] - 2 * products).max())


@pytest.mark.parametrize("relation", _RELATIONS)
@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("max_weight", [1, 2])
@pytest.mark.parametrize("records", [1, 2, 3])
@pytest.mark.parametrize(
    ("name", "depth", "width", "items"),
    [
        ("histogram", 1, 4, 3),
        ("count_min", 1, 3, 3),
        ("count_min", 2, 2, 3),
        ("count_min", 2, 3, 2),
        ("count_sketch", 1, 3, 3),
        ("count_sketch", 2, 2, 3),
        ("count_sketch", 2, 3, 2),
    ],
)
def test_the_table_is_the_worst_case_over_all_hash_functions(
    name, depth, width, items, records, max_weight, signed, relation
):
    bounds = RecordBounds(max_records=records, max_weight=max_weight, signed=signed)
    if name == "histogram":
        matrices = _identity(items=items)
    else:
        matrices = _hash_functions(items=items, depth=depth, width=width, signed=name == "count_sketch")
    units = _units(items=items, bounds=bounds)
    found = sensitivity(cells_per_item=depth, has_signs=name == "count_sketch", bounds=bounds, relation=relation)
    assert found == (_worst(matrices, units, relation), _worst_in_sum(matrices, units, relation))


@pytest.mark.parametrize("relation", _RELATIONS)
@pytest.mark.parametrize("has_signs", [False, True])
@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("records", [1, 2])
def test_several_partitions_multiply_the_square(records, signed, has_signs, relation):
    """A unit reaches any 2 of 4 partitions, possibly others before and after it is replaced."""
    items, partitions = 2, 4
    bounds = RecordBounds(max_records=records, max_keys=2, signed=signed)
    local = sorted(_units(items=items, bounds=bounds))
    units = set()
    for chosen in itertools.combinations(range(partitions), 2):
        for weights in itertools.product(local, repeat=2):
            privacy_unit = np.zeros((partitions, items), dtype=np.int64)
            privacy_unit[list(chosen)] = weights
            units.add(tuple(privacy_unit.ravel()))
    matrices = _hash_functions(items=items, depth=1, width=2, signed=has_signs)
    matrices = np.array([np.kron(np.eye(partitions, dtype=int), matrix) for matrix in matrices])
    found = sensitivity(cells_per_item=1, has_signs=has_signs, bounds=bounds, relation=relation)
    assert found == (_worst(matrices, units, relation), _worst_in_sum(matrices, units, relation))


@pytest.mark.parametrize("relation", _RELATIONS)
@pytest.mark.parametrize("has_signs", [False, True])
def test_windows_count_like_partitions(relation, has_signs):
    common = {"cells_per_item": 5, "has_signs": has_signs, "relation": relation}
    by_windows = sensitivity(**common, bounds=RecordBounds(1, max_weight=3), reach=7)
    by_partitions = sensitivity(**common, bounds=RecordBounds(1, max_weight=3, max_keys=7))
    assert by_windows == by_partitions


def test_a_norm_l1_limits_the_sum_and_one_of_order_2_does_not():
    common = {"cells_per_item": 5, "has_signs": True, "relation": REPLACE_ONE}
    assert sensitivity(**common, bounds=NormBound(Fraction(5, 2), norm="l1")) == (
        4 * 5 * Fraction(25, 4),
        2 * 5 * Fraction(5, 2),
    )
    assert sensitivity(**common, bounds=NormBound(Fraction(5, 2))).total is None


def test_the_paper_s_sensitivity_is_exceeded_by_two_items_of_the_shipped_hash():
    """Items 19951 and 40735 share their column and differ in sign in every row of this sketch.

    The paper's sqrt(2 depth) = sqrt(6) would calibrate sigma^2 to rho for a squared change of 6. Replacing one of
    these items by the other changes the counters by 12, squared, so that release would spend 2 rho.
    """
    spec = SketchSpec(depth=3, width=512, seed=0)
    change = CountSketch(spec).accumulate([19951]).counters - CountSketch(spec).accumulate([40735]).counters
    squared_change = int(np.square(change).sum())
    assert squared_change == 4 * spec.depth == 12
    assert squared_change == squared_l2_sensitivity(
        cells_per_item=spec.depth, has_signs=True, bounds=RecordBounds(1), relation=REPLACE_ONE
    )
    rho = Fraction(1)
    of_the_paper = sigma_squared(squared_sensitivity=2 * spec.depth, rho=rho)
    assert Fraction(squared_change) / (2 * of_the_paper) == 2 * rho


@pytest.mark.parametrize("number", [np.uint8, np.int16, np.int32, np.int64])
def test_numpy_integers_do_not_overflow(number):
    """Squared in its own type, np.uint8(17) would be 33."""
    bounds = RecordBounds(max_weight=number(17), max_records=number(100), max_keys=number(100))
    answer = squared_l2_sensitivity(
        cells_per_item=number(64), has_signs=True, bounds=bounds, relation=REPLACE_ONE, reach=number(100)
    )
    assert isinstance(answer, Fraction)
    assert answer == 4 * 64 * 1700**2 * 100 * 100


@pytest.mark.parametrize("name", ["cells_per_item", "reach"])
@pytest.mark.parametrize(("value", "error"), [(0, ValueError), (-1, ValueError), (1.5, TypeError), (True, TypeError)])
def test_counts_below_one_are_refused(name, value, error):
    arguments = {"cells_per_item": 1, "reach": 1, name: value}
    with pytest.raises(error, match=name):
        squared_l2_sensitivity(**arguments, has_signs=True, bounds=RecordBounds(1), relation=REPLACE_ONE)
