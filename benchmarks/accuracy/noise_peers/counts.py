"""Counts of listed items, or of public keys: the root mean square error that noise alone makes."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from beam_dpsketch import SummaryCounts
from benchmarks.accuracy.noise_peers import ours, peers
from benchmarks.accuracy.noise_peers.judging import UNKNOWN, Judge, at_most, number
from benchmarks.accuracy.noise_peers.promises import DELTA, EPSILONS, PEOPLE, RELEASES, Person, Promise

Own = Callable[[Promise, Person, SummaryCounts | None], ours.Noise]
COUNTERS = (
    "The default summary counts tell how many people, records and weight there are, and what bounds took. "
    "summary_counts=None leaves them out."
)


def compare(title: str, name: str, own: Own, promises: Iterable[Promise]) -> None:
    """A line for each person and promise, then one for the summary counts, where they lose most."""
    promises, cost, worst = list(promises), 0.0, 0.0
    names = peers.of(promises[0])
    judge = Judge(title, ("", "ours", "by", "counted", *names, "ratio"), (58, -10, -18, -10, *[-11] * len(names), -7))
    for person in PEOPLE:
        for promise in promises:
            alone, counted = own(promise, person, None), own(promise, person, SummaryCounts())
            theirs = {name: deviation(promise, person) for name, deviation in names.items()}
            least, noise = min(theirs.values()), f"{alone.law}, {alone.bound}"
            ratio = alone.deviation / least
            errors = (number(counted.deviation), *map(number, theirs.values()), number(ratio, 3))
            line = f"{name}, {person}, {promise}"
            judge.line(line, number(alone.deviation), noise, *errors, bars=[at_most(ratio)], why=UNKNOWN)
            worst, cost = max(worst, counted.deviation / least), max(cost, counted.deviation / alone.deviation)
    shown = (f"{name}, with summary counts, at worst", "", "over ours alone:", number(cost, 3))
    judge.line(*shown, *[""] * len(names), number(worst, 3), bars=[at_most(worst)], why=COUNTERS)
    judge.close()


def promised(delta: float, releases: Iterable[int] = RELEASES) -> list[Promise]:
    """All promises with this delta."""
    return [Promise(epsilon, delta, number) for number in releases for epsilon in EPSILONS]


def measure() -> None:
    """Print the four tables."""
    kinds = (("pure", 0.0), ("delta", DELTA))
    for kind, delta in kinds:
        title = f"Counts of {ours.LISTED} listed items, {words(delta)}"
        compare(title, f"listed, {kind}", ours.listed, promised(delta))
    for kind, delta in kinds:
        title = f"Counts of records of {ours.LISTED} public keys, {words(delta)}"
        compare(title, f"keys, {kind}", ours.by_key, promised(delta, (1,)))


def words(delta: float) -> str:
    """What is promised."""
    return f"epsilon at delta {delta:g}" if delta else "epsilon alone"
