"""What a release says of its summary counts: in words, as plain values, in combinations, and within the noise."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from beam_dpsketch import (
    REPLACE_ONE,
    CountMin,
    CountSketch,
    NormBound,
    PrivacySpec,
    RecordBounds,
    ReleaseTerms,
    SketchSpec,
    release,
)
from beam_dpsketch.by_hand import release_part
from beam_dpsketch.noise.calibration import Calibration
from beam_dpsketch.noise.noising import draw_lost
from beam_dpsketch.privacy.contributions import PrivacyUnit
from beam_dpsketch.privacy.norm.bounds import AutoNorm
from beam_dpsketch.privacy.summary_counts import LostIn, SummaryCounts
from beam_dpsketch.statement.lost_notes import LostNote
from beam_dpsketch.statement.summary_notes import NAMES, add_up
from tests.helpers import by_hand
from tests.helpers.by_hand import note, row, statement
from tests.helpers.raw import raw_of
from tests.helpers.side_sums import EVERY
from tests.helpers.strategies import KINDS

SPEC = SketchSpec(depth=2, width=4)
PEOPLE: dict[str, Any] = {"privacy_unit": PrivacyUnit.PRIVACY_ID}
OTHER = {"release_ids": (bytes(48),)}
NORM = NormBound(Fraction(5, 2))


@pytest.mark.parametrize(
    ("names", "value", "words"),
    [
        ("units", 1200, "about 1,200 privacy ids (±10)"),
        ("records", 1200, "about 1,200 records (±10)"),
        ("weight", -1200, "about -1,200 in weight after clipping (±10)"),
        ("clipped", 1200, "about 1,200 in clipped weight (±10)"),
        ("scaled", 12, "about 12 scaled privacy ids (±10)"),
        (("units", "records", "weight"), 1200, "about 1,200 records (±10)"),
        (("units", "records"), 1200, "about 1,200 records (±10)"),
        (("records", "weight"), 1200, "about 1,200 records (±10)"),
        ("records", 0, "records not distinguishable from 0 (±10)"),
        ("records", 9, "records not distinguishable from 0 (±10)"),
        ("records", -9, "records not distinguishable from 0 (±10)"),
        ("records", 11, "about 11 records (±10)"),
    ],
)
def test_notes_in_words(names: Any, value: int, words: str) -> None:
    """With a sigma of 5, 95 % of the noise is within 9.8, and of whole numbers within 10."""
    assert str(note(names, value=value)) == words
    scaled = words.replace("±10", "±9.8")
    assert str(note(names, value=value << 16, scale_bits=16)) == scaled


def test_an_interval_is_of_the_noise() -> None:
    it = note("records", sigma_squared=Fraction(25), value=3 << 15, scale_bits=16)
    assert it.interval(0.95) == pytest.approx((1.5, 1.5 - 9.79982, 1.5 + 9.79982), abs=1e-4)
    assert it.interval(0.5) == pytest.approx((1.5, 1.5 - 3.37245, 1.5 + 3.37245), abs=1e-4)
    with pytest.raises(ValueError, match="confidence must be greater than 0"):
        it.interval(1.0)


def test_the_statement_says_how_much_is_in_the_release_and_what_paid_for_it() -> None:
    side = (
        note("units", Fraction(1, 50), sigma_squared=Fraction(100), value=1200),
        note("weight", Fraction(1, 40), sigma_squared=Fraction(10_000), value=4900),
    )
    lost = LostNote(share=Fraction(1, 40), sigma_squared=Fraction(100), first=0, counts=(0,) * 5)
    settings: dict[str, Any] = {"side": side, "norm_share": Fraction(1, 20), "rho": Fraction(1, 10), "lost": lost}
    it = statement(bounds=NORM, **settings)
    lines = str(it).splitlines()
    assert lines[3] == (
        "Contribution  clipped to an L2 norm of 2.5 records per privacy id (norm chosen from the data, privately); up "
        "to 2 records always count in full"
    )
    assert lines[4] == (
        "Clipping      not detected (up to 51 privacy ids may be clipped by 1 or more records each; "
        "their total loss is not bounded); intervals do not include it"
    )
    assert lines[5] == "Contents      about 1,200 privacy ids (±20), at least 4,704 in weight after clipping"
    details = it.details().splitlines()
    assert details[3] == (
        "Budget split  88 % data, 5 % norm (sigma = 14.14 per count), 2 % privacy ids (sigma = 10), 2.5 % weight after "
        "clipping (sigma = 100), 2.5 % clipping (sigma = 10 per count)"
    )  # two counts change when one unit is replaced: 2 / (2 rho / 20) = 200
    assert details[4:] == [
        'Intervals     ± is a 95 % interval for the noise; "at least" is a lower bound with 97.5 % confidence; neither '
        "includes clipping",
        "Assumptions   at most 51 privacy ids were clipped by 1 record or more, with 97.5 % confidence",
        "Counts        privacy ids: 1,200 ±20; weight after clipping: 4,900 ±196 (counted records only; the "
        "number of others is unknown)",
        "Not counted   records without a privacy id or a usable value",
    ]


def test_words_leave_out_what_is_not_there() -> None:
    plain = statement().facts
    assert plain["Contents"] == "not counted (there are no summary counts)"
    assert not plain.keys() & {"Budget split", "Intervals", "Counts", "Assumptions", "Selection", "Timeline", "Keys"}
    assert "chosen" not in statement().text()
    assert statement(bounds=NORM, norm_share=Fraction(1, 20)).facts["Budget split"].startswith("95 % data, 5 % norm (")
    long = Fraction(1234567, 98765432)
    split = statement(side=(note("records", long),)).facts["Budget split"]
    assert split.startswith("98.75 % data, 1.25 % records (")


def test_a_row_has_neither_contents_nor_a_share_that_was_clipped() -> None:
    """Its numbers are weighted sums of windows, and are never called records."""
    id_bounds: dict[str, Any] = {"privacy_unit": PrivacyUnit.PRIVACY_ID_OVER_HORIZON, "bounds": NORM}
    it = row(**id_bounds, side=(note("weight", value=900), note("clipped", value=100))).privacy
    said = it.facts
    assert said["Contents"] == "weighted sums of windows; the answers of the timeline report counts"
    assert said["Clipping"] == "not measured in this release; intervals do not include it"
    assert "clipped weight" in said["Budget split"]
    assert "Counts" not in said
    assert [*map(it.words_of, it.side)] == [
        "a weighted sum of the weight after clipping of windows",
        "a weighted sum of the clipped weight of windows",
    ]
    assert "side" not in it.as_dict()
    assert [each["names"] for each in it.as_dict()["weighted_sums_of_windows"]] == [["weight"], ["clipped"]]


def test_a_combination_says_what_it_holds_and_not_what_paid() -> None:
    settings: dict[str, Any] = {"bounds": NORM, "norm_share": Fraction(1, 20)}
    both = statement(**settings, side=(note("units", value=70),)).composed(
        statement(**settings, side=(note("units", value=50),), **OTHER), units_disjoint=False
    )
    assert both.facts["Contents"] == "about 120 privacy ids (±14)"
    assert "Budget split" not in both.facts
    assert both.facts["Contribution"] == (
        "clipped to an L2 norm of 2.5 records per privacy id (norms chosen from the data, privately), in each of 2 runs"
    )


def test_plain_values() -> None:
    side = (note(("units", "records"), value=7, squared_limit=Fraction(9)), note("weight", value=-3))
    plain = statement(side=side).as_dict()
    assert json.loads(json.dumps(plain)) == plain
    assert plain["norm_share"] == 0
    assert plain["side"][0] == {
        "names": ["units", "records"],
        "estimate": 7,
        "noise": "a discrete Gaussian",
        "sigma_squared": 25,
        "share_of_rho": 0.02,
        "limit": 3,
    }
    assert statement(bounds=NORM, norm_share=Fraction(1, 8)).as_dict()["norm_share"] == 0.125


@pytest.mark.parametrize("kind", KINDS)
def test_sums_are_of_what_both_count(kind: Any) -> None:
    first = (
        note("units", Fraction(1, 50), Fraction(4), Fraction(9), 100),
        note(("records", "weight"), Fraction(1, 25), Fraction(9), Fraction(16), 700),
        note("scaled", value=5),
    )
    second = (
        note("weight", value=8),
        note(("records", "weight"), Fraction(1, 30), Fraction(25), Fraction(5, 7), -60),
        note("units", Fraction(1, 20), Fraction(1), Fraction(1, 3), 11),
    )
    both = (
        note("units", Fraction(1, 50), Fraction(4), Fraction(28, 3), 111),
        note(("records", "weight"), Fraction(1, 30), Fraction(25), Fraction(117, 7), 640),
    )
    assert add_up(first, second) == both
    assert set(add_up(second, first)) == set(both)
    assert add_up(first, ()) == add_up((), second) == add_up(first[:1], second[1:2]) == ()
    second = second[1:]
    joined = by_hand.released(kind, SPEC, np.ones((2, 4)), side=first).combine(
        by_hand.released(kind, SPEC, np.ones((2, 4)), side=second, **OTHER)
    )
    assert joined.privacy.side == both
    assert type(joined).from_bytes(joined.to_bytes()) == joined


@pytest.mark.parametrize(("bits", "value"), [((0, 0), 12), ((16, 0), (5 << 16) + 7 * 1), ((0, 16), 5 + (7 << 16))])
def test_values_of_other_units_are_added_in_the_finer_one(bits: tuple[int, int], value: int) -> None:
    first, second = note("weight", value=5, scale_bits=bits[0]), note("weight", value=7, scale_bits=bits[1])
    total = first.plus(second)
    assert total.scale_bits == max(bits)
    assert total.estimate == first.estimate + second.estimate
    assert total == second.plus(first)


def test_values_wrap_around_as_counters_do() -> None:
    most = note("units", value=(1 << 63) - 1)
    assert most.plus(note("units", value=2)).value == -(1 << 63) + 1
    assert note("units", value=-(1 << 63)).plus(note("units", value=-1)).value == (1 << 63) - 1
    assert most.plus(note("units", scale_bits=16)).value == -(1 << 16)


@given(data=st.data())
def test_any_parts_can_be_combined_in_any_order(data: Any) -> None:
    """Whatever parts of rho three releases gave to their counts and choices, a part is left for the sketch."""
    part = st.fractions(Fraction(1, 1000), Fraction(999, 1000))
    statements = []
    for number in range(3):
        shares = [data.draw(part) for _ in range(3)]
        total = sum(shares) * data.draw(st.sampled_from([Fraction(11, 10), Fraction(100)]))
        spend, *others = (share / total for share in shares)
        side = tuple(note(name, share) for name, share in zip(("units", "weight"), others, strict=True))
        spend_or_none = data.draw(st.sampled_from([None, spend]))
        statements.append(
            statement(bounds=NORM, side=side, norm_share=spend_or_none, release_ids=(bytes([number] * 48),))
        )
    disjoint = data.draw(st.booleans())
    a, b, c = statements
    left = a.composed(b, units_disjoint=disjoint).composed(c, units_disjoint=disjoint)
    right = a.composed(b.composed(c, units_disjoint=disjoint), units_disjoint=disjoint)
    assert left == right
    assert left.sketch_share >= min(each.sketch_share for each in statements) > 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"names": ()}, "names must be different names from units, records"),
        ({"names": ("units", "units")}, "names must be different"),
        ({"names": ("people",)}, "names must be different"),
        ({"share": Fraction(0)}, "share must be above 0 and at most 1"),
        ({"share": Fraction(2)}, "share must be above 0 and at most 1"),
        ({"squared_limit": Fraction(0)}, "squared_limit must be above 0"),
        ({"squared_limit": Fraction((1 << 200) + 1)}, "squared_limit must be above 0"),
        ({"sigma_squared": Fraction(1, 257)}, "sigma_squared must be at least 1/256"),
        ({"sigma_squared": Fraction((1 << 200) + 1)}, "sigma_squared must be at least 1/256"),
        ({"share": Fraction(1, 3**5000)}, "denominators up to"),
        ({"squared_limit": Fraction(1, 3**5000)}, "denominators up to"),
        ({"sigma_squared": 1 + Fraction(1, 3**5000)}, "denominators up to"),
        ({"value": 1 << 63}, "value must be between"),
        ({"scale_bits": 17}, "scale_bits must be between 0 and 16"),
    ],
)
def test_notes_that_cannot_be_true_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        note(**{"names": "units", **changes})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"bounds": AutoNorm()}, r"bounds must be the chosen NormBound, not AutoNorm\(\)"),
        ({"norm_share": Fraction(1, 20)}, r"norm_share must be between 2\*\*-200 and 1, and None without a NormBound"),
        ({"bounds": NORM, "norm_share": Fraction(0)}, r"norm_share must be between 2\*\*-200 and 1"),
        ({"bounds": NORM, "norm_share": Fraction(1)}, r"norm_share must be between 2\*\*-200 and 1"),
        ({"bounds": NORM, "norm_share": Fraction(1, 3**5000)}, "denominators up to"),
        ({"side": (note("units"), note(("records", "units")))}, "side must name each count once"),
        ({"side": (note("units", Fraction(1, 2)), note("weight", Fraction(1, 2)))}, "must sum to less than 1"),
        (
            {"bounds": NORM, "norm_share": Fraction(1, 2), "side": (note("units", Fraction(1, 2)),)},
            "must sum to less than 1",
        ),
    ],
)
def test_statements_with_parts_that_cannot_be_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        statement(**changes)


@pytest.mark.parametrize("kind", KINDS)
def test_release_counts_nothing_aside_and_gives_all_of_rho_to_the_sketch(kind: Any) -> None:
    counted = PrivacySpec(rho=Fraction(1, 10), relation=REPLACE_ONE, summary_counts=SummaryCounts(units=0.5))
    released = release(raw_of(kind, SPEC), ReleaseTerms(counted, RecordBounds(3), **PEOPLE))
    assert (released.privacy.side, released.privacy.sketch_share) == ((), 1)
    row = 4 if kind is CountSketch else 2
    assert released.privacy.sigma_squared == row * SPEC.depth * 9 / (2 * Fraction(1, 10))
    chosen = ReleaseTerms(counted, NORM, norm_share=Fraction(1, 4), **PEOPLE)
    released = release(raw_of(kind, SPEC).in_units_of(16), chosen)
    assert (released.privacy.side, released.privacy.sketch_share) == ((), Fraction(3, 4))
    assert released.privacy.sigma_squared == row * SPEC.depth * Fraction(25, 4) / (2 * Fraction(3, 40))


def test_a_release_before_its_norm_is_chosen_is_refused() -> None:
    with pytest.raises(ValueError, match="Only transforms support AutoNorm"):
        release(CountSketch(SPEC).in_units_of(16), ReleaseTerms(PrivacySpec(rho=1), AutoNorm(), **PEOPLE))


@pytest.mark.parametrize(("bounds", "scale"), [(RecordBounds(2, max_weight=3), 1), (NORM, 1 << 16)])
def test_values_are_the_exact_ones_plus_noise_of_the_stated_variance(bounds: Any, scale: int) -> None:
    """False alarm at most 1e-9: one test of each of up to five counters at 2e-10, by a law of chi-square."""
    terms, count = ReleaseTerms(PrivacySpec(rho=Fraction(1, 10), summary_counts=EVERY), bounds, **PEOPLE), 300
    exact = np.arange(terms.aside, dtype=np.int64) * 1000 * scale
    raw = CountMin(SketchSpec(kind="count_min", depth=1, width=1)).in_units_of(terms.scale_bits)
    sides = [release_part(raw, exact, terms).privacy.side for _ in range(count)]
    assert [note.names for note in sides[0]] == [counter.names for counter in terms.counters]
    assert {name for note in sides[0] for name in note.names} == set(NAMES[:3])
    low, high = stats.chi2(count).ppf([1e-10, 1 - 1e-10])
    for place, first in enumerate(sides[0]):
        errors = np.array([side[place].estimate for side in sides]) - int(exact[place]) / scale
        square = float(np.sum(errors**2)) / float(first.sigma_squared)
        assert low < square < high
        assert not low < 4 * square < high


@pytest.mark.parametrize("lost_in", [LostIn.RELEASE, LostIn.RUN])
@pytest.mark.parametrize(("bounds", "scale"), [(RecordBounds(2, max_weight=3), 1), (NORM, 1 << 16)])
def test_lost_weight_is_the_exact_one_plus_noise_of_the_stated_variance(
    bounds: Any, scale: int, lost_in: LostIn
) -> None:
    """False alarm at most 1e-9: one test of all counts and one of what is kept at 2e-10, by a law of chi-square."""
    terms, times = ReleaseTerms(PrivacySpec(rho=Fraction(1, 10)), bounds, **PEOPLE, lost_in=lost_in), 300
    raw = CountMin(SketchSpec(kind="count_min", depth=1, width=1)).in_units_of(terms.scale_bits)
    calibration = Calibration.of(raw.spec, terms)
    note = calibration.empty_lost
    assert note is not None
    exact = np.arange(len(note.counts) + note.of_run, dtype=np.int64) * 1000
    if note.of_run:
        told = [draw_lost(exact, calibration) for _ in range(times)]
    else:
        side = np.append(np.zeros(len(terms.counters), dtype=np.int64), exact)
        told = [release_part(raw, side, terms).privacy.lost.counts for _ in range(times)]  # type: ignore[union-attr]
    size = len(note.counts)
    found = [(np.array(told)[:, :size] - exact[:size], note.sigma_squared + Fraction(1, 12))]
    if note.kept is not None:
        kept = np.array(told)[:, -1] / 2.0**note.kept.scale_bits - exact[-1] / scale
        found.append((kept, note.kept.sigma_squared))
    for each, sigma_squared in found:
        low, high = stats.chi2(each.size).ppf([1e-10, 1 - 1e-10])
        square = float(np.sum(each.astype(np.float64) ** 2)) / float(sigma_squared)
        assert low < square < high
        assert not low < 4 * square < high
