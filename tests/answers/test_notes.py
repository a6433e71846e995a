"""What a release knows, it says: notes fire where they should, and hardly ever on noise or ordinary data."""

from __future__ import annotations

import collections
import datetime
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from beam_dpsketch import (
    CountSketch,
    FactorizationSpec,
    FloatDomain,
    IntegerDomain,
    IPv4Domain,
    ListedItems,
    PrivacySpec,
    Quantiles,
    Record,
    RecordBounds,
    ReleaseSpec,
    ReleaseTerms,
    SketchSpec,
    Statistics,
    TimestampDomain,
    TreeSpec,
    release,
    release_frame,
)
from beam_dpsketch.answers import notes
from beam_dpsketch.answers.notes import codes
from beam_dpsketch.answers.released_sketch import ReleasedSketch
from beam_dpsketch.exact.domains import Domain
from beam_dpsketch.exact.sketches import raw_type
from beam_dpsketch.frames.releasing import release_table
from beam_dpsketch.privacy.contributions import PrivacyUnit
from beam_dpsketch.privacy.noise.keyed_randomness import KeyedRandomness
from beam_dpsketch.statement.showing import shown
from tests.helpers import by_hand

DAY = datetime.timedelta(days=1)
YEAR = TimestampDomain(datetime.datetime(2024, 1, 1), datetime.datetime(2024, 12, 31), DAY)


def counted(spec: Any, items: Any, rho: float = 1.0, draw: bytes = b"") -> Any:
    spec = TreeSpec.for_memory(spec) if isinstance(spec, Domain) else spec
    raw = raw_type(spec)(spec).accumulate(items)
    return release(raw, ReleaseTerms(PrivacySpec(rho=rho)), KeyedRandomness(b"the same noise in every run of it", draw))


@pytest.mark.parametrize(
    ("domain", "items", "words"),
    [
        (
            IntegerDomain(0, 1000),
            range(1500, 3500),
            "upper end of the value range (1000). Values outside are clamped: check the range, the unit (s or ms)",
        ),
        (
            IntegerDomain(0, 1000),
            [-5] * 2000,
            "lower end of the value range (0). Values outside are clamped: check the range, the unit",
        ),
        (
            FloatDomain(0.0, 60.0, 0.5),
            [250.0] * 2000,
            "upper end of the value range (60). Values outside are clamped: check",
        ),
        (IntegerDomain(0, 1 << 40), [1 << 41] * 5000, "upper end of the value range (1099511627776)"),
        (
            YEAR,
            [datetime.datetime(2025, 6, 1)] * 2000,
            "upper end of the value range (2024-12-31 00:00:00+00:00). Values outside are clamped: check",
        ),
        (
            YEAR,
            [datetime.datetime(2023, 6, 1)] * 2000,
            "lower end of the value range (2024-01-01 00:00:00+00:00). Values outside are clamped: check",
        ),
    ],
)
def test_values_that_were_clamped_to_an_end_are_told(domain: Domain, items: Any, words: str) -> None:
    """The weight is over 40 deviations of what is compared, so a miss is impossible."""
    for spec in (domain, TreeSpec.for_memory(domain, sketch="count_min", exact_levels=False)):
        (found,) = counted(spec, items).notes
        assert found.code == "at_range_end"
        assert words in found.message
        assert found.message in repr(counted(spec, items).quantile([0.5]))


@pytest.mark.parametrize(
    ("domain", "items"),
    [
        (IntegerDomain(0, 1), [1] * 2000),  # an end is natural where there are few values
        (IntegerDomain(1, 5), [5] * 2000),
        (IPv4Domain(), ["255.255.255.255"] * 2000),
        (IntegerDomain(0, 1000), [999] * 2000),
        (IntegerDomain(0, 1000), [1000] * 1500 + [3] * 500),
        (YEAR, [YEAR.start + DAY * (n % 360) for n in range(2000)]),
    ],
)
def test_ordinary_values_have_no_note(domain: Domain, items: Any) -> None:
    assert counted(domain, items).notes == ()


def test_noise_alone_and_near_ends_are_hardly_ever_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """False alarm below 1e-9: 7 of 1,200 releases with a probability of 1e-4 each. A lower limit tells hundreds."""

    def told() -> None:
        found, domain = 0, IntegerDomain(0, 63)
        for spec in (TreeSpec.for_memory(domain), FactorizationSpec(domain)):
            for items in ([], [63] * 9 + [5], [0] * 900 + [9] * 100):
                raw = raw_type(spec)(spec).accumulate(items)
                for _ in range(200):
                    released: Any = release(raw, ReleaseTerms(PrivacySpec(rho=0.5)))
                    found += "at_range_end" in codes(released._own_notes())
        assert found < 7, "at an end"

    told()
    monkeypatch.setattr(notes, "_END_DEVIATIONS", 1.0)
    with pytest.raises(AssertionError, match="at an end"):
        told()


def test_answers_that_all_may_be_0_ask_whether_the_question_is_right() -> None:
    released = counted(SketchSpec(), ["Oslo"] * 2000 + ["Rome"] * 1000, draw=b"6")
    for wrong in (released.top_k(2, [1, 2]), released.interval([1, 2]), released.interval(range(3000))):
        assert codes(wrong.notes) == "within_noise"
        assert "Check the type, unit and spelling" in repr(wrong)
    for right in (released.top_k(2, ["Oslo", "Bern"]), released.interval(["Oslo", 1]), released.interval([1])):
        assert right.notes == ()
    tree = counted(IntegerDomain(0, 1000), range(500, 700), rho=10.0)
    assert codes(tree.histogram([0, 10, 20]).notes) == codes(tree.range_interval([0], [10]).notes) + "within_noise"
    assert tree.quantile([0.0, 0.1]).notes == tree.cdf_interval([0, 1]).notes == ()


def test_a_total_that_the_release_contradicts_is_refused_unless_forced() -> None:
    tree = counted(IntegerDomain(0, 99), [40] * 5000)
    with pytest.raises(ValueError, match=r"total must be the total weight after clipping: [45],[90]\d\d "):
        tree.with_total(8000)
    assert tree.with_total(8000, force=True).total_weight() == (8000, 8000, 8000)
    assert tree.with_total(5000).total_weight() == (5000, 5000, 5000)


def test_spending_that_promises_little_is_told_of_a_release_and_not_of_its_answers() -> None:
    side = (by_hand.note("units", value=2000),)
    it = by_hand.released(
        CountSketch, SketchSpec(depth=1, width=2), [[500, 0]], rho=Fraction(9), reported_delta=0.01, side=side
    )
    assert codes(it.notes) == "large_epsilon,large_delta"
    assert it.interval([1]).notes == ()
    for words in (repr(it), it._repr_html_()):
        assert "delta = 0.01 exceeds 1 / (number of privacy ids), which is at most 1 / 1,990. A mechanism" in words
    assert codes(by_hand.released(CountSketch, SketchSpec(depth=1, width=2), [[500, 0]], side=side).notes) == ""


def test_a_release_that_is_mostly_noise_says_so() -> None:
    tree, listed = (counted(spec, [5] * 300, rho=0.001) for spec in (IntegerDomain(0, 99), ListedItems(range(50))))
    assert codes(tree.notes) == "mostly_noise"
    assert codes(listed.notes) == ""  # one item has all of it, and intervals reach a seventh of it
    few, many = (by_hand.released(CountSketch, SketchSpec(depth=1, width=2), [[n, 0]]) for n in (22, 50))
    assert "Mostly noise: 95 % intervals are at least ±5.891, and no item weighs more than about 22.41. " in repr(few)
    assert (codes(few.notes), codes(many.notes)) == ("mostly_noise", "")


@pytest.mark.parametrize(
    ("count", "privacy", "name"),
    [
        (Quantiles(IntegerDomain(0, 99)), PrivacySpec(epsilon=0.5), "total from the counters"),
        (Quantiles(IntegerDomain(0, 99)), PrivacySpec(rho=0.004), "total from the counters"),
        (Statistics(IntegerDomain(0, 99)), PrivacySpec(rho=1e-6), "count"),
    ],
)
def test_the_margin_of_a_note_is_that_of_the_total(count: Any, privacy: PrivacySpec, name: str) -> None:
    """Also with Laplace noise, whose intervals have other deviations. The noise is keyed, so the same each time."""
    declared, secret = ReleaseSpec(count, privacy, Record(), item="x"), KeyedRandomness(bytes(range(32)), b"notes")
    released: Any = release_table(pa.table({"x": [5] * 300}), declared, secret)[0]
    total = released.total_weight() if name != "count" else released.count()
    margin, most = shown(total.upper - total.estimate), shown(max(total.upper, 0.0))
    words = f"Mostly noise: the {name} has a 95 % interval of ±{margin}, and is at most {most}; other intervals"
    assert released._own_notes()[0].message.startswith(words)


@pytest.mark.parametrize("order", ["l2", "l1"])
@pytest.mark.parametrize("spec", [{"width": 64}, {"kind": "count_min"}, {}, {"width": 1 << 15}])
def test_a_sketch_under_a_norm_that_is_mostly_noise_says_so(spec: dict[str, Any], order: str) -> None:
    """30,000 records of two items. Summary counts of an L2 norm have far more noise than the total.

    The noise of a release is 100 times less, or 10 times more, than what makes the difference. Noise alone may make
    records look as few as privacy ids, which is another note. It hides that there is much noise in about 1 of 300
    releases, and in less than 1 of 125: in most of eleven with a probability below 1e-9.
    """
    table = pa.table({"u": np.arange(30_000) % 4000, "c": np.arange(30_000) % 2})
    settings = {"kind": "frequencies", "item": "c", "spec": spec, "privacy": {"rho": 0.03}}
    found = {}
    for norm in (10.0, 1e4, 1e5):
        privacy_unit = {"privacy_id": "u", "norm": {"max_norm": norm, "norm": order}}
        said = collections.Counter[tuple[str, ...]]()
        for _ in range(11):
            released: Any = release_frame(table, {**settings, "privacy_unit": privacy_unit})
            of_both = (released.notes, released.interval([0, 1]).notes)
            said[tuple(codes(note for note in notes if note.code != "one_record_each") for notes in of_both)] += 1
        alike = collections.Counter[str]()
        for (of_release, asked), count in said.items():
            alike[of_release] += count * (asked in (of_release, f"{of_release},within_noise"))
        ((found[norm], most),) = alike.most_common(1)
        assert most > 5
    assert found == {10.0: "", 1e4: "mostly_noise", 1e5: "mostly_noise"}


NUMBERS = IntegerDomain(0, 600)
OUTSIDE = [
    (
        [20_000, 90_000],
        False,
        "The mean is within 3% of the upper end of the value range (600). Values outside are clamped: check the range",
    ),
    ([-5], False, "The mean is within 3% of the lower end of the value range (0). Values"),
    ([590, 595], False, "The mean is within 3% of the upper end of the value range (600)"),
    ([-300, 20_000], True, "More than 90 % of the total is within 3% of the ends of the value range (0, 600). Values"),
]


@pytest.mark.parametrize(("values", "variance", "words"), OUTSIDE)
def test_numbers_at_range_end_are_told_as_ranks_tell_them(values: list[int], variance: bool, words: str) -> None:
    table = pa.table({"x": values * 20_000})
    spec = ReleaseSpec(Statistics(NUMBERS, variance), PrivacySpec(rho=0.5), Record(), item="x")
    released: Any = release_frame(table, spec)
    (found,) = released.notes
    assert (found.code, found.message[: len(words)]) == ("at_range_end", words)


def test_numbers_at_range_end_far_from_0_are_told_as_near_it() -> None:
    """Floats beyond 2^53 are 256 apart here; places between the ends are not."""
    start = 1 << 60
    spec = ReleaseSpec(Statistics(IntegerDomain(start, start + 600)), PrivacySpec(rho=0.5), Record(), item="x")
    for values, code in {(0, 590): "", (590, 595): "at_range_end"}.items():
        released: Any = release_frame(pa.table({"x": [start + each for each in values] * 20_000}), spec)
        assert codes(released.notes) == code


@pytest.mark.parametrize(
    ("domain", "values", "variance"),
    [
        (NUMBERS, [20, 580], True),
        (NUMBERS, [0, 300, 600], True),
        (NUMBERS, [-300, 20_000], False),  # the mean alone does not tell it
        (NUMBERS, range(30, 600), True),
        (NUMBERS, [25], False),
        (IntegerDomain(1, 5), [5], False),
        (IntegerDomain(0, 1), [0, 1], True),
    ],
)
def test_ordinary_numbers_have_no_note(domain: Domain, values: Any, variance: bool) -> None:
    """Within an end are 3 %, or 18: 20 is not; nor is a third in the middle."""
    table = pa.table({"x": np.tile(list(values), 40_000 // len(values))})
    spec = ReleaseSpec(Statistics(domain, variance), PrivacySpec(rho=0.5), Record(), item="x")
    assert release_frame(table, spec).notes == ()


def test_a_mean_of_noise_alone_is_hardly_ever_at_range_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """False alarm below 1e-9: 7 of 600 releases with a probability of 1e-4 each. Surer ends tell many."""

    def told() -> None:
        found, spec = 0, ReleaseSpec(Statistics(NUMBERS), PrivacySpec(rho=0.02), Record(), item="x")
        for values in ([], [580] * 30, [575] * 4000):
            table = pa.table({"x": pa.array(values, pa.int64())})
            for _ in range(200):
                released: Any = release_frame(table, spec)
                found += "at_range_end" in codes(released._own_notes())
        assert found < 7, "at an end"

    told()
    monkeypatch.setattr("beam_dpsketch.answers.statistics._SURE", 0.1)
    with pytest.raises(AssertionError, match="at an end"):
        told()


@pytest.mark.parametrize(
    ("privacy_unit", "words"), [("record", "95 % intervals"), ("id", "95 % intervals for the clipped data")]
)
def test_intervals_are_named_for_what_they_cover(privacy_unit: str, words: str) -> None:
    terms = ReleaseTerms(PrivacySpec(rho=1.0))
    if privacy_unit == "id":
        terms = ReleaseTerms(PrivacySpec(rho=1.0), RecordBounds(3), privacy_unit=PrivacyUnit.PRIVACY_ID)
    raw = CountSketch(SketchSpec()).accumulate(["a"] * 1000)
    found = release(raw, terms).top_k(1, ["a"])
    assert found.intervals == words
    assert repr(found).startswith(f"<Frequencies of 1 with {words}: a: ")
    assert f"<caption>Frequencies of 1 with {words}<br>Clipping: n" in found._repr_html_()


def test_a_note_shows_no_markup_of_items() -> None:
    found = counted(SketchSpec(), []).interval(["<script>alert(1)</script>", "<b>"])
    assert "may_be_empty" in codes(found.notes)
    assert "<script>" not in found._repr_html_()


def test_notes_stay_the_same_after_a_round_trip() -> None:
    released = counted(IntegerDomain(0, 1000), [5000] * 500)
    assert ReleasedSketch.from_bytes(released.to_bytes()).notes == released.notes != ()
    assert np.isfinite(released.total_weight().estimate)


def test_what_is_noted_of_weights_is_not_noted_of_changes() -> None:
    before, after = (counted(IntegerDomain(0, 1000), [1000] * size, draw=b"%d" % size) for size in (500, 900))
    for found in (after.minus(before).interval([1, 2]), after.movers(before, 2)):
        assert found.notes == ()
        assert f"<{type(found).__name__} of {len(found)} with 95 % intervals: " in repr(found)
