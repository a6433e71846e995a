"""The steps that are refused before a `Record`, those that must be accepted, and the words of the refusals.

That accepted steps copy nothing is measured in `tests/guarantees/test_copies.py`, on random graphs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.pvalue import AsDict, AsIter, AsList, AsMultiMap, AsSingleton, TaggedOutput
from apache_beam.transforms import trigger, window
from apache_beam.transforms.combiners import Count, Latest, Mean, Sample, ToDict, ToList, ToListCombineFn, Top
from apache_beam.transforms.core import Windowing, WindowIntoFn, identity
from apache_beam.transforms.util import GroupIntoBatches, KvSwap, Tee, WaitOn
from apache_beam.transforms.window import FixedWindows, GlobalWindows, Sessions, SlidingWindows, TimestampedValue
from apache_beam.utils.windowed_value import WindowedValue
from apache_beam.yaml.yaml_transform import YamlTransform

from beam_dpsketch import Horizon, PrivacyId, PrivacySpec, Record, RecordBounds, SketchSpec, WindowingError
from beam_dpsketch.transforms import PrivateFrequencies
from beam_dpsketch.transforms.steps.checks import guards as copy_guard
from beam_dpsketch.transforms.steps.checks.guards import origin_of
from tests.helpers.pipelines import FN_API

ONE_CELL = SketchSpec(kind="count_min", depth=1, width=1)
PRIVACY = PrivacySpec(rho=1)
Pair = tuple[str, int]
Step = Callable[[beam.PCollection], beam.PCollection]

TWICE = 'Records of "pairs" arrive twice, through '
FIRE_AGAIN = "accumulation_mode=ACCUMULATING before a GroupByKey .* Use AccumulationMode.DISCARDING"
OVERLAP = "SlidingWindows before another WindowInto .* Remove the first WindowInto"
OWN_WINDOWS = "Step .* assigns windows and may copy records.* Use beam.WindowInto"


def mine(pair: Any, _: Any = None) -> Pair:
    """A function of a user."""
    return pair


def mine_too(pair: Any, side: Any = None) -> list[Pair]:
    return [pair]


def mine_by_tag(pair: Any) -> Iterator[TaggedOutput]:
    yield TaggedOutput("a", pair)
    yield TaggedOutput("b", pair)


def is_even(pair: Pair, _: Any = None) -> bool:
    return pair[1] % 2 == 0


def part(pair: Pair, parts: int) -> int:
    return pair[1] % parts


def joined(*pairs: Any) -> beam.PCollection:
    return pairs | "joined" >> beam.Flatten()


def doubled(pairs: beam.PCollection) -> beam.PCollection:
    return (pairs, pairs) | "doubled" >> beam.Flatten()


def fire_again(pairs: beam.PCollection, mode: trigger.AccumulationMode) -> beam.PCollection:
    again = beam.WindowInto(GlobalWindows(), trigger.Repeatedly(trigger.AfterCount(1)), mode)
    return pairs | "again" >> again


def once(pairs: beam.PCollection) -> beam.PCollection:
    return pairs.pipeline | "once" >> beam.Create([None])


def others(pairs: beam.PCollection) -> beam.PCollection:
    return pairs.pipeline | "others" >> beam.Create([("k", 1)])


def handed_on(side: Any) -> Step:
    return lambda pairs: once(pairs) | beam.FlatMap(lambda _, each: each, side(doubled(pairs)))


class Firsts(beam.CombineFn):
    """A combiner of a user."""

    def create_accumulator(self, *_: Any) -> list[Any]:
        return []

    def add_input(self, accumulator: list[Any], element: Any, *_: Any) -> list[Any]:
        return [*accumulator, element]

    def merge_accumulators(self, accumulators: Iterable[list[Any]], *_: Any) -> list[Any]:
        return [element for accumulator in accumulators for element in accumulator]

    def extract_output(self, accumulator: list[Any], *_: Any) -> Any:
        return accumulator


class Halves(window.NonMergingWindowFn):
    """Windows of a user: each element is in two."""

    def assign(self, assign_context: Any) -> list[Any]:
        return [window.IntervalWindow(0, 10), window.IntervalWindow(0, 20)]

    def get_window_coder(self) -> Any:
        return FixedWindows(60).get_window_coder()


class OwnWindows(beam.ParDo):
    """A step of a user that says itself which windows its elements are in."""

    def get_windowing(self, inputs: Any) -> Windowing:
        return Windowing(FixedWindows(60))


class InWindows(beam.DoFn):
    """A function of a user that says itself which windows its elements are in."""

    def process(self, element: Any) -> Iterator[WindowedValue]:
        yield WindowedValue(element, 0, (window.IntervalWindow(0, 60),))


class OtherWindowInto(beam.WindowInto):
    def get_windowing(self, unused_inputs: Any) -> Windowing:
        return Windowing(FixedWindows(60))


HANDING_ON: dict[str, Step] = {
    "nothing": lambda pairs: pairs,
    "filter": lambda pairs: pairs | beam.Filter(is_even),
    "typed filter": lambda pairs: pairs | beam.Filter(is_even).with_output_types(Pair),
    "filter by a side input": lambda pairs: pairs | beam.Filter(is_even, AsList(others(pairs))),
    "distinct": lambda pairs: pairs | beam.Distinct(),
    "shuffle": lambda pairs: pairs | beam.Reshuffle(),
    "renamed": lambda pairs: pairs | "other name" >> beam.Map(identity),
    "keyed and not": lambda pairs: pairs | beam.WithKeys(is_even) | beam.Values(),
    "swapped twice": lambda pairs: pairs | KvSwap() | "back" >> KvSwap(),
    "timed": lambda pairs: pairs | beam.Map(TimestampedValue, 7),
    "batches": lambda pairs: pairs | beam.BatchElements() | beam.FlatMap(),
    "batches of a key": lambda pairs: pairs | beam.WithKeys(0) | GroupIntoBatches(9) | beam.Values() | beam.FlatMap(),
    "groups": lambda pairs: pairs | beam.WithKeys(0) | beam.GroupByKey() | beam.Values() | beam.FlatMap(),
    "list": lambda pairs: pairs | ToList() | beam.FlatMap(),
    "any": lambda pairs: pairs | Sample.Any(9),
    "top": lambda pairs: pairs | Top.Of(9) | beam.FlatMap(),
    "tee": lambda pairs: pairs | Tee(beam.Map(mine)),
    "wait": lambda pairs: pairs | WaitOn(others(pairs)),
    "partition": lambda pairs: (pairs | beam.Partition(part, 2))[1],
    "errors": lambda pairs: (pairs | beam.Map(mine).with_exception_handling()).bad,
    "windows": lambda pairs: pairs | beam.WindowInto(GlobalWindows()),
}
"""Steps of Beam that hand on the records of a collection, or a part of them."""

REFUSED: dict[str, tuple[Step, str]] = {
    **{name: (lambda pairs, step=step: joined(pairs, step(pairs)), TWICE) for name, step in HANDING_ON.items()},
    "two filters": (lambda pairs: joined(pairs | "a" >> beam.Filter(mine), pairs | "b" >> beam.Filter(mine)), TWICE),
    "two partitions": (
        lambda pairs: joined((pairs | "a" >> beam.Partition(part, 2))[0], (pairs | "b" >> beam.Partition(part, 2))[1]),
        TWICE,
    ),
    "all parts and a part of one": (
        lambda pairs: joined(*(parts := pairs | beam.Partition(part, 2)), parts[1] | beam.Filter(is_even)),
        'Records of ".*Partition.*" arrive twice',
    ),
    "flatten with": (lambda pairs: pairs | beam.Distinct() | beam.FlattenWith(pairs), TWICE),
    "join with itself": (lambda pairs: {"a": pairs, "b": pairs} | beam.CoGroupByKey(), TWICE),
    "doubled, then a function": (lambda pairs: doubled(pairs) | beam.Map(mine), TWICE),
    "doubled, then a fanout": (lambda pairs: doubled(pairs) | beam.CombinePerKey(sum).with_hot_key_fanout(2), TWICE),
    "sample": (lambda pairs: doubled(pairs) | Sample.FixedSizeGlobally(9), TWICE),
    "to list": (lambda pairs: doubled(pairs) | ToList(), TWICE),
    "to dict": (lambda pairs: doubled(pairs) | ToDict(), TWICE),
    "largest": (lambda pairs: doubled(pairs) | Top.Largest(9), TWICE),
    "a combiner of Beam": (lambda pairs: doubled(pairs) | beam.CombineGlobally(ToListCombineFn()), TWICE),
    "a combiner of a user": (lambda pairs: doubled(pairs) | beam.CombineGlobally(Firsts()), TWICE),
    "side list": (handed_on(AsList), TWICE),
    "side iterable": (handed_on(AsIter), TWICE),
    "side dict": (handed_on(AsDict), TWICE),
    "side multimap": (handed_on(AsMultiMap), TWICE),
    "side singleton": (handed_on(lambda pairs: AsSingleton(pairs | ToList())), TWICE),
    "side view": (handed_on(lambda pairs: pairs | beam.CombineGlobally(Firsts()).as_singleton_view()), TWICE),
    "side of a DoFn": (lambda pairs: once(pairs) | beam.ParDo(mine_too, side=AsList(doubled(pairs))), TWICE),
    "side of a combiner": (lambda pairs: others(pairs) | beam.CombinePerKey(Firsts(), AsList(doubled(pairs))), TWICE),
    "sliding, then sample": (
        lambda pairs: (
            pairs
            | beam.WindowInto(SlidingWindows(10, 1))
            | "global" >> beam.WindowInto(GlobalWindows())
            | Sample.FixedSizeGlobally(9)
        ),
        OVERLAP,
    ),
    "accumulating, then list": (
        lambda pairs: (
            fire_again(pairs, trigger.AccumulationMode.ACCUMULATING)
            | ToList()
            | "global" >> beam.WindowInto(GlobalWindows(), trigger=trigger.DefaultTrigger())
        ),
        FIRE_AGAIN,
    ),
    "windows of a user": (
        lambda pairs: pairs | beam.WindowInto(Halves()) | "global" >> beam.WindowInto(GlobalWindows()),
        "Halves before another WindowInto",
    ),
    "a step with windows of its own": (lambda pairs: pairs | OwnWindows(InWindows()), OWN_WINDOWS),
    "WindowIntoFn": (lambda pairs: pairs | beam.ParDo(WindowIntoFn(Windowing(SlidingWindows(9, 3)))), OWN_WINDOWS),
    "another WindowInto": (lambda pairs: pairs | OtherWindowInto(GlobalWindows()), OWN_WINDOWS),
}

ACCEPTED: dict[str, Step] = {
    **HANDING_ON,
    "others": lambda pairs: joined(pairs, others(pairs)),
    "two files": lambda pairs: joined(
        *(pairs.pipeline | name >> beam.io.ReadFromText(name, validate=False) for name in ("a.csv", "b.csv"))
    ),
    "two functions": lambda pairs: joined(pairs | "a" >> beam.Map(mine), pairs | "b" >> beam.FlatMap(mine_too)),
    "functions of tuples": lambda pairs: joined(
        pairs, pairs | beam.MapTuple(mine), pairs | beam.FlatMapTuple(mine_too), pairs | beam.ParDo(mine_too)
    ),
    "two outputs of a function": lambda pairs: joined(*(pairs | beam.FlatMap(mine_by_tag).with_outputs("a", "b"))),
    "a combiner": lambda pairs: joined(pairs, pairs | beam.CombinePerKey(sum), pairs | beam.CombinePerKey(Firsts())),
    "all parts": lambda pairs: joined(*(pairs | beam.Partition(part, 3))),
    "parts of parts": lambda pairs: joined(
        (parts := pairs | beam.Partition(part, 2))[0] | beam.Distinct(),
        *(parts[1] | "again" >> beam.Partition(part, 2)),
    ),
    "parts, joined and parted again": lambda pairs: joined(
        *((pairs | beam.Partition(part, 2)) | beam.Flatten() | "again" >> beam.Partition(part, 2))
    ),
    "parts in YAML": lambda pairs: joined(
        *(
            pairs
            | beam.Map(lambda pair: beam.Row(name="a"))
            | YamlTransform("{type: Partition, config: {by: name, outputs: [a, b]}}")
        ).values()
    ),
    "repaired errors": lambda pairs: joined(
        (parsed := pairs | beam.Map(mine).with_exception_handling()).good, parsed.bad | "repaired" >> beam.Map(mine)
    ),
    "two ways to parse": lambda pairs: joined(
        (pairs | "a" >> beam.Map(mine).with_exception_handling()).good,
        (pairs | "b" >> beam.Map(mine).with_exception_handling()).good,
    ),
    "fanout": lambda pairs: pairs | beam.CombinePerKey(ToListCombineFn()).with_hot_key_fanout(2),
    "fanout of all": lambda pairs: pairs | beam.CombineGlobally(ToListCombineFn()).with_fanout(2),
    "sample": lambda pairs: pairs | Sample.FixedSizeGlobally(9) | beam.FlatMap(mine_too),
    "header of a file": lambda pairs: pairs | beam.Map(mine, AsSingleton(others(pairs) | Sample.FixedSizeGlobally(1))),
    "public table": lambda pairs: {"a": pairs, "b": others(pairs)} | beam.CoGroupByKey() | beam.FlatMap(mine_too),
    "compared with all": lambda pairs: pairs | beam.Map(mine, AsSingleton(pairs | Count.Globally())),
    "filtered by the mean": lambda pairs: (
        pairs | beam.Filter(is_even, AsSingleton(pairs | beam.Values() | Mean.Globally()))
    ),
    "waits for what is written": lambda pairs: pairs | WaitOn(pairs | beam.Reshuffle()),
    "statistics of sliding windows": lambda pairs: (
        pairs
        | beam.Map(mine, AsIter(pairs | beam.WindowInto(SlidingWindows(9, 3)) | Count.PerKey()))
        | "hours" >> beam.WindowInto(FixedWindows(3600))
    ),
    "a side input that changes": lambda pairs: (
        pairs | beam.Map(mine, AsIter(fire_again(others(pairs), trigger.AccumulationMode.DISCARDING) | Latest.PerKey()))
    ),
    "sessions, then days": lambda pairs: (
        pairs | beam.WindowInto(Sessions(9)) | beam.GroupByKey() | "days" >> beam.WindowInto(FixedWindows(86400))
    ),
    "shuffled in sliding windows": lambda pairs: pairs | beam.WindowInto(SlidingWindows(9, 3)) | beam.Reshuffle(),
}


@pytest.fixture(scope="module")
def pairs() -> beam.PCollection:
    return fresh()


def fresh() -> beam.PCollection:
    return beam.Pipeline(runner=FN_API) | "pairs" >> beam.Create([("k", 1)]).with_output_types(Pair)


def built(name: str, step: Step, pairs: beam.PCollection) -> beam.PCollection:
    return pairs | name >> beam.ptransform_fn(step)()


@pytest.mark.parametrize("name", REFUSED)
def test_steps_that_copy_records_are_refused(name: str, pairs: beam.PCollection) -> None:
    step, message = REFUSED[name]
    with pytest.raises(WindowingError, match=rf"^{message}.* or protect privacy ids with PrivacyId \[dpsketch-E424\]$"):
        copy_guard.check_no_copies(built(f"refused {name}", step, pairs))


@pytest.mark.parametrize("name", ACCEPTED)
def test_honest_steps_are_accepted(name: str, pairs: beam.PCollection) -> None:
    copy_guard.check_no_copies(built(f"accepted {name}", ACCEPTED[name], pairs))


def released() -> beam.PTransform:
    return PrivateFrequencies(ONE_CELL, PRIVACY, item=lambda pair: pair[1], privacy_unit=Record())


def test_messages_name_the_steps_and_the_way_out() -> None:
    pairs = fresh()
    words = (
        'Records of "pairs" arrive twice, through "even" and "joined". '
        "privacy_unit=Record() would protect each copy separately. "
        "Pass them on once, or split them with beam.Partition, or protect privacy ids with PrivacyId [dpsketch-E424]"
    )
    with pytest.raises(WindowingError) as raised:
        joined(pairs, pairs | "even" >> beam.Filter(is_even)) | released()
    assert str(raised.value) == words
    sliding = pairs | beam.WindowInto(SlidingWindows(60, 20)) | beam.GroupByKey()
    in_all = sliding | "all" >> beam.WindowInto(GlobalWindows())
    with pytest.raises(WindowingError, match=OVERLAP):
        in_all | "over time" >> PrivateFrequencies(ONE_CELL, PRIVACY, windows=Horizon(0, 60, 4), privacy_unit=Record())


def test_a_privacy_id_may_have_copies() -> None:
    privacy_unit = PrivacyId(lambda pair: pair[0], RecordBounds(1))
    transform = PrivateFrequencies(ONE_CELL, PRIVACY, item=lambda pair: pair[1], privacy_unit=privacy_unit)
    assert doubled(fresh()) | transform is not None


def test_each_collection_is_looked_at_once(pairs: beam.PCollection, monkeypatch: pytest.MonkeyPatch) -> None:
    """A walk along each way would look at thousands: the number of ways doubles with each step here."""
    ways = pairs
    for level in range(12):
        ways = [ways | f"{level} {side}" >> beam.Map(mine) for side in "ab"] | f"{level}" >> beam.Flatten()
    looked_at = []

    def count(collection: beam.PCollection) -> Any:
        looked_at.append(collection)
        return origin_of(collection)

    monkeypatch.setattr(copy_guard, "origin_of", count)
    copy_guard.check_no_copies(ways)
    assert len(looked_at) == len(set(looked_at)) < 50
