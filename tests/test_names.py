"""One name, one class: a reader who meets a class finds it by its name alone."""

from __future__ import annotations

import ast
import collections
import pathlib

import beam_dpsketch

PACKAGE = pathlib.Path(beam_dpsketch.__file__).parent

_DOOR = "plain settings of the transform of the same name"
EXCEPTIONS = {
    "PrivateFrequencies": _DOOR,
    "PrivateQuantiles": _DOOR,
    "PrivateStatistics": _DOOR,
    "PrivateTopK": _DOOR,
    "ReadReleases": _DOOR,
    "WriteReleases": _DOOR,
    "ExactSums": "of a table in this process, and of a pipeline",
}
"""Names that stand twice, and what the second one is."""


def twice(sources: dict[str, str]) -> set[str]:
    """The names of classes that are defined more than once."""
    found = [
        node.name
        for source in sources.values()
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ClassDef)
    ]
    return {name for name, count in collections.Counter(found).items() if count > 1}


def test_no_class_name_stands_twice() -> None:
    sources = {str(path): path.read_text() for path in PACKAGE.rglob("*.py")}
    assert twice(sources) == set(EXCEPTIONS)  # one that is alone again leaves the list


def test_a_second_class_of_a_name_is_found() -> None:
    assert twice({"one.py": "class A: ...\nclass B: ...", "two.py": "class C:\n    class A: ..."}) == {"A"}
