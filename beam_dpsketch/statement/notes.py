"""The selection of keys or items of a release, and the rows of a timeline."""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction
from typing import Any, ClassVar

from beam_dpsketch import checks as _validate
from beam_dpsketch.encodings import named
from beam_dpsketch.privacy.contributions import MAX_CONTRIBUTION
from beam_dpsketch.privacy.noise.discrete_gaussian import MAX_PARAMETER, MIN_PARAMETER
from beam_dpsketch.privacy.norm.scaling import SCALE_BITS
from beam_dpsketch.privacy.over_time.mechanism import RowMechanism
from beam_dpsketch.privacy.selection import MAX_THRESHOLD, METHODS

_MAX_VOTES = 1 << 62


@named("KeyNote")
@dataclasses.dataclass(frozen=True, kw_only=True)
class KeyNote:
    """How the keys of a release were chosen; all of it is known without the data.

    Attributes:
      method: "gaussian", "geometric" or "two_rounds".
      max_keys: for how many keys one unit votes.
      min_units: how many units must vote for a key.
      grid: what one vote counts of a unit with a single key; of two rounds, its votes of both.
      sigma_squared: the noise parameter of the votes; of "geometric", that of a Gaussian which costs the same; of two
        rounds, the sum of both.
      threshold: from how many votes on a key is released, after the noise; of "geometric", for certain; of two rounds,
        from how many of both together.
      half: the fewest votes with which a key is released with probability 1/2 or more.
      most: the same with 0.99.
      share: the part of rho that the sketches lose to the votes; 0 if these are free.
    """

    of_items: ClassVar[bool] = False
    method: str
    max_keys: int
    min_units: int
    grid: int
    sigma_squared: Fraction
    threshold: int
    half: int
    most: int
    share: Fraction

    def __post_init__(self) -> None:
        _validate.one_of(METHODS, method=self.method)
        _validate.whole_fields(self, "max_keys", "min_units", low=1, high=MAX_CONTRIBUTION)
        _validate.whole_fields(self, "grid", "threshold", "half", "most", low=1, high=_MAX_VOTES)
        if not MIN_PARAMETER <= self.sigma_squared <= MAX_PARAMETER or not 0 <= self.share <= 1:
            raise ValueError("sigma_squared must be at least 1/4 and at most 2**100, and share between 0 and 1")

    def words(self, unit: str, what: str = "key") -> str:
        """Spell how many privacy units suffice for a key, or for an item; `unit` is what one is called."""
        half, most = self._units(self.grid)
        alone = "" if unit == "record" else f" that are in no other {what}"
        return f"passes with probability 1/2 if it has {half:,} {unit}s{alone}, 99 % with {most:,}"

    def of_several(self, unit: str, what: str = "key") -> str:
        """Spell how many units suffice if each is in as many keys as it votes for; empty if it votes for one."""
        if self.max_keys == 1:
            return ""
        half, most = self._units(max(1, math.isqrt(self.grid**2 // self.max_keys)))
        words = f"{half:,} {unit}s that are in {self.max_keys} {what}s each (99 % with {most:,})"
        if self.method == "two_rounds":
            words += f"; fewer suffice if the first of two rounds of votes decides on their other {what}s"
        return words

    def as_dict(self) -> dict[str, Any]:
        return {
            **{name: getattr(self, name) for name in ("method", "max_keys", "min_units", "grid", "threshold")},
            "sigma_squared": float(self.sigma_squared),
            "share_of_rho": float(self.share),
        }

    def _units(self, weight: int) -> tuple[int, int]:
        """Return how many units with votes of this weight bring a key to `half` and to `most`."""
        return -(-self.half // weight), -(-self.most // weight)


@named("GroupNote")
@dataclasses.dataclass(frozen=True, kw_only=True)
class GroupNote:
    """How the items of a release were chosen; all of it is known without the data.

    Attributes:
      max_items: for how many items one unit counts.
      threshold: from how much on a noisy count is released, in units of 2**-scale_bits; smaller ones are if votes
        bring them in.
      most: the smallest exact count that is released with probability 0.99 without votes, in the same units.
      scale_bits: of the grid of the noise.
      votes: how votes bring items in; `None` if units do not vote.
    """

    of_items: ClassVar[bool] = True
    max_items: int
    threshold: int
    most: int
    scale_bits: int = 0
    votes: KeyNote | None = None

    def __post_init__(self) -> None:
        _validate.whole_fields(self, "max_items", low=1, high=MAX_CONTRIBUTION)
        _validate.whole_fields(self, "threshold", "most", low=1, high=2 * MAX_THRESHOLD)
        _validate.whole_fields(self, "scale_bits", low=0, high=SCALE_BITS)

    @property
    def share(self) -> Fraction:
        """The part of rho that votes take from the counts."""
        return Fraction(0) if self.votes is None else self.votes.share

    @property
    def least_count(self) -> float:
        return self.threshold / (1 << self.scale_bits)

    @property
    def likely_count(self) -> float:
        """`most` in records."""
        return self.most / (1 << self.scale_bits)

    def words(self, unit: str, count: str = "count", clipped: str = " after clipping") -> str:
        """Spell when an item is released; `unit` is what a privacy unit is called, and `count` what the total is."""
        likely = f"an exact {count} of {self.likely_count:,.5g}{clipped} passes with probability 99 %"
        by_count = f"released if the noisy {count} reaches {self.least_count:,.5g} ({likely})"
        if self.votes is None:
            return by_count
        return f"{by_count}, or by its votes: an item {self.votes.words(unit, 'item')}"

    def as_dict(self) -> dict[str, Any]:
        return {
            "max_items": self.max_items,
            "threshold": self.least_count,
            "likely": self.likely_count,
            "votes": None if self.votes is None else self.votes.as_dict(),
        }


_MAX_DROPPED = 62


@dataclasses.dataclass(frozen=True)
class RowNote:
    """One noisy row."""

    is_row: ClassVar[bool] = True
    mechanism: RowMechanism
    number: int
    dropped_bits: int

    def __post_init__(self) -> None:
        _validate.instance(RowMechanism, mechanism=self.mechanism)
        _validate.whole_fields(self, "number", low=0, high=self.mechanism.row_count - 1)
        _validate.whole_fields(self, "dropped_bits", low=0, high=_MAX_DROPPED)

    @property
    def window(self) -> int:
        return self.mechanism.window_of(self.number)

    def words(self) -> str:
        """Spell the place of the row, and the scope of the privacy loss."""
        rows = self.mechanism.row_count
        return f"row {self.number} of {rows}, {_of(self.mechanism)}; {_covers(rows)}"

    def __str__(self) -> str:
        return f"row {self.number} of {self.mechanism.row_count}, {_of(self.mechanism)}"


@dataclasses.dataclass(frozen=True)
class AnswerNote:
    """An answer about some windows."""

    is_row: ClassVar[bool] = False
    mechanism: RowMechanism
    windows: int

    def __post_init__(self) -> None:
        _validate.instance(RowMechanism, mechanism=self.mechanism)
        _validate.whole_fields(self, "windows", low=1, high=self.mechanism.windows)

    def words(self) -> str:
        """Spell the rows that the answer is from, and the scope of the privacy loss."""
        return (
            f"{self}; {_covers(self.mechanism.row_count)}; answers of one timeline share noise and cannot be combined"
        )

    def __str__(self) -> str:
        rows = self.mechanism.first_row(self.windows)
        return f"the first {rows} of {self.mechanism.row_count} rows, {_of(self.mechanism)}"


def _covers(rows: int) -> str:
    return f"the loss covers all {rows} rows and any number of answers, also if later data depend on published rows"


def _of(mechanism: RowMechanism) -> str:
    return f"made by {mechanism.words} over {mechanism.windows} windows"
