"""Outputs of private transforms: final noisy numbers, releases and their coder, and `QueryReleases`."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator
from typing import Any

import apache_beam as beam
from apache_beam import coders

from beam_dpsketch import checks as _validate
from beam_dpsketch.answers.batch import answers_of
from beam_dpsketch.answers.over_time import TimelineRow
from beam_dpsketch.answers.questions.ask import Ask
from beam_dpsketch.answers.released import RELEASED_KINDS, Released
from beam_dpsketch.answers.released_sketch import ReleasedSketch
from beam_dpsketch.answers.rows import Frequencies
from beam_dpsketch.errors import ArgumentTypeError
from beam_dpsketch.statement.noisy import NoisyReleases
from beam_dpsketch.statement.provenance import Provenance
from beam_dpsketch.statement.showing import key_columns


class MakeFinal(beam.PTransform):
    """Attach provenance, make drawn noise final by one `Reshuffle`, and output each release, or (key, release).

    `kind` is the class of each release, or `TimelineRow`.
    """

    def __init__(
        self, provenance: Provenance, *, is_dated: bool = False, per_key: bool = False, kind: type = Released
    ) -> None:
        super().__init__()
        self._stamp = functools.partial(NoisyReleases.stamped, provenance=provenance, is_dated=is_dated)
        self._output_type = tuple[Any, kind] if per_key else kind  # type: ignore[valid-type]

    def expand(self, pcoll: beam.PCollection) -> beam.PCollection:
        # Bytes, because runners keep objects decoded by a Reshuffle in memory.
        stamp = self._stamp
        pack = beam.MapTuple(lambda keys, releases: (keys, stamp(releases).to_bytes()))
        packed = pcoll | "Pack" >> pack.with_output_types(tuple[Any, bytes])
        final = packed | "Reshuffle" >> beam.Reshuffle().with_output_types(tuple[Any, bytes])
        return final | "Each" >> beam.FlatMapTuple(_unpack).with_output_types(self._output_type)


def _unpack(keys: list[Any] | None, packed: bytes) -> Iterator[Any]:
    return each_release((keys, NoisyReleases.from_bytes(packed)))


def each_release(together: tuple[list[Any] | None, NoisyReleases]) -> Iterator[Any]:
    """Yield each release from `ReleaseOnce`, or (key, release)."""
    keys, releases = together
    return answers_of(releases) if keys is None else zip(keys, answers_of(releases), strict=True)


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class TopK(Frequencies):
    """The rows of `release.top_k(k)`, with the release for further questions and its privacy statement.

    `WriteReleases` and `QueryReleases` accept it in place of its release. A release that is read back gives the same
    rows.

    Attributes:
      release: the released histogram or tree, or `ReleasedCounts`.
    """

    release: ReleasedSketch = dataclasses.field(kw_only=True)

    @classmethod
    def of(cls, release: ReleasedSketch, k: int) -> TopK:
        """Find the k items with the largest weights in a release."""
        return cls(**vars(release.top_k(k)), release=release)


def key_and_release(element: Any) -> tuple[Any, Released]:
    """Split an element of any private transform into key (`None` without keys) and release."""
    key, value = element if isinstance(element, tuple) and len(element) == 2 else (None, element)
    released = value.release if isinstance(value, TopK) else value
    if isinstance(released, TimelineRow):
        raise ArgumentTypeError(
            "", "A timeline row cannot answer questions by itself. Read all rows of the run with SketchTimeline", "E701"
        )
    if not isinstance(released, Released):
        raise ArgumentTypeError(
            "",
            "Elements must be outputs of a private transform: releases or (key, release) pairs, got "
            f"{type(value).__name__}. Apply PrivateFrequencies, PrivateQuantiles or PrivateTopK first",
            "E701",
        )
    return key, released


class QueryReleases(beam.PTransform):
    """Convert releases, or (key, release) pairs, to rows that answer one kind of question, without privacy loss.

    A row is a dict for each part of the question, with the columns in `docs/beam_yaml.md`. The row of a pair has its
    key as `key`, or a column with the name of each key field, as `country` and `day`. For questions beyond `Ask`, call
    the release: `releases | beam.Map(lambda each: each.mean_weight())`.

    >>> QueryReleases(Ask("quantiles", (0.5, 0.9))).default_label()
    'QueryReleases(quantiles)'

    Args:
      ask: the question.

    Raises:
      TypeError: the question is not an `Ask`.
      ValueError: a release cannot answer such a question. Raised by the pipeline.
    """

    def __init__(self, ask: Ask) -> None:
        super().__init__()
        _validate.instance(Ask, ask=ask)
        self._ask = ask

    def default_label(self) -> str:
        """Label with the kind of question."""
        return f"{type(self).__name__}({self._ask.kind})"

    def expand(self, pcoll: beam.PCollection) -> beam.PCollection:
        return pcoll | "Ask" >> beam.FlatMap(_answer, self._ask).with_output_types(dict[str, Any])


def _answer(element: Any, ask: Ask) -> Iterator[dict[str, Any]]:
    key, released = key_and_release(element)
    place = {} if key is None else key_columns(key, released.privacy.key_names)
    answered = ask.answer(released)
    for row in answered.listed:
        yield {**place, **row, **answered.clipping.columns()}


class ReleasedCoder(coders.Coder):
    """Coder for releases in their published format."""

    def encode(self, value: Released) -> bytes:
        return value.to_bytes()

    def decode(self, encoded: bytes) -> Released:
        return Released.from_bytes(encoded)

    def is_deterministic(self) -> bool:
        return True

    def to_type_hint(self) -> Any:
        return Released


for kind in (Released, ReleasedSketch, *RELEASED_KINDS.values()):
    coders.registry.register_coder(kind, ReleasedCoder)
