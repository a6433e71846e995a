"""Settings mean the same in every spelling, and the same as the Python that they stand for."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import enum
import json
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import apache_beam as beam
import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from beam_dpsketch import (
    AutoNorm,
    ConfigError,
    FloatDomain,
    Horizon,
    IntegerDomain,
    KeySelection,
    ListedItems,
    LogDomain,
    NormBound,
    PrivacyId,
    PrivacySpec,
    PublicKeys,
    Record,
    RecordBounds,
    SketchSpec,
    SummaryCounts,
    TextDomain,
    Thresholding,
    TimeRange,
    TimestampDomain,
    config,
)
from beam_dpsketch.config.forms import Form
from beam_dpsketch.config.settings import NORM_BLOCK
from beam_dpsketch.privacy.contributions import NeighboringRelation
from beam_dpsketch.privacy.norm.bounds import ITEM_SHARES
from tests.config.examples import BLOCKS, RELEASES, TABLES

UTC = datetime.UTC
whole = st.integers(1, 1000)
share = st.one_of(st.floats(0.001, 0.2), st.fractions(Fraction(1, 1000), Fraction(1, 5), max_denominator=1000))
small = st.floats(1e-12, 1e-3)
name = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)
times = st.datetimes(datetime.datetime(1970, 1, 2), datetime.datetime(2200, 1, 1), timezones=st.just(UTC)).map(
    lambda time: time.replace(microsecond=0)
)
durations = st.integers(1, 10**6).map(lambda seconds: datetime.timedelta(seconds=seconds))
items = st.recursive(
    st.one_of(name, st.binary(max_size=6), st.integers(-(1 << 63), (1 << 63) - 1)),
    lambda inner: st.lists(inner, min_size=1, max_size=3).map(tuple),
    max_leaves=4,
)


def of(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=fields)


limits = {"max_weight": whole, "signed": st.booleans(), "max_per_item": whole, "max_distinct_items": whole}
norms = st.builds(
    lambda max_norm, rest: NormBound(max_norm, **rest),
    st.one_of(whole, st.fractions(Fraction(1, 99), 100, max_denominator=99)),
    of(**limits, max_keys=whole),
)
autos = st.builds(
    lambda rest: AutoNorm(**rest),
    of(share=share, item_share=share, optimize_for=st.sampled_from([*ITEM_SHARES]), max_keys=whole, **limits),
)
records = st.builds(
    lambda most, rest: RecordBounds(most, **rest),
    whole,
    of(max_keys=whole, max_weight=st.integers(1, 100), signed=st.booleans()),
)
units = st.one_of(
    st.builds(lambda rest: Record(**rest), of(max_weight=whole, signed=st.booleans())),
    st.builds(PrivacyId, name, st.one_of(norms, autos)),
    st.builds(PrivacyId, name, records, max_windows=whole, period=durations, opaque_bytes=st.booleans()),
)
relations = st.sampled_from(NeighboringRelation)
counters = st.builds(
    lambda rest: SummaryCounts(**rest),
    of(**dict.fromkeys(("units", "records", "weight", "clipping"), st.one_of(st.none(), share))),
)
privacies = st.one_of(
    st.builds(
        lambda epsilon, delta, rest: PrivacySpec(epsilon=epsilon, delta=delta, **rest),
        st.floats(0.1, 10),
        small,
        of(relation=relations, summary_counts=st.one_of(st.none(), counters)),
    ),
    st.builds(lambda rho, rest: PrivacySpec(rho=rho, **rest), share, of(relation=relations, delta=small)),
)
keys = st.one_of(
    st.builds(PublicKeys, st.lists(items, min_size=1, max_size=4), name),
    st.builds(
        lambda delta, field, rest: KeySelection(delta, field, **rest),
        small,
        name,
        of(
            share=share, min_units=whole, method=st.sampled_from(["gaussian", "two_rounds"]), opaque_bytes=st.booleans()
        ),
    ),
)


def written(value: Any) -> Any:
    """Write a value as settings."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, Fraction):
        return f"{value.numerator}/{value.denominator}"
    if isinstance(value, datetime.datetime):
        return value.isoformat()
    if isinstance(value, datetime.timedelta):
        return value // datetime.timedelta(seconds=1)
    if isinstance(value, enum.Enum):
        return value.name.lower()
    if isinstance(value, bytes):
        return {"hex": value.hex()}
    if isinstance(value, int):
        return int(value)
    return [written(each) for each in value] if isinstance(value, tuple) else value


def fields(value: Any, *left_out: str) -> dict[str, Any]:
    """Write the fields of a value object as settings."""
    names = [field.name for field in dataclasses.fields(value) if field.init and field.name not in left_out]
    if not getattr(getattr(value, "bounds", value), "says_max_weight", True) and "max_weight" in names:
        names.remove("max_weight")
    return {each: written(getattr(value, each)) for each in names if getattr(value, each) is not None}


def write_bounds(bounds: Any) -> dict[str, Any]:
    if isinstance(bounds, RecordBounds):
        return {"records": fields(bounds)}
    return {"norm": {"auto": fields(bounds)} if isinstance(bounds, AutoNorm) else fields(bounds)}


def write_unit(privacy_unit: Any) -> dict[str, Any]:
    if isinstance(privacy_unit, Record):
        return {"record": fields(privacy_unit)}
    return {
        "privacy_id": privacy_unit.field,
        **write_bounds(privacy_unit.bounds),
        **fields(privacy_unit, "field", "bounds"),
    }


def write_counters(counters: SummaryCounts | None) -> Any:
    return "none" if counters is None else {name: written(each) or "none" for name, each in vars(counters).items()}


def write_privacy(spec: PrivacySpec) -> dict[str, Any]:
    spent = {"rho": written(spec.rho)} if spec.pure is None else {"epsilon": float(spec.pure)}
    rest = {"delta": spec.reported_delta, "relation": written(spec.relation)}
    return {**spent, **rest, "summary_counts": write_counters(spec.summary_counts)}


def write_keys(keys: Any) -> dict[str, Any]:
    if isinstance(keys, PublicKeys):
        return {"public": written(keys.keys), "field": keys.field}
    return {"select": fields(keys, "field", "opaque_bytes"), "field": keys.field, "opaque_bytes": keys.opaque_bytes}


def rows(value: Any) -> Any:
    """Return blocks as rows of Beam, which is how they come from other languages."""
    return beam.Row(**{each: rows(inner) for each, inner in value.items()}) if isinstance(value, dict) else value


def named_tuples(value: Any) -> Any:
    if isinstance(value, dict) and all(each.isidentifier() for each in value):
        block = collections.namedtuple("Block", value)
        return block(*map(named_tuples, value.values()))
    return value


def in_text(value: Any) -> Any:
    """Return blocks as JSON text inside of a dict."""
    return {each: json.dumps(inner) if isinstance(inner, dict) else inner for each, inner in value.items()}


SPELLINGS: dict[str, Callable[[Any], Any]] = {
    "dict": lambda value: value,
    "json": json.dumps,
    "yaml": yaml.safe_dump,
    "row": rows,
    "named tuple": named_tuples,
    "json in a dict": in_text,
}


def check(read: Callable[[Any], Any], settings: Any, expected: Any) -> None:
    for spell in SPELLINGS.values():
        found = read(spell(settings))
        assert found == expected
        assert type(found) is type(expected)


@given(privacies)
def test_privacy(spec: PrivacySpec) -> None:
    check(config.read_privacy, write_privacy(spec), spec)


@given(units)
def test_units(privacy_unit: Any) -> None:
    spelled = write_unit(privacy_unit)
    check(config.read_privacy_unit, spelled, privacy_unit)
    assert config.read_privacy_unit(spelled).bounds.says_max_weight == privacy_unit.bounds.says_max_weight


@given(keys)
def test_keys(chosen: Any) -> None:
    check(config.read_keys, write_keys(chosen), chosen)


@given(st.builds(Thresholding, small))
def test_methods(method: Thresholding) -> None:
    check(config.read_method, {"threshold": {"delta": written(method.delta)}}, method)


@given(times, durations, st.integers(2, 1000), st.sampled_from(["binned", "tree"]))
def test_times(start: datetime.datetime, size: datetime.timedelta, count: int, mechanism: Any) -> None:
    horizon, ranged = Horizon(start, size, count, mechanism), TimeRange(start, start + size)
    check(config.read_horizon, fields(horizon), horizon)
    check(config.read_windows, fields(ranged), ranged)
    domain = TimestampDomain(start, start + size, datetime.timedelta(seconds=1))
    check(config.read_domain, {"type": "timestamp", **fields(domain)}, domain)


@given(st.integers(-(1 << 63), 1 << 62), st.integers(0, 1 << 62), st.floats(-10, 0), st.floats(1, 10))
def test_numbers_of_domains(low: int, more: int, first: float, last: float) -> None:
    for kind, domain in (
        ("integer", IntegerDomain(low, low + more)),
        ("float", FloatDomain(first, last, 0.25)),
        ("log", LogDomain(last, last + 1 - first, 0.25)),
        ("text", TextDomain(1 + more % 254)),
    ):
        check(config.read_domain, {"type": kind, **fields(domain)}, domain)


@given(st.lists(items, min_size=1, max_size=4), st.binary(min_size=16, max_size=16))
def test_items_and_specs(listed: list[Any], key: bytes) -> None:
    expected = ListedItems(listed)
    for spelled in (written(tuple(listed)), json.dumps(written(tuple(listed)))):
        assert config.read_listed_items(spelled) == expected
    spec = SketchSpec(item_hash="blake2b", item_key=key)
    check(config.read_spec, {"item_hash": "blake2b", "item_key": key.hex()}, spec)


def test_a_reader_that_misreads_would_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    bound = NormBound(5, max_weight=2, max_per_item=3, signed=True)
    check(config.read_norm, fields(bound), bound)
    for name, read in (("max_per_item", lambda value, path: int(value) + 1), ("signed", lambda value, path: False)):
        with monkeypatch.context() as patched:
            entry = NORM_BLOCK.entries[name]
            patched.setitem(NORM_BLOCK.entries, name, entry._replace(form=Form(int, read)))
            with pytest.raises(AssertionError):
                check(config.read_norm, fields(bound), bound)


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_examples_are_the_same_in_every_spelling(spelling: str) -> None:
    spell = SPELLINGS[spelling]
    for read, settings in BLOCKS:
        if isinstance(settings, dict):
            assert read(spell(settings)) == read(settings)
    for settings in RELEASES + TABLES:
        assert config.read_release(spell(settings)) == config.read_release(settings)


@pytest.mark.parametrize("number", ["1e-6", "0.000001", 1e-6, np.float64(1e-6), Fraction(1, 10**6), " 1.0E-6 "])
def test_numbers_may_be_text(number: Any) -> None:
    assert config.read_method({"threshold": {"delta": number}}) == Thresholding(Fraction(1, 10**6))
    if not isinstance(number, Fraction):
        assert config.read_privacy({"epsilon": 1, "delta": number}) == PrivacySpec(epsilon=1, delta=1e-6)


@pytest.mark.parametrize("number", ["10", 10, 10.0, "1e1", np.int32(10)])
def test_whole_numbers_may_be_text_or_floats(number: Any) -> None:
    read = config.read_norm({"max_norm": 10, "max_keys": number})
    assert read == NormBound(10, max_keys=10)
    assert type(read.max_keys) is int


@pytest.mark.parametrize("number", ["", "ten", "1,5", "0x10", "1_0", "nan", "inf", "-Infinity", "1" * 65, [], {}, True])
def test_what_is_not_a_number(number: Any) -> None:
    for settings in ({"epsilon": number, "delta": 1e-6}, {"rho": number}):
        with pytest.raises(config.ConfigError, match=r"^privacy\.(epsilon|rho): expected a (finite )?number"):
            config.read_privacy(settings)


@pytest.mark.parametrize(
    ("length", "seconds"),
    [("1h", 3600), ("30 m", 1800), ("7d", 604800), ("2w", 1209600), ("1.5s", 1.5), ("20ms", 0.02)],
)
def test_lengths_of_time(length: str, seconds: float) -> None:
    for written_as in (length, seconds, str(seconds)):
        horizon = config.read_horizon({"start": 0, "window_size": written_as, "windows": 2})
        assert horizon.size_micros == seconds * 10**6


@pytest.mark.parametrize("length", ["", "h", "1y", "1h30m", "-1h", "1e400", "9" * 40, True, "1e-9", [1], 0])
def test_what_is_not_a_length_of_time(length: Any) -> None:
    with pytest.raises(config.ConfigError, match=r"^horizon\.window_size: "):
        config.read_horizon({"start": 0, "window_size": length, "windows": 2})


@pytest.mark.parametrize(
    "start",
    [
        "20240101",
        "2024",
        "2024-13-01",
        "2024-0101",
        "20240101T25",
        "2024-01-01T25:00",
        "2024-01-01T00:00+24:00",
        "today",
        True,
        1e300,
        -10000000000000.0,
        "nan",
        "1e300",
    ],
)
def test_what_is_not_a_time(start: Any) -> None:
    with pytest.raises(config.ConfigError, match=r"^windows\.start: "):
        config.read_windows({"start": start, "end": "2025-01-01"})


@pytest.mark.parametrize(
    "start",
    [
        "2024-01-01",
        "2024-01-01T00:00",
        "2024-01-01 00:00:00Z",
        "2024-01-01T02:00:00+02:00",
        "20240101T000000",
        "20240101T0200+0200",
        "2023-12-31T23:00:00.000-01",
        "20240101t00z",
        "1704067200",
        "1.7040672e9",
        1704067200,
    ],
)
def test_times_are_in_utc(start: str) -> None:
    assert config.read_windows([start, "2025-01-01"]).start == datetime.datetime(2024, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize("name", ["", "units", "records", "weight", "clipping"])
@pytest.mark.parametrize("door", ["dict", "yaml", "json", "share"])
def test_null_is_refused_where_python_and_settings_read_it_differently(name: str, door: str) -> None:
    """`none` leaves counters out, as `None` does in Python, and what is left out is counted as usual."""
    counters: Any = {name: None} if name else None
    settings: Any = {"rho": 1, "summary_counts": counters}
    if door == "share":
        settings = {"rho": 1, "share": "1/2", "summary_counts": counters}
    if door in ("yaml", "json"):
        settings = (
            json.dumps(settings) if door == "json" else f"rho: 1\nsummary_counts: {{{name}: }}".replace("{: }", "~")
        )
    with pytest.raises(
        ConfigError, match=rf"summary_counts{'.' * bool(name)}{name}: must not be null, .* Write none, or remove"
    ):
        config.read_privacy(settings)
    without = config.read_privacy({"rho": 1, "summary_counts": {name: "none"} if name else "none"})
    assert (without == PrivacySpec(rho=1)) == (name == "records")  # which are not counted unless they are asked for
    assert config.read_privacy({"rho": 1}) == PrivacySpec(rho=1)
