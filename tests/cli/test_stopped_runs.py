"""`dpsketch run` that is killed, or finds no room: a whole file or none under its name, and a word on what is left."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from beam_dpsketch import CountMin, FormatError, SketchSpec, read_releases
from beam_dpsketch.answers.release_file import RecordWriter
from beam_dpsketch.cli import releasing as command
from beam_dpsketch.cli import text
from beam_dpsketch.cli.main import main
from beam_dpsketch.frames.releasing import KeyedReleases
from tests.cli.consoles import run
from tests.helpers import by_hand

LINE = ["run", "visits.csv", "--kind", "frequencies", "--item", "city", "--rho", "1", "--privacy-unit", "record"]
LINE += ["--key", "city", "--assume-public-keys", "--output", "out.dpsketch"]
MADE = [by_hand.released(CountMin, SketchSpec(depth=1, width=3), [[1, 2, n]]) for n in range(4)]
CALLS = ["chmod", "link", "replace", "unlink", "lstat"]
KILLS = 40


class Killed(BaseException):
    """Nothing runs after it."""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("visits.csv").write_text("city\nOslo\nRome\n")
    return tmp_path


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Take a release that is made already for that of the command; say how often it was asked for."""
    calls: list[int] = []

    def release_frame(*_: Any) -> Any:
        calls.append(1)
        return KeyedReleases(enumerate(MADE))

    monkeypatch.setattr(command, "release_frame", release_frame)
    return calls


def kill_at(step: int, patch: pytest.MonkeyPatch) -> list[str]:
    """Stop everything before this step of writing; a write stops half way. Return the steps that were made."""
    made: list[str] = []

    def wrapped(name: str, original: Callable[..., Any], half: Callable[..., Any] | None = None) -> Callable[..., Any]:
        def call(*given: Any, **named: Any) -> Any:
            if len(made) > step:
                raise Killed
            made.append(name)
            if len(made) > step:
                if half is not None:
                    half(*given)
                raise Killed
            return original(*given, **named)

        return call

    for name in CALLS:
        patch.setattr(os, name, wrapped(name, getattr(os, name)))
    patch.setattr(tempfile, "mkstemp", wrapped("mkstemp", tempfile.mkstemp))
    append = RecordWriter._append
    patch.setattr(
        RecordWriter, "_append", wrapped("append", append, lambda to, data: append(to, data[: len(data) // 2]))
    )
    return made


def kinds_of_files() -> tuple[bool, bool]:
    """Whether the release is there, which must be whole, and whether an unfinished file is."""
    left = [name for name in os.listdir() if name.startswith(".")]
    assert all(name.startswith(".out.dpsketch.unfinished.") for name in left)
    if not os.path.exists("out.dpsketch"):
        return False, bool(left)
    assert [key for key, _ in read_releases("out.dpsketch")] == [0, 1, 2, 3]  # type: ignore[misc]
    return True, bool(left)


@pytest.mark.parametrize("replace", [True, False])
@pytest.mark.usefixtures("drawn")
def test_killed_at_any_step_a_run_leaves_a_whole_file_or_none_and_the_next_speaks_of_the_rest(
    replace: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = [*LINE, "--replace"] if replace else LINE
    outcomes = set()
    for step in range(KILLS):
        with monkeypatch.context() as patch:
            made = kill_at(step, patch)
            with contextlib.suppress(Killed):
                run(*line)
        whole, left = kinds_of_files()
        outcomes.add((whole, left, len(made) > step))
        code, printed = run(*LINE)
        assert ("remains from an interrupted run. It may contain a release" in printed) is (left and not whole)
        assert ("already exists, and the budget of its release is spent" in printed, code) == (
            (True, 2) if whole else (False, 0)
        )
        for name in os.listdir():
            if name != "visits.csv":
                os.unlink(name)
        if len(made) <= step:
            break
    assert step > 10
    assert {(False, True, True), (True, False, False)} <= outcomes
    assert ((True, True, True) in outcomes) is not replace  # between the link and the end


@pytest.mark.usefixtures("drawn")
def test_a_file_that_is_written_under_its_name_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def write(path: str, elements: Any, **_: Any) -> None:
        with Path(path).open("wb") as file:
            writer = RecordWriter(file)
            for element in elements:
                writer.write(command.to_record(element))
            writer.close()

    monkeypatch.setattr(command, "_write", write)
    with monkeypatch.context() as patch:
        kill_at(6, patch)
        with pytest.raises(Killed):
            run(*LINE)
    with pytest.raises(FormatError):
        kinds_of_files()


def test_a_full_disk_is_one_line_that_names_the_file_and_leaves_nothing(drawn: list[int]) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    code, printed = 0, ""
    for size in (1, 300, 800):
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))  # Python ignores the signal
        try:
            code, printed = run(*LINE)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert code == 2
        assert printed.splitlines()[-1] == (
            "dpsketch: out.dpsketch cannot be written: File too large; nothing was published [dpsketch-E901]"
        )
        assert os.listdir() == ["visits.csv"]
    assert run(*LINE)[0] == 0
    assert len(drawn) == 4


@pytest.mark.parametrize("at", ["link", "replace", "chmod"])
@pytest.mark.usefixtures("drawn")
def test_a_disk_that_is_full_at_the_end_leaves_nothing(at: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also on a filesystem without links, where the name is taken first."""

    def refuse(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "link", refuse)
    monkeypatch.setattr(os, at, refuse)
    code, printed = run(*LINE)
    if at == "link":  # a name that is taken first does
        assert (code, kinds_of_files()) == (0, (True, False))
    else:
        assert (code, "No space left on device; nothing was published" in printed) == (2, True)
        assert os.listdir() == ["visits.csv"]


def test_an_output_that_cannot_be_written_is_refused_before_the_noise(
    drawn: list[int], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    longest = "ä" * 123 + ".dpsketch"
    for name in ("a" * 250 + ".dpsketch", "x" + longest):
        assert run(*LINE, "--output", name)[0] == 2
    (folder / "closed").mkdir()
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda **_: os.open("closed", os.O_WRONLY))
    code, printed = run(*LINE, "--output", "closed/x.dpsketch")
    assert (code, "must be in a writable folder" in printed) == (2, True)
    monkeypatch.undo()
    monkeypatch.chdir(folder)
    assert not drawn


def test_the_longest_name_can_be_written(drawn: list[int]) -> None:
    name = "ä" * 123 + ".dpsketch"
    assert len(os.fsencode(name)) == 255
    assert run(*LINE, "--output", name)[0] == 0
    assert sorted(os.listdir()) == ["visits.csv", name]
    assert len(drawn) == 1


@pytest.mark.parametrize("broken", [BrokenPipeError(errno.EPIPE, "x"), OSError(errno.ENOSPC, "x")])
def test_nobody_who_reads_stderr_does_not_change_what_is_done(
    broken: OSError, drawn: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken(io.StringIO):
        def write(self, text: str, /) -> int:
            raise broken

    monkeypatch.setattr(sys, "stderr", Broken())
    assert main(LINE) == 0
    assert kinds_of_files() == (True, False)
    monkeypatch.setattr(sys, "stderr", Broken())
    assert main(LINE) == 2
    assert len(drawn) == 1
    text.note("still")


def test_a_pipe_is_replaced(drawn: list[int]) -> None:
    os.mkfifo("fifo.dpsketch")
    assert run(*LINE, "--output", "fifo.dpsketch")[0] == 2
    assert run(*LINE, "--output", "fifo.dpsketch", "--replace")[0] == 0
    assert len(drawn) == 1


@pytest.mark.slow
def test_signals_at_any_moment_leave_a_whole_file_or_none() -> None:
    """Real signals, to real processes: most come while the packages are imported or the file is read."""
    Path("visits.csv").write_text("city\n" + "Oslo\nRome\n" * 50_000)
    program = [sys.executable, "-c", "import sys; from beam_dpsketch.cli.main import main; sys.exit(main())", *LINE]
    start = time.monotonic()
    assert subprocess.run(program, capture_output=True, check=False).returncode == 0
    whole, chance = time.monotonic() - start, random.Random(5)
    for number in range(3):
        os.unlink("out.dpsketch") if os.path.exists("out.dpsketch") else None
        kind = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)[number % 3]
        with subprocess.Popen(program, stderr=subprocess.PIPE) as running:
            time.sleep(chance.uniform(0.5, 1) * whole)
            running.send_signal(kind)
            assert running.stderr is not None
            printed = running.stderr.read()
        assert running.returncode in (0, 1, -kind)
        assert b"Oslo" not in printed
        if os.path.exists("out.dpsketch"):
            assert [key for key, _ in read_releases("out.dpsketch")] == ["Oslo", "Rome"]
        else:
            assert running.returncode != 0
