"""Windows of Beam: unsupported windowings, their description for `plan_windows`, and the steps of its plan.

Guarantee: if `plan_of` returns, each key and window fires once, at the window's end, and the number of windows of an
element is within the terms. Early, late and repeated firings release the same data again, each time with new noise, and
the average of the releases is less and less private. Data that arrive after the watermark has passed their window's end
are dropped, because their window would have to be released a second time. A declared range alone decides which windows
(and which public keys in them) have a release, so their existence reveals nothing about the data. Elements in other
windows are dropped before counting or bounding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import GoogleCloudOptions
from apache_beam.transforms import window
from apache_beam.transforms.trigger import AfterWatermark, DefaultTrigger
from apache_beam.utils.timestamp import MIN_TIMESTAMP, Duration, Timestamp
from apache_beam.utils.windowed_value import PaneInfoTiming

from beam_dpsketch.errors import AllAtOnce, ArgumentError, WindowingError
from beam_dpsketch.exact.declared.release_spec import ReleaseSpec
from beam_dpsketch.exact.declared.windows import Periods, Windowing, WindowPlan, plan_windows
from beam_dpsketch.exact.domains.timestamps import MILLISECOND
from beam_dpsketch.exact.horizon import Horizon
from beam_dpsketch.noise.run import Place

_FINER = "For early answers, use finer windows, each with its own release"


def check_windowing(elements: beam.PCollection) -> Windowing:
    """Describe the windows of elements. Raise `WindowingError` if any may be released more than once."""
    checks = AllAtOnce()
    return checks.result(_described(elements, checks))


def _described(elements: beam.PCollection, checks: AllAtOnce) -> Windowing | None:
    checks.do(_check_fires_once, elements)
    if elements.windowing.timestamp_combiner != window.TimestampCombiner.OUTPUT_AT_EOW:
        words = (
            "must be OUTPUT_AT_EOW. Other combiners would publish the time of the first or last record as the time of "
            "the release. Remove it from WindowInto"
        )
        checks.refuse(WindowingError("timestamp_combiner", words, "E401"))
    if is_global(elements) and not elements.is_bounded:
        words = (
            "Unbounded input in the global window never produces a release. Add WindowInto(FixedWindows(...)) before "
            "this transform"
        )
        checks.refuse(WindowingError("", words, "E402"))
    return checks.do(describe_windowing, elements.windowing.windowfn, is_bounded=elements.is_bounded)


def _described_without_windows(elements: beam.PCollection, checks: AllAtOnce) -> Windowing:
    """Describe elements of a transform that creates its own windows, and refuse others."""
    if not is_global(elements):
        words = (
            f"{type(elements.windowing.windowfn).__name__} before a continual release is not supported. The horizon "
            "defines the windows. Remove the WindowInto"
        )
        checks.refuse(WindowingError("", words, "E403"))
    checks.do(_check_fires_once, elements)
    return Windowing(is_bounded=elements.is_bounded)


def _check_fires_once(elements: beam.PCollection) -> None:
    windowing = _windowing_of(elements)
    services = elements.pipeline.options.view_as(GoogleCloudOptions).dataflow_service_options or []
    with AllAtOnce() as checks:
        checks.do(_check_upstream_flattens, elements)
        if "streaming_mode_at_least_once" in services:
            words = "dataflow_service_options=streaming_mode_at_least_once may count and release records repeatedly"
            checks.refuse(WindowingError("", f"{words}. Remove it", "E404"))
        if not fires_once(trigger := windowing.triggerfn):
            words = (
                f"trigger={type(trigger).__name__} may fire a window early or several times, and each firing would be "
                f"a new release. Remove it from WindowInto. {_FINER}"
            )
            checks.refuse(WindowingError("", words, "E405"))
        if windowing.allowed_lateness != 0:
            words = (
                "must be 0: late data would release the window again. Remove it from WindowInto. Records that arrive "
                "after the watermark has passed their window are then dropped"
            )
            checks.refuse(WindowingError("allowed_lateness", words, "E406"))


def fires_once(trigger: Any) -> bool:
    """Whether the trigger fires at the window's end alone. Late data may still fire it again."""
    return isinstance(trigger, DefaultTrigger) or (
        type(trigger) is AfterWatermark and trigger.early is None and trigger.late is None
    )


def fires_again_late(pane: Any) -> bool:
    """Whether a window fires again for late data, which must be dropped. Raise if it fires again otherwise.

    Python runners of Beam admit data that arrive when the watermark is exactly at their window's end.
    """
    if pane.index > 0 and pane.timing == PaneInfoTiming.LATE:
        return True
    if pane.index > 0 or pane.timing == PaneInfoTiming.EARLY:
        raise WindowingError(
            "",
            "A window fired more than once. Remove trigger and allowed_lateness from the WindowInto before this "
            "transform",
            "E407",
        )
    return False


def check_timestamps(interval: Any) -> None:
    """Raise if this is the window of elements without timestamps, which Beam puts at MIN_TIMESTAMP."""
    if not isinstance(interval, window.GlobalWindow) and interval.start <= MIN_TIMESTAMP < interval.end:
        raise WindowingError(
            "",
            "Elements have no timestamps (MIN_TIMESTAMP). Add "
            "beam.Map(lambda element: beam.window.TimestampedValue(element, seconds)) before WindowInto",
            "E408",
        )


def place_of(interval: Any, pane: Any, *key: Any) -> Place | None:
    """Locate a firing window, and its key, if any, in the run. `None` for late data.

    Raises if the window fires again otherwise, or if elements have no times. Each step that draws noise calls it first.
    """
    if fires_again_late(pane):
        return None
    check_timestamps(interval)
    return Place(key, interval.start.micros, interval.end.micros, pane.index)


def is_global(elements: beam.PCollection) -> bool:
    """Whether all elements are in the one global window."""
    return type(_windowing_of(elements).windowfn) is window.GlobalWindows


def _windowing_of(elements: beam.PCollection) -> Any:
    """Get the windowing of elements. Raise if this is a pipeline, which has none."""
    if not isinstance(elements, beam.PCollection):
        raise ArgumentError("input", f"must be a PCollection, got {type(elements).__name__}", "E813")
    return elements.windowing


def describe_windowing(windowfn: Any, *, is_bounded: bool = True) -> Windowing:
    """Describe the properties that privacy depends on. Raise `WindowingError` for unknown or data-dependent windows."""
    name = type(windowfn).__name__
    if type(windowfn) is window.GlobalWindows:
        return Windowing(is_bounded=is_bounded)
    if type(windowfn) is window.FixedWindows:
        size, offset = windowfn.size.micros, windowfn.offset.micros
        return Windowing(name, size, offset, size, is_bounded)
    if type(windowfn) is window.SlidingWindows:
        size, offset, step = windowfn.size.micros, windowfn.offset.micros, windowfn.period.micros
        if any(micros % MILLISECOND for micros in (size, offset, step)):
            raise WindowingError(
                "",
                "SlidingWindows must have a size, period and offset in whole milliseconds. Beam stores times in "
                "milliseconds and could merge two windows",
                "E410",
            )
        return Windowing(name, size, offset, step, is_bounded)
    if type(windowfn) is window.Sessions:
        raise WindowingError(
            "",
            "WindowInto(Sessions(...)) would publish when a person was active. Use FixedWindows or SlidingWindows",
            "E409",
        )
    raise WindowingError(
        "",
        f"The window function {name} is not supported, because it may put an element into any number of windows. "
        "Use GlobalWindows, FixedWindows or SlidingWindows",
        "E423",
    )


def _check_upstream_flattens(elements: beam.PCollection) -> None:
    """Raise if a Flatten has different windowings, because Beam shows only the first."""
    for step in steps_before(elements, beam.WindowInto):
        joined = [each.windowing for each in step.inputs] if isinstance(step.transform, beam.Flatten) else []
        if any(windowing != joined[0] for windowing in joined):
            raise WindowingError(
                "",
                "Flatten before this transform joins collections with different windows. Add a WindowInto after it",
                "E411",
            )


def steps_before(elements: beam.PCollection, *stops: type[beam.PTransform]) -> Iterator[Any]:
    """Yield each applied step that leads to a collection, except steps of the given types and their predecessors."""
    waiting, seen = [elements], set()
    while waiting:
        step = waiting.pop().producer
        if step is not None and step not in seen and not isinstance(step.transform, stops):
            seen.add(step)
            yield step
            waiting.extend(step.inputs)


def plan_of(elements: beam.PCollection, declared: ReleaseSpec) -> WindowPlan:
    """Plan the released windows and their terms. Raise all refusals at once if privacy would not be guaranteed."""
    if declared.time is not None:
        raise ArgumentError(
            "time", "is supported only for tables. Remove it, and use WindowInto or a horizon in pipelines", "E429"
        )
    _windowing_of(elements)
    checks = AllAtOnce()
    describe = _described if declared.horizon is None else _described_without_windows
    windowing = describe(elements, checks)
    if windowing is None and not elements.is_bounded:
        windowing = Windowing(is_bounded=False)  # checks the limits that no windows need
    return checks.result(None if windowing is None else checks.do(plan_windows, declared, windowing))


def windows_of(horizon: Horizon, size: int = 1) -> window.FixedWindows:
    """Create windows as long as `size` windows of the horizon, from its start on."""
    return window.FixedWindows(Duration(micros=horizon.size_micros * size), Timestamp(micros=horizon.start_micros))


def periods_as_windows(periods: Periods) -> window.WindowFn:
    """Create windows as long as the periods."""
    if not periods.length:
        return window.GlobalWindows()
    return window.FixedWindows(Duration(micros=periods.length), Timestamp(micros=periods.start))


def edges_of(windowfn: window.WindowFn) -> tuple[int, ...]:
    """Identity of windows: length, start, and step, as far as the window function has them."""
    given = (getattr(windowfn, name, None) for name in ("size", "offset", "period"))
    return tuple(each.micros for each in given if each is not None)


def filter_to_time_range(element: Any, starts: range, window: Any = beam.DoFn.WindowParam) -> Iterator[Any]:
    """Drop elements in windows outside the given starts. Raise if elements have no time."""
    if window.start.micros in starts:
        yield element
    else:
        check_timestamps(window)


def in_time_range(elements: beam.PCollection, starts: range | None) -> beam.PCollection:
    """Filter elements by released windows. Without a range, keep all."""
    if starts is None:
        return elements
    keep = beam.FlatMap(filter_to_time_range, starts).with_output_types(elements.element_type)
    return elements | "InTimeRange" >> keep


def create_always(
    like: beam.PCollection,
    starts: range | None,
    parts: list[Any],
    expand: Callable[[Any], Iterable[Any]],
    kind: Any = Any,
) -> beam.PCollection:
    """Create the same values in each declared window, or in the global window without declared windows.

    They are bounded input, whose watermark holds back no stream.

    Args:
      like: the collection.
      starts: starts of the windows, in microseconds.
      parts: data sent to the workers.
      expand: returns the values of a part.
      kind: the value type.
    """
    values = beam.FlatMap(expand).with_output_types(kind)
    if starts is None:
        created = like.pipeline | "Always" >> beam.Create(parts, reshuffle=False).with_output_types(Any)
        return created | "Values" >> values
    # A start is also in the earlier windows that overlap, so a few starts, counted from the last, reach all windows.
    times = starts[:: -describe_windowing(like.windowing.windowfn).per_element]
    return (
        like.pipeline
        | "EveryWindow" >> beam.Impulse()
        | "Times" >> beam.FlatMap(_stamp, times)
        | "Window" >> beam.WindowInto(like.windowing)
        | "InEveryWindow" >> beam.FlatMap(filter_to_time_range, starts)
        | "Parts" >> beam.FlatMap(lambda _: parts).with_output_types(Any)
        | "Values" >> values
    )


def _stamp(impulse: Any, times: range) -> Iterator[window.TimestampedValue]:
    for micros in times:
        yield window.TimestampedValue(None, Timestamp(micros=micros))


def last_time(interval: Any) -> Timestamp:
    """Last time in a window that Beam can represent: times between workers are whole milliseconds.

    The last microsecond of a window before 1970 would be rounded into the next window.
    """
    return Timestamp(micros=interval.max_timestamp().micros // MILLISECOND * MILLISECOND)


class RestoreWindows(beam.PTransform):
    """Re-window elements stamped with their window's end into exactly that window, even if windows overlap."""

    def __init__(self, windowing: Any) -> None:
        super().__init__()
        self._windowing = windowing

    def expand(self, pcoll: beam.PCollection) -> beam.PCollection:
        windowed = pcoll | "Windows" >> beam.WindowInto(self._windowing)
        if type(self._windowing.windowfn) is not window.SlidingWindows:
            return windowed
        return windowed | "Own" >> beam.FlatMap(_keep_own_window).with_output_types(pcoll.element_type)


def _keep_own_window(
    element: Any, window: Any = beam.DoFn.WindowParam, timestamp: Any = beam.DoFn.TimestampParam
) -> Iterator[Any]:
    """Drop an element from every window that does not end at its timestamp."""
    if timestamp == last_time(window):
        yield element
