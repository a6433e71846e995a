"""What bounding took from each unit: one noisy histogram for a run, in bins of a factor 2.

Guarantee: each unit is in one bin at most, by its own records alone. So adding or removing a unit changes one count by
1, and replacing a unit moves 1 from one bin to another: 1 and 2, squared or not (`mechanism.one_count`). Both are
attained. The histogram has its own part of rho, and is drawn once, after the norm is known.

What is lost. A unit loses its weight less what is kept of it, without signs: what a norm scales away, what
`RecordBounds` drop, and what a weight exceeds `max_weight` by. What `max_per_item` leaves out is not lost: a release
with that bound counts no more of an item.

Bins. Bin j, from 0 on, counts losses x with 2^(j - 2) <= x < 2^(j - 1); the last one has no end. Smaller losses are in
no bin.

Where the histogram is. A release that is alone in bounding its units has its own. Where one bound covers several keys
or windows, there is one histogram for all of them, because one for each would need noise for every cell that a unit
reaches. It has half of its part of rho, and the weight kept of all of them has the other half.

Lengths of units cannot take the place of losses: of a web log that loses 58 %, they show 15 %, without noise too.
"""

from __future__ import annotations

import enum
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from beam_dpsketch.privacy.aside.side_counters import LOST, ROOM, WEIGHT, SideCounter, SideCounters
from beam_dpsketch.privacy.contributions import Bounds, NeighboringRelation, RecordBounds
from beam_dpsketch.privacy.mechanism import Spending, one_count
from beam_dpsketch.privacy.noise.laws import Noise

_DOUBLINGS = 26  # of a loss of a quarter, for records of weight 1
_SMALLEST = -2


class LostIn(enum.Enum):
    """Which histogram tells what a release lost."""

    RELEASE = enum.auto()
    """Its own: no other release holds records of its units under the same bound."""

    RUN = enum.auto()
    """That of its run: one bound covers several releases."""

    NOWHERE = enum.auto()
    """None: rows over time, and keys of a stream, count what a norm clipped."""


class Uncounted(enum.Flag):
    """What settings drop or change before anything is counted, so that no number of a release tells it."""

    NOTHING = 0
    LATE = 1  # records of a stream that arrive after the release of their window
    OUTSIDE = 2  # records outside the declared windows
    LATER_WINDOWS = 4  # of a stream, records of a privacy id after its first `max_windows` windows of each period
    EXCESS_WEIGHT = 8  # the part of weights beyond `max_weight`, if no histogram measures it
    UNLISTED_ITEMS = 16  # records whose item is not listed
    UNLISTED_KEYS = 32  # records whose key is not listed
    CLAMPED = 64  # values outside a declared range are not dropped, but count at its ends


class LostCounter(NamedTuple):
    """The histogram of lost weight of a release, or of a run.

    Attributes:
      share: its part of rho.
      bins: how many counts it has.
      kept: the counter of the weight that is kept in the run; `None` if the release counts its own.
      reach: how many releases one unit is in, each with a histogram of its own.
    """

    share: Fraction
    bins: int
    kept: SideCounter | None
    reach: int

    @property
    def size(self) -> int:
        """How many numbers are counted: the bins, and what is kept."""
        return self.bins + (self.kept is not None)

    @property
    def of_run(self) -> bool:
        return self.kept is not None

    @property
    def shares(self) -> Fraction:
        """The part of rho of all that is counted."""
        return self.share + (0 if self.kept is None else self.kept.share)

    def parameter(self, spending: Spending, relation: NeighboringRelation) -> Fraction:
        """Return the noise parameter of each bin, exactly."""
        return spending.parameter(one_count(relation, self.reach), share=self.share)


def lost_counter(
    shares: SideCounters | None,
    bounds: Bounds,
    where: LostIn,
    *,
    one_record: bool,
    windows: int,
    noise: Noise = Noise.GAUSSIAN,
) -> LostCounter | None:
    """Return what counts lost weight under these bounds; `None` if nothing does.

    Args:
      shares: the parts of rho of what is counted aside; `None` for none.
      bounds: how much of each unit counts.
      where: which histogram it is.
      one_record: whether each record is a unit, which loses what its weight is clamped by.
      windows: the windows that one unit can reach, each within the bounds.
      noise: of the release.
    """
    share = Fraction(0) if shares is None else shares.share(LOST, noise)
    if not share or where is LostIn.NOWHERE or bounds.signed or (one_record and not bounds.has_weights):
        return None
    bins = 1 + _DOUBLINGS + (bounds.max_weight - 1).bit_length()
    if where is LostIn.RELEASE:
        return LostCounter(share, bins, None, windows)
    if isinstance(bounds, RecordBounds):
        most: Fraction | None = bounds.total_weight * windows
        squared = Fraction(most or 0) ** 2
    else:
        most = bounds.total_weight
        squared = bounds.squared_length * (ROOM**2 if most is None else 1)
    return LostCounter(share / 2, bins, SideCounter((WEIGHT,), share / 2, squared, limit=most), 1)


def histogram(lost: np.ndarray, bins: int, *, bits: int = 0) -> np.ndarray:
    """Return how many units are in each bin, int64 of shape (bins,). It is not private: never publish it.

    Args:
      lost: what each unit lost, int64 of shape (units,), in units of 2**-bits, 0 or more.
      bins: how many there are.
      bits: 0 or more.
    """
    places = np.searchsorted(np.ldexp(least_losses(bins), bits), lost, side="right")
    return np.bincount(places, minlength=bins + 1)[1:].astype(np.int64)


def least_losses(bins: int) -> np.ndarray:
    """Return the smallest loss of each bin, float64 of shape (bins,)."""
    return np.ldexp(1.0, np.arange(bins) + _SMALLEST)
