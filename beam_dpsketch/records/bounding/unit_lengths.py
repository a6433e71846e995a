"""How long the privacy ids of net records are, in each part of the counters that a norm gives a factor of its own.

Most sketches have one part, and several metrics have one each. The records of a part are net there: those that differ
in other metrics alone are one.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from beam_dpsketch.privacy.norm import scaling
from beam_dpsketch.privacy.norm.bounds import NormBound
from beam_dpsketch.privacy.norm.scaling import Row, TableWeights
from beam_dpsketch.privacy.over_time import lengths
from beam_dpsketch.privacy.over_time.pairs import ONE_PAIR
from beam_dpsketch.records.bounding.netting import NetRecords, net_again
from beam_dpsketch.records.bounding.selection import mark_starts
from beam_dpsketch.records.bounding.side_sums import RowGroups, window_numbers
from beam_dpsketch.records.groups import dictionary_codes
from beam_dpsketch.records.items import SketchInput
from beam_dpsketch.sketches.linear import NormPart


class PartRecords(NamedTuple):
    """The net records of one part; their items are those of records that have nothing else. Sizes are |weights|."""

    place: int
    rows: NetRecords
    sizes: np.ndarray

    def take(self, among: np.ndarray) -> PartRecords:
        return PartRecords(self.place, self.rows.take(among), self.sizes[among])

    def scaled(self, factors: np.ndarray, bits: int) -> NetRecords:
        """Return the rows that are left, in units of 2**-bits, given the factor of each id."""
        sizes = scaling.scaled(self.sizes, factors[self.rows.codes["unit"]], bits)
        return self.rows._replace(weights=np.sign(self.rows.weights) * sizes, records=None).take(sizes > 0)


class UnitLengths:
    """Measures ids by a norm; of order 1 there is one part."""

    def __init__(self, sketch_input: SketchInput, bounds: NormBound) -> None:
        kind, spec = sketch_input.kind, sketch_input.spec
        self._sketch_input, self._over_time, self._order = sketch_input, sketch_input.over_time, bounds.order
        self._cap = min(bounds.max_per_item or scaling.MAX_ITEM_WEIGHT, scaling.MAX_ITEM_WEIGHT)
        self._parts = kind.parts(spec) if bounds.order == 2 else (NormPart(kind, spec),)
        self.shares = [part.share for part in self._parts]
        tables = [(table.cells_per_item, table.share) for table in kind.tables(spec)]
        weights = TableWeights.of(tables)
        numerators = iter(weights.numerators)
        self._numerators = [[*itertools.islice(numerators, part.tables)] for part in self._parts]
        self._bits = max(part.kind.amount_bits for part in self._parts)
        self._denominator = weights.denominator << 2 * self._bits

    def denominator(self, rows: NetRecords) -> int:
        """Return the denominator of all squares."""
        return self._denominator * (1 if self._windows(rows) is None else ONE_PAIR)

    def sizes(self, rows: NetRecords) -> np.ndarray:
        """Return |weight| of net records, at most what an item may weigh."""
        return np.abs(np.clip(rows.weights, -self._cap, self._cap))  # clipped first: -2**63 is its own opposite

    def in_parts(self, rows: NetRecords) -> list[PartRecords]:
        """Return what the rows are in each part, net."""
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
        """Return what each part adds to denominator * N^2 of each id: float64 of shape (parts, ids)."""
        return np.stack([self._squares_of_part(part) for part in parts])

    def _squares_of_part(self, part: PartRecords) -> np.ndarray:
        rows, sizes = part.rows, part.sizes
        squares, new_unit = np.zeros(len(rows.values["unit"])), mark_starts(rows.codes["unit"])
        numbers, windows = np.cumsum(new_unit) - 1, self._windows(rows)
        if self._order == 1:
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
        """Yield what the records of a part add to each row of each of its tables."""
        kind, spec, _ = self._parts[part.place]
        alone, numbers = self._used_items(part.rows)
        keys = self._sketch_input.kind.own(self._sketch_input.spec, part.place, alone)
        items = numbers[part.rows.codes["item"]]
        amounts, most = kind.amounts_of(spec, keys), part.sizes << np.int64(kind.amount_bits)
        for number, (table, places) in enumerate(kind.cells_of(spec, keys)):
            sizes = most if amounts is None else part.sizes * amounts[number][items]
            yield Row(self._numerators[part.place][table], places[items], sizes)

    def _used_items(self, rows: NetRecords) -> tuple[np.ndarray, np.ndarray]:
        """Return the keys of the items of the rows, and the number of each value of items among them, int64."""
        used = np.zeros(len(rows.values["item"]), dtype=bool)
        used[rows.codes["item"]] = True
        keys = self._sketch_input.column_keys(pa.chunked_array([rows.values["item"].filter(pa.array(used))]))
        return keys, np.cumsum(used) - 1

    def _windows(self, rows: NetRecords) -> np.ndarray | None:
        return window_numbers(self._over_time, rows.codes, rows.values)
