"""Several sketches of the same records as one: each record goes into all sketches, with one weight.

The item of a record is a tuple with an item for each sketch, and its key contains the keys of all items. If an item
cannot be counted, because it is null, for example, its sketch ignores the record, and the other sketches count it.

Guarantee: each sketch has the same counters as it would have alone, from the same records and weights. The tables of
all sketches are the tables of the whole, with the budget share of their sketch. Therefore, one bound applies to all of
them together. Each sketch is a part with its own scaling factor under an L2 norm.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa

from beam_dpsketch.encodings import named
from beam_dpsketch.errors import ArgumentError
from beam_dpsketch.exact.sketches import RawSketch, raw_type
from beam_dpsketch.exact.sketches.linear import NormPart, Table
from beam_dpsketch.exact.sketches.spec import Spec

MAX_METRICS, MAX_NAME = 64, 64
_NAME = re.compile(r"[^\W\d]\w{0,63}", re.ASCII)
_MISSING, _PRESENT, _END = 1, 2, 1  # nonzero bytes, because numpy strips trailing zeros


class MetricPart(NamedTuple):
    """One of several sketches: its name, its spec, and its budget share. Shares sum to 1."""

    name: str
    spec: Spec
    share: Fraction

    @property
    def kind(self) -> type[RawSketch]:
        return raw_type(self.spec)

    @property
    def tables(self) -> int:
        return len(self.kind.tables(self.spec))


@named("MetricsSpec")
@dataclasses.dataclass(frozen=True)
class MetricsSpec(Spec):
    """Sketches that count the same records.

    Args:
      parts: 1 to 64, with distinct names.
    """

    kind: ClassVar[str] = "metrics"
    domain: ClassVar[None] = None  # type: ignore[misc]
    parts: tuple[MetricPart, ...]

    def __post_init__(self) -> None:
        names = [part.name for part in self.parts]
        if not 1 <= len(names) <= MAX_METRICS or len({*names}) < len(names):
            raise ArgumentError("metrics", f"must contain 1 to {MAX_METRICS} metrics with distinct names", "E513")
        for name in names:
            if not isinstance(name, str) or not _NAME.fullmatch(name):
                raise ArgumentError(
                    "metrics",
                    "must have names with 1 to 64 letters, digits and underscores that do not begin with a digit",
                    "E513",
                )
        if any(part.spec.kind in (self.kind, "groups") for part in self.parts):
            words = "must not contain metrics or thresholded counts. Use a separate $top_k for text or bytes"
            raise ArgumentError("metrics", words, "E513")
        if sum(part.spec.counts_privacy_ids for part in self.parts) > (len(self.parts) > 1):
            words = "must have at most one count of privacy ids, next to another metric, such as a count of records"
            raise ArgumentError("metrics", words, "E513")
        if any(part.share <= 0 for part in self.parts) or sum(part.share for part in self.parts) != 1:
            raise ArgumentError(
                "metrics", "must have positive shares that sum to 1, such as 1/2, 1/4 and 1/4, or no shares", "E513"
            )

    @functools.cached_property
    def counted(self) -> tuple[MetricPart, ...]:
        """Parts with counters. Their shares sum to 1 without the share that pays for privacy ids."""
        found = [part for part in self.parts if not part.spec.counts_privacy_ids]
        left = sum(part.share for part in found)
        return tuple(part._replace(share=part.share / left) for part in found)

    @property
    def cells(self) -> int:
        return sum(part.spec.cells for part in self.counted)

    @property
    def takes_laplace(self) -> bool:  # type: ignore[override]
        return all(part.spec.takes_laplace for part in self.counted)

    @property
    def fields(self) -> Mapping[str, Spec]:
        return {argument_of(part.name): part.spec for part in self.counted}

    @property
    def leading(self) -> tuple[Spec, Fraction]:
        largest = max(self.counted, key=lambda part: part.share)
        return largest.spec, largest.share

    def describe(self) -> str:
        return ", ".join(part.name for part in self.parts)

    @functools.cached_property
    def places(self) -> tuple[tuple[np.uint64, np.uint64], ...]:
        """First bit and largest value of each part's key, if all keys fit into 64 bits. Otherwise empty.

        Part keys are stored plus 1, and 0 means that there is none.
        """
        found, first = [], 0
        for part in self.counted:
            if (bits := part.spec.key_range.bit_length()) > 64 - first:
                return ()
            found.append((np.uint64(first), np.uint64((1 << bits) - 1)))
            first += bits
        return tuple(found)

    @property
    def fields_of_bytes(self) -> np.dtype[Any]:
        """Fields of a key's bytes, if keys do not fit into 64 bits."""
        each = ([(f"has {place}", "u1"), (f"key {place}", "<u8")] for place in range(len(self.counted)))
        return np.dtype([*itertools.chain.from_iterable(each), ("end", "u1")])

    @property
    def key_type(self) -> np.dtype[Any]:
        return np.dtype(np.uint64) if self.places else np.dtype(f"S{self.fields_of_bytes.itemsize}")

    def joined(self, keys: Sequence[np.ndarray], usable: Sequence[np.ndarray]) -> np.ndarray:
        """Combine the keys of all parts, given the records with a usable item in each."""
        if self.places:
            total = np.zeros(len(keys[0]), dtype=np.uint64)
            for (first, _), each, has in zip(self.places, keys, usable, strict=True):
                total |= np.where(has, each + np.uint64(1), np.uint64(0)) << first
            return total
        made = np.zeros(len(keys[0]), dtype=self.fields_of_bytes)
        for place, (each, has) in enumerate(zip(keys, usable, strict=True)):
            made[f"has {place}"] = np.where(has, _PRESENT, _MISSING)
            made[f"key {place}"] = np.where(has, each, np.uint64(0))
        made["end"] = _END
        return made.view(self.key_type)

    def alone(self, place: int, keys: np.ndarray) -> np.ndarray:
        """Create keys for records with an item in a single part."""
        numbers, nothing = range(len(self.counted)), np.zeros(len(keys), np.uint64)
        each = [keys if number == place else nothing for number in numbers]
        return self.joined(each, [np.broadcast_to(number == place, len(keys)) for number in numbers])

    def apart(self, keys: Sequence[np.ndarray], weights: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Concatenate keys and weights, part by part, for records with a single item."""
        return np.concatenate([self.alone(place, each) for place, each in enumerate(keys)]), np.concatenate(weights)

    def split(self, keys: np.ndarray) -> Iterator[tuple[MetricPart, np.ndarray, np.ndarray]]:
        """Yield each part with its keys, and mark records with an item."""
        for place, part in enumerate(self.counted):
            yield part, *self.of_part(place, keys)

    def of_part(self, place: int, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Extract the keys for a part, and mark records with an item."""
        if self.places:
            first, largest = self.places[place]
            own = keys >> first & largest
            return np.maximum(own, np.uint64(1)) - np.uint64(1), own > 0
        fields = np.ascontiguousarray(keys.astype(self.key_type, copy=False)).view(self.fields_of_bytes)
        return fields[f"key {place}"].astype(np.uint64), fields[f"has {place}"] == _PRESENT


def argument_of(name: str) -> str:
    """Name a metric's item in messages."""
    return f"metrics.{name}.item"


class JoinedSketches(RawSketch):
    """Raw sketches of the same records."""

    name = "metrics"
    spec_type = MetricsSpec

    def __init__(self, spec: MetricsSpec) -> None:
        super().__init__(spec)
        self._sketches = [part.kind(part.spec) for part in spec.counted]

    @classmethod
    def key_type(cls, spec: MetricsSpec) -> np.dtype[Any]:
        return spec.key_type

    @classmethod
    def usable_keys(cls, spec: MetricsSpec, items: Sequence[Any] | pa.Array) -> tuple[np.ndarray, np.ndarray]:
        found = [part.kind.usable_keys(part.spec, column) for part, column in cls._columns(spec, items)]
        keys, usable = zip(*found, strict=True)
        usable = [np.broadcast_to(each, len(key)) for key, each in zip(keys, usable, strict=True)]
        return spec.joined(keys, usable), np.logical_or.reduce(usable)

    @classmethod
    def counted(cls, spec: MetricsSpec, items: list[Any] | pa.Array) -> tuple[np.ndarray, np.ndarray, int]:
        found = [part.kind.counted(part.spec, column) for part, column in cls._columns(spec, items)]
        total = max(total for *_, total in found)
        if total < len(items):  # some records may have items of other metrics only
            total = int(cls.usable_keys(spec, items)[1].sum())
        return *spec.apart([keys for keys, *_ in found], [counts for _, counts, _ in found]), total

    @classmethod
    def fewer(cls, spec: MetricsSpec, keys: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Split records into one record per item, if this leaves fewer records."""
        if not len(weights) or weights.min() < weights.max():
            return keys, weights
        alone = [part.kind.fewer(part.spec, own[has], weights[has]) for part, own, has in spec.split(keys)]
        if sum(len(own) for own, _ in alone) >= len(keys):
            return keys, weights
        return spec.apart([own for own, _ in alone], [counts for _, counts in alone])

    @classmethod
    def any_counts(cls, spec: MetricsSpec, keys: np.ndarray) -> bool:
        return all(has.any() for _, _, has in spec.split(keys))

    @classmethod
    def tables(cls, spec: MetricsSpec) -> tuple[Table, ...]:
        return tuple(
            table._replace(share=part.share * table.share)
            for part in spec.counted
            for table in part.kind.tables(part.spec)
        )

    @classmethod
    def parts(cls, spec: MetricsSpec) -> tuple[NormPart, ...]:
        return tuple(NormPart(part.kind, part.spec, part.share) for part in spec.counted)

    @classmethod
    def own(cls, spec: MetricsSpec, place: int, keys: np.ndarray) -> np.ndarray:
        return spec.of_part(place, keys)[0]

    @classmethod
    def alone(cls, spec: MetricsSpec, place: int, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        own, has = spec.of_part(place, keys)
        return spec.alone(place, own), has

    def accumulate_keys(self, keys: np.ndarray, weights: np.ndarray | None) -> JoinedSketches:
        for sketch, (_, own, has) in zip(self._sketches, self._spec.split(keys), strict=True):
            everywhere = bool(has.all())
            sketch.accumulate_keys(
                own if everywhere else own[has], weights if weights is None or everywhere else weights[has]
            )
        return self

    def counter_tables(self) -> Sequence[np.ndarray]:
        return [table for sketch in self._sketches for table in sketch.counter_tables()]

    def tables_to_release(self, grid_bits: int) -> Sequence[np.ndarray]:
        return [table for sketch in self._sketches for table in sketch.tables_to_release(grid_bits)]

    @staticmethod
    def _columns(spec: MetricsSpec, items: Sequence[Any] | pa.Array) -> Iterator[tuple[MetricPart, Any]]:
        """Yield each part with its item column."""
        if isinstance(items, pa.StructArray):
            columns: list[Any] = items.flatten()
        else:
            columns = [*map(list, zip(*items, strict=True))] or [[] for _ in spec.counted]
        yield from zip(spec.counted, columns, strict=True)
