"""What released counts answer, how they combine, and what a release draws."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable
from fractions import Fraction
from statistics import NormalDist
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from beam_dpsketch import (
    CountMin,
    IncompatibleSketchError,
    IntegerDomain,
    NormBound,
    PrivacyId,
    PrivacySpec,
    Record,
    RecordBounds,
    SketchSpec,
    TextDomain,
    Thresholding,
)
from beam_dpsketch.answers.batch import answers_of
from beam_dpsketch.answers.counts import ReleasedCounts
from beam_dpsketch.answers.released_sketch import ReleasedSketch
from beam_dpsketch.exact.declared.release_spec import ReleaseSpec
from beam_dpsketch.exact.domains.base import short_keys
from beam_dpsketch.exact.sketches.listed_items import ThresholdedItems
from beam_dpsketch.noise.counting import Counting
from beam_dpsketch.planning.kinds.thresholded_counts import ThresholdedCounts
from beam_dpsketch.privacy.contributions import PrivacyUnit
from beam_dpsketch.privacy.mechanism import Randomness
from beam_dpsketch.privacy.noise.keyed_randomness import KeyedRandomness
from beam_dpsketch.statement.notes import KeyNote, ThresholdNote
from tests.helpers import by_hand

TEXT = TextDomain(4)
NOTE = ThresholdNote(max_items=2, threshold=12, most=19)


def released(counts: dict[Any, int], domain: Any = TEXT, run: int = 0, **changes: Any) -> ReleasedCounts:
    keys = short_keys(domain.index(list(counts))[0].tolist())
    made: dict[str, Any] = {"delta": Fraction(1, 10**8), "keys": NOTE, "release_ids": (bytes([run]) * 48,)}
    statement = by_hand.statement(**made | {"privacy_unit": PrivacyUnit.PRIVACY_ID} | changes)
    return ReleasedCounts(ThresholdedItems.of(domain, keys), np.array(list(counts.values()), dtype=np.int64), statement)


REACH = 5.880859375 + 0.5
"""1.96 deviations of 3, on the grid of the noise, and what rounding took."""
WORDS = released({"to": 90, "tea": 50, "": 50, "longest": 13})


def test_rows_are_the_counts_with_noise_around_them() -> None:
    """sigma is 3, so 95 % intervals reach 6, and what rounding took."""
    rows = WORDS.as_rows()
    assert [tuple(row.values()) for row in rows[:2]] == [
        ("to", 90, 90 - REACH, 90 + REACH, False),
        ("tea", 50, 50 - REACH, 50 + REACH, False),
    ]
    assert [{"place": place, **row} for place, row in enumerate(rows, 1)] == WORDS.top_k(9).to_rows()
    assert (WORDS.items, len(WORDS)) == (("to", "tea", "", "long"), 4)
    assert [row["item"] for row in rows if row["truncated"]] == ["long"]
    assert WORDS.interval(["longest", "to"]).truncated == {"longest"}
    assert WORDS.top_k(9).to_arrow() == pa.Table.from_pylist(WORDS.top_k(9).to_rows())
    assert WORDS.top_k(9).to_pandas().to_dict("records") == WORDS.top_k(9).to_rows()
    assert (WORDS.estimate("to"), WORDS.interval("to")) == (90, (WORDS.top_k(1)[0]))
    assert WORDS.estimate(["", "longer"]).tolist() == [50, 13]
    assert WORDS.top_k(9).detection_limit == pytest.approx(12 + 1.6449 * 3 + 0.5, abs=2**-8)


def test_of_items_that_are_not_released_little_is_known() -> None:
    assert math.isnan(WORDS.estimate("x"))
    row = WORDS.interval("x")
    assert (math.isnan(row.estimate), row.lower, row.upper) == (True, 0, 12 + REACH)
    assert [each.item for each in WORDS.top_k(3, ["x", "tea", "to", "x", "tea"])] == ["to", "tea"]
    assert WORDS.top_k(3, ["x"]).to_rows() == []
    with pytest.raises(TypeError, match=r"items must be text \(TextDomain\)"):
        WORDS.estimate(5)


def test_what_needs_all_items_is_refused_with_a_way_out() -> None:
    for ask in (WORDS.distance, WORDS.inner_product):
        with pytest.raises(ValueError, match=r"unreleased counts are unknown\. Use PrivateFrequencies"):
            ask(released({"to": 3}, run=1))


def test_releases_add_up_over_the_items_that_both_have() -> None:
    other = released({"tea": 200, "to": 40, "x": 30}, run=1)
    both = WORDS.combine(other)
    assert dict(zip(both.items, both.counters.tolist(), strict=True)) == {"tea": 250, "to": 130}
    assert (both.left_out, both.privacy.sigma_squared, both.privacy.rho) == (3, 18, 1)
    told = "Clipping: not measured in this release. Intervals do not include it."
    assert repr(both) == f"<ReleasedCounts of 2 items, up to 3 left out, rho=1, delta=2e-08>\n{told}"
    assert Fraction(19, 10**9) < both.privacy.delta < Fraction(2, 10**8)
    assert both == ReleasedSketch.from_bytes(both.to_bytes())
    assert both.interval("x").upper == math.inf
    assert both.top_k(1).detection_limit is None
    again = both.combine(released({"to": 7}, run=2))
    assert (again.items, again.counters.tolist(), again.left_out) == (("to",), [137], 4)
    assert WORDS.combine(other, units_disjoint=True).privacy.rho == Fraction(1, 2)
    nothing = WORDS.combine(released({}, run=3))
    assert (nothing.items, nothing.left_out) == ((), 4)


def test_ties_have_one_order() -> None:
    one = released({"b": 9, "a": 1}, run=1).combine(released({"a": 9, "b": 1}, run=2))
    assert one.items == ("a", "b")


def test_changes_are_those_of_items_that_both_have() -> None:
    later = released({"tea": 200, "to": 40, "x": 30}, run=1)
    assert [(row.item, row.before, row.after, row.change) for row in later.movers(WORDS)] == [
        ("tea", 50, 200, 150),
        ("to", 90, 40, -50),
    ]
    assert math.isnan(later.minus(WORDS).estimate("x"))


@pytest.mark.parametrize(
    "other",
    [
        released({"to": 3}, TextDomain(5), run=1),
        by_hand.released(CountMin, SketchSpec(depth=1, width=2), [[1, 2]], release_ids=(bytes(48),)),
    ],
    ids=["domain", "kind"],
)
def test_releases_of_other_domains_are_not_combined(other: Any) -> None:
    with pytest.raises(IncompatibleSketchError, match="the same kind and domain"):
        WORDS.combine(other)


def test_parts_of_records_are_kept_under_a_norm() -> None:
    bounds, note = (
        NormBound(5, max_keys=3),
        ThresholdNote(max_items=3, threshold=12 << 16, most=19 << 16, scale_bits=16),
    )
    statement = by_hand.statement(bounds=bounds, delta=Fraction(1, 10**8), keys=note)
    one = ReleasedCounts(ThresholdedItems.of(IntegerDomain(0, 9), [bytes(8)]), np.array([100]), statement, 3)
    assert (one.estimate(0), one.privacy.keys.least_count) == (12.5, 12)
    assert 17.9 < one.interval(5).upper < 18
    assert "released if the noisy count reaches 12 (" in str(one.privacy)


def test_an_item_that_votes_bring_in_can_have_a_count_below_zero() -> None:
    """Its interval is around that count; of others no more is known than by the threshold of counts."""
    votes = KeyNote(
        method="gaussian",
        max_keys=2,
        min_units=1,
        grid=48,
        sigma_squared=Fraction(48**2 * 9),
        threshold=960,
        half=960,
        most=1296,
        share=Fraction(3, 20),
    )
    one = released({"to": 90, "tea": 0, "x": -4}, keys=dataclasses.replace(NOTE, votes=votes))
    assert [each.item for each in one.top_k(9)] == ["to", "tea", "x"]
    assert one.interval("x")[1:4] == (-4, -4 - REACH, -4 + REACH)
    assert one.interval("y").upper == WORDS.interval("y").upper == 12 + REACH
    assert one.top_k(9).detection_limit == WORDS.top_k(9).detection_limit
    assert one.privacy.sketch_share == Fraction(17, 20)
    words = one.privacy.facts
    votes_of_one = (
        "by its votes: an item passes with probability 1/2 if it has 20 privacy ids that are in no other item"
    )
    assert votes_of_one in words["Items"]
    assert words["Selection"].startswith("probability 1/2 also with 30 privacy ids that are in 2 items each")
    assert "the count of an item that is released by its votes can be near 0, or below" in words["Selection"]
    assert words["Budget split"] == "85 % data, 15 % item selection (sigma = 3, in privacy ids)"
    assert ReleasedSketch.from_bytes(one.to_bytes()) == one
    assert one.privacy.as_dict()["keys"]["votes"]["share_of_rho"] == 0.15


def how(privacy_unit: Any = Record(), rho: float = 0.1, delta: float = 1e-8) -> Counting:  # noqa: B008
    counting: Counting = ReleaseSpec(
        ThresholdedCounts(TEXT, 1, Thresholding(delta)), PrivacySpec(rho=rho), privacy_unit
    ).resolved.calibrated
    return counting


def test_a_count_at_the_threshold_is_released_half_of_the_time_and_one_record_hardly_ever() -> None:
    """Of 40,000 draws the share differs from its probability by less than 0.02 but for 2e-14 (Hoeffding)."""
    counting = how()
    note, unit = counting.note, 1 << counting.items.grid_bits
    counts = np.full(40_000, -(-note.threshold // unit))
    shares = [counting.add_noise(counts + shift)[1].mean() for shift in (0, note.most // unit - counts[0])]
    at = NormalDist(0, math.sqrt(counting.items.parameter)).cdf(counts[0] - note.least_count)
    assert abs(shares[0] - at) < 0.02
    assert shares[1] > 0.99 - 0.02
    assert not how(delta=1e-14).add_noise(np.ones(40_000, dtype=np.int64))[1].any()  # 40,000 * 1e-14 at most
    lower = dataclasses.replace(note, threshold=note.threshold - 2 * unit)
    planted = counting._replace(note=lower)
    assert abs(planted.add_noise(counts)[1].mean() - at) > 0.02


def test_noise_is_that_of_rho_and_the_same_for_the_choice_and_the_count() -> None:
    """The mean of the released counts of an item at the threshold is that of the upper half of a normal law."""
    counting = how(rho=0.01)
    unit = 1 << counting.items.grid_bits
    counts = np.full(40_000, counting.note.threshold // unit)
    noisy, released_ones = counting.add_noise(counts)
    sigma, noise = math.sqrt(counting.items.parameter), noisy / unit - counts
    assert abs(noise[released_ones].mean() / sigma - math.sqrt(2 / math.pi)) < 0.1  # 20 standard errors
    assert abs(noise.std() / sigma - 1) < 0.03


def test_gathered_rows_are_sorted_and_rounded_after_the_noise() -> None:
    counting = how(PrivacyId("user", NormBound(50, max_keys=9)), rho=0.001)
    rows = [(b"a\x02", 90_000 << 16), (b"b\x02", (95_000 << 16) + 3), (b"\xff\x02", 1 << 60)]
    (one,) = answers_of(counting.gather(rows, bytes(32), bytes(16), Randomness.SYSTEM))
    assert (one.items, one.counters.tolist()) == (("b", "a"), [95_000, 90_000])
    assert one.privacy.bounds == NormBound(50, max_keys=9)


def with_votes(counting: Counting, counts: Iterable[int]) -> np.ndarray:
    """Rows of these counts, where ten units voted, if units vote, and half as many again in round two."""
    grid = 0 if counting.choice is None else counting.choice.rule.grid
    votes = (10 * grid, 10, 5 * grid, 10 * grid) if grid else ()
    return np.array([(count, *votes) for count in counts], dtype=np.int64)


def test_settings_and_counts_are_bound_to_keyed_noise() -> None:
    randomness = KeyedRandomness(bytes(range(32)), b"of tests")
    keyed = [randomness] * 30

    def drawn(counting: Counting) -> list[int]:
        return counting.draw(with_votes(counting, range(1000, 1030)), keyed)[0].tolist()

    first = drawn(how())
    assert first == drawn(how())
    noise = {value - 1000 - n for n, value in enumerate(first)}
    assert len(noise) > 3
    for other in (how(rho=0.11), how(Record(max_weight=2)), how(PrivacyId("u", RecordBounds(1, max_keys=2)))):
        assert drawn(other) != first


def test_a_keyed_count_never_changes() -> None:
    randomness = KeyedRandomness(bytes(range(32)), b"golden")
    units: dict[str, Any] = {
        "record": Record(max_weight=2),
        "bounds": PrivacyId("user", RecordBounds(2, max_keys=3)),
        "norm": PrivacyId("user", NormBound(5, max_keys=3)),
    }
    counted = {}
    for name, privacy_unit in units.items():
        counting = how(privacy_unit)
        scaled = [n << counting.terms.scale_bits for n in range(1000, 1004)]
        counted[name] = counting.draw(with_votes(counting, scaled), [randomness] * 4)[0].tolist()
    assert counted == {
        "record": [257224, 256823, 256845, 256604],
        "bounds": [126991, 127615, 127745, 129987],
        "norm": [66904116, 66391152, 66852754, 66524362],
    }


def test_raw_counts_have_no_sketch() -> None:
    from beam_dpsketch.exact.sketches import raw_type

    with pytest.raises(TypeError, match="abstract"):
        raw_type(ThresholdedItems(TEXT))(ThresholdedItems(TEXT))
