"""Released listed items against the truth: estimates, intervals, lists, bytes, and what they refuse.

The coverage test has a false alarm of at most 1e-9, and is shown to be able to fail.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from statistics import NormalDist
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from beam_dpsketch import (
    ADD_OR_REMOVE_ONE,
    REPLACE_ONE,
    CountSketch,
    FormatError,
    IncompatibleSketchError,
    ListedItems,
    PrivacySpec,
    RecordBounds,
    ReleaseTerms,
    SketchSpec,
    read_releases,
    release,
)
from beam_dpsketch.answers.counts import ReleasedListedItems
from beam_dpsketch.answers.release_file import RecordWriter, to_record
from beam_dpsketch.answers.released_sketch import ReleasedSketch
from beam_dpsketch.exact.sketches.listed_items import ListedHistogram
from beam_dpsketch.noise.calibration import calibrate
from beam_dpsketch.privacy.contributions import PrivacyUnit
from tests.helpers import by_hand, golden
from tests.helpers.stored import forged

ITEMS = ["Oslo", b"Oslo", 1, "1", ("Oslo", 1)]
COUNTERS = [50, -7, 300, 0, 50]


def of(items: list[Any], counters: Any, **changes: Any) -> ReleasedListedItems:
    return ReleasedListedItems(ListedItems(items), np.array(counters), by_hand.statement(**changes))


REACH, HALF = 5.880859375 + 0.5, 2.025390625 + 0.5
"""1.96 and 0.67 deviations of 3, on the grid of the noise, and what rounding took."""
RELEASED = of(ITEMS, COUNTERS)


def test_estimates_are_the_counters() -> None:
    assert RELEASED.estimate(ITEMS).tolist() == COUNTERS
    assert RELEASED.estimate(ITEMS).dtype == np.float64
    assert RELEASED.estimate("Oslo") == 50.0
    assert RELEASED.estimate(1) == 300.0
    assert RELEASED.estimate(np.array(["1", "Oslo"])).tolist() == [0, 50]
    assert RELEASED.estimate(pa.array([1, 1])).tolist() == [300, 300]
    assert RELEASED.estimate([]).tolist() == []
    assert RELEASED.counters.tolist() == COUNTERS
    assert RELEASED.counters.dtype == np.int64
    assert not RELEASED.counters.flags.writeable


def test_intervals_reach_a_whole_margin_and_what_rounding_took_to_each_side() -> None:
    margin = math.ceil(3 * NormalDist().inv_cdf(0.975))
    assert margin == 6
    assert list(RELEASED.interval(["1", 1])) == [("1", 0, -REACH, REACH), (1, 300, 300 - REACH, 300 + REACH)]
    assert RELEASED.interval("Oslo", 0.5) == ("Oslo", 50, 50 - HALF, 50 + HALF)
    assert RELEASED.as_rows(["Oslo"])[0] == {"item": "Oslo", "estimate": 50, "lower": 50 - REACH, "upper": 50 + REACH}


def fewer_hold_than(confidence: float, sigmas: float) -> bool:
    """Whether intervals of this many sigmas hold too rarely, over the counters of one release."""
    truth = np.arange(20_000)
    raw = ListedHistogram(ListedItems(truth)).accumulate(truth, truth)
    released = release(raw, ReleaseTerms(PrivacySpec(rho=0.01), RecordBounds(1, max_weight=3)))
    off = np.abs(released.estimate(truth) - truth)
    margin = (released.interval([0], confidence).upper - released.estimate([0]))[0] * sigmas
    held = int(np.count_nonzero(off <= margin))
    return bool(stats.binomtest(held, len(truth), confidence, "less").pvalue < 1e-9)


def test_intervals_of_real_releases_hold() -> None:
    assert not fewer_hold_than(0.95, sigmas=1)
    assert fewer_hold_than(0.95, sigmas=0.8)


@pytest.mark.parametrize(("relation", "delta_squared"), [({}, 1), ({"relation": REPLACE_ONE}, 2)])
def test_noise_is_that_of_one_row_without_signs(relation: Any, delta_squared: int) -> None:
    bounds = RecordBounds(4, max_weight=3)
    terms = ReleaseTerms(PrivacySpec(rho=0.5, **relation), bounds, privacy_unit=PrivacyUnit.PRIVACY_ID)
    raw = ListedHistogram(ListedItems(["a", "b"])).accumulate(["a", "c"], [2, 9])
    released: ReleasedListedItems = release(raw, terms)
    assert released.privacy.sigma_squared_per_level == (delta_squared * 12**2,)
    sketch = release(CountSketch(SketchSpec(depth=5)), terms)
    ratio = sketch.privacy.sigma_squared / released.privacy.sigma_squared
    assert ratio == (10 if relation else 5)


@pytest.mark.parametrize("relation", [ADD_OR_REMOVE_ONE, REPLACE_ONE])
@pytest.mark.parametrize("signed", [False, True])
def test_noise_is_calibrated_to_the_largest_change_of_the_counters(relation: Any, signed: bool) -> None:
    """Brute force over all that one person may hold: 3 records of weights up to 2, of two listed items and another."""
    bounds = RecordBounds(3, max_weight=2, signed=signed)
    spec, weights = ListedItems(["a", "b"]), range(bounds.min_weight, bounds.max_weight + 1)
    records = itertools.combinations_with_replacement(itertools.product(["a", "b", "other"], weights), 3)
    units = {tuple(ListedHistogram(spec).accumulate(*zip(*held, strict=True)).counters.tolist()) for held in records}
    others = units if relation is REPLACE_ONE else {(0, 0)}
    largest = max((x - u) ** 2 + (y - v) ** 2 for x, y in units for u, v in others)
    terms = ReleaseTerms(PrivacySpec(rho=0.5, relation=relation), bounds, privacy_unit=PrivacyUnit.PRIVACY_ID)
    assert calibrate(spec, terms.without_summary_counts()) == (largest,)
    aside = 2 if signed else 3  # units, weight, and lost weight unless there are signs
    assert calibrate(spec, terms) == (largest / (1 - aside * Fraction(1, 50)),)


def test_weights_need_bounds_that_say_how_large_they_are() -> None:
    raw = ListedHistogram(ListedItems(["a"])).accumulate(["a"], [5])
    with pytest.raises(ValueError, match="bounds must set max_weight"):
        release(raw, ReleaseTerms(PrivacySpec(rho=1)))


def test_lists_need_no_candidates() -> None:
    assert [row.item for row in RELEASED.top_k(9)] == [1, "Oslo", ("Oslo", 1), "1", b"Oslo"]
    assert list(RELEASED.top_k(2)) == [(1, 300, 300 - REACH, 300 + REACH), ("Oslo", 50, 50 - REACH, 50 + REACH)]
    assert RELEASED.top_k(1, confidence=0.5).upper.tolist() == [300 + HALF]
    assert [row.item for row in RELEASED.top_k(2, ["1", ("Oslo", 1), "1"])] == [("Oslo", 1), "1"]


@given(counters=st.lists(st.integers(-100, 100), min_size=1, max_size=30), k=st.integers(1, 40))
def test_the_list_is_that_of_all_items_as_candidates(counters: list[int], k: int) -> None:
    released = of([f"item {place}" for place in range(len(counters))], counters)
    assert released.top_k(k) == released.top_k(k, released.spec.items)


SECRET = "Jenny-8675309"


@pytest.mark.parametrize("ask", ["estimate", "interval", "as_rows"])
def test_questions_about_unlisted_items_say_how_many_and_what_to_do(ask: str) -> None:
    with pytest.raises(
        ValueError, match=r"2 of 4 are not\. Use items from spec\.items, or release .* SketchSpec"
    ) as caught:
        getattr(RELEASED, ask)(["Oslo", SECRET, 1, SECRET])
    assert SECRET not in str(caught.value)
    with pytest.raises(ValueError, match="items must be listed, but 1 of 1 are not"):
        getattr(RELEASED, ask)(SECRET)
    with pytest.raises(ValueError, match="items must be listed, but 1 of 2 are not"):
        RELEASED.top_k(1, [1, SECRET])
    for wrong in (1.5, True, [None], [[SECRET]], pa.array([SECRET, None])):
        with pytest.raises(TypeError, match="items must"):
            getattr(RELEASED, ask)(wrong)


def test_releases_of_one_list_combine() -> None:
    other = of(ITEMS, [1, 2, 3, 4, 5], release_ids=(bytes(48),), rho=Fraction(1, 3), sigma_squared_per_level=(16,))
    both = RELEASED.combine(other)
    assert both.estimate(ITEMS).tolist() == [51, -5, 303, 4, 55]
    assert both.privacy.sigma_squared == 25
    assert both.privacy.rho == Fraction(5, 6)
    assert both.interval(1).upper == pytest.approx(303 + 1 + 5 * NormalDist().inv_cdf(0.975), abs=2**-8)
    with pytest.raises(IncompatibleSketchError, match="differ in items") as caught:
        RELEASED.combine(of([*ITEMS[1:], SECRET], COUNTERS))
    assert SECRET not in str(caught.value)
    with pytest.raises(IncompatibleSketchError, match="differ in kind"):
        RELEASED.combine(by_hand.SKETCH)


def test_a_lookup_that_was_used_does_not_keep_releases_apart() -> None:
    first, second = of(["a"], [1]), of(["a"], [2], release_ids=(bytes(48),))
    first.estimate("a")
    assert first.combine(second).estimate("a") == 3


def test_more_items_than_two_bytes_can_number_are_written() -> None:
    released = of(list(range(70_000)), np.arange(70_000))
    again = ReleasedSketch.from_bytes(released.to_bytes())
    assert again.spec.cells == 70_000
    assert again.estimate([69_999, 5]).tolist() == [69_999, 5]


def test_files_hold_them_with_and_without_keys(tmp_path: Any) -> None:
    for name, element in {"alone": RELEASED, "pair": ("Oslo", RELEASED)}.items():
        writer = RecordWriter((tmp_path / name).open("wb"))
        writer.write(to_record(element))
        writer.close()
    assert read_releases(tmp_path / "alone", ReleasedListedItems) == [RELEASED]
    assert read_releases(tmp_path / "pair", ReleasedListedItems, keyed=True) == [("Oslo", RELEASED)]


def test_only_one_form_of_a_list_is_read() -> None:
    data = of(["a", "b"], [1, 2]).to_bytes()
    for wrong in (
        b"\x02\x00\x00\x00sa\x02\x00\x00\x00sa",  # an item twice
        b"\x02\x00\x00\x00sa\x02\x00\x00\x00xb",  # an unknown type
        b"\x02\x00\x00\x00sa\x03\x00\x00\x00sb",  # cut
        b"\x02\x00\x00\x00s\xff\x02\x00\x00\x00sb",  # no text
        b"\x0c\x00\x00\x00" + bytes(8),
        b"\xff\xff\xff\xff\x02\x00\x00\x00sa",
        b"",
    ):
        with pytest.raises(FormatError):
            ReleasedSketch.from_bytes(forged(data, {"spec.encoded_items": wrong}))


def test_the_golden_release_has_its_known_answers() -> None:
    released = ReleasedSketch.from_bytes(golden.path("listed_items").read_bytes())
    assert released.estimate(["Oslo", 1, (1 << 64) - 1, "\ud800"]).tolist() == [-300, 0, 200, 400]
    assert released.estimate([b"\xff", -(1 << 63), ("a", (1, b"")), ""]).tolist() == [-100, 100, 300, -200]


def test_its_size_is_shown_and_no_item() -> None:
    released = of([SECRET, "b"], [1, 2])
    assert repr(released).splitlines()[0] == "<ReleasedListedItems of 2 listed items, rho=0.5, at most 11.36 records>"
    table = released._repr_html_()
    assert "2 listed items" in table
    assert SECRET not in table


def test_counters_must_be_as_many_as_items() -> None:
    with pytest.raises(ValueError, match="counters must have 2"):
        of(["a", "b"], [1])
    with pytest.raises(TypeError, match="spec must be a ListedItems, got SketchSpec"):
        ReleasedListedItems(SketchSpec(), np.zeros(3, dtype=np.int64), by_hand.statement())
    with pytest.raises(ValueError, match="a value for each level"):
        of(["a"], [1], sigma_squared_per_level=(Fraction(1), Fraction(1)))
