"""Items and weights ready for counting: the definition of a sketch, and the contribution of a record."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from beam_dpsketch.exact.domains.spelling import INTEGER, TEXT
from beam_dpsketch.exact.domains.weights import parse_weights
from beam_dpsketch.exact.horizon import WindowRows
from beam_dpsketch.exact.reading.codec import binary_column, binary_keys
from beam_dpsketch.exact.reading.columns import HASHED, WEIGHTS, Readable
from beam_dpsketch.exact.reading.selectors import Selectors, check_values
from beam_dpsketch.exact.reading.unreadable import Listing, Tally
from beam_dpsketch.exact.sketches import RawSketch, raw_type
from beam_dpsketch.privacy.contributions import ContributionLimit
from beam_dpsketch.privacy.norm.scaling import ROW_SCALE_BITS, SCALE_BITS
from beam_dpsketch.privacy.selection import SelectionRule
from beam_dpsketch.privacy.summary_counts import BINS, LOST, RECORDS, UNITS, WEIGHT, LostCounter, SummaryCount, bins_of

VOTES, VOTERS = "votes", "voters"
SECOND, NOISY = "second", "noisy"
"""In two rounds: the votes of the second round, and the noisy votes of the first."""
_MOST_CLAMPED = 1 << 40


class WeightedItems(NamedTuple):
    """Items after bounding, as keys.

    Attributes:
      keys: item keys for the sketch, shape (n,).
      weights: int64, shape (n,).
      side: summary counts from their units, int64, shape (side_size,). `None` without any.
      max_norm: the clipping norm, if it is chosen from the data.
    """

    keys: np.ndarray
    weights: np.ndarray
    side: np.ndarray | None = None
    max_norm: Fraction | None = None


@dataclasses.dataclass(frozen=True)
class SketchInput:
    """Input definition of a sketch: its spec, the bounds on a record's weight, and the summary counts.

    `lost` is the counter of clipping loss. `over_time` contains the timeline rows for the windows. It is `None` if each
    window has a release.
    """

    spec: Any
    bounds: ContributionLimit
    counters: tuple[SummaryCount, ...] = ()
    selection: SelectionRule | None = None
    over_time: WindowRows | None = None
    lost: LostCounter | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Pickle the fields alone, because sums travel with their input, and some cached properties cannot."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    @functools.cached_property
    def kind(self) -> type[RawSketch]:
        return raw_type(self.spec)

    def keys(self, items: list[Any] | pa.Array) -> tuple[np.ndarray, np.ndarray]:
        return self.kind.usable_keys(self.spec, items)

    @property
    def side_names(self) -> tuple[str, ...]:
        """Names of the summary counts without clipping loss: summary counts, then vote columns."""
        return (*(counter.name for counter in self.counters), *self.vote_names)

    @property
    def vote_names(self) -> tuple[str, ...]:
        """Vote columns for key selection: votes, number of voters, and the columns of two rounds."""
        if self.selection is None:
            return ()
        return (VOTES, VOTERS, SECOND, NOISY) if self.selection.has_two_rounds else (VOTES, VOTERS)

    @property
    def own_bins(self) -> int:
        """Clipping histogram bins per release."""
        return 0 if self.lost is None or self.lost.of_run else BINS

    @functools.cached_property
    def side_columns(self) -> dict[str, slice]:
        """Slice per summary count along the last array axis, by name."""
        sizes = dict.fromkeys((counter.name for counter in self.counters), 1)
        sizes |= {LOST: self.own_bins} if self.own_bins else {}
        sizes |= dict.fromkeys(self.vote_names, 1)
        ends = itertools.accumulate(sizes.values())
        return {name: slice(end - size, end) for (name, size), end in zip(sizes.items(), ends, strict=True)}

    @property
    def side_size(self) -> int:
        """Length of the summary counts: summary counts, clipping histogram and vote columns."""
        return len(self.side_names) + self.own_bins

    def votes_of(self, side: np.ndarray) -> np.ndarray:
        """Select the vote columns, shape (..., vote names)."""
        return self._columns(side, self.vote_names)

    def released_of(self, side: np.ndarray) -> np.ndarray:
        """Select the summary counts in each release: its summary counts and its clipping histogram."""
        return self._columns(side, [name for name in self.side_columns if name not in self.vote_names])

    def _columns(self, side: np.ndarray, names: Sequence[str]) -> np.ndarray:
        return np.concatenate([side[..., :0], *(side[..., self.side_columns[name]] for name in names)], axis=-1)

    @functools.cached_property
    def readables(self) -> dict[str, Readable]:
        """Requirements for the column of each item, by argument."""
        return {argument: _readable(spec) for argument, spec in self.spec.fields.items()}

    @property
    def listings(self) -> dict[str, Listing]:
        """Listed items, by the argument of each metric with a list."""

        def listing(argument: str, spec: Any) -> Listing:
            return Listing(lambda: spec.items, lambda values: self.keys_of(argument, values)[1])

        return {argument: listing(argument, spec) for argument, spec in self.spec.fields.items() if spec.is_listed}

    def keys_of(self, argument: str, values: list[Any] | pa.Array) -> tuple[np.ndarray, np.ndarray]:
        """Convert the values of one item, for records with several items, to keys."""
        spec = self.spec.fields[argument]
        return raw_type(spec).usable_keys(spec, values)

    def any_counts(self, keys: np.ndarray) -> bool:
        """Whether records with these keys count, and so does each of several items in some record."""
        return self.kind.any_counts(self.spec, keys)

    def bounded(self, keys: np.ndarray, weights: np.ndarray) -> WeightedItems:
        """Combine keys and weights of bounded records, fewer if they repeat."""
        return WeightedItems(*self.kind.fewer(self.spec, keys, weights))

    @property
    def scale_bits(self) -> int:
        if not self.bounds.has_norm:
            return 0
        return SCALE_BITS if self.over_time is None else ROW_SCALE_BITS

    def raw_sketch(self) -> RawSketch:
        return self.kind(self.spec).in_units_of(self.scale_bits)

    def as_column(self, keys: np.ndarray, nulls: np.ndarray | None = None) -> pa.Array:
        """Convert keys to a column for `column_keys`, with nulls in some places."""
        return pa.array(keys, mask=nulls) if keys.dtype.kind != "S" else binary_column(keys, nulls)

    def column_keys(self, column: pa.ChunkedArray) -> np.ndarray:
        if not pa.types.is_large_binary(column.type):
            return column.to_numpy().astype(self.key_type, copy=False)
        return binary_keys(column, self.key_type)

    def clamp(self, weights: np.ndarray) -> np.ndarray:
        return np.clip(weights, self.bounds.min_weight, self.bounds.max_weight)

    def contributions(
        self, items: list[Any] | pa.Array, weights: list[Any] | pa.Array | None, selectors: Selectors | None = None
    ) -> WeightedItems:
        """Compute the contributions of records. Given selectors, log arguments that drop many records."""
        if weights is None:
            found, count = self._counted(items)
        else:
            found, count = self._weighted(items, weights)
        if count < len(items):
            _check_values(item=items, weight=weights)
        if selectors is not None and (count < len(items) or not self.any_counts(found.keys)):
            readables = {"weight": WEIGHTS, **self.readables}
            tally = Tally(readables, selectors.all, self.listings, is_sampled=True)
            tally.note_rows({**by_argument(selectors, items), **({} if weights is None else {"weight": weights})})
            tally.log()
        return found

    def _weighted(self, items: list[Any] | pa.Array, weights: list[Any] | pa.Array) -> tuple[WeightedItems, int]:
        """Count records, and return the number that count."""
        keys, usable = self.keys(items)
        values, whole = parse_weights(weights)
        usable = usable & whole
        keys, values = keys[usable], values[usable]
        (side,) = self.side_of_single(values, np.zeros(len(values), dtype=np.int64), 1)
        return WeightedItems(keys, self.clamp(values), side), len(values)

    def _counted(self, items: list[Any] | pa.Array) -> tuple[WeightedItems, int]:
        """Count repeated records with weight 1, and return the number that count."""
        keys, counts, total = self.kind.counted(self.spec, items)
        return WeightedItems(keys, counts, self._side(total, total, None)), total

    def side_of_single(self, weights: np.ndarray, places: np.ndarray, count: int) -> np.ndarray:
        """Compute summary counts per key, int64, shape (count, side_size). Each unclamped weight is a privacy unit."""
        clamped, weight = self.clamp(weights), np.zeros(count, dtype=np.int64)
        np.add.at(weight, places, clamped)
        lost = np.zeros((1 + BINS, count), dtype=np.int64)
        if self.lost is not None:
            np.add.at(lost, (bins_of(clamped_by(weights, clamped), self.lost.first), places), 1)
        return self._side(np.bincount(places[clamped != 0], minlength=count), weight, lost[1:]).T

    def _side(self, records: Any, weight: Any, lost: np.ndarray | None) -> np.ndarray:
        votes = records * (0 if self.selection is None else self.selection.grid)
        amounts = {UNITS: records, RECORDS: records, WEIGHT: weight, VOTES: votes, VOTERS: records}
        numbers = np.array([amounts[name] for name in self.side_names], dtype=np.int64)
        return self.side_of(numbers.reshape(len(numbers), *np.shape(records)), lost)

    def side_of(self, numbers: np.ndarray, lost: np.ndarray | None) -> np.ndarray:
        """Assemble summary counts, int64, shape (side_size, ...), from numbers for `side_names` and the own bins."""
        side = np.zeros((self.side_size, *numbers.shape[1:]), dtype=np.int64)
        for name, number in zip(self.side_names, numbers, strict=True):
            side[self.side_columns[name]] = number
        if self.own_bins and lost is not None:
            side[self.side_columns[LOST]] = lost
        return side

    @functools.cached_property
    def key_type(self) -> np.dtype[Any]:
        return self.kind.key_type(self.spec)

    def empty(self) -> WeightedItems:
        return WeightedItems(np.zeros(0, dtype=self.key_type), np.zeros(0, dtype=np.int64))

    @functools.cached_property
    def pending_limit(self) -> int:
        """Number of items hashed together: enough to be fast, few compared with the sketch."""
        return min(4096, max(256, self.spec.cells // 8))


def by_argument(selectors: Selectors, items: list[Any] | pa.Array) -> dict[str, Any]:
    """Split the record items by argument."""
    if not isinstance(selectors.item, tuple):
        return {"item": items}
    values = items.flatten() if isinstance(items, pa.StructArray) else [*map(list, zip(*items, strict=True))]
    return dict(zip(selectors.items, values, strict=True))


def _readable(spec: Any) -> Readable:
    if spec.kind == "count":  # of records, whatever their columns are
        return HASHED._replace(reads=lambda _: True, find=lambda values: raw_type(spec).usable_keys(spec, values)[1])
    if (domain := spec.domain) is None:
        return HASHED._replace(parsed=INTEGER) if spec.is_listed and {*map(type, spec.items)} == {int} else HASHED
    return Readable(
        f"{domain.takes} ({type(domain).__name__})",
        domain.reads_column,
        functools.partial(_find, domain),
        None if domain.column_type == TEXT else domain.column_type,
        is_partial=not domain.reads_all,
        instead=", or use FloatDomain(low, high, step)" if domain.plain_type is int else "",
        domain=domain,
    )


def _find(domain: Any, values: Any) -> np.ndarray:
    return domain.index(values)[1]


def clamped_by(weights: np.ndarray, clamped: np.ndarray) -> np.ndarray:
    """Compute the weight that clamping removed from positive weights, int64, capped to avoid overflow in sums."""
    return np.minimum(np.maximum(weights, clamped) - clamped, _MOST_CLAMPED)


def _check_values(**values_of: Any) -> None:
    """Raise if an array is among the values of rows, after some values were dropped."""
    for argument, values in values_of.items():
        if isinstance(values, list):
            check_values(argument, values)
