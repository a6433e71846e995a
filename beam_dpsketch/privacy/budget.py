"""How much privacy a release may spend.

rho (zero-concentrated differential privacy) is what is spent and adds up; (epsilon, delta) is derived from it. rho
is an exact fraction, so parts of a budget sum to the whole and not to a little more. A part of a budget pays for one
release: a second use of it is refused. Releases that select their keys spend a delta too (`KeySelection`).
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable
from fractions import Fraction
from typing import Any, ClassVar

from beam_dpsketch import _validate
from beam_dpsketch._showing import round_up
from beam_dpsketch.errors import ArgumentError, BudgetExceededError
from beam_dpsketch.privacy.aside.side_counters import SideCounters
from beam_dpsketch.privacy.contributions import NeighboringRelation
from beam_dpsketch.privacy.loss import gaussian_curve, zcdp
from beam_dpsketch.privacy.loss.composition import Loss, left_of_delta

USUAL_DELTA = 1e-6


@dataclasses.dataclass(frozen=True)
class PrivacySpec:
    """The privacy loss one release may cause, under a neighbouring relation.

    Guarantee: the release is rho-zCDP by Gaussian noise, and so (epsilon, delta)-DP with epsilon = `epsilon(delta)` for
    every delta. With a `KeySelection` it is delta-approximate rho-zCDP, and with `method="table"` not all noise is
    Gaussian; then too epsilon and delta, where they are given, hold for all of it.
    A spec that was taken from a budget pays for one release of this process; uses of pickled copies are not counted.
    Each run of a pipeline is another release. With a spec from a budget, `Pipeline.run` refuses the second run of one
    pipeline object, unless its noise is idempotent. Runs of a template, a notebook or a service are not seen, and nor
    are runs with a spec from no budget: pay for each. What they release says so, and rho adds when it is combined.

    Args are given by name: `PrivacySpec(2)` is refused, because it does not say whether 2 is epsilon or rho.

    Args:
      rho: finite and above 0; a float means its decimal spelling, so 0.1 is 1/10 exactly.
      epsilon: instead of rho; takes the largest rho whose Gaussian noise is (epsilon, delta)-DP, rounded down.
      delta: between 0 and 1; needed with epsilon. With rho it only chooses where statements show epsilon.
      relation: `ADD_OR_REMOVE_ONE`, or `REPLACE_ONE`, which doubles the noise of CountSketch.
      side_counters: which parts of rho pay for counting units, records and weight, and what a norm takes away; `None`
        leaves these counts out, and gives all of rho to the sketch.

    >>> PrivacySpec(rho=0.1).rho
    Fraction(1, 10)
    >>> float(round(PrivacySpec(epsilon=1, delta=1e-6).rho, 4))
    0.028
    """

    rho: Fraction
    relation: NeighboringRelation
    shown_delta: float
    side_counters: SideCounters | None
    given_epsilon: float | None = dataclasses.field(compare=False, repr=False)
    is_of_epsilon: bool = dataclasses.field(compare=False, repr=False)

    _purpose: ClassVar[_Purpose | None] = None  # a part of a budget has one of its own

    @_validate.by_keyword("rho=..., or epsilon=..., delta=...")
    def __init__(
        self,
        *,
        rho: Fraction | float | None = None,
        epsilon: float | None = None,
        delta: float | None = None,
        relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE,
        side_counters: SideCounters | None = SideCounters(),  # noqa: B008
    ) -> None:
        _validate.instance(NeighboringRelation, relation=relation)
        if side_counters is not None:
            _validate.instance(SideCounters, side_counters=side_counters)
        if (rho is None) == (epsilon is None):
            raise ArgumentError(
                "", "exactly one of rho and epsilon must be given: PrivacySpec(rho=0.1), or epsilon and delta", "E101"
            )
        if epsilon is not None:
            if delta is None:
                raise ArgumentError(
                    "delta", "must be given with epsilon, as in PrivacySpec(epsilon=1, delta=1e-6)", "E102"
                )
            _validate.open_unit_interval(delta=delta)
            rho = Fraction(gaussian_curve.rho(epsilon=epsilon, delta=left_of_delta(delta, Fraction(0))))
        delta = USUAL_DELTA if delta is None else delta
        _validate.open_unit_interval(delta=delta)
        object.__setattr__(self, "rho", _validate.exact(rho=rho))
        object.__setattr__(self, "relation", relation)
        object.__setattr__(self, "shown_delta", float(delta))
        object.__setattr__(self, "side_counters", side_counters)
        object.__setattr__(self, "given_epsilon", epsilon)
        object.__setattr__(self, "is_of_epsilon", epsilon is not None)

    def epsilon(self, delta: float) -> float:
        """Return the epsilon of Gaussian noise at this delta, rounded up."""
        return Loss(self.rho).epsilon(delta)

    def losing(self, delta: Fraction, *, is_gaussian: bool = True) -> PrivacySpec:
        """Return the spec of a release that loses this delta to `KeySelection`.

        Epsilon and delta, where they were given, stay a promise for all of it, so rho shrinks. A given rho stays.

        Args:
          delta: above 0, and below the delta that was given.
          is_gaussian: whether all noise of the release is Gaussian: a table of probabilities is not, and epsilon needs
            a smaller rho. Parts of an epsilon are for Gaussian noise alone.
        """
        left = left_of_delta(self.shown_delta, delta)
        if not is_gaussian and self.is_of_epsilon and self.given_epsilon is None:
            raise ArgumentError(
                "method",
                'must be "gaussian" where a part of an epsilon pays, because its rho is that of Gaussian noise; share '
                "out rho, or give this release an epsilon of its own",
                "E119",
            )
        if self.given_epsilon is None:
            return self
        curve = gaussian_curve if is_gaussian else zcdp
        return self._changed(self._with(rho=Fraction(curve.rho(epsilon=self.given_epsilon, delta=left))))

    def paying_for(self, release: Any, delta: Fraction = Fraction(0)) -> PrivacySpec:
        """Return the spec of a release, without its budget; raise if a part of a budget has paid for another release.

        Args:
          release: names it; equal names are one release.
          delta: what it loses to `KeySelection`, which the budget must have.
        """
        if self._purpose is not None:
            self._purpose.settle(release, delta)
        return self.without_budget()

    @property
    def is_of_budget(self) -> bool:
        """Whether it was taken from a budget."""
        return self._purpose is not None

    def without_budget(self) -> PrivacySpec:
        """Return an equal spec that pays for nothing: for releases of made-up data, which cost nothing."""
        return self._with()

    def without_side_counters(self) -> PrivacySpec:
        """Return the same spec, of the same budget, for a release that counts nothing aside."""
        return self._changed(self._with(side_counters=None))

    def _with(self, **changes: Any) -> PrivacySpec:
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return _unpickled(*{**fields, **changes}.values())

    def part(self, rho: Fraction, take_delta: Callable[[Fraction], None]) -> PrivacySpec:
        """Return a part of this budget, which pays for one release; that takes its delta from the budget."""
        spent = self._with(rho=rho, given_epsilon=None)
        object.__setattr__(spent, "_purpose", _Purpose(take_delta))
        return spent

    def share(self, share: Fraction, side_counters: SideCounters | None) -> PrivacySpec:
        """Return a share of what this may spend, for a release of its own; nobody counts the shares."""
        return self._with(rho=self.rho * share, given_epsilon=None, side_counters=side_counters)

    def _changed(self, changed: PrivacySpec) -> PrivacySpec:
        object.__setattr__(changed, "_purpose", self._purpose)
        return changed

    def __repr__(self) -> str:
        loss = loss_in_words(self.rho, self.epsilon(self.shown_delta), self.shown_delta)
        return f"<PrivacySpec of {loss}, {self.relation.name}>"

    def __copy__(self) -> PrivacySpec:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> PrivacySpec:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickled, tuple(getattr(self, field.name) for field in dataclasses.fields(self))


def _unpickled(
    rho: Fraction,
    relation: NeighboringRelation,
    delta: float,
    side_counters: SideCounters | None,
    given_epsilon: float | None,
    is_of_epsilon: bool,
) -> PrivacySpec:
    spec = PrivacySpec(rho=rho, delta=delta, relation=relation, side_counters=side_counters)
    object.__setattr__(spec, "given_epsilon", given_epsilon)
    object.__setattr__(spec, "is_of_epsilon", is_of_epsilon)
    return spec


class _Purpose:
    """The one release that a part of a budget pays for."""

    def __init__(self, take_delta: Callable[[Fraction], None]) -> None:
        self._take_delta = take_delta
        self._lock = threading.Lock()
        self._release: Any = None

    def settle(self, release: Any, delta: Fraction) -> None:
        """Name the release, and take its delta; refuse a second one."""
        with self._lock:
            if self._release is None:
                self._take_delta(delta)
                self._release = release
            elif self._release != release:
                raise BudgetExceededError(
                    "",
                    "this PrivacySpec was taken from a budget and has paid for another release already; take one for "
                    "each transform: budget.spend(...)",
                    "E105",
                )


def loss_in_words(rho: Fraction, epsilon: float, delta: float) -> str:
    """Return a loss in a few digits, rounded up."""
    return f"epsilon = {round_up(epsilon, 4):g} at delta = {delta:g}, rho = {round_up(rho, 6):g}"
