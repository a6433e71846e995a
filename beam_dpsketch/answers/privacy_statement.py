"""Privacy statement: the guarantee, contents and limits of a release, and its clipping.

`statement.stated` defines its fields, and `statement.statement_text` its text. The clipping is estimated from the
histogram or the counters in the statement.

Guarantee: post-processing. At 95 % confidence, `at_least` is too high with a probability of at most 2.5 % over the
noise. Half of this covers the removed weight, and half the weight after clipping.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from fractions import Fraction
from typing import Any

import numpy as np

from beam_dpsketch import checks as _validate
from beam_dpsketch.answers.estimators import lost_weight
from beam_dpsketch.answers.estimators.lost_weight import LostWeight
from beam_dpsketch.errors import IncompatibleSketchError
from beam_dpsketch.privacy.contributions import windows_in_words
from beam_dpsketch.privacy.loss.composition import Loss, event_of, non_private_event
from beam_dpsketch.privacy.summary_counts import CLIPPED, UNITS, WEIGHT, Uncounted
from beam_dpsketch.statement import release_format, statement_text
from beam_dpsketch.statement.clipping import Clipping, ClippingState, is_wide
from beam_dpsketch.statement.lost_notes import LostNote, add_up_lost
from beam_dpsketch.statement.noisy import unchecked
from beam_dpsketch.statement.provenance import joined
from beam_dpsketch.statement.release_id import are_parts_of_one_run, runs, timeline
from beam_dpsketch.statement.showing import html_table
from beam_dpsketch.statement.stated import Stated
from beam_dpsketch.statement.summary_notes import add_up
from beam_dpsketch.words import float_above, round_up, up_to

_DEVIATIONS, _BLIND = 4, Uncounted.LATER_WINDOWS | Uncounted.EXCESS_WEIGHT
_NO_SHARE: dict[str, Any] = dict.fromkeys(("estimate", "at_least", "upper_estimate"), 0.0)
_UNCOUNTED = {
    Uncounted.LATER_WINDOWS: "records after a privacy id's first {windows}{period}",
    Uncounted.LATE: "late records",
    Uncounted.OUTSIDE: "records outside the declared time range",
    Uncounted.EXCESS_WEIGHT: "weights beyond {max_weight} of a record",
    Uncounted.UNLISTED_ITEMS: "records whose item is not listed",
    Uncounted.UNLISTED_KEYS: "records whose key is not listed",
}


def clipping_of(statement: Stated, confidence: float) -> Clipping:
    """Estimate the clipping of a statement. `confidence` is for two-sided intervals."""
    _validate.open_unit_interval(confidence=confidence)
    lost, clipped, units = (statement.lost, *map(statement.note, (CLIPPED, UNITS)))
    of_run, nothing = lost is not None and lost.of_run, _in_words(statement)
    if not statement.is_bounded:
        state = ClippingState.CANNOT_HAPPEN
        return dataclasses.replace(nothing, state=state, **_NO_SHARE)
    kept, joint = statement.note(WEIGHT) if lost is None or lost.kept is None else lost.kept, (1 + confidence) / 2
    is_capped = statement.bounds.total_weight is None and kept is not statement.own_total
    if lost is not None:
        removed = read_lost(lost, (1 + joint) / 2)
    elif clipped is not None:
        removed = LostWeight(max(clipped.interval(joint).lower, 0.0))
    if kept is None or (lost or clipped) is None or statement.is_row or statement.bounds.signed:
        return nothing
    state = ClippingState.LOWER_BOUND if math.isnan(removed.estimate) else ClippingState.ESTIMATED
    ends = _share(removed.at_least, kept.interval(joint).upper), _share(removed.at_most, kept.estimate)
    if is_wide(*ends):
        removed = removed._replace(estimate=math.nan)
    most = math.inf if units is None or of_run else max(units.interval(0.95).upper, 0.0)
    found = dataclasses.replace(
        nothing,
        state=state,
        estimate=_share(removed.estimate, kept.estimate),
        at_least=ends[0],
        upper_estimate=ends[1],
        weight=removed.estimate,
        at_least_weight=removed.at_least,
        upper_weight=removed.at_most,
        assumed_cap=math.sqrt(kept.squared_limit)
        if is_capped and not statement.privacy_unit.is_one_record
        else math.inf,
        clipped_units=removed.units,
        most_clipped_units=removed.most_units,
        least_loss=0.0 if lost is None else float(lost.losses[0]),
        most_units=lost is not None and 2 * _least_units(lost) > most,
    ).limited_to(state.weaker(statement.weakest))
    # A norm's counter measures only scaled contributions, in counted windows.
    is_blind = lost is None and statement.bounds.as_dict().get("max_distinct_items") is not None
    is_blind = is_blind or bool(statement.uncounted & _BLIND)
    is_silent = found.state is ClippingState.NOT_DETECTED and is_blind
    return found.limited_to(ClippingState.NOT_MEASURED) if is_silent else found


def _in_words(statement: Stated) -> Clipping:
    """Describe the clipping in the settings, before any measurement."""
    bounds, dropped = statement.bounds, statement.uncounted
    total = "total weight" if bounds.has_weights or Uncounted.EXCESS_WEIGHT in dropped else "total count"
    total += " of records" * statement.of_metric
    if statement.lost is not None and statement.lost.of_run:
        total += " over all keys and windows"
    elif len(statement.release_ids) > 1:
        total += f" of {len(statement.release_ids)} releases"
    period = " of each period" * bool(statement.period_micros)
    first = statement.window_count
    windows = "window" if first == 1 else f"{first} windows"
    facts = {"windows": windows, "period": period, "max_weight": bounds.max_weight}
    words = [words.format(**facts) for flag, words in _UNCOUNTED.items() if flag in dropped]
    if (most := bounds.as_dict().get("max_per_item")) is not None:
        words.append(f"records of a privacy id beyond {most} of an item")
    units = "records" if statement.privacy_unit.is_one_record else "privacy ids"
    return Clipping(total=total, units=units, uncounted=(*words,), clamps=Uncounted.CLAMPED in dropped)


def clipping_of_units(statement: Stated) -> Clipping:
    """Describe the clipping of the number of privacy units, which no histogram measures.

    Only the sensitivity of the count limits a unit: under a norm it counts for less than 1 in each key and window if
    they are more than `squared_limit`, and `RecordBounds` choose its keys. A limit below the full cells of the norm is
    the number of all keys and windows, hence no unit exceeds it.
    """
    found, bounds = dataclasses.replace(_in_words(statement), clamps=False), statement.bounds
    note = statement.note(UNITS)
    if statement.privacy_unit.is_one_record:
        return dataclasses.replace(found, state=ClippingState.CANNOT_HAPPEN, **_NO_SHARE)
    if statement.over_time is not None or note is None:
        return found
    windows, is_capped = windows_in_words(statement), False
    if bounds.has_norm:
        most, distinct = math.floor(note.squared_limit), bounds.as_dict().get("max_distinct_items")
        is_alone = statement.lost is not None and not statement.lost.of_run
        covers_all = len(statement.release_ids) == 1 and most < math.floor(bounds.total_weight or bounds.squared_length)
        is_capped = not is_alone and (not covers_all or distinct is not None)
        places = "key or window" if most == 1 else "keys and windows together"
        limit = f"a privacy id in more than {most:,} {places} counts for less than 1 in each"
        if distinct is not None:
            limit += f", and with more than {distinct:,} item{'s' * (distinct != 1)} it may not count in all"
    elif (keys := bounds.as_dict().get("max_keys")) is not None:
        is_capped, limit = True, f"a privacy id counts in {up_to(keys, 'key')}"
    if not (is_capped or windows):
        return dataclasses.replace(found, state=ClippingState.CANNOT_HAPPEN, **_NO_SHARE)
    return dataclasses.replace(found, limit=f"{limit}{windows}" if is_capped else f"a privacy id counts{windows[1:]}")


@functools.lru_cache(maxsize=256)  # all releases of a run share one histogram
def read_lost(lost: LostNote, confidence: float) -> LostWeight:
    """Estimate the removed weight. `at_least` and `most_units` each have this confidence."""
    return lost_weight.read(np.array(lost.counts), lost.losses, lost.deviation, confidence, lost.noise)


def _least_units(lost: LostNote) -> float:
    """Bound the number of clipped units from below, by four standard deviations."""
    return sum(lost.counts) - _DEVIATIONS * math.sqrt(lost.sigma_squared * len(lost.counts))


def _share(part: float, rest: float) -> float:
    """Share of `part` in `part + rest`. A negative rest is noise and counts as 0. A part of 0 has share 0."""
    return 0.0 if part == 0 else math.nan if not math.isfinite(part) else part / (part + max(rest, 0.0))


@dataclasses.dataclass(frozen=True, kw_only=True)
class PrivacyStatement(Stated):
    """Guarantee for a release, or for several combined releases.

    Guarantee: for any two inputs that differ by a single `privacy_unit` under `relation`, the release is rho-zCDP. With
    a delta, it is delta-approximate rho-zCDP.

    Attributes:
      rho: the exact zCDP privacy loss, which is epsilon^2 / 2 for Laplace noise.
      sigma_squared_per_level: the exact noise parameter for the counters at each level. A flat sketch has a single
        level. It is sigma^2 for Gaussian noise, and 2 scale^2 for Laplace noise.
      relation: the relation between neighboring inputs.
      privacy_unit: the privacy unit.
      bounds: the contribution bounds per unit. Contributions are clipped before they enter the sketch.
      window_count: the most windows (releases) that a unit can reach. rho covers all of them.
      overlapping: the most windows that contain the same record.
      first_windows: whether a unit counts only in its first `window_count` windows, as on streams.
      disclosed: facts that are published without noise.
      uncounted: records that are dropped, or values that are clamped, before any count. No number includes them.
      part_of: the share of a larger budget that the release spends, and the loss of that budget. `None` without one.
      key_names: the names of a key's columns, in order, if it has several.
      period_micros: the declared period in microseconds, or 0 without a period.
      randomness: the source of the noise.
      reported_delta: the delta for the reported epsilon. Combinations use the smaller delta.
      release_ids: 48 unique bytes per release: 16 each for its run, its component (key or window), and its noise draw.
      side: noisy summary counts of units, records and weight. rho covers them.
      own_total: the noisy total weight from the counters, or `None` if they do not determine a total.
      lost: the noisy clipping histogram, which rho covers. `None` without a histogram.
      weakest: the weakest clipping state among combined releases.
      of_metric: whether `side` and `lost` cover several metrics, including this release.
      norm_share: the share of rho that chose `max_norm`. Combinations use the smaller share. `None` for a given norm.
      delta: an upper bound, as an exact fraction, for the probability that a unit alone causes any key to be released,
        or any item with thresholded counts. 0 if neither is chosen from the data.
      pure: the sum of epsilons for components without delta, as with Laplace noise. 0 without such components.
      pure_rho: the part of `rho` for these components, the sum of epsilon^2 / 2.
      noise: the noise in the counters.
      keys: the selection rule for keys or items. `None` if they are not chosen from the data, or combined rules differ.
      provenance: names of columns, data set, version, settings and date. Combinations list each that differs. Equal
        releases may differ in it.
      over_time: the timeline row, or the rows behind an answer. `None` elsewhere, and if combined rows differ.
    """

    @classmethod
    def from_stated(cls, stated: Stated) -> PrivacyStatement:
        """Convert validated fields to the statement for a release."""
        return unchecked(cls, vars(stated))

    def composed(self, other: PrivacyStatement, *, units_disjoint: bool) -> PrivacyStatement:
        """Compose the statements of two releases. Losses add up, or the larger loss counts if no unit is in both.

        The loss is unchanged for different components of a run, such as two keys or windows. Two draws for the same
        component are two releases, and their losses add up. `privacy.loss.composition` has the proofs.
        """
        if self.shares_noise_with(other):
            raise IncompatibleSketchError(
                "Releases with common noise cannot be combined, such as a release with itself or two answers from the "
                "same timeline. For several windows in a timeline, use between(first, last)"
            )
        has_its_terms = all(getattr(self, name) == getattr(other, name) for name in ("loss", "bounds", "window_count"))
        is_one_run = has_its_terms and are_parts_of_one_run(self.release_ids + other.release_ids)
        compose = Loss.larger if units_disjoint or is_one_run else Loss.plus
        return self._joined(other, compose(self.loss, other.loss))

    def clipping(self, confidence: float = 0.95) -> Clipping:
        """Estimate the share of the total that clipping removed. `confidence` is for two-sided intervals."""
        return clipping_of(self, confidence)

    def shares_noise_with(self, other: PrivacyStatement) -> bool:
        """Whether both contain the same release, or timeline rows from the same run and key."""
        if self.privacy_unit.over_horizon and {*map(timeline, self.release_ids)} & {*map(timeline, other.release_ids)}:
            return True
        return bool(set(self.release_ids) & set(other.release_ids))

    def _joined(self, other: PrivacyStatement, loss: Loss) -> PrivacyStatement:
        """Join the statements of two releases with this composed loss."""
        for name in ("relation", "privacy_unit"):
            if getattr(self, name) is not getattr(other, name):
                raise IncompatibleSketchError(
                    f"Releases with different {name} cannot be combined: {getattr(self, name).value!r} and "
                    f"{getattr(other, name).value!r}"
                )
        if self.period_micros != other.period_micros:
            raise IncompatibleSketchError("Releases with different period lengths cannot be combined")
        levels = zip(self.sigma_squared_per_level, other.sigma_squared_per_level, strict=True)
        return dataclasses.replace(
            self,
            **loss._asdict(),
            noise=self.noise.plus(other.noise),
            sigma_squared_per_level=tuple(mine + theirs for mine, theirs in levels),
            bounds=self.bounds.union(other.bounds),
            window_count=max(self.window_count, other.window_count),
            overlapping=max(self.overlapping, other.overlapping),
            first_windows=self.first_windows or other.first_windows,
            disclosed=self.disclosed | other.disclosed,
            uncounted=self.uncounted | other.uncounted,
            reported_delta=min(self.reported_delta, other.reported_delta),
            randomness=self.randomness.joined(other.randomness),
            release_ids=self.release_ids + other.release_ids,
            side=add_up(self.side, other.side),
            own_total=None,
            lost=add_up_lost(self.lost, other.lost, runs(self.release_ids), runs(other.release_ids)),
            weakest=self.clipping().state.weaker(other.clipping().state),
            norm_share=min(filter(None, (self.norm_share, other.norm_share)), default=None),
            keys=self.keys if self.keys == other.keys else None,
            over_time=self.over_time if self.over_time == other.over_time else None,
            part_of=self.part_of if (self.part_of, loss) == (other.part_of, self.loss) else None,
            provenance=joined(self.provenance, other.provenance),
            key_names=self.key_names if self.key_names == other.key_names else (),
        )

    def as_dict(self) -> dict[str, Any]:
        """Convert the statement to plain Python values, for JSON or a table."""
        bounds = self.bounds.as_dict()
        return {
            "rho": float_above(self.rho),
            "epsilon": self.reported_epsilon,
            "delta": self.delta_of_epsilon,
            "attack_accuracy": self.attack_accuracy,
            "sigma_squared": [float(value) for value in self.sigma_squared_per_level],
            "relation": self.relation.name,
            "privacy_unit": self.privacy_unit.value,
            **{name: float(value) if isinstance(value, Fraction) else value for name, value in bounds.items()},
            "window_count": self.window_count,
            "period_seconds": self.period_micros / 1_000_000,
            "disclosed": statement_text.disclosed(self.disclosed),
            "clipping": self.clipping().as_dict(),
            "randomness": self.randomness.value,
            "weighted_sums_of_windows" if self.is_row else "side": [note.as_dict() for note in self.side],
            "own_total": None if self.own_total is None else self.own_total.as_dict(),
            "lost": None if self.lost is None else self.lost.as_dict(),
            "norm_share": float(self.norm_share or 0),
            "part_of": statement_text.share_in_words(self) or None,
            "keys_delta": float_above(self.delta),
            "pure_epsilon": float_above(self.pure),
            "noise": self.noise.value,
            "keys": None if self.keys is None else self.keys.as_dict(),
            "over_time": None if self.over_time is None else str(self.over_time),
            "provenance": [*map(dataclasses.asdict, self.provenance)],
            "key_names": [*self.key_names],
            "release_ids": [release_id.hex() for release_id in self.release_ids],
        }

    def to_dp_event(self, *, ignore_delta: bool = False) -> Any:
        """Convert the loss to a `dp_accounting` event, for an accountant. Requires the dp-accounting package.

        The event is a `GaussianDpEvent`, or a `ZCDpEvent` if some noise is not Gaussian, because that package has no
        event for arbitrary mechanisms with pure epsilon. Pure epsilons alone simply add up. It is a `NonPrivateDpEvent`
        if the seed of the noise is public.

        Args:
          ignore_delta: leave out `delta`, for which that package has no event. Add it to the accountant's delta.
            Without this argument, a release with a delta is refused.
        """
        return event_of(self.loss, ignore_delta=ignore_delta) if self.is_private else non_private_event()

    @property
    def shown_loss(self) -> str:
        """Privacy loss: rho or pure epsilon, and a nonzero delta, rounded up."""
        loss = {"epsilon": self.pure} if self.loss.is_pure else {"rho": self.rho}
        shown = {**loss, **({"delta": self.delta} if self.delta else {})}
        return ", ".join(f"{name}={round_up(value, 6):g}" for name, value in shown.items())

    @property
    def summary(self) -> dict[str, str]:
        """Lines of `print`, by heading."""
        return statement_text.summary(self, self.clipping())

    @property
    def facts(self) -> dict[str, str]:
        """All lines by heading: summary, then details."""
        clipping = self.clipping()
        return statement_text.summary(self, clipping) | statement_text.details(self, clipping)

    def details(self) -> str:
        """Format the details: definition, accounting, noise, budget split and counts."""
        return statement_text.aligned(statement_text.details(self, self.clipping()))

    def text(self) -> str:
        """Format all lines."""
        return statement_text.aligned(self.facts)

    def __str__(self) -> str:
        return statement_text.aligned(self.summary)

    def __repr__(self) -> str:
        return f"<PrivacyStatement of {len(self.release_ids)} release(s), {self.shown_loss}, {self.relation.name}>"

    def _repr_html_(self) -> str:
        return html_table(self.facts.items(), caption="PrivacyStatement")


_HEADINGS = ("Protects", "Guarantee", "Meaning", "Contribution", "Keys", "Items")


@dataclasses.dataclass(frozen=True)
class Unreleased:
    """Privacy loss of a run without any release."""

    privacy: PrivacyStatement

    def __str__(self) -> str:
        said = {"Released": "nothing, because no key passed the selection; the privacy budget is spent all the same"}
        said |= {heading: words for heading, words in self.privacy.summary.items() if heading in _HEADINGS}
        return statement_text.aligned(said)


def unpack(data: bytes) -> tuple[Any, np.ndarray, PrivacyStatement, int]:
    """Decode a serialized release, like `release_format.unpack`."""
    spec, counters, stated, scale_bits = release_format.unpack(data)
    return spec, counters, PrivacyStatement.from_stated(stated), scale_bits
