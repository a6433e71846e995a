"""Mechanisms over time: how far units reach by brute force over all subsets, and numbers that must never change."""

from __future__ import annotations

import functools
import hashlib
import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from beam_dpsketch import ArgumentError
from beam_dpsketch.privacy.over_time import mechanism as base
from beam_dpsketch.privacy.over_time.binned import BinaryTree, BinnedRoot
from beam_dpsketch.privacy.over_time.mechanism import RowMechanism, matrix_rows
from beam_dpsketch.privacy.over_time.pairs import PAIR_BITS
from tests.helpers import rows

BINNED, TREE = rows.MECHANISMS.values()
SMALL = [made(windows) for made in (BINNED, TREE) for windows in (2, 3, 4, 5, 7, 8, 11, 16)]
SMALL += [BinnedRoot(16, ratio=1), BinnedRoot(13, ratio=2, weight_bits=4, gain_bits=2)]
every_small = pytest.mark.parametrize(
    "mechanism", SMALL, ids=[f"{type(each).__name__} {each.windows} {number}" for number, each in enumerate(SMALL)]
)
MOST_REACHED = 6


@functools.cache
def true_reach(mechanism: RowMechanism) -> list[int]:
    """The largest squared change of all rows by 1, 2, ... windows that change by 1 each, over all their subsets."""
    columns = rows.matrix(mechanism).astype(np.float64)  # far below 2**53: exact
    sizes = range(1, min(MOST_REACHED, mechanism.windows) + 1)
    subsets = [list(itertools.combinations(range(mechanism.windows), size)) for size in sizes]
    return [max(int(np.square(columns[:, each].sum(axis=1)).sum()) for each in same) for same in subsets]


def check_reach(mechanism: RowMechanism) -> None:
    for reached, true in enumerate(true_reach(mechanism), 1):
        bound = mechanism.squared_reach(reached) * mechanism.squared_length
        assert bound >= true, "a unit reaches further"
        assert bound <= Fraction(121, 100) * true, "more noise than needed"


@every_small
def test_reach_is_never_below_the_truth_and_close_to_it(mechanism: RowMechanism) -> None:
    check_reach(mechanism)


@every_small
def test_the_reach_of_a_tree_and_of_one_window_are_exact(mechanism: RowMechanism) -> None:
    assert mechanism.squared_length == true_reach(mechanism)[0] == rows.longest(mechanism)
    if isinstance(mechanism, BinaryTree):
        found = [
            mechanism.squared_reach(each) * mechanism.squared_length
            for each in range(1, len(true_reach(mechanism)) + 1)
        ]
        assert found == true_reach(mechanism)


def diagonal(mechanism: RowMechanism) -> np.ndarray:
    return np.diag(np.square(np.array(list(matrix_rows(mechanism)))).sum(axis=0))


@pytest.mark.parametrize("fault", ["m times one window", "diagonal", "m squared"])
@pytest.mark.parametrize("mechanism", [BINNED(16), TREE(16)], ids=["binned", "tree"])
def test_a_wrong_reach_is_found(fault: str, mechanism: RowMechanism, monkeypatch: pytest.MonkeyPatch) -> None:
    message = "further"
    if fault == "diagonal":
        monkeypatch.setattr(base, "_gram", diagonal)
        monkeypatch.setattr(BinaryTree, "squared_reach", RowMechanism.squared_reach)
    else:
        power, message = (2, "more noise") if fault == "m squared" else (1, message)
        monkeypatch.setattr(type(mechanism), "squared_reach", lambda _, reached: Fraction(reached**power))
    with pytest.raises(AssertionError, match=message):
        check_reach(mechanism)


@every_small
def test_pair_weights_are_g_rounded_up(mechanism: RowMechanism) -> None:
    dense = rows.matrix(mechanism)
    gram, one = dense.T @ dense, 1 << PAIR_BITS
    weights = mechanism.pair_weights()
    assert weights is not None
    for weight, entry in zip(weights.ravel().tolist(), gram.ravel().tolist(), strict=True):
        exact = Fraction(entry * one, rows.longest(mechanism))
        assert exact <= weight <= min(exact + Fraction(1001, 1000), one)


def test_above_the_dense_limit_all_pairs_count_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "MAX_DENSE", 4)
    for made in (BINNED, TREE):
        assert made(5).pair_weights() is None
        assert made(4).pair_weights() is not None
    assert [BINNED(5).squared_reach(each) for each in (1, 2, 5)] == [1, 4, 25]


@every_small
def test_rows_and_windows_are_numbered_alike(mechanism: RowMechanism) -> None:
    dense = rows.matrix(mechanism)
    assert mechanism.row_count == len(dense)
    assert np.array_equal(np.array(list(matrix_rows(mechanism))), dense.astype(np.int64))
    for window in range(mechanism.windows):
        first = mechanism.first_row(window)
        for row in range(first, first + len(mechanism.rows_of(window))):
            assert mechanism.window_of(row) == window
            assert not dense[row, window + 1 :].any()
            assert dense[row, window] > 0
    assert (dense >= 0).all()


@pytest.mark.parametrize("ratio", [1, 2, 4])
@pytest.mark.parametrize("windows", [2, 3, 64, 365])
def test_bins_of_a_row_are_all_windows_so_far(ratio: int, windows: int) -> None:
    """Newest first, each window once; the newest is alone and counts 2^weight_bits."""
    mechanism = BinnedRoot(windows, ratio=ratio)
    for window in range(windows):
        (bins,) = mechanism.rows_of(window)
        covered = [range(place << level, (place + 1) << level) for level, place, _ in bins]
        assert [each for part in reversed(covered) for each in part] == list(range(window + 1))
        assert bins[0] == (0, window, 1 << mechanism.weight_bits)
        for level, place, weight in bins:
            assert 0 < weight <= 1 << mechanism.weight_bits
            assert level == 0 or window + 1 - ((place + 1) << level) >= ratio << level


def columns(mechanism: RowMechanism) -> list[int]:
    """The squared length of each column of C without gains."""
    total = [0] * mechanism.windows
    for window in range(mechanism.windows):
        for bins in mechanism.rows_of(window):
            for level, place, weight in bins:
                for each in range(place << level, (place + 1) << level):
                    total[each] += weight**2
    return total


def canonical(mechanism: BinnedRoot) -> str:
    """The bins of all rows, gains, squared columns without gains, and the squared length, as text."""
    lines = [
        " ".join(f"{level}.{place}.{weight}" for level, place, weight in mechanism.rows_of(window)[0])
        for window in range(mechanism.windows)
    ]
    numbers = [
        " ".join(map(str, mechanism.gains)),
        " ".join(map(str, columns(mechanism))),
        str(mechanism.squared_length),
    ]
    return "\n".join([*lines, *numbers])


def digest(mechanism: BinnedRoot) -> str:
    return hashlib.blake2b(canonical(mechanism).encode(), digest_size=16).hexdigest()


def test_golden_numbers_of_five_windows() -> None:
    """Made by another program. Releases are read with these numbers, so they never change."""
    mechanism = BinnedRoot.over(5)
    newest_first = [4096, 2048, 1536, 1280, 1120]
    assert [[each.weight for each in mechanism.rows_of(window)[0]] for window in range(5)] == [
        newest_first[: window + 1] for window in range(5)
    ]
    assert list(mechanism.gains) == [256, 262, 271, 286, 320]
    assert columns(mechanism) == [26223616, 24969216, 23330816, 20971520, 16777216]
    assert mechanism.squared_length == 1718590898176


GOLDEN = {365: "73d91d7ae25078969a3eb55a83944ab4", 3000: "816c10d370dba5c92ba32e5cb5531057"}


@pytest.mark.parametrize("windows", [365, pytest.param(3000, marks=pytest.mark.slow)])
def test_golden_numbers_of_many_windows(windows: int) -> None:
    """The same as a digest of all of them."""
    assert digest(BinnedRoot.over(windows)) == GOLDEN[windows]


@pytest.mark.parametrize("change", [{"ratio": 3}, {"gain_bits": 7}, {"weight_bits": 13}])
def test_other_numbers_have_another_digest(change: dict[str, Any]) -> None:
    assert digest(BinnedRoot(365, **change)) != GOLDEN[365]


def test_weights_are_means_of_the_square_root() -> None:
    """c_k = binom(2k, k) / 4^k, by exact fractions; rounded to the nearest."""
    mechanism = BinnedRoot(70, ratio=1)
    for window in (0, 1, 20, 69):
        for level, place, weight in mechanism.rows_of(window)[0]:
            lags = [window - each for each in range(place << level, (place + 1) << level)]
            mean = sum((Fraction(math.comb(2 * lag, lag), 4**lag) for lag in lags), Fraction(0)) / len(lags)
            assert abs(weight - mean * 4096) <= Fraction(1, 2) + Fraction(1, 1 << 40)


def test_a_tree_has_as_many_windows_as_can_be_read() -> None:
    assert BinaryTree(2048).windows == base.MAX_DENSE == 2048
    with pytest.raises(ArgumentError, match=r"windows must be at most 2,048 .*E433"):
        BinaryTree(2049)
