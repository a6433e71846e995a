"""Lengths over the rows of a factor: never below the truth, never above the weight, and exact where all pairs are."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_dpsketch.privacy.factor import pairs, value_lengths
from beam_dpsketch.privacy.factor.pairs import ONE_PAIR, PAIR_BITS
from beam_dpsketch.privacy.factor.toeplitz import GAIN_BITS, ToeplitzRoot
from beam_dpsketch.privacy.norm import scaling
from beam_dpsketch.privacy.norm.scaling import Row
from beam_dpsketch.privacy.over_time import mechanism as over_time
from tests.helpers import laws
from tests.helpers.laws import Fault

ONE_IN_32_MILLION = Fraction(1, 1 << 25)
CACHES = value_lengths._pair_weights, value_lengths._steps
WAYS = ["by pair", "by matrix", "some by each", "by step", "by total"]
every_way = pytest.mark.parametrize("way", WAYS)


@pytest.fixture(autouse=True)
def _no_faulty_weights() -> Iterator[None]:
    """Weights are cached: those of a planted fault must not reach another test."""
    clear_caches()
    yield
    clear_caches()


def clear_caches() -> None:
    for cached in CACHES:
        cached.cache_clear()


def take(patch: pytest.MonkeyPatch, way: str) -> None:
    """Take one way to pair values, also where there are few of them."""
    patch.setattr(value_lengths, "MAX_DENSE", 0 if way in ("by step", "by total") else 2048)
    patch.setattr(value_lengths, "_FEW", 0 if way == "by total" else 64)
    patch.setattr(pairs, "_SPARSE", {"by pair": 0, "some by each": 3}.get(way, 1 << 20))
    patch.setattr(pairs, "_CHUNK", 2)


def columns_of(factor: ToeplitzRoot) -> list[list[int]]:
    """The columns of W in Python integers."""
    column, gains = factor.coefficients.tolist(), factor.gains.tolist()
    return [[0] * j + [gains[j] * each for each in column[: factor.size - j]] for j in range(factor.size)]


def gram(factor: ToeplitzRoot) -> list[list[int]]:
    columns = columns_of(factor)
    return [[sum(a * b for a, b in zip(one, other, strict=True)) for other in columns] for one in columns]


def step(number: int) -> int:
    """Where the step of a distance begins: 0, 1, 2, 3, 4, 6, 8, 12, and so on."""
    return max(begin for level in range(21) for begin in (0, 1, 2 << level, 3 << level) if begin <= number)


def weights_of_pairs(factor: ToeplitzRoot, way: str) -> list[list[int]]:
    """G over its largest entry, rounded up, or the largest of all pairs that are in the same two steps."""
    exact, most = gram(factor), factor.squared_length
    values = range(factor.size)
    if way in ("by step", "by total"):
        largest: dict[tuple[int, int], int] = defaultdict(int)
        of = {(i, j): (step(abs(i - j)), step(factor.size - 1 - max(i, j))) for i in values for j in values}
        for (i, j), place in of.items():
            largest[place] = max(largest[place], exact[i][j])
        exact = [[largest[of[i, j]] for j in values] for i in values]
    return [[math.ceil(Fraction(entry << PAIR_BITS, most)) for entry in row] for row in exact]


def norms_of(factor: ToeplitzRoot, histograms: Sequence[Sequence[int]]) -> list[float]:
    """2^PAIR_BITS N^2 of units with a histogram each, in one group."""
    sizes = np.abs(np.array(histograms, dtype=np.int64))
    units, cells = np.indices(sizes.shape).reshape(2, -1)
    numbers = np.arange(len(sizes))
    return value_lengths.squared_norms(factor, units, numbers, [Row(1, cells, sizes.reshape(-1))]).tolist()


def squared_rows(factor: ToeplitzRoot, histogram: np.ndarray) -> int:
    return sum(row * row for row in factor.rows(histogram).tolist())


def check_all_units(way: str, *, most: int = 3) -> None:
    """Every histogram of weight up to 3, with any signs, over up to 7 values."""
    with pytest.MonkeyPatch.context() as patch:
        take(patch, way)
        for size in range(1, 8):
            factor = ToeplitzRoot(size)
            signed = (h for h in itertools.product(range(-most, most + 1), repeat=size) if sum(map(abs, h)) <= most)
            histograms = np.array(list(signed), dtype=object)
            true = ((histograms @ np.array(columns_of(factor), dtype=object)) ** 2).sum(axis=1)
            weights = np.abs(histograms).sum(axis=1)
            for histogram, norm, square, weight in zip(
                histograms, norms_of(factor, histograms), true, weights, strict=True
            ):
                assert square << PAIR_BITS <= int(norm) * factor.squared_length, f"{histogram} is too short"
                assert norm <= ONE_PAIR * weight**2, f"{histogram} is longer than its weight"
                if histogram[0] and abs(histogram[0]) == weight:
                    assert square == weight**2 * factor.squared_length, "the longest column is the first"
                    assert norm == ONE_PAIR * weight**2


@every_way
def test_all_small_units_are_bounded_and_single_values_attain_it(way: str) -> None:
    check_all_units(way)


def diagonal_alone(_: Any, groups: np.ndarray, values: np.ndarray, sizes: np.ndarray, *rest: Any) -> np.ndarray:
    return ONE_PAIR * sizes.astype(np.float64) ** 2


def rounded_down(_: Any, entries: np.ndarray, factor: ToeplitzRoot) -> np.ndarray:
    return (entries << PAIR_BITS) // factor.squared_length


def end_of_the_step(exact: Any, factor: ToeplitzRoot, distance: int) -> np.ndarray:
    """Entries of the last distance that is in the same step."""
    last = max(each for each in range(distance, factor.size) if step(each) == distance)
    return np.append(exact(factor, last), np.zeros(last - distance, dtype=np.int64))


def of_the_earlier_value(exact: Any, steps: Any, earlier: np.ndarray, later: np.ndarray) -> np.ndarray:
    """How far the earlier value is from the end."""
    return steps.weights[steps.of_distance[later - earlier], steps.of_distance[len(steps.of_distance) - 1 - earlier]]


def without_gains(_: Any, factor: ToeplitzRoot, distance: int) -> np.ndarray:
    column, count = factor.coefficients, factor.size - distance
    return np.cumsum(column[:count] * column[distance:]) << 2 * GAIN_BITS


def first_value_first(exact: Any, factor: ToeplitzRoot, distance: int) -> np.ndarray:
    return exact(factor, distance)[::-1]


def missed_first_step(exact: Any, factor: ToeplitzRoot) -> Any:
    """Neighbours count like values that are two apart."""
    steps = exact(factor)
    weights = steps.weights.copy()
    weights[1:2] = weights[2:3] if len(weights) > 2 else 0
    return steps._replace(weights=weights)


def around(name: str, faulty: Any, way: str) -> Fault:
    return laws.around(value_lengths, name, faulty, "is too short", way)


test_planted_faults_are_found = laws.mutants(
    {
        "matrices without cross terms": around("pair_up", diagonal_alone, "by matrix"),
        "steps without cross terms": around("squares_by_lag", diagonal_alone, "by step"),
        "totals without cross terms": around("_squares_by_total", diagonal_alone, "by total"),
        "pairs rounded down": around("_shares", rounded_down, "by pair"),
        "steps rounded down": around("_shares", rounded_down, "by step"),
        "steps at their end": around("_entries", end_of_the_step, "by step"),
        "totals of steps at their end": around("_entries", end_of_the_step, "by total"),
        "entries without gains": around("_entries", without_gains, "by matrix"),
        "entries in the wrong order": around("_entries", first_value_first, "by total"),
        "pairs in the wrong order": around("_entries", first_value_first, "by pair"),
        "a step left out": around("_steps", missed_first_step, "by total"),
        "the earlier value's end": laws.around(
            value_lengths._StepWeights, "weights_of", of_the_earlier_value, "is too short", "by step"
        ),
    },
    check_all_units,
    intact=False,
)


@st.composite
def net_weights(draw: st.DrawFn, largest: int, values: int) -> Any:
    """A factor, groups, their units, and rows with the sizes of net weights; in any order within them."""
    factor, size = ToeplitzRoot(draw(st.integers(1, values))), draw(st.integers(1, 60))
    of_size = {"min_size": size, "max_size": size}
    groups = np.sort(np.unique(draw(st.lists(st.integers(0, 4), **of_size)), return_inverse=True)[1])
    count = int(groups.max()) + 1
    units = np.cumsum([0, *draw(st.lists(st.integers(0, 1), min_size=count - 1, max_size=count - 1))])
    cells = st.lists(st.integers(0, factor.size - 1), **of_size)
    sizes = st.lists(st.integers(0, largest), **of_size)
    drawn = draw(st.lists(st.tuples(st.integers(1, 9), cells, sizes), min_size=1, max_size=2))
    rows = [Row(number, *(np.array(each, dtype=np.int64) for each in of_row)) for number, *of_row in drawn]
    return factor, groups, units, rows


def exact_norms(factor: ToeplitzRoot, groups: np.ndarray, units: np.ndarray, rows: list[Row], way: str) -> list[int]:
    norms, weights = [0] * (int(units[-1]) + 1), weights_of_pairs(factor, way)
    for numerator, cells, sizes in rows:
        sums: dict[int, dict[int, int]] = defaultdict(lambda: defaultdict(int))
        for group, cell, size in zip(groups.tolist(), cells.tolist(), sizes.tolist(), strict=True):
            sums[group][cell] += size
        for group, added in sums.items():
            square = sum(weights[i][j] * size * other for i, size in added.items() for j, other in added.items())
            norms[int(units[group])] += numerator * square
    return norms


@pytest.mark.one_fast_case
@every_way
@pytest.mark.parametrize("largest", [9, 1000, scaling.MAX_ITEM_WEIGHT << 24])
@given(data=st.data())
def test_squared_norms_are_exact_below_2_to_53_and_close_above(way: str, largest: int, data: Any) -> None:
    drawn = data.draw(net_weights(largest, 60))
    with pytest.MonkeyPatch.context() as patch:
        take(patch, way)
        found, expected = value_lengths.squared_norms(*drawn), exact_norms(*drawn, way)
    for norm, exact in zip(found.tolist(), expected, strict=True):
        assert norm == exact if exact < 1 << 53 else norm >= 1 << 53
        assert abs(Fraction(norm) - exact) <= exact * ONE_IN_32_MILLION


@every_way
@given(data=st.data())
def test_a_length_is_that_of_all_rows_but_for_rounding(way: str, data: Any) -> None:
    """From rows, not from G."""
    factor = ToeplitzRoot(data.draw(st.integers(1, 60)))
    sizes = np.array(data.draw(st.lists(st.integers(0, 1000), min_size=factor.size, max_size=factor.size)))
    with pytest.MonkeyPatch.context() as patch:
        take(patch, way)
        squared = Fraction(norms_of(factor, [sizes])[0]) / ONE_PAIR
    true, weight = Fraction(squared_rows(factor, sizes), factor.squared_length), int(sizes.sum())
    assert true <= squared <= weight**2
    assert way in ("by step", "by total") or squared <= true + Fraction(weight**2, ONE_PAIR)


@every_way
@given(data=st.data())
def test_larger_sizes_are_never_shorter(way: str, data: Any) -> None:
    factor = ToeplitzRoot(data.draw(st.integers(1, 60)))
    of_values = st.lists(st.integers(0, 100), min_size=factor.size, max_size=factor.size)
    sizes, more = np.array(data.draw(of_values)), np.array(data.draw(of_values))
    with pytest.MonkeyPatch.context() as patch:
        take(patch, way)
        shorter, longer = norms_of(factor, [sizes, sizes + more])
    assert shorter <= longer


@every_way
@given(data=st.data())
def test_scaled_weights_keep_the_guarantee(way: str, data: Any) -> None:
    """With signs, over two keys, rounded down."""
    factor, limit = ToeplitzRoot(data.draw(st.integers(1, 9))), data.draw(st.integers(1, 12))
    of_key = st.lists(st.integers(-9, 9), min_size=factor.size, max_size=factor.size)
    weights = np.array(data.draw(st.tuples(of_key, of_key)))
    groups, cells = np.indices(weights.shape).reshape(2, -1)
    with pytest.MonkeyPatch.context() as patch:
        take(patch, way)
        row = Row(1, cells, np.abs(weights).reshape(-1))
        norms = value_lengths.squared_norms(factor, groups, np.zeros(2, dtype=np.int64), [row])
    kept = scaling.factors(norms, limit, ONE_PAIR)[0]
    added = np.sign(weights) * scaling.scaled(np.abs(weights), kept, 8)
    assert sum(squared_rows(factor, each) for each in added) <= (limit << 8) ** 2 * factor.squared_length
    assert kept == scaling.NO_SCALING or np.abs(weights).sum() > limit


def values_of(spread: str, size: int, count: int, rng: np.random.Generator) -> np.ndarray:
    """Values of a unit: anywhere, at equal distances, or close to a place."""
    if spread == "anywhere":
        return rng.integers(0, size, count)
    if spread == "at equal distances":
        return np.linspace(0, size - 1, count).astype(np.int64)
    place = {"close to the first": 0.02, "in the middle": 0.5, "close to the last": 0.98}[spread]
    return np.clip(size * place + size / 40 * rng.standard_normal(count), 0, size - 1).astype(np.int64)


SPREADS = ["anywhere", "at equal distances", "close to the first", "in the middle", "close to the last"]


@pytest.mark.parametrize("size", [600, 2100, 4096])
@pytest.mark.parametrize("spread", SPREADS)
def test_a_unit_over_many_values_is_bounded_closely(size: int, spread: str) -> None:
    factor, rng = ToeplitzRoot(size), np.random.default_rng(size)
    counts = [1, 2, 3, 5, 12, 64, 65, 200, 3000]
    cells = [values_of(spread, size, count, rng) for count in counts]
    sizes = [rng.integers(1, 100, count) for count in counts]
    groups, units = np.repeat(np.arange(len(counts)), counts), np.arange(len(counts))
    rows = [Row(1, np.concatenate(cells), np.concatenate(sizes))]
    found = value_lengths.squared_norms(factor, groups, units, rows)
    for norm, where, added in zip(found.tolist(), cells, sizes, strict=True):
        true = squared_rows(factor, np.bincount(where, added, size).astype(np.int64)) << PAIR_BITS
        assert true <= int(norm) * factor.squared_length
        assert norm <= ONE_PAIR * int(added.sum()) ** 2
        closely = 1.07 if size > value_lengths.MAX_DENSE else 1.001
        assert int(norm) * factor.squared_length <= true * closely**2


def test_steps_cover_the_largest_factors() -> None:
    """Each step's weight is at least each entry that it stands for: pairs of random values, and of the last ones."""
    for size in (1 << 17, 100_003):
        factor, rng = ToeplitzRoot(size), np.random.default_rng(1)
        steps, column = value_lengths._steps(factor), factor.coefficients
        for _ in range(100):
            earlier, later = np.sort(size - 1 - (rng.integers(0, size, 2) >> rng.integers(0, 17, 2)))
            after = size - later
            entry = int(column[:after] @ column[later - earlier : size - earlier])
            entry *= int(factor.gains[earlier]) * int(factor.gains[later])
            weight = int(steps.weights_of(np.array([earlier]), np.array([later]))[0])
            assert entry << PAIR_BITS <= weight * factor.squared_length
            assert weight <= ONE_PAIR


def test_a_unit_with_very_many_values_is_bounded() -> None:
    factor, rng = ToeplitzRoot(1 << 17), np.random.default_rng(2)
    sizes = rng.integers(0, 4, factor.size) * (rng.random(factor.size) < 0.8)
    norm = int(norms_of(factor, [sizes])[0])
    true = sum(row * row for row in factor.rows(sizes).tolist()) << PAIR_BITS
    assert true <= norm * factor.squared_length * (1 + ONE_IN_32_MILLION)
    assert norm * factor.squared_length <= true * 1.07**2


def test_totals_that_do_not_fit_count_as_if_on_one_value() -> None:
    factor, heavy = ToeplitzRoot(4096), np.full(200, 1 << 55)
    sizes = np.concatenate([heavy, np.ones(200, dtype=np.int64)])
    groups, cells = np.repeat([0, 1], 200), np.tile(np.arange(200), 2)
    found = value_lengths.squared_norms(factor, groups, np.arange(2), [Row(1, cells, sizes)]).tolist()
    assert found[0] == float(ONE_PAIR * int(heavy.astype(object).sum()) ** 2)
    assert found[1] == norms_of(factor, [np.repeat([1, 0], [200, 3896])])[0]


@pytest.mark.parametrize("size", [300, 5000])
def test_other_units_never_change_a_last_bit(size: int) -> None:
    """Also where squares are above 2^53, and not exact."""
    factor, rng = ToeplitzRoot(size), np.random.default_rng(3)
    counts = np.append(rng.integers(1, 200, 40), 3000)
    groups = np.repeat(np.arange(41), counts)
    cells, sizes = rng.integers(0, size, len(groups)), rng.integers(0, np.repeat(1 << rng.integers(1, 50, 41), counts))
    units = np.arange(41) // 2
    together = value_lengths.squared_norms(factor, groups, units, [Row(3, cells, sizes)])
    for unit in range(21):
        own = units[groups] == unit
        row, of_unit = Row(3, cells[own], sizes[own]), np.zeros((units == unit).sum(), dtype=np.int64)
        alone = value_lengths.squared_norms(factor, groups[own] - 2 * unit, of_unit, [row])
        assert alone.tolist() == [together[unit]]


@every_way
def test_no_input_has_no_norms(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    take(monkeypatch, way)
    nothing = np.zeros(0, dtype=np.int64)
    row = Row(1, nothing, nothing)
    assert value_lengths.squared_norms(ToeplitzRoot(8), nothing, nothing, [row]).tolist() == []


def test_windows_over_time_have_the_same_units() -> None:
    assert over_time.PAIR_BITS == PAIR_BITS
    assert over_time.MAX_DENSE == value_lengths.MAX_DENSE
    assert pairs._MAX_TOTAL**2 << PAIR_BITS - pairs._HALF_BITS < 1 << 53
