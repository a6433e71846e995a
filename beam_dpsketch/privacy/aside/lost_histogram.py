"""What bounding took from each unit: one noisy histogram for a run, in 11 bins of a factor 4.

Guarantee: one bin or none of the histogram counts a unit, with 1, by the unit's own records alone.

Proof of the sensitivity. Bins do not overlap, and their edges depend on the bounds alone: those that were declared, or
the norm that was chosen before and is public. Let e(u) be the vector with a 1 in the bin of the loss of unit u, or 0
without one. The exact histogram is the sum of e(u) over all units. Adding or removing a unit changes it by one e(u), of
L1 and squared L2 length 1 at most. Replacing u by v changes it by e(v) - e(u): at most 1 in each of two bins, so 2 in
L1 and 2 in squared L2 length. That is `mechanism.one_count`, for any number of bins, and each is attained. Where
windows are bounded alone and a unit reaches m of them, it is in m histograms, and both lengths are m times as large.
The histogram has its own part of rho, and is drawn once, after the norm is known.

What is lost. A unit loses its weight less what is kept of it, without signs: what a norm scales away, what
`RecordBounds` drop, and what a weight exceeds `max_weight` by. What `max_per_item` leaves out is not lost: a release
with that bound counts no more of an item.

Bins. Bin j, from 0 on, counts losses x with 4^(first + j) <= x < 4^(first + j + 1); the last one has no end. Smaller
losses are in no bin. 4^first is at most an eighth of the smallest limit: of the norm, of `max_weight` and of
`resource_limit`. A unit that loses less to a norm keeps eight ninths of its weight or more. `RecordBounds` may drop a
record of weight 1, so an eighth of `max_weight` counts there, or 1 if that is more. Bins are powers of 4, so histograms
of different norms add up.

Where the histogram is. A release that is alone in bounding its units has its own. Where one bound covers several keys
or windows, there is one histogram for all of them, because one for each would need noise for every cell that a unit
reaches. It has half of its part of rho, and the weight kept of all of them has the other half.

Lengths of units cannot take the place of losses: of a web log that loses 58 %, they show 15 %, without noise too.
"""

from __future__ import annotations

import enum
import math
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from beam_dpsketch.privacy.aside.side_counters import LOST, ROOM, WEIGHT, SideCounter, SideCounters
from beam_dpsketch.privacy.contributions import Bounds, RecordBounds
from beam_dpsketch.privacy.noise.laws import Noise
from beam_dpsketch.privacy.norm.bounds import NormBound

BINS, FACTOR = 11, 4.0
_OF_LIMIT = 8


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
      first: the smallest loss of its first bin is FACTOR**first.
      kept: the counter of the weight that is kept in the run; `None` if the release counts its own.
      reach: how many releases one unit is in, each with a histogram of its own.
    """

    share: Fraction
    first: int
    kept: SideCounter | None
    reach: int

    @property
    def size(self) -> int:
        """How many numbers are counted: the bins, and what is kept."""
        return BINS + (self.kept is not None)

    @property
    def of_run(self) -> bool:
        return self.kept is not None

    @property
    def shares(self) -> Fraction:
        """The part of rho of all that is counted."""
        return self.share + (0 if self.kept is None else self.kept.share)


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
    first = _first(bounds)
    if where is LostIn.RELEASE:
        return LostCounter(share, first, None, windows)
    if isinstance(bounds, RecordBounds):
        most: Fraction | None = bounds.total_weight * windows
        squared = Fraction(most or 0) ** 2
    else:
        most = bounds.total_weight
        squared = bounds.squared_length * (ROOM**2 if most is None else 1)
    return LostCounter(share / 2, first, SideCounter((WEIGHT,), share / 2, squared, limit=most), 1)


def _first(bounds: Bounds) -> int:
    """Return the exponent of the smallest loss of the first bin."""
    least = Fraction(bounds.max_weight)
    if isinstance(bounds, NormBound):
        limits = (bounds.max_norm, bounds.resource_limit, bounds.max_weight if bounds.says_max_weight else None)
        least = min(Fraction(limit) for limit in limits if limit is not None)
    least = max(least / _OF_LIMIT, Fraction(1 if isinstance(bounds, RecordBounds) else 0))
    return (math.frexp(least)[1] - 1) // 2


def histogram(lost: np.ndarray, first: int, *, bits: int = 0) -> np.ndarray:
    """Return how many units are in each bin, int64 of shape (BINS,). It is not private: never publish it.

    Args:
      lost: what each unit lost, int64 of shape (units,), in units of 2**-bits, 0 or more.
      first: as in `LostCounter`.
      bits: 0 or more.
    """
    places = np.searchsorted(np.ldexp(least_losses(first), bits), lost, side="right")
    return np.bincount(places, minlength=BINS + 1)[1:].astype(np.int64)


def least_losses(first: int, bins: int = BINS) -> np.ndarray:
    """Return the smallest loss of each bin, float64 of shape (bins,)."""
    return FACTOR ** np.arange(first, first + bins)
