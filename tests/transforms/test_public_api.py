"""What users import is small: few parameters, no bags of options, each name documented and in its place."""

from __future__ import annotations

import enum
import inspect
import re
import typing
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, NoReturn

import pytest

import beam_dpsketch
from beam_dpsketch import transforms
from beam_dpsketch.planning.kinds import KINDS
from beam_dpsketch.transforms import BoundContributions, PrivateFrequencies, doors
from beam_dpsketch.transforms.private_release import DOORS

MODULES = [beam_dpsketch, transforms]
MAX_PARAMETERS, MAX_ON_AVERAGE = 9, 7.8
FILLED_BY_TRANSFORMS = {"ReleaseTerms": 16, "ReleaseSpec": 12}
"""Value objects of which users give two or three, and transforms or settings the rest."""
OF_ANY_NAMES = {"Metrics": ["metrics is a dict"], "PrivateMetrics": ["metrics is a dict"]}
"""What takes a dict that is not a bag of options: its names are those that the caller gives."""
MADE_BY_THE_PACKAGE = {"Clipping", "Frequencies", "Plan", "PrivacyStatement", "TopK"}
"""Results that users read and do not construct; their fields are as many as there is to say."""


def parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """Return what a caller gives to a function, or to the constructor of a class."""
    return list(inspect.signature(function).parameters.values())


def alternatives(kind: type) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield the other constructors of a class: its own public class methods."""
    for name, value in vars(kind).items():
        if isinstance(value, classmethod) and not name.startswith("_"):
            yield f"{kind.__name__}.{name}", getattr(kind, name)


def callables(module: ModuleType) -> dict[str, Callable[..., Any]]:
    """Return the functions and constructors that a module exports; errors and enumerations have those of Python."""
    found: dict[str, Callable[..., Any]] = {}
    for name in module.__all__:
        value = getattr(module, name)
        if inspect.isclass(value) and not issubclass(value, (BaseException, enum.Enum)):
            found |= {name: value} | dict(alternatives(value))
        elif inspect.isfunction(value):
            found[name] = value
    return {name: value for name, value in found.items() if name not in MADE_BY_THE_PACKAGE}


def faults(function: Callable[..., Any]) -> list[str]:
    """Return what makes a call hard to read, in words."""
    given = parameters(function)
    found = [f"{len(given)} parameters"] if len(given) > MAX_PARAMETERS else []
    for parameter in given:
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            found.append(f"**{parameter.name}")
        elif re.search(r"\b(?:dict|\w*Mapping|TypedDict)\b", str(parameter.annotation), re.IGNORECASE):
            found.append(f"{parameter.name} is a dict")
    return found


def documentation(value: Any) -> str:
    """Return the docstring of a name's own, not one that Python makes up or that is inherited."""
    own = (vars(value) if inspect.isclass(value) else {"__doc__": inspect.getdoc(value)}).get("__doc__") or ""
    return "" if inspect.isclass(value) and own.startswith(f"{value.__name__}(") else own


def test_every_kind_of_settings_has_one_door() -> None:
    assert DOORS.keys() == KINDS.keys()
    assert {each.__name__ for each in DOORS.values()} <= {*transforms.__all__}


def test_transforms_have_few_parameters_on_average() -> None:
    counts = [len(parameters(each)) for each in [*DOORS.values(), BoundContributions]]
    assert sum(counts) / len(counts) <= MAX_ON_AVERAGE, counts


@pytest.mark.parametrize("module", MODULES, ids=lambda module: str(module.__name__))
def test_no_call_takes_many_parameters_or_a_bag_of_options(module: ModuleType) -> None:
    found = {name: faults(function) for name, function in callables(module).items()}
    assert len(found) >= 15
    known = {name: [f"{count} parameters"] for name, count in FILLED_BY_TRANSFORMS.items()} | OF_ANY_NAMES
    assert {name: each for name, each in found.items() if each} == {
        name: each for name, each in known.items() if name in found
    }


def test_long_calls_and_bags_of_options_would_be_found() -> None:
    def long(a, b, c, d, e, f, g, h, i, j):
        pass

    def bag(**options: Any) -> None:
        pass

    def settings(options: dict[str, Any] | None = None) -> None:
        pass

    assert [faults(each) for each in (long, bag, settings)] == [["10 parameters"], ["**options"], ["options is a dict"]]
    assert {"PrivateTopK", "PrivacyId", "TreeSpec.for_memory", "plan"} <= (
        callables(beam_dpsketch) | callables(transforms)
    ).keys()


@pytest.mark.parametrize("module", MODULES, ids=lambda module: str(module.__name__))
def test_every_exported_name_is_there_and_documented(module: ModuleType) -> None:
    values = {name: getattr(module, name) for name in module.__all__}
    constants = {name for name, value in values.items() if isinstance(value, (str, enum.Enum))}
    assert constants <= {"ADD_OR_REMOVE_ONE", "REPLACE_ONE", "__version__"}
    assert [name for name, value in values.items() if name not in constants and not documentation(value)] == []


@pytest.mark.parametrize("module", MODULES, ids=lambda module: str(module.__name__))
def test_exported_names_are_sorted_and_no_more_are_public(module: ModuleType) -> None:
    assert list(module.__all__) == sorted(set(module.__all__))
    public = {name for name, value in vars(module).items() if not name.startswith("_") and not inspect.ismodule(value)}
    assert public == set(module.__all__) - {"__version__"}


@pytest.mark.parametrize("door", DOORS.values(), ids=lambda door: str(door.__name__))
def test_every_parameter_of_a_transform_is_documented(door: type) -> None:
    described = re.search(r"Args:\n(.*)", documentation(door), re.DOTALL)
    assert described
    words = re.findall(r"^\s+([\w, ]+):", described.group(1), re.MULTILINE)
    assert {parameter.name for parameter in parameters(door)} <= set(", ".join(words).split(", "))


def names_of_overloads(door: type) -> list[set[str]]:
    """Return the names that each overload of a constructor takes, with those of its typed dict."""
    found = []
    for overload in typing.get_overloads(door.__init__):  # type: ignore[misc]
        given = inspect.signature(overload).parameters
        others = getattr(doors, given["others"].annotation.removeprefix("Unpack[").removesuffix("]"))
        found.append((given.keys() - {"self", "others"}) | others.__annotations__.keys())
    return found


@pytest.mark.parametrize("door", DOORS.values(), ids=lambda door: str(door.__name__))
def test_type_checkers_know_the_arguments_that_a_transform_takes(door: type) -> None:
    found = names_of_overloads(door)
    assert len(found) == (2 if door is transforms.PrivateTopK else 4)
    assert all(names == {parameter.name for parameter in parameters(door)} for names in found)


def test_an_argument_that_type_checkers_do_not_know_would_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(doors._One.__annotations__, "windows")
    with pytest.raises(AssertionError):
        test_type_checkers_know_the_arguments_that_a_transform_takes(PrivateFrequencies)


def test_names_without_words_of_their_own_would_be_found() -> None:
    class Bare:
        pass

    class Inherited(PrivateFrequencies[Any]):
        pass

    def silent() -> NoReturn:
        raise NotImplementedError

    assert [documentation(each) for each in (Bare, Inherited, silent)] == ["", "", ""]
