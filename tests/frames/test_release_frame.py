"""`release_frame`: what it refuses, what it warns of, what it spends, and that it needs no Beam."""

from __future__ import annotations

import copy
import datetime
import decimal
import io
import pickle
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import csv

from beam_dpsketch import (
    ArgumentError,
    AutoNorm,
    BudgetExceededError,
    ConfigError,
    InputWarning,
    IntegerDomain,
    KeySelection,
    NormBound,
    PrivacyBudget,
    PrivacyId,
    PrivacySpec,
    RecordBounds,
    SketchSpec,
    release_frame,
)
from beam_dpsketch.answers.flat import ReleasedCountSketch
from beam_dpsketch.answers.released_sketch import ReleasedSketch
from beam_dpsketch.config import read_release
from beam_dpsketch.exact.declared.release_spec import ReleaseSpec
from beam_dpsketch.planning.kinds.sketched import ItemFrequencies, Quantiles

PLANTED = "planted-4711"
PERSON = {"privacy_id": "person", "records": {"max_records": 1}}
TWO: dict[str, Any] = {"privacy_unit": {"privacy_id": "person", "records": {"max_records": 2}}}
SETTINGS: dict[str, Any] = {"kind": "frequencies", "item": "city", "privacy": {"rho": 1}, "privacy_unit": PERSON}
TABLE = pa.table({"person": list(range(200)), "city": ["Oslo"] * 150 + [PLANTED] * 50})


KEYED = {"privacy_id": "person", "records": {"max_records": 1, "max_keys": 1}}


def settings(**changes: Any) -> dict[str, Any]:
    found = {**SETTINGS, **changes}
    return (
        {**found, "privacy_unit": KEYED} if found["privacy_unit"] is PERSON and {"keys", "method"} & {*found} else found
    )


def test_beam_is_not_imported_nor_pandas_before_a_release() -> None:
    code = """
import sys
import pyarrow
import beam_dpsketch
print("pandas" in sys.modules)
table = pyarrow.table({"person": [1, 2], "city": ["a", "b"]})
unit = {"privacy_id": "person", "norm": "auto"}
settings = {"kind": "frequencies", "item": "city", "privacy": {"rho": 1}, "privacy_unit": unit}
beam_dpsketch.release_frame(table, settings)
print(sorted(name for name in sys.modules if name.startswith(("apache_beam", "polars"))))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n[]\n"


class OnlyToArrow:
    def to_arrow(self) -> pa.Table:
        return TABLE


class OnlyInterchange:
    def __dataframe__(self, nan_as_null: bool = False, allow_copy: bool = True) -> Any:
        return TABLE.__dataframe__(nan_as_null, allow_copy)


class OnlyStream:
    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return TABLE.__arrow_c_stream__(requested_schema)


@pytest.mark.parametrize("table", [OnlyToArrow(), OnlyInterchange(), OnlyStream(), TABLE.to_pandas()], ids=type)
def test_tables_of_other_libraries_are_read(table: Any) -> None:
    """The deviation of an estimate is below 2: 40 are 20 of these, and a false alarm has a probability below 1e-80."""
    released = release_frame(table, SETTINGS)
    assert isinstance(released, ReleasedCountSketch)
    assert abs(released.estimate("Oslo") - 150) < 40


class Planted:
    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        raise RuntimeError(PLANTED)


@pytest.mark.parametrize(
    ("table", "fix"),
    [
        ([{"person": 1, "city": PLANTED}], "got list. Convert it with pyarrow.table(columns)"),
        ({"person": [1], "city": [PLANTED]}, "got dict. Convert it with pyarrow.table(columns)"),
        (pd.Series([PLANTED]), "got Series"),
        (pa.array([PLANTED]), "Convert it with pyarrow.table(columns)"),
        (pa.chunked_array([[PLANTED]]), "got ChunkedArray"),
        (Planted(), "cannot be read as columns (RuntimeError)"),
        (PLANTED, "got str. Read it with pandas.read_csv, or use dpsketch run"),
        (Path("orders.csv"), "Read it with pandas.read_csv, or use dpsketch run"),
        (None, "got NoneType"),
    ],
    ids=["list", "dict", "series", "array", "chunks", "planted", "text", "path", "nothing"],
)
def test_what_is_not_a_table_is_refused(table: Any, fix: str) -> None:
    with pytest.raises(TypeError, match=r"^table must be a pandas or Polars DataFrame, a pyarrow Table") as caught:
        release_frame(table, SETTINGS)
    assert fix in str(caught.value)
    assert PLANTED not in str(caught.value)


def test_a_lazy_frame_is_refused_with_the_call_that_collects_it() -> None:
    polars = pytest.importorskip("polars")
    with pytest.raises(TypeError, match=r"lazy\.collect\(\) first"):
        release_frame(polars.from_arrow(TABLE).lazy(), SETTINGS)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"item": "citi"}, "item: 'citi' is not a column of the table. Did you mean 'city'?"),
        ({"item": "zip"}, "item: 'zip' is not a column of the table"),
        ({"weight": "n", "privacy_unit": {"record": {"max_weight": 3}}}, "weight: 'n' is not a column of the table"),
        ({"privacy_unit": {**PERSON, "privacy_id": "persn"}}, "privacy_unit.privacy_id: 'persn' is not a column"),
        ({"keys": {"public": ["a"], "field": "kez"}}, "keys.field: 'kez' is not a column of the table"),
        (
            {"windows": ["2024-01-01", "2024-01-02"]},
            "windows: requires a time column. Set time: {field: day, every: 1d}",
        ),
        (
            {"horizon": {"start": 0, "window_size": 60, "windows": 3}, "privacy_unit": "record"},
            "horizon: requires a time column. Set time: {field: day, every: 1d}",
        ),
        (
            {"privacy_unit": {**PERSON, "max_windows": 2}},
            "privacy_unit.max_windows: requires a time column. Set time: {field: day, every: 1d}",
        ),
        (
            {"privacy_unit": {"privacy_id": "person", "norm": {"max_norm": 2}, "period": "7d"}},
            "privacy_unit.period: requires a time column. Set time: {field: day, every: 1d}",
        ),
        ({"kind": "frequency"}, "kind: expected one of frequencies"),
        ({"privacy": {"epsilon": 1000}, **TWO}, "privacy.epsilon: must be at most"),
        (
            {"keys": {"select": {"delta": "1e-8", "method": "geometric"}, "field": "city"}},
            'keys.select.method: must not be "geometric" here. Only SelectKeys',
        ),
    ],
)
def test_settings_that_cannot_work_are_refused_with_their_path(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        release_frame(TABLE, settings(**changes))
    assert str(caught.value).startswith(message)


def test_a_callable_is_refused_because_columns_have_names() -> None:
    privacy_unit = PrivacyId(lambda row: row, NormBound(1))
    config = ReleaseSpec(ItemFrequencies(SketchSpec()), read_release(SETTINGS).privacy, privacy_unit, "city")
    with pytest.raises(ConfigError, match=r"^privacy_unit\.privacy_id: must be the name of a table column"):
        release_frame(TABLE, config)


@pytest.mark.parametrize(
    ("count", "bounds", "message"),
    [
        (ItemFrequencies(SketchSpec()), RecordBounds(1, max_keys=2), "max_keys is supported only with keys"),
        (Quantiles(IntegerDomain(0, 99)), AutoNorm(max_keys=2), "max_keys is supported only with KeySelection"),
    ],
)
def test_arguments_that_a_transform_refuses_are_refused(count: Any, bounds: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        release_frame(TABLE, ReleaseSpec(count, PrivacySpec(rho=1), PrivacyId("person", bounds), "person"))


@pytest.mark.parametrize("form", [lambda table: table, pa.Table.to_pandas, pa.Table.to_reader], ids=["a", "b", "c"])
def test_columns_that_cannot_be_counted_are_refused_without_rows_too(form: Any) -> None:
    for table in (TABLE, TABLE.slice(0, 0)):
        flags = table.set_column(1, "city", pa.array([True] * len(table), pa.bool_()))
        with pytest.raises(
            TypeError,
            match=r"item='city' must contain text, bytes or integers, got bool\. Convert the column to text, for",
        ):
            release_frame(form(flags), SETTINGS)
    twice = pa.table([TABLE["person"], TABLE["city"], TABLE["city"]], names=["person", "city", "city"])
    with pytest.raises(ValueError, match="item='city' is the name of 2 columns"):
        release_frame(twice, SETTINGS)


def test_what_arrow_says_of_a_value_is_not_repeated() -> None:
    rows = b"person,city\n" + b"1,Oslo\n" * 5000 + f"{PLANTED},Oslo\n".encode()
    types = csv.ConvertOptions(column_types={"person": pa.int64()})
    blocks = csv.ReadOptions(block_size=1000)
    with pytest.raises(ValueError, match="table: a part cannot be read") as caught:
        release_frame(csv.open_csv(io.BytesIO(rows), read_options=blocks, convert_options=types), SETTINGS)
    assert PLANTED not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


def test_each_call_is_another_release() -> None:
    first, second = release_frame(TABLE, SETTINGS), release_frame(TABLE, SETTINGS)
    assert (first.counters != second.counters).any()
    ids = [each.privacy.release_ids[0] for each in (first, second)]
    assert ids[0][:16] != ids[1][:16]


def test_keys_are_parts_of_one_run() -> None:
    keys = {"public": ["Oslo", "nowhere"], "field": "city"}
    released = release_frame(TABLE, settings(keys=keys))
    assert list(released) == ["Oslo", "nowhere"]
    assert len({each.privacy.release_ids[0][:16] for each in released.values()}) == 1
    assert len({each.privacy.release_ids[0][16:32] for each in released.values()}) == 2


def test_a_key_without_a_release_and_a_question_to_all_keys_are_refused_with_the_fix() -> None:
    released = release_frame(TABLE, settings(keys={"public": ["Oslo"], "field": "city"}))
    with pytest.raises(KeyError, match=r"list\(released\) contains those with a release") as caught:
        released[PLANTED]
    assert PLANTED not in str(caught.value)
    for name in ("mean", "save"):
        with pytest.raises(AttributeError, match=rf"has no '{name}'\. Select a release first: released\[key\]\.{name}"):
            getattr(released, name)
    assert released.get(PLANTED) is released.unreleased is None
    assert copy.deepcopy(released).keys() == pickle.loads(pickle.dumps(released)).keys() == {"Oslo"}


@pytest.mark.parametrize("table", [TABLE.slice(0, 0), TABLE.slice(0, 0).to_pandas()], ids=["arrow", "pandas"])
def test_an_empty_table_gives_what_must_exist_regardless_of_the_data(table: Any) -> None:
    assert isinstance(release_frame(table, SETTINGS), ReleasedSketch)
    assert list(release_frame(table, settings(keys={"public": ["a", "b"], "field": "city"}))) == ["a", "b"]
    assert release_frame(table, settings(keys={"assume_public": True, "field": "city"})) == {}
    assert release_frame(table, settings(keys={"select": {"delta": 1e-8}, "field": "city"})) == {}
    chosen = release_frame(table, settings(privacy_unit={"privacy_id": "person", "norm": "auto"}))
    assert isinstance(chosen, ReleasedSketch)
    groups = {"kind": "top_k", "k": 2, "method": {"threshold": {"delta": 1e-8}}}
    assert len(release_frame(table, settings(**groups, domain={"type": "text", "max_bytes": 8})).top_k(2)) == 0


def test_a_part_of_a_budget_pays_for_one_call() -> None:
    budget = PrivacyBudget(rho=1)
    config = ReleaseSpec(
        ItemFrequencies(SketchSpec(width=32)), budget.spend(rho=0.5), PrivacyId("person", NormBound(1)), item="city"
    )
    for wrong in (TABLE.rename_columns(["person", "town"]), [1]):
        with pytest.raises((ConfigError, TypeError)):
            release_frame(wrong, config)
    release_frame(TABLE, config)
    with pytest.raises(BudgetExceededError, match="paid for another release"):
        release_frame(TABLE, config)


def test_chosen_keys_take_their_delta_from_the_budget() -> None:
    budget = PrivacyBudget(rho=1, keys_delta=1e-8)
    config = ReleaseSpec(
        ItemFrequencies(SketchSpec(width=32)),
        budget.spend(rho=0.5),
        PrivacyId("person", NormBound(1, max_keys=1)),
        item="city",
        keys=KeySelection(1e-8, "city"),
    )
    release_frame(TABLE, config)
    assert budget.remaining.keys_delta == 0


@pytest.mark.parametrize("form", [lambda table: table, pa.Table.to_pandas], ids=["arrow", "pandas"])
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"kind": "quantiles", "domain": {"type": "timestamp", "start": 0, "end": 9}, "item": "nobody"},
            "item='nobody'",
        ),
        ({"privacy_unit": {"record": {"max_weight": 2}}, "weight": "nobody"}, "weight='nobody'"),
        ({"privacy_unit": {**PERSON, "privacy_id": "nobody"}}, "privacy_id='nobody'"),
        ({"privacy_unit": "record", "keys": {"public": ["x"], "field": "nobody"}}, "key='nobody'"),
    ],
)
def test_a_table_of_which_no_row_counts_is_refused(changes: dict[str, Any], words: str, form: Any) -> None:
    table = form(pa.table({"city": [PLANTED] * 20, "person": [1] * 20, "nobody": [None] * 20}))
    with pytest.raises(
        ArgumentError, match=f"{words} has no value in any row, so no row would count. Use another column"
    ):
        release_frame(table, settings(**changes))
    released = release_frame(table.head(0) if isinstance(table, pd.DataFrame) else table[:0], settings(**changes))
    assert released is not None, "an empty table has a release"


def test_rows_whose_key_is_not_listed_are_told() -> None:
    """They might have been, so the release is made."""
    table = pa.table({"city": [PLANTED] * 20})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", InputWarning)
        release_frame(table, settings(privacy_unit="record", keys={"public": ["x"], "field": "city"}))
    (found,) = [each for each in caught if each.category is InputWarning]
    assert str(found.message).startswith("key='city': all of the rows have an unlisted value")
    assert PLANTED not in str(found.message)
    assert found.filename == __file__


def test_decimals_of_pandas_with_fractions_are_refused_where_whole_numbers_are_read() -> None:
    """They are objects, and would be dropped one by one."""
    settings = {
        "kind": "statistics",
        "item": "price",
        "domain": {"type": "integer", "low": 0, "high": 9},
        "privacy_unit": "record",
        "privacy": {"rho": 1},
    }
    halves = pd.DataFrame({"price": [decimal.Decimal("1.5"), decimal.Decimal(2)] * 50})
    with pytest.raises(
        ArgumentError, match=r"about 50 % of the values cannot be read as whole .* look like 9\.9\. Round"
    ):
        release_frame(halves, settings)
    with pytest.warns(InputWarning, match="under 1 % of the values cannot be read as whole numbers"):
        release_frame(pd.DataFrame({"price": [decimal.Decimal("1.5")] + [decimal.Decimal(2)] * 999}), settings)


@pytest.mark.parametrize("convert", [pd.DataFrame, lambda rows: pa.Table.from_pylist(rows)], ids=["pandas", "arrow"])
def test_a_key_is_the_whole_tuple(convert: Any) -> None:
    """Joined texts do not collide, and records that lack a column of the key do not count. Sigmas are below 1."""
    day = datetime.date(2026, 11, 16)
    counted = [("a,b", "c", 1, day), ("a", "b,c", 1, day), ("a", "b", 1, day), ("a", "b", 2, day)]
    columns = ("first", "second", "number", "day")
    made = [*counted, (None, "c", 1, day), ("a", None, 1, day), ("a", "b", 1, None)]
    rows = [{"user": f"{n} {each}", **dict(zip(columns, each, strict=True))} for each in made for n in range(50)]
    unit = {"privacy_id": "user", "records": {"max_records": 1, "max_keys": 1}}
    settings = {"kind": "frequencies", "item": "number", "listed_items": [1, 2], "privacy": {"rho": 10}}
    keys = {"assume_public": True, "field": [*columns]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InputWarning)
        found = release_frame(convert(rows), {**settings, "privacy_unit": unit, "keys": keys})
    assert found.keys() == {(*key, "2026-11-16") for *key, _ in counted}
    assert all(abs(each.estimate([key[2]])[0] - 50) < 10 for key, each in found.items())
