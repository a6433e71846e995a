"""What a release says of the weight that bounding took: the noisy histogram, and the share that it shows."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from beam_dpsketch import _validate
from beam_dpsketch._showing import shown_plainly
from beam_dpsketch.privacy.aside import lost_reading as reading
from beam_dpsketch.privacy.noise.drawing import MIN_SIGMA_SQUARED
from beam_dpsketch.privacy.noise.laws import Noise
from beam_dpsketch.statement.showing import shown
from beam_dpsketch.statement.side_notes import MAX_DENOMINATOR, MAX_SIGMA_SQUARED, MAX_VALUE, SideNote

MAX_BINS = 64
LOST_SHOWN = 0.02
"""From which share on a loss is told with each answer."""
_NOT_SHOWN = 0.005
_ROUNDED = Fraction(1, 12)  # what rounding to whole numbers adds to the variance


class Lost(NamedTuple):
    """The share of the weight that bounding took; of the records, where each weighs 1.

    Attributes:
      estimate: the share, 0 to 1, by a model of heavy units; NaN if too few units lost anything.
      at_least: a lower bound that holds with the confidence asked for, over the noise, if no unit keeps more than
        `most_kept`.
      at_most: an upper bound that holds if the heaviest units go on as the others do; NaN without an estimate.
      whole: what it is a share of, in words.
      weight: the weight lost at least, with the confidence asked for. It holds on all data.
      most_kept: how much each unit counts with in what is kept. Where some keep more, all three shares are too high.
    """

    estimate: float
    at_least: float
    at_most: float
    whole: str = "the weight"
    weight: float = 0.0
    most_kept: float = math.inf

    def __str__(self) -> str:
        if not math.isnan(self.estimate):
            return (
                f"about {_percent(self.estimate)} of {self.whole} (at least {self._least_of_it}; "
                f"{_percent(self.at_most)} if the heaviest go on as the others do{self._less})"
            )
        if self.is_unknown:
            return "unknown: no loss shows above the noise, yet a few heavy units may have lost much"
        return f"at least {self._least} of {self.whole}; too few units lost any to say how much more"

    @property
    def _least(self) -> str:
        """What is lost at least on all data: a share, or a weight where the whole has no upper end."""
        return _percent(self.at_least) if math.isinf(self.most_kept) else shown(self.weight)

    @property
    def _least_of_it(self) -> str:
        if math.isinf(self.most_kept):
            return self._least
        return f"{self._least} of {'them' if self.whole.startswith('the records') else 'it'}"

    @property
    def _less(self) -> str:
        return "" if math.isinf(self.most_kept) else f"; less if units keep over {shown(self.most_kept)} each"

    @property
    def is_unknown(self) -> bool:
        """Whether no loss shows above the noise, so that nothing is said of it."""
        return math.isnan(self.estimate) and self.at_least < _NOT_SHOWN

    @property
    def shown(self) -> float:
        """The share as one number: the estimate, or what is lost at least; NaN if it is unknown."""
        if self.is_unknown:
            return math.nan
        return self.at_least if math.isnan(self.estimate) else self.estimate

    def __repr__(self) -> str:
        return f"<Lost to the bounds: {self}>"


@shown_plainly
@dataclasses.dataclass(frozen=True, kw_only=True)
class LostNote:
    """The histogram of lost weight of a release or of its run, which `privacy.aside.lost_histogram` describes.

    Attributes:
      share: its part of rho; of a combination, the smaller one.
      noise: which noise each count has.
      sigma_squared: its parameter.
      counts: the noisy counts.
      kept: the weight kept in the run, without signs; `None` if the histogram is of the release, which counts its own.
    """

    share: Fraction
    noise: Noise = Noise.GAUSSIAN
    sigma_squared: Fraction
    counts: tuple[int, ...]
    kept: SideNote | None = None

    def __post_init__(self) -> None:
        if not 0 < self.share < 1:
            raise ValueError("share must be between 0 and 1")
        if not MIN_SIGMA_SQUARED <= self.sigma_squared <= MAX_SIGMA_SQUARED:
            raise ValueError("sigma_squared must be at least 1/256 and at most 2**200")
        self.noise.check(self.sigma_squared)
        if any(each.denominator > MAX_DENOMINATOR for each in (self.share, self.sigma_squared)):
            raise ValueError("share and sigma_squared must be fractions with denominators up to 2**7000")
        if not 2 < len(self.counts) <= MAX_BINS:
            raise ValueError(f"counts must be 3 to {MAX_BINS}")
        for count in self.counts:
            _validate.whole(low=-MAX_VALUE, high=MAX_VALUE - 1, counts=count)

    @property
    def of_run(self) -> bool:
        return self.kept is not None

    @property
    def shares(self) -> Fraction:
        """The part of rho of all that is counted."""
        return self.share + (0 if self.kept is None else self.kept.share)

    @property
    def _deviation(self) -> float:
        """The root of the parameter of the noise, with that of rounding a Gaussian to whole numbers."""
        return math.sqrt(self.sigma_squared + (0 if self.noise is Noise.LAPLACE else _ROUNDED))

    @property
    def hidden_units(self) -> float:
        """How many units may have lost weight without an estimate of how much."""
        return reading.TOLD * math.sqrt(self.sigma_squared)

    def with_values(self, values: Sequence[int]) -> LostNote:
        """Return the same with these counts, and then the weight kept."""
        kept = None if self.kept is None else dataclasses.replace(self.kept, value=values[-1])
        return dataclasses.replace(self, counts=tuple(values[: len(self.counts)]), kept=kept)

    def read(self, kept: SideNote | None, confidence: float, whole: str, *, is_limited: bool) -> Lost:
        """Return the share lost, of that and of what is kept.

        Args:
          kept: the weight that the release counts, in the place of that of a run.
          confidence: of `at_least`.
          whole: what that is, in words.
          is_limited: whether a unit may keep more than it counts with.
        """
        kept = self.kept or kept
        assert kept is not None
        joint = (1 + confidence) / 2  # each of the two bounds may fail with half the probability
        found = reading.read(np.array(self.counts), self._deviation, joint, self.noise)
        # Both ends of an interval fail with half of what it leaves out, and one of them counts here.
        rest, _, most = kept.interval(confidence)
        at_most = math.nan if math.isinf(found.at_most) else share(found.at_most, rest)
        at_least = share(found.at_least, most)
        most_kept = math.sqrt(kept.squared_limit) if is_limited else math.inf
        return Lost(share(found.estimate, rest), at_least, at_most, whole, found.at_least, most_kept)

    def plus(self, other: LostNote) -> LostNote:
        """Return the histogram of two releases, or of two runs, together."""
        bins = max(len(self.counts), len(other.counts))
        padded = (each.counts + (0,) * (bins - len(each.counts)) for each in (self, other))
        both = None if self.kept is None or other.kept is None else self.kept.plus(other.kept)
        return LostNote(
            share=min(self.share, other.share),
            noise=self.noise.plus(other.noise),
            sigma_squared=self.sigma_squared + other.sigma_squared,
            counts=tuple(mine + theirs for mine, theirs in zip(*padded, strict=True)),
            kept=both,
        )

    def __str__(self) -> str:
        return f"lost weight (sigma = {math.sqrt(self.sigma_squared):.4g} on each count of units)"

    def as_dict(self) -> dict[str, Any]:
        return {
            "counts": list(self.counts),
            "noise": self.noise.value,
            "sigma_squared": float(self.sigma_squared),
            "share_of_rho": float(self.share),
            "kept": None if self.kept is None else self.kept.as_dict(),
        }


def add_up_lost(
    first: LostNote | None, second: LostNote | None, runs: set[bytes], other_runs: set[bytes]
) -> LostNote | None:
    """Return the histogram of two statements together; `None` where they do not tell it alike, or share some runs."""
    if first is None or second is None or first.of_run is not second.of_run:
        return None
    if not first.of_run or not runs & other_runs:
        return first.plus(second)
    return first if runs == other_runs else None


def share(part: float, rest: float) -> float:
    """Return the share of a part in part and rest, where a rest below 0 is noise, and nothing has no part."""
    rest = max(rest, 0.0)
    return 0.0 if part == 0 else part / (part + rest)


def _percent(part: float) -> str:
    return f"{100 * min(part, 0.99):.2g} %"
