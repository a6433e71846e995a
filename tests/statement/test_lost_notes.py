"""What releases say of the weight that bounding took: shares, words, and what is left of them in a combination."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest

from beam_dpsketch import (
    CountMin,
    ItemFrequencies,
    Lost,
    NormBound,
    PrivacyId,
    PrivacySpec,
    PrivacyUnit,
    RecordBounds,
    ReleaseSpec,
    SketchSpec,
    release_frame,
)
from beam_dpsketch.answers.released_sketch import ReleasedSketch
from beam_dpsketch.privacy.aside.lost_histogram import least_losses
from beam_dpsketch.statement.lost_notes import LostNote
from beam_dpsketch.statement.showing import shown
from tests.helpers import by_hand

BINS = 27
SPEC = SketchSpec(kind="count_min", depth=1, width=2)
RUNS = [bytes([number]) * 16 for number in range(3)]


def histogram(units_in: dict[int, int]) -> tuple[int, ...]:
    """Counts by the smallest loss of their bins."""
    return tuple(units_in.get(int(edge), 0) if edge >= 1 else 0 for edge in least_losses(BINS))


def lost_note(counts: tuple[int, ...], kept: int | None = None, variance: int = 100) -> LostNote:
    of_run = None if kept is None else weight(kept)
    return LostNote(share=Fraction(1, 50), sigma_squared=Fraction(variance), counts=counts, kept=of_run)


def weight(value: int) -> Any:
    return by_hand.note(("records", "weight"), Fraction(1, 50), Fraction(1), Fraction(100), value)


def released(lost: LostNote | None, kept: int = 1000, *, run: bytes = RUNS[0], part: int = 0, **changes: Any) -> Any:
    settings: dict[str, Any] = {"unit": PrivacyUnit.PRIVACY_ID, "bounds": RecordBounds(3), **changes}
    name = run + bytes([part]) * 16 + bytes([len(run), part]) * 8
    return by_hand.released(CountMin, SPEC, [[1, 2]], lost=lost, side=(weight(kept),), release_ids=(name,), **settings)


def test_a_share_is_of_what_is_kept_and_lost() -> None:
    found = released(lost_note(histogram({1: 1000, 2: 500, 4: 250})), kept=7000).lost()
    assert found.at_least < found.estimate < found.at_most
    assert found.at_least == pytest.approx(3000 / 10_000, rel=0.2)
    assert 3000 / 10_000 < found.estimate < 6000 / 13_000
    assert str(found).startswith("about ")
    assert "of the records (at least" in str(found)


def test_few_units_leave_a_lower_end_and_nothing_leaves_none() -> None:
    few = released(lost_note(histogram({128: 100})), kept=10_000).lost()
    assert math.isnan(few.estimate)
    assert math.isnan(few.at_most)
    assert 0.3 < few.at_least < 12_800 / 22_800
    assert str(few).startswith("at least ")
    nothing = released(lost_note(histogram({}))).lost()
    assert nothing.at_least == 0
    assert math.isnan(nothing.shown)  # and not 0, which would say that nothing was lost
    assert str(nothing).startswith("unknown: no loss shows above the noise")


def test_weights_and_runs_are_named() -> None:
    counts = histogram({1: 1000, 2: 500})
    weights = RecordBounds(3, max_weight=7)
    assert released(lost_note(counts), bounds=weights).lost().whole == "the weight"
    assert released(lost_note(counts, kept=5000)).lost().whole == "the records of all keys and windows"
    assert released(lost_note(counts, kept=5000), kept=-5).lost() == released(lost_note(counts, kept=5000)).lost()


def test_what_tells_no_loss_says_so() -> None:
    with pytest.raises(ValueError, match=r"does not count what bounding took: .*SideCounters\(lost=\.\.\.\)"):
        released(None).lost()
    with pytest.raises(ValueError, match="lost needs weights that are not signed"):
        released(None, bounds=NormBound(9, max_weight=5, signed=True)).lost()


def test_releases_that_count_their_own_add_up() -> None:
    first, second = (released(lost_note(histogram({1: 10 * number, 4: 7})), run=RUNS[number]) for number in (1, 2))
    both = first.combine(second).privacy.lost
    assert both.counts == histogram({1: 30, 4: 14})
    assert both.sigma_squared == 200


def test_releases_of_one_run_tell_its_loss_once_and_runs_add_up() -> None:
    lost = {run: lost_note(histogram({2: 100 * number}), kept=1000) for number, run in enumerate(RUNS)}
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
    for lost in (lost_note(histogram({1: 900, 2: 500})), lost_note(histogram({1: 900}), kept=77)):
        one = released(lost)
        again = ReleasedSketch.from_bytes(one.to_bytes())
        assert again.privacy.lost == lost
        assert again.lost() == one.lost()
        assert again.privacy.as_dict()["lost"]["counts"] == list(lost.counts)
        assert f"Lost to the bounds: {one.lost()}." in str(one.privacy)


def test_combined_noise_is_that_of_the_sum() -> None:
    """The interval of many releases is wider than that of one, and holds for what they lost together."""
    parts = [released(lost_note(histogram({8: 40}), variance=400), run=bytes([n]) * 16) for n in range(3, 40)]
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.combine(part)
    assert whole.privacy.lost.sigma_squared == 400 * 37
    assert 0 < whole.lost().at_least <= 37 * 40 * 16 / (37 * 40 * 8 + 37_000)


def test_a_lost_share_is_plain() -> None:
    assert repr(Lost(0.24, 0.16, 0.35)) == (
        "<Lost to the bounds: about 24 % of the weight (at least 16 %; 35 % if the heaviest go on as the others do)>"
    )
    assert np.isnan(Lost(math.nan, 0.1, math.nan).estimate)


def test_units_that_keep_more_than_they_count_with_have_lost_the_weight_that_is_said() -> None:
    """Each has 400 items, keeps 380 and counts with 76. False alarms: 1e-9 each."""
    units, items = 2000, 400
    unit = PrivacyId("person", NormBound(19))
    wide = SketchSpec(depth=1, width=1 << 16)
    spec = ReleaseSpec(ItemFrequencies(wide), PrivacySpec(rho=Fraction(1, 10)), unit, item="item")
    data = pd.DataFrame({"person": np.repeat(np.arange(units), items), "item": np.tile(np.arange(items), units)})
    released: Any = release_frame(data, spec)
    lost = released.lost(1 - 1e-9)
    truth = units * (items - 380)
    assert 0.7 * truth < lost.weight <= truth
    assert lost.most_kept == 76
    assert lost.at_least > 20 / 400, "the share is too high, and so it is not said to hold"
    assert f"(at least {shown(released.lost().weight)} of them; " in str(released.lost())
    assert "less if units keep over 76 each" in str(released.lost())
