"""The exact counters behind the releases of trees in pipelines."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import apache_beam as beam
import numpy as np

from beam_dpsketch.transforms.steps.private_release import PrivateRelease
from tests.helpers.pipelines import run


class ExactVectors(beam.PTransform):
    """The steps of a private transform up to the release: all exact counters instead of noisy ones."""

    def __init__(self, private: PrivateRelease) -> None:
        super().__init__()
        self._private = private

    def expand(self, pcoll: beam.PCollection) -> beam.PCollection:
        return self._private._combined(pcoll) | "Vectors" >> beam.Map(_vector_of)


def _vector_of(combined: Any) -> Any:
    if isinstance(combined, tuple):
        return combined[0], _vector_of(combined[1])
    return combined.to_sketch().to_vector().tolist()


def exact_vectors(elements: Iterable[Any], private: PrivateRelease, *options: str) -> Any:
    """All exact counters behind the one release of a transform, or a dict of them by key."""
    outputs = run(elements, ExactVectors(private), *options)
    if outputs and isinstance(outputs[0], tuple):
        assert len(dict(outputs)) == len(outputs)
        return {key: np.array(counters) for key, counters in outputs}
    (counters,) = outputs
    return np.array(counters)
