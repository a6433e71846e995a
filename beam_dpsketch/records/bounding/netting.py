"""Net the records of a table: add up the weights of records that are equal in everything else.

Guarantee: the sums are those of 64-bit integers that wrap around, in any order and any split. Rows come out unit by
unit, and within a unit in order of their values: the order of a unit's rows does not depend on other units.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_dpsketch.records.bounding.selection import mark_starts
from beam_dpsketch.records.groups import dictionary_codes

_WORD = 64


class NetRecords(NamedTuple):
    """Different records by column, as positions in the distinct values, and their weights, int64."""

    codes: dict[str, np.ndarray]
    values: dict[str, pa.Array]
    weights: np.ndarray

    def take(self, rows: np.ndarray) -> NetRecords:
        """Return some of the rows, given by position or by mask."""
        codes = {name: codes[rows] for name, codes in self.codes.items()}
        return NetRecords(codes, self.values, self.weights[rows])

    def to_table(self) -> pa.Table:
        """Return the records as a table."""
        columns = {name: self.values[name].take(pa.array(codes)) for name, codes in self.codes.items()}
        return pa.table({**columns, "weight": pa.array(self.weights)})


def net(records: pa.Table) -> NetRecords:
    """Net a table with the columns unit, item, weight, and any others, by which rows are ordered before the item.

    Rows of weight 0 stay.
    """
    others = [name for name in records.column_names if name not in ("unit", "item", "weight")]
    names = ["unit", *others, "item"]
    values, codes = {}, []
    for name in names:
        found, distinct = dictionary_codes(records[name])
        if name != "unit":
            found, distinct = _in_order_of_values(found, distinct)
        values[name] = distinct
        codes.append(found.astype(np.int64))
    weights = records["weight"].to_numpy()
    bits = [max(0, len(values[name]) - 1).bit_length() for name in names]
    if sum(bits) < _WORD:
        codes, weights = _net_packed(codes, bits, weights)
    else:
        order = np.lexsort(codes[::-1])
        codes = [each[order] for each in codes]
        starts = np.flatnonzero(mark_starts(*codes))
        codes, weights = [each[starts] for each in codes], np.add.reduceat(weights[order], starts)
    return NetRecords(dict(zip(names, codes, strict=True)), values, weights)


def _in_order_of_values(codes: np.ndarray, distinct: pa.Array) -> tuple[np.ndarray, pa.Array]:
    order = pc.sort_indices(distinct).to_numpy()
    ranks = np.empty_like(order)
    ranks[order] = np.arange(len(order), dtype=order.dtype)
    return ranks[codes], distinct.take(pa.array(order))


def _net_packed(codes: list[np.ndarray], bits: list[int], weights: np.ndarray) -> tuple[list[np.ndarray], np.ndarray]:
    """Net rows whose codes fit into one number, which sorts fast."""
    packed = codes[0]
    for each, size in zip(codes[1:], bits[1:], strict=True):
        packed = packed << np.int64(size) | each
    if len(weights) and weights.min() == weights.max():
        packed = np.sort(packed)
        starts = np.flatnonzero(mark_starts(packed))
        sums = np.diff(np.append(starts, len(packed))) * weights[0]
    else:
        order = np.argsort(packed)
        packed = packed[order]
        starts = np.flatnonzero(mark_starts(packed))
        sums = np.add.reduceat(weights[order], starts) if len(starts) else weights
    packed, unpacked = packed[starts], []
    for size in reversed(bits[1:]):
        unpacked.append(packed & np.int64((1 << size) - 1))
        packed = packed >> np.int64(size)
    return [packed, *reversed(unpacked)], sums
