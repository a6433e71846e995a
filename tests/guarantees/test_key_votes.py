"""Votes for keys out of whole pipelines: equal to what plain Python counts, in all forms of elements and all places.

Nothing here is random but the order of bundles. Where an id is in more keys than it may vote for, which ones are chosen
is left open, and their number is compared.
"""

from __future__ import annotations

import functools
import math
from collections import Counter, defaultdict
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import apache_beam as beam
import pytest

from beam_dpsketch import KeySelection, NormBound, PrivacyId, PrivacySpec, Record, RecordBounds
from beam_dpsketch.exact.bounding import side_sums
from beam_dpsketch.exact.domains.numbers import IntegerDomain
from beam_dpsketch.exact.reading.items import SketchInput
from beam_dpsketch.noise import run as engine_run
from beam_dpsketch.transforms import PrivateFrequencies, PrivateQuantiles
from beam_dpsketch.transforms.steps import stream_state
from tests.helpers import faults, laws
from tests.helpers.norm_reference import Counted, net
from tests.helpers.pipelines import SPEC, ExactCounters, run, seen_by_sink
from tests.helpers.streams import WithStart, in_windows, state_everywhere
from tests.helpers.visits import (
    ALL,
    DECLARED,
    END,
    FIXED,
    FORMS,
    SLIDING,
    SOURCES,
    VISITS,
    WEIGHT,
    Case,
    accepted,
    by_id,
    from_source,
    from_stream,
    fused,
    in_every_form,
)

PRIVACY = PrivacySpec(rho=Fraction(1, 10))
GRID, CLASSES = 48, (1, 2, 3, 4, 6, 8, 11, 16, 23, 32, 45, 64)
MOST = 64
SIGNED = NormBound(Fraction(7, 2), max_weight=3, signed=True, max_keys=MOST)
Votes = dict[Any, tuple[int, int]]


def per_key(unit: Any, **arguments: Any) -> Any:
    listed: dict[str, Any] = {"item": "item", "keys": KeySelection(1e-8, "key", method="gaussian")}
    return lambda: PrivateFrequencies(SPEC, PRIVACY, unit=unit, **listed | arguments)


def case(unit: Any, *, over: Any = None, unit_of: Any = lambda start: None, **arguments: Any) -> Case:
    weighted = "weight" in arguments
    return Case(per_key(unit, **arguments), lambda *_: {}, weighted=weighted, windows=over, unit_of=unit_of)


def own_window(start: float) -> float:
    return start


WIDE = RecordBounds(1000, max_keys=3)
CASES = {
    "norm, in windows": case(by_id(SIGNED), over=FIXED, **WEIGHT, **DECLARED),
    "norm": case(by_id(NormBound(2, max_keys=MOST))),
    "norm, one record an item": case(by_id(NormBound(2, max_per_item=1, max_keys=MOST))),
    "norm in sliding windows": case(by_id(NormBound(4, max_weight=2, max_keys=MOST)), over=SLIDING, **WEIGHT),
    "norm in full": case(by_id(NormBound(10**4, max_weight=2, max_keys=MOST)), over=FIXED, **WEIGHT),
    "norm, periods": case(by_id(SIGNED, period=120), over=FIXED, unit_of=lambda start: start // 120, **WEIGHT),
    "records": case(by_id(WIDE)),
    "records, signed": case(by_id(ALL), **WEIGHT),
    "records in windows": case(by_id(WIDE), over=FIXED, unit_of=own_window),
    "records in several windows": case(by_id(WIDE, max_windows=6), over=SLIDING, unit_of=own_window),
    "signed records in several windows": case(
        by_id(ALL, max_windows=4), over=FIXED, unit_of=own_window, **WEIGHT, **DECLARED
    ),
    "single": case(Record()),
    "single, with weights": case(Record(max_weight=2), **WEIGHT),
    "single in sliding windows": case(Record(), over=SLIDING),
}


def weight_of(count: int, most: int) -> int:
    """The largest vote whose square, in each of a class of keys, is within that of the grid."""
    size = min(most, next(size for size in CLASSES if size >= count))
    return math.isqrt(GRID**2 // size)


def wanted(tested: Case) -> Votes:
    """The votes of each place, and how many units cast them, record by record."""
    unit, records = tested.make()._declared.unit, accepted(tested)
    found: Counter[Any] = Counter()
    voters: Counter[Any] = Counter()
    if isinstance(unit, Record):
        for each in records:
            if min(max(each.weight, unit.bounds.min_weight), unit.bounds.max_weight):
                found[each.place] += GRID
                voters[each.place] += 1
    else:
        for places in places_of_units(records, unit.bounds).values():
            for place in places:
                found[place] += weight_of(len(places), unit.bounds.max_keys)
                voters[place] += 1
    return {place: (found[place], voters[place]) for place in found}


def places_of_units(records: Iterable[Counted], bounds: Any) -> dict[Any, set[Any]]:
    """The places in which each unit counts: those where an item of it does not net to 0."""
    if isinstance(bounds, RecordBounds):
        bounds = NormBound(1, max_weight=1 << 31, signed=bounds.signed)
    return {unit: set(places) for unit, places in net(records, bounds).items() if places}


def read_votes(accumulator: Any) -> list[int]:
    return accumulator.to_sums().votes[0].tolist()


def placed(elements: beam.PCollection, label: str = "", *, tested: Case) -> beam.PCollection:
    if tested.windows is not None:
        elements = elements | f"Windows {label}" >> in_windows(tested.windows)
    sums = elements | f"Sums {label}" >> ExactCounters(tested.make(), read_votes)
    return sums | f"Start {label}" >> beam.ParDo(WithStart() if tested.windows else WithoutStart())


class WithoutStart(beam.DoFn):
    """(`None`, element)."""

    def process(self, element: Any) -> Any:
        yield None, element


def check(tested: Case, seen: list[Any]) -> None:
    found = {(start, key): tuple(votes) for start, (key, votes) in seen}
    assert len(found) == len(seen)
    assert {place: votes for place, votes in found.items() if any(votes)} == wanted(tested)


def check_forms(name: str) -> None:
    for seen in in_every_form(functools.partial(placed, tested=CASES[name])).values():
        check(CASES[name], seen)


@pytest.mark.one_fast_case
@pytest.mark.parametrize("name", CASES)
def test_every_form_of_element_gives_the_votes_of_the_units(name: str) -> None:
    check_forms(name)


@pytest.mark.one_fast_case
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("source", SOURCES)
def test_splits_and_runners_do_not_change_votes(source: str, name: str) -> None:
    seen = from_source(source, functools.partial(placed, tested=CASES[name]))
    check(CASES[name], list({repr(each): each for each in seen}.values()))  # those of a replay are the same again


STREAMS = {
    "norm": case(
        by_id(NormBound(3, max_weight=2, max_keys=MOST), max_windows=4, period=END),
        over=FIXED,
        unit_of=own_window,
        **WEIGHT,
    ),
    "norm, signed": case(by_id(SIGNED, max_windows=4, period=END), over=FIXED, unit_of=own_window, **WEIGHT),
    "records": case(by_id(WIDE), over=FIXED, unit_of=own_window),
    "records in several windows": case(by_id(WIDE, max_windows=4, period=END), over=SLIDING, unit_of=own_window),
    "records, signed": case(by_id(ALL), over=FIXED, unit_of=own_window, **WEIGHT),
    "single": case(Record(), over=SLIDING),
    "single, with weights": case(Record(max_weight=2), over=FIXED, **WEIGHT),
}


@pytest.mark.slow
@pytest.mark.one_fast_case
@pytest.mark.usefixtures(state_everywhere.__name__)
@pytest.mark.parametrize("merged", ["at the end", "all the time"])
@pytest.mark.parametrize("name", STREAMS)
def test_votes_in_state_are_those_of_a_batch(name: str, merged: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A record that comes too late has none."""
    if merged == "all the time":
        monkeypatch.setattr(stream_state, "MIN_WAITING", 0)
    check(STREAMS[name], from_stream(STREAMS[name].windows, functools.partial(placed, tested=STREAMS[name])))


@pytest.mark.one_fast_case
@pytest.mark.parametrize("unit", [ALL, SIGNED, Record(max_weight=2)], ids=["records", "norm", "single"])
def test_pairs_of_a_key_and_a_tuple_give_the_votes_of_the_units(unit: Any) -> None:
    owner = unit if isinstance(unit, Record) else PrivacyId(lambda each: each[0], unit)
    by_position: dict[str, Any] = {"item": lambda each: each[1], "weight": lambda each: each[2]}
    transform = PrivateFrequencies(SPEC, PRIVACY, unit=owner, keys=KeySelection(1e-8, method="gaussian"), **by_position)
    pairs = [(each.key, (each.user, each.item, each.n)) for each, _ in VISITS]
    found = dict(run(pairs, ExactCounters(transform, read_votes)))
    tested = case(unit if isinstance(unit, Record) else by_id(unit), **WEIGHT)
    assert {(None, key): tuple(votes) for key, votes in found.items() if any(votes)} == wanted(tested)


@pytest.mark.slow
def test_ids_in_more_keys_than_they_may_vote_for_choose_among_them() -> None:
    """Each unit has as many votes as it may, of the size for that many, in keys of its own."""
    rows = [{"user": user, "key": f"{user} {key}", "item": 1} for user in range(30) for key in range(1 + user % 9)]
    for bounds in (NormBound(1, max_keys=4), NormBound(100, max_keys=4), RecordBounds(2, max_keys=4)):
        transform = per_key(by_id(bounds))()
        votes = {key: votes for key, votes in run(rows, ExactCounters(transform, read_votes)) if any(votes)}
        by_user: dict[int, list[Any]] = defaultdict(list)
        for key, each in votes.items():
            by_user[int(key.split()[0])].append(each)
        for user in range(30):
            count = min(4, 1 + user % 9)
            assert by_user[user] == [[weight_of(count, 4), 1]] * count


def test_trees_and_pairs_of_windows_have_votes_too() -> None:
    rows = [{"user": user, "key": user % 2, "item": user} for user in range(20)]
    transform = PrivateQuantiles(
        IntegerDomain(0, 100),
        PRIVACY,
        unit=by_id(NormBound(5, max_keys=1)),
        keys=KeySelection(1e-8, "key", method="gaussian"),
        item="item",
    )
    assert dict(run(rows, ExactCounters(transform, read_votes))) == {0: [480, 10], 1: [480, 10]}


@pytest.mark.slow
def test_what_decides_is_what_was_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The decision sees each key and window once, with its own votes."""
    seen: list[Any] = []
    exact = engine_run.find_chosen

    def spy(choice: Any, votes: Any, secrets: Any) -> Any:
        seen.extend(map(tuple, votes.tolist()))
        return exact(choice, votes, secrets)

    monkeypatch.setattr(engine_run, "find_chosen", spy)
    tested = CASES["records in several windows"]
    seen_by_sink(lambda pipeline: fused(pipeline, FORMS["dicts"]) | in_windows(SLIDING) | tested.make())
    assert Counter(each for each in seen if any(each)) == Counter(wanted(tested).values())


FAULTS = {
    "a vote for each record": faults.A_VOTE_FOR_EACH_RECORD.found("", "records"),
    "columns swapped": laws.around(SketchInput, "vote_names", lambda exact, made: exact(made)[::-1], "", "norm"),
    "windows taken together": laws.put(
        side_sums, "_number_pairs", lambda first, second: first, "", "records in several windows"
    ),
}
test_a_planted_fault_is_found = pytest.mark.one_fast_case(laws.mutants(FAULTS, check_forms))
