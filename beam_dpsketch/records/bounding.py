"""The rule of contribution bounding: which records of a table are kept.

Guarantee: what is kept of a privacy id depends on its records, and on ranks, alone. Bounding parts first and their
union again keeps what bounding everything at once would.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from beam_dpsketch.hashing import cells
from beam_dpsketch.privacy.contributions import RecordBounds
from beam_dpsketch.records import selection
from beam_dpsketch.records.codec import concat_tables, from_bytes, to_bytes
from beam_dpsketch.records.kept_copies import kept_copies
from beam_dpsketch.records.priorities import Priorities, count_copies
from beam_dpsketch.records.shard_hash import shard_hash


class BoundingRule:
    """The rule that says which records of a table are kept."""

    def __init__(self, bounds: RecordBounds, ranks: Priorities) -> None:
        self._bounds = bounds
        self._ranks = ranks

    def keeps_all(self, units: np.ndarray) -> bool:
        """Whether surely no record is one too many, given a word for each that is the same if the privacy id is."""
        most = min(self._bounds.max_partitions, self._bounds.max_contributions_per_partition)
        return not self._bounds.signed and max_multiplicity_at_most(units, most)

    def prune(self, records: pa.Table) -> pa.Table:
        """Without some of the records that are too many: what bounding all records would drop as well."""
        if self._bounds.signed:
            return self._net(records)
        return self._keep(records) if self._ranks.stay else count_copies(records)

    def select(self, records: pa.Table) -> pa.Table:
        """The records that are kept; with signed weights, how many copies of each are a column `copies`."""
        return self._sample(self._net(records)) if self._bounds.signed else self._keep(records)

    def _net(self, records: pa.Table) -> pa.Table:
        items = records["item"]
        item_codes = items.to_numpy() if pa.types.is_integer(items.type) else dictionary_codes(items)[0]
        partitions = (
            dictionary_codes(records["key"])[0] if "key" in records.column_names else np.zeros(len(records), int)
        )
        positions, weights = selection.net_weights(
            dictionary_codes(records["unit"])[0], partitions, item_codes, records["weight"].to_numpy()
        )
        return self._weighing(records.take(pa.array(positions)), weights)

    def _sample(self, netted: pa.Table) -> pa.Table:
        """Keeps partitions, then copies of the records into which net weights are split."""
        units, partitions, partition_ranks = self._partitions(netted)
        groups = units.astype(np.int64) * len(netted) + partitions
        positions = selection.in_kept_parts(units, partitions, partition_ranks, self._bounds.max_partitions)
        pieces, weights, copies = selection.split(netted["weight"].to_numpy()[positions], self._bounds)
        positions = positions[pieces]
        records = self._weighing(netted.take(pa.array(positions)), weights)
        most = self._bounds.max_contributions_per_partition
        kept = kept_copies(groups[positions], copies, most, self._ranks.words(records))
        return records.append_column("copies", pa.array(kept)).filter(pa.array(kept > 0))

    def _weighing(self, records: pa.Table, weights: np.ndarray) -> pa.Table:
        names = [name for name in records.column_names if name not in ("weight", self._ranks.column)]
        return records.select(names).append_column("weight", pa.array(weights))

    def _keep(self, records: pa.Table) -> pa.Table:
        units = records["unit"]
        unranked = self._ranks.stay and self._ranks.column not in records.column_names
        if unranked and pa.types.is_integer(units.type) and self.keeps_all(units.to_numpy()):
            return records  # sooner than with what follows, and without ranks
        records = self._ranks.assign(records)
        units, partitions, partition_ranks = self._partitions(records)
        positions = selection.select_within_bounds(
            units, partitions, partition_ranks, records["rank"].to_numpy(), self._bounds
        )
        return records if len(positions) == len(records) else records.take(pa.array(positions))

    def _partitions(self, records: pa.Table) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Units and partitions as whole numbers, and the rank of each unit's partition."""
        units, distinct = dictionary_codes(records["unit"])
        if "key" not in records.column_names:
            return units, np.zeros(len(units), dtype=np.int64), np.zeros(len(units), dtype=np.uint64)
        partitions, keys = dictionary_codes(records["key"])
        seed = self._ranks.salt
        of_unit = cells.mix(shard_hash(distinct), seed=seed, row=0)[units]
        return units, partitions, cells.mix(of_unit ^ shard_hash(keys)[partitions], seed=seed, row=1)


def max_multiplicity_at_most(words: np.ndarray, times: int) -> bool:
    """Whether no word is there more often than so many times, at least one."""
    if len(words) <= times:
        return True
    ordered = np.sort(words)
    return not (ordered[times:] == ordered[:-times]).any()


def dictionary_codes(values: pa.ChunkedArray) -> tuple[np.ndarray, pa.Array]:
    """A column as positions in the list of its distinct values."""
    encoded = values.combine_chunks().dictionary_encode()
    return encoded.indices.to_numpy(zero_copy_only=False), encoded.dictionary


class MergeTables:
    """Bytes of tables to those of one table, without records that are too many whatever else comes.

    Which records are kept in the end is as if all had been bounded at once.

    Args:
      bound: the rule; its `prune` says which records are too many.
    """

    def __init__(self, bound: BoundingRule) -> None:
        self._bound = bound

    def __call__(self, payloads: Iterable[bytes]) -> bytes:
        return to_bytes(self._bound.prune(concat_tables(map(from_bytes, payloads))))
