"""`dpsketch run`: releases of files, and what it refuses before it reads a record."""

from __future__ import annotations

import datetime
import gzip
import json
import math
import os
import shlex
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from beam_dpsketch import read_releases, release_frame
from beam_dpsketch.answers.released_sketch import ReleasedSketch
from beam_dpsketch.cli import reading
from beam_dpsketch.cli import releasing as command
from beam_dpsketch.config import ConfigError, read_release
from beam_dpsketch.exact.domains.spelling import FLOAT, INTEGER, TIME, Spelling
from beam_dpsketch.frames.steps.csv_files import declared_schema
from beam_dpsketch.frames.steps.files import Position, open_files
from tests.cli.consoles import run

OPTIONS = shlex.split("--kind quantiles --item delay --domain '{type: integer, low: -5, high: 9}' --rho 5")
OPTIONS += ["--privacy-id", "person", "--max-records", "2", "--output", "out.dpsketch"]
SECRET = "Zanzibar"
SURE = 60
"""12 deviations of a summary count and more: sigma is at most 5. A false alarm has a probability below 1e-30."""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(name: str, **columns: Any) -> None:
    table = pa.table({"person": [f"p{n}" for n in range(200)], "delay": [n % 10 for n in range(200)], **columns})
    (pa.csv.write_csv if name.endswith(".csv") else pq.write_table)(table, name)


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_files_are_released_once_and_never_overwritten(ending: str) -> None:
    for n in range(2):
        write(f"visits{n}.{ending}", person=[f"{n}p{i}" for i in range(200)])
    code, printed = run("run", f"visits*.{ending}", *OPTIONS)
    assert code == 0
    assert "\n  protects      all records of any one privacy id (column person)\n" in printed
    assert "spends the privacy budget again" in printed
    (released,) = read_releases("out.dpsketch", ReleasedSketch)
    assert abs(released.total_weight().estimate - 400) < SURE
    before = Path("out.dpsketch").read_bytes()
    code, printed = run("run", f"visits*.{ending}", *OPTIONS)
    assert code == 2
    assert "out.dpsketch already exists, and the budget of its release is spent" in printed
    assert Path("out.dpsketch").read_bytes() == before
    assert run("run", f"visits*.{ending}", *OPTIONS, "--replace")[0] == 0
    assert Path("out.dpsketch").read_bytes() != before
    assert sorted(os.listdir()) == ["out.dpsketch", f"visits0.{ending}", f"visits1.{ending}"]


@pytest.mark.parametrize("has_links", [True, False])
def test_a_file_that_came_in_the_meantime_stays(has_links: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*paths: str) -> None:
        raise PermissionError(1, "Operation not permitted", *paths)

    if not has_links:
        monkeypatch.setattr(os, "link", refuse)
    write("visits.csv")
    assert run("run", "visits.csv", *OPTIONS)[0] == 0
    before = Path("out.dpsketch").read_bytes()
    assert len([*read_releases("out.dpsketch", ReleasedSketch)]) == 1
    monkeypatch.setattr(command, "_check_output", lambda *given, **others: None)
    code, printed = run("run", "visits.csv", *OPTIONS)
    assert (code, "out.dpsketch already exists, and the budget of its release is spent" in printed) == (2, True)
    assert Path("out.dpsketch").read_bytes() == before
    assert sorted(os.listdir()) == ["out.dpsketch", "visits.csv"]


def test_keys_and_a_settings_file_give_pairs() -> None:
    write("visits.csv", city=["Oslo", "Rome"] * 100)
    Path("s.yaml").write_text(
        "{kind: quantiles, item: delay, domain: {type: integer, low: -5, high: 9}, privacy: {rho: 1}, "
        "privacy_unit: record}"
    )
    Path("keys.txt").write_text("Oslo\nBern\n")
    line = ["visits.csv", "--config", "s.yaml", "--key", "city", "--public-keys", "keys.txt", "--output", "o.dpsketch"]
    code, printed = run("run", *line)
    assert (code, "(2 releases)" in printed) == (0, True)
    found = dict(read_releases("o.dpsketch", ReleasedSketch, keyed=True))
    assert abs(found["Oslo"].records().estimate - 100) < SURE
    assert abs(found["Bern"].records().estimate) < SURE


@pytest.mark.parametrize(
    ("files", "options", "words"),
    [
        ("nothing.csv", "", "no file matches nothing.csv"),
        ("gs://bucket/x.csv", "", "Only local files are supported"),
        ("visits.csv visits.parquet", "", "visits.parquet: all files must end with .parquet, or all with"),
        ("visits.parquet notes.txt", "", "notes.txt: all files must end with .parquet, or all with"),
        ("visits.csv", "--item dely", "Did you mean 'delay'?"),
        ("visits.csv", "--privacy-id who", "privacy_unit.privacy_id: 'who' is not in the first line of 'visits.csv'"),
        ("headless.csv", "", "must contain column names"),
        (
            "visits.csv",
            "--weight person --max-weight 2",
            "weight='person': all of the values cannot be read as whole numbers",
        ),
        ("visits.csv", "--output x.csv", "--output must end with .dpsketch"),
        ("visits.csv", "--output no/x.dpsketch", "--output must be in an existing folder, got no"),
        ("visits.csv", "--weight delay", "--max-weight is missing"),
        (
            "typed.parquet",
            "",
            "item='delay': all of the values cannot be read as whole numbers (IntegerDomain). They look",
        ),
        ("visits.parquet other.parquet", "", "the column 'person' has type int64, but type string in visits.parquet"),
        ("visits.parquet fewer.parquet", "", "fewer.parquet: has no column 'delay', unlike visits.parquet"),
        ("visits.csv other.csv", "", "is not in the first line of 'other.csv'"),
        ("twice.csv", "", "is in the first line of 'twice.csv' twice"),
        ("damaged.parquet", "", "damaged.parquet: is not Parquet, or is damaged"),
        ("empty.parquet", "", "empty.parquet: is empty"),
        ("semicolons.csv", "", "This line has no comma, but a semicolon. Write the file with commas between columns"),
        ("tabs.csv", "", "This line has no comma, but a tab"),
        ("damaged.csv", "", "damaged.csv: the first line is missing. It must contain column names"),
        ("utf16.csv", "", "utf16.csv: the file must be CSV, got text in UTF-16"),
        ("gzip.csv", "", "gzip.csv: the file must be CSV, got compressed by gzip"),
        ("parquet.csv", "", "parquet.csv: the file must be CSV, got Parquet"),
    ],
)
def test_mistakes_are_one_line_before_anything_is_written(files: str, options: str, words: str) -> None:
    for name in ("visits.csv", "visits.parquet"):
        write(name)
    write("typed.parquet", delay=[SECRET] * 200)
    pq.write_table(pa.table({"person": list(range(9)), "delay": [1] * 9}), "other.parquet")
    pq.write_table(pa.table({"person": ["a"]}), "fewer.parquet")
    pa.csv.write_csv(pa.table({"person": ["a"]}), "other.csv")
    Path("notes.txt").write_text(SECRET)
    Path("utf16.csv").write_text(f"person,delay\n{SECRET},1\n", encoding="utf-16")
    Path("gzip.csv").write_bytes(gzip.compress(b"person,delay"))
    shutil.copy("visits.parquet", "parquet.csv")
    Path("damaged.parquet").write_bytes(f"PAR1{SECRET}".encode())
    for name in ("damaged.csv", "empty.parquet"):
        Path(name).write_bytes(b"")
    for name, mark in {"semicolons.csv": ";", "tabs.csv": "\t"}.items():
        Path(name).write_text(f"person{mark}delay{mark}{SECRET}\n")
    Path("headless.csv").write_text(f"{SECRET},7\npersons,dely\n")
    Path("twice.csv").write_text("person,delay,person\na,1,b\n")
    code, printed = run("run", *files.split(), *OPTIONS, *options.split())
    assert (code, words in printed) == (2, True), printed
    assert not Path("out.dpsketch").exists()
    assert SECRET not in printed
    terms = ("  protects  ", "  contribution  ", "  privacy  ")
    assert all(text.startswith(("dpsketch: ", *terms)) for text in printed.splitlines())


@pytest.mark.parametrize("row", [f"b,2,{SECRET}", SECRET, f'"{SECRET}",2,"c,d"'])
def test_lines_with_more_or_fewer_fields_are_left_out_and_a_note_says_so(row: str) -> None:
    """Few of them, or those that may be dropped; more are refused before anything is spent."""
    words = "of the lines have more or fewer fields than the first line"
    for count, drop, code, share in ((1, [], 0, "under 1 %"), (3, [], 2, "over 1 %"), (3, ["drop"], 0, "over 1 %")):
        Path("visits.csv").write_text("person,delay\n" + f"{row}\n" * count + "a,1\n" * 200)
        found, printed = run("run", "visits.csv", *OPTIONS, "--replace", *(["--unreadable", *drop] if drop else []))
        assert (found, SECRET in printed) == (code, False)
        assert f"visits.csv: {share} {words}" in printed
        assert os.path.exists("out.dpsketch")
    (released,) = read_releases("out.dpsketch", ReleasedSketch)
    assert abs(released.privacy_units().estimate - 1) < SURE
    write("visits.csv")
    assert "left out" not in run("run", "visits.csv", *OPTIONS, "--replace")[1]


def test_a_field_that_is_too_long_is_an_error_without_its_text() -> None:
    Path("visits.csv").write_text(f"person,delay\n{SECRET * 20_000},1\n")
    code, printed = run("run", "visits.csv", *OPTIONS)
    assert (code, SECRET in printed) == (2, False)
    assert "or a field is longer than 131,072 characters" in printed


def test_a_damaged_page_is_an_error_that_names_the_file() -> None:
    write("visits.parquet")
    whole = Path("visits.parquet").read_bytes()
    Path("visits.parquet").write_bytes(whole[:4] + b"\xff" * 60 + whole[64:])
    code, printed = run("run", "visits.parquet", *OPTIONS)
    assert code == 2
    assert printed.endswith(
        "dpsketch: visits.parquet: a part of the file cannot be read. The file may be damaged [dpsketch-E901]\n"
    )


def test_text_that_is_not_utf8_is_unreadable() -> None:
    for others, code, share in ((999, 0, "under 1 %"), (9, 2, "about 10 %")):
        Path("visits.csv").write_bytes(b"person,delay\n" + f"{SECRET}\u00e9,1\n".encode("latin-1") + b"a,2\n" * others)
        found, printed = run("run", "visits.csv", *OPTIONS, "--replace")
        assert (found, SECRET in printed) == (code, False)
        assert f"privacy_id='person': {share} of the values cannot be read as text, bytes or integers" in printed
        assert "They look like bytes that are not UTF-8. Write text in UTF-8" in printed


@pytest.mark.parametrize("ending", ["parquet", "csv", "CSV"])
def test_a_file_that_is_given_twice_is_refused_because_its_records_would_count_twice(ending: str) -> None:
    write(f"visits.{ending.lower()}")
    os.rename(f"visits.{ending.lower()}", f"visits.{ending}")
    os.link(f"visits.{ending}", f"same.{ending}")
    for again in (f"./visits.{ending}", f"v*.{ending}", f"same.{ending}"):
        code, printed = run("run", f"visits.{ending}", again, *OPTIONS)
        assert (code, "are the same file, and its records would count twice" in printed) == (2, True)
    assert run("run", f"visits.{ending}", *OPTIONS)[0] == 0


@pytest.mark.parametrize("field", ['"sesame', '"sesame" seed', '"open\nsesame,1\n"a'])
def test_a_quote_that_ends_no_field_is_refused_because_records_after_it_would_be_lost(field: str) -> None:
    lines = [f"p{number},{number % 7}," for number in range(1000)]
    lines[500] += field
    Path("x.csv").write_text("person,delay,note\n" + "\n".join(lines) + "\n")
    code, printed = run("run", "x.csv", *OPTIONS)
    assert (code, "Write quotes within a field twice" in printed) == (2, True)
    assert "sesame" not in printed


def test_a_column_with_a_dot_is_not_a_field_of_another() -> None:
    pq.write_table(pa.table({"a": [{"b": 5, "c": 6}], "a.b": [1]}), "x.parquet")
    given = config(kind="quantiles", domain={"type": "integer", "low": 0, "high": 9}, item="a.b")
    assert column("x.parquet", given, "a.b") == [1]


def column(path: str, declared: Any, name: str) -> list[Any]:
    """A column of a file as a release gets it."""
    return [
        value
        for part in open_files([path], declared, lambda _: None, lambda _: None).table.parts
        for value in part[name].to_pylist()
    ]


def config(**settings: Any) -> Any:
    return read_release({"item": "x", "privacy": {"rho": 1}, "privacy_unit": "record", **settings})


def test_types_of_csv_are_declared_and_not_guessed() -> None:
    """One column may be read as text and as numbers: as an id and as a weight."""
    Path("x.csv").write_text("x,w,p,k\n" + "".join(f"{n % 7},{n % 3},{n % 50},{n % 2}\n" for n in range(600)))
    person = {"privacy_id": "p", "records": {"max_records": 99, "max_weight": 3, "max_keys": 2}}
    given = config(kind="frequencies", privacy_unit=person, weight="w", keys={"public": [0, 1], "field": "k"})
    released = release_frame(open_files(["x.csv"], given, lambda _: None, lambda _: None).table, given)
    assert set(released) == {0, 1}
    given = config(
        kind="frequencies", privacy_unit={**person, "records": {"max_records": 99, "max_weight": 7}}, weight="p"
    )
    release_frame(open_files(["x.csv"], given, lambda _: None, lambda _: None).table, given)


@pytest.mark.parametrize("listed", [[1, "2"], [{"hex": "31"}], [[1, 2]]])
def test_listed_values_that_csv_never_holds_are_refused(listed: list[Any]) -> None:
    for name, given in (
        ("keys.public", config(kind="frequencies", keys={"public": listed, "field": "k"})),
        ("listed_items", config(kind="frequencies", listed_items=listed)),
    ):
        with pytest.raises(ConfigError, match=rf"^{name}: CSV files contain text or whole numbers"):
            declared_schema("x.csv", ["x", "k"], given)


def read_texts(texts: list[str], kind: pa.DataType) -> list[Any]:
    return Spelling().read(pa.array(texts, pa.large_string()), kind).to_pylist()


@pytest.mark.parametrize("dirty", [[], ["no", ""]])
def test_text_is_read_as_its_type_or_null(dirty: list[str]) -> None:
    def read(texts: list[str], kind: pa.DataType) -> list[Any]:
        return read_texts([*texts, *dirty, None], kind)[: len(texts)]

    assert read(["1", "-20", "0"], INTEGER) == [1, -20, 0]
    assert read([" 7 ", "12.0", "1.5", "9" * 30, "+3", "0x1"], INTEGER) == [7, 12, None, (1 << 63) - 1, 3, None]
    assert read(["1.5", "-2e3", "7"], FLOAT) == [1.5, -2000.0, 7.0]
    never = ["1_0", "\u0663", "7\u200b", "1e", "e1", ".", "+", "0x1", "nan"]
    assert read(["2e3", "7.", ".5e1", "-0.0", "\t+7 ", "7\u00a0"], INTEGER) == [2000, 7, 5, 0, 7, 7]
    assert read(["9" * 5000, "9223372036854775500"], INTEGER) == [(1 << 63) - 1, 9223372036854775500]
    assert read(["-1e9999", "1.2345678901234568e18", "9e15"], INTEGER) == [None, None, 9 * 10**15]
    assert read([".5", "-Inf", "+infinity", "1e9999", "1e-9999"], FLOAT) == [0.5, -math.inf, math.inf, math.inf, 0]
    for kind in (INTEGER, FLOAT, TIME):
        assert read(never, kind) == [None] * len(never)
    assert read(["1.5", "inf", "1e-9999", "1e99999"], INTEGER) == [None] * 4
    new_year = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
    assert read(["2024-01-01", "2024-01-01T00:00:00Z"], TIME) == [new_year, new_year]


@pytest.mark.parametrize(
    ("kind", "texts"),
    [
        (
            INTEGER,
            [
                "7.0",
                "2e3",
                ".5e1",
                "1e-1",
                "7\u00a0",
                "1e9999",
                "0x1F",
                "0X1f",
                "1_0",
                "12",
                "9" * 18,
                "9" * 19,
                "-0x1",
                "-7",
                " 7",
                "1e3",
                "\u0663",
            ],
        ),
        (FLOAT, ["nan(1)", "nan", "inf", "1e400", "0x1p3", "+1", ".5", "1.", "9" * 15, "0." + "9" * 15, "1e-400"]),
        (TIME, ["2024-01-01T08Z", "2024-01-01T08:00:00.1Z", "2024-01-01T08:00:00+01", "2024-01-01T08:00:00+0100"]),
        (TIME, ["0000-01-01T00:00:00Z", "2024-02-30T00:00:00Z", "2024-02-29T08:00:00Z", "2024-01-01T08:00:60Z"]),
    ],
)
def test_a_field_is_read_alike_next_to_any_other(kind: pa.DataType, texts: list[str]) -> None:
    for text in texts:
        alone, others = (repr(read_texts([text, *more], kind)[0]) for more in ([], ["???"]))
        assert alone == others, text


def test_how_much_is_read_depends_on_the_files_alone() -> None:
    given, found = config(kind="quantiles", domain={"type": "integer", "low": 0, "high": 9}, item="delay"), []
    for name in ("visits.csv", "visits.parquet"):
        write(name)
        found.clear()
        shutil.copy(name, f"more.{name}")
        size = Path(name).stat().st_size
        assert sum(map(len, open_files([name, f"more.{name}"], given, found.append, pytest.fail).table.parts)) == 400
        assert found == [(size, 2 * size, 1, 2), (2 * size, 2 * size, 2, 2)]


@pytest.mark.parametrize(
    ("asked", "on_terminal", "said"),
    [
        (
            True,
            False,
            [
                ("9.0 of 70.0 MB (10 %)", "0:00:07"),
                ("15.0 of 70.0 MB (20 %)", "0:00:06"),
                ("22.0 of 70.0 MB (30 %)", "0:00:20"),
            ],
        ),
        (False, True, [("20.0 of 70.0 MB (20 %)", "0:00:22"), ("22.0 of 70.0 MB (30 %)", "0:00:22")]),
        (False, False, []),
    ],
)
def test_progress_is_said_if_asked_or_on_a_terminal_after_a_while(
    asked: bool,
    on_terminal: bool,
    said: list[tuple[str, str]],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = iter([0.0, 1.0, 1.5, 9.0, 10.0])
    monkeypatch.setattr(reading.time, "monotonic", lambda: next(clock))
    monkeypatch.setattr(reading, "is_terminal", lambda _: on_terminal)
    progress = reading.Progress(asked=asked)
    for read in (9, 15, 20, 22):
        progress(Position(read * 10**6, 70 * 10**6, 1, 2))
    lines = [f"dpsketch: read {words}, 1 of 2 file(s) complete, about {left} left" for words, left in said]
    assert capsys.readouterr().err.splitlines() == lines


def test_all_that_is_missing_is_told_at_once() -> None:
    write("visits.csv")
    code, printed = run("run", "visits.csv")
    assert code == 2
    told = ["output", "kind", "item", "epsilon and --delta, or --rho,", "privacy-id"]
    assert [f"--{name} " in line for name, line in zip(told, printed.splitlines(), strict=True)] == [True] * 5
    assert "--max-norm is missing" in printed


def test_an_interrupted_run_says_what_it_spent(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    write("visits.csv")
    for name, words in {
        "_write": "interrupted while writing",
        "release_frame": "was not written, so nothing was spent",
    }.items():
        monkeypatch.setattr(command, name, interrupt)
        code, printed = run("run", "visits.csv", *OPTIONS)
        assert (code, words in printed) == (1, True)


DAYS = ["--time", "day", "--every", "1d", "--start", "2024-01-01", "--end", "2024-01-04", "--output", "days.dpsketch"]
FILES = [f"days-2024010{day}T000000Z-2024010{day + 1}T000000Z.dpsketch" for day in (1, 2, 3)]


def write_days(name: str, **columns: Any) -> None:
    days = ["2024-01-01"] * 120 + ["2024-01-03"] * 60 + ["2024-01-04"] * 19 + [None]
    write(name, day=pa.array(days) if name.endswith(".csv") else pa.array(days).cast(pa.date32()), **columns)


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_each_day_has_a_file_that_query_reads_with_its_window(ending: str) -> None:
    """A day without data has one too, and days outside have none."""
    write_days(f"visits.{ending}")
    code, printed = run("run", f"visits.{ending}", *OPTIONS, *DAYS)
    assert code == 0
    assert "in each of 3 windows (3 releases)" in printed
    assert "time='day': about 10 % of the rows are outside the declared windows" in printed
    assert f"wrote {FILES[0]} and 2 more (3 releases). " in printed
    assert sorted(os.listdir()) == [*FILES, f"visits.{ending}"]
    code, printed = run("query", "days-*", "--records", "--format", "json")
    found = [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
    assert [each["window"] for each in found] == [
        f"2024-01-0{day}T00:00:00Z/2024-01-0{day + 1}T00:00:00Z" for day in (1, 2, 3)
    ]
    for each, truth in zip(found, (120, 0, 60), strict=True):
        assert abs(each["estimate"] - truth) < SURE
    assert {file: len(read_releases(file, ReleasedSketch)) for file in FILES} == dict.fromkeys(FILES, 1)


def test_no_file_of_a_day_is_overwritten() -> None:
    write_days("visits.csv")
    Path(FILES[1]).write_text("not a release")
    code, printed = run("run", "visits.csv", *OPTIONS, *DAYS)
    assert (code, f"{FILES[1]} already exists, and the budget of its release is spent" in printed) == (2, True)
    assert run("run", "visits.csv", *OPTIONS, *DAYS, "--replace")[0] == 0
    assert sorted(os.listdir()) == [*FILES, "visits.csv"]


def test_a_day_in_which_no_key_is_chosen_has_no_file_and_a_run_of_none_says_what_it_spent() -> None:
    """60 voters are more than 30 deviations above the threshold, and no voter is far below it."""
    write_days("visits.csv", city=["Oslo"] * 200)
    keys = ["--key", "city", "--select-keys", "1e-9", "--max-keys", "1", "--delta", "1e-6", "--rho", "9"]
    assert run("run", "visits.csv", *OPTIONS, *keys, *DAYS)[0] == 0
    assert sorted(os.listdir()) == [FILES[0], FILES[2], "visits.csv"]
    write_days("rare.csv", city=[f"city {n}" for n in range(200)])
    code, printed = run("run", "rare.csv", *OPTIONS, *keys, *DAYS, "--output", "rare.dpsketch")
    assert (code, "no key passed the selection, so rare.dpsketch contains no release" in printed) == (0, True)
    assert "1  " in run("spent", "rare.dpsketch")[1]
    late = [*DAYS, "--start", "2034-01-01", "--end", "2034-01-02", "--output", "late.dpsketch"]
    code, printed = run("run", "visits.csv", *OPTIONS, *keys, *late)
    assert (code, "time='day' is outside the declared windows in every row, so no row would count" in printed) == (
        2,
        True,
    )
    assert not Path("late.dpsketch").exists()


def test_a_run_that_stops_between_two_days_says_that_the_first_has_cost_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    write_days("visits.csv")
    exact, left = command._write, f".{FILES[2]}.unfinished.x"
    Path(left).touch()
    for error, words in ((KeyboardInterrupt(), "interrupted while writing"), (OSError(28, "No space"), "No space")):

        def stop_at_second(path: str, elements: Any, **others: Any) -> None:
            if path == FILES[1]:
                patch.setattr(command, "complete_file", stop)
            exact(path, elements, **others)

        def stop(*_: Any, error: BaseException = error, **__: Any) -> None:
            raise error

        with monkeypatch.context() as patch:
            patch.setattr(command, "_write", stop_at_second)
            code, printed = run("run", "visits.csv", *OPTIONS, *DAYS, "--replace")
        assert (code > 0, words in printed) == (True, True)
        assert f"{FILES[1]}" in printed.splitlines()[-1]
        assert "the earlier files are complete, and their budget is spent" in printed
        assert f"{left} remains from an interrupted run" in printed
        assert sorted(os.listdir()) == [left, FILES[0], "visits.csv"]


def test_rows_over_time_of_a_file_answer_about_its_days() -> None:
    """With this rho, the deviation of the answer is below 8: 90 are 11 of these, below 1e-25."""
    write_days("visits.csv")
    settings = {"horizon": {"start": "2024-01-01", "window_size": "1d", "windows": 3}, "time": "day"}
    Path("rows.json").write_text(json.dumps(settings))
    privacy_unit = ["--privacy-id", "person", "--max-norm", "2", "--rho", "50"]
    quantiles = [each for each in OPTIONS if each not in ("--max-records", "2")]
    code, _ = run("run", "visits.csv", "--config", "rows.json", *quantiles, *privacy_unit, "--output", "days.dpsketch")
    assert code == 0
    code, printed = run("query", "days-*", "--horizon", "2024-01-01", "1d", "3", "--total-weight", "--format", "json")
    (found,) = (json.loads(line) for line in printed.splitlines() if line.startswith("{"))
    assert (found["windows"], abs(found["estimate"] - 180) < 90) == ("0 to 2", True)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--time", "day"], "--start and --end are missing. With --time, "),
        (["--every", "1d", "--start", "2024-01-01", "--end", "2024-01-02"], "--time is missing. With --every, "),
        (["--time", "day", "--start", "2024-01-01", "--end", "2024-01-02"], "--every is missing. With --time, "),
        (["--time", "day", "--every", "1d", "--end", "2024-01-02"], "--start is missing"),
        (["--start", "2024-01-01", "--end", "2024-01-02"], "--time day --every 1d in the shell"),
        ([*DAYS, "--every", "2d"], "--start, --end: must end where a window ends, such as 2024-01-03T00:00:00"),
        ([*DAYS, "--every", "daily"], "--every: expected a duration, such as 30m, 1h or 7d"),
        ([*DAYS, "--time", "when"], "'when' is not in the first line of 'visits.csv'"),
    ],
)
def test_options_of_windows_that_do_not_fit_are_named(options: list[str], words: str) -> None:
    write_days("visits.csv")
    code, printed = run("run", "visits.csv", *OPTIONS, *options)
    assert (code, words in printed) == (2, True), printed
    assert os.listdir() == ["visits.csv"]


def test_metrics_are_named_before_they_are_released() -> None:
    write("visits.csv")
    Path("m.yaml").write_text(
        "{kind: metrics, metrics: [{name: visits, kind: count}, {name: people, kind: privacy_ids}], "
        "privacy: {rho: 1}, privacy_unit: {privacy_id: person, records: {max_records: 3}}}"
    )
    assert "releasing metrics of visits, people\n" in run("run", "visits.csv", "--config", "m.yaml", *OPTIONS[-2:])[1]


def test_a_column_of_answers_for_each_column_of_a_key() -> None:
    """The noise of a count has a deviation below 0.1: a false alarm has a probability below 1e-30."""
    # In Oslo, this is 0:30 of the 25th, which has 25 hours, and then 23:30 of each day.
    times = [f"2026-10-{24 + n % 4}T22:30:00Z" for n in range(200)]
    write("visits.csv", page=[f"page {n % 2}" for n in range(200)], at=times)
    Path("keys.csv").write_text("delay,page\n0, page 0\n1, page 1\n1, page 0\n")
    days = '{time: at, bucket: day, zone: Europe/Oslo, start: "2026-10-25", end: "2026-10-27"}'
    options = ["visits.csv", *shlex.split("--kind frequencies --item page --rho 128 --privacy-unit record")]
    options += ["--key", "delay", "--key", days, "--key", "page", "--public-keys", "keys.csv"]
    code, printed = run("run", *options, "--output", "out.dpsketch")
    assert code == 0, printed
    assert "for 6 listed keys in delay and day of at and page" in printed
    assert "key='at': about 25 % of the rows are outside the declared days" in printed
    assert "outside the declared time range" in printed
    exact = {("0", "2026-10-25", "page 0"): 10, ("0", "2026-10-26", "page 0"): 10, ("1", "2026-10-25", "page 1"): 10}
    exact["1", "2026-10-26", "page 0"] = 0
    for key, count in exact.items():
        code, printed = run("query", "out.dpsketch", "--total-weight", "--format", "json", "--key", *key)
        row = json.loads(printed.splitlines()[-1])
        assert (row["delay"], row["day"], row["page"]) == key
        assert abs(row["estimate"] - count) < 2
    assert run("inspect", "out.dpsketch", "--output", "all.parquet")[0] == 0
    assert pq.read_schema("all.parquet").names[:5] == ["file", "delay", "day", "page", "window"]
    Path("keys.csv").write_text("page\npage 0\n")
    code, printed = run("run", *options, "--output", "other.dpsketch")
    assert "must be a CSV file whose first line names the columns delay, page, got a first line" in printed
