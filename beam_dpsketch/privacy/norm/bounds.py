"""Clipping norms: the largest length of a unit's contribution, given as a number or chosen from the data."""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction
from typing import Any, ClassVar, Self

from beam_dpsketch import checks as _validate
from beam_dpsketch.encodings import named
from beam_dpsketch.errors import ArgumentError, ArgumentTypeError
from beam_dpsketch.privacy.contributions import (
    MAX_CONTRIBUTION,
    Bounds,
    ContributionLimit,
    Default,
    DefaultFraction,
    is_in_windows,
    per_window,
    windows_in_words,
)
from beam_dpsketch.words import length_of_time, shown_plainly, up_to

_MAX_DENOMINATOR = 1 << 16
_LARGEST_SHARE = Fraction(1, 2)
_USUAL_SHARE = DefaultFraction(1, 20)
_SHARE_OF_SHORT_LISTS = Fraction(1, 5)  # little noise: the norm determines the error
NORMS = ("l1", "l2")
ITEM_SHARES = {"top_items": Fraction(7, 100), "rarer_items": Fraction(1, 50), "means": Fraction(1, 400)}


class NormLimit(ContributionLimit):
    """Clipping norm, given or to be chosen: units are scaled down to a length."""

    has_norm: ClassVar[bool] = True
    max_distinct_items: int | None
    norm: str | None

    @property
    def is_l1(self) -> bool:
        return self.norm == "l1"

    def within_max_keys(self) -> Self:
        limits = [each for each in (self.max_keys, self.max_distinct_items) if each is not None]
        return dataclasses.replace(self, max_distinct_items=min(limits, default=None))  # type: ignore[type-var]

    def _norm(self) -> str:
        raise NotImplementedError

    def _in_full(self, of: Any) -> str:
        raise NotImplementedError

    def words(self, of: Any, *, combined: bool = False) -> str:
        windows, period = "", f" and period of {length_of_time(of.period_micros)}" if of.period_micros else ""
        if is_in_windows(of):
            windows, period = windows_in_words(of), ""
        of_items: Any = self.within_max_keys() if of.counts_items else self
        limits = (
            (field.metadata.get("words"), getattr(of_items, field.name, None))
            for field in dataclasses.fields(NormBound)
        )
        said = "".join(f", {words.format(limit)}" for words, limit in limits if words and limit is not None)
        weights = self._weights("weights clamped to [{}, {}], then ")
        chosen = f" ({'norms' if combined else 'norm'} chosen from the data, privately)" * (of.norm_share is not None)
        norm = f"{weights}{self._norm()} per privacy id{per_window(of)}{period}{chosen}"
        return f"{norm}{said}{windows}{'' if combined else self._in_full(of)}"


@shown_plainly
@named("NormBound")
@dataclasses.dataclass(frozen=True)
class NormBound(NormLimit, Bounds):
    """Clipping norm: the largest length of a privacy unit's contribution to all counters. The transforms enforce it.

    Each person's records get a common weight of at most 1, just small enough that the length (the root of the summed
    squares) of the person's total contribution is at most the length of `max_norm` records with the same item. Noise
    grows with `max_norm`: it equals the noise of `RecordBounds(max_norm)`. A person with up to `max_norm` records is
    not scaled, and a person whose records are spread over many items may have many more. All keys count together, and
    on bounded input all windows.

    This length is the L2 norm. The L1 norm is the total weight, without signs: `max_norm` records of all items
    together. Laplace noise requires the L1 norm, which is more accurate for people with few items.

    Choose a number without looking at the data: approximately the usual number of records that a very active person
    has with the same item.

    Args:
      max_norm: number of records per privacy id, over all keys, that always count in full. It is the largest length, in
        records with the same item and weight 1: an integer or a `Fraction`, up to 2**31. If weights are read, it is a
        total weight, and at least max_weight.
      max_weight: weights are clamped to [0, max_weight], or to [-max_weight, max_weight] if signed, and then added up
        by item. Required if weights are read.
      max_per_item: largest count of a privacy unit for an item, in each key and window; 1 counts people per item, as
        long as a person's length is within `max_norm`. With `None`, `max_norm` is the only limit.
      signed: whether records may delete (negative weights). An insert and its delete with the same item, key and window
        cancel before anything else.
      max_distinct_items: largest number of distinct items kept per privacy unit, to save memory, chosen by a hash; an
        item counts again in each key and window. It is not a privacy bound and does not lower the noise. `None` keeps
        all.
      max_keys: number of keys for which a privacy unit votes under `KeySelection`, which requires it. Records in other
        keys still count there. On bounded input with windows it is the number of pairs of key and window. Over a
        `Horizon`, keys are selected once for all windows. If items are counted separately, as text is, it is the number
        of items for which a unit counts, 128 by default. Otherwise it is `None`.
      norm: "l2", the root of the summed squares; or "l1", the total weight, which Laplace noise requires.
    """

    max_norm: int | Fraction
    _: dataclasses.KW_ONLY
    max_weight: int = Default(1)
    max_per_item: int | None = dataclasses.field(default=None, metadata={"words": "at most {} in each item count"})
    signed: bool = False
    max_distinct_items: int | None = dataclasses.field(default=None, metadata={"words": "in at most {} item counts"})
    max_keys: int | None = None
    norm: str = "l2"

    def __post_init__(self) -> None:
        if isinstance(self.max_norm, str):
            raise ArgumentTypeError(
                "max_norm", "must be a number, got str. To choose the norm from the data, use $AutoNorm", "E205"
            )
        norm = _validate.exact(max_norm=self.max_norm)
        if norm > MAX_CONTRIBUTION or norm.denominator > _MAX_DENOMINATOR:
            raise ArgumentError("max_norm", "must be at most 2**31, with a denominator of at most 2**16", "E206")
        object.__setattr__(self, "max_norm", norm.numerator if norm.denominator == 1 else norm)
        _check_norm(self.norm)
        self._check_fields()

    @property
    def size(self) -> int | Fraction:
        return self.max_norm

    def bound(self, size: int | Fraction) -> NormBound:
        return dataclasses.replace(self, max_norm=size)

    @property
    def squared_length(self) -> Fraction:
        return Fraction(self.max_norm) ** 2

    @property
    def total_weight(self) -> Fraction | None:
        return Fraction(self.max_norm) if self.is_l1 else None

    def squared_most_of_one_item(self, items: int) -> Fraction:
        if self.max_per_item is None:
            return self.squared_length
        of_all = self.squared_length
        if self.max_per_item == 1:
            of_all /= items**2 if self.is_l1 else items
        return min(of_all, Fraction(self.max_per_item**2))

    @property
    def shown_norm(self) -> str:
        """max_norm in digits, with all digits if it is an integer."""
        return str(self.max_norm) if isinstance(self.max_norm, int) else f"{float(self.max_norm):g}"

    def _norm(self) -> str:
        records = "" if self.has_weights else " record" + "s" * (self.max_norm != 1)
        return f"clipped to {'a total weight' if self.is_l1 else 'an L2 norm'} of {self.shown_norm}{records}"

    def _in_full(self, of: Any) -> str:
        """Describe the number of records per unit that no limit can clip.

        Records whose weights sum to n contain at most n items, and have a length of at most n. Over k windows, the
        length is at most n times the root of k, and the total weight k n.
        """
        items = (self.max_distinct_items, self.max_keys if of.counts_items else None)
        limits = [self.max_per_item, *(limit and limit // of.overlapping for limit in items)]
        norm = Fraction(self.max_norm) ** 2 / of.overlapping ** (2 if self.is_l1 else 1)
        most = min([math.isqrt(math.floor(norm)), *(limit for limit in limits if limit is not None)])
        if not most:
            return ""
        what = f"a clamped total weight of up to {most}, without signs," if self.has_weights else up_to(most, "record")
        count = "counts" if self.has_weights or most == 1 else "count"
        within = f"{count} in full in {'that' if of.window_count == 1 else 'each'} window"
        return f"; {what} {within if is_in_windows(of) else f'always {count} in full'}"


@shown_plainly
@named("AutoNorm")
@dataclasses.dataclass(frozen=True)
class AutoNorm(NormLimit):
    """Choose the `max_norm` of a `NormBound` from the data. A budget share pays for the choice.

    Guarantee: the choice costs `share` times rho, and the counters cost the rest. The shares sum to rho exactly. The
    choice is a function of a noisy histogram: the number of units by length. `privacy.norm.choice` has proof and rule.

    Short lists have up to 64 items, counted in each listed key, and a guarantee by an epsilon, which allows Laplace
    noise. There the L1 norm is usually more accurate. Statistics with up to 16 keys count as short lists, and so do
    quantiles over up to 8 values, 16 in all keys together.

    Args:
      share: budget share that pays for the choice, above 0 and at most 1/2. A float means its decimal spelling. The
        default is 1/20, or 1/5 for short lists except for means. Use 1/10 for fewer than 10,000 units, or if a few
        units far exceed all others.
      optimize_for: "top_items", the most frequent items, with 3 to 5 % of all records each, and totals; "rarer_items",
        items with about 1 %, for which a smaller norm is better; or "means", for which a far smaller norm is better,
        because clipping reduces count and sum alike. Counts and sums then lose most of their weight.
      item_share: in place of `optimize_for`, estimated share of a heavy unit's length that comes from a queried item,
        above 0, at most 1. The default is 7/100 for the largest items, 1/50 for typical items, and 1/400 for means. For
        short lists with M items or keys it is 1/M if that is more, except for means. For trees, it describes a rank.
      max_weight: as in `NormBound`, like all following arguments.
      max_per_item: as in `NormBound`.
      signed: as in `NormBound`.
      max_distinct_items: as in `NormBound`.
      norm: as in `NormBound`. The default is "l1" for short lists, and "l2" otherwise.
      max_keys: as in `NormBound`, for items. Keys selected from the data require a given norm.

    >>> AutoNorm(share=0.1).share
    Fraction(1, 10)
    """

    share: Fraction = _USUAL_SHARE
    _: dataclasses.KW_ONLY
    item_share: Fraction | None = None
    optimize_for: str = "top_items"
    max_weight: int = NormBound.max_weight
    max_per_item: int | None = None
    signed: bool = False
    max_distinct_items: int | None = None
    norm: str | None = None
    max_keys: int | None = None

    def __post_init__(self) -> None:
        share, of_item = self.share, self.item_share
        if not isinstance(share, DefaultFraction) and (share := _validate.exact(share=share)) > _LARGEST_SHARE:
            raise ArgumentError(
                "share",
                f"must be at most 1/2, got {float(share):g}. This budget share pays for the choice of the norm",
                "E207",
            )
        _validate.one_of(tuple(ITEM_SHARES), optimize_for=self.optimize_for)
        if of_item is not None and (of_item := _validate.exact(item_share=of_item)) > 1:
            raise ArgumentError(
                "item_share",
                f"must be at most 1, got {float(of_item):g}. It is the share of a contribution's length that comes "
                "from a queried item",
                "E208",
            )
        object.__setattr__(self, "share", share)
        object.__setattr__(self, "item_share", of_item)
        if self.norm is not None:
            _check_norm(self.norm)
        self._check_fields()

    @property
    def size(self) -> None:
        return None

    def suiting(self, items: int) -> Self:
        if self.norm is not None:
            return self
        if self.optimize_for == "means":
            return dataclasses.replace(self, norm="l1")
        share = _SHARE_OF_SHORT_LISTS if isinstance(self.share, DefaultFraction) else self.share
        of_item = max(self.asked_share, Fraction(1, items)) if self.item_share is None else self.item_share
        return dataclasses.replace(self, norm="l1", share=share, item_share=of_item)

    @property
    def asked_share(self) -> Fraction:
        """`item_share`, or the share that `optimize_for` stands for."""
        return ITEM_SHARES[self.optimize_for] if self.item_share is None else self.item_share

    def bound(self, size: int | Fraction) -> NormBound:
        known = {field.name for field in dataclasses.fields(NormBound)}
        given = {name: value for name, value in self.as_dict().items() if name in known}
        return NormBound(size, **{**given, "norm": self.norm or "l2"})

    def _norm(self) -> str:
        return f"clipped to {'a total weight' if self.is_l1 else 'an L2 norm'}"

    def _in_full(self, of: Any) -> str:
        loss = "the loss" if self.is_l1 else "rho"
        part = f"{float(100 * self.share):g} % of {loss}"
        return f", chosen from the data with {part}; the statement of the release contains it"


def _check_norm(norm: Any) -> None:
    if norm not in NORMS:
        raise ArgumentError(
            "norm", f'must be "l2" (the root of the summed squares) or "l1" (the total), got {norm!r}', "E227"
        )
