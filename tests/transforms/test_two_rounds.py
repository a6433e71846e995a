"""Two rounds of votes in pipelines: one draw of the first, and the keys, or items, of a table under one secret."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import apache_beam as beam
import numpy as np
import pandas as pd
import pytest
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.window import FixedWindows

from beam_dpsketch import (
    ADD_OR_REMOVE_ONE,
    REPLACE_ONE,
    AssumePublicKeys,
    AutoNorm,
    Horizon,
    ItemFrequencies,
    KeySelection,
    ListedItems,
    NormBound,
    PrivacyId,
    PrivacySpec,
    PublicKeys,
    RecordBounds,
    ReleaseSpec,
    TextDomain,
    Thresholding,
    TimeColumn,
    TimeRange,
)
from beam_dpsketch.encodings import encode
from beam_dpsketch.frames.releasing import release_table
from beam_dpsketch.noise import run as engine_run
from beam_dpsketch.noise.counting import Counting
from beam_dpsketch.planning.kinds.thresholded_counts import ThresholdedCounts
from beam_dpsketch.privacy.noise.keyed_randomness import KeyedRandomness
from beam_dpsketch.privacy.two_rounds import TwoRounds
from beam_dpsketch.transforms import EnvironmentSecret, PrivateFrequencies, PrivateTopK, SelectKeys
from beam_dpsketch.transforms.steps import second_round
from tests.helpers import laws
from tests.helpers.pipelines import BUNDLE_BASED, FN_API, seen_by_sink
from tests.helpers.voters import (
    REPEATED,
    SECRET,
    VARIABLE,
    VISITS,
    WINDOWS,
    check_reference,
    drawn_again,
    person,
    rounds_of,
    stamped,
)

pytestmark = pytest.mark.pipeline

SPEC = ListedItems([0, 1, 2])
KEYS = KeySelection(0.2, "key")


@dataclasses.dataclass(frozen=True)
class Case:
    """How people are bounded, and which windows there are."""

    privacy_unit: PrivacyId
    windows: Any = None
    relation: Any = ADD_OR_REMOVE_ONE

    def declared(self) -> ReleaseSpec:
        privacy = PrivacySpec(rho=3, delta=0.5, relation=self.relation, summary_counts=None)
        every = None if isinstance(self.windows, Horizon) else 60
        time = None if self.windows is None else TimeColumn("time", every)
        return ReleaseSpec(
            ItemFrequencies(SPEC), privacy, self.privacy_unit, "item", keys=KEYS, windows=self.windows, time=time
        )


CASES = {
    "records": Case(person(RecordBounds(1, max_keys=3))),
    "norm": Case(person(NormBound(2, max_keys=5))),
    "norm, replaced": Case(person(NormBound(2, max_keys=4)), relation=REPLACE_ONE),
    "records, each window": Case(person(RecordBounds(1, max_keys=3)), WINDOWS),
    "records, two windows": Case(person(RecordBounds(1, max_keys=3), max_windows=2), WINDOWS),
    "norm, all windows": Case(person(NormBound(2, max_keys=4)), WINDOWS),
    "records, horizon": Case(person(RecordBounds(1, max_keys=3), max_windows=2), Horizon(0, 60, 4)),
    "norm, horizon": Case(person(NormBound(2, max_keys=4)), Horizon(0, 60, 4)),
}


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, SECRET)


def of_frame(case: Case) -> set[Any]:
    """The keys and windows that a table releases."""
    keyed = KeyedRandomness(SECRET.encode(), encode(("visits",)))
    released, _ = release_table(VISITS.assign(time=pd.to_datetime(VISITS["time"], unit="s")), case.declared(), keyed)
    if case.windows is None or isinstance(case.windows, Horizon):
        return set(released)
    return {(key, start.timestamp()) for (start, _), by_key in released.items() for key in by_key}


def of_pipeline(case: Case, *options: str, runner: str = FN_API) -> set[Any]:
    """The same of a pipeline, whose bundles may be run again."""
    declared = case.declared()
    transform = PrivateFrequencies.of(dataclasses.replace(declared, time=None))
    transform = transform.with_idempotent_noise(release_id="visits", secret=EnvironmentSecret(VARIABLE))

    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        rows = VISITS.to_dict("records")
        elements = pipeline | beam.Create(rows, reshuffle=False) | beam.Map(stamped)
        if isinstance(case.windows, TimeRange):
            elements = elements | beam.WindowInto(FixedWindows(60))
        return elements | transform | beam.Keys() | beam.ParDo(WithStart())

    found = seen_by_sink(build, *options, runner=runner)
    if isinstance(case.windows, TimeRange):
        return set(found)
    return {key for key, _ in found}


class WithStart(beam.DoFn):
    """(element, start of its window)."""

    def process(self, element: Any, window: Any = beam.DoFn.WindowParam) -> Any:
        yield element, getattr(window, "start", 0).micros / 1e6


@pytest.mark.one_fast_case
@pytest.mark.parametrize("name", CASES)
def test_a_pipeline_chooses_the_keys_of_a_table(name: str) -> None:
    """The same votes and noisy votes decide on each key and window, and the same keys come out."""
    assert CASES[name].declared().terms.selection.method == "two_rounds"
    with on_keys() as of_table:
        found = of_frame(CASES[name])
    with on_keys() as of_steps:
        assert of_pipeline(CASES[name], REPEATED) == found
    assert of_steps == of_table
    assert 0 < len(found) < len(of_table)
    assert all(len(rows) == 1 for rows in of_table.values())
    check_second_votes(of_table, CASES[name])


def check_second_votes(decided: dict[Any, set[Any]], case: Case) -> None:
    """The second votes are those of people who read the noisy votes that decide, and of no others.

    Only where people are in no more keys than they may vote for: which keys these are is open elsewhere.
    """
    most = VISITS.groupby("user")["key"].nunique().max()
    if (
        case.windows is not None
        or isinstance(case.privacy_unit.bounds, RecordBounds)
        or case.privacy_unit.bounds.max_keys < most
    ):
        return
    check_reference(decided, rounds_of(case.declared().resolved.calibrated.choice))


@contextlib.contextmanager
def decisions(of_call: Callable[..., list[tuple[Any, Any]]], name: str) -> Iterator[dict[Any, set[Any]]]:
    """The rows that decide on each place, in all calls of a method of a run."""
    seen: dict[Any, set[Any]] = collections.defaultdict(set)
    exact = getattr(engine_run.Run, name)

    def spy(run: Any, *given: Any) -> Any:
        given = tuple([*each] if isinstance(each, Iterator) else each for each in given)
        for place, row in of_call(*given):
            seen[place].add(row)
        return exact(run, *given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine_run.Run, name, spy)
        yield seen


def on_keys() -> Any:
    """Rows of votes, voters, second and noisy votes, by key and window."""

    def rows(choice: Any, votes: np.ndarray, places: Any) -> list[tuple[Any, Any]]:
        return [(place, tuple(row)) for place, row in zip(places, votes.tolist(), strict=True) if row[0]]

    return decisions(rows, "choose")


def on_items() -> Any:
    """Rows of counts, votes, voters, second and noisy votes, by pair and window."""

    def rows(counting: Any, pairs: Any, window: engine_run.Place = engine_run.WHOLE) -> list[tuple[Any, Any]]:
        return [(window._replace(key=(pair[:-1].decode(),), pane=0), row) for pair, row in pairs]

    return decisions(rows, "count")


def select(*options: str) -> tuple[set[str], dict[Any, set[Any]], TwoRounds]:
    """Keys alone, without a secret: the keys, what decided on each, and the rule."""
    privacy = PrivacySpec(rho=3, delta=0.5, summary_counts=None)
    transform = SelectKeys(privacy, privacy_unit=person(NormBound(1, max_keys=5)), keys=KEYS)
    rows = VISITS.to_dict("records")
    with on_keys() as decided:
        found = seen_by_sink(lambda pipeline: pipeline | beam.Create(rows, reshuffle=False) | transform, *options)
    return set(found), decided, rounds_of(transform.choice)


def check_one_draw() -> None:
    found, decided, rounds = select(REPEATED)
    assert all(len(rows) == 1 for rows in decided.values()), "another draw"
    check_reference(decided, rounds)
    noisy = {place.key[0]: row[3] for place, (row,) in decided.items()}
    assert {key for key, each in noisy.items() if each >= rounds.at_once} <= found


FAULTS = {
    "drawn twice": laws.around(second_round, "_noisy", drawn_again),
    "votes for keys that are decided": laws.around(
        TwoRounds, "considers", lambda exact, rounds, first: first >= rounds.least
    ),
    "votes for keys without hope": laws.around(
        TwoRounds, "considers", lambda exact, rounds, first: first < rounds.at_once
    ),
    "votes as in the first round": laws.around(
        TwoRounds, "second_weights", lambda exact, rounds, counts: exact(rounds, np.full_like(counts, 5))
    ),
    "no second votes": laws.around(second_round, "_vote_again", lambda *_: iter(())),
}
test_a_planted_fault_is_found = pytest.mark.one_fast_case(laws.mutants(FAULTS, check_one_draw, intact=True))


def test_one_person_with_all_keys_shows_none() -> None:
    """Of 40 keys of one person, one comes out with probability 1e-9 at most."""
    rows = [{"user": "someone", "key": f"k{number}"} for number in range(40)]
    keys = KeySelection(1e-9, "key")
    for bounds in (NormBound(1, max_keys=40), RecordBounds(1, max_keys=40)):
        transform = SelectKeys(PrivacySpec(rho=3), privacy_unit=person(bounds), keys=keys)
        assert transform.choice.note.method == "two_rounds"
        assert not seen_by_sink(lambda pipeline, made=transform: pipeline | beam.Create(rows) | made)


def test_no_data_gives_no_keys() -> None:
    kind = beam.Row(user="", key="", item=0)
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        empty = pipeline | beam.Create([kind]) | beam.Filter(lambda _: False)
        transform = PrivateFrequencies.of(CASES["records"].declared())
        assert_that(empty | transform, equal_to([]))


ITEMS = VISITS.assign(word=VISITS["key"], key=[f"g{number % 2}" for number in VISITS["item"]])
Found = dict[Any, dict[str, float]]


@dataclasses.dataclass(frozen=True)
class ItemCase:
    """How people are bounded, and which keys and windows there are."""

    privacy_unit: PrivacyId
    keys: Any = None
    windows: Any = None
    relation: Any = ADD_OR_REMOVE_ONE
    rounds: int = 2

    def declared(self) -> ReleaseSpec:
        privacy = PrivacySpec(rho=3, delta=0.5, relation=self.relation)
        time = None if self.windows is None else TimeColumn("time", 60)
        count = ThresholdedCounts(TextDomain(8), 9, Thresholding(0.2))
        return ReleaseSpec(count, privacy, self.privacy_unit, "word", keys=self.keys, windows=self.windows, time=time)


OPEN = AssumePublicKeys("key")
ITEM_CASES = {
    "records": ItemCase(person(RecordBounds(2, max_keys=3))),
    "records, replaced": ItemCase(person(RecordBounds(2, max_keys=3)), relation=REPLACE_ONE, rounds=1),
    "norm": ItemCase(person(NormBound(2, max_keys=9))),
    "norm, replaced, keys": ItemCase(
        person(NormBound(2)), PublicKeys(["g0", "g1", "none"], "key"), relation=REPLACE_ONE
    ),
    "chosen norm": ItemCase(person(AutoNorm())),
    "chosen norm, keys, windows": ItemCase(person(AutoNorm()), PublicKeys(["g0", "g1"], "key"), WINDOWS),
    "records, keys, each window": ItemCase(person(RecordBounds(2, max_keys=3)), OPEN, WINDOWS),
    "records, two windows": ItemCase(person(RecordBounds(2, max_keys=3), max_windows=2), None, WINDOWS),
    "records, a window of a period": ItemCase(
        person(RecordBounds(2, max_keys=3), max_windows=1, period=120), OPEN, WINDOWS
    ),
    "norm, all windows": ItemCase(person(NormBound(2, max_keys=4)), OPEN, WINDOWS),
    "norm of a period": ItemCase(person(NormBound(2, max_keys=4), period=120), None, WINDOWS),
}


def items_of_frame(case: ItemCase) -> Found:
    """The items that a table releases, with their counts, by key and start of the window."""
    keyed = KeyedRandomness(SECRET.encode(), encode(("items",)))
    table = ITEMS.assign(time=pd.to_datetime(ITEMS["time"], unit="s"))
    released, _ = release_table(table, case.declared(), keyed)
    if case.windows is None:
        return named([(0, *each) for each in by_key(case, released)])
    return named([(start.timestamp(), *each) for (start, _), inner in released.items() for each in by_key(case, inner)])


def by_key(case: ItemCase, released: Any) -> list[tuple[Any, Any]]:
    return [(None, released)] if case.keys is None else [*released.items()]


def named(found: list[tuple[Any, Any, Any]]) -> Found:
    return {
        (start, key): dict(zip(each.items, each.counters.tolist(), strict=True))
        for start, key, each in found
        if len(each)
    }


def items_of_pipeline(case: ItemCase, *options: str, runner: str = FN_API) -> Found:
    """The same of a pipeline, whose bundles may be run again."""
    transform = PrivateTopK.of(dataclasses.replace(case.declared(), time=None))
    transform = transform.with_idempotent_noise(release_id="items", secret=EnvironmentSecret(VARIABLE))

    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        elements = pipeline | beam.Create(ITEMS.to_dict("records"), reshuffle=False) | beam.Map(stamped)
        if case.windows is not None:
            elements = elements | beam.WindowInto(FixedWindows(60))
        return elements | transform | beam.ParDo(Placed(case))

    return named(seen_by_sink(build, *options, runner=runner))


class Placed(beam.DoFn):
    """(start of the window, key, release)."""

    def __init__(self, case: ItemCase) -> None:
        self._is_keyed, self._in_windows = case.keys is not None, case.windows is not None

    def process(self, element: Any, window: Any = beam.DoFn.WindowParam) -> Any:
        key, top = element if self._is_keyed else (None, element)
        yield (window.start.micros / 1e6 if self._in_windows else 0), key, top.release


@pytest.mark.one_fast_case
@pytest.mark.parametrize("name", ITEM_CASES)
def test_a_pipeline_releases_the_items_of_a_table(name: str) -> None:
    """The same counts, votes and noisy votes decide, and the same counts come out."""
    case = ITEM_CASES[name]
    choice = case.declared().resolved.noise(Counting).choice
    assert choice is not None
    assert (choice.rounds is not None) == (case.rounds == 2)
    with on_items() as of_table:
        found = items_of_frame(case)
    with on_items() as of_steps:
        assert items_of_pipeline(case, REPEATED) == found
    assert of_steps == of_table
    released = sum(map(len, found.values()))
    assert 0 < released < len(of_table)
    threshold = case.declared().resolved.noise(Counting).note.least_count
    by_votes = sum(count < threshold for each in found.values() for count in each.values())
    assert by_votes > 0 or isinstance(case.privacy_unit.bounds, AutoNorm)


WINDOWED = [
    *((of_pipeline, of_frame, name) for name, case in CASES.items() if case.windows is not None),
    *((items_of_pipeline, items_of_frame, name) for name, case in ITEM_CASES.items() if case.windows is not None),
]


@pytest.mark.one_fast_case
@pytest.mark.parametrize(("of_steps", "of_table", "name"), WINDOWED)
def test_no_votes_are_late(of_steps: Any, of_table: Any, name: str) -> None:
    """On a runner that goes by watermarks, votes of a period come before the windows in it are released."""
    case = CASES[name] if of_steps is of_pipeline else ITEM_CASES[name]
    assert of_steps(case, runner=BUNDLE_BASED) == of_table(case)


def check_one_draw_of_items() -> None:
    """What steers the second round, and what decides, is one draw, also of bundles that run again."""
    case = ItemCase(person(NormBound(1, max_keys=5)))
    transform, rows = PrivateTopK.of(case.declared()), ITEMS.to_dict("records")
    with on_items() as decided:
        seen_by_sink(lambda pipeline: pipeline | beam.Create(rows, reshuffle=False) | transform, REPEATED)
    assert all(len(rows) == 1 for rows in decided.values()), "another draw"
    votes = {place: {row[1:] for row in rows} for place, rows in decided.items()}
    check_reference(votes, rounds_of(case.declared().resolved.noise(Counting).choice))


ITEM_FAULTS = {
    "drawn twice": laws.around(second_round, "_noisy", drawn_again),
    "no second votes": laws.around(second_round, "_vote_again", lambda *_: iter(())),
}
test_a_planted_fault_in_items_is_found = pytest.mark.one_fast_case(
    laws.mutants(ITEM_FAULTS, check_one_draw_of_items, intact=True)
)


def test_one_person_with_all_items_shows_none() -> None:
    """Of 40 items of one person, one comes out with probability 1e-9 at most."""
    rows = [{"user": "someone", "word": f"w{number}"} for number in range(40) for _ in range(3)]
    for bounds in (NormBound(20, max_keys=40), RecordBounds(3, max_keys=40), AutoNorm(max_keys=40)):
        privacy, privacy_unit = PrivacySpec(rho=3), person(bounds)
        transform = PrivateTopK(
            TextDomain(8), privacy, k=9, privacy_unit=privacy_unit, item="word", method=Thresholding(1e-9)
        )
        (top,) = seen_by_sink(lambda pipeline, made=transform: pipeline | beam.Create(rows) | made)
        assert not len(top)


def test_no_data_gives_a_release_without_items() -> None:
    kind = beam.Row(user="", word="")
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        empty = pipeline | beam.Create([kind]) | beam.Filter(lambda _: False)
        made = PrivateTopK.of(ITEM_CASES["norm"].declared())
        assert_that(empty | made | beam.Map(len), equal_to([0]))
