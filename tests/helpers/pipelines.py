"""Running small pipelines in tests: what reached the sink, and the exact counters before the noise."""

from __future__ import annotations

import pickle
import tempfile
import uuid
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
from apache_beam.options.pipeline_options import PipelineOptions

from beam_dpsketch import SketchSpec
from beam_dpsketch.encodings import decode, is_unicode
from beam_dpsketch.exact.sums.accumulator import SketchAccumulator
from beam_dpsketch.exact.sums.keyed_sums import NO_KEY, KeyedSums
from beam_dpsketch.transforms.private_release import PrivateRelease
from beam_dpsketch.transforms.steps.exact_sums import ExactSums
from beam_dpsketch.transforms.steps.windows import plan_of

REPOSITORY = Path(__file__).parents[2]
SPEC = SketchSpec(depth=3, width=16)
COUNT_MIN = SketchSpec(kind="count_min", depth=3, width=16)
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


def summed(elements: beam.PCollection, private: PrivateRelease) -> beam.PCollection:
    """The `KeyedSums` behind the releases of a transform: its own steps up to the noise."""
    plan = plan_of(elements, private._declared)
    exact = ExactSums(private._declared, plan, private._noise(elements, plan.terms), {})
    return (elements | "ExactSums" >> exact)["sums"]


def exact_sums(elements: beam.PCollection, private: PrivateRelease) -> beam.PCollection:
    """Each of these sums as an accumulator, or (key, accumulator)."""
    return summed(elements, private) | "Each" >> beam.FlatMap(accumulators)


def numbers_by_key(sums: KeyedSums) -> dict[Any, np.ndarray]:
    """The exact numbers of each key, counters and then what is counted aside; `None` is the key without keys."""
    keys = [None if key == NO_KEY else decode(key) for key in sums.keys.to_pylist()]
    return {key: each for key, each in zip(keys, sums.numbers, strict=True) if key is None or is_unicode(key)}


def accumulators(sums: KeyedSums) -> Iterator[Any]:
    """Each sum as an accumulator, or (key, accumulator); without keys that Beam cannot hold."""
    for encoded, each in sums.each():
        made = SketchAccumulator(sums.sketch_input)
        made.absorb(each)
        if encoded == NO_KEY:
            yield made
        elif is_unicode(key := decode(encoded)):
            yield key, made


def counters_of(accumulator: Any) -> Any:
    """The counters of an accumulator, as nested lists."""
    return accumulator.to_sketch().counters.tolist()


class ExactCounters(beam.PTransform):
    """The steps of a private transform up to the release: exact counters instead of noisy ones, or (key, these).

    Args:
      private: the transform.
      read: what to take of each accumulator.
    """

    def __init__(self, private: PrivateRelease, read: Callable[[Any], Any] = counters_of) -> None:
        super().__init__()
        self._private = private
        self._read = read

    def expand(self, pcoll: beam.PCollection) -> beam.PCollection:
        return exact_sums(pcoll, self._private) | "Counters" >> beam.Map(_read, self._read)


def _read(summed: Any, read: Callable[[Any], Any]) -> Any:
    return (summed[0], read(summed[1])) if isinstance(summed, tuple) else read(summed)


def exact(
    elements: Iterable[Any],
    private: PrivateRelease,
    *options: str,
    runner: str = FN_API,
    read: Callable[[Any], Any] = counters_of,
) -> Any:
    """The exact counters behind the one release of a transform, or a dict of them by key."""
    outputs = run(elements, ExactCounters(private, read), *options, runner=runner)
    if outputs and isinstance(outputs[0], tuple):
        assert len(dict(outputs)) == len(outputs)
        return {key: np.array(counters) for key, counters in outputs}
    (counters,) = outputs
    return np.array(counters)
