"""Records in any form on disk have one release: one file, many files, folders, patterns, compressed text."""

from __future__ import annotations

import base64
import gzip
import shlex
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as pe
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from beam_dpsketch.config import read_release
from beam_dpsketch.errors import ArgumentError, UsageError
from beam_dpsketch.frames.releasing import release_table
from beam_dpsketch.frames.steps.files import open_files
from beam_dpsketch.privacy.noise.keyed_randomness import KeyedRandomness
from tests.cli.consoles import run

DAYS = ["2024-01-01", "2024-01-02", "2024-01-03"]
CITIES = ["Oslo", "Ürümqi", 'the "big" one', "a, b", "two\nlines", "tab\tbed"]
TABLE = pa.table(
    {
        "person": [f"p{n % 70}" for n in range(240)],
        "city": [CITIES[n * n % 6] for n in range(240)],
        "day": [DAYS[n // 80] for n in range(240)],
        "hour": [f"{n // 10:02d}" for n in range(240)],
    }
)
UNIT = {"privacy_id": "person", "norm": {"max_norm": 3}}
CITY = {"kind": "frequencies", "item": "city", "privacy": {"rho": 1}, "privacy_unit": UNIT}
BY_DAY = CITY | {"windows": ["2024-01-01", "2024-01-04"], "time": {"field": "day", "every": "1d"}}
KEYED = CITY | {"keys": {"public": DAYS, "field": "day"}}
HOURS = CITY | {"kind": "quantiles", "item": "hour", "domain": {"type": "integer", "low": 0, "high": 23}}
TEXT = [f".{kind}{packed}" for kind in ("csv", "tsv") for packed in ("", ".gz", ".zst")]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(path: str, table: pa.Table = TABLE) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    if path.endswith(".parquet"):
        return pq.write_table(table, path)
    options = pa.csv.WriteOptions(delimiter="\t" if ".tsv" in path else ",")
    with pa.output_stream(path) as file:  # compresses by the ending
        pa.csv.write_csv(table, file, options)
    return None


def released(names: list[str], given: dict[str, Any]) -> Any:
    """The bytes of a release under a secret, whose noise is a function of all exact counters."""
    declared = read_release(given)
    table = open_files(names, declared, lambda _: None, pytest.fail).table
    found = release_table(table, declared, KeyedRandomness(bytes(range(32)), b"forms"))[0]
    return {key: each.to_bytes() for key, each in found.items()} if isinstance(found, dict) else found.to_bytes()


@settings(
    max_examples=5, deadline=None, phases=[Phase.generate], suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    cuts=st.lists(st.integers(0, 80), max_size=2).map(sorted),
    endings=st.lists(st.sampled_from(TEXT), min_size=9, max_size=9) | st.just([".parquet"] * 9),
    keeps=st.sampled_from([["day", "hour"], ["hour"]]),
    names=st.sampled_from([["in"], ["./in//day=*/"], ["in/day=*/*"], [f"in/day={day}" for day in DAYS]]),
)
@pytest.mark.parametrize("given", [CITY, BY_DAY, KEYED], ids=["city", "windows", "keys"])
def test_all_forms_have_the_exact_counters_of_one_file(
    given: dict[str, Any], cuts: list[int], endings: list[str], keeps: list[str], names: list[str]
) -> None:
    shutil.rmtree("in", ignore_errors=True)
    write("one.csv")
    parts = iter(endings)
    for number, day in enumerate(DAYS):
        for start, end in zip([0, *cuts], [*cuts, 80], strict=True):
            part = TABLE.slice(80 * number + start, end - start).select(["person", "city", *keeps])
            write(f"in/day={day}/part-{start:02d}-{end:02d}{next(parts)}", part)
        Path(f"in/day={day}/_SUCCESS").touch()
        Path(f"in/day={day}/_latest").symlink_to("moved.csv")
        Path(f"in/day={day}/.part.crc").write_bytes(b"x")
        write(f"in/day={day}/_temporary/0/part{endings[0]}", TABLE)
        Path(f"in/day={day}/part-99{endings[0].removesuffix('.gz').removesuffix('.zst')}").touch()
    assert released(names, given) == released(["one.csv"], given)


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_settings_define_the_meaning_of_folder_names(ending: str) -> None:
    """Numbers with leading zeros are numbers in a domain of numbers, and text among the items of a sketch."""
    for number in range(24):
        write(f"in/hour={number:02d}/part-0{ending}", TABLE.slice(10 * number, 10).drop_columns("hour"))
    write("one.csv")
    listed = CITY | {"keys": {"public": list(range(24)), "field": "hour"}}
    for each in (HOURS, CITY | {"item": "hour"}, listed):
        assert released(["in"], each) == released(["one.csv"], each)


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_a_release_of_folder_names_alone_counts_every_row(ending: str) -> None:
    for day in DAYS:
        write(f"in/day={day}/part-0{ending}", TABLE.slice(0, 80).select(["person"]))
    write("in/day=__HIVE_DEFAULT_PARTITION__/part-0" + ending, TABLE.slice(0, 9).select(["person"]))
    write("one.csv")
    days = CITY | {"item": "day", "privacy_unit": "record"}
    assert released(["in"], days) == released(["one.csv"], days)


@pytest.mark.parametrize("ending", [".csv", ".csv.gz", ".tsv.zst"])
def test_all_forms_have_the_same_errors(ending: str) -> None:
    """Text that is no number is refused by its share in all files."""
    hours = pa.array(["x" if n % 9 == 0 else "7" for n in range(240)])
    table = TABLE.set_column(3, "hour", hours)
    write("one.csv", table)
    for number, day in enumerate(DAYS):
        write(f"in/day={day}/part-0{ending}", table.slice(80 * number, 80).drop_columns("day"))
    found = []
    for name in ("one.csv", "in"):
        with pytest.raises(ArgumentError) as caught:
            released([name], HOURS | {key: BY_DAY[key] for key in ("windows", "time")})
        found.append(str(caught.value))
    assert found[0] == found[1]
    assert "of the values cannot be read as whole numbers" in found[0]


@pytest.mark.parametrize("kind", [pa.string(), pa.date32(), pa.timestamp("us"), pa.dictionary(pa.int8(), pa.string())])
@pytest.mark.parametrize("other", [None, "2024-01-02", "another"])
def test_a_column_that_differs_from_its_folder_name_is_refused(kind: pa.DataType, other: str | None) -> None:
    """It may have another type, but no other value."""
    day = pa.array(["2024-01-01"] * 80).cast(pa.string()).cast(kind)
    table = TABLE.slice(0, 80).set_column(2, "day", day)
    write("in/day=2024-01-01/part-0.parquet", table)
    assert len([*open_files(["in"], read_release(BY_DAY), len, pytest.fail).table.parts]) == 1
    write(f"in/day={other or '__HIVE_DEFAULT_PARTITION__'}/part-0.parquet", table)
    with pytest.raises(UsageError, match=r"day=.*/part-0\.parquet: the column 'day' differs from the folder name"):
        [*open_files(["in"], read_release(BY_DAY), len, pytest.fail).table.parts]


def test_a_parquet_file_may_have_no_rows() -> None:
    write("in/day=2024-01-01/part-0.parquet", TABLE.slice(0, 0))
    write("in/day=2024-01-01/part-1.parquet", TABLE.slice(0, 9))
    parts = open_files(["in"], read_release(BY_DAY), len, pytest.fail).table.parts
    assert sum(map(len, parts)) == 9


NAMES = [*CITIES, "", None, "\u00e9", "e\u0301"]
MANY = pa.table(
    {
        "person": [f"p{n % 70}" if n % 11 else None for n in range(20_000)],
        "city": [NAMES[n * n % 10] for n in range(20_000)],
        "day": [DAYS[n * n % 3] for n in range(20_000)],
    }
)


@pytest.mark.parametrize(
    "given",
    [
        CITY,
        CITY | {"privacy_unit": "record"},
        CITY | {"privacy_unit": {"privacy_id": "person", "records": {"max_records": 2}}},
        BY_DAY,
        KEYED,
        KEYED | {"keys": {"public": [[DAYS[0], "Oslo"], [DAYS[1], ""]], "field": ["day", "city"]}},
    ],
    ids=["norm", "record", "records", "windows", "keys", "pairs"],
)
@pytest.mark.parametrize(
    "kind",
    [pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(), pa.binary_view()],
    ids=str,
)
def test_columns_read_as_dictionaries_have_the_exact_counters_of_plain_ones(
    given: dict[str, Any], kind: pa.DataType
) -> None:
    """With nulls, an empty file, parts of other types, and row groups with different dictionaries."""
    is_text = kind in (pa.string(), pa.large_string(), pa.string_view())
    fields = [pa.field(name, kind if is_text or name == "city" else pa.string()) for name in MANY.column_names]
    if not is_text and isinstance(given.get("keys", {}).get("field"), list):
        given = given | {"keys": given["keys"] | {"public": [[DAYS[0], {"hex": "4f736c6f"}], [DAYS[1], {"hex": ""}]]}}
    table = pa.table([MANY[field.name].cast(field.type) for field in fields], pa.schema(fields))
    for name, options in (("coded", {}), ("plain", {"use_dictionary": False})):
        Path(name).mkdir()
        for number, part in enumerate((table, table.slice(0, 0), table.slice(9), table.slice(7, 5))):
            pq.write_table(part, f"{name}/{number}.parquet", row_group_size=7000, store_schema=number != 2, **options)
    assert "city" in repetitive(["coded"], given)
    assert not repetitive(["plain"], given)
    assert released(["coded"], given) == released(["plain"], given)


def repetitive(names: list[str], given: dict[str, Any]) -> set[str]:
    """The columns of the first part that are dictionaries."""
    part = next(iter(open_files(names, read_release(given), lambda _: None, pytest.fail).table.parts))
    return {field.name for field in part.schema if pa.types.is_dictionary(field.type)}


@pytest.mark.parametrize(
    ("values", "options"),
    [
        ([f"{n:05d}" for n in range(20_000)], {}),
        ([f"{n:05d}" for n in range(20_000)], {"dictionary_pagesize_limit": 1000}),
        ([f"{n:05d}" for n in range(20_000)], {"use_dictionary": False, "column_encoding": "DELTA_BYTE_ARRAY"}),
        ([f"{n:036d}" if n % 20 == 0 else None for n in range(20_000)], {}),
        ([None] * 20_000, {}),
        (["x"] * 20_000, {"row_group_size": 100}),
        (["x"] * 20_000, {"write_statistics": False}),
        (["x"] * 9, {}),
        ([], {}),
    ],
    ids=["distinct", "too long", "delta", "few distinct", "nulls", "much metadata", "no statistics", "few", "none"],
)
def test_columns_that_are_no_faster_as_dictionaries_are_read_plain(values: list[Any], options: dict[str, Any]) -> None:
    pq.write_table(pa.table({"city": pa.array(values, pa.string())}), "x.parquet", **options)
    opened = open_files(["x.parquet"], read_release(CITY | {"privacy_unit": "record"}), lambda _: None, pytest.fail)
    assert all(part.schema.field("city").type == pa.string() for part in opened.table.parts)


class _Keys(pe.KmsClient):  # type: ignore[misc]
    """Keys that anyone can read."""

    def wrap_key(self, key_bytes: bytes, master_key_identifier: str) -> bytes:
        return base64.b64encode(key_bytes)


@pytest.mark.parametrize("column", ["city", "day"])
def test_encrypted_columns_are_refused_and_others_are_read(column: str) -> None:
    """The metadata is plain, with a signature."""
    keys = pe.EncryptionConfiguration(footer_key="f", column_keys={"c": [column]}, plaintext_footer=True)
    factory = pe.CryptoFactory(lambda _: _Keys())
    properties = factory.file_encryption_properties(pe.KmsConnectionConfig(), keys)
    pq.write_table(MANY, "x.parquet", encryption_properties=properties)
    if column == "day":
        pq.write_table(MANY, "plain.parquet")
        assert released(["x.parquet"], CITY) == released(["plain.parquet"], CITY)
        return
    with pytest.raises(UsageError, match="a part of the file cannot be read"):
        released(["x.parquet"], CITY)


def test_a_damaged_column_name_is_refused() -> None:
    pq.write_table(MANY, "x.parquet", store_schema=False)
    Path("x.parquet").write_bytes(Path("x.parquet").read_bytes().replace(b"person", b"perso\xf0"))
    with pytest.raises(UsageError, match="is not Parquet, or is damaged"):
        open_files(["x.parquet"], read_release(CITY), lambda _: None, pytest.fail)


@pytest.mark.parametrize(
    ("field", "value", "given"),
    [("city", b"\xff", CITY), ("day", b"2024-02-30", BY_DAY), ("person", b"\xff", KEYED), ("city", b"7", HOURS)],
)
def test_columns_read_as_dictionaries_have_the_errors_of_plain_ones(
    field: str, value: bytes, given: dict[str, Any]
) -> None:
    """Many unreadable values are refused, and few are noted, in the same words."""
    column = pa.array(
        [value if n % 9 == 0 else each for n, each in enumerate(MANY[field].cast(pa.binary()).to_pylist())]
    )
    table = MANY.set_column(MANY.column_names.index(field), field, column.view(pa.string()))
    pq.write_table(table, "coded.parquet")
    pq.write_table(table, "plain.parquet", use_dictionary=False)
    given = given if given is not HOURS else given | {"item": "city"}
    assert field in repetitive(["coded.parquet"], given)
    found = []
    for name in ("coded.parquet", "plain.parquet"):
        with pytest.raises(ArgumentError) as caught:
            released([name], given)
        found.append(str(caught.value))
    assert found[0] == found[1]
    dropped = given | {"unreadable": "drop"}
    if given["item"] == "city" and given["kind"] == "frequencies":
        assert released(["coded.parquet"], dropped) == released(["plain.parquet"], dropped)


def test_a_path_has_one_value_for_each_column() -> None:
    """A second value would be ignored, and an empty one is missing, as in CSV."""
    write("in/day=2024-01-01/day=2024-01-02/part-0.csv", TABLE.slice(0, 9).drop_columns("day"))
    with pytest.raises(UsageError, match="has the column 'day' in several folder names"):
        open_files(["in"], read_release(BY_DAY), len, pytest.fail)
    write("empty/day=/part-0.csv", TABLE.slice(0, 9).drop_columns("day"))
    (part,) = open_files(["empty"], read_release(BY_DAY), len, pytest.fail).table.parts
    assert part["day"].null_count == 9


OPTIONS = shlex.split("--kind frequencies --item city --rho 1 --privacy-id person --max-norm 3 --output out.dpsketch")


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ("nothing/*", "no file matches nothing/*"),
        ("skipped", "no file with content is in skipped"),
        ("skipped/*", "no file with content is in skipped/*"),
        ("empty", "no file is in the folder empty"),
        ("in/**/*.csv", "in/**/*.csv: a pattern must not contain **. Pass the folder"),
        ("in in/part-0.csv", "are the same file, and its records would count twice"),
        ("mixed", "mixed/x.parquet: all files must end with .parquet, or all with .csv or .tsv"),
        ("cut.csv.gz", "cut.csv.gz: a part of the file cannot be read. The file may be damaged"),
        ("cut.csv.zst", "cut.csv.zst: a part of the file cannot be read. The file may be damaged"),
        ("text.csv.gz", "text.csv.gz: a part of the file cannot be read. The file may be damaged"),
        ("packed.csv", "packed.csv: the file must be CSV, got compressed by gzip (end its name with .gz)"),
        ("commas.tsv", "This line has no tab, but a comma. Write the file with tabs between columns"),
        ("twice.parquet", "twice.parquet: has the column 'city' twice"),
        ("partly", "partly/part-1.parquet: has no column 'city', unlike partly/city=Oslo/part-0.parquet"),
        ("links", "links/day=1/part-1.csv: is a link to a missing file. Restore the file, or remove the link"),
    ],
)
def test_mistakes_are_one_line_and_nothing_is_spent(files: str, words: str) -> None:
    for name in ("in/part-0.csv", "mixed/x.parquet", "mixed/a.csv", "cut.csv.gz", "cut.csv.zst", "text.csv"):
        write(name)
    Path("skipped").mkdir()
    Path("empty").mkdir()
    for name in ("skipped/_SUCCESS", "skipped/part-0.csv"):
        Path(name).touch()
    Path("skipped/part-1.csv.gz").write_bytes(gzip.compress(b""))
    for name in ("cut.csv.gz", "cut.csv.zst"):
        Path(name).write_bytes(Path(name).read_bytes()[:-9])
    shutil.copy("text.csv", "text.csv.gz")
    Path("commas.tsv").write_text("person,city\n")
    Path("packed.csv").write_bytes(gzip.compress(b"person,city\n"))
    pq.write_table(pa.Table.from_arrays([TABLE["city"]] * 2, names=["city"] * 2), "twice.parquet")
    write("partly/city=Oslo/part-0.parquet", TABLE.select(["person"]))
    write("partly/part-1.parquet", TABLE.select(["person"]))
    write("links/day=1/part-0.csv")
    Path("links/day=1/part-1.csv").symlink_to("moved.csv")
    code, printed = run("run", *files.split(), *OPTIONS)
    assert (code, words in printed) == (2, True), printed
    assert not Path("out.dpsketch").exists()


def test_a_folder_is_checked_rehearsed_and_released() -> None:
    for number, day in enumerate(DAYS):
        write(f"in/day={day}/part-0.csv.gz", TABLE.slice(80 * number, 80).drop_columns("day"))
    Path("s.yaml").write_text("{kind: frequencies, item: day, privacy: {rho: 1}, privacy_unit: record}")
    assert run("check", "s.yaml", "--against", "in")[0] == 0
    code, printed = run("rehearse", "in", "--config", "s.yaml")
    assert (code, all(day in printed for day in DAYS)) == (0, True), printed
    assert run("run", "in", "--config", "s.yaml", "--output", "out.dpsketch")[0] == 0
    assert "2024-01-02" in run("query", "out.dpsketch", "--estimate", "2024-01-02")[1]
