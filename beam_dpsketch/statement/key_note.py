"""What a release says of the choice of its keys."""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction
from typing import Any, ClassVar

from beam_dpsketch import _validate
from beam_dpsketch.privacy.contributions import MAX_CONTRIBUTION
from beam_dpsketch.privacy.discrete_gaussian import MAX_SIGMA_SQUARED, MIN_SIGMA_SQUARED
from beam_dpsketch.privacy.key_selection import METHODS

_MAX_VOTES = 1 << 62


@dataclasses.dataclass(frozen=True, kw_only=True)
class KeyNote:
    """How the keys of a release were chosen; all of it is known without the data.

    Attributes:
      method: "gaussian" or "table".
      max_keys: for how many keys one unit votes.
      min_units: how many units must vote for a key.
      grid: what one vote counts of a unit with a single key.
      sigma_squared: the noise parameter of the votes; of a table, that of noise which costs the same.
      threshold: from how many votes on a key is released, after the noise; of a table, for certain.
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
        if not MIN_SIGMA_SQUARED <= self.sigma_squared <= MAX_SIGMA_SQUARED or not 0 <= self.share <= 1:
            raise ValueError("sigma_squared must be at least 1/4 and at most 2**100, and share between 0 and 1")

    def __str__(self) -> str:
        alone, spread = self._units(self.grid), self.max_keys
        weight = max(1, math.isqrt(self.grid**2 // spread))
        words = f"a key with {alone[0]:,} units that vote for no other key"
        if spread > 1:
            many = self._units(weight)
            words += f", or with {many[0]:,} that vote for {spread} keys each,"
            return f"{words} is released with probability 1/2 (99 % from {alone[1]:,} or {many[1]:,} on)"
        return f"{words} is released with probability 1/2 (99 % from {alone[1]:,} on)"

    def as_dict(self) -> dict[str, Any]:
        """Return the note as plain Python values."""
        return {
            **{name: getattr(self, name) for name in ("method", "max_keys", "min_units", "grid", "threshold")},
            "sigma_squared": float(self.sigma_squared),
            "share_of_rho": float(self.share),
        }

    def _units(self, weight: int) -> tuple[int, int]:
        """Return how many units with votes of this weight bring a key to `half` and to `most`."""
        return -(-self.half // weight), -(-self.most // weight)
