"""The page of the byte layout has the tables of the package, and is enough to read releases."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import re
import struct
from fractions import Fraction
from typing import Any

import pytest

from beam_dpsketch import ReleasedSketch, TimelineRow
from beam_dpsketch.answers import release_file
from beam_dpsketch.answers.privacy_statement import Unreleased
from beam_dpsketch.exact.sketches.metrics import MetricPart
from beam_dpsketch.statement import release_format
from tests.helpers import golden, golden_trees
from tests.helpers.by_hand import COUNTS, ROW, SKETCH
from tests.statement.format import page

PAGE = page.PAGE.read_text(encoding="utf-8")
TABLES = {
    name: re.findall(r"^\| `?([^|`]+)`? \| ([^|]+) \| ([^|]*) \|$", table.split("|---|\n")[-1], re.MULTILINE)
    for name, table in re.findall(r"<!-- table: (.+?) -->\n(.*?)<!-- end -->", PAGE, re.DOTALL)
}
CONSTANTS = {name: value for name, _, value in TABLES["constants"]}
(KINDS,) = (values for field, _, values in TABLES["start of a release"] if field == "kind")
RELEASES = {**golden.good(), **golden_trees.good()}


def spec_of(kind: str) -> str:
    """The table of a spec."""
    return f"spec of a {kind}".replace("count_min", "count_sketch")


class ByPage:
    """Reads bytes by the tables of the page, and knows the types of its first table."""

    def __init__(self, data: bytes) -> None:
        self.left = data

    def take(self, size: int) -> bytes:
        taken, self.left = self.left[:size], self.left[size:]
        assert len(taken) == size
        return taken

    def table(self, name: str) -> dict[str, Any]:
        return {field: self.value(kind, values.strip()) for field, kind, values in TABLES[name]}

    def value(self, kind: str, values: str = "") -> Any:
        options = dict(re.findall(r"(\d+) `([^`]+)`", values))
        if kind.startswith("list of "):
            return [self.value(kind.removeprefix("list of "), values) for _ in range(self.value("u16"))]
        if kind.startswith("optional "):
            absent = 0 if values == "0 if absent" else None
            return self.value(kind.removeprefix("optional "), values) if self.value("u8") else absent
        if kind.startswith("bytes after "):
            return self.take(self.value(kind.removeprefix("bytes after ")))
        if kind.startswith("`"):
            return self.table(kind.strip("`"))
        if re.fullmatch(r"\d+ bytes", kind):
            return self.take(int(kind.split()[0]))
        if kind == "choice":
            return options[str(self.value("u8"))]
        if kind == "flags":
            return self.value("u8")
        if kind == "one of":
            chosen = options[str(self.value("u8"))]
            return None if chosen == "NoneType" else {"is": chosen, **self.table(chosen)}
        return self.plain(kind)

    def plain(self, kind: str) -> Any:
        if kind.startswith("text after "):
            return self.take(self.value(kind.removeprefix("text after "))).decode()
        if kind == "spec":
            chosen = self.value("choice", KINDS)
            return {"is": chosen, **self.table(spec_of(chosen))}
        if kind == "fraction":
            return Fraction(*(int.from_bytes(self.value("bytes after u16"), "little") for _ in range(2)))
        if kind == "f64":
            return struct.unpack("<d", self.take(8))[0]
        bits = {"time": 128, "duration": 128}.get(kind) or int(kind[1:])
        return int.from_bytes(self.take(bits // 8), "little", signed=not kind.startswith("u"))


CHOSEN = ("Domain", "Bounds", "Bound", "KeyNote", "GroupNote", "RowNote", "AnswerNote", "BinnedRoot", "BinaryTree")
"""What is one of several types."""


def said(value: Any, table: str | None = None) -> Any:
    """A value of the package as a reader by the page sees it."""
    if value is None:
        return None
    if isinstance(value, enum.Flag):
        return value.value
    if isinstance(value, enum.Enum):
        return value.name
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, datetime.datetime):
        return round(value.timestamp() * 1_000_000)
    if isinstance(value, datetime.timedelta):
        return value // datetime.timedelta(microseconds=1)
    if isinstance(value, MetricPart):
        spec = {"is": value.spec.kind, **said(value.spec, spec_of(value.spec.kind))}
        return {"name": value.name, "spec": spec, "share": value.share}
    if isinstance(value, tuple):
        return [said(each) for each in value]
    name = table or type(value).__name__
    if name not in TABLES:
        return value
    fields = {field: said(getattr(value, field)) for field, _, _ in TABLES[name]}
    return {"is": name, **fields} if name.endswith(CHOSEN) else fields


def test_the_tables_of_the_page_are_those_of_the_package() -> None:
    """If not: `python -m tests.statement.format.page` makes them anew."""
    assert set(TABLES) == set(page.tables())
    assert page.made_anew(PAGE) == PAGE


@pytest.mark.parametrize("name", golden.rows())
def test_a_row_is_read_by_the_page_alone(name: str) -> None:
    row = golden.rows()[name]
    read = ByPage(row.to_bytes())
    assert read.table("start of a release")["kind"] == row.kind
    assert read.table("spec of a count_sketch") == said(row.spec, "spec of a count_sketch")
    statement = read.table("statement")
    assert statement == said(row.privacy, "statement")
    how = read.table("counters")
    size, note = int(how["dtype"].removeprefix("<i")), row.privacy.over_time
    assert note is not None
    unit = Fraction(2**note.dropped_bits, 2 ** how["scale_bits"])
    counters = [int.from_bytes(read.take(size), "little", signed=True) * unit for _ in range(row.counters.size)]
    assert counters == row.counters.tolist()


@pytest.mark.parametrize("name", RELEASES)
def test_a_release_is_read_by_the_page_alone(name: str) -> None:
    release, data = RELEASES[name], RELEASES[name].to_bytes()
    read = ByPage(data)
    start = read.table("start of a release")
    assert (start["kind"], str(start["format_version"])) == (release.name, CONSTANTS["format_version of a release"])
    spec = spec_of(start["kind"])
    assert read.table(spec) == said(release.spec, spec)
    assert read.table("statement") == said(release.privacy, "statement")
    how = read.table("counters")
    size, unit = int(how["dtype"].removeprefix("<i")), Fraction(1, 2 ** how["scale_bits"])
    counters = [int.from_bytes(read.take(size), "little", signed=True) * unit for _ in range(release.counters.size)]
    assert counters == release.counters.ravel().tolist()
    assert golden.sealed(data[: -len(read.left)]) == data


def test_a_file_is_read_by_the_page_alone(tmp_path: Any) -> None:
    path = tmp_path / "file"
    writer = release_file.RecordWriter(path.open("wb"))
    for element in (SKETCH, ("Oslo", COUNTS), ROW, ("Oslo", ROW), Unreleased(SKETCH.privacy)):
        writer.write(release_file.to_record(element))
    writer.close()
    data = path.read_bytes()
    read, found = ByPage(data), []

    def digest_before(read: ByPage) -> bytes:
        return golden.sealed(data[: len(data) - len(read.left)])[-16:]

    assert read.take(10).hex(" ") == CONSTANTS["header of a file"].strip("` ")
    while size := read.value("u64"):
        record = ByPage(read.take(size))
        assert digest_before(read) == read.take(16)
        kind = record.table("start of a record")["kind"]
        if kind == "spent":
            assert record.table("statement") == said(SKETCH.privacy, "statement")
            assert record.left == b""
            continue
        fields = record.table(f"record of a {kind}") if kind.endswith("pair") else {}
        of_kind = TimelineRow if kind.startswith("row") else ReleasedSketch
        found.append((kind, fields, of_kind.from_bytes(record.left)))
    key = {"key": b"sOslo"}
    assert found == [("release", {}, SKETCH), ("pair", key, COUNTS), ("row", {}, ROW), ("row_pair", key, ROW)]
    assert digest_before(read) == read.left


@pytest.mark.parametrize("written", release_format._BOUNDS.options)
def test_bounds_are_written_with_all_their_fields(written: Any) -> None:
    assert [*written.fields] == [field.name for field in dataclasses.fields(written.type)]
