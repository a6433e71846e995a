"""`QueryReleases`: ask releases inside a pipeline, with questions as elements."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any, NamedTuple

import apache_beam as beam

from beam_dpsketch import _validate
from beam_dpsketch.transforms.outputs import key_and_release

ASKED = (
    "estimate",
    "interval",
    "as_rows",
    "top_k",
    "heavy_hitters",
    "total",
    "total_interval",
    "rank",
    "rank_interval",
    "cdf",
    "cdf_interval",
    "quantile",
    "quantile_interval",
    "range_count",
    "range_interval",
    "histogram",
)


@dataclasses.dataclass(frozen=True)
class Question:
    """A method of a release, by name, with its arguments, for the release of one key (`None` for the only release).

    >>> Question("quantile", (0.5,), key="JFK")
    Question(method='quantile', arguments=(0.5,), key='JFK')
    """

    method: str
    arguments: tuple[Any, ...] = ()
    key: Any = None

    def __post_init__(self) -> None:
        _validate.one_of(ASKED, method=self.method)
        _validate.instance(tuple, arguments=self.arguments)


class Answer(NamedTuple):
    """A question with what the release said; `None` if its key has no release."""

    question: Question
    value: Any


class QueryReleases(beam.PTransform):
    """Turn `Question` elements into `Answer` elements. Questions cost no privacy.

    Args:
      releases: a collection of one release, or of (key, release) pairs, in the same pipeline.
    """

    def __init__(self, releases: beam.PCollection) -> None:
        super().__init__()
        self._releases = releases

    def expand(self, pcoll: beam.PCollection) -> beam.PCollection:
        return pcoll | "Ask" >> beam.Map(_answer, beam.pvalue.AsList(self._releases)).with_output_types(Answer)


def _answer(question: Question, releases: Iterable[Any]) -> Answer:
    for element in releases:
        key, released = key_and_release(element)
        if key == question.key:
            return Answer(question, getattr(released, question.method)(*question.arguments))
    return Answer(question, None)
