"""The guard: refuse, while the pipeline is built, any windowing under which data would be released twice.

Guarantee: where `check_windowing` returns, each key and window fires once, at the end of the window, and an element is
in at most the returned number of windows. Early, late and repeated firings release the same data again, each time with
new noise, and the average of the releases is less and less private. Data that arrive after the watermark has passed the
end of their window are dropped: to count them, their window would have to be released a second time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import GoogleCloudOptions
from apache_beam.transforms import window
from apache_beam.transforms.trigger import AfterWatermark, DefaultTrigger
from apache_beam.utils.timestamp import MIN_TIMESTAMP
from apache_beam.utils.windowed_value import PaneInfoTiming

from beam_dpsketch.domains.timestamps import MILLISECOND
from beam_dpsketch.errors import WindowingError

_FINER = "for early answers, use finer windows, each with its own release"


def check_windowing(elements: beam.PCollection) -> int:
    """Return the most windows that an element can be in; `WindowingError` if one may be released more than once."""
    _check_fires_once(elements)
    if elements.windowing.timestamp_combiner != window.TimestampCombiner.OUTPUT_AT_EOW:
        raise WindowingError(
            "timestamp_combiner",
            "must be OUTPUT_AT_EOW, because another would publish, as the time of the release, when the "
            "first or the last record was made; remove it from WindowInto",
            "E401",
        )
    if is_global(elements) and not elements.is_bounded:
        raise WindowingError(
            "",
            "unbounded input in the global window is never released; put WindowInto(FixedWindows(...)) before",
            "E402",
        )
    return windows_per_element(elements.windowing.windowfn)


def check_no_windowing(elements: beam.PCollection) -> None:
    """Refuse windows before a transform that makes its own, and what else may release a window more than once."""
    if not is_global(elements):
        raise WindowingError(
            "",
            f"{type(elements.windowing.windowfn).__name__} before continual release, which makes the windows "
            "of its horizon itself; remove the WindowInto",
            "E403",
        )
    _check_fires_once(elements)


def _check_fires_once(elements: beam.PCollection) -> None:
    _check_upstream_flattens(elements)
    services = elements.pipeline.options.view_as(GoogleCloudOptions).dataflow_service_options or []
    if "streaming_mode_at_least_once" in services:
        raise WindowingError(
            "",
            "dataflow_service_options=streaming_mode_at_least_once may count and release records repeatedly; remove it",
            "E404",
        )
    windowing = elements.windowing
    trigger = windowing.triggerfn
    if not fires_once(trigger):
        raise WindowingError(
            "",
            f"trigger={type(trigger).__name__} with early, late or repeated firings would release a window "
            f"more than once; remove it from WindowInto ({_FINER})",
            "E405",
        )
    if windowing.allowed_lateness != 0:
        raise WindowingError(
            "allowed_lateness",
            "must be 0, because late data would release a window again; remove it from WindowInto (data "
            "later than the watermark are then dropped)",
            "E406",
        )


def fires_once(trigger: Any) -> bool:
    """Return whether the trigger fires at the end of the window alone; late data may still fire it again."""
    return isinstance(trigger, DefaultTrigger) or (
        type(trigger) is AfterWatermark and trigger.early is None and trigger.late is None
    )


def fires_again_late(pane: Any) -> bool:
    """Return whether a window fires again for late data, which are to be dropped; raise for other second firings.

    Runners of Beam in Python let data through that come when the watermark is exactly at the end of their window.
    """
    if pane.index > 0 and pane.timing == PaneInfoTiming.LATE:
        return True
    if pane.index > 0 or pane.timing == PaneInfoTiming.EARLY:
        raise WindowingError(
            "",
            "a window fired more than once; remove trigger and allowed_lateness from the WindowInto before it",
            "E407",
        )
    return False


def check_timestamps(interval: Any) -> None:
    """Refuse the window of elements without timestamps, which Beam puts at MIN_TIMESTAMP."""
    if not isinstance(interval, window.GlobalWindow) and interval.start <= MIN_TIMESTAMP < interval.end:
        raise WindowingError(
            "",
            "elements have no timestamps (MIN_TIMESTAMP), so they are in no window of yours; put "
            "beam.Map(lambda element: beam.window.TimestampedValue(element, seconds)) before WindowInto",
            "E408",
        )


def is_global(elements: beam.PCollection) -> bool:
    """Return whether all elements are in the one global window."""
    return type(elements.windowing.windowfn) is window.GlobalWindows


def windows_per_element(windowfn: Any) -> int:
    """Return the most windows that an element can be in; `WindowingError` if that is unknown or not private."""
    if type(windowfn) in (window.GlobalWindows, window.FixedWindows):
        return 1
    if type(windowfn) is window.SlidingWindows:
        if any(times.micros % MILLISECOND for times in (windowfn.size, windowfn.period, windowfn.offset)):
            raise WindowingError(
                "",
                "SlidingWindows must be of whole milliseconds, which is all that Beam keeps of times, so that no "
                "two become one",
                "E410",
            )
        return -(-windowfn.size.micros // windowfn.period.micros)  # rounded up
    if type(windowfn) is window.Sessions:
        raise WindowingError(
            "",
            "WindowInto(Sessions(...)) publishes when a person was active; use FixedWindows or SlidingWindows",
            "E409",
        )
    raise WindowingError(
        "",
        f"the window function {type(windowfn).__name__} is unknown, so the windows of an element cannot "
        "be counted; use GlobalWindows, FixedWindows or SlidingWindows",
        "E423",
    )


def _check_upstream_flattens(elements: beam.PCollection) -> None:
    """Refuse a Flatten of different windowings: Beam shows only the first."""
    for step in steps_before(elements, beam.WindowInto):
        joined = [each.windowing for each in step.inputs] if isinstance(step.transform, beam.Flatten) else []
        if any(windowing != joined[0] for windowing in joined):
            raise WindowingError(
                "",
                "Flatten joins collections with different windowings before this transform; put one WindowInto "
                "after it",
                "E411",
            )


def steps_before(elements: beam.PCollection, *stops: type[beam.PTransform]) -> Iterator[Any]:
    """Yield each applied step that leads to a collection, without those of the given types and what is before them."""
    waiting, seen = [elements], set()
    while waiting:
        step = waiting.pop().producer
        if step is not None and step not in seen and not isinstance(step.transform, stops):
            seen.add(step)
            yield step
            waiting.extend(step.inputs)
