"""Cells behave like independent uniform draws for every row and seed.

Each chi-square test has nominal level 1e-12, with at least 60 expected items in each bin: the chi-square
approximation is good to far less than the factor of 1,000 that is left to the stated false alarm of 1e-9 per test.
Keys and seeds are fixed, so a test passes or fails for ever.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

from beam_dpsketch.exact.hashing import cells
from beam_dpsketch.exact.hashing.fingerprints import fingerprints

_LEVEL = 1e-12

KEY_SETS = {
    "consecutive integers": np.arange(1 << 16, dtype=np.uint64),
    "multiples of 2**32": np.arange(1 << 16, dtype=np.uint64) << np.uint64(32),
    "one number in both halves": np.arange(1 << 16, dtype=np.uint64) * np.uint64((1 << 48) + 1),
    "texts": fingerprints([f"user-{number}" for number in range(1 << 16)]),
}


def _accepts_uniform(values: np.ndarray, bins: int) -> bool:
    observed = np.bincount(values, minlength=bins)
    assert len(values) >= 60 * bins
    return bool(stats.chisquare(observed).pvalue >= _LEVEL)


def _accepts_independent(first: np.ndarray, second: np.ndarray, bins: int) -> bool:
    return _accepts_uniform(first * bins + second, bins * bins)


@pytest.mark.one_fast_case
@pytest.mark.parametrize("keys", KEY_SETS.values(), ids=KEY_SETS)
@pytest.mark.parametrize("width", [2, 3, 7, 64, 100, 1000])
def test_columns_are_uniform_and_signs_balanced_and_independent_of_them(keys, width):
    for seed, row in itertools.product([0, 1, (1 << 64) - 1], range(3)):
        columns, signs = cells.columns_and_signs(keys, seed=seed, row=row, width=width)
        assert columns.min() >= 0
        assert columns.max() < width
        assert set(np.unique(signs)) == {-1, 1}
        assert _accepts_uniform(columns, width)
        assert _accepts_uniform((signs + 1) // 2, 2)
        if 2 * width <= 1024:
            assert _accepts_uniform(columns * 2 + (signs + 1) // 2, 2 * width)


@pytest.mark.parametrize("keys", KEY_SETS.values(), ids=KEY_SETS)
def test_rows_and_seeds_are_pairwise_independent(keys):
    width = 16
    functions = [(seed, row) for seed in (0, 1, 2, 1 << 63) for row in (0, 1, 2)]
    columns, signs = zip(
        *(cells.columns_and_signs(keys, seed=seed, row=row, width=width) for seed, row in functions), strict=True
    )
    for first, second in itertools.combinations(range(len(functions)), 2):
        assert _accepts_independent(columns[first], columns[second], width)
        assert _accepts_independent((signs[first] + 1) // 2, (signs[second] + 1) // 2, 2)


@pytest.mark.parametrize("keys", KEY_SETS.values(), ids=KEY_SETS)
def test_pairs_of_neighbouring_keys_land_independently(keys):
    columns, signs = cells.columns_and_signs(keys, seed=5, row=0, width=16)
    for distance in (1, 2, 256, 1 << 12):
        # Pairs that do not overlap.
        first, second = np.moveaxis(columns.reshape(-1, 2, distance), 1, 0)
        assert _accepts_independent(first.ravel(), second.ravel(), 16)
        products = signs.reshape(-1, 2, distance).prod(axis=1).ravel()
        assert _accepts_uniform((products + 1) // 2, 2)


def test_the_checks_refuse_bad_hashes():
    keys = KEY_SETS["consecutive integers"]
    good = cells.columns(keys, seed=0, row=0, width=16)
    multiplied = (keys * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(60)).astype(np.int64)
    slightly_low = np.where(np.arange(len(good)) % 20 == 0, 0, good)
    assert _accepts_uniform(good, 16)
    assert not _accepts_uniform(slightly_low, 16)
    assert not _accepts_independent(multiplied[:-1], multiplied[1:], 16)
    assert not _accepts_independent(good, (good + 1) % 16, 16)
    assert not _accepts_independent(good, np.where(np.arange(len(good)) % 10 == 0, good, good[::-1]), 16)


@pytest.mark.parametrize("has_signs", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("chunk", [7, 110, 1000])  # of the keys, of two rows, and of all
def test_chunks_add_and_read_what_cells_one_by_one_would(
    has_signs: bool, weighted: bool, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Weights beyond 2**53, which floats would round, and beyond 2**63 in sum, which wraps around."""
    monkeypatch.setattr(cells, "AT_ONCE", chunk)
    generator = np.random.default_rng(1)
    keys = generator.integers(0, 1 << 64, 50, dtype=np.uint64)
    weights = generator.integers(-(1 << 63), 1 << 63, 50, dtype=np.int64) if weighted else None
    keys.flags.writeable = False
    counters = np.zeros((3, 5), dtype=np.int64)
    cells.add_to_rows(counters, keys, weights, seed=4, has_signs=has_signs)
    expected = [[0] * 5 for _ in range(3)]
    for row in range(3):
        columns, signs = cells.columns_and_signs(keys, seed=4, row=row, width=5)
        for place, (column, sign) in enumerate(zip(columns.tolist(), signs.tolist(), strict=True)):
            expected[row][column] += (sign if has_signs else 1) * (1 if weights is None else int(weights[place]))
    wrapped = [[(value + (1 << 63)) % (1 << 64) - (1 << 63) for value in row] for row in expected]
    assert counters.tolist() == wrapped
    small = np.arange(15).reshape(3, 5)
    read = cells.read_rows(small, keys, seed=4, has_signs=has_signs)
    for row in range(3):
        columns, signs = cells.columns_and_signs(keys, seed=4, row=row, width=5)
        assert read[row].tolist() == (small[row, columns] * (signs if has_signs else 1)).tolist()


@pytest.mark.parametrize("has_signs", [True, False])
def test_places_read_and_sketch_as_rows_do(has_signs):
    keys, weights = KEY_SETS["texts"][:500], np.arange(500) - 200
    shape = {"seed": 3, "has_signs": has_signs}
    counters = np.zeros((4, 33), dtype=np.int64)
    cells.add_to_rows(counters, keys, weights, **shape)
    places = cells.Places(keys, depth=4, width=33, **shape)
    np.testing.assert_array_equal(places.sketch(weights), counters)
    np.testing.assert_array_equal(places.sketch(np.tile(weights, (4, 1))), counters)
    np.testing.assert_array_equal(places.read(counters), cells.read_rows(counters, keys, **shape))
    unsigned = cells.Places(keys, depth=4, width=33, seed=3, has_signs=False)
    np.testing.assert_array_equal(places.look_up(counters), unsigned.read(counters))
    np.testing.assert_array_equal(places.sums(np.ones((4, 500))), unsigned.sketch(np.ones(500)))
