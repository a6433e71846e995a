"""Continual release of streams, on runners that keep state and on those that lose what timers emit: the same rows."""

from __future__ import annotations

from typing import Any

import apache_beam as beam
import pytest

from beam_dpsketch import NormBound, PrivacyId, PublicKeys, RecordBounds
from beam_dpsketch.exact.horizon import MECHANISMS, Mechanism
from beam_dpsketch.transforms.steps.rows_over_time import RowSettings, RowsInOrder
from tests.helpers.continual import VISITS, WINDOWS, expected, frequencies, of_each, per_key, same, sums
from tests.helpers.pipelines import BUNDLE_BASED, FN_API, seen_by_sink
from tests.helpers.stream_cases import PORTABLE, stateful_steps
from tests.helpers.streams import state_everywhere, unbounded

PANE = beam.DoFn.PaneInfoParam
STREAM = unbounded([(visit, visit.time) for visit in VISITS])
IDS = {
    "records": PrivacyId("who", RecordBounds(9), max_windows=WINDOWS),
    "norm": PrivacyId("who", NormBound(9), max_windows=WINDOWS),
}


def rows_in_order(pipeline: beam.Pipeline) -> list[str]:
    """The labels of the steps that make rows in state."""
    found: list[str] = []

    class Visitor(beam.pipeline.PipelineVisitor):
        def visit_transform(self, step: Any) -> None:
            if isinstance(getattr(step.transform, "fn", None), RowsInOrder):
                found.append(step.full_label)

    pipeline.visit(Visitor())
    return found


@pytest.mark.slow
@pytest.mark.usefixtures(state_everywhere.__name__)
@pytest.mark.parametrize("which", MECHANISMS)
def test_every_row_is_the_exact_combination_of_windows(which: Mechanism, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = sums(monkeypatch, lambda pipeline: STREAM(pipeline) | frequencies(mechanism=which))
    assert same(rows, expected(VISITS, mechanism=which))


@pytest.mark.slow
@pytest.mark.parametrize("privacy_unit", IDS.values(), ids=IDS)
def test_ids_within_the_bounds_lose_nothing(privacy_unit: PrivacyId, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = sums(monkeypatch, lambda pipeline: STREAM(pipeline) | frequencies(privacy_unit=privacy_unit))
    assert same(rows, expected(VISITS))


@pytest.mark.slow
def test_every_key_has_all_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = ["ann", "bob", "absent"]
    rows = sums(monkeypatch, lambda pipeline: STREAM(pipeline) | per_key(PublicKeys(keys, "who")))
    assert same(rows, of_each(keys, lambda key: expected([visit for visit in VISITS if visit.who == key])))


@pytest.mark.usefixtures(state_everywhere.__name__)
def test_one_step_merges_in_state_and_one_makes_rows() -> None:
    pipeline = beam.Pipeline(runner=FN_API)
    _ = STREAM(pipeline) | frequencies()
    assert len(stateful_steps(pipeline)) == len(rows_in_order(pipeline)) == 1


@pytest.mark.parametrize("is_bounded", [True, False], ids=["bounded", "unbounded"])
def test_streams_alone_make_rows_in_state(is_bounded: bool) -> None:
    """On bounded input windows come in no order, and all of them would wait in the state."""
    pipeline = beam.Pipeline(runner=FN_API)
    elements = STREAM(pipeline)
    elements.is_bounded = is_bounded
    _ = elements | frequencies()
    assert len(rows_in_order(pipeline)) == (not is_bounded)


LOST = {
    "lost": (3, None, "Window 3 of the horizon never arrived"),
    "twice": (3, 2, "A window of the horizon arrived twice"),
}


@pytest.mark.one_fast_case
@pytest.mark.parametrize("runner", [FN_API, BUNDLE_BASED])
@pytest.mark.parametrize(("window", "instead", "message"), LOST.values(), ids=LOST)
def test_a_window_that_a_runner_loses_or_repeats_fails_the_pipeline(
    window: int, instead: int | None, message: str, runner: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = RowSettings.with_number

    def wrong(self: RowSettings, element: Any, where: Any = beam.DoFn.WindowParam, pane: Any = PANE) -> Any:
        for key, (number, accumulator) in right(self, element, where, pane):
            # Out of the horizon: it waits for windows that never come.
            yield key, (instead or WINDOWS if number == window else number, accumulator)

    monkeypatch.setattr(RowSettings, "with_number", wrong)
    with pytest.raises(RuntimeError, match=message):
        seen_by_sink(lambda pipeline: STREAM(pipeline) | frequencies(), "--streaming", runner=runner)


@pytest.mark.engine
@pytest.mark.parametrize("runner", PORTABLE)
def test_each_row_is_released_once(runner: str, importable_in_workers: None) -> None:
    engine, options = PORTABLE[runner]
    rows = seen_by_sink(lambda pipeline: STREAM(pipeline) | frequencies(), *options, runner=engine)
    assert sorted(row.number for row in rows) == [*range(WINDOWS)]
