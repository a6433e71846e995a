"""Votes for items of grouped counts through whole pipelines: the items and counts of a table under one secret."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Any

import apache_beam as beam
import pandas as pd
import pytest
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.window import FixedWindows

from beam_dpsketch import (
    ADD_OR_REMOVE_ONE,
    REPLACE_ONE,
    AssumePublicKeys,
    AutoNorm,
    Groups,
    NormBound,
    PrivacyId,
    PrivacySpec,
    PublicKeys,
    RecordBounds,
    ReleaseSpec,
    TextDomain,
    TimeColumn,
)
from beam_dpsketch.encodings import encode
from beam_dpsketch.frames.releasing import release_table
from beam_dpsketch.noise import run as engine_run
from beam_dpsketch.noise.counting import Counting
from beam_dpsketch.planning.kinds.grouped_counts import GroupedCounts
from beam_dpsketch.privacy.noise.keyed_randomness import KeyedRandomness
from beam_dpsketch.transforms import EnvironmentSecret, PrivateTopK
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
ITEMS = VISITS.assign(word=VISITS["key"], key=[f"g{number % 2}" for number in VISITS["item"]])
Found = dict[Any, dict[str, float]]


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, SECRET)


@dataclasses.dataclass(frozen=True)
class Case:
    """How people are bounded, and which keys and windows there are."""

    unit: PrivacyId
    keys: Any = None
    windows: Any = None
    relation: Any = ADD_OR_REMOVE_ONE
    rounds: int = 2

    def declared(self) -> ReleaseSpec:
        privacy = PrivacySpec(rho=3, delta=0.5, relation=self.relation)
        time = None if self.windows is None else TimeColumn("time", 60)
        count = GroupedCounts(TextDomain(8), 9, Groups(0.2))
        return ReleaseSpec(count, privacy, self.unit, "word", keys=self.keys, windows=self.windows, time=time)


OPEN = AssumePublicKeys("key")
CASES = {
    "records": Case(person(RecordBounds(2, max_keys=3))),
    "records, replaced": Case(person(RecordBounds(2, max_keys=3)), relation=REPLACE_ONE, rounds=1),
    "norm": Case(person(NormBound(2, max_keys=9))),
    "norm, replaced, keys": Case(person(NormBound(2)), PublicKeys(["g0", "g1", "none"], "key"), relation=REPLACE_ONE),
    "chosen norm": Case(person(AutoNorm())),
    "chosen norm, keys, windows": Case(person(AutoNorm()), PublicKeys(["g0", "g1"], "key"), WINDOWS),
    "records, keys, each window": Case(person(RecordBounds(2, max_keys=3)), OPEN, WINDOWS),
    "records, two windows": Case(person(RecordBounds(2, max_keys=3), max_windows=2), None, WINDOWS),
    "records, a window of a period": Case(
        person(RecordBounds(2, max_keys=3), max_windows=1, period=120), OPEN, WINDOWS
    ),
    "norm, all windows": Case(person(NormBound(2, max_keys=4)), OPEN, WINDOWS),
    "norm of a period": Case(person(NormBound(2, max_keys=4), period=120), None, WINDOWS),
}


def of_frame(case: Case) -> Found:
    """The items that a table releases, with their counts, by key and start of the window."""
    keyed = KeyedRandomness(SECRET.encode(), encode(("items",)))
    table = ITEMS.assign(time=pd.to_datetime(ITEMS["time"], unit="s"))
    released, _ = release_table(table, case.declared(), keyed)
    if case.windows is None:
        return named([(0, *each) for each in by_key(case, released)])
    return named([(start.timestamp(), *each) for (start, _), inner in released.items() for each in by_key(case, inner)])


def by_key(case: Case, released: Any) -> list[tuple[Any, Any]]:
    return [(None, released)] if case.keys is None else [*released.items()]


def named(found: list[tuple[Any, Any, Any]]) -> Found:
    return {
        (start, key): dict(zip(each.items, each.counters.tolist(), strict=True))
        for start, key, each in found
        if len(each)
    }


def of_pipeline(case: Case, *options: str, runner: str = FN_API) -> Found:
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

    def __init__(self, case: Case) -> None:
        self._is_keyed, self._in_windows = case.keys is not None, case.windows is not None

    def process(self, element: Any, window: Any = beam.DoFn.WindowParam) -> Any:
        key, top = element if self._is_keyed else (None, element)
        yield (window.start.micros / 1e6 if self._in_windows else 0), key, top.release


@contextlib.contextmanager
def decisions() -> Iterator[dict[Any, set[Any]]]:
    """What decides on each pair and window, in all calls: rows of counts, votes, voters, second and noisy votes."""
    seen: dict[Any, set[Any]] = collections.defaultdict(set)
    exact = engine_run.Run.count

    def spy(run: Any, counting: Any, pairs: Any, window: engine_run.Place = engine_run.WHOLE) -> Any:
        for pair, row in pairs:
            seen[window._replace(key=(pair[:-1].decode(),), pane=0)].add(row)
        return exact(run, counting, pairs, window)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine_run.Run, "count", spy)
        yield seen


@pytest.mark.one_fast_case
@pytest.mark.parametrize("name", CASES)
def test_a_pipeline_releases_the_items_of_a_table(name: str) -> None:
    """The same counts, votes and noisy votes decide, and the same counts come out."""
    case = CASES[name]
    choice = case.declared().resolved.noise(Counting).choice
    assert choice is not None
    assert (choice.rounds is not None) == (case.rounds == 2)
    with decisions() as of_table:
        found = of_frame(case)
    with decisions() as of_steps:
        assert of_pipeline(case, REPEATED) == found
    assert of_steps == of_table
    released = sum(map(len, found.values()))
    assert 0 < released < len(of_table)
    threshold = case.declared().resolved.noise(Counting).note.least_count
    by_votes = sum(count < threshold for each in found.values() for count in each.values())
    assert by_votes > 0 or isinstance(case.unit.bounds, AutoNorm)


@pytest.mark.one_fast_case
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.windows is not None])
def test_no_votes_are_late(name: str) -> None:
    """On a runner that goes by watermarks, votes of a period come before the windows in it are released."""
    assert of_pipeline(CASES[name], runner=BUNDLE_BASED) == of_frame(CASES[name])


def check_one_draw() -> None:
    """What steers the second round, and what decides, is one draw, also of bundles that run again."""
    case = Case(person(NormBound(1, max_keys=5)))
    transform, rows = PrivateTopK.of(case.declared()), ITEMS.to_dict("records")
    with decisions() as decided:
        seen_by_sink(lambda pipeline: pipeline | beam.Create(rows, reshuffle=False) | transform, REPEATED)
    assert all(len(rows) == 1 for rows in decided.values()), "another draw"
    votes = {place: {row[1:] for row in rows} for place, rows in decided.items()}
    check_reference(votes, rounds_of(case.declared().resolved.noise(Counting).choice))


def test_a_bundle_that_runs_again_steers_and_decides_by_one_draw() -> None:
    check_one_draw()


FAULTS = {
    "drawn twice": laws.around(second_round, "_noisy", drawn_again),
    "no second votes": laws.around(second_round, "_vote_again", lambda *_: iter(())),
}
test_a_planted_fault_is_found = pytest.mark.one_fast_case(laws.mutants(FAULTS, check_one_draw))


def test_one_person_with_all_items_shows_none() -> None:
    """Of 40 items of one person, one comes out with probability 1e-9 at most."""
    rows = [{"user": "someone", "word": f"w{number}"} for number in range(40) for _ in range(3)]
    for bounds in (NormBound(20, max_keys=40), RecordBounds(3, max_keys=40), AutoNorm(max_keys=40)):
        privacy, unit = PrivacySpec(rho=3), person(bounds)
        transform = PrivateTopK(TextDomain(8), privacy, k=9, unit=unit, item="word", method=Groups(1e-9))
        (top,) = seen_by_sink(lambda pipeline, made=transform: pipeline | beam.Create(rows) | made)
        assert not len(top)


def test_no_data_gives_a_release_without_items() -> None:
    kind = beam.Row(user="", word="")
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        empty = pipeline | beam.Create([kind]) | beam.Filter(lambda _: False)
        made = PrivateTopK.of(CASES["norm"].declared())
        assert_that(empty | made | beam.Map(len), equal_to([0]))
