"""Text of the privacy statement, separate from its arithmetic, for reviewers and translators."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from beam_dpsketch.privacy.contributions import NeighboringRelation, PrivacyUnit
from beam_dpsketch.privacy.loss.composition import Loss
from beam_dpsketch.privacy.mechanism import Randomness, Spending, one_count
from beam_dpsketch.privacy.noise.laws import Noise
from beam_dpsketch.privacy.summary_counts import RECORDS, UNITS, WEIGHT
from beam_dpsketch.privacy.terms import Disclosure
from beam_dpsketch.statement.clipping import Clipping
from beam_dpsketch.statement.notes import KeyNote, ThresholdNote
from beam_dpsketch.statement.provenance import in_words
from beam_dpsketch.statement.release_id import runs
from beam_dpsketch.statement.showing import shown
from beam_dpsketch.statement.stated import Stated
from beam_dpsketch.words import round_up

HEADINGS = ("Protects", "Guarantee", "Meaning", "Contribution", "Keys", "Items", "Clipping", "Contents", "Not hidden")
"""Headings in the summary, in order. Keys and Items appear only if they are chosen from the data."""

_CHANGE = {
    NeighboringRelation.REPLACE_ONE: "which of two versions of {} was used",
    NeighboringRelation.ADD_OR_REMOVE_ONE: "whether {} was included",
}
_DISCLOSED = {Disclosure.KEYS: "which keys have data", Disclosure.WINDOWS: "which windows have data"}
_GUARANTEES = {
    Randomness.SYSTEM: "{}",
    Randomness.KEYED: "{}; it holds against everyone who does not know the secret that the noise is derived from",
    Randomness.PUBLIC: "none, NOT PRIVATE: the seed of the noise is public. With secret noise: {}",
}
_LARGEST_EXPONENT, _LARGEST_DENOMINATOR, _WIDTH = 20, 1000, 14


def summary(statement: Stated, clipping: Clipping) -> dict[str, str]:
    """Format the summary lines for all readers, by heading. Losses are rounded up."""
    run_count = len(runs(statement.release_ids))
    bounds = statement.bounds.words(statement, combined=run_count > 1)
    guarantee = f"{loss_in_words(statement.loss, statement.reported_delta)}, for {change_in_words(statement)}"
    return {
        "Protects": statement.privacy_unit.value,
        "Guarantee": _GUARANTEES[statement.randomness].format(guarantee),
        "Meaning": _meaning(statement),
        "Contribution": bounds + (f", in each of {run_count} runs" if run_count > 1 else ""),
        **_selection(statement),
        "Clipping": clipping.clauses,
        "Contents": _contents(statement),
        "Not hidden": ", ".join(["that this release exists and when it was made", *disclosed(statement.disclosed)]),
    }


def details(statement: Stated, clipping: Clipping) -> dict[str, str]:
    """Format the detail lines for auditors, by heading."""
    rows: Any = statement.over_time
    needed = "usable value" if statement.privacy_unit.is_one_record else "privacy id or a usable value"
    found = {
        "Definition": _definition(statement),
        "Accounting": _accounting(statement),
        "Timeline": "" if rows is None else rows.words(),
        "Noise": _noise(statement),
        "Selection": _selection_details(statement),
        "Budget split": ", ".join(_parts(statement)),
        "Intervals": _intervals(statement),
        "Assumptions": "" if statement.is_row else clipping.assumption,
        "Counts": "; ".join(_counts(statement)),
        "Not counted": f"records without a {needed}",
        **in_words(statement.provenance),
    }
    return {heading: words for heading, words in found.items() if words}


def aligned(lines: Mapping[str, str]) -> str:
    """Align lines after a fixed-width column of headings."""
    return "\n".join(f"{heading:{_WIDTH}}{words}" for heading, words in lines.items())


def disclosed(what: Disclosure) -> list[str]:
    """List the facts that are published without noise."""
    return [words for flag, words in _DISCLOSED.items() if flag in what]


def loss_in_words(loss: Loss, reported_delta: float, kind: str = "differential privacy") -> str:
    """Format epsilon and delta, rounded up, with the kind of guarantee in brackets."""
    epsilon, delta = loss.shown(reported_delta)
    if math.isinf(epsilon):
        return _zcdp(loss)
    if not delta:
        return f"epsilon = {round_up(loss.pure, 6):g} (pure differential privacy)"
    return f"epsilon = {round_up(epsilon, 4):g}, delta = {round_up(delta, 6):g} ({kind})"


def share_in_words(statement: Stated) -> str:
    """Format the budget share that the release spends. Empty without a share."""
    if statement.part_of is None:
        return ""
    share, whole = statement.part_of
    spelled = f"{share}" if share.denominator <= _LARGEST_DENOMINATOR else f"{float(share):.4g}"
    return f"{spelled} of {loss_in_words(whole, statement.reported_delta, '').removesuffix(' ()')}"


def _zcdp(loss: Loss) -> str:
    rho = f"rho = {round_up(loss.rho, 6):g}"
    return f"{rho}, delta = {round_up(loss.delta, 6):g} (approximate zCDP)" if loss.delta else f"{rho} (zCDP)"


def change_in_words(of: Any) -> str:
    """Format the relation between neighboring data sets, from terms or a statement."""
    privacy_unit, relation = of.privacy_unit, getattr(of, "relation", None) or of.privacy.relation
    verb = "replacing" if relation is NeighboringRelation.REPLACE_ONE else "adding or removing"
    if privacy_unit.span:
        return f"{verb} what one {privacy_unit.noun} contributes to one {privacy_unit.span}"
    records = "the records of " * (verb == "replacing" and not privacy_unit.is_one_record)
    return f"{verb} {records}one {privacy_unit.noun}"


def selection_in_words(note: KeyNote | ThresholdNote, delta: Fraction, of: Any) -> str:
    """Format the selection rule, and the probability that a unit alone causes a release.

    Args:
      note: the selection rule.
      delta: the probability.
      of: the terms or statement.
    """
    noun, span = of.privacy_unit.noun, f" within one {of.privacy_unit.span}" * bool(of.privacy_unit.span)
    alone = f"causes any {'item' if note.of_items else 'key'} to be released with probability at most"
    lost = f"{alone} {round_up(delta, 6):g} (included in delta)"
    if isinstance(note, KeyNote):
        return f"chosen from the data with noise; a key {note.words(noun)}; one {noun} alone{span} {lost}"
    total, clipped = _total(of), " after clipping" * (not of.privacy_unit.is_one_record or of.bounds.has_weights)
    items = "one item" if note.max_items == 1 else f"up to {note.max_items} items"
    return f"{note.words(noun, total, clipped)}; each {noun} counts for {items}, and alone{span} {lost}"


def _total(of: Any) -> str:
    return "weight" if of.bounds.has_weights else "count"


def _given(statement: Stated) -> str:
    privacy_unit = statement.privacy_unit
    return (
        f"what a given {privacy_unit.noun} contributed to one {privacy_unit.span}"
        if privacy_unit.span
        else f"a given {privacy_unit.noun}"
    )


def _meaning(statement: Stated) -> str:
    if not statement.is_private:
        return "anyone who knows the seed can compute the exact counters"
    accuracy = round_up(100 * statement.attack_accuracy, 3)
    return (
        f"an attacker who knows all other records guesses {_CHANGE[statement.relation].format(_given(statement))} with "
        f"at most {accuracy:g} % accuracy, if both are equally likely beforehand (50 % is a coin flip)"
    )


def _selection(statement: Stated) -> dict[str, str]:
    if not statement.delta:
        return {}
    if statement.keys is None:  # combined releases with different rules
        alone = f"one {statement.privacy_unit.noun} alone causes any of them to be released with probability at most"
        lost = f"{alone} {round_up(statement.delta, 6):g} (included in delta)"
        return {"Keys": f"keys or items, chosen from the data with noise by several rules; {lost}"}
    words = selection_in_words(statement.keys, statement.delta, statement)
    return {"Items" if statement.keys.of_items else "Keys": words}


def _selection_details(statement: Stated) -> str:
    note: Any = statement.keys
    if note is None:
        return ""
    noun, words = statement.privacy_unit.noun, []
    votes = note.votes if note.of_items else note
    if votes is not None and (more := votes.of_several(noun, "item" if note.of_items else "key")):
        words.append(f"probability 1/2 also with {more}")
    if note.of_items:
        total = _total(statement)
        words.append(f"{total}s just above the threshold are biased upward by up to one sigma on average")
        if votes is not None:
            words.append(f"the {total} of an item that is released by its votes can be near 0, or below")
    return "; ".join(words)


def _definition(statement: Stated) -> str:
    if not statement.is_private:
        return ""
    epsilon, delta = statement.reported_epsilon, statement.delta_of_epsilon
    if math.isinf(epsilon):
        lost = f"{round_up(statement.delta, 6):g}"
        return f"{change_in_words(statement)}; an epsilon follows from rho for every delta above {lost}"
    epsilon = round_up(epsilon, 4)
    factor = f"e^{epsilon:g}"
    if epsilon <= _LARGEST_EXPONENT:
        number = round_up(math.exp(epsilon), 4)
        factor = f"{number:g}" if number < 1000 else f"{number:,.0f}"
    plus = f", plus {round_up(delta, 6):g}" if delta else ""
    change = change_in_words(statement)
    return f"{change} changes the probability of any set of results by at most a factor of {factor}{plus}"


def _accounting(statement: Stated) -> str:
    loss = statement.loss
    words = [_zcdp(loss)]
    if loss.pure:
        pure = f"epsilon = {round_up(loss.pure, 6):g}"
        words.append(
            f"{pure} by Laplace noise, and epsilons of several releases add up"
            if loss.is_pure
            else f"a part of it is pure, with {pure}"
        )
    found = [share_in_words(statement), *words, f"neighbors: {statement.relation.name}", _covers(statement)]
    return "; ".join(filter(None, found))


def _covers(statement: Stated) -> str:
    """Format the scope of the loss."""
    count, run_count, privacy_unit = (
        len(statement.release_ids),
        len(runs(statement.release_ids)),
        statement.privacy_unit,
    )
    if run_count > 1:
        return f"the loss covers {count} releases of {run_count} runs"
    if privacy_unit is PrivacyUnit.RECORD_IN_THIS_RELEASE:
        return "the loss covers this release alone"
    if privacy_unit.span:
        windows = "" if privacy_unit is PrivacyUnit.PRIVACY_ID_IN_WINDOW else "windows, "
        return f"the loss covers one {privacy_unit.span}, with all its {windows}keys and metrics"
    return "the loss covers all keys, windows and metrics of the run together"


def _noise(statement: Stated) -> str:
    noise, count = statement.noise, len(statement.release_ids)
    widths = sorted({noise.spread(each) for each in statement.sigma_squared_per_level})
    width = " to ".join(f"{each:.6g}" for each in (widths[0], widths[-1])[: len(widths)])
    unit = f"the contribution of one record{' of weight 1' * statement.bounds.has_weights}"
    drawn = "drawn once" if count == 1 else f"drawn once in each of {count} releases"
    if statement.over_time is not None:
        drawn = "drawn once for each row" if statement.is_row else "a sum of the noise of rows"
    where = f"per counter{' of each row' * statement.is_row}"
    return (
        f"{noise.value.removeprefix('a ')}, {noise.measure} = {width} (unit: {unit}) {where}; {drawn}; source: "
        f"{statement.randomness.value}"
    )


def _intervals(statement: Stated) -> str:
    if statement.is_row or not statement.contents:
        return ""
    least = any(statement.words_of(note).startswith("at least ") for note in statement.contents)
    words = ["± is a 95 % interval for the noise"]
    words += ['"at least" is a lower bound with 97.5 % confidence'] if least else []
    words += ["neither includes clipping" if least else "it does not include clipping"] if statement.is_bounded else []
    return "; ".join(words)


def _contents(statement: Stated) -> str:
    """Format the main summary counts: privacy ids and records, or the total."""
    if statement.is_row:
        return "weighted sums of windows; the answers of the timeline report counts"
    units = None if statement.privacy_unit.is_one_record else statement.note(UNITS)
    total = statement.note(RECORDS) or statement.note(WEIGHT)
    notes = [*dict.fromkeys(note for note in (units, total) if note is not None)]
    if not notes:
        return "not counted (there are no summary counts)"
    again = units is not None and statement.over_time is not None
    each = f"; a {statement.privacy_unit.noun} counts once in each window" * again
    return f"{', '.join(map(statement.words_of, notes))}{' of all metrics' * statement.of_metric}{each}"


def _counts(statement: Stated) -> Iterator[str]:
    for note in () if statement.is_row else statement.contents:
        estimate, _, upper = note.interval(0.95)
        least = note is not statement.own_total and any(map(statement.is_at_least, note.names))
        inside = " (counted records only; the number of others is unknown)" * least
        yield f"{statement.name_of(note)}: {shown(estimate)} ±{shown(upper - estimate)}{inside}"


def _parts(statement: Stated) -> Iterator[str]:
    note: Any = statement.keys
    votes = note.votes if note is not None and note.of_items else note
    if not (statement.side or statement.lost or statement.norm_share or votes) or len(statement.release_ids) > 1:
        return
    yield f"{_percent(statement.sketch_share)} data"
    if statement.norm_share:
        yield f"{_percent(statement.norm_share)} norm (sigma = {_norm_sigma(statement):.4g} per count)"
    if votes is not None:
        sigma = f"sigma = {math.sqrt(votes.sigma_squared) / votes.grid:.4g}, in {statement.privacy_unit.noun}s"
        yield f"{_percent(votes.share)} {'item' if note.of_items else 'key'} selection ({sigma})"
    for side in statement.side:
        yield f"{_percent(side.share)} {statement.name_of(side)} (sigma = {math.sqrt(side.sigma_squared):.4g})"
    if (lost := statement.lost) is not None:
        yield f"{_percent(lost.shares)} clipping (sigma = {math.sqrt(lost.sigma_squared):.4g} per count)"


def _norm_sigma(statement: Stated) -> float:
    loss = statement.pure if statement.noise is Noise.LAPLACE else None
    spending = Spending(statement.rho, loss)
    return math.sqrt(spending.parameter(one_count(statement.relation), share=statement.norm_share or Fraction(0)))


def _percent(share: Fraction) -> str:
    return f"{float(100 * share):.4g} %"
