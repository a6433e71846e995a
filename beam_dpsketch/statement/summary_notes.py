"""Summary counts in a statement: noisy numbers with their noise and share of rho."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from beam_dpsketch import checks as _validate
from beam_dpsketch.encodings import named
from beam_dpsketch.privacy.noise.drawing import MIN_SIGMA_SQUARED
from beam_dpsketch.privacy.noise.laws import Noise
from beam_dpsketch.privacy.norm.scaling import SCALE_BITS
from beam_dpsketch.privacy.summary_counts import CLIPPED, RECORDS, SCALED, UNITS, WEIGHT
from beam_dpsketch.statement.showing import shown
from beam_dpsketch.statement.tabular import OneAnswer
from beam_dpsketch.words import round_up, shown_plainly

NAMES = (UNITS, RECORDS, WEIGHT, CLIPPED, SCALED)
_WORDS = {  # label, and phrase with a number
    RECORDS: ("records", "{} records"),
    UNITS: ("privacy ids", "{} privacy ids"),
    WEIGHT: ("weight after clipping", "{} in weight after clipping"),
    CLIPPED: ("clipped weight", "{} in clipped weight"),
    SCALED: ("scaled privacy ids", "{} scaled privacy ids"),
}
MAX_VALUE, MAX_STATED_VARIANCE = 1 << 63, 1 << 200
MAX_DENOMINATOR = 1 << 7000  # limit of the format


class _Interval(NamedTuple):
    estimate: Any
    lower: Any
    upper: Any


@shown_plainly
class Interval(OneAnswer, _Interval):
    """An estimate with lower and upper bounds: numbers, or values of the domain for a quantile."""


@shown_plainly
@named("SideNote")
@dataclasses.dataclass(frozen=True, kw_only=True)
class SummaryNote:
    """Summary count in a release, as described in `privacy.summary_counts`.

    Attributes:
      names: counted quantities, from `NAMES`. Several names are equal by definition.
      share: its share of rho, or 1 if it is computed from the counters. A combination has the smaller share.
      squared_limit: K^2, the largest squared L2 norm of a privacy unit's contribution over all keys and windows.
      noise: its noise.
      sigma_squared: noise parameter, exact.
      value: noisy number, in units of 2**-scale_bits.
      scale_bits: its noise resolution. Under a clipping norm, the weight resolution.
    """

    names: tuple[str, ...]
    share: Fraction
    squared_limit: Fraction
    noise: Noise = Noise.GAUSSIAN
    sigma_squared: Fraction
    value: int
    scale_bits: int

    def __post_init__(self) -> None:
        if not self.names or len(set(self.names)) < len(self.names) or not set(self.names) <= set(NAMES):
            raise ValueError(f"names must be different names from {', '.join(NAMES)}")
        if not 0 < self.share <= 1:
            raise ValueError("share must be above 0 and at most 1")
        if not 0 < self.squared_limit <= MAX_STATED_VARIANCE:
            raise ValueError("squared_limit must be above 0 and at most 2**200")
        if not MIN_SIGMA_SQUARED <= self.sigma_squared <= MAX_STATED_VARIANCE:
            raise ValueError("sigma_squared must be at least 1/256 and at most 2**200")
        self.noise.check(self.sigma_squared)
        if any(each.denominator > MAX_DENOMINATOR for each in (self.share, self.squared_limit, self.sigma_squared)):
            raise ValueError("share, squared_limit and sigma_squared must be fractions with denominators up to 2**7000")
        _validate.whole(low=-MAX_VALUE, high=MAX_VALUE - 1, value=self.value)
        _validate.whole(low=0, high=SCALE_BITS, scale_bits=self.scale_bits)

    @classmethod
    def of_sum(
        cls, names: tuple[str, ...], noise: Noise, estimate: float, sigma_squared: float, grid_bits: int | None = None
    ) -> SummaryNote:
        """Describe the sum over a release's counters. The limit for summary counts does not apply.

        Args:
          names: counted quantities.
          noise: noise on each counter.
          estimate: the sum.
          sigma_squared: its noise parameter, in squared records.
          grid_bits: the sum, its noise and margins are multiples of 2**-grid_bits. `None` for a fine grid. A single
            Laplace variable on integers can have half its mass at 0.
        """
        bits = min(max(62 - math.frexp(estimate)[1], 0), SCALE_BITS if grid_bits is None else grid_bits)
        return cls(
            names=names,
            share=Fraction(1),
            squared_limit=Fraction(MAX_STATED_VARIANCE),
            noise=noise.plus(noise),
            sigma_squared=min(max(Fraction(sigma_squared), MIN_SIGMA_SQUARED), Fraction(MAX_STATED_VARIANCE)),
            value=min(max(round(math.ldexp(estimate, bits)), -MAX_VALUE), MAX_VALUE - 1),
            scale_bits=bits,
        )

    @property
    def estimate(self) -> float:
        return self.value / (1 << self.scale_bits)

    def interval(self, confidence: float) -> Interval:
        """Compute the interval that covers noise with this confidence."""
        margin = self.noise.margin(self.sigma_squared, confidence, self.scale_bits)
        return Interval(self.estimate, self.estimate - margin, self.estimate + margin)

    @property
    def may_be_nothing(self) -> bool:
        _, lower, upper = self.interval(0.95)
        return bool(lower <= 0 <= upper)

    @property
    def words(self) -> str:
        """Label for the first applicable quantity. Records that are privacy units are labeled as records."""
        return self._phrases[0]

    @property
    def _phrases(self) -> tuple[str, str]:
        return next(phrases for name, phrases in _WORDS.items() if name in self.names)

    def plus(self, other: SummaryNote) -> SummaryNote:
        """Add two counts. Values wrap around, as counters do."""
        bits = max(self.scale_bits, other.scale_bits)
        total = sum(each.value << (bits - each.scale_bits) for each in (self, other))
        return SummaryNote(
            names=self.names,
            share=min(self.share, other.share),
            squared_limit=max(self.squared_limit, other.squared_limit),
            noise=self.noise.plus(other.noise),
            sigma_squared=self.sigma_squared + other.sigma_squared,
            value=(total + MAX_VALUE) % (2 * MAX_VALUE) - MAX_VALUE,
            scale_bits=bits,
        )

    def __str__(self) -> str:
        return self.as_words()

    def as_words(self, *, at_least: bool = False) -> str:
        """Format the number with its margin, or its lower bound alone."""
        estimate, lower, upper = self.interval(0.95)
        if at_least and lower > 0:
            return f"at least {self._of(shown(lower))}"
        if not self.may_be_nothing:
            return f"about {self._of(shown(estimate))} (±{shown(upper - estimate)})"
        if {CLIPPED, SCALED} & {*self.names}:
            return self.nothing
        return f"{self.words} not distinguishable from 0 (±{shown(upper - estimate)})"

    @property
    def nothing(self) -> str:
        """Upper bound of a number that may be 0, in words."""
        return f"at most {self._of(shown(round_up(max(self.interval(0.95).upper, 0.0), 4)))}"

    def _of(self, number: str) -> str:
        phrase = self._phrases[1].format(number)
        return phrase.removesuffix("s") if number == "1" else phrase

    def as_dict(self) -> dict[str, Any]:
        return {
            "names": list(self.names),
            "estimate": self.estimate,
            "noise": self.noise.value,
            "sigma_squared": float(self.sigma_squared),
            "share_of_rho": float(self.share),
            "limit": math.sqrt(self.squared_limit),
        }


def add_up(first: Sequence[SummaryNote], second: Sequence[SummaryNote]) -> tuple[SummaryNote, ...]:
    """Add two releases' notes, for quantities that both count."""
    others = {note.names: note for note in second}
    return tuple(note.plus(others[note.names]) for note in first if note.names in others)
