"""Running small pipelines in tests: what reached the sink, and the exact counters before the noise."""

from __future__ import annotations

import pickle
import tempfile
import uuid
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
from apache_beam.options.pipeline_options import PipelineOptions

from beam_dpsketch import SketchSpec
from beam_dpsketch.transforms.steps.private_release import PrivateRelease

REPOSITORY = Path(__file__).parents[2]
SPEC = SketchSpec(depth=3, width=16)
FN_API, BUNDLE_BASED = "FnApiRunner", "BundleBasedDirectRunner"


class Sink(beam.DoFn):
    """Writes each element it sees to a file of its own, at once and whole, as a system outside would: replays show."""

    def __init__(self, directory: str) -> None:
        self._directory = directory

    def process(self, element: Any) -> None:
        written = Path(f"{self._directory}.{uuid.uuid4().hex}")
        written.write_bytes(pickle.dumps(element))
        written.rename(Path(self._directory, written.name))


def seen_by_sink(build: Callable[[beam.Pipeline], beam.PCollection], *options: str, runner: str = FN_API) -> list[Any]:
    """All elements that a sink after `build(pipeline)` saw, in no order."""
    with tempfile.TemporaryDirectory() as directory:
        with beam.Pipeline(runner=runner, options=PipelineOptions(list(options))) as pipeline:
            build(pipeline) | "Sink" >> beam.ParDo(Sink(directory))
        return [pickle.loads(path.read_bytes()) for path in Path(directory).iterdir()]


def run(elements: Iterable[Any], transform: beam.PTransform, *options: str, runner: str = FN_API) -> list[Any]:
    """What the transform makes of elements in the global window."""
    return seen_by_sink(lambda pipeline: pipeline | beam.Create(list(elements)) | transform, *options, runner=runner)


class ExactCounters(beam.PTransform):
    """The steps of a private transform up to the release: exact counters instead of noisy ones."""

    def __init__(self, private: PrivateRelease) -> None:
        super().__init__()
        self._private = private

    def expand(self, pcoll: beam.PCollection) -> beam.PCollection:
        return self._private._combined(pcoll) | "Counters" >> beam.Map(counters_of)


def counters_of(combined: Any) -> Any:
    """Nested lists of counters of an accumulator, or (key, these)."""
    if isinstance(combined, tuple):
        return combined[0], counters_of(combined[1])
    return combined.to_sketch().counters.tolist()


def exact(elements: Iterable[Any], private: PrivateRelease, *options: str, runner: str = FN_API) -> Any:
    """The exact counters behind the one release of a transform, or a dict of them by key."""
    outputs = run(elements, ExactCounters(private), *options, runner=runner)
    if outputs and isinstance(outputs[0], tuple):
        assert len(dict(outputs)) == len(outputs)
        return {key: np.array(counters) for key, counters in outputs}
    (counters,) = outputs
    return np.array(counters)
