"""Keys of one unit each, through whole pipelines: as many are released as the noise says, and no more.

The share is compared with the probability that is worked out from the definition, by a Chernoff bound to both sides. It
raises a false alarm with probability at most 1e-12 for each comparison. A planted fault is missed in less than 1e-9.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.transforms.window import TimestampedValue

from beam_dpsketch import (
    ADD_OR_REMOVE_ONE,
    REPLACE_ONE,
    KeySelection,
    ListedItems,
    NormBound,
    PrivacyId,
    PrivacySpec,
    Record,
    RecordBounds,
)
from beam_dpsketch.noise import keys as choosing
from beam_dpsketch.noise import tables
from beam_dpsketch.privacy.noise.drawing import drawn_variance
from beam_dpsketch.transforms import EnvironmentSecret, PrivateFrequencies
from tests.helpers import faults, laws
from tests.helpers.pipelines import seen_by_sink
from tests.helpers.streams import in_windows
from tests.helpers.tolerances import FALSE_ALARM, discrete_gaussian

GRID = 48
VARIABLE = "DPSKETCH_TEST_SECRET"
VARIANCE = 1
BATCH = 4000
UNITS: dict[str, Any] = {
    "norm": PrivacyId("user", NormBound(1000, max_keys=1)),
    "records": PrivacyId("user", RecordBounds(1000, max_keys=1)),
    "windows": PrivacyId("user", RecordBounds(1000, max_keys=1), max_windows=2),
    "single": Record(max_weight=1000),
}


@pytest.fixture(autouse=True)
def fresh_choices(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv(VARIABLE, "planted-secret-4711-4711-4711-4711-4711")
    choosing._calibrated.cache_clear()
    yield
    choosing._calibrated.cache_clear()


def selecting(unit: Any, delta: float, relation: Any = ADD_OR_REMOVE_ONE) -> Any:
    """A transform whose votes have this variance in one window; in two, or where one is replaced, twice that."""
    rho = Fraction(GRID**2, VARIANCE)
    privacy = PrivacySpec(rho=rho, delta=0.5, relation=relation, side_counters=None)
    keys = KeySelection(delta, "key", share=Fraction(1, 2))
    weight = {"weight": "n"} if isinstance(unit, Record) else {}
    return PrivateFrequencies(ListedItems([1]), privacy, unit=unit, keys=keys, item="item", **weight)


def expected_share(delta: float, variance: int, grid: int = GRID) -> float:
    """P(grid + Z >= T), where T - grid is the first t with P(Z >= t) <= delta."""
    noise = discrete_gaussian(int(drawn_variance(Fraction(variance))))
    tails = np.cumsum(noise.probabilities[::-1])[::-1]
    return float(tails[np.flatnonzero(tails <= delta)[0]])


def batches(count: int, records: int) -> Iterator[pa.Table]:
    """Units in a key of their own, some records of each."""
    for start in range(0, count, BATCH // records):
        numbers = np.repeat(np.arange(start, min(count, start + BATCH // records)), records)
        ones = np.ones(len(numbers), dtype=np.int64)
        yield pa.table({"user": numbers, "key": numbers, "item": ones, "n": ones})


def released(count: int, transform: Any, *, records: int, times: tuple[float, ...] = ()) -> int:
    """How many keys are released, over all windows."""

    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        elements = pipeline | beam.Create(list(batches(count, records)))
        if times:
            timed = elements | beam.FlatMap(lambda batch: [TimestampedValue(batch, time) for time in times])
            elements = timed | in_windows(60)
        return (
            elements | transform | beam.Keys() | beam.combiners.Count.Globally().without_defaults()
            if times
            else (elements | transform | beam.Keys() | beam.combiners.Count.Globally())
        )

    return sum(seen_by_sink(build))


def is_plausible(successes: int, count: int, share: float) -> bool:
    """Whether so many successes are not too many and not too few; two Chernoff bounds."""
    found = successes / count
    divergence = sum(p * math.log(p / q) for p, q in ((found, share), (1 - found, 1 - share)) if p)
    return 2 * math.exp(-count * divergence) >= FALSE_ALARM


def audit(
    name: str, *, count: int = 4000, delta: float = 0.04, relation: Any = ADD_OR_REMOVE_ONE, keyed: bool = False
) -> bool:
    """Whether the share of released keys is as said."""
    transform = selecting(UNITS[name], delta, relation)
    if keyed:
        transform = transform.with_idempotent_noise(release_id="visits", secret=EnvironmentSecret(VARIABLE))
    windows = 2 if name == "windows" else 1
    times = (5.0, 65.0) if windows > 1 else ()
    share = expected_share(delta / windows, VARIANCE * windows * (2 if relation is REPLACE_ONE else 1))
    found = released(count, transform, records=1 if name == "single" else 2, times=times)
    return is_plausible(found, windows * count, share)


@pytest.mark.one_fast_case
@pytest.mark.parametrize("keyed", [False, True])
@pytest.mark.parametrize("relation", [ADD_OR_REMOVE_ONE, REPLACE_ONE], ids=lambda relation: relation.name)
@pytest.mark.parametrize("name", UNITS)
def test_as_many_keys_of_one_unit_are_released_as_said(name: str, relation: Any, keyed: bool) -> None:
    assert audit(name, relation=relation, keyed=keyed)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["norm", "records"])
def test_of_200_000_keys_of_one_unit_a_thousandth_at_most_is_released(name: str) -> None:
    assert audit(name, count=200_000, delta=1e-3)


def check(name: str, delta: float) -> None:
    assert audit(name, delta=delta), "not as said"


FAULTS = {
    "one less": faults.ONE_LESS.found("", "norm", 0.04),
    "a vote for each record": faults.A_VOTE_FOR_EACH_RECORD.found("", "records", 0.04),
    "delta not split over windows": faults.WINDOWS_FORGOTTEN.found("", "windows", 0.2),  # thresholds of 3 and 5
    "one draw for all keys": laws.around(
        tables,
        "add_noise",
        lambda exact, votes, variance, *_, **__: votes + (exact(votes[:1], variance) - votes[:1]),
        "",
        "records",
        0.04,
    ),
    "less noise": laws.around(
        tables, "add_noise", lambda exact, votes, variance, *_, **__: exact(votes, variance - 3), "", "norm", 0.04
    ),
    "no choice": laws.put(choosing.KeyChoice, "keeps", lambda choice, votes, *_: votes > 0, "", "single", 0.04),
}
test_a_planted_fault_is_found = pytest.mark.one_fast_case(laws.mutants(FAULTS, check, words="not as said"))
