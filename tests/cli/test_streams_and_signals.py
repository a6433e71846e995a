"""The command as a process: streams that are closed or full, and Ctrl-C at any moment, also while it starts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from beam_dpsketch import read_releases

RELEASES = Path(__file__).parents[2] / "docs" / "releases"
DOORS = {"module": [sys.executable, "-m", "beam_dpsketch"], "script": [str(Path(sys.executable).with_name("dpsketch"))]}
ANSWERS = [["inspect", "cities.dpsketch"], ["query", "delays.dpsketch", "--quantile", "0.5", "--format", "json"]]
PLANTED = """
import atexit, os, signal, sys
class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == {at!r}:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupting())
if {at!r} == "the end":
    atexit.register(os.kill, os.getpid(), signal.SIGINT)
"""


def process(line: list[str], redirected: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    shell = ["sh", "-c", f'exec "$@" {redirected}', "sh", *line]
    return subprocess.run(
        shell, cwd=RELEASES, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )


def run_to(output: Path) -> list[str]:
    settings = ["--kind", "frequencies", "--item", "city", "--privacy-unit", "record", "--rho", "1"]
    return ["run", "trips.csv", *settings, "--output", str(output)]


@pytest.mark.parametrize("arguments", ANSWERS, ids=lambda arguments: arguments[0])
@pytest.mark.parametrize(
    ("redirected", "said"), [(">&-", "Bad file descriptor"), ("> /dev/full", "No space left on device")]
)
def test_an_answer_that_cannot_be_written_is_one_line(arguments: list[str], redirected: str, said: str) -> None:
    found = process([*DOORS["module"], *arguments], redirected)
    assert (found.returncode, found.stderr.splitlines()[-1]) == (2, f"dpsketch: stdout: {said}")
    assert all(each.startswith("dpsketch: ") for each in found.stderr.splitlines())


@pytest.mark.parametrize("redirected", [">&-", "2>&-", ">&- 2>&-", "> /dev/full", "2> /dev/full", "<&- >&- 2>&-"])
def test_a_release_needs_no_streams(redirected: str, tmp_path: Path) -> None:
    found = process([*DOORS["module"], *run_to(tmp_path / "x.dpsketch")], redirected)
    assert (found.returncode, "Traceback" in found.stderr) == (0, False), found.stderr
    assert len(read_releases(str(tmp_path / "x.dpsketch"))) == 1


def test_a_refusal_that_nobody_reads_keeps_its_code() -> None:
    for redirected in ("2>&-", "2> /dev/full", ">&- 2>&-"):
        assert process([*DOORS["module"], "inspect", "nosuch.dpsketch"], redirected).returncode == 2


def interrupted(door: str, at: str, folder: Path) -> Any:
    """Run a command that gets Ctrl-C as it imports a module, or ends."""
    (folder / "sitecustomize.py").write_text(PLANTED.format(at=at))
    return process([*DOORS[door], *run_to(folder / "x.dpsketch")], PYTHONPATH=str(folder))


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("module", ["numpy", "pyarrow", "beam_dpsketch.privacy.budget", "beam_dpsketch.cli.main"])
def test_ctrl_c_while_it_starts_is_one_line(door: str, module: str, tmp_path: Path) -> None:
    """In a library, in the package, and in what the command itself imports."""
    found = interrupted(door, module, tmp_path)
    assert (found.returncode, found.stdout) == (1, "")
    assert found.stderr.startswith("dpsketch: interrupted")
    assert len(found.stderr.splitlines()) == 1
    assert [each.name for each in tmp_path.iterdir() if "dpsketch" in each.name] == []


@pytest.mark.parametrize("door", DOORS)
def test_ctrl_c_while_it_ends_changes_nothing(door: str, tmp_path: Path) -> None:
    found = interrupted(door, "the end", tmp_path)
    assert (found.returncode, found.stderr.count("\ndpsketch: wrote ")) == (0, 1)
    assert len(read_releases(str(tmp_path / "x.dpsketch"))) == 1


def test_a_program_that_imports_the_package_keeps_its_ctrl_c() -> None:
    code = "import signal, beam_dpsketch; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
    assert process([sys.executable, "-c", code]).stdout == "True\n"


def test_a_command_that_ignores_ctrl_c_still_does(tmp_path: Path) -> None:
    """As under nohup."""
    (tmp_path / "sitecustomize.py").write_text(
        "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n" + PLANTED.format(at="numpy")
    )
    found = process([*DOORS["module"], "inspect", "cities.dpsketch"], PYTHONPATH=str(tmp_path))
    assert found.returncode == 0, found.stderr
