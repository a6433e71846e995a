"""Runners and options that release twice, or lose records, are warned of while the pipeline is built."""

from __future__ import annotations

import warnings
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.direct.direct_runner import BundleBasedDirectRunner, SwitchingDirectRunner
from apache_beam.runners.portability.flink_runner import FlinkRunner
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.runners.portability.portable_runner import PortableRunner

from beam_dpsketch import Horizon, PrivacySpec, Record
from beam_dpsketch.transforms import EnvironmentSecret, PrivateFrequencies
from tests.helpers.pipelines import SPEC
from tests.helpers.streams import unbounded

TERMS = {"release_id": "visits", "secret": EnvironmentSecret("SECRET_OF_TESTS")}
TIMED = [("a", 0.0), ("b", 70.0)]
CHECKPOINTS, WHOLE = "--checkpointing_interval=1000", "--finish_bundle_before_checkpointing"


def frequencies() -> PrivateFrequencies:
    return PrivateFrequencies(SPEC, PrivacySpec(rho=0.1), privacy_unit=Record())


def continual() -> PrivateFrequencies:
    return PrivateFrequencies(SPEC, PrivacySpec(rho=0.1), windows=Horizon(0, 60, 2), privacy_unit=Record())


def warned(transform: beam.PTransform, *options: str, runner: Any = FlinkRunner, stream: bool = False) -> set[str]:
    """The words that begin what a transform is warned of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        pipeline = beam.Pipeline(runner=runner(), options=PipelineOptions([*options]))
        elements = unbounded(TIMED)(pipeline)
        elements.is_bounded = not stream
        if transform._declared.horizon is None:  # the other makes its own windows
            elements = elements | beam.WindowInto(beam.window.FixedWindows(60))
        elements | transform
    return {str(warning.message).split(",")[0] for warning in caught if warning.category is UserWarning}


AGAIN = "{} may draw new noise after a failure for a window that is already published"
LOST = "On Flink"


@pytest.mark.parametrize("make", [frequencies, continual])
def test_runners_that_replay_are_warned_of(make: Any) -> None:
    assert warned(make()) == {AGAIN.format("FlinkRunner")}
    assert not warned(make().with_idempotent_noise(**TERMS))


def test_a_server_may_be_one_that_replays() -> None:
    assert warned(frequencies(), "--job_endpoint=localhost:1", runner=PortableRunner) == {
        AGAIN.format("PortableRunner")
    }
    assert not warned(frequencies(), "--job_endpoint=embed", runner=PortableRunner)


@pytest.mark.one_fast_case
@pytest.mark.parametrize("make", [frequencies, continual])
def test_the_runner_that_may_run_a_pipeline_again_is_warned_of(make: Any) -> None:
    assert warned(make(), runner=SwitchingDirectRunner) == {"DirectRunner"}
    assert not warned(make().with_idempotent_noise(**TERMS), runner=SwitchingDirectRunner)
    for runner in (FnApiRunner, BundleBasedDirectRunner):
        assert not warned(make(), runner=runner)


def test_the_runner_that_beam_takes_by_default_is_warned_of() -> None:
    with pytest.warns(UserWarning, match=r'Name a runner: .*runner="FnApiRunner"'):
        beam.Pipeline() | beam.Create(["a"]) | frequencies()


@pytest.mark.one_fast_case
@pytest.mark.parametrize("make", [frequencies, continual])
@pytest.mark.parametrize("runner", [FlinkRunner, PortableRunner])
def test_checkpoints_that_lose_records_are_warned_of(make: Any, runner: Any) -> None:
    def lost(*options: str, stream: bool = True) -> bool:
        transform = make().with_idempotent_noise(**TERMS)
        found = warned(transform, "--job_endpoint=localhost:1", *options, runner=runner, stream=stream)
        assert found <= {LOST}
        return bool(found)

    assert lost(CHECKPOINTS)
    assert not lost(CHECKPOINTS, WHOLE)
    assert not lost()
    assert not lost("--checkpointing_interval=-1")
    assert not lost(CHECKPOINTS, stream=False)
