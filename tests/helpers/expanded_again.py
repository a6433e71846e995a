"""A runner's right to replace a transform, used to expand one a second time."""

from __future__ import annotations

from typing import Any

import apache_beam as beam
from apache_beam.pipeline import PTransformOverride


class ExpandedAgain(PTransformOverride):
    """A transform replaced by itself, as a runner replaces what it knows better."""

    def __init__(self, transform: beam.PTransform) -> None:
        super().__init__()
        self._transform = transform
        self.times = 0

    def matches(self, applied_ptransform: Any) -> bool:
        return applied_ptransform.transform is self._transform

    def get_replacement_transform_for_applied_ptransform(self, applied_ptransform: Any) -> beam.PTransform:
        self.times += 1
        return self._transform
