"""By what the records of a privacy id are chosen: random numbers, or a keyed hash that a replay computes again."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from typing import Any, ClassVar, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_dpsketch.hashing import cells
from beam_dpsketch.hashing.fingerprints import fingerprints
from beam_dpsketch.privacy.keyed_randomness import KeyedRandomness
from beam_dpsketch.records.ids import canonical
from beam_dpsketch.records.kept_copies import Words

_FIRST_ROW = 16  # of the mixing functions; those before it choose partitions and windows
_FIRST_ROW_OF_WORDS = 256


class Priorities(Protocol):
    """How records get their ranks, of which the least are kept.

    Attributes:
      column: what a table may carry for it; records without it are as they were read.
      stay: whether a rank stays with its record, so that parts can be bounded alone.
    """

    column: ClassVar[str]
    stay: ClassVar[bool]

    @property
    def salt(self) -> int:
        """The seed of hashes by which partitions and windows are chosen."""

    def assign(self, records: pa.Table) -> pa.Table:
        """The records with ranks; those that have one keep it. Unless ranks stay, all records of their privacy ids."""

    def words(self, records: pa.Table) -> Words:
        """The randomness that chooses among copies of records; the records themselves all differ."""


class RandomPriorities:
    """A random number for each record, once, drawn as soon as one of its privacy id may be too many."""

    column: ClassVar[str] = "rank"
    stay: ClassVar[bool] = True

    def __init__(self, salt: int | None = None) -> None:
        self._salt = secrets.randbits(64) if salt is None else salt

    @property
    def salt(self) -> int:
        """Drawn while the pipeline is built, the same for all workers."""
        return self._salt

    def assign(self, records: pa.Table) -> pa.Table:
        """The records, each with a random number from the system."""
        known = self.column in records.column_names
        if known and not records[self.column].null_count:
            return records
        drawn = pa.array(np.frombuffer(os.urandom(4 * len(records)), dtype=np.uint32))
        if not known:
            return records.append_column(self.column, drawn)
        place = records.column_names.index(self.column)
        return records.set_column(place, self.column, pc.coalesce(records[self.column].combine_chunks(), drawn))

    def words(self, records: pa.Table) -> Words:
        """Random numbers from the system."""
        return lambda places, _: np.frombuffer(os.urandom(8 * len(places)), dtype=np.uint64)


class KeyedPriorities:
    """A hash of all that a record says, of how many equal ones come before it, and of a secret.

    So what is kept of a privacy id is a function of its records, in whatever order and parts they come, but only once
    all are there: until then equal records are merely counted. A transform bounds once and a release id names one
    transform, so that id and secret are enough to tell this choice from all others; privacy asks only that the choice
    for one id does not look at other ids.

    Args:
      randomness: a picklable function that gives the keyed randomness of the transform, on a worker.
    """

    column: ClassVar[str] = "copies"
    stay: ClassVar[bool] = False

    def __init__(self, randomness: Callable[[], KeyedRandomness]) -> None:
        self._randomness = randomness
        self._salt: int | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_salt": None}

    @property
    def salt(self) -> int:
        """Made of the secret, on a worker."""
        if self._salt is None:
            self._salt = int.from_bytes(self._randomness().random_bytes(b"contribution bounding")(8), "little")
        return self._salt

    def assign(self, records: pa.Table) -> pa.Table:
        """The records in an order of their own, as often as they are there, with 64-bit ranks."""
        if "rank" in records.column_names:
            return records
        counted = count_copies(records.set_column(0, "unit", canonical(records["unit"])))
        names = [name for name in records.column_names if name != self.column]
        counted = counted.sort_by([(name, "ascending") for name in names])
        copies = counted[self.column].to_numpy()
        each = np.repeat(np.arange(len(copies)), copies)
        number = np.arange(len(each)) - np.repeat(np.cumsum(copies) - copies, copies)
        counted = counted.select(names)
        ranks = self._hashed(counted)[each] ^ number.astype(np.uint64)
        ranks = cells.mix(ranks, seed=self.salt, row=_FIRST_ROW + len(names))
        return counted.take(pa.array(each)).append_column("rank", pa.array(ranks))

    def words(self, records: pa.Table) -> Words:
        """Hashes of all that a record says, and of the number."""
        hashed = self._hashed(records.set_column(0, "unit", canonical(records["unit"])))
        return lambda places, number: cells.mix(hashed[places], seed=self.salt, row=_FIRST_ROW_OF_WORDS + number)

    def _hashed(self, records: pa.Table) -> np.ndarray:
        """One word for each record, of all its columns."""
        hashed = np.zeros(len(records), dtype=np.uint64)
        for row, name in enumerate(records.column_names, _FIRST_ROW):
            hashed = cells.mix(hashed ^ _words(records[name]), seed=self.salt, row=row)
        return hashed


def count_copies(records: pa.Table) -> pa.Table:
    """Equal records of a table made one with the number of its copies; a record without that number is there once."""
    names = [name for name in records.column_names if name != KeyedPriorities.column]
    copies = np.ones(len(records), dtype=np.int64)
    if len(names) < len(records.column_names):
        copies = pc.fill_null(records[KeyedPriorities.column], 1)
    records = records.select(names).append_column(KeyedPriorities.column, pa.array(copies))
    counted = records.group_by(names).aggregate([(KeyedPriorities.column, "sum")])
    return counted.rename_columns({f"{KeyedPriorities.column}_sum": KeyedPriorities.column}).select(
        records.column_names
    )


def _words(column: pa.ChunkedArray) -> np.ndarray:
    """One 64-bit word for each value."""
    if pa.types.is_integer(column.type):
        return column.to_numpy().astype(f"{column.to_numpy().dtype.kind}8").view(np.uint64)
    encoded = column.combine_chunks().dictionary_encode()
    return fingerprints(encoded.dictionary)[encoded.indices.to_numpy(zero_copy_only=False)]
