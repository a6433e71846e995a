"""Validated fields of a privacy statement, and derived numbers."""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction
from typing import Self

from beam_dpsketch import checks as _validate
from beam_dpsketch.errors import ArgumentError
from beam_dpsketch.privacy.budget import USUAL_DELTA, BudgetShare
from beam_dpsketch.privacy.contributions import Bounds, NeighboringRelation, PrivacyUnit, check_unit
from beam_dpsketch.privacy.loss.composition import Loss
from beam_dpsketch.privacy.mechanism import MAX_WINDOWS, Randomness
from beam_dpsketch.privacy.noise.drawing import MIN_SIGMA_SQUARED
from beam_dpsketch.privacy.noise.laws import Noise
from beam_dpsketch.privacy.norm.scaling import SCALE_BITS
from beam_dpsketch.privacy.summary_counts import CLIPPED, RECORDS, UNITS, WEIGHT, Uncounted
from beam_dpsketch.privacy.terms import MAX_PERIOD, Disclosure, ReleaseTerms
from beam_dpsketch.statement.clipping import ClippingState
from beam_dpsketch.statement.lost_notes import LostNote
from beam_dpsketch.statement.notes import AnswerNote, KeyNote, RowNote, ThresholdNote
from beam_dpsketch.statement.provenance import Provenance
from beam_dpsketch.statement.release_id import RELEASE_ID_BYTES
from beam_dpsketch.statement.summary_notes import MAX_STATED_VARIANCE, NAMES, SummaryNote

_MIN_RHO, _MAX_RHO = Fraction(1, 1 << 200), 1 << 64
_MAX_DENOMINATOR, _MAX_RELEASES = 1 << 7000, (1 << 16) - 1  # limits of the format
_MAX_PROVENANCES = 1000
NOT_STORED = {"is_stored": False}
"""Metadata of a field that follows from other stored values."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Stated:
    """Fields of `PrivacyStatement`, which documents them."""

    rho: Fraction
    sigma_squared_per_level: tuple[Fraction, ...]
    relation: NeighboringRelation
    privacy_unit: PrivacyUnit
    bounds: Bounds
    window_count: int = 1
    overlapping: int = 1
    first_windows: bool = False
    disclosed: Disclosure = Disclosure.NONE
    uncounted: Uncounted = Uncounted.NOTHING
    period_micros: int = 0
    randomness: Randomness = Randomness.SYSTEM
    reported_delta: float = USUAL_DELTA
    release_ids: tuple[bytes, ...]
    side: tuple[SummaryNote, ...] = ()
    own_total: SummaryNote | None = dataclasses.field(default=None, compare=False, metadata=NOT_STORED)
    lost: LostNote | None = None
    weakest: ClippingState = ClippingState.CANNOT_HAPPEN
    of_metric: bool = False
    norm_share: Fraction | None = None
    delta: Fraction = Fraction(0)
    pure: Fraction = Fraction(0)
    pure_rho: Fraction = Fraction(0)
    noise: Noise = Noise.GAUSSIAN
    keys: KeyNote | ThresholdNote | None = None
    over_time: RowNote | AnswerNote | None = None
    part_of: BudgetShare | None = None
    provenance: tuple[Provenance, ...] = dataclasses.field(default=(), compare=False)
    key_names: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        terms: ReleaseTerms,
        sigma_squared_per_level: tuple[Fraction, ...],
        *,
        randomness: Randomness,
        release_id: bytes,
        side: tuple[SummaryNote, ...] = (),
        lost: LostNote | None = None,
        keys: KeyNote | ThresholdNote | None = None,
        over_time: RowNote | None = None,
        uncounted: Uncounted = Uncounted.NOTHING,
    ) -> Stated:
        """Build a release's statement from its terms and the remaining fields."""
        return cls(
            **terms.loss._asdict(),
            relation=terms.privacy.relation,
            reported_delta=terms.privacy.reported_delta,
            privacy_unit=terms.privacy_unit,
            bounds=terms.bounds,
            window_count=terms.window_count,
            overlapping=terms.overlapping,
            first_windows=terms.first_windows,
            disclosed=terms.disclosed,
            uncounted=terms.uncounted | uncounted,
            period_micros=terms.period_micros,
            norm_share=terms.norm_share,
            part_of=terms.privacy.part_of,
            key_names=terms.key_names,
            noise=terms.noise,
            sigma_squared_per_level=sigma_squared_per_level,
            randomness=randomness,
            release_ids=(release_id,),
            side=side,
            lost=lost,
            keys=keys,
            over_time=over_time,
        )

    def __post_init__(self) -> None:
        if not _MIN_RHO <= self.rho <= _MAX_RHO:
            raise ValueError("rho must be between 2**-200 and 2**64")
        if not all(MIN_SIGMA_SQUARED <= value <= MAX_STATED_VARIANCE for value in self.sigma_squared_per_level):
            raise ValueError("sigma_squared_per_level must be at least 1/256 and at most 2**200")
        if not self.sigma_squared_per_level or not self.release_ids:
            raise ValueError("sigma_squared_per_level and release_ids must not be empty")
        if not 0 <= self.delta <= 1 or (self.keys is not None and not self.delta):
            raise ValueError("delta must be between 0 and 1, and above 0 if keys or items are selected from the data")
        self._check_pure()
        parts = (
            self.rho,
            self.norm_share or Fraction(1),
            self.delta,
            self.pure,
            self.pure_rho,
            *self.sigma_squared_per_level,
            *(() if self.part_of is None else (self.part_of.share, *self.part_of.whole)),
        )
        if any(value.denominator > _MAX_DENOMINATOR for value in parts):
            raise ValueError(
                "rho, norm_share and sigma_squared_per_level must be fractions with denominators up to 2**7000"
            )
        if len(self.release_ids) > _MAX_RELEASES:
            raise ValueError(f"At most {_MAX_RELEASES} releases can be combined")
        if any(len(release_id) != RELEASE_ID_BYTES for release_id in self.release_ids):
            raise ValueError(f"release_ids must have {RELEASE_ID_BYTES} bytes each")
        if len(set(self.release_ids)) < len(self.release_ids):
            raise ValueError("release_ids must differ")
        if len(self.provenance) > _MAX_PROVENANCES or len(set(self.provenance)) < len(self.provenance):
            raise ValueError(f"provenance must differ, and at most {_MAX_PROVENANCES} can be combined")
        _validate.whole_fields(self, "window_count", "overlapping", low=1, high=MAX_WINDOWS)
        _validate.whole_fields(self, "period_micros", low=0, high=MAX_PERIOD)
        _validate.open_unit_interval(reported_delta=self.reported_delta)
        object.__setattr__(self, "reported_delta", float(self.reported_delta))
        check_unit(self.privacy_unit, self.bounds, self.period_micros)
        self._check_parts()

    def _check_pure(self) -> None:
        if not 0 <= self.pure <= _MAX_RHO or not 0 <= self.pure_rho <= self.rho:
            raise ValueError("pure must be 0 or above, and pure_rho between 0 and rho")
        if bool(self.pure) is not bool(self.pure_rho):
            raise ValueError("pure and pure_rho must both be 0, or both above 0")
        if self.noise is not Noise.GAUSSIAN and not self.pure:
            raise ValueError("noise must be Gaussian if pure is 0")
        self.noise.check(*self.sigma_squared_per_level)

    def _check_parts(self) -> None:
        if self.part_of is not None:
            (share, whole), least = self.part_of, Fraction(0)
            if not 0 < share <= 1 or not _MIN_RHO <= whole.rho <= _MAX_RHO or min(whole) < least or whole.delta >= 1:
                raise ValueError("part_of must be a share above 0 and at most 1, and a loss within the limits of rho")
        if not all(map(str.isprintable, self.key_names)):
            raise ValueError("key_names must be printable")
        self.bounds.given(ArgumentError("bounds", "must be the chosen $NormBound, not $AutoNorm", "E218"))
        if self.norm_share is not None and not (_MIN_RHO <= self.norm_share < 1 and self.bounds.has_norm):
            raise ValueError("norm_share must be between 2**-200 and 1, and None without a NormBound")
        names = [name for note in self.side for name in note.names]
        if len(set(names)) < len(names):
            raise ValueError("side must name each count once")
        if self.sketch_share <= 0:
            raise ArgumentError("", "The budget shares must sum to less than 1: the rest pays for the sketch", "E113")
        if self.over_time is not None and not self.privacy_unit.over_horizon:
            raise ValueError("over_time must be None unless the privacy unit covers a horizon")

    @property
    def counts_items(self) -> bool:
        """Whether each item has its own count, as in thresholded counts."""
        return self.keys is not None and self.keys.of_items

    @property
    def is_bounded(self) -> bool:
        """Whether the contribution bounds can clip data. Answers then describe the clipped data."""
        is_cut = self.bounds.has_weights or Uncounted.EXCESS_WEIGHT in self.uncounted
        return is_cut or not self.privacy_unit.is_one_record

    @property
    def is_row(self) -> bool:
        """Whether this describes a timeline row, whose numbers are weighted sums of windows."""
        return self.over_time is not None and self.over_time.is_row

    @property
    def loss(self) -> Loss:
        return Loss(self.rho, self.delta, self.pure, self.pure_rho)

    def losing(self, loss: Loss) -> Self:
        """Replace the loss."""
        return dataclasses.replace(self, **loss._asdict())

    @property
    def sketch_share(self) -> Fraction:
        """Share of rho for the sketch's counters."""
        others = (self.norm_share or Fraction(0)) + (Fraction(0) if self.keys is None else self.keys.share)
        others += Fraction(0) if self.lost is None else self.lost.shares
        return 1 - sum((note.share for note in self.side), others)

    def note(self, name: str) -> SummaryNote | None:
        """Select the count with the smallest margin, which depends on noise alone, or `None` if there is none."""
        own = () if self.own_total is None or self.of_metric else (self.own_total,)
        found = (note for note in (*self.side, *own) if name in note.names)
        return min(found, key=lambda note: note.interval(0.95).upper - note.estimate, default=None)

    @property
    def contents(self) -> list[SummaryNote]:
        """Most precise note for each quantity, without duplicates."""
        return [*{id(note): note for note in map(self.note, NAMES) if note is not None}.values()]

    def is_at_least(self, name: str) -> bool:
        """Whether a count is only a lower bound, because bounding ignored some records or weight of a privacy id.

        Counts exclude records that bounds drop. Under an L2 norm, the summary weight is capped for each privacy id.
        """
        is_own = self.own_total is not None and (self.of_metric or self.note(WEIGHT) is self.own_total)
        is_capped = name == WEIGHT and self.bounds.total_weight is None and not is_own
        return not self.privacy_unit.is_one_record and (name in (RECORDS, CLIPPED) or is_capped)

    def words_of(self, note: SummaryNote) -> str:
        """Format a summary count. For a timeline row, name the weighted sum without a number."""
        if self.is_row:
            return f"a weighted sum of the {note.words} of windows"
        if UNITS in note.names and not self.privacy_unit.is_one_record:
            return dataclasses.replace(note, names=(UNITS,)).as_words()
        if note is self.own_total and self.is_bounded:
            weight = dataclasses.replace(note, names=(WEIGHT,))
            return weight.as_words().replace(weight.words, self.name_of(note))
        return note.as_words(at_least=any(map(self.is_at_least, note.names)))

    def name_of(self, note: SummaryNote) -> str:
        """Name a summary count."""
        if UNITS in note.names and not self.privacy_unit.is_one_record:
            return "privacy ids"
        if note is self.own_total and self.is_bounded:
            return f"total {'weight' if self.bounds.has_weights else 'count'} after clipping"
        return note.words

    @property
    def sigma_squared(self) -> Fraction:
        """Noise parameter for a flat sketch, or the largest over several levels."""
        return max(self.sigma_squared_per_level)

    def margin(self, confidence: float) -> float:
        """Compute the noise margin for a flat sketch's counters, at this confidence."""
        bits = max(self.weight_bits, self.noise.grid_bits(self.sigma_squared))
        return self.noise.margin(self.sigma_squared, confidence, bits)

    @property
    def weight_bits(self) -> int:
        """Weight resolution: multiples of 2**-weight_bits records."""
        return SCALE_BITS if self.bounds.has_norm else 0

    def epsilon(self, delta: float) -> float:
        """Compute epsilon for (epsilon, delta)-DP, rounded up. `delta` must exceed the release's own delta.

        Infinite if the seed of the noise is public. Source: `privacy.loss.composition`.
        """
        epsilon = self.loss.epsilon(delta)
        return epsilon if self.is_private else math.inf

    @property
    def attack_accuracy(self) -> float:
        """Highest accuracy, rounded up, at which an attacker with all other records guesses about a privacy unit.

        The guess is whether the privacy unit is in the data, or which version of it. Both answers are equally likely
        beforehand, so 50 % is a coin flip. Noise from a public seed hides nothing. Source: `privacy.loss.composition`.
        """
        return self.loss.attack_accuracy if self.is_private else 1.0

    @property
    def is_private(self) -> bool:
        """Whether the noise protects anyone. Noise from a public seed does not."""
        return self.randomness is not Randomness.PUBLIC

    @property
    def reported_epsilon(self) -> float:
        """Reported epsilon at `delta_of_epsilon`.

        Infinite if not pure and the release's own delta is at least that, or if the seed of the noise is public.
        """
        return self.loss.shown(self.reported_delta)[0] if self.is_private else math.inf

    @property
    def delta_of_epsilon(self) -> float:
        """Reported delta. Under a pure loss, the delta of item selection, or 0."""
        return self.loss.shown(self.reported_delta)[1]
