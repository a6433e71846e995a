"""Summary counts: noisy numbers of units and records, total weight, and clipping loss of a release.

Guarantee: each counter is a separate mechanism with its own share of the loss. These shares and the sketch's share sum
to the loss exactly: to rho, or to epsilon with Laplace noise. All records of a unit change a counter by at most
`sensitivity`, over all keys and windows.

Counted quantities. For unit u and counter q, v_q has one number for each output cell: a key and window. Without keys
and windows there is a single cell. With net weights n, which `norm.scaling` scales to f / F, where F = 2^SCALE_BITS:

* units: 1 in each cell with a nonzero net weight;
* records: the records, before netting;
* weight: the sum of f / F, with signs;
* clipped: the sum of |n| - |f| / F;
* scaled: units whose factor is below 1.

The rule. No counter uses the factor of the norm: a scaled unit may have any number of records. Its clipped weight can
reach b sqrt(cells of a row x keys x windows), where b is max_norm. Hence each counter has its own factor per unit, c_q
= min(1, K_q / |v_q|), rounded down, over all cells together. In cell j the unit adds sign(v_qj) floor(|v_qj| c_q F).

    counter           K             Delta: add or remove   replace
    units, scaled     sqrt(cells)   K                      sqrt(2) K
    records           4 b           K                      sqrt(2) K
    weight            4 b           K                      sqrt(2) K
    weight, signed    4 b           K                      2 K
    clipped           b             K                      sqrt(2) K

`cells` is the largest number of cells in which a unit counts in full: b^2 rounded down, but at least 1 and at most the
number of output cells. A unit that the norm does not scale has at most b^2 cells: each cell adds at least 1 to N^2.

Proof. Rounding down shrinks each number, hence |f_q| <= F K, which is the cost of adding or removing. Replacing f by g
changes the counter by |f - g|, squared |f|^2 + |g|^2 - 2 f.g. Without negative numbers f.g >= 0, hence it is at most
sqrt(2) K. With signs it is at most |f| + |g| = 2 K. Units are not constant under `REPLACE_ONE` either: all records of
the replacement may be dropped, or cancel. If each window is bounded separately and a unit reaches m windows, all bounds
apply to each window, hence the squares are m times as large. Each entry is attained.

L1 norm. Under an L1 norm, the length |v| above is the sum of absolute numbers, and so is Delta: K if a unit is added or
removed, and 2 K if it is replaced. A unit that the norm does not scale has at most b cells. Then `cells` is b rounded
down, but at most the number of output cells, and K of units and scaled is `cells` itself. Their L2 length is at most
its root, because each number is at most 1. K of records and weight is b: the scaled weight of a unit never exceeds b,
hence the counter of weight omits no weight. Under `RecordBounds`, K is the size of a cell times max_keys.

A counter costs more under Laplace noise than under Gaussian noise, because Laplace noise grows with 1 / share instead
of its root. Therefore Laplace noise has different default shares.

A single cell is treated like several. There a replacement changes the counter by at most K. But with noise for K, a
removal would cost as much as a replacement, and a unit whose replacement is in another period or release pays twice.

Timeline rows, from bounded input under a norm. The cells of a unit are keys and windows, and |v|^2 is the sum over keys
of v' G v / max_s G_ss, with G of the rows and |v| in place of v (`over_time.lengths`). F is 2^ROW_SCALE_BITS, and K
stays. Each number in v is scaled down and rounded down, and no entry of G is negative. Hence over all rows the unit
changes the counter by at most K F in length, times the root of max_s G_ss = `RowMechanism.squared_length`. For two
units, f.g becomes the sum over keys of f' G g, at least 0 if f and g have no negative numbers. Hence the table applies.

`RecordBounds` need no factor. They keep max_keys cells, max_records records in each, and max_weight of each record.
Hence K^2 is max_keys times the square of 1 (units), max_records (records), or max_records times max_weight (weight).
`clipped` and `scaled` require a norm.

Counters that are equal by definition are a single counter with a single share. Without weights each record weighs 1.
With a single record per cell each unit has one record. `Record()` with weight 1 has one counter for units, records and
weight.

If the release's own counters sum to the weight, it omits any less accurate weight counter. A sum over M counters, each
with noise for the whole loss, has the parameter M b^2 / (2 rho), and a summary count K^2 / (2 share rho). Hence the sum
is at least as accurate if M b^2 share <= K^2, up to the remaining share for the counters. With Laplace noise the share
is squared. Both sides are public before the noise.

`clipped` and `scaled` exist only without a clipping histogram (below): over time, for keys of a stream, and with signed
weights. They divide the budget share given for `clipping`. `clipped` is a lower bound: a unit that lost more than b
counts with b, hence a few heavy units hide their loss. It does not include weight removed by `max_per_item` and
`max_distinct_items`. Report it as "at least".

Source: sigma^2 = Delta^2 / (2 rho_q) and the sum of rho_q are Canonne, Kamath and Steinke 2020 (arXiv:2004.00010). 4 b
is a choice: in two logs, weight capped at b is 82 to 84 % of the total, and 98 to 100 % at 4 b.

Clipping histogram: number of privacy units by clipping loss, one noisy histogram per run, in 11 bins by factors of 4.

Guarantee: a unit is counted in at most one bin, with 1, by its own records alone.

Proof of the sensitivity. Bins do not overlap, and their edges depend on the bounds alone: the declared bounds, or the
norm that was chosen before and is public. Let e(u) be the vector with a 1 in the bin for the loss of unit u, or 0
without a bin. The exact histogram is the sum of e(u) over all units. Adding or removing a unit changes it by one e(u),
with L1 and squared L2 length at most 1. Replacing u by v changes it by e(v) - e(u): at most 1 in each of two bins,
hence 2 in L1 and 2 in squared L2 length. That is `mechanism.one_count`, for any number of bins, and each is attained.
If windows are bounded separately and a unit reaches m windows, it is in m histograms, and both lengths are m times as
large. The histogram has its own budget share, and is drawn once, after the norm is known.

Clipping loss. A unit's clipping loss is its weight minus its clipped weight, without signs: the weight removed by the
scaling of a norm, in records dropped by `RecordBounds`, and above `max_weight`. Weight removed by `max_per_item` is
excluded: a release with that bound counts no more of an item.

Bins. Bin j >= 0 counts losses x with 4^(first + j) <= x < 4^(first + j + 1). The last bin is unbounded. Smaller losses
are in no bin. 4^first is at most an eighth of the smallest limit: the norm, `max_weight` or `max_distinct_items`. A
unit that loses less to a norm keeps at least eight ninths of its weight. `RecordBounds` may drop a record with weight
1, hence the limit there is an eighth of `max_weight`, or 1 if that is more. Bins are powers of 4, hence histograms for
all norms add up.

Scope. A release that alone bounds its units has its own histogram. If a single bound covers several keys or windows,
they share a single histogram, because separate histograms would need noise for every cell that a unit reaches. The
shared histogram has half of its budget share, and the total clipped weight has the other half.

Lengths of units cannot replace losses: for a web log that loses 58 %, they show 15 %, even without noise.
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
CLIPPING = "clipping"
_UNDER_LAPLACE = {
    UNITS: Fraction(1, 100),
    RECORDS: Fraction(1, 200),
    WEIGHT: Fraction(1, 100),
    CLIPPING: Fraction(3, 100),
}
"""In place of the default share: all counters cost more with Laplace noise, and an undetected loss misleads most."""
ROOM = 4
"""Limit for the records and the weight of a unit, as a multiple of max_norm under an L2 norm."""
_MAX_SIZE = (1 << 61) - 1


@shown_plainly
@named("SideCounters")
@dataclasses.dataclass(frozen=True, kw_only=True)
class SummaryCounts:
    """Budget shares for the noisy numbers of units and records, the total weight, and the clipping loss.

    Shares are fractions of rho, or of epsilon with Laplace noise. With Laplace noise, where summary counts cost more,
    the default 1/50 becomes 1/100, but 1/200 for records and 3/100 for losses. All other shares are used as given.

    Args:
      units: budget share for the number of people, or of other privacy units. Like all shares it is a fraction of rho,
        between 0 and 1. A float means its decimal spelling, and `None` disables the counter.
      records: budget share for the number of records, which are counted only if it is set.
      weight: budget share for the total weight, unless the sketch's counters sum to it with the same accuracy.
      clipping: budget share for a histogram of the weight clipped per privacy id. Over time, for keys of a stream and
        with signed weights, it pays for the weight clipped by a `NormBound` and the number of scaled units, half each.
        There, other bounds do not spend it.
    """

    units: Fraction | float | None = USUAL_SHARE
    records: Fraction | float | None = None
    weight: Fraction | float | None = USUAL_SHARE
    clipping: Fraction | float | None = USUAL_SHARE

    def __post_init__(self) -> None:
        names = [field.name for field in dataclasses.fields(self) if getattr(self, field.name) is not None]
        for name in names:
            _validate.open_unit_interval(**{name: getattr(self, name)})
            object.__setattr__(self, name, _validate.exact(**{name: getattr(self, name)}))
        if sum(getattr(self, name) for name in names) >= 1:
            raise ArgumentError(
                "", "The shares of all summary counts must sum to less than 1: the rest pays for the sketch", "E113"
            )

    def share(self, name: str, noise: Noise = Noise.GAUSSIAN) -> Fraction:
        """Compute the exact budget share of a field, or 0 if it is disabled."""
        given = Fraction(getattr(self, name) or 0)
        return _UNDER_LAPLACE[name] if noise is Noise.LAPLACE and given == USUAL_SHARE else given

    def with_units(self, share: Fraction) -> SummaryCounts:
        """Give the count of units this share of what the other counts leave."""
        others = sum(Fraction(each or 0) for each in (self.records, self.weight, self.clipping))
        return dataclasses.replace(self, units=share * (1 - others))


class SummaryCount(NamedTuple):
    """Summary count of a release.

    Attributes:
      names: the counted quantities. Several names are equal by definition.
      share: its budget share.
      squared_limit: largest squared L2 length of a unit's contribution, in records.
      signed: whether it may count downwards.
      limit: largest L1 length of a unit's contribution, or `None` if only the L2 length is limited.
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
        """Compute the largest change by a unit over all cells."""
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
        """Compute sign(v) floor(|v| c F), c = min(1, K / |v|) rounded down, int64: the clipped values per unit.

        The length |v| is the L1 length if that is limited, and otherwise the L2 length. For timeline rows it is the L2
        length.

        Args:
          values: v per unit and cell, in units of 2^-bits: int64, shape (n,). Sizes above 2^(61 - scale_bits) are
            clamped to it, and negative numbers to 0 if the counter is not signed.
          units: the unit of each number: whole numbers from 0, without gaps.
          bits: 0 to scale_bits.
          scale_bits: F is 2^scale_bits.
          pairs: numbers that add up in timeline rows, or `None` without such rows.
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


def summary_counts(
    shares: SummaryCounts | None,
    bounds: Bounds,
    *,
    max_cells: int | None = None,
    clips: bool = False,
    noise: Noise = Noise.GAUSSIAN,
    total_cells: int | None = None,
) -> tuple[SummaryCount, ...]:
    """Build the summary counts of a release. Equal counters are merged, with the largest of their shares.

    Args:
      shares: the enabled counters and their budget shares. `None` disables all.
      bounds: contribution bounds per unit.
      max_cells: under a norm, number of cells that it covers: 1 without keys and windows. `None` if unknown.
      clips: whether two counters report the clipping of a norm, in place of a clipping histogram.
      noise: noise type.
      total_cells: number of the release's counters that sum to the weight, or `None` if none do.
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

    def is_needless(counter: SummaryCount) -> bool:
        of_sum = cells * bounds.squared_length * counter.share**power
        return WEIGHT in counter.names and of_sum <= counter.squared_limit

    return tuple(counter for counter in found if counter.share and not is_needless(counter))


def equal_counts(bounds: Bounds) -> list[tuple[str, ...]]:
    """Group units, records and weight by equality under these bounds."""
    equal = (bounds.max_records == 1, not bounds.has_weights) if isinstance(bounds, RecordBounds) else (False, False)
    found: list[tuple[str, ...]] = [(UNITS,)]
    for name, same in zip((RECORDS, WEIGHT), equal, strict=True):
        found = [*found[:-1], (*found[-1], name)] if same else [*found, (name,)]
    return found


def same_as(name: str, bounds: Bounds) -> tuple[str, ...]:
    """List the names that equal this count by definition, including its own."""
    return next(names for names in equal_counts(bounds) if name in names)


def _under_norm(
    shares: SummaryCounts, bounds: Bounds, max_cells: int | None, noise: Noise, *, clips: bool
) -> list[SummaryCount]:
    squared, total = bounds.squared_length, bounds.total_weight
    most = max(1, math.floor(squared if total is None else total))
    cells = Fraction(most if max_cells is None else min(most, int(max_cells)))
    cells_in_all, ample = (None, ROOM**2 * squared) if total is None else (cells, squared)
    half = shares.share(CLIPPING, noise) / 2 if clips else Fraction(0)
    return [
        SummaryCount((UNITS,), shares.share(UNITS, noise), cells, limit=cells_in_all),
        SummaryCount((RECORDS,), shares.share(RECORDS, noise), ample, limit=total),
        SummaryCount((WEIGHT,), shares.share(WEIGHT, noise), ample, bounds.signed, total),
        SummaryCount((CLIPPED,), half, squared, limit=total),
        SummaryCount((SCALED,), half, cells, limit=cells_in_all),
    ]


def _under_record_bounds(shares: SummaryCounts, bounds: RecordBounds, noise: Noise) -> list[SummaryCount]:
    sizes = {UNITS: 1, RECORDS: bounds.max_records, WEIGHT: bounds.max_weight_per_key}
    found = []
    for group in equal_counts(bounds):
        share, size = max(shares.share(name, noise) for name in group), sizes[group[0]]
        squared, total = Fraction(size**2 * bounds.kept_keys), Fraction(size * bounds.kept_keys)
        found.append(SummaryCount(group, share, squared, bounds.signed and WEIGHT in group, total))
    return found


def share_left(counters: tuple[SummaryCount, ...], *others: Fraction) -> Fraction:
    """Compute the remaining budget share for the sketch. `others` are further shares, such as the clipping histogram.

    >>> from beam_dpsketch import NormBound
    >>> share_left(summary_counts(SummaryCounts(), NormBound(20)), Fraction(1, 50))
    Fraction(47, 50)
    """
    left = 1 - sum((counter.share for counter in counters), sum(others, Fraction(0)))
    if left <= 0:
        raise ArgumentError("", "The budget shares must sum to less than 1: the rest pays for the sketch", "E113")
    return left


BINS, FACTOR = 11, 4.0
_OF_LIMIT = 8


class LostIn(enum.Enum):
    """Scope of the clipping histogram."""

    RELEASE = enum.auto()
    """One per release: no other release contains records of its units under the same bound."""

    RUN = enum.auto()
    """One per run: a single bound covers several releases."""

    NOWHERE = enum.auto()
    """None: timeline rows, and keys of a stream, count the weight clipped by a norm."""


class Uncounted(enum.Flag):
    """Records that settings drop or change before anything is counted, and that no number of a release includes."""

    NOTHING = 0
    LATE = 1  # records of a stream that arrive after the release of their window
    OUTSIDE = 2  # records outside the declared windows or calendar
    LATER_WINDOWS = 4  # on streams, records after the first `max_windows` windows of a privacy id in each period
    EXCESS_WEIGHT = 8  # weight above `max_weight`, if no histogram measures it
    UNLISTED_ITEMS = 16  # records whose item is not listed
    UNLISTED_KEYS = 32  # records whose key is not listed
    CLAMPED = 64  # values outside a declared range, which count at its ends


class LostCounter(NamedTuple):
    """Clipping histogram of a release or a run.

    Attributes:
      share: its budget share.
      first: the smallest loss in its first bin is FACTOR**first.
      kept: counter of the run's clipped weight, or `None` if the release counts its own.
      reach: releases that contain a unit, each with a separate histogram.
    """

    share: Fraction
    first: int
    kept: SummaryCount | None
    reach: int

    @property
    def size(self) -> int:
        """Number of counted values: the bins, and the clipped weight."""
        return BINS + (self.kept is not None)

    @property
    def of_run(self) -> bool:
        return self.kept is not None

    @property
    def shares(self) -> Fraction:
        return self.share + (0 if self.kept is None else self.kept.share)


def lost_counter(
    shares: SummaryCounts | None,
    bounds: Bounds,
    where: LostIn,
    *,
    one_record: bool,
    windows: int,
    noise: Noise = Noise.GAUSSIAN,
) -> LostCounter | None:
    """Build the clipping histogram for these bounds, or `None` without one.

    Args:
      shares: budget shares for the summary counts. `None` disables all.
      bounds: contribution bounds per unit.
      where: scope of the histogram.
      one_record: whether each record is a unit, which loses only the clamped part of its weight.
      windows: windows that a unit can reach, each within the bounds.
      noise: noise type.
    """
    share = Fraction(0) if shares is None else shares.share(CLIPPING, noise)
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
    return LostCounter(share / 2, first, SummaryCount((WEIGHT,), share / 2, squared, limit=most), 1)


def _first(bounds: Bounds) -> int:
    least = Fraction(bounds.max_weight)
    if isinstance(bounds, NormBound):
        limits = (bounds.max_norm, bounds.max_distinct_items, bounds.max_weight if bounds.says_max_weight else None)
        least = min(Fraction(limit) for limit in limits if limit is not None)
    least = max(least / _OF_LIMIT, Fraction(1 if isinstance(bounds, RecordBounds) else 0))
    return (math.frexp(least)[1] - 1) // 2


def histogram(lost: np.ndarray, first: int, *, bits: int = 0) -> np.ndarray:
    """Compute the exact clipping histogram, int64, shape (BINS,). It is not private: never publish it.

    Args:
      lost: clipping loss per unit, int64, shape (units,), in units of 2**-bits, 0 or more.
      first: as in `LostCounter`.
      bits: 0 or more.
    """
    return np.bincount(bins_of(lost, first, bits=bits), minlength=BINS + 1)[1:].astype(np.int64)


def bins_of(lost: np.ndarray, first: int, *, bits: int = 0) -> np.ndarray:
    """Compute the bin of each clipping loss, from 1 to BINS. Smaller losses have bin 0."""
    return np.searchsorted(np.ldexp(least_losses(first), bits), lost, side="right")


def least_losses(first: int, bins: int = BINS) -> np.ndarray:
    """Compute the smallest loss of each bin, float64, shape (bins,)."""
    return FACTOR ** np.arange(first, first + bins)
