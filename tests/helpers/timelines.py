"""Continual release in tests: visits over a horizon, and the exact counters of every node."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.testing.test_stream import TestStream as Stream
from apache_beam.transforms import window

from beam_dpsketch import CountSketch, Horizon, PrivacySpec, Record
from beam_dpsketch.release import noising
from beam_dpsketch.transforms import PrivateContinualFrequencies
from tests.helpers.pipelines import FN_API, SPEC, seen_by_sink

START, SIZE, WINDOWS = 1007, 10, 8
HORIZON = Horizon(START, SIZE, WINDOWS)
PRIVACY = PrivacySpec(rho=0.1)
Build = Callable[[beam.Pipeline], beam.PCollection]
Counters = dict[tuple[int, int], np.ndarray]


class Visit(NamedTuple):
    """A record."""

    who: str
    item: str
    time: float


VISITS = [
    *(Visit("early", "outside", time) for time in (0.0, START - 0.001, START + 80, 1e9)),
    *(Visit("ann", "a", START + 5.0) for _ in range(5)),
    *(Visit("ann", "b", START + second) for second in (12.0, 33.0, 44.0, 79.5)),
    *(Visit("bob", "b", START + second) for second in (9.999, 10.0, 13.0, 70.0)),
]
LATE = Visit("bob", "late", START + 1.0)


def frequencies(
    horizon: Horizon = HORIZON,
    *,
    spec: Any = SPEC,
    privacy: PrivacySpec = PRIVACY,
    unit: Any = Record(),  # noqa: B008
    item: Any = "item",
) -> PrivateContinualFrequencies.Globally:
    """Return the transform, with ordinary settings."""
    return PrivateContinualFrequencies.Globally(spec, privacy, horizon, unit=unit, item=item)


def stamped(visits: Iterable[Visit]) -> list[window.TimestampedValue]:
    """Return visits with their times."""
    return [window.TimestampedValue(visit, visit.time) for visit in visits]


def unpacked(value: window.TimestampedValue) -> window.TimestampedValue:
    """Return the value; Beam takes the timestamp off it."""
    return value


def bounded(transform: beam.PTransform, visits: Iterable[Visit] = VISITS) -> Build:
    """Return the transform applied to bounded input."""
    return lambda pipeline: pipeline | beam.Create(stamped(visits)) | beam.Map(unpacked) | transform


def live(*, last: int = WINDOWS) -> Stream:
    """Return the visits as a stream that ends after some windows; one visit comes too late."""
    stream = Stream().advance_watermark_to(0)
    for index in range(-1, last):
        start = START + SIZE * index
        stream.add_elements(stamped(visit for visit in VISITS if start <= visit.time < start + SIZE))
        if index == 3:
            stream.add_elements(stamped([LATE]))
        stream.advance_watermark_to(start + SIZE)
    return stream.advance_watermark_to_infinity()


def sums(monkeypatch: pytest.MonkeyPatch, build: Build, *options: str, runner: str = FN_API) -> Counters:
    """Return the exact counters of all nodes, from the real pipeline with noise of zero."""
    with monkeypatch.context() as patched:
        patched.setattr(noising, "add_noise", lambda counters, sigma_squared: counters.copy())
        nodes = seen_by_sink(build, *options, runner=runner)
    assert len({(node.level, node.index) for node in nodes}) == len(nodes) == 2 * WINDOWS - 1
    return {(node.level, node.index): node.release.counters for node in nodes}


def expected(visits: Iterable[Visit], kind: Any = CountSketch, spec: Any = SPEC) -> Counters:
    """Return the counters of every node, from raw sketches."""
    places = [(level, index) for level in range(4) for index in range(WINDOWS >> level)]
    found = {}
    for level, index in places:
        start, size = START + index * (SIZE << level), SIZE << level
        items = [visit.item for visit in visits if start <= visit.time < start + size]
        found[level, index] = kind(spec).accumulate(items).counters
    return found


def same(first: Counters, second: Counters) -> bool:
    """Return whether all nodes have equal counters."""
    return first.keys() == second.keys() and all(np.array_equal(first[place], second[place]) for place in first)
