"""Settings and elements that no transform takes: refused where the transform is made or applied, in words."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, Optional

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.testing.test_stream import TestStream as Stream
from apache_beam.transforms import trigger, window
from apache_beam.typehints import row_type
from apache_beam.utils.timestamp import MAX_TIMESTAMP

from beam_dpsketch import (
    AssumePublicKeys,
    AutoNorm,
    BytesDomain,
    FloatDomain,
    Horizon,
    IntegerDomain,
    IPv4Domain,
    KeySelection,
    Metric,
    NormBound,
    PrivacyId,
    PrivacySpec,
    PublicKeys,
    Record,
    RecordBounds,
    Scale,
    SketchSpec,
    TextDomain,
    Thresholding,
    TimeRange,
    TreeSpec,
    WindowingError,
)
from beam_dpsketch.planning.kinds.statistics import Statistics
from beam_dpsketch.transforms import (
    BoundContributions,
    PrivateFrequencies,
    PrivateMetrics,
    PrivateQuantiles,
    PrivateSketchFn,
    PrivateStatistics,
    PrivateTopK,
    QueryReleases,
    SelectKeys,
    WriteReleases,
)
from tests.helpers.pipelines import FN_API, SPEC

DELAYS, TEXT, CITIES = IntegerDomain(-60, 195), TextDomain(5), PublicKeys(["a"])
PRIVACY = PrivacySpec(rho=1.0)
HORIZON = Horizon(1000, 10, 11)


def frequencies(spec: Any = SPEC, privacy: Any = PRIVACY, privacy_unit: Any = Record(), **given: Any) -> Any:  # noqa: B008
    return PrivateFrequencies(spec, privacy, privacy_unit=privacy_unit, **given)


def quantiles(domain: Any = DELAYS, privacy: Any = PRIVACY, privacy_unit: Any = Record(), **given: Any) -> Any:  # noqa: B008
    return PrivateQuantiles(domain, privacy, privacy_unit=privacy_unit, **given)


def search(domain: Any = DELAYS, privacy: Any = PRIVACY, privacy_unit: Any = Record(), k: Any = 3, **given: Any) -> Any:  # noqa: B008
    return PrivateTopK(domain, privacy, k=k, privacy_unit=privacy_unit, **given)


def groups(domain: Any = TEXT, privacy: Any = PRIVACY, privacy_unit: Any = Record(), **given: Any) -> Any:  # noqa: B008
    return PrivateTopK(domain, privacy, k=9, privacy_unit=privacy_unit, **{"method": Thresholding(1e-8)} | given)


def numbers(domain: Any = DELAYS, privacy: Any = PRIVACY, privacy_unit: Any = Record(), **given: Any) -> Any:  # noqa: B008
    return PrivateStatistics(domain, privacy, privacy_unit=privacy_unit, **given)


def metrics(privacy: Any = PRIVACY, privacy_unit: Any = Record(), **given: Any) -> Any:  # noqa: B008
    return PrivateMetrics({"n": Metric(Statistics(DELAYS), "n")}, privacy, privacy_unit=privacy_unit, **given)


def over_time(spec: Any = SPEC, privacy: Any = PRIVACY, privacy_unit: Any = Record(), **given: Any) -> Any:  # noqa: B008
    return PrivateFrequencies(spec, privacy, privacy_unit=privacy_unit, windows=HORIZON, item="item", **given)


def keys_alone(privacy: Any = PRIVACY, privacy_unit: Any = None, **given: Any) -> Any:
    usual = {
        "privacy_unit": privacy_unit or PrivacyId("user", RecordBounds(1, max_keys=2)),
        "keys": KeySelection(1e-7, "key"),
    }
    return SelectKeys(privacy, **usual | given)


def person(bounds: Any, **limits: Any) -> PrivacyId:
    return PrivacyId("user", bounds, **limits)


def second(pair: tuple[str, int]) -> int:
    return pair[1]


DOORS = {door.__name__: door for door in (frequencies, quantiles, search, groups, numbers, metrics)}
AT_EVERY_DOOR: dict[str, tuple[dict[str, Any], str]] = {
    "no unit": (
        {"privacy_unit": None},
        r"privacy_unit must be PrivacyId\(.*, or Record\(\), .* single records\. Got NoneType",
    ),
    "a word as unit": ({"privacy_unit": "person"}, r"privacy_unit must be PrivacyId\(.* or Record\(\), .*\. Got str"),
    "bounds as unit": ({"privacy_unit": RecordBounds(50)}, r"privacy_unit must be PrivacyId\(.*\. Got RecordBounds"),
    "a number as privacy": ({"privacy": 1.0}, "privacy must be a PrivacySpec, got float"),
    "a list as keys": ({"keys": ["a"]}, r"keys must be PublicKeys\(\[...\]\), (KeySelection.* )?.*got list"),
    "a field as keys": ({"keys": "who"}, r"keys must be .*PublicKeys\(\[...\]\).* got str"),
    "a pair as windows": ({"windows": (0, 300)}, "windows must be a TimeRange or Horizon, got tuple"),
    "weights of any size": ({"weight": "n"}, "max_weight is required with weight"),
    "more keys of a person than there are": (
        {"privacy_unit": person(RecordBounds(50, max_keys=2)), "keys": CITIES},
        "max_keys must be at most 1, the number of listed keys, got 2",
    ),
}


PEOPLE_OF_ITEMS = "groups", "more keys of a person than there are"
"""A person of groups counts for as many items."""


@pytest.mark.parametrize(
    ("door", "name"), [each for each in itertools.product(DOORS, AT_EVERY_DOOR) if each != PEOPLE_OF_ITEMS]
)
def test_every_door_refuses_in_the_same_words(door: str, name: str) -> None:
    arguments, message = AT_EVERY_DOOR[name]
    with pytest.raises((TypeError, ValueError), match=message):
        DOORS[door](**arguments)


A_DOMAIN = "domain must be a Domain, got"
A_SPEC = "spec must be a SketchSpec, ListedItems, FactorizationSpec or TreeSpec, got"
REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    **{
        f"listed items: {spec!r} {keys}": (
            lambda spec=spec, keys=keys: frequencies(spec, keys=keys),
            "spec must be a SketchSpec or ListedItems, got",
        )
        for spec in (["Oslo"], "Oslo", None, {"Oslo"}, ("Oslo",))
        for keys in (None, AssumePublicKeys())
    },
    "quantiles: keys of nothing": (
        lambda: quantiles(privacy_unit=person(RecordBounds(50, max_keys=2))),
        "max_keys is supported only with keys",
    ),
    "quantiles: a text as domain": (lambda: quantiles("0-10"), f"{A_DOMAIN} str"),
    "quantiles: bytes": (lambda: quantiles(BytesDomain(4)), f"{A_DOMAIN} BytesDomain"),
    "quantiles: a number as layout": (lambda: quantiles(5), f"{A_DOMAIN} int"),
    "quantiles: a flat sketch": (lambda: quantiles(SketchSpec()), f"{A_DOMAIN} SketchSpec"),
    "quantiles: little memory": (
        lambda: quantiles(TreeSpec.for_memory(IPv4Domain(), 100)),
        "memory must be at least 5120 bytes",
    ),
    "quantiles: a number as item": (
        lambda: quantiles(item=5),
        "item must be a field name, a callable or None, got int",
    ),
    "quantiles: little noise": (lambda: quantiles(privacy=PrivacySpec(rho=1000.0)), "sigma below 1/16"),
    "search: no values": (lambda: search(k=0), "k must be between 1 and"),
    "search: fewer": (lambda: search(k=-3), "k must be between 1 and"),
    "search: a float": (lambda: search(k=2.0), "k must be a whole number, got float"),
    "search: no values of keys": (lambda: search(k=0, keys=AssumePublicKeys()), "k must be between 1 and"),
    "search: little memory": (
        lambda: search(TreeSpec.for_search(IPv4Domain(), 100)),
        "memory must be at least 2560 bytes",
    ),
    "search: a type as domain": (lambda: search(str), A_DOMAIN),
    "search: a flat sketch": (lambda: search(SketchSpec()), f"{A_DOMAIN} SketchSpec"),
    "search: a horizon": (
        lambda: search(windows=HORIZON),
        "windows must not be a horizon, because this release searches for frequent values",
    ),
    "groups: a tree": (lambda: groups(TreeSpec.for_search(DELAYS)), "domain must be a domain with method"),
    "groups: a sketch": (lambda: groups(SketchSpec()), "domain must be a Domain or a BytesDomain|domain must be"),
    "groups: a chosen norm over unknown keys": (
        lambda: groups(keys=AssumePublicKeys(), privacy_unit=person(AutoNorm(max_keys=2))),
        "bounds must be NormBound if the number of keys and windows is not public",
    ),
    "groups: no limit of items": (
        lambda: groups(privacy_unit=person(RecordBounds(2))),
        "max_keys is required for thresholded counts: .*Example: RecordBounds",
    ),
    **{
        f"groups: signed {name}": (
            lambda privacy_unit=privacy_unit: groups(privacy_unit=privacy_unit),
            "signed is not supported for thresholded counts",
        )
        for name, privacy_unit in {
            "records": Record(signed=True),
            "ids": person(RecordBounds(1, signed=True, max_keys=2)),
            "norm": person(NormBound(2, signed=True, max_keys=2)),
        }.items()
    },
    "groups: chosen keys": (
        lambda: groups(keys=KeySelection(1e-8), privacy_unit=person(RecordBounds(1))),
        "keys must be PublicKeys or AssumePublicKeys for thresholded counts",
    ),
    "groups: all of delta": (lambda: groups(privacy=PrivacySpec(rho=1, delta=1e-8)), "delta must be above 1e-08"),
    "groups: a name": (lambda: groups(method="groups"), "method must be a Thresholding, got str|method must be"),
    "groups: delta of 0": (lambda: Thresholding(0), "delta must be"),
    "groups: much rho": (lambda: groups(privacy=PrivacySpec(rho=1000)), "rho must be at most 128"),
    "numbers: text": (lambda: numbers(TextDomain(3)), "domain must contain integers, or floats"),
    "numbers: one value": (lambda: numbers(IntegerDomain(3, 3)), "domain must have at least two values"),
    "numbers: a share for squares": (
        lambda: numbers(variance=0.1),
        "variance must be True or False, got .* Set variance=True",
    ),
    "numbers: too many steps": (
        lambda: numbers(FloatDomain(0, 1, 1e-5), privacy_unit=person(NormBound(99)), variance=True, windows=HORIZON),
        "domain has too many steps for this noise",
    ),
    "numbers: a limit of an item": (
        lambda: numbers(privacy_unit=person(NormBound(9, max_per_item=1))),
        "max_per_item is not supported for statistics",
    ),
    "CombineFn: no spec": (lambda: PrivateSketchFn(5, PRIVACY), f"{A_SPEC} int"),
    "CombineFn: a domain": (lambda: PrivateSketchFn(DELAYS, PRIVACY), f"{A_SPEC} IntegerDomain"),
    "bounding: bounds": (
        lambda: BoundContributions(RecordBounds(1)),
        "privacy_unit must be a PrivacyId, got RecordBounds",
    ),
    "bounding: a number as item": (
        lambda: BoundContributions(person(RecordBounds(1)), item=5),
        "item must be a field name, a call",
    ),
    "keys alone: a share": (lambda: keys_alone(keys=KeySelection(1e-7, "key", share=0.5)), "keys.share must be left"),
    "keys alone: any number of keys": (
        lambda: keys_alone(privacy_unit=person(NormBound(3))),
        "max_keys is required with KeySelection",
    ),
    "keys alone: signed": (lambda: keys_alone(privacy_unit=Record(signed=True)), "signed is not supported with"),
    "keys alone: all of delta": (lambda: keys_alone(PrivacySpec(rho=1.0, delta=1e-8)), "delta must be above"),
    "keys alone: much rho": (
        lambda: keys_alone(PrivacySpec(rho=4609), privacy_unit=Record()),
        "Votes need noise .* Use a smaller rho",
    ),
    "over time: a chosen norm": (
        lambda: over_time(privacy_unit=person(AutoNorm())),
        r"bounds must not be AutoNorm\(\) in continual release",
    ),
    "over time: a period": (
        lambda: over_time(privacy_unit=person(NormBound(3), period=100)),
        "period is not supported in continual release: .* to the whole horizon",
    ),
    "over time: any number of windows": (
        lambda: over_time(privacy_unit=person(RecordBounds(1))),
        "max_windows is required with RecordBounds in continual release: .* at most 11, in which",
    ),
    "over time: too many windows": (
        lambda: over_time(privacy_unit=person(RecordBounds(1), max_windows=12)),
        "max_windows must be at most 11, the windows in the horizon, got 12",
    ),
    "over time: too many windows of a norm": (
        lambda: over_time(privacy_unit=person(NormBound(1), max_windows=12)),
        "max_windows must be at most 11, the windows in the horizon, got 12",
    ),
    "over time: too much rho": (lambda: over_time(privacy=PrivacySpec(rho=1000)), "rho must be at most"),
    "over time: a plain list": (lambda: over_time(["Oslo"]), "spec must be a SketchSpec or ListedItems, got"),
    "over time: a domain": (lambda: over_time(DELAYS), "spec must be a SketchSpec or ListedItems, got IntegerDomain"),
    "one window": (lambda: Horizon(1, 10, 1), "windows must be between 2 and 131072"),
    "too many windows": (lambda: Horizon(1, 10, (1 << 17) + 1), "windows must be between 2 and 131072"),
    "too many windows of a tree": (
        lambda: Horizon(1, 10, 2049, "tree"),
        r"windows must be at most 2,048 with the binary tree, got 2,049.*mechanism=.binned.*E433",
    ),
    "windows of no length": (lambda: Horizon(1, 0, 11), "window_size must be greater than 0"),
    "windows before 1970": (lambda: Horizon(-0.5, 10, 11), "start must be in 1970 or later"),
    "a start between milliseconds": (lambda: Horizon(1e-4, 10, 11), "start must be in whole milliseconds"),
    "a size between milliseconds": (lambda: Horizon(1, 0.5001, 11), "window_size must be in whole milliseconds"),
    "no such mechanism": (
        lambda: Horizon(1, 10, 11, "root"),  # type: ignore[arg-type]
        "mechanism must be one of 'binned', 'tree', got 'root'",
    ),
    "a horizon too far": (lambda: Horizon(MAX_TIMESTAMP, 10, 11), "must end before Beam's last timestamp"),
    **{
        f"a range of {name}": (lambda ends=ends: TimeRange(*ends), message)
        for name, ends, message in [
            ("texts", ("1970", "1971"), "start must be a time, such as .*, got str"),
            ("no end", (0, None), "end must be a time, such as .*, got NoneType"),
            ("bools", (False, True), "start must be .*, got bool"),
            ("nothing", (60, 60), "end must be after start"),
            ("time backwards", (60, 0), "end must be after start"),
            ("no last time", (0, math.inf), "end must be finite"),
            ("no number", (math.nan, 60), "start must be finite"),
            ("too far", (0, np.int64(1) << 62), "end must be finite and within the times that Beam supports"),
        ]
    },
    **{f"a scale of {rows} rows": (lambda rows=rows: Scale(rows=rows), "rows") for rows in (0, 1.5, -1)},
    "a number as scale": (lambda: frequencies().with_size_hint(10**9), "scale must be a Scale"),
    "a question in a dict": (lambda: QueryReleases({"quantiles": [0.5]}), r"ask must be an? Ask"),  # type: ignore[arg-type]
    "a word for overwrite": (
        lambda: WriteReleases("out", overwrite="yes"),  # type: ignore[arg-type]
        "overwrite must be a bool, got str",
    ),
    "a path as prefix": (lambda: WriteReleases(Path("out")), "file_path_prefix must be a str"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_meant_is_refused(name: str) -> None:
    build, message = REFUSED[name]
    with pytest.raises((TypeError, ValueError), match=message):
        build()


PAIR = tuple[str, int]


def build_pairs(element_type: Any, transform: beam.PTransform, windows: Any = None) -> None:
    """Build a pipeline over elements of a type; nothing runs."""
    elements = beam.Pipeline(runner=FN_API) | beam.Impulse() | beam.Map(lambda _: _).with_output_types(element_type)
    _ = (elements if windows is None else elements | beam.WindowInto(beam.window.FixedWindows(60))) | transform


@pytest.mark.parametrize("door", ["frequencies", "quantiles", "groups"])
@pytest.mark.parametrize("element_type", [PAIR, tuple[Any, Any]], ids=str)
def test_pairs_without_keys_and_item_are_refused(door: str, element_type: Any) -> None:
    with pytest.raises(
        ValueError, match=r"keys is required, because .* pairs.* item=lambda pair: pair\[1\] to count values"
    ):
        build_pairs(element_type, DOORS[door]())


@pytest.mark.parametrize("windows", [TimeRange(0, 60), Horizon(0, 60, 4)], ids=["range", "horizon"])
def test_pairs_are_refused_in_declared_windows_too(windows: Any) -> None:
    with pytest.raises(ValueError, match="keys is required, because elements are"):
        build_pairs(PAIR, DOORS["frequencies"](windows=windows), windows if isinstance(windows, TimeRange) else None)


@pytest.mark.filterwarnings("ignore::beam_dpsketch.InputWarning")
@pytest.mark.parametrize(
    ("element_type", "given"),
    [
        (PAIR, {"keys": PublicKeys(["a"])}),
        (PAIR, {"item": lambda pair: pair}),
        (PAIR, {"item": lambda pair: pair[1]}),
        (tuple[str, int, int], {}),
        (str, {}),
        (Any, {}),
        (tuple, {}),
        (Optional[PAIR], {"item": lambda pair: pair}),  # noqa: UP045
        (row_type.RowTypeConstraint.from_fields([("city", str), ("n", int)]), {"item": "city"}),
    ],
)
def test_what_is_no_pair_or_says_what_is_counted_is_taken(element_type: Any, given: dict[str, Any]) -> None:
    build_pairs(element_type, DOORS["frequencies"](**given))


OFTEN = beam.WindowInto(
    window.FixedWindows(60),
    trigger=trigger.Repeatedly(trigger.AfterCount(1)),
    accumulation_mode=trigger.AccumulationMode.DISCARDING,
    allowed_lateness=5,
    timestamp_combiner=window.TimestampCombiner.OUTPUT_AT_LATEST,
)


@pytest.mark.parametrize(
    ("windows", "given", "wanted"),
    [
        (None, {}, "E402 E419 E417"),
        (None, {"keys": CITIES}, "E402 E419 E417 E420"),
        (OFTEN, {"keys": CITIES}, "E405 E406 E401 E419 E417 E420"),
        (beam.WindowInto(window.Sessions(60)), {}, "E409 E419 E417"),
        (OFTEN, {"windows": HORIZON}, "E403 E405 E406 E419"),
        (beam.WindowInto(window.FixedWindows(60)), {"windows": TimeRange(0, 90)}, "E419 E413"),
    ],
)
def test_all_refusals_of_windows_come_at_once(windows: Any, given: dict[str, Any], wanted: str) -> None:
    elements = beam.Pipeline(runner=FN_API) | Stream().add_elements(["a"])
    elements = elements if windows is None else elements | windows
    with pytest.raises(WindowingError) as refused:
        elements | frequencies(privacy_unit=PrivacyId(lambda name: name, NormBound(2)), item=lambda name: name, **given)
    assert [each.code for each in refused.value.refusals] == wanted.split()


def test_all_refusals_of_bounded_windows_come_at_once() -> None:
    users = PrivacyId(lambda name: name, NormBound(2), max_windows=3, period=90)
    elements = beam.Pipeline(runner=FN_API) | beam.Create(["a"]) | OFTEN
    with pytest.raises(WindowingError) as refused:
        elements | frequencies(privacy_unit=users, item=lambda name: name)
    assert [each.code for each in refused.value.refusals] == ["E405", "E406", "E401", "E418", "E416"]
