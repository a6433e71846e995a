"""What all releases of frequencies share, and the flat sketches against the truth: estimates, intervals, lists.

Statistical tests: exact binomial tests with a false alarm of at most 1e-9 each, and each is shown to be able to fail.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from beam_dpsketch import (
    ADD_OR_REMOVE_ONE,
    REPLACE_ONE,
    CountMin,
    CountSketch,
    DyadicCountSketch,
    FormatError,
    Frequencies,
    IncompatibleSketchError,
    IntegerDomain,
    ListedItems,
    PrivacySpec,
    RecordBounds,
    ReleaseTerms,
    SketchSpec,
    TreeSpec,
    release,
)
from beam_dpsketch.answers.counts import ReleasedListedItems
from beam_dpsketch.answers.flat import ReleasedCountMin, ReleasedCountSketch, ReleasedFrequencies, noise_offset
from beam_dpsketch.answers.released_sketch import ReleasedSketch
from beam_dpsketch.answers.rows import Frequency, Intervals
from beam_dpsketch.answers.tree import ReleasedDyadicCountSketch
from beam_dpsketch.exact.sketches.listed_items import ListedHistogram
from tests.helpers import by_hand, coverage, derivations, strategies
from tests.helpers.raw import raw_of

FLAT, TREE = SketchSpec(depth=5, width=256), TreeSpec.for_memory(IntegerDomain(0, 63))
COUNTED = [7] * 900 + [9] * 300
RAW: dict[type[ReleasedSketch], Any] = {
    ReleasedCountMin: lambda: raw_of(CountMin, FLAT),
    ReleasedCountSketch: lambda: CountSketch(FLAT),
    ReleasedListedItems: lambda: ListedHistogram(ListedItems(range(64))),
    ReleasedDyadicCountSketch: lambda: DyadicCountSketch(TREE),
}
KINDS = list(RAW)
SKETCHES = [ReleasedCountMin, ReleasedCountSketch]
BASES = {ReleasedSketch: set(KINDS), ReleasedFrequencies: set(SKETCHES), **{kind: {kind} for kind in KINDS}}
every_kind = pytest.mark.parametrize("kind", KINDS)
both = pytest.mark.parametrize("kind", strategies.KINDS)


@functools.cache
def released(kind: type[ReleasedSketch]) -> Any:
    return release(RAW[kind]().accumulate(COUNTED), ReleaseTerms(PrivacySpec(rho=1.0)))


@every_kind
def test_every_release_answers_the_same_questions_in_the_same_shapes(kind: type[ReleasedSketch]) -> None:
    """Errors have sd < 40 (Count-Min: less than 100 above): 7 sd and more have a probability below 1e-10."""
    it, asked = released(kind), [9, 8, 7]
    many = it.estimate(asked)
    assert (many.dtype, many.shape) == (np.float64, (3,))
    assert many == pytest.approx([300, 0, 900], abs=290)
    assert [it.estimate(item) for item in asked] == many.tolist()
    assert type(it.estimate(9)) is float
    for container in (np.array(asked, dtype=np.uint8), pa.array(asked), pa.chunked_array([[9, 8], [7]]), iter(asked)):
        np.testing.assert_array_equal(it.estimate(container), many)
    rows = it.interval(asked, 0.9)
    assert type(rows) is Frequencies
    assert [it.interval(item, 0.9) for item in asked] == list(rows)
    assert all(type(row) is Frequency and type(row.item) is int for row in rows)
    assert it.as_rows(asked, 0.9) == rows.to_rows() == it.as_rows(asked, confidence=0.9)
    assert it.as_rows(9, 0.9) == [rows[0]._asdict()]
    top = it.top_k(2, asked, 0.9)
    assert type(top) is Frequencies
    assert list(top) == [rows[2], rows[0]]
    assert len(it.estimate([])) == len(it.interval([])) == len(it.as_rows([])) == len(it.top_k(1, [])) == 0


@every_kind
def test_trees_and_lists_search_and_flat_sketches_need_candidates(kind: type[ReleasedSketch]) -> None:
    if kind in SKETCHES:
        with pytest.raises(
            ValueError, match=r"candidates is required, because this release does not store items.*TopK"
        ):
            released(kind).top_k(2)
    else:
        found = released(kind).top_k(2)
        assert found.item == (7, 9)
        assert (found.detection_limit is None) == (kind is ReleasedListedItems)


CONFIDENCES = [0, 1, -0.1, 95, math.nan, "0.9"]
QUESTIONS: dict[str, Any] = {
    "interval": lambda it, confidence: it.interval([7], confidence),
    "one interval": lambda it, confidence: it.interval(7, confidence),
    "as_rows": lambda it, confidence: it.as_rows([7], confidence=confidence),
    "top_k": lambda it, confidence: it.top_k(1, [7], confidence),
}


@every_kind
@pytest.mark.parametrize("ask", QUESTIONS)
@pytest.mark.parametrize("confidence", CONFIDENCES, ids=repr)
def test_a_confidence_is_between_0_and_1(kind: type[ReleasedSketch], ask: str, confidence: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="confidence must be"):
        QUESTIONS[ask](released(kind), confidence)


@every_kind
@pytest.mark.parametrize(("k", "error"), [(0, ValueError), (-1, ValueError), (1.0, TypeError), (True, TypeError)])
def test_k_is_a_positive_whole_number(kind: type[ReleasedSketch], k: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="k must be"):
        released(kind).top_k(k, [7])


@every_kind
def test_no_type_but_its_own_reads_a_release(kind: type[ReleasedSketch]) -> None:
    data = released(kind).to_bytes()
    for base, kinds in BASES.items():
        if kind in kinds:
            assert type(base.from_bytes(data)) is kind
        else:
            message = f"expected {base.__name__}, got {kind.__name__}. Released.from_bytes reads every kind"
            with pytest.raises(FormatError, match=message):
                base.from_bytes(data)


@every_kind
def test_reprs_are_short_and_html_is_escaped(kind: type[ReleasedSketch]) -> None:
    it = released(kind)
    sizes = {**dict.fromkeys(SKETCHES, "5 x 256 counters"), ReleasedListedItems: "64 listed items"}
    size = sizes.get(kind, f"{it.spec.cells} counters")
    assert repr(it).startswith(f"<{kind.__name__} of ")
    assert f"{size}, rho=1" in repr(it)
    assert [len(line) < 150 for line in repr(it).splitlines()] == [True, True]
    assert size in it._repr_html_()
    assert "Guarantee     epsilon = " in it._repr_html_()
    assert "<Released" not in it._repr_html_()


def test_what_differs_is_named_where_releases_do_not_fit() -> None:
    flat = released(ReleasedCountSketch)
    other = release(CountSketch(SketchSpec(depth=5, width=64, seed=3)), ReleaseTerms(PrivacySpec(rho=1.0)))
    with pytest.raises(IncompatibleSketchError, match=r"These differ in width, seed \[dpsketch-E705\]$"):
        flat.combine(other)
    with pytest.raises(IncompatibleSketchError, match=r"These differ in kind \[dpsketch-E705\]$"):
        flat.combine(released(ReleasedCountMin))


# The two sketches against the truth.


def scaled(confidence: float, factor: float = 1) -> Any:
    """Intervals of another width around the same estimates."""

    def interval(released: Any, items: Any) -> Intervals:
        found = released.interval(items, confidence)
        below, above = found.estimate - found.lower, found.upper - found.estimate
        return Intervals(found.estimate, found.estimate - factor * below, found.estimate + factor * above)

    return interval


COVERED = [
    *(itertools.product([CountSketch], [5, 1, 4, 9], coverage.WEIGHTS, coverage.NOISES)),
    *(itertools.product([CountMin], [5, 1, 6], coverage.WEIGHTS, coverage.NOISES)),
]
FAST = {(CountSketch, 5, "uniform"), (CountSketch, 5, "Zipf"), (CountMin, 1, "uniform")}
"""With much noise."""


@pytest.mark.parametrize(
    ("kind", "depth", "data", "noise"),
    [
        pytest.param(*case, marks=[] if case[:3] in FAST and case[3] == "much noise" else pytest.mark.slow)
        for case in COVERED
    ],
)
def test_intervals_cover_the_truth_and_are_not_vacuous(kind: Any, depth: int, data: str, noise: str) -> None:
    weights, rho = coverage.WEIGHTS[data], coverage.NOISES[noise]
    spec, methods = SketchSpec(depth=depth, width=64), {"0.95": scaled(0.95), "0.99": scaled(0.99)}
    found = coverage.measure(kind, weights, rho, methods | {"half": scaled(0.95, 0.5)}, releases=400, spec=spec)
    assert found["0.95"].accepts(0.05)
    assert found["0.99"].accepts(0.01)
    assert found["0.95"].mean_width < found["0.99"].mean_width
    if kind is CountSketch and depth >= 5:  # fewer rows do not rule out a collision with the heaviest item at 99 %
        one_row = math.sqrt(depth / (2 * rho) + float(np.square(weights).sum()) / spec.width)
        assert found["0.99"].mean_width <= 2 * 3 * one_row
    if data == "uniform":  # elsewhere, what an outlier does is not seen at half the width
        assert not found["half"].accepts(0.05)


@both
@pytest.mark.parametrize("depth", [1, 2, 3, 4, 5, 6])
def test_the_estimate_is_the_huber_mean_of_cells_also_of_an_even_number(kind: Any, depth: int) -> None:
    """Clipped at the smaller of two robust scales of all cells, which is above 1.5 times the sigma of 3.

    Cells have the sign of the item, or, without signs, are taken without the median of their row.
    """
    is_signed, width = kind is CountSketch, 7
    raw = raw_of(kind, SketchSpec(depth=depth, width=width, seed=3))
    raw.accumulate(range(200), np.arange(200) - 50 if is_signed else np.arange(200) ** 2)
    cells = raw.counters if is_signed else raw.counters - np.median(raw.counters, axis=1, keepdims=True)
    quartile, middle = np.quantile(np.abs(cells), (0.25, 0.5))
    scale = min(quartile / stats.norm.ppf(0.625), middle / stats.norm.ppf(0.75))
    assert scale > 1.5 * 3
    items = [5, "x", b"y", (1, ("z",)), (1 << 64) - 1]
    expected = []
    for item in items:
        rows = []
        for row in range(depth):
            fingerprint = derivations.fingerprint(item, "murmur3", b"")
            column, sign = derivations.cell(fingerprint, seed=3, row=row, width=width)
            rows.append((sign if is_signed else 1) * float(cells[row, column]))
        centre = float(np.median(rows))
        expected.append(centre + float(np.mean([min(max(row - centre, -scale), scale) for row in rows])))
    released = by_hand.without_noise(raw)
    np.testing.assert_allclose(released.estimate(items), expected)
    found = released.interval(items)
    np.testing.assert_allclose(found.estimate, expected, atol=1e-9)
    if is_signed:
        np.testing.assert_allclose((found.lower + found.upper) / 2, expected, atol=1e-9)
    best = released.top_k(2, [*items, 5])
    assert list(best) == sorted(found, key=lambda row: -row.estimate)[:2]


def test_an_interval_is_the_same_in_every_copy_of_a_release_and_around_the_estimate() -> None:
    spec = SketchSpec(depth=5, width=64)
    raw = CountSketch(spec).accumulate(range(300), coverage.WEIGHTS["Zipf"])
    released = release(raw, ReleaseTerms(PrivacySpec(rho=Fraction(1, 100)), RecordBounds(1, max_weight=1)))
    again = type(released).from_bytes(released.to_bytes())
    for confidence in (0.5, 0.95, 1 - 0.05 / 100_000):
        found = released.interval([1, 2], confidence)
        assert found == released.interval([1, 2], confidence) == again.interval([1, 2], confidence)
        np.testing.assert_allclose(found.upper - found.estimate, found.estimate - found.lower)
    assert released.interval(1, 0.95).upper < released.interval(1, 0.99).upper < found[0].upper


def test_deleted_items_are_estimated_at_zero_and_negative_totals_are_negative() -> None:
    raw = CountSketch(SketchSpec(depth=5, width=1 << 12)).accumulate(["a", "b", "a"], [7, -3, -7])
    assert by_hand.without_noise(raw).estimate(["a", "b", "c"]).tolist() == [0, -3, 0]


@pytest.mark.parametrize("data", ["a single heavy item", "uniform"])
def test_it_is_less_noisy_than_a_count_sketch_under_replacement_only(data: str) -> None:
    """Mean squares over 300 items and 40 releases each, mostly noise: 1/2 under REPLACE_ONE, 1 otherwise.

    A ratio moves by some 2 %: the limits are ten times that away.
    """
    weights = coverage.WEIGHTS[data]
    items = np.arange(len(weights)).astype(np.uint64)

    def mean_square(kind: Any, relation: Any) -> Any:
        squares = []
        for seed in range(40):
            spec = SketchSpec(kind=kind.name, depth=5, width=1024, seed=seed)
            raw = kind(spec).accumulate_keys(items, weights)
            released = release(raw, ReleaseTerms(PrivacySpec(rho=Fraction(1, 40_000), relation=relation)))
            squares.append(np.mean((released.estimate(items) - weights) ** 2))
        return np.mean(squares)

    ratios = {
        relation: mean_square(CountMin, relation) / mean_square(CountSketch, relation)
        for relation in (REPLACE_ONE, ADD_OR_REMOVE_ONE)
    }
    assert 0.4 < ratios[REPLACE_ONE] < 0.7 < ratios[ADD_OR_REMOVE_ONE] < 1.4


# The minimum of a Count-Min, which the paper shows, with its offset.


def accepts(misses: int, releases: int, probability: float) -> bool:
    return bool(stats.binomtest(misses, releases, probability, "greater").pvalue >= coverage.FALSE_ALARM)


def missed(offset_of: Any, releases: int) -> int:
    """In how many releases any item is underestimated: many items in a wide sketch, much noise."""
    items, missed = np.arange(1500), 0
    for seed in range(releases):
        spec = SketchSpec(kind="count_min", depth=2, width=2048, seed=seed)
        raw = CountMin(spec).accumulate(np.repeat(items, 3))
        released = release(raw, ReleaseTerms(PrivacySpec(rho=Fraction(1, 1000), relation=ADD_OR_REMOVE_ONE)))
        missed += bool((released.minimum(items, 0.1) - offset_of(released) < 3).any())
    return missed


def half_an_offset(released: Any) -> float:
    return noise_offset(released.spec, released.privacy.sigma_squared, failure_probability=0.1) / 2


def test_no_item_at_all_is_underestimated_by_the_minimum() -> None:
    assert accepts(missed(lambda _: 0, 400), 400, 0.05)
    assert not accepts(missed(half_an_offset, 400), 400, 0.05)


def test_the_offset_is_the_published_formula() -> None:
    """The paper's E with the actual depth, width and sigma."""
    found = noise_offset(SketchSpec(depth=4, width=100), Fraction(25), failure_probability=0.01)
    assert found == pytest.approx(5 * math.sqrt(2 * math.log(4 * 400 / 0.01)))


def test_the_offset_of_combined_releases_is_of_their_summed_noise_and_added_once() -> None:
    spec = SketchSpec(depth=1, width=4)
    first = by_hand.released(CountMin, spec, [[100] * 4])
    second = by_hand.released(CountMin, spec, [[50] * 4], release_ids=(bytes(48),))
    offset = noise_offset(spec, Fraction(18), failure_probability=0.01)
    combined: Any = first.combine(second)
    assert combined.minimum(["a"]).tolist() == [150 + offset]


def test_the_minimum_is_the_least_row_and_the_offset() -> None:
    raw = CountMin(SketchSpec(kind="count_min", depth=4, width=8)).accumulate(range(50))
    released: Any = by_hand.without_noise(raw)
    items = [3, "x", b"y", (1, "z")]
    least = [min(raw.counters[CountMin(raw.spec).accumulate([item]).counters.astype(bool)].tolist()) for item in items]
    for failure in (0.01, 0.2):
        offset = noise_offset(raw.spec, Fraction(9), failure_probability=failure)
        np.testing.assert_allclose(released.minimum(items, failure), np.array(least) + offset)
    assert released.minimum(items).tolist() == released.minimum(items, 0.01).tolist()
    assert released.minimum(3) == released.minimum([3])[0]
    with pytest.raises(ValueError, match="failure_probability must be greater than 0"):
        released.minimum(["a"], failure_probability=0)


WEIGHTS = {"a": 5, "b": 90, "c": 40, "d": 40, 7: 60, (1, "x"): 3}
LARGEST: list[tuple[Any, int, list[Any]]] = [
    (["a", "b", "c", "d", 7], 4, ["b", 7, "c", "d"]),  # equal ones in the order given
    (["d", "c", "a", 7, "b"], 4, ["b", 7, "d", "c"]),
    (["d", "c"], 1, ["d"]),
    (["a", "b", "a", "b", "b"], 3, ["b", "a"]),
    (["a", "b"], 100, ["b", "a"]),
    (["absent", "a"], 2, ["a", "absent"]),
    ({1: 0, 7: 0}, 2, [7, 1]),
]


@both
@pytest.mark.parametrize(("candidates", "k", "expected"), LARGEST)
def test_the_largest_come_first_once_each(kind: Any, candidates: Any, k: int, expected: list[Any]) -> None:
    """Without noise and almost without collisions."""
    raw = raw_of(kind, SketchSpec(depth=5, width=1 << 14)).accumulate(list(WEIGHTS), list(WEIGHTS.values()))
    released = by_hand.without_noise(raw, sigma_squared_per_level=(Fraction(1, 4),))
    assert [each.item for each in released.top_k(k, candidates)] == expected


@pytest.mark.slow
@pytest.mark.parametrize("number", [200, 20_000])
def test_lists_of_the_largest_favour_what_noise_raised_and_divided_failure_covers_them_all(number: int) -> None:
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
