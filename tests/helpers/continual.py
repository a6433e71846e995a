"""Continual release of a few visits: its exact rows from the real pipeline, and what they should be."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.testing.test_stream import TestStream as Stream
from apache_beam.transforms.window import TimestampedValue

from beam_dpsketch import Horizon, PrivacySpec, Record
from beam_dpsketch.answers.over_time import TimelineRow
from beam_dpsketch.exact.horizon import Mechanism
from beam_dpsketch.exact.sketches import raw_type
from beam_dpsketch.privacy.over_time.mechanism import matrix_rows
from beam_dpsketch.transforms import PrivateFrequencies
from tests.helpers import noise
from tests.helpers.pipelines import FN_API, SPEC, seen_by_sink

START, SIZE, WINDOWS = 1007, 10, 11
HORIZON = Horizon(START, SIZE, WINDOWS)
PRIVACY = PrivacySpec(rho=0.1)
Build = Callable[[beam.Pipeline], beam.PCollection]
Rows = dict[Any, np.ndarray]


class Visit(NamedTuple):
    """A record."""

    who: str
    item: str
    time: float


VISITS = [
    *(Visit("early", "outside", time) for time in (0.0, START - 0.001, START + 110, 1e9)),
    *(Visit("ann", "a", START + 5.0) for _ in range(5)),
    *(Visit("ann", "b", START + second) for second in (12.0, 33.0, 44.0, 79.5)),
    *(Visit("bob", "b", START + second) for second in (9.999, 10.0, 13.0, 70.0, 109.999)),
]
LATE = Visit("bob", "late", START + 1.0)


def made_by(mechanism: Mechanism, horizon: Horizon = HORIZON) -> Horizon:
    """The windows, with rows of a mechanism."""
    return dataclasses.replace(horizon, mechanism=mechanism)


def frequencies(
    spec: Any = SPEC,
    privacy: PrivacySpec = PRIVACY,
    horizon: Horizon = HORIZON,
    mechanism: Mechanism = "binned",
    **arguments: Any,
) -> PrivateFrequencies:
    """The transform, of records if no unit is given."""
    return PrivateFrequencies(
        spec, privacy, windows=made_by(mechanism, horizon), **{"item": "item", "privacy_unit": Record()} | arguments
    )


def per_key(
    keys: Any,
    spec: Any = SPEC,
    privacy: PrivacySpec = PRIVACY,
    horizon: Horizon = HORIZON,
    mechanism: Mechanism = "binned",
    **arguments: Any,
) -> PrivateFrequencies:
    """The transform of each key, of records if no unit is given."""
    return PrivateFrequencies(
        spec,
        privacy,
        windows=made_by(mechanism, horizon),
        keys=keys,
        **{"item": "item", "privacy_unit": Record()} | arguments,
    )


def stamped(visits: Iterable[Visit]) -> list[TimestampedValue]:
    return [TimestampedValue(visit, visit.time) for visit in visits]


def unpacked(value: TimestampedValue) -> TimestampedValue:
    return value


def bounded(transform: beam.PTransform, visits: Iterable[Visit] = VISITS) -> Build:
    """The transform on a bounded input."""
    return lambda pipeline: pipeline | beam.Create(stamped(visits)) | beam.Map(unpacked) | transform


def streamed(transform: beam.PTransform, stream: Stream | None = None) -> Build:
    """The transform on a stream, by default on the one that is live."""
    return lambda pipeline: pipeline | (stream or live()) | transform


def released(transform: beam.PTransform, visits: Iterable[Visit] = VISITS) -> list[Any]:
    """All rows, or (key, row), of a bounded input, in order."""
    return in_order(seen_by_sink(bounded(transform, visits)))


def in_order(rows: Iterable[Any]) -> list[Any]:
    """Rows, or (key, row), by key and number."""
    return sorted(rows, key=lambda each: place_of(each))


def place_of(output: Any) -> Any:
    """The number of a row, or (key, number)."""
    return (output[0], output[1].number) if isinstance(output, tuple) else output.number


def without_noise(patched: pytest.MonkeyPatch) -> None:
    """Makes rows exact: no noise, and no bits that would drown in it."""
    noise.without_noise(patched, to_the_last_bit=True)


def exact(monkeypatch: pytest.MonkeyPatch, build: Build, *options: str, runner: str = FN_API) -> list[Any]:
    """All rows, or (key, row), in order, from the real pipeline without noise; fails where a row is there twice."""
    with monkeypatch.context() as patched:
        without_noise(patched)
        rows = in_order(seen_by_sink(build, *options, runner=runner))
    assert len({place_of(each) for each in rows}) == len(rows)
    return rows


def counters(rows: Iterable[Any]) -> Rows:
    """The counters by number, or by (key, number)."""
    return {place_of(each): (each[1] if isinstance(each, tuple) else each).counters for each in rows}


def sums(monkeypatch: pytest.MonkeyPatch, build: Build, *options: str, runner: str = FN_API) -> Rows:
    """The exact counters of all rows; fails where one is missing or there twice."""
    rows = exact(monkeypatch, build, *options, runner=runner)
    by_key: dict[Any, list[TimelineRow]] = {}
    for each in rows:
        key, row = each if isinstance(each, tuple) else (None, each)
        by_key.setdefault(key, []).append(row)
    for of_key in by_key.values():
        assert [row.number for row in of_key] == [*range(of_key[0].mechanism.row_count)]
    return counters(rows)


def of_windows(visits: Iterable[Visit], spec: Any = SPEC, horizon: Horizon = HORIZON) -> np.ndarray:
    """The counters of each window, from raw sketches: int64 of shape (windows, cells)."""
    visits, found = list(visits), []
    for window in range(horizon.windows):
        start, end = (micros / 1e6 for micros in horizon.edges(window))
        items = [visit.item for visit in visits if start <= visit.time < end]
        found.append(raw_type(spec)(spec).accumulate(items).to_vector())
    return np.array(found)


def matrix(mechanism: Mechanism = "binned", horizon: Horizon = HORIZON) -> np.ndarray:
    """C, int64 of shape (rows, windows)."""
    return np.array([*matrix_rows(made_by(mechanism, horizon).rows)])


def expected(
    visits: Iterable[Visit], spec: Any = SPEC, mechanism: Mechanism = "binned", horizon: Horizon = HORIZON
) -> Rows:
    """The counters of every row."""
    return dict(enumerate(matrix(mechanism, horizon) @ of_windows(visits, spec, horizon)))


def of_each(keys: Iterable[Any], make: Callable[[Any], Rows]) -> Rows:
    """The counters of every row of each key, by (key, number)."""
    return {(key, number): row for key in keys for number, row in make(key).items()}


def same(first: Rows, second: Rows) -> bool:
    """Whether two runs have the same rows with the same counters."""
    return first.keys() == second.keys() and all(np.array_equal(first[place], second[place]) for place in first)


def live(*, last: int = WINDOWS, step: int = 1) -> Stream:
    """The visits as a stream that ends after some windows, whose watermark jumps over `step` windows at a time.

    One visit comes too late.
    """
    stream = Stream().advance_watermark_to(0)
    for index in range(-1, last):
        start = START + SIZE * index
        stream.add_elements(stamped(visit for visit in VISITS if start <= visit.time < start + SIZE))
        if index == 5:
            stream.add_elements(stamped([LATE]))
        if (index + 1) % step == 0:
            stream.advance_watermark_to(start + SIZE)
    return stream.advance_watermark_to_infinity()
