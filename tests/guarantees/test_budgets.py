"""What is spent of a budget pays for one transform, applied once, on any runner; a runner may expand it again."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import apache_beam as beam
import pytest

from beam_dpsketch import (
    BudgetExceededError,
    CountSketch,
    Horizon,
    IntegerDomain,
    KeySelection,
    PrivacyBudget,
    PrivacyId,
    PrivacySpec,
    Record,
    RecordBounds,
    ReleaseTerms,
    Thresholding,
    WindowingError,
    release,
)
from beam_dpsketch.exact.domains import TextDomain
from beam_dpsketch.transforms import (
    EnvironmentSecret,
    PrivateFrequencies,
    PrivateQuantiles,
    PrivateSketchFn,
    PrivateTopK,
    SelectKeys,
)
from tests.helpers.expanded_again import ExpandedAgain
from tests.helpers.pipelines import BUNDLE_BASED, FN_API, SPEC, run

HORIZON = Horizon(0, 10, 2)
AGAIN = pytest.raises(BudgetExceededError, match=r"already paid for another release\. Use a spec per transform")


def spent() -> PrivacySpec:
    return PrivacyBudget(rho=1.0).spend(rho=0.5)


def frequencies(privacy: PrivacySpec) -> beam.PTransform:
    return PrivateFrequencies(SPEC, privacy, privacy_unit=Record())


def continual(privacy: PrivacySpec) -> beam.PTransform:
    return PrivateFrequencies(SPEC, privacy, windows=HORIZON, privacy_unit=Record())


def elements(pipeline: beam.Pipeline | None = None) -> beam.PCollection:
    return (pipeline or beam.Pipeline(FN_API)) | beam.Create(["a", "b"])


@pytest.mark.one_fast_case
@pytest.mark.parametrize("make", [frequencies, continual])
def test_a_transform_is_not_applied_twice(make: Any) -> None:
    transform, first = make(spent()), elements()
    first | "Once" >> transform
    with AGAIN:
        first | "Twice" >> transform
    with AGAIN:
        elements() | transform
    direct = make(PrivacySpec(rho=0.5))
    first | "Direct" >> direct
    elements() | direct


def test_two_transforms_do_not_share_what_is_spent() -> None:
    privacy = spent()
    first = elements()
    first | frequencies(privacy)
    with AGAIN:
        first | "over time" >> continual(privacy)


def test_without_beam_each_release_wants_its_own() -> None:
    privacy = spent()
    raw = CountSketch(SPEC).accumulate(["a"])
    assert release(raw, ReleaseTerms(privacy)).privacy.rho == privacy.rho
    with AGAIN:
        release(raw, ReleaseTerms(privacy))
    with AGAIN:
        PrivateSketchFn(SPEC, privacy)


def test_a_combine_fn_is_made_once_and_used_by_many_workers() -> None:
    privacy = spent()
    fn = PrivateSketchFn(SPEC, privacy)
    for _ in range(2):
        assert fn.extract_output(fn.create_accumulator()).privacy.rho == privacy.rho
    with AGAIN:
        PrivateSketchFn(SPEC, privacy)


def test_a_transform_that_was_refused_has_spent_nothing() -> None:
    transform = continual(spent())
    windowed = elements() | beam.WindowInto(beam.window.FixedWindows(10))
    with pytest.raises(WindowingError):
        windowed | transform
    elements() | transform


@pytest.mark.parametrize(
    "make",
    [
        frequencies,
        lambda privacy: PrivateQuantiles(IntegerDomain(0, 99), privacy, privacy_unit=Record()),
        lambda privacy: PrivateTopK(TextDomain(2), privacy, k=1, privacy_unit=Record(), method=Thresholding(1e-8)),
        lambda privacy: PrivateTopK(IntegerDomain(0, 99), privacy, k=1, privacy_unit=Record()),
    ],
    ids=["frequencies", "quantiles", "texts", "numbers"],
)
def test_to_explain_spends_nothing(make: Any) -> None:
    transform = make(spent())
    assert transform.explain(100_000)
    assert transform.explain(100_000)
    assert transform._declared.privacy.paying_for("visits") == spent()


RUN_AGAIN = pytest.raises(BudgetExceededError, match="This pipeline has already run, and its budget covers one run")
OF_PEOPLE = PrivacyId(str, RecordBounds(1, max_keys=1))
CHOSEN = KeySelection(1e-8, str)
PAID: dict[str, Callable[[PrivacySpec], Any]] = {
    "frequencies": frequencies,
    "continual": continual,
    "groups": lambda privacy: PrivateTopK(
        TextDomain(2), privacy, k=1, privacy_unit=OF_PEOPLE, method=Thresholding(Fraction(1, 10**8))
    ),
    "keys": lambda privacy: SelectKeys(privacy, privacy_unit=OF_PEOPLE, keys=CHOSEN),
}


def at_once(element: str) -> beam.window.TimestampedValue:
    return beam.window.TimestampedValue(element, 1)


def built(transform: Any) -> beam.Pipeline:
    pipeline = beam.Pipeline(FN_API)
    elements(pipeline) | beam.Map(at_once).with_output_types(str) | transform
    return pipeline


@pytest.mark.one_fast_case
@pytest.mark.parametrize("name", PAID)
def test_a_pipeline_that_a_budget_pays_for_runs_once(name: str) -> None:
    pipeline = built(PAID[name](PrivacyBudget(rho=1.0, delta=1e-6, keys_delta=1e-7).spend(rho=0.5)))
    pipeline.run().wait_until_finish()
    with RUN_AGAIN:
        pipeline.run()
    with RUN_AGAIN, pipeline:
        pass


def test_two_transforms_of_a_budget_run_once_together() -> None:
    pipeline = beam.Pipeline(FN_API)
    for number in range(2):
        transform = frequencies(spent())
        pipeline | f"Create{number}" >> beam.Create(["a", "b"]) | f"Count{number}" >> transform
        pipeline.replace_all([ExpandedAgain(transform)])
    pipeline.run().wait_until_finish()
    with RUN_AGAIN:
        pipeline.run()


def test_without_a_budget_or_with_idempotent_noise_a_pipeline_runs_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OF_TESTS", "a secret of the tests, of 32 bytes or more")
    keyed: Any = frequencies(spent())
    keyed = keyed.with_idempotent_noise(release_id="visits", secret=EnvironmentSecret("OF_TESTS"))
    for transform in (frequencies(PrivacySpec(rho=0.5)), keyed):
        pipeline = built(transform)
        for _ in range(2):
            pipeline.run().wait_until_finish()


class Nested(beam.PTransform):
    """A transform within another one."""

    def __init__(self, transform: beam.PTransform) -> None:
        super().__init__()
        self._transform = transform

    def expand(self, pcoll: beam.PCollection) -> beam.PCollection:
        return pcoll | self._transform


@pytest.mark.parametrize("make", [frequencies, continual, lambda privacy: Nested(frequencies(privacy))])
def test_a_runner_may_expand_the_application_again(make: Any) -> None:
    pipeline, transform = beam.Pipeline(FN_API), make(spent())
    elements(pipeline) | transform
    override = ExpandedAgain(transform)
    pipeline.replace_all([override])
    assert override.times == 1
    with AGAIN:
        elements() | transform


@pytest.mark.one_fast_case
@pytest.mark.filterwarnings("ignore:DirectRunner, Beam's default")
@pytest.mark.parametrize("runner", [FN_API, BUNDLE_BASED, "DirectRunner"])
def test_what_is_spent_pays_on_every_runner(runner: str) -> None:
    (released,) = run(["a"] * 9, frequencies(spent()), runner=runner)
    assert released.privacy.rho == spent().rho
    pipeline = beam.Pipeline(runner=runner)
    elements(pipeline) | frequencies(spent())
    sent = beam.Pipeline.from_runner_api(pipeline.to_runner_api(), pipeline.runner, pipeline.options)
    sent.run().wait_until_finish()
