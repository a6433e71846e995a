"""How much privacy a release may spend.

rho (zero-concentrated differential privacy) is what Gaussian noise spends, and it adds up; (epsilon, delta) is derived
from it. Laplace noise spends epsilon itself, without a delta. Both are exact fractions, so parts of a budget sum to the
whole and not to a little more. A part of a budget pays for one release: a second use of it is refused. Releases that
select their keys spend a delta too (`KeySelection`).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, ClassVar

from beam_dpsketch import checks as _validate
from beam_dpsketch.encodings import named
from beam_dpsketch.errors import ArgumentError
from beam_dpsketch.privacy.contributions import NeighboringRelation
from beam_dpsketch.privacy.loss import gaussian_curve
from beam_dpsketch.privacy.loss.composition import Loss, left_of_delta
from beam_dpsketch.privacy.loss.payment import OneRelease, Payer, Purpose, Uses
from beam_dpsketch.privacy.mechanism import Spending
from beam_dpsketch.privacy.noise.laws import NOISES, Noise
from beam_dpsketch.privacy.side_counters import SideCounters
from beam_dpsketch.words import round_up

USUAL_DELTA = 1e-6


@named("PrivacySpec")
@dataclasses.dataclass(frozen=True)
class PrivacySpec:
    """The privacy loss one release may cause, under a neighbouring relation.

    Guarantee: by Gaussian noise the release is rho-zCDP, and so (epsilon, delta)-DP with epsilon = `epsilon(delta)` for
    every delta. By Laplace noise it is epsilon-DP: pure, without a delta. With a `KeySelection` it is delta-approximate
    rho-zCDP; then too epsilon and delta, where they are given, hold for all of it. A spec that was taken from a budget
    pays for one release of this process; uses of pickled copies are not counted. Each run of a pipeline is another
    release. With a spec from a budget, `Pipeline.run` refuses the second run of one pipeline object, unless its noise
    is idempotent. Runs of a template, a notebook or a service are not seen, and nor are runs with a spec from no
    budget: pay for each.

    Args are given by name: `PrivacySpec(2)` is refused, because it does not say whether 2 is epsilon or rho.

    Args:
      rho: what the release may spend, above 0, in place of `epsilon`. A float means its decimal spelling, so 0.1 is
        1/10 exactly.
      epsilon: what the release may spend, above 0; without `delta` it is pure, by Laplace noise. Gaussian noise uses
        the largest rho that is (epsilon, delta)-DP, rounded down; Laplace noise is epsilon-DP. A pure epsilon needs
        keys that the data do not choose: it is for frequencies, statistics, quantiles by a histogram, and others whose
        plan says so.
      delta: less than 1 / the number of people, as 1e-6; next to `rho` it says where statements show epsilon. It does
        not change the noise there.
      relation: `ADD_OR_REMOVE_ONE`, or `REPLACE_ONE`, which doubles the noise of CountSketch.
      side_counters: which parts of rho pay for counting units and weight, what the bounds clip, and records if they
        are asked for; `None` leaves these counts out, and gives all of rho to the sketch.
      noise: "gaussian" or "laplace"; without it, what gives the narrower intervals. Public settings alone decide, with
        epsilon and delta, and plan and statement say which it is.

    >>> PrivacySpec(rho=0.1).rho
    Fraction(1, 10)
    >>> float(round(PrivacySpec(epsilon=1, delta=1e-6).rho, 4))
    0.028
    """

    rho: Fraction
    relation: NeighboringRelation
    shown_delta: float
    side_counters: SideCounters | None
    noise: Noise | None
    pure: Fraction | None
    promises_delta: bool
    is_part: bool = dataclasses.field(compare=False, repr=False)

    _uses: ClassVar[Uses | None] = None  # a spec that a caller made has its own
    _purpose: ClassVar[Purpose | None] = None  # what a budget or an account of a ledger pays for has one of its own

    @_validate.by_keyword("$loss")
    def __init__(
        self,
        *,
        rho: Fraction | float | None = None,
        epsilon: Fraction | float | None = None,
        delta: float | None = None,
        relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE,
        side_counters: SideCounters | None = SideCounters(),  # noqa: B008
        noise: str | None = None,
    ) -> None:
        _validate.instance(NeighboringRelation, relation=relation)
        if side_counters is not None:
            _validate.instance(SideCounters, side_counters=side_counters)
        if (rho is None) == (epsilon is None):
            raise ArgumentError("", "exactly one of rho and epsilon must be given: $loss", "E101")
        kind = _read_noise(noise, epsilon, delta)
        pure = None if epsilon is None else _validate.exact(epsilon=epsilon)
        if pure is not None and delta is not None:
            _validate.open_unit_interval(delta=delta)
            rho = Fraction(gaussian_curve.rho(epsilon=_float_below(pure), delta=left_of_delta(delta, Fraction(0))))
        self._set(
            rho=Loss.of_pure(pure).rho if kind is Noise.LAPLACE and pure else _validate.exact(rho=rho),
            relation=relation,
            shown_delta=USUAL_DELTA if delta is None else delta,
            side_counters=side_counters,
            noise=kind,
            pure=pure,
            promises_delta=pure is None or delta is not None,
            is_part=False,
        )
        object.__setattr__(self, "_uses", Uses())

    def _set(self, **fields: Any) -> None:
        _validate.open_unit_interval(delta=fields["shown_delta"])
        for name, value in {**fields, "shown_delta": float(fields["shown_delta"])}.items():
            object.__setattr__(self, name, value)

    @property
    def spending(self) -> Spending:
        """What noise spends; of a noise that is not decided, as a Gaussian."""
        return Spending(self.rho, self.pure if self.noise is Noise.LAPLACE else None)

    def loss(self, delta: Fraction = Fraction(0)) -> Loss:
        """Return the loss of a release that loses this delta to the choice of keys or items."""
        pure = self.spending.epsilon
        return Loss(self.rho, delta) if pure is None else Loss.of_pure(pure, delta)

    def with_noise(self, noise: Noise) -> PrivacySpec:
        """Return the spec of a release with this noise, where it was left open; of a Laplace, epsilon was given."""
        if noise is self.noise:
            return self
        if self.noise is not None:  # rho is that of the noise that was given, and of no other
            words = f'must be left out, or "{noise.name.lower()}": as it is set, this release takes no other noise'
            raise ArgumentError("noise", words, "E129")
        rho = Loss.of_pure(self.pure).rho if noise is Noise.LAPLACE and self.pure else self.rho
        return self._changed(self._with(noise=noise, rho=rho))

    def epsilon(self, delta: float) -> float:
        """Return the epsilon at this delta, rounded up, without chosen keys; of noise that is open, by a Gaussian."""
        return self.loss().epsilon(delta)

    def losing(self, delta: Fraction) -> PrivacySpec:
        """Return the spec of a release that loses this delta to `KeySelection`.

        Epsilon and delta, where they were given, stay a promise for all of it, so rho shrinks. A given rho stays.

        Args:
          delta: above 0, and below the delta that was given.
        """
        if delta and not self.promises_delta:
            raise ArgumentError(
                "delta",
                "must be given next to epsilon where $KeySelection, $Groups or text decide what is released, because "
                "that always costs a delta, as in $epsilon_and_delta",
                "E102",
            )
        if self.noise is Noise.LAPLACE and delta <= Fraction(repr(self.shown_delta)):
            return self  # which needs no delta of its own
        left = left_of_delta(self.shown_delta, delta)
        if self.pure is None:
            return self
        return self._changed(self._with(rho=Fraction(gaussian_curve.rho(epsilon=_float_below(self.pure), delta=left))))

    def paying_for(self, release: Any, delta: Fraction = Fraction(0)) -> PrivacySpec:
        """Return the spec of a release, without its budget; raise if a part of a budget has paid for another release.

        Args:
          release: names it; equal names are one release.
          delta: what it loses to `KeySelection`, which the budget must have.
        """
        if self._purpose is not None:
            self._purpose.settle(release, delta)
        return self.without_budget()

    def note_use(self, source: Any, release: Any, uses: Uses | None = None) -> None:
        if self._uses is not None:
            (uses or self._uses).note(source, release)

    @property
    def is_of_budget(self) -> bool:
        """Whether it was taken from a budget."""
        return self._purpose is not None and self.payer is None

    @property
    def payer(self) -> Payer | None:
        """The account that pays each time that a release is made, if there is one."""
        return self._purpose if isinstance(self._purpose, Payer) else None

    def without_budget(self) -> PrivacySpec:
        """Return an equal spec that pays for nothing, for releases of made-up data."""
        return self._with()

    def without_side_counters(self) -> PrivacySpec:
        """Return the same spec, of the same budget, for a release that counts nothing aside."""
        return self._changed(self._with(side_counters=None))

    def _with(self, **changes: Any) -> PrivacySpec:
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return _unpickled(*{**fields, **changes}.values())

    @property
    def currency(self) -> str:
        """What adds up: "epsilon" under Laplace noise, else "rho"."""
        return "epsilon" if self.noise is Noise.LAPLACE else "rho"

    @property
    def amount(self) -> Fraction:
        """How much of it there is."""
        return self.rho if self.spending.epsilon is None else self.spending.epsilon

    def _of(self, amount: Fraction, **changes: Any) -> PrivacySpec:
        if self.noise is Noise.LAPLACE:
            return self._with(rho=Loss.of_pure(amount).rho, pure=amount, is_part=True, **changes)
        return self._with(rho=amount, noise=Noise.GAUSSIAN, pure=None, is_part=True, **changes)

    def part(self, amount: Fraction, take_delta: Callable[[Fraction], None]) -> PrivacySpec:
        """Return a part of this budget, which pays for one release; that takes its delta from the budget.

        Args:
          amount: of the `currency`.
          take_delta: called with the delta of the release.
        """
        spent = self._of(amount)
        return spent._for(OneRelease(take_delta))

    def share(self, share: Fraction, side_counters: SideCounters | None) -> PrivacySpec:
        """Return a share of what this may spend, for a release of its own; nobody counts the shares."""
        return self._of(self.amount * share, side_counters=side_counters)

    def paid_by(self, payer: Payer) -> PrivacySpec:
        """Return an equal spec, whose releases this account pays for each time that they are made."""
        if self._purpose is not None:
            raise ArgumentError("spec", "must be of no budget and no other account: give $epsilon_and_delta", "E143")
        return self._with()._for(payer)

    def _changed(self, changed: PrivacySpec) -> PrivacySpec:
        object.__setattr__(changed, "_uses", self._uses)
        return changed._for(self._purpose)

    def _for(self, purpose: Purpose | None) -> PrivacySpec:
        object.__setattr__(self, "_purpose", purpose)
        return self

    def __repr__(self) -> str:
        words = self.loss_in_words()
        if self.noise is Noise.GAUSSIAN and self.pure is None:  # chosen keys spend a delta next to this rho
            words += " without chosen keys"
        return f"<PrivacySpec of {words}, {self.relation.name}>"

    def loss_in_words(self, amount: Fraction | None = None, delta: Fraction = Fraction(0)) -> str:
        """Return the loss, or that of an amount of it, with a delta of exceptions, in a few digits, rounded up."""
        part = self if amount is None else self._of(amount)
        if part.noise is Noise.LAPLACE:
            lost = f" at delta = {round_up(delta, 6):g}" if delta else ""
            return f"epsilon = {round_up(part.amount, 6):g}{lost}, by Laplace noise"
        rho = "" if part.noise is None else f", rho = {round_up(part.rho, 6):g}"
        epsilon = round_up(part.loss(delta).epsilon(self.shown_delta), 4)
        return f"epsilon = {epsilon:g} at delta = {self.shown_delta:g}{rho}"

    def __copy__(self) -> PrivacySpec:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> PrivacySpec:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        state = None if self.payer is None else {"_purpose": self.payer}
        return _unpickled, tuple(getattr(self, field.name) for field in dataclasses.fields(self)), state


def _float_below(exact: Fraction) -> float:
    """Return a float that exceeds this neither by its value nor by its decimal spelling."""
    found = float(exact)
    return found if max(Fraction(found), Fraction(repr(found))) <= exact else math.nextafter(found, 0.0)


def _unpickled(*fields: Any) -> PrivacySpec:
    spec = object.__new__(PrivacySpec)
    names = (field.name for field in dataclasses.fields(PrivacySpec))
    spec._set(**dict(zip(names, fields, strict=True)))
    return spec


def _read_noise(noise: Any, epsilon: Fraction | float | None, delta: float | None) -> Noise | None:
    """Return the noise that was asked for, or that is left without a delta; `None` if settings decide."""
    if noise is not None:
        _validate.one_of(tuple(NOISES), noise=noise)
    if epsilon is None:
        if noise == "laplace":
            raise ArgumentError(
                "noise", 'must be "gaussian" with rho, which is closer there: give epsilon for Laplace noise', "E125"
            )
        return Noise.GAUSSIAN
    if delta is None and noise == "gaussian":
        raise ArgumentError("delta", "must be given with epsilon for Gaussian noise, as in $epsilon_and_delta", "E102")
    return Noise.LAPLACE if delta is None else NOISES.get(noise)
