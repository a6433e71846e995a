"""What only data can show: one warning in a worker's log, and elements that have no time."""

from __future__ import annotations

import dataclasses
import logging
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import apache_beam as beam
import pandas as pd
import pyarrow as pa
import pytest
from apache_beam.testing.test_stream import TestStream as Stream
from apache_beam.transforms import window

from beam_dpsketch import (
    AssumePublicKeys,
    Horizon,
    IntegerDomain,
    PrivacyId,
    PrivacySpec,
    PublicKeys,
    Record,
    RecordBounds,
    TimeRange,
)
from beam_dpsketch.exact.reading import unreadable
from beam_dpsketch.transforms import PrivateFrequencies, PrivateQuantiles
from tests.helpers.keyed_units import in_keys
from tests.helpers.pipelines import BUNDLE_BASED, FN_API, SPEC, seen_by_sink

PRIVACY = PrivacySpec(rho=0.1)
PLANTED = "planted-4711"
ROWS = [{"user": f"{PLANTED}-{number}", "city": PLANTED, "share": 0.5} for number in range(unreadable.MANY)]
ONE = RecordBounds(1, max_weight=9)
USER, RECORD = PrivacyId("user", ONE), Record(max_weight=9)
MISSPELT = PrivacyId("usr", ONE)


def frequencies(unit: Any, **arguments: Any) -> PrivateFrequencies:
    return PrivateFrequencies(SPEC, PRIVACY, privacy_unit=unit, **arguments)


def per_key(key: str, unit: Any, **arguments: Any) -> PrivateFrequencies:
    keys = AssumePublicKeys(key)
    return PrivateFrequencies(SPEC, PRIVACY, privacy_unit=in_keys(unit, keys), keys=keys, **arguments)


@pytest.fixture(autouse=True)
def _nothing_logged_before() -> Iterator[None]:
    unreadable._log_once.cache_clear()
    yield
    unreadable._log_once.cache_clear()


def logged(caplog: pytest.LogCaptureFixture, transforms: Iterable[beam.PTransform], elements: list[Any]) -> list[str]:
    """The warnings of a run in which all elements are one bundle of each transform."""
    with caplog.at_level(logging.WARNING, logger="beam_dpsketch"), beam.Pipeline(runner=FN_API) as pipeline:
        read = pipeline | beam.Create(elements, reshuffle=False)
        for number, transform in enumerate(transforms):
            read | str(number) >> transform
    return [record.getMessage() for record in caplog.records if record.name.startswith("beam_dpsketch")]


def warning(argument: str) -> str:
    whole = "whole numbers" if argument.startswith("weight") else "whole numbers (IntegerDomain)"
    wanted = whole if argument in ("weight='share'", "weight='n'", "item='share'") else "text, bytes or integers"
    has = "a listed value" if argument == "key='user'" else "a usable value"
    return (
        f"{argument}: no element of a bundle has {has}. No element counts. Usable values are {wanted}. "
        "Run .check(sample) of the transform with public or made-up elements."
    )


DROPPED = {
    "item='town'": frequencies(RECORD, item="town"),
    "item (a callable)": frequencies(RECORD, item=lambda row: row["town"]),
    "item='share'": PrivateQuantiles(IntegerDomain(0, 9), PRIVACY, item="share", privacy_unit=RECORD),
    "weight='share'": frequencies(RECORD, item="city", weight="share"),
    "key='share'": per_key("share", RECORD, item="city"),
    "key='user'": PrivateFrequencies(
        SPEC, PRIVACY, item="city", privacy_unit=RECORD, keys=PublicKeys(["listed"], "user")
    ),
    "privacy_id='usr'": frequencies(MISSPELT, item="city"),
    "item='place'": frequencies(USER, item="place"),
    "weight='n'": frequencies(USER, item="city", weight="n"),
    "key='none'": per_key("none", USER, item="city"),
}


@pytest.mark.slow
@pytest.mark.pipeline
def test_an_argument_that_finds_nothing_is_logged_once_by_name(caplog: pytest.LogCaptureFixture) -> None:
    assert sorted(logged(caplog, DROPPED.values(), ROWS * 3)) == sorted(map(warning, DROPPED))
    assert PLANTED not in caplog.text


@pytest.mark.pipeline
def test_a_column_that_has_nothing_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    columns = pa.table({"x": pa.nulls(unreadable.MANY, pa.string()), "y": ["k"] * unreadable.MANY})
    transforms = [frequencies(RECORD, item="x"), per_key("y", PrivacyId("y", ONE), item="x")]
    assert logged(caplog, transforms, [columns]) == [warning("item='x'")]


MIXED = [{"user": f"u{place}", "n": "1,234" if place % 8 == 0 else 5, "k": "k"} for place in range(2 * unreadable.MANY)]
FORMS: dict[str, Callable[[], list[Any]]] = {
    "dicts": lambda: MIXED,
    "rows": lambda: [beam.Row(**each) for each in MIXED],
    "pandas": lambda: [pd.DataFrame(MIXED)],
}
QUANTILES: dict[str, Callable[[], beam.PTransform]] = {
    "record": lambda: PrivateQuantiles(IntegerDomain(0, 9), PRIVACY, item="n", privacy_unit=RECORD),
    "keys": lambda: PrivateQuantiles(
        IntegerDomain(0, 9), PRIVACY, item="n", privacy_unit=RECORD, keys=AssumePublicKeys("k")
    ),
    "id": lambda: PrivateQuantiles(IntegerDomain(0, 9), PRIVACY, item="n", privacy_unit=USER),
    "weight": lambda: frequencies(USER, item="k", weight="n"),
}


@pytest.mark.one_fast_case
@pytest.mark.pipeline
@pytest.mark.parametrize("unit", QUANTILES)
@pytest.mark.parametrize("form", FORMS)
def test_many_values_that_cannot_be_read_are_logged_once_without_a_number(
    form: str, unit: str, caplog: pytest.LogCaptureFixture
) -> None:
    """An eighth of them; steps cannot refuse, and how many there are depends on the data alone."""
    argument = "weight='n'" if unit == "weight" else "item='n'"
    (said,) = logged(caplog, [QUANTILES[unit]()], FORMS[form]() * 2)
    assert said.startswith(f"{argument}: many elements of a bundle do not have a usable value")
    assert "1,2" not in caplog.text
    assert not re.search(r"[0-9]", said.partition(":")[2])


@pytest.mark.pipeline
def test_holes_are_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    holes = [{**each, "n": None if each["n"] == "1,234" else each["n"]} for each in MIXED]
    transforms = [make() for make in QUANTILES.values()]
    assert logged(caplog, transforms, holes) == logged(caplog, transforms, [pd.DataFrame(holes)]) == []


@pytest.mark.pipeline
@pytest.mark.slow
def test_few_elements_and_a_single_one_that_counts_log_nothing(caplog: pytest.LogCaptureFixture) -> None:
    good = {**ROWS[0], "town": "Oslo", "usr": "u", "n": 1}
    transforms = [
        frequencies(RECORD, item="town"),
        frequencies(RECORD, item="city", weight="n"),
        per_key("town", RECORD, item="city"),
        frequencies(MISSPELT, item="city"),
    ]
    for elements in (ROWS[1:], [*ROWS, good]):
        assert logged(caplog, transforms, elements) == []


@pytest.mark.pipeline
def test_a_stream_logs_it_too(caplog: pytest.LogCaptureFixture) -> None:
    stream = Stream().add_elements([window.TimestampedValue(row, 1) for row in ROWS]).advance_watermark_to_infinity()
    transform = frequencies(PrivacyId("usr", ONE, max_windows=2, period=600), item="city")
    with caplog.at_level(logging.WARNING, logger="beam_dpsketch"), beam.Pipeline(runner=BUNDLE_BASED) as pipeline:
        pipeline | stream | beam.WindowInto(window.FixedWindows(60)) | transform
    assert "privacy_id='usr': no element of a bundle" in caplog.text


WINDOWED: dict[str, Callable[[], beam.PTransform]] = {
    "record": lambda: frequencies(RECORD, item="city"),
    "id": lambda: frequencies(USER, item="city"),
    "declared": lambda: frequencies(RECORD, item="city", windows=TimeRange(0, 120)),
    "limited": lambda: frequencies(PrivacyId("user", ONE, max_windows=2), item="city"),
}


@pytest.mark.one_fast_case
@pytest.mark.pipeline
@pytest.mark.parametrize("name", WINDOWED)
def test_elements_without_timestamps_are_refused_in_windows(name: str) -> None:
    with pytest.raises(Exception, match=r"Elements have no timestamps \(MIN_TIMESTAMP\).*TimestampedValue") as caught:
        seen_by_sink(
            lambda pipeline: (
                pipeline | beam.Create(ROWS[:3]) | beam.WindowInto(window.FixedWindows(60)) | WINDOWED[name]()
            )
        )
    assert PLANTED not in str(caught.value)


@pytest.mark.one_fast_case
@pytest.mark.pipeline
@pytest.mark.parametrize("unit", [RECORD, USER], ids=["record", "id"])
def test_continual_release_refuses_elements_without_timestamps(unit: Any) -> None:
    over_time = unit if unit is RECORD else dataclasses.replace(unit, max_windows=2)
    transform = PrivateFrequencies(SPEC, PRIVACY, windows=Horizon(0, 60, 4), item="city", privacy_unit=over_time)
    with pytest.raises(Exception, match="Elements have no timestamps"):
        seen_by_sink(lambda pipeline: pipeline | beam.Create(ROWS[:3]) | transform)
