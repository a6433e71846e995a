"""The page of the byte layout has the tables of the package, and is enough to read releases."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import re
from fractions import Fraction
from typing import Any

import msgpack
import pytest

from beam_dpsketch.answers import release_file
from beam_dpsketch.answers.over_time import TimelineRow
from beam_dpsketch.answers.privacy_statement import PrivacyStatement, Unreleased
from beam_dpsketch.answers.released_sketch import ReleasedSketch
from tests.helpers import golden, golden_trees
from tests.helpers.by_hand import COUNTS, ROW, SKETCH
from tests.helpers.stored import sealed
from tests.statement.format import page

PAGE = page.PAGE.read_text(encoding="utf-8")
TABLES = {
    name: re.findall(r"^\| `?([^|`]+)`? \| ([^|]+) \| ([^|]*) \|$", table.split("|---|\n")[-1], re.MULTILINE)
    for name, table in re.findall(r"<!-- table: (.+?) -->\n(.*?)<!-- end -->", PAGE, re.DOTALL)
}
CONSTANTS = {name: values.strip("` ") for name, _, values in TABLES["constants"]}
RELEASES = {**golden.good(), **golden_trees.good()}


def numbered(values: str) -> dict[int, str]:
    return {int(number): name for number, name in re.findall(r"(\d+) `([^`]+)`", values)}


def read(kind: str, values: str, plain: Any) -> Any:
    """Return what plain values stand for, by the tables of the page and the types of its first table."""
    if kind.startswith("optional "):
        return None if plain is None else read(kind.removeprefix("optional "), values, plain)
    if kind.startswith("list of "):
        return [read(kind.removeprefix("list of "), values, each) for each in plain]
    if kind == "one of":
        number, *fields = plain
        return {"is": numbered(values)[number], **table(numbered(values)[number], fields)}
    if kind.startswith("`"):
        return {"is": kind.strip("`"), **table(kind.strip("`"), plain)}
    if kind == "choice":
        return numbered(values)[plain]
    if kind == "fraction":
        return Fraction(*(read("whole", "", each) for each in plain))
    if kind in ("whole", "time", "duration") and isinstance(plain, bytes):
        return int.from_bytes(plain, "little", signed=True)
    return plain


def table(name: str, plain: Any) -> dict[str, Any]:
    """Return the fields of an object."""
    return {field: read(kind, values, each) for (field, kind, values), each in zip(TABLES[name], plain, strict=True)}


def content(data: bytes) -> dict[str, Any]:
    """Return what a release holds, between its start and its digest."""
    start, end = bytes.fromhex(CONSTANTS["start of a release"]), 16
    assert data.startswith(start)
    assert sealed(data[:-end]) == data
    return table("Content", msgpack.unpackb(data[len(start) : -end]))


def said(value: Any) -> Any:
    """Return a value of the package as a reader by the page sees it."""
    if isinstance(value, enum.Flag):
        return value.value
    if isinstance(value, enum.Enum):
        return value.name
    if isinstance(value, datetime.datetime):
        return round(value.timestamp() * 1_000_000)
    if isinstance(value, datetime.timedelta):
        return value // datetime.timedelta(microseconds=1)
    name = type(value).__name__.replace("PrivacyStatement", "Stated")
    if name in TABLES:
        return {"is": name, **{field: said(getattr(value, field)) for field, _, _ in TABLES[name]}}
    return [said(each) for each in value] if isinstance(value, tuple) else value


def counters(read: dict[str, Any]) -> list[int]:
    size, data = read["size"], read["counters"]
    return [int.from_bytes(data[at : at + size], "little", signed=True) for at in range(0, len(data), size)]


def test_the_tables_of_the_page_are_those_of_the_package() -> None:
    """If not: `python -m tests.statement.format.page` makes them anew."""
    assert set(TABLES) == set(page.tables())
    assert page.made_anew(PAGE) == PAGE


@pytest.mark.parametrize("name", golden.rows())
def test_a_row_is_read_by_the_page_alone(name: str) -> None:
    row = golden.rows()[name]
    read = content(row.to_bytes())
    assert (read["spec"], read["statement"]) == (said(row.spec), said(row.privacy))
    assert row.privacy.over_time is not None
    unit = Fraction(2**row.privacy.over_time.dropped_bits, 2 ** read["scale_bits"])
    assert [each * unit for each in counters(read)] == row.counters.tolist()


@pytest.mark.parametrize("name", RELEASES)
def test_a_release_is_read_by_the_page_alone(name: str) -> None:
    release = RELEASES[name]
    read = content(release.to_bytes())
    assert (read["spec"], read["statement"]) == (said(release.spec), said(release.privacy))
    unit = Fraction(1, 2 ** read["scale_bits"])
    assert [each * unit for each in counters(read)] == release.counters.ravel().tolist()


def test_a_file_is_read_by_the_page_alone(tmp_path: Any) -> None:
    path = tmp_path / "file"
    writer = release_file.RecordWriter(path.open("wb"))
    for element in (SKETCH, ("Oslo", COUNTS), ROW, ("Oslo", ROW), Unreleased(SKETCH.privacy)):
        writer.write(release_file.to_record(element))
    writer.close()
    data, place, found = path.read_bytes(), 10, []

    def take(size: int) -> bytes:
        nonlocal place
        place += size
        return data[place - size : place]

    assert data[:10].hex(" ") == CONSTANTS["header of a file"]
    while size := int.from_bytes(take(8), "little"):
        record = take(size)
        assert sealed(data[:place])[-16:] == take(16)
        kind, rest, key = numbered(CONSTANTS["kinds of records"].join("``"))[record[0]], record[1:], b""
        if kind == "spent":
            assert read("`Stated`", "", msgpack.unpackb(rest)) == said(SKETCH.privacy)
            continue
        if kind.endswith("pair"):
            end = 4 + int.from_bytes(rest[:4], "little")
            key, rest = rest[4:end], rest[end:]
        of_kind = TimelineRow if kind.startswith("row") else ReleasedSketch
        found.append((kind, key, of_kind.from_bytes(rest)))
    assert found == [
        *[("release", b"", SKETCH), ("pair", b"sOslo", COUNTS)],
        *[("row", b"", ROW), ("row_pair", b"sOslo", ROW)],
    ]
    assert sealed(data[:place]) == data


def test_a_statement_is_stored_with_all_its_fields() -> None:
    stored = {field for field, _, _ in TABLES["Stated"]}
    assert {field.name for field in dataclasses.fields(PrivacyStatement)} - stored == {"own_total"}
