"""Every windowing, trigger and accumulation mode on a stream: one release per key and window, or a refusal."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.transforms import trigger, window
from apache_beam.transforms.trigger import AccumulationMode, AfterCount, AfterWatermark

from beam_dpsketch import AssumePublicKeys, PrivacySpec, PublicKeys, Record, TimeRange, WindowingError
from beam_dpsketch.exact.declared.public import Keys
from beam_dpsketch.transforms import PrivateFrequencies
from tests.helpers.pipelines import BUNDLE_BASED, FN_API, SPEC, seen_by_sink
from tests.helpers.streams import WithStart, with_late_data

PRIVACY = PrivacySpec(rho=0.1)

WINDOWS = {"fixed": window.FixedWindows(60), "sliding": window.SlidingWindows(60, 20), "global": window.GlobalWindows()}
FIRINGS: dict[str, dict[str, Any]] = {
    "default": {},
    "early": {"trigger": AfterWatermark(early=AfterCount(1))},
    "late": {"trigger": AfterWatermark(late=AfterCount(1))},
    "lateness": {"trigger": trigger.DefaultTrigger(), "allowed_lateness": 100},
}
MODES = {"accumulating": AccumulationMode.ACCUMULATING, "discarding": AccumulationMode.DISCARDING}
REFUSALS = {
    "early": r"trigger=AfterWatermark may fire a window early or several times.*\. Remove it from WindowInto",
    "late": r"trigger=AfterWatermark may fire a window early or several times.*\. Remove it from WindowInto",
    "lateness": r"allowed_lateness must be 0: .*\. Remove it from WindowInto",
    "global": r"Unbounded input in the global window never produces a release. Add WindowInto\(FixedWindows\(",
}
ON_TIME = {"fixed": {0: "ab", 120: "c"}, "sliding": {-40: "ab", -20: "ab", 0: "ab", 80: "c", 100: "c", 120: "c"}}
"""Which of the stream's data is in which window; "late" is in none."""


def refusal(windows: str, firings: str) -> str | None:
    """What the message of a cell must say, or `None` if the cell is accepted."""
    return REFUSALS.get(firings) or REFUSALS.get(windows)


def windowed(source: beam.PCollection, windows: str, firings: str, mode: str) -> beam.PCollection:
    settings = {"trigger": trigger.DefaultTrigger(), **FIRINGS[firings], "accumulation_mode": MODES[mode]}
    return source | beam.WindowInto(WINDOWS[windows], **settings) | beam.Map(paired)


def paired(item: str) -> tuple[str, str]:
    return item, item


def private(keys: Keys | None, windows: TimeRange | None = None) -> beam.PTransform:
    if keys is None:
        return PrivateFrequencies(SPEC, PRIVACY, item=len, privacy_unit=Record(), windows=windows)
    return PrivateFrequencies(SPEC, PRIVACY, privacy_unit=Record(), keys=keys, windows=windows)


CELLS = list(itertools.product(WINDOWS, FIRINGS, MODES, (True, False)))
REFUSED = [cell for cell in CELLS if refusal(*cell[:2])]
ACCEPTED = [cell for cell in CELLS if not refusal(*cell[:2])]


def named(cells: list[tuple[str, str, str, bool]]) -> dict[str, Any]:
    names = ["-".join([*words, "keyed" if keyed else "globally"]) for *words, keyed in cells]
    return {"argnames": ("windows", "firings", "mode", "keyed"), "argvalues": cells, "ids": names}


@pytest.mark.one_fast_case
@pytest.mark.parametrize(**named(REFUSED))
def test_what_might_fire_again_or_never_is_refused(windows: str, firings: str, mode: str, keyed: bool) -> None:
    elements = windowed(beam.Pipeline(runner=FN_API) | with_late_data(), windows, firings, mode)
    message = refusal(windows, firings)
    with pytest.raises(WindowingError, match=message):
        elements | private(AssumePublicKeys() if keyed else None)
    with pytest.raises(WindowingError, match=message):
        elements | "Declared" >> private(PublicKeys(["a"]) if keyed else None, TimeRange(0, 180))


@pytest.mark.one_fast_case
@pytest.mark.parametrize(**named(ACCEPTED))
def test_each_key_and_window_is_released_once(windows: str, firings: str, mode: str, keyed: bool) -> None:
    transform = private(AssumePublicKeys() if keyed else None)
    expected = [(start, key) for start, items in ON_TIME[windows].items() for key in (items if keyed else [None])]
    assert released(transform, windows, firings, mode, keyed) == Counter(expected)


@pytest.mark.one_fast_case
@pytest.mark.parametrize(**named(ACCEPTED))
def test_each_listed_key_and_declared_window_is_released_once(
    windows: str, firings: str, mode: str, keyed: bool
) -> None:
    keys = ["a", "absent"] if keyed else [None]
    transform = private(PublicKeys(keys) if keyed else None, TimeRange(-60, 180))
    starts = range(-60, 180, 60) if windows == "fixed" else range(-60, 121, 20)
    assert released(transform, windows, firings, mode, keyed) == Counter(itertools.product(starts, keys))


def released(transform: beam.PTransform, windows: str, firings: str, mode: str, keyed: bool) -> Counter[Any]:
    """How many releases each window start and key had."""

    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        return windowed(pipeline | with_late_data(), windows, firings, mode) | transform | beam.ParDo(WithStart())

    outputs = seen_by_sink(build, "--streaming", runner=BUNDLE_BASED)
    return Counter((start, output[0] if keyed else None) for start, output in outputs)


def test_the_matrix_has_accepted_and_refused_cells() -> None:
    assert (len(CELLS), len(ACCEPTED)) == (48, 8)
