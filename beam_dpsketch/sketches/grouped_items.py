"""The items of grouped counts: values of a domain, each with one exact count of its own, kept by Beam.

Guarantee: an item adds its weight to its own count and to no other. Values outside the domain are clamped as trees
clamp them: numbers to its ends, text and bytes to their first max_bytes bytes.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from beam_dpsketch import _validate
from beam_dpsketch.domains.base import Domain, short_keys
from beam_dpsketch.domains.text import BytesDomain
from beam_dpsketch.errors import ArgumentError, ArgumentTypeError
from beam_dpsketch.hashing.encodings import join_parts, named, split_parts
from beam_dpsketch.sketches.linear import RawSketch, Table
from beam_dpsketch.sketches.spec import Spec


@named("GroupedItems")
@dataclasses.dataclass(frozen=True, repr=False)
class GroupedItems(Spec):
    """A domain, and the items of it that a release has.

    Args:
      domain: what items are read as.
      encoded_items: the items as `short_keys` gives them, each after its length as four bytes.
      left_out: in a combination, how many items were left out because only some of the releases have them, at most.
    """

    kind: ClassVar[str] = "groups"
    domain: Domain | BytesDomain
    encoded_items: bytes = b""
    left_out: int = 0

    def __post_init__(self) -> None:
        _validate.instance(Domain, BytesDomain, domain=self.domain)
        _validate.whole_fields(self, "left_out", low=0, high=(1 << 62) - 1)
        if not all(map(self.domain.is_short_key, self.short_keys)) or len(self.places) < len(self.short_keys):
            raise ArgumentError("items", "must be values of the domain, each listed once", "E509")
        if len(set(self.items) - {None}) < len(self.items):
            raise ArgumentError("items", "must be valid text of different spelling", "E509")

    @classmethod
    def of(cls, domain: Domain | BytesDomain, short_keys: Iterable[bytes], left_out: int = 0) -> GroupedItems:
        return cls(domain, join_parts(short_keys), left_out)

    @property
    def cells(self) -> int:
        return len(self.short_keys)

    @functools.cached_property
    def short_keys(self) -> tuple[bytes, ...]:
        return tuple(split_parts(self.encoded_items))

    @functools.cached_property
    def places(self) -> dict[bytes, int]:
        return {key: place for place, key in enumerate(self.short_keys)}

    @functools.cached_property
    def items(self) -> tuple[Any, ...]:
        """The items as plain Python values; those that are cut by their beginning."""
        return tuple(self.domain.from_short_keys(self.short_keys))

    def truncated(self, items: Sequence[Any]) -> frozenset[Any] | None:
        """Return which of these items are counted by their beginning; `None` where none can be."""
        if self.domain.is_ordered:
            return None
        keys = self.short_keys if items is self.items else short_keys(self.domain.index(items)[0].tolist())
        return frozenset(item for key, item in zip(keys, items, strict=True) if self.domain.is_cut(key))

    def find(self, items: Any) -> np.ndarray:
        """Return the place of each item, -1 if it is not there; raise for items that the domain cannot read."""
        keys, usable = self.domain.index(items)
        if not usable.all():
            raise ArgumentTypeError(
                "items", f"must be values that {type(self.domain).__name__} takes: {self.domain.takes}", "E615"
            )
        return np.array([self.places.get(key, -1) for key in short_keys(keys.tolist())], dtype=np.int64)

    def __repr__(self) -> str:
        return f"GroupedItems({self.domain}, {self.cells} items)"


class GroupedHistogram(RawSketch):
    """How items are read and counted where each has a number of its own. It has no instances: Beam keeps the counts."""

    name = "groups"
    spec_type = GroupedItems

    @classmethod
    def usable_keys(cls, spec: GroupedItems, items: Sequence[Any] | pa.Array) -> tuple[np.ndarray, np.ndarray]:
        return spec.domain.index(items)

    @classmethod
    def key_type(cls, spec: GroupedItems) -> np.dtype[Any]:
        return spec.domain.key_type

    @classmethod
    def tables(cls, spec: GroupedItems) -> tuple[Table, ...]:
        return (Table(1, False, Fraction(1)),)

    @classmethod
    def cells_of(cls, spec: GroupedItems, keys: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
        yield 0, np.zeros(len(keys), dtype=np.int64)
