"""Where a `Record` is protected, it counts no more often than the statement says: steps that copy it are refused.

Every graph of a few steps is built. What the guard accepts is run on one record, and the counters are compared with
the statement of the release.
"""

from __future__ import annotations

import itertools
import random
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.transforms import trigger, window
from apache_beam.transforms.window import TimestampedValue

from beam_dpsketch import Horizon, PrivacyId, PrivacySpec, Record, RecordBounds, SketchSpec, WindowingError
from beam_dpsketch.release import noising
from beam_dpsketch.transforms import PrivateContinualFrequencies, PrivateFrequencies
from beam_dpsketch.transforms.steps import private_release
from tests.helpers.pipelines import FN_API, seen_by_sink

ONE_CELL = SketchSpec(kind="count_min", depth=1, width=1)
PRIVACY = PrivacySpec(rho=1)
ACCUMULATING = trigger.AccumulationMode.ACCUMULATING

Step = Callable[[beam.PCollection], beam.PCollection]
Pair = tuple[str, str]


def at_1000(pair: Any) -> Any:
    return TimestampedValue(pair, 1000)


def ungrouped(group: tuple[str, Iterable[str]]) -> list[Pair]:
    return [(group[0], value) for value in group[1]]


def left(joined: tuple[str, dict[str, Iterable[str]]]) -> list[Pair]:
    return [(joined[0], value) for value in joined[1]["left"]]


def regrouped(pairs: beam.PCollection) -> beam.PCollection:
    return pairs | beam.GroupByKey() | beam.FlatMap(ungrouped).with_output_types(Pair)


def joined_with_itself(pairs: beam.PCollection) -> beam.PCollection:
    return (
        {"left": pairs, "right": pairs | beam.Map(tuple).with_output_types(Pair)}
        | beam.CoGroupByKey()
        | beam.FlatMap(left).with_output_types(Pair)
    )


def with_others(pairs: beam.PCollection) -> beam.PCollection:
    others = pairs | "NoOthers" >> beam.Filter(lambda pair: False)
    return (pairs, others) | beam.Flatten()


def twice(pairs: beam.PCollection) -> beam.PCollection:
    return (pairs, pairs) | beam.Flatten()


def twice_after_a_shuffle(pairs: beam.PCollection) -> beam.PCollection:
    return (pairs, pairs | beam.Reshuffle()) | beam.Flatten()


STEPS: dict[str, Step] = {
    "map": lambda pairs: pairs | beam.Map(tuple).with_output_types(Pair),
    "shuffle": lambda pairs: pairs | beam.Reshuffle(),
    "fixed": lambda pairs: pairs | beam.WindowInto(window.FixedWindows(60)),
    "sliding": lambda pairs: pairs | beam.WindowInto(window.SlidingWindows(60, 20)),
    "global": lambda pairs: pairs | beam.WindowInto(window.GlobalWindows()),
    "group": regrouped,
    "distinct": lambda pairs: pairs | beam.Distinct(),
    "join": joined_with_itself,
    "with others": with_others,
    "twice": twice,
    "twice after a shuffle": twice_after_a_shuffle,
}


class Steps(beam.PTransform):
    """The named steps, one after another."""

    def __init__(self, names: Iterable[str]) -> None:
        super().__init__()
        self._names = names

    def expand(self, pcoll: beam.PCollection) -> beam.PCollection:
        for place, name in enumerate(self._names):
            pcoll = pcoll | f"Step{place}" >> _Step(STEPS[name])
        return pcoll


class _Step(beam.PTransform):
    def __init__(self, step: Step) -> None:
        super().__init__()
        self._step = step

    def expand(self, pcoll: beam.PCollection) -> beam.PCollection:
        return self._step(pcoll)


def release() -> beam.PTransform:
    return PrivateFrequencies.Globally(ONE_CELL, PRIVACY, item=lambda pair: pair[1], unit=Record())


def broken(graphs: list[tuple[str, ...]], monkeypatch: pytest.MonkeyPatch) -> tuple[set[str], int]:
    """The accepted graphs in which one record counts more than their statement says, and how many were accepted."""
    accepted = 0

    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        nonlocal accepted
        record = pipeline | beam.Create([("k", "a")]) | beam.Map(at_1000).with_output_types(Pair)
        outputs = []
        for graph in graphs:
            name = " > ".join(graph)
            try:
                released = record | name >> Steps(graph) | f"{name}, released" >> release()
            except WindowingError:
                continue
            accepted += 1
            named = released | f"{name}, named" >> beam.Map(lambda sketch, name=name: (name, sketch))
            outputs.append(named | f"{name}, together" >> beam.WindowInto(window.GlobalWindows()))
        return outputs | beam.Flatten()

    with monkeypatch.context() as patched:
        patched.setattr(noising, "add_noise", lambda counters, sigma_squared: counters.copy())
        releases = defaultdict(list)
        for name, sketch in seen_by_sink(build):
            releases[name].append(sketch)
    assert len(releases) == accepted
    wrong = set()
    for name, sketches in releases.items():
        counts = [int(sketch.counters.sum()) for sketch in sketches if sketch.counters.any()]
        if max(counts) > 1 or len(counts) > sketches[0].privacy.window_count:
            wrong.add(name)
    return wrong, accepted


def graphs_of(size: int) -> list[tuple[str, ...]]:
    return list(itertools.product(STEPS, repeat=size))


@pytest.mark.slow
def test_one_record_counts_as_often_as_the_statement_says(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong, accepted = broken(random.Random(0).sample(graphs_of(3), 12), monkeypatch)
    assert not wrong
    assert accepted >= 4


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_one_record_counts_as_often_as_said_in_many_graphs(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    graphs = graphs_of(size)
    wrong, accepted = broken(random.Random(size).sample(graphs, min(len(graphs), 40)), monkeypatch)
    assert not wrong
    assert accepted >= min(len(graphs), 40) / 4


@pytest.mark.slow
def test_without_the_guard_copies_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    copying = [("sliding", step, "global") for step in ("group", "distinct", "join", "map")]
    copying += [("twice",), ("twice after a shuffle", "map")]
    assert broken([*copying, ("map",)], monkeypatch) == (set(), 1)
    monkeypatch.setattr(private_release, "check_no_copies", lambda elements: None)
    assert broken([*copying, ("map",)], monkeypatch) == ({" > ".join(graph) for graph in copying}, len(copying) + 1)


def test_messages_name_the_step_and_the_way_out() -> None:
    pipeline = beam.Pipeline(runner=FN_API)
    pairs = pipeline | beam.Create([("k", "a")])
    with pytest.raises(
        WindowingError, match=r"Flatten gets one collection twice.* pass it once, or protect ids with PrivacyId"
    ):
        pairs | "Twice" >> Steps(["twice", "map"]) | release()
    again = pairs | beam.WindowInto(
        window.FixedWindows(60), trigger=trigger.Repeatedly(trigger.AfterCount(1)), accumulation_mode=ACCUMULATING
    )
    once_more = (
        again | beam.GroupByKey() | "Once" >> beam.WindowInto(window.FixedWindows(60), trigger=trigger.DefaultTrigger())
    )
    with pytest.raises(WindowingError, match=r"ACCUMULATING before a GroupByKey .* choose AccumulationMode.DISCARDING"):
        once_more | "Accumulating" >> release()
    sliding = pairs | "Sliding" >> Steps(["sliding", "group", "global"])
    message = "SlidingWindows before another WindowInto .* remove the first WindowInto, or protect ids with PrivacyId"
    with pytest.raises(WindowingError, match=message):
        sliding | PrivateContinualFrequencies.Globally(ONE_CELL, PRIVACY, Horizon(0, 60, 4), unit=Record())


def test_a_privacy_id_may_have_copies() -> None:
    pairs = beam.Pipeline(runner=FN_API) | beam.Create([("k", "a")]) | Steps(["sliding", "group", "twice", "global"])
    unit = PrivacyId(lambda pair: pair[0], RecordBounds(1))
    assert pairs | PrivateFrequencies.Globally(ONE_CELL, PRIVACY, item=lambda pair: pair[1], unit=unit) is not None
