"""Two rows are of one person if and only if their ids are equal by the type of their column, in every form and door.

A case is a column of ids. Either the release counts as many people as the column has different values, where null and
NaN are nobody; or the column is refused, and the code in the message makes one of which that is true. Each person
counts once, and noise is so small that rounding it away fails with a probability below 1e-10 a case.
"""

from __future__ import annotations

import datetime
import decimal
import math
import random
import re
import uuid
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from beam_dpsketch import (
    AssumePublicKeys,
    KeySelection,
    PrivacyId,
    PrivacySpec,
    RecordBounds,
    SketchSpec,
    release_frame,
)
from beam_dpsketch.config import read_release
from beam_dpsketch.errors import RefusalError
from beam_dpsketch.exact.reading import columns
from beam_dpsketch.frames.steps import tables as frame_tables
from beam_dpsketch.frames.steps.files import open_files
from beam_dpsketch.transforms import PrivateFrequencies
from tests.helpers.arrow_forms import OPAQUE, VALUES, forms, opaque
from tests.helpers.pipelines import FN_API, seen_by_sink
from tests.helpers.recasts import code_in, recast

SETTINGS: dict[str, Any] = {
    "kind": "frequencies",
    "item": "item",
    "privacy": {"rho": 50},
    "privacy_unit": {"privacy_id": "p", "records": {"max_records": 1}},
    "spec": {"depth": 1, "width": 16},
}


class Case(NamedTuple):
    """A column of ids in a table of some library, and its values as Python has them."""

    name: str
    table: Any
    values: list[Any]


def people(values: list[Any]) -> int:
    """How many different values there are, by their own equality."""
    known = [value for value in values if value is not None and value is not pd.NaT and value is not pd.NA]
    return len({_plain(value) for value in known if not (isinstance(value, float) and math.isnan(value))})


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return tuple((name, _plain(each)) for name, each in value.items())
    return tuple(map(_plain, value)) if isinstance(value, (list, tuple)) else value


def counted(table: Any) -> int:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return round(release_frame(table, SETTINGS).estimate("x"))


NOBODY = "has no value in any row, so no row would count"


def wrong(case: Case) -> str | None:
    """What is wrong with a case."""
    expected = people(case.values)
    try:
        found = counted(case.table)
    except RefusalError as error:
        try:
            found = 0 if NOBODY in str(error) else counted(recast(case.table, "p", str(code_in(str(error)))))
        except Exception as second:
            if NOBODY not in str(second):
                return f"{case.name}: {error}; {type(second).__name__}: {second}"
            found = 0
    return None if found == expected else f"{case.name}: {found} people of {expected}"


def arrow_cases() -> Iterator[Case]:
    more: dict[pa.DataType, list[Any]] = {
        pa.float64(): [0.0, -0.0, 7.0, 7.0, None, float("nan"), -3.0],
        pa.large_string(): ["é", "e\u0301", "e\u0301", "7", "007", "", " ", "NA", "null", None],
        pa.uint64(): [(1 << 64) - 1, (1 << 63), 7, 7, None],
        pa.decimal128(10, -2): [decimal.Decimal(700), decimal.Decimal(700), None, decimal.Decimal(100)],
        pa.date32(): [datetime.date(1, 1, 1), datetime.date(9999, 12, 31), datetime.date(1, 1, 1), None],
        pa.timestamp("us", "Europe/Oslo"): [
            datetime.datetime(2021, 10, 31, hour, 30, tzinfo=datetime.UTC) for hour in (0, 1, 1)
        ],
    }
    for kind, values in [*VALUES.items(), *more.items()]:
        if kind != pa.float16():
            for name, held, given in forms(values, kind):
                yield Case(f"{name} of {kind}", pa.table({"p": held, "item": ["x"] * len(held)}), given)


_NOT_IN_PANDAS = (pa.float16(), pa.string_view(), pa.binary_view(), pa.list_(pa.binary_view()))


def pandas_cases() -> Iterator[Case]:
    day, one = datetime.date(2024, 1, 1), uuid.UUID(int=1)
    objects: dict[str, list[Any]] = {
        "UUIDs": [one, uuid.UUID(int=1), uuid.UUID(int=2), None],
        "dates": [day, datetime.date(2024, 1, 1), datetime.date(2024, 1, 2), None],
        "integers": [1, np.int64(1), np.uint8(2), 2**70, 2**70, -(2**70), None],
        "decimals": [decimal.Decimal("7.00"), decimal.Decimal(7), decimal.Decimal(8), None],
        "large decimals": [decimal.Decimal(10**30), decimal.Decimal(10**30), decimal.Decimal(10**31), None],
        "booleans": [True, False, True, None],
        "times": [datetime.datetime(2024, 1, 1), datetime.datetime(2024, 1, 1), datetime.datetime(2024, 1, 2), None],
        "zones": [pd.Timestamp("2024-01-01", tz="UTC"), pd.Timestamp("2024-01-02", tz="UTC"), pd.NaT, None],
        "tuples": [("a", 1), ("a", 1), ("a", 2), None],
        "lists": [["a"], ["a"], ["b"], None],
        "floats": [0.5, 0.5, 1.5, None],
    }
    for name, values in objects.items():
        yield Case(f"objects: {name}", pd.DataFrame({"p": pd.Series(values, dtype=object), "item": "x"}), values)
    typed: dict[str, Any] = {
        "Int64": pd.array([7, 7, None, 2**62 + 1, 2**62], "Int64"),
        "boolean": pd.array([True, None, False, True], "boolean"),
        "float64": [7.0, 7.0, None, -0.0, 0.0],
        "float32": np.array([7, 7, 8], np.float32),
        "fractions": [0.5, 0.5, 1.25, None] * 30,
        "timedelta": pd.to_timedelta([1, 1, 2, None]),
        "datetime": pd.to_datetime(["2024-01-01", "2024-01-01", "2024-01-02", None]),
        "datetime with a zone": pd.date_range("2024-10-27", periods=4, freq="h", tz="Europe/Oslo"),
        "period": pd.period_range("2024-01", periods=3, freq="M"),
        "interval": pd.arrays.IntervalArray.from_breaks([0, 1, 2, 3]),
        "categories": pd.Categorical(["a", "b", "a", None]),
        "categories of numbers": pd.Categorical([7.0, 8.0, 7.0, None]),
        "categories of intervals": pd.cut([0.5, 1.5, 0.5, np.nan], [0, 1, 2]),
        "categories of times": pd.Categorical(pd.to_datetime(["2024-01-01", "2024-01-01", None])),
        "sparse": pd.arrays.SparseArray([7, 7, 0, 8]),
        "string": pd.array(["a", "a", None, "A"], "string"),
        "complex": np.array([1j, 1j, 2j]),
    }
    for name, made in typed.items():
        table = pd.DataFrame({"p": made, "item": "x"})
        values = [None if pd.isna(each) else each for each in table["p"].tolist()]
        yield Case(f"pandas {name}", table, values)
    for kind, values in VALUES.items():
        if not pa.types.is_interval(kind) and kind not in _NOT_IN_PANDAS:
            column = next(held for name, held, _ in forms(values, kind) if name == "whole")
            table = pa.table({"p": column, "item": ["x"] * len(column)})
            if not pa.types.is_list_view(kind) and not pa.types.is_large_list_view(kind):
                yield Case(f"Arrow in pandas: {kind}", table.to_pandas(types_mapper=pd.ArrowDtype), values)


def polars_cases() -> Iterator[Case]:
    pl = pytest.importorskip("polars")
    one, day = uuid.UUID(int=1), datetime.datetime(2024, 1, 1)
    series: list[tuple[Any, list[Any]]] = [
        (pl.Object, [one, uuid.UUID(int=1), uuid.UUID(int=2), None]),
        (pl.Int128, [7, 7, 2**100, None]),
        (pl.UInt128, [7, 7, 2**100, None]),
        (pl.Int8, [7, 7, None]),
        (pl.UInt64, [2**64 - 1, 7, 7, None]),
        (pl.Boolean, [True, False, True, None]),
        (pl.Float32, [7.0, 7.0, -0.0, 0.0, None]),
        (pl.Float64, [0.5, 0.5, 1.5, None]),
        (pl.Decimal(20, 2), [decimal.Decimal("7.00"), decimal.Decimal("7.00"), decimal.Decimal("7.50"), None]),
        (pl.String, ["é", "e\u0301", "", None]),
        (pl.Binary, [b"\xff", b"\xff", b"", None]),
        (pl.Categorical, ["a", "b", "a", None]),
        (pl.Enum(["a", "b"]), ["a", "b", "a", None]),
        (pl.Date, [day.date(), day.date(), None]),
        (pl.Datetime("ms"), [day, day, None]),
        (pl.Datetime("us", "Europe/Oslo"), [day.replace(tzinfo=datetime.UTC), None]),
        (pl.Duration("us"), [datetime.timedelta(1), datetime.timedelta(1), datetime.timedelta(2), None]),
        (pl.Time, [datetime.time(5), datetime.time(5), datetime.time(6), None]),
        (pl.List(pl.Int64), [[1], [1], [1, 2], [], None]),
        (pl.List(pl.Int64), [[*range(50)], [*range(50)], [*range(49), 7], None]),
        (pl.Array(pl.Int64, 2), [[1, 2], [1, 2], [2, 1], None]),
        (
            pl.Struct({"a": pl.Int64, "b": pl.String}),
            [{"a": 1, "b": "x"}, {"a": 1, "b": "x"}, {"a": 2, "b": "x"}, None],
        ),
        (pl.Null, [None, None]),
    ]
    for kind, values in series:
        column = pl.Series("p", values, dtype=kind)
        yield Case(f"Polars {kind}", pl.DataFrame([column, pl.Series("item", ["x"] * len(values))]), values)


DUCKDB = {
    "5::hugeint": 1,
    "170141183460469231731687303715884105727::hugeint": 1,
    "uuid '00000000-0000-0000-0000-000000000001'": 1,
    "time '05:00:00'": 1,
    "interval 1 day": 1,
    "'x'::enum('x', 'y')": 1,
    "true": 1,
    "5.50::decimal(9, 2)": 1,
    "date '2024-01-01'": 1,
    "timestamptz '2024-01-01'": 1,
    "timestamp_ns '2024-01-01'": 1,
    "[1, 2]": 1,
    "{'a': 1}": 1,
    "map {'a': 1}": 1,
    "'0101'::bit": 1,
    "'ab'::blob": 1,
    "0.5::double": 1,
    "200::utinyint": 1,
    "union_value(k := 1)": 1,
    "5::varint": 1,
    "null": 0,
}


def duckdb_cases() -> Iterator[Case]:
    duckdb = pytest.importorskip("duckdb")
    for value, number in DUCKDB.items():
        found = duckdb.sql(f"select {value} p, 'x' item from range(3)").to_arrow_table()
        yield Case(f"DuckDB {value}", found, [1] * number)


DOORS: dict[str, Callable[[], Iterator[Case]]] = {
    "Arrow": arrow_cases,
    "pandas": pandas_cases,
    "Polars": polars_cases,
    "DuckDB": duckdb_cases,
}


@pytest.mark.parametrize("door", DOORS)
def test_a_sample_of_ids_is_counted_by_its_values(door: str) -> None:
    cases = [*DOORS[door]()]
    assert len(cases) > 20
    assert [each for each in map(wrong, random.Random(3).sample(cases, min(40, len(cases)))) if each] == []


@pytest.mark.slow
@pytest.mark.parametrize("door", DOORS)
def test_ids_of_every_type_and_form_are_counted_by_their_values(door: str) -> None:
    assert [each for each in map(wrong, DOORS[door]()) if each] == []


def test_parts_of_other_widths_and_forms_hold_the_same_people(tmp_path: Any) -> None:
    """Of Parquet files, in any order of columns, and of parts of a stream."""
    ids = [7, 8, None, 7, 9]
    kinds = [pa.int8(), pa.uint16(), pa.int64(), pa.uint64(), pa.dictionary(pa.int8(), pa.int32()), pa.null()]
    for number, kind in enumerate(kinds):
        column = pa.nulls(5) if kind == pa.null() else pa.array(ids).cast(getattr(kind, "value_type", kind))
        column = column.dictionary_encode() if pa.types.is_dictionary(kind) else column
        named = {"p": column, "item": ["x"] * 5, "z": [number] * 5}
        order = random.Random(number).sample([*named], 3)
        pq.write_table(pa.table({name: named[name] for name in order}), tmp_path / f"{number}.parquet")
    declared = read_release(SETTINGS)
    opened = open_files([f"{tmp_path}/*.parquet"], declared, lambda _: None, lambda _: None)
    assert round(release_frame(opened.table, declared).estimate("x")) == 3


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (pa.int64(), pa.large_string()),
        (pa.int64(), pa.float64()),
        (pa.large_string(), pa.large_binary()),
        (pa.timestamp("us"), pa.timestamp("us", "UTC")),
        (pa.date32(), pa.large_string()),
        (pa.decimal128(9, 2), pa.decimal128(9, 0)),
        (pa.binary(8), pa.large_binary()),
    ],
    ids=str,
)
def test_parts_of_other_types_are_refused_by_name(first: pa.DataType, second: pa.DataType, tmp_path: Any) -> None:
    for name, kind in (("a", first), ("b", second)):
        pq.write_table(pa.table({"p": pa.nulls(3, kind), "item": ["x"] * 3}), tmp_path / f"{name}.parquet")
    read = [pq.read_schema(tmp_path / f"{name}.parquet").field("p").type for name in "ab"]
    words = f"b.parquet: the column 'p' has type {read[1]}, but type {read[0]} in .*a.parquet. Use the same type"
    with pytest.raises(ValueError, match=words.replace("(", r"\(").replace(")", r"\)").replace("[", r"\[")):
        open_files([f"{tmp_path}/*.parquet"], read_release(SETTINGS), lambda _: None, lambda _: None)


EIGHT = pa.array([b"12345678", b"12345678", b"87654321", None], pa.binary(8))
OPAQUE_TABLE = pa.table({"p": EIGHT, "item": ["x"] * 4})


@pytest.mark.parametrize(
    "form", [lambda p: p, lambda p: p.dictionary_encode(), pc.run_end_encode], ids=["plain", "dictionary", "runs"]
)
def test_eight_bytes_are_ids_and_keys_only_if_they_are_said_to_be(form: Any) -> None:
    """They may be addresses; any other width is a value."""
    made = OPAQUE_TABLE.set_column(0, "p", form(EIGHT))
    keyed = {
        "kind": "frequencies",
        "item": "item",
        "privacy": {"rho": 600},
        "privacy_unit": "record",
        "spec": {"width": 16},
    }
    for given, words in (
        (SETTINGS, "privacy_id='p'"),
        ({**keyed, "keys": {"assume_public": True, "field": "p"}}, "key='p'"),
        ({**keyed, "keys": {"select": {"delta": 1e-8}, "field": "p"}}, "key='p'"),
    ):
        for table in (made, made.to_pandas(types_mapper=pd.ArrowDtype)) if form is not pc.run_end_encode else (made,):
            with pytest.raises(
                TypeError, match=rf"{words} must contain .*fixed_size_binary\[8\].*, or set opaque_bytes"
            ):
                release_frame(table, given)
    said = {"privacy_unit": {**SETTINGS["privacy_unit"], "opaque_bytes": True}}
    assert counted_of({**SETTINGS, **said}, made) == 2
    assert len(release_frame(made, {**keyed, "keys": {"assume_public": True, "field": "p", "opaque_bytes": True}})) == 2
    listed = release_frame(made, {**keyed, "keys": {"public": [{"hex": b"12345678".hex()}], "field": "p"}})
    assert 0.5 < listed[b"12345678"].records().estimate / 2 < 1.5
    assert counted(made.set_column(0, "p", pa.array([b"123", b"123", None, b"321"], pa.binary(3)))) == 2


def counted_of(settings: dict[str, Any], table: Any) -> int:
    return round(release_frame(table, settings).estimate("x"))


@pytest.mark.pipeline
@pytest.mark.parametrize(
    "keys", [None, AssumePublicKeys("p"), KeySelection(1e-8, "p")], ids=["id", "assumed", "chosen"]
)
def test_a_pipeline_refuses_eight_opaque_bytes_too(keys: Any) -> None:
    """As Polars hands over its objects: `DataFrame.to_arrow` of UUIDs."""
    bounds = RecordBounds(1) if keys is None else RecordBounds(1, max_keys=1)
    privacy_unit = PrivacyId("p" if keys is None else "item", bounds)
    private = PrivateFrequencies(
        SketchSpec(width=16), PrivacySpec(rho=1), privacy_unit=privacy_unit, item="item", keys=keys
    )
    with (
        pytest.raises(Exception, match=r"='p' must contain .*fixed_size_binary\[8\].*, or set opaque_bytes"),
        beam.Pipeline(runner=FN_API) as pipeline,
    ):
        pipeline | beam.Create([OPAQUE_TABLE]) | private


@pytest.mark.pipeline
def test_a_pipeline_counts_eight_bytes_that_are_said_to_be_ids() -> None:
    privacy_unit = PrivacyId("p", RecordBounds(1), opaque_bytes=True)
    private = PrivateFrequencies(SketchSpec(width=16), PrivacySpec(rho=50), privacy_unit=privacy_unit, item="item")
    (released,) = seen_by_sink(lambda pipeline: pipeline | beam.Create([OPAQUE_TABLE]) | private)
    assert round(released.estimate("x")) == 2


@pytest.mark.parametrize(
    ("ids", "held"),
    [
        (["7", 7], "text and whole numbers"),
        ([np.int64(7), "7"], "text and whole numbers"),
        ([7] * 300_000 + ["A1"], "text and whole numbers"),  # of two parts
        ([b"a", "a"], "bytes and text"),
        ([b"a", 7, "b"], "bytes and text and whole numbers"),
    ],
)
def test_ids_of_several_types_in_one_column_are_refused(ids: list[Any], held: str) -> None:
    """One person would have two ids, and twice the loss."""
    privacy_unit = {"privacy_id": "p", "records": {"max_records": 1}}
    settings = {"kind": "frequencies", "item": "x", "privacy": {"rho": 50}, "privacy_unit": privacy_unit}
    column = pd.Series(ids * 2, dtype=object)
    with pytest.raises(RefusalError, match=rf"privacy_id=.p. contains {held}, so a person may have two ids\. .*E618"):
        release_frame(pd.DataFrame({"p": column, "x": "a"}), settings)
    of_one = pd.Series([each if isinstance(each, str) else None for each in ids], dtype=object)
    release_frame(pd.DataFrame({"p": of_one, "x": "a"}), settings)


def test_columns_that_nobody_asked_for_are_not_handed_over() -> None:
    pl = pytest.importorskip("polars")
    table = pl.DataFrame(
        {
            "p": [1, 1, 2],
            "item": ["x"] * 3,
            "objects": pl.Series([object()] * 3, dtype=pl.Object),
            "wide": pl.Series([1, 2, 3], dtype=pl.Int128),
        }
    )
    assert counted(table) == 2
    with pytest.raises(ValueError, match="item: 'itme' is not a column of the table"):
        release_frame(table, {**SETTINGS, "item": "itme"})


@pytest.mark.parametrize("kind", OPAQUE, ids=str)
def test_extension_types_and_unions_are_refused(kind: pa.DataType) -> None:
    with pytest.raises(TypeError, match="privacy_id='p' must contain text, bytes or integers, got"):
        release_frame(pa.table({"p": opaque(kind), "item": ["x"] * 2}), SETTINGS)


def test_ids_that_are_addresses_would_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted fault takes an object's address for its value."""
    monkeypatch.setattr(frame_tables, "_NOT_IN_ARROW", ())
    monkeypatch.setattr(columns, "is_pointer_type", lambda kind: False)
    (case,) = [each for each in polars_cases() if each.name == "Polars Object"]
    assert re.fullmatch(r"Polars Object: [34] people of 2", str(wrong(case)))
