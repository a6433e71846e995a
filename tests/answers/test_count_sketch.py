"""Released CountSketch against the truth: unbiased Huber means, intervals, top k.

Statistical tests: exact binomial tests with a false alarm of at most 1e-9 each, and each is shown to be able to fail.
"""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from beam_dpsketch import CountMin, CountSketch, Frequency, PrivacySpec, RecordBounds, ReleaseTerms, SketchSpec, release
from beam_dpsketch.answers.rows import Intervals
from tests.helpers import by_hand, coverage, derivations, strategies
from tests.helpers.raw import raw_of


def _scaled(factor):
    """Intervals of another width around the same estimates."""

    def interval(released, items):
        found = released.interval(items, 0.95)
        middle, half = (found.lower + found.upper) / 2, (found.upper - found.lower) / 2
        return Intervals(middle, middle - half * factor, middle + half * factor)

    return interval


_METHODS = {"0.95": _scaled(1), "0.99": lambda released, items: released.interval(items, 0.99), "half": _scaled(0.5)}


def _check_coverage(data, noise, depth, releases):
    weights, rho = coverage.WEIGHTS[data], coverage.NOISES[noise]
    spec = SketchSpec(depth=depth, width=64)
    found = coverage.measure(CountSketch, weights, rho, _METHODS, releases=releases, spec=spec)
    assert found["0.95"].accepts(0.05)
    assert found["0.99"].accepts(0.01)
    assert found["0.95"].mean_width < found["0.99"].mean_width
    if depth >= 5:  # fewer rows do not rule out a collision with the heaviest item at 99 %
        one_row = math.sqrt(depth / (2 * rho) + float(np.square(weights).sum()) / spec.width)
        assert found["0.99"].mean_width <= 2 * 3 * one_row
    if data == "uniform":  # elsewhere, what an outlier does is not seen at half the width
        assert not found["half"].accepts(0.05)


@pytest.mark.one_fast_case
@pytest.mark.parametrize("data", coverage.WEIGHTS)
@pytest.mark.parametrize("noise", coverage.NOISES)
def test_intervals_cover_the_truth_and_are_not_vacuous(data, noise):
    _check_coverage(data, noise, depth=5, releases=150)


@pytest.mark.slow
@pytest.mark.parametrize("data", coverage.WEIGHTS)
@pytest.mark.parametrize("noise", coverage.NOISES)
@pytest.mark.parametrize("depth", [1, 4, 5, 9])
def test_intervals_cover_the_truth_at_full_size(data, noise, depth):
    _check_coverage(data, noise, depth, releases=400)


@pytest.mark.parametrize("depth", [1, 2, 3, 4, 5, 6])
def test_the_estimate_is_the_huber_mean_of_signed_cells_also_of_an_even_number(depth):
    """Clipped at the smaller of two robust scales of all cells, which is above 1.5 times the sigma of 3."""
    spec = SketchSpec(depth=depth, width=7, seed=3)
    raw = CountSketch(spec).accumulate(range(200), np.arange(200) - 50)
    quartile, middle = np.quantile(np.abs(raw.counters), (0.25, 0.5))
    scale = min(quartile / stats.norm.ppf(0.625), middle / stats.norm.ppf(0.75))
    assert scale > 1.5 * 3
    items = [5, "x", b"y", (1, ("z",)), (1 << 64) - 1]
    expected = []
    for item in items:
        rows = []
        for row in range(depth):
            column, sign = derivations.cell(derivations.fingerprint(item, "murmur3", b""), seed=3, row=row, width=7)
            rows.append(sign * int(raw.counters[row, column]))
        centre = float(np.median(rows))
        expected.append(centre + float(np.mean([min(max(row - centre, -scale), scale) for row in rows])))
    released = by_hand.without_noise(raw)
    np.testing.assert_allclose(released.estimate(items), expected)
    found = released.interval(items)
    np.testing.assert_allclose((found.lower + found.upper) / 2, expected, atol=1e-9)


def test_an_interval_is_the_same_in_every_copy_of_a_release_and_around_the_estimate():
    spec = SketchSpec(depth=5, width=64)
    raw = CountSketch(spec).accumulate(range(300), coverage.WEIGHTS["Zipf"])
    released = release(raw, ReleaseTerms(PrivacySpec(rho=Fraction(1, 100)), RecordBounds(1, max_weight=1)))
    again = type(released).from_bytes(released.to_bytes())
    for confidence in (0.5, 0.95, 1 - 0.05 / 100_000):
        found = released.interval([1, 2], confidence)
        assert found == released.interval([1, 2], confidence) == again.interval([1, 2], confidence)
        np.testing.assert_allclose(found.upper - found.estimate, found.estimate - found.lower)
    assert released.interval(1, 0.95).upper < released.interval(1, 0.99).upper < found[0].upper


def test_deleted_items_are_estimated_at_zero_and_negative_totals_are_negative():
    raw = CountSketch(SketchSpec(depth=5, width=1 << 12)).accumulate(["a", "b", "a"], [7, -3, -7])
    assert by_hand.without_noise(raw).estimate(["a", "b", "c"]).tolist() == [0, -3, 0]


@pytest.mark.parametrize("kind", strategies.KINDS)
class TestTopK:
    """The same for both sketches; without noise and almost without collisions."""

    weights: ClassVar = {"a": 5, "b": 90, "c": 40, "d": 40, 7: 60, (1, "x"): 3}

    def released(self, kind):
        raw = raw_of(kind, SketchSpec(depth=5, width=1 << 14)).accumulate(
            list(self.weights), list(self.weights.values())
        )
        return by_hand.without_noise(raw, sigma_squared_per_level=(Fraction(1, 4),))

    def items(self, kind, candidates, k):
        return [frequency.item for frequency in self.released(kind).top_k(k, candidates)]

    def test_the_largest_come_first_and_equal_ones_in_the_order_given(self, kind):
        assert self.items(kind, ["a", "b", "c", "d", 7], 4) == ["b", 7, "c", "d"]
        assert self.items(kind, ["d", "c", "a", 7, "b"], 4) == ["b", 7, "d", "c"]

    def test_ties_at_the_cut_are_cut_in_the_order_given(self, kind):
        assert self.items(kind, ["d", "c"], 1) == ["d"]

    def test_repeated_candidates_count_once(self, kind):
        assert self.items(kind, ["a", "b", "a", "b", "b"], 3) == ["b", "a"]

    def test_fewer_candidates_than_k_are_all_returned(self, kind):
        assert self.items(kind, ["a", "b"], 100) == ["b", "a"]
        assert self.items(kind, [], 1) == []

    def test_absent_candidates_are_estimated_like_any_other(self, kind):
        assert self.items(kind, ["absent", "a"], 2) == ["a", "absent"]

    def test_any_container_gives_plain_items(self, kind):
        for container in (np.array([1, 7]), pa.array([1, 7]), pa.chunked_array([[1], [7]]), iter([1, 7]), {1: 0, 7: 0}):
            (first, second) = self.items(kind, container, 2)
            assert (first, second) == (7, 1)
            assert type(first) is int

    def test_answers_agree_with_estimate_and_interval(self, kind):
        released, items = self.released(kind), ["b", 7, "c"]
        answers = released.interval(items, 0.9)
        assert all(isinstance(answer, Frequency) for answer in answers)
        assert released.top_k(3, items, 0.9) == answers == released.top_k(3, items, confidence=0.9)
        assert released.as_rows(items, confidence=0.9) == [answer._asdict() for answer in answers]
        if kind is not CountMin:
            np.testing.assert_array_equal(answers.estimate, released.estimate(items))
        for item, row in zip(items, answers, strict=True):
            assert released.interval(item, 0.9) == row
            assert released.as_rows(item, 0.9) == [row._asdict()]
            assert type(released.estimate(item)) is float
            assert released.estimate(item) == released.estimate([item])[0]

    def test_a_list_without_candidates_is_refused(self, kind):
        with pytest.raises(ValueError, match=r"candidates must be given, .* PrivateTopK"):
            self.released(kind).top_k(3)

    @pytest.mark.parametrize(("k", "error"), [(0, ValueError), (-1, ValueError), (1.0, TypeError), (True, TypeError)])
    def test_k_is_a_positive_whole_number(self, kind, k, error):
        with pytest.raises(error, match="k must be"):
            self.items(kind, ["a"], k)


@pytest.mark.slow
@pytest.mark.parametrize("number", [200, 20_000])
def test_lists_of_the_largest_favour_what_noise_raised_and_divided_failure_covers_them_all(number):
    """Of 200 or 20,000 equal items, in 100 releases: the 5 listed are the luckiest, and few of their intervals hold.

    All intervals hold together in at least 95 %: fewer than 74 of 100 has probability < 1e-9.
    """
    items, listed, all_hold = np.arange(number), 0, 0
    spec, truth = SketchSpec(depth=5, width=1 << 13), 50
    for seed in range(100):
        raw = CountSketch(dataclasses.replace(spec, seed=seed)).accumulate(items, [truth] * len(items))
        released = release(raw, ReleaseTerms(PrivacySpec(rho=Fraction(1, 1000)), RecordBounds(1, max_weight=1)))
        listed += sum(each.lower <= truth <= each.upper for each in released.top_k(5, items))
        found = released.interval(items, 1 - 0.05 / len(items))
        all_hold += bool(((found.lower <= truth) & (truth <= found.upper)).all())
    assert listed < 0.5 * 5 * 100
    assert all_hold >= 74
