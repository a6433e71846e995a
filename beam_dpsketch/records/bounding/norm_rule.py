"""Norm bounding as a step: net the records of each privacy id, then scale what exceeds its length.

Guarantee: what comes out of a privacy id is a function of its own records alone, in any order and any split, without
any randomness; and it is within the bound that `privacy.norm.scaling` proves. Where windows go into rows over time,
and a table has the column `window`, it is within that of `privacy.over_time.lengths`: one factor for all windows.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from beam_dpsketch.hashing import cells
from beam_dpsketch.privacy.aside.lost_histogram import LostCounter, histogram
from beam_dpsketch.privacy.aside.side_counters import SideCounter
from beam_dpsketch.privacy.norm import choice, scaling
from beam_dpsketch.privacy.norm.bounds import NormBound
from beam_dpsketch.privacy.norm.scaling import Row, TableWeights
from beam_dpsketch.privacy.over_time import lengths
from beam_dpsketch.privacy.selection import SelectionRule
from beam_dpsketch.records.bounding.bounded import Bounded
from beam_dpsketch.records.bounding.lost_weight import MOST_LOST, UnitWeights, carry, sum_by_code, without_lost
from beam_dpsketch.records.bounding.netting import NetRecords, net
from beam_dpsketch.records.bounding.record_rule import max_multiplicity_at_most
from beam_dpsketch.records.bounding.selection import count_since_mark, mark_starts
from beam_dpsketch.records.bounding.shard_hash import shard_hash
from beam_dpsketch.records.bounding.side_sums import (
    RowGroups,
    add_up_units,
    sums_in_full,
    sums_of_scaled,
    window_numbers,
)
from beam_dpsketch.records.codec import LOST
from beam_dpsketch.records.groups import dictionary_codes
from beam_dpsketch.records.items import SketchInput


class ScaledUnits(NamedTuple):
    """What a norm makes of the weight of each id, without signs, int64 of shape (ids,); but for `net`, scaled.

    Attributes:
      units: the ids.
      net: the net weight, of the records that are read.
      lost: what scaling takes of it, where `max_per_item` allows it.
      kept: the rest.
    """

    units: pa.Array
    net: np.ndarray
    lost: np.ndarray
    kept: np.ndarray


class NormRule:
    """Scales the records of a table; all records of an id are in one table in the end."""

    def __init__(
        self,
        bounds: NormBound,
        sketch_input: SketchInput,
        counters: tuple[SideCounter, ...] = (),
        selection: SelectionRule | None = None,
    ) -> None:
        self.bounds, self._sketch_input, self._counters, self._selection = bounds, sketch_input, counters, selection
        self._counts_records = bool(counters) and bounds.has_weights  # else a net weight is a number of records
        tables = sketch_input.kind.tables(sketch_input.spec)
        self._table_weights = TableWeights.of((table.cells_per_item, table.share) for table in tables)
        self._over_time, self._bits, self._lost = sketch_input.over_time, sketch_input.scale_bits, sketch_input.lost

    def keeps_all(self, unit_hashes: np.ndarray) -> bool:
        """Return whether there is nothing to net: no id has two records. Netting ids of one record each costs much."""
        return max_multiplicity_at_most(unit_hashes, 1)

    def prune(self, records: pa.Table) -> pa.Table:
        pruned = self._net(records).to_table()
        return pruned if self._lost is None else carry(records, pruned)

    def select(self, records: pa.Table) -> pa.Table:
        """Return the records with weights in units of 2**-scale_bits, net if any of them is scaled down."""
        return self.select_and_count(records)[0]

    def bound(self, records: pa.Table) -> Bounded:
        kept, sums, units = self._scale(without_lost(records))
        lost = None if self._lost is None else self._told(records, units, self._lost)
        return Bounded(kept, None if sums is None else add_up_units(sums), lost)

    def _told(self, records: pa.Table, units: ScaledUnits, counter: LostCounter) -> np.ndarray:
        """Return how many ids lost how much, and for a run the weight kept, which is limited."""
        lost = units.lost
        if LOST in records.column_names or self.bounds.resource_limit is not None:
            before = UnitWeights.of(records)
            dropped = np.minimum(before.of_units(units.units) - units.net, MOST_LOST)
            lost = lost + (dropped << np.int64(self._bits))
        counts = histogram(lost, counter.bins, bits=self._bits)
        if counter.kept is None:
            return counts
        numbers = np.arange(len(units.kept))
        kept = counter.kept.limited(units.kept, numbers, bits=self._bits, scale_bits=self._bits)
        return np.append(counts, kept.sum())

    def select_and_count(self, records: pa.Table) -> tuple[pa.Table, pa.Table | None]:
        """Do as `select`, with a row of side counters for each unit; `None` if nothing is counted aside."""
        return self._scale(records)[:2]

    def _scale(self, records: pa.Table) -> tuple[pa.Table, pa.Table | None, ScaledUnits]:
        """Do as `select_and_count`, and return what becomes of the weight of each unit."""
        counts_aside = bool(self._counters) or self._selection is not None
        if (found := self._units_in_full(records)) is not None:
            units, totals = found
            weights = records["weight"].to_numpy() << np.int64(self._bits)
            in_full = records.set_column(records.column_names.index("weight"), "weight", pa.array(weights))
            in_full = in_full.select([name for name in in_full.column_names if name != "records"])
            whole = ScaledUnits(units[1], totals, np.zeros_like(totals), totals << np.int64(self._bits))
            if not counts_aside:
                return in_full, None, whole
            sums = sums_in_full(
                self._counters,
                self._selection,
                records,
                units,
                has_weights=self.bounds.has_weights,
                bits=self._bits,
                over_time=self._over_time,
            )
            return in_full, sums, whole
        netted = self._net(records)
        magnitudes = self._magnitudes(netted)
        factors = self._factors(netted, magnitudes)
        sizes = scaling.scaled(magnitudes, factors, self._bits)
        scaled = np.sign(netted.weights) * sizes
        kept = netted._replace(weights=scaled, records=None).take(scaled != 0).to_table()
        codes, count = netted.codes["unit"], len(netted.values["unit"])
        amounts = (np.abs(netted.weights), (magnitudes << np.int64(self._bits)) - sizes, sizes)
        taken = ScaledUnits(netted.values["unit"], *(sum_by_code(codes, each, count) for each in amounts))
        if not counts_aside:
            return kept, None, taken
        sums = sums_of_scaled(
            self._counters, self._selection, netted, magnitudes, factors, bits=self._bits, over_time=self._over_time
        )
        return kept, sums, taken

    def length_histogram(self, records: pa.Table) -> np.ndarray:
        """Return how many ids are in each bin of lengths, int64 of shape (bins,): one bin for each id, unscaled.

        All records of an id must be in this table. It is not private: never publish it.
        """
        netted = self._net(records)
        magnitudes = self._magnitudes(netted)
        norms, _ = self._squared_norms(netted.take(magnitudes > 0), magnitudes[magnitudes > 0])
        bins = choice.bin_count(self.bounds.max_weight)
        return choice.histogram(norms, self._denominator(netted), bins)

    def _units_in_full(self, records: pa.Table) -> tuple[tuple[np.ndarray, pa.Array], np.ndarray] | None:
        """Return the ids, as `dictionary_codes`, and their weights, if all records count in full, netted or not.

        For most ids this takes less than netting.
        """
        bounds = self.bounds
        if bounds.signed or bounds.max_per_item is not None or bounds.resource_limit is not None:
            return None
        units = dictionary_codes(records["unit"])
        totals = sum_by_code(units[0], records["weight"].to_numpy(), len(units[1]))
        least = min(bounds.max_norm, scaling.MAX_ITEM_WEIGHT)
        return (units, totals) if scaling.fits_untouched(totals, least).all() else None

    def _net(self, records: pa.Table) -> NetRecords:
        netted = net(without_lost(records), count=self._counts_records)
        if self.bounds.resource_limit is not None:
            # Rows of weight 0 stay until the end: what is kept must not depend on when they became 0.
            return netted.take(_lowest_hashes(netted, self.bounds.resource_limit))
        return netted.without_zeros()

    def _magnitudes(self, netted: NetRecords) -> np.ndarray:
        cap = min(self.bounds.max_per_item or scaling.MAX_ITEM_WEIGHT, scaling.MAX_ITEM_WEIGHT)
        return np.abs(np.clip(netted.weights, -cap, cap))  # clipped first: -2**63 is its own opposite

    def _factors(self, netted: NetRecords, magnitudes: np.ndarray) -> np.ndarray:
        units, max_norm = netted.codes["unit"], self.bounds.max_norm
        heavy = ~scaling.fits_untouched(sum_by_code(units, magnitudes), max_norm)[units]
        factors = np.full(len(units), scaling.NO_SCALING, dtype=np.int64)
        if heavy.any():
            norms, numbers = self._squared_norms(netted.take(heavy), magnitudes[heavy])
            factors[heavy] = scaling.factors(norms, max_norm, self._denominator(netted))[numbers]
        return factors

    def _squared_norms(self, rows: NetRecords, magnitudes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return denominator * N^2 of each unit, and the number of each row's unit."""
        new_unit = mark_starts(rows.codes["unit"])
        numbers = np.cumsum(new_unit) - 1
        if self.bounds.order == 1:
            return scaling.squared_totals(numbers, magnitudes, self._denominator(rows)), numbers
        added = self._added(rows, magnitudes)
        windows = window_numbers(self._over_time, rows.codes, rows.values)
        if self._over_time is not None and windows is not None:
            keys = RowGroups({name: codes for name, codes in rows.codes.items() if name not in ("item", "window")})
            mechanism = self._over_time.mechanism
            return lengths.squared_norms(mechanism, keys.numbers, keys.units, windows, added), numbers
        new_group = mark_starts(*(codes for name, codes in rows.codes.items() if name != "item"))
        groups = np.cumsum(new_group) - 1
        return scaling.squared_norms(groups, numbers[new_group], added), numbers

    def _denominator(self, rows: NetRecords) -> int:
        windows = window_numbers(self._over_time, rows.codes, rows.values)
        denominator = self._table_weights.denominator << 2 * self._sketch_input.kind.amount_bits
        return denominator * (1 if windows is None else lengths.ONE_PAIR)

    def _added(self, rows: NetRecords, magnitudes: np.ndarray) -> Iterator[Row]:
        """Yield what records of these sizes add to each row of each table."""
        used = np.zeros(len(rows.values["item"]), dtype=bool)
        used[rows.codes["item"]] = True
        items = (np.cumsum(used) - 1)[rows.codes["item"]]
        keys = self._sketch_input.column_keys(pa.chunked_array([rows.values["item"].filter(pa.array(used))]))
        kind, spec = self._sketch_input.kind, self._sketch_input.spec
        for table, of_table in itertools.groupby(kind.cells_of(spec, keys), key=lambda cell: cell[0]):
            amounts = kind.amounts_of(spec, keys, table)
            sizes = magnitudes << np.int64(kind.amount_bits) if amounts is None else magnitudes * amounts[items]
            for _, places in of_table:
                yield Row(self._table_weights.numerators[table], places[items], sizes)


def _lowest_hashes(netted: NetRecords, limit: int) -> np.ndarray:
    hashes = np.zeros(len(netted.weights), dtype=np.uint64)
    others = [name for name in netted.codes if name != "unit"]
    for row, name in enumerate(others):
        hashes = cells.mix(hashes ^ shard_hash(netted.values[name])[netted.codes[name]], seed=0, row=row)
    order = np.lexsort((hashes, netted.codes["unit"]))  # rows of equal hash stay in order of their values
    kept = count_since_mark(mark_starts(netted.codes["unit"][order])) < limit
    return np.sort(order[kept])
