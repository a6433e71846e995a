"""Released sketches: noisy, public, immutable. They answer without limit, at no further privacy cost.

Guarantee: everything a released sketch says is post-processing of noisy counters, so the privacy statement it
carries covers every answer. It cannot accumulate; `combine` adds two releases and composes their statements.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, TypeVar, overload

import numpy as np

from beam_dpsketch import _validate
from beam_dpsketch.errors import FormatError, IncompatibleSketchError
from beam_dpsketch.hashing.fingerprints import fingerprints
from beam_dpsketch.release.answers import Frequencies, Frequency, Many, One, as_asked, as_many
from beam_dpsketch.release.format import release_format
from beam_dpsketch.release.html import html_table
from beam_dpsketch.release.statement import PrivacyStatement
from beam_dpsketch.sketches import RawSketch, raw_type

Self = TypeVar("Self", bound="ReleasedSketch")

KINDS: dict[str, type[ReleasedSketch]] = {}
"""Classes by the name of their kind; a class that is defined enters itself."""


class ReleasedSketch(ABC):
    """A private release of a sketch. Made by `release()`, `from_bytes()` or a transform, not by hand.

    All answers are about the records that bounding kept. Methods take one item or many: one gives a single value or
    row, many give an array or a sequence of rows. Put an item that is a tuple into a list.
    """

    name: ClassVar[str]
    raw_type: ClassVar[type[RawSketch]]

    def __init_subclass__(cls) -> None:
        if hasattr(cls, "name"):
            KINDS[cls.name] = cls

    def __init__(self, spec: Any, counters: np.ndarray, privacy: PrivacyStatement) -> None:
        _validate.instance(self.raw_type.spec_type, spec=spec)
        if raw_type(spec) is not self.raw_type:
            raise ValueError(f'spec must be of kind="{self.name}", got kind="{spec.kind}"')
        if counters.size != spec.cells or counters.dtype != np.int64:
            raise ValueError(f"counters must be {spec.cells} of type int64")
        if len(privacy.sigma_squared_per_level) != len(self.raw_type.tables(spec)):
            raise ValueError("sigma_squared_per_level must have one value for each level of the sketch")
        self._spec, self._counters, self._privacy = spec, counters.copy(), privacy
        self._counters.flags.writeable = False

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

    @overload
    def estimate(self, items: One) -> float: ...
    @overload
    def estimate(self, items: Many) -> np.ndarray: ...
    def estimate(self, items: Any) -> Any:
        """Return the estimated total weight of each item: float64 of shape (n,), or a float for a single item."""
        items, single = as_many(items)
        return as_asked(self._estimates(items), single)

    @overload
    def interval(self, items: One, confidence: float = ...) -> Frequency: ...
    @overload
    def interval(self, items: Many, confidence: float = ...) -> Frequencies: ...
    def interval(self, items: Any, confidence: float = 0.95) -> Any:
        """Return each item's estimate with bounds for its true total weight, over the records that bounding kept.

        The bounds cover noise and collisions. They do not cover what `RecordBounds` dropped or clamped, so where
        records are dropped, the total in the raw data may lie far outside. Each item's bounds hold with the given
        confidence, over the noise and the seed, for that item alone; see `top_k` for lists.
        """
        items, single = as_many(items)
        return as_asked(self._frequencies(items, confidence), single)

    def as_rows(self, items: One | Many, confidence: float = 0.95) -> list[dict[str, Any]]:
        """Return one plain dict per item with the fields item, estimate, lower and upper, for any sink."""
        return self._frequencies(as_many(items)[0], confidence).to_rows()

    def top_k(self, k: int, candidates: Many | None = None, confidence: float = 0.95) -> Frequencies:
        """Return the k items of largest estimate, largest first; fewer if fewer were given or found.

        Each interval holds at the given confidence for an item chosen before asking. A list of the largest estimates
        prefers items that the noise raised. Where many items have nearly equal weights, fewer of its intervals hold.
        For intervals that hold for all m candidates together, and so for any list of them, divide what may fail:
        ``confidence=1 - 0.05 / m``. Without candidates, m is at most the size of the domain.

        Args:
          k: the number of items, 1 to 2**31.
          candidates: the items to choose from; equal estimates keep their order, and repeated items count once. They
            must be public: candidates taken from the data would publish them. A tree searches by itself where they
            are `None`, and lists what exceeds the noise threshold. A flat sketch needs them.
          confidence: of each interval, in (0, 1).
        """
        _validate.whole(low=1, high=1 << 31, k=k)
        if candidates is None:
            return self._search(confidence)[:k]
        return self._frequencies(as_many(candidates)[0], confidence).largest(k)

    @abstractmethod
    def _estimates(self, items: Any) -> np.ndarray:
        """Return the estimates of an array, a column or a list of items."""

    @abstractmethod
    def _frequencies(self, items: Any, confidence: float) -> Frequencies:
        """Return the estimates and bounds of an array, a column or a list of items."""

    @abstractmethod
    def _search(self, confidence: float) -> Frequencies:
        """Return the items that exceed the noise threshold, largest first; raise where a sketch cannot search."""

    def combine(self: Self, other: ReleasedSketch, *, units_disjoint: bool = False) -> Self:
        """Return the release of both inputs together: counters and sigma^2 add, and so does rho.

        rho stays if both are different releases of one run of a `PerKey` transform or of one in windows, because the
        noise of each was drawn for what a unit can change in all of them. On unbounded input this holds only with
        idempotent noise; otherwise each release there is a run of its own.

        Args:
          other: a release of the same kind and spec, with the same relation and unit.
          units_disjoint: the caller's promise that no privacy unit is in both; then rho is the maximum.
        """
        self._check_same_kind(other)
        privacy = self._privacy.composed(other._privacy, units_disjoint=units_disjoint)
        return type(self)(self._spec, self._counters + other._counters, privacy)

    def combine_within_horizon(self: Self, other: ReleasedSketch) -> Self:
        """Return the release of two nodes of one tree over time together: counters and sigma^2 add, and rho stays.

        `SketchTimeline` combines this way. Nodes of another run are refused. A pipeline that is built once and run
        twice gives both runs one id: there, keep their nodes apart yourself.
        """
        self._check_same_kind(other)
        privacy = self._privacy.within_horizon(other._privacy)
        return type(self)(self._spec, self._counters + other._counters, privacy)

    def _check_same_kind(self, other: ReleasedSketch) -> None:
        differing = ["kind"]
        if type(self) is type(other):
            differing = [name for name, value in vars(self._spec).items() if value != getattr(other._spec, name)]
        if differing:
            raise IncompatibleSketchError(
                f"only releases of one kind and spec can be combined; these differ in {', '.join(differing)}"
            )

    def to_bytes(self) -> bytes:
        """Return the release in the package's versioned format, which every later version can read."""
        return release_format.pack(self.name, self._spec, self._counters, self._privacy)

    @classmethod
    def from_bytes(cls: type[Self], data: bytes) -> Self:
        """Return the release that `to_bytes` wrote, of this class.

        Raises `FormatError`, and nothing else, for any other bytes. `ReleasedSketch.from_bytes` reads every kind.
        """
        name, spec, counters, privacy = release_format.unpack(data)
        kind = KINDS[name]
        if not issubclass(kind, cls):
            raise FormatError(f"not a {cls.__name__} but a {kind.__name__}; ReleasedSketch.from_bytes reads every kind")
        try:
            return kind(spec, counters, privacy)
        except ValueError as error:
            raise FormatError(f"not a release: {error}") from None

    def __reduce__(self) -> tuple[Any, ...]:
        return ReleasedSketch.from_bytes, (self.to_bytes(),)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ReleasedSketch) and self.to_bytes() == other.to_bytes()

    def __hash__(self) -> int:
        return hash(self._privacy.release_ids)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._size}, rho={float(self._privacy.rho):g}>"

    def _repr_html_(self) -> str:
        return html_table([("size", self._size), ("privacy", self._privacy)], caption=type(self).__name__)

    @property
    @abstractmethod
    def _size(self) -> str:
        """The shape in a few words."""


class ReleasedFrequencies(ReleasedSketch):
    """A released flat sketch: how often any item occurred. It stores no items, so `top_k` needs `candidates`."""

    def __init__(self, spec: Any, counters: np.ndarray, privacy: PrivacyStatement) -> None:
        super().__init__(spec, counters, privacy)
        self._counters = self._counters.reshape(spec.depth, spec.width)

    @property
    def _size(self) -> str:
        return f"{self._spec.depth} x {self._spec.width} counters"

    def _keys(self, items: Any) -> np.ndarray:
        return fingerprints(items, item_hash=self._spec.item_hash, item_key=self._spec.item_key)

    def _search(self, confidence: float) -> Frequencies:
        raise ValueError(
            "candidates must be given: a flat sketch stores no items; PrivateTopK makes releases that find them"
        )
