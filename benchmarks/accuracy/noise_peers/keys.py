"""Keys that the data choose: how many are expected to be released, alone and with their counts."""

from __future__ import annotations

import functools
import math
from collections import Counter

import numpy as np

from beam_dpsketch.exact.bounding.bounded import Bounded
from beam_dpsketch.noise.keys import KeyChoice
from benchmarks.accuracy import key_selection
from benchmarks.accuracy.noise_peers import key_peers, ours
from benchmarks.accuracy.noise_peers.counts import promised
from benchmarks.accuracy.noise_peers.judging import UNKNOWN, Judge, at_least, at_most, number
from benchmarks.accuracy.noise_peers.promises import DELTA, GAUSSIAN, PEOPLE, TOLERANCE, Named, Promise

UNITS, ITEMS, EXPONENT = 10_000, 20_000, 1.05
WHOLE = (
    "Laplace noise of ours is on whole records, and so is its threshold: counts are closer, but fewer of them come out."
)


@functools.cache
def edges(items: int) -> key_selection.Edges:
    """People with this many different items each, drawn by 1 / rank^1.05."""
    generator = np.random.default_rng(items)
    masses = np.cumsum(1 / np.arange(1, ITEMS + 1) ** EXPONENT)
    units, drawn = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    waiting = np.repeat(np.arange(UNITS), items)
    while len(waiting):
        more = np.searchsorted(masses / masses[-1], generator.random(len(waiting)))
        pairs = np.unique(np.append(units, waiting) * ITEMS + np.append(drawn, more))
        units, drawn = np.divmod(pairs, ITEMS)
        waiting = np.repeat(np.arange(UNITS), items - np.bincount(units, minlength=UNITS))
    return key_selection.Edges.of(units, drawn)


@functools.cache
def counts(items: int) -> dict[int, int]:
    """How many items are held by each number of people."""
    return dict(Counter(edges(items).records.tolist()))


def selected(promise: Promise, items: int) -> tuple[float, KeyChoice]:
    """The most keys that `SelectKeys` is expected to release, and how it chooses them."""
    found = [
        (key_selection.expected_keys(choice, votes(items, choice.rule.has_two_rounds)), choice)
        for choice in ours.choices(promise, items)
    ]
    return max(found, key=lambda each: each[0])


@functools.cache
def votes(items: int, has_two_rounds: bool) -> Bounded:
    """The votes of each key, which depend on nothing else of a choice."""
    choices = ours.choices(Promise(1.0, DELTA), items)
    choice = next(each for each in choices if each.rule.has_two_rounds == has_two_rounds)
    return key_selection.bounded(edges(items), choice, seed=0)


def alone() -> None:
    """Print how many keys are chosen where nothing else is released."""
    heads = ("", "ours", "by", *key_peers.STRATEGIES, "ratio")
    judge = Judge(f"Keys alone, delta {DELTA:g}: expected number of keys", heads, (48, -9, -10, -11))
    for person in PEOPLE:
        if person.each > 1:
            continue
        held = counts(person.items)
        for promise in promised(DELTA):
            most, choice = selected(promise, person.items)
            theirs = [key_peers.pdp_alone(each, promise, person, held) for each in key_peers.STRATEGIES.values()]
            ratio = most / max(theirs)
            judge.line(
                f"alone, {person}, {promise}",
                number(most, 1),
                str(choice.rule.method),
                *(number(each, 1) for each in theirs),
                number(ratio, 3),
                bars=[at_least(ratio)],
                why=UNKNOWN,
            )
    judge.close()


def with_counts() -> None:
    """Print how many items are released with their counts, and the noise of a count."""
    heads = ("", "ours", "by", *key_peers.WITH_COUNTS, "keys", "noise")
    title = f"Items that the data choose, with counts, delta {DELTA:g}: expected number; noise of a count"
    widths = (52, -18, -10, *[-19] * len(key_peers.WITH_COUNTS), -7)
    judge = Judge(title, heads, widths, bar=17)
    for person in PEOPLE:
        held = counts(person.items)
        for promise in promised(DELTA):
            own, _ = ours.grouped(promise, person, {person.each * people: items for people, items in held.items()})
            theirs = [way(promise, person, held) for way in key_peers.WITH_COUNTS.values()]
            best = max(theirs, key=lambda each: each.keys)
            keys, rivals = own.keys / best.keys, [each for each in theirs if each.keys >= (1 - TOLERANCE) * own.keys]
            noise = own.deviation / min((each.deviation for each in rivals), default=math.inf)
            judge.line(
                f"chosen, {person}, {promise}",
                *map(str, (own, own.law, *theirs)),
                number(keys, 3),
                number(noise, 3) if rivals else "-",
                bars=[at_least(keys), at_most(noise)],
                why=_why([best, *rivals]),
            )
    judge.close()


def _why(rivals: list[Named]) -> str:
    """Why others release more keys, or closer counts of them."""
    return UNKNOWN if all(each.law == GAUSSIAN for each in rivals) else WHOLE
