"""Whom a transform protects, and under which keys: what cannot be is refused as it is written."""

from __future__ import annotations

import copy
import datetime
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from apache_beam.utils.timestamp import Duration

from beam_dpsketch import (
    AssumePublicKeys,
    IntegerDomain,
    KeySelection,
    PrivacyId,
    PrivacySpec,
    PublicKeys,
    Record,
    RecordBounds,
    SketchSpec,
    TimeRange,
)
from beam_dpsketch.exact.declared.release_spec import ReleaseSpec
from beam_dpsketch.planning.kinds.sketched import ItemFrequencies, Quantiles
from beam_dpsketch.privacy.contributions import PrivacyUnit

ONE = RecordBounds(1)
PRIVACY = PrivacySpec(rho=0.1)


def declared(**changes: Any) -> ReleaseSpec:
    """Return a declaration with these parts and ordinary others."""
    return ReleaseSpec(
        **{"count": ItemFrequencies(SketchSpec()), "privacy": PRIVACY, "privacy_unit": Record(), **changes}
    )


def test_a_record_has_the_bounds_of_one_record() -> None:
    assert Record().bounds == ONE
    assert Record(max_weight=9, signed=True).bounds == RecordBounds(1, max_weight=9, signed=True)


@pytest.mark.parametrize("privacy_unit", [Record(), Record(max_weight=1), PrivacyId("user", ONE, max_windows=2)])
@pytest.mark.parametrize("copied", [copy.deepcopy, lambda privacy_unit: pickle.loads(pickle.dumps(privacy_unit))])
def test_a_copied_unit_is_the_same(privacy_unit: Any, copied: Callable[[Any], Any]) -> None:
    assert copied(privacy_unit) == privacy_unit
    assert copied(privacy_unit).bounds.says_max_weight is privacy_unit.bounds.says_max_weight


@pytest.mark.parametrize("period", [3600, 3600.0, datetime.timedelta(hours=1), Duration(3600)])
def test_a_period_may_be_seconds_or_a_duration(period: Any) -> None:
    assert PrivacyId("user", ONE, max_windows=2, period=period).period_micros == 3_600_000_000


def test_the_terms_name_the_unit_and_its_windows() -> None:
    in_windows = PrivacyId("user", RecordBounds(3), max_windows=2)
    in_periods = PrivacyId("user", RecordBounds(3), max_windows=2, period=60)
    found = [
        (terms.privacy_unit, terms.bounds, terms.window_count, terms.period_micros)
        for privacy_unit in (Record(), PrivacyId("user", RecordBounds(3)), in_windows, in_periods)
        for terms in [declared(privacy_unit=privacy_unit).terms]
    ]
    assert found == [
        (PrivacyUnit.RECORD, ONE, 1, 0),
        (PrivacyUnit.PRIVACY_ID, RecordBounds(3), 1, 0),
        (PrivacyUnit.PRIVACY_ID, RecordBounds(3), 2, 0),
        (PrivacyUnit.PRIVACY_ID_IN_PERIOD, RecordBounds(3), 2, 60_000_000),
    ]


def test_keys_come_back_once_each_as_their_plain_types() -> None:
    keys = PublicKeys(["a", "a", 1, b"a", ("a", 1)], "country")
    assert keys.keys == ("a", 1, b"a", ("a", 1))
    assert keys.field == "country"
    assert PublicKeys(key for key in "ab").keys == ("a", "b")
    assert (keys.listed, AssumePublicKeys("country").listed) == (keys.keys, None)


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "no field": (lambda: PrivacyId(None, ONE), "field is required: the field that contains the privacy id, or a"),
    "a number as field": (lambda: PrivacyId(5, ONE), "field must be a field name, a callable or None, got int"),
    "no bounds": (
        lambda: PrivacyId("user", None),
        r"bounds must be NormBound\(...\), AutoNorm\(\) or RecordBounds\(...\), got N",
    ),
    "no windows": (lambda: PrivacyId("user", ONE, max_windows=0), "max_windows must be between 1 and"),
    "part of a window": (lambda: PrivacyId("user", ONE, max_windows=1.5), "max_windows must be a whole number"),
    "a period alone": (
        lambda: PrivacyId("user", ONE, period=60),
        "period requires max_windows: the number of windows per",
    ),
    "no period": (lambda: PrivacyId("user", ONE, max_windows=1, period=0), "period must be greater than 0"),
    "a fine period": (
        lambda: PrivacyId("user", ONE, max_windows=1, period=1e-4),
        "period must be in whole milliseconds",
    ),
    "no weight": (lambda: Record(max_weight=0), "max_weight must be between 1 and"),
    "signs": (lambda: Record(signed=1), "signed must be a bool, got int"),
    "eight bytes of an id": (lambda: PrivacyId("user", ONE, opaque_bytes="no"), "opaque_bytes must be a bool, got str"),
    "eight bytes of a key": (lambda: AssumePublicKeys("c", opaque_bytes=1), "opaque_bytes must be a bool, got int"),
    "eight bytes of a chosen key": (lambda: KeySelection(1e-8, "c", opaque_bytes=1), "opaque_bytes must be a bool"),
    "no keys": (lambda: PublicKeys([]), "keys must not be empty"),
    "one key": (lambda: PublicKeys("AA"), "keys must be a list, got one text"),
    "half a character": (lambda: PublicKeys(["\ud800"]), "keys must be encodable in UTF-8"),
    "a number as field of keys": (lambda: PublicKeys(["a"], 5), "field must be a field name, a callable or None"),
    "a number for assumed keys": (lambda: AssumePublicKeys(5), "field must be a field name, a callable or None"),
    "a text as unit": (
        lambda: declared(privacy_unit="record"),
        r'unit must be PrivacyId\("field", NormBound\(20\)\), to protect .*, or Record\(\), .*\. Got str',
    ),
    "a number as privacy": (lambda: declared(privacy=0.1), "privacy must be a PrivacySpec, got float"),
    "a pair as windows": (lambda: declared(windows=(0, 60)), "windows must be a TimeRange or Horizon, got tuple"),
    "weights of any size": (
        lambda: declared(weight="n"),
        r"max_weight is required with weight\. .* Example: Record\(max_weight=100\) or NormBound\(200, ",
    ),
    "weights of any size of an id": (
        lambda: declared(weight="n", privacy_unit=PrivacyId("u", ONE)),
        "max_weight is required with weight",
    ),
    "more partitions than keys": (
        lambda: declared(privacy_unit=PrivacyId("u", RecordBounds(1, max_keys=3)), keys=PublicKeys(["a", "b"])),
        "bounds.max_keys must be at most 2, the number of listed keys, got 3. A larger bound only",
    ),
    "a range of keys of the data": (
        lambda: declared(keys=AssumePublicKeys(), windows=TimeRange(0, 60)),
        "would still reveal which windows have data for a key. List the keys with PublicKeys, or remove windows",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_is_refused(name: str) -> None:
    build, message = REFUSED[name]
    with pytest.raises((TypeError, ValueError), match=message):
        build()


def test_a_largest_weight_of_one_may_be_meant() -> None:
    declared(weight="n", privacy_unit=Record(max_weight=1))
    declared(weight="n", privacy_unit=PrivacyId("u", RecordBounds(1, max_weight=1)))


def test_the_settings_shown_are_public_and_hold_no_seed() -> None:
    spec = SketchSpec(seed=987_654_321)
    privacy_unit = PrivacyId("user", RecordBounds(4, max_weight=2), max_windows=3)
    shown = declared(count=ItemFrequencies(spec), privacy_unit=privacy_unit, windows=TimeRange(0, 60)).display_data()
    assert {"sketch": "count_sketch", "counters": 5 * 4096, "relation": "ADD_OR_REMOVE_ONE"}.items() <= shown.items()
    assert {"max_records": "4", "max_weight": "2", "max_windows": "3"}.items() <= shown.items()
    assert shown["windows"] == "TimeRange(start=0, end=60)"
    assert "987654321" not in str(shown)
    tree = declared(count=Quantiles(IntegerDomain(0, 9))).display_data()
    assert "depth" not in tree
    assert "max_windows" not in tree
    assert "windows" not in tree
