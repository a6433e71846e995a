"""Two releases: what may be asked, laws of the answers, what is refused, and how often intervals hold.

Statistical tests: exact binomial tests with a false alarm of at most 1e-9 each, and each is shown to be able to fail.
"""

from __future__ import annotations

import dataclasses
import math
import pickle
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from beam_dpsketch import (
    REPLACE_ONE,
    CountMin,
    CountSketch,
    DyadicCountSketch,
    IncompatibleSketchError,
    IntegerDomain,
    Interval,
    ListedItems,
    NormBound,
    PrivacySpec,
    RecordBounds,
    ReleaseTerms,
    SketchSpec,
    TreeSpec,
    release,
)
from beam_dpsketch.answers.estimators import comparing
from beam_dpsketch.answers.estimators.comparing import ReleasedTable
from beam_dpsketch.answers.released_sketch import ReleasedSketch
from beam_dpsketch.exact.sketches import RawSketch, raw_type
from beam_dpsketch.exact.sketches.listed_items import ListedHistogram
from tests.helpers import by_hand
from tests.helpers.raw import raw_of
from tests.helpers.trees import custom

FALSE_ALARM = 1e-9
SPEC = SketchSpec(depth=3, width=8)
IDS = [{"release_ids": (bytes([number]) * 48,)} for number in range(3)]
BEFORE, AFTER = {"a": 500, "b": 300, "c": 1}, {"a": 500, "b": 100, "d": 250}
LITTLE_NOISE = ReleaseTerms(PrivacySpec(rho=2.0, summary_counts=None), RecordBounds(1, max_weight=1))

SPECS: dict[str, Any] = {
    "CountSketch": SketchSpec(depth=5, width=512),
    "Count-Min": SketchSpec(kind="count_min", depth=5, width=512),
    "listed": ListedItems(["a", "b", "c", "d", "e"]),
    "exact tree": TreeSpec.for_memory(IntegerDomain(0, 255)),
    "tree": TreeSpec.for_memory(IntegerDomain(0, (1 << 20) - 1), 20_000, arity=16),
    "Count-Min tree": TreeSpec.for_memory(IntegerDomain(0, (1 << 20) - 1), 20_000, arity=16, sketch="count_min"),
}


def in_domain(spec: Any, item: str) -> Any:
    return ord(item) if isinstance(spec, TreeSpec) else item


def counted(spec: Any, weights: dict[str, int]) -> RawSketch:
    items = [in_domain(spec, item) for item in weights]
    return raw_type(spec)(spec).accumulate(items, list(weights.values()))


def both(spec: Any, terms: ReleaseTerms = LITTLE_NOISE) -> tuple[Any, Any]:
    return release(counted(spec, BEFORE), terms), release(counted(spec, AFTER), terms)


def holds(interval: Interval, truth: float) -> bool:
    return interval.lower <= truth <= interval.upper and interval.estimate == pytest.approx(truth, rel=0.15)


@pytest.mark.parametrize("kind", SPECS)
def test_every_kind_answers_about_two_releases(kind: str) -> None:
    """At 1 - 1e-12 each, with sigma of a few records, in 512 columns or more."""
    spec = SPECS[kind]
    before, after = both(spec)
    sure = 1 - 1e-12
    assert holds(after.inner_product(before, sure), 280_000)
    assert holds(after.distance(before, sure), math.sqrt(200**2 + 250**2 + 1))
    difference = after.minus(before)
    items = [in_domain(spec, item) for item in "abcd"]
    np.testing.assert_allclose(difference.estimate(items), [0, -200, -1, 250], atol=40)
    assert difference.estimate(items[0]) == difference.interval(items[0]).estimate == difference.estimate(items)[0]
    assert difference.as_rows(items) == difference.interval(items).to_rows()
    assert [row.item for row in difference.top_k(2, items)] == [items[3], items[1]]
    assert "Difference of two" in repr(difference)
    assert difference.spec == spec
    assert pickle.loads(pickle.dumps(difference)).estimate(items).tolist() == difference.estimate(items).tolist()


@pytest.mark.parametrize("kind", SPECS)
def test_movers_are_the_difference_sorted_by_size(kind: str) -> None:
    spec = SPECS[kind]
    before, after = both(spec)
    candidates = [in_domain(spec, item) for item in "abcde"] if isinstance(spec, SketchSpec) else None
    first, second = found = after.movers(before, 2, candidates)
    difference = after.minus(before)
    assert [row[3:] for row in found] == [row[1:] for row in difference.interval(list(found.item))]
    assert [*found.item] == [*difference.top_k(2, candidates).item]
    assert (first.item, second.item) == (in_domain(spec, "d"), in_domain(spec, "b"))
    assert first.change == pytest.approx(250, abs=40)
    assert second.change == pytest.approx(-200, abs=40)
    assert (second.before, second.after) == pytest.approx((300, 100), abs=40)
    assert second.lower < second.change < second.upper
    assert len(after.movers(before, 100, candidates)) >= 2
    assert len(after.movers(before, 3, [])) == 0
    assert list(first._asdict()) == ["item", "before", "after", "change", "lower", "upper"]


def test_what_appears_and_what_goes_is_found_without_candidates_also_where_sums_cancel() -> None:
    """Two neighbours exchange 900 records, so no ancestor changes."""
    spec = TreeSpec.for_memory(IntegerDomain(0, (1 << 20) - 1), 20_000, arity=16)
    before, after = ([7] * 1000 + [8] * 100, [7] * 100 + [8] * 1000)
    raws = [DyadicCountSketch(spec).accumulate(each) for each in (before, after)]
    earlier, later = (release(raw, LITTLE_NOISE) for raw in raws)
    assert {row.item: round(row.change, -2) for row in later.movers(earlier, 2)} == {7: -900, 8: 900}
    assert len(release(DyadicCountSketch(spec), LITTLE_NOISE).movers(later, 1)) == 1


def test_a_tree_of_a_single_sketched_level_has_no_candidates() -> None:
    spec = custom(IntegerDomain(0, 255), (8, "count_sketch", 3, 32))
    earlier, later = (release(DyadicCountSketch(spec).accumulate([3] * each), LITTLE_NOISE) for each in (500, 900))
    assert len(later.movers(earlier)) == 0
    assert later.movers(earlier, 1, [3, 4])[0].item == 3


@pytest.mark.parametrize("kind", SPECS)
def test_other_specs_and_kinds_are_refused(kind: str) -> None:
    spec = SPECS[kind]
    first, _ = both(spec)
    if isinstance(spec, ListedItems):
        other: Any = release(ListedHistogram(ListedItems(["b", "a"])), LITTLE_NOISE)
    else:
        other = release(raw_type(spec)(dataclasses.replace(spec, seed=9)), LITTLE_NOISE)
    another = both(next(each for each in SPECS.values() if raw_type(each) is not raw_type(spec)))[0]
    for ask in (first.inner_product, first.distance, first.minus, first.movers):
        with pytest.raises(IncompatibleSketchError, match=r"the same kind and spec can be compared\. These differ in"):
            ask(other)
        with pytest.raises(IncompatibleSketchError, match="These differ in kind"):
            ask(another)
        with pytest.raises(TypeError, match="other must be a release, got float"):
            ask(3.0)


def by_hand_of(kind: type[Any], counters: Any, number: int, **changes: Any) -> ReleasedSketch:
    return by_hand.released(kind, SPEC, counters, **IDS[number] | changes)


def test_a_release_that_is_inside_both_is_refused() -> None:
    one, two, three = (by_hand_of(CountSketch, np.arange(24), number) for number in range(3))
    for first, second in ((one, one), (one.combine(two), two), (one.combine(two), two.combine(three))):
        for ask in (first.inner_product, first.distance, first.minus, first.movers):
            with pytest.raises(IncompatibleSketchError, match=r"common noise cannot be compared"):
                ask(second)
    one.combine(two).distance(three)


def test_rows_of_one_counter_without_signs_are_refused() -> None:
    narrow = SketchSpec(kind="count_min", depth=5, width=1)
    first, second = (release(CountMin(narrow), LITTLE_NOISE) for _ in range(2))
    with pytest.raises(ValueError, match="Use a larger width"):
        first.distance(second)


def test_a_flat_sketch_needs_candidates() -> None:
    before, after = both(SPECS["CountSketch"])
    with pytest.raises(ValueError, match="candidates is required"):
        after.movers(before)
    with pytest.raises(ValueError, match="k must be"):
        after.movers(before, 0, ["a"])
    with pytest.raises(ValueError, match="confidence must be"):
        after.distance(before, 1.0)


@pytest.mark.parametrize("confidence", [0, 1, 2.0, "0.9"])
@pytest.mark.parametrize("kind", SPECS)
def test_confidences_that_are_none_are_refused(kind: str, confidence: Any) -> None:
    before, after = both(SPECS[kind])
    items = [in_domain(before.spec, "a")]
    for ask in (after.distance, after.inner_product):
        with pytest.raises((TypeError, ValueError), match="confidence must be"):
            ask(before, confidence)
    for ask in (after.minus(before).interval, after.minus(before).as_rows):
        with pytest.raises((TypeError, ValueError), match="confidence must be"):
            ask(items, confidence)
    with pytest.raises((TypeError, ValueError), match="confidence must be"):
        after.movers(before, 1, items, confidence)


@pytest.mark.parametrize("kind", [CountSketch, CountMin])
def test_where_nothing_was_counted_bounds_reach_0(kind: type[Any]) -> None:
    first, second = (by_hand_of(kind, np.zeros(24), number) for number in range(2))
    assert first.distance(second)[:2] == (0, 0)


@settings(max_examples=20)
@given(
    kind=st.sampled_from([CountSketch, CountMin]),
    cells=st.lists(st.integers(-(1 << 62), (1 << 62) - 1), min_size=48, max_size=48),
    small=st.booleans(),
)
def test_laws_of_two_releases(kind: type[Any], cells: list[int], small: bool) -> None:
    """Products and distances are symmetric, differences antisymmetric, with counters of any size."""
    numbers = np.array(cells) % 1000 - 500 if small else np.array(cells)
    first, second = (by_hand_of(kind, each, number) for number, each in enumerate(np.split(numbers, 2)))
    for one, other in ((first.inner_product, second.inner_product), (first.distance, second.distance)):
        assert one(second) == pytest.approx(tuple(other(first)), rel=1e-9)
    assert np.isfinite([*first.distance(second), *first.inner_product(second)]).all()
    np.testing.assert_allclose(first.minus(second).estimate(range(9)), -second.minus(first).estimate(range(9)))
    same = ReleasedTable.of(first.counters, 9.0, "signs")
    squares = comparing.second_moment(same).value + 9.0 * same.width
    assert squares == pytest.approx(comparing.inner_product(same, same).value, rel=1e-9)


def test_a_difference_costs_what_both_releases_cost_together() -> None:
    one = by_hand_of(CountSketch, np.arange(24), 0)
    other = by_hand_of(CountSketch, np.arange(24)[::-1], 1, rho=Fraction(1, 3))
    difference = one.minus(other)
    assert difference.privacy == one.combine(other).privacy
    assert difference.privacy.sigma_squared == 18
    np.testing.assert_array_equal(difference._signed.counters, one.counters - other.counters)


def test_noise_of_scaled_and_combined_releases_has_its_own_variance() -> None:
    bounds, small = NormBound(10), {"sigma_squared_per_level": (Fraction(1),)}
    plain = by_hand_of(CountSketch, np.zeros(24), 0, **small)
    twice = plain.combine(by_hand_of(CountSketch, np.zeros(24), 1, **small))
    scaled = by_hand.released(CountSketch, SPEC, np.full(24, 40), scale_bits=3, bounds=bounds, **small)
    assert plain._noise_variance() == 1 + 1 / 12
    assert twice._noise_variance() == pytest.approx(2 * (1 + 1 / 12))
    assert scaled._noise_variance() == pytest.approx(1 + 1 / 12 / 64)
    assert scaled._table.counters.max() == 5.0


@pytest.mark.parametrize("planted", [False, True])
def test_empty_releases_with_little_noise_have_no_second_moment_on_average(planted: bool) -> None:
    """Of 100 releases of 5 x 512 with sigma 0.5, within seven standard errors; far off for a third more noise."""
    terms = ReleaseTerms(PrivacySpec(rho=10.0, summary_counts=None))
    tables = [release(CountSketch(SketchSpec(width=512)), terms)._table for _ in range(100)]
    if planted:
        tables = [dataclasses.replace(table, noise=1 / 3) for table in tables]
    found = np.array([comparing.second_moment(table).value for table in tables])
    error = found.std() / math.sqrt(len(found))
    assert abs(found.mean()) < 7 * error or planted
    assert abs(found.mean()) > 10 * error or not planted


DATA = {"Zipf": 1.0, "uniform": 0.0}
Read = Callable[[ReleasedTable, ReleasedTable], list[comparing.Estimate]]


def answers(first: ReleasedTable, second: ReleasedTable) -> list[comparing.Estimate]:
    """What is asked of two tables: a product and a squared distance."""
    return [comparing.inner_product(first, second), comparing.second_moment(first.minus(second))]


def forgets_the_noise(first: ReleasedTable, second: ReleasedTable) -> list[comparing.Estimate]:
    return answers(*(dataclasses.replace(table, noise=0.0) for table in (first, second)))


def forgets_collisions(first: ReleasedTable, second: ReleasedTable) -> list[comparing.Estimate]:
    right, noise_only = (
        answers(*(dataclasses.replace(table, hashing=each) for table in (first, second))) for each in ("signs", "exact")
    )
    return [one._replace(normal=other.normal / 5, rare=0.0) for one, other in zip(right, noise_only, strict=True)]


def shares_the_noise(first: ReleasedTable, second: ReleasedTable) -> list[comparing.Estimate]:
    """As if the second release had the draw of the first."""
    return answers(first, first)


def misses(read: Read, data: str, rho: float, runs: int) -> np.ndarray:
    """How many 95 % intervals of each answer miss the truth, over seeds, noise and the sample."""
    random, items = np.random.default_rng(3), np.arange(2_000)
    shares = (items + 1.0) ** -DATA[data]
    missed = np.zeros(2, dtype=np.int64)
    for seed in range(runs):
        f, g = random.multinomial(10_000, shares / shares.sum(), size=2)
        if read is shares_the_noise:
            g = f
        spec, terms = (
            SketchSpec(width=256, seed=seed),
            ReleaseTerms(
                PrivacySpec(rho=rho, relation=REPLACE_ONE, summary_counts=None), RecordBounds(1, max_weight=1)
            ),
        )
        tables = [release(raw_of(CountSketch, spec).accumulate(items, each), terms)._table for each in (f, g)]
        f, g = f.astype(np.float64), g.astype(np.float64)
        for place, (found, truth) in enumerate(zip(read(*tables), (f @ g, (f - g) @ (f - g)), strict=True)):
            _, lower, upper = found.interval(0.95)
            missed[place] += not lower <= truth <= upper
    return missed


def accepts(missed: np.ndarray, runs: int) -> bool:
    """Whether both cover 93 % or more: exact one-sided tests, 1e-9 together."""
    tests = [stats.binomtest(int(each), runs, 0.07, "greater").pvalue for each in missed]
    return min(tests) >= FALSE_ALARM / len(tests)


def test_intervals_of_two_releases_hold() -> None:
    assert accepts(misses(answers, "Zipf", 1.0, 40), 40)
    assert not accepts(misses(shares_the_noise, "uniform", 0.01, 60), 60)


@pytest.mark.slow
@pytest.mark.parametrize("rho", [0.01, 1.0])
@pytest.mark.parametrize("data", DATA)
def test_intervals_of_two_releases_hold_at_full_size(data: str, rho: float) -> None:
    assert accepts(misses(answers, data, rho, 1_500), 1_500)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "data", "rho"),
    [(forgets_the_noise, "uniform", 0.01), (forgets_collisions, "uniform", 1.0), (shares_the_noise, "Zipf", 0.01)],
)
def test_what_is_forgotten_would_be_found(fault: Read, data: str, rho: float) -> None:
    assert not accepts(misses(fault, data, rho, 1_000), 1_000)
