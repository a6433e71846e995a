"""Files of releases: read back exactly, refused with `FormatError` and nothing else, and read without Beam."""

from __future__ import annotations

import contextlib
import hashlib
import io
import pickle
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_dpsketch import CountSketch, FormatError, SketchSpec, load, read_releases
from beam_dpsketch.answers.flat import ReleasedCountMin, ReleasedCountSketch
from beam_dpsketch.answers.over_time import TimelineRow
from beam_dpsketch.answers.release_file import RecordWriter, from_record, read_records, to_record
from beam_dpsketch.answers.released_sketch import ReleasedSketch
from beam_dpsketch.encodings import encode
from tests.helpers import by_hand, strategies
from tests.helpers.by_hand import COUNTS, ROW, SKETCH

SPEC = SketchSpec(depth=1, width=3)
OTHER = by_hand.released(CountSketch, SPEC, [[6, 0, -1]])
releases = st.sampled_from([SKETCH, OTHER, COUNTS])
rows = st.sampled_from([ROW, by_hand.row(0)])
elements = st.one_of(releases, rows, st.tuples(strategies.items, releases | rows))


def written(*values: Any) -> bytes:
    file = io.BytesIO()
    file.close = lambda: None  # type: ignore[method-assign]
    writer = RecordWriter(file)
    for value in values:
        writer.write(to_record(value))
    writer.close()
    return file.getvalue()


def read(data: bytes) -> list[Any]:
    return list(map(from_record, read_records(io.BytesIO(data))))


def sealed(body: bytes) -> bytes:
    return body + hashlib.blake2b(body, digest_size=16).digest()


def is_refused_or_written_again(data: bytes) -> bool:
    """The one law of the reader: refuse with `FormatError`, or have read the only bytes of these elements."""
    try:
        return written(*read(data)) == data
    except FormatError:
        return True


SMALL = written(SKETCH, ("Oslo", COUNTS), ROW, (7, ROW))
END = SMALL[-24:]


@given(st.lists(elements, max_size=4))
def test_what_is_written_is_read_in_its_order(values: list[Any]) -> None:
    found = read(written(*values))
    assert found == values
    assert [type(each) for each in found] == [type(each) for each in values]


def test_the_layout_is_the_one_that_the_page_describes() -> None:
    release = SKETCH.to_bytes()

    def record(data: bytes) -> bytes:
        return len(data).to_bytes(8, "little") + data

    data = b"DPSKFILE\x01\x00"
    for each in (b"\x00" + release, b"\x01\x05\x00\x00\x00sOslo" + COUNTS.to_bytes()):
        data = sealed(data + record(each))
    data = sealed(data + record(b"\x02" + ROW.to_bytes()))
    data = sealed(data + record(b"\x03" + len(encode(7)).to_bytes(4, "little") + encode(7) + ROW.to_bytes()))
    assert sealed(data + bytes(8)) == SMALL


def test_a_row_and_a_release_are_not_taken_for_each_other() -> None:
    for kind, element in ((b"\x00", ROW), (b"\x02", SKETCH)):
        with pytest.raises(FormatError, match="timeline row"):
            from_record(kind + element.to_bytes())


def test_a_key_that_looks_like_a_row_stays_a_key() -> None:
    pair = (("TimelineRow", 2, 5), SKETCH)
    assert from_record(to_record(pair)) == pair


def test_a_file_without_releases_is_read_and_an_empty_one_is_refused() -> None:
    assert read(written()) == []
    with pytest.raises(FormatError, match="ends too early"):
        read(b"")


def test_every_cut_is_refused_and_so_is_a_file_that_was_not_closed() -> None:
    for size in range(len(SMALL)):
        with pytest.raises(FormatError):
            read(SMALL[:size])
    file = io.BytesIO()
    RecordWriter(file).write(to_record(SKETCH))
    with pytest.raises(FormatError, match="ends too early"):
        read(file.getvalue())


@pytest.mark.one_fast_case
@pytest.mark.parametrize("flip", [1, 2, 4, 8, 16, 32, 64, 128, 255])
def test_every_change_of_one_byte_is_refused(flip: int) -> None:
    for place in range(len(SMALL)):
        with pytest.raises(FormatError):
            read(SMALL[:place] + bytes([SMALL[place] ^ flip]) + SMALL[place + 1 :])


def test_no_damaged_record_is_returned_before_the_error() -> None:
    """Steps after `ReadReleases` may see what comes before a damaged place, and nothing else."""
    assert SMALL.count(b"Oslo") == 1
    records = map(from_record, read_records(io.BytesIO(SMALL.replace(b"Oslo", b"Bonn"))))
    assert next(records) == SKETCH
    with pytest.raises(FormatError, match="a digest does not match"):
        next(records)


@pytest.mark.parametrize("more", [b"\x00", bytes(8), bytes(24), SMALL])
def test_bytes_after_the_end_are_refused(more: bytes) -> None:
    with pytest.raises(FormatError, match="bytes follow the end"):
        read(SMALL + more)


def test_a_record_that_was_moved_or_taken_out_is_noticed() -> None:
    data = written(SKETCH, OTHER)
    middle = len(written(SKETCH)) - len(END)
    header, one, two = data[:10], data[10:middle], data[middle : -len(END)]
    assert len(one) == len(two)
    for records in (two + one, one + one, two, two + two):
        with pytest.raises(FormatError, match="a digest does not match"):
            read(header + records + END)


HEADER = st.sampled_from([b"", SMALL[:10], SMALL[:18], SMALL[:60]])


@settings(max_examples=300)
@given(HEADER, st.binary(max_size=300))
def test_any_bytes_are_refused_with_format_error(start: bytes, data: bytes) -> None:
    for attempt in (start + data, sealed(start + data + bytes(8))):
        assert is_refused_or_written_again(attempt)


@settings(max_examples=300)
@given(elements, st.data())
def test_mutants_of_a_record_are_refused_or_written_again(element: Any, data: st.DataObject) -> None:
    record = bytearray(to_record(element))
    for _ in range(data.draw(st.integers(1, 3))):
        place, size = data.draw(st.integers(0, 40)), data.draw(st.integers(0, 8))
        record[place : place + size] = data.draw(st.binary(max_size=8))
    with contextlib.suppress(FormatError):
        assert to_record(from_record(bytes(record))) == record


RELEASE = SKETCH.to_bytes()
DAMAGED = {
    "no kind": b"",
    "unknown kind": b"\x03" + RELEASE,
    "no release": b"\x00",
    "not a release": b"\x00something else",
    "cut release": b"\x00" + RELEASE[:-1],
    "long release": b"\x00" + RELEASE + b"x",
    "long key": b"\x01\xff\xff\xff\xff" + RELEASE,
    "empty key": b"\x01\x00\x00\x00\x00" + RELEASE,
    "key of no type": b"\x01\x01\x00\x00\x00?" + RELEASE,
    "key of a short integer": b"\x01\x02\x00\x00\x00u1" + RELEASE,
    "key of invalid text": b"\x01\x02\x00\x00\x00s\xff" + RELEASE,
    "cut node": b"\x02\x00\x00",
    "pickle": b"\x00" + pickle.dumps(SKETCH),
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_damaged_records_raise_format_error(damage: str) -> None:
    with pytest.raises(FormatError):
        from_record(DAMAGED[damage])


def test_a_key_nested_without_end_raises_format_error() -> None:
    key = b""
    for _ in range(20_000):
        key = b"t" + len(key).to_bytes(4, "little") + key
    with pytest.raises(FormatError):
        from_record(b"\x01" + len(key).to_bytes(4, "little") + key + RELEASE)


@pytest.mark.slow
def test_a_key_of_a_million_parts_is_read_in_linear_time() -> None:
    key = tuple([""] * 1_000_000)
    start = time.process_time()
    assert from_record(to_record((key, SKETCH))) == (key, SKETCH)
    assert time.process_time() - start < 20  # quadratic: minutes


@pytest.mark.parametrize("length", [1 << 40, (1 << 64) - 1])
def test_a_length_beyond_the_file_allocates_nothing(length: int) -> None:
    data = SMALL[:10] + length.to_bytes(8, "little") + bytes(100)
    tracemalloc.start()
    with pytest.raises(FormatError, match="ends too early"):
        read(data)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 << 20


class Drops(io.BytesIO):
    """A file that returns one byte at a time, as those of a network may."""

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(min(size or 0, 1))


def test_short_reads_are_not_the_end() -> None:
    assert list(map(from_record, read_records(Drops(SMALL)))) == [SKETCH, ("Oslo", COUNTS), ROW, (7, ROW)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Files of two windows, and one of pairs, in a folder whose name looks like a pattern."""
    folder = tmp_path / "day[1]"
    folder.mkdir()
    for name, values in {"out-2": [OTHER], "out-1": [SKETCH, SKETCH], "pairs": [("Oslo", COUNTS), (7, COUNTS)]}.items():
        (folder / f"{name}.dpsketch").write_bytes(written(*values))
    return folder


def test_local_files_are_read_in_the_order_of_their_names(folder: Path) -> None:
    assert read_releases(folder / "out-2.dpsketch") == [OTHER]
    folder = folder.rename(folder.with_name("day"))
    assert read_releases(f"{folder}/out-*") == [SKETCH, SKETCH, OTHER]
    assert read_releases(folder / "out-*", ReleasedSketch) == [SKETCH, SKETCH, OTHER]
    assert read_releases(folder / "pairs.dpsketch") == [("Oslo", COUNTS), (7, COUNTS)]
    assert read_releases(folder / "pairs.dpsketch", ReleasedCountMin, keyed=True) == [("Oslo", COUNTS), (7, COUNTS)]
    with pytest.raises(FileNotFoundError, match=r"no file matches .*none"):
        read_releases(folder / "none-*")


def test_a_folder_is_read_as_its_files(folder: Path) -> None:
    assert read_releases(folder) == [SKETCH, SKETCH, OTHER, ("Oslo", COUNTS), (7, COUNTS)]
    assert read_releases(str(folder)) == read_releases(folder)
    folder.joinpath("empty").mkdir()
    with pytest.raises(FileNotFoundError, match=r"no file matches .*empty/\*\.dpsketch"):
        read_releases(folder / "empty")


def test_a_saved_release_is_loaded_and_never_replaced(folder: Path) -> None:
    SKETCH.save(folder / "new.dpsketch")
    assert load(folder / "new.dpsketch") == load(str(folder / "new.dpsketch")) == SKETCH
    assert read_releases(folder / "new.dpsketch") == [SKETCH]
    with pytest.raises(ValueError, match=r"path must be a new file, and .*new\.dpsketch already exists"):
        OTHER.save(folder / "new.dpsketch")
    assert load(folder / "new.dpsketch") == SKETCH
    (folder / "row.dpsketch").write_bytes(written(ROW))
    for name, number in (("out-1", 2), ("pairs", 2), ("row", 1)):
        with pytest.raises(ValueError, match=rf"with one release and no key, got {number} record\(s\)\. Use read_rel"):
            load(folder / f"{name}.dpsketch")
    with pytest.raises(FileNotFoundError):
        load(folder / "none.dpsketch")


@pytest.mark.parametrize(
    ("name", "arguments", "found"),
    [
        ("out-1", {"kind": ReleasedCountMin}, "ReleasedCountSketch"),
        ("out-1", {"kind": TimelineRow}, "ReleasedCountSketch"),
        ("out-1", {"kind": ReleasedCountSketch, "keyed": True}, "ReleasedCountSketch"),
        ("out-1", {"keyed": True}, "ReleasedCountSketch"),
        ("pairs", {"kind": ReleasedCountMin}, r"\(key, ReleasedCountMin\) pairs"),
        ("pairs", {"kind": ReleasedCountSketch, "keyed": True}, r"\(key, ReleasedCountMin\) pairs"),
    ],
)
def test_what_is_not_expected_is_refused_by_name(name: str, arguments: Any, found: str, folder: Path) -> None:
    with pytest.raises(
        TypeError, match=rf"which contain {found}\. Change them, or read other files \[dpsketch-E712\]$"
    ):
        read_releases(folder / f"{name}.dpsketch", **arguments)


def test_an_error_names_the_damaged_file(folder: Path) -> None:
    path = folder / "out-2.dpsketch"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(FormatError, match=r"out-2\.dpsketch is damaged or not a release file"):
        read_releases(path)


def test_reading_imports_no_beam(folder: Path) -> None:
    code = (
        "import sys, beam_dpsketch\nfrom beam_dpsketch.answers.flat import ReleasedCountSketch\n"
        "(released,) = beam_dpsketch.read_releases(sys.argv[1], ReleasedCountSketch)\n"
        "print(released.counters.tolist(), 'apache_beam' in sys.modules)"
    )
    command = [sys.executable, "-c", code, str(folder / "out-2.dpsketch")]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert output == "[[6, 0, -1]] False\n"


def test_keys_are_written_in_canonical_bytes() -> None:
    assert to_record((("a", -1), SKETCH))[5 : -len(RELEASE)] == encode(("a", -1))
