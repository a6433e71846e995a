"""Beside ten busy processes: nothing that is in time is lost, at any load, and each release is there once."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from typing import Any

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.transforms.window import TimestampedValue

from beam_dpsketch import Horizon, PrivacyId, PrivacySpec, Record
from beam_dpsketch.answers.over_time import TimelineRow
from beam_dpsketch.transforms import PrivateFrequencies
from tests.engines.checks import assert_nothing_lost
from tests.engines.conftest import Engine
from tests.engines.processes import busy
from tests.helpers.continual import without_noise
from tests.helpers.pipelines import FN_API, SPEC, seen_by_sink
from tests.helpers.stream_cases import CASES, END, IDS_ONLY, LATE, RANGE, VISITS, globally
from tests.helpers.streams import Timed, WithStart, for_any_runner, in_windows, stepped

BUSY, TIMES = 10, int(os.environ.get("TIMES_UNDER_LOAD", "1"))
IN_TIME = random.Random(1).sample(VISITS[::24], len(VISITS[::24]))  # windows come mixed
WINDOW = 60
KINDS: dict[str, beam.PTransform] = {
    "continual": PrivateFrequencies(
        SPEC, PrivacySpec(rho=0.1), windows=Horizon(0, WINDOW, END // WINDOW), item="page", privacy_unit=Record()
    ),
    "windows": CASES["global"][1](),
    "range": CASES["declared"][1](),
    "keyed": CASES["keyed, declared"][1](),
    "privacy_id": CASES["ids, declared"][1](),
    "max_windows": globally(privacy_unit=PrivacyId("user", IDS_ONLY, max_windows=END // WINDOW + 1), windows=RANGE),
}
Source = Callable[[beam.Pipeline], beam.PCollection]
Counters = dict[tuple[str, Any], np.ndarray]


def counters(source: Source, *options: str, runner: str) -> Counters:
    """The exact counters of all kinds, by kind and place; fails where there is not one release."""

    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        elements = source(pipeline)
        windows = elements | in_windows(WINDOW)
        return [
            (elements if kind == "continual" else windows)
            | kind >> transform
            | f"Start {kind}" >> beam.ParDo(WithStart())
            | f"Kind {kind}" >> beam.Map(placed, kind)
            for kind, transform in KINDS.items()
        ] | beam.Flatten()

    with pytest.MonkeyPatch.context() as patched:
        without_noise(patched)
        seen = seen_by_sink(build, *options, runner=runner)
    assert len(dict(seen)) == len(seen)
    return dict(seen)


def placed(started: tuple[float, Any], kind: str) -> tuple[tuple[str, Any], np.ndarray]:
    start, output = started
    if isinstance(output, TimelineRow):
        return (kind, output.number), output.counters
    key, released = output if isinstance(output, tuple) else (None, output)
    return (kind, (start, key)), released.counters


def bounded(timed: list[Timed]) -> Source:
    """An input where nothing can be late."""
    return lambda pipeline: pipeline | beam.Create(timed) | beam.MapTuple(TimestampedValue)


@pytest.fixture(scope="module")
def expected() -> tuple[Counters, Counters]:
    """Of all that is in time, and of that and the late record."""
    in_time, in_time_and_late = (counters(bounded(timed), runner=FN_API) for timed in (IN_TIME, [*IN_TIME, LATE]))
    return in_time, in_time_and_late


@pytest.mark.parametrize("bundle", [1, 100])
@pytest.mark.parametrize("again", range(TIMES))
def test_no_record_in_time_is_lost(
    again: int, bundle: int, engine: Engine, expected: tuple[Counters, Counters]
) -> None:
    """What is late by the clock of the stream may be in time for a runner, whose watermark waits; it counts or not."""
    stream = for_any_runner(stepped(IN_TIME, 2 * WINDOW, END, late=LATE, bundle=7))
    options = (*engine.streaming, *engine.options, f"--max_bundle_size={bundle}")
    with busy(BUSY):
        found = counters(stream, *options, runner=engine.runner)
    assert_nothing_lost(found, *expected, dropped=False)
