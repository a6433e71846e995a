"""The same records count the same as rows and in every kind of batch, whatever is odd about one of their values."""

from __future__ import annotations

import datetime
import decimal
import io
import ipaddress
import uuid
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from beam_dpsketch import AssumePublicKeys, CountSketch, IntegerDomain, PrivacyId, PrivacySpec, Record, RecordBounds
from beam_dpsketch.exact.reading.columns import HASHED, WEIGHTS, batch_column
from beam_dpsketch.exact.reading.items import SketchInput
from beam_dpsketch.transforms import PrivateFrequencies, PrivateQuantiles, PrivateTopK
from tests.helpers.counted import DAY, RECIPES, counted
from tests.helpers.pipelines import SPEC, ExactCounters, exact_sums, seen_by_sink

PRIVACY = PrivacySpec(rho=0.1)


class Visit(NamedTuple):
    user: str | None
    key: str
    page: str | None
    size: int | None
    n: int | None


class Frame(pd.DataFrame):
    """A subclass, such as the GeoDataFrame of geopandas."""


def visits(key: str) -> list[Visit]:
    """Twelve records, all under this key; each column but the key lacks one value."""
    values = [("ann", "a page", 3, 1), ("bob", "tü", 7, 2), ("cem", "a page", 3, 3), ("", "", 0, 1)] * 3
    rows = [Visit(user, key, page, size, n) for user, page, size, n in values]
    rows[4], rows[5] = rows[4]._replace(user=None), rows[5]._replace(page=None)
    rows[6], rows[7] = rows[6]._replace(size=None), rows[7]._replace(n=None)
    return rows


def a_table(rows: list[Visit]) -> pa.Table:
    return pa.Table.from_pylist([row._asdict() for row in rows])


def frame(rows: list[Visit]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=list(Visit._fields))


def object_frame(rows: list[Visit]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=list(Visit._fields), dtype=object)


def parquet(rows: list[Visit]) -> io.BytesIO:
    """A file of three row groups."""
    file = io.BytesIO()
    pq.write_table(a_table(rows), file, row_group_size=5)
    return file


def concatenated(frames: Callable[[list[Visit]], pd.DataFrame]) -> Callable[[list[Visit]], list[Any]]:
    return lambda rows: [pd.concat([frames(rows[:5]), frames(rows[5:6]), frames(rows[6:])])]


def cast(rows: list[Visit], kind: pa.DataType) -> pa.Table:
    """A table with text of this type."""
    read = a_table(rows)
    return read.cast(pa.schema([(of.name, kind if of.type == pa.string() else of.type) for of in read.schema]))


def encoded(chunks: list[pa.Table]) -> pa.Table:
    """A table of chunks with a dictionary each."""
    names = chunks[0].column_names
    return pa.concat_tables(pa.table([part[name].dictionary_encode() for name in names], names) for part in chunks)


FORMS: dict[str, Callable[[list[Visit]], Iterable[Any]]] = {
    "rows": lambda rows: [beam.Row(**row._asdict()) for row in rows],
    "named tuples": lambda rows: rows,
    "dicts": lambda rows: [row._asdict() for row in rows],
    "frame": lambda rows: [frame(rows)],
    "frame of objects": lambda rows: [object_frame(rows)],
    "frames": lambda rows: [frame(rows[:7]), frame(rows[7:])],
    "frame of categories": lambda rows: [frame(rows).astype("category")],
    "frame of Arrow": lambda rows: [frame(rows).convert_dtypes(dtype_backend="pyarrow")],
    "frame of nullables": lambda rows: [frame(rows).convert_dtypes(dtype_backend="numpy_nullable")],
    "frame of a subclass": lambda rows: [Frame(frame(rows))],
    "concatenated frames": concatenated(frame),
    "concatenated frames of Arrow": concatenated(lambda rows: frame(rows).convert_dtypes(dtype_backend="pyarrow")),
    "concatenated frames of objects": concatenated(object_frame),
    "file as frame": lambda rows: [pd.read_parquet(parquet(rows))],
    "file as frame of Arrow": lambda rows: [pd.read_parquet(parquet(rows), dtype_backend="pyarrow")],
    "file as table": lambda rows: [pq.read_table(parquet(rows))],
    "file as record batches": lambda rows: pq.ParquetFile(parquet(rows)).iter_batches(),
    "table": lambda rows: [a_table(rows)],
    "table of large text": lambda rows: [cast(rows, pa.large_string())],
    "table in chunks": lambda rows: [pa.concat_tables([a_table(rows[:5]), a_table(rows[5:])])],
    "table of dictionaries": lambda rows: [encoded([a_table(rows)])],
    "table of dictionaries in chunks": lambda rows: [
        encoded([a_table(rows[:4]), a_table(rows[4:8]), a_table(rows[8:])])
    ],
    "slice": lambda rows: [a_table([rows[0], *rows, rows[0]]).slice(1, len(rows))],
    "record batch": lambda rows: a_table(rows).to_batches(),
    "runs": lambda rows: [a_table(rows).set_column(2, "page", pc.run_end_encode(a_table(rows)["page"]))],
}


def every_form(_: int) -> Iterable[Any]:
    """The records of each form, under its name as the key."""
    for name, make in FORMS.items():
        yield from make(visits(name))


KINDS: dict[str, Callable[..., Any]] = {
    "frequencies": lambda **rest: PrivateFrequencies(SPEC, PRIVACY, item="page", weight="n", **rest),
    "frequencies of numbers": lambda **rest: PrivateFrequencies(SPEC, PRIVACY, item="size", **rest),
    "quantiles": lambda **rest: PrivateQuantiles(IntegerDomain(1, 7), PRIVACY, item="size", weight="n", **rest),
    "top": lambda **rest: PrivateTopK(IntegerDomain(1, 7), PRIVACY, k=1, item="size", **rest),
}
UNITS = {"record": Record(max_weight=2), "id": PrivacyId("user", RecordBounds(12, max_keys=len(FORMS), max_weight=2))}


class _Vectors(ExactCounters):
    """(key, all exact counters), with the name of the branch."""

    def expand(self, pcoll: beam.PCollection) -> beam.PCollection:
        branch = self.label
        sums = exact_sums(pcoll, self._private)
        return sums | beam.MapTuple(lambda key, found: ((branch, key), found.to_sketch().to_vector().tolist()))


@pytest.mark.one_fast_case
@pytest.mark.pipeline
@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("kind", KINDS)
def test_records_count_the_same_in_every_form_fused_and_moved(kind: str, unit: str) -> None:
    private = KINDS[kind](privacy_unit=UNITS[unit], keys=AssumePublicKeys("key"))

    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        made = pipeline | beam.Create([0])
        fused = made | "Make" >> beam.FlatMap(every_form) | "Fused" >> _Vectors(private)
        moved = made | "Make too" >> beam.FlatMap(every_form) | beam.Reshuffle() | "Moved" >> _Vectors(private)
        return (fused, moved) | beam.Flatten()

    found = seen_by_sink(build)
    counters = dict(found)
    assert len(counters) == len(found) == 2 * len(FORMS)
    expected = counters["Fused", "rows"]
    assert any(expected)
    assert [place for place, each in counters.items() if each != expected] == []


class Text(str):
    """Text that cannot be encoded by its own means."""

    def encode(self, *_: Any) -> bytes:
        raise RuntimeError("secret")


class Odd:
    """Reading anything of it fails."""

    @property
    def micros(self) -> int:
        raise RuntimeError("secret")


class Zone(datetime.tzinfo):
    """A time zone that does not know."""

    def utcoffset(self, _: Any) -> None:
        return None


class LostZone(datetime.tzinfo):
    """A time zone that fails."""

    def utcoffset(self, _: Any) -> Any:
        raise RuntimeError("secret")


ODD: list[Any] = [
    *("a", "", "a\ud800b", "10.0.0.1", np.str_("a"), Text("a"), b"a", b"", np.bytes_(b"a"), bytearray(b"a")),
    *(1, 0, -1, 1 << 53, (1 << 63) - 1, 1 << 63, (1 << 64) - 1, 1 << 64, -(1 << 63), -(1 << 63) - 1, 10**400),
    *(np.int8(1), np.uint64(1 << 63), True, np.True_, decimal.Decimal(1), decimal.Decimal("sNaN"), Fraction(1, 2), 1j),
    *(1.0, 2.5, -0.0, 1e300, float("nan"), float("inf"), np.float32(1), np.float16(0.5), np.longdouble("1e4000")),
    *(None, pd.NA, pd.NaT, np.datetime64("NaT"), np.timedelta64(1, "D"), datetime.timedelta(1)),
    *(DAY, datetime.date(2024, 1, 1), DAY.replace(tzinfo=Zone()), DAY.replace(tzinfo=LostZone())),
    *(np.datetime64("2024-01-01T05", "ns"), np.datetime64(2**62, "Y"), pd.Timestamp("2024-01-01T06", tz="US/Eastern")),
    *(decimal.Decimal(number) for number in ("1.00", "0.5", "1e50", "-1e50", "1e500", "inf", "-0", "nan", "9" * 40)),
    *("2024-01-01", "2024-01-01T05:00:00.5", "2024-01-01T05:00+02:00", "2024-02-30", "0001-01-01T00:00+05:00"),
    *(uuid.UUID(int=1), ipaddress.IPv4Address(1), ("a", 1), (1.5,), (), [1], {"a": 1}, {1}, object(), Odd(), ...),
]
GOOD = {"user": "u", "key": "k", "item": "a", "n": 1}


@given(
    st.lists(st.sampled_from(range(len(ODD))), min_size=1, max_size=5),
    st.sampled_from(["item", "n", "user", "key"]),
    st.sampled_from(RECIPES),
)
@example(list(range(len(ODD))), "item", RECIPES[0])
@example(list(range(len(ODD))), "user", RECIPES[0])
@example(list(range(len(ODD))), "key", RECIPES[0])
@example(list(range(len(ODD))), "n", RECIPES[0])
def test_odd_values_in_columns_count_as_in_rows(places: list[int], name: str, recipe: SketchInput) -> None:
    rows = [{**GOOD, name: ODD[place]} for place in places]
    made = pd.DataFrame(
        {batch_column: pd.Series([row[batch_column] for row in rows], dtype=object) for batch_column in GOOD}
    )
    key = "key" if name == "key" else None
    assert counted([made], recipe, key=key) == counted(rows, recipe, key=key)


@pytest.mark.one_fast_case
@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: str(getattr(recipe.spec, "domain", "flat"))[:40])
def test_every_odd_value_alone_counts_as_in_a_row(recipe: SketchInput) -> None:
    for value in ODD:
        made = pd.DataFrame({**{name: [each] for name, each in GOOD.items()}, "item": pd.Series([value], dtype=object)})
        assert counted([made], recipe) == counted([{**GOOD, "item": value}], recipe)


DAYS = [datetime.date(2024, 1, 1), None, datetime.date(2024, 1, 2), datetime.date(2024, 1, 1)]
IDS = [uuid.UUID(int=1), uuid.UUID(int=2**127 + 5), None, uuid.UUID(int=1)]
AMOUNTS = [decimal.Decimal("1.00"), decimal.Decimal(7), None, decimal.Decimal(1)]
UUIDS = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([each and each.bytes for each in IDS], pa.binary(16)))
STANDS_FOR: dict[str, tuple[list[Any], list[Any], list[Any]]] = {
    "dates": (DAYS, ["2024-01-01", None, "2024-01-02", "2024-01-01"], [pa.array(DAYS), pa.array(DAYS, pa.date64())]),
    "UUIDs": (IDS, [each and str(each) for each in IDS], [UUIDS]),
    "decimals": (AMOUNTS, [1, 7, None, 1], [pa.array(AMOUNTS, pa.decimal128(9, 0)), pa.array([1.0, 7.0, None, 1.0])]),
}


@pytest.mark.parametrize("name", STANDS_FOR)
def test_what_stands_for_text_or_integers_counts_as_such_in_every_form(name: str) -> None:
    """A column of floats of pandas too: it makes integers floats where one is missing."""
    values, plain, arrays = STANDS_FOR[name]
    for role, recipe in [*[("item", each) for each in RECIPES], *[(each, RECIPES[0]) for each in ("user", "key", "n")]]:
        if role == "n" and name != "decimals":
            continue
        key = "key" if role == "key" else None
        expected = counted([{**GOOD, role: value} for value in plain], recipe, key=key)
        assert counted([{**GOOD, role: value} for value in values], recipe, key=key) == expected
        others = {of: [value] * len(values) for of, value in GOOD.items() if of != role}
        frames: list[Any] = [pd.DataFrame({**others, role: pd.Series(values, dtype=object)})]
        for array in arrays:
            if pa.types.is_floating(array.type):
                frames.append(pd.DataFrame({**others, role: array.to_pandas()}))
            else:
                frames += [
                    pa.table({**others, role: each}) for each in (array, pa.chunked_array([array[:1], array[1:]]))
                ]
        for made in frames:
            if any(map(any, expected.values())):
                assert counted([made], recipe, key=key) == expected, type(made)


@pytest.mark.pipeline
def test_one_odd_value_in_a_column_costs_at_most_its_own_record() -> None:
    """End to end; each odd value is in a batch of its own, among good ones."""
    good = [{"user": number, "page": "good", "n": 1} for number in range(20)]
    odd = ["a\ud800b", b"good", Odd(), np.timedelta64(1, "D"), decimal.Decimal("1.5"), [1], None]

    def make(_: int) -> Iterable[pd.DataFrame]:
        for value in odd:
            for name in ("user", "page", "n"):
                rows = [*good, {"user": f"{name} {value!a}", "page": "other", "n": 1, name: value}]
                yield pd.DataFrame({of: pd.Series([row[of] for row in rows], dtype=object) for of in good[0]})

    counters = dict(seen_by_sink(lambda p: p | beam.Create([0]) | beam.FlatMap(make) | _EachWay()))
    good_alone = CountSketch(SPEC).accumulate(["good"], [len(odd) * 3 * 20])
    by_text = CountSketch(SPEC).accumulate(["a\ud800b", b"good"], [1, 1]).merge(good_alone)
    np.testing.assert_array_equal(counters["record"], by_text.accumulate(["other"], [len(odd)]).counters)
    np.testing.assert_array_equal(
        counters["id"], CountSketch(SPEC).accumulate(["good", "a\ud800b", b"good", "other"], [20, 1, 1, 2]).counters
    )


class _EachWay(beam.PTransform):
    """The exact counters of frequencies with and without a privacy id."""

    def expand(self, pcoll: beam.PCollection) -> beam.PCollection:
        ways = {"record": Record(max_weight=1), "id": PrivacyId("user", RecordBounds(1, max_weight=1))}
        return [
            pcoll
            | way >> ExactCounters(PrivateFrequencies(SPEC, PRIVACY, item="page", weight="n", privacy_unit=unit))
            | f"name {way}" >> beam.Map(lambda counters, way=way: (way, counters))
            for way, unit in ways.items()
        ] | beam.Flatten()


def test_integers_that_pandas_made_floats_are_read_as_integers() -> None:
    large = float(1 << 53)
    made = pd.DataFrame({"number": [1, None, -2, large - 1, large, -large, 2.5, np.inf, -np.inf]})
    assert made["number"].dtype == np.float64
    expected = [1, None, -2, (1 << 53) - 1, None, None, None, None, None]
    for name in ("item", "key", "privacy_id"):
        assert batch_column(made, name, "number", HASHED).to_pylist() == expected
        assert batch_column(made.astype("category"), name, "number", HASHED).to_pylist() == expected
    assert batch_column(made, "weight", "number", WEIGHTS).type == pa.float64()
    assert batch_column(made, "item", "number", RECIPES[3].readables["item"]).type == pa.float64()
    for declared in (pa.table({"number": [1.0]}), made.astype("float32"), made.astype("float64[pyarrow]")):
        with pytest.raises(
            TypeError, match=r"item='number' must contain text, bytes or integers, got .*\. Round the column"
        ):
            batch_column(declared, "item", "number", HASHED)


def test_columns_named_twice_or_unknown_to_arrow_are_errors() -> None:
    twice = pd.DataFrame([[1, 2]], columns=["a", "a"])
    for batch in (twice, pa.Table.from_arrays([pa.array([1])] * 2, names=["a", "a"])):
        with pytest.raises(ValueError, match="item='a' is the name of 2 columns of the batch"):
            batch_column(batch, "item", "a", HASHED)
    with pytest.raises(TypeError, match="item='a' has the type complex128, which Arrow does not support"):
        batch_column(pd.DataFrame({"a": [1j]}), "item", "a", HASHED)
