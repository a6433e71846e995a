"""Sums of heavy-tailed weights: the error of noise and of clipping, at the bound that suits each library best."""

from __future__ import annotations

import functools
import statistics
from collections.abc import Callable

import numpy as np

from benchmarks.accuracy.noise_peers import ours, peers
from benchmarks.accuracy.noise_peers.counts import promised, words
from benchmarks.accuracy.noise_peers.judging import UNKNOWN, Judge, at_most, number
from benchmarks.accuracy.noise_peers.promises import DELTA, Person, Promise

UNITS, KEYS, TAIL, LEAST, SEEDS = 20_000, ours.WEIGHED, 1.3, 10, 20
BOUNDS = [round(LEAST * 2 ** (step / 4)) for step in range(4, 60)]


@functools.cache
def lost() -> np.ndarray:
    """The mean square over keys of what is clipped from a sum, by data set and bound."""
    squares = np.zeros((SEEDS, len(BOUNDS)))
    for seed in range(SEEDS):
        drawn = np.random.default_rng(seed).random((KEYS, UNITS // KEYS))
        weights = np.floor(LEAST * (1 - drawn) ** (-1 / TAIL))
        for place, bound in enumerate(BOUNDS):
            squares[seed, place] = np.mean(np.maximum(weights - bound, 0).sum(axis=1) ** 2)
    return squares


def at_best(deviation: Callable[[int], float]) -> tuple[float, float]:
    """The error and the bound, each at the best bound of a data set, median over data sets."""
    errors = np.sqrt(lost() + np.array([deviation(bound) for bound in BOUNDS]) ** 2)
    bounds = [BOUNDS[place] for place in errors.argmin(axis=1)]
    return float(np.median(errors.min(axis=1))), statistics.median(bounds)


def measure() -> None:
    """Print both tables."""
    for delta in (0.0, DELTA):
        promises = promised(delta)
        names = peers.of(promises[0])
        title = f"Sums of the weights of {KEYS} keys, {words(delta)}: error at the best bound; that bound, of ours"
        judge = Judge(title, ("", "ours", "bound", "by", *names, "ratio"), (44, -9, -9, -10, *[-11] * len(names), -7))
        for promise in promises:
            _print_line(judge, promise, names)
        judge.close()


def _print_line(judge: Judge, promise: Promise, names: dict[str, peers.Deviation]) -> None:
    error, bound = at_best(lambda bound: ours.weighed(promise, bound).deviation)
    theirs = {name: at_best(functools.partial(_of, each, promise))[0] for name, each in names.items()}
    ratio = error / min(theirs.values())
    judge.line(
        f"weights, {'delta' if promise.delta else 'pure'}, {promise}",
        number(error, 0),
        f"{bound:,.0f}",
        ours.weighed(promise, 1).law,
        *(number(each, 0) for each in theirs.values()),
        number(ratio, 3),
        bars=[at_most(ratio)],
        why=UNKNOWN,
    )


def _of(deviation: peers.Deviation, promise: Promise, bound: int) -> float:
    return deviation(promise, Person(1, bound))
