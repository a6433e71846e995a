"""Kernels are asked for late, and whatever happens to them numpy goes on."""

from __future__ import annotations

import builtins
import os
import shutil
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import beam_dpsketch
from beam_dpsketch.compiled import loading
from beam_dpsketch.compiled.loading import Kernels
from beam_dpsketch.errors import CompiledWarning
from beam_dpsketch.hashing import cells
from tests.helpers import kernels

PACKAGE = Path(beam_dpsketch.__file__).parent
WORK = """
import numpy as np, warnings
warnings.simplefilter("error")
from beam_dpsketch.compiled import loading
from beam_dpsketch.hashing.cells import add_to_rows
table = np.zeros((2, 8), dtype=np.int64)
add_to_rows(table, np.arange(100, dtype=np.uint64), None, seed=1, has_signs=True)
print(loading.find(0) is not None, table.tolist())
"""


def table() -> np.ndarray:
    """Some counters."""
    found = np.zeros((2, 8), dtype=np.int64)
    cells.add_to_rows(found, np.arange(100, dtype=np.uint64), None, seed=1, has_signs=True)
    return found


def work(**variables: str) -> str:
    """What a new process prints that counts."""
    run = [sys.executable, "-c", WORK]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **variables}
    return subprocess.run(run, env=environment, check=True, capture_output=True, text=True).stdout


def test_importing_the_package_does_not_import_numba() -> None:
    words = "import sys, beam_dpsketch.transforms, beam_dpsketch.frames.releasing; print('numba' in sys.modules)"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    run = [sys.executable, "-c", words]
    assert subprocess.run(run, env=environment, check=True, capture_output=True, text=True).stdout == "False\n"


def test_kernels_are_loaded_after_many_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []
    monkeypatch.setattr(loading, "_load", lambda: asked.append(True))
    monkeypatch.setattr(loading, "_MANY", 100)
    found = Kernels("")
    for steps in (50, 49, 1, 1):
        assert found.find(steps) is None
        assert len(asked) == (steps == 1)


@pytest.mark.parametrize(("wanted", "asks"), [("0", False), ("1", True), ("", False)])
def test_the_variable(wanted: str, asks: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []
    monkeypatch.setattr(loading, "_load", lambda: asked.append(True))
    Kernels(wanted).find(1)
    assert bool(asked) == asks


def test_another_value_of_the_variable_is_told() -> None:
    with pytest.warns(CompiledWarning, match="DPSKETCH_COMPILED must be 0 or 1"):
        Kernels("yes")


def test_without_numba_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with kernels.compiled() as found:
            assert table().any()
    assert not kernels.uses_kernels(found)


def test_numba_that_fails_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    imported = builtins.__import__

    def refuse(name: str, *others: Any, **named: Any) -> Any:
        if name.startswith("numba"):
            raise ImportError("Numba needs an older numpy")
        return imported(name, *others, **named)

    monkeypatch.setattr("importlib.util.find_spec", lambda name: True)
    monkeypatch.setattr(builtins, "__import__", refuse)
    for name in [name for name in sys.modules if name.startswith(("beam_dpsketch.compiled.", "numba"))]:
        if name != loading.__name__:
            monkeypatch.delitem(sys.modules, name)
    expected = table()
    with kernels.compiled(), warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        found = table(), table()
    assert [each.category for each in said] == [CompiledWarning]
    assert "numpy does its work: ImportError" in str(said[0].message)
    np.testing.assert_array_equal(found, (expected, expected))


@pytest.mark.compiled
def test_kernels_are_used_by_a_new_process() -> None:
    expected = work(DPSKETCH_COMPILED="0")
    assert work(DPSKETCH_COMPILED="1") == expected.replace("False", "True")
    assert expected.startswith("False")


@pytest.mark.compiled
def test_a_folder_that_cannot_be_written_is_no_failure(tmp_path: Path) -> None:
    """Neither where the package is, nor at home: then each process compiles."""
    shutil.copytree(PACKAGE, tmp_path / "beam_dpsketch", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "beam_dpsketch/compiled/__pycache__").write_text("a file where the folder would be")
    nowhere = tmp_path / "file"
    nowhere.write_text("")
    paths = os.pathsep.join([str(tmp_path), *sys.path])
    homes = {name: str(nowhere / "home") for name in ("HOME", "XDG_CACHE_HOME")}
    found = work(DPSKETCH_COMPILED="1", PYTHONPATH=paths, PYTHONDONTWRITEBYTECODE="1", **homes)
    assert found == work(DPSKETCH_COMPILED="1")
