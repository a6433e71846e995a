"""What the private transforms give."""

import dataclasses
from typing import Any

from beam_dpsketch.release.released_sketch import ReleasedSketch
from beam_dpsketch.release.tree.dyadic import HeavyHitters


@dataclasses.dataclass(frozen=True)
class TopK:
    """The top K of a release, and the release itself for further questions and its privacy statement.

    `WriteReleases` and `QueryReleases` take it for its release. Its intervals are those of the release's `top_k`: about
    the records that bounding kept, and for each value on its own.
    """

    top: HeavyHitters
    release: ReleasedSketch


def key_and_release(element: Any) -> tuple[Any, ReleasedSketch]:
    """Key (`None` without one) and release of an element of any private transform."""
    key, value = element if isinstance(element, tuple) and len(element) == 2 else (None, element)
    released = value.release if isinstance(value, TopK) else value
    if not isinstance(released, ReleasedSketch):
        raise TypeError(
            f"an element must be what a private transform gives: a release or a (key, release) pair, got "
            f"{type(value).__name__}; apply PrivateFrequencies, PrivateQuantiles or PrivateTopK before"
        )
    return key, released
