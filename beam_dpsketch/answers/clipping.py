"""The clipping of a release, as the histogram or the counters of its statement measure it.

Guarantee: post-processing. With a confidence of 95 %, `at_least` is too high with a probability of 2.5 % at most, over
the noise: half of it is for the weight that was removed, and half for the weight that was kept.
"""

from __future__ import annotations

import dataclasses
import functools
import math

import numpy as np

from beam_dpsketch import _validate
from beam_dpsketch.estimators import lost_weight
from beam_dpsketch.estimators.lost_weight import LostWeight
from beam_dpsketch.privacy.aside.lost_histogram import Uncounted
from beam_dpsketch.privacy.aside.side_counters import CLIPPED, UNITS, WEIGHT
from beam_dpsketch.statement.clipping import Clipping, ClippingState
from beam_dpsketch.statement.lost_notes import LostNote
from beam_dpsketch.statement.stated import Stated

_DEVIATIONS, _BLIND = 4, Uncounted.LATER_WINDOWS | Uncounted.EXCESS_WEIGHT
_UNCOUNTED = {
    Uncounted.LATER_WINDOWS: "records after a privacy id's first {windows} window(s){period}",
    Uncounted.LATE: "late records",
    Uncounted.OUTSIDE: "records outside the declared windows",
    Uncounted.EXCESS_WEIGHT: "weights beyond {max_weight} of a record",
    Uncounted.UNLISTED_ITEMS: "records whose item is not listed",
    Uncounted.UNLISTED_KEYS: "records whose key is not listed",
}


def clipping_of(statement: Stated, confidence: float) -> Clipping:
    """Return the clipping of what this statement is about; `confidence` is that of two-sided intervals."""
    _validate.open_unit_interval(confidence=confidence)
    lost, clipped, units = (statement.lost, *map(statement.note, (CLIPPED, UNITS)))
    of_run, nothing = lost is not None and lost.of_run, _in_words(statement)
    if not statement.is_bounded:
        state = ClippingState.CANNOT_HAPPEN
        return dataclasses.replace(nothing, state=state, estimate=0.0, at_least=0.0, upper_estimate=0.0)
    kept, joint = statement.note(WEIGHT) if lost is None or lost.kept is None else lost.kept, (1 + confidence) / 2
    is_capped = statement.bounds.total_weight is None and kept is not statement.own_total
    if lost is not None:
        removed = read_lost(lost, (1 + joint) / 2)
    elif clipped is not None:
        removed = LostWeight(max(clipped.interval(joint).lower, 0.0))
    if kept is None or (lost or clipped) is None or statement.is_row or statement.bounds.signed:
        return nothing
    state = ClippingState.LOWER_BOUND if math.isnan(removed.estimate) else ClippingState.ESTIMATED
    most = math.inf if units is None or of_run else max(units.interval(0.95).upper, 0.0)
    found = dataclasses.replace(
        nothing,
        state=state,
        estimate=_share(removed.estimate, kept.estimate),
        at_least=_share(removed.at_least, kept.interval(joint).upper),
        upper_estimate=_share(removed.at_most, kept.estimate),
        weight=removed.estimate,
        at_least_weight=removed.at_least,
        upper_weight=removed.at_most,
        assumed_cap=math.sqrt(kept.squared_limit) if is_capped and not statement.unit.is_one_record else math.inf,
        clipped_units=removed.units,
        most_clipped_units=removed.most_units,
        least_loss=0.0 if lost is None else float(lost.losses[0]),
        most_units=lost is not None and 2 * _least_units(lost) > most,
    ).limited_to(state.weaker(statement.weakest))
    # A norm's counter sees what is scaled, in the windows that count.
    is_blind = lost is None and statement.bounds.as_dict().get("resource_limit") is not None
    is_blind = is_blind or bool(statement.uncounted & _BLIND)
    is_silent = found.state is ClippingState.NOT_DETECTED and is_blind
    return found.limited_to(ClippingState.NOT_MEASURED) if is_silent else found


def _in_words(statement: Stated) -> Clipping:
    """Return what the settings say of clipping, before anything is measured."""
    bounds, dropped = statement.bounds, statement.uncounted
    total = "total weight" if bounds.has_weights or Uncounted.EXCESS_WEIGHT in dropped else "total count"
    if statement.lost is not None and statement.lost.of_run:
        total += " over all keys and windows"
    elif len(statement.release_ids) > 1:
        total += f" of {len(statement.release_ids)} releases"
    period = " of each period" * bool(statement.period_micros)
    facts = {"windows": statement.window_count, "period": period, "max_weight": bounds.max_weight}
    words = [words.format(**facts) for flag, words in _UNCOUNTED.items() if flag in dropped]
    if (most := bounds.as_dict().get("max_per_item")) is not None:
        words.append(f"records of a privacy id beyond {most} of an item")
    units = "records" if statement.unit.is_one_record else "privacy ids"
    return Clipping(total=total, units=units, uncounted=(*words,))


@functools.lru_cache(maxsize=256)  # all releases of a run share one histogram
def read_lost(lost: LostNote, confidence: float) -> LostWeight:
    """Estimate the weight that was removed; `at_least` and `most_units` hold with this confidence each."""
    return lost_weight.read(np.array(lost.counts), lost.losses, lost.deviation, confidence, lost.noise)


def _least_units(lost: LostNote) -> float:
    """Return how many units were clipped at least, by four deviations of the noise."""
    return sum(lost.counts) - _DEVIATIONS * math.sqrt(lost.sigma_squared * len(lost.counts))


def _share(part: float, rest: float) -> float:
    """Return the share of a part in part and rest; a rest below 0 is noise, and no part has no share."""
    return 0.0 if part == 0 else math.nan if not math.isfinite(part) else part / (part + max(rest, 0.0))
