"""What one unit does to grouped counts, and to a norm that is chosen for periods: at most what the statement says.

Inputs that differ by one unit go through the real pipeline without noise and without thresholds. The squared change of
each part over its 2 sigma^2 is the zero-concentrated loss of this part; it must be at most its part of rho. For grouped
counts, what only the unit counts for must be published with a probability of at most delta. These tests fail for no
draw: all others are within their bounds, so nothing of them is chosen at random.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.transforms.window import FixedWindows, SlidingWindows, TimestampedValue

from beam_dpsketch import (
    ADD_OR_REMOVE_ONE,
    REPLACE_ONE,
    AssumePublicKeys,
    AutoNorm,
    Groups,
    ListedItems,
    NormBound,
    PrivacyId,
    PrivacySpec,
    PublicKeys,
    RecordBounds,
    SketchSpec,
    TextDomain,
    TimeRange,
)
from beam_dpsketch.noise import counting, tables
from beam_dpsketch.noise import run as engine_run
from beam_dpsketch.noise.norms import choice_table
from beam_dpsketch.privacy.grouped_counts import GroupRule
from beam_dpsketch.privacy.noise.gaussian_bounds import tail_bound
from beam_dpsketch.transforms import PrivateFrequencies, PrivateTopK
from beam_dpsketch.transforms.steps import bounding_over_windows
from beam_dpsketch.transforms.steps.bounding_over_windows import _group_by_period as exact_group_by_period
from tests.helpers import noise
from tests.helpers.pipelines import seen_by_sink
from tests.helpers.side_releases import any_norm

pytestmark = pytest.mark.usefixtures(any_norm.__name__)
RHO, DELTA, END, STEP = Fraction(1, 2), Fraction(1, 10**6), 60, 10
FIXED, SLIDING = FixedWindows(STEP), SlidingWindows(2 * STEP, STEP)
KEYS, ITEMS = "ab", "wxyz"
RELATIONS = (REPLACE_ONE, ADD_OR_REMOVE_ONE)
OTHERS = [
    {"user": f"{key}{item}{time}", "key": key, "item": item, "time": time, "n": 1}
    for key in KEYS
    for item in ITEMS[:2]
    for time in (5, 25, 45)
]
"""Each in two windows at most, and one for each key, item and a half of the windows."""


def ends(time: int, windowing: Any) -> list[int]:
    """When the windows of a record end."""
    first = time // STEP * STEP + STEP
    return [first] if windowing is FIXED else [first, first + STEP]


def units(windowing: Any, period: int | None, seed: int) -> list[list[dict[str, Any]]]:
    """Three units: nothing, one that is heavy in one place, and one that is spread; each within one period."""
    chance = random.Random(seed)
    made: list[list[dict[str, Any]]] = [[]]
    for number, size in enumerate((30, 40)):
        records = [
            {
                "user": "unit",
                "key": chance.choice(KEYS),
                "item": chance.choice(ITEMS),
                "time": chance.randrange(END),
                "n": chance.choice([1, 2, 9]),
            }
            for _ in range(size)
        ]
        if number == 0:
            records = [{**each, "item": "w", "key": "a", "time": 45, "n": 9} for each in records]
        if period is not None:
            own = {(end - 1) // period for end in ends(45, windowing)}
            choice = own.pop() if number == 0 else number % max(1, END // period)
            within = [
                each for each in records if {(end - 1) // period for end in ends(each["time"], windowing)} == {choice}
            ]
            records = within
        made.append(records)
    return made


class Placed(beam.DoFn):
    """Releases to (number of the input, (start of the window, key), release)."""

    def __init__(self, number: int) -> None:
        self._number = number

    def process(self, element: Any, window: Any = beam.DoFn.WindowParam) -> Any:
        key, released = element if isinstance(element, tuple) and not hasattr(element, "release") else (None, element)
        yield self._number, (window.start.micros, key), getattr(released, "release", released)


def released(inputs: Iterable[list[Any]], make: Any, windowing: Any) -> list[dict[Any, Any]]:
    """The releases of each input by window and key, out of one pipeline."""
    inputs = list(inputs)

    def build(pipeline: beam.Pipeline) -> Any:
        branches = []
        for number, records in enumerate(inputs):
            timed = [TimestampedValue(each, each["time"]) for each in records]
            elements = pipeline | f"Create {number}" >> beam.Create(timed, reshuffle=False)
            elements = elements | f"Untyped {number}" >> beam.Map(lambda each: each)
            if windowing is not None:
                elements = elements | f"Window {number}" >> beam.WindowInto(windowing)
            branches.append(elements | f"Release {number}" >> make() | f"Place {number}" >> beam.ParDo(Placed(number)))
            branches[-1] = branches[-1] | f"All {number}" >> beam.WindowInto(beam.transforms.window.GlobalWindows())
        return branches | beam.Flatten()

    found: list[dict[Any, Any]] = [{} for _ in inputs]
    for number, place, each in seen_by_sink(build):
        assert place not in found[number]
        found[number][place] = each
    return found


def pairs(relation: Any, count: int) -> list[tuple[int, int]]:
    """Which inputs are neighbours; the first is without the unit."""
    return (
        list(itertools.combinations(range(count), 2)) if relation is REPLACE_ONE else [(0, n) for n in range(1, count)]
    )


# Grouped counts.

GROUPED: dict[str, tuple[Any, Any, bool]] = {
    "records": (PrivacyId("user", RecordBounds(2, max_keys=3, max_weight=9)), None, False),
    "records, keys": (PrivacyId("user", RecordBounds(1, max_keys=2, max_weight=9)), FIXED, True),
    "records in periods": (
        PrivacyId("user", RecordBounds(2, max_keys=2, max_weight=9), max_windows=2, period=30),
        FIXED,
        True,
    ),
    "records in overlapping windows": (
        PrivacyId("user", RecordBounds(1, max_keys=3, max_weight=9), max_windows=2, period=60),
        SLIDING,
        False,
    ),
    "norm": (PrivacyId("user", NormBound(2, max_weight=9, max_keys=3)), None, True),
    "norm of a period": (
        PrivacyId("user", NormBound(Fraction(5, 2), max_weight=9, max_keys=4), period=30),
        FIXED,
        True,
    ),
    "norm of one window": (PrivacyId("user", NormBound(2, max_weight=9, max_keys=4), period=10), FIXED, False),
    "norm, one of an item": (
        PrivacyId("user", NormBound(2, max_weight=9, max_keys=6, max_per_item=1), period=60),
        SLIDING,
        True,
    ),
}


@pytest.fixture
def all_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts have no noise, and all of them come out."""
    monkeypatch.setattr(counting.Counting, "add_noise", lambda _, counts, random_bytes=None: (counts, counts > 0))
    monkeypatch.setattr(tables, "drowned_bits", lambda *_: 0)


def worst_of_groups(name: str, relation: Any) -> tuple[Fraction, Fraction]:
    """The largest loss of neighbours over what counts may lose, and the same of the probability of an item of one unit.

    Votes, where there are some, have a part of rho, and half of delta.
    """
    unit, windowing, keyed = GROUPED[name]
    keys = {"keys": PublicKeys(list(KEYS), "key") if windowing is None else AssumePublicKeys("key")} if keyed else {}

    def make() -> Any:
        privacy = PrivacySpec(rho=RHO, delta=0.01, relation=relation)
        return PrivateTopK(
            TextDomain(4), privacy, k=9, unit=unit, item="item", weight="n", method=Groups(DELTA), **keys
        )

    period = unit.period_micros // 1_000_000 or (STEP if windowing is FIXED else None)
    found = released([[*OTHERS, *each] for each in units(windowing, period, len(name))], make, windowing)
    some = next(iter(found[0].values()))
    counts, bits = [exact_counts(each) for each in found], some.privacy.keys.scale_bits
    squared = some.privacy.sigma_squared * 4**bits
    assert some.privacy.delta == DELTA
    votes, counts_once = some.privacy.keys.votes, unit.bounds.as_dict().get("max_per_item") == 1
    assert (votes is None) == counts_once, "units that count once for an item have no votes"
    assert some.privacy.sketch_share == (1 if votes is None else 1 - votes.share)
    assert (some.privacy.sketch_share == 1) == counts_once
    lost = published = Fraction(0)
    for first, second in pairs(relation, len(counts)):
        change = sum(
            (counts[first].get(place, 0) - counts[second].get(place, 0)) ** 2
            for place in {**counts[first], **counts[second]}
        )
        lost = max(lost, Fraction(change) / (2 * squared) / (some.privacy.sketch_share * some.privacy.rho))
    for each in counts[1:]:
        alone = [count for place, count in each.items() if place not in counts[0]]
        chances = (tail_bound(squared, max(1, some.privacy.keys.threshold - count)) for count in alone)
        published = max(published, sum(chances, Fraction(0)) / (DELTA if votes is None else DELTA / 2))
    return lost, published


def exact_counts(releases: dict[Any, Any]) -> dict[Any, int]:
    """Counts by window, key and item, in units of the noise."""
    return {
        (*place, item): int(count)
        for place, each in releases.items()
        for item, count in zip(each.items, each._counters.tolist(), strict=True)
    }


@pytest.mark.one_fast_case
@pytest.mark.usefixtures("all_counts")
@pytest.mark.parametrize(("name", "relation"), [*zip(GROUPED, itertools.cycle(RELATIONS), strict=False)])
def test_grouped_counts_cost_at_most_rho_and_delta(name: str, relation: Any) -> None:
    lost, published = worst_of_groups(name, relation)
    assert 0 < lost <= 1
    assert 0 < published <= 1


@pytest.mark.slow
@pytest.mark.usefixtures("all_counts")
def test_noise_and_thresholds_that_are_too_small_would_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    exact = counting.counter_tables
    halved = lambda spec, terms: [noise.with_parameter(each, Fraction(1, 2)) for each in exact(spec, terms)]  # noqa: E731
    monkeypatch.setattr(counting, "counter_tables", halved)
    threshold = GroupRule.threshold
    monkeypatch.setattr(GroupRule, "threshold", lambda *given: threshold(*given) // 2)
    lost, published = worst_of_groups("norm", ADD_OR_REMOVE_ONE)
    assert lost > 1
    assert published > 1


# A norm that the data choose, for each unit within a period.

CHOSEN = Fraction(40, 16)
AUTO = AutoNorm(max_weight=9)
LISTED = ListedItems(list(ITEMS))
CHOICES: dict[str, tuple[Any, Any, int | None, bool]] = {
    "all": (SketchSpec(depth=2, width=3), None, None, True),
    "one cell": (SketchSpec(kind="count_min", depth=1, width=2), FIXED, 30, False),
    "keys in periods": (LISTED, FIXED, 20, True),
    "keys in overlapping windows": (SketchSpec(depth=2, width=3), SLIDING, 30, True),
}


@pytest.fixture
def histograms(monkeypatch: pytest.MonkeyPatch) -> dict[tuple[int, ...], Fraction]:
    """The histograms that choices are made of, with the noise that each count has. There is no other noise."""
    seen: dict[tuple[int, ...], Fraction] = {}

    def choose(histogram: np.ndarray, spec: Any, terms: Any, randomness: Any = None, **_: Any) -> Fraction:
        seen[tuple(histogram.tolist())] = choice_table(terms).parameter
        return CHOSEN

    monkeypatch.setattr(engine_run, "choose_norm", choose)
    noise.without_noise(monkeypatch, to_the_last_bit=True)
    return seen


def parts_of_rho(first: dict[Any, Any], second: dict[Any, Any]) -> dict[Any, Fraction]:
    """The loss of each part, over the part of rho that it has."""
    assert first.keys() == second.keys()
    some = next(iter(first.values()))
    privacy, unit = some.privacy, 4**some._scale_bits
    (variance,) = privacy.sigma_squared_per_level
    change = sum(int(each) ** 2 for place in first for each in first[place]._counters - second[place]._counters)
    found: dict[Any, Fraction] = {"sketch": change / (2 * variance * unit) / (privacy.sketch_share * privacy.rho)}
    for number, note in enumerate(privacy.side):
        values = [
            (first[place].privacy.side[number].value, second[place].privacy.side[number].value) for place in first
        ]
        squares = sum((one - other) ** 2 for one, other in values)
        found[note.names] = squares / (2 * note.sigma_squared * 4**note.scale_bits) / (note.share * privacy.rho)
    return found


def worst_of_choices(
    name: str, relation: Any, histograms: dict[tuple[int, ...], Fraction]
) -> tuple[dict[Any, Fraction], Fraction]:
    """The largest loss of each part, and that of the histogram, over what is stated."""
    spec, windowing, period, keyed = CHOICES[name]
    unit = PrivacyId("user", AUTO, **({} if period is None else {"period": period}))
    declared: dict[str, Any] = {} if windowing is None else {"windows": TimeRange(0, END + 2 * STEP)}
    declared |= {"keys": PublicKeys(list(KEYS), "key")} if keyed else {}

    def make() -> Any:
        return PrivateFrequencies(
            spec, PrivacySpec(rho=RHO, relation=relation), unit=unit, item="item", weight="n", **declared
        )

    inputs = [[*OTHERS, *each] for each in units(windowing, period, len(name))]
    found = released(inputs, make, windowing)
    worst: dict[Any, Fraction] = {}
    for first, second in pairs(relation, len(found)):
        for part, loss in parts_of_rho(found[first], found[second]).items():
            worst[part] = max(worst.get(part, Fraction(0)), loss)
    spend = next(iter(found[0].values())).privacy.norm_spend * RHO
    without = min(histograms, key=sum)  # of the fewest units
    others = [each for each in histograms if each != without]
    neighbours = [(without, each) for each in others]
    neighbours += itertools.combinations(others, 2) if relation is REPLACE_ONE else []
    changes = [sum((x - y) ** 2 for x, y in zip(*each, strict=True)) for each in neighbours]
    return worst, max(changes) / (2 * histograms[without]) / spend


@pytest.mark.slow
@pytest.mark.parametrize(("name", "relation"), [*zip(CHOICES, itertools.cycle(RELATIONS), strict=False)])
def test_a_norm_that_is_chosen_for_periods_costs_at_most_rho(
    name: str, relation: Any, histograms: dict[tuple[int, ...], Fraction]
) -> None:
    parts, choice = worst_of_choices(name, relation, histograms)
    assert max(parts.values()) <= 1
    assert 0 < choice <= 1
    assert parts["sketch"] > Fraction(1, 5)


@pytest.mark.slow
def test_a_norm_for_each_window_of_a_period_would_be_found(
    histograms: dict[tuple[int, ...], Fraction], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if each window were bounded alone, under the statement of the period."""
    name = "keys in periods"
    monkeypatch.setattr(bounding_over_windows, "_group_by_period", _by_window)
    parts, choice = worst_of_choices(name, ADD_OR_REMOVE_ONE, histograms)
    assert max(*parts.values(), choice) > 1


def _by_window(elements: beam.PCollection, shard: Any, _: Any) -> beam.PCollection:
    return exact_group_by_period(elements, shard, FIXED)
