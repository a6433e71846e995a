"""What every raw sketch shares: exact integer counters that accumulate and merge, and nothing else.

Guarantee: counters are a linear function of the input in 64-bit integers that wrap around, so any split, order
and grouping of the input gives bit-identical counters, and inserting then deleting gives zeros. A raw sketch has
no estimate and no published bytes: those belong to what `beam_dpsketch.noise` makes of it.
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
    """What the privacy side needs to know of one table of counters, and nothing more.

    Attributes:
      cells_per_item: how many counters of the table one item changes.
      has_signs: whether an item may count negatively in a counter.
      share: the part of rho for this table; the shares of a sketch sum to 1.
      squared_amount: the square of the most that an item of weight 1 adds to a counter, or in length to all that are
        released; noise is in units of its root.
      dropped_bits: how many low bits are rounded off after the noise, which drowns them; a release leaves them out.
    """

    cells_per_item: int
    has_signs: bool
    share: Fraction
    squared_amount: int = 1
    dropped_bits: int = 0


class NormPart(NamedTuple):
    """Counters that a norm scales by a factor of their own: those of one metric; with their part of rho."""

    kind: type[RawSketch]
    spec: Any
    share: Fraction = Fraction(1)

    @property
    def tables(self) -> int:
        return len(self.kind.tables(self.spec))


RAW_KINDS: dict[str, type[RawSketch]] = {}
"""Classes by the name of their kind; a class that is defined enters itself."""


class RawSketch(ABC):
    """Exact counters in one or more tables, and what they were made with."""

    name: ClassVar[str]
    spec_type: ClassVar[type]
    amount_bits: ClassVar[int] = 0
    """In units of how many bits of what an item adds at most it says what it adds to a table."""

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
        """What this sketch must share with another to be merged."""
        return self._spec

    @property
    def is_weighted(self) -> bool:
        """Whether any weights were given, so that one record may count for more than 1."""
        return self._weighted

    @property
    def scale_bits(self) -> int:
        """Counters count in units of 2**-scale_bits: 0, or what norm bounding scales weights by."""
        return self._scale_bits

    def in_units_of(self: Self, scale_bits: int) -> Self:
        """Say that counters count in units of 2**-scale_bits, and return this sketch."""
        self._scale_bits = scale_bits
        return self

    def accumulate(self: Self, items: Iterable[Any], weights: Iterable[int] | None = None) -> Self:
        """Add items (any iterable, numpy or pyarrow array) with whole-number weights (default 1); negative deletes."""
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
            raise ArgumentError("weights", f"must be as many as items, got {len(values)} for {len(keys)}", "E511")
        return self.accumulate_keys(keys[usable], values[usable])

    @classmethod
    @abstractmethod
    def usable_keys(cls, spec: Any, items: Sequence[Any] | pa.Array) -> tuple[np.ndarray, np.ndarray]:
        """Items as keys of `key_type`, all that a sketch needs to know of them, and which items could be counted.

        The key of an item that cannot be counted means nothing. Raises only for a column of a type that never can.
        """

    @classmethod
    def key_type(cls, spec: Any) -> np.dtype[Any]:
        return np.dtype(np.uint64)

    @classmethod
    def counted(cls, spec: Any, items: list[Any] | pa.Array) -> tuple[np.ndarray, np.ndarray, int]:
        """Return the keys of items, often each once, how often each occurs, int64, and how many items count."""
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
        """Return keys and weights that add the same: repeated keys once, if all weights are equal."""
        if keys.dtype == np.uint64 and len(weights) and weights.min() == weights.max():
            keys, counts = count_duplicate_numbers(keys)
            weights = weights if counts is None else counts * weights[0]
        return keys, weights

    @classmethod
    def any_counts(cls, spec: Any, keys: np.ndarray) -> bool:
        """Return whether there are keys; of several items, whether each is in some key."""
        return len(keys) > 0

    @classmethod
    @abstractmethod
    def tables(cls, spec: Any) -> tuple[Table, ...]:
        """Return the tables of a sketch with this spec."""

    @classmethod
    def parts(cls, spec: Any) -> tuple[NormPart, ...]:
        """Return the parts that a norm scales each for itself; their tables follow each other in those of the whole."""
        return (NormPart(cls, spec),)

    @classmethod
    def own(cls, spec: Any, place: int, keys: np.ndarray) -> np.ndarray:
        """Return the keys that a part counts, given those of the whole."""
        return keys

    @classmethod
    def alone(cls, spec: Any, place: int, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return keys of the whole that add the same to one part and nothing to others, and which keys add to it."""
        return keys, np.ones(len(keys), dtype=bool)

    @classmethod
    def cells_of(cls, spec: Any, keys: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
        """Yield, for each row of each table, the number of the table and the cell of each key, int64.

        The rows of a table follow each other. A sketch of several parts leaves this to them.
        """
        raise NotImplementedError

    @classmethod
    def amounts_of(cls, spec: Any, keys: np.ndarray) -> np.ndarray | None:
        """Return what each key adds to each cell of `cells_of` without its sign, int64; `None` if all add the most.

        It is rounded up, in units of 2**-amount_bits of the most that a key adds.
        """
        return None

    @abstractmethod
    def accumulate_keys(self: Self, keys: np.ndarray, weights: np.ndarray | None) -> Self:
        """Add items given by their keys, with int64 weights."""

    @classmethod
    def count_many(cls, spec: Any, keys: np.ndarray, weights: np.ndarray, places: np.ndarray, count: int) -> np.ndarray:
        """Return the counters of several sketches, int64 of shape (count, cells).

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
        """Add the counters of another sketch of the same kind and spec to this one."""
        if (type(self), self._spec, self._scale_bits) != (type(other), other._spec, other._scale_bits):
            raise IncompatibleSketchError(
                f"only sketches of one kind and spec, in one unit, can be merged: {self!r} and {other!r} differ"
            )
        for mine, others in zip(self.counter_tables(), other.counter_tables(), strict=True):
            mine += others
        self._weighted |= other._weighted
        return self

    def to_vector(self) -> np.ndarray:
        """Return a copy of all counters, int64 of shape (spec.cells,)."""
        return np.concatenate([counters.ravel() for counters in self.counter_tables()])

    @classmethod
    def from_vector(cls: type[Self], spec: Any, vector: np.ndarray) -> Self:
        """Return the raw sketch with these counters, in units of 1."""
        sketch = cls(spec)
        start = 0
        for counters in sketch.counter_tables():
            counters[...] = vector[start : start + counters.size].reshape(counters.shape)
            start += counters.size
        return sketch

    @abstractmethod
    def counter_tables(self) -> Sequence[np.ndarray]:
        """Return the counters of each table, as arrays that may be changed in place."""

    def tables_to_release(self, grid_bits: int) -> Sequence[np.ndarray]:
        """Return what gets noise, exactly: the counters, or what is made of them; it will be shifted by these bits."""
        return self.counter_tables()

    @classmethod
    def many_to_release(cls, spec: Any, counters: np.ndarray, grid_bits: int) -> Sequence[np.ndarray]:
        """Return what `tables_to_release` does, of several sketches at once: a row of each table for each row."""
        released = [cls.from_vector(spec, each).tables_to_release(grid_bits) for each in counters]
        return [np.stack(table) for table in zip(*released, strict=True)]

    @abstractmethod
    def _own_keys(self, items: Any) -> tuple[np.ndarray, Any]:
        """Keys of items given by hand, and which of them to add."""

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
    """Return a view through which nothing can be changed."""
    view = counters.view()
    view.flags.writeable = False
    return view


def check_weights(weights: Iterable[int]) -> np.ndarray:
    """Weights as int64; floats, bools and anything outside 64 bits are refused without being shown."""
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
            "weights", f"must be a one-dimensional array of integers, got {weights.dtype} of {weights.ndim}", "E511"
        )
    if weights.dtype == np.uint64 and len(weights) and weights.max() >> np.uint64(63):
        raise ArgumentError("weights", "must be at least -2**63 and less than 2**63", "E511")
    return weights.astype(np.int64)
