"""Every field of every value object can be set, and every argument of every transform."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterator
from typing import Any

import pytest

import beam_dpsketch
from beam_dpsketch import Horizon, SketchSpec, transforms
from beam_dpsketch.config import read_release
from beam_dpsketch.rows.base import private_transform
from tests.config.examples import BLOCKS, RELEASES, TABLES

NOT_SETTINGS = {
    "Account",
    "Changes",
    "Clipping",
    "Frequencies",
    "ThresholdedCounts",
    "Intervals",
    "LossLimit",
    "ItemFrequencies",
    "PrivacyIdCount",
    "RecordCount",
    "Metric",
    "Metrics",
    "Plan",
    "PrivacyStatement",
    "Quantiles",
    "FactorizationSpec",
    "Rehearsal",
    "ReleaseSpec",
    "ReleaseTerms",
    "Scale",
    "Statistics",
    "TimelineRow",
    "TopKSearch",
}
"""Frozen dataclasses that the package makes, that only its Python users need, or that are all of a release."""

ONE_VALUE = {"hash_version"}
"""Fields of one value so far; they can be set to it."""


def parts(value: Any) -> Iterator[Any]:
    """Yield a value object and those in it."""
    if isinstance(value, tuple):
        for each in value:
            yield from parts(each)
    elif dataclasses.is_dataclass(value):
        yield value
        for field in dataclasses.fields(value):
            yield from parts(getattr(value, field.name))


def constant_fields(objects: list[Any]) -> set[str]:
    """Return the fields that are the same in all objects of their type: nothing sets them."""
    seen: dict[str, set[str]] = {}
    for each in objects:
        for field in dataclasses.fields(each):
            seen.setdefault(f"{type(each).__name__}.{field.name}", set()).add(repr(getattr(each, field.name)))
    return {name for name, values in seen.items() if len(values) < 2}


def objects() -> list[Any]:
    return [each for read, settings in BLOCKS for each in parts(read(settings))]


def test_every_field_of_a_value_object_can_be_set() -> None:
    unset = {name for name in constant_fields(objects()) if name.split(".")[1] not in ONE_VALUE}
    assert unset == set()


def test_every_field_of_a_release_can_be_set() -> None:
    every = RELEASES + TABLES
    named = [{**each, **({"item": f"i{n}"} if "item" in each else {})} for n, each in enumerate(every)]
    assert constant_fields([*map(read_release, named)]) == set()


def test_a_field_that_nothing_sets_would_be_found() -> None:
    @dataclasses.dataclass
    class Grown:
        old: int
        new: int = 0

    assert constant_fields([Grown(1), Grown(2)]) == {"Grown.new"}
    without = [each for each in objects() if not (isinstance(each, SketchSpec) and each.kind == "count_min")]
    assert "SketchSpec.kind" in constant_fields(without)
    without = [each for each in objects() if not (isinstance(each, Horizon) and each.mechanism == "tree")]
    assert "Horizon.mechanism" in constant_fields(without)


def test_every_value_object_of_the_package_is_a_setting_or_said_not_to_be() -> None:
    exported = {name: getattr(beam_dpsketch, name) for name in beam_dpsketch.__all__}
    dataclass_names = {
        name
        for name, value in exported.items()
        if inspect.isclass(value) and dataclasses.is_dataclass(value) and not inspect.isabstract(value)
    }
    assert {type(each).__name__ for each in objects()} - {"Level"} == dataclass_names - NOT_SETTINGS


@pytest.mark.parametrize("settings", RELEASES, ids=range(len(RELEASES)))
def test_a_release_has_the_arguments_of_its_transform(settings: dict[str, Any]) -> None:
    declared = read_release(settings)
    made = private_transform(declared)
    count = {
        field.name: getattr(declared.count, field.name) for field in dataclasses.fields(declared.count) if field.init
    }
    names = inspect.signature(type(made)).parameters.keys() - {*count, "method"}
    again = type(made)(**count, **{name: getattr(declared, name) for name in names})
    assert again._declared == made._declared == declared


def test_all_transforms_are_described() -> None:
    made = {type(private_transform(read_release(each))).__name__ for each in RELEASES}
    assert {name for name in transforms.__all__ if name.startswith("Private")} - {"PrivateSketchFn"} == made
    assert {each["kind"] for each in RELEASES if "horizon" in each} == {
        "frequencies",
        "quantiles",
        "statistics",
        "metrics",
    }
