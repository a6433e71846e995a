"""No character of a key, an item or a name steers a terminal; files and programs get what is there.

Every control character, mark of direction and end of a line goes through each command that prints.
"""

from __future__ import annotations

import csv
import io
import json
import sys
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from beam_dpsketch import ListedItems, PrivacySpec, ReleaseTerms, release
from beam_dpsketch.cli import main, output, stored, text
from beam_dpsketch.exact.sketches import raw_type
from tests.cli.consoles import write

STEERING = [chr(code) for code in range(0x110000) if unicodedata.category(chr(code)) in ("Cc", "Cf", "Zl", "Zp")]
ODD = "a" + "".join(STEERING[:65]) + "b"  # C0, DEL and C1
MORE_ODD = "a" + "".join(STEERING[65:]) + "b"
FORMULAS = ["=1+1", "+1", "-1", "@x", "\tx", "\rx", "\nx", "\uff1dx", "\uff0bx", "\uff0dx", "\uff20x"]
TAME = ["tame", "other"]
SHAPES = ("table", "json", "csv")


class Terminal(io.StringIO):
    """A stream that people read."""

    def isatty(self) -> bool:
        return True


def write_releases(path: str, keys: list[str], items: list[Any]) -> None:
    spec = ListedItems(items)
    raw = raw_type(spec)(spec).accumulate(items * 1000)  # or noise would decide what is noted
    terms = ReleaseTerms(PrivacySpec(rho=1.0))
    write(Path(path), *((key, release(raw, terms)) for key in keys))


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files with odd keys, items and names, and such with tame ones, in which all else is alike."""
    monkeypatch.chdir(tmp_path)
    name = "".join(each for each in ODD + MORE_ODD if each not in "/\0")
    for file, words in (("odd", [ODD, MORE_ODD]), ("tame", TAME)):
        Path(file).mkdir()
        write_releases(f"{file}/x.dpsketch", words, words)
        Path(f"{file}/lines.txt").write_text("".join(f"{word}\n" for word in words if "\n" not in word) or "tame\n")
        Path(f"{file}/s.json").write_text(
            json.dumps({"kind": "frequencies", "item": words[0], "privacy": {"rho": 1}, "privacy_unit": "record"})
        )
        Path(f"{file}/wrong.json").write_text(json.dumps({words[0]: 1}))
        named = (name.encode()[:80].decode(errors="ignore") if file == "odd" else "y") + ".json"
        Path(file, named).write_text("{")
        Path(file, "visits.csv").write_text("city\nOslo\n")


def commands(file: str) -> list[list[str]]:
    """Every command that prints what a file holds, or its name, in every shape, with and without an answer."""
    releases = f"{file}/x.dpsketch"
    words = [ODD, MORE_ODD] if file == "odd" else TAME
    broken = next(str(path) for path in Path(file).glob("*.json") if path.stem not in ("s", "wrong"))
    shaped = [
        ["inspect", releases],
        ["inspect", releases, "--privacy"],
        ["query", releases, "--top", "2"],
        ["query", releases, "--estimate", *words],
        ["query", releases, "--estimate", words[0], "--key", words[1]],
        ["query", releases, "--total-weight"],
        ["query", releases, "--quantile", "0.5"],
        ["spent", releases],
    ]
    settings = f"{file}/s.json"
    return [
        *([*command, "--format", shape] for command in shaped for shape in SHAPES),
        ["plot", releases, "--cdf", "--output", f"{file}/x.svg"],
        ["plot", releases, "--top", "2", "--output", f"{file}/x.svg", "--value-label", words[1], "--replace"],
        ["inspect", releases, "--output", f"{file}/x.parquet", "--replace"],
        ["inspect", f"{file}/{words[0][1:9]}".replace("\0", "")],
        ["plan", "--config", settings],
        ["plan", "--config", settings, "--format", "json"],
        ["check", settings, f"{file}/wrong.json", broken],
        ["check", settings, "--against", f"{file}/visits.csv"],
        ["run", f"{file}/visits.csv", "--config", settings, "--output", f"{file}/made.dpsketch"],
        ["query", releases, "--format", words[0]],
        [words[0]],
    ]


def printed(monkeypatch: pytest.MonkeyPatch, arguments: list[str], stream: type[io.StringIO]) -> tuple[str, str]:
    """Return what a command writes to stdout and stderr."""
    streams = stream(), stream()
    monkeypatch.setattr(sys, "stdout", streams[0])
    monkeypatch.setattr(sys, "stderr", streams[1])
    main.main(arguments)
    return streams[0].getvalue(), streams[1].getvalue()


def steers(shown: str) -> bool:
    return not shown.replace("\n", "").isprintable()


def assert_is_json(lines: str) -> None:
    for line in lines.splitlines():
        try:
            json.loads(line)
        except ValueError as error:
            raise AssertionError from error


def check_terminal(monkeypatch: pytest.MonkeyPatch, stream: type[io.StringIO] = Terminal) -> None:
    """Odd words must print nothing that steers, and as many lines as tame ones: none is forged."""
    for odd, tame in zip(commands("odd"), commands("tame"), strict=True):
        found, expected = printed(monkeypatch, odd, stream), printed(monkeypatch, tame, stream)
        for one, other in zip(found, expected, strict=True):
            assert not steers(one), odd[:1]
            assert one.count("\n") == other.count("\n"), odd[:1]
        if "json" in odd:
            assert_is_json(found[0])


def test_nothing_that_a_file_holds_steers_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(STEERING) > 200
    check_terminal(monkeypatch)
    assert not steers(Path("odd/x.svg").read_text())


def _note_as_it_is(message: object) -> None:
    sys.stderr.write(f"dpsketch: {message}\n")


FAULTS: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "titles as they are": lambda patch: patch.setattr(stored, "printable", str),
    "notes as they are": lambda patch: patch.setattr(main, "note", _note_as_it_is),
    "cells as they are": lambda patch: patch.setattr(text, "printable", str),
    "CSV as for programs": lambda patch: patch.setattr(output, "is_terminal", lambda _: False),
    "JSON in Unicode": lambda patch: patch.setattr(output, "one_line", lambda row: json.dumps(row, ensure_ascii=False)),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_found(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    FAULTS[fault](monkeypatch)
    with pytest.raises(AssertionError):
        check_terminal(monkeypatch)


@pytest.mark.parametrize("shape", SHAPES)
def test_programs_get_what_is_there(shape: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table and stderr are for people, and are escaped everywhere."""
    for arguments in (["inspect", "--privacy"], ["query", "--top", "2"]):
        command = [arguments[0], "odd/x.dpsketch", *arguments[1:], "--format", shape]
        answer, error = printed(monkeypatch, command, io.StringIO)
        assert not steers(error)
        if shape == "table":
            assert not steers(answer)
            continue
        rows = [*csv.DictReader(io.StringIO(answer))] if shape == "csv" else map(json.loads, answer.splitlines())
        assert {row["key"] for row in rows} == {ODD, MORE_ODD}


def cells(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> list[dict[str, str]]:
    answer, _ = printed(monkeypatch, arguments, io.StringIO)
    return [*csv.DictReader(io.StringIO(answer, newline=""))]


@pytest.mark.parametrize(
    "command",
    [
        ["inspect", "x.dpsketch", "--privacy", "--format", "csv"],
        ["query", "x.dpsketch", "--top", "11", "--format", "csv"],
    ],
    ids=["inspect", "query"],
)
def test_cells_that_are_formulas_can_be_escaped(command: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers stay numbers, such as estimates below 0."""
    write_releases("x.dpsketch", FORMULAS, [*FORMULAS, -5])
    as_they_are, escaped = cells(command, monkeypatch), cells([*command, "--escape-formulas"], monkeypatch)
    assert {row["key"] for row in as_they_are} == set(FORMULAS)
    words = ["key", "item"]
    for before, after in zip(as_they_are, escaped, strict=True):
        for name, value in before.items():
            is_formula = name in words and value in FORMULAS
            assert after[name] == (f"'{value}" if is_formula else value)


def test_column_names_that_are_formulas_can_be_escaped() -> None:
    """Names of key columns come from the input, as cells do."""
    assert output.as_csv([{"=1+1": "=2"}], text.defused) == "'=1+1\n'=2\n"
    assert output.as_csv([{"=1+1": "=2"}]) == "=1+1\n=2\n"


def test_formulas_are_of_csv_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for arguments in (
        ["inspect", "tame/x.dpsketch"],
        ["query", "tame/x.dpsketch", "--total-weight", "--format", "json"],
    ):
        assert (
            "--escape-formulas is supported for CSV only"
            in printed(monkeypatch, [*arguments, "--escape-formulas"], Terminal)[1]
        )


def test_a_shown_value_is_escaped_as_text_alone() -> None:
    assert [text.defused(each) for each in (-1, -0.5, "-1", ("=1",), b"=", None)] == [
        "-1",
        "-0.5",
        "'-1",
        "(=1)",
        "0x3d",
        "",
    ]
