"""Netting: add up the weights of records that agree in all other columns, and track clipping loss per privacy unit.

Guarantee: sums wrap around as 64-bit integers do, so they are the same in any order and any split. Rows are sorted by
unit and then by value. The order within a unit does not depend on other units.

Guarantee: a unit's clipping loss depends on its own original and clipped records alone, in any order and any split. If
records are dropped early, or if reading clamps a weight, the column `lost` of a remaining record of the same unit
carries the lost weight. The column is absent if no weight was lost, and bounding decisions ignore it. Weights are
unsigned here, and 1 record or more of each unit remains.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_dpsketch.exact.bounding.selection import mark_starts
from beam_dpsketch.exact.domains.base import EXACT
from beam_dpsketch.exact.reading.codec import LOST_COLUMN
from beam_dpsketch.exact.reading.columns import encode_ids
from beam_dpsketch.exact.reading.groups import dictionary_codes, in_order_of_values

MOST_LOST = 1 << 45
"""Cap on a unit's reported loss. The last bin is open-ended, and scaled weights fit into 64 bits."""
Codes: TypeAlias = tuple[np.ndarray, np.ndarray]
"""Unit numbers, from 0 on, of the original records and of the remaining records."""
_NOTHING = np.zeros(0, dtype=np.int64)


class UnitWeights(NamedTuple):
    """Weight per unit: the distinct ids, and int64, shape (units,)."""

    units: pa.Array
    weights: np.ndarray

    @classmethod
    def of(cls, records: pa.Table) -> UnitWeights:
        """Sum each unit's weight, including the weight that its records carry as lost."""
        codes, units = dictionary_codes(records["unit"])
        return cls(units, sum_by_code(codes, _weights(records) + lost_of(records), len(units)))

    def of_units(self, units: pa.Array) -> np.ndarray:
        """Look up the weights of some units, int64."""
        return self.weights[_places(units, self.units)]


def carry(before: pa.Table, after: pa.Table, codes: Codes | None = None) -> pa.Table:
    """Add to the remaining records the weight of dropped records, and the lost weight that the originals carried."""
    lost, left = lost_by_unit(before, after, codes)
    if not lost.any():
        return after
    firsts = np.zeros(len(lost), dtype=np.int64)
    firsts[left[::-1]] = np.arange(len(after))[::-1]
    carried = np.zeros(len(after), dtype=np.int64)
    carried[firsts[left]] = lost[left]
    return after.append_column(LOST_COLUMN, pa.array(carried))


def lost_by_unit(before: pa.Table, after: pa.Table, codes: Codes | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Compute each unit's clipping loss, int64, shape (units,), and each remaining record's unit number.

    Both are empty if no weight was lost.
    """
    if LOST_COLUMN not in before.column_names and _weights(before).sum() == _weights(after).sum():
        return _NOTHING, _NOTHING
    units, left = _codes_of_both(before["unit"], after["unit"]) if codes is None else codes
    count = int(units.max(initial=-1)) + 1
    lost = sum_by_code(units, _weights(before) + lost_of(before), count) - sum_by_code(left, _weights(after), count)
    return lost, left


def _codes_of_both(before: pa.ChunkedArray, after: pa.ChunkedArray) -> tuple[np.ndarray, np.ndarray]:
    if before.type != after.type:  # sampling by a secret encodes ids
        before, after = encode_ids(before), encode_ids(after)
    codes, _ = dictionary_codes(pa.chunked_array([*before.chunks, *after.chunks], before.type))
    return codes[: len(before)], codes[len(before) :]


def without_lost(records: pa.Table) -> pa.Table:
    """Drop the column of lost weight."""
    return records.drop_columns([LOST_COLUMN]) if LOST_COLUMN in records.column_names else records


def lost_of(records: pa.Table) -> np.ndarray:
    """Lost weight that each record carries, int64."""
    if LOST_COLUMN not in records.column_names:
        return np.zeros(len(records), dtype=np.int64)
    return records[LOST_COLUMN].to_numpy()


def sum_by_code(codes: np.ndarray, weights: np.ndarray, size: int | None = None) -> np.ndarray:
    """Sum the weights by code, int64, wrapping around."""
    size = int(codes.max(initial=-1)) + 1 if size is None else size
    largest = max(int(weights.max(initial=0)), -int(weights.min(initial=0)))
    if largest * len(weights) < EXACT:  # exact in float64, and much faster
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


Units: TypeAlias = tuple[np.ndarray, pa.Array]
"""Each record's unit, as a position in the array of distinct ids."""
_WORD = 64
_FAR_FEWER = 4


class NetRecords(NamedTuple):
    """Distinct records by column, as positions in the distinct values, with net weights, int64.

    `records` is the number of input records per row, int64. It is `None` if they were not counted.
    """

    codes: dict[str, np.ndarray]
    values: dict[str, pa.Array]
    weights: np.ndarray
    records: np.ndarray | None = None

    def take(self, rows: np.ndarray) -> NetRecords:
        codes = {name: codes[rows] for name, codes in self.codes.items()}
        return NetRecords(codes, self.values, self.weights[rows], None if self.records is None else self.records[rows])

    def to_table(self) -> pa.Table:
        columns = {name: self.values[name].take(pa.array(codes)) for name, codes in self.codes.items()}
        counts = {} if self.records is None else {"records": pa.array(self.records)}
        return pa.table({**columns, "weight": pa.array(self.weights), **counts})

    def without_zeros(self) -> NetRecords:
        """Drop rows with weight 0.

        Record counts move to the first row of their unit, key and window. That row remains even if all weights there
        are 0.
        """
        keep = self.weights != 0
        if self.records is None:
            return self.take(keep)
        starts = mark_starts(*(codes for name, codes in self.codes.items() if name != "item"))
        groups, firsts = np.cumsum(starts) - 1, np.flatnonzero(starts)
        left = np.flatnonzero(keep)
        left = left[mark_starts(groups[left])]
        totals = np.add.reduceat(self.records, firsts) if len(firsts) else self.records
        firsts[groups[left]] = left
        counts = np.zeros_like(self.records)
        counts[firsts] = totals
        keep[firsts] = True
        return self._replace(records=counts).take(keep)


def net(records: pa.Table, *, count: bool = False, units: Units | None = None) -> NetRecords:
    """Net a table with the columns unit, item, weight and others. Rows are sorted by unit, the others, then item.

    Rows with weight 0 remain. With `count`, input records are counted: the column `records` contains the number per
    row, and a missing number means 1. Pass `units` if the `dictionary_codes` of the units are available.
    """
    others = [name for name in records.column_names if name not in ("unit", "item", "weight", "records")]
    names = ["unit", *others, "item"]
    values, codes = {}, {}
    for name in names:
        if name == "unit":
            found, distinct = dictionary_codes(records[name]) if units is None else units
        else:
            found, distinct = in_order_of_values(*dictionary_codes(records[name]))
        values[name], codes[name] = distinct, found.astype(np.int64)
    numbers = [records["weight"].to_numpy()] + ([count_records(records)] if count else [])
    return _net_codes(codes, values, numbers)


def net_again(rows: NetRecords, items: pa.Array, codes: np.ndarray, among: np.ndarray) -> NetRecords:
    """Net the rows `among` again after replacing their items. Rows with weight 0 remain.

    Within a unit, key and window the order of rows may depend on other units.
    """
    found = {name: each[among] for name, each in rows.codes.items()} | {"item": codes[among].astype(np.int64)}
    return _net_codes(found, rows.values | {"item": items}, [rows.weights[among]])


def add_up_ids(rows: NetRecords) -> pa.Table:
    """Drop the ids, and add up rows of different ids if that leaves far fewer rows."""
    codes = {name: each for name, each in rows.codes.items() if name != "unit"}
    places, count = np.zeros(len(rows.weights), dtype=np.int64), 1
    for name, each in codes.items():
        places, count = places * np.int64(len(rows.values[name])) + each, count * len(rows.values[name])
        if count * _FAR_FEWER > len(places):
            return rows.to_table().drop_columns(["unit"])
    sums = sum_by_code(places, rows.weights, count)
    left = np.flatnonzero(np.bincount(places, minlength=count))
    found, places = {}, left
    for name in reversed(codes):
        places, found[name] = np.divmod(places, len(rows.values[name]))
    columns = {name: rows.values[name].take(pa.array(found[name])) for name in codes}
    return pa.table({**columns, "weight": pa.array(sums[left])})


def count_records(records: pa.Table) -> np.ndarray:
    """Count the input records per row, int64: the column `records`, or 1."""
    if "records" not in records.column_names:
        return np.ones(len(records), dtype=np.int64)
    return pc.fill_null(records["records"].combine_chunks(), 1).to_numpy()


def _net_codes(codes: dict[str, np.ndarray], values: dict[str, pa.Array], numbers: list[np.ndarray]) -> NetRecords:
    bits, columns = [max(0, len(values[name]) - 1).bit_length() for name in codes], [*codes.values()]
    if sum(bits) < _WORD:
        columns, sums = _net_packed(columns, bits, numbers)
    else:
        order = np.lexsort(columns[::-1])
        columns = [each[order] for each in columns]
        starts = np.flatnonzero(mark_starts(*columns))
        columns, sums = [each[starts] for each in columns], [np.add.reduceat(each[order], starts) for each in numbers]
    return NetRecords(dict(zip(codes, columns, strict=True)), values, *sums)


def _net_packed(
    codes: list[np.ndarray], bits: list[int], numbers: list[np.ndarray]
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Net rows by codes packed into one integer, which sorts fast."""
    packed = codes[0]
    for each, size in zip(codes[1:], bits[1:], strict=True):
        packed = packed << np.int64(size) | each
    if len(packed) and all(each.min() == each.max() for each in numbers):
        packed = np.sort(packed)
        starts = np.flatnonzero(mark_starts(packed))
        sums = [np.diff(np.append(starts, len(packed))) * each[0] for each in numbers]
    else:
        order = np.argsort(packed)
        packed = packed[order]
        starts = np.flatnonzero(mark_starts(packed))
        sums = [np.add.reduceat(each[order], starts) if len(starts) else each for each in numbers]
    packed, unpacked = packed[starts], []
    for size in reversed(bits[1:]):
        unpacked.append(packed & np.int64((1 << size) - 1))
        packed = packed >> np.int64(size)
    return [packed, *reversed(unpacked)], sums
