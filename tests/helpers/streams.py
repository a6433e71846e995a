"""Streams in tests, and runners that are to keep state for them."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.coders import BytesCoder
from apache_beam.testing.test_stream import ElementEvent
from apache_beam.testing.test_stream import TestStream as Stream
from apache_beam.transforms import window
from apache_beam.transforms.window import TimestampedValue

from beam_dpsketch.transforms.steps import stream_state

Timed = tuple[Any, float]


@pytest.fixture
def state_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps state on runners in memory too: for one transform, and watermarks that stop at the end of each window."""
    monkeypatch.setattr(stream_state, "loses_timers", lambda pipeline: False)


def with_late_data() -> Stream:
    """Two windows of a minute with data, an empty one between them, and data that come too late for the first."""
    return (
        Stream()
        .advance_watermark_to(0)
        .add_elements([TimestampedValue("a", 1), TimestampedValue("b", 2)])
        .add_elements([TimestampedValue("a", 3)])
        .advance_watermark_to(130)
        .add_elements([TimestampedValue("late", 5)])
        .add_elements([TimestampedValue("c", 131)])
        .advance_watermark_to_infinity()
    )


def stepped(timed: Iterable[Timed], step: int, end: int, *, late: Timed | None = None, bundle: int = 100) -> Stream:
    """Elements as a stream whose watermark stops at all multiples of a step; the late one comes after 120 s."""
    timed, stream = list(timed), Stream().advance_watermark_to(0)
    for start in range(0, end, step):
        current = [TimestampedValue(value, time) for value, time in timed if start <= time < start + step]
        for first in range(0, len(current), bundle):
            stream.add_elements(current[first : first + bundle])
        stream.advance_watermark_to(start + step)
        if late is not None and start < 120 <= start + step:
            stream.advance_watermark_to(start + step + 1).add_elements([TimestampedValue(*late)])
    return stream.advance_watermark_to_infinity()


def unbounded(timed: Iterable[Timed]) -> Callable[[beam.Pipeline], beam.PCollection]:
    """Bounded elements that look like a stream while the pipeline is built, for runners without `TestStream`."""

    def source(pipeline: beam.Pipeline) -> beam.PCollection:
        elements = pipeline | beam.Create(list(timed)) | "Stamp" >> beam.Map(_stamped)
        elements.is_bounded = False
        return elements

    return source


def _stamped(timed: Timed) -> TimestampedValue:
    return TimestampedValue(*timed)


def for_any_runner(stream: Stream) -> Callable[[beam.Pipeline], beam.PCollection]:
    """The stream, of elements pickled: Flink knows no coder of Python but those of all languages."""

    def source(pipeline: beam.Pipeline) -> beam.PCollection:
        events = [_pickled(event) if isinstance(event, ElementEvent) else event for event in stream._events]
        pickles = Stream(BytesCoder(), events, {None}).with_output_types(bytes)
        return pipeline | pickles | "Unpickle" >> beam.Map(pickle.loads)

    return source


def _pickled(event: ElementEvent) -> ElementEvent:
    values = [TimestampedValue(pickle.dumps(each.value), each.timestamp) for each in event.timestamped_values]
    return ElementEvent(values, event.tag)


def in_windows(windows: int | tuple[int, int]) -> beam.WindowInto:
    """Fixed windows of a length, or sliding ones of a length and period."""
    fn = window.FixedWindows(windows) if isinstance(windows, int) else window.SlidingWindows(*windows)
    return beam.WindowInto(fn)


class WithStart(beam.DoFn):
    """(start of the window, element)."""

    def process(self, element: Any, where: Any = beam.DoFn.WindowParam) -> Any:
        yield float(where.start), element
