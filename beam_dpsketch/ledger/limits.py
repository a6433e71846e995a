"""Limit on the total loss of an account: (epsilon, delta), a pure epsilon, or rho."""

from __future__ import annotations

import bisect
import dataclasses
import itertools
import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from beam_dpsketch import checks as _validate
from beam_dpsketch.errors import ArgumentError
from beam_dpsketch.privacy.loss.composition import Loss
from beam_dpsketch.words import float_above, round_down, round_up

_DIGITS, _STEPS, _MOST = 4, 48, 1_000_000
MAX_COUNT = 1000
"""Largest number of releases that `LossLimit.count` counts."""


@dataclasses.dataclass(frozen=True)
class LossLimit:
    """Largest total loss of an account's releases, added up by `privacy.loss.composition`.

    Args:
      rho: limit on zero-concentrated differential privacy, which Gaussian noise spends and which adds up.
      epsilon: in place of rho. With delta, all kinds of noise may be spent. Without delta, only pure releases.
      delta: between 0 and 1. Next to rho it limits the delta of key and item selection. Without it, their delta must be
        0.

    Arguments are keyword-only. Each is a fraction, or a float that means its decimal spelling.

    Adaptive analysts: epsilon with delta trades rho, the epsilon of pure releases and the delta of keys for each other.
    This limit is therefore proven if the kind and the loss of a release do not depend on earlier answers. Choosing them
    from earlier answers can lose more. With rho, or with epsilon alone, each amount has a separate cap. These limits
    remain valid under such choices (Whitehouse et al. 2023, arXiv:2203.05481). The questions may depend on earlier
    answers under each limit.

    >>> LossLimit(epsilon=1, delta=1e-6).holds(Loss(Fraction(1, 50)))
    True
    >>> LossLimit(epsilon=1).holds(Loss(Fraction(1, 50)))
    False
    """

    rho: Fraction | None
    epsilon: Fraction | None
    delta: Fraction

    @_validate.by_keyword("$loss")
    def __init__(
        self,
        *,
        rho: Fraction | float | None = None,
        epsilon: Fraction | float | None = None,
        delta: Fraction | float | None = None,
    ) -> None:
        if (rho is None) == (epsilon is None):
            raise ArgumentError("limit", "must be either rho or epsilon. Set $loss", "E133")
        if delta is not None:
            _validate.open_unit_interval(delta=delta)
        object.__setattr__(self, "rho", None if rho is None else _validate.exact(rho=rho))
        object.__setattr__(self, "epsilon", None if epsilon is None else _validate.exact(epsilon=epsilon))
        if max(self.rho or 0, self.epsilon or 0) > _MOST:
            raise ArgumentError("limit", f"must be at most {_MOST:,}. A larger limit gives no protection", "E133")
        object.__setattr__(self, "delta", Fraction(0) if delta is None else _decimal_below(delta))

    def holds(self, loss: Loss) -> bool:
        """Whether this total loss is within the limit."""
        if self.rho is not None:
            return loss.rho <= self.rho and loss.delta <= self.delta
        assert self.epsilon is not None
        if not self.delta:
            return loss.pure <= self.epsilon and not loss.delta and loss.rho == loss.pure_rho
        epsilon = loss.least_epsilon(float(self.delta))
        return not math.isinf(epsilon) and Fraction(repr(epsilon)) <= self.epsilon

    def advice(self, loss: Loss, later: str = "") -> str:
        """Format advice for a refused loss."""
        if self.rho is None and not self.delta and (loss.delta or loss.rho != loss.pure_rho):
            return (
                "This account accepts only pure releases, with Laplace noise and without key or item selection. Use an "
                "account whose limit has a delta"
            )
        return f"Spend less on this release{later}"

    def share(self, loss: Loss) -> float:
        """Compute the spent fraction of the limit: 1 at the limit, and more above it."""
        if self.rho is not None:
            of_delta = loss.delta / self.delta if self.delta else Fraction(int(loss.delta > 0) * 2)
            return float(max(loss.rho / self.rho, of_delta))
        assert self.epsilon is not None
        if self.delta:
            return loss.least_epsilon(float(self.delta)) / float(self.epsilon)
        return float(loss.pure / self.epsilon) if self.holds(loss) else math.inf

    def left(self, loss: Loss) -> Loss:
        """Compute the largest loss of another release, rounded down: pure under a pure limit, otherwise Gaussian."""
        if self.rho is not None:
            return Loss(max(self.rho - loss.rho, Fraction(0)))
        assert self.epsilon is not None
        if not self.delta:
            return Loss.of_pure(max(self.epsilon - loss.pure, Fraction(0)))
        low, high = Fraction(0), self.epsilon
        while self.holds(loss.plus(Loss(high))):
            high *= 2
        for _ in range(_STEPS):
            middle = (low + high) / 2
            low, high = (middle, high) if self.holds(loss.plus(Loss(middle))) else (low, middle)
        return Loss(low)

    def count(self, spent: Loss, loss: Loss) -> int:
        """Count the further releases with this loss that the limit allows, up to `MAX_COUNT`."""
        _, *totals = itertools.accumulate(itertools.repeat(loss, MAX_COUNT), Loss.plus, initial=spent)
        return bisect.bisect_left(totals, True, key=lambda total: not self.holds(total))

    def words(self, loss: Loss | None = None) -> str:
        """Format the limit, or a loss in its units, rounded up to a few digits.

        Next to a limit with a delta, a pure loss keeps its own delta, unless the limit's delta lowers its epsilon.
        """
        if self.rho is not None:
            rho, delta = (self.rho, self.delta) if loss is None else (loss.rho, loss.delta)
            return f"rho = {_shown(rho)}" + (f" and delta = {_shown(delta)} for keys" if delta else "")
        if self.delta:
            epsilon = self.epsilon if loss is None else loss.least_epsilon(float(self.delta))
            is_pure = loss is not None and loss.is_pure and epsilon == float_above(loss.pure)
            delta = loss.delta if loss is not None and is_pure else self.delta
            return f"epsilon = {_shown(epsilon)} at delta = {_shown(delta)}"
        if loss is not None and (loss.rho != loss.pure_rho or loss.delta):
            return f"rho = {_shown(loss.rho)} and delta = {_shown(loss.delta)}, which have no epsilon without a delta"
        return f"epsilon = {_shown(self.epsilon if loss is None else loss.pure)}"

    def left_words(self, spent: Loss) -> str:
        """Format the remaining loss for another release, rounded down to a few digits."""
        left = self.left(spent)
        if self.rho is not None:
            keys = max(self.delta - spent.delta, Fraction(0)) / (1 - spent.delta)
            return f"rho = {_floored(left.rho)}" + (f" and delta = {_floored(keys)} for keys" if self.delta else "")
        if not self.delta:
            return f"epsilon = {_floored(left.pure)}"
        epsilon = left.least_epsilon(float(self.delta)) if left.rho else 0.0
        return f"epsilon = {_floored(epsilon)} at delta = {_shown(self.delta)}"

    def as_dict(self) -> dict[str, str]:
        """Convert the limit to plain values, exact."""
        given = {"rho": self.rho, "epsilon": self.epsilon, "delta": self.delta}
        return {name: str(value) for name, value in given.items() if value}


def read_limit(written: Mapping[str, Any]) -> LossLimit:
    """Restore a limit from `as_dict`, or raise `ValueError`, `TypeError` or `AttributeError`."""
    return LossLimit(**{name: Fraction(value) for name, value in written.items()})


def _shown(value: Any) -> str:
    return f"{round_up(value, _DIGITS):g}" if value and not math.isinf(value) else f"{float(value or 0):g}"


def _floored(value: Fraction | float) -> str:
    return f"{round_down(value, _DIGITS):g}"


def _decimal_below(delta: Fraction | float) -> Fraction:
    """Compute the largest decimal spelling of a float that does not exceed delta."""
    exact = delta if isinstance(delta, Fraction) else Fraction(repr(float(delta)))
    nearest = float(exact)
    found = Fraction(repr(nearest))
    return found if found <= exact else Fraction(repr(math.nextafter(nearest, 0.0)))
