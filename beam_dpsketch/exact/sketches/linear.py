"""Base class of raw sketches: exact integer counters that accumulate and merge.

Guarantee: counters are a linear function of the input in 64-bit integers that wrap around, so any split, order and
grouping of the input gives bit-identical counters, and inserting then deleting gives zeros. Raw sketches have no
estimates and no published bytes, which require noise from `beam_dpsketch.noise`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa

from beam_dpsketch import checks as _validate
from beam_dpsketch.columns import plain_column
from beam_dpsketch.errors import ArgumentError, ArgumentTypeError, IncompatibleSketchError
from beam_dpsketch.exact.hashing.lookup import count_duplicate_numbers, count_duplicates

Self = TypeVar("Self", bound="RawSketch")


class Table(NamedTuple):
    """Properties of a table of counters that determine its noise.

    Attributes:
      cells_per_item: number of counters of the table that an item changes.
      has_signs: whether an item may count negatively in a counter.
      share: budget share of the table. The shares of a sketch sum to 1.
      squared_amount: square of the largest change by an item of weight 1, in a counter, or in length over all released
        counters. Noise is in units of its root.
      dropped_bits: number of low bits that are rounded off after the noise and omitted from releases. Noise dominates
        them.
    """

    cells_per_item: int
    has_signs: bool
    share: Fraction
    squared_amount: int = 1
    dropped_bits: int = 0


class NormPart(NamedTuple):
    """Counters with a scaling factor of their own under a norm: one metric's, with their budget share."""

    kind: type[RawSketch]
    spec: Any
    share: Fraction = Fraction(1)

    @property
    def tables(self) -> int:
        return len(self.kind.tables(self.spec))


RAW_KINDS: dict[str, type[RawSketch]] = {}
"""Sketch classes by the name of their kind. A subclass registers itself."""


class RawSketch(ABC):
    """Exact counters in one or more tables, with their spec."""

    name: ClassVar[str]
    spec_type: ClassVar[type]
    amount_bits: ClassVar[int] = 0
    """Number of fraction bits in `amounts_of`, relative to the largest change by an item."""

    def __init_subclass__(cls) -> None:
        if "name" in vars(cls):
            RAW_KINDS[cls.name] = cls

    def __init__(self, spec: Any) -> None:
        _validate.instance(self.spec_type, spec=spec)
        self._spec: Any = spec
        self._weighted = False
        self._scale_bits = 0

    @property
    def spec(self) -> Any:
        """Spec of the sketch. Only sketches with equal specs can be merged."""
        return self._spec

    @property
    def is_weighted(self) -> bool:
        """Whether any weights were given, in which case a record may count for more than 1."""
        return self._weighted

    @property
    def scale_bits(self) -> int:
        """Fraction bits: counters count in units of 2**-scale_bits. 0, or the bits of norm bounding."""
        return self._scale_bits

    def in_units_of(self: Self, scale_bits: int) -> Self:
        """Set the unit of the counters to 2**-scale_bits, and return this sketch."""
        self._scale_bits = scale_bits
        return self

    def accumulate(self: Self, items: Iterable[Any], weights: Iterable[int] | None = None) -> Self:
        """Add items (any iterable, numpy or pyarrow array) with whole-number weights (default 1). Negative deletes."""
        items = _validate.many(items=items)
        items = plain_column(items) if isinstance(items, pa.Array) else items
        if weights is None:
            items, counts = count_duplicates(items) if isinstance(items, list) else (items, None)
            keys, usable = self._own_keys(items)
            return self.accumulate_keys(keys[usable], None if counts is None else counts[usable])
        keys, usable = self._own_keys(items)
        self._weighted = True
        values = check_weights(weights)
        if len(values) != len(keys):
            raise ArgumentError("weights", "must have the same length as items", "E511")
        return self.accumulate_keys(keys[usable], values[usable])

    @classmethod
    def usable_keys(cls, spec: Any, items: Sequence[Any] | pa.Array) -> tuple[np.ndarray, np.ndarray]:
        """Convert items to keys of `key_type`, and mark items that can be counted. By default, the domain reads items.

        The key of an item that cannot be counted is meaningless. Raises only for a column whose type can never be
        counted.
        """
        return spec.domain.index(items)

    @classmethod
    def key_type(cls, spec: Any) -> np.dtype[Any]:
        return np.dtype(np.uint64)

    @classmethod
    def counted(cls, spec: Any, items: list[Any] | pa.Array) -> tuple[np.ndarray, np.ndarray, int]:
        """Convert items to keys, often distinct, with int64 counts, and the number of items that count."""
        distinct, counts = count_duplicates(items)
        keys, usable = cls.usable_keys(spec, distinct)
        if not usable.all():
            keys, counts = keys[usable], None if counts is None else counts[usable]
        if counts is None and keys.dtype == np.uint64 and not isinstance(items, pa.Array):
            keys, counts = count_duplicate_numbers(keys)
        if counts is None:
            return keys, np.broadcast_to(np.int64(1), len(keys)), len(keys)
        return keys, counts, int(counts.sum())

    @classmethod
    def fewer(cls, spec: Any, keys: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Combine repeated keys if all weights are equal. The contributions do not change."""
        if keys.dtype == np.uint64 and len(weights) and weights.min() == weights.max():
            keys, counts = count_duplicate_numbers(keys)
            weights = weights if counts is None else counts * weights[0]
        return keys, weights

    @classmethod
    def any_counts(cls, spec: Any, keys: np.ndarray) -> bool:
        """Whether there are keys and, with several items, whether each is in some key."""
        return len(keys) > 0

    @classmethod
    @abstractmethod
    def tables(cls, spec: Any) -> tuple[Table, ...]:
        """List the tables of a sketch with this spec."""

    @classmethod
    def parts(cls, spec: Any) -> tuple[NormPart, ...]:
        """List the parts that a norm scales separately. Their tables, concatenated, are those of the sketch."""
        return (NormPart(cls, spec),)

    @classmethod
    def own(cls, spec: Any, place: int, keys: np.ndarray) -> np.ndarray:
        """Extract the keys for a part."""
        return keys

    @classmethod
    def alone(cls, spec: Any, place: int, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Extract keys that contribute equally to one part and nothing to others, and mark contributing keys."""
        return keys, np.ones(len(keys), dtype=bool)

    @classmethod
    def cells_of(cls, spec: Any, keys: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
        """Yield, for each row of each table, the number of the table and the cell of each key, int64.

        The rows of a table are consecutive. A sketch with several parts delegates this to its parts.
        """
        raise NotImplementedError

    @classmethod
    def amounts_of(cls, spec: Any, keys: np.ndarray) -> np.ndarray | None:
        """Compute each key's unsigned change of each cell in `cells_of`, int64. `None` if all changes are the largest.

        Amounts are rounded up, in units of 2**-amount_bits times the largest change by a key.
        """
        return None

    @abstractmethod
    def accumulate_keys(self: Self, keys: np.ndarray, weights: np.ndarray | None) -> Self:
        """Add items given by their keys, with int64 weights."""

    @classmethod
    def count_many(cls, spec: Any, keys: np.ndarray, weights: np.ndarray, places: np.ndarray, count: int) -> np.ndarray:
        """Count several sketches at once, int64, shape (count, cells).

        Each key counts with its int64 weight in the sketch at its place.
        """
        counters, order = np.zeros((count, spec.cells), dtype=np.int64), np.argsort(places, kind="stable")
        ends = np.cumsum(np.bincount(places, minlength=count)).tolist()
        for counted, start, end in zip(counters, [0, *ends[:-1]], ends, strict=False):
            if end > start:
                own = order[start:end]
                counted[:] = cls(spec).accumulate_keys(keys[own], weights[own]).to_vector()
        return counters

    def merge(self: Self, other: RawSketch) -> Self:
        """Add the counters of another sketch with the same kind and spec to this one."""
        if (type(self), self._spec, self._scale_bits) != (type(other), other._spec, other._scale_bits):
            raise IncompatibleSketchError(
                f"Only sketches with the same kind, spec and scale can be merged, got {self!r} and {other!r}"
            )
        for mine, others in zip(self.counter_tables(), other.counter_tables(), strict=True):
            mine += others
        self._weighted |= other._weighted
        return self

    def to_vector(self) -> np.ndarray:
        """Copy all counters, int64, shape (spec.cells,)."""
        return np.concatenate([counters.ravel() for counters in self.counter_tables()])

    @classmethod
    def from_vector(cls: type[Self], spec: Any, vector: np.ndarray) -> Self:
        """Create a raw sketch from counters in units of 1."""
        sketch = cls(spec)
        start = 0
        for counters in sketch.counter_tables():
            counters[...] = vector[start : start + counters.size].reshape(counters.shape)
            start += counters.size
        return sketch

    @abstractmethod
    def counter_tables(self) -> Sequence[np.ndarray]:
        """List the counters of each table, as arrays that may be changed in place."""

    def tables_to_release(self, grid_bits: int) -> Sequence[np.ndarray]:
        """Compute the exact numbers that receive noise: counters or rows. The caller shifts them by `grid_bits`."""
        return self.counter_tables()

    @classmethod
    def many_to_release(cls, spec: Any, counters: np.ndarray, grid_bits: int) -> Sequence[np.ndarray]:
        """Compute `tables_to_release` for several sketches at once: a row in each table for each sketch."""
        released = [cls.from_vector(spec, each).tables_to_release(grid_bits) for each in counters]
        return [np.stack(table) for table in zip(*released, strict=True)]

    def _own_keys(self, items: Any) -> tuple[np.ndarray, Any]:
        """Convert items from `accumulate` to keys, and select the ones to add."""
        return self.usable_keys(self._spec, items)

    def __eq__(self, other: object) -> bool:
        return (
            type(self) is type(other)
            and isinstance(other, RawSketch)
            and (self._spec, self._scale_bits) == (other._spec, other._scale_bits)
            and bool(np.array_equal(self.to_vector(), other.to_vector()))
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<raw {type(self).__name__} of {self._spec}, counters hidden>"


def read_only(counters: np.ndarray) -> np.ndarray:
    """Create a read-only view."""
    view = counters.view()
    view.flags.writeable = False
    return view


def check_weights(weights: Iterable[int]) -> np.ndarray:
    """Convert weights to int64. Raise if they are floats, bools or outside 64 bits, without showing them."""
    if isinstance(weights, (pa.Array, pa.ChunkedArray)):
        weights = weights.to_numpy(zero_copy_only=False) if isinstance(weights, pa.Array) else weights.to_numpy()
    if not isinstance(weights, np.ndarray):
        weights = list(weights)
        if not all(isinstance(weight, (int, np.integer)) and not isinstance(weight, bool) for weight in weights):
            raise ArgumentTypeError("weights", "must be whole numbers", "E511")
        if not all(-(1 << 63) <= weight < 1 << 63 for weight in weights):
            raise ArgumentError("weights", "must be at least -2**63 and less than 2**63", "E511")
        return np.array(weights, dtype=np.int64)
    if weights.ndim != 1 or weights.dtype.kind not in "iu":
        raise ArgumentTypeError(
            "weights", f"must be a flat array of integers, got {weights.dtype} in {weights.ndim} dimensions", "E511"
        )
    if weights.dtype == np.uint64 and len(weights) and weights.max() >> np.uint64(63):
        raise ArgumentError("weights", "must be at least -2**63 and less than 2**63", "E511")
    return weights.astype(np.int64)
