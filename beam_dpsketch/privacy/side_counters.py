"""Side counters: how many units, records and how much weight a release holds, and how much the bounds took away.

Guarantee: each counter is its own mechanism with its own part of the loss. The parts, with that of the sketch, sum to
the loss exactly: to rho, or to the epsilon of Laplace noise. For all records of one unit, a counter changes by at most
`sensitivity`, over all keys and windows.

What is counted. For unit u and counter q, v_q has one number for each output cell: a key and window; without both there
is one cell. With net weights n, as `norm.scaling` scales them to f / F, where F = 2^SCALE_BITS:

* units: 1 in each cell where a net weight is not 0;
* records: the records, before netting;
* weight: the sum of f / F, with signs;
* clipped: the sum of |n| - |f| / F;
* scaled: units, of those whose factor is below 1.

The rule. None rides on the factor of the norm: a scaled unit may have any number of records. Its kept weight can reach
b sqrt(cells of a row x keys x windows), where b is max_norm. So each counter has its own factor per unit, c_q =
min(1, K_q / |v_q|), rounded down, over all cells together. In cell j the unit adds sign(v_qj) floor(|v_qj| c_q F).

    counter           K             Delta: add or remove   replace
    units, scaled     sqrt(cells)   K                      sqrt(2) K
    records           4 b           K                      sqrt(2) K
    weight            4 b           K                      sqrt(2) K
    weight, signed    4 b           K                      2 K
    clipped           b             K                      sqrt(2) K

`cells` is in how many cells a unit counts in full: b^2 rounded down, or 1 if that is less, and not more than there are.
A unit that the norm does not scale has at most b^2 cells: each of its cells adds 1 or more to N^2.

Proof. Rounding down shrinks each number, so |f_q| <= F K: what adding or removing costs. Replacing f by g changes the
counter by |f - g|, squared |f|^2 + |g|^2 - 2 f.g. Without negative numbers f.g >= 0, so it is at most sqrt(2) K. With
signs it is at most |f| + |g| = 2 K. Units are not constant under `REPLACE_ONE` either: all records of the replacement
may be dropped, or cancel. Where each window is bounded alone and a unit reaches m windows, all bounds hold for each
window, so the squares are m times as large. Each entry is attained.

Order 1. Under a norm of order 1, the length |v| above is the sum of absolute numbers, and so is Delta: K where a unit
is added or removed, and 2 K where it is replaced. A unit that the norm does not scale has at most b cells. `cells` is
then b rounded down, or what there are, and K of units and scaled is `cells` itself. Their L2 length is at most its
root, because each number is 1 at most. K of records and weight is b: the scaled weight of a unit is never more, so the
counter of weight leaves nothing out. Under `RecordBounds`, K is the size of one cell times max_keys.

Under Laplace noise a counter costs more than under Gaussian noise: its noise grows with 1 / share, not with the root.
So the usual shares are others there.

One cell is like several. There a replacement changes the counter by K at most. But with noise for K, a removal would
cost as much as a replacement, and a unit whose replacement is in another period or release would pay twice.

Rows over time, from bounded input under a norm. The cells of a unit are keys and windows, and |v|^2 is the sum over
keys of v' G v / max_s G_ss, with G of the rows and |v| in place of v (`over_time.lengths`). F is 2^ROW_SCALE_BITS, and
K stays. Each number of v is scaled down and rounded down, and no entry of G is below 0. So over all rows the unit
changes the counter by at most K F in length, times the root of max_s G_ss = `RowMechanism.squared_length`. f.g of two
units becomes the sum over keys of f' G g, which is at least 0 where f and g have no number below 0. So the table holds.

`RecordBounds` need no factor. They keep max_keys cells, max_per_key records in each, and
max_weight of each record. So K^2 is max_keys times the square of 1 (units), of max_per_key
(records) and of its product with max_weight (weight). `clipped` and `scaled` need a norm.

Counters that are equal by definition are one counter with one share. Without weights each record weighs 1; with one
record per cell each unit has one. `Record()` of weight 1 has one counter, for units, records and weight.

A release whose own counters sum to the weight pays for no counter of it that is less exact. A sum of M counters that
each have noise for the whole loss has the parameter M b^2 / (2 rho), and a side counter K^2 / (2 share rho). So the sum
is at least as exact where M b^2 share <= K^2, but for what is left for the counters; under Laplace noise the share is
squared. Both sides are public before the noise.

`clipped` and `scaled` are there only where no histogram tells what was lost (`privacy.aside.lost_histogram`): over
time, for keys of a stream, and with signed weights. They share the part of rho that is given for `lost`. `clipped` is a
lower bound: a unit that lost more than b counts with b, so a few heavy units hide their loss. Nor does it see what
`max_per_item` and `resource_limit` leave out. Show it as "at least".

Source: sigma^2 = Delta^2 / (2 rho_q) and the sum of rho_q are Canonne, Kamath and Steinke 2020 (arXiv:2004.00010).
4 b is a choice: in two logs kept weight cut at b is 82 to 84 % of all, and 98 to 100 % at 4 b.

What bounding took from each unit: one noisy histogram for a run, in 11 bins of a factor 4.

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

import dataclasses
import enum
import math
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from beam_dpsketch import checks as _validate
from beam_dpsketch.encodings import named
from beam_dpsketch.errors import ArgumentError
from beam_dpsketch.privacy.contributions import Bounds, NeighboringRelation, RecordBounds, check_bounds
from beam_dpsketch.privacy.mechanism import Sensitivity, change_factor, total_factor
from beam_dpsketch.privacy.noise.laws import Noise
from beam_dpsketch.privacy.norm import scaling
from beam_dpsketch.privacy.norm.bounds import NormBound
from beam_dpsketch.privacy.norm.scaling import SCALE_BITS
from beam_dpsketch.privacy.over_time.lengths import WindowPairs
from beam_dpsketch.privacy.over_time.pairs import ONE_PAIR
from beam_dpsketch.words import shown_plainly

USUAL_SHARE = Fraction(1, 50)
UNITS, RECORDS, WEIGHT, LOST, CLIPPED, SCALED = "units", "records", "weight", "lost", "clipped", "scaled"
_UNDER_LAPLACE = {UNITS: Fraction(1, 100), RECORDS: Fraction(1, 200), WEIGHT: Fraction(1, 100), LOST: Fraction(3, 100)}
"""In the place of the usual share: all cost more there, and a loss that nobody sees misleads most."""
ROOM = 4
"""Times max_norm of order 2: what a unit may have of records and of weight."""
_MAX_SIZE = (1 << 61) - 1


@shown_plainly
@named("SideCounters")
@dataclasses.dataclass(frozen=True, kw_only=True)
class SideCounters:
    """Which parts of rho, or of epsilon under Laplace noise, pay for counting units, records, weight, and losses.

    The usual 1/50 stands for 1/100 of epsilon under Laplace noise, where counting aside costs more: for 1/200 of
    records, and for 3/100 of losses. All other shares are taken as they are given.

    Args:
      units: the part for the number of people, or of what is protected. Like all parts it is of rho, between 0 and 1; a
        float means its decimal spelling, and `None` leaves the counter out.
      records: the part for the number of records, which are not counted without it.
      weight: the part for the total weight, unless the counters sum to it as exactly.
      lost: the part for a histogram of the weight that the bounds clip from each id. Over time, for keys of a stream
        and with signed weights: for the weight that a `NormBound` takes away and the number of units that it scales,
        half each; there, other bounds do not spend it.
    """

    units: Fraction | float | None = USUAL_SHARE
    records: Fraction | float | None = None
    weight: Fraction | float | None = USUAL_SHARE
    lost: Fraction | float | None = USUAL_SHARE

    def __post_init__(self) -> None:
        names = [field.name for field in dataclasses.fields(self) if getattr(self, field.name) is not None]
        for name in names:
            _validate.open_unit_interval(**{name: getattr(self, name)})
            object.__setattr__(self, name, _validate.exact(**{name: getattr(self, name)}))
        if sum(getattr(self, name) for name in names) >= 1:
            raise ArgumentError(
                "", "the shares of all side counters must sum to less than 1, so that the sketch gets a part", "E113"
            )

    def share(self, name: str, noise: Noise = Noise.GAUSSIAN) -> Fraction:
        """Return the part of the loss for one of the fields, exactly; 0 if it is left out."""
        given = Fraction(getattr(self, name) or 0)
        return _UNDER_LAPLACE[name] if noise is Noise.LAPLACE and given == USUAL_SHARE else given


class SideCounter(NamedTuple):
    """One counter of a release.

    Attributes:
      names: what it counts; several names are equal by definition.
      share: its part of rho.
      squared_limit: the square of the L2 length of what a unit adds, at most, in records.
      signed: whether it may count downwards.
      limit: the same for its L1 length; `None` if only the other is limited.
    """

    names: tuple[str, ...]
    share: Fraction
    squared_limit: Fraction
    signed: bool = False
    limit: Fraction | None = None

    @property
    def name(self) -> str:
        return self.names[0]

    def sensitivity(self, relation: NeighboringRelation, *, reach: Fraction | int = 1) -> Sensitivity:
        """Return the largest change that one unit can cause over all cells."""
        squared = change_factor(relation, has_signs=self.signed) * self.squared_limit * reach
        return Sensitivity(squared, None if self.limit is None else total_factor(relation) * self.limit * reach)

    def limited(
        self,
        values: np.ndarray,
        units: np.ndarray,
        *,
        bits: int,
        scale_bits: int = SCALE_BITS,
        pairs: WindowPairs | None = None,
    ) -> np.ndarray:
        """Return sign(v) floor(|v| c F), c = min(1, K / |v|) rounded down, int64: what each unit adds to each cell.

        |v| is the L1 length where that is limited, and else the L2 length; of rows over time always the latter.

        Args:
          values: v of each unit and cell, in units of 2^-bits: int64 of shape (n,). Sizes above 2^(61 - scale_bits)
            count as that, and numbers below 0 as 0 if the counter is not signed.
          units: the unit of each number: whole numbers from 0, none left out.
          bits: 0 to scale_bits.
          scale_bits: F is 2^scale_bits.
          pairs: which numbers add up in rows over time; `None` if none do.
        """
        most = _MAX_SIZE >> (scale_bits - bits)
        values = np.clip(values, -most if self.signed else 0, most)
        sizes = np.abs(values)
        limit = self.squared_limit * 4**bits
        if self.limit is not None and pairs is None:
            of_units, limit = np.square(np.bincount(units, sizes)), self.limit**2 * 4**bits
        elif pairs is None:
            of_units = np.bincount(units, np.square(sizes.astype(np.float64)))
        else:
            heavy = np.bincount(units, sizes) > math.isqrt(math.floor(limit))  # |v| is at most the sum of all sizes
            of_units, limit = np.bincount(units, pairs.squares(sizes, heavy[units])), limit * ONE_PAIR
        factors = scaling.shrinkage(of_units, limit)[units]
        shrunk = np.floor(sizes * factors * 2.0 ** (scale_bits - bits)).astype(np.int64)
        return np.sign(values) * np.where(factors == 1, sizes << np.int64(scale_bits - bits), shrunk)


def side_counters(
    shares: SideCounters | None,
    bounds: Bounds,
    *,
    max_cells: int | None = None,
    clips: bool = False,
    noise: Noise = Noise.GAUSSIAN,
    total_cells: int | None = None,
) -> tuple[SideCounter, ...]:
    """Return the counters of a release under these bounds; equal ones once, with the largest of their shares.

    Args:
      shares: which ones, and their parts of rho; `None` for none.
      bounds: how much of each unit counts.
      max_cells: under a norm, how many cells it covers: 1 without keys and windows. `None` if that is not known.
      clips: whether two counters say what a norm takes away, in the place of a histogram of what is lost.
      noise: of the release.
      total_cells: how many counters of the release sum to the weight; `None` if none do.
    """
    check_bounds(bounds)
    if max_cells is not None:
        _validate.whole(low=1, high=1 << 62, max_cells=max_cells)
    if shares is None:
        return ()
    if isinstance(bounds, RecordBounds):
        found = _under_record_bounds(shares, bounds, noise)
    else:
        found = _under_norm(shares, bounds, max_cells, noise, clips=clips)
    cells, power = math.inf if total_cells is None else total_cells, 2 if noise is Noise.LAPLACE else 1

    def is_needless(counter: SideCounter) -> bool:
        of_sum = cells * bounds.squared_length * counter.share**power
        return WEIGHT in counter.names and of_sum <= counter.squared_limit

    return tuple(counter for counter in found if counter.share and not is_needless(counter))


def equal_counts(bounds: Bounds) -> list[tuple[str, ...]]:
    """List units, records and weight, with those together that are equal by definition under these bounds."""
    equal = (bounds.max_per_key == 1, not bounds.has_weights) if isinstance(bounds, RecordBounds) else (False, False)
    found: list[tuple[str, ...]] = [(UNITS,)]
    for name, same in zip((RECORDS, WEIGHT), equal, strict=True):
        found = [*found[:-1], (*found[-1], name)] if same else [*found, (name,)]
    return found


def same_as(name: str, bounds: Bounds) -> tuple[str, ...]:
    """Return the names of what equals this count by definition, with its own."""
    return next(names for names in equal_counts(bounds) if name in names)


def _under_norm(
    shares: SideCounters, bounds: Bounds, max_cells: int | None, noise: Noise, *, clips: bool
) -> list[SideCounter]:
    squared, total = bounds.squared_length, bounds.total_weight
    most = max(1, math.floor(squared if total is None else total))
    cells = Fraction(most if max_cells is None else min(most, int(max_cells)))
    cells_in_all, ample = (None, ROOM**2 * squared) if total is None else (cells, squared)
    half = shares.share(LOST, noise) / 2 if clips else Fraction(0)
    return [
        SideCounter((UNITS,), shares.share(UNITS, noise), cells, limit=cells_in_all),
        SideCounter((RECORDS,), shares.share(RECORDS, noise), ample, limit=total),
        SideCounter((WEIGHT,), shares.share(WEIGHT, noise), ample, bounds.signed, total),
        SideCounter((CLIPPED,), half, squared, limit=total),
        SideCounter((SCALED,), half, cells, limit=cells_in_all),
    ]


def _under_record_bounds(shares: SideCounters, bounds: RecordBounds, noise: Noise) -> list[SideCounter]:
    sizes = {UNITS: 1, RECORDS: bounds.max_per_key, WEIGHT: bounds.max_weight_per_key}
    found = []
    for group in equal_counts(bounds):
        share, size = max(shares.share(name, noise) for name in group), sizes[group[0]]
        squared, total = Fraction(size**2 * bounds.kept_keys), Fraction(size * bounds.kept_keys)
        found.append(SideCounter(group, share, squared, bounds.signed and WEIGHT in group, total))
    return found


def share_left(counters: tuple[SideCounter, ...], *others: Fraction) -> Fraction:
    """Return the part of rho that is left for the sketch; `others` are further parts, as of lost weight.

    >>> from beam_dpsketch import NormBound
    >>> share_left(side_counters(SideCounters(), NormBound(20)), Fraction(1, 50))
    Fraction(47, 50)
    """
    left = 1 - sum((counter.share for counter in counters), sum(others, Fraction(0)))
    if left <= 0:
        raise ArgumentError("", "the shares of rho must sum to less than 1, so that the sketch gets a part", "E113")
    return left


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
