"""Sampling copies is sampling records without replacement, whatever the numbers, and takes no memory for copies."""

from __future__ import annotations

import itertools
import math
import os
import tracemalloc
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from beam_dpsketch.exact.bounding import record_rule as module
from beam_dpsketch.exact.bounding.record_rule import _binomial_table, sample_copies

# Nominal level of chi-square tests with >= 50 expected counts: at most 1e-9 with the approximation.
LEVEL = 1e-10


def from_the_system(places: np.ndarray, _: int) -> np.ndarray:
    return np.frombuffer(os.urandom(8 * len(places)), dtype=np.uint64)


@given(
    st.lists(st.tuples(st.integers(0, 4), st.one_of(st.integers(0, 5), st.integers(0, (1 << 32) - 1)))),
    st.one_of(st.integers(1, 9), st.integers(1, 1 << 31)),
)
def test_as_many_copies_are_kept_as_there_is_room_for(records: list[tuple[int, int]], most: int) -> None:
    groups, copies = np.array(records, dtype=np.int64).reshape(-1, 2).T
    kept = sample_copies(groups, copies, most, from_the_system)
    assert (kept >= 0).all()
    assert (kept <= copies).all()
    for group in set(groups.tolist()):
        assert kept[groups == group].sum() == min(most, copies[groups == group].sum())


def p_value(copies: list[int], most: int, groups: int = 20_000) -> float:
    """Chi-square of what many equal groups keep against every choice of copies; rare ones are taken as one."""
    of = np.repeat(np.arange(groups), len(copies))
    kept = sample_copies(of, np.tile(np.array(copies), groups), most, from_the_system).reshape(groups, -1)
    found = Counter(map(tuple, kept.tolist()))
    records = np.repeat(np.arange(len(copies)), copies).tolist()
    choices = Counter(
        tuple(np.bincount(chosen, minlength=len(copies)).tolist()) for chosen in itertools.combinations(records, most)
    )
    assert set(found) <= set(choices)
    expected = {choice: groups * times / choices.total() for choice, times in choices.items()}
    common = [choice for choice in choices if expected[choice] >= 100]
    counts, theirs = [found[choice] for choice in common], [expected[choice] for choice in common]
    if groups - sum(theirs) >= 100:
        counts, theirs = [*counts, groups - sum(counts)], [*theirs, groups - sum(theirs)]
    return float(stats.chisquare(counts, theirs, sum_check=False).pvalue)


@pytest.mark.one_fast_case
@pytest.mark.parametrize("copies", [[1, 1, 1, 1], [3, 1, 2], [7, 1], [0, 5, 5, 2], [8, 8]], ids=str)
def test_every_choice_of_copies_is_as_likely_as_any_other(copies: list[int]) -> None:
    """False alarm <= 1e-9 each."""
    for most in {1, sum(copies) // 2}:
        assert p_value(copies, most) >= LEVEL


def test_the_comparison_can_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    """With halves that are as even as can be, some choices are too frequent."""
    monkeypatch.setattr(
        module,
        "_draw_halves",
        lambda counts, places, digit, bits: (counts + (bits(places, 0) % np.uint64(2)).astype(int)) // 2,
    )
    assert p_value([3, 1, 2], 3) < LEVEL


@pytest.mark.one_fast_case
@pytest.mark.parametrize(
    ("copies", "most"), [((900_000, 100_000), 400_000), ((1 << 31, 1 << 30), (1 << 31) - 1), ((5, 1 << 31), 1 << 30)]
)
def test_large_numbers_have_the_mean_and_the_variance_of_theory(copies: tuple[int, int], most: int) -> None:
    """6.5 standard errors each: false alarm <= 1e-9, by the normal approximation of sums of 20,000."""
    groups = 20_000
    of = np.repeat(np.arange(groups), 2)
    kept = sample_copies(of, np.tile(np.array(copies), groups), most, from_the_system).reshape(-1, 2)
    assert (kept.sum(axis=1) == most).all()
    share, total = copies[0] / sum(copies), sum(copies)
    mean, variance = most * share, most * share * (1 - share) * (total - most) / (total - 1)
    centred = (kept[:, 0] - mean) / math.sqrt(variance)
    for sample, theory in ((centred, 0), (centred**2, 1)):
        assert abs(sample.mean() - theory) <= 6.5 * sample.std() / math.sqrt(groups)


@pytest.mark.one_fast_case
@pytest.mark.parametrize("power", range(13))
def test_tables_are_binomial_to_the_last_bit_but_one(power: int) -> None:
    low, thresholds = _binomial_table(power)
    n, below = 1 << power, 0
    sums = list(itertools.accumulate(math.comb(n, value) for value in range(n + 1)))
    for value, threshold in enumerate(thresholds.tolist(), low):
        assert abs(threshold - (sums[value] << 64 >> n)) <= 2
        below = value
    assert n - below - 1 <= low + 1
    assert low == 0 or sums[low - 1] << 64 >> n <= 1


def test_a_large_table_is_the_binomial_distribution() -> None:
    low, thresholds = _binomial_table(26)
    values = low + np.arange(len(thresholds))
    expected = stats.binom(1 << 26, 0.5).cdf(values)
    np.testing.assert_allclose(thresholds / 2.0**64, expected, rtol=0, atol=1e-11)


def test_what_a_group_keeps_is_a_function_of_its_words() -> None:
    """In whatever place among whatever others."""

    def bits(names: np.ndarray) -> module.UniformBits:
        return lambda places, number: np.array(
            [hash((int(name), number)) * 0x9E3779B97F4A7C15 % (1 << 64) for name in names[places]], dtype=np.uint64
        )

    names, groups, copies = np.arange(12), np.repeat([0, 1, 2], 4), np.arange(5, 17)
    kept = dict(zip(names.tolist(), sample_copies(groups, copies, 9, bits(names)).tolist(), strict=True))
    order = np.array([7, 4, 6, 5])
    alone = sample_copies(groups[order], copies[order], 9, bits(names[order]))
    assert dict(zip(order.tolist(), alone.tolist(), strict=True)) == {name: kept[name] for name in order.tolist()}


def test_memory_is_that_of_records_and_not_of_copies() -> None:
    copies = np.full(20, 1_000_000)
    sample_copies(np.zeros(20, dtype=int), copies, 1_000_000, from_the_system)  # which makes the tables
    tracemalloc.start()
    try:
        kept = sample_copies(np.zeros(20, dtype=int), copies, 1_000_000, from_the_system)
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()
    assert kept.sum() == 1_000_000
