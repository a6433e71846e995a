"""Released Count-Min against the truth: both guarantees, both methods, intervals, order of answers.

Statistical tests: exact binomial tests with a false alarm of at most 1e-9 each, and each is shown to be able to fail.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from beam_dpsketch import (
    ADD_OR_REMOVE_ONE,
    REPLACE_ONE,
    CountMin,
    CountSketch,
    PrivacySpec,
    ReleaseTerms,
    SketchSpec,
    release,
)
from beam_dpsketch.answers.flat.sketches import collision_bound, noise_offset
from beam_dpsketch.answers.rows import Intervals
from tests.helpers import by_hand, coverage

_RELEASES = 400


def _accepts(failures, trials, probability):
    return stats.binomtest(int(failures), trials, probability, "greater").pvalue >= coverage.FALSE_ALARM


@pytest.fixture(scope="module")
def underestimates():
    """Which items each release underestimates, by guarantee: many items in a wide sketch, much noise."""
    spec, items = SketchSpec(depth=2, width=2048), np.arange(1500)
    truth = np.full(len(items), 3)
    found = {"simultaneous": [], "per_item": []}
    for seed in range(_RELEASES):
        raw = CountMin(SketchSpec(kind="count_min", depth=spec.depth, width=spec.width, seed=seed)).accumulate(
            np.repeat(items, 3)
        )
        released = release(raw, ReleaseTerms(PrivacySpec(rho=Fraction(1, 1000), relation=ADD_OR_REMOVE_ONE)))
        for guarantee, counts in found.items():
            estimates = released.estimate(items, guarantee=guarantee, failure_probability=0.1)
            counts.append(estimates < truth)
    return {guarantee: np.array(counts) for guarantee, counts in found.items()}


def test_simultaneous_means_no_item_at_all_is_underestimated(underestimates):
    assert _accepts(underestimates["simultaneous"].any(axis=1).sum(), _RELEASES, 0.1)


def test_the_offset_for_single_items_is_refused_by_that_check(underestimates):
    assert not _accepts(underestimates["per_item"].any(axis=1).sum(), _RELEASES, 0.1)


def test_per_item_means_each_item_is_rarely_underestimated(underestimates):
    """One item a release: the trials are independent."""
    assert _accepts(underestimates["per_item"][:, 0].sum(), _RELEASES, 0.1)
    assert underestimates["per_item"].any()


def test_offsets_are_the_published_formulas():
    """The paper's E with the actual depth, width and sigma; a union bound over an item's rows and the deciding one."""
    spec = SketchSpec(depth=4, width=100)
    simultaneous = noise_offset(spec, Fraction(25), failure_probability=0.01, guarantee="simultaneous")
    per_item = noise_offset(spec, Fraction(25), failure_probability=0.01, guarantee="per_item")
    assert simultaneous == pytest.approx(5 * math.sqrt(2 * math.log(4 * 400 / 0.01)))
    assert per_item == pytest.approx(5 * math.sqrt(2 * math.log((4 + 1) / 0.01)))
    assert per_item < simultaneous


def test_the_offset_of_combined_releases_is_of_their_summed_noise_and_added_once():
    spec = SketchSpec(depth=1, width=4)
    first = by_hand.released(CountMin, spec, [[100] * 4])
    second = by_hand.released(CountMin, spec, [[50] * 4], release_ids=(bytes(48),))
    offset = noise_offset(spec, Fraction(18), failure_probability=0.01, guarantee="simultaneous")
    assert first.combine(second).estimate(["a"]).tolist() == [150 + offset]


def _methods():
    return {
        "0.95": lambda released, items: released.interval(items, 0.95),
        "0.99": lambda released, items: released.interval(items, 0.99),
        "per item": lambda released, items: released.interval(items, 0.95, guarantee="per_item"),
        "no collisions": lambda released, items: _without(released, items, "collisions"),
        "no noise": lambda released, items: _without(released, items, "noise"),
    }


def _without(released, items, part):
    """A deliberately wrong interval, to show that coverage is measured."""
    estimates = released.estimate(items, failure_probability=0.025)
    offset = noise_offset(
        released.spec, released.privacy.sigma_squared, failure_probability=0.025, guarantee="simultaneous"
    )
    if part == "collisions":
        return Intervals(estimates, estimates - 2 * offset, estimates)
    collisions = collision_bound(
        released.counters, released.spec, released.privacy.sigma_squared, failure_probability=0.025
    )
    return Intervals(estimates, estimates - offset - collisions, estimates - offset)


def _check_coverage(data, noise, releases):
    weights, rho = coverage.WEIGHTS[data], coverage.NOISES[noise]
    found = coverage.measure(CountMin, weights, rho, _methods(), releases=releases)
    assert found["0.95"].accepts(0.05)
    assert found["0.99"].accepts(0.01)
    assert found["per item"].accepts(0.05)
    assert found["per item"].mean_width < found["0.95"].mean_width < found["0.99"].mean_width
    sigma = math.sqrt(5 / (2 * rho))
    assert found["0.99"].mean_width <= 12 * sigma + 4 * weights.sum() / coverage.SPEC.width
    if data == "uniform":
        wrong = "no collisions" if noise == "little noise" else "no noise"
        assert not found[wrong].accepts(0.05)


@pytest.mark.one_fast_case
@pytest.mark.parametrize("data", coverage.WEIGHTS)
@pytest.mark.parametrize("noise", coverage.NOISES)
def test_intervals_cover_the_truth_and_are_not_vacuous(data, noise):
    _check_coverage(data, noise, releases=300)


@pytest.mark.slow
@pytest.mark.parametrize("data", coverage.WEIGHTS)
@pytest.mark.parametrize("noise", coverage.NOISES)
def test_intervals_cover_the_truth_at_full_size(data, noise):
    _check_coverage(data, noise, releases=2_000)


def _centred(confidence, factor=1.0):
    def interval(released, items):
        found = released.interval(items, confidence, method="centred")
        below, above = found.estimate - found.lower, found.upper - found.estimate
        return Intervals(found.estimate, found.estimate - factor * below, found.estimate + factor * above)

    return interval


@pytest.mark.slow
@pytest.mark.parametrize("data", coverage.WEIGHTS)
@pytest.mark.parametrize("noise", coverage.NOISES)
@pytest.mark.parametrize("depth", [1, 5, 6])
def test_centred_intervals_cover_the_truth_and_are_not_vacuous(data, noise, depth):
    weights, rho = coverage.WEIGHTS[data], coverage.NOISES[noise]
    spec = SketchSpec(kind="count_min", depth=depth, width=64)
    methods = {
        "0.95": _centred(0.95),
        "0.99": _centred(0.99),
        "half": _centred(0.95, factor=0.5),
        "minimum": lambda released, items: released.interval(items, 0.95, guarantee="per_item"),
    }
    found = coverage.measure(CountMin, weights, rho, methods, releases=300, spec=spec)
    assert found["0.95"].accepts(0.05)
    assert found["0.99"].accepts(0.01)
    assert found["0.95"].mean_width < found["0.99"].mean_width
    if noise == "much noise" and depth > 1:  # one row alone averages nothing
        assert found["0.95"].mean_width < 0.6 * found["minimum"].mean_width
    if data == "uniform":  # elsewhere, what an outlier does is not seen at half the width
        assert not found["half"].accepts(0.05)


def test_the_centred_estimate_is_the_huber_mean_of_rows_without_their_medians():
    raw = CountMin(SketchSpec(kind="count_min", depth=4, width=8)).accumulate(range(300), np.arange(300) ** 2)
    released = by_hand.without_noise(raw)
    items = [3, "x", b"y", (1, "z")]
    centred = raw.counters - np.median(raw.counters, axis=1, keepdims=True)
    scale = min(np.quantile(np.abs(centred), (0.25, 0.5)) / stats.norm.ppf((0.625, 0.75)))
    assert scale > 1.5 * 3
    expected = []
    for item in items:
        rows = centred[CountMin(raw.spec).accumulate([item]).counters.astype(bool)]
        middle = np.median(rows)
        expected.append(middle + np.mean(np.clip(rows - middle, -scale, scale)))
    np.testing.assert_allclose(released.estimate(items, method="centred"), expected)
    assert released.estimate(3, method="centred") == released.estimate([3], method="centred")[0]
    found = released.interval(items, 0.9, method="centred")
    np.testing.assert_allclose(found.estimate, expected)
    assert released.as_rows(items, 0.9, method="centred") == found.to_rows()
    assert released.interval(3, 0.9, method="centred") == found[0]
    best = released.top_k(2, [*items, 3], 0.9, method="centred")
    assert list(best) == sorted(found, key=lambda row: -row.estimate)[:2]


def test_the_minimum_stays_the_default():
    released = by_hand.without_noise(CountMin(SketchSpec(kind="count_min", depth=4, width=8)).accumulate(range(50)))
    items = [1, 2, 3]
    assert released.estimate(items, method="minimum").tolist() == released.estimate(items).tolist()
    assert released.interval(items, method="minimum") == released.interval(items)
    assert released.as_rows(items, method="minimum") == released.as_rows(items)
    assert released.top_k(2, items, method="minimum") == released.top_k(2, items)


@pytest.mark.parametrize("data", ["a single heavy item", "uniform"])
def test_centred_is_less_noisy_than_a_count_sketch_under_replacement_only(data):
    """Mean squares over 300 items and 40 releases each, mostly noise: 1/2 under REPLACE_ONE, 1 otherwise.

    A ratio moves by some 2 %: the limits are ten times that away.
    """
    weights = coverage.WEIGHTS[data]
    items = np.arange(len(weights)).astype(np.uint64)

    def mean_square(kind, relation, **method):
        squares = []
        for seed in range(40):
            spec = SketchSpec(kind=kind.name, depth=5, width=1024, seed=seed)
            raw = kind(spec).accumulate_keys(items, weights)
            released = release(raw, ReleaseTerms(PrivacySpec(rho=Fraction(1, 40_000), relation=relation)))
            squares.append(np.mean((released.estimate(items, **method) - weights) ** 2))
        return np.mean(squares)

    ratios = {
        relation: mean_square(CountMin, relation, method="centred") / mean_square(CountSketch, relation)
        for relation in (REPLACE_ONE, ADD_OR_REMOVE_ONE)
    }
    assert 0.4 < ratios[REPLACE_ONE] < 0.7 < ratios[ADD_OR_REMOVE_ONE] < 1.4


def test_collisions_are_bounded_by_markov_in_every_row():
    """With next to no noise: a total of 640 in 64 columns is 10 a cell, times the root of the failure probability."""
    spec = SketchSpec(depth=2, width=64)
    bound = collision_bound(np.full((2, 64), 10), spec, Fraction(1, 10**12), failure_probability=0.02)
    assert bound == pytest.approx(10 * 0.01 ** (-1 / 2), rel=1e-3)


def test_a_negative_noisy_total_gives_no_negative_bound():
    spec = SketchSpec(depth=2, width=64)
    assert collision_bound(np.full((2, 64), -(10**6)), spec, Fraction(1), failure_probability=0.02) == 0.0


def test_the_estimate_is_the_minimum_over_rows_and_the_upper_bound_is_the_estimate():
    raw = CountMin(SketchSpec(kind="count_min", depth=4, width=8)).accumulate(range(50))
    released = by_hand.without_noise(raw)
    items = [3, "x", b"y", (1, "z")]
    truth = CountMin(raw.spec).accumulate(items).counters
    assert truth.sum() == 16
    minimum = [
        min(raw.counters[CountMin(raw.spec).accumulate([item]).counters.astype(bool)].tolist()) for item in items
    ]
    offset = noise_offset(raw.spec, Fraction(9), failure_probability=0.01, guarantee="simultaneous")
    np.testing.assert_allclose(released.estimate(items), np.array(minimum) + offset)
    rows = released.as_rows(items)
    assert [row["item"] for row in rows] == items
    assert all(row["lower"] < row["estimate"] == row["upper"] for row in rows)


def test_answers_take_any_container_and_none_at_all():
    released = by_hand.without_noise(CountMin(SketchSpec(kind="count_min", depth=4, width=8)).accumulate(range(50)))
    expected = released.estimate([1, 2])
    for container in (np.array([1, 2], dtype=np.uint8), pa.array([1, 2]), iter([1, 2]), (1, 2)):
        np.testing.assert_array_equal(released.estimate(container), expected)
    assert released.estimate([]).shape == (0,)
    assert len(released.interval([])) == 0
    assert released.as_rows([]) == []
    assert released.estimate([1]).dtype == np.float64
    single = released.estimate(1, guarantee="per_item")
    assert [single] == released.estimate([1], guarantee="per_item").tolist()
    assert released.interval(1, 0.9, guarantee="per_item") == released.interval([1], 0.9, guarantee="per_item")[0]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda it: it.estimate(["a"], guarantee="always"), "guarantee must be one of 'simultaneous', 'per_item'"),
        (lambda it: it.estimate(["a"], failure_probability=0), "failure_probability must be greater than 0"),
        (lambda it: it.interval(["a"], 1.0), "confidence must be greater than 0 and less than 1"),
        (lambda it: it.interval(["a"], math.nan), "confidence must be greater"),
        (lambda it: it.interval(["a"], guarantee="x"), "guarantee must be one of"),
        (lambda it: it.top_k(1), "candidates must be given"),
        (lambda it: it.as_rows(["a"], confidence=0), "confidence must be greater"),
        (lambda it: it.top_k(0, ["a"]), "k must be between 1"),
        (lambda it: it.estimate(["a"], method="median"), "method must be one of 'minimum', 'centred'"),
        (lambda it: it.interval(["a"], method="median"), "method must be one of 'minimum', 'centred'"),
        (lambda it: it.as_rows(["a"], method="median"), "method must be one of 'minimum', 'centred'"),
        (lambda it: it.top_k(1, ["a"], method="median"), "method must be one of 'minimum', 'centred'"),
        (lambda it: it.top_k(0, ["a"], method="centred"), "k must be between 1"),
        (lambda it: it.top_k(1, method="centred"), "candidates must be given"),
        (lambda it: it.interval(["a"], 1.0, method="centred"), "confidence must be greater than 0 and less than 1"),
        (
            lambda it: it.estimate(["a"], method="centred", guarantee="per_item"),
            'guarantee is of method="minimum" only: leave it out with method="centred"',
        ),
        (
            lambda it: it.estimate(["a"], method="centred", failure_probability=0.01),
            'failure_probability is of method="minimum" only: leave it out with method="centred"',
        ),
        (
            lambda it: it.interval(["a"], method="centred", guarantee="simultaneous"),
            'guarantee is of method="minimum" only: leave it out with method="centred"',
        ),
    ],
)
def test_questions_that_mean_nothing_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call(by_hand.released(CountMin, SketchSpec(depth=1, width=1), [[0]]))
