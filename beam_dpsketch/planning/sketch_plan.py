"""Sketch plans: layout, noise, and expected errors for ranks, searches and frequencies."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from beam_dpsketch.answers.notes import USELESS_SHARE
from beam_dpsketch.exact.declared.count import Guess, check_size, refuse_guess
from beam_dpsketch.exact.sketches.trees import BYTES_PER_COUNTER, TreeSpec
from beam_dpsketch.noise.calibration import Calibration
from beam_dpsketch.planning import expected_error
from beam_dpsketch.planning.advice import Advice, advise
from beam_dpsketch.planning.expected_error import REFERENCES, has_numbers, noise_rank_deviation, simulated_deviation
from beam_dpsketch.planning.plan import (
    Line,
    Plan,
    aside_line,
    bound_in_words,
    copies_in_words,
    in_digits,
    listed,
    numbered,
    order_line,
    under_norm,
)
from beam_dpsketch.planning.suiting import item_width
from beam_dpsketch.privacy.terms import ReleaseTerms
from beam_dpsketch.statement.showing import shown
from beam_dpsketch.statement.statement_text import selection_in_words


def plan_sketch(
    calibration: Calibration,
    n: int | None,
    *,
    keys: int | None,
    search: bool,
    target_error: Fraction | float,
    guess: Guess | None = None,
    layout: str = "",
    even_records: int | None = None,
) -> Plan:
    """Plan a release with calibrated noise.

    `layout` and `even_records` are attributes of the plan. The other arguments are as in `kinds.layouts.plan`.
    """
    terms, over_time = calibration.terms, calibration.terms.privacy_unit.over_horizon
    check_size(n, terms)
    if n is None or over_time or calibration.spec.purpose(search=search) != "ranks":
        refuse_guess(guess)
    advice = None if over_time else advise(calibration, search=search, target_error=target_error)
    numbers: dict[str, Any] = {}
    if over_time or terms.norm is not None:  # timeline rows, or unknown noise
        guess = None
    else:
        numbers = _expected_answers(calibration.with_norm(None), n, search)
        if n is not None and guess is not None:
            numbers["value_errors"] = expected_error.value_errors(calibration.with_norm(None), n, guess)
    people = None if n is None or advice is None else n / float(advice.needed.each)
    return Plan(
        spec=calibration.spec,
        terms=terms,
        n=n,
        keys=keys,
        sigma_squared=calibration.per_table,
        warnings=[*terms.warnings(people), *_full(calibration, n)],
        about=tuple(_about(calibration, keys, layout, even_records)),
        noisy=f"{calibration.spec.noisy}{' of each row' if over_time else ''}{under_norm(terms)}",
        promised=tuple(_promised(calibration, even_records)),
        expected=tuple(_expected(calibration, n, guess, numbers, advice)),
    )


def _expected_answers(calibration: Calibration, n: int | None, search: bool) -> dict[str, Any]:
    spec, terms, sigma_squared = calibration.spec, calibration.terms, calibration.per_table
    purpose = spec.purpose(search=search)
    if purpose == "frequencies":
        half_width = item_width(spec, terms, sigma_squared)
        if n is None or spec.is_listed:
            return {"half_width": half_width}
        return {"half_width": half_width, "errors": expected_error.simulated_errors(calibration, n)}
    if purpose == "items":
        on_data = None if n is None else expected_error.simulated_detection(calibration, n)
        return {"detection": expected_error.noise_detection(spec, terms, sigma_squared), "detection_on_data": on_data}
    if n is None:
        return {}
    if isinstance(spec, TreeSpec) and not all(level.counts_all for level in spec.levels):
        return {"rank_deviation": {name: simulated_deviation(calibration, n, reference=name) for name in REFERENCES}}
    known = noise_rank_deviation(spec, sigma_squared, known_total=True)
    return {"rank_deviation": {"any": noise_rank_deviation(spec, sigma_squared)}, "rank_deviation_known_total": known}


def _full(calibration: Calibration, n: int | None) -> Iterator[str]:
    """Warn if rows of a factorization may have no room for n records."""
    spec, terms = calibration.spec, calibration.terms
    if spec.has_factor and n is not None:
        room = spec.factor.room(terms.scale_bits + terms.grid_bits(min(calibration.per_table)))
        if n >= room:
            yield (
                f"rows of a square-root factor have room for {room:,} records of one value: a release of more may "
                "be refused at its end [dpsketch-E515]. Use TreeSpec.for_memory(domain), or layout: tree"
            )


def _about(calibration: Calibration, keys: int | None, layout: str, even_records: int | None) -> Iterator[Line]:
    spec, sigmas = calibration.spec, [math.sqrt(each) for each in calibration.per_table]
    fields = {
        "kind": spec.kind,
        "counters": spec.cells,
        "layout": layout,
        "even_records": even_records,
        "keys": keys,
        "bytes": spec.cells * BYTES_PER_COUNTER * (keys or 1),
    }
    tables = f"{len(sigmas)} tables" if len(sigmas) > 1 else "1 table"
    size = f"{spec.cells} counters, {spec.cells * BYTES_PER_COUNTER} bytes at {BYTES_PER_COUNTER} a counter"
    yield Line(f"{spec.title}: {tables}, {size}{copies_in_words(keys)}.", "memory", fields["bytes"], fields)
    for number, (level, sigma) in enumerate(zip(spec.describe_levels(), sigmas, strict=False)):
        yield Line(f"  level {number}: {level}, sigma = {sigma:.4g}")
    yield Line(f"Layout: {layout}." if layout else "", "layout", layout)


def _promised(calibration: Calibration, even_records: int | None) -> Iterator[Line]:
    words = ""
    if even_records is not None:
        words = (
            f"Length: if the values of a person are spread evenly over the domain, {even_records:,} records count "
            "in full; of more, each counts less. A rehearsal on public data tells what is lost."
        )
    yield Line(words, "even_records", even_records)
    yield Line(aside_line(calibration))
    note, terms = calibration.note, calibration.terms
    words = "" if note is None else f"Keys: {selection_in_words(note, terms.delta, terms)}."
    if note is not None and (more := note.of_several(terms.privacy_unit.noun)):
        words += f"\nSelection: probability 1/2 also with {more}."
    yield Line(words, "key_note", note)


def _expected(
    calibration: Calibration, n: int | None, guess: Guess | None, numbers: Mapping[str, Any], advice: Advice | None
) -> Iterator[Line]:
    spec, terms, bounds = calibration.spec, calibration.terms, calibration.terms.asked
    yield Line("", fields={"n": n})
    yield from _ranks(n, numbers)
    if guess is None and advice is not None and advice.measure == "rank error" and has_numbers(spec):
        yield Line(
            "Errors are of ranks. Where values are few, as in a long tail of a wide domain, values move much more: n "
            "and typical, about the median and the 99 % point, tell errors of values."
        )
    yield from _found(calibration, n, numbers)
    half_width, errors, words = numbers.get("half_width"), numbers.get("errors"), ""
    if half_width is not None:
        certain = "from the noise alone; nothing collides" if spec.is_listed else "from the noise alone"
        words = f"Estimates: 95 % intervals of about +- {half_width:,.3g} {certain}."
    yield numbered("half_width", half_width, words)
    words = ""
    if errors is not None:
        words = (
            f"With collisions, on {n:,} records with frequencies like 1/rank: +- {errors.half_width:,.3g}, "
            f"and a root mean square error of {errors.deviation:,.3g}. Other data differ."
        )
    elif n is None and not terms.privacy_unit.over_horizon and not spec.is_listed and bounds.size is not None:
        words = "This is from the noise alone; n adds what about n records would give, on made-up data."
    yield numbered("errors", errors, words)
    yield _values(guess, numbers)
    is_noise, words = _is_mostly_noise(n, numbers), ""
    if is_noise:
        more = f"raise {terms.privacy.currency}{'' if spec.is_listed else ' or memory'}"
        words = f"Answers would have much noise: {more}, lower the bounds, or collect more records."
    yield numbered("is_mostly_noise", is_noise, words)
    yield numbered("advice", advice, "" if advice is None else "\n".join(_advised(advice, terms)))


def _ranks(n: int | None, numbers: Mapping[str, Any]) -> Iterator[Line]:
    lines, deviations, known = [], numbers.get("rank_deviation"), numbers.get("rank_deviation_known_total")
    for name, deviation in (deviations or {}).items():
        data = "on any data, at most about" if name == "any" else f"on {name} data, about"
        share = deviation / (n or 1)
        lines.append(f"Rank error {data} {deviation:.3g} of {n} ({share:.2g}), root mean square.")
    yield numbered("rank_deviation", deviations, "\n".join(lines))
    yield numbered("rank_deviation_known_total", known, "" if known is None else f"With a public total: {known:.3g}.")


def _values(guess: Guess | None, numbers: Mapping[str, Any]) -> Line:
    found = numbers.get("value_errors", ())
    if guess is None:
        return numbered("value_errors", found)
    median, high = map(shown, guess[:2])
    errors = ", ".join(
        f"{shown(each.value)} +- {shown(float(f'{each.deviation:.2g}'))} at {each.quantile:g}" for each in found
    )
    return numbered(
        "value_errors",
        found,
        f"Errors of values, root mean square, on {guess.shape} data with a median of {median} and a 99 % point of "
        f"{high}: {errors}. Other data differ.\n"
        "Errors of tails can reach the ends of the domain; one that is narrower or coarser has smaller ones.",
    )


def _found(calibration: Calibration, n: int | None, numbers: Mapping[str, Any]) -> Iterator[Line]:
    detection, on_data = numbers.get("detection"), numbers.get("detection_on_data")
    bounds, words = calibration.terms.asked, ""
    if detection is not None:
        counted = "kept records" if not (bounds.has_norm or bounds.has_weights) else "kept weight"
        words = (
            f"Found: with 95 % probability, values with {detection.likely:,.0f} {counted} or more; with 50 %, "
            f"those with {detection.even:,.0f}. Values with fewer will probably be missed."
        )
    yield numbered("detection", detection, words)
    words = ""
    if on_data is not None:
        likely, even = (f"{each:,.0f}" for each in (on_data.likely, on_data.even))
        words = "" if calibration.spec.is_histogram else f"With collisions, {likely} and {even}. "
        words += (
            f"Of {n:,} records with frequencies like 1/rank, {on_data.reaching:,} of the values have that many. "
            "Other data differ."
        )
    yield numbered("detection_on_data", on_data, words)


def _is_mostly_noise(n: int | None, numbers: Mapping[str, Any]) -> bool:
    if n is None:
        return False
    if (on_data := numbers.get("detection_on_data")) is not None:
        return not on_data.reaching
    if "rank_deviation" in numbers:
        error = min(numbers["rank_deviation"].values())
    else:
        error = numbers["errors"].half_width if "errors" in numbers else numbers.get("half_width", 0)
    return bool(error > USELESS_SHARE * n)


def _advised(advice: Advice, terms: ReleaseTerms) -> Iterator[str]:
    bounds, needed = terms.asked, advice.needed
    measure, of_norm = advice.measure.capitalize(), ""
    if advice.crossover is not None:
        yield order_line(terms, advice.crossover)
    if advice.by_bound:
        yield f"{measure} from the noise alone, by {bound_in_words(terms)}: {listed(advice.by_bound)}."
    if bounds.size is None:
        of_norm = f" under a norm of {in_digits(advice.bound)}"
    yield (
        f"{measure} from the noise alone, by epsilon at delta = {terms.shown[1]:g}{of_norm}: "
        f"{listed(advice.by_epsilon)}."
    )
    given = f"For a {advice.measure} of {float(100 * needed.target_error):g} % of all that counts{of_norm}"
    weight = f"a weight of {needed.weight:,}" if bounds.has_weights else f"{needed.weight:,} records"
    if needed.people is None:
        yield f"{given}: {weight} or more must count."
    else:
        each = f"a weight of {in_digits(needed.each)}" if bounds.has_weights else f"{in_digits(needed.each)} record(s)"
        yield f"{given}: {weight} or more must count, as from {needed.people:,} people with {each} each."
