"""Privacy loss that a release may spend.

Gaussian noise spends rho (zero-concentrated differential privacy), which adds up over releases; (epsilon, delta) is
derived from it. Laplace noise spends epsilon itself, without a delta. Rho and epsilon are exact fractions, hence budget
shares sum exactly to the whole budget. A budget share pays for one release, and a second release raises an error.
Releases with `KeySelection` also spend a delta.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple

from beam_dpsketch import checks as _validate
from beam_dpsketch.encodings import named
from beam_dpsketch.errors import ArgumentError
from beam_dpsketch.privacy.contributions import NeighboringRelation
from beam_dpsketch.privacy.loss import gaussian_curve
from beam_dpsketch.privacy.loss.composition import Loss, left_of_delta
from beam_dpsketch.privacy.loss.payment import OneRelease, Payer, Purpose, Uses
from beam_dpsketch.privacy.mechanism import Spending
from beam_dpsketch.privacy.noise.laws import NOISES, Noise
from beam_dpsketch.privacy.summary_counts import SummaryCounts
from beam_dpsketch.words import round_up

USUAL_DELTA = 1e-6


class BudgetShare(NamedTuple):
    """The share of a budget that a release spends, and the loss of the whole budget."""

    share: Fraction
    whole: Loss


@named("PrivacySpec")
@dataclasses.dataclass(frozen=True)
class PrivacySpec:
    """Privacy loss that a release may cause, under a neighboring relation.

    Guarantee: with Gaussian noise the release is rho-zCDP, and therefore (epsilon, delta)-DP with epsilon =
    `epsilon(delta)` for every delta. With Laplace noise it is epsilon-DP: pure, without a delta. With a `KeySelection`
    it is delta-approximate rho-zCDP, and a given epsilon and delta still cover the whole release.

    A spec from a budget pays for one release in this process. Uses of pickled copies are not counted. Each pipeline run
    is another release: with a spec from a budget, `Pipeline.run` refuses a second run of the same pipeline object,
    unless its noise is replayable. The package cannot detect repeated runs of a template, a notebook or a service, nor
    any runs with a spec from no budget. Pay for each of these runs.

    Arguments are keyword-only: `PrivacySpec(2)` is refused, because 2 could be epsilon or rho.

    Args:
      rho: zCDP loss of the release, above 0, in place of `epsilon`. A float means its decimal: 0.1 is exactly 1/10.
      epsilon: privacy loss of the release, above 0; without `delta` it is pure, with Laplace noise. Gaussian noise uses
        the largest rho that is (epsilon, delta)-DP, rounded down. Laplace noise is epsilon-DP. A pure epsilon requires
        keys that are chosen without the data. It supports frequencies, statistics, quantiles from a histogram, and
        other releases whose plan says so.
      delta: less than 1 / the number of people, such as 1e-6; next to `rho` it is the delta at which statements report
        epsilon. There it does not change the noise.
      relation: `ADD_OR_REMOVE_ONE`, or `REPLACE_ONE`, which doubles the noise of CountSketch.
      summary_counts: budget shares for the counts of units and weight, the clipping histogram, and optionally records.
        `None` disables these counts, and leaves all of rho to the sketch.
      noise: "gaussian" or "laplace"; by default, the noise with the narrower intervals. Public settings, epsilon and
        delta alone decide. The plan and the statement report the decision.

    >>> PrivacySpec(rho=0.1).rho
    Fraction(1, 10)
    >>> float(round(PrivacySpec(epsilon=1, delta=1e-6).rho, 4))
    0.028
    """

    rho: Fraction
    relation: NeighboringRelation
    reported_delta: float
    summary_counts: SummaryCounts | None
    noise: Noise | None
    pure: Fraction | None
    promises_delta: bool
    part_of: BudgetShare | None = dataclasses.field(compare=False, repr=False)

    _uses: ClassVar[Uses | None] = None  # set per object in __init__
    _purpose: ClassVar[Purpose | None] = None  # set for budget shares and ledger accounts

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
    ) -> None:
        _validate.instance(NeighboringRelation, relation=relation)
        if summary_counts is not None:
            _validate.instance(SummaryCounts, summary_counts=summary_counts)
        if (rho is None) == (epsilon is None):
            raise ArgumentError("", "Set either epsilon or rho, for example $epsilon_and_delta", "E101")
        kind = _read_noise(noise, epsilon, delta)
        pure = None if epsilon is None else _validate.exact(epsilon=epsilon)
        if pure is not None and delta is not None:
            _validate.open_unit_interval(delta=delta)
            rho = Fraction(gaussian_curve.rho(epsilon=_float_below(pure), delta=left_of_delta(delta, Fraction(0))))
        self._set(
            rho=Loss.of_pure(pure).rho if kind is Noise.LAPLACE and pure else _validate.exact(rho=rho),
            relation=relation,
            reported_delta=USUAL_DELTA if delta is None else delta,
            summary_counts=summary_counts,
            noise=kind,
            pure=pure,
            promises_delta=pure is None or delta is not None,
            part_of=None,
        )
        object.__setattr__(self, "_uses", Uses())

    def _set(self, **fields: Any) -> None:
        _validate.open_unit_interval(delta=fields["reported_delta"])
        for name, value in {**fields, "reported_delta": float(fields["reported_delta"])}.items():
            object.__setattr__(self, name, value)

    @property
    def spending(self) -> Spending:
        """Privacy loss that noise spends. Undecided noise counts as Gaussian."""
        return Spending(self.rho, self.pure if self.noise is Noise.LAPLACE else None)

    def loss(self, delta: Fraction = Fraction(0)) -> Loss:
        """Compute the loss of a release that spends this delta on key or item selection."""
        pure = self.spending.epsilon
        return Loss(self.rho, delta) if pure is None else Loss.of_pure(pure, delta)

    def with_noise(self, noise: Noise) -> PrivacySpec:
        """Build the spec with this noise, if the noise is undecided. Laplace noise requires epsilon."""
        if noise is self.noise:
            return self
        if self.noise is not None:  # rho was derived for the given noise
            words = (
                f'must be "{noise.name.lower()}" or omitted. With these settings, this release supports no other noise'
            )
            raise ArgumentError("noise", words, "E129")
        rho = Loss.of_pure(self.pure).rho if noise is Noise.LAPLACE and self.pure else self.rho
        return self._changed(self._with(noise=noise, rho=rho))

    def epsilon(self, delta: float) -> float:
        """Compute epsilon at this delta, rounded up, without key selection. Undecided noise counts as Gaussian."""
        return self.loss().epsilon(delta)

    def losing(self, delta: Fraction) -> PrivacySpec:
        """Build the spec for a release that spends this delta on `KeySelection`.

        A given epsilon and delta continue to cover the whole release, hence rho shrinks. A given rho stays.

        A share s of epsilon and delta has s r(delta / s) of rho, where r(x) is the largest rho for epsilon and delta
        next to a delta x for selection. Then shares s_i that sum to 1 compose to epsilon and delta. Proof: their rho
        sums to the mean of r(delta_i / s_i) with weights s_i, which is at most r(sum of delta_i) if r is concave
        (Jensen). With mu^2 = 2 rho, the derivative of the Gaussian delta by rho is phi(epsilon / mu - mu / 2) / mu. It
        grows with mu if and only if epsilon^2 >= mu^2 + mu^4 / 4 = 2 rho + rho^2. There delta is a convex and
        increasing function of rho, its inverse is concave, and so is r, because left_of_delta is concave in x. All
        r(x) are at most r(0), and a share whose r(0) is larger is refused.

        Args:
          delta: above 0, and below the given delta, times the share.
        """
        if delta and not self.promises_delta:
            raise ArgumentError(
                "delta",
                "is required with epsilon, because the selection of keys or items from the data spends a delta. Set it "
                "well below 1 / (number of people): $epsilon_and_delta",
                "E102",
            )
        share, whole = (Fraction(1), Loss()) if self.part_of is None else self.part_of
        if self.noise is Noise.LAPLACE and delta <= Fraction(repr(self.reported_delta)) * share:
            return self  # Laplace noise spends no delta
        if self.pure is None:
            left_of_delta(self.reported_delta, delta)  # raises if no delta is left
            return self
        if delta and share < 1 and self.pure**2 < 2 * whole.rho + whole.rho**2:
            words = (
                "is too large for this epsilon if keys or items are chosen from the data, because their shares may not "
                "add up"
            )
            raise ArgumentError("delta", words, "E111")
        left = left_of_delta(self.reported_delta, delta / share)
        return self._changed(
            self._with(rho=share * Fraction(gaussian_curve.rho(epsilon=_float_below(self.pure), delta=left)))
        )

    def paying_for(self, release: Any, delta: Fraction = Fraction(0)) -> PrivacySpec:
        """Build the release's spec without its budget, or raise if its budget share has paid for another release.

        Args:
          release: identifier. Equal identifiers denote the same release.
          delta: spent on `KeySelection`. The budget must contain it.
        """
        if self._purpose is not None:
            self._purpose.settle(release, delta)
        return self.without_budget()

    def note_use(self, source: Any, release: Any, uses: Uses | None = None) -> None:
        if self._uses is not None:
            (uses or self._uses).note(source, release)

    @property
    def is_of_budget(self) -> bool:
        """Whether the spec is a share of a budget."""
        return self._purpose is not None and self.payer is None

    @property
    def payer(self) -> Payer | None:
        """Account that pays for each run, if any."""
        return self._purpose if isinstance(self._purpose, Payer) else None

    def without_budget(self) -> PrivacySpec:
        """Build an equal spec that pays for nothing, for releases of simulated data."""
        return self._with()

    def with_summary_counts(self, summary_counts: SummaryCounts | None = None) -> PrivacySpec:
        """Build a spec with the same budget for a release with these summary counts, or without any."""
        return self._changed(self._with(summary_counts=summary_counts))

    def _with(self, **changes: Any) -> PrivacySpec:
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return _unpickled(*{**fields, **changes}.values())

    @property
    def currency(self) -> str:
        """Additive unit of the loss: "epsilon" for Laplace noise, otherwise "rho"."""
        return "epsilon" if self.noise is Noise.LAPLACE else "rho"

    @property
    def amount(self) -> Fraction:
        """Loss in units of `currency`."""
        return self.rho if self.spending.epsilon is None else self.spending.epsilon

    def _of(self, amount: Fraction, delta: Fraction = Fraction(0), pure: Fraction | None = None) -> PrivacySpec:
        part_of = BudgetShare(amount / self.amount, self.loss(delta))
        if self.noise is Noise.LAPLACE:
            return self._with(rho=Loss.of_pure(amount).rho, pure=amount, part_of=part_of)
        return self._with(rho=amount, noise=Noise.GAUSSIAN, pure=pure, part_of=part_of)

    def part(self, amount: Fraction, take_delta: Callable[[Fraction], None], delta: Fraction) -> PrivacySpec:
        """Build a spec for a budget share, which pays for a release and its delta.

        Args:
          amount: in units of `currency`.
          take_delta: called with the delta of the release.
          delta: the delta of the whole budget for key and item selection.
        """
        return self._of(amount, delta)._for(OneRelease(take_delta))

    def share(self, share: Fraction) -> PrivacySpec:
        """Build a spec for a fraction of this loss, for a separate release. The shares are not counted.

        A Laplace share of epsilon and delta is refused, because it does not compose to them with a Gaussian share.
        """
        if self.noise is Noise.LAPLACE and self.promises_delta:
            words = (
                "must not be laplace for a share of epsilon and delta: the other shares may be Gaussian. Remove delta"
            )
            raise ArgumentError("noise", words, "E125")
        return self._of(self.amount * share, pure=self.pure)

    def paid_by(self, payer: Payer) -> PrivacySpec:
        """Build an equal spec whose releases are each paid for by this account."""
        if self._purpose is not None:
            raise ArgumentError(
                "spec", "must not belong to a budget or another account. Use a new one: $epsilon_and_delta", "E143"
            )
        return self._with()._for(payer)

    def _changed(self, changed: PrivacySpec) -> PrivacySpec:
        object.__setattr__(changed, "_uses", self._uses)
        return changed._for(self._purpose)

    def _for(self, purpose: Purpose | None) -> PrivacySpec:
        object.__setattr__(self, "_purpose", purpose)
        return self

    def __repr__(self) -> str:
        words = self.loss_in_words()
        if self.noise is Noise.GAUSSIAN and self.pure is None:  # key selection spends a delta next to this rho
            words += " without chosen keys"
        return f"<PrivacySpec of {words}, {self.relation.name}>"

    def loss_in_words(self, amount: Fraction | None = None, delta: Fraction = Fraction(0)) -> str:
        """Format the loss, or an amount of it, with the delta of exceptions, rounded up to a few digits."""
        part = self if amount is None else self._of(amount)
        if part.noise is Noise.LAPLACE:
            lost = f" at delta = {round_up(delta, 6):g}" if delta else ""
            return f"epsilon = {round_up(part.amount, 6):g}{lost}, by Laplace noise"
        rho = "" if part.noise is None else f", rho = {round_up(part.rho, 6):g}"
        epsilon = round_up(part.loss(delta).epsilon(self.reported_delta), 4)
        return f"epsilon = {epsilon:g} at delta = {self.reported_delta:g}{rho}"

    def __copy__(self) -> PrivacySpec:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> PrivacySpec:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        state = None if self.payer is None else {"_purpose": self.payer}
        return _unpickled, tuple(getattr(self, field.name) for field in dataclasses.fields(self)), state


def _float_below(exact: Fraction) -> float:
    """Round down to a float that exceeds this fraction neither by its value nor by its decimal spelling."""
    found = float(exact)
    return found if max(Fraction(found), Fraction(repr(found))) <= exact else math.nextafter(found, 0.0)


def _unpickled(*fields: Any) -> PrivacySpec:
    spec = object.__new__(PrivacySpec)
    names = (field.name for field in dataclasses.fields(PrivacySpec))
    spec._set(**dict(zip(names, fields, strict=True)))
    return spec


def _read_noise(noise: Any, epsilon: Fraction | float | None, delta: float | None) -> Noise | None:
    if noise is not None:
        _validate.one_of(tuple(NOISES), noise=noise)
    if epsilon is None:
        if noise == "laplace":
            raise ArgumentError("noise", 'must be "gaussian" with rho. For Laplace noise, set epsilon instead', "E125")
        return Noise.GAUSSIAN
    if delta is None and noise == "gaussian":
        raise ArgumentError(
            "delta",
            "is required for Gaussian noise with epsilon. Set it well below 1 / (number of people): $epsilon_and_delta",
            "E102",
        )
    return Noise.LAPLACE if delta is None else NOISES.get(noise)
