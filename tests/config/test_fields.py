"""Every field of every value object can be set, and every argument of every transform."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterator
from typing import Any

import pytest

import beam_dpsketch
from beam_dpsketch import Horizon, SketchSpec, transforms
from beam_dpsketch.config import ReleaseConfig, read_release
from beam_dpsketch.records.declaration import Declaration
from tests.config.examples import BLOCKS, RELEASES

NOT_SETTINGS = {
    "Changes",
    "DistanceError",
    "Frequencies",
    "Intervals",
    "Plan",
    "PrivacyStatement",
    "ReleaseTerms",
    "TimelineRow",
}
"""Frozen dataclasses that the package makes, or that only its Python users need."""

ONE_VALUE = {"hash_version"}
"""Fields of one value so far; they can be set to it."""

FAMILIES = {
    ("frequencies", False): transforms.PrivateFrequencies,
    ("frequencies", True): transforms.PrivateContinualFrequencies,
    ("quantiles", False): transforms.PrivateQuantiles,
    ("quantiles", True): transforms.PrivateContinualQuantiles,
    ("top_k", False): transforms.PrivateTopK,
}


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
    assert constant_fields([read_release({**each, "item": f"i{n}"}) for n, each in enumerate(RELEASES)]) == set()


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
    assert {type(each).__name__ for each in objects()} == dataclass_names - NOT_SETTINGS


def transform_of(settings: ReleaseConfig) -> Any:
    """Return the transform that a release describes."""
    family = FAMILIES[settings.kind, settings.horizon is not None]
    maker = family.Globally if settings.keys is None else family.PerKey
    names = list(inspect.signature(maker).parameters)[1:]
    return maker(settings.spec, **{name: getattr(settings, name) for name in names})


@pytest.mark.parametrize("settings", RELEASES, ids=range(len(RELEASES)))
def test_a_release_has_the_arguments_of_its_transform(settings: dict[str, Any]) -> None:
    release = read_release(settings)
    declared: Declaration = transform_of(release)._declaration
    assert (declared.privacy, declared.unit, declared.keys) == (release.privacy, release.unit, release.keys)
    assert (declared.item, declared.weight, declared.windows) == (release.item, release.weight, release.windows)


def test_all_transforms_are_described() -> None:
    kinds = {(each["kind"], "horizon" in each, "keys" in each) for each in RELEASES}
    assert {kind[:2] for kind in kinds} == set(FAMILIES)
    assert {name for name in transforms.__all__ if name.startswith("Private")} - {"PrivateSketchFn"} == {
        family.__name__ for family in FAMILIES.values()
    }
