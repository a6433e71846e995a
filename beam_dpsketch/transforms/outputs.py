"""The elements that private transforms give."""

from __future__ import annotations

import dataclasses
from typing import Any

from beam_dpsketch.answers.over_time.row import TimelineRow
from beam_dpsketch.answers.released_sketch import ReleasedSketch
from beam_dpsketch.answers.rows import Frequencies
from beam_dpsketch.errors import ArgumentTypeError


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class TopK(Frequencies):
    """The rows that `release.top_k(k)` gives, and the release itself for further questions and its privacy statement.

    `WriteReleases` and `QueryReleases` take it for its release. A release that is read back gives the same rows.

    Attributes:
      release: the released tree that was searched, or `ReleasedCounts`.
    """

    release: ReleasedSketch = dataclasses.field(kw_only=True)

    @classmethod
    def of(cls, release: ReleasedSketch, k: int) -> TopK:
        """Return the k items of largest weight in a release, with the release."""
        return cls(**vars(release.top_k(k)), release=release)


def key_and_release(element: Any) -> tuple[Any, ReleasedSketch]:
    """Return key (`None` without one) and release of an element of any private transform."""
    key, value = element if isinstance(element, tuple) and len(element) == 2 else (None, element)
    released = value.release if isinstance(value, TopK) else value
    if isinstance(released, TimelineRow):
        raise ArgumentTypeError(
            "", "a row over time answers nothing by itself: read all rows of a run with SketchTimeline", "E701"
        )
    if not isinstance(released, ReleasedSketch):
        raise ArgumentTypeError(
            "",
            "an element must be what a private transform gives: a release or a (key, release) pair, got "
            f"{type(value).__name__}; apply PrivateFrequencies, PrivateQuantiles or PrivateTopK before",
            "E701",
        )
    return key, released
