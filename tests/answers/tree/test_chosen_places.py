"""Intervals of single values and short ranges contain the truth where it is below the detection limit, too.

Whoever asks about a place may know that something is there. So the margin of an item may not average over where in a
node its weight may be. Tests have many values of one weight, far apart: only collisions make their noise dependent.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy import stats

from beam_dpsketch import (
    IntegerDomain,
    IPv4Domain,
    PrivacySpec,
    Quantiles,
    ReleaseTerms,
    SketchTimeline,
    TopKSearch,
    TreeSpec,
)
from beam_dpsketch.answers.estimators.presence import deviations_for
from beam_dpsketch.by_hand import release
from beam_dpsketch.exact.sketches import raw_type
from tests.helpers.explored import HORIZON
from tests.helpers.timeline_rows import released_rows

WEIGHTS = (1, 5, 20, 40)
FALSE_ALARM = 1e-9
_MANY, _SHORT = IntegerDomain(0, (1 << 20) - 1), 7
LAYOUTS: dict[str, Callable[[], Any]] = {
    "addresses": lambda: Quantiles(IPv4Domain()).spec,
    "2^20 values": lambda: Quantiles(_MANY).spec,
    "addresses, plain tree": lambda: TreeSpec.for_memory(IPv4Domain()),
    "2^20 values, plain tree": lambda: TreeSpec.for_memory(_MANY, arity=2),
    "little memory": lambda: TreeSpec.for_memory(IPv4Domain(), 30_000),
    "Count-Min levels": lambda: TreeSpec.for_memory(_MANY, 100_000, sketch="count_min"),
    "addresses, to search": lambda: TopKSearch(IPv4Domain(), 10).spec,
    "300,000 values, to search": lambda: TopKSearch(IntegerDomain(0, 299_999), 10).spec,
}


class Case(NamedTuple):
    """Light items over heavy ones and many of a single record, and how often they weigh what."""

    layout: Any
    raw: Any
    light: dict[int, Any]
    exact: dict[int, Any]
    ranges: tuple[Any, Any, Any]

    @classmethod
    def of(cls, layout: Any, count: int) -> Case:
        raw, random = raw_type(layout)(layout), np.random.default_rng(1)
        size = layout.domain.size
        places = np.sort(random.permutation(np.arange(1, 8 * count - 1))[: 4 * count]).astype(np.uint64)
        places = places * np.uint64(size // (8 * count)) + np.uint64(11)
        by_weight = dict(zip(WEIGHTS, random.permutation(places).reshape(4, -1), strict=True))
        heavy, ones = random.integers(0, size, 20), random.integers(0, size, 20_000)
        records = [np.repeat(heavy, 2000), ones, *(np.repeat(each, weight) for weight, each in by_weight.items())]
        counted = np.sort(np.concatenate(records).astype(np.uint64))
        raw = raw.accumulate_keys(counted, None)
        lows = np.concatenate([*by_weight.values()]) - np.uint64(_SHORT // 2)

        def weights(low: np.ndarray, high: np.ndarray) -> np.ndarray:
            return np.searchsorted(counted, high, side="right") - np.searchsorted(counted, low, side="left")

        light = {weight: layout.domain.values(each) for weight, each in by_weight.items()}
        exact = {weight: weights(each, each) for weight, each in by_weight.items()}
        ranges = *map(layout.domain.values, (lows, lows + np.uint64(_SHORT))), weights(lows, lows + np.uint64(_SHORT))
        return cls(layout, raw, light, exact, ranges)

    def released(self, rho: float) -> Any:
        return release(self.raw, ReleaseTerms(PrivacySpec(rho=rho, summary_counts=None)))


class Misses(NamedTuple):
    """How many of all intervals missed the truth."""

    missed: int
    asked: int

    def with_bounds(self, lower: Any, upper: Any, exact: Any) -> Misses:
        missed = (np.asarray(lower) > exact + 1e-6) | (np.asarray(upper) < exact - 1e-6)
        return Misses(self.missed + int(missed.sum()), self.asked + len(missed))

    def is_possible(self, cases: int) -> bool:
        """Whether so many intervals of 95 % may miss; an exact binomial test."""
        found = stats.binomtest(self.missed, self.asked, 0.05, "greater").pvalue
        return bool(found >= FALSE_ALARM / cases)


@functools.lru_cache(maxsize=1)
def case(name: str, count: int) -> Case:
    return Case.of(LAYOUTS[name](), count)


def misses(name: str, releases: int, count: int) -> dict[str, Misses]:
    """The misses of each way to ask."""
    asked, found = case(name, count), {}

    def add(kind: str, answer: Any, exact: Any) -> None:
        found[kind] = found.get(kind, Misses(0, 0)).with_bounds(answer.lower, answer.upper, exact)

    domain, exact = asked.layout.domain, np.concatenate([*asked.exact.values()])
    items = [item for of_weight in asked.light.values() for item in of_weight]
    true = dict(zip(items, exact, strict=True))
    for number in range(releases):
        released = asked.released((0.1, 0.5)[number % 2])
        for weight, of_weight in asked.light.items():
            add(f"items of {weight}", released.interval(of_weight), asked.exact[weight])
        listed = released.top_k(len(items), items)
        add("a list of candidates", listed, np.array([true[item] for item in listed.item]))
        some = slice(None, None, 4)
        add("ranges of one value", released.range_interval(items[some], items[some]), exact[some])
        add("short ranges", released.range_interval(*(each[some] for each in asked.ranges[:2])), asked.ranges[2][some])
        places = np.sort(domain.index(items[some])[0])
        bins = released.histogram(domain.values(np.stack([places, places + np.uint64(1)], axis=1).ravel()))
        in_order = np.array([true[item] for item in domain.values(places)])
        found["bins of one value"] = found.get("bins of one value", Misses(0, 0)).with_bounds(
            bins.lower[:-1:2], bins.upper[:-1:2], in_order[:-1]
        )
    return found


def margins_of_a_place_drawn_at_random(released: Any, items: Any) -> tuple[np.ndarray, np.ndarray]:
    """The planted fault: p (1 - p) w^2 is the variance of a part p of a node, where its place is drawn at random."""
    ranks, (positions, _) = released._ranks, released.spec.domain.index(items)
    piece = ranks.piece(positions)
    part, weight = 1 / ranks._lengths[piece], np.maximum(ranks._weights[piece], 0.0)
    margin = deviations_for(0.95) * np.sqrt(part * (1 - part) * weight**2 + part**2 * ranks._node_variances[piece])
    return np.maximum(part * weight - margin, 0.0), part * weight + margin


@pytest.mark.parametrize("name", LAYOUTS)
def test_intervals_of_what_was_chosen_hold(name: str) -> None:
    found = misses(name, releases=2, count=60)
    wrong = {kind: each for kind, each in found.items() if not each.is_possible(len(LAYOUTS) * len(found))}
    assert not wrong


@pytest.mark.slow
@pytest.mark.parametrize("name", LAYOUTS)
def test_intervals_of_what_was_chosen_hold_in_many_releases(name: str) -> None:
    found = misses(name, releases=12, count=150)
    wrong = {kind: each for kind, each in found.items() if not each.is_possible(len(LAYOUTS) * len(found))}
    assert not wrong


@pytest.mark.parametrize("name", ["addresses", "2^20 values", "addresses, plain tree", "300,000 values, to search"])
def test_margins_of_a_place_drawn_at_random_are_found_to_be_wrong(name: str) -> None:
    asked, found = case(name, 60), dict.fromkeys((1, 5), Misses(0, 0))
    for _ in range(2):
        released = asked.released(0.1)
        for weight in found:
            lower, upper = margins_of_a_place_drawn_at_random(released, asked.light[weight])
            found[weight] = found[weight].with_bounds(lower, upper, asked.exact[weight])
    assert not any(each.is_possible(len(LAYOUTS) * 10) for each in found.values())


def test_items_of_a_timeline_below_the_detection_limit_hold() -> None:
    """100 values of 8 in each of 4 windows, whose leaves have a deviation of more than 30."""
    layout = TreeSpec.for_memory(IntegerDomain(0, (1 << 16) - 1), 1 << 20, arity=4)
    items = [*range(7, 1 << 16, 1 << 9)][:100]
    windows = [raw_type(layout)(layout).accumulate(items * 8) for _ in range(4)]
    timeline = SketchTimeline(released_rows(windows, HORIZON, rho=0.01), HORIZON)
    found = timeline.between(0, 3).interval(items)
    assert found.upper.min() < found.upper.max()
    assert Misses(0, 0).with_bounds(found.lower, found.upper, np.full(100, 32)).is_possible(1)


@pytest.mark.parametrize("name", ["addresses", "2^20 values", "2^20 values, plain tree"])
def test_changes_of_light_items_hold(name: str) -> None:
    """Between a release of a case and one of twice its records, every item gains what it weighs."""
    asked = case(name, 60)
    twice = asked._replace(raw=type(asked.raw).from_vector(asked.layout, 2 * asked.raw.to_vector()))
    changes = twice.released(0.5).minus(asked.released(0.5))
    for weight in WEIGHTS:
        found = changes.interval(asked.light[weight])
        missed = Misses(0, 0).with_bounds(found.lower, found.upper, asked.exact[weight])
        assert missed.is_possible(4 * len(WEIGHTS))
