"""Released sketches: noisy, public, immutable; they answer for ever at no further privacy cost.

Guarantee: everything a released sketch says is post-processing of noisy counters, so the privacy statement it
carries covers every answer. It cannot accumulate; `combine` adds two releases and composes their statements.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa

from beam_dpsketch import _validate
from beam_dpsketch.errors import FormatError, IncompatibleSketchError
from beam_dpsketch.hashing.fingerprints import fingerprints
from beam_dpsketch.release import wire
from beam_dpsketch.release.statement import PrivacyStatement
from beam_dpsketch.sketches.spec import SketchSpec

Self = TypeVar("Self", bound="ReleasedSketch")

_KINDS: dict[str, type[ReleasedSketch]] = {}


class Frequency(NamedTuple):
    """One item with its estimated total weight and an interval for the true one."""

    item: Any
    estimate: float
    lower: float
    upper: float


class ReleasedSketch(ABC):
    """A private release of a flat sketch. Made by `release()`, `from_bytes()` or a transform, not by hand."""

    name: ClassVar[str]

    def __init_subclass__(cls) -> None:
        _KINDS[cls.name] = cls

    def __init__(self, spec: SketchSpec, counters: np.ndarray, privacy: PrivacyStatement) -> None:
        if counters.shape != (spec.depth, spec.width) or counters.dtype != np.int64:
            raise ValueError(f"counters must be int64 of shape {(spec.depth, spec.width)}")
        if len(privacy.sigma_squared_per_level) != 1:
            raise ValueError("a flat sketch has one level of noise")
        self._spec = spec
        self._counters = counters.copy()
        self._counters.flags.writeable = False
        self._privacy = privacy

    @property
    def spec(self) -> SketchSpec:
        """The shape and the hash functions."""
        return self._spec

    @property
    def counters(self) -> np.ndarray:
        """The noisy counters, int64 of shape (depth, width), read-only."""
        return self._counters

    @property
    def privacy(self) -> PrivacyStatement:
        """What is protected and how well; `print` it."""
        return self._privacy

    @abstractmethod
    def estimate(self, items: Iterable[Any]) -> np.ndarray:
        """The estimated total weight of each item, float64 of shape (n,)."""

    def interval(self, items: Iterable[Any], confidence: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper bounds, covering noise and collisions, for the true total weight of each item.

        Each item's bounds hold with the given confidence, over the noise and the seed.
        """
        _validate.open_unit_interval(confidence=confidence)
        _, lower, upper = self._answers(self._keys(items), confidence)
        return lower, upper

    def top_k(self, candidates: Iterable[Any], k: int, confidence: float = 0.95) -> list[Frequency]:
        """The k candidates of largest estimate, largest first, equal ones in the order given.

        The candidate list must be public: candidates taken from the data would publish them. All are returned if
        fewer than k; repeated ones count once.
        """
        _validate.whole(low=1, high=1 << 31, k=k)
        frequencies = self._frequencies(list(dict.fromkeys(_listed(candidates))), confidence)
        return sorted(frequencies, key=lambda frequency: -frequency.estimate)[:k]

    def as_rows(self, items: Iterable[Any], confidence: float = 0.95) -> list[dict[str, Any]]:
        """One plain dict per item with the fields item, estimate, lower and upper, for any sink."""
        return [frequency._asdict() for frequency in self._frequencies(_listed(items), confidence)]

    def combine(self: Self, other: ReleasedSketch, *, units_disjoint: bool = False) -> Self:
        """The release of both inputs together: counters and sigma^2 add, and rho adds.

        Args:
          other: a release of the same kind and spec, with the same relation and unit.
          units_disjoint: the caller's promise that no privacy unit is in both; then rho is the maximum.
        """
        if type(self) is not type(other) or self._spec != other._spec:
            raise IncompatibleSketchError(
                f"only releases of one kind and spec can be combined: {self!r} and {other!r} differ"
            )
        statement = self._privacy.composed(other._privacy, units_disjoint=units_disjoint)
        return type(self)(self._spec, self._counters + other._counters, statement)

    def to_bytes(self) -> bytes:
        """The release in the package's versioned format, readable by every later version."""
        return wire.pack(self.name, self._spec, self._counters, self._privacy)

    @staticmethod
    def from_bytes(data: bytes) -> ReleasedSketch:
        """The release that `to_bytes` wrote; raises `FormatError`, and nothing else, for any other bytes."""
        name, spec, counters, privacy = wire.unpack(data)
        try:
            return _KINDS[name](spec, counters.reshape(spec.depth, spec.width), privacy)
        except ValueError as error:
            raise FormatError(f"not a release: {error}") from None

    def __reduce__(self) -> tuple[Any, ...]:
        return ReleasedSketch.from_bytes, (self.to_bytes(),)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ReleasedSketch) and self.to_bytes() == other.to_bytes()

    def __hash__(self) -> int:
        return hash(self._privacy.release_ids)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._spec}, rho={float(self._privacy.rho):g}>"

    def _keys(self, items: Iterable[Any]) -> np.ndarray:
        return fingerprints(items, item_hash=self._spec.item_hash, item_key=self._spec.item_key)

    def _frequencies(self, items: list[Any], confidence: float) -> list[Frequency]:
        _validate.open_unit_interval(confidence=confidence)
        answers = self._answers(self._keys(items), confidence)
        return [Frequency(*row) for row in zip(items, *(values.tolist() for values in answers), strict=True)]

    @abstractmethod
    def _answers(self, keys: np.ndarray, confidence: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Estimate, lower and upper bound of each key, float64 of shape (n,)."""


def _listed(items: Iterable[Any]) -> list[Any]:
    """Any iterable, numpy or pyarrow array as a list of plain Python items."""
    if isinstance(items, np.ndarray):
        return items.tolist()
    return items.to_pylist() if isinstance(items, (pa.Array, pa.ChunkedArray)) else list(items)
