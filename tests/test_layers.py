"""Imports go down only, and what must not be in the package is not."""

from __future__ import annotations

import ast
import pathlib
from collections.abc import Iterator

import pytest

import beam_dpsketch

PACKAGE = pathlib.Path(beam_dpsketch.__file__).parent
MAX_LINES = 300

LAYERS = [
    {"errors", "_validate", "_columns"},
    {"hashing", "domains"},
    {"sketches", "privacy"},
    {"records", "release"},
    {"planning", "plots", "questions"},
    {"config"},
    {"frames"},
    {"transforms"},
    {"rows"},
    {"yaml"},
    {"cli"},
]
"""From the bottom up; the parts of one layer do not know each other."""

_RANK = {part: rank for rank, parts in enumerate(LAYERS) for part in parts}
_RANK["__init__"] = _RANK["frames"] + 1  # the front door shows the Beam-free part only
_RANK["__main__"] = _RANK["cli"] + 1
_ONLY_IN = {"apache_beam": {"transforms", "rows"}, "matplotlib": {"plots"}}
_NOWHERE = {"random", "numpy.random", "pickle", "marshal", "shelve", "dill", "cloudpickle"}


def _part(path: pathlib.Path) -> str:
    """The part of the package that a file belongs to."""
    relative = path.relative_to(PACKAGE)
    return relative.parts[0].removesuffix(".py")


def _imports(source: str) -> Iterator[str]:
    """Full names of everything a source imports, also inside functions; uses of `np.random` count as an import."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                yield "a relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Attribute) and ast.unparse(node) in ("np.random", "numpy.random"):
            yield "numpy.random"


def violations(part: str, source: str) -> list[str]:
    """What a source in this part of the package must not import but does."""
    found = []
    for name in _imports(source):
        top, *rest = name.split(".")
        if name == "a relative import":
            found.append(name)
        elif top == "beam_dpsketch":
            other = rest[0] if rest and rest[0] in _RANK else "__init__"
            if other != part and _RANK[other] >= _RANK[part]:
                found.append(name)
        else:
            banned = any(f"{name}.".startswith(f"{module}.") for module in _NOWHERE)
            if banned or part not in _ONLY_IN.get(top, {part}):
                found.append(name)
    return found


FILES = sorted(PACKAGE.rglob("*.py"))


def test_imports_go_down_only() -> None:
    assert {_part(path) for path in FILES} <= set(_RANK)
    found = {str(path.relative_to(PACKAGE)): violations(_part(path), path.read_text()) for path in FILES}
    assert {path: names for path, names in found.items() if names} == {}


def test_no_module_is_too_long() -> None:
    assert [path for path in FILES if len(path.read_text().splitlines()) > MAX_LINES] == []


def test_every_folder_is_a_short_shelf() -> None:
    """Folders and files of a room; the public doors are the shelf that users see."""
    folders = {path.parent for path in FILES}
    rooms = {
        folder: {path for path in folder.iterdir() if path.suffix == ".py" or path in folders} for folder in folders
    }
    shelves = {str(folder.relative_to(PACKAGE)): len(found) - 1 for folder, found in rooms.items()}
    assert shelves["transforms"] <= 13
    assert max(shelves.values()) <= 20


@pytest.mark.parametrize(
    ("part", "source"),
    [
        ("sketches", "from beam_dpsketch.privacy.budget import PrivacySpec"),
        ("privacy", "import beam_dpsketch.sketches"),
        ("hashing", "from beam_dpsketch.sketches import spec"),
        ("_validate", "from beam_dpsketch.errors import FormatError"),
        ("release", "def f():\n    from beam_dpsketch.transforms import coders"),
        ("release", "from beam_dpsketch import SketchSpec"),
        ("release", "import beam_dpsketch"),
        ("__init__", "from beam_dpsketch.transforms import PrivateFrequencies"),
        ("planning", "from beam_dpsketch.transforms import outputs"),
        ("planning", "import matplotlib"),
        ("plots", "from beam_dpsketch.planning.planner import plan"),
        ("cli", "from matplotlib.figure import Figure"),
        ("transforms", "from beam_dpsketch.cli.main import main"),
        ("cli", "import apache_beam as beam"),
        ("config", "from beam_dpsketch.transforms import PrivateTopK"),
        ("config", "from beam_dpsketch import PrivacySpec"),
        ("config", "import apache_beam as beam"),
        ("planning", "from beam_dpsketch.config import read_privacy"),
        ("config", "from beam_dpsketch.frames.releasing import release_frame"),
        ("frames", "from beam_dpsketch.transforms import PrivateTopK"),
        ("frames", "import apache_beam as beam"),
        ("sketches", "import apache_beam as beam"),
        ("release", "from apache_beam.coders import Coder"),
        ("transforms", "import matplotlib.pyplot as plt"),
        ("privacy", "import random"),
        ("privacy", "from random import gauss"),
        ("privacy", "from numpy.random import default_rng"),
        ("privacy", "from numpy import random"),
        ("privacy", "import numpy as np\nnp.random.default_rng()"),
        ("release", "import pickle"),
        ("transforms", "from pickle import loads"),
        ("release", "from . import wire"),
    ],
)
def test_planted_violations_are_found(part, source):
    assert violations(part, source)


@pytest.mark.parametrize(
    ("part", "source"),
    [
        ("release", "from beam_dpsketch import _validate\nfrom beam_dpsketch.release import wire"),
        ("release", "from beam_dpsketch.sketches import CountMin\nimport numpy as np"),
        ("__init__", "from beam_dpsketch.engine.noising import release"),
        ("transforms", "import apache_beam as beam"),
        ("config", "from beam_dpsketch.records.units import Record\nimport yaml"),
        ("plots", "from beam_dpsketch.answers.rows import Intervals\nimport matplotlib"),
    ],
)
def test_what_is_allowed_is_not_found(part, source):
    assert violations(part, source) == []


def test_no_test_file_lends_to_another() -> None:
    """What tests share is in `tests/helpers`; engines run the checks of the example pipelines again."""
    folder = pathlib.Path(__file__).parent
    sources = {path: path.read_text() for path in folder.rglob("*.py")}
    lent = {
        str(path.relative_to(folder)): [
            name for name in _imports(source) if name.startswith("tests.") and ".test_" in name
        ]
        for path, source in sources.items()
        if ".test_" in source or "import test_" in source
    }
    assert {path for path, names in lent.items() if names} <= {
        "engines/test_examples.py",
        "transforms/steps/test_idempotent_noise.py",
    }
