"""Idempotent noise: replays and runs again release identical bytes; keys, windows and release ids share no noise."""

from __future__ import annotations

import base64
import functools
import logging
import os
import pickle
import random
import subprocess
import sys
from typing import Any

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.internal import cloudpickle_pickler
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms import window
from apache_beam.transforms.display import DisplayData
from apache_beam.utils.secret import Secret

from beam_dpsketch import (
    REPLACE_ONE,
    Horizon,
    IntegerDomain,
    NormBound,
    PrivacyId,
    PrivacySpec,
    PublicKeys,
    Record,
    RecordBounds,
    ReleaseTerms,
    SketchSpec,
    Thresholding,
    TimeRange,
)
from beam_dpsketch.exact.declared.release_spec import ReleaseSpec
from beam_dpsketch.exact.domains import TextDomain
from beam_dpsketch.noise.calibration import Calibration
from beam_dpsketch.noise.run import release_randomness
from beam_dpsketch.privacy.summary_counts import Uncounted
from beam_dpsketch.statement.release_id import part_name, runs
from beam_dpsketch.transforms import EnvironmentSecret, FileSecret, PrivateFrequencies, PrivateQuantiles, PrivateTopK
from beam_dpsketch.transforms.outputs import each_release
from beam_dpsketch.transforms.steps.release_once import ReleaseOnce
from tests.helpers.expanded_again import ExpandedAgain
from tests.helpers.noise_audit import audit
from tests.helpers.pipelines import BUNDLE_BASED, COUNT_MIN, FN_API, REPOSITORY, SPEC, exact, run, seen_by_sink, summed
from tests.helpers.streams import unbounded

PRIVACY = PrivacySpec(rho=0.1, relation=REPLACE_ONE)
LOSING = PrivacySpec(rho=0.1, relation=REPLACE_ONE, delta=1e-2)
VARIABLE = "DPSKETCH_TEST_SECRET"
SECRET = "planted-secret-4711-4711-4711-4711-4711"
FROM_ENVIRONMENT = EnvironmentSecret(VARIABLE)
TERMS = {"release_id": "visits of one day", "secret": FROM_ENVIRONMENT}
ELEMENTS = [(f"city {number % 3}", number % 7) for number in range(200)]
REPLAYED = "--direct_runner_bundle_repeat=3"


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, SECRET)


def released(output: Any) -> Any:
    return getattr(output, "release", output)


def by_key(outputs: list[Any]) -> dict[Any, bytes]:
    """The bytes of each release."""
    pairs = [output if type(output) is tuple else (None, output) for output in outputs]
    found = {key: released(value).to_bytes() for key, value in pairs}
    assert len(found) == len(pairs)
    return found


BY_NUMBER = PrivacyId(lambda element: element[1], NormBound(4))
KEYS = {"keys": PublicKeys(["city 0", "city 1", "nowhere"]), "privacy_unit": Record()}
TRANSFORMS = {
    "frequencies": PrivateFrequencies(SPEC, PRIVACY, item=lambda e: e, privacy_unit=Record()),
    "frequencies per key": PrivateFrequencies(SPEC, PRIVACY, **KEYS),
    "count_min": PrivateFrequencies(COUNT_MIN, PRIVACY, item=lambda e: e, privacy_unit=Record()),
    "quantiles": PrivateQuantiles(IntegerDomain(0, 9), PRIVACY, item=lambda e: e[1], privacy_unit=Record()),
    "top-k": PrivateTopK(TextDomain(3), LOSING, k=2, item=str, method=Thresholding(1e-3), **KEYS),
    "people under a norm": PrivateFrequencies(SPEC, PRIVACY, item=str, privacy_unit=BY_NUMBER),
}


def test_a_stream_that_is_run_again_as_a_batch_has_the_same_noise() -> None:
    """Its statement says other words, of late records; a second draw of noise for the same counters would cost rho."""
    transform, timed = TRANSFORMS["frequencies"].with_idempotent_noise(**TERMS), [(each, 0.0) for each in ELEMENTS]

    def released_of(pipeline: beam.Pipeline, *, is_bounded: bool) -> beam.PCollection:
        elements = unbounded(timed)(pipeline)
        elements.is_bounded = is_bounded
        return elements | beam.WindowInto(window.FixedWindows(3600)) | transform

    (batch,), (stream,) = (
        seen_by_sink(functools.partial(released_of, is_bounded=is_bounded), runner=FN_API)
        for is_bounded in (True, False)
    )
    assert Uncounted.LATE in stream.privacy.uncounted
    assert Uncounted.LATE not in batch.privacy.uncounted
    assert stream.counters.tolist() == batch.counters.tolist()
    assert stream.privacy.release_ids == batch.privacy.release_ids


@pytest.mark.one_fast_case
@pytest.mark.parametrize("name", TRANSFORMS)
def test_another_order_and_runner_release_identical_bytes(name: str) -> None:
    transform = TRANSFORMS[name].with_idempotent_noise(**TERMS)
    shuffled = random.Random(5).sample(ELEMENTS, len(ELEMENTS))
    first, second = by_key(run(ELEMENTS, transform)), by_key(run(shuffled, transform, runner=BUNDLE_BASED))
    assert first == second
    assert not set(first.values()) & set(by_key(run(ELEMENTS, TRANSFORMS[name])).values())


@pytest.mark.one_fast_case
@pytest.mark.parametrize(("bounds", "is_equal"), [(NormBound(4), True), (RecordBounds(4), False)])
def test_under_a_norm_the_secret_decides_the_noise_alone(
    bounds: Any, is_equal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under bounds of records it decides which records are kept, too."""
    monkeypatch.setenv("ANOTHER", SECRET + "!")
    other = {"release_id": "visits of another day", "secret": EnvironmentSecret("ANOTHER")}
    transform = PrivateFrequencies(SPEC, PRIVACY, item=str, privacy_unit=PrivacyId(lambda element: element[1], bounds))
    first, second = (exact(ELEMENTS, transform.with_idempotent_noise(**terms)) for terms in (TERMS, other))
    assert np.array_equal(first, second) == is_equal


class ReleasedAtOnce(beam.PTransform):
    """The steps of a private transform without the last one, which makes what was drawn first final."""

    def __init__(self, private: Any) -> None:
        super().__init__()
        self._private = private

    def expand(self, pcoll: beam.PCollection) -> beam.PCollection:
        step = release_once(self._private._idempotent_noise)
        return summed(pcoll, self._private) | beam.ParDo(step) | "Each" >> beam.FlatMap(each_release)


def release_once(idempotent_noise: Any) -> ReleaseOnce:
    return ReleaseOnce(Calibration.of(SPEC, ReleaseTerms(PRIVACY)), idempotent_noise=idempotent_noise)


def test_a_replayed_bundle_releases_identical_bytes() -> None:
    fresh = TRANSFORMS["frequencies"]
    seen = run(ELEMENTS, ReleasedAtOnce(fresh.with_idempotent_noise(**TERMS)), REPLAYED)
    assert (len(seen), len({it.to_bytes() for it in seen})) == (4, 1)
    seen = run(ELEMENTS, ReleasedAtOnce(fresh), REPLAYED)
    assert (len(seen), len({it.to_bytes() for it in seen})) == (4, 4)


_ELSEWHERE = """
from tests.transforms.steps import test_idempotent_noise as here
transform = here.TRANSFORMS["frequencies per key"].with_idempotent_noise(**here.TERMS)
print(sorted((key, value.hex()) for key, value in here.by_key(here.run(here.ELEMENTS, transform)).items()))
"""


@pytest.mark.slow
def test_another_process_releases_identical_bytes() -> None:
    environment = {**os.environ, VARIABLE: SECRET, "PYTHONHASHSEED": "7"}
    command = [sys.executable, "-c", _ELSEWHERE]
    elsewhere = subprocess.run(command, capture_output=True, text=True, cwd=REPOSITORY, env=environment, check=True)
    here = by_key(run(ELEMENTS, TRANSFORMS["frequencies per key"].with_idempotent_noise(**TERMS)))
    assert elsewhere.stdout.strip() == str(sorted((key, value.hex()) for key, value in here.items()))


WIDE = SketchSpec(depth=4, width=8192)


def noise(transform: beam.PTransform, elements: list[Any] = ELEMENTS) -> dict[Any, np.ndarray]:
    """The noise of each release of one run."""
    counters = exact(elements, transform)
    counters = counters if isinstance(counters, dict) else {None: counters}
    outputs = run(elements, transform)
    pairs = [output if type(output) is tuple else (None, output) for output in outputs]
    return {key: (value.counters - counters[key]).ravel() for key, value in pairs}


def frequencies(**terms: Any) -> beam.PTransform:
    whole = PrivateFrequencies(WIDE, PRIVACY, privacy_unit=Record(), item=lambda pair: pair)
    return whole.with_idempotent_noise(**TERMS | terms)


@pytest.mark.slow
def test_keys_release_ids_and_secrets_share_no_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """The audit alarms on correct noise with probability below 6e-12."""
    equal = [(key, "x") for key in "ab" for _ in range(5)]
    per_key = PrivateFrequencies(WIDE, PRIVACY, privacy_unit=Record(), keys=PublicKeys(["a", "b"]))
    keys = noise(per_key.with_idempotent_noise(**TERMS), equal)
    assert audit(keys["a"], keys["b"], PRIVACY_SIGMA_SQUARED) == set()
    one, again = noise(frequencies())[None], noise(frequencies())[None]
    assert "cross-correlation" in audit(one, again, PRIVACY_SIGMA_SQUARED)
    others = {"release id": noise(frequencies(release_id="visits of another day"))[None]}
    monkeypatch.setenv(VARIABLE, SECRET + "!")
    others["secret"] = noise(frequencies())[None]
    for name, other in others.items():
        assert audit(one, other, PRIVACY_SIGMA_SQUARED) == set(), name


PRIVACY_SIGMA_SQUARED = 4 * WIDE.depth / (2 * PRIVACY.rho)


class Wrapped(beam.PTransform):
    """A transform under a label of its own, within another one."""

    def __init__(self, transform: beam.PTransform) -> None:
        super().__init__()
        self._transform = transform

    def expand(self, pcoll: beam.PCollection) -> beam.PCollection:
        return pcoll | "Another name" >> self._transform


PERSON = PrivacyId(lambda e: e[1], RecordBounds(3))
OVER_TIME = PrivacyId(lambda e: e[1], RecordBounds(3), max_windows=2)
PLACED = {
    "records": PrivateFrequencies(SPEC, PRIVACY, privacy_unit=Record()),
    "people": PrivateFrequencies(SPEC, PRIVACY, item=lambda e: e[0], privacy_unit=PERSON),
    "top-k": PrivateTopK(IntegerDomain(0, 9), PRIVACY, k=2, item=lambda e: e[1], privacy_unit=PERSON),
    "a norm": PrivateTopK(
        TextDomain(3), LOSING, k=2, item=lambda e: e[0], privacy_unit=BY_NUMBER, method=Thresholding(1e-3)
    ),
    "over time": PrivateFrequencies(
        SPEC, PRIVACY, windows=Horizon(0, 50, 4), item=lambda e: e[0], privacy_unit=OVER_TIME
    ),
}


@pytest.mark.one_fast_case
@pytest.mark.parametrize("name", PLACED)
def test_a_renamed_or_wrapped_transform_releases_identical_bytes(name: str) -> None:
    def placed(label: str, wrap: Any, runner: str, *options: str) -> list[bytes]:
        def build(pipeline: beam.Pipeline) -> beam.PCollection:
            transform = wrap(PLACED[name].with_idempotent_noise(**TERMS))
            return pipeline | beam.Create(ELEMENTS) | beam.MapTuple(stamped) | label >> transform

        return sorted(released(output).to_bytes() for output in seen_by_sink(build, *options, runner=runner))

    first = placed("Cities", lambda transform: transform, FN_API)
    assert len(set(first)) == (4 if name == "over time" else 1)
    assert placed("Towns", Wrapped, FN_API) == first
    assert placed("Towns", lambda transform: Wrapped(Wrapped(transform)), BUNDLE_BASED) == first


def stamped(city: str, number: int) -> window.TimestampedValue:
    return window.TimestampedValue((city, number), 20 * number)


@pytest.mark.slow
def test_a_release_id_names_one_transform_of_a_pipeline() -> None:
    """Equal releases under one id would show that two inputs are equal."""
    again = pytest.raises(
        ValueError, match="release_id='visits of one day' is already used by another transform of this pipeline"
    )
    for options in ([], ["--auto_unique_labels"]):
        pipeline = beam.Pipeline(FN_API, options=PipelineOptions(options))
        first, second = (pipeline | f"Create{number}" >> beam.Create(ELEMENTS) for number in range(2))
        transform = frequencies()
        first | transform
        for elements in (first, second):
            with again:
                elements | f"Of {elements}" >> transform
            with again:
                elements | f"Continual {elements}" >> PLACED["over time"].with_idempotent_noise(**TERMS)
        second | "Other id" >> frequencies(release_id="visits of another day")
        pipeline.replace_all([ExpandedAgain(transform)])
    beam.Pipeline(FN_API) | beam.Create(ELEMENTS) | frequencies()


def visits_by(field: str) -> Any:
    """A transform of rows by one of their fields, under one release id."""
    keys = PublicKeys(["a", "b"], field)
    made: Any = PrivateFrequencies(SPEC, PRIVACY, privacy_unit=Record(), item="item", keys=keys)
    made.check([ROW])
    return made.with_idempotent_noise(**TERMS)


ROW = {"home": "a", "work": "b", "item": 1}


@pytest.mark.parametrize("digest", ["all settings", pytest.param("nothing", marks=pytest.mark.slow)])
def test_another_transform_of_another_job_under_one_id_is_another_run(
    digest: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record is in "a" of one and in "b" of the other: rho is spent twice, and without a digest it counts once."""
    if digest == "nothing":
        monkeypatch.setattr(ReleaseSpec, "identify", lambda *given: b"")
    first, second = (dict(run([ROW], visits_by(field))) for field in ("home", "work"))
    assert first["a"].combine(second["b"]).privacy.rho == (1 if digest == "nothing" else 2) * PRIVACY.rho
    if digest == "all settings":
        assert {each.to_bytes() for each in first.values()} == {
            each.to_bytes() for each in dict(run([ROW], visits_by("home"))).values()
        }


@pytest.mark.slow
def test_windows_with_equal_counters_share_no_noise() -> None:
    transform = PrivateFrequencies(WIDE, PRIVACY, privacy_unit=Record(), windows=TimeRange(0, 20))

    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        stamped = pipeline | beam.Create([1, 11]) | beam.Map(lambda time: window.TimestampedValue("x", time))
        return stamped | beam.WindowInto(window.FixedWindows(10)) | transform.with_idempotent_noise(**TERMS)

    first, second = (output.counters for output in seen_by_sink(build))
    assert audit(*_residuals(first, second), PRIVACY_SIGMA_SQUARED) == set()
    again = {output.to_bytes() for output in seen_by_sink(build)}
    assert again == {output.to_bytes() for output in seen_by_sink(build)}


def _residuals(*counters: np.ndarray) -> list[np.ndarray]:
    (output,) = [exact(["x"], PrivateFrequencies(WIDE, PRIVACY, privacy_unit=Record()))]
    return [(noisy - output).ravel() for noisy in counters]


def placed(of_transform: Any, part: tuple[Any, ...], window: Any, pane: int) -> Any:
    return release_randomness(of_transform, part_name(part, window.start.micros, window.end.micros), pane)


def test_every_part_of_the_place_of_a_release_counts() -> None:
    of_transform = TRANSFORMS["frequencies"].with_idempotent_noise(**TERMS)._idempotent_noise.resolve_secret()
    here = {"part": ("key", "a"), "window": window.IntervalWindow(0, 10), "pane": 0}
    others = [
        here,
        {**here, "part": ("key", b"a")},
        {**here, "part": ("key", ("a",))},
        {**here, "part": ("key", ())},
        {**here, "part": ()},
        {**here, "part": ("level", 0)},
        {**here, "part": ("level", 1)},
        {**here, "window": window.IntervalWindow(0, 20)},
        {**here, "window": window.IntervalWindow(10, 20)},
        {**here, "window": window.GlobalWindow()},
        {**here, "pane": 1},
    ]
    assert len({placed(of_transform, **place).random_bytes(b"")(16) for place in others}) == len(others)
    again = TRANSFORMS["frequencies"].with_idempotent_noise(**TERMS)._idempotent_noise.resolve_secret()
    assert placed(again, **here).random_bytes(b"")(16) == placed(of_transform, **here).random_bytes(b"")(16)


def test_equal_horizons_at_another_time_are_another_run() -> None:
    """They begin a whole number of windows apart, so windows alone do not tell them apart."""

    def run_of(start: int) -> set[bytes]:
        transform = PrivateFrequencies(SPEC, PRIVACY, windows=Horizon(start, 10, 4), privacy_unit=Record())
        rows = seen_by_sink(
            lambda pipeline: (
                pipeline
                | beam.Create([start + 1])
                | beam.Map(lambda time: window.TimestampedValue("x", time))
                | transform.with_idempotent_noise(**TERMS)
            )
        )
        return runs([release_id for row in rows for release_id in row.privacy.release_ids])

    assert len(run_of(0)) == 1
    assert run_of(0) == run_of(0)
    assert not run_of(0) & run_of(40)


@pytest.mark.slow
def test_rows_with_equal_counters_share_no_noise() -> None:
    """One record: the nodes of a tree above its window have its counters, and the same sigma."""
    transform = PrivateFrequencies(
        WIDE, PRIVACY, windows=Horizon(0, 10, 4, mechanism="tree"), privacy_unit=Record()
    ).with_idempotent_noise(**TERMS)

    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        return pipeline | beam.Create([1]) | beam.Map(lambda time: window.TimestampedValue("x", time)) | transform

    rows = {row.number: row for row in seen_by_sink(build)}
    assert len(rows) == 7
    above = [rows[number] for number in (0, 2, 6)]
    assert above[0].privacy.over_time.dropped_bits == 0
    residuals = _residuals(*(row.counters.astype(np.int64).reshape(WIDE.depth, -1) for row in above))
    sigma_squared = above[0].privacy.sigma_squared * above[0].mechanism.squared_length
    for first, second in ((0, 1), (1, 2), (0, 2)):
        assert audit(residuals[first], residuals[second], sigma_squared) == set()
    assert {row.to_bytes() for row in rows.values()} == {row.to_bytes() for row in seen_by_sink(build)}


def test_the_secret_is_in_no_graph_display_or_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        with beam.Pipeline(FN_API) as pipeline:
            transform = TRANSFORMS["frequencies per key"].with_idempotent_noise(**TERMS)
            pipeline | beam.Create(ELEMENTS) | transform
        assert SECRET.encode() not in pipeline.to_runner_api().SerializeToString()
        assert SECRET not in str(DisplayData.create_from(transform).items)
        assert "visits of one day" in str(DisplayData.create_from(transform).items)
    assert SECRET not in caplog.text
    assert SECRET.encode() not in cloudpickle_pickler.dumps(transform)


def test_a_step_that_has_resolved_its_secret_cannot_be_pickled() -> None:
    step = release_once(TRANSFORMS["frequencies"].with_idempotent_noise(**TERMS)._idempotent_noise)
    step.setup()
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(step)
    step.teardown()
    assert SECRET.encode() not in pickle.dumps(step)


@pytest.mark.parametrize("secret", [SECRET, SECRET.encode(), None, lambda: SECRET])
def test_a_secret_in_the_pipeline_is_refused_without_being_shown(secret: Any) -> None:
    with pytest.raises(TypeError, match="EnvironmentSecret, FileSecret or another Beam Secret") as caught:
        TRANSFORMS["frequencies"].with_idempotent_noise(release_id="r", secret=secret)
    assert SECRET not in str(caught.value)


SECRETS = {
    "as it is": SECRET,
    "hex": "0123456789abcdef" * 4,
    "base64": base64.b64encode(bytes(range(100, 132))).decode(),
    "base64 without its end": base64.b64encode(bytes(range(100, 132))).decode().rstrip("="),
    "base32 without its end": base64.b32encode(bytes(range(100, 132))).decode().rstrip("="),
    "for web addresses": "Zm9v_mFy" * 6,
    "in the environment": "words_of_one_case_joined_by_underscores",
}


@pytest.mark.parametrize("name", SECRETS)
def test_a_secret_in_place_of_its_variable_is_refused_unshown(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, SECRETS["in the environment"])
    with pytest.raises(ValueError, match="name of an environment variable, such as DPSKETCH_SECRET") as caught:
        EnvironmentSecret(SECRETS[name])
    assert SECRETS[name] not in str(caught.value)


@pytest.mark.parametrize("variable", ["", "A B", "A-B", "1A", "A=B", "Ä", "A\n"])
def test_what_cannot_name_a_variable_is_refused(variable: str) -> None:
    with pytest.raises(ValueError, match="name of an environment variable, such as DPSKETCH_SECRET"):
        EnvironmentSecret(variable)


def test_a_name_as_long_as_a_secret_is_never_repeated() -> None:
    name = "A_LONG_NAME_OF_A_VARIABLE_THAT_IS_SET_ON_WORKERS_ONLY"
    secret = EnvironmentSecret(name)
    with pytest.raises(LookupError, match="The environment variable of the secret is not set") as caught:
        secret.get_secret_bytes()
    assert name not in str(caught.value) + repr(secret)


@pytest.mark.parametrize("release_id", ["", "x" * 1025, None, 5])
def test_a_release_id_is_a_text(release_id: Any) -> None:
    with pytest.raises(ValueError, match="release_id must be text"):
        TRANSFORMS["frequencies"].with_idempotent_noise(release_id=release_id, secret=FROM_ENVIRONMENT)


def test_a_missing_or_short_secret_stops_the_worker(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    def fails(secret: Secret, message: str) -> None:
        with pytest.raises(Exception, match=message) as caught:
            run(ELEMENTS, TRANSFORMS["frequencies"].with_idempotent_noise(release_id="r", secret=secret))
        assert "4711" not in str(caught.value)

    monkeypatch.setenv(VARIABLE, "short-4711")
    fails(FROM_ENVIRONMENT, "at least 32 random bytes")
    monkeypatch.delenv(VARIABLE)
    fails(FROM_ENVIRONMENT, f"'{VARIABLE}' is not set on this worker")
    fails(FileSecret(tmp_path / "empty"), "cannot be read on this worker")


def test_secrets_come_from_files_and_other_secrets_too(tmp_path: Any) -> None:
    (tmp_path / "secret").write_text(SECRET + "\n")
    from_file, from_environment = (
        by_key(run(ELEMENTS, TRANSFORMS["frequencies"].with_idempotent_noise(release_id="r", secret=secret)))
        for secret in (FileSecret(tmp_path / "secret"), FROM_ENVIRONMENT)
    )
    assert from_file == from_environment
