"""Damaged files and mistyped command lines: an error in one line and an exit code, never a traceback."""

from __future__ import annotations

import contextlib
import io
import random
import shlex
from pathlib import Path
from typing import Any

import pytest

from beam_dpsketch.answers.release_file import RecordWriter, from_record, read_records
from beam_dpsketch.cli.main import main
from beam_dpsketch.statement.release_format import DIGEST_BYTES
from tests.cli.consoles import PAGES, blocks
from tests.helpers.stored import sealed

LINES, FILES = 500, 1_500
SERVING = "expansion-service"  # runs until it is stopped; tests/cli/test_expansion_service.py has its mistakes
ODD = ["", "-", "--", "-1e3", "nan", "inf", "-inf", "1e999", "9" * 5000, "\0", "\udcff", "\x1b[31m", "\u0663", "[", "*"]
ODD += [
    "..",
    "/",
    "**",
    "/dev/null",
    "--top",
    "--format",
    "json",
    "--key",
    "--cdf",
    "999999999999",
    "0",
    "-1",
    "1.5",
    "1h",
]
ODD += ["0x", "0xzz", "10.0.0.256", "2024-13-01", "0001-01-01T00:00:00+23:59", "--horizon", "--windows", "--candidates"]
ODD += ["--config", "visits.yaml", "wrong.yaml", "--kind", "--domain", "{", "ipv4", "{type: integer, low: 0, high: 9}"]
ODD += [
    "--max-norm",
    "auto",
    "--max-weight",
    "--select-keys",
    "--assume-public-keys",
    "--histogram",
    "--so-far",
    "x.svg",
]
ODD += ["cities.txt", "--type", "int", "+-1", "=1", "--replace", "--output", "x.csv", "--privacy", "--delta", "1e-400"]
SMALL = ("delays", "cities", "words", "vectors/dyadic_timestamps", "vectors/listed_items", "vectors/groups_text")
QUESTIONS = [
    ["--quantile", "0", "0.5", "1"],
    ["--rank", "3"],
    ["--cdf", "5"],
    ["--estimate", "Oslo"],
    ["--top", "3"],
    ["--total-weight"],
    ["--privacy-units"],
    ["--records", "--horizon", "1714521600", "1h", "6"],
]

COMMANDS = [
    ["inspect", "damaged.dpsketch", "--privacy"],
    ["spent", "damaged.dpsketch", "cities.dpsketch"],
    ["inspect", "damaged.dpsketch", "--output", "damaged.parquet", "--replace"],
]


def outcome(arguments: list[str]) -> tuple[int, str]:
    """Run a command; return its exit code and what is on stderr. Other exceptions than that of --help get through."""
    error = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(error):
        try:
            code = main(arguments)
        except SystemExit as stopped:
            code = int(stopped.code or 0)
    return code, error.getvalue()


def is_well_told(code: int, error: str) -> bool:
    """Whether an exit code is one of three, and all of stderr is lines of ours, with one of them for a failure."""
    lines = error.splitlines()
    return code in (0, 1, 2) and all(line.startswith("dpsketch: ") for line in lines) and (code == 0 or bool(lines))


def mutated_line(chance: random.Random, lines: list[list[str]]) -> list[str]:
    """A command line of the pages with words that were changed, moved, doubled or left out."""
    line = list(chance.choice(lines))
    for _ in range(chance.randint(1, 3)):
        place = chance.randrange(len(line)) if line else 0
        match chance.randrange(5):
            case 0:
                line[place : place + 1] = [chance.choice(ODD)]
            case 1:
                line[place:place] = [chance.choice(ODD)]
            case 2:
                line[place : place + 1] = []
            case 3:
                line[place:place] = [chance.choice(chance.choice(lines))]
            case _:
                chance.shuffle(line)
    return line


def mutated_file(chance: random.Random, data: bytes) -> bytes:
    """A file with a few changed bytes; half of the time inside its releases, under digests that match."""
    if chance.random() < 0.5:
        return changed(chance, data)
    file = io.BytesIO()
    file.close = lambda: None  # type: ignore[method-assign]
    writer = RecordWriter(file)
    for record in read_records(io.BytesIO(data)):
        element: Any = from_record(record)
        release = (element[1] if isinstance(element, tuple) else element).to_bytes()
        before = record.removesuffix(release)
        writer.write(before + sealed(changed(chance, release[:-DIGEST_BYTES])))
    writer.close()
    return file.getvalue()


def changed(chance: random.Random, data: bytes) -> bytes:
    """Bytes with some changed, removed or inserted."""
    found = bytearray(data)
    for _ in range(chance.randint(1, 4)):
        place = chance.randrange(len(found) + 1)
        found[place : place + chance.randint(0, 2)] = chance.randbytes(chance.randint(0, 2))
    return bytes(found)


@pytest.mark.slow
@pytest.mark.usefixtures("folder")
def test_mistyped_command_lines_are_told_in_lines_of_ours() -> None:
    chance = random.Random(19)
    shown = [line for page in PAGES for block in blocks(page) for line in block.splitlines()]
    lines = [shlex.split(line)[2:] for line in shown if line.startswith("$ dpsketch ") and SERVING not in line]
    for _ in range(LINES):
        line = mutated_line(chance, lines)
        if "/" in line or ".." in line or "**" in line:
            continue  # the whole disk
        code, error = outcome(line)
        assert is_well_told(code, error), (line, code, error)


@pytest.mark.slow
def test_damaged_files_are_told_in_lines_of_ours(folder: Path) -> None:
    chance, codes = random.Random(20), dict.fromkeys(range(3), 0)
    whole = [(folder / f"{name}.dpsketch").read_bytes() for name in SMALL]
    whole += [path.read_bytes() for path in sorted((folder / "rides").iterdir())[:1]]
    for _ in range(FILES):
        Path("damaged.dpsketch").write_bytes(mutated_file(chance, chance.choice(whole)))
        line = chance.choice([["query", "damaged.dpsketch", *question] for question in QUESTIONS] + COMMANDS)
        code, error = outcome(line)
        assert is_well_told(code, error), (line, code, error)
        codes[code] += 1
    assert min(codes.values()) > FILES // 200  # changed bytes are found, or lead to other answers


@pytest.mark.usefixtures("folder")
def test_some_mistyped_lines_and_damaged_files_are_told_in_lines_of_ours() -> None:
    chance = random.Random(21)
    data = Path("cities.dpsketch").read_bytes()
    for _ in range(20):
        Path("damaged.dpsketch").write_bytes(mutated_file(chance, data))
        assert is_well_told(*outcome(["query", "damaged.dpsketch", "--total-weight"]))
    for odd in ODD:
        for line in (
            ["query", "delays.dpsketch", f"--rank={odd}"],
            ["inspect", f"none{odd}"],
            ["plan", "--config", "visits.yaml", f"--epsilon={odd}", f"--max-weight={odd}"],
            ["check", f"none{odd}"],
        ):
            assert is_well_told(*outcome(line)), line


def test_a_traceback_and_a_failure_without_a_word_are_found() -> None:
    assert not is_well_told(1, "")
    assert not is_well_told(3, "dpsketch: x\n")
    assert not is_well_told(0, "Traceback (most recent call last):\n")
