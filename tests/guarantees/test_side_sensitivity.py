"""How far one unit moves the side counters of whole pipelines, and the noise that the releases declare for it.

Each unit is alone in an input of its own, so the exact side counters of the releases are what it adds. The limits are
written out by hand. No test raises a false alarm.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import pyarrow.compute as pc
import pytest
from apache_beam.transforms.window import TimestampedValue

from beam_dpsketch import (
    ADD_OR_REMOVE_ONE,
    REPLACE_ONE,
    AssumePublicKeys,
    AutoNorm,
    ListedItems,
    NeighboringRelation,
    NormBound,
    PrivacyId,
    PrivacySpec,
    PrivacyStatement,
    PublicKeys,
    Record,
    RecordBounds,
    TimeRange,
)
from beam_dpsketch.answers.released_sketch import ReleasedSketch
from beam_dpsketch.exact.bounding.bounded import Bounded
from beam_dpsketch.exact.declared.windows import WindowPlan
from beam_dpsketch.noise import run as engine_run
from beam_dpsketch.noise.calibration import Calibration
from beam_dpsketch.privacy import terms as terms_module
from beam_dpsketch.privacy.mechanism import Sensitivity
from beam_dpsketch.privacy.side_counters import SideCounter
from beam_dpsketch.privacy.terms import ReleaseTerms
from beam_dpsketch.transforms import PrivateFrequencies, PrivateSketchFn
from beam_dpsketch.transforms.steps import bounding, windows
from beam_dpsketch.transforms.steps.exact_sums import ExactSums
from tests.helpers import laws
from tests.helpers.noise import no_guard
from tests.helpers.pipelines import seen_by_sink
from tests.helpers.side_releases import Place, any_norm, no_noise
from tests.helpers.streams import in_windows, state_everywhere

pytestmark = pytest.mark.usefixtures(any_norm.__name__, no_noise.__name__, no_guard.__name__)
RHO = Fraction(1, 10)
SPEC = ListedItems(range(64))
KEYS = ["a", "b", "c", "d"]
NORM = Fraction(3, 2)
"""The square is 9 / 4: two keys or windows of a unit that is not scaled count."""
SIGNED = NormBound(NORM, max_weight=9, signed=True)
RECORDS = RecordBounds(3, max_keys=2, max_weight=5, signed=True)
UNSIGNED, UNSIGNED_RECORDS = NormBound(NORM, max_weight=9), RecordBounds(3, max_keys=2, max_weight=5)
LOST, KEPT = ("lost",), ("kept in the run",)
Unit = list[tuple[dict[str, Any], float]]


def heavy(places: list[tuple[str | None, float]], weight: int = 9, items: int = 64) -> Unit:
    """Records of the same weight in these keys and times."""
    return [
        ({"user": "u", "key": key, "item": item, "n": weight}, time) for key, time in places for item in range(items)
    ]


class Case(NamedTuple):
    """A transform, and units that move its counters the most.

    `limits` are K^2 of each counter, and of the sketch; `windows_reached` multiplies the squares, but not those of
    what a run tells once. `times` are those of one period, within which a unit is one.
    """

    make: Callable[[PrivacySpec], Any]
    limits: dict[str, Fraction]
    units: list[Unit]
    windows: Any = None
    streaming: bool = False
    windows_reached: int = 1
    spend: Fraction = Fraction(0)
    times: tuple[float, ...] = (0.0, 60.0, 65.0, 120.0, 180.0)
    signed: bool = True

    @property
    def of_run(self) -> bool:
        return KEPT[0] in self.limits


def globally(unit: Any, **arguments: Any) -> Callable[[PrivacySpec], Any]:
    return lambda privacy: PrivateFrequencies(SPEC, privacy, unit=unit, item="item", weight="n", **arguments)


def per_key(unit: Any, **arguments: Any) -> Callable[[PrivacySpec], Any]:
    listed: dict[str, Any] = {"keys": PublicKeys(KEYS, "key"), "item": "item", "weight": "n"}
    return lambda privacy: PrivateFrequencies(SPEC, privacy, unit=unit, **listed | arguments)


def limits(units: int, norm: Fraction = NORM) -> dict[str, Fraction]:
    """K^2 under a norm, and the squared length in the sketch."""
    ample = (4 * norm) ** 2
    squares: dict[str, Any] = {"units": units, "records": ample, "weight": ample, "clipped": norm**2, "scaled": units}
    return {name: Fraction(square) for name, square in squares.items()} | {"sketch": norm**2}


def lost(kept: Fraction | None = None, **of_weights: Fraction) -> dict[str, Fraction]:
    """The same of weights without signs, with K^2 of the histogram and of what is kept in the run."""
    found = {name: limit for name, limit in of_weights.items() if name not in ("clipped", "scaled")}
    return {**found, LOST[0]: Fraction(1)} | ({} if kept is None else {KEPT[0]: kept})


def three(first: list[Any], elsewhere: list[Any], weight: int = 9, items: int = 64) -> list[Unit]:
    """A heavy unit, one that is elsewhere, and one of opposite weights."""
    return [heavy(first, weight, items), heavy(elsewhere, weight, items), heavy(first, -weight, items)]


OF_RECORDS = {"units": Fraction(2), "records": Fraction(2 * 9), "weight": Fraction(2 * 225), "sketch": Fraction(450)}
OF_ONE = {"units": Fraction(1), "records": Fraction(1), "weight": Fraction(25), "sketch": Fraction(25)}
ALONG = [(KEYS[0], 0.0), (KEYS[1], 0.0)], [(KEYS[2], 60.0), (KEYS[3], 60.0)]
"""Two keys, and the two others later."""
EARLY = [[(key, time) for key in keys for time in (0.0, 60.0)] for keys in (KEYS[:2], KEYS[2:])]
"""Two keys in two windows each, and the two others."""
DECLARED: dict[str, Any] = {"windows": TimeRange(0, 240)}
OPEN: dict[str, Any] = {"keys": AssumePublicKeys("key")}
CASES = {
    "norm, keys and windows": Case(
        per_key(PrivacyId("user", SIGNED), **DECLARED), limits(2), three(*ALONG), windows=60
    ),
    "norm": Case(globally(PrivacyId("user", SIGNED)), limits(1), three([(None, 0.0)], [(None, 0.0)])),
    "norm, keys": Case(per_key(PrivacyId("user", SIGNED), **OPEN), limits(2), three(*ALONG)),
    "norm, a period of sliding windows": Case(
        globally(PrivacyId("user", SIGNED, period=480)), limits(2), three([(None, 65.0)], [(None, 245.0)]), (120, 60)
    ),
    "norm, a period of one window": Case(
        globally(PrivacyId("user", SIGNED, period=60)),
        limits(1),
        three([(None, 0.0)], [(None, 60.0)]),
        windows=60,
        times=(0.0,),
    ),
    "norm, stream of one window": Case(
        globally(PrivacyId("user", SIGNED, max_windows=1, period=240)),
        limits(1),
        three([(None, 0.0)], [(None, 60.0)]),
        windows=60,
        streaming=True,
    ),
    "norm, stream": Case(
        per_key(PrivacyId("user", SIGNED, max_windows=2, period=240), **OPEN),
        limits(2),
        three(EARLY[0], EARLY[1]),
        windows=60,
        streaming=True,
        windows_reached=2,
    ),
    "norm chosen, keys and windows": Case(
        per_key(PrivacyId("user", AutoNorm(max_weight=9, signed=True)), **DECLARED),
        limits(2),
        three(*ALONG),
        windows=60,
        spend=Fraction(1, 20),
    ),
    "records of ids": Case(per_key(PrivacyId("user", RECORDS)), OF_RECORDS, three(*ALONG, weight=5)),
    "records of ids, windows": Case(
        per_key(PrivacyId("user", RECORDS, max_windows=2), **DECLARED),
        OF_RECORDS,
        three(EARLY[0], EARLY[1], weight=5),
        windows=60,
        windows_reached=2,
    ),
    "record in sliding windows": Case(
        globally(Record(max_weight=5, signed=True)),
        OF_ONE,
        three([(None, 65.0)], [(None, 185.0)], items=1),
        windows=(120, 60),
        windows_reached=2,
    ),
    "record in windows": Case(
        globally(Record(max_weight=5, signed=True)), OF_ONE, three([(None, 0.0)], [(None, 60.0)], items=1), windows=60
    ),
    "record": Case(
        globally(Record(max_weight=5, signed=True)),
        OF_ONE,
        [*three([(None, 0.0)], [(None, 0.0)], items=1), [({"item": None, "n": 5}, 0.0)]],
    ),
    "combine fn": Case(
        lambda privacy: beam.CombineGlobally(
            PrivateSketchFn(SPEC, privacy, unit=Record(max_weight=5, signed=True), item="item", weight="n")
        ),
        OF_ONE,
        three([(None, 0.0)], [(None, 0.0)], items=1),
    ),
    "lost under a norm": Case(
        globally(PrivacyId("user", UNSIGNED)), lost(**limits(1)), three([(None, 0.0)], [(None, 0.0)]), signed=False
    ),
    "lost under a norm, keys and windows": Case(
        per_key(PrivacyId("user", UNSIGNED), **DECLARED),
        lost((4 * NORM) ** 2, **limits(2)),
        three(*ALONG),
        windows=60,
        signed=False,
    ),
    "lost under a chosen norm, windows": Case(
        globally(PrivacyId("user", AutoNorm(max_weight=9)), **DECLARED),
        lost((4 * NORM) ** 2, **limits(2)),
        three([(None, 0.0), (None, 60.0)], [(None, 120.0), (None, 180.0)]),
        windows=60,
        spend=Fraction(1, 20),
        signed=False,
    ),
    "lost records of ids": Case(
        per_key(PrivacyId("user", UNSIGNED_RECORDS)), lost(Fraction(30**2), **OF_RECORDS), three(*ALONG), signed=False
    ),
    "lost records of ids, windows": Case(
        per_key(PrivacyId("user", UNSIGNED_RECORDS, max_windows=2), **DECLARED),
        lost(Fraction(60**2), **OF_RECORDS),
        three(EARLY[0], EARLY[1]),
        windows=60,
        windows_reached=2,
        signed=False,
    ),
    "lost records of ids, stream": Case(
        globally(PrivacyId("user", RecordBounds(1, max_weight=5), max_windows=2, period=240)),
        lost(**OF_ONE),
        three([(None, 0.0), (None, 60.0)], [(None, 120.0), (None, 180.0)]),
        windows=60,
        streaming=True,
        windows_reached=2,
        signed=False,
    ),
    "lost of a record in sliding windows": Case(
        globally(Record(max_weight=5)),
        lost(**OF_ONE),
        three([(None, 65.0)], [(None, 185.0)], items=1),
        windows=(120, 60),
        windows_reached=2,
        signed=False,
    ),
    "lost of a combine fn": Case(
        lambda privacy: beam.CombineGlobally(
            PrivateSketchFn(SPEC, privacy, unit=Record(max_weight=5), item="item", weight="n")
        ),
        lost(**OF_ONE),
        three([(None, 0.0)], [(None, 0.0)], items=1),
        signed=False,
    ),
}


def random_units(case: Case) -> list[Unit]:
    """More units: of one light record or of very many, in any places."""
    random = np.random.default_rng(7)
    keys = sorted({(row.get("key"), 0) for unit in case.units for row, _ in unit})
    single = len(case.units[0]) == 1
    found: list[Unit] = []
    for size in [1] * 4 if single else [1, 3, 40, 900]:
        visits = [
            {"user": "u", "key": keys[random.integers(len(keys))][0], "item": int(random.integers(64)), "n": int(n)}
            for n in random.integers(-9, 10, size)
        ]
        found.append([(visit, float(random.choice(case.times))) for visit in visits])
    return found


def added(case: Case, relation: NeighboringRelation, units: list[Unit]) -> tuple[list[dict[Any, Any]], ReleasedSketch]:
    """What each unit adds to each side counter, by counter and place; and one of the releases."""
    privacy = PrivacySpec(rho=RHO, relation=relation)

    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        branches = []
        for number, unit in enumerate(units):
            elements = pipeline | f"Unit {number}" >> beam.Create(unit, reshuffle=False)
            elements = elements | f"Stamp {number}" >> beam.MapTuple(TimestampedValue)
            elements.is_bounded = not case.streaming
            if case.windows is not None:
                elements = elements | f"Windows {number}" >> in_windows(case.windows)
            released = elements | f"Private {number}" >> case.make(privacy) | f"Place {number}" >> beam.ParDo(Place())
            branches.append(released | f"Name {number}" >> beam.Map(lambda each, number: (number, each), number))
        return branches | beam.Flatten()

    found: list[dict[Any, Any]] = [{} for _ in units]
    for number, (start, key, released) in seen_by_sink(build):
        for note in released.privacy.side:
            found[number].setdefault(note.names, {})[start, key] = Fraction(note.value, 1 << note.scale_bits)
        if (lost := released.privacy.lost) is not None:
            place = "of the run" if lost.of_run else (start, key)
            told = found[number].setdefault(LOST, {})
            for bin_, count in enumerate(lost.counts):
                assert told.setdefault((place, bin_), Fraction(count)) == count, "a run tells two histograms"
            if lost.kept is not None:
                found[number][KEPT] = {place: Fraction(lost.kept.value, 1 << lost.kept.scale_bits)}
    return found, released


def notes_of(privacy: PrivacyStatement) -> Iterator[tuple[tuple[str, ...], Any]]:
    """What is counted aside, with the share and the noise of each."""
    yield from ((note.names, note) for note in privacy.side)
    if privacy.lost is not None:
        yield LOST, privacy.lost
        yield from [] if privacy.lost.kept is None else [(KEPT, privacy.lost.kept)]


def check(case: Case, relation: NeighboringRelation, units: list[Unit], *, attained: bool = True) -> None:
    """Raise unless each unit moves each counter by what its noise is for at most, and some unit by as much."""
    found, released = added(case, relation, units)
    spent = case.spend * RHO + delta(case, "sketch", relation) / (2 * released.privacy.sigma_squared)
    for names, note in notes_of(released.privacy):
        limit = delta(case, names[0], relation)
        changes = [squared_distance(first, second, names) for first, second in pairs(found, relation)]
        spent += limit / (2 * note.sigma_squared)
        assert max(changes) <= 2 * RHO * note.share * note.sigma_squared, f"{names} changes by more than its noise"
        assert max(changes) <= limit, f"{names} changes by too much"
        if attained:
            assert max(changes) > limit * Fraction(399, 400), f"{names} has more noise than it needs"
    assert spent == RHO, "the parts of rho do not sum to rho"


def delta(case: Case, name: str, relation: NeighboringRelation) -> Fraction:
    """Delta^2 of a counter."""
    factor = 1
    if relation is REPLACE_ONE:
        factor = 4 if case.signed and name in ("weight", "sketch") else 2
    once = case.of_run and name in (*LOST, *KEPT)
    return factor * case.limits[name] * (1 if once else case.windows_reached)


def pairs(found: list[dict[Any, Any]], relation: NeighboringRelation) -> Iterator[tuple[Any, Any]]:
    """What a unit adds, and what the unit that replaces it adds: here, or to another release without common units."""
    yield from ((each, {}) for each in found)
    if relation is REPLACE_ONE:
        yield from itertools.combinations(found, 2)
        yield from itertools.product(found, map(elsewhere, found))


def elsewhere(added: dict[Any, Any]) -> dict[Any, Any]:
    return {names: {("elsewhere", place): value for place, value in cells.items()} for names, cells in added.items()}


def squared_distance(first: dict[Any, Any], second: dict[Any, Any], names: Any) -> Fraction:
    one, other = first.get(names, {}), second.get(names, {})
    places = {*one, *other}
    return sum(((one.get(place, Fraction(0)) - other.get(place, Fraction(0))) ** 2 for place in places), Fraction(0))


@pytest.mark.one_fast_case
@pytest.mark.usefixtures(state_everywhere.__name__, "chosen_norm")
@pytest.mark.parametrize("relation", [REPLACE_ONE, ADD_OR_REMOVE_ONE], ids=lambda relation: relation.name)
@pytest.mark.parametrize("name", CASES)
def test_each_counter_has_the_noise_that_hides_the_worst_unit(name: str, relation: NeighboringRelation) -> None:
    check(CASES[name], relation, CASES[name].units)


@pytest.mark.slow
@pytest.mark.usefixtures(state_everywhere.__name__, "chosen_norm")
@pytest.mark.parametrize("name", CASES)
def test_no_other_unit_moves_a_counter_further(name: str) -> None:
    check(CASES[name], REPLACE_ONE, [*CASES[name].units, *random_units(CASES[name])])


@pytest.fixture
def chosen_norm(monkeypatch: pytest.MonkeyPatch) -> None:
    """A choice always gives the same norm."""
    monkeypatch.setattr(engine_run, "choose_norm", lambda *_, **__: NORM)


# Faults between the steps.


def one_window(exact: Any, *arguments: Any) -> WindowPlan:
    plan = exact(*arguments)
    return plan._replace(terms=dataclasses.replace(plan.terms, window_count=1))


def limits_of_other_counters(exact: Any, self: ExactSums, *arguments: Any, **named: Any) -> None:
    """Limit what is added up by more than what the noise is for."""
    exact(self, *arguments, **named)
    counters = tuple(each._replace(squared_limit=4 * each.squared_limit) for each in self.sketch_input.counters)
    self.sketch_input = dataclasses.replace(self.sketch_input, counters=counters)


def not_limited_but_in_each(column: str, name: str) -> laws.Fault:
    """Bound the records of each key or window for themselves."""

    def wrong(self: Any, element: Any, pane: Any = beam.DoFn.PaneInfoParam) -> Iterator[Bounded]:
        for records in bounding.gather_records(self._rule, element[1]):
            for value in records[column].unique():
                yield self._rule.bound(records.filter(pc.equal(records[column], value)))

    return laws.put(bounding.BoundShard, "process", wrong, "changes by", name)


MORE, SUM = "changes by more", "do not sum to rho"
FAULTS = {
    "not_limited_but_in_each_key": not_limited_but_in_each("key", "norm, keys and windows"),
    "lost_in_each_key": not_limited_but_in_each("key", "lost under a norm, keys and windows"),
    "window_count_forgotten": laws.around(windows, "plan_windows", one_window, MORE, "norm, stream"),
    "windows_of_lost_weight_forgotten": laws.around(
        terms_module,
        "lost_counter",
        lambda exact, *terms, **rest: (found := exact(*terms, **rest)) and found._replace(reach=1),
        MORE,
        "lost of a record in sliding windows",
    ),
    "a_removal_as_costly_as_a_replacement": laws.put(  # as if its replacement were always in the same number
        SideCounter,
        "sensitivity",
        lambda counter, relation, *, reach=1: Sensitivity(counter.squared_limit * reach * (4 if counter.signed else 1)),
        MORE,
        "norm",
    ),
    "limits_of_other_counters": laws.around(ExactSums, "__init__", limits_of_other_counters, MORE, "norm, keys"),
    "not_limited_but_in_each_window": not_limited_but_in_each("window", "norm, a period of sliding windows"),
    "noise_of_another_norm": laws.around(
        Calibration,
        "with_norm",
        lambda exact, given, norm: exact(given, norm and norm - Fraction(1, 16)),
        MORE,
        "norm chosen, keys and windows",
    ),
    "all_of_rho_for_the_sketch": laws.put(ReleaseTerms, "share_left", Fraction(1), SUM, "norm"),
    "the_choice_is_free": laws.around(
        ReleaseTerms,
        "under",
        lambda exact, *arguments: dataclasses.replace(exact(*arguments), norm_spend=None),
        SUM,
        "norm chosen, keys and windows",
    ),
}


def check_named(name: str) -> None:
    check(CASES[name], REPLACE_ONE, CASES[name].units, attained=False)


test_a_fault_between_the_steps_is_found = pytest.mark.one_fast_case(
    pytest.mark.usefixtures(state_everywhere.__name__, "chosen_norm")(laws.mutants(FAULTS, check_named))
)
