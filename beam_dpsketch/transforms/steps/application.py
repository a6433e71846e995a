"""One application of a transform in a pipeline: what a part of a budget or a release id may name only once."""

from __future__ import annotations

import weakref
from typing import TypeAlias

import apache_beam as beam

Application: TypeAlias = tuple["weakref.ref[beam.Pipeline]", str]


def application(elements: beam.PCollection) -> Application:
    """That of the transform that is being expanded.

    A runner that expands it again uses the same pipeline and path. Beam allows each path only once.
    """
    pipeline = elements.pipeline
    return weakref.ref(pipeline), pipeline.transforms_stack[-1].full_label
