"""Each refusal has a code that `docs/errors.md` explains, and says all that is wrong at once."""

from __future__ import annotations

import ast
import pathlib
import pickle
import re
from collections.abc import Callable
from typing import Any

import pytest

import beam_dpsketch
from beam_dpsketch import ConfigError, NormBound, PrivacyId, PrivacySpec, Record, SketchSpec, errors
from beam_dpsketch.config import read_keys, read_method, read_privacy_unit, read_release, read_windows
from beam_dpsketch.errors import AllAtOnce, ArgumentError, ArgumentsError, ArgumentTypeError, RefusalError
from beam_dpsketch.transforms import PrivateFrequencies, PrivateQuantiles, PrivateTopK

PACKAGE = pathlib.Path(beam_dpsketch.__file__).parent
PAGE = (PACKAGE.parent / "docs" / "errors.md").read_text(encoding="utf-8")
EXPLAINED = re.findall(r"^\| (E\d{3}) \| ([^|]*) \| [^|]+ \|$", PAGE, re.MULTILINE)
CALLS = [
    call
    for path in sorted(PACKAGE.rglob("*.py"))
    for call in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    if isinstance(call, ast.Call)
]
WITHOUT_CODES = {
    "privacy/noise/gaussian_bounds.py": "of numbers that the package works out",
    "privacy/noise/laws.py": "of numbers that the package works out",
    "privacy/noise/geometric_table.py": "of numbers that the package works out",
    "privacy/mechanism.py": "of numbers that the package works out",
    "privacy/contributions.py": "of units that transforms make",
    "privacy/terms.py": "of units that transforms make",
    "privacy/shares.py": "copies of a budget",
    "privacy/noise/keyed_randomness.py": "copies of a secret, and numbers that the package works out",
    "exact": "bytes between workers, parts of columns, and texts that readers refuse in their own words",
    "noise": "arrays between parts of the package",
    "encodings.py": "bytes between workers, and classes of settings that a programmer adds",
    "rows/base.py": "the base class itself, which is not to be made",
    "statement": "fields of bytes, which FormatError names",
    "answers": "arrays between parts of the package",
}
"""Where plain errors are raised: by code alone, not by what users write."""


def codes(source: ast.AST) -> set[str]:
    """The codes in an expression, or in the default of an argument."""
    found = (node.value for node in ast.walk(source) if isinstance(node, ast.Constant))
    return {each for each in found if isinstance(each, str) and re.fullmatch(r"E\d{3}", each)}


def test_the_page_explains_each_code_once_and_no_other() -> None:
    used = set().union(*(codes(ast.parse(path.read_text(encoding="utf-8"))) for path in PACKAGE.rglob("*.py")))
    listed = [code for code, _ in EXPLAINED]
    assert listed == sorted(set(listed))
    assert used - {*listed} == set()
    assert {*listed} - used == set()


def test_a_code_is_of_the_arguments_that_the_page_names() -> None:
    """A code that is taken for another argument has a second meaning."""
    named = {code: set(re.findall(r"`([^`]+)`", arguments)) for code, arguments in EXPLAINED}
    found: dict[str, set[str]] = {}
    for call in CALLS:
        if len(call.args) >= 3 and isinstance(call.args[2], ast.Constant) and codes(call.args[2]):
            argument = call.args[0]
            if isinstance(argument, ast.Constant) and argument.value:
                found.setdefault(call.args[2].value, set()).add(argument.value)
    any_setting = {code for code in named if code.startswith("E8") and not named[code]}
    assert {code: names for code, names in named.items() if names} == {
        code: names for code, names in found.items() if code not in any_setting
    }


def test_errors_of_arguments_have_codes() -> None:
    """Every refusal names its code, and built-in errors are raised where no user can cause them."""
    kinds = {"ArgumentError", "ArgumentTypeError", "WindowingError", "BudgetExceededError"}
    without = [
        ast.unparse(call)
        for call in CALLS
        if isinstance(call.func, ast.Name) and call.func.id in kinds and len(call.args) < 3
    ]
    assert without == []
    plain = set()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            called = node.exc if isinstance(node, ast.Raise) else None
            name = getattr(called.func, "id", "") if isinstance(called, ast.Call) else ""
            if name in ("ValueError", "TypeError"):
                place = path.relative_to(PACKAGE)
                plain.add(str(place) if str(place) in WITHOUT_CODES else place.parts[0])
    assert plain == set(WITHOUT_CODES)


def test_messages_name_only_ways_that_doors_can_spell() -> None:
    names = {
        name
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        for name in re.findall(r"\$([A-Za-z_]\w+)", node.value)
    }
    assert names == set(errors._WAYS) | {"NormBound"}


@pytest.mark.parametrize(
    ("way", "read"),
    [
        ("threshold_of_delta", lambda block: read_method(block["method"])),
        ("norm_of_16_keys", lambda block: read_privacy_unit({"privacy_id": "p", **block})),
        ("norm_of_weights", lambda block: read_privacy_unit({"privacy_id": "p", **block})),
        ("records_of_weights", lambda block: read_privacy_unit({"privacy_id": "p", **block})),
        ("record_of_weights", read_privacy_unit),
        ("person_in_30_windows", lambda block: read_privacy_unit(block["privacy_unit"])),
        ("person_in_7_days", lambda block: read_privacy_unit(block["privacy_unit"])),
        ("selection_of_pages", lambda block: read_keys(block["keys"])),
        ("keys_of_pairs", lambda block: read_keys(block["keys"])),
        ("windows_from_to", lambda block: read_windows(block["windows"])),
    ],
)
def test_ways_can_be_taken_as_settings(way: str, read: Callable[[Any], Any]) -> None:
    import yaml

    read(yaml.safe_load(errors._WAYS[way][1]))


UNIT = PrivacyId("person", NormBound(5))
SPENT = PrivacySpec(rho=1)
WRONG: dict[str, Any] = {"privacy_unit": 3, "item": 5, "keys": "a", "windows": "today"}


@pytest.mark.parametrize(
    "make",
    [
        lambda: PrivateTopK("text", SPENT, k=0, **WRONG),
        lambda: PrivateQuantiles("text", SPENT, **WRONG),  # type: ignore[arg-type]
        lambda: PrivateFrequencies("text", SPENT, **WRONG),  # type: ignore[arg-type]
    ],
)
def test_a_door_of_python_names_all_wrong_arguments(make: Callable[[], Any]) -> None:
    with pytest.raises(ArgumentTypeError) as caught:
        make()
    assert [each.argument for each in caught.value.refusals][-4:] == ["privacy_unit", "item", "keys", "windows"]
    assert len(caught.value.refusals) >= 5
    assert len(str(caught.value).split("\n")) == len(caught.value.refusals)


def test_arguments_that_do_not_go_together_are_named_at_once() -> None:
    keyed = PrivacyId("person", NormBound(5, max_keys=3))
    with pytest.raises(ArgumentError) as caught:
        PrivateFrequencies(SketchSpec(), SPENT, privacy_unit=keyed, item="city", weight="times")
    assert [(each.argument, each.code) for each in caught.value.refusals] == [
        ("max_keys", "E306"),
        ("max_weight", "E203"),
    ]


def test_a_value_object_names_all_wrong_fields() -> None:
    with pytest.raises(ArgumentError) as caught:
        NormBound(20, max_weight=0, max_keys=0)
    assert [each.argument for each in caught.value.refusals] == ["max_weight", "max_keys"]


def test_settings_name_all_that_is_missing_unknown_or_wrong() -> None:
    settings = {"kind": "top_k", "itm": "city", "privacy": {"epsilon": -1, "dleta": 2}, "k": 0, "spec": {}}
    with pytest.raises(ConfigError) as caught:
        read_release(settings)
    found = [(each.argument, each.code) for each in caught.value.refusals]
    assert found == [
        ("itm", "E801"),
        ("privacy.dleta", "E801"),
        ("k", "E805"),
        ("domain", "E802"),
        ("privacy_unit", "E802"),
        ("spec", "E804"),
    ]


def test_many_refusals_are_cut() -> None:
    with pytest.raises(ConfigError) as caught:
        read_privacy_unit({f"x{number}": 1 for number in range(100)})
    assert str(caught.value).count("\n") == 20
    assert str(caught.value).endswith("and 80 more")


def test_refusals_are_kept_by_pickle_and_by_the_words_of_settings() -> None:
    checks = AllAtOnce()
    checks.do(PrivacySpec)
    checks.do(NormBound, "auto")
    with pytest.raises(ArgumentsError) as caught:
        checks.end()
    error: RefusalError = pickle.loads(pickle.dumps(caught.value))
    assert str(error) == str(caught.value)
    assert isinstance(error, TypeError)
    assert isinstance(error, ValueError)
    assert "To choose the norm from the data, use AutoNorm() [dpsketch-E205]" in str(error)
    assert str(error.at("privacy_unit", {"max_norm": "privacy_unit.norm.max_norm"})).split("\n")[1] == (
        "privacy_unit.norm.max_norm: must be a number, got str. To choose the norm from the data, use norm: auto "
        "[dpsketch-E205]"
    )


def test_one_refusal_is_raised_as_it_is() -> None:
    with pytest.raises(ArgumentTypeError, match=r"^privacy_unit must be .*\. Got int \[dpsketch-E201\]$"):
        PrivateFrequencies(SketchSpec(), SPENT, privacy_unit=3)  # type: ignore[call-overload]
    PrivateFrequencies(SketchSpec(), SPENT, privacy_unit=Record())
    PrivateFrequencies(SketchSpec(), SPENT, privacy_unit=UNIT)


def test_the_last_check_has_a_result_unless_any_refused() -> None:
    checks = AllAtOnce()
    assert checks.result(checks.do(NormBound, 3)) == NormBound(3)
    checks.do(NormBound, -1)
    for found in (checks.do(NormBound, 3), None):
        with pytest.raises(ArgumentError, match="max_norm"):
            checks.result(found)
