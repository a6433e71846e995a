"""What whole pipelines count, aside and as votes: equal to plain sums over the records, in all forms and places.

One matrix of cases runs in all forms of elements, from all sources and as streams. Its laws compare summary counts,
lost weight and scaled counters of releases without noise, and votes before the noise. All numbers are exact, so no test
raises a false alarm. `tests.helpers.side_releases` works out what to expect aside, without the package's bounding.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from apache_beam.transforms.window import FixedWindows

from beam_dpsketch import (
    AssumePublicKeys,
    AutoNorm,
    IntegerDomain,
    KeySelection,
    NormBound,
    PrivacyId,
    PrivacySpec,
    PublicKeys,
    Record,
    RecordBounds,
    SummaryCounts,
)
from beam_dpsketch.encodings import encode_all
from beam_dpsketch.exact.bounding import side_sums
from beam_dpsketch.exact.bounding.bounded import Bounded
from beam_dpsketch.exact.bounding.norm_rule import NormRule
from beam_dpsketch.exact.reading.items import SketchInput
from beam_dpsketch.exact.reading.reading import RecordReader
from beam_dpsketch.exact.sums.keyed_sums import KeyedSums
from beam_dpsketch.noise import run as engine_run
from beam_dpsketch.privacy.norm.choice import bin_count
from beam_dpsketch.transforms import PrivateFrequencies, PrivateQuantiles, PrivateSketchFn
from beam_dpsketch.transforms.steps import bounding, bounding_over_windows, stream_state
from beam_dpsketch.transforms.steps.exact_sums import ExactSums
from tests.helpers import faults, laws
from tests.helpers.norm_reference import UNIT, Counted, assert_same, expected, net, squared_norm
from tests.helpers.pipelines import SPEC, ExactCounters, run, seen_by_sink
from tests.helpers.side_releases import (
    Exact,
    Place,
    Sides,
    assert_lost,
    assert_sides,
    exact_of,
    lost_by,
    no_noise,
    of_single,
    under_norm,
    under_records,
)
from tests.helpers.streams import in_windows, state_everywhere
from tests.helpers.visits import (
    ALL,
    DECLARED,
    END,
    FIXED,
    FORMS,
    KEYS,
    SLIDING,
    SOURCES,
    VISITS,
    WEIGHT,
    Case,
    accepted,
    across_a_stage,
    by_id,
    from_source,
    from_stream,
    fused,
    in_every_form,
)

pytestmark = pytest.mark.usefixtures(no_noise.__name__)
PRIVACY = PrivacySpec(rho=Fraction(1, 10), summary_counts=SummaryCounts(records=Fraction(1, 50)))


def globally(privacy_unit: Any, **arguments: Any) -> Callable[[], Any]:
    return lambda: PrivateFrequencies(SPEC, PRIVACY, privacy_unit=privacy_unit, **{"item": "item"} | arguments)


def per_key(privacy_unit: Any, **arguments: Any) -> Callable[[], Any]:
    listed: dict[str, Any] = {"item": "item", "keys": PublicKeys([*KEYS, "absent"], "key")}
    return lambda: PrivateFrequencies(SPEC, PRIVACY, privacy_unit=privacy_unit, **listed | arguments)


def by_norm(max_cells: int | None) -> Callable[[list[Counted], Any], Sides]:
    return lambda records, bounds: under_norm(SPEC, bounds, max_cells, records)


SIGNED = NormBound(Fraction(7, 2), max_weight=3, signed=True)
PEOPLE = NormBound(2, max_per_item=1)
SINGLE = Record(max_weight=2)
WIDE = RecordBounds(1000, max_keys=3, max_weight=2)
CASES = {
    "norm, per key in windows": Case(
        per_key(by_id(SIGNED), **WEIGHT, **DECLARED), by_norm(3 * END // FIXED), windows=FIXED
    ),
    "norm": Case(globally(by_id(SIGNED), **WEIGHT), by_norm(1)),
    "norm, people per key": Case(per_key(by_id(PEOPLE)), by_norm(3), weighted=False),
    "norm of weights": Case(globally(by_id(NormBound(4, max_weight=2)), **WEIGHT), by_norm(1)),
    "norm in sliding windows": Case(
        per_key(by_id(NormBound(4, max_weight=2)), keys=AssumePublicKeys("key"), **WEIGHT),
        by_norm(None),
        windows=SLIDING,
    ),
    "norm, periods": Case(
        per_key(by_id(SIGNED, period=120), keys=AssumePublicKeys("key"), **WEIGHT),
        by_norm(None),
        windows=FIXED,
        unit_of=lambda start: start // 120,
    ),
    "norm chosen, periods": Case(
        per_key(by_id(AutoNorm(max_weight=3), period=120), **WEIGHT, **DECLARED),
        by_norm(3 * 2),
        windows=FIXED,
        unit_of=lambda start: start // 120,
    ),
    "norm chosen, per key": Case(per_key(by_id(AutoNorm(max_weight=3, signed=True)), **WEIGHT), by_norm(3)),
    "norm chosen": Case(globally(by_id(AutoNorm())), by_norm(1), weighted=False),
    "norm chosen, in windows": Case(
        per_key(by_id(AutoNorm(max_weight=3)), **WEIGHT, **DECLARED), by_norm(3 * END // FIXED), windows=FIXED
    ),
    "records of ids": Case(
        globally(by_id(RecordBounds(4))), lambda records, _: under_records(RecordBounds(4), records), weighted=False
    ),
    "records of ids, per key": Case(per_key(by_id(ALL), **WEIGHT), lambda records, _: under_records(ALL, records)),
    "records of ids in windows": Case(
        globally(by_id(RecordBounds(2), max_windows=4), **DECLARED),
        lambda records, _: under_records(RecordBounds(2), records),
        weighted=False,
        windows=FIXED,
        unit_of=lambda start: start,
    ),
    "records of ids, per key, without signs": Case(
        per_key(by_id(WIDE), **WEIGHT), lambda records, _: under_records(WIDE, records)
    ),
    "records": Case(globally(SINGLE, **WEIGHT), lambda records, _: of_single(SINGLE, records)),
    "records, per key": Case(per_key(SINGLE, **WEIGHT), lambda records, _: of_single(SINGLE, records)),
    "records in sliding windows": Case(
        per_key(Record(), keys=AssumePublicKeys("key")),
        lambda records, _: of_single(Record(), records),
        weighted=False,
        windows=SLIDING,
    ),
}


def placed(elements: beam.PCollection, label: str = "", *, case: Case) -> beam.PCollection:
    if case.windows is not None:
        elements = elements | f"Windows {label}" >> in_windows(case.windows)
    return elements | f"Private {label}" >> case.make() | f"Place {label}" >> beam.ParDo(Place())


def check(case: Case, seen: list[Any], *, streaming: bool = False) -> dict[Any, Exact]:
    """Compare the releases of one run with the expectation, and return them."""
    (bounds,) = {released.privacy.bounds for *_, released in seen}
    found = {(start, key): exact_of(released) for start, key, released in seen}
    assert len(found) == len(seen)
    records = accepted(case)
    assert_sides({place: exact.side for place, exact in found.items()}, case.wanted(records, bounds))
    declared = case.make()._declared
    told = {place: exact.lost for place, exact in found.items() if exact.lost is not None}
    by_id, privacy_unit = declared.privacy_id is not None, bounds if declared.privacy_id else declared.privacy_unit
    is_waiting = streaming and by_id and (declared.is_keyed or declared.privacy_id.max_windows is not None)
    if bounds.signed or not (by_id or bounds.has_weights) or is_waiting:
        assert told == {}
    else:
        assert told.keys() == found.keys()
        if isinstance(bounds, RecordBounds):  # one histogram for all windows of an id
            records = [each._replace(person=each.person[0]) for each in records]
        assert_lost(told, lost_by(SPEC, privacy_unit, records))
    if isinstance(bounds, NormBound):
        vectors = {place: [round(n * UNIT) for row in exact.counters for n in row] for place, exact in found.items()}
        assert_same(vectors, expected(SPEC, bounds, records))
    return found


# Votes for keys. Where an id is in more keys than it may vote for, which ones are chosen is left open.

GRID, CLASSES = 48, (1, 2, 3, 4, 6, 8, 11, 16, 23, 32, 45, 64)
MOST = 64
IN_KEYS = NormBound(Fraction(7, 2), max_weight=3, signed=True, max_keys=MOST)
IN_THREE = RecordBounds(1000, max_keys=3)
Votes = dict[Any, tuple[int, int]]


def voting(privacy_unit: Any, over: Any = None, unit_of: Any = lambda start: None, **arguments: Any) -> Case:
    """Return a case of which votes alone are looked at."""
    given: dict[str, Any] = {"keys": KeySelection(1e-8, "key", method="gaussian")} | arguments
    return Case(per_key(privacy_unit, **given), lambda *_: {}, "weight" in arguments, over, unit_of)


def own_window(start: float) -> float:
    return start


VOTING = {
    "norm, in windows": voting(by_id(IN_KEYS), FIXED, **WEIGHT, **DECLARED),
    "norm": voting(by_id(NormBound(2, max_keys=MOST))),
    "norm, one record an item": voting(by_id(NormBound(2, max_per_item=1, max_keys=MOST))),
    "norm in sliding windows": voting(by_id(NormBound(4, max_weight=2, max_keys=MOST)), SLIDING, **WEIGHT),
    "norm in full": voting(by_id(NormBound(10**4, max_weight=2, max_keys=MOST)), FIXED, **WEIGHT),
    "norm, periods": voting(by_id(IN_KEYS, period=120), FIXED, lambda start: start // 120, **WEIGHT),
    "records": voting(by_id(IN_THREE)),
    "records, signed": voting(by_id(ALL), **WEIGHT),
    "records in windows": voting(by_id(IN_THREE), FIXED, own_window),
    "records in several windows": voting(by_id(IN_THREE, max_windows=6), SLIDING, own_window),
    "signed records in several windows": voting(by_id(ALL, max_windows=4), FIXED, own_window, **WEIGHT, **DECLARED),
    "single": voting(Record()),
    "single, with weights": voting(Record(max_weight=2), **WEIGHT),
    "single in sliding windows": voting(Record(), SLIDING),
}
STREAMS_OF_VOTES = {
    "norm": voting(
        by_id(NormBound(3, max_weight=2, max_keys=MOST), max_windows=4, period=END), FIXED, own_window, **WEIGHT
    ),
    "norm, signed": voting(by_id(IN_KEYS, max_windows=4, period=END), FIXED, own_window, **WEIGHT),
    "records": voting(by_id(IN_THREE), FIXED, own_window),
    "records in several windows": voting(by_id(IN_THREE, max_windows=4, period=END), SLIDING, own_window),
    "records, signed": voting(by_id(ALL), FIXED, own_window, **WEIGHT),
    "single": voting(Record(), SLIDING),
    "single, with weights": voting(Record(max_weight=2), FIXED, **WEIGHT),
}


def weight_of(count: int, most: int) -> int:
    """Return the largest vote whose square, in each of a class of keys, is within that of the grid."""
    size = min(most, next(size for size in CLASSES if size >= count))
    return math.isqrt(GRID**2 // size)


def votes_of(case: Case) -> Votes:
    """Return the votes of each place, and how many units cast them, record by record."""
    privacy_unit, records = case.make()._declared.privacy_unit, accepted(case)
    found, voters = Counter[Any](), Counter[Any]()
    if isinstance(privacy_unit, Record):
        for each in records:
            if min(max(each.weight, privacy_unit.bounds.min_weight), privacy_unit.bounds.max_weight):
                found[each.place] += GRID
                voters[each.place] += 1
    else:
        bounds = privacy_unit.bounds
        if isinstance(bounds, RecordBounds):
            bounds = NormBound(1, max_weight=1 << 31, signed=bounds.signed)
        for places in filter(None, net(records, bounds).values()):  # where an item does not net to 0
            for place in places:
                found[place] += weight_of(len(places), privacy_unit.bounds.max_keys)
                voters[place] += 1
    return {place: (found[place], voters[place]) for place in found}


def read_votes(accumulator: Any) -> list[int]:
    return accumulator.to_sums().votes[0].tolist()


def with_votes(elements: beam.PCollection, label: str = "", *, case: Case) -> beam.PCollection:
    if case.windows is not None:
        elements = elements | f"Windows {label}" >> in_windows(case.windows)
    sums = elements | f"Sums {label}" >> ExactCounters(case.make(), read_votes)
    return sums | f"Place {label}" >> beam.ParDo(Place())


def check_votes(case: Case, seen: list[Any], *, streaming: bool = False) -> Votes:
    found = {(start, key): tuple(votes) for start, key, votes in seen}
    assert len(found) == len(seen)
    cast = {place: votes for place, votes in found.items() if any(votes)}
    assert cast == votes_of(case), "votes are not as said"
    return cast


# The matrix.


class Law(NamedTuple):
    """What is made of elements, and what must be true of what comes out."""

    placed: Any
    check: Any


ASIDE, OF_VOTES = Law(placed, check), Law(with_votes, check_votes)
MATRIX: dict[str, tuple[Law, Case]] = {name: (ASIDE, case) for name, case in CASES.items()}
MATRIX |= {f"votes, {name}": (OF_VOTES, case) for name, case in VOTING.items()}
FROM_SOURCES = ["norm chosen, per key", "norm, per key in windows", "records of ids, per key", "records, per key"]
FROM_SOURCES += [f"votes, {name}" for name in VOTING]


def check_forms(name: str) -> None:
    law, case = MATRIX[name]
    found = [law.check(case, seen) for seen in in_every_form(functools.partial(law.placed, case=case)).values()]
    if "norm" in name and "chosen" not in name:
        assert found[0] == found[1] == found[2]


@pytest.mark.one_fast_case
@pytest.mark.parametrize("name", CASES)
def test_every_form_of_element_gives_the_sums_over_the_records(name: str) -> None:
    check_forms(name)


@pytest.mark.one_fast_case
@pytest.mark.parametrize("name", [f"votes, {name}" for name in VOTING])
def test_every_form_of_element_gives_the_votes_of_the_units(name: str) -> None:
    check_forms(name)


def once(seen: list[Any]) -> list[Any]:
    """Return what came out, without what a replay repeats."""
    return list({(start, key): (start, key, value) for start, key, value in seen}.values())


@pytest.mark.one_fast_case
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("name", FROM_SOURCES)
def test_neither_stages_nor_bundles_change_a_number(name: str, source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module, size in {"_READ_ELEMENTS": 5, "_READ_BYTES": 1, "BUFFERED_RECORDS": 11}.items():
        monkeypatch.setattr(bounding, module, size)
    monkeypatch.setattr("beam_dpsketch.exact.bounding.parts.BLOCK", 1)
    law, case = MATRIX[name]
    law.check(case, once(from_source(source, functools.partial(law.placed, case=case))))


STREAMS = {
    "norm": Case(
        per_key(by_id(SIGNED, max_windows=4, period=END), keys=AssumePublicKeys("key"), **WEIGHT),
        by_norm(None),
        windows=FIXED,
        unit_of=lambda start: start,
    ),
    "norm, people": Case(
        globally(by_id(PEOPLE, max_windows=4, period=END)),
        by_norm(1),
        weighted=False,
        windows=FIXED,
        unit_of=lambda start: start,
    ),
    "records of ids": Case(
        per_key(by_id(ALL), keys=AssumePublicKeys("key"), **WEIGHT),
        lambda records, _: under_records(ALL, records),
        windows=FIXED,
        unit_of=lambda start: start,
    ),
    "records in sliding windows": CASES["records in sliding windows"],
    "records": Case(globally(SINGLE, **WEIGHT), lambda records, _: of_single(SINGLE, records), windows=FIXED),
}


ALL_STREAMS = {name: (ASIDE, case) for name, case in STREAMS.items()}
ALL_STREAMS |= {f"votes, {name}": (OF_VOTES, case) for name, case in STREAMS_OF_VOTES.items()}


@pytest.mark.one_fast_case
@pytest.mark.usefixtures(state_everywhere.__name__)
@pytest.mark.parametrize("merged", ["at the end", "all the time"])
@pytest.mark.parametrize("name", ALL_STREAMS)
def test_sums_in_state_are_those_of_a_batch(name: str, merged: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A record that comes too late is in none."""
    if merged == "all the time":
        monkeypatch.setattr(stream_state, "MIN_WAITING", 0)
    law, case = ALL_STREAMS[name]
    law.check(case, from_stream(case.windows, functools.partial(law.placed, case=case)), streaming=True)


@pytest.mark.one_fast_case
@pytest.mark.parametrize("privacy_unit", [SIGNED, AutoNorm(max_weight=3, signed=True), ALL, None], ids=str)
def test_plain_tuples_and_pairs_give_the_sums_over_the_records(privacy_unit: Any) -> None:
    """Pairs of a key and a tuple, read by position."""
    by_position: dict[str, Any] = {"item": lambda each: each[1], "weight": lambda each: each[2]}
    owner = SINGLE if privacy_unit is None else PrivacyId(lambda each: each[0], privacy_unit)
    transform = PrivateFrequencies(SPEC, PRIVACY, privacy_unit=owner, keys=PublicKeys([*KEYS, "absent"]), **by_position)
    pairs = [(each.key, (each.user, each.item, each.n)) for each, _ in VISITS]
    records = [
        Counted(user, key, item, n)
        for key, (user, item, n) in pairs
        if key in KEYS and item is not None and (privacy_unit is None or user is not None)
    ]
    found = dict(run(pairs, transform))
    (bounds,) = {released.privacy.bounds for released in found.values()}
    if privacy_unit is None:
        wanted = of_single(SINGLE, records)
    else:
        wanted = under_records(ALL, records) if privacy_unit is ALL else under_norm(SPEC, bounds, 3, records)
    assert_sides({key: exact_of(released).side for key, released in found.items()}, wanted)


@pytest.mark.one_fast_case
@pytest.mark.parametrize("privacy_unit", [ALL, IN_KEYS, Record(max_weight=2)], ids=["records", "norm", "single"])
def test_plain_tuples_and_pairs_give_the_votes_of_the_units(privacy_unit: Any) -> None:
    owner = privacy_unit if isinstance(privacy_unit, Record) else PrivacyId(lambda each: each[0], privacy_unit)
    by_position: dict[str, Any] = {"item": lambda each: each[1], "weight": lambda each: each[2]}
    transform = PrivateFrequencies(
        SPEC, PRIVACY, privacy_unit=owner, keys=KeySelection(1e-8, method="gaussian"), **by_position
    )
    pairs = [(each.key, (each.user, each.item, each.n)) for each, _ in VISITS]
    found = run(pairs, ExactCounters(transform, read_votes))
    case = voting(privacy_unit if isinstance(privacy_unit, Record) else by_id(privacy_unit), **WEIGHT)
    check_votes(case, [(None, *each) for each in found])


@pytest.mark.parametrize("per_key", [False, True])
def test_a_combine_fn_counts_records_as_units(per_key: bool) -> None:
    """Across a stage and fused; a bare CombineFn sees neither ids nor lists of keys."""
    fn = PrivateSketchFn(SPEC, PRIVACY, privacy_unit=SINGLE, item="item", weight="n")
    visits = [(each.key, each) for each, _ in VISITS if each.key is not None]

    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        pairs = pipeline | beam.Create(visits)
        if per_key:
            return pairs | beam.CombinePerKey(fn)
        return pairs | beam.Values() | beam.CombineGlobally(fn) | beam.Map(lambda released: (None, released))

    found = {key: exact_of(released) for key, released in seen_by_sink(build)}
    counted = [(key if per_key else None, each) for key, each in visits if each.item is not None]
    records = [Counted(None, key, each.item, each.n) for key, each in counted]
    assert_sides({key: exact.side for key, exact in found.items()}, of_single(SINGLE, records))
    assert_lost({key: exact.lost for key, exact in found.items() if exact.lost}, lost_by(SPEC, SINGLE, records))
    assert all(exact.lost for exact in found.values())


@pytest.mark.one_fast_case
@pytest.mark.parametrize("name", [name for name in CASES if "chosen, " in name])
def test_a_norm_is_chosen_from_one_bin_for_each_unit(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An id, or an id in a period, over all keys and windows; those whose records cancel are in none."""
    seen: list[list[int]] = []
    case = CASES[name]
    monkeypatch.setattr(engine_run, "choose_norm", lambda counts, *_, **__: seen.append(counts.tolist()) or Fraction(2))
    seen_by_sink(lambda pipeline: placed(across_a_stage(pipeline, FORMS["objects"]), case=case))
    bounds = case.make()._declared.privacy_unit.bounds.bound(1)
    wanted = [0] * bin_count(bounds.max_weight)
    for places in net(accepted(case), bounds).values():
        wanted[max(each for each in range(64) if 1 << each <= squared_norm(SPEC, places))] += 1
    assert seen == [wanted]


@pytest.mark.slow
def test_ids_in_more_keys_than_they_may_vote_for_choose_among_them() -> None:
    """Each unit has as many votes as it may, of the size for that many, in keys of its own."""
    rows = [{"user": user, "key": f"{user} {key}", "item": 1} for user in range(30) for key in range(1 + user % 9)]
    for bounds in (NormBound(1, max_keys=4), NormBound(100, max_keys=4), RecordBounds(2, max_keys=4)):
        transform = voting(by_id(bounds)).make()
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
        privacy_unit=by_id(NormBound(5, max_keys=1)),
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
    case = VOTING["records in several windows"]
    seen_by_sink(lambda pipeline: fused(pipeline, FORMS["dicts"]) | in_windows(SLIDING) | case.make())
    assert Counter(each for each in seen if any(each)) == Counter(votes_of(case).values())


# Faults between the steps.


def every_window_has_all(exact: Any, self: Bounded) -> Iterator[tuple[int, Bounded]]:
    return ((end, bounded._replace(side=self.side)) for end, bounded in exact(self))


def lost_in_bytes(exact: Any, self: KeyedSums) -> bytes:
    return exact(dataclasses.replace(self, side=np.zeros_like(self.side)))


def lost_where_sums_merge(exact: Any, parts: Any) -> KeyedSums:
    merged = exact(parts)
    return merged if len(parts) == 1 else dataclasses.replace(merged, side=np.zeros_like(merged.side))


def cancelling_records_lost(exact: Any, rule: NormRule, records: pa.Table) -> pa.Table:
    """Forget the records of what nets to zero as parts are merged."""
    pruned = exact(rule, records)
    return pruned.filter(pa.array(pruned["weight"].to_numpy() != 0))


def not_limited_but_in_each(column: str) -> laws.Fault:
    """Bound the records of each key or window for themselves."""

    def wrong(self: Any, element: Any, pane: Any = beam.DoFn.PaneInfoParam) -> Iterator[Bounded]:
        for records in bounding.gather_records(self._rule, element[1]):
            for value in records[column].unique():
                yield self._rule.bound(records.filter(pc.equal(records[column], value)))

    return laws.put(bounding.BoundShard, "process", wrong)


def limits_of_other_counters(exact: Any, self: ExactSums, *arguments: Any, **named: Any) -> None:
    """Limit what is added up by more than what the noise is for."""
    exact(self, *arguments, **named)
    counters = tuple(each._replace(squared_limit=4 * each.squared_limit) for each in self.sketch_input.counters)
    self.sketch_input = dataclasses.replace(self.sketch_input, counters=counters)


def without_periods(exact: Any, elements: beam.PCollection, shard: Any, _: Any) -> beam.PCollection:
    """Bound each window alone, under the statement of the period."""
    return exact(elements, shard, FixedWindows(FIXED))


PER_KEY, OF_RUN, IN_PERIODS = "norm, per key in windows", "records of ids, per key, without signs", "norm, periods"
FAULTS = {
    "lost_in_bytes": laws.around(KeyedSums, "to_bytes", lost_in_bytes).found("", PER_KEY),
    "counters_swapped": laws.around(Bounded, "_side_rows", lambda exact, *given: exact(*given)[:, ::-1], "", PER_KEY),
    "every_window_has_all": laws.around(Bounded, "by_window", every_window_has_all, "", PER_KEY),
    "lost_where_sums_merge": laws.around(KeyedSums, "merged", lost_where_sums_merge, "", PER_KEY),
    "keys_that_are_not_listed_count": laws.put(
        RecordReader, "encode_keys", lambda self, keys: encode_all(["k0" if k not in KEYS else k for k in keys])
    ).found("", PER_KEY),
    "cancelling_records_lost": laws.around(NormRule, "prune", cancelling_records_lost, "", PER_KEY),
    "not_limited_but_in_each_key": not_limited_but_in_each("key").found("", PER_KEY),
    "not_limited_but_in_each_window": not_limited_but_in_each("window").found("", PER_KEY),
    "lost_in_each_key": not_limited_but_in_each("key").found("lost weight is not as said|is not as said", OF_RUN),
    "limits_of_other_counters": laws.around(ExactSums, "__init__", limits_of_other_counters, "", PER_KEY),
    "each_window_of_a_period_alone": laws.around(
        bounding_over_windows, "_group_by_period", without_periods, "", IN_PERIODS
    ),
}


def check_one(name: str) -> None:
    case = CASES[name]
    with pytest.MonkeyPatch.context() as patch:  # so that parts are netted on the way, where records that cancel meet
        for name, size in {"_READ_ELEMENTS": 5, "BUFFERED_RECORDS": 100}.items():
            patch.setattr(bounding, name, size)
        check(case, seen_by_sink(lambda pipeline: placed(fused(pipeline, FORMS["dicts"]), case=case)))


test_a_fault_between_the_steps_is_found = pytest.mark.one_fast_case(
    laws.mutants(FAULTS, check_one, words=r"is not as said|counters differ", intact=True)
)
FAULTS_OF_VOTES = {
    "a vote for each record": faults.A_VOTE_FOR_EACH_RECORD.found("", "votes, records"),
    "columns swapped": laws.around(SketchInput, "vote_names", lambda exact, made: exact(made)[::-1], "", "votes, norm"),
    "windows taken together": laws.put(
        side_sums, "_number_pairs", lambda first, second: first, "", "votes, records in several windows"
    ),
}
test_a_fault_in_votes_is_found = pytest.mark.one_fast_case(laws.mutants(FAULTS_OF_VOTES, check_forms))
