"""`QueryReleases`: ask releases inside a pipeline, with questions as elements."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any, NamedTuple

import apache_beam as beam

from beam_dpsketch import _validate
from beam_dpsketch.answers.released_sketch import ReleasedSketch
from beam_dpsketch.transforms.outputs import key_and_release

ASKED_OF_TWO = ("inner_product", "distance", "cosine", "movers", "minus")
ASKED = (
    "estimate",
    "interval",
    "as_rows",
    "top_k",
    "heavy_hitters",
    "units",
    "records",
    "total",
    "mean",
    "clipped_share",
    "rank",
    "rank_interval",
    "cdf",
    "cdf_interval",
    "quantile",
    "quantile_interval",
    "range_count",
    "range_interval",
    "histogram",
    "decode",
    "second_moment",
    *ASKED_OF_TWO,
)


@dataclasses.dataclass(frozen=True)
class ReleaseOf:
    """The release of a key in the collection that is asked (`None` for the only release), as an argument."""

    key: Any = None


@dataclasses.dataclass(frozen=True)
class Question:
    """A method of a release, by name, with its arguments, for the release of one key (`None` for the only release).

    A question about two releases names the other one first: `ReleaseOf` its key, or a release from elsewhere, such as
    one read from a file. `movers` and `minus` say what changed from the other one to that of `key`.

    >>> Question("quantile", (0.5,), key="JFK")
    Question(method='quantile', arguments=(0.5,), key='JFK')
    >>> Question("movers", (ReleaseOf("June"), 10), key="July")
    Question(method='movers', arguments=(ReleaseOf(key='June'), 10), key='July')

    Raises:
      ValueError: the method is not one that answers, or the two releases are the same one.
      TypeError: the arguments are not a tuple, or the other release is missing.
    """

    method: str
    arguments: tuple[Any, ...] = ()
    key: Any = None

    def __post_init__(self) -> None:
        _validate.one_of(ASKED, method=self.method)
        _validate.instance(tuple, arguments=self.arguments)
        places = [n for n, each in enumerate(self.arguments) if isinstance(each, (ReleaseOf, ReleasedSketch))]
        if self.method in ASKED_OF_TWO and places != [0]:
            raise TypeError(
                f"arguments of {self.method!r} must begin with the other release, and name no third: a ReleaseOf, as "
                f"in Question({self.method!r}, (ReleaseOf('June'),), key='July'), or a release read from a file"
            )
        if self.method not in ASKED_OF_TWO and places:
            raise TypeError(
                f"arguments of {self.method!r} must not name a release, because it is about that of the key: give the "
                f"key, or ask one of {', '.join(map(repr, ASKED_OF_TWO))}"
            )
        if places and self.arguments[0] == ReleaseOf(self.key):
            raise ValueError(
                "key and ReleaseOf must name two releases, because a release shares its noise with itself: name "
                "another one, or ask 'second_moment'"
            )


class Answer(NamedTuple):
    """A question with what the release said; `None` if a key that it names has no release."""

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


def _answer(question: Question, elements: Iterable[Any]) -> Answer:
    releases = [key_and_release(element) for element in elements]
    keys = [question.key, *(each.key for each in question.arguments if isinstance(each, ReleaseOf))]
    found = [next((released for key, released in releases if key == wanted), None) for wanted in keys]
    if any(released is None for released in found):
        return Answer(question, None)
    asked, *others = found
    return Answer(question, getattr(asked, question.method)(*others, *question.arguments[len(others) :]))
