"""Lengths over all rows: exact below 2^53, close above, and never below the truth."""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_dpsketch.privacy.norm import scaling
from beam_dpsketch.privacy.norm.scaling import Row
from beam_dpsketch.privacy.over_time import lengths, pairs
from beam_dpsketch.privacy.over_time import mechanism as base
from beam_dpsketch.privacy.over_time.lengths import WindowPairs
from beam_dpsketch.privacy.over_time.mechanism import RowMechanism
from beam_dpsketch.privacy.over_time.pairs import ONE_PAIR
from tests.helpers import rows

every_mechanism = pytest.mark.parametrize("made", rows.MECHANISMS)
ONE_IN_32_MILLION = Fraction(1, 1 << 25)


WAYS = st.sampled_from(["all as one", "by lag", "by matrix", "some by each"])


def pair_up(patch: pytest.MonkeyPatch, way: str) -> None:
    """Take one way to pair windows."""
    if way == "all as one":
        patch.setattr(base, "MAX_DENSE", 1)
    patch.setattr(pairs, "_SPARSE", {"by lag": 0, "some by each": 3}.get(way, 16))
    patch.setattr(pairs, "_CHUNK", 2)


def paired(mechanism: RowMechanism, of_windows: dict[int, int]) -> int:
    """2^PAIR_BITS a' G a / max G with entries rounded up, in Python integers."""
    weights = mechanism.pair_weights()
    if weights is None:
        return ONE_PAIR * sum(of_windows.values()) ** 2
    return sum(
        int(weights[first, second]) * size * other
        for first, size in of_windows.items()
        for second, other in of_windows.items()
    )


def exact_norms(
    mechanism: RowMechanism, groups: np.ndarray, units: np.ndarray, windows: np.ndarray, rows: list[Row]
) -> list[int]:
    norms = [0] * (int(units[-1]) + 1)
    for numerator, cells, sizes in rows:
        sums: dict[tuple[int, int], dict[int, int]] = defaultdict(lambda: defaultdict(int))
        columns = (groups.tolist(), cells.tolist(), windows.tolist(), sizes.tolist())
        for group, cell, window, size in zip(*columns, strict=True):
            sums[group, cell][window] += size
        for (group, _), of_windows in sums.items():
            norms[int(units[group])] += numerator * paired(mechanism, of_windows)
    return norms


@st.composite
def net_weights(draw: st.DrawFn, made: str, largest: int, width: int) -> Any:
    """A mechanism, groups, their units, windows, and rows of tables with the sizes of net weights; in any order."""
    mechanism, size = rows.MECHANISMS[made](draw(st.integers(2, 9))), draw(st.integers(1, 40))
    of_size = {"min_size": size, "max_size": size}
    groups = np.unique(draw(st.lists(st.integers(0, 4), **of_size)), return_inverse=True)[1]
    count = int(groups.max()) + 1
    units = np.cumsum([0, *draw(st.lists(st.integers(0, 1), min_size=count - 1, max_size=count - 1))])
    windows = np.array(draw(st.lists(st.integers(0, mechanism.windows - 1), **of_size)))
    sizes = st.lists(st.integers(0, largest), **of_size)
    cells = st.lists(st.integers(0, width - 1) | st.integers(0, 1), **of_size)
    drawn = draw(st.lists(st.tuples(st.integers(1, 9), cells, sizes), min_size=1, max_size=3))
    added = [Row(number, *(np.array(each, dtype=np.int64) for each in of_row)) for number, *of_row in drawn]
    return mechanism, groups, units, windows, added


@pytest.mark.one_fast_case
@every_mechanism
@pytest.mark.parametrize("width", [3, 1 << 59])
@pytest.mark.parametrize("largest", [1, 1000, scaling.MAX_ITEM_WEIGHT])
@given(data=st.data())
def test_squared_norms_are_exact_below_2_to_53_and_close_above(made: str, width: int, largest: int, data: Any) -> None:
    """Wide tables take another sort, and the way in which windows are paired does not matter."""
    drawn = data.draw(net_weights(made, largest, width))
    with pytest.MonkeyPatch.context() as patch:
        pair_up(patch, data.draw(WAYS))
        found, expected = lengths.squared_norms(*drawn), exact_norms(*drawn)
    for norm, exact in zip(found.tolist(), expected, strict=True):
        assert norm == exact if exact < 1 << 53 else norm >= 1 << 53
        assert abs(Fraction(norm) - exact) <= exact * ONE_IN_32_MILLION


def test_no_input_has_no_norms() -> None:
    nothing = np.zeros(0, dtype=np.int64)
    mechanism = rows.MECHANISMS["tree"](4)
    assert lengths.squared_norms(mechanism, nothing, nothing, nothing, [Row(1, nothing, nothing)]).tolist() == []
    assert WindowPairs(mechanism, nothing, nothing).squares(nothing, nothing == 0).tolist() == []


@every_mechanism
@given(data=st.data())
def test_squares_of_pairs_sum_to_those_of_rows(made: str, data: Any) -> None:
    """Numbers in any order, each window of a group once; also numbers whose sums do not fit into 64 bits."""
    mechanism = rows.MECHANISMS[made](data.draw(st.integers(2, 9)))
    largest = data.draw(st.sampled_from([9, 1 << 20, 1 << 61]))
    places = st.tuples(st.integers(0, 2), st.integers(0, mechanism.windows - 1))
    drawn = data.draw(st.dictionaries(places, st.integers(0, largest), min_size=1, max_size=27))
    order = data.draw(st.permutations(list(drawn)))
    groups, windows = np.array(order, dtype=np.int64).T
    sizes = np.array([drawn[place] for place in order])
    with pytest.MonkeyPatch.context() as patch:
        pair_up(patch, data.draw(WAYS))
        found = np.bincount(groups, WindowPairs(mechanism, groups, windows).squares(sizes, sizes >= 0), 3)
        for group, square in enumerate(found.tolist()):
            of_windows = {window: size for (place, window), size in drawn.items() if place == group}
            exact = paired(mechanism, of_windows)
            assert square == exact if exact < 1 << 53 else square >= 1 << 53
            assert abs(Fraction(square) - exact) <= exact * ONE_IN_32_MILLION


@every_mechanism
@given(data=st.data())
def test_a_length_is_at_least_that_of_all_rows_and_at_most_the_sum(made: str, data: Any) -> None:
    """From the dense matrix, not from G: |C a|^2 / max <= N^2 <= (sum of a)^2; nothing more than rounded entries."""
    mechanism = rows.MECHANISMS[made](data.draw(st.integers(2, 9)))
    sizes = data.draw(st.lists(st.integers(0, 1000), min_size=mechanism.windows, max_size=mechanism.windows))
    windows = np.arange(mechanism.windows)
    of_windows = WindowPairs(mechanism, np.zeros_like(windows), windows)
    squared = Fraction(sum(of_windows.squares(np.array(sizes), windows >= 0).tolist())) / ONE_PAIR
    true = Fraction(rows.squared_rows(mechanism, enumerate(sizes)), rows.longest(mechanism))
    assert true <= squared <= sum(sizes) ** 2
    assert squared <= true + sum(sizes) ** 2 * Fraction(1001, 1000 << pairs.PAIR_BITS)


def test_matrix_products_of_the_largest_totals_are_exact() -> None:
    """Just below the limit, spread over many windows and in one."""
    mechanism, most = rows.MECHANISMS["binned"](200), pairs._MAX_TOTAL - 1
    groups = np.repeat([0, 1], [200, 1])
    windows = np.append(np.arange(200), 7)
    sizes = np.array([most // 200] * 199 + [most - 199 * (most // 200), most])
    found = np.bincount(groups, WindowPairs(mechanism, groups, windows).squares(sizes, sizes >= 0)).tolist()
    true = [paired(mechanism, dict(enumerate(sizes[:200].tolist()))), paired(mechanism, {7: most})]
    assert found == [float(each) for each in true]  # rounded once
    assert most**2 * (ONE_PAIR >> pairs._HALF_BITS) < 1 << 53


def test_how_windows_are_paired_depends_on_their_place_alone() -> None:
    """Also where squares are above 2^53, and not exact: other units never change a last bit."""
    mechanism, rng = rows.MECHANISMS["binned"](100), np.random.default_rng(3)
    groups = np.repeat(np.arange(40), rng.integers(1, 100, 40))
    windows = np.concatenate([rng.permutation(100)[:count] for count in np.bincount(groups)])
    sizes = rng.integers(0, np.repeat(1 << rng.integers(1, 50, 40), np.bincount(groups)))
    together = WindowPairs(mechanism, groups, windows).squares(sizes, sizes >= 0)
    for group in range(40):
        own = groups == group
        alone = WindowPairs(mechanism, np.zeros(own.sum(), dtype=np.int64), windows[own]).squares(sizes[own], own[own])
        assert alone.tolist() == together[own].tolist()


@every_mechanism
def test_groups_that_are_not_asked_for_get_nothing(made: str) -> None:
    groups, windows = np.array([1, 0, 1, 0, 2]), np.array([3, 0, 0, 1, 2])
    of_windows, sizes = WindowPairs(rows.MECHANISMS[made](4), groups, windows), np.array([1, 2, 3, 4, 5])
    expected = np.where(groups == 1, of_windows.squares(sizes, sizes > 0), 0)
    assert of_windows.squares(sizes, groups == 1).tolist() == expected.tolist()
