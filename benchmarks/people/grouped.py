"""Grouped counts of people: items that votes or counts bring in, over those of counts alone with all that is spent."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import NamedTuple
from unittest import mock

import numpy as np
import pyarrow as pa

from beam_dpsketch import (
    AutoNorm,
    IntegerDomain,
    NormBound,
    PrivacyId,
    PrivacySpec,
    ReleaseSpec,
    ThresholdedCounts,
    release_frame,
)
from beam_dpsketch.privacy.thresholded_counts import ThresholdRule
from benchmarks.people.bounded import DELTA, EPSILON
from benchmarks.people.data import People
from benchmarks.table import Bar, Table

TOP = 100
QUANTILES = (0.5, 0.75, 0.9, 0.97, 0.995, 0.999)
"""Of people's lengths: the norms."""
LEAST_MEAN, LEAST, LARGEST_MEAN, LARGEST = 2.0, 1.0, 0.9, 1.15
"""Of the ratios of items and of errors: their geometric mean, and each."""


class Found(NamedTuple):
    """What releases found.

    Attributes:
      error: the mean absolute error of the 100 most frequent items, in parts of their mean count; of an item that was
        not released, all of its count.
      items: how many items were released, in the mean.
    """

    error: float
    items: float


def _found(people: People, bounds: NormBound | AutoNorm, releases: int, *, votes: bool) -> Found:
    truth = np.bincount(people.items)
    top = np.argsort(-truth, kind="stable")[:TOP]
    table = pa.table({"person": people.units, "item": people.items})
    count, privacy_unit, errors, items = (
        ThresholdedCounts(IntegerDomain(0, len(truth) - 1), 1),
        PrivacyId("person", bounds),
        [],
        [],
    )
    with mock.patch.object(ThresholdRule, "votes", ThresholdRule.votes if votes else lambda *_: None):
        for _ in range(releases):
            privacy = PrivacySpec(epsilon=EPSILON, delta=DELTA)
            released = release_frame(table, ReleaseSpec(count, privacy, privacy_unit, item="item"))
            estimates = np.nan_to_num(np.asarray(released.estimate(top.tolist())))
            errors.append(np.abs(estimates - truth[top]).mean() / truth[top].mean())
            items.append(len(released))
    return Found(statistics.fmean(errors), statistics.fmean(items))


def _norms(people: People) -> list[int]:
    """Return six quantiles of people's lengths, fewer where they are equal."""
    pairs, counts = np.unique(people.units * (people.items.max() + 1) + people.items, return_counts=True)
    lengths = np.sqrt(np.bincount(pairs // (people.items.max() + 1), counts.astype(float) ** 2))
    return sorted({int(np.ceil(each)) for each in np.quantile(lengths[lengths > 0], QUANTILES)})


def measure(data: Sequence[People], releases: int) -> None:
    """Print a line for each data set at the best norm of each rule, and at `AutoNorm`; then the means of both."""
    for name in ("the best norm of six for each rule", "AutoNorm"):
        words = f"Grouped counts at {name}, {releases} releases: counts alone with all of rho, votes or counts, ratios."
        heads = ("", "items", "error of top 100", "items", "error")
        table = Table(words, heads, (52, 20, 20, 8, 8), bar=20)
        ratios = []
        for people in data:
            before, after = (_best(people, releases, votes=votes, chosen=name == "AutoNorm") for votes in (False, True))
            ratios.append((max(after.items, 1) / max(before.items, 1), after.error / before.error))
            shown = f"{before.items:,.1f}, {after.items:,.1f}", f"{before.error:.4f}, {after.error:.4f}"
            bars = [Bar(ratios[-1][0], ">=", LEAST), Bar(ratios[-1][1], "<=", LARGEST)]
            table.row(people.title, *shown, *(f"{ratio:.2f}" for ratio in ratios[-1]), bars=bars)
        means = [statistics.geometric_mean(each) for each in zip(*ratios, strict=True)]
        bars = [Bar(means[0], ">=", LEAST_MEAN), Bar(means[1], "<=", LARGEST_MEAN)]
        table.row(f"geometric mean at {name}", "", "", *(f"{each:.2f}" for each in means), bars=bars)


def _best(people: People, releases: int, *, votes: bool, chosen: bool) -> Found:
    tried = [AutoNorm()] if chosen else [*map(NormBound, _norms(people))]
    return min(_found(people, bounds, releases, votes=votes) for bounds in tried)
