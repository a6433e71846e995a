"""L1 norm and 2 over a list of items: the best of each, and the one that the data choose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from beam_dpsketch import (
    ADD_OR_REMOVE_ONE,
    REPLACE_ONE,
    AutoNorm,
    ItemFrequencies,
    ListedItems,
    NormBound,
    PrivacyId,
    PrivacySpec,
    ReleaseSpec,
    SummaryCounts,
    release_frame,
)
from beam_dpsketch.privacy.contributions import NeighboringRelation
from benchmarks.people.bounded import DELTA, EPSILON
from benchmarks.people.data import People
from benchmarks.table import Bar, Table, mean

TOPS = (10, 100)
BARS = {(ADD_OR_REMOVE_ONE, "l1"): (205, 190)}
"""The largest errors, by relation and order, of the best norm without summary counts."""
LARGEST_RATIO = 1.15
"""Of a chosen norm over these bars."""


class Orders:
    """Errors of releases of a list of all items.

    Args:
      people: whose records.
    """

    def __init__(self, people: People) -> None:
        self._table = pa.table({"person": people.units, "item": people.items})
        self._truth = np.bincount(people.items)
        self._count = ItemFrequencies(ListedItems(range(len(self._truth))))
        self._ordered = np.argsort(-self._truth, kind="stable")

    def errors(
        self, bounds: NormBound | AutoNorm, relation: NeighboringRelation, side: SummaryCounts | None, releases: int
    ) -> np.ndarray:
        """Return the mean absolute errors of the most frequent items, of shape (releases, tops)."""
        privacy = PrivacySpec(epsilon=EPSILON, delta=DELTA, relation=relation, summary_counts=side)
        declared = ReleaseSpec(self._count, privacy, PrivacyId("person", bounds), item="item")
        found = []
        for _ in range(releases):
            off = np.abs(
                np.asarray(release_frame(self._table, declared).estimate(range(len(self._truth)))) - self._truth
            )
            found.append([off[self._ordered[:top]].mean() for top in TOPS])
        return np.array(found)


def measure(people: People, norms: Mapping[str, Sequence[int]], releases: int = 8) -> None:
    """Print, for each relation and order, the best norm for each column, and what the data choose.

    Args:
      people: whose records.
      norms: where the best norm of each order is looked for.
      releases: of each norm; the best is found and judged by the same ones.
    """
    orders = Orders(people)
    words = f"A list of all items, {releases} releases of each norm. Mean absolute error of the largest 10 and 100."
    table = Table(f"{people}\n{words}", ("", "top 10", "top 100"), (64, 28, 28), bar=20)
    for relation in (ADD_OR_REMOVE_ONE, REPLACE_ONE):
        for order, candidates in norms.items():
            bars = BARS.get((relation, order), ())
            by_norm = [orders.errors(NormBound(norm, norm=order), relation, None, releases) for norm in candidates]
            best = [min(range(len(candidates)), key=lambda each: by_norm[each][:, top].mean()) for top in (0, 1)]
            cells = [f"{by_norm[at][:, top].mean():.0f} at {candidates[at]}" for top, at in enumerate(best)]
            values = [by_norm[at][:, top].mean() for top, at in enumerate(best)]
            name = f"{relation.name}, {order.upper()}, best norm, no summary counts"
            table.row(name, *cells, bars=_bars(values, bars))
            for side, words in ((None, "no summary counts"), (SummaryCounts(), "summary counts")):
                chosen = orders.errors(AutoNorm(norm=order), relation, side, releases)
                cells = [mean(chosen[:, top].tolist()) for top in (0, 1)]
                limits = [LARGEST_RATIO * bar for bar in bars]
                name = f"{relation.name}, {order.upper()}, chosen norm, {words}"
                table.row(name, *cells, bars=_bars(chosen.mean(axis=0).tolist(), limits))


def _bars(values: Sequence[float], limits: Sequence[float]) -> list[Bar]:
    return [Bar(value, "<=", limit) for value, limit in zip(values, limits, strict=False)]
