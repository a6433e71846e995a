"""Sketch plans: layout, noise, and expected errors for ranks, searches and frequencies."""

from __future__ import annotations

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
    alternatives,
    aside_line,
    bound_in_words,
    copies_in_words,
    in_digits,
    in_table,
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
                f"A square-root factorization supports fewer than {room:,} records with the same value. A larger "
                "release may fail at its end [dpsketch-E515]. Use TreeSpec.for_memory(domain), or layout: tree"
            )


def _about(calibration: Calibration, keys: int | None, layout: str, even_records: int | None) -> Iterator[Line]:
    spec = calibration.spec
    fields = {
        "kind": spec.kind,
        "counters": spec.cells,
        "layout": layout,
        "even_records": even_records,
        "keys": keys,
        "bytes": spec.cells * BYTES_PER_COUNTER * (keys or 1),
    }
    noise, size = calibration.terms.noise, f"{spec.cells:,} counters"
    size += f", {spec.cells * BYTES_PER_COUNTER:,} bytes at {BYTES_PER_COUNTER} per counter"
    levels = "".join(
        f"\nlevel {number}: {level}, {noise.measure} = {noise.spread(parameter):.4g}"
        for number, (level, parameter) in enumerate(zip(spec.describe_levels(), calibration.per_table, strict=False))
        if len(calibration.per_table) > 1
    )
    tables = f"{len(calibration.per_table)} levels, " * (len(calibration.per_table) > 1)
    words = f"{spec.title}: {tables}{size}{copies_in_words(keys)}{levels}"
    yield Line(words, "memory", fields["bytes"], fields, "Counters")
    yield Line(layout, "layout", layout, label="Layout")


def _promised(calibration: Calibration, even_records: int | None) -> Iterator[Line]:
    words = ""
    if even_records is not None:
        words = (
            f"{even_records:,} records of a privacy id, if their values are spread evenly over the domain; rehearse on "
            "public data to measure clipping"
        )
    yield Line(words, "even_records", even_records, label="In full")
    yield Line(aside_line(calibration), label="Summary")
    note, terms = calibration.note, calibration.terms
    words = "" if note is None else selection_in_words(note, terms.delta, terms)
    if note is not None and (more := note.of_several(terms.privacy_unit.noun)):
        words += f"\nprobability 1/2 also with {more}"
    yield Line(words, "key_note", note, label="Keys")


def _expected(
    calibration: Calibration, n: int | None, guess: Guess | None, numbers: Mapping[str, Any], advice: Advice | None
) -> Iterator[Line]:
    spec, terms, bounds = calibration.spec, calibration.terms, calibration.terms.asked
    yield Line("", fields={"n": n})
    yield from _ranks(n, numbers)
    if guess is None and advice is not None and advice.measure == "rank error" and has_numbers(spec):
        yield Line(
            "Rank errors only. A small rank error can be a large error in values, as in a long tail.\n"
            "Give the number of records and the typical median and 99th percentile to see errors in values."
        )
    yield from _found(calibration, n, numbers)
    half_width, errors, words = numbers.get("half_width"), numbers.get("errors"), ""
    if half_width is not None:
        rows = [("noise only", f"±{in_digits(half_width)}{'; listed items do not collide' * spec.is_listed}")]
        if errors is not None:
            on_data = f"±{in_digits(errors.half_width)} (noise and collisions; RMS error {in_digits(errors.deviation)})"
            rows.append((f"{n:,} Zipf-distributed records", on_data))
        words = in_table("Expected margin of error of a count (95 %)", rows)
        if errors is not None:
            words += "\nSimulated data; yours will differ."
        elif n is None and not terms.privacy_unit.over_horizon and not spec.is_listed and bounds.size is not None:
            words += "\nGive the number of records to include collisions, estimated on simulated data."
    yield numbered("half_width", half_width, words)
    yield numbered("errors", errors)
    yield _values(guess, numbers)
    is_noise, words = _is_mostly_noise(n, numbers), ""
    if is_noise:
        loss = "epsilon" if terms.privacy.pure is not None else "rho"
        more = f"a larger {loss}{'' if spec.is_listed else ', more memory'}"
        words = f"answers would be mostly noise; use more data, {more} or a smaller contribution bound"
    yield numbered("is_mostly_noise", is_noise, words, "Warning")
    yield numbered("advice", advice, "" if advice is None else _advised(advice, terms))


def _ranks(n: int | None, numbers: Mapping[str, Any]) -> Iterator[Line]:
    rows, deviations, known = [], numbers.get("rank_deviation"), numbers.get("rank_deviation_known_total")
    for name, deviation in (deviations or {}).items():
        data, about = ("any data", "at most about ") if name == "any" else (f"{_in_print(name)} data", "about ")
        rows.append((data, f"{about}{in_digits(deviation)} of {n:,} ({100 * deviation / (n or 1):.2g} %)"))
    if known is not None:
        rows.append(("any data, with a public total", f"at most about {in_digits(known)}"))
    yield numbered("rank_deviation", deviations, in_table("Expected rank error (RMS)", rows) if rows else "")
    yield numbered("rank_deviation_known_total", known)


def _in_print(name: str) -> str:
    return name.replace("lognormal", "log-normal").replace("zipf", "Zipf-distributed")


def _values(guess: Guess | None, numbers: Mapping[str, Any]) -> Line:
    found = numbers.get("value_errors", ())
    if guess is None:
        return numbered("value_errors", found)
    median, high = map(shown, guess[:2])
    heading = f"Expected error of a quantile (RMS), {guess.shape} data with median {median} and 99th percentile {high}"
    rows = [
        (f"p{100 * each.quantile:g}", f"{shown(each.value)} ±{shown(float(f'{each.deviation:.2g}'))}") for each in found
    ]
    words = (
        "Errors in tails can reach the ends of the domain; a narrower or coarser domain reduces them.\n"
        "Simulated data; yours will differ."
    )
    return numbered("value_errors", found, f"{in_table(heading, rows)}\n{words}")


def _found(calibration: Calibration, n: int | None, numbers: Mapping[str, Any]) -> Iterator[Line]:
    detection, on_data = numbers.get("detection"), numbers.get("detection_on_data")
    bounds, words = calibration.terms.asked, ""
    if detection is not None:
        counted = "clipped weight" if bounds.has_norm or bounds.has_weights else "records after clipping"
        rows = [("noise only", f"{detection.likely:,.0f} (50 %: {detection.even:,.0f})")]
        if on_data is not None:
            collisions = "" if calibration.spec.is_histogram else f"{on_data.likely:,.0f} (50 %: {on_data.even:,.0f}); "
            rows.append((f"{n:,} Zipf-distributed records", f"{collisions}{on_data.reaching:,} values reach the limit"))
        words = in_table(f"Detection limit: {counted} with which a value is found with 95 % probability", rows)
        more = "Give the number of records to see how many values reach the limit, on simulated data."
        words += f"\n{more if on_data is None else 'Simulated data; yours will differ.'}"
    yield numbered("detection", detection, words)
    yield numbered("detection_on_data", on_data)


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


def _advised(advice: Advice, terms: ReleaseTerms) -> str:
    bounds, needed = terms.asked, advice.needed
    sign, of_norm = "±" if advice.measure == "margin of error" else "", ""
    if bounds.size is None:
        of_norm = f" at a norm of {in_digits(advice.bound)}"
    weight = f"a total weight of {needed.weight:,}" if bounds.has_weights else f"{needed.weight:,} records"
    data = f"For a {advice.measure} of {float(100 * needed.target_error):g} % of the total{of_norm}: at least {weight}"
    if needed.people is not None:
        each = in_digits(needed.each)
        each = f"a weight of {each}" if bounds.has_weights else f"{each} record{'s' * (needed.each != 1)}"
        data += f", for example {needed.people:,} {terms.privacy_unit.noun}s with {each} each"
    hint = "" if advice.crossover is None else f"\n{order_line(terms, advice.crossover)}"
    settings = {bound_in_words(terms): advice.by_bound, f"epsilon{of_norm}": advice.by_epsilon}
    heading = f"What would change the {advice.measure} (noise only)"
    return f"{alternatives(sign, settings, heading)}\n{data}.{hint}"
