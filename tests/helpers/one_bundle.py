"""Running `ReleaseOnce` by hand, without a pipeline."""

from __future__ import annotations

from typing import Any

from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.windowed_value import PANE_INFO_UNKNOWN, PaneInfo, WindowedValue

from beam_dpsketch.transforms.outputs import each_release
from beam_dpsketch.transforms.steps.release_once import ReleaseOnce

EVERYTHING = GlobalWindow()


def bundle(
    step: ReleaseOnce, elements: list[Any], windows: Any = None, pane: PaneInfo = PANE_INFO_UNKNOWN, run: Any = None
) -> Any:
    """What a bundle of elements makes the step emit; all are in the global window if no windows are given."""
    step.start_bundle()
    emitted: list[WindowedValue] = []
    for element, window in zip(elements, windows or [EVERYTHING] * len(elements), strict=True):
        emitted += step.process(element, pane, window, window.max_timestamp(), run) or ()
    return [*emitted, *step.finish_bundle()]


def released_by(step: ReleaseOnce, element: Any, pane: PaneInfo = PANE_INFO_UNKNOWN, run: Any = None) -> list[Any]:
    """What the step makes of one element: releases, or (key, release)."""
    return [each for emitted in bundle(step, [element], pane=pane, run=run) for each in each_release(emitted.value)]
