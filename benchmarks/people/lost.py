"""What bounds take of people's records, and what `clipping()` and `records()` of releases say of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from beam_dpsketch import (
    ADD_OR_REMOVE_ONE,
    NormBound,
    PrivacySpec,
    RecordBounds,
    ReleaseTerms,
    SketchSpec,
    SummaryCounts,
)
from beam_dpsketch.answers.privacy_statement import read_lost
from beam_dpsketch.by_hand import release_part
from beam_dpsketch.exact.bounding.record_rule import RandomPriorities
from beam_dpsketch.exact.bounding.rules import rule_of
from beam_dpsketch.exact.reading.items import SketchInput
from beam_dpsketch.privacy.contributions import Bounds, PrivacyUnit
from beam_dpsketch.privacy.summary_counts import USUAL_SHARE
from benchmarks.people.bounded import DELTA, EPSILON, SKETCH, Counted
from benchmarks.people.data import People
from benchmarks.table import Bar, Table

RELEASES = 100
_CONFIDENCE = 0.9875  # as in `clipping()`
_SMALL = SketchSpec(depth=1, width=2)  # its counters are not asked
_HEADS = (
    "bound",
    "lost",
    "over",
    "told",
    "estimate",
    "of truth",
    "error",
    "at least",
    "holds",
    "at most",
    "holds",
    "records",
)


class Told(NamedTuple):
    """What releases of one bound say.

    Attributes:
      lost: the share that was lost.
      over: how many units lost a quarter of a record, or more.
      shares: what each release says: estimate, lower and upper end, of shape (releases, 3).
      records: in which part of the releases the interval of `records()` holds all records.
    """

    lost: float
    over: int
    shares: np.ndarray
    records: float

    @property
    def bars(self) -> list[Bar]:
        """What is demanded, where enough units lost anything."""
        at_least = self.shares[:, 1]
        told = self.shares[~np.isnan(self.shares[:, 0])]
        found = [Bar(float(np.mean(at_least <= self.lost)), ">=", 0.95, " (at least)"), Bar(self.records, ">=", 0.93)]
        if self.over >= 500 and len(told):
            wrong = abs(float(np.median(told[:, 0])) / self.lost - 1)
            found.append(Bar(wrong, "<=", 0.2 if self.over >= 1000 else 0.3, " (median)"))
            found.append(Bar(float(np.mean(told[:, 2] >= self.lost)), ">=", 0.8, " (at most)"))
        return found


def tell(people: People, counted: Counted, bounds: Bounds, lost: Fraction = USUAL_SHARE) -> Told:
    """Release the summary counts of people under these bounds, again and again."""
    sides = SummaryCounts(records=USUAL_SHARE, clipping=lost)
    privacy = PrivacySpec(epsilon=EPSILON, delta=DELTA, relation=ADD_OR_REMOVE_ONE, summary_counts=sides)
    terms = ReleaseTerms(privacy, bounds, privacy_unit=PrivacyUnit.PRIVACY_ID)
    sketch_input = SketchInput(SKETCH, bounds, terms.counters, lost=terms.lost)
    found = rule_of(sketch_input, RandomPriorities()).bound(counted.records)
    side, total = found.to_items(sketch_input).side, len(people.units)
    assert side is not None
    kept = found.kept["weight"].to_numpy().sum() / (1 << terms.scale_bits)
    shares, records = [], 0
    for _ in range(RELEASES):
        released = release_part(SketchInput(_SMALL, bounds).raw_sketch(), side, terms)
        told, interval, model = released.clipping(), released.records(), _estimate(released)
        shares.append((model, told.at_least, 1.0 if math.isnan(told.upper_estimate) else told.upper_estimate))
        records += interval.lower <= total <= interval.upper
    assert found.lost is not None
    return Told(1 - kept / total, int(found.lost.sum()), np.array(shares), records / RELEASES)


def _estimate(released: Any) -> float:
    """Estimate the share by the model, also where `clipping()` reports only a range."""
    removed = read_lost(released.privacy.lost, _CONFIDENCE).estimate
    return removed / (removed + released.total_weight().estimate)


def measure(people: People, norms: Sequence[int], most: Sequence[int]) -> None:
    """Print one line for each norm, and for each number of records."""
    counted = Counted(people, SKETCH)
    title = (
        f"{people}\nLost: the part of all records that the bound took (n: norm, r: records). Over: units that lost.\n"
        f"Told: in how many of {RELEASES} releases `clipping()` has an estimate, else a lower bound.\n"
        "Estimate, at least, at most: medians, and the largest error of an estimate. Holds: in how many releases the\n"
        "truth is on the right side. Records: in how many `records()` holds."
    )
    table = Table(title, _HEADS, (-7, -8, -8, -6, -10, -10, -8, -10, -7, -9, -7, -9), bar=70)
    for bounds in (*map(NormBound, norms), *map(RecordBounds, most)):
        told = tell(people, counted, bounds)
        estimates = told.shares[~np.isnan(told.shares[:, 0])]
        name = f"{'n' if bounds.has_norm else 'r'} {bounds.size}"
        middle = np.median(estimates, axis=0) if len(estimates) else np.full(3, math.nan)
        low = told.shares[:, 1]
        cells = (
            name,
            f"{told.lost:.1%}",
            f"{told.over:,}",
            f"{len(estimates)}",
            f"{middle[0]:.1%}" if len(estimates) else "",
            f"{middle[0] / told.lost:.2f}" if len(estimates) else "",
            f"{np.abs(estimates[:, 0] - told.lost).max():.1%}" if len(estimates) else "",
            f"{np.median(low):.1%}",
            f"{np.mean(low <= told.lost):.0%}",
            f"{middle[2]:.1%}" if len(estimates) else "",
            f"{np.mean(estimates[:, 2] >= told.lost):.0%}" if len(estimates) else "",
            f"{told.records:.0%}",
        )
        table.row(*cells, bars=told.bars)


def measure_few(kinds: Sequence[People], heavy: Sequence[People], over: Sequence[int] = (200, 125)) -> None:
    """Print lines of norms that few people exceed, with a fiftieth of rho for the histogram, and with twice that.

    Of heavy tails the upper end is not judged: no number that hides one person can say how much one person lost.
    """
    title = (
        f"Norms that few people exceed. Told: in which part of {RELEASES} releases `clipping()` has an estimate.\n"
        "Estimate, at least, at most: medians over the truth. Range, at least: in which part the truth is in the\n"
        "range, and above its lower end."
    )
    heads = ("data", "over", "share", "lost", "told", "estimate", "at least", "at most", "range", "at least")
    table = Table(title, heads, (-46, -6, -7, -8, -7, -10, -10, -9, -7, -10), bar=40)
    for people in (*kinds, *heavy):
        counted, lengths = Counted(people, SKETCH), np.sort(_lengths(people))
        for few in over:
            norm = NormBound(Fraction(math.floor(lengths[-few - 1] * 16), 16))
            for share in (Fraction(1, 50), Fraction(1, 25)):
                told = tell(people, counted, norm, share)
                estimate, low, high = told.shares.T
                known = ~np.isnan(estimate)
                holds, least = (
                    float(np.mean((low <= told.lost) & (told.lost <= high))),
                    float(np.mean(low <= told.lost)),
                )
                bars = [Bar(float(np.mean(known)), ">=", 0.9, " (told)")]
                bars.append(
                    Bar(least, ">=", 0.975, " (at least)")
                    if any(people is each for each in heavy)
                    else Bar(holds, ">=", 0.9, " (range)")
                )
                middle = (
                    [float(np.median(each[known])) / told.lost for each in (estimate, low, high)] if known.any() else []
                )
                table.row(
                    people.title.split(",")[0] + " by " + people.title.split(", ")[1].split(" prot")[0],
                    f"{few}",
                    f"{share}",
                    f"{told.lost:.1%}",
                    f"{np.mean(known):.0%}",
                    *(f"{each:.2f}" for each in middle or [math.nan] * 3),
                    f"{holds:.0%}",
                    f"{least:.0%}",
                    bars=bars if few == 200 else [],
                )


def _lengths(people: People) -> np.ndarray:
    """Return the length of each person in records of one item, counted exactly."""
    pairs, counts = np.unique(people.units * (int(people.items.max()) + 1) + people.items, return_counts=True)
    return np.sqrt(np.bincount(pairs // (int(people.items.max()) + 1), counts.astype(np.float64) ** 2))
