"""Released sketches: noisy, public, immutable; they answer for ever at no further privacy cost.

Guarantee: everything a released sketch says is post-processing of noisy counters, so the privacy statement it
carries covers every answer. It cannot accumulate; `combine` adds two releases and composes their statements.
"""

from __future__ import annotations

from abc import ABC
from typing import Any, ClassVar, TypeVar

import numpy as np

from beam_dpsketch import _validate
from beam_dpsketch.errors import FormatError, IncompatibleSketchError
from beam_dpsketch.release.format import release_format
from beam_dpsketch.release.statement import PrivacyStatement
from beam_dpsketch.sketches import RawSketch

Self = TypeVar("Self", bound="ReleasedSketch")

_KINDS: dict[str, type[ReleasedSketch]] = {}


class ReleasedSketch(ABC):
    """A private release of a sketch. Made by `release()`, `from_bytes()` or a transform, not by hand."""

    name: ClassVar[str]
    raw_type: ClassVar[type[RawSketch]]

    def __init_subclass__(cls) -> None:
        if hasattr(cls, "name"):
            _KINDS[cls.name] = cls

    def __init__(self, spec: Any, counters: np.ndarray, privacy: PrivacyStatement) -> None:
        _validate.instance(self.raw_type.spec_type, spec=spec)
        if counters.size != spec.cells or counters.dtype != np.int64:
            raise ValueError(f"counters must be {spec.cells} of type int64")
        if len(privacy.sigma_squared_per_level) != len(self.raw_type.tables(spec)):
            raise ValueError("sigma_squared_per_level must have one value for each level of the sketch")
        self._spec = spec
        self._counters = counters.copy()
        self._counters.flags.writeable = False
        self._privacy = privacy

    @property
    def spec(self) -> Any:
        """The shape and the hash functions."""
        return self._spec

    @property
    def counters(self) -> np.ndarray:
        """The noisy counters, int64, read-only; of shape (depth, width) for flat sketches, else (spec.cells,)."""
        return self._counters

    @property
    def privacy(self) -> PrivacyStatement:
        """What is protected and how well; `print` it."""
        return self._privacy

    def combine(self: Self, other: ReleasedSketch, *, units_disjoint: bool = False) -> Self:
        """The release of both inputs together: counters and sigma^2 add, and so does rho.

        rho stays if both are different releases of one run of a `PerKey` transform or of one in windows, because the
        noise of each was drawn for what a unit can change in all of them. On unbounded input, only with idempotent
        noise: there each release is a run of its own otherwise.

        Args:
          other: a release of the same kind and spec, with the same relation and unit.
          units_disjoint: the caller's promise that no privacy unit is in both; then rho is the maximum.
        """
        self._check_same_kind(other)
        return self._sum(other, self._privacy.composed(other._privacy, units_disjoint=units_disjoint))

    def combine_within_horizon(self: Self, other: ReleasedSketch) -> Self:
        """The release of two nodes of one tree over time together: counters and sigma^2 add, and rho stays.

        Nodes of another run are refused. A pipeline that is built once and run twice gives both runs one id; keeping
        their nodes apart is up to the caller. `SketchTimeline` combines this way. The rho of each is already that of
        all nodes of the horizon together, so that it neither adds nor is a maximum.
        """
        self._check_same_kind(other)
        return self._sum(other, self._privacy.within_horizon(other._privacy))

    def _sum(self: Self, other: ReleasedSketch, statement: PrivacyStatement) -> Self:
        return type(self)(self._spec, self._counters + other._counters, statement)

    def _check_same_kind(self, other: ReleasedSketch) -> None:
        if type(self) is not type(other) or self._spec != other._spec:
            raise IncompatibleSketchError(
                f"only releases of one kind and spec can be combined: {self!r} and {other!r} differ"
            )

    def to_bytes(self) -> bytes:
        """The release in the package's versioned format, readable by every later version."""
        return release_format.pack(self.name, self._spec, self._counters, self._privacy)

    @staticmethod
    def from_bytes(data: bytes) -> ReleasedSketch:
        """The release that `to_bytes` wrote; raises `FormatError`, and nothing else, for any other bytes."""
        name, spec, counters, privacy = release_format.unpack(data)
        try:
            return _KINDS[name](spec, counters, privacy)
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
