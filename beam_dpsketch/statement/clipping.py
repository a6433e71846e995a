"""Clipping: the share of the total that contribution bounds removed, and the accuracy of this estimate.

Every answer has a `Clipping` in exactly one of five states. The states do not depend on the estimator.
"""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Iterable, Iterator
from typing import Any

from beam_dpsketch.statement.showing import finite, shown
from beam_dpsketch.words import round_down, round_up

_DETECTED = 0.005
_MOST_RATIO, _MOST_WIDTH = 3, 0.2  # of the ends of a range with a point estimate
COLUMNS = ("clipping", "clipped", "clipped_at_least", "clipped_upper_estimate")


class ClippingState(enum.Enum):
    """States of the clipping estimate, from most to least informative."""

    CANNOT_HAPPEN = "cannot happen"
    ESTIMATED = "estimated"
    LOWER_BOUND = "lower bound"
    NOT_DETECTED = "not detected"
    NOT_MEASURED = "not measured"

    def weaker(self, *others: ClippingState) -> ClippingState:
        """Find the weakest state."""
        return max(self, *others, key=[*ClippingState].index)


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class Clipping:
    """Share of the total that contribution bounds removed, with the state of its estimate. `print` it.

    Attributes:
      state: how much is known.
      estimate: the estimated share, 0 to 1, from a model for heavy units. NaN without an estimate, also if only the
        range is known (`is_wide`), and 0 if clipping cannot happen.
      at_least: a lower bound for the share. At the default confidence it is valid with 97.5 % probability, if no unit
        exceeds `assumed_cap` after clipping. NaN if clipping is not measured.
      upper_estimate: the upper end of the estimated range, if the heaviest units follow the trend of the others.
      weight: the estimated removed records or weight, from the same model. NaN if `estimate` is, and if clipping
        cannot happen.
      at_least_weight: a lower bound for the removed weight, without assumptions.
      upper_weight: the upper end of its estimated range.
      assumed_cap: the largest contribution after clipping for which the shares are valid. Infinite if they need no
        assumption. `weight` and its ends need no such assumption.
      clipped_units: the noisy number of units clipped by `least_loss` or more. NaN without a histogram.
      most_clipped_units: an upper bound for this number, with the probability of `at_least`.
      least_loss: the smallest clipping per unit that is counted.
      most_units: whether more than half the units were clipped.
      total: the total, in words.
      units: the privacy units, in words.
      uncounted: records that the settings drop before any count, in words. No number here includes them.
      clamps: whether values outside the value range count at its ends. No number here includes them.
      limit: an unmeasured limit that may clip, in words.
    """

    state: ClippingState = ClippingState.NOT_MEASURED
    estimate: float = math.nan
    at_least: float = math.nan
    upper_estimate: float = math.nan
    weight: float = math.nan
    at_least_weight: float = 0.0
    upper_weight: float = math.nan
    assumed_cap: float = math.inf
    clipped_units: float = math.nan
    most_clipped_units: float = math.nan
    least_loss: float = 0.0
    most_units: bool = False
    total: str = "total count"
    units: str = "privacy ids"
    uncounted: tuple[str, ...] = ()
    clamps: bool = False
    limit: str = ""

    def limited_to(self, state: ClippingState) -> Clipping:
        """Weaken to a state, and drop the numbers that it lacks. A lower bound near 0 becomes NOT_DETECTED."""
        state = state.weaker(self.state)
        if state is ClippingState.LOWER_BOUND and not self._is_detected:
            state = ClippingState.NOT_DETECTED
        if state is ClippingState.NOT_MEASURED:
            return Clipping(total=self.total, units=self.units, uncounted=self.uncounted, clamps=self.clamps)
        if state is self.state:
            return self
        unknown: dict[str, Any] = dict.fromkeys(("estimate", "upper_estimate", "weight", "upper_weight"), math.nan)
        return dataclasses.replace(self, state=state, **unknown)

    @property
    def can_happen(self) -> bool:
        """Whether answers may describe less than the full contributions."""
        return self.state is not ClippingState.CANNOT_HAPPEN

    @property
    def sentence(self) -> str:
        """State and uncounted records, in sentences."""
        first, *others = self._clauses()
        return " ".join([f"{first}.", *(f"{each[0].upper()}{each[1:]}." for each in others)])

    @property
    def clauses(self) -> str:
        """State and uncounted records, as clauses in a line."""
        return "; ".join(self._clauses())

    def _clauses(self) -> Iterator[str]:
        yield self._known
        if self.can_happen:
            yield "intervals do not include it"
        if self.limit:
            yield self.limit
        if self.most_units:
            yield f"more than half of all {self.units} were clipped"
            yield "use a larger bound; noise grows in proportion"
        if self.uncounted:
            dropped = " and ".join(filter(None, (", ".join(self.uncounted[:-1]), self.uncounted[-1])))
            yield f"{dropped} are not counted, and not measured"
        if self.clamps:
            yield "values outside the value range are clamped, and not measured"

    @property
    def _known(self) -> str:
        if self.state is ClippingState.NOT_MEASURED:
            return "not measured in this release"
        share, weight = _percent(round_down(self.at_least, 2)), _least(self.at_least_weight)
        least = f"at least {share if math.isinf(self.assumed_cap) else weight} of the {self.total} was removed"
        match self.state:
            case ClippingState.CANNOT_HAPPEN:
                return f"none; every {'counted ' * bool(self.uncounted)}{self.units[:-1]} counts in full"
            case ClippingState.ESTIMATED:
                upper = _percent(round_up(self.upper_estimate, 2))
                if math.isnan(self.estimate):
                    return f"between {share} and {upper} of the {self.total} was removed (estimated)"
                about = f"about {_percent(float(f'{self.estimate:.2g}'))} of the {self.total} was removed"
                return f"{about} (estimated range {share} to {upper})"
            case ClippingState.LOWER_BOUND:
                return f"{least}, possibly much more"
        if self._is_detected:
            return f"{least}, and in a part of it no clipping was detected"
        few = f"clipping of a few {self.units} may not show"
        if not math.isnan(self.most_clipped_units):
            loss = f"{'a weight of ' * ('weight' in self.total)}{_least(self.least_loss)} or more"
            few = f"up to {self._most_clipped} may be clipped by {loss}{' records' * ('weight' not in self.total)} each"
        return f"not detected ({few}; their total loss is not bounded)"

    @property
    def _most_clipped(self) -> str:
        """Upper bound for the number of clipped units."""
        return f"{round_up(self.most_clipped_units, 2):,.0f} {self.units}"

    @property
    def assumption(self) -> str:
        """Bounds with 97.5 % confidence and the assumptions of other numbers. Empty without numbers."""
        return "; ".join(self._assumptions())

    def _assumptions(self) -> Iterator[str]:
        if self.state in (ClippingState.CANNOT_HAPPEN, ClippingState.NOT_MEASURED):
            return
        if self.at_least_weight > 0:
            yield f"at least {_least(self.at_least_weight)} was removed, with 97.5 % confidence"
            if not math.isinf(self.assumed_cap):
                yield (
                    f"as a share, that assumes that no {self.units[:-1]} contributes more than "
                    f"{shown(self.assumed_cap)} after clipping"
                )
        if self.state is ClippingState.ESTIMATED:
            assume = "the upper end assumes" if math.isnan(self.estimate) else "the estimate and the upper end assume"
            yield f"{assume} that the largest contributions follow the trend of the others"
        if not math.isnan(self.most_clipped_units):
            least = shown(self.least_loss)
            by = f"a weight of {least}" if "weight" in self.total else f"{least} record{'s' * (self.least_loss != 1)}"
            yield f"at most {self._most_clipped} were clipped by {by} or more, with 97.5 % confidence"

    def as_dict(self) -> dict[str, Any]:
        """State, share with its ends (`None` if unknown) and sentence, for JSON."""
        shares = {name: finite(getattr(self, name)) for name in ("estimate", "at_least", "upper_estimate")}
        return {"state": self.state.value, **shares, "sentence": self.sentence}

    def columns(self) -> dict[str, Any]:
        """State and share with its ends, as table columns."""
        return dict(zip(COLUMNS, self.as_dict().values(), strict=False))

    def __eq__(self, other: object) -> bool:
        """Compare all fields. Unknown numbers (NaN) are equal, also in Python 3.13."""
        return isinstance(other, Clipping) and self._compared == other._compared

    def __hash__(self) -> int:
        return hash(self._compared)

    @property
    def _compared(self) -> tuple[Any, ...]:
        return tuple(None if value != value else value for value in vars(self).values())

    def __str__(self) -> str:
        return f"Clipping: {self.sentence}"

    def __repr__(self) -> str:
        return f"<{self}>"

    @property
    def _is_detected(self) -> bool:
        return self.at_least >= _DETECTED or self.most_units


def is_wide(at_least: float, upper: float) -> bool:
    """Whether a range of shares is too wide for a point estimate: over 3 times and over 20 percentage points."""
    return upper > _MOST_RATIO * at_least and upper - at_least > _MOST_WIDTH


def weakest(found: Iterable[Clipping]) -> Clipping:
    """Find the clipping in the weakest state, and among equal states the largest share."""
    order = [*ClippingState]
    return max(found, key=lambda each: (order.index(each.state), each.at_least))


def in_one_line(found: Iterable[Clipping]) -> str:
    """Summarize the clipping of several answers in a line."""
    found = [*found]
    others = f" This is the weakest state of {len(found)} answers." if len({*map(str, found)}) > 1 else ""
    return f"{weakest(found)}{others}"


def _least(weight: float) -> str:
    return shown(round_down(weight, 4 if weight >= 1000 else 3))


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"
