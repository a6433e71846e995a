"""Decide which records of a table contribution bounding keeps.

Guarantee: what is kept of a privacy id depends on its own records and their priorities alone. Bounding parts first and
their union again keeps what bounding everything at once would.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from beam_dpsketch.hashing import cells
from beam_dpsketch.privacy.aside.lost_histogram import LostCounter, histogram
from beam_dpsketch.privacy.aside.side_counters import SideCounter
from beam_dpsketch.privacy.contributions import RecordBounds
from beam_dpsketch.privacy.over_time.horizon import WindowRows
from beam_dpsketch.privacy.selection import SelectionRule
from beam_dpsketch.records.bounding import selection
from beam_dpsketch.records.bounding.bounded import Bounded
from beam_dpsketch.records.bounding.lost_weight import Codes, carry, lost_by_unit, without_lost
from beam_dpsketch.records.bounding.netting import net
from beam_dpsketch.records.bounding.priorities import Priorities, count_copies, sample_copies
from beam_dpsketch.records.bounding.shard_hash import shard_hash
from beam_dpsketch.records.bounding.side_sums import add_up_units, sums_of_kept
from beam_dpsketch.records.groups import dictionary_codes, in_order_of_values
from beam_dpsketch.records.reading import total_weights
from beam_dpsketch.records.sums.vote_rounds import edges_of

_LEAST_PRUNED = 4  # pruning costs about as much as the travel of a fourth of the records
_MANY = 256  # more of one kind in one bundle could fill the memory of their shard


class RecordRule:
    """Selects the records of a table that are kept."""

    def __init__(
        self,
        bounds: RecordBounds,
        priorities: Priorities,
        counters: tuple[SideCounter, ...] = (),
        selection: SelectionRule | None = None,
        over_time: WindowRows | None = None,
        lost: LostCounter | None = None,
    ) -> None:
        self.bounds, self._over_time, self._lost = bounds, over_time, lost
        self._priorities, self._counters, self._selection = priorities, counters, selection

    def keeps_all(self, unit_hashes: np.ndarray) -> bool:
        """Return whether no id can exceed the bounds, given one hash per record, equal for equal ids."""
        most = min(self.bounds.kept_keys, self.bounds.max_per_key)
        return not self.bounds.signed and max_multiplicity_at_most(unit_hashes, most)

    def pays_to_prune(self, records: pa.Table, unit_hashes: np.ndarray) -> bool:
        """Return whether `prune` may drop a good part of the records; of several keys, whether it drops any."""
        if self.bounds.signed or not {"key", "window"}.isdisjoint(records.column_names):
            return not self.keeps_all(unit_hashes)
        if not self._priorities.is_persistent:
            return repeats_pay(records, unit_hashes)
        return many_beyond(unit_hashes, self.bounds.max_per_key)

    def prune(self, records: pa.Table) -> pa.Table:
        kept, codes = self._prune(without_lost(records))
        return kept if self._lost is None else carry(records, kept, codes)

    def _prune(self, records: pa.Table) -> tuple[pa.Table, Codes | None]:
        """Do as `prune`, and return whose the records are, if that is known."""
        if self.bounds.signed:
            return self._net(records), None
        return self._keep(records) if self._priorities.is_persistent else (count_copies(records), None)

    def select(self, records: pa.Table) -> pa.Table:
        """Return the records to keep; with signed weights, the column `copies` says how many of each."""
        return self._select(records)[0]

    def _select(self, records: pa.Table) -> tuple[pa.Table, Codes | None]:
        """Do as `select`, and return whose the records are, if that is known."""
        return (self._sample(self._net(records)), None) if self.bounds.signed else self._keep(records)

    def bound(self, records: pa.Table) -> Bounded:
        kept, lost = self._bounded(records)
        if not self._counters and self._selection is None:
            return Bounded(kept, lost=lost)
        sums = sums_of_kept(self._counters, self._selection, kept, self.bounds, self._over_time)
        edges = None
        if self._selection is not None and self._selection.has_two_rounds:
            edges = edges_of(sums, each_window=self._over_time is None)
        return Bounded(kept, add_up_units(sums), lost, edges=edges)

    def _bounded(self, records: pa.Table) -> tuple[pa.Table, np.ndarray | None]:
        """Return the records to keep, and what is told of lost weight; for a run also the weight kept."""
        counter = self._lost
        kept, codes = self._select(without_lost(records))
        if counter is None:
            return kept, None
        counts = histogram(lost_by_unit(records, kept, codes)[0], counter.first)
        return kept, np.append(counts, total_weights(kept, self.bounds).sum()) if counter.of_run else counts

    def _net(self, records: pa.Table) -> pa.Table:
        names = [name for name in records.column_names if name != self._priorities.column]
        netted = net(records.select(names))
        return netted.take(netted.weights != 0).to_table()

    def _sample(self, net: pa.Table) -> pa.Table:
        """Keep partitions, then copies of the records into which net weights are split."""
        units, partitions, partition_priorities = self._partitions(net)
        groups = units.astype(np.int64) * len(net) + partitions
        positions = selection.select_parts(units, partitions, partition_priorities, self.bounds.kept_keys)
        pieces, weights, copies = selection.split_weights(net["weight"].to_numpy()[positions], self.bounds)
        positions = positions[pieces]
        records = self._replace_weights(net.take(pa.array(positions)), weights)
        most = self.bounds.max_per_key
        kept = sample_copies(groups[positions], copies, most, self._priorities.copy_randomness(records))
        return records.append_column("copies", pa.array(kept)).filter(pa.array(kept > 0))

    def _replace_weights(self, records: pa.Table, weights: np.ndarray) -> pa.Table:
        names = [name for name in records.column_names if name != "weight"]
        return records.select(names).append_column("weight", pa.array(weights))

    def _keep(self, records: pa.Table) -> tuple[pa.Table, Codes | None]:
        """Do as `_select`, without signs; what is not persistent takes records in another order."""
        units = records["unit"]
        unassigned = self._priorities.is_persistent and self._priorities.column not in records.column_names
        if unassigned and pa.types.is_integer(units.type) and self.keeps_all(units.to_numpy()):
            return records, None  # faster than assigning priorities
        records = self._priorities.assign(records)
        units, partitions, partition_priorities = self._partitions(records)
        positions = selection.select_within_bounds(
            units,
            partitions,
            partition_priorities,
            records["priority"].to_numpy(),
            lambda: _contents(records),
            self.bounds,
        )
        left = units
        if len(positions) < len(records):
            records, left = records.take(pa.array(positions)), units[positions]
        return records, (units, left) if self._priorities.is_persistent else None

    def _partitions(self, records: pa.Table) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return units and partitions as whole numbers, and the priority of each unit's partition.

        Keys of equal hash can be made, so partitions are in order of their keys: no other unit decides between them.
        """
        units, distinct = dictionary_codes(records["unit"])
        if "key" not in records.column_names:
            return units, np.zeros(len(units), dtype=np.int64), np.zeros(len(units), dtype=np.uint64)
        partitions, keys = in_order_of_values(*dictionary_codes(records["key"]))
        seed = self._priorities.salt
        hashes = cells.mix(shard_hash(distinct), seed=seed, row=0)[units]
        return units, partitions, cells.mix(hashes ^ shard_hash(keys)[partitions], seed=seed, row=1)


def _contents(records: pa.Table) -> list[np.ndarray]:
    """Return, for each column of what records say, the rank of each value: no other record decides which is smaller."""
    names = [name for name in records.column_names if name not in ("unit", "key", "priority")]
    return [in_order_of_values(*dictionary_codes(records[name]))[0] for name in names]


def max_multiplicity_at_most(values: np.ndarray, limit: int) -> bool:
    """Return whether every value occurs at most `limit` times (`limit >= 1`)."""
    return count_beyond(values, limit) == 0


def count_beyond(values: np.ndarray, limit: int) -> int:
    """Return how many values are more than `limit` of their kind (`limit >= 1`)."""
    return 0 if len(values) <= limit else _beyond(np.sort(values), limit)


def repeats_pay(records: pa.Table, unit_hashes: np.ndarray) -> bool:
    """Return whether a good part of the records repeat the item of an id; not known of items that are bytes."""
    items = records["item"]
    if not pa.types.is_integer(items.type):
        return count_beyond(unit_hashes, 1) > 0
    pairs = cells.mix(unit_hashes ^ items.to_numpy().view(np.uint64), seed=0, row=0) + unit_hashes
    return many_beyond(pairs, 1)


def many_beyond(values: np.ndarray, limit: int) -> bool:
    """Return whether a good part of the values are more than `limit` of their kind, or one kind has very many."""
    ordered = np.sort(values)
    return _beyond(ordered, limit) * _LEAST_PRUNED >= len(values) or _beyond(ordered, limit + _MANY) > 0


def _beyond(ordered: np.ndarray, limit: int) -> int:
    return int(np.count_nonzero(ordered[limit:] == ordered[:-limit]))
