"""A stand-in for a streaming runner's state: delivers payloads to a stateful step and counts the bytes that it keeps."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from apache_beam.transforms.window import BoundedWindow
from apache_beam.utils.windowed_value import WindowedValue

from beam_dpsketch.transforms.streaming_state import MergeInState


class Cell:
    """Encoded values of one state: a bag, of which a single value is a case; and a timer."""

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
    """The state of a `MergeInState`, by window and key."""

    def __init__(self, merge_in_state: MergeInState) -> None:
        self._step = merge_in_state
        self.places: dict[tuple[BoundedWindow, bytes], Place] = defaultdict(Place)

    @property
    def size(self) -> int:
        """Bytes kept in all."""
        return sum(place.size for place in self.places.values())

    def deliver(self, outputs: Iterable[WindowedValue]) -> None:
        """What a bundle of the step before gave, one by one."""
        for output in outputs:
            (window,) = output.windows
            place = self.places[window, output.value[0]]
            self._step.process(output.value, window, place.payloads, place.sizes, place.end)

    def fire(self, window: BoundedWindow) -> list[tuple[bytes, bytes]]:
        """The end of a window: all its timers fire."""
        merged = []
        for (where, key), place in self.places.items():
            if where == window and place.end.time is not None:
                merged.extend(self._step.at_end(key, place.payloads, place.sizes))
                place.end.time = None
        return merged
