"""Noisy numbers to answers: they are made final, and each release goes its own way."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import apache_beam as beam

from beam_dpsketch.answers.batch import answers_of
from beam_dpsketch.answers.released import Released
from beam_dpsketch.statement.noisy import NoisyReleases


class MakeFinal(beam.PTransform):
    """Make what a step with noise drew final: one `Reshuffle`, and then each release, or (key, release), for itself.

    `kind` is the class of each release, or `TimelineRow`.
    """

    def __init__(self, *, per_key: bool = False, kind: type = Released) -> None:
        super().__init__()
        self._output_type = tuple[Any, kind] if per_key else kind  # type: ignore[valid-type]

    def expand(self, pcoll: beam.PCollection) -> beam.PCollection:
        # As bytes: runners keep what a Reshuffle has decoded in memory.
        packed = pcoll | "Pack" >> beam.MapTuple(_pack).with_output_types(tuple[Any, bytes])
        final = packed | "Reshuffle" >> beam.Reshuffle().with_output_types(tuple[Any, bytes])
        return final | "Each" >> beam.FlatMapTuple(_unpack).with_output_types(self._output_type)


def _pack(keys: list[Any] | None, releases: NoisyReleases) -> tuple[Any, bytes]:
    return keys, releases.to_bytes()


def _unpack(keys: list[Any] | None, packed: bytes) -> Iterator[Any]:
    return each_release((keys, NoisyReleases.from_bytes(packed)))


def each_release(together: tuple[list[Any] | None, NoisyReleases]) -> Iterator[Any]:
    """Yield each release of what `ReleaseOnce` made, or (key, release)."""
    keys, releases = together
    return answers_of(releases) if keys is None else zip(keys, answers_of(releases), strict=True)
