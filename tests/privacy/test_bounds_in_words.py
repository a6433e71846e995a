"""What is said of bounds names nothing that a release does not have, and is true of exact sums."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections import defaultdict
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest

from beam_dpsketch import (
    AutoNorm,
    Horizon,
    ListedItems,
    NormBound,
    PrivacyId,
    PrivacySpec,
    PublicKeys,
    Record,
    RecordBounds,
    TextDomain,
    Thresholding,
    TimeRange,
)
from beam_dpsketch.exact.declared.public import TimeColumn
from beam_dpsketch.exact.declared.release_spec import ReleaseSpec
from beam_dpsketch.exact.declared.windows import Windowing, plan_windows
from beam_dpsketch.frames.steps.plan import columns_of, resolve, tally_of
from beam_dpsketch.frames.steps.sums import ExactSums
from beam_dpsketch.frames.steps.tables import open_table
from beam_dpsketch.frames.steps.windows import windows_of
from beam_dpsketch.planning.kinds.sketched import ItemFrequencies
from beam_dpsketch.planning.kinds.thresholded_counts import ThresholdedCounts
from beam_dpsketch.privacy.contributions import PrivacyUnit
from beam_dpsketch.privacy.norm.scaling import SCALE_BITS
from tests.helpers.pipelines import numbers_by_key

DAY = 86_400
ITEMS, KEYS = [f"i{number}" for number in range(12)], ["k0", "k1", "k2"]
LIMITS: list[Any] = [
    *(RecordBounds(n, max_keys=keys) for n in (1, 3) for keys in (None, 1, 2)),
    RecordBounds(3, max_keys=2, max_weight=5),
    RecordBounds(3, max_weight=5, signed=True),
    *(NormBound(norm, norm=order) for norm in (1, Fraction(1, 2), Fraction(7, 2), 8) for order in ("l1", "l2")),
    *(NormBound(8, max_per_item=n, max_distinct_items=limit) for n, limit in ((2, None), (None, 3), (2, 1))),
    NormBound(8, max_weight=5),
    NormBound(8, max_weight=5, signed=True, norm="l1", max_per_item=6),
    AutoNorm(),
    AutoNorm(norm="l1", max_weight=5),
]


@dataclasses.dataclass
class Place:
    """Where bounds hold."""

    privacy_unit: PrivacyUnit
    window_count: int = 1
    period_micros: int = 0
    overlapping: int = 1
    first_windows: bool = False
    counts_items: bool = False
    norm_share: Fraction | None = None


PLACES = [
    Place(
        privacy_unit,
        windows,
        DAY * 10**6 * (privacy_unit is PrivacyUnit.PRIVACY_ID_IN_PERIOD),
        overlapping,
        first,
        groups,
    )
    for privacy_unit, windows, overlapping, first, groups in itertools.product(
        PrivacyUnit, (1, 3), (1, 2), (False, True), (False, True)
    )
    if not (privacy_unit.is_one_record and first)
    and not (privacy_unit is PrivacyUnit.PRIVACY_ID_IN_WINDOW and (first or windows > 1))
]


def words_of(limit: Any, place: Place) -> str:
    return limit.words(place)


def check_features(words: str, limit: Any, place: Place) -> None:
    """Raise if words name a feature that is not there, or leave one out that is."""
    single, in_windows = place.privacy_unit.is_one_record, place.first_windows or place.window_count > 1
    records = isinstance(limit, RecordBounds)
    assert "(s)" not in words
    assert not re.search(r"\b1 (records|keys|windows)\b|\bone \w+s\b", words), words
    assert ("key" in words.replace("item count", "").replace("privacy id", "")) == (
        records and limit.max_keys is not None and not place.counts_items and not single
    )
    assert ("weight" in words.replace("a total weight of", "").replace("a total weight per", "")) == limit.has_weights
    horizon = place.privacy_unit.over_horizon and not single
    limited = in_windows or (records and (place.period_micros > 0 or horizon))
    within = place.privacy_unit is PrivacyUnit.PRIVACY_ID_IN_WINDOW
    assert ("window" in words) == (place.window_count > 1 if single else limited or within), words
    assert ("period" in words) == (place.period_micros > 0 and not single), words
    assert ("horizon" in words) == (horizon and limited)
    assert ("first" in words) == place.first_windows
    assert ("at random" in words) == (records and not single and not limited)


def cases() -> list[tuple[Any, Place]]:
    return [
        (limit, place)
        for limit, place in itertools.product(LIMITS, PLACES)
        if not place.privacy_unit.is_one_record
        or (isinstance(limit, RecordBounds) and (limit.size, limit.kept_keys) == (1, 1))
    ]


def test_words_name_the_features_that_are_there() -> None:
    found = cases()
    assert len(found) > 500
    for limit, place in found:
        check_features(words_of(limit, place), limit, place)


@pytest.mark.parametrize("more", [" in one key", ", in up to 3 windows", "; weights from 0 to 1", " at random", " (s)"])
def test_a_feature_that_is_not_there_is_found(more: str) -> None:
    place = Place(PrivacyUnit.PRIVACY_ID)
    with pytest.raises(AssertionError):
        check_features(words_of(NormBound(8), place) + more, NormBound(8), place)


Row = tuple[str, str, str, int]
"""Whose it is, item, key, and day."""
WINDOWS: dict[str, dict[str, Any]] = {
    "one": {},
    "days": {"windows": TimeRange(0, 6 * DAY), "time": TimeColumn("day", DAY)},
    "sliding": {"windows": TimeRange(0, 6 * DAY), "time": TimeColumn("day", DAY, 2 * DAY)},
    "horizon": {"windows": Horizon(0, DAY, 6), "time": TimeColumn("day")},
}
UNITS: dict[str, dict[str, Any]] = {"": {}, "2 windows": {"max_windows": 2}, "period": {"period": 3 * DAY}}
UNITS["2 windows of a period"] = UNITS["2 windows"] | UNITS["period"]


def declared(bounds: Any, windows: str, keys: bool, limit: str, kind: str = "items") -> ReleaseSpec | None:
    """The declaration; `None` if it is refused."""
    count = ItemFrequencies(ListedItems(ITEMS))
    if kind == "groups":
        count = ThresholdedCounts(TextDomain(4), 3, Thresholding(1e-8))
    found = PublicKeys(KEYS, "key") if keys else None
    try:
        privacy_unit = PrivacyId("who", bounds, **UNITS[limit])
        spec = ReleaseSpec(count, PrivacySpec(rho=1), privacy_unit, "item", keys=found, **WINDOWS[windows])
        resolve(spec)
    except ValueError:
        return None
    return spec


def exact(spec: ReleaseSpec, rows: list[Row]) -> dict[tuple[Any, int], dict[str, Fraction]]:
    """What counts of these rows: weights of items by key and day of the window."""
    table = pa.table(dict(zip(("who", "item", "key", "day"), map(list, zip(*rows, strict=True)), strict=True)))
    table = table.set_column(3, "day", table["day"].cast("int64").cast(pa.timestamp("s")))
    opened = open_table(table, columns_of(spec).values())
    (resolved, plan), tally = resolve(spec), tally_of(spec, opened)
    sums = ExactSums(resolved, plan, windows_of(spec, plan), [opened.empty, *opened.parts], tally, lambda: None)
    one = Fraction(1, 1 << (SCALE_BITS if spec.privacy_unit.bounds.has_norm else 0))
    found: dict[tuple[Any, int], dict[str, Fraction]] = {}
    for window, summed in sums.by_window(sums.contributed()).items():
        for key, numbers in numbers_by_key(summed).items():
            weights = numbers[: len(ITEMS)].tolist()
            found[() if key is None else (key,), window.start // (DAY * 10**6)] = {
                item: weight * one for item, weight in zip(ITEMS, weights, strict=True) if weight
            }
    return found


def number(pattern: str, words: str) -> int | None:
    """The number at this place of words; `None` if it is not said."""
    found = re.search(pattern.replace("N", r"(?:up to (\d+)|(one))"), words)
    return None if found is None else int(found[1] or 1)


def stated(spec: ReleaseSpec) -> str:
    terms = resolve(spec)[0].terms
    return terms.bounds.words(terms)


HEAVY = [("a", item, key, DAY * day) for item in ITEMS[:5] for key in KEYS for day in range(6) for _ in range(2)]


def check_records(spec: ReleaseSpec, words: str) -> None:
    """Raise unless a heavy person counts with exactly what the words allow."""
    found = {place: sum(items.values()) for place, items in exact(spec, HEAVY).items() if items}
    by_window: dict[int, list[Any]] = defaultdict(list)
    for key, day in found:
        by_window[day].append(key)
    assert {*found.values()} == {number("^N records? per privacy id", words)}
    assert {len(keys) for keys in by_window.values()} == {number(r"in (?:each of )?N keys?\b", words) or 1}
    if (windows := number("in N windows?", words)) is not None:
        assert len(by_window) == windows * (2 if "of each period of 3 days" in words else 1)
    elif "and window" not in words:
        assert len(by_window) == 1


@pytest.mark.parametrize("windows", [name for name in WINDOWS if name != "horizon"])
@pytest.mark.parametrize("limit", UNITS)
@pytest.mark.parametrize("max_keys", [None, 1, 2])
@pytest.mark.parametrize("max_records", [1, 4])
def test_a_heavy_person_counts_with_what_the_words_allow(
    windows: str, limit: str, max_keys: int | None, max_records: int
) -> None:
    spec = declared(RecordBounds(max_records, max_keys=max_keys), windows, max_keys is not None, limit)
    if spec is not None:
        check_records(spec, stated(spec))


NORMS = [
    NormBound(Fraction(1, 2)),
    NormBound(1),
    NormBound(Fraction(7, 2)),
    NormBound(8),
    NormBound(8, norm="l1"),
    NormBound(8, max_per_item=2),
    NormBound(8, max_distinct_items=3),
    NormBound(3, norm="l1", max_per_item=1, max_distinct_items=5),
]


def spread(count: int, period: bool) -> dict[str, list[Row]]:
    """This number of records of a person, within a period, where they weigh most and where they are scattered."""
    days = 2 if period else 4  # in both of the windows that overlap there
    return {
        "one item": [("a", "i0", "k0", DAY * 2)] * count,
        "items": [("a", ITEMS[n], "k0", DAY * 2) for n in range(count)],
        "keys and days": [("a", ITEMS[n % 3], KEYS[n % 3], DAY * (1 + n % days)) for n in range(count)],
    }


def check_in_full(spec: ReleaseSpec, words: str) -> None:
    """Raise unless the stated number of records counts in full, wherever they are."""
    count = number("N records? always counts? in full", words)
    if count is None:
        assert "in full" not in words
        return
    overlapping = 2 if spec.time is not None and spec.time.window_size is not None else 1
    for name, rows in spread(count, spec.privacy_unit.period is not None).items():  # type: ignore[union-attr]
        total = sum(sum(items.values()) for items in exact(spec, rows).values())
        assert total == count * overlapping, (name, words)


@pytest.mark.parametrize("windows", [name for name in WINDOWS if name != "horizon"])
@pytest.mark.parametrize("limit", ["", "period"])
@pytest.mark.parametrize("keys", [False, True])
@pytest.mark.parametrize("bounds", NORMS, ids=repr)
def test_what_always_counts_in_full_does(bounds: NormBound, windows: str, limit: str, keys: bool) -> None:
    spec = declared(bounds, windows, keys, limit)
    if spec is not None:
        check_in_full(spec, stated(spec))


def test_one_record_more_is_clipped_where_only_a_norm_limits_it() -> None:
    for bounds in (NormBound(1), NormBound(8), NormBound(8, norm="l1"), NormBound(8, max_per_item=2)):
        spec = declared(bounds, "one", False, "")
        assert spec is not None
        count = number("N records? always counts? in full", stated(spec))
        assert count is not None
        (found,) = exact(spec, [("a", "i0", "k0", 0)] * (count + 1)).values()
        assert found["i0"] <= count


def test_overlapping_windows_limits_of_items_and_parts_of_a_record_are_thought_of() -> None:
    sliding = declared(NormBound(8), "sliding", False, "")
    few = declared(NormBound(8, max_distinct_items=3), "one", False, "")
    part = declared(NormBound(Fraction(7, 2)), "one", False, "")
    assert None not in (sliding, few, part)
    for spec, more in ((sliding, 6), (few, 4), (part, 4)):
        assert f"up to {more - 1} records always" in stated(spec)  # type: ignore[arg-type]
        with pytest.raises(AssertionError):
            check_in_full(spec, f"up to {more} records always count in full")  # type: ignore[arg-type]


def test_grouped_counts_call_a_key_an_item_count() -> None:
    for bounds, words in (
        (RecordBounds(2, max_keys=3), "up to 2 records per privacy id in each of up to 3 item counts; the rest"),
        (NormBound(8, max_keys=3), "of 8 records per privacy id, in at most 3 item counts; up to 3 records always"),
    ):
        spec = declared(bounds, "one", False, "", "groups")
        assert spec is not None
        assert words in stated(spec)


STREAM = Windowing("FixedWindows", DAY * 10**6, 0, DAY * 10**6, False)


@pytest.mark.parametrize("bounds", [RecordBounds(2), NormBound(3)], ids=repr)
@pytest.mark.parametrize("max_windows", [1, 3])
def test_streams_keep_first_windows_and_tables_any(bounds: Any, max_windows: int) -> None:
    privacy_unit = PrivacyId("who", bounds, max_windows=max_windows, period=7 * DAY)
    spec = ReleaseSpec(ItemFrequencies(ListedItems(ITEMS)), PrivacySpec(rho=1), privacy_unit, "item")
    said = [] if bounds.has_norm else [plan_windows(spec, STREAM._replace(is_bounded=True)).terms]
    said.append(plan_windows(spec, STREAM).terms)
    first = "in its first window of" if max_windows == 1 else "in its first 3 windows of"
    found = [terms.bounds.words(terms) for terms in said]
    assert first in found[-1]
    assert "at random" not in "".join(found)
    assert not any("always" in each or "first" in each for each in found[:-1])
    assert ("count in full in" in found[-1]) == bounds.has_norm


def test_single_records_count_once_or_once_in_each_window_that_they_are_in() -> None:
    for windows, words in (("one", "each record counts once"), ("sliding", "each record counts once in each of up to")):
        spec = ReleaseSpec(
            ItemFrequencies(ListedItems(ITEMS)), PrivacySpec(rho=1), Record(), "item", **WINDOWS[windows]
        )
        assert stated(spec).startswith(words)
        found = exact(spec, [("a", "i0", "k0", DAY * 2)] * 3)
        assert sum(sum(items.values()) for items in found.values()) == 3 * (2 if windows == "sliding" else 1)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(7 * DAY, "7 days"), (DAY, "1 day"), (5400, "90 minutes"), (1, "1 second"), (1.5, "1.5 seconds")],
)
def test_periods_are_in_the_largest_unit(seconds: float, words: str) -> None:
    place = Place(PrivacyUnit.PRIVACY_ID_IN_PERIOD, 3, int(seconds * 10**6))
    assert words_of(RecordBounds(5), place).endswith(
        f"in up to 3 windows of each period of {words}; the rest are dropped"
    )
