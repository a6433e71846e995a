"""Statement fields for key or item selection, and for timeline rows."""

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
    """Key selection rule. All fields are public.

    Attributes:
      method: "gaussian", "geometric" or "two_rounds".
      max_keys: the most keys for which a unit votes.
      min_units: the fewest units that must vote for a key.
      grid: the weight of a vote from a unit with a single key. With two rounds, the sum of both votes.
      sigma_squared: the noise parameter for votes. For "geometric", a Gaussian with the same privacy loss. For two
        rounds, the sum of both.
      threshold: the fewest noisy votes for a release, certain with "geometric". For two rounds, the sum of both.
      half: the fewest votes for a release with probability 1/2 or more.
      most: the fewest votes for a release with probability 0.99 or more.
      share: the share of rho that pays for votes, or 0 if votes are free.
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
        """Format the units that suffice for a key or item. `unit` names the privacy unit."""
        half, most = self._units(self.grid)
        alone = "" if unit == "record" else f" that are in no other {what}"
        return f"passes with probability 1/2 if it has {half:,} {unit}s{alone}, 99 % with {most:,}"

    def of_several(self, unit: str, what: str = "key") -> str:
        """Format the units that suffice if each votes for `max_keys` keys. Empty if `max_keys` is 1."""
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
        """Numbers of units with votes of this weight that reach `half` and `most`."""
        return -(-self.half // weight), -(-self.most // weight)


@named("GroupNote")
@dataclasses.dataclass(frozen=True, kw_only=True)
class ThresholdNote:
    """Item selection rule for thresholded counts. All fields are public.

    Attributes:
      max_items: the most items for which a unit counts.
      threshold: the noisy count from which an item is released, in steps of 2**-scale_bits. Votes can release smaller
        counts.
      most: the smallest exact count for a release with probability 0.99 without votes, in the same steps.
      scale_bits: the number of fraction bits in the noise grid.
      votes: the voting rule, or `None` without votes.
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
        """Share of rho for votes."""
        return Fraction(0) if self.votes is None else self.votes.share

    @property
    def least_count(self) -> float:
        return self.threshold / (1 << self.scale_bits)

    @property
    def likely_count(self) -> float:
        """`most` in records."""
        return self.most / (1 << self.scale_bits)

    def words(self, unit: str, count: str = "count", clipped: str = " after clipping") -> str:
        """Format the release condition for an item. `unit` and `count` name the privacy unit and the total."""
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
    """Noisy timeline row."""

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
        """Format the row number and the scope of the privacy loss."""
        rows = self.mechanism.row_count
        return f"row {self.number} of {rows}, {_of(self.mechanism)}; {_covers(rows)}"

    def __str__(self) -> str:
        return f"row {self.number} of {self.mechanism.row_count}, {_of(self.mechanism)}"


@dataclasses.dataclass(frozen=True)
class AnswerNote:
    """Timeline answer for some windows."""

    is_row: ClassVar[bool] = False
    mechanism: RowMechanism
    windows: int

    def __post_init__(self) -> None:
        _validate.instance(RowMechanism, mechanism=self.mechanism)
        _validate.whole_fields(self, "windows", low=1, high=self.mechanism.windows)

    def words(self) -> str:
        """Format the rows behind the answer and the scope of the privacy loss."""
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
