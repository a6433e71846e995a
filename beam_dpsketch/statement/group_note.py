"""What a release says of the choice of its items."""

from __future__ import annotations

import dataclasses
from fractions import Fraction
from typing import Any, ClassVar

from beam_dpsketch import _validate
from beam_dpsketch.privacy.contributions import MAX_CONTRIBUTION
from beam_dpsketch.privacy.grouped_counts import MAX_THRESHOLD
from beam_dpsketch.privacy.norm_bounding import SCALE_BITS


@dataclasses.dataclass(frozen=True, kw_only=True)
class GroupNote:
    """How the items of a release were chosen; all of it is known without the data.

    Attributes:
      max_items: for how many items one unit counts.
      threshold: from how much on a noisy count is released, in units of 2**-scale_bits.
      most: the smallest exact count that is released with probability 0.99, in the same units.
      scale_bits: 0, or under a norm the bits of `norm_bounding`.
    """

    of_items: ClassVar[bool] = True
    max_items: int
    threshold: int
    most: int
    scale_bits: int = 0

    share: ClassVar[Fraction] = Fraction(0)
    """The part of rho that the choice takes from the counts: the counts decide themselves."""

    def __post_init__(self) -> None:
        _validate.whole_fields(self, "max_items", low=1, high=MAX_CONTRIBUTION)
        _validate.whole_fields(self, "threshold", "most", low=1, high=2 * MAX_THRESHOLD)
        _validate.one_of((0, SCALE_BITS), scale_bits=self.scale_bits)

    @property
    def least_count(self) -> float:
        """The threshold in records."""
        return self.threshold / (1 << self.scale_bits)

    @property
    def likely_count(self) -> float:
        """`most` in records."""
        return self.most / (1 << self.scale_bits)

    def __str__(self) -> str:
        return (
            f"those whose count with noise is {self.least_count:,.5g} or more: an item with that count is released "
            f"with probability 1/2 (99 % from {self.likely_count:,.5g} on). Counts just above that limit are too high "
            "by up to a sigma on average, because items that the noise lowers are left out"
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the note as plain Python values."""
        return {"max_items": self.max_items, "threshold": self.least_count, "likely": self.likely_count}
