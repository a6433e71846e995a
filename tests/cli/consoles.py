"""Console blocks of pages: run each command, compare what it prints, or write it anew.

python -m tests.cli.consoles
"""

from __future__ import annotations

import contextlib
import io
import os
import pathlib
import re
import shlex
import shutil
import tempfile
from typing import Any

from beam_dpsketch import Released
from beam_dpsketch.answers.notes import ONE_RECORD_EACH
from beam_dpsketch.answers.over_time import TimelineRow
from beam_dpsketch.answers.release_file import RecordWriter, to_record
from beam_dpsketch.cli.main import main
from tests.helpers import golden

ROOT = pathlib.Path(__file__).parents[2]
DOCUMENTED = ("command_line.md", "explore.md", "privacy_officers.md")
PAGES = (*(ROOT / "docs" / name for name in DOCUMENTED), pathlib.Path(__file__).with_name("golden.md"))
_BLOCK = re.compile(r"(?<=```console\n).*?(?=```)", re.DOTALL)
_NUMBER = re.compile(r"-?\d+\.\d+(?:e-?\d+)?")
CLIPPED = re.compile(r"up to [\d,]+(?= privacy ids may be clipped)")


def make_folder(folder: pathlib.Path) -> None:
    """Fill a folder with the files that the blocks are about."""
    shutil.copytree(ROOT / "docs" / "releases", folder, dirs_exist_ok=True)
    (folder / "vectors").mkdir()
    for name, element in {**golden.good(), **golden.rows()}.items():
        kind = type(element)
        stored = kind.from_bytes(golden.path(name).read_bytes())
        assert isinstance(stored, (Released, TimelineRow))
        write(folder / "vectors" / f"{name}.dpsketch", stored)


def run(*arguments: str) -> tuple[int, str]:
    """Run a command in this process; return its exit code, and what it prints to stdout and stderr in this order."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        try:
            code = main(arguments)
        except SystemExit as stopped:  # of --help
            code = int(stopped.code or 0)
    return code, printed.getvalue()


def write(path: pathlib.Path, *elements: Any) -> None:
    """Write a file of releases."""
    writer = RecordWriter(path.open("wb"))
    for element in elements:
        writer.write(to_record(element))
    writer.close()


def blocks(page: pathlib.Path) -> list[str]:
    """Return the console blocks of a page."""
    return _BLOCK.findall(page.read_text(encoding="utf-8"))


def run_block(block: str) -> str:
    """Return a block as its commands print it now; `[1]` is an exit code other than 0."""
    made = []
    for line in (line for line in block.splitlines() if line.startswith("$ ")):
        program, *arguments = shlex.split(line[2:])
        assert program == "dpsketch", line
        code, printed = run(*arguments)
        kept = [each for each in printed.splitlines(keepends=True) if ONE_RECORD_EACH.message not in each]
        printed = "".join(kept)  # noise may add this note, or leave it out
        made.append(f"{line}\n{printed}" + (f"[{code}]\n" if code else ""))
    return "".join(made)


def run_alone(block: str) -> str:
    """Run a block in a folder of its own, where no file of another is."""
    with tempfile.TemporaryDirectory() as folder:
        make_folder(pathlib.Path(folder))
        os.chdir(folder)
        try:
            return run_block(block)
        finally:
            os.chdir(ROOT)


def is_equal(first: str, second: str) -> bool:
    """Whether two texts are equal, up to the last digits of numbers, which depend on the processor.

    How many people were clipped is not compared: it is noisy in releases that a block makes.
    """
    first, second = (CLIPPED.sub("some", text) for text in (first, second))
    numbers = [list(map(float, _NUMBER.findall(text))) for text in (first, second)]
    if _NUMBER.sub("#", first) != _NUMBER.sub("#", second):
        return False
    return all(abs(one - other) <= 1e-5 * abs(one) for one, other in zip(*numbers, strict=True))


def write_anew() -> None:
    """Run all blocks of all pages and write what they print."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        page.write_text(_BLOCK.sub(lambda block: run_alone(block.group()), text), encoding="utf-8")


if __name__ == "__main__":
    write_anew()
