"""Mistakes that cost nothing to notice are refused, or told, in every door, with the call that is meant."""

from __future__ import annotations

import logging
import pathlib
import shlex
import warnings
from collections.abc import Callable
from inspect import isfunction
from typing import Any

import apache_beam as beam
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import beam_dpsketch
from beam_dpsketch import (
    ConfigError,
    FloatDomain,
    IntegerDomain,
    ItemFrequencies,
    KeySelection,
    ListedItems,
    NormBound,
    PrivacyBudget,
    PrivacyId,
    PrivacySpec,
    PrivacyWarning,
    PublicKeys,
    Quantiles,
    Record,
    RecordBounds,
    ReleaseSpec,
    SketchSpec,
    TimeRange,
    rehearse,
    release_frame,
    transforms,
)
from beam_dpsketch.config import read_release
from beam_dpsketch.errors import ArgumentTypeError, WindowingError
from beam_dpsketch.exact.declared.public import TimeColumn
from beam_dpsketch.explore.exploring import explore
from beam_dpsketch.plots import plot_top_k
from beam_dpsketch.rows import PrivateFrequencies as PrivateFrequenciesOfRows
from beam_dpsketch.transforms import PrivateFrequencies, PrivateQuantiles, PrivateStatistics, SelectKeys
from tests.cli.consoles import run, write
from tests.helpers.pipelines import FN_API

PERSON, DAY = PrivacyId("person", NormBound(3)), 86_400
TABLE = pd.DataFrame({"person": range(400), "city": ["Oslo", "Bern"] * 200, "n": range(400)})
COUNT = {"kind": "frequencies", "item": "city", "privacy": {"rho": 1}, "privacy_unit": "record"}
RELEASED = release_frame(TABLE, COUNT)
RANKS = release_frame(
    TABLE, {**COUNT, "kind": "quantiles", "item": "n", "domain": {"type": "integer", "low": 0, "high": 399}}
)


# Arguments that are many

MANY: dict[str, Callable[[Any], Any]] = {
    "candidates of a sketch": lambda many: RELEASED.top_k(2, many),
    "candidates of movers": lambda many: RELEASED.movers(release_frame(TABLE, COUNT), 2, many),
    "candidates of a difference": lambda many: RELEASED.minus(release_frame(TABLE, COUNT)).top_k(2, many),
    "candidates of a picture": lambda many: plot_top_k(RELEASED, k=2, candidates=many),
    "candidates of a page": lambda many: explore(RELEASED, candidates=many),
    "a dictionary": lambda many: RELEASED.decode(many),
    "listed items": ListedItems,
    "public keys": PublicKeys,
    "edges": RANKS.histogram,
    "items of a raw sketch": lambda many: beam_dpsketch.CountSketch(SketchSpec(width=16)).accumulate(many),
}
TABLES = {"public keys"}
"""Where a table is welcome, with a column for each part of a key."""
OPEN = {f"candidates of {what}" for what in ("a sketch", "a difference", "movers", "a picture", "a page")}
"""Where `None` leaves it to the release, which refuses in words of its own if it does not know its items."""
ONE: dict[str, Any] = {
    "text with commas": "Oslo,Bern",
    "bytes": b"Oslo",
    "bytes with commas": b"Oslo; Bern",
    "a number": 5,
    "nothing": None,
    "an array without dimensions": np.array(3),
    "a table": TABLE,
    "an Arrow table": pa.table({"city": ["Oslo"]}),
}


@pytest.mark.parametrize("argument", MANY)
@pytest.mark.parametrize("one", ONE)
def test_one_value_is_refused_where_many_belong(argument: str, one: str) -> None:
    if (one == "nothing" and argument in OPEN) or ("table" in one and argument in TABLES):
        return
    fix = "put it in a list" if "with commas" not in one else 'pass each item as a separate text, such as ["a", "b"]'
    with pytest.raises(ArgumentTypeError, match=r"must be a list, got ") as caught:
        MANY[argument](ONE[one])
    assert f"; {'pass one of its columns' if 'table' in one else fix}" in str(caught.value)
    assert "Oslo" not in str(caught.value)


@pytest.mark.parametrize(
    "make", [list, tuple, np.array, pd.Series, pa.array, lambda each: pa.chunked_array([each]), iter]
)
def test_many_values_come_in_any_form(make: Callable[[list[str]], Any]) -> None:
    assert len(RELEASED.top_k(2, make(["Oslo", "Bern"]))) == 2
    assert PublicKeys(make(["Oslo", "Bern"])).keys == ("Oslo", "Bern")
    assert ListedItems(make(["Oslo", "Bern"])).items == ("Oslo", "Bern")


@pytest.mark.parametrize("given", ["Oslo,Bern", "Oslo; Bern", "Oslo|Bern"])
def test_settings_and_the_command_say_how_to_write_several_items(given: str, tmp_path: pathlib.Path) -> None:
    for path, settings in (
        ("keys.public", {**COUNT, "keys": {"public": given, "field": "city"}}),
        ("listed_items", {**COUNT, "listed_items": given}),
    ):
        with pytest.raises(ConfigError) as caught:
            read_release(settings)
        assert str(caught.value).startswith(
            f'{path}: expected a list, got text; pass each item as a separate text, such as ["a'
        )
    releases = str(tmp_path / "a.dpsketch")
    write(pathlib.Path(releases), RELEASED)
    for option, command in (
        ("--public-keys", ("run", "a.csv", "--output", "b", "--key", "city", "--public-keys", given)),
        ("--candidates", ("query", releases, "--top", "2", "--candidates", given)),
    ):
        code, printed = run(*command)
        assert code == 2
        assert f"{option} must be a readable file with one item per line: No such file" in printed
        assert given not in printed


def test_items_that_are_not_listed_are_told_in_the_words_of_the_door(tmp_path: pathlib.Path) -> None:
    listed = release_frame(TABLE, {**COUNT, "listed_items": ["Oslo", "Bern"]})
    with pytest.raises(ValueError, match=r"1 of 2 are not. Did you mean 'Oslo'\? Use items from spec.items") as caught:
        listed.estimate(["Bern", "Osloo"])
    assert "Osloo" not in str(caught.value)
    with pytest.raises(ValueError, match=r"1 of 1 are not\. Use items from"):
        listed.estimate([7])
    write(path := tmp_path / "a.dpsketch", listed)
    _, printed = run("query", str(path), "--estimate", "osloo")
    assert "are not. Did you mean 'Oslo'? Use items from the counted list, which --top shows [" in printed
    assert not any(words in printed for words in ("spec.items", "SketchSpec", "osloo"))


# Calls

CALLS: dict[str, tuple[Callable[[], Any], str]] = {
    "an id without bounds": (lambda: PrivacyId("user"), "'bounds'. Call PrivacyId(field, bounds, *, max_windows=None"),  # type: ignore[call-arg]
    "bounds without names": (lambda: RecordBounds(4, 2), ". Call RecordBounds(max_records, *, max_keys=None"),  # type: ignore[misc]
    "a domain without a step": (lambda: FloatDomain(0, 10), "'step'. Call FloatDomain(low, high, step)"),  # type: ignore[call-arg]
    "a misspelt argument": (lambda: NormBound(max_nrom=3), "? Call NormBound(max_norm, *, max_weight=1"),  # type: ignore[call-arg]
    "a misspelt bound": (lambda: NormBound(max_norms=3), "'max_norms' is not an argument. Did you mean 'max_norm'?"),  # type: ignore[call-arg]
    "an old name": (lambda: NormBound(3, order=1), "'order' is not an argument. Did you mean 'norm'?"),  # type: ignore[call-arg]
    "an unknown argument": (lambda: PrivacySpec(rho=1, budget=2), "'budget' is not an argument. Call PrivacySpec("),  # type: ignore[call-arg]
    "a number as privacy": (lambda: declared_with(2), "got int. Use one such as PrivacySpec(epsilon=1, delta=1e-6)"),  # type: ignore[arg-type]
    "a number as text": (lambda: PrivacySpec(epsilon="0,5"), "got str. Write it without quotes, such as 1 or 0.5"),  # type: ignore[arg-type]
    "a whole number as text": (lambda: NormBound(3, max_weight="5"), "got str. Write it without quotes"),  # type: ignore[arg-type]
    "a tuple as domain": (lambda: Quantiles((0, 100)), "got tuple. Use one such as IntegerDomain(0, 100)"),  # type: ignore[arg-type]
    "a tuple as domain of a mean": (
        lambda: PrivateStatistics((0, 100), PrivacySpec(rho=1), privacy_unit=Record(), item="n"),  # type: ignore[arg-type]
        "got tuple. Example: IntegerDomain(0, 100)",
    ),
    "a date in other words": (lambda: TimeRange("25.12.2025", "2025-12-26"), 'such as "2025-12-25" or "2025-12-25T08:'),
    "a duration in words": (lambda: TimeColumn("at", "daily"), 'such as "30m", "1h" or "7d", a timedelta or seconds'),
    "a list as domain": (
        lambda: read_release({**COUNT, "kind": "quantiles", "domain": [0, 2000]}),
        "domain: expected a block, such as {type: integer, low: 0, high: 100}, got a list",
    ),
    "a release as a dict": (lambda: RELEASED["Oslo"], "Use interval(item)"),
    "a table of a release": (lambda: RELEASED.to_pandas(), "Convert an answer, such as top_k"),
    "a mean of a tree": (lambda: RANKS.mean(), "Use PrivateStatistics (kind: statistics)"),
    "quantiles of a sketch": (lambda: RELEASED.quantile(0.5), "Use PrivateQuantiles (kind: quantiles)"),
    "a quantile in words": (lambda: RANKS.quantile("median"), "must be numbers from 0 to 1, such as 0.5 for"),
    "a sum of an answer": (lambda: RELEASED.total_weight() + 1, "Use float(answer), answer.lower or answer.upper"),
    "a rounded answer": (lambda: round(RELEASED.total_weight()), "Use float(answer), answer.lower or answer.upper"),
    "public keys of PipelineDP": (lambda: PrivateFrequencies(public_partitions=["a"]), "Did you mean 'PublicKeys'?"),  # type: ignore[call-arg]
    "bounds of PipelineDP": (
        lambda: RecordBounds(max_contributions_per_partition=3),  # type: ignore[call-arg]
        "Did you mean 'RecordBounds(max_records=...)'?",
    ),
    "keys of PipelineDP": (
        lambda: PrivateFrequencies(max_partitions_contributed=3),  # type: ignore[call-arg]
        "Did you mean 'RecordBounds(max_keys=...)'?",
    ),
    "a release without a name": (lambda: RELEASED.save(), "missing 1 required"),
    "a kind in Python": (lambda: release_frame(TABLE, {**COUNT, "kind": "mean"}), "Did you mean 'statistics'?"),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_a_wrong_call_shows_the_right_one(name: str) -> None:
    call, words = CALLS[name]
    with pytest.raises((TypeError, ValueError, AttributeError)) as caught:
        call()
    assert words in str(caught.value)


CLASSES = [each for each in map(vars(transforms).get, transforms.__all__) if isinstance(each, type)]
TRANSFORMS = [each for each in CLASSES if not issubclass(each, tuple)]


@pytest.mark.parametrize("kind", TRANSFORMS)
def test_transforms_show_their_calls_too(kind: Any) -> None:
    with pytest.raises(ArgumentTypeError, match=rf"'itme' is not an argument.*[.?] Call {kind.__name__}\("):
        kind(itme=3)


def test_public_classes_show_their_calls_and_keep_their_own_errors() -> None:
    classes = [kind for kind in map(vars(beam_dpsketch).get, beam_dpsketch.__all__) if isinstance(kind, type)]
    shown = 0
    for kind in classes:
        try:
            kind(*range(40))
        except (TypeError, ValueError) as error:
            shown += f" Call {kind.__name__}(" in str(error)
    assert shown > 40
    with pytest.raises(TypeError, match="bounds must be NormBound"):
        PrivacyId("user", 3)  # type: ignore[arg-type]


# Kinds, settings and options that nobody knows

MEANT = {
    "mean": "statistics",
    "counts": "frequencies",
    "count": "metrics",
    "privacy_ids": "metrics",
    "sum": "statistics",
    "percentile": "quantiles",
    "median": "quantiles",
    "histogram": "quantiles",
    "topk": "top_k",
    "Variance": "statistics",
    "frequencys": "frequencies",
}


@pytest.mark.parametrize("kind", MEANT)
def test_a_kind_names_the_one_that_does_it(kind: str) -> None:
    message = f"got {kind!r}. Did you mean {MEANT[kind]!r}?"
    with pytest.raises(ConfigError, match=r"^kind: expected one of frequencies, .*") as caught:
        read_release({**COUNT, "kind": kind})
    assert message in str(caught.value)
    assert message in run("plan", "--kind", kind)[1]
    if MEANT[kind] == "metrics":
        return
    metrics = [{"name": "a", "kind": kind, "item": "city"}]
    with pytest.raises(ConfigError) as caught:
        read_release({"kind": "metrics", "metrics": metrics, "privacy": {"rho": 1}, "privacy_unit": "record"})
    assert message in str(caught.value)


LINES = {
    "plan --privacy_id u": "unknown option --privacy_id. Did you mean '--privacy-id'?",
    "run x.csv --norm 20": "--norm: expected one of l1, l2",
    "query x.dpsketch --tob=3": "unknown option --tob. Did you mean '--top'?",
    "inspect x.dpsketch --formta json": "unknown option --formta. Did you mean '--format'?",
    "quary x.dpsketch": "argument COMMAND: expected one of inspect, ",
    "quary x": "Did you mean 'query'?",
    "ledger shwo": "Did you mean 'show'?",
    "inspect x.dpsketch --format tabel": "Did you mean 'table'?",
    "plan --rho 1 --nosie laplace": "Did you mean '--noise'?",
    "plan --kind frequencies --xyzzy 1": "unknown option --xyzzy. See dpsketch plan --help",
    "query --estimate Oslo Bern x.dpsketch": "Files come first: dpsketch query FILE --estimate ...",
    "query --quantile 0.5 0.9 x.dpsketch": "Files come first: dpsketch query FILE --quantile ...",
    "plot --quantile 0.5 x.dpsketch": "Files come first: dpsketch plot FILE --quantile ...",
    "query x.dpsketch --top 3 -- --tob": "unrecognized arguments",
    "run x.csv --date 2026-03-01": "--date has no value. Remove the text after it",
    "run x.csv --public-partitions x.txt": "unknown option --public-partitions. Did you mean '--public-keys'?",
    "plan --max-contributions-per-partition 3": "Did you mean '--max-records'?",
    "plan --kind metrics": "--metrics is missing. With --kind metrics, set the list of metrics, such as",
}  # fmt: skip


@pytest.mark.parametrize("line", LINES)
def test_an_option_that_is_unknown_or_eats_the_files_is_told_so(line: str) -> None:
    code, printed = run(*shlex.split(line))
    assert code == 2
    assert LINES[line] in printed


# Keys

KEYED: dict[str, Callable[[Any], Any]] = {
    "public": lambda privacy_unit: PrivateFrequencies(
        SketchSpec(), PrivacySpec(rho=1), privacy_unit=privacy_unit, keys=PublicKeys(["a"], "k")
    ),
    "chosen": lambda privacy_unit: PrivateQuantiles(
        IntegerDomain(0, 9), PrivacySpec(rho=1), privacy_unit=privacy_unit, item="n", keys=KeySelection(1e-8, "k")
    ),
    "a list": lambda privacy_unit: SelectKeys(
        PrivacySpec(rho=1), privacy_unit=privacy_unit, keys=KeySelection(1e-8, "k")
    ),
}


@pytest.mark.parametrize("keys", KEYED)
def test_records_with_keys_say_in_how_many_a_person_counts(keys: str) -> None:
    with pytest.raises(ValueError, match=r"max_keys is required with keys: .* Example: RecordBounds\(5, max_keys=2\)"):
        KEYED[keys](PrivacyId("person", RecordBounds(5)))
    KEYED[keys](PrivacyId("person", RecordBounds(5, max_keys=1)))
    KEYED[keys](Record())


def test_a_number_of_keys_without_keys_is_refused_and_the_shell_names_the_option() -> None:
    with pytest.raises(ValueError, match="max_keys is supported only with keys"):
        ReleaseSpec(ItemFrequencies(SketchSpec()), PrivacySpec(rho=1), PrivacyId("p", RecordBounds(5, max_keys=1)), "c")
    line = "plan --kind frequencies --item c --privacy-id p --max-records 5 --rho 1 --key k --assume-public-keys"
    assert "--max-keys is missing. Set the number of keys" in run(*line.split())[1]


def test_releases_with_keys_and_without_are_combined_under_the_wider_bounds() -> None:
    one, two = RecordBounds(2), RecordBounds(1, max_keys=3)
    assert one.union(two) == two.union(one) == RecordBounds(2, max_keys=3)
    assert one.union(one) == one
    assert (one.kept_keys, one.squared_length) == (1, 4)


# Windows

MANY_WINDOWS = {"time": {"field": "day", "every": 24}, "windows": {"start": "2026-11-16", "end": "2026-11-23"}}
SHELL = (
    "--kind frequencies --item city --privacy-id person --max-norm 3 --rho 1 --time day --every 24 --start 2026-11-16 "
    "--end 2026-11-23"
)
UNIT = {"privacy_id": "person", "norm": {"max_norm": 3}}


@pytest.mark.pipeline
def test_too_many_windows_are_refused_before_anything_is_read(tmp_path: pathlib.Path) -> None:
    words = (
        "would produce 25,200 releases, more than 10,000: a window every 24 seconds. Use longer windows or fewer keys"
    )
    settings = {**COUNT, **MANY_WINDOWS}
    for call in (lambda: read_release(settings), lambda: release_frame("no table", settings)):
        with pytest.raises(ConfigError, match=f"^windows: {words}, or set max_releases"):
            call()
    file = tmp_path / "settings.yaml"
    file.write_text(repr(settings))
    for line in (
        f"run none.csv {SHELL} --output x.dpsketch",
        f"plan {SHELL}",
        f"run none.csv --config {file} --output x.dpsketch",
    ):
        code, printed = run(*shlex.split(line))
        assert code == 2
        assert words in printed
        assert "none.csv" not in printed
    assert words in run("check", str(file))[1]
    elements = beam.Pipeline(runner=FN_API) | beam.Create([beam.Row(city="a")])
    windowed = elements | beam.WindowInto(beam.window.FixedWindows(24))
    week = TimeRange(0, 7 * DAY)
    private = PrivateFrequencies(SketchSpec(), PrivacySpec(rho=1), privacy_unit=Record(), item="city", windows=week)
    with pytest.raises(WindowingError, match=words):
        windowed | private


def test_keys_multiply_windows_and_a_caller_may_allow_them() -> None:
    week, keys = TimeRange(0, 7 * DAY), PublicKeys([f"k{n}" for n in range(100)], "k")
    parts = (ItemFrequencies(SketchSpec(width=16)), PrivacySpec(rho=1), PERSON, "city", None, keys)
    hours = TimeColumn("day", 3600)
    with pytest.raises(
        ValueError, match="16,800 releases, more than 10,000: a window every 1 hour for each of 100 keys"
    ):
        ReleaseSpec(*parts, week, hours)
    ReleaseSpec(*parts, TimeRange(0, 7 * DAY, max_releases=16_800), hours)
    with pytest.raises(ValueError, match=r"more than 16,799: a window every 1 hour .* set max_releases"):
        ReleaseSpec(*parts, TimeRange(0, 7 * DAY, max_releases=16_799), hours)
    ReleaseSpec(*parts[:5], PublicKeys([f"k{n}" for n in range(20_000)], "k"))  # without windows any number
    allowed = {**COUNT, **MANY_WINDOWS, "windows": {**MANY_WINDOWS["windows"], "max_releases": 30_000}}  # type: ignore[dict-item]
    assert read_release(allowed).time_range.max_releases == 30_000  # type: ignore[union-attr]
    assert run("plan", *shlex.split(f"{SHELL} --max-releases 30000"))[0] == 0


def test_the_number_of_windows_is_told_first(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    days = TABLE.assign(day=[f"2026-11-{16 + n % 7}" for n in range(400)])
    days.to_csv("days.csv", index=False)
    line = f"run days.csv {SHELL.replace('24 ', '1d ')} --key city --public-keys keys.txt --output x.dpsketch"
    pathlib.Path("keys.txt").write_text("Oslo\nBern\n")
    first, *_ = run(*shlex.split(line))[1].splitlines()
    assert first.endswith(", in each of 7 windows (14 releases)")
    settings = {**COUNT, "time": {"field": "day", "every": "1d"}, "windows": ["2026-11-16", "2026-11-23"]}
    with caplog.at_level(logging.INFO, logger="beam_dpsketch"):
        release_frame(days, settings)
    assert "7 releases: 7 declared windows, 1 keys in each" in caplog.text


# Ids


@pytest.mark.parametrize("bounds", [NormBound(20), RecordBounds(20)], ids=repr)
def test_an_id_of_about_one_record_is_told(bounds: Any) -> None:
    """Ends of 95 % intervals pass each other in 1 of 40 releases: a false alarm in 1 of 4e9 runs."""
    rows = pd.DataFrame({"person": [n % 2000 for n in range(20_000)], "order": range(20_000), "city": ["a"] * 20_000})

    def codes(field: str, **more: Any) -> list[str]:
        privacy_unit = PrivacyId(field, bounds)
        declared = ReleaseSpec(
            ItemFrequencies(SketchSpec(width=16)), PrivacySpec(rho=100), privacy_unit, "city", **more
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return [note.code for note in release_frame(rows, declared).notes]

    assert any("one_record_each" in codes("order") for _ in range(6))
    assert "one_record_each" not in codes("person")


def test_an_id_of_one_record_is_no_news_where_one_is_allowed_or_the_release_is_one_of_several() -> None:
    rows = pd.DataFrame({"order": range(20_000), "city": ["a", "b"] * 10_000})
    count, loud = ItemFrequencies(SketchSpec(width=16)), PrivacySpec(rho=100)
    cases = [
        ReleaseSpec(count, loud, PrivacyId("order", NormBound(1)), "city"),
        ReleaseSpec(count, loud, PrivacyId("order", RecordBounds(1)), "city"),
        ReleaseSpec(count, loud, Record(), "city"),
        ReleaseSpec(count, loud, PrivacyId("order", NormBound(9)), "city", keys=PublicKeys(["a", "b"], "city")),
    ]
    for declared in cases:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            released = release_frame(rows, declared)
        for each in released.values() if isinstance(released, dict) else [released]:
            assert "one_record_each" not in [note.code for note in each.notes]


# One PrivacySpec, several releases


def warned(caught: list[warnings.WarningMessage]) -> list[warnings.WarningMessage]:
    return [each for each in caught if "used for two releases" in str(each.message)]


def declared_with(privacy: PrivacySpec) -> ReleaseSpec:
    return ReleaseSpec(ItemFrequencies(SketchSpec(width=16)), privacy, PERSON, "city")


def test_a_spec_that_pays_twice_for_one_table_is_told_once() -> None:
    declared, other = declared_with(PrivacySpec(rho=1)), TABLE.copy()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        release_frame(TABLE, declared)
        assert not warned(caught)
        release_frame(TABLE, declared)
        release_frame(TABLE, declared)
    (found,) = warned(caught)
    assert (found.category, found.filename) == (PrivacyWarning, __file__)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fresh = declared_with(PrivacySpec(rho=1))
        release_frame(TABLE, fresh)
        release_frame(other, fresh)  # other rows, as of another day
        release_frame(TABLE, declared_with(PrivacySpec(rho=1)))
        rehearse(TABLE, fresh)
        for part in PrivacyBudget(rho=1).split(2):
            release_frame(TABLE, declared_with(part))
    assert not warned(caught)


def test_equal_settings_that_pay_twice_for_one_table_are_told_once() -> None:
    table, settings = TABLE.copy(), {**COUNT, "privacy": {"rho": "0.125"}}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        release_frame(table, settings)
        release_frame(TABLE, settings)  # other rows, as of another day
        release_frame(table, {**settings, "item": "n"})
        release_frame(table, {**settings, "privacy": {"rho": 0.25}})
        for _ in range(2):
            release_frame(table, {**COUNT, "privacy": {"rho": 0.75, "share": "1/2"}})
        assert not warned(caught)
        release_frame(TABLE, dict(reversed(settings.items())))
        release_frame(TABLE, settings)
    (found,) = warned(caught)
    assert (found.category, found.filename) == (PrivacyWarning, __file__)
    assert "Equal settings are used" in str(found.message)


@pytest.mark.pipeline
@pytest.mark.parametrize("is_one", [True, False])
def test_a_spec_of_several_transforms_of_one_pipeline_is_told_once_and_parts_are_not(is_one: bool) -> None:
    first, second, third = [PrivacySpec(rho=1)] * 3 if is_one else PrivacyBudget(rho=1, keys_delta=1e-8).split(3)
    voter = PrivacyId("person", NormBound(3, max_keys=1))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        rows = beam.Pipeline(runner=FN_API) | beam.Create([beam.Row(person="p", city="a", n=1)])
        rows | PrivateFrequencies(SketchSpec(width=16), first, privacy_unit=PERSON, item="city")
        rows | PrivateQuantiles(IntegerDomain(0, 9), second, privacy_unit=PERSON, item="n")
        rows | SelectKeys(third, privacy_unit=voter, keys=KeySelection(1e-8, "city"))
    assert len(warned(caught)) == is_one
    assert all(each.filename == __file__ for each in warned(caught))


@pytest.mark.pipeline
def test_one_spec_in_two_pipelines_is_not_told() -> None:
    privacy = PrivacySpec(rho=1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):
            rows = beam.Pipeline(runner=FN_API) | beam.Create([beam.Row(city="a")])
            rows | PrivateFrequencies(SketchSpec(width=16), privacy, privacy_unit=Record(), item="city")
    assert not warned(caught)


@pytest.mark.pipeline
def test_one_spec_is_told_wherever_in_a_pipeline_its_transforms_are() -> None:
    """In composites of equal labels inside, and with another pipeline or table in between."""

    class Inside(beam.PTransform):
        def expand(self, rows: beam.PCollection) -> beam.PCollection:
            return rows | "Count" >> PrivateFrequencies(
                SketchSpec(width=16), privacy, privacy_unit=Record(), item="city"
            )

    for is_between in (False, True):
        privacy = PrivacySpec(rho=1)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            rows, others = (beam.Pipeline(runner=FN_API) | beam.Create([beam.Row(city="a")]) for _ in range(2))
            rows | "First" >> Inside()
            if is_between:
                others | Inside()
            assert not warned(caught)
            rows | "Second" >> Inside()
            rows | "Third" >> Inside()
        assert len(warned(caught)) == 1


def test_a_table_is_known_again_after_others() -> None:
    tables, declared = [TABLE.copy() for _ in range(3)], declared_with(PrivacySpec(rho=1))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for table in tables:
            release_frame(table, declared)
        assert not warned(caught)
        release_frame(tables[0], declared)
    assert len(warned(caught)) == 1


@pytest.mark.pipeline
def test_equal_settings_of_two_transforms_of_rows_are_told_once() -> None:
    """Also where they ask another question; other settings, and parts of a budget, are not told."""
    settings = {"privacy": {"rho": "0.375"}, "privacy_unit": "record", "item": "city", "spec": {"width": 16}}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        rows = beam.Pipeline(runner=FN_API) | beam.Create([beam.Row(city="a", town="b")])
        rows | "First" >> PrivateFrequenciesOfRows(**settings)
        rows | "Other" >> PrivateFrequenciesOfRows(**{**settings, "item": "town"})
        for name in ("Half", "Other half"):
            part = {"privacy": {"rho": 0.75, "share": "1/2"}}
            rows | name >> PrivateFrequenciesOfRows(**{**settings, **part})
        assert not warned(caught)
        rows | "Second" >> PrivateFrequenciesOfRows(**settings, ask={"items": ["a"]})
        rows | "Third" >> PrivateFrequenciesOfRows(**settings)
    (found,) = warned(caught)
    assert "Equal settings are used" in str(found.message)


def test_the_package_has_no_name_of_its_own_in_it() -> None:
    assert not hasattr(beam_dpsketch, "beam_dpsketch")
    assert {"FactorHistogram", "Disclosure", "Level"}.isdisjoint(beam_dpsketch.__all__)
    assert Quantiles.__name__ in beam_dpsketch.__all__


@pytest.mark.parametrize("name", [name for name in beam_dpsketch.__all__ if isfunction(getattr(beam_dpsketch, name))])
def test_a_wrong_argument_of_a_function_shows_the_right_call(name: str) -> None:
    with pytest.raises(ArgumentTypeError, match=rf"'settngs' is not an argument.*[.?] Call {name}\("):
        getattr(beam_dpsketch, name)(settngs=1)


def test_what_is_refused_is_no_use_of_a_table() -> None:
    """The warning comes at the second release, and not before."""
    given: dict[str, Any] = {"kind": "quantiles", "item": "x", "privacy": {"rho": 0.7}, "privacy_unit": "record"}
    given["domain"] = {"type": "integer", "low": 0, "high": 9}
    table = pd.DataFrame({"x": ["1,5", "2"] * 50})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", PrivacyWarning)
        for _ in range(2):
            with pytest.raises(ValueError, match="Nothing was spent"):
                release_frame(table, given)
        table["x"] = [1, 2] * 50
        release_frame(table, given)
        assert not caught
        release_frame(table, given)
    assert "used for two releases" in str(caught[0].message)
