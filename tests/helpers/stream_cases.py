"""Private transforms of every kind over one stream of visits, and what they give of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import apache_beam as beam

from beam_dpsketch import AssumePublicKeys, PrivacyId, PrivacySpec, PublicKeys, Record, RecordBounds, TimeRange
from beam_dpsketch.transforms import PrivateFrequencies
from beam_dpsketch.transforms.steps.stream_state import MergeInState
from tests.helpers.pipelines import FN_API, SPEC, ExactCounters, seen_by_sink
from tests.helpers.streams import WithStart, in_windows, stepped, unbounded

PRIVACY = PrivacySpec(rho=0.1)
END = 240


class Visit(NamedTuple):
    """A record; inserts and deletes in turn, where weights count."""

    user: str
    page: Any
    weight: int


PAGES = ["a", b"a", 1, -1, ("a", 1), "ä", 1 << 63]
VISITS = [(Visit(f"user {i % 13}", PAGES[i % 7], 1 - i % 3), i / 4) for i in range(4 * END)]
LATE = Visit("user 1", "late", 1), 7.0
RANGE = TimeRange(0, END + 60)
WIDE = RecordBounds(max_records=500, max_keys=7)
IDS_ONLY = dataclasses.replace(WIDE, max_keys=None)
BY_ID = PrivacyId("user", IDS_ONLY)
SIGNED = dataclasses.replace(IDS_ONLY, max_weight=2, signed=True)
PER_KEY: dict[str, Any] = {"item": "user", "keys": AssumePublicKeys("page")}
LISTED: dict[str, Any] = {"item": "user", "keys": PublicKeys([*PAGES[:3], "absent"], "page"), "windows": RANGE}
_NOISY = ("Contents", "Clipping", "Budget split", "Counts", "Assumptions", "Made")
Case = tuple[Any, Callable[[], beam.PTransform]]


def globally(**arguments: Any) -> beam.PTransform:
    return PrivateFrequencies(SPEC, PRIVACY, item="page", **arguments)


def per_key(**arguments: Any) -> beam.PTransform:
    return PrivateFrequencies(SPEC, PRIVACY, **arguments)


RECORDS: dict[str, Case] = {
    "global": (60, lambda: globally(privacy_unit=Record())),
    "weighted": (60, lambda: globally(weight="weight", privacy_unit=Record(max_weight=2, signed=True))),
    "sliding": ((60, 20), lambda: globally(privacy_unit=Record())),
    "declared": (60, lambda: globally(privacy_unit=Record(), windows=RANGE)),
    "declared sliding": ((60, 20), lambda: globally(privacy_unit=Record(), windows=TimeRange(20, END + 60))),
    "keyed": (60, lambda: per_key(**PER_KEY, privacy_unit=Record())),
    "keyed, declared": (60, lambda: per_key(**LISTED, privacy_unit=Record())),
}
IDS: dict[str, Case] = {
    "ids": (60, lambda: globally(privacy_unit=BY_ID)),
    "ids, signed": (60, lambda: globally(weight="weight", privacy_unit=PrivacyId("user", SIGNED))),
    "ids, keyed": (60, lambda: per_key(**PER_KEY, privacy_unit=PrivacyId("user", WIDE))),
}
DECLARED_IDS: dict[str, Case] = {
    "ids, declared": (60, lambda: globally(privacy_unit=BY_ID, windows=RANGE)),
    "ids, keyed, declared": (
        60,
        lambda: per_key(**LISTED, privacy_unit=PrivacyId("user", dataclasses.replace(WIDE, max_keys=4))),
    ),
}
CASES = RECORDS | IDS | DECLARED_IDS
PORTABLE = {
    "two processes": (FN_API, ("--direct_running_mode=multi_processing", "--direct_num_workers=2")),
    "portable": ("PortableRunner", ("--job_endpoint=embed", "--environment_type=LOOPBACK")),
}


def outputs(source: Any, transform: beam.PTransform, windows: Any, *options: str, runner: str) -> dict[Any, Any]:
    """What came out by (window start, key); fails where that was not one output."""

    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        elements = source(pipeline) if callable(source) else pipeline | source
        return elements | in_windows(windows) | transform | "Start" >> beam.ParDo(WithStart())

    found = {}
    for start, output in seen_by_sink(build, *options, runner=runner):
        key, value = output if isinstance(output, tuple) else (None, output)
        assert (start, key) not in found
        found[start, key] = value
    return found


def bounded(pipeline: beam.Pipeline) -> beam.PCollection:
    """The visits as a batch."""
    elements = unbounded(VISITS)(pipeline)
    elements.is_bounded = True
    return elements


def of_batch(name: str) -> dict[Any, Any]:
    """The exact counters of a bounded run without the late record."""
    windows, make = CASES[name]
    return outputs(bounded, ExactCounters(make()), windows, runner=FN_API)


def live(windows: Any) -> Any:
    """The visits and a late one; the watermark stops at the end of all windows."""
    step = windows if isinstance(windows, int) else windows[1]
    return stepped(VISITS, step, END + 60, late=LATE, bundle=37)


def stateful_steps(pipeline: beam.Pipeline) -> list[str]:
    """The labels of the steps that merge in state."""

    class Visitor(beam.pipeline.PipelineVisitor):
        def __init__(self) -> None:
            self.found: list[str] = []

        def visit_transform(self, step: Any) -> None:
            if isinstance(getattr(step.transform, "fn", None), MergeInState):
                self.found.append(step.full_label)

    visitor = Visitor()
    pipeline.visit(visitor)
    return visitor.found


def stated(releases: dict[Any, Any]) -> dict[Any, list[str]]:
    """What each statement says, but for what is noisy in it, and for losses: of windows, only a batch tells one sum.

    The digest of settings says which of both it is. The line on intervals explains "at least" only if a noisy number is
    shown with it, so its first clause is compared.
    """
    return {
        place: [
            line.partition(";")[0] if line.startswith("Intervals") else line
            for line in released.privacy.text().splitlines()
            if not line.startswith(_NOISY)
        ]
        for place, released in releases.items()
    }
