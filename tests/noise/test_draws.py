"""Every draw has the noise that its tables state, and keyed noise of its own for all that it depends on."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import os
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from beam_dpsketch import (
    REPLACE_ONE,
    AutoNorm,
    ListedItems,
    PrivacySpec,
    RecordBounds,
    ReleaseTerms,
    SummaryCounts,
    TextDomain,
)
from beam_dpsketch.errors import RefusalError
from beam_dpsketch.exact.reading.items import NOISY, VOTERS, VOTES
from beam_dpsketch.exact.sketches import raw_type
from beam_dpsketch.exact.sketches.listed_items import ThresholdedItems
from beam_dpsketch.exact.sums.vote_rounds import WINDOW
from beam_dpsketch.noise import counting, noising, tables
from beam_dpsketch.noise import keys as choosing
from beam_dpsketch.noise import norms as norm_choosing
from beam_dpsketch.noise.calibration import Calibration
from beam_dpsketch.noise.counting import Counting
from beam_dpsketch.noise.keys import choose_keys, draw_first, find_chosen, with_noisy_votes
from beam_dpsketch.noise.noising import PartColumns, draw_lost, release_parts
from beam_dpsketch.noise.norms import choose_norm
from beam_dpsketch.noise.tables import NoisyTable
from beam_dpsketch.privacy.contributions import PrivacyUnit
from beam_dpsketch.privacy.noise import discrete_gaussian, discrete_laplace
from beam_dpsketch.privacy.noise.keyed_randomness import KeyedRandomness
from beam_dpsketch.privacy.noise.laws import Noise
from beam_dpsketch.privacy.norm.choice import bin_count
from beam_dpsketch.privacy.summary_counts import LostIn
from beam_dpsketch.privacy.terms import Disclosure, RowTerms
from beam_dpsketch.privacy.thresholded_counts import ThresholdRule
from beam_dpsketch.statement.stated import Stated
from tests.helpers import laws
from tests.helpers.noisy_tables import CHOSEN_KEYS, FLAT, GROUPS, PEOPLE, TERMS, cases

SECRET = KeyedRandomness(b"a secret of more than thirty-two bytes", b"x")


def drawn_by_hand(table: NoisyTable, exact: np.ndarray, random_bytes: Any) -> np.ndarray:
    """Return what a table says of its noise, drawn from the samplers themselves."""
    steps = table.parameter * table.unit * 4**table.grid_bits
    if table.noise is Noise.LAPLACE:
        half = steps / 2
        scale = Fraction(math.isqrt(half.numerator), math.isqrt(half.denominator))
        noise = discrete_laplace.sample(exact.size, scale, random_bytes=random_bytes)
    else:
        noise = discrete_gaussian.sample(exact.size, steps + 4, random_bytes=random_bytes)
    noisy = exact * 2**table.grid_bits + noise.reshape(exact.shape)
    return np.floor_divide(noisy + 2**table.dropped_bits // 2, 2**table.dropped_bits)


def seen_and_drawn_by_hand(
    table: NoisyTable, right: Any, seen: list[Any], numbers: np.ndarray, random_bytes: Any = os.urandom
) -> np.ndarray:
    """Draw a table, note it, and compare another draw with one by hand."""
    noisy: np.ndarray = right(table, numbers, random_bytes)
    seen.append((table.names, numbers, noisy))
    by_hand = drawn_by_hand(table, numbers, SECRET.random_bytes(b"again"))
    np.testing.assert_array_equal(right(table, numbers, SECRET.random_bytes(b"again")), by_hand)
    return noisy


def other_noise(change: Any) -> laws.Fault:
    """Plant other arguments of `add_noise`: a function of its parameter and its bits."""

    def faulty(exact: Any, numbers: np.ndarray, parameter: Fraction, bits: int, **names: Any) -> np.ndarray:
        return exact(numbers, *change(parameter, bits), **names)

    return laws.around(tables, "add_noise", faulty)


def check_stated(said: Stated, found: Calibration) -> None:
    """Raise unless a statement has the share and the noise of each table."""
    assert said.sigma_squared_per_level == found.per_table, "other noise of counters"
    assert said.sketch_share == sum(table.share for table in found.counters), "another share of counters"
    notes: list[Any] = [*said.side]
    if said.lost is not None:
        notes += [said.lost, *([] if said.lost.kept is None else [said.lost.kept])]
    stated = [(note.share, note.noise, note.sigma_squared) for note in notes]
    wanted = [(table.share, table.noise, table.parameter) for table in (*found.aside, *found.lost)]
    assert stated == wanted, "other noise of numbers aside"


def check_draws(every: int = 1) -> None:
    """Raise unless a release draws its tables in one order, each with its noise, and rounds off what that drowns."""
    for name, spec, terms, found in itertools.islice(cases(), 0, None, every):
        kind = raw_type(spec)
        exact = (np.arange(2 * spec.cells, dtype=np.int64) * 7).reshape(2, -1) % 1013 - 5
        side = np.arange(2 * terms.aside, dtype=np.int64).reshape(2, -1) * 31
        parts = PartColumns(kind, spec, terms.scale_bits, exact, side, [b"a", b"b"], [b"r" * 16] * 2)
        seen: list[tuple[tuple[str, ...], np.ndarray, np.ndarray]] = []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(NoisyTable, "draw", functools.partialmethod(seen_and_drawn_by_hand, NoisyTable.draw, seen))
            row = 3 if isinstance(terms, RowTerms) else None
            told = found.empty_lost if found.lost_is_of_run else None
            noisy = release_parts(parts, found, row=row, lost=told)
        for said, _ in noisy.each():
            check_stated(said, found)
        aside, lost = terms.counters, terms.lost
        of_release = [] if lost is None or lost.of_run else [("lost",)]
        order = [counter.names for counter in aside] + of_release + [("counters",)] * len(found.counters)
        assert [names for names, *_ in seen] == order, f"{name}: another order"
        numbers = [each for names, _, each in seen if names != ("counters",)]
        columns = np.concatenate(numbers, axis=1) if numbers else np.zeros((2, 0))
        np.testing.assert_array_equal(columns, noisy._side)
        counters = np.concatenate([each.reshape(2, -1) for names, _, each in seen if names == ("counters",)], axis=1)
        dropped = [bits for bits in range(63) if np.array_equal((counters + (1 << bits >> 1)) >> bits, noisy._counters)]
        least = min(table.parameter for table in found.counters)
        unit = terms.squared_unit * 4 ** found.counters[0].grid_bits
        assert dropped, f"{name}: rounded off otherwise"
        assert 4 ** dropped[0] * 64**2 <= max(least * unit, 64**2) or dropped[0] <= found.counters[0].grid_bits, name


def test_a_release_draws_its_tables_in_one_order() -> None:
    check_draws()


DRAW_FAULTS = {
    "counters before what is told aside": laws.around(
        Calibration, "of_release", lambda exact, found: tuple(reversed(exact(found)))
    ),
    "noise of another size": laws.around(
        tables,
        "add_noise",
        lambda exact, numbers, parameter, *bits, **names: exact(numbers, parameter / 4, *bits, **names),
    ),
    "a gaussian of the parameter of a laplace": laws.around(
        tables, "add_noise", lambda exact, *given, noise, **names: exact(*given, noise=Noise.GAUSSIAN, **names)
    ),
    "another grid": laws.around(
        tables,
        "add_noise",
        lambda exact, numbers, parameter, bits, **names: exact(numbers, parameter, bits + 1, **names),
    ),
    "no rounding": laws.put(tables, "round_off", lambda numbers, bits: numbers),
}
test_a_fault_planted_in_the_draw_is_found = laws.mutants(DRAW_FAULTS, lambda: check_draws(5), intact=True)


# All draws, with keyed randomness: of a spec, terms, exact numbers of which one is changed, and a secret.

NUMBERS, FIRST, LAST = 0, 1, 2
"""Which of the exact numbers is 1 more."""
Secret = KeyedRandomness | None
Draw = Callable[[Any, Any, int, Secret], Any]
KEYS = 3
"""How many keys, or items, there are."""
TEXTS = ThresholdedItems(TextDomain(4))


def with_more(numbers: Any, which: int) -> np.ndarray:
    found = np.array(numbers, dtype=np.int64)
    if len(found) <= which - FIRST:
        raise ValueError("there is not another number")
    if which:
        found[0 if which == FIRST else -1] += 1
    return found


def for_each(count: int, keyed: Secret) -> list[KeyedRandomness] | None:
    return None if keyed is None else [keyed] * count


def release_one(spec: Any, terms: Any, which: int, keyed: Secret) -> Any:
    found = Calibration.of(spec, terms)
    numbers = with_more([0] * (spec.cells + terms.aside), which)
    exact, side = np.split(numbers[np.newaxis], [spec.cells], axis=1)
    parts = PartColumns(raw_type(spec), spec, terms.scale_bits, exact, side, [b"a"], [b"r" * 16])
    return release_parts(parts, found, for_each(1, keyed), lost=found.empty_lost if found.lost_is_of_run else None)


def lose(spec: Any, terms: Any, which: int, keyed: Secret) -> Any:
    found = Calibration.of(spec, terms)
    numbers = with_more(range(sum(table.size or 0 for table in found.lost)), which if found.lost else NUMBERS)
    return draw_lost(numbers, found, keyed)


def choose(spec: Any, terms: Any, which: int, keyed: Secret) -> Any:
    histogram = with_more(range(bin_count(terms.norm.max_weight)), which)
    return choose_norm(histogram, spec, terms, keyed, scaled_units=Fraction(9))


def decide(draw: Callable[..., Any], method: str, columns: int) -> Draw:
    """Return a decision about a key with this many votes."""

    def decided(spec: Any, terms: Any, which: int, keyed: Secret) -> Any:
        by_method = dataclasses.replace(terms, selection=dataclasses.replace(terms.selection, method=method))
        return draw(
            choose_keys(spec, by_method), np.tile(with_more([50] * columns, which), (KEYS, 1)), for_each(KEYS, keyed)
        )

    return decided


def count(spec: Any, terms: Any, which: int, keyed: Secret) -> Any:
    counted = Counting.of(spec, terms)
    votes = [] if counted.choice is None else [50] * 4  # which have draws of their own
    return counted.draw(np.array([[*with_more([90], which), *votes]] * KEYS), for_each(KEYS, keyed))


ONCE: Any = dataclasses.replace(
    GROUPS, bounds=RecordBounds(1, max_keys=1), selection=ThresholdRule(delta=Fraction(1, 10**7), max_items=1)
)
DRAWS: dict[str, tuple[Draw, Any, Any, list[str]]] = {
    # what draws, of which spec and terms, and the tables that it draws
    "release": (release_one, FLAT, TERMS["bounds"], ["units", "records", "weight", "lost", "counters"]),
    "release of a norm": (release_one, FLAT, TERMS["a norm"], ["units", "records", "weight", "lost", "counters"]),
    "release of laplace": (release_one, FLAT, TERMS["laplace"], ["units", "counters"]),
    "lost in a run": (lose, FLAT, TERMS["bounds of a run"], ["lost", "kept"]),
    "the choice of a norm": (choose, FLAT, ReleaseTerms(PrivacySpec(rho=0.1), AutoNorm(), **PEOPLE), ["lengths"]),
    "one round": (decide(find_chosen, "gaussian", 2), FLAT, CHOSEN_KEYS, ["votes"]),
    "the first round": (decide(draw_first, "two_rounds", 2), FLAT, CHOSEN_KEYS, ["votes"]),
    "the second round": (decide(find_chosen, "two_rounds", 4), FLAT, CHOSEN_KEYS, ["votes"]),
    "items": (count, TEXTS, GROUPS, ["items", "votes"]),
    "items without votes": (count, TEXTS, ONCE, ["items"]),
}


def check_tables(name: str) -> None:
    """Raise unless a draw is of the tables that it should be, each with the noise that it states."""
    draw, spec, terms, wanted = DRAWS[name]
    seen: list[Any] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(NoisyTable, "draw", functools.partialmethod(seen_and_drawn_by_hand, NoisyTable.draw, seen))
        draw(spec, terms, NUMBERS, None)
    assert [names[0] for names, *_ in seen] == wanted, "other tables"


@pytest.mark.parametrize("name", DRAWS)
def test_every_draw_has_the_noise_of_its_tables(name: str) -> None:
    check_tables(name)


def with_privacy(**changes: Any) -> Callable[[Any], Any]:
    def changed(terms: Any) -> Any:
        privacy = terms.privacy
        spent = {"epsilon": privacy.spending.epsilon} if privacy.spending.epsilon else {"rho": privacy.rho}
        given = {**spent, "relation": privacy.relation, "summary_counts": privacy.summary_counts} | changes
        return dataclasses.replace(terms, privacy=PrivacySpec(**given))

    return changed


def in_terms(**changes: Any) -> Callable[[Any], Any]:
    return lambda terms: dataclasses.replace(terms, **changes)


def in_bounds(**changes: Any) -> Callable[[Any], Any]:
    def changed(terms: Any) -> Any:
        return dataclasses.replace(terms, bounds=dataclasses.replace(terms.asked, **changes))

    return changed


OF_TERMS: dict[str, Callable[[Any], Any]] = {
    "rho": with_privacy(rho=0.2),
    "a little less rho": with_privacy(rho=Fraction(1, 10) - Fraction(1, 10**18)),
    "shown delta": with_privacy(delta=1e-7),
    "relation": with_privacy(relation=REPLACE_ONE),
    "relation at the same sigma": with_privacy(relation=REPLACE_ONE, rho=0.2),
    "no summary counts": with_privacy(summary_counts=None),
    "other summary counts": with_privacy(summary_counts=SummaryCounts(units=0.03)),
    "which share is whose": with_privacy(summary_counts=SummaryCounts(units=0.02, records=0.03)),
    "which share is whose, the other way": with_privacy(summary_counts=SummaryCounts(units=0.03, records=0.02)),
    "a little less of a share": with_privacy(
        summary_counts=SummaryCounts(units=0.02, records=Fraction(3, 100) - Fraction(1, 10**12))
    ),
    "another share of lost weight": with_privacy(summary_counts=SummaryCounts(clipping=0.03)),
    "weights": in_bounds(max_weight=7),
    "signed": in_bounds(signed=True, max_weight=7),
    "records": in_bounds(max_records=4),
    "keys": in_bounds(max_keys=3),
    "norm": in_bounds(max_norm=7),
    "cap": in_bounds(max_per_item=1),
    "another cap": in_bounds(max_per_item=2),
    "distinct items": in_bounds(max_distinct_items=1),
    "share": in_bounds(share=Fraction(1, 10)),
    "item share": in_bounds(item_share=Fraction(8, 100)),
    "norm_share": in_terms(norm_share=Fraction(1, 20)),
    "more norm_share": in_terms(norm_share=Fraction(1, 10)),
    "privacy_unit": in_terms(privacy_unit=PrivacyUnit.PRIVACY_ID_IN_WINDOW),
    "period": in_terms(privacy_unit=PrivacyUnit.PRIVACY_ID_IN_PERIOD, period_micros=1),
    "another period": in_terms(privacy_unit=PrivacyUnit.PRIVACY_ID_IN_PERIOD, period_micros=2),
    "windows": in_terms(window_count=2),
    "disclosed": in_terms(disclosed=Disclosure.KEYS),
    "more disclosed": in_terms(disclosed=Disclosure.KEYS | Disclosure.WINDOWS),
    "where weight is lost": in_terms(lost_in=LostIn.NOWHERE),
    "cells": in_terms(output_cells=2),
    "more cells": in_terms(output_cells=3),
}
OF_RULE: dict[str, Callable[[Any], Any]] = {
    "rho": with_privacy(rho=0.2),
    "relation": with_privacy(relation=REPLACE_ONE),
    "delta": lambda terms: with_rule(terms, delta=Fraction(1, 10**8)),
    "keys": lambda terms: with_rule(terms, max_keys=5),
    "units": lambda terms: with_rule(terms, min_units=2),
    "share": lambda terms: with_rule(terms, share=Fraction(1, 3)),
}
OF_SPEC: dict[str, Callable[[Any], Any]] = {
    **{
        name: lambda spec, changes=changes: dataclasses.replace(spec, **changes)
        for name, changes in {
            "seed": {"seed": 4},
            "width": {"width": 9},
            "depth": {"depth": 4},
            "kind": {"kind": "count_min"},
            "hash": {"item_hash": "blake2b", "item_key": bytes(16)},
            "another key": {"item_hash": "blake2b", "item_key": bytes(range(16))},
        }.items()
    },
    "listed": lambda spec: ListedItems(["a", "b"]),
    "another list": lambda spec: ListedItems(["b", "a"]),
    "another type": lambda spec: ListedItems(["a", b"b"]),
    "joined": lambda spec: ListedItems([("a", "b")]),
}


def with_rule(terms: Any, **changes: Any) -> Any:
    return dataclasses.replace(terms, selection=dataclasses.replace(terms.selection, **changes))


def streams_of(name: str) -> dict[str, list[bytes]]:
    """Return how the random bytes of a draw start, if this alone is another; without what cannot be."""
    draw, spec, terms, _ = DRAWS[name]
    right, begun = KeyedRandomness.random_bytes, list[bytes]()

    def random_bytes(keyed: KeyedRandomness, message: bytes) -> Any:
        begun.append(right(keyed, message)(32))
        return right(keyed, message)

    votes = name.endswith("round")
    of_terms, of_spec = OF_RULE if votes else OF_TERMS, {} if votes or spec is TEXTS else OF_SPEC
    given: dict[str, tuple[Any, Any, int, Secret]] = {
        "nothing": (spec, terms, NUMBERS, SECRET),
        "the first number": (spec, terms, FIRST, SECRET),
        "the last number": (spec, terms, LAST, SECRET),
        "secret": (spec, terms, NUMBERS, KeyedRandomness(b"a secret of more than thirty-two bytes!", b"x")),
        "context": (spec, terms, NUMBERS, KeyedRandomness(b"a secret of more than thirty-two bytes", b"y")),
    }
    given |= {each: (of(spec), terms, NUMBERS, SECRET) for each, of in of_spec.items()}
    found: dict[str, list[bytes]] = {}
    changes = itertools.chain(
        ((each, lambda given=given[each]: given) for each in given),
        ((each, lambda of=of: (spec, of(terms), NUMBERS, SECRET)) for each, of in of_terms.items()),
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(KeyedRandomness, "random_bytes", random_bytes)
        for each, changed in changes:
            begun.clear()
            try:
                draw(*changed())
            except (RefusalError, ValueError, TypeError):
                continue
            found[each] = begun[:]
    return found


def check_streams(name: str) -> int:
    """Raise unless draws that differ in anything have streams of their own; return how many there are."""
    found = streams_of(name)
    assert found == streams_of(name), "equal draws differ"
    every = [each for streams in found.values() for each in streams[:1]]
    assert len(every) == len(found), "nothing is drawn"
    assert len({*every}) == len(every), "draws that differ share their noise"
    return len(every)


CHANGES = {
    "release": 39,
    "release of a norm": 44,
    "release of laplace": 34,
    "lost in a run": 38,
    "the choice of a norm": 44,
    "items": 33,
    "items without votes": 30,
}
"""How many draws differ from each other; 11 of votes."""


@pytest.mark.parametrize("name", DRAWS)
def test_keyed_draws_that_differ_in_anything_share_no_bytes(name: str) -> None:
    """Streams of different messages are unrelated: `tests/privacy/noise/test_keyed_randomness.py`."""
    assert check_streams(name) >= CHANGES.get(name, 11)


def forgetting(module: Any, part: str, name: str) -> laws.Fault:
    """Plant that a draw of this name does not depend on its exact numbers, or on its settings."""
    if part == "numbers":
        return laws.around(
            module, "message", lambda exact, what, settings, _, *place: exact(what, settings, [], *place), "share", name
        )
    return laws.around(module, "settings_of", lambda exact, found, *_: exact(found), "share|equal", name)


OF_MODULES = {
    noising: ("release", "lost in a run"),
    norm_choosing: ("the choice of a norm",),
    choosing: ("one round", "the first round", "the second round"),
    counting: ("items", "items without votes"),
}
FORGOTTEN = {
    f"{part} of {name}": forgetting(module, part, name)
    for part, (module, names) in itertools.product(("numbers", "settings"), OF_MODULES.items())
    for name in names
}
test_what_keyed_noise_forgets_is_found = laws.mutants(FORGOTTEN, check_streams, intact=True)
NO_NOISE = laws.around(tables, "add_noise", lambda exact, numbers, _, bits, **names: numbers << bits)
LESS = laws.around(
    tables, "add_noise", lambda exact, numbers, parameter, *bits, **names: exact(numbers, parameter / 4, *bits, **names)
)


def one_for_all(exact: Any, numbers: np.ndarray, parameter: Fraction, bits: int, **names: Any) -> np.ndarray:
    first = numbers.ravel()[:1]
    return (numbers << bits) + (exact(first, parameter, bits, **names) - (first << bits))


ONE_FOR_ALL = laws.around(tables, "add_noise", one_for_all)
OF_DRAWS = {
    f"{name}, {what}": fault.found("", name)
    for name in DRAWS
    for what, fault in {"no noise": NO_NOISE, "less noise": LESS, "one noise for all": ONE_FOR_ALL}.items()
    if fault is not ONE_FOR_ALL or name != "lost in a run"  # what is kept is one number
}
test_a_fault_planted_in_any_draw_is_found = laws.mutants(OF_DRAWS, check_tables, intact=True)


def check_first_votes() -> None:
    """Raise unless the first votes of each key and window, with equal numbers, have noise of their own.

    The secret is fixed, and so is the noise. A few of eight numbers may be equal.
    """
    choice = choose_keys(FLAT, with_rule(CHOSEN_KEYS, method="two_rounds"))
    assert choice is not None
    places = [(key, end) for key in (b"a", b"b") for end in (1, 2, 3, 4)]
    votes = pa.table({"key": [key for key, _ in places], VOTES: [500] * 8, VOTERS: [2] * 8})
    ends = pa.array([end for _, end in places])

    def noisy(table: pa.Table, end: int = 0, *, once: bool = False) -> list[int]:
        return with_noisy_votes(choice, table, end, SECRET, once=once)[NOISY].to_pylist()

    windows = noisy(votes.append_column(WINDOW, ends))
    assert len(set(windows)) > 4, "places share noise"
    one_by_one = [noisy(votes.slice(place, 1), end)[0] for place, (_, end) in enumerate(places)]
    assert one_by_one == windows, "a window has another name"
    assert noisy(votes.append_column(WINDOW, ends), once=True) == noisy(votes), "windows of one choice"


test_noise_shared_by_places_is_found = laws.mutants(
    {
        "windows": laws.around(choosing, "encode", lambda exact, place: exact(place[:2]), "places share noise"),
        "keys": laws.around(choosing, "encode", lambda exact, place: exact((place[0], place[2])), "places share noise"),
    },
    check_first_votes,
    intact=True,
)
