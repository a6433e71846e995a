"""Privacy budget that a pipeline divides among its releases. The shares never sum to more than the whole."""

from __future__ import annotations

import threading
from fractions import Fraction
from typing import NamedTuple, NoReturn

from beam_dpsketch import checks as _validate
from beam_dpsketch.errors import ArgumentError, BudgetExceededError
from beam_dpsketch.privacy.budget import PrivacySpec
from beam_dpsketch.privacy.contributions import NeighboringRelation
from beam_dpsketch.privacy.loss.composition import Loss
from beam_dpsketch.privacy.summary_counts import SummaryCounts

_MAX_PARTS = 1 << 20


class Remaining(NamedTuple):
    """Remaining privacy budget.

    Attributes:
      rho: exact, accepted by `spend`, or 0 for a budget with Laplace noise.
      epsilon: loss at `delta` of a release that spends all remaining rho with Gaussian noise, rounded up. These
        epsilons do not add up, but rho does. With Laplace noise, the remaining epsilon, which adds up.
      delta: delta for `epsilon`, or 0 with Laplace noise.
      keys_delta: remaining delta for `KeySelection` and `Thresholding`. They spend it when their transform is applied.
      words: the same amounts in a few digits.
    """

    rho: Fraction
    epsilon: float
    delta: float
    keys_delta: Fraction
    words: str

    def __repr__(self) -> str:
        keys = f", delta = {float(self.keys_delta):g} for keys" if self.keys_delta else ""
        return f"<{self.words}{keys}>"


class PrivacyBudget:
    """Privacy budget for one run of one pipeline, spent while the pipeline is built. It cannot be copied or pickled.

    A template that runs every day needs a new budget every day. The code that starts it must store these budgets.

    The budget is rho, which Gaussian noise spends. With epsilon and no delta, or with noise="laplace", it is epsilon.
    Epsilon gives more accurate answers for few releases with few counters each: noise grows with the inverse of a share
    of epsilon, but only with the inverse root of a share of rho. One budget has one kind of noise, because both
    together would lose more.

    Accepts the arguments of `PrivacySpec`, by keyword, and

      keys_delta: sum of the deltas of all `KeySelection` and `Thresholding` that the budget may pay for. With epsilon
        and delta, it is a part of this delta.

    >>> budget = PrivacyBudget(epsilon=2, delta=1e-6)
    >>> pages, delays = budget.spend(share=0.5), budget.spend(share=1/4)
    >>> budget.remaining
    <epsilon = 0.9431 at delta = 1e-06, rho = 0.0251256>
    >>> [float(each.rho) for each in PrivacyBudget(rho=1).split(4)]
    [0.25, 0.25, 0.25, 0.25]
    >>> [float(each.pure) for each in PrivacyBudget(epsilon=1).split(4)]
    [0.25, 0.25, 0.25, 0.25]
    """

    @_validate.by_keyword("$loss")
    def __init__(
        self,
        *,
        rho: Fraction | float | None = None,
        epsilon: Fraction | float | None = None,
        delta: float | None = None,
        relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE,
        summary_counts: SummaryCounts | None = SummaryCounts(),  # noqa: B008
        noise: str | None = None,
        keys_delta: Fraction | float = 0,
    ) -> None:
        total = PrivacySpec(
            rho=rho, epsilon=epsilon, delta=delta, relation=relation, summary_counts=summary_counts, noise=noise
        )
        self._keys_delta = _validate.exact(keys_delta=keys_delta) if keys_delta else Fraction(0)
        self._total = total.losing(self._keys_delta)
        self._lost = self._keys_delta
        self._remaining = self._total.amount
        self._lock = threading.Lock()

    @property
    def remaining(self) -> Remaining:
        """Unspent budget, as rho and as epsilon. `print` it."""
        left, total = self._remaining, self._total
        if total.currency == "epsilon":
            return Remaining(Fraction(0), float(left), 0.0, self._keys_delta, self._words(left))
        epsilon = Loss(left, self._lost).epsilon(total.reported_delta) if left else 0.0
        return Remaining(left, epsilon, total.reported_delta, self._keys_delta, self._words(left))

    def _words(self, amount: Fraction) -> str:
        return self._total.loss_in_words(amount, self._lost) if amount else f"{self._total.currency} = 0"

    def _take_delta(self, delta: Fraction) -> None:
        with self._lock:
            if delta > self._keys_delta:
                raise BudgetExceededError(
                    "",
                    f"The budget has delta = {float(self._keys_delta):g} left for $KeySelection and $Thresholding; "
                    f"this release needs {float(delta):g}. Use a larger keys_delta in PrivacyBudget",
                    "E104",
                )
            self._keys_delta -= delta

    @_validate.by_keyword("share=... for a share of the whole budget, or rho=...")
    def spend(self, *, rho: Fraction | float | None = None, share: Fraction | float | None = None) -> PrivacySpec:
        """Spend a share of the budget on a transform, or raise `BudgetExceededError` if less is left.

        Args:
          rho: amount, except for budgets with Laplace noise.
          share: in place of rho, fraction of the whole budget, above 0 and at most 1: the `share` of settings. A float
            means the ratio that it stands for: 1/3 is a third, and three of them spend the whole budget.
        """
        if (rho is None) == (share is None):
            raise ArgumentError("", "Set either share or rho, for example spend(share=1/4)", "E115")
        if rho is not None and self._total.currency != "rho":
            raise ArgumentError("rho", "is not supported for a budget with Laplace noise. Use spend(share=1/4)", "E115")
        exact = _validate.exact(rho=rho) if share is None else self._total.amount * _read_share(share)
        with self._lock:
            if exact > self._remaining:
                raise BudgetExceededError(
                    "",
                    f"The budget has {self._total.currency} = {float(self._remaining):g} left of "
                    f"{float(self._total.amount):g}; this release needs {float(exact):g}. Use a smaller share or a "
                    "larger budget",
                    "E103",
                )
            self._remaining -= exact
        return self._total.part(exact, self._take_delta, self._lost)

    def split(self, parts: int) -> tuple[PrivacySpec, ...]:
        """Spend the remaining budget in equal shares, one per transform, or raise `BudgetExceededError`.

        Args:
          parts: number of shares. Together they spend exactly the remaining budget.
        """
        _validate.whole(low=1, high=_MAX_PARTS, parts=parts)
        with self._lock:
            each, self._remaining = self._remaining / int(parts), Fraction(0)
        if not each:
            raise BudgetExceededError("", "This budget is already spent. Split it once, or use another budget", "E103")
        return tuple(self._total.part(each, self._take_delta, self._lost) for _ in range(parts))

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "A PrivacyBudget cannot be copied or pickled, because a copy could be spent again. Keep it in the function "
            "that builds the pipeline, and pass the specs from spend() to transforms"
        )

    def __repr__(self) -> str:
        return f"<PrivacyBudget of {self._words(self._total.amount)}; left: {repr(self.remaining)[1:-1]}>"


def _read_share(share: Fraction | float) -> Fraction:
    ratio = _validate.ratio(share=share)
    if ratio > 1:
        raise ArgumentError("share", f"must be at most 1, got {float(share):g}", "E116")
    return ratio
