"""Every command that writes a file writes it whole or not at all, and in place of nothing but its name."""

from __future__ import annotations

import os
import resource
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from beam_dpsketch.cli import output as output_file
from tests.cli.consoles import run

SETTINGS = ["--kind", "frequencies", "--item", "city", "--privacy-unit", "record", "--rho", "1"]
COMMANDS = {
    "inspect": (["inspect", "delays.dpsketch"], "x.parquet"),
    "explore": (["explore", "delays.dpsketch"], "x.html"),
    "plot": (["plot", "delays.dpsketch", "--cdf"], "x.svg"),
    "run": (["run", "trips.csv", *SETTINGS], "x.dpsketch"),
}
OLD = b"what was there before"


@pytest.fixture(params=["inspect", "explore", "run", pytest.param("plot", marks=pytest.mark.slow)])
def command(request: pytest.FixtureRequest, folder: Path) -> tuple[list[str], Path]:
    """The arguments of a command, and the file that it writes, in a folder of its own."""
    arguments, name = COMMANDS[request.param]
    (folder / "out").mkdir()
    shutil.copy("trips.csv", folder / "out" / "untouched")
    return [*arguments, "--output", f"out/{name}"], folder / "out" / name


def names(output: Path) -> list[str]:
    return sorted(set(os.listdir(output.parent)) - {"untouched"})


def test_a_link_is_replaced_and_what_it_points_to_stays(command: tuple[list[str], Path], tmp_path: Path) -> None:
    arguments, output = command
    target = tmp_path / "target"
    target.write_bytes(OLD)
    output.symlink_to(target)
    assert run(*arguments)[0] == 2
    assert run(*arguments, "--replace")[0] == 0
    assert target.read_bytes() == OLD
    assert not output.is_symlink()
    assert output.stat().st_size > 100
    assert stat.S_IMODE(output.stat().st_mode) == 0o666 & ~output_file._umask()
    assert names(output) == [output.name]


def on_a_full_disk(call: Callable[[], tuple[int, str]]) -> tuple[int, str]:
    """Call a function while no file can grow beyond 64 bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, before[1]))
    try:
        return call()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("is_there", [True, False])
def test_a_file_that_cannot_be_written_whole_is_not_written(command: tuple[list[str], Path], is_there: bool) -> None:
    arguments, output = command
    if is_there:
        output.write_bytes(OLD)
    assert run(*arguments, "--replace", "--output", str(output.with_stem("warm")))[0] == 0  # fonts may be cached
    output.with_stem("warm").unlink()
    code, printed = on_a_full_disk(lambda: run(*arguments, "--replace"))
    assert code == 2
    assert f"dpsketch: out/{output.name} cannot be written: File too large" in printed
    assert names(output) == [output.name] * is_there
    assert not is_there or output.read_bytes() == OLD


def test_a_file_that_comes_in_the_meantime_stays(
    command: tuple[list[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments, output = command
    chmod = os.chmod

    def come(path: str, mode: int) -> None:
        output.write_bytes(OLD)
        chmod(path, mode)

    monkeypatch.setattr(output_file.os, "chmod", come)
    code, printed = run(*arguments)
    assert (code, f"{output.name} already exists" in printed) == (2, True)
    assert output.read_bytes() == OLD
    assert names(output) == [output.name]


def test_what_cannot_be_written_is_refused_before_anything_is_read(
    command: tuple[list[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments, output = command
    arguments[1] = "no such input"
    refused = {
        f"none/{output.name}": "must be in an existing folder, got none",
        f"folder{output.suffix}": "--output must be a file, and ",
    }
    for path, words in refused.items():
        Path(f"folder{output.suffix}").mkdir(exist_ok=True)
        code, printed = run(*arguments, "--output", path, "--replace")
        assert (code, words in printed) == (2, True)
        assert "no such input" not in printed
    monkeypatch.setattr(output_file.tempfile, "TemporaryFile", lambda **_: (_ for _ in ()).throw(OSError()))
    assert "--output must be in a writable folder, got out" in run(*arguments)[1]
