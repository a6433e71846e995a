"""Record bounding: choose the records of each privacy id at random, or by a keyed hash that replays repeat.

Guarantee: the choice for a privacy id depends on its own records and their priorities alone. Bounding parts first and
then their union selects the same records as bounding everything at once.

Copies of records are sampled without replacement and are never materialized. Guarantee: the numbers are distributed as
if each copy were a record and `most` records of each group were drawn uniformly without replacement (the multivariate
hypergeometric distribution). Each binomial draw below is within 2^-45 of its distribution in total variation. Memory
and time grow with the record count and the logarithm of the copy count.

Proof. Give each copy a priority in [0, 1) whose binary digits are independent fair coins. All orders of priorities are
equally likely, so the `most` copies with the smallest priorities are a uniform sample. Find them digit by digit. Among
the undecided copies, copies with next digit 0 have the smaller priorities. If they fit into the remaining room, they
are selected, and copies with digit 1 stay undecided. Otherwise copies with digit 1 are dropped. Copies of a record are
interchangeable: of n undecided copies, Binomial(n, 1/2) have digit 0, independently of all earlier digits. Stop as soon
as all undecided copies fit, or no room is left.
"""

from __future__ import annotations

import functools
import itertools
import os
import secrets
from collections.abc import Callable
from typing import Any, ClassVar, Protocol, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_dpsketch.exact.bounding import selection
from beam_dpsketch.exact.bounding.bounded import Bounded
from beam_dpsketch.exact.bounding.netting import Codes, carry, lost_by_unit, net, without_lost
from beam_dpsketch.exact.bounding.parts import shard_hash
from beam_dpsketch.exact.bounding.side_sums import sums_of_kept, with_sums
from beam_dpsketch.exact.hashing import cells
from beam_dpsketch.exact.hashing.fingerprints import fingerprints
from beam_dpsketch.exact.horizon import WindowRows
from beam_dpsketch.exact.reading.columns import encode_ids
from beam_dpsketch.exact.reading.groups import dictionary_codes, in_order_of_values
from beam_dpsketch.exact.reading.reading import total_weights
from beam_dpsketch.privacy.contributions import RecordBounds
from beam_dpsketch.privacy.noise.keyed_randomness import KeyedRandomness
from beam_dpsketch.privacy.selection import SelectionRule
from beam_dpsketch.privacy.summary_counts import LostCounter, SummaryCount, histogram

UniformBits: TypeAlias = Callable[[np.ndarray, int], np.ndarray]
"""Maps (places of records, a number) to a uniform uint64 per place, independent across places and numbers."""

_POWERS = 32  # copy counts are below 2**32
_MAX_WEIGHT, _MIN_WEIGHT = 1 << 128, 1 << 56  # in a probability table, which omits smaller weights


def sample_copies(groups: np.ndarray, copies: np.ndarray, most: int, uniform_bits: UniformBits) -> np.ndarray:
    """Sample the number of selected copies for each record, int64, shape (n,).

    Args:
      groups: group per record, whole numbers, shape (n,).
      copies: copy count per record, int64 in [0, 2**32).
      most: maximum selected copies per group.
      uniform_bits: the randomness.
    """
    kept = np.zeros_like(copies)
    distinct, groups = np.unique(groups, return_inverse=True)
    room = np.full(len(distinct), most, dtype=np.int64)
    places, undecided = np.arange(len(copies)), copies
    for digit in itertools.count():
        fits = _sum_groups(groups[places], undecided, room) <= room
        ends = fits[groups[places]]
        kept[places[ends]] += undecided[ends]
        goes_on = ~ends & (undecided > 0) & (room[groups[places]] > 0)
        places, undecided = places[goes_on], undecided[goes_on]
        if not len(places):
            break
        zeros = _draw_halves(undecided, places, digit, uniform_bits)
        sums = _sum_groups(groups[places], zeros, room)
        fits = sums <= room
        room -= np.where(fits, sums, 0)
        keeps = fits[groups[places]]
        kept[places] += np.where(keeps, zeros, 0)
        undecided = np.where(keeps, undecided - zeros, zeros)
    return kept


def _sum_groups(groups: np.ndarray, values: np.ndarray, room: np.ndarray) -> np.ndarray:
    sums = np.zeros_like(room)
    np.add.at(sums, groups, values)
    return sums


def _draw_halves(counts: np.ndarray, places: np.ndarray, digit: int, uniform_bits: UniformBits) -> np.ndarray:
    """Draw from Binomial(count, 1/2) for each count, as a sum of one draw per power of two in it."""
    drawn = np.zeros_like(counts)
    for power in range(int(counts.max()).bit_length()):
        chosen = np.flatnonzero(counts >> power & 1)
        if len(chosen):
            low, thresholds = _binomial_table(power)
            uniform = uniform_bits(places[chosen], digit * _POWERS + power)
            drawn[chosen] += low + np.searchsorted(thresholds, uniform, side="right")
    return drawn


@functools.lru_cache(maxsize=_POWERS)
def _binomial_table(power: int) -> tuple[int, np.ndarray]:
    """Smallest value of Binomial(2**power, 1/2), and floor(2**64 P(X <= x)) for each x but the largest."""
    if not power:
        return 0, np.array([1 << 63], dtype=np.uint64)
    weights, successes = [_MAX_WEIGHT], 1 << power - 1  # symmetric, so from the middle up
    while weights[-1] >= _MIN_WEIGHT:
        weights.append(weights[-1] * ((1 << power) - successes) // (successes + 1))
        successes += 1
    weights.pop()
    sums = list(itertools.accumulate(weights[:0:-1] + weights))
    thresholds = np.array([(each << 64) // sums[-1] for each in sums[:-1]], dtype=np.uint64)
    return (1 << power - 1) - len(weights) + 1, thresholds


_FIRST_ROW = 16  # of the mixing functions; earlier rows choose partitions and windows
_FIRST_COPY_ROW = 256


class Priorities(Protocol):
    """Rule that adds a column `priority` to records. Records with the smallest priorities are selected.

    Attributes:
      column: the column in pruned tables. Records without it are unpruned.
      is_persistent: whether records keep their priority, which allows parts of an id's records to be bounded
        separately.
    """

    column: ClassVar[str]
    is_persistent: ClassVar[bool]

    @property
    def salt(self) -> int:
        """Seed of the hashes that choose partitions and windows."""

    def assign(self, records: pa.Table) -> pa.Table:
        """Add missing priorities. If not persistent, the table must contain all records of an id."""

    def copy_randomness(self, records: pa.Table) -> UniformBits:
        """Randomness for sampling copies of records. The records must all differ."""


class RandomPriorities:
    """One random number per record, drawn as soon as its id may exceed the bounds."""

    column: ClassVar[str] = "priority"
    is_persistent: ClassVar[bool] = True

    def __init__(self, salt: int | None = None) -> None:
        self._salt = secrets.randbits(64) if salt is None else salt

    @property
    def salt(self) -> int:
        return self._salt

    def assign(self, records: pa.Table) -> pa.Table:
        """Draw a number from the system's entropy for every record without a priority."""
        known = self.column in records.column_names
        if known and not records[self.column].null_count:
            return records
        drawn = pa.array(np.frombuffer(os.urandom(4 * len(records)), dtype=np.uint32))
        if not known:
            return records.append_column(self.column, drawn)
        place = records.column_names.index(self.column)
        return records.set_column(place, self.column, pc.coalesce(records[self.column].combine_chunks(), drawn))

    def copy_randomness(self, records: pa.Table) -> UniformBits:
        return lambda places, _: np.frombuffer(os.urandom(8 * len(places)), dtype=np.uint64)


class KeyedPriorities:
    """Hash of a record's columns, the number of equal records before it, and a secret.

    The choice for a privacy id depends on its records alone, in any order and any split. It needs all records of the
    id, so pruning only counts equal records. A transform bounds once and a release id names one transform, so the id
    and the secret separate this choice from all others. Privacy only requires that the choice for one id ignores other
    ids.
    """

    column: ClassVar[str] = "copies"
    is_persistent: ClassVar[bool] = False

    def __init__(self, randomness: Callable[[], KeyedRandomness]) -> None:
        self._randomness = randomness
        self._salt: int | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_salt": None}

    @property
    def salt(self) -> int:
        if self._salt is None:
            self._salt = int.from_bytes(self._randomness().random_bytes(b"contribution bounding")(8), "little")
        return self._salt

    def assign(self, records: pa.Table) -> pa.Table:
        """Sort the records canonically, duplicates included, and add 64-bit priorities."""
        if "priority" in records.column_names:
            return records
        distinct = count_copies(records.set_column(0, "unit", encode_ids(records["unit"])))
        names = [name for name in records.column_names if name != self.column]
        distinct = distinct.sort_by([(name, "ascending") for name in names])
        copies = distinct[self.column].to_numpy()
        rows = np.repeat(np.arange(len(copies)), copies)
        number = np.arange(len(rows)) - np.repeat(np.cumsum(copies) - copies, copies)
        distinct = distinct.select(names)
        hashes = self._hash_records(distinct)[rows] ^ number.astype(np.uint64)
        hashes = cells.mix(hashes, seed=self.salt, row=_FIRST_ROW + len(names))
        return distinct.take(pa.array(rows)).append_column("priority", pa.array(hashes))

    def copy_randomness(self, records: pa.Table) -> UniformBits:
        hashes = self._hash_records(records.set_column(0, "unit", encode_ids(records["unit"])))
        return lambda places, number: cells.mix(hashes[places], seed=self.salt, row=_FIRST_COPY_ROW + number)

    def _hash_records(self, records: pa.Table) -> np.ndarray:
        hashes = np.zeros(len(records), dtype=np.uint64)
        for row, name in enumerate(records.column_names, _FIRST_ROW):
            hashes = cells.mix(hashes ^ _hash_column(records[name]), seed=self.salt, row=row)
        return hashes


def count_copies(records: pa.Table) -> pa.Table:
    """Collapse duplicate records into one row with a count. A missing count means 1."""
    names = [name for name in records.column_names if name != "copies"]
    is_counted = len(names) < len(records.column_names)
    copies = pc.fill_null(records["copies"], 1) if is_counted else pa.array(np.ones(len(records), dtype=np.int64))
    counted = records.select(names).append_column("copies", copies).group_by(names).aggregate([("copies", "sum")])
    return counted.rename_columns({"copies_sum": "copies"}).select([*names, "copies"])


def _hash_column(column: pa.ChunkedArray) -> np.ndarray:
    if pa.types.is_integer(column.type):
        return column.to_numpy().astype(f"{column.to_numpy().dtype.kind}8").view(np.uint64)
    codes, distinct = dictionary_codes(column)
    return fingerprints(distinct)[codes]


_LEAST_PRUNED = 4  # pruning costs about as much as moving a fourth of the records
_MANY = 256  # more copies of one value per bundle could fill the memory of their shard


class RecordRule:
    """Rule that samples table records within `RecordBounds`."""

    def __init__(
        self,
        bounds: RecordBounds,
        priorities: Priorities,
        counters: tuple[SummaryCount, ...] = (),
        selection: SelectionRule | None = None,
        over_time: WindowRows | None = None,
        lost: LostCounter | None = None,
    ) -> None:
        self.bounds, self._over_time, self._lost = bounds, over_time, lost
        self._priorities, self._counters, self._selection = priorities, counters, selection

    def keeps_all(self, unit_hashes: np.ndarray) -> bool:
        """Whether no id can exceed the bounds, given one hash per record, equal for equal ids."""
        most = min(self.bounds.kept_keys, self.bounds.max_records)
        return not self.bounds.signed and max_multiplicity_at_most(unit_hashes, most)

    def pays_to_prune(self, records: pa.Table, unit_hashes: np.ndarray) -> bool:
        """Whether `prune` may drop a good part of all records. With several keys: whether it drops any record."""
        if self.bounds.signed or not {"key", "window"}.isdisjoint(records.column_names):
            return not self.keeps_all(unit_hashes)
        if not self._priorities.is_persistent:
            return repeats_pay(records, unit_hashes)
        return many_beyond(unit_hashes, self.bounds.max_records)

    def prune(self, records: pa.Table) -> pa.Table:
        kept, codes = self._prune(without_lost(records))
        return kept if self._lost is None else carry(records, kept, codes)

    def _prune(self, records: pa.Table) -> tuple[pa.Table, Codes | None]:
        """Prune, and return the units of the records if they were computed."""
        if self.bounds.signed:
            return self._net(records), None
        return self._keep(records) if self._priorities.is_persistent else (count_copies(records), None)

    def select(self, records: pa.Table) -> pa.Table:
        """Select records. With signed weights, the column `copies` contains the number of copies of each."""
        return self._select(records)[0]

    def _select(self, records: pa.Table) -> tuple[pa.Table, Codes | None]:
        """Select records, and return their units if they were computed."""
        return (self._sample(self._net(records)), None) if self.bounds.signed else self._keep(records)

    def bound(self, records: pa.Table) -> Bounded:
        kept, lost = self._bounded(records)
        sums = None
        if self._counters or self._selection is not None:
            sums = sums_of_kept(self._counters, self._selection, kept, self.bounds, self._over_time)
        return with_sums(kept, sums, lost, self._selection, each_window=self._over_time is None)

    def _bounded(self, records: pa.Table) -> tuple[pa.Table, np.ndarray | None]:
        """Select records, and compute the clipping histogram, followed by the clipped weight if it covers a run."""
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
        """Sample partitions, then copies of the records that the net weights are split into."""
        units, partitions, partition_priorities = self._partitions(net)
        groups = units.astype(np.int64) * len(net) + partitions
        positions = selection.select_parts(units, partitions, partition_priorities, self.bounds.kept_keys)
        pieces, weights, copies = selection.split_weights(net["weight"].to_numpy()[positions], self.bounds)
        positions = positions[pieces]
        records = self._replace_weights(net.take(pa.array(positions)), weights)
        most = self.bounds.max_records
        kept = sample_copies(groups[positions], copies, most, self._priorities.copy_randomness(records))
        return records.append_column("copies", pa.array(kept)).filter(pa.array(kept > 0))

    def _replace_weights(self, records: pa.Table, weights: np.ndarray) -> pa.Table:
        names = [name for name in records.column_names if name != "weight"]
        return records.select(names).append_column("weight", pa.array(weights))

    def _keep(self, records: pa.Table) -> tuple[pa.Table, Codes | None]:
        """Select records with unsigned weights. Priorities that are not persistent reorder the records."""
        units = records["unit"]
        unassigned = self._priorities.is_persistent and self._priorities.column not in records.column_names
        if unassigned and pa.types.is_integer(units.type) and self.keeps_all(units.to_numpy()):
            return records, None  # avoids the cost of assigning priorities
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
        """Units and partitions as whole numbers, and the priority of each unit's partition.

        An attacker can construct keys with equal hashes. Partitions are numbered in key order, so other units cannot
        influence the choice between such keys.
        """
        units, distinct = dictionary_codes(records["unit"])
        if "key" not in records.column_names:
            return units, np.zeros(len(units), dtype=np.int64), np.zeros(len(units), dtype=np.uint64)
        partitions, keys = in_order_of_values(*dictionary_codes(records["key"]))
        seed = self._priorities.salt
        hashes = cells.mix(shard_hash(distinct), seed=seed, row=0)[units]
        return units, partitions, cells.mix(hashes ^ shard_hash(keys)[partitions], seed=seed, row=1)


def _contents(records: pa.Table) -> list[np.ndarray]:
    """Rank of each value within each content column. The order of two values does not depend on other records."""
    names = [name for name in records.column_names if name not in ("unit", "key", "priority")]
    return [in_order_of_values(*dictionary_codes(records[name]))[0] for name in names]


def max_multiplicity_at_most(values: np.ndarray, limit: int) -> bool:
    """Whether every value occurs at most `limit` times (`limit >= 1`)."""
    return count_beyond(values, limit) == 0


def count_beyond(values: np.ndarray, limit: int) -> int:
    """Count the values beyond the first `limit` occurrences of each distinct value (`limit >= 1`)."""
    return 0 if len(values) <= limit else _beyond(np.sort(values), limit)


def repeats_pay(records: pa.Table, unit_hashes: np.ndarray) -> bool:
    """Whether a good part of all records repeat the item of an id. For items that are bytes: whether an id repeats."""
    items = records["item"]
    if not pa.types.is_integer(items.type):
        return count_beyond(unit_hashes, 1) > 0
    pairs = cells.mix(unit_hashes ^ items.to_numpy().view(np.uint64), seed=0, row=0) + unit_hashes
    return many_beyond(pairs, 1)


def many_beyond(values: np.ndarray, limit: int) -> bool:
    """Whether a good part of all values exceed `limit` occurrences, or one value has very many."""
    ordered = np.sort(values)
    return _beyond(ordered, limit) * _LEAST_PRUNED >= len(values) or _beyond(ordered, limit + _MANY) > 0


def _beyond(ordered: np.ndarray, limit: int) -> int:
    return int(np.count_nonzero(ordered[limit:] == ordered[:-limit]))
