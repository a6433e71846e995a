"""How much privacy a release may spend, and the ledger of a pipeline that makes several.

rho (zero-concentrated differential privacy) is what is spent and adds up; (epsilon, delta) is derived from it. rho
is an exact fraction, so parts of a budget sum to the whole and not to a little more. A part of a budget pays for one
release: a second use of it is refused. Releases that select their keys spend a delta too (`KeySelection`).
"""

from __future__ import annotations

import dataclasses
import threading
from fractions import Fraction
from typing import Any, ClassVar, NoReturn

from beam_dpsketch import _validate
from beam_dpsketch.errors import ArgumentError, BudgetExceededError
from beam_dpsketch.privacy import zcdp
from beam_dpsketch.privacy.contributions import NeighboringRelation
from beam_dpsketch.privacy.side_counters import SideCounters

USUAL_DELTA = 1e-6


@dataclasses.dataclass(frozen=True)
class PrivacySpec:
    """The privacy loss one release may cause, under a neighbouring relation.

    Guarantee: the release is rho-zCDP, and so (epsilon, delta)-DP with epsilon = `epsilon(delta)` for every delta. With
    a `KeySelection` it is delta-approximate rho-zCDP; then epsilon and delta, where they are given, hold for all of it.
    A spec that was taken from a budget pays for one release of this process; uses of pickled copies are not counted.
    Each run of a pipeline is another release. With a spec from a budget, `Pipeline.run` refuses the second run of one
    pipeline object, unless its noise is idempotent. Runs of a template, a notebook or a service are not seen, and nor
    are runs with a spec from no budget: pay for each. What they release says so, and rho adds when it is combined.

    Args:
      rho: finite and above 0; a float means its decimal spelling, so 0.1 is 1/10 exactly.
      epsilon: instead of rho; takes the largest rho that is (epsilon, delta)-DP by the tight conversion, rounded down.
      delta: between 0 and 1; needed with epsilon. With rho it only chooses where statements show epsilon.
      relation: `ADD_OR_REMOVE_ONE`, or `REPLACE_ONE`, which doubles the noise of CountSketch.
      side_counters: which parts of rho pay for counting units, records and weight, and what a norm takes away; `None`
        leaves these counts out, and gives all of rho to the sketch.

    >>> PrivacySpec(rho=0.1).rho
    Fraction(1, 10)
    >>> float(round(PrivacySpec(epsilon=1, delta=1e-6).rho, 4))
    0.0244
    """

    rho: Fraction
    relation: NeighboringRelation
    shown_delta: float
    side_counters: SideCounters | None
    given_epsilon: float | None = dataclasses.field(compare=False, repr=False)

    _purpose: ClassVar[_Purpose | None] = None  # a part of a budget has one of its own

    def __init__(
        self,
        rho: Fraction | float | None = None,
        *,
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
            rho = Fraction(zcdp.rho(epsilon=epsilon, delta=delta))
        delta = USUAL_DELTA if delta is None else delta
        _validate.open_unit_interval(delta=delta)
        object.__setattr__(self, "rho", _validate.exact(rho=rho))
        object.__setattr__(self, "relation", relation)
        object.__setattr__(self, "shown_delta", float(delta))
        object.__setattr__(self, "side_counters", side_counters)
        object.__setattr__(self, "given_epsilon", epsilon)

    def epsilon(self, delta: float) -> float:
        """Return the epsilon at this delta, rounded up."""
        return zcdp.epsilon(rho=self.rho, delta=delta)

    def losing(self, delta: Fraction) -> PrivacySpec:
        """Return the spec of a release that loses this delta to `KeySelection`.

        Epsilon and delta, where they were given, stay a promise for all of it, so rho shrinks. A given rho stays.
        """
        left = zcdp.left_of_delta(self.shown_delta, delta)
        if self.given_epsilon is None:
            return self
        return self._changed(self._with(rho=Fraction(zcdp.rho(epsilon=self.given_epsilon, delta=left))))

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

    def _changed(self, changed: PrivacySpec) -> PrivacySpec:
        object.__setattr__(changed, "_purpose", self._purpose)
        return changed

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
) -> PrivacySpec:
    spec = PrivacySpec(rho, delta=delta, relation=relation, side_counters=side_counters)
    object.__setattr__(spec, "given_epsilon", given_epsilon)
    return spec


class _Purpose:
    """The one release that a part of a budget pays for."""

    def __init__(self, budget: PrivacyBudget) -> None:
        self._budget = budget
        self._lock = threading.Lock()
        self._release: Any = None

    def settle(self, release: Any, delta: Fraction) -> None:
        """Name the release, and take its delta; refuse a second one."""
        with self._lock:
            if self._release is None:
                self._budget._take_delta(delta)
                self._release = release
            elif self._release != release:
                raise BudgetExceededError(
                    "",
                    "this PrivacySpec was taken from a budget and has paid for another release already; take one for "
                    "each transform: budget.spend(...)",
                    "E105",
                )


class PrivacyBudget:
    """The rho of one run of one pipeline, spent while the pipeline is built; it can be neither copied nor pickled.

    A template that runs every day needs a budget for every day, which the code that starts it must keep.

    Takes the arguments of `PrivacySpec`, and

      keys_delta: the sum of the deltas of all `KeySelection` and `Groups` that it may pay for. With epsilon and delta,
        it is a part of this delta.

    >>> budget = PrivacyBudget(rho=1.0)
    >>> budget.spend(0.25).rho, budget.remaining
    (Fraction(1, 4), Fraction(3, 4))
    """

    def __init__(
        self,
        rho: Fraction | float | None = None,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE,
        side_counters: SideCounters | None = SideCounters(),  # noqa: B008
        keys_delta: Fraction | float = 0,
    ) -> None:
        total = PrivacySpec(rho, epsilon=epsilon, delta=delta, relation=relation, side_counters=side_counters)
        self._keys_delta = _validate.exact(keys_delta=keys_delta) if keys_delta else Fraction(0)
        self._total = total.losing(self._keys_delta)
        self._remaining = self._total.rho
        self._lock = threading.Lock()

    @property
    def remaining(self) -> Fraction:
        """The rho not yet spent."""
        return self._remaining

    @property
    def remaining_keys_delta(self) -> Fraction:
        """The part of keys_delta not yet spent; a `KeySelection` spends its delta when its transform is applied."""
        return self._keys_delta

    def _take_delta(self, delta: Fraction) -> None:
        with self._lock:
            if delta > self._keys_delta:
                raise BudgetExceededError(
                    "",
                    f"delta={float(delta):g} of $KeySelection or $Groups exceeds the {float(self._keys_delta):g} that "
                    "is left for them in the budget; give PrivacyBudget a larger keys_delta",
                    "E104",
                )
            self._keys_delta -= delta

    def spend(self, rho: Fraction | float) -> PrivacySpec:
        """Take rho out of the budget for one transform; `BudgetExceededError` if less is left."""
        total = self._total
        spent = PrivacySpec(rho, delta=total.shown_delta, relation=total.relation, side_counters=total.side_counters)
        with self._lock:
            if spent.rho > self._remaining:
                raise BudgetExceededError(
                    "",
                    f"rho={float(spent.rho):g} exceeds the {float(self._remaining):g} left of a budget of "
                    f"{float(self._total.rho):g}; spend less in this or an earlier release, or start with a larger "
                    "budget",
                    "E103",
                )
            self._remaining -= spent.rho
        object.__setattr__(spent, "_purpose", _Purpose(self))
        return spent

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a PrivacyBudget can be neither copied nor pickled, because a copy could be spent again; keep it where the "
            "pipeline is built, in a function, and give transforms what spend() returns"
        )

    def __repr__(self) -> str:
        return f"<PrivacyBudget of rho={float(self._total.rho):g}, {float(self._remaining):g} left>"
