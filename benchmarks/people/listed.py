"""People per page: a list of pages counted exactly, a sketch, and a plain Gaussian histogram of the same list."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import pyarrow as pa

from beam_dpsketch import ADD_OR_REMOVE_ONE, REPLACE_ONE, ListedItems, NormBound, RecordBounds, SketchSpec
from beam_dpsketch.exact.bounding.record_rule import RandomPriorities, RecordRule
from beam_dpsketch.privacy.contributions import NeighboringRelation
from beam_dpsketch.privacy.mechanism import sigma_squared
from benchmarks.people.bounded import Counted, privacy, released
from benchmarks.people.data import People
from benchmarks.readings import with_noise
from benchmarks.table import Bar, Table, mean

LISTED = 5_000
PAGES_A_PERSON = 100
BOUND = NormBound(10, max_per_item=1)  # as long as 100 different pages
LARGEST_RATIOS = {"ListedItems": 1.0, "CountSketch": 1.7, "Count-Min": 1.7}
_PLAIN = "plain Gaussian histogram"

Estimates = Callable[[int, NeighboringRelation], np.ndarray]
"""The estimates of all listed pages, from a seed and a relation."""


def _of_listed(people: People) -> Estimates:
    counted, pages = Counted(people, ListedItems(range(LISTED))), np.arange(LISTED)

    def estimates(seed: int, relation: NeighboringRelation) -> np.ndarray:
        (found,) = released(counted.raw(ListedItems(range(LISTED)), BOUND), BOUND, relation)
        return np.asarray(found.estimate(pages))

    return estimates


def _of_sketch(people: People, spec: SketchSpec) -> Estimates:
    counted, pages = Counted(people, spec), np.arange(LISTED)

    def estimates(seed: int, relation: NeighboringRelation) -> np.ndarray:
        (found,) = released(counted.raw(dataclasses.replace(spec, seed=seed), BOUND), BOUND, relation)
        return np.asarray(found.estimate(pages))

    return estimates


def _of_plain(people: People) -> Estimates:
    """Count each person once on each page, on a random choice of their pages if they have more than the limit."""
    users, pages = np.divmod(np.unique(people.units * LISTED + people.items), LISTED)
    visits = pa.table({"unit": users, "item": pages, "weight": np.ones(len(users), dtype=np.int64)})

    def estimates(seed: int, relation: NeighboringRelation) -> np.ndarray:
        kept = RecordRule(RecordBounds(PAGES_A_PERSON), RandomPriorities()).select(visits)
        counts = np.bincount(kept["item"].to_numpy(), minlength=LISTED)
        changed = PAGES_A_PERSON * (2 if relation is REPLACE_ONE else 1)
        noise = sigma_squared(squared_sensitivity=changed, rho=privacy(relation).paying_for(estimates).rho)
        return with_noise(counts, noise)

    return estimates


def measure(people: People, releases: int) -> None:
    """Print one line for each way to count and relation."""
    known = people.items < LISTED
    people = People(people.title, people.units[known], people.items[known])
    truth = np.bincount(np.unique(people.units * LISTED + people.items) % LISTED, minlength=LISTED)
    ways = {
        _PLAIN: _of_plain(people),
        "ListedItems": _of_listed(people),
        "CountSketch 5 x 4096": _of_sketch(people, SketchSpec(width=1 << 12)),
        "CountSketch 5 x 16384": _of_sketch(people, SketchSpec(width=1 << 14)),
        "Count-Min 5 x 4096": _of_sketch(people, SketchSpec(kind="count_min", width=1 << 12)),
    }
    title = (
        f"{people.title}: people for each of the {LISTED:,} most popular pages, the only ones that are counted\n"
        f"Plain: {PAGES_A_PERSON} pages of each person, at random; the others: NormBound(10, max_per_item=1).\n"
        f"{releases} releases, hash seeds 0 to {releases - 1}. Root of the mean squared error: mean (range)."
    )
    table = Table(title, ("", "error", "of plain"), (50, 24, 10))
    for relation in (REPLACE_ONE, ADD_OR_REMOVE_ONE):
        plain = 0.0
        for name, estimates in ways.items():
            runs = [float(np.sqrt(np.mean((estimates(seed, relation) - truth) ** 2))) for seed in range(releases)]
            plain = plain or float(np.mean(runs))
            ratio, limit = float(np.mean(runs)) / plain, LARGEST_RATIOS.get(name.split(" ")[0])
            bars = [] if limit is None else [Bar(ratio, "<=", limit)]
            table.row(f"{relation.name}, {name}", mean(runs, 1), f"{ratio:.3f}", bars=bars)
