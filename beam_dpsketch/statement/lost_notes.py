"""Noisy clipping histogram for a release or a run."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from beam_dpsketch import checks as _validate
from beam_dpsketch.encodings import named
from beam_dpsketch.privacy.noise.drawing import MIN_SIGMA_SQUARED
from beam_dpsketch.privacy.noise.laws import Noise
from beam_dpsketch.privacy.summary_counts import least_losses
from beam_dpsketch.statement.summary_notes import MAX_DENOMINATOR, MAX_STATED_VARIANCE, MAX_VALUE, SummaryNote
from beam_dpsketch.words import shown_plainly

MAX_BINS, _FURTHEST = 64, 20
_ROUNDED = Fraction(1, 12)  # variance added by rounding to integers


@shown_plainly
@named("LostNote")
@dataclasses.dataclass(frozen=True, kw_only=True)
class LostNote:
    """Clipping histogram for a release or its run, as described in `privacy.summary_counts`.

    Attributes:
      share: its share of rho. A combination has the smaller share.
      noise: noise on each count.
      sigma_squared: noise parameter.
      first: the first bin starts at clipping loss FACTOR**first.
      counts: noisy counts.
      kept: the run's total absolute weight after clipping, or `None` if the histogram belongs to a release.
    """

    share: Fraction
    noise: Noise = Noise.GAUSSIAN
    sigma_squared: Fraction
    first: int
    counts: tuple[int, ...]
    kept: SummaryNote | None = None

    def __post_init__(self) -> None:
        if not 0 < self.share < 1:
            raise ValueError("share must be between 0 and 1")
        if not MIN_SIGMA_SQUARED <= self.sigma_squared <= MAX_STATED_VARIANCE:
            raise ValueError("sigma_squared must be at least 1/256 and at most 2**200")
        self.noise.check(self.sigma_squared)
        if any(each.denominator > MAX_DENOMINATOR for each in (self.share, self.sigma_squared)):
            raise ValueError("share and sigma_squared must be fractions with denominators up to 2**7000")
        if not 2 < len(self.counts) <= MAX_BINS:
            raise ValueError(f"counts must have 3 to {MAX_BINS} entries")
        _validate.whole(low=-_FURTHEST, high=_FURTHEST, first=self.first)
        for count in self.counts:
            _validate.whole(low=-MAX_VALUE, high=MAX_VALUE - 1, counts=count)

    @property
    def of_run(self) -> bool:
        return self.kept is not None

    @property
    def shares(self) -> Fraction:
        """Total share of rho, including `kept`."""
        return self.share + (0 if self.kept is None else self.kept.share)

    @property
    def deviation(self) -> float:
        """Root of the noise parameter, including the variance from rounding a Gaussian to integers."""
        return math.sqrt(self.sigma_squared + (0 if self.noise is Noise.LAPLACE else _ROUNDED))

    @property
    def losses(self) -> np.ndarray:
        """Smallest clipping loss in each bin."""
        return least_losses(self.first, len(self.counts))

    def with_values(self, values: Sequence[int]) -> LostNote:
        """Replace the counts, and `kept` by the last value if the histogram belongs to a run."""
        kept = None if self.kept is None else dataclasses.replace(self.kept, value=values[-1])
        return dataclasses.replace(self, counts=tuple(values[: len(self.counts)]), kept=kept)

    def plus(self, other: LostNote) -> LostNote:
        """Add two histograms."""
        first = min(self.first, other.first)
        bins = max(each.first + len(each.counts) for each in (self, other)) - first
        padded = (((0,) * (each.first - first) + each.counts + (0,) * bins)[:bins] for each in (self, other))
        both = None if self.kept is None or other.kept is None else self.kept.plus(other.kept)
        return LostNote(
            share=min(self.share, other.share),
            noise=self.noise.plus(other.noise),
            sigma_squared=self.sigma_squared + other.sigma_squared,
            first=first,
            counts=tuple(mine + theirs for mine, theirs in zip(*padded, strict=True)),
            kept=both,
        )

    def __str__(self) -> str:
        return f"lost weight (sigma = {math.sqrt(self.sigma_squared):.4g} on each count of units)"

    def as_dict(self) -> dict[str, Any]:
        return {
            "least_losses": self.losses.tolist(),
            "counts": list(self.counts),
            "noise": self.noise.value,
            "sigma_squared": float(self.sigma_squared),
            "share_of_rho": float(self.share),
            "kept": None if self.kept is None else self.kept.as_dict(),
        }


def add_up_lost(
    first: LostNote | None, second: LostNote | None, runs: set[bytes], other_runs: set[bytes]
) -> LostNote | None:
    """Add two histograms. `None` if either is missing, their scopes differ, or their runs overlap only in part."""
    if first is None or second is None or first.of_run is not second.of_run:
        return None
    if not first.of_run or not runs & other_runs:
        return first.plus(second)
    return first if runs == other_runs else None
