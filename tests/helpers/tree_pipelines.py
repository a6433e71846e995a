"""The exact counters behind the releases of trees in pipelines."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from beam_dpsketch.transforms.private_release import PrivateRelease
from tests.helpers.pipelines import ExactCounters, exact


def vector_of(accumulator: Any) -> Any:
    """All counters of an accumulator, level by level, as one list."""
    return accumulator.to_sketch().to_vector().tolist()


class ExactVectors(ExactCounters):
    """The steps of a private transform up to the release: all exact counters instead of noisy ones."""

    def __init__(self, private: PrivateRelease) -> None:
        super().__init__(private, vector_of)


def exact_vectors(elements: Iterable[Any], private: PrivateRelease, *options: str) -> Any:
    """All exact counters behind the one release of a transform, or a dict of them by key."""
    return exact(elements, private, *options, read=vector_of)
