"""One name, one home: a reader who meets a class or a constant finds it by its name alone."""

from __future__ import annotations

import ast
import collections
import itertools
import pathlib
from collections.abc import Callable, Iterable

import beam_dpsketch

PACKAGE = pathlib.Path(beam_dpsketch.__file__).parent

_DOOR = "plain settings of the transform of the same name"
EXCEPTIONS = {
    "PrivateFrequencies": _DOOR,
    "PrivateMetrics": _DOOR,
    "PrivateQuantiles": _DOOR,
    "PrivateStatistics": _DOOR,
    "PrivateTopK": _DOOR,
    "ReadReleases": _DOOR,
    "WriteReleases": _DOOR,
    "ExactSums": "of a table in this process, and of a pipeline",
}
"""Names that stand twice, and what the second one is."""


def classes(source: str) -> list[str]:
    """The names of all classes."""
    return [node.name for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ClassDef)]


def constants(source: str) -> list[str]:
    """The names of all constants that other files may use; a variable for types has one letter."""
    targets = [
        target
        for node in ast.parse(source).body
        if isinstance(node, (ast.Assign, ast.AnnAssign))
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
    ]
    names = [each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)]
    return [name for name in names if name.isupper() and name[0] != "_" and len(name) > 1]


def twice(names: Callable[[str], list[str]], sources: Iterable[str]) -> set[str]:
    """The names that are defined more than once."""
    found = itertools.chain.from_iterable(map(names, sources))
    return {name for name, count in collections.Counter(found).items() if count > 1}


def test_no_class_name_stands_twice() -> None:
    sources = [path.read_text() for path in PACKAGE.rglob("*.py")]
    assert twice(classes, sources) == set(EXCEPTIONS)  # one that is alone again leaves the list


def test_no_name_of_a_constant_stands_twice() -> None:
    assert twice(constants, [path.read_text() for path in PACKAGE.rglob("*.py")]) == set()


def test_a_second_class_of_a_name_is_found() -> None:
    assert twice(classes, ["class A: ...\nclass B: ...", "class C:\n    class A: ..."]) == {"A"}


def test_a_second_constant_of_a_name_is_found() -> None:
    sources = ["A1, B1 = 1, 2\n_C1 = 3\nT = 4", "A1: int = 1\n_C1, T = 3, 4\ndef f():\n    B1 = 2"]
    assert twice(constants, sources) == {"A1"}
