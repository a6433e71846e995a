"""Names of runs: what `spent` and `combine` claim of releases is never less than what they cost one record.

A built pipeline is run twice, as a template is. Its releases are taken apart and mixed. For each mixture the true cost
is worked out from the parts of each execution, for a record that is in the data of both.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import pickle
import random
import types
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.window import FixedWindows, TimestampedValue

from beam_dpsketch import Horizon, PrivacySpec, PublicKeys, Record, SketchTimeline, TimeRange
from beam_dpsketch.encodings import encode
from beam_dpsketch.noise import run as engine_run
from beam_dpsketch.privacy.over_time.mechanism import matrix_rows
from beam_dpsketch.statement.accounting import add_up
from beam_dpsketch.transforms import EnvironmentSecret, PrivateFrequencies
from beam_dpsketch.transforms.steps import release_once, rows_over_time
from tests.helpers import laws
from tests.helpers.pipelines import BUNDLE_BASED, FN_API, SPEC, Sink

pytestmark = pytest.mark.pipeline
WINDOWS, SIZE, KEYS = 4, 60, ("a", "b")
HORIZON = Horizon(0, SIZE, WINDOWS)
WEIGHTS = np.array(list(matrix_rows(HORIZON.rows)), dtype=float) ** 2 / HORIZON.rows.squared_length
VISITS = [({"key": KEYS[n % 2], "item": n % 3}, 7.0 * n) for n in range(30)]
TERMS = {"release_id": "visits", "secret": EnvironmentSecret("DPSKETCH_TEST_SECRET")}


class Case(NamedTuple):
    """One pipeline."""

    over_time: bool
    bounded: bool
    keyed: bool
    secret: bool


class Found(NamedTuple):
    """A release, and the execution that made it."""

    execution: int
    key: Any
    value: Any


CASES = [Case(*each) for each in itertools.product([True, False], repeat=4)]
FEW = [each for each in CASES if each.over_time and each.keyed and not each.secret]
FEW += random.Random(8).sample([each for each in CASES if each not in FEW], 1)


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DPSKETCH_TEST_SECRET", "planted-secret-4711-4711-4711-4711-4711")


def transform_of(case: Case) -> Any:
    given: dict[str, Any] = {"windows": HORIZON if case.over_time else TimeRange(0, WINDOWS * SIZE)}
    given |= {"keys": PublicKeys(KEYS, "key")} if case.keyed else {}
    made = PrivateFrequencies(SPEC, PrivacySpec(rho=1), privacy_unit=Record(), item="item", **given)
    made.check([VISITS[0][0]])
    return made.with_idempotent_noise(**TERMS) if case.secret else made


def executed(case: Case, folder: Path) -> list[Found]:
    """All releases of all executions of one pipeline."""
    folder.mkdir()
    options = [] if case.bounded else ["--streaming"]
    runner = FN_API if case.bounded else BUNDLE_BASED
    pipeline = beam.Pipeline(runner, options=PipelineOptions(options))
    visits = pipeline | beam.Create(VISITS) | beam.MapTuple(TimestampedValue)
    visits.is_bounded = case.bounded
    windowed = visits if case.over_time else visits | beam.WindowInto(FixedWindows(SIZE))
    windowed | transform_of(case) | beam.ParDo(Sink(str(folder)))
    found, seen = [], set[Path]()
    for execution in range(2):
        pipeline.run().wait_until_finish()
        for path in set(folder.iterdir()) - seen:
            output = pickle.loads(path.read_bytes())
            key, value = output if isinstance(output, tuple) else (None, output)
            found.append(Found(execution, key, value))
        seen = set(folder.iterdir())
    assert len(found) == 2 * WINDOWS * (len(KEYS) if case.keyed else 1)
    return found


def mixtures(found: Sequence[Found], case: Case) -> Iterator[list[Found]]:
    """All of one execution, all of all, and what one would take of two to pass them off as one."""
    for wanted in ({0}, {1}, {0, 1}):
        yield [each for each in found if each.execution in wanted]
    for row in range(WINDOWS) if case.over_time else ():
        yield [each for each in found if each.execution == (each.value.number > row)]
    for key in KEYS if case.keyed else ():
        yield [each for each in found if each.execution == (each.key == key)]


def true_cost(mixture: Sequence[Found], case: Case) -> float:
    """rho for a record that is in the data of all executions, in its worst window and key.

    Under a secret two executions on the same data are one, byte for byte.
    """
    if case.secret:
        mixture = [each._replace(execution=0) for each in {each.value.to_bytes(): each for each in mixture}.values()]
    cost = 0.0
    for execution in {each.execution for each in mixture}:
        made = [each for each in mixture if each.execution == execution]
        if not case.over_time:
            cost += 1.0
            continue
        rows = {key: [each.value.number for each in made if each.key == key] for key in {each.key for each in made}}
        cost += max(WEIGHTS[numbers].sum(axis=0).max() for numbers in rows.values())
    return cost


def combined(values: Sequence[Any]) -> float:
    whole = functools.reduce(lambda one, other: one.combine(other), values)
    return float(whole.privacy.rho)


def claims(mixture: Sequence[Found], case: Case) -> Iterator[tuple[str, float]]:
    """What is said of a mixture, by whom."""
    (spent,) = add_up(each.value.privacy for each in mixture)
    yield "spent", float(spent.rho)
    if not case.over_time:
        yield "combine", combined(list({each.value.to_bytes(): each.value for each in mixture}.values()))
        return
    pairs = {each.value.to_bytes(): (each.key, each.value) for each in mixture}.values()
    try:
        timelines = SketchTimeline.by_key(pairs, HORIZON).values()
    except ValueError:
        return  # refused
    yield "timelines", combined([line.prefix(line.available - 1) for line in timelines])


def complaints(case: Case, folder: Path) -> list[str]:
    """What is claimed to cost less than it does, or, of one execution, more than is documented."""
    wrong = []
    found = executed(case, folder)
    assert len({each.value.to_bytes() for each in found}) == len(found) // (2 if case.secret else 1)
    for number, mixture in enumerate(mixtures(found, case)):
        if not mixture:
            continue
        true, said = true_cost(mixture, case), dict(claims(mixture, case))
        wrong += [f"{case}, mixture {number}: {by} {rho} of {true}" for by, rho in said.items() if rho < true - 1e-9]
        if len({each.execution for each in mixture}) == 1:
            releases = 1 if case.over_time else WINDOWS  # on streams names are of keys, or of releases
            limit = 1 if case.bounded or case.secret else releases * (len(KEYS) if case.keyed else 1)
            whole = len(mixture) == len(found) // 2
            wrong += [f"{case}: {by} {rho}" for by, rho in said.items() if rho > limit]
            if case.over_time and whole and "timelines" not in said:
                wrong.append(f"{case}: its own rows are refused")
    return wrong


@pytest.mark.one_fast_case
@pytest.mark.parametrize("case", FEW, ids=str)
def test_no_mixture_costs_more_than_is_said(case: Case, tmp_path: Path) -> None:
    assert complaints(case, tmp_path / "sink") == []


@pytest.mark.slow
@pytest.mark.parametrize("case", [each for each in CASES if each not in FEW], ids=str)
def test_no_mixture_of_any_case_costs_more_than_is_said(case: Case, tmp_path: Path) -> None:
    assert complaints(case, tmp_path / "sink") == []


def check(case: Case, tmp_path: Path) -> None:
    assert not complaints(case, tmp_path / "sink"), "complaints"


def named_while_built(case: Case) -> laws.Fault:
    def draw(pipeline: Any) -> Any:
        return pipeline | "Named" >> beam.Create([bytes(range(16))])

    return laws.put(release_once, "draw_run", draw, "", case)


OVER_TIME = Case(over_time=True, bounded=True, keyed=False, secret=False)
STREAM = OVER_TIME._replace(bounded=False)
ONE_NAME = types.SimpleNamespace(name=lambda: bytes(16))
test_planted_faults_are_found = laws.mutants(
    {
        "rows named while built": named_while_built(OVER_TIME),
        "releases named while built": named_while_built(OVER_TIME._replace(over_time=False, keyed=True)).slow(),
        "one name for all streams": laws.put(rows_over_time, "Run", lambda: ONE_NAME, "", STREAM),
        "a run for each key": laws.around(
            engine_run,
            "timeline_of_run",
            lambda exact, run, key=(): exact(hashlib.blake2b(encode(key), key=run, digest_size=16).digest(), key),
            "",
            OVER_TIME._replace(keyed=True),
        ).slow(),
    },
    check,
    words="complaints",
)
