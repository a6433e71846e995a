"""The words of the privacy statement, apart from its arithmetic, for reviewers and translators."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

from beam_dpsketch.privacy.contributions import NeighboringRelation, PrivacyUnit
from beam_dpsketch.privacy.mechanism import Randomness, Spending, one_count
from beam_dpsketch.privacy.noise.laws import Noise
from beam_dpsketch.privacy.side_counters import UNITS, Uncounted
from beam_dpsketch.privacy.terms import Disclosure
from beam_dpsketch.statement.clipping import Clipping
from beam_dpsketch.statement.release_id import runs
from beam_dpsketch.statement.stated import Stated
from beam_dpsketch.words import round_up

_CHANGE = {
    NeighboringRelation.REPLACE_ONE: "which of two versions of {} was used",
    NeighboringRelation.ADD_OR_REMOVE_ONE: "whether {} was included",
}
_UNITS = {
    PrivacyUnit.PRIVACY_ID_IN_WINDOW: "what a given privacy id contributed to one window",
    PrivacyUnit.PRIVACY_ID_IN_PERIOD: "what a given privacy id contributed to one period",
}
_CLAMPED = " Values outside the declared range count at its ends."
_DISCLOSED = {Disclosure.KEYS: "which keys have data", Disclosure.WINDOWS: "which windows have data"}


def facts(statement: Stated, clipping: Clipping) -> dict[str, str]:
    """List the facts of a statement and the clipping that was read of it, by heading. Losses are rounded up."""
    widths = sorted({statement.noise.spread(each) for each in statement.sigma_squared_per_level})
    noise = " to ".join(f"{each:.6g}" for each in (widths[0], widths[-1])[: len(widths)])
    source = "" if statement.randomness is Randomness.SYSTEM else f", from {statement.randomness.value}"
    bounds, run_count = statement.bounds.words(statement), len(runs(statement.release_ids))
    bounds += f", in each of {run_count} runs" if run_count > 1 else ""
    needed = "usable value" if statement.unit.is_one_record else "privacy id or a usable value"
    return {
        "Protected": f"{statement.unit.value} ({statement.relation.name}).",
        "How well": _loss(statement),
        "Meaning": _meaning(statement),
        "Contribution": f"{bounds}{_choice(statement)}.",
        **_keys(statement),
        **_contents(statement),
        "Clipping": clipping.sentence,
        "Not counted": f"records without a {needed}.{_CLAMPED * (Uncounted.CLAMPED in statement.uncounted)}",
        "Noise": f"{_noise(statement, noise)}{source}.",
        **_parts(statement),
        "Not protected": f"{', '.join(['when the release was made', *disclosed(statement.disclosed)])}.",
    }


def disclosed(what: Disclosure) -> list[str]:
    """Name what is published without noise."""
    return [words for flag, words in _DISCLOSED.items() if flag in what]


def _loss(statement: Stated) -> str:
    if statement.loss.is_pure:
        pure = f"{round_up(statement.pure, 6):g}"
        if not statement.delta:
            return f"epsilon = {pure}, pure: epsilon-DP by Laplace noise, which needs no delta."
        return (
            f"(epsilon, delta)-DP by Laplace noise, with epsilon = {pure} at delta = {round_up(statement.delta, 6):g}."
        )
    rho, delta = f"{round_up(statement.rho, 6):g}", f"{round_up(statement.shown_delta, 6):g}"
    noise = " of Gaussian noise"
    if statement.pure:
        noise = f", in which parts with a pure epsilon of {round_up(statement.pure, 6):g} are"
    if not statement.delta:
        epsilon = round_up(statement.shown_epsilon, 4)
        return f"rho = {rho} zCDP{noise}, so (epsilon, delta)-DP with epsilon = {epsilon:g} at delta = {delta}."
    lost = f"{round_up(statement.delta, 6):g}"
    first = f"{lost}-approximate zCDP with rho = {rho}{noise}"
    if math.isinf(statement.shown_epsilon):
        return f"{first}, so (epsilon, delta)-DP for every delta above {lost}."
    epsilon = round_up(statement.shown_epsilon, 4)
    return f"{first}, so (epsilon, delta)-DP with epsilon = {epsilon:g} at delta = {delta}, which includes the {lost}."


def _meaning(statement: Stated) -> str:
    unit = _UNITS.get(statement.unit, f"a given {'record' if statement.unit.is_one_record else 'privacy id'}")
    accuracy = round_up(100 * statement.attack_accuracy, 3)
    return (
        f"an attacker who knows all other records guesses {_CHANGE[statement.relation].format(unit)} with at most "
        f"{accuracy:g} % accuracy (50 % is a coin flip)."
    )


def _noise(statement: Stated, width: str) -> str:
    if statement.over_time is not None:
        return statement.over_time.noise(width)
    count, noise = len(statement.release_ids), statement.noise
    width = f"{noise.measure} = {width} times what one record changes"
    return f"{noise.value} on each counter, with {width}, drawn once in {count} release(s)"


def _keys(statement: Stated) -> dict[str, str]:
    if not statement.delta:
        return {}
    lost = f"{round_up(statement.delta, 6):g}"
    note: Any = statement.keys
    if note is not None and note.of_items:
        return {
            "Items": (
                f"{note}. One unit counts for at most {note.max_items} of them. The probability "
                f"that one unit alone brings an item into what is released is at most {lost}, over all its items, keys "
                "and windows."
            )
        }
    if note is None:  # of a combination of different choices
        heading, words, what = "Keys or items", "chosen from the data", "a key or an item"
    else:
        heading, words, what = "Keys", f"chosen from the data: {note}", "a key"
    return {
        heading: (
            f"{words}. The probability that one unit alone brings {what} into what is released is at most {lost}, over "
            "all its keys and windows."
        )
    }


def _choice(statement: Stated) -> str:
    if not statement.norm_spend:
        return ""
    if len(statement.release_ids) > 1:
        return "; max_norm was chosen from noisy histograms of how long units are"
    loss = statement.pure if statement.noise is Noise.LAPLACE else None
    change = one_count(statement.relation)
    variance = Spending(statement.rho, loss).parameter(change, share=statement.norm_spend)
    return (
        "; max_norm was chosen from a histogram of how long units are, with noise of sigma = "
        f"{math.sqrt(variance):.4g} on each count"
    )


def _contents(statement: Stated) -> dict[str, str]:
    if statement.is_row or not (notes := statement.contents):
        return {}
    counts = ", ".join(map(statement.words_of, notes))
    again = statement.note(UNITS) is not None and not statement.unit.is_one_record
    each = " A unit counts once for each window." if again and statement.over_time is not None else ""
    least = ', each "at least" with 97.5 %,' if "at least " in counts else ","
    sure = f"Each +- covers the noise with 95 %{least} and not what was clipped."
    return {"Contents": f"{counts}{' of all metrics' * statement.of_metric}. {sure}{each}"}


def _parts(statement: Stated) -> dict[str, str]:
    note: Any = statement.keys
    of_items = note is not None and note.of_items
    keys = note.votes if of_items else note
    if not (statement.side or statement.lost or statement.norm_spend or keys) or len(statement.release_ids) > 1:
        return {}
    parts = [f"{_part(statement.sketch_share)} for the {'counts' if of_items else 'sketch'}"]
    parts += [f"{_part(statement.norm_spend)} for the choice of max_norm"] if statement.norm_spend else []
    if keys is not None:
        what = "votes for items" if of_items else "the choice of keys"
        part = f"{_part(keys.share)} for {what}" if keys.share else f"nothing for {what}"
        parts.append(f"{part} (sigma = {math.sqrt(keys.sigma_squared) / keys.grid:.4g} units)")
    parts += [
        f"{_part(note.share)} for {note.words} (sigma = {math.sqrt(note.sigma_squared):.4g})" for note in statement.side
    ]
    if (lost := statement.lost) is not None:
        parts.append(f"{_part(lost.shares)} for {lost}")
    return {f"Parts of {'epsilon' if statement.loss.is_pure else 'rho'}": f"{', '.join(parts)}."}


def _part(share: Fraction) -> str:
    return str(share) if share.denominator <= 10_000 else f"{float(share):.4g}"
