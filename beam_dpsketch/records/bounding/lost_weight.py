"""What bounding takes from each unit, on the way from its records to what is kept of them.

Guarantee: what a unit lost is a function of its own records and of what is kept of them, in any order and any split.
Records that are dropped early leave their weight in the column `lost` of a record of the same unit that stays; so does
what reading clamps. Without anything lost there is no such column. Bounding decides without it.

Weights are not signed here. What is kept of a unit has one record at least.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_dpsketch.records.codec import LOST
from beam_dpsketch.records.columns import encode_ids
from beam_dpsketch.records.groups import dictionary_codes

MOST_LOST = 1 << 45
"""How much of a unit's loss is told at most: the last bin has no end, and scaled weights fit into 64 bits."""
Codes: TypeAlias = tuple[np.ndarray, np.ndarray]
"""The unit of each record, and of each that is left, as numbers from 0 on."""
_EXACT = 1 << 53
_NOTHING = np.zeros(0, dtype=np.int64)


class UnitWeights(NamedTuple):
    """The weight of each unit of a table: the distinct ids, and int64 of shape (units,)."""

    units: pa.Array
    weights: np.ndarray

    @classmethod
    def of(cls, records: pa.Table) -> UnitWeights:
        """Return the weight of each unit, of records and of what they lost."""
        codes, units = dictionary_codes(records["unit"])
        return cls(units, sum_by_code(codes, _weights(records) + lost_of(records), len(units)))

    def of_units(self, units: pa.Array) -> np.ndarray:
        """Return the weight of some of the units, int64."""
        return self.weights[_places(units, self.units)]


def carry(before: pa.Table, after: pa.Table, codes: Codes | None = None) -> pa.Table:
    """Return records that are left of others, with the weight of those that are not, and with what these carried."""
    lost, left = lost_by_unit(before, after, codes)
    if not lost.any():
        return after
    firsts = np.zeros(len(lost), dtype=np.int64)
    firsts[left[::-1]] = np.arange(len(after))[::-1]
    carried = np.zeros(len(after), dtype=np.int64)
    carried[firsts[left]] = lost[left]
    return after.append_column(LOST, pa.array(carried))


def lost_by_unit(before: pa.Table, after: pa.Table, codes: Codes | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Return what each unit lost, int64 of shape (units,), and the place there of each record that is left.

    Both are empty if nothing was lost.
    """
    if LOST not in before.column_names and _weights(before).sum() == _weights(after).sum():
        return _NOTHING, _NOTHING
    units, left = _codes_of_both(before["unit"], after["unit"]) if codes is None else codes
    count = int(units.max(initial=-1)) + 1
    lost = sum_by_code(units, _weights(before) + lost_of(before), count) - sum_by_code(left, _weights(after), count)
    return lost, left


def _codes_of_both(before: pa.ChunkedArray, after: pa.ChunkedArray) -> tuple[np.ndarray, np.ndarray]:
    """Return the ids of both as positions in the array of their distinct values."""
    if before.type != after.type:  # sampling by a secret encodes ids
        before, after = encode_ids(before), encode_ids(after)
    codes, _ = dictionary_codes(pa.chunked_array([*before.chunks, *after.chunks], before.type))
    return codes[: len(before)], codes[len(before) :]


def without_lost(records: pa.Table) -> pa.Table:
    """Return records as bounding sees them."""
    return records.drop_columns([LOST]) if LOST in records.column_names else records


def lost_of(records: pa.Table) -> np.ndarray:
    """Return what each record carries, int64."""
    return records[LOST].to_numpy() if LOST in records.column_names else np.zeros(len(records), dtype=np.int64)


def sum_by_code(codes: np.ndarray, weights: np.ndarray, size: int | None = None) -> np.ndarray:
    """Return the sum of the weights of each code, int64, wrapping around."""
    size = int(codes.max(initial=-1)) + 1 if size is None else size
    if len(weights) and int(np.abs(weights).max()) * len(weights) < _EXACT:
        return np.bincount(codes, weights, size).astype(np.int64)
    sums = np.zeros(size, dtype=np.int64)
    np.add.at(sums, codes, weights)
    return sums


def _weights(records: pa.Table) -> np.ndarray:
    weights = records["weight"].to_numpy()
    if "copies" not in records.column_names:
        return weights
    return weights * pc.fill_null(records["copies"].combine_chunks(), 1).to_numpy()


def _places(units: pa.Array, among: pa.Array) -> np.ndarray:
    if units.type != among.type:  # sampling by a secret encodes ids
        units, among = (encode_ids(pa.chunked_array([each])) for each in (units, among))
    return pc.index_in(units, value_set=among).to_numpy()
