"""Two rounds of votes through whole pipelines: one draw of the first, and the keys of a table under one secret."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
from collections.abc import Iterator
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
    Horizon,
    ItemFrequencies,
    KeySelection,
    ListedItems,
    NormBound,
    PrivacyId,
    PrivacySpec,
    RecordBounds,
    ReleaseSpec,
    TimeColumn,
    TimeRange,
)
from beam_dpsketch.encodings import encode
from beam_dpsketch.frames.releasing import release_table
from beam_dpsketch.noise import run as engine_run
from beam_dpsketch.privacy.noise.keyed_randomness import KeyedRandomness
from beam_dpsketch.privacy.two_rounds import TwoRounds
from beam_dpsketch.transforms import EnvironmentSecret, PrivateFrequencies, SelectKeys
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

    unit: PrivacyId
    windows: Any = None
    relation: Any = ADD_OR_REMOVE_ONE

    def declared(self) -> ReleaseSpec:
        privacy = PrivacySpec(rho=3, delta=0.5, relation=self.relation, side_counters=None)
        every = None if isinstance(self.windows, Horizon) else 60
        time = None if self.windows is None else TimeColumn("time", every)
        return ReleaseSpec(
            ItemFrequencies(SPEC), privacy, self.unit, "item", keys=KEYS, windows=self.windows, time=time
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
    with decisions() as of_table:
        found = of_frame(CASES[name])
    with decisions() as of_steps:
        assert of_pipeline(CASES[name], REPEATED) == found
    assert of_steps == of_table
    assert 0 < len(found) < len(of_table)
    assert all(len(rows) == 1 for rows in of_table.values())
    check_second_votes(of_table, CASES[name])


@pytest.mark.one_fast_case
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.windows is not None])
def test_no_votes_are_late(name: str) -> None:
    """On a runner that goes by watermarks, votes of a period come before the windows in it are released."""
    assert of_pipeline(CASES[name], runner=BUNDLE_BASED) == of_frame(CASES[name])


def check_second_votes(decided: dict[Any, set[Any]], case: Case) -> None:
    """The second votes are those of people who read the noisy votes that decide, and of no others.

    Only where people are in no more keys than they may vote for: which keys these are is open elsewhere.
    """
    most = VISITS.groupby("user")["key"].nunique().max()
    if case.windows is not None or isinstance(case.unit.bounds, RecordBounds) or case.unit.bounds.max_keys < most:
        return
    check_reference(decided, rounds_of(case.declared().resolved.calibrated.choice))


@contextlib.contextmanager
def decisions() -> Iterator[dict[Any, set[Any]]]:
    """What decides on each key and window, in all calls: rows of votes, voters, second and noisy votes."""
    seen: dict[Any, set[Any]] = collections.defaultdict(set)
    exact = engine_run.Run.choose

    def spy(run: Any, choice: Any, votes: np.ndarray, places: Any) -> np.ndarray:
        for place, row in zip(places, votes.tolist(), strict=True):
            if row[0]:
                seen[place].add(tuple(row))
        return exact(run, choice, votes, places)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine_run.Run, "choose", spy)
        yield seen


def select(*options: str) -> tuple[set[str], dict[Any, set[Any]], TwoRounds]:
    """Keys alone, without a secret: the keys, what decided on each, and the rule."""
    privacy = PrivacySpec(rho=3, delta=0.5, side_counters=None)
    transform = SelectKeys(privacy, unit=person(NormBound(1, max_keys=5)), keys=KEYS)
    rows = VISITS.to_dict("records")
    with decisions() as decided:
        found = seen_by_sink(lambda pipeline: pipeline | beam.Create(rows, reshuffle=False) | transform, *options)
    return set(found), decided, rounds_of(transform.choice)


def check_one_draw() -> None:
    found, decided, rounds = select(REPEATED)
    assert all(len(rows) == 1 for rows in decided.values()), "another draw"
    check_reference(decided, rounds)
    noisy = {place.key[0]: row[3] for place, (row,) in decided.items()}
    assert {key for key, each in noisy.items() if each >= rounds.at_once} <= found


def test_a_bundle_that_runs_again_steers_and_decides_by_one_draw() -> None:
    check_one_draw()


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
test_a_planted_fault_is_found = pytest.mark.one_fast_case(laws.mutants(FAULTS, check_one_draw))


def test_one_person_with_all_keys_shows_none() -> None:
    """Of 40 keys of one person, one comes out with probability 1e-9 at most."""
    rows = [{"user": "someone", "key": f"k{number}"} for number in range(40)]
    keys = KeySelection(1e-9, "key")
    for bounds in (NormBound(1, max_keys=40), RecordBounds(1, max_keys=40)):
        transform = SelectKeys(PrivacySpec(rho=3), unit=person(bounds), keys=keys)
        assert transform.choice.note.method == "two_rounds"
        assert not seen_by_sink(lambda pipeline, made=transform: pipeline | beam.Create(rows) | made)


def test_no_data_gives_no_keys() -> None:
    kind = beam.Row(user="", key="", item=0)
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        empty = pipeline | beam.Create([kind]) | beam.Filter(lambda _: False)
        transform = PrivateFrequencies.of(CASES["records"].declared())
        assert_that(empty | transform, equal_to([]))
