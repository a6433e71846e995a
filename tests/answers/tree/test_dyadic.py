"""Ranks, quantiles and ranges: exact on exact counters, and lawful on noisy ones."""

from __future__ import annotations

import dataclasses
import datetime
import functools
import itertools
import math
import pickle
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_dpsketch import (
    ADD_OR_REMOVE_ONE,
    DyadicCountSketch,
    FloatDomain,
    IncompatibleSketchError,
    IntegerDomain,
    IPv4Domain,
    PrivacySpec,
    ReleaseTerms,
    TimestampDomain,
    TreeSpec,
    release,
)
from beam_dpsketch.answers.released_sketch import ReleasedSketch
from beam_dpsketch.answers.tree import ReleasedDyadicCountSketch
from beam_dpsketch.privacy.contributions import PrivacyUnit
from beam_dpsketch.privacy.noise.keyed_randomness import KeyedRandomness
from tests.helpers import tree_data, trees

METHODS = ("chosen", "least_squares", "residual", "paper")
FITTED = METHODS[:3]

sizes = st.one_of(st.integers(1, 40), st.sampled_from([1, 2, 3, 4, 5, 15, 16, 17, 63, 64, 65, 100]))


@st.composite
def exact_data(draw: st.DrawFn) -> tuple[TreeSpec, list[int]]:
    """An exact tree over any small universe, with positions."""
    size = draw(sizes)
    spec = trees.exact_tree(size, draw(st.sampled_from([2, 4, 8, 16])))
    return spec, draw(st.lists(st.integers(0, size - 1), max_size=60))


def true_ranks(items: Any, positions: Any) -> np.ndarray:
    return np.searchsorted(np.sort(np.array(items, dtype=np.int64)), positions, side="right")


@given(drawn=exact_data(), known=st.booleans())
def test_ranks_on_exact_counters_are_those_of_numpy(drawn: tuple[TreeSpec, list[int]], known: bool) -> None:
    """Inclusive, as the paper defines rank: what is at or below."""
    spec, items = drawn
    total = float(len(items)) if known and items else None
    positions = np.arange(spec.domain.size)
    tree = trees.cumulative(spec, items, total)
    np.testing.assert_allclose(tree.rank(positions.astype(np.uint64)), true_ranks(items, positions), atol=1e-6)
    assert tree.total == pytest.approx(len(items), abs=1e-6)


@given(drawn=exact_data())
def test_quantiles_on_exact_counters_are_those_of_numpy(drawn: tuple[TreeSpec, list[int]]) -> None:
    """Asked for between whole ranks, where rounding cannot decide."""
    spec, items = drawn
    ranks = np.arange(len(items)) + 0.5
    found = trees.cumulative(spec, items).position(ranks)
    assert found.tolist() == sorted(items)
    if items:
        shares = ranks / len(items)
        assert found.tolist() == np.quantile(items, shares, method="inverted_cdf").tolist()


LAYOUTS = {
    "paper": lambda domain: TreeSpec.paper_layout(domain, depth=5, width=4096),
    "paper with Count-Min": lambda domain: TreeSpec.paper_layout(domain, depth=3, width=4096, sketch="count_min"),
    "exact, binary": lambda domain: TreeSpec.for_memory(domain, 1 << 30, arity=2),
    "exact, of 4": lambda domain: TreeSpec.for_memory(domain, 1 << 30),
    "sketched, of 8": lambda domain: TreeSpec.for_memory(domain, 1 << 18, arity=8, depth=3, exact_levels=False),
}


@pytest.mark.one_fast_case
@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 7, 8, 9, 13, 16, 17, 31, 33])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_paper_ranks_are_exact_without_noise_and_collisions_at_every_position(layout: str, size: int) -> None:
    """Also at the last one, where the algorithm as printed returns 0, and in universes of any size."""
    spec = LAYOUTS[layout](IntegerDomain(0, size - 1))
    items = [position for position in range(size) for _ in range(10 * (position % 3) + 10)]
    released = trees.without_noise(
        DyadicCountSketch(spec).accumulate(items), sigma_squared_per_level=(Fraction(1, 4),) * len(spec.levels)
    )
    positions = np.arange(size)
    truth = true_ranks(items, positions)
    assert released.rank(positions, method="paper").tolist() == truth.tolist()
    assert released.rank(size - 1, method="paper") == len(items)
    between = (np.arange(len(items)) + 0.5) / len(items)
    found = released.quantile(between, method="paper").estimate
    assert all(each in (None, true) for each, true in zip(found, sorted(items), strict=True))
    assert {*found} - {None}
    np.testing.assert_allclose(released.cdf(positions, method="paper"), truth / len(items))
    lows, highs = np.triu_indices(size)
    ranges = truth[highs] - np.where(lows > 0, truth[lows - 1], 0)
    np.testing.assert_allclose(released.range_count(lows, highs, method="paper"), ranges)
    if "Count-Min" not in layout:  # whose fitted estimates are freed of collisions that did not happen
        for method in FITTED:
            np.testing.assert_allclose(released.rank(positions, method=method), truth, atol=1e-6)


def test_public_methods_are_exact_on_exact_counters() -> None:
    items = [-3] * 100 + [0] * 200 + [40] * 700
    spec = TreeSpec.for_memory(IntegerDomain(-5, 60))
    released = trees.without_noise(
        DyadicCountSketch(spec).accumulate(items), sigma_squared_per_level=(Fraction(1, 4),) * len(spec.levels)
    )
    assert released.total_weight().estimate == pytest.approx(1000)
    for method in METHODS:
        assert released.rank([-9, -4, -3, -1, 0, 39, 40, 60, 99], method=method) == pytest.approx(
            [0, 0, 100, 100, 300, 300, 1000, 1000, 1000]
        )
        assert released.cdf(0, method=method) == pytest.approx(0.3)
        assert released.quantile([0.05, 0.25, 0.29, 0.35, 0.99], method=method).estimate == (-3, 0, 0, 40, 40)
        assert released.range_count(0, 39, method=method) == pytest.approx(200)
        assert released.range_count(1, 39, method=method) == pytest.approx(0)
        assert released.range_count(-5, 60, method=method) == pytest.approx(1000)
    assert [each.estimate for each in released.histogram([-5, 0, 1, 60])] == pytest.approx([100, 200, 700])


@st.composite
def noisy_releases(draw: st.DrawFn) -> ReleasedDyadicCountSketch:
    """Small data in any domain with little noise or much; the noise is drawn too, so that failures repeat."""
    spec = draw(trees.layouts())
    positions = draw(st.lists(st.integers(0, spec.domain.size - 1), max_size=8))
    keys = np.array(positions, dtype=np.uint64)
    weights = np.full(len(keys), draw(st.sampled_from([1, 30, 1000])), dtype=np.int64)
    counters = DyadicCountSketch(spec).accumulate_keys(keys, weights).to_vector()
    sigma = draw(st.sampled_from([1, 5, 100]))
    noise = np.random.default_rng(draw(st.integers(0, 99))).normal(0, sigma, len(counters))
    sigmas = (Fraction(sigma**2),) * len(spec.levels)
    return trees.released(spec, counters + np.rint(noise).astype(np.int64), sigma_squared_per_level=sigmas)


positions_in = st.lists(st.floats(0, 1), min_size=2, max_size=12).map(sorted)
known_totals = st.none() | st.sampled_from([1, 100.0, 1e6])


def with_total(released: ReleasedDyadicCountSketch, total: float | None) -> ReleasedDyadicCountSketch:
    return released if total is None else released.with_total(total, force=True)


def places(released: ReleasedDyadicCountSketch, shares: list[float]) -> np.ndarray:
    """Positions spread over the domain, ascending, with both ends."""
    last = released.spec.domain.size - 1
    return np.array([0, *(min(last, int(share * last)) for share in shares), last], dtype=np.uint64)


@given(released=noisy_releases(), shares=positions_in, method=st.sampled_from(FITTED), total=known_totals)
def test_ranks_and_quantiles_obey_their_laws_whatever_the_noise(
    released: ReleasedDyadicCountSketch, shares: list[float], method: str, total: float | None
) -> None:
    domain = released.spec.domain
    released = with_total(released, total)
    positions = places(released, shares)
    values = domain.values(positions)
    ranks, cdf = released.rank(values, method=method), released.cdf(values, method=method)
    whole = ranks[-1]
    slack = 1e-9 * max(1.0, whole)
    assert (np.diff(ranks) >= -slack).all()
    assert (ranks >= 0).all()
    assert method != "chosen" or released.total_weight().estimate == whole
    assert (np.diff(cdf) >= -1e-12).all()
    assert ((cdf >= 0) & (cdf <= 1)).all()
    assert cdf[-1] == 1
    if total is not None:
        assert whole == total
    estimates = released.quantile(shares, method=method).estimate
    known = [share for share, each in zip(shares, estimates, strict=True) if each is not None]
    found = domain.index([each for each in estimates if each is not None])[0]
    assert (np.diff(found.astype(object)) >= 0).all()
    for share, position in zip(known, found.tolist(), strict=True):
        here = np.array([position, max(position - 1, 0)], dtype=np.uint64)
        at, before = released.rank(domain.values(here), method=method)
        assert at >= share * whole - slack
        assert position == 0 or before <= share * whole + slack


@given(released=noisy_releases(), shares=positions_in, confidence=st.floats(0.01, 0.99), total=known_totals)
def test_intervals_hold_their_estimates_and_stay_within_limits(
    released: ReleasedDyadicCountSketch, shares: list[float], confidence: float, total: float | None
) -> None:
    domain = released.spec.domain
    values = domain.values(places(released, shares))
    released = with_total(released, total)
    top = math.inf if total is None else total
    for interval, largest in (
        (released.rank_interval(values, confidence), top),
        (released.cdf_interval(values, confidence), 1.0),
        (released.range_interval(values[:-1], values[1:], confidence), math.inf),
    ):
        estimate, lower, upper = interval.estimate, interval.lower, interval.upper
        assert (lower <= estimate + 1e-6).all()
        assert (estimate <= upper + 1e-6).all()
        assert (lower >= 0).all()
        assert (upper <= largest).all()
    found = released.quantile(shares, confidence)
    estimate, lower, upper = (domain.index(each)[0] for each in (found.estimate, found.lower, found.upper))
    assert (lower <= estimate).all()
    assert (estimate <= upper).all()


@given(released=noisy_releases(), shares=positions_in)
def test_ranges_are_differences_of_ranks_and_swapped_ends_are_refused(
    released: ReleasedDyadicCountSketch, shares: list[float]
) -> None:
    domain = released.spec.domain
    positions = places(released, shares)
    values = domain.values(positions)
    from_start = released.range_count(domain.values(np.zeros(len(values), dtype=np.uint64)), values)
    np.testing.assert_allclose(from_start, released.rank(values))
    for low, high in zip(positions.tolist(), positions[1:].tolist(), strict=False):
        first, last = domain.values(np.array([low, high], dtype=np.uint64))
        if high > low:
            for ask in (released.range_count, released.range_interval):
                with pytest.raises(ValueError, match="high must be at least low, got "):
                    ask(last, first)
        if low:
            (before,) = domain.values(np.array([low - 1], dtype=np.uint64))
            expected = released.rank(last) - released.rank(before)
            assert released.range_count(first, last) == pytest.approx(expected, abs=1e-6)


def test_positions_beyond_the_total_are_the_last_one() -> None:
    """Also where the end of the domain is empty: the upper bound of a high quantile may lie there."""
    tree = trees.cumulative(TreeSpec.for_memory(trees.ALL_64_BITS, arity=16), [5])
    assert tree.position(np.array([1.5])).tolist() == [(1 << 64) - 1]
    released = release(
        DyadicCountSketch(trees.exact_tree(1000)).accumulate([3] * 50), ReleaseTerms(PrivacySpec(rho=0.01))
    )
    assert released.quantile(1.0, 0.999).upper == 999


def test_the_estimated_total_is_the_fitted_sum_and_not_the_end_of_a_monotone_curve() -> None:
    """The monotone fit of 50, 50, 50, 20 is 42.5 everywhere: it never ends below the sum, so too high on average."""
    spec = trees.custom(IntegerDomain(0, 3), (2, "exact", 1, 0))
    released = trees.released(spec, [50, 0, 0, -30])
    assert released.total_weight().estimate == released.rank(3) == 20
    assert released.total_weight().estimate == 20
    assert released.rank([0, 1, 2]).tolist() == [20, 20, 20]
    assert trees.released(spec, [-50, 0, 0, 30]).total_weight().estimate == 0


def test_a_universe_of_one_value() -> None:
    spec = TreeSpec.for_memory(IntegerDomain(7, 7))
    released = release(DyadicCountSketch(spec).accumulate([7] * 1000), ReleaseTerms(PrivacySpec(rho=1.0)))
    for method in METHODS:
        assert released.quantile([0.0, 0.5, 1.0], method=method).estimate == (7, 7, 7)
        assert released.cdf(7, method=method) == 1
        assert released.rank(3, method=method) == released.rank(7, method=method) == pytest.approx(1000, abs=30)
    assert released.range_count(7, 7) == released.total_weight().estimate
    assert released.top_k(3).item == (7,)


def test_empty_input_has_an_answer_to_everything() -> None:
    released = trees.without_noise(DyadicCountSketch(TreeSpec.for_memory(IPv4Domain())))
    for method in METHODS:
        assert released.rank("9.9.9.9", method=method) == 0
        assert released.cdf("9.9.9.9", method=method) == 1
        assert released.quantile([0.0, 0.5, 1.0], method=method).estimate == (None,) * 3
    assert released.total_weight().estimate == 0
    assert len(released.top_k(3)) == 0
    assert released.rank_interval("9.9.9.9").lower == 0


def test_items_all_equal() -> None:
    domain = IntegerDomain(-1000, 1000)
    released = release(
        DyadicCountSketch(TreeSpec.for_memory(domain)).accumulate([17] * 10_000), ReleaseTerms(PrivacySpec(rho=1.0))
    )
    for method in METHODS:
        assert released.quantile([0.1, 0.5, 0.9], method=method).estimate == (17, 17, 17)
    assert released.range_count(17, 17) == pytest.approx(10_000, abs=100)


def test_all_64_bits() -> None:
    values = [-(1 << 63)] * 3000 + [0] * 3000 + [(1 << 63) - 1] * 3000
    spec = TreeSpec.for_memory(trees.ALL_64_BITS)
    released = release(DyadicCountSketch(spec).accumulate(values), ReleaseTerms(PrivacySpec(rho=1.0)))
    for method in METHODS:
        assert released.quantile([0.2, 0.5, 0.8], method=method).estimate == (-(1 << 63), 0, (1 << 63) - 1)
        assert released.rank((1 << 63) - 1, method=method) == pytest.approx(9000, abs=1500)
        assert released.rank([-(1 << 63), -1, 0], method=method) == pytest.approx([3000, 3000, 6000], abs=1500)


DAY = datetime.datetime(2024, 5, 1, tzinfo=datetime.UTC)
QUESTIONS = {
    "integers": (IntegerDomain(0, 100), [10] * 500 + [20] * 500, [5, 10, 30], [0, 500, 1000]),
    "addresses": (
        IPv4Domain(),
        ["10.0.0.1"] * 500 + ["20.0.0.1"] * 500,
        ["1.1.1.1", "11.1.1.1", 1 << 31],
        [0, 500, 1000],
    ),
    "floats": (FloatDomain(0, 1, 0.01), [0.1] * 500 + [0.2] * 500, [0.05, 0.1, 0.9], [0, 500, 1000]),
    "times": (
        TimestampDomain(DAY, DAY + datetime.timedelta(days=1)),
        [DAY + datetime.timedelta(hours=1)] * 500 + [DAY + datetime.timedelta(hours=2)] * 500,
        [DAY, DAY + datetime.timedelta(hours=1), DAY + datetime.timedelta(hours=9)],
        [0, 500, 1000],
    ),
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_questions_are_in_values_of_the_domain_one_or_many(name: str) -> None:
    domain, items, values, ranks = QUESTIONS[name]
    spec = TreeSpec.for_memory(domain)
    released = trees.without_noise(
        DyadicCountSketch(spec).accumulate(items), sigma_squared_per_level=(Fraction(1, 4),) * len(spec.levels)
    )
    many = released.rank(values)
    assert isinstance(many, np.ndarray)
    assert many == pytest.approx(ranks, abs=1e-3 * 1000)
    for value, rank in zip(values, many.tolist(), strict=True):
        one = released.rank(value)
        assert type(one) is float
        assert one == rank
        assert type(released.cdf(value)) is float
        assert all(type(part) is float for part in released.rank_interval(value))
    first, last = items[0], items[-1]
    assert released.quantile(0.25).estimate == domain.values(domain.index([first])[0])[0]
    assert type(released.quantile(0.25).lower) is type(released.quantile(0.25).estimate)
    assert released.range_count(first, last) == pytest.approx(1000, abs=1)
    assert released.range_count([first, last], last) == pytest.approx([1000, 500], abs=1)
    assert released.range_count(first, [first, last]) == pytest.approx([500, 1000], abs=1)
    assert len(released.range_interval(first, [first, last])) == 2
    assert released.range_interval([first, last], last).estimate == pytest.approx([1000, 500], abs=1)
    assert len(released.rank([])) == 0
    assert len(released.quantile([])) == 0


def test_columns_and_arrays_of_values_are_read() -> None:
    released = trees.without_noise(DyadicCountSketch(trees.exact_tree(10)).accumulate([3] * 100))
    expected = released.rank([1, 5]).tolist()
    for values in (np.array([1, 5], np.uint8), pa.array([1, 5]), (1, 5), iter([1, 5]), range(1, 9, 4)):
        assert released.rank(values).tolist() == expected


SMALL = functools.cache(lambda: trees.without_noise(DyadicCountSketch(trees.exact_tree(10)).accumulate([3] * 100)))


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda tree: tree.quantile(1.01), "q must be between 0 and 1"),
        (lambda tree: tree.quantile([0.5, -1e-9]), "q must be between 0 and 1"),
        (lambda tree: tree.quantile(math.nan), "q must be between 0 and 1"),
        (lambda tree: tree.rank_interval(3, 1.0), "confidence must be greater than 0 and less than 1, got 1.0"),
        (lambda tree: tree.cdf_interval(3, 0.0), "confidence must be greater than 0 and less than 1, got 0.0"),
        (lambda tree: tree.quantile(0.5, math.nan), "confidence must be greater than 0"),
        (lambda tree: tree.range_interval(1, 2, "high"), "confidence must be a number, got str"),
        (lambda tree: tree.total_weight(2), "confidence must be greater than 0"),
        (lambda tree: tree.histogram([0, 5], 1.5), "confidence must be greater than 0"),
        (lambda tree: tree.top_k(3, confidence=1.5), "confidence must be greater than 0"),
        (lambda tree: tree.rank(None), "values must be in the domain of the release"),
        (lambda tree: tree.rank("3"), "values must be in the domain of the release"),
        (lambda tree: tree.rank([3, None]), "values must be in the domain of the release"),
        (lambda tree: tree.cdf(math.nan), "values must be in the domain of the release"),
        (lambda tree: tree.range_count(1, "x"), "high must be in the domain of the release"),
        (lambda tree: tree.rank(pa.array(["a", None])), "values must be in the domain of the release"),
        (lambda tree: tree.estimate("x"), r"items must be in the domain of the release \(whole numbers\) and not null"),
        (lambda tree: tree.interval([3, None]), "items must be in the domain of the release"),
        (lambda tree: tree.histogram([1, "x"]), "edges must be in the domain of the release"),
        (lambda tree: tree.range_interval("x", 1), "low must be in the domain of the release"),
        (
            lambda tree: tree.histogram([1]),
            "edges must be at least two different values in the domain, in ascending order",
        ),
        (lambda tree: tree.histogram([3, 1]), "edges must be at least two different values"),
        (lambda tree: tree.histogram([1, 1]), "edges must be at least two different values"),
        (lambda tree: tree.histogram([50, 60]), "edges must be at least two different values"),
        (lambda tree: tree.rank(3, method="best"), "method must be one of"),
        (lambda tree: tree.quantile(0.5, method="best"), "method must be one of"),
        (lambda tree: tree.with_total(0), "total must be finite and greater than 0"),
        (lambda tree: tree.with_total(math.inf), "total must be finite and greater than 0"),
        (lambda tree: tree.with_total(-1.0), "total must be finite and greater than 0"),
        (lambda tree: tree.with_total(5, force=True).total_weight(2), "confidence must be"),
        (lambda tree: tree.top_k(0), "k must be between 1 and"),
        (lambda tree: tree.top_k(2.5), "k must be a whole number, got float"),
    ],
)
def test_bad_questions_are_refused_in_words(ask: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        ask(SMALL())


def test_histogram_bins_end_before_the_next_edge_and_the_last_with_its_own() -> None:
    items = [0] * 100 + [4] * 200 + [5] * 300 + [9] * 400
    released = trees.without_noise(DyadicCountSketch(trees.exact_tree(10)).accumulate(items))
    bins = released.histogram([0, 5, 9])
    assert [each.estimate for each in bins] == pytest.approx([300, 700])
    assert all(each.lower < each.estimate < each.upper for each in bins)
    assert released.histogram([0, 9])[0].estimate == pytest.approx(1000)
    days = released.histogram(range(11))  # ends after the domain, so that the last value has a bin of its own
    assert days.estimate.tolist() == pytest.approx(released.range_count(range(10), range(10)))
    for edges in ([12, 11], [9, 8], [8, 9, 9], [9, -1]):
        with pytest.raises(
            ValueError, match="edges must be at least two different values in the domain, in ascending order"
        ):
            released.histogram(edges)
    assert [each.estimate for each in released.histogram(list(range(10)))] == pytest.approx(
        [100, 0, 0, 0, 200, 300, 0, 0, 400]
    )


def test_items_are_asked_for_by_their_fitted_weights() -> None:
    """At a confidence of 1 - 1e-10: a false alarm of 4e-10."""
    items = [0] * 100 + [4] * 2000 + [9] * 400
    released = release(DyadicCountSketch(trees.exact_tree(10)).accumulate(items), ReleaseTerms(PrivacySpec(rho=0.5)))
    asked = [4, 3, 0, 99]
    rows = released.interval(asked, 1 - 1e-10)
    assert rows.item == (4, 3, 0, 9)  # outside the domain is clamped
    assert rows.estimate.tolist() == released.estimate(asked).tolist()
    assert ((rows.lower <= rows.estimate) & (rows.estimate <= rows.upper)).all()
    bounds = released.range_interval(asked, asked, 1 - 1e-10)
    assert (rows.lower.tolist(), rows.upper.tolist()) == (bounds.lower.tolist(), bounds.upper.tolist())
    assert all(row.lower <= items.count(row.item) <= row.upper for row in rows)
    assert released.interval(4, 1 - 1e-10) == rows[0]
    assert released.as_rows(4, 1 - 1e-10) == [rows[0]._asdict()]
    assert released.top_k(2, [9, 0, 3, 4, 9]).item == released.top_k(2).item == (4, 9)
    assert released.top_k(2, [9, 0]).detection_limit is None
    assert released.top_k(2).estimate.tolist() == pytest.approx(released.estimate([4, 9]).tolist())


def test_estimates_of_heavy_items_are_closer_than_monotone_ranges() -> None:
    """The mean square error is about a quarter. The noise is keyed, so the outcome is always the same."""
    values = np.random.default_rng(0).zipf(1.3, 20_000) * 7919 % (1 << 32)
    raw = DyadicCountSketch(TreeSpec.for_memory(IntegerDomain(0, (1 << 32) - 1))).accumulate(values)
    heavy, counts = np.unique(values, return_counts=True)
    order = np.argsort(-counts)[:10]
    errors = []
    for number in range(4):
        randomness = KeyedRandomness(b"the same noise in every run of it", b"%d" % number)
        released = release(raw, ReleaseTerms(PrivacySpec(rho=0.5)), randomness)
        answers = released.estimate(heavy[order]), released.range_count(heavy[order], heavy[order])
        errors.append([np.mean((answer - counts[order]) ** 2) for answer in answers])
    fitted, monotone = np.mean(errors, axis=0)
    assert fitted < monotone / 2


def test_a_known_total_is_exact_and_stays_in_copies_but_not_in_bytes() -> None:
    released = release(
        DyadicCountSketch(trees.exact_tree(100)).accumulate([3] * 500), ReleaseTerms(PrivacySpec(rho=0.5))
    )
    known = released.with_total(500, force=True)
    assert known.total_weight().estimate == known.rank(99) == 500
    assert known.total_weight() == (500, 500, 500)
    assert pickle.loads(pickle.dumps(known)).total_weight().estimate == 500
    assert "known total 500" in repr(known)
    assert known.to_bytes() == released.to_bytes()
    assert released.total_weight().estimate != 500 or released.total_weight().lower < 500


def test_a_known_total_makes_answers_better() -> None:
    """The mean square error falls to about (4.90 / 5.82)^2. The noise is keyed, so the outcome is always the same."""
    items = tree_data.drawn(tree_data.uniform, 1)[:10_000] % 4096
    spec = trees.exact_tree(4096)
    raw = DyadicCountSketch(spec).accumulate(items)
    at = np.arange(400, 4000, 400)
    truth = true_ranks(items, at)
    errors = {None: 0.0, float(len(items)): 0.0}
    for number in range(30):
        randomness = KeyedRandomness(b"the same noise in every run of it", b"%d" % number)
        released = release(raw, ReleaseTerms(PrivacySpec(rho=0.001)), randomness)
        for total in errors:
            errors[total] += float(np.sum((with_total(released, total).rank(at) - truth) ** 2))
        assert released.with_total(10_000, force=True).total_weight().estimate == 10_000
    assert errors[float(len(items))] < 0.9 * errors[None]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shape", "rho"),
    [*zip(tree_data.SHAPES, itertools.cycle([1.0, 0.1]))],
    ids=lambda given: getattr(given, "__name__", None),
)
def test_intervals_of_95_percent_cover_between_90_and_99_percent(shape: Any, rho: float) -> None:
    """Mean over 200 seeds; true quantiles of data with many ties may be covered more often, never less.

    The shares of single releases have a standard deviation below 0.075, so their mean has one below 0.0054; it lies
    at 0.94 to 0.97, more than 6 deviations (1e-9) inside. There is one total in each release: a rate of 0.93 falls
    below 0.8 in 200 with probability 5e-10 and less.
    """
    domain = tree_data.SHAPES[shape]
    found = []
    for seed in range(200):
        spec = TreeSpec.for_memory(domain, (490_000, 165_000)[seed % 2], seed=seed)
        one = tree_data.covered(tree_data.drawn(shape, seed), domain, rho, spec)
        found.append([one.rank, one.cdf, one.range_count, one.quantile, one.total])
    rank, cdf, range_count, quantile, total = np.mean(found, axis=0).tolist()
    print(f"\n{shape.__name__} rho={rho} {rank=:.3f} {cdf=:.3f} {range_count=:.3f} {quantile=:.3f} {total=:.3f}")
    for share in (rank, cdf, range_count):
        assert 0.90 <= share <= 0.99
    assert quantile >= 0.90
    assert total >= 0.80


def two_trees() -> tuple[Any, Any]:
    spec = TreeSpec.for_memory(IntegerDomain(0, 999))
    first = DyadicCountSketch(spec).accumulate([5] * 700 + [80] * 300)
    second = DyadicCountSketch(spec).accumulate([80] * 500 + [999] * 100)
    changes = {"release_ids": (bytes(48),), "rho": Fraction(1, 3)}
    return trees.without_noise(first), trees.without_noise(second, **changes)


def test_the_answers_of_a_combination_are_the_sums_of_both() -> None:
    first, second = two_trees()
    both = first.combine(second)
    np.testing.assert_array_equal(both.counters, first.counters + second.counters)
    values = [0, 5, 79, 80, 998, 999]
    for method in ("least_squares", "residual", "paper"):
        summed = first.rank(values, method=method) + second.rank(values, method=method)
        assert both.rank(values, method=method) == pytest.approx(summed, abs=1e-6)
    assert both.total_weight().estimate == pytest.approx(1600)
    assert both.quantile([0.4, 0.6, 0.99]).estimate == (5, 80, 999)
    assert both.privacy.rho == Fraction(5, 6)
    assert both.privacy.sigma_squared_per_level == (Fraction(18),) * len(both.spec.levels)
    assert first.combine(second, units_disjoint=True).privacy.rho == Fraction(1, 2)
    assert ReleasedSketch.from_bytes(both.to_bytes()) == both
    last = [tree._chosen.ranks.variances.rank_variance(np.array([999], np.uint64))[0] for tree in (first, both)]
    assert 1.8 * last[0] < last[1] <= 2 * last[0]  # weights double, and noise does not: more nodes are expanded


def test_what_cannot_be_combined_is_refused() -> None:
    first, second = two_trees()
    with pytest.raises(IncompatibleSketchError, match="Releases with common noise cannot be combined"):
        first.combine(first)
    other = TreeSpec.for_memory(IntegerDomain(0, 998))
    stranger = trees.without_noise(DyadicCountSketch(other), release_ids=(bytes(48),))
    with pytest.raises(IncompatibleSketchError, match="Only releases with the same kind and spec can be combined"):
        first.combine(stranger)
    for change in ({"relation": ADD_OR_REMOVE_ONE}, {"privacy_unit": PrivacyUnit.PRIVACY_ID_IN_WINDOW}):
        differing = ReleasedDyadicCountSketch(
            second.spec, second.counters, dataclasses.replace(second.privacy, **change)
        )
        with pytest.raises(IncompatibleSketchError, match="cannot be combined"):
            first.combine(differing)
