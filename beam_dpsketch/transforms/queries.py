"""`QueryReleases`: ask releases inside a pipeline."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import apache_beam as beam

from beam_dpsketch import _validate
from beam_dpsketch.answers.questions.ask import Ask
from beam_dpsketch.transforms.outputs import key_and_release


class QueryReleases(beam.PTransform):
    """Turn releases, or (key, release) pairs, into rows that answer one kind of question. Asking costs no privacy.

    A row is a dict for each part of the question, with the columns of `docs/rows.md`; that of a pair has its key as
    `key`. For what `Ask` has no word for, call the release: `releases | beam.Map(lambda release: release.mean())`.

    >>> QueryReleases(Ask("quantiles", (0.5, 0.9))).default_label()
    'QueryReleases(quantiles)'

    Args:
      ask: the question.

    Raises:
      TypeError: the question is not an `Ask`.
      ValueError: a release does not answer such a question; raised by the pipeline.
    """

    def __init__(self, ask: Ask) -> None:
        super().__init__()
        _validate.instance(Ask, ask=ask)
        self._ask = ask

    def default_label(self) -> str:
        """Return the label, with the kind of question."""
        return f"{type(self).__name__}({self._ask.kind})"

    def expand(self, pcoll: beam.PCollection) -> beam.PCollection:
        return pcoll | "Ask" >> beam.FlatMap(_answer, self._ask).with_output_types(dict[str, Any])


def _answer(element: Any, ask: Ask) -> Iterator[dict[str, Any]]:
    key, released = key_and_release(element)
    place = {} if key is None else {"key": key}
    for row in ask.answer(released).rows:
        yield {**place, **row}
