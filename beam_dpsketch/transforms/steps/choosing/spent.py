"""What a run spends whose keys the data choose, as a record for files: it may choose none, and release nothing.

`WriteReleases` finds the record by the steps before it, and writes it with the releases.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import apache_beam as beam

from beam_dpsketch.answers.release_file import to_record
from beam_dpsketch.engine.calibration import Calibration
from beam_dpsketch.engine.counting import Counting
from beam_dpsketch.engine.unreleased import spent_alone
from beam_dpsketch.privacy.mechanism import Randomness
from beam_dpsketch.privacy.terms import DeclaredTerms
from beam_dpsketch.records.release_spec import ReleaseSpec
from beam_dpsketch.statement.release_id import name_run
from beam_dpsketch.transforms.steps.idempotent_noise import DrawsNoise, IdempotentNoise
from beam_dpsketch.transforms.windows.guard import steps_before


class RecordSpent(beam.PTransform):
    """Turn the name of a run into a record of what it spends; one element in the global window."""

    def __init__(self, calibrated: Calibration | Counting, idempotent_noise: IdempotentNoise | None) -> None:
        super().__init__()
        self._make = _MakeRecord(calibrated, idempotent_noise)

    def expand(self, pcoll: beam.PCollection) -> beam.PCollection:
        return pcoll | "Record" >> beam.ParDo(self._make).with_output_types(bytes)


class _MakeRecord(DrawsNoise):
    def __init__(self, calibrated: Calibration | Counting, idempotent_noise: IdempotentNoise | None) -> None:
        super().__init__(idempotent_noise)
        self._calibrated = calibrated

    def process(self, element: bytes) -> Iterator[bytes]:
        if self._randomness is None:
            run, source = element, Randomness.SYSTEM
        else:
            run, source = name_run(self._randomness), Randomness.KEYED
        yield to_record(spent_alone(self._calibrated, run, source))


def may_release_nothing(declared: ReleaseSpec, terms: DeclaredTerms) -> bool:
    """Return whether the data choose the keys, and may choose none."""
    return declared.is_keyed and declared.public_keys is None and terms.selection is not None


def spent_before(releases: beam.PCollection) -> list[beam.PCollection]:
    """Return the records of what was spent by the transforms that lead to some releases."""
    composites: dict[Any, None] = {}
    for step in steps_before(releases):
        while step is not None and step not in composites:
            composites[step] = None
            step = step.parent
    inside = [part for step in composites for part in step.parts if isinstance(part.transform, RecordSpent)]
    return [output for part in inside for output in part.outputs.values()]
