"""Libraries that a start of the package and of its command imports, and names that are there from the start."""

from __future__ import annotations

import json
import os
import pathlib
import pickle
import subprocess
import sys

import pytest

import beam_dpsketch
from beam_dpsketch import names
from beam_dpsketch.answers.released import RELEASED_KINDS

ROOT = pathlib.Path(__file__).parents[1]
NUMERIC = {"cryptography", "mmh3", "msgpack", "numpy", "pyarrow", "zstandard"}
COMMAND = """
import contextlib, io
from beam_dpsketch.cli.main import main
with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
    main({arguments})
"""
REPORT = """
found = {each.partition(".")[0] for each in {*sys.modules} - before} - sys.stdlib_module_names
print(json.dumps([each for each in found if "cython" not in each and not each.startswith("_")]))
"""


def process(code: str) -> str:
    """Run code in a process of its own, and return what it prints."""
    return subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True).stdout


def libraries(code: str) -> set[str]:
    """Run code in a process of its own, and return the other libraries that it imports."""
    return {*json.loads(process(f"import json, sys\nbefore = {{*sys.modules}}\n{code}\n{REPORT}"))} - {"beam_dpsketch"}


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["yaml-providers"]], ids=" ".join)
def test_help_imports_no_other_library(arguments: list[str]) -> None:
    assert libraries(COMMAND.format(arguments=arguments)) == set()


@pytest.mark.parametrize(
    "code",
    [
        *(COMMAND.format(arguments=[each, "--help"]) for each in ("run", "query", "plot", "ledger")),
        "from beam_dpsketch.cli.main import make_parser; make_parser()",
        "from beam_dpsketch import *",
    ],
)
def test_frames_plots_and_pipelines_are_not_imported_before_they_are_needed(code: str) -> None:
    assert libraries(code) == NUMERIC


def test_the_package_imports_no_other_library_before_a_name_is_used() -> None:
    assert libraries("import beam_dpsketch") == set()
    assert libraries("import beam_dpsketch; beam_dpsketch.Record()") == NUMERIC


def test_an_import_of_pandas_would_be_found() -> None:
    assert "pandas" in libraries("import pandas, beam_dpsketch")


@pytest.mark.parametrize(
    "found",
    [
        "dir(beam_dpsketch)",
        "beam_dpsketch.__all__",
        "[*everything]",
        "re.findall(r'\\w+', pydoc.render_doc(beam_dpsketch))",
        "[name for name in names if hasattr(beam_dpsketch, name)]",
    ],
)
def test_every_public_name_is_found(found: str) -> None:
    code = f"import json, pydoc, re, beam_dpsketch\nnames, everything = {names.__all__}, {{}}\n"
    if "everything" in found:
        code += "exec('from beam_dpsketch import *', everything)\n"
    assert {*names.__all__} - {"__version__"} <= {*json.loads(process(f"{code}print(json.dumps({found}))"))}


def test_modules_are_attributes_and_other_names_are_errors() -> None:
    code = "import beam_dpsketch\nprint(beam_dpsketch.plots.Look.__name__, hasattr(beam_dpsketch, 'Look'))"
    assert process(code) == "Look False\n"
    with pytest.raises(AttributeError, match="module 'beam_dpsketch' has no attribute '_checks'"):
        _ = beam_dpsketch._checks
    with pytest.raises(ImportError, match="cannot import name 'Recrod' from 'beam_dpsketch'"):
        exec("from beam_dpsketch import Recrod")


def test_a_folder_that_another_version_left_hides_no_name() -> None:
    """Git leaves folders with compiled modules, and Python imports any folder as a package."""
    code = (
        "import beam_dpsketch, sys, os, tempfile\nleft = tempfile.mkdtemp()\nos.mkdir(os.path.join(left, 'release'))\n"
    )
    code += "beam_dpsketch.__path__.append(left)\nprint(beam_dpsketch.release.__module__)"
    assert process(code) == "beam_dpsketch.by_hand\n"


FINDER = """
import signal, sys
class Finder:
    @staticmethod
    def find_spec(name, *_):
        if name == "beam_dpsketch.cli":
            print(signal.getsignal(signal.SIGINT).__name__)
sys.meta_path.insert(0, Finder)
"""


@pytest.mark.parametrize(
    ("module", "handler"),
    [("beam_dpsketch", "stop"), ("jobs", "default_int_handler"), ("jobs.daily", "default_int_handler")],
)
def test_only_the_command_exits_at_once_if_it_is_interrupted(module: str, handler: str, tmp_path: pathlib.Path) -> None:
    """Python imports the package of a module first. A program that imports this package there must clean up."""
    (tmp_path / "jobs").mkdir()
    (tmp_path / "sitecustomize.py").write_text(FINDER)
    for name in ("__init__", "__main__", "daily"):
        (tmp_path / "jobs" / f"{name}.py").write_text("import beam_dpsketch.cli")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
    line = [sys.executable, "-m", module, "--version"]
    printed = subprocess.run(line, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True).stdout
    assert printed.splitlines()[0] == handler


def test_a_pickled_release_answers_and_plots_in_a_new_process(tmp_path: pathlib.Path) -> None:
    """Unpickling imports the module of a class, but no public name."""
    released = [*beam_dpsketch.read_releases(str(ROOT / "docs" / "releases" / "delays.dpsketch"))]
    (tmp_path / "pickled").write_bytes(pickle.dumps(released))
    code = f"import pickle\n(one,) = pickle.load(open({str(tmp_path / 'pickled')!r}, 'rb'))\n"
    assert process(f"{code}print(one.quantile(0.5), bool(one.plot()))") == f"{released[0].quantile(0.5)} True\n"


def test_any_part_of_the_answers_registers_all_kinds_of_releases() -> None:
    code = "from beam_dpsketch.answers.released import RELEASED_KINDS\nprint(*sorted(RELEASED_KINDS))"
    assert process(code).split() == sorted(RELEASED_KINDS)
