"""Imports go down only, what sees exact data knows nothing of what comes after the noise, and some are nowhere."""

from __future__ import annotations

import ast
import pathlib
import re
from collections.abc import Iterator

import pytest

import beam_dpsketch

PACKAGE = pathlib.Path(beam_dpsketch.__file__).parent
MAX_LINES = 600

LAYERS = [
    {"errors", "version"},
    {"checks", "columns", "words", "starting"},
    {"encodings"},
    {"privacy"},
    {"exact"},
    {"statement", "ledger"},
    {"noise"},
    {"answers"},
    {"planning", "plots"},
    {"by_hand", "research"},
    {"explore"},
    {"config"},
    {"frames"},
    {"names"},
    {"transforms"},
    {"rows"},
    {"cli"},
]
"""From the bottom up; the parts of one layer do not know each other."""

_RANK = {part: rank for rank, parts in enumerate(LAYERS) for part in parts}
_RANK["__init__"] = _RANK["names"] + 1  # the front door shows the Beam-free part only
_RANK["__main__"] = _RANK["cli"] + 1
_ONLY_IN = {
    "apache_beam": {"transforms", "rows"},
    "matplotlib": {"plots"},
    "plotly": {"explore"},
    "psycopg": {"ledger"},
    "sqlalchemy": {"ledger"},
}
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


MAP = (PACKAGE / "README.md").read_text(encoding="utf-8")


def unknown_places(text: str) -> set[str]:
    """Return files and folders that a map names and that are in no place of the package, of tests or of docs."""
    tops = (PACKAGE, PACKAGE.parent / "tests")
    roots = [PACKAGE.parent, *tops, *(folder for top in tops for folder in top.rglob("*") if folder.is_dir())]
    named = re.findall(r"`([a-z_/]+(?:\.py|/))`", text) + re.findall(r"^ *\d+ +([a-z_]+/)", text, re.MULTILINE)
    return {each for each in named if not any((root / each).exists() for root in roots)}


def test_the_map_names_what_is_there_in_the_order_of_imports() -> None:
    assert unknown_places(MAP) == set()
    drawn = MAP.split("checks all three.")[1].split("```")[1]
    places = {
        part: drawn.index(f"{part}/" if (PACKAGE / part).is_dir() else f"{part}.py")
        for part in _RANK
        if "__" not in part
    }
    order = sorted(places, key=places.__getitem__, reverse=True)
    assert [_RANK[part] for part in order] == sorted(_RANK[part] for part in order)


@pytest.mark.parametrize(
    "page",
    [
        *("CONTRIBUTING.md", "README.md", "RELEASING.md", "SECURITY.md", "tests/README.md"),
        *(f"docs/{name}.md" for name in ("architecture", "decisions", "extending", "format", "paper", "proofs")),
    ],
)
def test_pages_name_places_that_are_there(page: str) -> None:
    assert unknown_places((PACKAGE.parent / page).read_text(encoding="utf-8")) == set()


def test_a_place_that_is_not_there_is_found() -> None:
    assert unknown_places("`noise/nowhere.py` and `noise/run.py`\n12 nothing/   here") == {
        "noise/nowhere.py",
        "nothing/",
    }


BEFORE_THE_NOISE = ("exact", "noise", "privacy", "statement", "frames/steps", "transforms/steps")
"""Folders that see exact data, or that those need: a reviewer of privacy reads them, and no other."""
_AFTER_THE_NOISE = {
    *(
        "answers",
        "by_hand",
        "cli",
        "config",
        "explore",
        "frames",
        "ledger",
        "names",
        "planning",
        "plots",
        "rows",
        "transforms",
    ),
    "__init__",
}


def beyond_the_noise(folder: str, source: str) -> list[str]:
    """Return what a source of a folder that sees exact data imports of rooms that must not matter to it."""
    found = []
    for name in _imports(source):
        top, *rest = name.split(".")
        room = rest[0] if rest and rest[0] in _RANK else "__init__"
        step = rest[:2] in (["transforms", "steps"], ["frames", "steps"])
        if top == "beam_dpsketch" and room in _AFTER_THE_NOISE and not (step and folder.endswith("/steps")):
            found.append(name)
    return found


@pytest.mark.parametrize("folder", BEFORE_THE_NOISE)
def test_what_sees_exact_data_imports_nothing_from_after_the_noise(folder: str) -> None:
    files = [*(PACKAGE / folder).rglob("*.py")]
    assert files
    found = {str(path.relative_to(PACKAGE)): beyond_the_noise(folder, path.read_text()) for path in files}
    assert {path: names for path, names in found.items() if names} == {}


@pytest.mark.parametrize(
    ("folder", "source"),
    [
        ("noise", "from beam_dpsketch.answers.batch import answers_of"),
        ("noise", "def f():\n    from beam_dpsketch.answers.estimators.row_mean import noise_margin"),
        ("transforms/steps", "if TYPE_CHECKING:\n    from beam_dpsketch.answers.released import Released"),
        ("transforms/steps", "from beam_dpsketch.transforms.outputs import TopK"),
        ("transforms/steps/checks", "from beam_dpsketch.ledger.paying import check_together"),
        ("frames/steps", "from beam_dpsketch.config.release import read_release"),
        ("frames/steps", "from beam_dpsketch.frames.releasing import release_frame"),
        ("frames/steps", "import beam_dpsketch.cli.text"),
        ("exact", "from beam_dpsketch.planning.plan import Plan"),
        ("exact", "from beam_dpsketch.planning.kinds.layouts import Purpose"),
        ("statement", "from beam_dpsketch.answers.privacy_statement import read_lost"),
        ("privacy", "from beam_dpsketch import SketchSpec"),
    ],
)
def test_a_planted_import_from_after_the_noise_is_found(folder: str, source: str) -> None:
    assert beyond_the_noise(folder, source)


_RANDOM = {"urandom", "add_noise"}
_EXACT = {"to_vector", "to_sums", "sums_of", "released_side", "many_to_release", "total_weights"}
_MAY_DRAW = ("noise", "privacy", "exact", "by_hand", "ledger", "transforms/steps")
"""Where randomness is named: ids and priorities have some, and a ledger waits at random."""
_MAY_SEE = ("exact", "noise", "transforms/steps", "frames/steps")


def named_elsewhere(path: str, source: str) -> set[str]:
    """Return which names of randomness and of exact numbers a source has and must not."""
    tree = [*ast.walk(ast.parse(source))]
    names = {node.id for node in tree if isinstance(node, ast.Name)}
    names |= {node.attr for node in tree if isinstance(node, ast.Attribute)}
    found = set() if path.startswith(_MAY_DRAW) else names & _RANDOM
    return found if path.startswith(_MAY_SEE) else found | names & _EXACT


def test_randomness_and_exact_numbers_are_named_in_few_rooms() -> None:
    found = {str(path.relative_to(PACKAGE)): path.read_text() for path in FILES}
    assert {path: names for path, source in found.items() if (names := named_elsewhere(path, source))} == {}


def test_a_name_elsewhere_is_found() -> None:
    assert named_elsewhere("answers/batch.py", "os.urandom(3)\nsums.released_side") == {"urandom", "released_side"}
    assert named_elsewhere("transforms/outputs.py", "add_noise(raw.to_vector())") == {"add_noise", "to_vector"}


FOLDERS = sorted({path.parent for path in FILES} - {PACKAGE})


def circle(folder: str, sources: dict[str, str]) -> set[str]:
    """The parts of a folder that import each other in a circle, and what stands on them.

    `sources` are all files of the folder, by their paths in the package. `__init__`, the front door, is a part too.
    """
    of_files = {path: path.removeprefix(f"{folder}/").split("/")[0].removesuffix(".py") for path in sources}
    parts, room = set(of_files.values()), f"beam_dpsketch.{folder.replace('/', '.')}"
    needs: dict[str, set[str]] = {part: set() for part in parts}
    for path, source in sources.items():
        inner = (f"{name}.".removeprefix(f"{room}.") for name in _imports(source) if f"{name}.".startswith(f"{room}."))
        tops = {name.split(".")[0] for name in inner}
        needs[of_files[path]] |= {top if top in parts else "__init__" for top in tops} - {of_files[path]}
    while free := {part for part, others in needs.items() if not others & set(needs)}:
        needs = {part: others for part, others in needs.items() if part not in free}
    return set(needs)


@pytest.mark.parametrize("folder", [str(folder.relative_to(PACKAGE)) for folder in FOLDERS])
def test_no_parts_of_a_folder_import_each_other_in_a_circle(folder: str) -> None:
    sources = {str(path.relative_to(PACKAGE)): path.read_text() for path in (PACKAGE / folder).rglob("*.py")}
    assert circle(folder, sources) == set()


_FIRST, _SECOND, _INNER = "statement/first.py", "statement/second.py", "statement/inner/deep.py"


@pytest.mark.parametrize(
    ("sources", "found"),
    [
        ({_FIRST: "from beam_dpsketch.statement import second", _SECOND: ""}, set()),
        (
            {
                _FIRST: "from beam_dpsketch.statement import second",
                _SECOND: "from beam_dpsketch.statement.first import one",
            },
            {"first", "second"},
        ),
        (
            {
                _FIRST: "if TYPE_CHECKING:\n    from beam_dpsketch.statement.inner.deep import one",
                _INNER: "def f():\n    import beam_dpsketch.statement.first",
            },
            {"first", "inner"},
        ),
        (
            {
                _FIRST: "from beam_dpsketch.statement.second import one",
                _SECOND: "from beam_dpsketch.statement.inner.deep import one",
                _INNER: "from beam_dpsketch.statement.first import one",
                "statement/third.py": "",
            },
            {"first", "second", "inner"},
        ),
        (
            {
                "statement/__init__.py": "from beam_dpsketch.statement.first import one",
                _FIRST: "from beam_dpsketch.statement import one",
            },
            {"__init__", "first"},
        ),
        (
            {
                _INNER: "from beam_dpsketch.statement.inner.other import one",
                "statement/inner/other.py": "from beam_dpsketch.statement.first import one",
                _FIRST: "from beam_dpsketch.statements.inner import one",
            },
            set(),
        ),
    ],
)
def test_planted_circles_are_found(sources, found):
    assert circle("statement", sources) == found


@pytest.mark.parametrize(
    ("part", "source"),
    [
        ("privacy", "from beam_dpsketch.exact.sketches.spec import Spec"),
        ("privacy", "import beam_dpsketch.exact.sketches"),
        ("encodings", "from beam_dpsketch.exact.sketches import spec"),
        ("statement", "from beam_dpsketch.answers.estimators import row_mean"),
        ("exact", "from beam_dpsketch.noise.run import Run"),
        ("noise", "from beam_dpsketch.answers.batch import answers_of"),
        ("noise", "from beam_dpsketch.answers.estimators import row_mean"),
        ("exact", "from beam_dpsketch.statement.release_id import part_name"),
        ("errors", "from beam_dpsketch import checks"),
        ("noise", "def f():\n    from beam_dpsketch.transforms import coders"),
        ("noise", "from beam_dpsketch import SketchSpec"),
        ("answers", "import beam_dpsketch"),
        ("__init__", "from beam_dpsketch.transforms import PrivateFrequencies"),
        ("planning", "from beam_dpsketch.by_hand import release"),
        ("planning", "from beam_dpsketch.transforms import outputs"),
        ("planning", "import matplotlib"),
        ("plots", "from beam_dpsketch.planning.sketch_plan import plan_sketch"),
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
        ("exact", "import apache_beam as beam"),
        ("answers", "from apache_beam.coders import Coder"),
        ("transforms", "import matplotlib.pyplot as plt"),
        ("privacy", "import random"),
        ("privacy", "from random import gauss"),
        ("privacy", "from numpy.random import default_rng"),
        ("privacy", "from numpy import random"),
        ("privacy", "import numpy as np\nnp.random.default_rng()"),
        ("answers", "import pickle"),
        ("transforms", "from pickle import loads"),
        ("answers", "from . import wire"),
    ],
)
def test_planted_violations_are_found(part, source):
    assert violations(part, source)


@pytest.mark.parametrize(
    ("part", "source"),
    [
        ("answers", "from beam_dpsketch import checks\nfrom beam_dpsketch.answers import wire"),
        ("noise", "from beam_dpsketch.exact.sketches import CountMin\nimport numpy as np"),
        ("__init__", "from beam_dpsketch.by_hand import release"),
        ("answers", "from beam_dpsketch.noise.tables import NOISE_VERSION"),
        ("transforms", "import apache_beam as beam"),
        ("config", "from beam_dpsketch.exact.declared.units import Record\nimport yaml"),
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
