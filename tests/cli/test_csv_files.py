"""CSV is read as it was written, in blocks of any size: no line break, quote or neighbour changes a field."""

from __future__ import annotations

import csv
import functools
import io
import random
from collections.abc import Callable, Iterable
from io import TextIOWrapper
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pytest

from beam_dpsketch.errors import UsageError
from beam_dpsketch.frames.steps import csv_files, files
from beam_dpsketch.frames.steps.csv_files import CsvFile

BREAKS = ["\n", "\r\n", "\r"]
PARTS = [
    "a",
    "bc",
    ",",
    '"',
    '""',
    *BREAKS,
    "\r\r\n",
    "\n\r",
    "é",
    "🚲",
    " ",
    "0" * 9,
    "\x85",
    "\u2028",
    "\0",
    "\udcff",
]
ROWS = list[tuple[Any, ...]]
Reader = Callable[[bytes, int], ROWS]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def written(source: random.Random) -> tuple[bytes, ROWS]:
    """A file as programs write them, and its records; empty, short and long lines are none."""
    columns, records = source.randint(1, 4), []
    text = io.StringIO(newline="")
    end = source.choice(BREAKS)  # the writer puts those line breaks into quotes that it writes itself
    quoting = source.choice([csv.QUOTE_ALL, csv.QUOTE_MINIMAL if end == "\r\n" else csv.QUOTE_ALL])
    rows = csv.writer(text, lineterminator=end, quoting=quoting)
    rows.writerow([f"c{number}" for number in range(columns)])
    for _ in range(source.randint(1, 12)):
        size = source.choice([columns] * 8 + [columns + 1, max(1, columns - 1)])
        row = ["".join(source.choices(PARTS, k=source.randint(0, 4))) for _ in range(size)]
        if quoting == csv.QUOTE_MINIMAL:  # blanks before a field without quotes are none of it
            row = [value.lstrip(" ") for value in row]
        rows.writerow(row)
        if size == columns:
            records.append(tuple(value or None for value in row))
        if source.random() < 0.1:
            text.write(source.choice(BREAKS))
    data = text.getvalue().encode("utf-8", "surrogateescape")
    if source.random() < 0.3:
        data = data.removesuffix(b"\n").removesuffix(b"\r")
    return source.choice([b"", b"", b"\xef\xbb\xbf"]) + data, records


def read(data: bytes, size: int, say: Callable[[str], Any] = len) -> ROWS:
    """Return the rows that are read of a file, in blocks of this size; `say` takes the notes."""
    Path("x.csv").write_bytes(data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv_files, "_ROWS", 1 + size % 7)
        patch.setattr(csv_files, "_BATCH", 1 + size % 3)
        patch.setattr(csv_files.io, "TextIOWrapper", functools.partial(in_blocks, size))
        file = CsvFile("x.csv", say, drops=True)
        found = (texts_of(batch) for batch, _ in file.batches(file.header()))
        return [row for columns in found for row in zip(*columns, strict=True)]


def texts_of(batch: pa.RecordBatch) -> list[list[str | None]]:
    """The columns of a batch, whose text Arrow has not looked at."""
    columns = (column.view(pa.large_binary()).to_pylist() for column in batch.columns)
    return [[value and value.decode("utf-8", "surrogateescape") for value in column] for column in columns]


def in_blocks(size: int, *given: Any, **others: Any) -> Any:
    file = TextIOWrapper(*given, **others)
    file._CHUNK_SIZE = size
    return file


def differences(read_rows: Reader, seeds: Iterable[int]) -> tuple[int, list[str]]:
    """The number of cases, and those that differ: files in blocks of each size from 1 to 40, and larger ones."""
    cases, found = 0, []
    for seed in seeds:
        source = random.Random(seed)
        data, records = written(source)
        for size in {*source.sample(range(1, 40), 4), source.randint(40, len(data) + 40), 1 << 13}:
            cases += 1
            found += [f"seed {seed}, blocks of {size}"] if read_rows(data, size) != records else []
    return cases, found


def test_files_are_read_as_they_were_written() -> None:
    assert differences(read, range(60)) == (360, [])


@pytest.mark.slow
def test_many_files_are_read_as_they_were_written() -> None:
    assert differences(read, range(100, 1600)) == (9_000, [])


def _by_arrow(data: bytes, size: int) -> ROWS:
    """As Arrow reads blocks that hold each line."""
    names = [f"c{number}" for number in range(data.split(b"\n")[0].split(b"\r")[0].count(b",") + 1)]
    as_text = pa.csv.ConvertOptions(
        column_types=dict.fromkeys(names, pa.string()), null_values=[""], strings_can_be_null=True, check_utf8=False
    )
    blocks = pa.csv.ReadOptions(block_size=max(size, len(data) // 2))
    lines = pa.csv.ParseOptions(newlines_in_values=True, invalid_row_handler=lambda _: "skip")
    rows = pa.csv.open_csv(io.BytesIO(data), blocks, lines, as_text)
    return [row for batch in rows for row in zip(*batch.to_pydict().values(), strict=True)]


def _without_tail(data: bytes, size: int) -> ROWS:
    return read(data, size)[: len(read(data, 1 << 13)) // 7 * 7]


FAULTS: dict[str, tuple[Reader, list[str]]] = {
    "blocks of Arrow": (_by_arrow, ["a", "bc", "\r\n", "é"]),
    "blocks of Arrow at zero bytes": (_by_arrow, ["a", "bc", "é", "0" * 9, "\0"]),
    "the last rows are lost": (_without_tail, PARTS),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    reader, parts = FAULTS[fault]
    monkeypatch.setattr(f"{__name__}.PARTS", parts)

    def checked(data: bytes, size: int) -> ROWS:
        try:
            return reader(data, size)
        except pa.ArrowInvalid:
            return [("refused",)]

    assert differences(checked, range(30))[1] != []
    assert differences(read, range(30))[1] == []


def _mangled(source: random.Random) -> bytes:
    return b"c0,c1\n" + "".join(source.choices([*PARTS, ",", "\n"], k=source.randint(0, 30))).encode(
        "utf-8", "surrogateescape"
    )


@pytest.mark.parametrize("count", [300, pytest.param(4_000, marks=pytest.mark.slow)])
def test_what_no_program_should_write_is_read_by_python_or_refused(count: int) -> None:
    """A quote within a field is a character; one that opens a field and does not close it is refused."""
    refused = 0
    for seed in range(count):
        source = random.Random(seed)
        data = _mangled(source)
        try:
            text = io.StringIO(data.decode("utf-8", "surrogateescape"), newline="")
            rows = [*csv.reader(text, strict=True, skipinitialspace=True)][1:]
        except csv.Error:
            refused += 1
            with pytest.raises(UsageError, match="Write quotes within a field twice"):
                read(data, source.randint(1, 40))
            continue
        kept = [tuple(value or None for value in row) for row in rows if len(row) == 2]
        assert read(data, source.randint(1, 40)) == kept, seed
    assert count // 10 < refused < count


def test_one_person_is_one_wherever_a_line_lies() -> None:
    """A line break within an id, at each place of a block of Arrow, and in more rows than one batch holds."""
    for pad in range(20):
        rows = b"p,n\n" + b"x" * pad + b",1\n" + b'"Ann\r\nLee",1\n' * 300
        people = {row[0] for row in read(rows, 16)[1:]}
        assert people == {"Ann\r\nLee"}


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (b"Ann,1\nLee\n", ["about 50 % of the lines have more or fewer fields than the first line, and were dropped"]),
        (b"Ann\nLee\n", ["all of the lines have more or fewer fields than the first line, and were dropped"]),
        (b"Ann,1\n", []),
    ],
)
def test_what_is_left_out_is_said_without_a_number(lines: bytes, said: list[str]) -> None:
    notes: list[str] = []
    read(b"p,n\n" + lines, 16, notes.append)
    assert [note.split(": ", 1)[1] for note in notes] == said


def test_no_other_reader_of_csv_is_in_use() -> None:
    for module in (files, csv_files):
        assert "pyarrow.csv" not in Path(module.__file__).read_text(encoding="utf-8")
