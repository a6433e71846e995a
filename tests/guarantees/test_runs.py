"""One run of a transform has one rho for all its releases; two runs, also of one pipeline, and two draws have two."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.transforms import window

from beam_dpsketch import (
    Horizon,
    IncompatibleSketchError,
    PrivacyId,
    PrivacySpec,
    PublicKeys,
    Record,
    RecordBounds,
    SketchTimeline,
    TimeRange,
)
from beam_dpsketch.answers.released_sketch import ReleasedSketch
from beam_dpsketch.exact.declared.units import Unit
from beam_dpsketch.transforms import EnvironmentSecret, PrivateFrequencies
from tests.helpers.pipelines import BUNDLE_BASED, FN_API, SPEC, Sink, run, seen_by_sink
from tests.helpers.streams import unbounded

PRIVACY = PrivacySpec(rho=0.1)
PEOPLE = [{"user": f"u{number % 5}", "key": "ab"[number % 2], "item": number % 3} for number in range(50)]
TERMS = {"release_id": "visits", "secret": EnvironmentSecret("DPSKETCH_TEST_SECRET")}
HORIZON = Horizon(0, 60, 4)


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DPSKETCH_TEST_SECRET", "planted-secret-4711-4711-4711-4711-4711")


def per_key() -> Any:
    privacy_unit = PrivacyId("user", RecordBounds(1, max_keys=2))
    return PrivateFrequencies(SPEC, PRIVACY, item="item", privacy_unit=privacy_unit, keys=PublicKeys(["a", "b"], "key"))


def stamped(rows: Any) -> Iterator[window.TimestampedValue]:
    for number, row in enumerate(rows):
        yield window.TimestampedValue(row, 10 * number)


class InWindows(beam.PTransform):
    """Rows to windows of 100 seconds, to a transform."""

    def __init__(self, transform: beam.PTransform) -> None:
        super().__init__()
        self._transform = transform

    def expand(self, pcoll: beam.PCollection) -> beam.PCollection:
        windowed = pcoll | beam.combiners.ToList() | beam.FlatMap(stamped) | beam.WindowInto(window.FixedWindows(100))
        return windowed | self._transform


def combined(releases: list[ReleasedSketch]) -> ReleasedSketch:
    first, *others = releases
    for other in others:
        first = first.combine(other)
    return first


@pytest.mark.one_fast_case
@pytest.mark.parametrize("runner", [FN_API, BUNDLE_BASED])
@pytest.mark.parametrize("idempotent", [False, True])
def test_keys_of_one_run_have_one_rho(idempotent: bool, runner: str) -> None:
    transform = per_key().with_idempotent_noise(**TERMS) if idempotent else per_key()
    outputs = dict(run(PEOPLE, transform, runner=runner))
    both = outputs["a"].combine(outputs["b"])
    assert both.privacy.rho == PRIVACY.rho
    assert both.privacy.sigma_squared == 2 * outputs["a"].privacy.sigma_squared
    assert outputs["a"].combine(outputs["b"], units_disjoint=True).privacy.rho == PRIVACY.rho
    assert ReleasedSketch.from_bytes(both.to_bytes()) == both
    with pytest.raises(IncompatibleSketchError, match="with itself"):
        both.combine(outputs["a"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("privacy_unit", "windows"),
    [
        (Record(), None),
        (PrivacyId("user", RecordBounds(1)), None),
        (PrivacyId("user", RecordBounds(1), max_windows=2), TimeRange(0, 500)),
    ],
    ids=["record", "id in a window", "id in two windows"],
)
def test_windows_of_one_run_have_one_rho(privacy_unit: Unit, windows: TimeRange | None) -> None:
    transform = PrivateFrequencies(SPEC, PRIVACY, item="item", privacy_unit=privacy_unit, windows=windows)
    outputs = run(PEOPLE, InWindows(transform))
    assert len(outputs) == 5
    assert combined(outputs).privacy.rho == PRIVACY.rho


def test_runs_add_up_even_those_of_one_pipeline(tmp_path: Path) -> None:
    """A template that is run every day has another run, and other data, each day."""
    pipeline, seen, days = beam.Pipeline(FN_API), set(), []
    pipeline | beam.Create(PEOPLE) | per_key() | beam.ParDo(Sink(str(tmp_path)))
    for _ in range(2):
        pipeline.run().wait_until_finish()
        days.append([pickle.loads(path.read_bytes())[1] for path in set(tmp_path.iterdir()) - seen])
        seen = set(tmp_path.iterdir())
    (first, second), (again, other) = days
    for one, another in ((first, again), (first, other), (second, again), (second, other)):
        assert one.combine(another).privacy.rho == 2 * PRIVACY.rho
    assert first.combine(second).combine(again.combine(other)).privacy.rho == 2 * PRIVACY.rho
    assert first.combine(again).combine(second.combine(other)).privacy.rho == 4 * PRIVACY.rho  # safe, if not tight


@pytest.mark.one_fast_case
@pytest.mark.parametrize("idempotent", [False, True])
def test_releases_of_a_stream_add_up_unless_idempotent(idempotent: bool) -> None:
    """A stream does not wait for a side input, and a name in its graph would be that of two runs of the graph."""
    elements = [({"user": "u", "key": key, "item": 1}, 5.0) for key in "ab"]
    transform: Any = PrivateFrequencies(
        SPEC, PRIVACY, item="item", privacy_unit=Record(), keys=PublicKeys(["a", "b"], "key"), windows=TimeRange(0, 60)
    )
    transform = transform.with_idempotent_noise(**TERMS) if idempotent else transform

    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        windowed = unbounded(elements)(pipeline) | beam.WindowInto(window.FixedWindows(60))
        assert not windowed.is_bounded
        return windowed | transform

    releases = [value for _, value in seen_by_sink(build, "--streaming", runner=BUNDLE_BASED)]
    assert len(releases) == 2
    assert combined(releases).privacy.rho == (1 if idempotent else 2) * PRIVACY.rho


@pytest.mark.slow
@pytest.mark.one_fast_case
@pytest.mark.parametrize("idempotent", [False, True])
def test_a_timeline_takes_the_rows_of_one_run(idempotent: bool) -> None:
    def rows_over(horizon: Horizon = HORIZON) -> list[Any]:
        transform = PrivateFrequencies(SPEC, PRIVACY, windows=horizon, item="item", privacy_unit=Record())
        transform = transform.with_idempotent_noise(**TERMS) if idempotent else transform

        def build(pipeline: beam.Pipeline) -> beam.PCollection:
            people = pipeline | beam.Create([PEOPLE[:20]]) | beam.FlatMap(stamped)
            return people | transform

        return seen_by_sink(build)

    first, again = rows_over(), rows_over()
    later, longer = rows_over(Horizon(6000, 60, 4)), rows_over(Horizon(0, 120, 4))
    assert SketchTimeline(first, HORIZON).between(1, 3).privacy.rho == PRIVACY.rho
    for other in (later, longer):
        with pytest.raises(ValueError, match="was released for another window"):
            SketchTimeline(other, HORIZON)
    mixed = [row for row in first if row.number] + [row for row in again if not row.number]
    if idempotent:  # the run again is the same run
        assert SketchTimeline(mixed, HORIZON).available == 4
    else:
        with pytest.raises(ValueError, match="are from different runs or keys"):
            SketchTimeline(mixed, HORIZON)
