"""The rule of contribution bounding: which records of a table are kept.

Guarantee: what is kept of a privacy id depends on its records, and on ranks, alone. Bounding parts first and their
union again keeps what bounding everything at once would.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from beam_dpsketch.hashing import cells
from beam_dpsketch.hashing.scattering import scattered
from beam_dpsketch.privacy import bounding
from beam_dpsketch.privacy.contributions import ContributionBounds
from beam_dpsketch.transforms.ranks import Ranks, counted_copies
from beam_dpsketch.transforms.record_bytes import joined

SPLIT_RECORDS = 1 << 20  # at a time: a net weight may be many records, of which few are kept


class Bound:
    """The rule that says which records of a table are kept."""

    def __init__(self, bounds: ContributionBounds, ranks: Ranks) -> None:
        self._bounds = bounds
        self._ranks = ranks

    def keeps_all(self, units: np.ndarray) -> bool:
        """Whether surely no record is one too many, given a word for each that is the same if the privacy id is."""
        most = min(self._bounds.max_partitions, self._bounds.max_contributions_per_partition)
        return not self._bounds.signed and each_at_most(units, most)

    def partly(self, records: pa.Table) -> pa.Table:
        """Without some of the records that are too many: what bounding all records would drop as well."""
        if self._bounds.signed:
            return self._net(records)
        return self._keep(records) if self._ranks.stay else counted_copies(records)

    def fully(self, records: pa.Table) -> pa.Table:
        """The records that are kept."""
        if not self._bounds.signed:
            return self._keep(records)
        netted = self._net(records)
        made = np.cumsum(bounding.pieces_of(netted["weight"].to_numpy(), self._bounds))
        starts = np.searchsorted(made, np.arange(0, made[-1] if len(made) else 1, SPLIT_RECORDS), side="right")
        ends = [*starts[1:], len(netted)]
        parts = [netted.slice(start, end - start) for start, end in zip(starts, ends, strict=True)]
        return self._keep(joined(self._keep(self._split(part)) for part in parts))

    def _net(self, records: pa.Table) -> pa.Table:
        items = records["item"]
        item_codes = items.to_numpy() if pa.types.is_integer(items.type) else codes(items)[0]
        partitions = codes(records["key"])[0] if "key" in records.column_names else np.zeros(len(records), int)
        positions, weights = bounding.netted(
            codes(records["unit"])[0], partitions, item_codes, records["weight"].to_numpy()
        )
        return self._weighing(records.take(pa.array(positions)), weights)

    def _split(self, netted: pa.Table) -> pa.Table:
        positions, weights = bounding.split(netted["weight"].to_numpy(), self._bounds)
        return self._weighing(netted.take(pa.array(positions)), weights)

    def _weighing(self, records: pa.Table, weights: np.ndarray) -> pa.Table:
        names = [name for name in records.column_names if name not in ("weight", self._ranks.column)]
        return records.select(names).append_column("weight", pa.array(weights))

    def _keep(self, records: pa.Table) -> pa.Table:
        units = records["unit"]
        unranked = self._ranks.stay and self._ranks.column not in records.column_names
        if unranked and pa.types.is_integer(units.type) and self.keeps_all(units.to_numpy()):
            return records  # sooner than with what follows, and without ranks
        records = self._ranks.settled(records)
        units, distinct = codes(records["unit"])
        if "key" in records.column_names:
            partitions, keys = codes(records["key"])
            seed = self._ranks.salt
            of_unit = cells.mix(scattered(distinct), seed=seed, row=0)[units]
            partition_ranks = cells.mix(of_unit ^ scattered(keys)[partitions], seed=seed, row=1)
        else:
            partitions = partition_ranks = np.zeros(len(units), dtype=np.uint64)
        positions = bounding.kept(units, partitions, partition_ranks, records["rank"].to_numpy(), self._bounds)
        return records if len(positions) == len(records) else records.take(pa.array(positions))


def each_at_most(words: np.ndarray, times: int) -> bool:
    """Whether no word is there more often than so many times, at least one."""
    if len(words) <= times:
        return True
    ordered = np.sort(words)
    return not (ordered[times:] == ordered[:-times]).any()


def codes(values: pa.ChunkedArray) -> tuple[np.ndarray, pa.Array]:
    """A column as positions in the list of its distinct values."""
    encoded = values.combine_chunks().dictionary_encode()
    return encoded.indices.to_numpy(zero_copy_only=False), encoded.dictionary
