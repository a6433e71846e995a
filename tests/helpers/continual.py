"""Continual release of a few visits: its exact counters from the real pipeline, and what they should be."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.testing.test_stream import TestStream as Stream
from apache_beam.transforms.window import TimestampedValue

from beam_dpsketch import Horizon, PrivacySpec, Record, SketchSpec, TimelineNode
from beam_dpsketch.release import noising
from beam_dpsketch.sketches import raw_type
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
    spec: Any = SPEC, privacy: PrivacySpec = PRIVACY, horizon: Horizon = HORIZON, **arguments: Any
) -> PrivateContinualFrequencies.Globally:
    """The transform, of records if no unit is given."""
    return PrivateContinualFrequencies.Globally(
        spec, privacy, horizon, **{"item": "item", "unit": Record()} | arguments
    )


def stamped(visits: Iterable[Visit]) -> list[TimestampedValue]:
    return [TimestampedValue(visit, visit.time) for visit in visits]


def unpacked(value: TimestampedValue) -> TimestampedValue:
    return value


def bounded(transform: beam.PTransform, visits: Iterable[Visit] = VISITS) -> Build:
    """The transform on a bounded input."""
    return lambda pipeline: pipeline | beam.Create(stamped(visits)) | beam.Map(unpacked) | transform


def released(transform: beam.PTransform, visits: Iterable[Visit] = VISITS) -> list[TimelineNode]:
    """All nodes, of a bounded input."""
    return seen_by_sink(bounded(transform, visits))


def sums(monkeypatch: pytest.MonkeyPatch, build: Build, *options: str, runner: str = FN_API) -> Counters:
    """The exact counters of all nodes, from the real pipeline with noise of zero."""
    with monkeypatch.context() as patched:
        patched.setattr(noising, "add_noise", lambda counters, sigma_squared: counters.copy())
        nodes = seen_by_sink(build, *options, runner=runner)
    assert len({(node.level, node.index) for node in nodes}) == len(nodes) == 2 * WINDOWS - 1
    return {(node.level, node.index): node.release.counters for node in nodes}


def expected(visits: Iterable[Visit], spec: SketchSpec = SPEC) -> Counters:
    """The counters of every node, from raw sketches."""
    places = [(level, index) for level in range(4) for index in range(WINDOWS >> level)]
    found = {}
    for level, index in places:
        start, size = START + index * (SIZE << level), SIZE << level
        items = [visit.item for visit in visits if start <= visit.time < start + size]
        found[level, index] = raw_type(spec)(spec).accumulate(items).counters
    return found


def same(first: Counters, second: Counters) -> bool:
    """Whether two runs have the same nodes with the same counters."""
    return first.keys() == second.keys() and all(np.array_equal(first[place], second[place]) for place in first)


def live(*, last: int = WINDOWS) -> Stream:
    """The visits as a stream that ends after some windows; one visit comes too late."""
    stream = Stream().advance_watermark_to(0)
    for index in range(-1, last):
        start = START + SIZE * index
        stream.add_elements(stamped(visit for visit in VISITS if start <= visit.time < start + SIZE))
        if index == 3:
            stream.add_elements(stamped([LATE]))
        stream.advance_watermark_to(start + SIZE)
    return stream.advance_watermark_to_infinity()
