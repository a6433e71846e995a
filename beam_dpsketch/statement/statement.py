"""The privacy statement that every release carries: what is protected, how well, and what is not.

`statement_text` has its words.
"""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction
from typing import Any

from beam_dpsketch import _validate
from beam_dpsketch.errors import IncompatibleSketchError
from beam_dpsketch.privacy import zcdp
from beam_dpsketch.privacy.auto_norm import AutoNorm
from beam_dpsketch.privacy.budget import USUAL_DELTA
from beam_dpsketch.privacy.composition import Loss
from beam_dpsketch.privacy.contributions import Bounds, NeighboringRelation, PrivacyUnit
from beam_dpsketch.privacy.discrete_gaussian import MIN_SIGMA_SQUARED
from beam_dpsketch.privacy.mechanism import Randomness
from beam_dpsketch.privacy.sensitivity import MAX_WINDOWS
from beam_dpsketch.privacy.terms import MAX_PERIOD, Disclosure, ReleaseTerms, check_unit
from beam_dpsketch.statement import statement_text
from beam_dpsketch.statement.group_note import GroupNote
from beam_dpsketch.statement.key_note import KeyNote
from beam_dpsketch.statement.release_id import RELEASE_ID_BYTES, are_parts_of_one_run, timeline
from beam_dpsketch.statement.row_notes import AnswerNote, RowNote
from beam_dpsketch.statement.showing import html_table
from beam_dpsketch.statement.side_notes import SideNote, add_up

_MIN_RHO, _MAX_RHO, _MAX_SIGMA_SQUARED = Fraction(1, 1 << 200), 1 << 64, 1 << 200
_MAX_DENOMINATOR, _MAX_RELEASES = 1 << 7000, (1 << 16) - 1  # what the format has room for


@dataclasses.dataclass(frozen=True, kw_only=True)
class PrivacyStatement:
    """What one release, or several combined ones, guarantee.

    Guarantee: for any two inputs that differ by one `unit` under the `relation` relation, the release is rho-zCDP; with
    a delta, delta-approximate rho-zCDP.

    Attributes:
      rho: the privacy loss, exact.
      sigma_squared_per_level: the noise parameter of each level's counters, exact; one for a flat sketch.
      relation: the relation between neighbouring inputs.
      unit: whose presence is hidden.
      bounds: what one unit could contribute; more was dropped, or scaled down, before the sketch.
      window_count: how many windows (releases) one unit could reach; rho covers all of them.
      disclosed: what is published without noise.
      period_micros: how long a declared period is, in microseconds; 0 if the unit is not one within a period.
      randomness: where the noise came from.
      shown_delta: the delta at which epsilon is shown; of a combination, the smaller one.
      release_ids: 48 bytes for each release inside, different for every release: 16 each of its run, of the
        part of the run that it is, and of the draw of its noise.
      side: about how many units, records and how much weight are in it; each is noisy, and rho covers it.
      norm_spend: the part of rho that chose `max_norm`, of a combination the smaller one; `None` if that was given.
      delta: the probability that one unit alone brings keys into the release, exact; 0 without `KeySelection`. Of
        grouped counts, that it brings items in.
      keys: how its keys, or items, were chosen; `None` if the data do not choose them, and of a combination of
        different choices.
      over_time: which row over time it is, or which rows an answer was made of. `None` elsewhere, and of a combination
        of different ones.
    """

    rho: Fraction
    sigma_squared_per_level: tuple[Fraction, ...]
    relation: NeighboringRelation
    unit: PrivacyUnit
    bounds: Bounds
    window_count: int = 1
    disclosed: Disclosure = Disclosure.NONE
    period_micros: int = 0
    randomness: Randomness = Randomness.SYSTEM
    shown_delta: float = USUAL_DELTA
    release_ids: tuple[bytes, ...]
    side: tuple[SideNote, ...] = ()
    norm_spend: Fraction | None = None
    delta: Fraction = Fraction(0)
    keys: KeyNote | GroupNote | None = None
    over_time: RowNote | AnswerNote | None = None

    def __post_init__(self) -> None:
        if not _MIN_RHO <= self.rho <= _MAX_RHO:
            raise ValueError("rho must be between 2**-200 and 2**64")
        if not all(MIN_SIGMA_SQUARED <= value <= _MAX_SIGMA_SQUARED for value in self.sigma_squared_per_level):
            raise ValueError("sigma_squared_per_level must be at least 1/4 and at most 2**200")
        if not self.sigma_squared_per_level or not self.release_ids:
            raise ValueError("a release has at least one level and one release id")
        if not 0 <= self.delta <= 1 or (self.keys is not None and not self.delta):
            raise ValueError("delta must be between 0 and 1, and above 0 where keys are chosen")
        parts = (self.rho, self.norm_spend or Fraction(1), self.delta, *self.sigma_squared_per_level)
        if any(value.denominator > _MAX_DENOMINATOR for value in parts):
            raise ValueError(
                "rho, norm_spend and sigma_squared_per_level must be fractions with denominators up to 2**7000"
            )
        if len(self.release_ids) > _MAX_RELEASES:
            raise ValueError(f"at most {_MAX_RELEASES} releases can be combined")
        if any(len(release_id) != RELEASE_ID_BYTES for release_id in self.release_ids):
            raise ValueError(f"release_ids must have {RELEASE_ID_BYTES} bytes each")
        if len(set(self.release_ids)) < len(self.release_ids):
            raise ValueError("release_ids must differ")
        _validate.whole_fields(self, "window_count", low=1, high=MAX_WINDOWS)
        _validate.whole_fields(self, "period_micros", low=0, high=MAX_PERIOD)
        _validate.open_unit_interval(shown_delta=self.shown_delta)
        object.__setattr__(self, "shown_delta", float(self.shown_delta))
        check_unit(self.unit, self.bounds, self.period_micros)
        self._check_parts()

    @classmethod
    def of(
        cls,
        terms: ReleaseTerms,
        sigma_squared_per_level: tuple[Fraction, ...],
        *,
        randomness: Randomness,
        release_id: bytes,
        side: tuple[SideNote, ...] = (),
        keys: KeyNote | GroupNote | None = None,
        over_time: RowNote | None = None,
    ) -> PrivacyStatement:
        """Return the statement of one release under these terms; what the terms do not say is given."""
        return cls(
            rho=terms.privacy.rho,
            relation=terms.privacy.relation,
            shown_delta=terms.privacy.shown_delta,
            unit=terms.unit,
            bounds=terms.bounds,
            window_count=terms.window_count,
            disclosed=terms.disclosed,
            period_micros=terms.period_micros,
            norm_spend=terms.norm_spend,
            delta=terms.delta,
            sigma_squared_per_level=sigma_squared_per_level,
            randomness=randomness,
            release_ids=(release_id,),
            side=side,
            keys=keys,
            over_time=over_time,
        )

    def _check_parts(self) -> None:
        """Refuse parts of rho, and notes, that do not suit the bounds."""
        if isinstance(self.bounds, AutoNorm):
            raise ValueError("bounds must be the NormBound that was chosen, not AutoNorm()")
        if self.norm_spend is not None and not (_MIN_RHO <= self.norm_spend < 1 and self.bounds.has_norm):
            raise ValueError("norm_spend must be between 2**-200 and 1, and None without a NormBound")
        if any(note.scale_bits for note in self.side) and not (self.bounds.has_norm or self.unit.over_horizon):
            raise ValueError("scale_bits of a note must be 0 where no norm scales weights")
        names = [name for note in self.side for name in note.names]
        if len(set(names)) < len(names):
            raise ValueError("side must name each count once")
        if self.sketch_share <= 0:
            raise ValueError("the parts of rho must sum to less than 1, so that the sketch has one")
        if self.over_time is not None and not self.unit.over_horizon:
            raise ValueError("over_time must be None where the unit is not one over a horizon")

    @property
    def loss(self) -> Loss:
        """What it loses: `rho` and `delta`."""
        return Loss(self.rho, self.delta)

    @property
    def sketch_share(self) -> Fraction:
        """The part of rho that the counters of the sketch have."""
        others = (self.norm_spend or Fraction(0)) + (Fraction(0) if self.keys is None else self.keys.share)
        return 1 - sum((note.share for note in self.side), others)

    @property
    def sigma_squared(self) -> Fraction:
        """The noise parameter of a flat sketch; with several levels, the largest."""
        return max(self.sigma_squared_per_level)

    def epsilon(self, delta: float) -> float:
        """Return the epsilon for which the release is (epsilon, delta)-DP, rounded up, at a delta above its own.

        Source: the tight zCDP conversion of Canonne, Kamath and Steinke 2020, Corollary 13, of what is left of delta.
        """
        return zcdp.epsilon(rho=self.rho, delta=zcdp.left_of_delta(delta, self.delta))

    @property
    def shown_epsilon(self) -> float:
        """The epsilon at the shown delta, rounded up; infinite if the release has no less of a delta itself."""
        return math.inf if Fraction(repr(self.shown_delta)) <= self.delta else self.epsilon(self.shown_delta)

    def composed(self, other: PrivacyStatement, *, units_disjoint: bool) -> PrivacyStatement:
        """Return the statement of two releases together: their losses add, or the larger counts if no unit is in both.

        The loss stays if they are different parts of one run, such as two keys or windows of it. Two draws of the same
        part are two releases, and add. `privacy.composition` has the proofs.
        """
        if self.shares_noise_with(other):
            raise IncompatibleSketchError(
                "what shares noise cannot be combined: a release with itself, or two answers of one timeline; ask the "
                "timeline for all windows at once, with between(first, last)"
            )
        is_one_run = self._has_terms_of(other) and are_parts_of_one_run(self.release_ids + other.release_ids)
        compose = Loss.larger if units_disjoint or is_one_run else Loss.plus
        return self._joined(other, compose(self.loss, other.loss))

    def shares_noise_with(self, other: PrivacyStatement) -> bool:
        """Whether the two have noise in common: of a release in both, or of rows over time of one run and key."""
        if self.unit.over_horizon and {*map(timeline, self.release_ids)} & {*map(timeline, other.release_ids)}:
            return True
        return bool(set(self.release_ids) & set(other.release_ids))

    def _has_terms_of(self, other: PrivacyStatement) -> bool:
        return all(getattr(self, name) == getattr(other, name) for name in ("loss", "bounds", "window_count"))

    def _joined(self, other: PrivacyStatement, loss: Loss) -> PrivacyStatement:
        """Return the statement of the sum of two releases that together lose this."""
        for name in ("relation", "unit"):
            if getattr(self, name) is not getattr(other, name):
                raise IncompatibleSketchError(
                    f"releases with different {name} cannot be combined: {getattr(self, name).value!r} and "
                    f"{getattr(other, name).value!r}"
                )
        if self.period_micros != other.period_micros:
            raise IncompatibleSketchError("releases with periods of different lengths cannot be combined")
        levels = zip(self.sigma_squared_per_level, other.sigma_squared_per_level, strict=True)
        return dataclasses.replace(
            self,
            rho=loss.rho,
            sigma_squared_per_level=tuple(mine + theirs for mine, theirs in levels),
            bounds=self.bounds.union(other.bounds),
            window_count=max(self.window_count, other.window_count),
            disclosed=self.disclosed | other.disclosed,
            shown_delta=min(self.shown_delta, other.shown_delta),
            randomness=other.randomness if self.randomness is Randomness.SYSTEM else self.randomness,
            release_ids=self.release_ids + other.release_ids,
            side=add_up(self.side, other.side),
            norm_spend=min(filter(None, (self.norm_spend, other.norm_spend)), default=None),
            delta=loss.delta,
            keys=self.keys if self.keys == other.keys else None,
            over_time=self.over_time if self.over_time == other.over_time else None,
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the statement as plain Python values, for JSON or a table."""
        bounds = self.bounds.as_dict()
        return {
            "rho": _rounded_up(self.rho),
            "epsilon": self.shown_epsilon,
            "delta": self.shown_delta,
            "sigma_squared": [float(value) for value in self.sigma_squared_per_level],
            "relation": self.relation.name,
            "unit": self.unit.value,
            **{name: float(value) if isinstance(value, Fraction) else value for name, value in bounds.items()},
            "window_count": self.window_count,
            "period_seconds": self.period_micros / 1_000_000,
            "disclosed": statement_text.disclosed(self.disclosed),
            "randomness": self.randomness.value,
            "side": [note.as_dict() for note in self.side],
            "norm_spend": float(self.norm_spend or 0),
            "keys_delta": _rounded_up(self.delta),
            "keys": None if self.keys is None else self.keys.as_dict(),
            "over_time": None if self.over_time is None else str(self.over_time),
            "release_ids": [release_id.hex() for release_id in self.release_ids],
        }

    def to_dp_event(self, *, ignore_delta: bool = False) -> Any:
        """Return the loss as a `dp_accounting.ZCDpEvent`, for an accountant; needs the dp-accounting package.

        Args:
          ignore_delta: whether to leave out `delta`, which that package has no event for: add it to the delta that the
            accountant gives. A release with a delta is refused without it.
        """
        if self.delta and not ignore_delta:
            raise ValueError(
                "ignore_delta must be True for a release whose keys were chosen: dp_accounting has no event for its "
                "delta, so add statement.delta to the delta that the accountant gives"
            )
        try:
            import dp_accounting
        except ImportError as error:
            raise ImportError("to_dp_event() needs the package dp-accounting: pip install dp-accounting") from error
        return dp_accounting.ZCDpEvent(rho=_rounded_up(self.rho))

    @property
    def shown_loss(self) -> str:
        """rho, and delta unless it is 0, in a few digits, rounded up."""
        shown = {"rho": self.rho, **({"delta": self.delta} if self.delta else {})}
        return ", ".join(f"{name}={statement_text.round_up(value, 6):g}" for name, value in shown.items())

    def __str__(self) -> str:
        return "\n".join(f"{heading}: {words}" for heading, words in statement_text.facts(self).items())

    def __repr__(self) -> str:
        return f"<PrivacyStatement of {len(self.release_ids)} release(s), {self.shown_loss}, {self.relation.name}>"

    def _repr_html_(self) -> str:
        return html_table(statement_text.facts(self).items(), caption="PrivacyStatement")


def _rounded_up(value: Fraction) -> float:
    """Return the shortest float at or above an exact value."""
    nearest = float(value)
    return nearest if Fraction(repr(nearest)) >= value else math.nextafter(nearest, math.inf)
