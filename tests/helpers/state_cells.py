"""A stand-in for a streaming runner: drives a transform up to its state and counts the bytes there."""

from __future__ import annotations

import inspect
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

import apache_beam as beam
from apache_beam.transforms.window import BoundedWindow, FixedWindows, IntervalWindow
from apache_beam.utils.windowed_value import WindowedValue

from beam_dpsketch.transforms.steps.stream_state import MergeInState

WINDOW = IntervalWindow(0, 60)


class Cell:
    """Encoded values of one state: a bag, of which a single value is a case; or a timer."""

    def __init__(self, coder: Any = None, *, single: bool = False) -> None:
        self._coder = coder
        self._single = single
        self._encoded: list[bytes] = []
        self.time: Any = None

    @property
    def size(self) -> int:
        """Bytes kept."""
        return sum(map(len, self._encoded))

    def read(self) -> Any:
        """The values, or the single one if there is one."""
        values = map(self._coder.decode, self._encoded)
        return next(values, None) if self._single else values

    def add(self, value: Any) -> None:
        """One more value."""
        self._encoded.append(self._coder.encode(value))

    def write(self, value: Any) -> None:
        """Instead of the value before."""
        self._encoded = [self._coder.encode(value)]

    def clear(self) -> None:
        """No values."""
        self._encoded = []

    def set(self, time: Any) -> None:
        """As a timer: when to fire."""
        self.time = time


class Place:
    """The state of one key and window."""

    def __init__(self) -> None:
        self.payloads = Cell(MergeInState.PAYLOADS.coder)
        self.sizes = Cell(MergeInState.SIZES.coder, single=True)
        self.end = Cell()

    @property
    def size(self) -> int:
        """Bytes kept."""
        return self.payloads.size + self.sizes.size


class State:
    """The state of a `MergeInState`, by window and key.

    Args:
      merge_in_state: the step.
    """

    def __init__(self, merge_in_state: MergeInState) -> None:
        self._step = merge_in_state
        self.places: dict[tuple[BoundedWindow, bytes], Place] = defaultdict(Place)
        self.delivered = 0

    @property
    def size(self) -> int:
        """Bytes kept in all."""
        return sum(place.size for place in self.places.values())

    def deliver(self, outputs: Iterable[WindowedValue]) -> None:
        """What a bundle of the step before gave, one by one."""
        for output in outputs:
            (window,) = output.windows
            key, payload = output.value
            place = self.places[window, key]
            self.delivered += len(payload)
            self._step.process((key, payload), window, place.payloads, place.sizes, place.end)

    def fire(self, window: BoundedWindow = WINDOW) -> list[tuple[bytes, bytes]]:
        """The end of a window: all its timers fire."""
        merged = []
        for (where, key), place in self.places.items():
            if where == window and place.end.time is not None:
                merged.extend(self._step.at_end(key, place.payloads, place.sizes))
                place.end.time = None
        return merged


class Driven:
    """A transform on a stream, up to its state, all in one window.

    Args:
      transform: the private transform.
    """

    def __init__(self, transform: beam.PTransform) -> None:
        pipeline = beam.Pipeline(runner="PortableRunner")
        elements = pipeline | beam.Create([])
        elements.is_bounded = False
        _ = elements | beam.WindowInto(FixedWindows(60)) | transform
        *self._before, merge_in_state = _dofns_up_to_state(pipeline)
        self.state = State(merge_in_state)

    def bundle(self, elements: Iterable[Any]) -> None:
        """One bundle of elements."""
        outputs = [WindowedValue(element, WINDOW.max_timestamp(), (WINDOW,)) for element in elements]
        for dofn in self._before:
            outputs = list(_outputs(dofn, outputs))
        self.state.deliver(outputs)


def _dofns_up_to_state(pipeline: beam.Pipeline) -> list[beam.DoFn]:
    """The DoFns from the windows on, up to and with `MergeInState`."""
    dofns: list[beam.DoFn] = []

    class Visitor(beam.pipeline.PipelineVisitor):
        def visit_transform(self, step: Any) -> None:
            dofn = getattr(step.transform, "fn", None)
            if isinstance(step.transform, beam.WindowInto):
                dofns.clear()
            elif isinstance(dofn, beam.DoFn) and not any(isinstance(one, MergeInState) for one in dofns):
                dofns.append(dofn)

    pipeline.visit(Visitor())
    return dofns


def _outputs(dofn: beam.DoFn, elements: Iterable[WindowedValue]) -> Iterator[WindowedValue]:
    """What a DoFn makes of a bundle."""
    windowed = "window" in inspect.signature(dofn.process).parameters
    dofn.start_bundle()
    for element in elements:
        for output in dofn.process(element.value, *element.windows[:windowed]) or ():
            yield output if isinstance(output, WindowedValue) else element.with_value(output)
    yield from dofn.finish_bundle() or ()
