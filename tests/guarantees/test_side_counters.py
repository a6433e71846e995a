"""Side counters out of whole pipelines: equal to sums over the records, in all forms and places.

Noise is left out of the releases, so all numbers are exact and no test raises a false alarm.
`tests.helpers.side_releases` works out what to expect, without the package's bounding.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from apache_beam.transforms.window import FixedWindows

from beam_dpsketch import (
    AssumePublicKeys,
    AutoNorm,
    NormBound,
    PrivacyId,
    PrivacySpec,
    PublicKeys,
    Record,
    RecordBounds,
    SideCounters,
)
from beam_dpsketch.encodings import encode_all
from beam_dpsketch.exact.bounding.bounded import Bounded
from beam_dpsketch.exact.bounding.norm_rule import NormRule
from beam_dpsketch.exact.reading.reading import RecordReader
from beam_dpsketch.exact.sums.keyed_sums import KeyedSums
from beam_dpsketch.noise import run as engine_run
from beam_dpsketch.privacy.norm.choice import bin_count
from beam_dpsketch.statement.lost_notes import LostNote
from beam_dpsketch.transforms import PrivateFrequencies, PrivateSketchFn
from beam_dpsketch.transforms.steps import bounding, bounding_over_windows, stream_state
from beam_dpsketch.transforms.steps.exact_sums import ExactSums
from tests.helpers import laws
from tests.helpers.norm_reference import UNIT, Counted, assert_same, expected, net, scaled, squared_norm
from tests.helpers.pipelines import SPEC, run, seen_by_sink
from tests.helpers.side_releases import (
    Exact,
    Place,
    Sides,
    assert_sides,
    exact_of,
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

# What bounding takes of each unit, record by record from the definitions, in whole numbers. What a norm leaves comes
# from `norm_reference`: a least and a largest value, as factors are rounded down.

Span = tuple[int, int]
"""The least and the largest value, in units of 1 / UNIT."""
Losses = dict[tuple[Any, Any], tuple[Span, Span]]
"""What each unit loses in each place, and what is kept of it."""


def lost_by(spec: Any, unit: Record | RecordBounds | NormBound, records: Iterable[Counted]) -> Losses:
    """Return all losses; weights are not signed."""
    if isinstance(unit, Record):
        records = [each._replace(person=number) for number, each in enumerate(records)]
        return lost_by(spec, unit.bounds, records)
    by_unit: dict[Any, list[Counted]] = defaultdict(list)
    for each in records:
        if each.weight > 0:
            by_unit[each.person, each.place].append(each)
    kept = _kept_by_norm(spec, unit, records) if isinstance(unit, NormBound) else None
    found: Losses = {}
    for (person, place), own in by_unit.items():
        weights = sorted((min(each.weight, unit.max_weight) for each in own), reverse=True)
        whole = sum(each.weight for each in own)
        if kept is None:
            assert isinstance(unit, RecordBounds)
            most = unit.max_per_key
            assert len(weights) <= most or len(set(weights)) == 1, "which records are kept would be chance"
            left = (sum(weights[:most]) * UNIT,) * 2
        else:
            left = kept[person, place]
            counted = sum(sum(items.values()) for items in net(own, unit)[person].values())
            whole -= sum(weights) - counted  # what max_per_item leaves out
        found[person, place] = (whole * UNIT - left[1], whole * UNIT - left[0]), left
    return found


def _kept_by_norm(spec: Any, bounds: NormBound, records: Iterable[Counted]) -> dict[Any, Span]:
    found = {}
    for person, places in net(records, bounds).items():
        for place, items in scaled(spec, bounds, places).items():
            low, high = map(sum, zip(*items.values(), strict=True))
            found[person, place] = low, high
    return found


def assert_lost(told: Mapping[Any, LostNote], losses: Losses) -> None:
    """Raise unless the histogram of each release, or that of the run in each of them, is as the definitions say."""
    for place, note in told.items():
        of_unit: dict[Any, tuple[Span, Span]] = {}
        for (person, at), (lost, kept) in losses.items():
            if note.of_run or at == place:
                before = of_unit.get(person, ((0, 0), (0, 0)))
                of_unit[person] = _add(before[0], lost), _add(before[1], kept)
        ends = [tuple(_bin(end, note) for end in lost) for lost, _ in of_unit.values()]
        for number, count in enumerate(note.counts):
            least = sum(low == high == number for low, high in ends)
            assert least <= count <= sum(low <= number <= high for low, high in ends), "lost weight is not as said"
        if note.kept is not None:
            limit = math.isqrt(math.floor(note.kept.squared_limit * UNIT**2))
            least, most = (sum(min(kept[end], limit) for _, kept in of_unit.values()) for end in (0, 1))
            value = note.kept.value * (UNIT >> note.kept.scale_bits)
            assert least - len(of_unit) * (1 + (limit >> 20)) <= value <= most, "kept weight is not as said"


def _add(first: Span, second: Span) -> Span:
    return first[0] + second[0], first[1] + second[1]


def _bin(lost: int, note: LostNote) -> int:
    """Return the bin of a loss, by multiplying its smallest one by 4; -1 if it is smaller than that."""
    edge, place = Fraction(4) ** note.first * UNIT, -1
    while place + 1 < len(note.counts) and lost >= edge:
        edge, place = 4 * edge, place + 1
    return place


pytestmark = pytest.mark.usefixtures(no_noise.__name__)
PRIVACY = PrivacySpec(rho=Fraction(1, 10), side_counters=SideCounters(records=Fraction(1, 50)))


def globally(unit: Any, **arguments: Any) -> Callable[[], Any]:
    return lambda: PrivateFrequencies(SPEC, PRIVACY, unit=unit, **{"item": "item"} | arguments)


def per_key(unit: Any, **arguments: Any) -> Callable[[], Any]:
    listed: dict[str, Any] = {"item": "item", "keys": PublicKeys([*KEYS, "absent"], "key")}
    return lambda: PrivateFrequencies(SPEC, PRIVACY, unit=unit, **listed | arguments)


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
    by_id, unit = declared.privacy_id is not None, bounds if declared.privacy_id else declared.unit
    is_waiting = streaming and by_id and (declared.is_keyed or declared.privacy_id.max_windows is not None)
    if bounds.signed or not (by_id or bounds.has_weights) or is_waiting:
        assert told == {}
    else:
        assert told.keys() == found.keys()
        if isinstance(bounds, RecordBounds):  # one histogram for all windows of an id
            records = [each._replace(person=each.person[0]) for each in records]
        assert_lost(told, lost_by(SPEC, unit, records))
    if isinstance(bounds, NormBound):
        vectors = {place: [round(n * UNIT) for row in exact.counters for n in row] for place, exact in found.items()}
        assert_same(vectors, expected(SPEC, bounds, records))
    return found


@pytest.mark.one_fast_case
@pytest.mark.parametrize("name", CASES)
def test_every_form_of_element_gives_the_sums_over_the_records(name: str) -> None:
    case = CASES[name]
    found = [check(case, seen) for seen in in_every_form(functools.partial(placed, case=case)).values()]
    if name.startswith("norm") and "chosen" not in name:
        assert found[0] == found[1] == found[2]


@pytest.mark.one_fast_case
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize(
    "name", ["norm chosen, per key", "norm, per key in windows", "records of ids, per key", "records, per key"]
)
def test_neither_stages_nor_bundles_change_a_side_counter(
    name: str, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module, size in {"_READ_ELEMENTS": 5, "BUFFERED_RECORDS": 11}.items():
        monkeypatch.setattr(bounding, module, size)
    monkeypatch.setattr("beam_dpsketch.exact.bounding.parts.BLOCK", 30)
    seen = from_source(source, functools.partial(placed, case=CASES[name]))
    check(CASES[name], list({(start, key): (start, key, released) for start, key, released in seen}.values()))


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


@pytest.mark.one_fast_case
@pytest.mark.usefixtures(state_everywhere.__name__)
@pytest.mark.parametrize("merged", ["at the end", "all the time"])
@pytest.mark.parametrize("name", STREAMS)
def test_sums_in_state_have_the_side_counters_of_a_batch(
    name: str, merged: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A record that comes too late is in none."""
    if merged == "all the time":
        monkeypatch.setattr(stream_state, "MIN_WAITING", 0)
    case = STREAMS[name]
    check(case, from_stream(case.windows, functools.partial(placed, case=case)), streaming=True)


@pytest.mark.one_fast_case
@pytest.mark.parametrize("unit", [SIGNED, AutoNorm(max_weight=3, signed=True), ALL, None], ids=str)
def test_plain_tuples_and_pairs_give_the_sums_over_the_records(unit: Any) -> None:
    """Pairs of a key and a tuple, read by position."""
    by_position: dict[str, Any] = {"item": lambda each: each[1], "weight": lambda each: each[2]}
    owner = SINGLE if unit is None else PrivacyId(lambda each: each[0], unit)
    transform = PrivateFrequencies(SPEC, PRIVACY, unit=owner, keys=PublicKeys([*KEYS, "absent"]), **by_position)
    pairs = [(each.key, (each.user, each.item, each.n)) for each, _ in VISITS]
    records = [
        Counted(user, key, item, n)
        for key, (user, item, n) in pairs
        if key in KEYS and item is not None and (unit is None or user is not None)
    ]
    found = dict(run(pairs, transform))
    (bounds,) = {released.privacy.bounds for released in found.values()}
    if unit is None:
        wanted = of_single(SINGLE, records)
    else:
        wanted = under_records(ALL, records) if unit is ALL else under_norm(SPEC, bounds, 3, records)
    assert_sides({key: exact_of(released).side for key, released in found.items()}, wanted)


@pytest.mark.parametrize("per_key", [False, True])
def test_a_combine_fn_counts_records_as_units(per_key: bool) -> None:
    """Across a stage and fused; a bare CombineFn sees neither ids nor lists of keys."""
    fn = PrivateSketchFn(SPEC, PRIVACY, unit=SINGLE, item="item", weight="n")
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
    bounds = case.make()._declared.unit.bounds.bound(1)
    wanted = [0] * bin_count(bounds.max_weight)
    for places in net(accepted(case), bounds).values():
        wanted[max(each for each in range(64) if 1 << each <= squared_norm(SPEC, places))] += 1
    assert seen == [wanted]


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


IN_KEYS, OF_RUN, IN_PERIODS = "norm, per key in windows", "records of ids, per key, without signs", "norm, periods"
FAULTS = {
    "lost_in_bytes": laws.around(KeyedSums, "to_bytes", lost_in_bytes).found("", IN_KEYS),
    "counters_swapped": laws.around(Bounded, "_side_rows", lambda exact, *given: exact(*given)[:, ::-1], "", IN_KEYS),
    "every_window_has_all": laws.around(Bounded, "by_window", every_window_has_all, "", IN_KEYS),
    "lost_where_sums_merge": laws.around(KeyedSums, "merged", lost_where_sums_merge, "", IN_KEYS),
    "keys_that_are_not_listed_count": laws.put(
        RecordReader, "encode_keys", lambda self, keys: encode_all(["k0" if k not in KEYS else k for k in keys])
    ).found("", IN_KEYS),
    "cancelling_records_lost": laws.around(NormRule, "prune", cancelling_records_lost, "", IN_KEYS),
    "not_limited_but_in_each_key": not_limited_but_in_each("key").found("", IN_KEYS),
    "not_limited_but_in_each_window": not_limited_but_in_each("window").found("", IN_KEYS),
    "lost_in_each_key": not_limited_but_in_each("key").found("lost weight is not as said|is not as said", OF_RUN),
    "limits_of_other_counters": laws.around(ExactSums, "__init__", limits_of_other_counters, "", IN_KEYS),
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
