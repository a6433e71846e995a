"""A norm that the data choose, in whole pipelines: one norm in all places, and the noise of what is left of rho."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from fractions import Fraction
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.transforms.window import TimestampedValue

from beam_dpsketch import (
    REPLACE_ONE,
    AutoNorm,
    ListedItems,
    NormBound,
    PrivacyId,
    PrivacySpec,
    PublicKeys,
    SketchSpec,
    TimeRange,
)
from beam_dpsketch.exact.sums.accumulator import SketchAccumulator
from beam_dpsketch.noise import run as engine_run
from beam_dpsketch.noise.calibration import Calibration
from beam_dpsketch.transforms import EnvironmentSecret, PrivateFrequencies
from beam_dpsketch.transforms.steps import exact_sums
from beam_dpsketch.transforms.steps.whole_runs import BoundByNorm
from tests.helpers import laws
from tests.helpers.pipelines import BUNDLE_BASED, FN_API, ExactCounters, Sink, run, seen_by_sink
from tests.helpers.side_releases import Place
from tests.helpers.streams import in_windows

KEYS = ["a", "b", "without data"]
RHO = Fraction(1, 2)
NORM = Fraction(86_753, 16)
PRIVACY = PrivacySpec(rho=RHO, relation=REPLACE_ONE)
AUTO = AutoNorm(max_weight=9)
LEFT = {"count sketch": Fraction(89, 100), "listed items": Fraction(91, 100)}
"""The parts of rho for the counters: without 1/20, and 1/50 for units, what was lost, and of a sketch for weight."""
SPEC = SketchSpec(depth=3, width=16)
SPECS: dict[str, Any] = {"count sketch": SPEC, "listed items": ListedItems(range(5))}
VARIABLE = "DPSKETCH_TEST_SECRET"
ROWS = [
    {"user": f"user {number % 60}", "key": "ab"[number % 7 % 2], "item": number % 5, "n": 1 + number % 9}
    for number in range(1500)
]
TIMED = [(row, number * 7 % 120) for number, row in enumerate(ROWS)]


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each choice is the same."""
    monkeypatch.setattr(engine_run, "choose_norm", lambda *_, **__: NORM)


def per_key(spec: Any = SPEC, **arguments: Any) -> Any:
    listed: dict[str, Any] = {"keys": PublicKeys(KEYS, "key"), "item": "item", "weight": "n"} | arguments
    return PrivateFrequencies(spec, PRIVACY, privacy_unit=PrivacyId("user", AUTO), **listed)


def globally(spec: Any = SPEC) -> Any:
    return PrivateFrequencies(spec, PRIVACY, privacy_unit=PrivacyId("user", AUTO), item="item", weight="n")


def in_places(timed: Iterable[Any], transform: Any, windows: int | None) -> Callable[[beam.Pipeline], Any]:
    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        elements = pipeline | beam.Create(list(timed)) | beam.MapTuple(TimestampedValue)
        if windows is not None:
            elements = elements | in_windows(windows)
        return elements | transform | beam.ParDo(Place())

    return build


PLACES: dict[str, tuple[Callable[[Any], Any], int | None, int]] = {
    "keys and windows": (lambda spec: per_key(spec, windows=TimeRange(0, 240)), 60, 12),
    "keys": (per_key, None, 3),
    "all": (globally, None, 1),
}


def check_places(spec: str, places: str, timed: list[Any]) -> None:
    """By hand, under `REPLACE_ONE`: 2 b^2 for cells that only grow, 4 b^2 depth for others."""
    make, windows, count = PLACES[places]
    transform = make(SPECS[spec])
    seen = seen_by_sink(in_places(timed, transform, windows))
    assert len(seen) == len({place[:2] for place in seen}) == count
    squared = 2 if isinstance(transform._declared.spec, ListedItems) else 4 * 3
    for *_, released in seen:
        assert released.privacy.bounds == NormBound(NORM, max_weight=9)
        assert released.privacy.norm_share == Fraction(1, 20)
        assert released.privacy.sketch_share == LEFT[spec]
        assert released.privacy.sigma_squared == squared * NORM**2 / (2 * RHO * LEFT[spec])
        limits = {note.names[0]: note.squared_limit for note in released.privacy.side}
        assert limits == {"units": count} | ({"weight": (4 * NORM) ** 2} if spec == "count sketch" else {})
        lost = released.privacy.lost
        half = 1 if count == 1 else Fraction(1, 2)  # of a run, the weight that is kept has the other half
        assert lost.sigma_squared == 2 / (2 * RHO * half * Fraction(1, 50))
        assert count == 1 or lost.kept.sigma_squared == 2 * (4 * NORM) ** 2 / (2 * RHO * half * Fraction(1, 50))
    assert len({released.privacy.lost for *_, released in seen}) == 1


@pytest.mark.one_fast_case
@pytest.mark.usefixtures(always.__name__)
@pytest.mark.parametrize("timed", [TIMED, []], ids=["data", "no data"])
@pytest.mark.parametrize("places", PLACES)
@pytest.mark.parametrize("spec", SPECS)
def test_every_key_and_window_has_the_norm_and_its_noise(spec: str, places: str, timed: list[Any]) -> None:
    check_places(spec, places, timed)


OF_ANOTHER_NORM = laws.around(
    Calibration, "with_norm", lambda exact, given, norm: exact(given, norm and norm - Fraction(1, 16))
)
test_noise_of_another_norm_is_found = pytest.mark.usefixtures(always.__name__)(
    laws.mutants({"a smaller norm": OF_ANOTHER_NORM.found("", "listed items", "keys", TIMED)}, check_places)
)


@pytest.mark.usefixtures(always.__name__)
def test_accumulators_carry_the_norm_between_workers() -> None:
    """Each is read out of its bytes; the one of a key without data too."""
    carried = run(ROWS, ExactCounters(per_key(), norm_after_travel))
    assert dict(carried) == dict.fromkeys(KEYS, str(NORM))


def norm_after_travel(accumulator: SketchAccumulator) -> str:
    again = SketchAccumulator.from_bytes(accumulator._sketch_input, accumulator.to_bytes())
    return str(again.max_norm)


# A choice that is made twice.


def shards_scaled_by_another(monkeypatch: pytest.MonkeyPatch) -> None:
    right = BoundByNorm.process

    def wrong(self: Any, element: Any, norm: int, pane: Any = beam.DoFn.PaneInfoParam) -> Any:
        return right(self, element, norm + element[0][-1] % 2, pane)

    monkeypatch.setattr(BoundByNorm, "process", wrong)


def another_where_there_are_no_data(monkeypatch: pytest.MonkeyPatch) -> None:
    right = exact_sums.sums_of_nothing
    monkeypatch.setattr(exact_sums, "sums_of_nothing", lambda keys, recipe, norm: right(keys, recipe, norm + 1))


@pytest.mark.one_fast_case
@pytest.mark.usefixtures(always.__name__)
@pytest.mark.parametrize("runner", [FN_API, BUNDLE_BASED])
@pytest.mark.parametrize("make", [per_key, globally])
@pytest.mark.parametrize("plant", [another_where_there_are_no_data, shards_scaled_by_another])
def test_a_second_norm_is_refused_and_nothing_is_published(
    plant: Any, make: Any, runner: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    with (
        pytest.raises(Exception, match=r"The norm was chosen twice, .*\. Use with_idempotent_noise") as raised,
        beam.Pipeline(runner=runner) as pipeline,
    ):
        _ = pipeline | beam.Create(ROWS) | make() | beam.ParDo(Sink(str(tmp_path)))
    assert list(tmp_path.iterdir()) == []
    assert not any(number in str(raised.value) for number in ("86753", "86754", "5422"))


# The same noise again.


@pytest.fixture
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "a secret of the tests, of 32 bytes or more")


def idempotent(make: Any = per_key) -> Any:
    return make().with_idempotent_noise(release_id="visits", secret=EnvironmentSecret(VARIABLE))


RERUNS: dict[str, tuple[str, tuple[str, ...]]] = {
    "another runner": (BUNDLE_BASED, ()),
    "again": (FN_API, ()),
    "replayed": (FN_API, ("--direct_runner_bundle_repeat=2",)),
}


@pytest.mark.slow
@pytest.mark.one_fast_case
@pytest.mark.usefixtures("secret")
@pytest.mark.parametrize("name", RERUNS)
def test_idempotent_releases_are_equal_over_reruns_splits_and_runners(name: str) -> None:
    """There are more than ten norms that each is likely to choose."""
    runner, options = RERUNS[name]
    rows = [row | {"user": f"{row['user']} of {group}"} for row in ROWS for group in range(4)]
    shuffled = random.Random(9).sample(rows, len(rows))
    first, second = run(rows, idempotent()), run(shuffled, idempotent(), *options, runner=runner)
    releases = {key: released.to_bytes() for key, released in first}
    assert releases.keys() == set(KEYS)
    assert {released.privacy.bounds.max_norm > 1 for _, released in first} == {True}
    assert {(key, released.to_bytes()) for key, released in second} == set(releases.items())
