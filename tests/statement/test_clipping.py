"""Clipping of statements: its numbers, its words, and what is left of them in a combination."""

from __future__ import annotations

import dataclasses
import math
import re
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest

from beam_dpsketch import (
    Clipping,
    CountSketch,
    ItemFrequencies,
    NormBound,
    PrivacyId,
    PrivacySpec,
    RecordBounds,
    ReleaseSpec,
    SketchSpec,
    release_frame,
)
from beam_dpsketch.answers.released_sketch import ReleasedSketch
from beam_dpsketch.privacy.contributions import PrivacyUnit
from beam_dpsketch.privacy.summary_counts import Uncounted, least_losses
from beam_dpsketch.statement.clipping import ClippingState, in_one_line, weakest
from beam_dpsketch.statement.lost_notes import LostNote
from tests.helpers import by_hand

SPEC = SketchSpec(depth=1, width=2)
RUNS = [bytes([number]) * 16 for number in range(3)]


def histogram(units_in: dict[int, int]) -> tuple[int, ...]:
    """Counts by the smallest loss of their bins."""
    assert units_in.keys() <= {*least_losses(0)}
    return tuple(units_in.get(int(edge), 0) for edge in least_losses(0))


def lost_note(counts: tuple[int, ...], kept: int | None = None, variance: int = 100) -> LostNote:
    of_run = None if kept is None else weight(kept)
    return LostNote(share=Fraction(1, 50), sigma_squared=Fraction(variance), first=0, counts=counts, kept=of_run)


def weight(value: int) -> Any:
    return by_hand.note(("records", "weight"), Fraction(1, 50), Fraction(1), Fraction(100), value)


def released(lost: LostNote | None, kept: int = 1000, *, run: bytes = RUNS[0], part: int = 0, **changes: Any) -> Any:
    settings: dict[str, Any] = {"privacy_unit": PrivacyUnit.PRIVACY_ID, "bounds": RecordBounds(3), **changes}
    name = run + bytes([part]) * 16 + bytes([len(run), part]) * 8
    aside = {"lost": lost, "side": (weight(kept),), "release_ids": (name,)}
    return by_hand.released(CountSketch, SPEC, [[1, 2]], **aside, **settings)


def test_a_share_is_of_what_is_kept_and_removed() -> None:
    found = released(lost_note(histogram({1: 1000, 4: 250, 16: 60})), kept=7000).clipping()
    assert found.state is ClippingState.ESTIMATED
    assert found.at_least < found.estimate < found.upper_estimate
    assert found.at_least == pytest.approx(2960 / 9960, rel=0.2)
    assert 2960 / 9960 < found.estimate < 7000 / 14_000
    assert str(found).startswith("Clipping: about ")
    assert "of the total count was removed (estimated range " in str(found)


def test_few_units_leave_a_lower_end_and_nothing_leaves_none() -> None:
    few = released(lost_note(histogram({256: 37})), kept=10_000).clipping()
    assert few.state is ClippingState.LOWER_BOUND
    assert math.isnan(few.estimate)
    assert math.isnan(few.upper_estimate)
    assert 0.05 < few.at_least < 37 * 256 / (10_000 + 37 * 256)
    assert re.fullmatch(
        r"Clipping: at least [\d.]+ % of the total count was removed, possibly much more\. .*", str(few)
    )
    nothing = released(lost_note(histogram({}))).clipping()
    assert nothing.state is ClippingState.NOT_DETECTED
    assert nothing.at_least == 0
    assert nothing.columns() == {
        "clipping": "not detected",
        "clipped": None,
        "clipped_at_least": 0.0,
        "clipped_upper_estimate": None,
    }
    assert str(nothing) == (
        "Clipping: not detected (up to 75 privacy ids may be clipped by 1 or more records each; "
        "their total loss is not bounded). Intervals do not include it."
    )  # 98.75 % of the noise of 11 counts with sigma = 10


@pytest.mark.parametrize("kept", [900, 1_900, 6_000, 15_000, 20_000, 40_000])
def test_a_lower_end_without_an_estimate_is_never_silent(kept: int) -> None:
    """From 0.5 % on it is told; below, no clipping is said to be detected. The estimate stands for no lower end."""
    found = released(lost_note(histogram({16: 37})), kept=kept).clipping()
    assert math.isnan(found.estimate)
    assert found.columns()["clipped"] is None
    is_detected = found.at_least >= 0.005
    assert found.state is (ClippingState.LOWER_BOUND if is_detected else ClippingState.NOT_DETECTED)
    assert ("at least" in str(found)) == is_detected
    assert is_detected == (kept < 30_000)


def test_a_lower_end_in_words_is_rounded_down() -> None:
    states = {"state": ClippingState.LOWER_BOUND, "at_least_weight": 16_089.9}
    assert "at least 1.4 % of" in str(Clipping(**states, at_least=0.01499))
    assert "at least 16,080 of" in str(Clipping(**states, at_least=0.01499, assumed_cap=80.0))
    wide = Clipping(state=ClippingState.ESTIMATED, estimate=0.289, at_least=0.1799, upper_estimate=0.3301)
    assert "about 29 % of the total count was removed (estimated range 17 % to 34 %)" in str(wide)
    capped = dataclasses.replace(wide, assumed_cap=80.0, weight=16_090.4, at_least_weight=8123.4, upper_weight=20_001.2)
    assert str(capped) == str(wide)
    assert capped.assumption == (
        "at least 8,123 was removed, with 97.5 % confidence; as a share, that assumes that no privacy id contributes "
        "more than 80 after clipping; the estimate and the upper end assume that the largest contributions follow the "
        "trend of the others"
    )
    assert "no privacy id contributes" not in dataclasses.replace(capped, assumed_cap=math.inf).assumption
    assert Clipping().assumption == ""


@pytest.mark.parametrize(
    ("counts", "kept", "known"),
    [
        ({1: 1000, 4: 250, 16: 60}, 7000, True),  # the upper end is below 3 times the lower end
        ({1: 1000, 4: 250, 16: 60}, 500_000, True),  # the range has less than 20 percentage points
        ({1: 100, 4: 60}, 500, False),
        ({64: 60}, 10_000, False),
    ],
)
def test_a_wide_range_has_no_point_estimate(counts: dict[int, int], kept: int, known: bool) -> None:
    """A reader of a number in the middle would trust it. Words, columns and attributes agree."""
    found = released(lost_note(histogram(counts)), kept=kept).clipping()
    low, high = found.at_least, found.upper_estimate
    assert found.state is ClippingState.ESTIMATED
    assert (high <= 3 * low or high - low <= 0.2) == known
    assert math.isnan(found.estimate) is math.isnan(found.weight) is not known
    assert (found.columns()["clipped"] is None) is (found.as_dict()["estimate"] is None) is not known
    assert found.columns()["clipped_upper_estimate"] == high
    assert ("about" in str(found)) is ("the estimate and" in found.assumption) is known
    assert ("between" in str(found)) is ("the upper end assumes" in found.assumption) is not known


def test_a_range_in_words_is_rounded_outwards() -> None:
    found = Clipping(state=ClippingState.ESTIMATED, at_least=0.0587, upper_estimate=0.931)
    assert str(found).startswith("Clipping: between 5.8 % and 94 % of the total count was removed (estimated). ")


def test_how_many_units_were_clipped_is_told_where_it_is_not_told_how_much() -> None:
    """Where the bounds have weights, losses are weights; the lower end of the number of units may be 0."""
    few: dict[str, Any] = {
        "state": ClippingState.NOT_DETECTED,
        "at_least": 0.0,
        "clipped_units": 93.4,
        "most_clipped_units": 150.2,
        "least_loss": 4.0,
    }
    most = "at most 160 privacy ids were clipped by {} or more, with 97.5 % confidence"
    found = str(Clipping(**few))
    assert "(up to 160 privacy ids may be clipped by 4 or more records each; their total loss is not bounded)." in found
    assert Clipping(**few).assumption == most.format("4 records")
    assert Clipping(**few | {"least_loss": 1.0}).assumption == most.format("1 record")
    weights = Clipping(**few | {"clipped_units": 75.0, "total": "total weight"})
    assert weights.assumption == most.format("a weight of 4")
    least = Clipping(**few | {"state": ClippingState.LOWER_BOUND, "at_least": 0.02})
    assert "at least 2 % of the total count was removed, possibly much more." in str(least)
    assert least.assumption == most.format("4 records")
    assert "(clipping of a few privacy ids may not show; their total loss is not bounded)" in str(
        Clipping(state=ClippingState.NOT_DETECTED, at_least=0.0)
    )


def test_weights_and_runs_are_named() -> None:
    counts = histogram({1: 1000, 4: 500})
    weights = RecordBounds(3, max_weight=7)
    assert released(lost_note(counts), bounds=weights).clipping().total == "total weight"
    of_run = released(lost_note(counts, kept=5000)).clipping()
    assert of_run.total == "total count over all keys and windows"
    assert released(lost_note(counts, kept=5000), kept=-5).clipping() == of_run


@pytest.mark.parametrize(
    "changes", [{}, {"bounds": NormBound(9, max_weight=5, signed=True)}, {"uncounted": Uncounted.LATER_WINDOWS}]
)
def test_what_measures_nothing_says_so_and_does_not_raise(changes: dict[str, Any]) -> None:
    found = released(None, **changes).clipping()
    assert found.state is ClippingState.NOT_MEASURED
    assert str(found).startswith("Clipping: not measured in this release. Intervals do not include it.")
    assert math.isnan(found.at_least)


def test_what_counts_in_full_was_not_clipped() -> None:
    """Single records without weights; a weight is capped, and so is one whose excess no histogram measures."""
    single = {"privacy_unit": PrivacyUnit.RECORD, "bounds": RecordBounds(1)}
    none = released(None, **single).clipping()
    assert none.state is ClippingState.CANNOT_HAPPEN
    assert (none.estimate, none.at_least, none.upper_estimate) == (0, 0, 0)
    assert str(none) == "Clipping: none; every record counts in full."
    for changes in ({"bounds": RecordBounds(1, max_weight=2)}, {"uncounted": Uncounted.EXCESS_WEIGHT}):
        assert released(None, **{**single, **changes}).clipping().state is ClippingState.NOT_MEASURED


def test_over_half_of_all_units_are_told_in_the_same_line() -> None:
    """They are counted by the histogram, also where the share that they lost is small."""
    units = by_hand.note(("units",), Fraction(1, 50), Fraction(1), Fraction(100), 900)
    for kept, state in ((1000, ClippingState.ESTIMATED), (500_000, ClippingState.ESTIMATED)):
        side = (units, weight(kept))
        lost = lost_note(histogram({1: 700}))
        statement = by_hand.statement(privacy_unit=PrivacyUnit.PRIVACY_ID, bounds=RecordBounds(3), lost=lost, side=side)
        found = statement.clipping()
        assert (found.state, found.most_units) == (state, True)
        assert "More than half of all privacy ids were clipped. Use a larger bound;" in str(found)
        assert statement.clipping().limited_to(ClippingState.LOWER_BOUND).state is ClippingState.LOWER_BOUND


def test_what_is_never_counted_is_named_and_never_called_not_detected() -> None:
    """Later windows of a stream: the histogram cannot see them."""
    all_of_them = Uncounted.LATE | Uncounted.OUTSIDE | Uncounted.LATER_WINDOWS
    settings = {"window_count": 2, "period_micros": 10**6, "privacy_unit": PrivacyUnit.PRIVACY_ID_IN_PERIOD}
    side = (weight(900), by_hand.note(("clipped",), Fraction(1, 50), Fraction(1), Fraction(100), 0))
    found = by_hand.statement(bounds=NormBound(3), side=side, uncounted=all_of_them, **settings).clipping()
    assert found.state is ClippingState.NOT_MEASURED
    assert str(found).endswith(
        "Records after a privacy id's first 2 windows of each period, late records and records outside the declared "
        "time range are not counted, and not measured."
    )
    seen = by_hand.statement(bounds=NormBound(3), side=side, **settings).clipping()
    assert seen.state is ClippingState.NOT_DETECTED
    capped = NormBound(3, max_distinct_items=9)
    assert by_hand.statement(bounds=capped, side=side, **settings).clipping().state is ClippingState.NOT_MEASURED


STATES = [*ClippingState]


@pytest.mark.parametrize("first", STATES)
@pytest.mark.parametrize("second", STATES)
def test_a_combination_knows_no_more_than_the_weaker_of_both(first: ClippingState, second: ClippingState) -> None:
    """`weakest` of a statement holds it, through bytes too; what is known for sure is still told."""
    makes = {
        ClippingState.ESTIMATED: lost_note(histogram({1: 1000, 4: 500})),
        ClippingState.LOWER_BOUND: lost_note(histogram({1: 39})),
        ClippingState.NOT_DETECTED: lost_note(histogram({})),
        ClippingState.NOT_MEASURED: None,
    }
    bounds: dict[ClippingState, Any] = {
        ClippingState.CANNOT_HAPPEN: {"privacy_unit": PrivacyUnit.RECORD, "bounds": RecordBounds(1)}
    }
    if (first is ClippingState.CANNOT_HAPPEN) is not (second is ClippingState.CANNOT_HAPPEN):
        weights = {"privacy_unit": PrivacyUnit.RECORD, "bounds": RecordBounds(1, max_weight=2)}
        bounds |= dict.fromkeys(makes, weights)
    parts = [
        released(makes.get(state), kept=100, run=RUNS[number], **bounds.get(state, {}))
        for number, state in enumerate((first, second))
    ]
    assert [part.clipping().state for part in parts] == [first, second]
    for both in (parts[0].combine(parts[1]), parts[1].combine(parts[0])):
        found = ReleasedSketch.from_bytes(both.to_bytes()).clipping()
        assert found == both.clipping()
        assert found.state.weaker(first, second) is found.state
        if ClippingState.CANNOT_HAPPEN not in (first, second):
            assert found.state is first.weaker(second)
        if {first, second} == {ClippingState.LOWER_BOUND, ClippingState.NOT_DETECTED}:
            assert "was removed, and in a part of it no clipping was detected." in str(found)
            assert found.at_least > 0.005


def test_several_answers_have_one_line() -> None:
    few, many = (Clipping(state=ClippingState.LOWER_BOUND, at_least=share) for share in (0.1, 0.2))
    unknown = Clipping()
    assert weakest([few, many]) == many
    assert weakest([few, unknown, many]) == unknown
    assert in_one_line([few, few]) == str(few)
    assert in_one_line([few, many]) == f"{many} This is the weakest state of 2 answers."


def test_releases_that_count_their_own_add_up() -> None:
    first, second = (released(lost_note(histogram({1: 10 * number, 4: 7})), run=RUNS[number]) for number in (1, 2))
    both = first.combine(second).privacy.lost
    assert both.counts == histogram({1: 30, 4: 14})
    assert both.sigma_squared == 200


def test_releases_of_different_norms_add_up_by_the_loss_of_their_bins() -> None:
    small, large = lost_note((5, 4, 3, 2, 1)), dataclasses.replace(lost_note((10, 20, 30)), first=3)
    for both in (small.plus(large), large.plus(small)):
        assert dict(zip(both.losses, both.counts, strict=True)) == {1: 5, 4: 4, 16: 3, 64: 12, 256: 21, 1024: 30}
        assert both.sigma_squared == 200


def test_releases_of_one_run_tell_its_loss_once_and_runs_add_up() -> None:
    lost = {run: lost_note(histogram({4: 100 * number}), kept=1000) for number, run in enumerate(RUNS)}
    parts = [released(lost[run], run=run, part=part) for run in RUNS for part in range(2)]
    of_run = parts[0].combine(parts[1])
    assert of_run.privacy.lost == lost[RUNS[0]]
    runs = of_run.combine(parts[2]).privacy.lost
    assert runs == lost[RUNS[0]].plus(lost[RUNS[1]])
    assert runs.kept.value == 2000
    crossed = parts[0].combine(parts[2]), parts[1].combine(parts[3])
    assert crossed[0].combine(crossed[1]).privacy.lost == runs
    overlapping = of_run.combine(parts[2].combine(parts[4])), parts[0].combine(parts[2].combine(parts[3]))
    assert overlapping[0].privacy.lost is not None
    assert overlapping[1].privacy.lost == runs
    assert crossed[0].combine(parts[1].combine(parts[4])).privacy.lost is None  # one run is in both, others are not


def test_what_only_one_tells_is_left_out() -> None:
    own = released(lost_note(histogram({1: 5})), run=RUNS[1])
    assert own.combine(released(None, run=RUNS[2])).privacy.lost is None
    assert own.combine(released(lost_note(histogram({1: 5}), kept=9), run=RUNS[2])).privacy.lost is None


def test_the_share_of_rho_is_not_that_of_the_sketch() -> None:
    counts = histogram({})
    assert released(lost_note(counts)).privacy.sketch_share == Fraction(48, 50)
    assert released(lost_note(counts, kept=9)).privacy.sketch_share == Fraction(47, 50)


def test_bytes_and_statements_hold_the_histogram() -> None:
    for lost in (lost_note(histogram({1: 900, 4: 500})), lost_note(histogram({1: 900}), kept=77)):
        one = released(lost)
        again = ReleasedSketch.from_bytes(one.to_bytes())
        assert again.privacy.lost == lost
        assert again.clipping() == one.clipping()
        assert again.privacy.as_dict()["lost"]["counts"] == list(lost.counts)
        assert f"Clipping      {one.clipping().clauses}" in str(one.privacy).splitlines()


def test_combined_noise_is_that_of_the_sum() -> None:
    """The interval of many releases is wider than that of one, and holds for what they lost together."""
    parts = [released(lost_note(histogram({16: 40}), variance=400), run=bytes([n]) * 16) for n in range(3, 40)]
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.combine(part)
    assert whole.privacy.lost.sigma_squared == 400 * 37
    assert 0 < whole.clipping().at_least <= 37 * 40 * 16 / (37 * 40 * 16 + 37_000)


def test_units_that_keep_more_than_they_count_with_have_lost_the_weight_that_is_said() -> None:
    """Each has 400 items, keeps 380 and counts with 76. False alarms: 1e-9 each."""
    units, items = 2000, 400
    privacy_unit = PrivacyId("person", NormBound(19))
    wide = SketchSpec(depth=1, width=1 << 16)
    spec = ReleaseSpec(ItemFrequencies(wide), PrivacySpec(rho=Fraction(1, 10)), privacy_unit, item="item")
    data = pd.DataFrame({"person": np.repeat(np.arange(units), items), "item": np.tile(np.arange(items), units)})
    released: Any = release_frame(data, spec)
    found = released.clipping(1 - 1e-9)
    truth = units * (items - 380)
    assert 0.7 * truth < found.at_least_weight <= truth
    assert found.assumed_cap == 76
    assert found.at_least > 20 / 400, "the share is too high, and so a lower bound is told as a weight"
    least = str(found.limited_to(ClippingState.LOWER_BOUND))
    assert re.search(r"at least [23]\d,\d\d0 of the total count was removed, possibly much more", least)


def test_what_is_not_known_is_equal_to_what_is_not_known() -> None:
    """Python 3.13 compares the fields of data classes one by one, and NaN is no NaN."""
    assert Clipping(estimate=float("nan")) == Clipping()
    assert len({Clipping(estimate=float("nan")), Clipping()}) == 1
    assert Clipping(at_least=0.1) != Clipping()
    assert Clipping(upper_estimate=float("inf")) != Clipping()


CLAMPED = "values outside the value range are clamped, and not measured"
RANGE = {"type": "integer", "low": 0, "high": 50}
OF_VALUES: dict[str, tuple[dict[str, Any], bool]] = {
    "statistics": ({"kind": "statistics", "domain": RANGE}, True),
    "quantiles": ({"kind": "quantiles", "domain": RANGE}, True),
    "logarithmic": ({"kind": "quantiles", "domain": {"type": "log", "low": 1, "high": 50}}, True),
    "top_k": ({"kind": "top_k", "k": 3, "domain": {"type": "integer", "low": 0, "high": 2**32}}, True),
    "addresses": ({"kind": "top_k", "k": 3, "domain": {"type": "ipv4"}}, False),
    "frequencies": ({"kind": "frequencies"}, False),
}


@pytest.mark.parametrize("name", OF_VALUES)
def test_clamped_values_are_named_in_the_clipping_line_of_each_kind_that_clamps(name: str) -> None:
    settings, clamps = OF_VALUES[name]
    asked = {"item": "x", "privacy_unit": "record", "privacy": {"rho": 1}, **settings}
    found = release_frame(pd.DataFrame({"x": [1, 2, 99]}), asked)
    assert (CLAMPED in found.privacy.text()) == clamps
    assert (f" {CLAMPED.capitalize()}." in str(found.clipping())) == clamps
    assert Clipping(clamps=True).limited_to(ClippingState.NOT_MEASURED).clamps
