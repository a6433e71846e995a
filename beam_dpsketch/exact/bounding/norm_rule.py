"""Norm bounding: net the records of each privacy id, then scale contributions longer than the clipping norm.

Guarantee: the result for a privacy id depends on its own records alone, in any order and any split, without randomness.
It is within the bound proved in `privacy.norm.scaling`. For tables with a column `window` whose windows enter timeline
rows, the bound is proved in `privacy.over_time.lengths`, and one factor covers all windows.

Lengths are computed per part: the counters that have their own scaling factor. Most sketches have a single part, and
each of several metrics is a part. Records are netted within a part, so records that differ only in other metrics become
one row. Summary counts use the smallest factor of all parts.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from beam_dpsketch.exact.bounding.bounded import Bounded
from beam_dpsketch.exact.bounding.netting import (
    MOST_LOST,
    NetRecords,
    Units,
    UnitWeights,
    add_up_ids,
    carry,
    net,
    net_again,
    sum_by_code,
    without_lost,
)
from beam_dpsketch.exact.bounding.parts import shard_hash
from beam_dpsketch.exact.bounding.record_rule import count_beyond, repeats_pay
from beam_dpsketch.exact.bounding.selection import count_since_mark, mark_starts
from beam_dpsketch.exact.bounding.side_sums import RowGroups, rows_in_full, sums_of_scaled, window_numbers, with_sums
from beam_dpsketch.exact.hashing import cells
from beam_dpsketch.exact.reading.codec import LOST_COLUMN
from beam_dpsketch.exact.reading.groups import dictionary_codes
from beam_dpsketch.exact.reading.items import SketchInput
from beam_dpsketch.exact.sketches.linear import NormPart
from beam_dpsketch.privacy.norm import choice, scaling
from beam_dpsketch.privacy.norm.bounds import NormBound
from beam_dpsketch.privacy.norm.scaling import Row, TableWeights
from beam_dpsketch.privacy.over_time import lengths
from beam_dpsketch.privacy.over_time.pairs import ONE_PAIR
from beam_dpsketch.privacy.selection import SelectionRule
from beam_dpsketch.privacy.summary_counts import LostCounter, SummaryCount, histogram


class PartRecords(NamedTuple):
    """Net records of one part. Items contain only the values in this part, and sizes are |weights|."""

    place: int
    rows: NetRecords
    sizes: np.ndarray

    def take(self, among: np.ndarray) -> PartRecords:
        return PartRecords(self.place, self.rows.take(among), self.sizes[among])

    def scaled(self, factors: np.ndarray, bits: int) -> NetRecords:
        """Scale the rows by the factor of each id, to units of 2**-bits, and drop rows that become 0."""
        sizes = scaling.scaled(self.sizes, factors[self.rows.codes["unit"]], bits)
        return self.rows._replace(weights=np.sign(self.rows.weights) * sizes, records=None).take(sizes > 0)


class UnitLengths:
    """Norm of each id. The L1 norm has a single part."""

    def __init__(self, sketch_input: SketchInput, bounds: NormBound) -> None:
        kind, spec = sketch_input.kind, sketch_input.spec
        self._sketch_input, self._over_time, self._is_l1 = sketch_input, sketch_input.over_time, bounds.is_l1
        self._cap = min(bounds.max_per_item or scaling.MAX_ITEM_WEIGHT, scaling.MAX_ITEM_WEIGHT)
        self._parts = kind.parts(spec) if not bounds.is_l1 else (NormPart(kind, spec),)
        self.shares = [part.share for part in self._parts]
        tables = [(table.cells_per_item, table.share) for table in kind.tables(spec)]
        weights = TableWeights.of(tables)
        numerators = iter(weights.numerators)
        self._numerators = [[*itertools.islice(numerators, part.tables)] for part in self._parts]
        self._bits = max(part.kind.amount_bits for part in self._parts)
        self._denominator = weights.denominator << 2 * self._bits

    def denominator(self, rows: NetRecords) -> int:
        """Compute the common denominator of all squares."""
        return self._denominator * (1 if self._windows(rows) is None else ONE_PAIR)

    def sizes(self, rows: NetRecords) -> np.ndarray:
        """|weight| of net records, capped at an item's largest weight."""
        return np.abs(np.clip(rows.weights, -self._cap, self._cap))  # clipped first because -2**63 is its own opposite

    def in_parts(self, rows: NetRecords) -> list[PartRecords]:
        """Net the rows within each part."""
        if len(self._parts) == 1:
            return [PartRecords(0, rows, self.sizes(rows))]
        keys, numbers = self._used_items(rows)
        items, found = numbers[rows.codes["item"]], []
        for place in range(len(self._parts)):
            alone, has = self._sketch_input.kind.alone(self._sketch_input.spec, place, keys)
            codes, distinct = dictionary_codes(pa.chunked_array([self._sketch_input.as_column(alone)]))
            own = net_again(rows, distinct, codes[items], has[items])
            found.append(PartRecords(place, own, self.sizes(own)))
        return found

    def squares(self, parts: Sequence[PartRecords]) -> np.ndarray:
        """Compute each part's summand in denominator * N^2 for each id: float64, shape (parts, ids)."""
        return np.stack([self._squares_of_part(part) for part in parts])

    def _squares_of_part(self, part: PartRecords) -> np.ndarray:
        rows, sizes = part.rows, part.sizes
        squares, new_unit = np.zeros(len(rows.values["unit"])), mark_starts(rows.codes["unit"])
        numbers, windows = np.cumsum(new_unit) - 1, self._windows(rows)
        if self._is_l1:
            squares[rows.codes["unit"][new_unit]] = scaling.squared_totals(numbers, sizes, self.denominator(rows))
            return squares
        if self._over_time is not None and windows is not None:
            keys = RowGroups({name: codes for name, codes in rows.codes.items() if name not in ("item", "window")})
            mechanism = self._over_time.mechanism
            squared = functools.partial(lengths.squared_norms, mechanism, keys.numbers, keys.units, windows)
        else:
            new_group = mark_starts(*(codes for name, codes in rows.codes.items() if name != "item"))
            squared = functools.partial(scaling.squared_norms, np.cumsum(new_group) - 1, numbers[new_group])
        squares[rows.codes["unit"][new_unit]] = squared(self._added(part))
        return squares * 4.0 ** (self._bits - self._parts[part.place].kind.amount_bits)

    def _added(self, part: PartRecords) -> Iterator[Row]:
        """Yield the contributions of a part's records to each row of each of its tables."""
        kind, spec, _ = self._parts[part.place]
        alone, numbers = self._used_items(part.rows)
        keys = self._sketch_input.kind.own(self._sketch_input.spec, part.place, alone)
        items = numbers[part.rows.codes["item"]]
        amounts, most = kind.amounts_of(spec, keys), part.sizes << np.int64(kind.amount_bits)
        for number, (table, places) in enumerate(kind.cells_of(spec, keys)):
            sizes = most if amounts is None else part.sizes * amounts[number][items]
            yield Row(self._numerators[part.place][table], places[items], sizes)

    def _used_items(self, rows: NetRecords) -> tuple[np.ndarray, np.ndarray]:
        """Keys of the items in the rows, and the number of each distinct item value among these keys, int64."""
        used = np.zeros(len(rows.values["item"]), dtype=bool)
        used[rows.codes["item"]] = True
        keys = self._sketch_input.column_keys(pa.chunked_array([rows.values["item"].filter(pa.array(used))]))
        return keys, np.cumsum(used) - 1

    def _windows(self, rows: NetRecords) -> np.ndarray | None:
        return window_numbers(self._over_time, rows.codes, rows.values)


class ScaledUnits(NamedTuple):
    """Weight of each id before and after scaling, unsigned, int64, shape (ids,). All but `net` is in scaled units.

    Attributes:
      units: the ids.
      net: net weight of the records that are read.
      lost: clipping loss from scaling, within `max_per_item`.
      kept: clipped weight.
    """

    units: pa.Array
    net: np.ndarray
    lost: np.ndarray
    kept: np.ndarray


class NormRule:
    """Rule that scales table records. All records of an id must end up in a single table."""

    def __init__(
        self,
        bounds: NormBound,
        sketch_input: SketchInput,
        counters: tuple[SummaryCount, ...] = (),
        selection: SelectionRule | None = None,
    ) -> None:
        self.bounds, self._sketch_input, self._counters, self._selection = bounds, sketch_input, counters, selection
        self._counts_records = bool(counters) and bounds.has_weights  # net weight = number of records without weights
        self._lengths = UnitLengths(sketch_input, bounds)
        self._to_table = NetRecords.to_table if len(self._lengths.shares) == 1 else add_up_ids
        self._over_time, self._bits, self._lost = sketch_input.over_time, sketch_input.scale_bits, sketch_input.lost

    def pays_to_prune(self, records: pa.Table, unit_hashes: np.ndarray) -> bool:
        """Whether netting may drop a good part of all records, or, without an estimate, whether an id repeats."""
        if self.bounds.max_distinct_items is not None or not {"key", "window"}.isdisjoint(records.column_names):
            return count_beyond(unit_hashes, 1) > 0
        return repeats_pay(records, unit_hashes)

    def prune(self, records: pa.Table) -> pa.Table:
        pruned = self._net(records).to_table()
        return pruned if self._lost is None else carry(records, pruned)

    def select(self, records: pa.Table) -> pa.Table:
        """Scale records to weights in units of 2**-scale_bits, netted if any of them is scaled down."""
        return self.select_and_count(records)[0]

    def bound(self, records: pa.Table) -> Bounded:
        kept, sums, units = self._scale(without_lost(records), self._to_table)
        lost = None if self._lost is None else self._told(records, units, self._lost)
        return with_sums(kept, sums, lost, self._selection, each_window=False)

    def _told(self, records: pa.Table, units: ScaledUnits, counter: LostCounter) -> np.ndarray:
        """Histogram of clipping loss per id, followed by the capped clipped weight if it covers a run."""
        lost = units.lost
        if LOST_COLUMN in records.column_names or self.bounds.max_distinct_items is not None:
            before = UnitWeights.of(records)
            dropped = np.minimum(before.of_units(units.units) - units.net, MOST_LOST)
            lost = lost + (dropped << np.int64(self._bits))
        counts = histogram(lost, counter.first, bits=self._bits)
        if counter.kept is None:
            return counts
        numbers = np.arange(len(units.kept))
        kept = counter.kept.limited(units.kept, numbers, bits=self._bits, scale_bits=self._bits)
        return np.append(counts, kept.sum())

    def select_and_count(self, records: pa.Table) -> tuple[pa.Table, pa.Table | None]:
        """Select records, and compute a row of summary counts per unit (`None` without summary counts)."""
        return self._scale(records, NetRecords.to_table)[:2]

    def _scale(
        self, records: pa.Table, to_table: Callable[[NetRecords], pa.Table]
    ) -> tuple[pa.Table, pa.Table | None, ScaledUnits]:
        units = dictionary_codes(records["unit"])
        if (totals := self._totals_in_full(records, units)) is not None:
            kept, rows = self._in_full(records), rows_in_full(records, units, has_weights=self.bounds.has_weights)
            sizes, factors = rows.weights, np.full(len(records), scaling.NO_SCALING)
            taken = ScaledUnits(units[1], totals, np.zeros_like(totals), totals << np.int64(self._bits))
        else:
            rows = self._net(records, units)
            sizes = self._lengths.sizes(rows)
            parts, of_units = self._scaled_parts(rows, sizes)
            kept = pa.concat_tables(to_table(part.scaled(factors, self._bits)) for part, factors in parts)
            codes, count = rows.codes["unit"], len(rows.values["unit"])
            factors = of_units.min(axis=0)[codes]
            scaled = scaling.scaled(sizes, factors, self._bits)
            amounts = (np.abs(rows.weights), (sizes << np.int64(self._bits)) - scaled, scaled)
            taken = ScaledUnits(rows.values["unit"], *(sum_by_code(codes, each, count) for each in amounts))
        if not self._counters and self._selection is None:
            return kept, None, taken
        counted = self._counters, self._selection, rows, sizes, factors
        return kept, sums_of_scaled(*counted, bits=self._bits, over_time=self._over_time), taken

    def _in_full(self, records: pa.Table) -> pa.Table:
        weights = records["weight"].to_numpy() << np.int64(self._bits)
        scaled = records.set_column(records.column_names.index("weight"), "weight", pa.array(weights))
        return scaled.select([name for name in scaled.column_names if name != "records"])

    def _scaled_parts(
        self, netted: NetRecords, sizes: np.ndarray
    ) -> tuple[list[tuple[PartRecords, np.ndarray]], np.ndarray]:
        """Split all rows into parts with the factor of every unit, and compute all factors by part and unit.

        Only units that may exceed the norm are split.
        """
        units, whole = netted.codes["unit"], PartRecords(0, netted, sizes)
        totals = sum_by_code(units, sizes, len(netted.values["unit"]))
        heavy = ~scaling.fits_untouched(totals, self.bounds.max_norm)[units]
        parts = self._lengths.in_parts(netted.take(heavy))
        factors = self._factors(parts)
        if len(parts) == 1:
            return [(whole, factors[0])], factors
        return [(whole.take(~heavy), factors[0]), *zip(parts, factors, strict=True)], factors

    def length_histogram(self, records: pa.Table) -> np.ndarray:
        """Count ids by length, int64, shape (bins,): one bin per id, before scaling.

        All records of an id must be in this table. The histogram is not private: never publish it.
        """
        netted = self._net(records)
        parts = self._lengths.in_parts(netted)
        bins = choice.bin_count(self.bounds.max_weight)
        return choice.histogram(self._lengths.squares(parts).sum(axis=0), self._lengths.denominator(netted), bins)

    def _totals_in_full(self, records: pa.Table, units: Units) -> np.ndarray | None:
        """Sum each id's weight, or return `None` unless all records count in full. Usually faster than netting."""
        bounds = self.bounds
        if bounds.signed or bounds.max_per_item is not None or bounds.max_distinct_items is not None:
            return None
        totals = sum_by_code(units[0], records["weight"].to_numpy(), len(units[1]))
        least = min(bounds.max_norm, scaling.MAX_ITEM_WEIGHT)
        return totals if scaling.fits_untouched(totals, least).all() else None

    def _net(self, records: pa.Table, units: Units | None = None) -> NetRecords:
        netted = net(without_lost(records), count=self._counts_records, units=units)
        if self.bounds.max_distinct_items is not None:
            # Rows with weight 0 remain until the end: the result must not depend on when they became 0.
            return netted.take(_lowest_hashes(netted, self.bounds.max_distinct_items))
        return netted.without_zeros()

    def _factors(self, parts: Sequence[PartRecords]) -> np.ndarray:
        """Factor per id in each part, int64, shape (parts, ids)."""
        norms, denominator = self._lengths.squares(parts), self._lengths.denominator(parts[0].rows)
        if len(parts) == 1:
            return scaling.factors(norms, self.bounds.max_norm, denominator)
        return scaling.factors_of_parts(norms, self._lengths.shares, self.bounds.max_norm, denominator)


def _lowest_hashes(netted: NetRecords, limit: int) -> np.ndarray:
    hashes = np.zeros(len(netted.weights), dtype=np.uint64)
    others = [name for name in netted.codes if name != "unit"]
    for row, name in enumerate(others):
        hashes = cells.mix(hashes ^ shard_hash(netted.values[name])[netted.codes[name]], seed=0, row=row)
    order = np.lexsort((hashes, netted.codes["unit"]))  # rows with equal hash stay sorted by value
    kept = count_since_mark(mark_starts(netted.codes["unit"][order])) < limit
    return np.sort(order[kept])
