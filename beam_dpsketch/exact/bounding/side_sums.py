"""Summary counts and key votes per privacy id, per key and window.

Guarantee: the numbers of an id depend on its own records alone, in any order and any split. Under a norm each counter
is within the bound proved in `privacy.aside.summary_counts`. Under `RecordBounds`, selected records are counted. If
windows enter timeline rows, an id votes once for each of max_keys keys, which are chosen once for all windows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from beam_dpsketch.exact.bounding.bounded import Bounded
from beam_dpsketch.exact.bounding.netting import NetRecords, count_records, sum_by_code
from beam_dpsketch.exact.bounding.selection import cast_votes, mark_starts
from beam_dpsketch.exact.horizon import WindowRows
from beam_dpsketch.exact.reading.groups import dictionary_codes
from beam_dpsketch.exact.reading.items import NOISY, SECOND, VOTERS, VOTES
from beam_dpsketch.exact.reading.reading import total_weights
from beam_dpsketch.exact.sums.vote_rounds import edges_of
from beam_dpsketch.privacy.contributions import RecordBounds
from beam_dpsketch.privacy.norm import scaling
from beam_dpsketch.privacy.norm.scaling import NO_SCALING
from beam_dpsketch.privacy.over_time.lengths import WindowPairs
from beam_dpsketch.privacy.selection import SelectionRule
from beam_dpsketch.privacy.summary_counts import CLIPPED, RECORDS, SCALED, UNITS, WEIGHT, SummaryCount

_NOT_CELLS = ("item", "weight", "records", "copies", "priority")
_DENSE = 8  # places per row; up to this number a table of all places is faster
_CELLS = ("key", "window")
Counters: TypeAlias = Sequence[SummaryCount]
Selection: TypeAlias = "SelectionRule | None"


def sums_of_scaled(
    counters: Counters,
    selection: Selection,
    netted: NetRecords,
    magnitudes: np.ndarray,
    factors: np.ndarray,
    *,
    bits: int,
    over_time: WindowRows | None,
) -> pa.Table:
    """Compute a row per unit, key and window with a column for each counter, in units of 2**-bits.

    Args:
      counters: summary counters of a release under a norm.
      selection: rule for key selection, which adds columns for votes and voters.
      netted: all net records per unit.
      magnitudes: |net weight| of each record, capped.
      factors: scaling factor per record, in units of 2**-32.
      bits: fraction bits in scaled weights.
      over_time: timeline rows for the windows.
    """
    scaled = scaling.scaled(magnitudes, factors, bits)
    counts = magnitudes != 0
    amounts = {
        UNITS: (counts, 0),
        RECORDS: (np.abs(netted.weights) if netted.records is None else netted.records, 0),
        WEIGHT: (np.sign(netted.weights) * scaled, bits),
        CLIPPED: ((magnitudes << np.int64(bits)) - scaled, bits),
        SCALED: (counts & (factors < NO_SCALING), 0),
    }
    groups = RowGroups({name: codes for name, codes in netted.codes.items() if name not in _NOT_CELLS})
    columns = {name: netted.values[name].take(pa.array(codes)) for name, codes in groups.codes.items()}
    windows, pairs = window_numbers(over_time, groups.codes, netted.values), None
    if over_time is not None and windows is not None:
        pairs = WindowPairs(over_time.mechanism, groups.without_windows().numbers, windows)
    for counter in counters:
        values, of_values = amounts[counter.name]
        sums = groups.add_up(values)
        limited = counter.limited(sums, groups.units, bits=of_values, scale_bits=bits, pairs=pairs)
        columns[counter.name] = pa.array(limited)
    if selection is not None:
        columns |= _votes_of(selection, groups, groups.units, counts, windows, netted.values)
    return pa.table(columns)


def rows_in_full(records: pa.Table, units: tuple[np.ndarray, pa.Array], *, has_weights: bool) -> NetRecords:
    """Convert records with positive weights that all count in full, netted or not, to input for `sums_of_scaled`.

    `units` are the `dictionary_codes` of the ids. Without weights, the weight of a row is its number of records.
    """
    codes, values = _encode(records, units)
    return NetRecords(codes, values, records["weight"].to_numpy(), count_records(records) if has_weights else None)


def sums_of_kept(
    counters: Counters, selection: Selection, kept: pa.Table, bounds: RecordBounds, over_time: WindowRows | None = None
) -> pa.Table:
    """Compute a row per unit, key and window from the records selected by `RecordBounds`, in records."""
    codes, values = _encode(kept, dictionary_codes(kept["unit"]))
    groups = RowGroups(codes)
    copies = kept["copies"].to_numpy() if "copies" in kept.column_names else np.ones(len(kept), dtype=np.int64)
    amounts = {UNITS: copies > 0, RECORDS: copies, WEIGHT: total_weights(kept, bounds)}
    columns = {name: values[name].take(pa.array(codes)) for name, codes in groups.codes.items()}
    columns |= {each.name: pa.array(groups.add_up(amounts[each.name])) for each in counters}
    if selection is not None:
        windows = window_numbers(over_time, groups.codes, values)
        voters = groups.units if "window" not in groups.codes else _number_pairs(groups.units, groups.codes["window"])
        columns |= _votes_of(selection, groups, voters, amounts[UNITS], windows, values)
    return pa.table(columns)


def add_up_units(sums: pa.Table) -> pa.Table:
    """Sum over all units, with a row per key and window."""
    cells = [name for name in sums.column_names if name in _CELLS]
    counted = [name for name in sums.column_names if name not in (*_CELLS, "unit")]
    if not cells:
        return pa.table({name: sums[name].to_numpy().sum(keepdims=True) for name in counted})
    added = sums.group_by(cells).aggregate([(name, "sum") for name in counted])
    return added.rename_columns([name.removesuffix("_sum") for name in added.column_names])


def with_sums(
    kept: pa.Table, sums: pa.Table | None, lost: np.ndarray | None, selection: Selection, *, each_window: bool
) -> Bounded:
    """Combine clipped records with their summary counts, given a row per unit, key and window.

    `each_window` is true if each window of a unit is bounded separately.
    """
    if sums is None:
        return Bounded(kept, lost=lost)
    votes_again = selection is not None and selection.has_two_rounds
    edges = edges_of(sums, each_window=each_window) if votes_again else None
    return Bounded(kept, add_up_units(sums), lost, edges=edges)


def _votes_of(
    rule: SelectionRule,
    groups: RowGroups,
    voters: np.ndarray,
    counts: np.ndarray,
    windows: np.ndarray | None,
    values: dict[str, pa.Array],
) -> dict[str, pa.Array]:
    """Vote columns. Given window numbers, keys are chosen once for all windows.

    `voters` are the units of groups, or units in windows. `counts` marks the rows that count.
    """
    present = groups.add_up(counts)
    if windows is None:
        return _votes(rule, groups, voters, present, values)
    return _votes_once(rule, groups, present, windows, values)


def _votes(
    rule: SelectionRule, groups: RowGroups, voters: np.ndarray, present: np.ndarray, values: dict[str, pa.Array]
) -> dict[str, pa.Array]:
    return _columns(rule, cast_votes(rule, voters, present > 0, groups.codes, values))


def _votes_once(
    rule: SelectionRule, groups: RowGroups, present: np.ndarray, windows: np.ndarray, values: dict[str, pa.Array]
) -> dict[str, pa.Array]:
    """Vote columns with keys chosen once for all windows.

    A unit's vote for a key is in its first window with that key, and 0 in other windows.
    """
    keys = groups.without_windows()
    votes = np.zeros(len(windows), dtype=np.int64)
    order = np.lexsort((windows, present == 0, keys.numbers))
    firsts = order[mark_starts(keys.numbers[order])]
    votes[firsts] = cast_votes(rule, keys.units, keys.add_up(present > 0) > 0, keys.codes, values)
    return _columns(rule, votes)


def _columns(rule: SelectionRule, votes: np.ndarray) -> dict[str, pa.Array]:
    """Vote columns. A second round is filled in later."""
    later = (SECOND, NOISY) if rule.has_two_rounds else ()
    nothing = pa.array(np.zeros(len(votes), dtype=np.int64))
    return {VOTES: pa.array(votes), VOTERS: pa.array((votes > 0).astype(np.int64)), **dict.fromkeys(later, nothing)}


def window_numbers(
    over_time: WindowRows | None, codes: dict[str, np.ndarray], values: dict[str, pa.Array]
) -> np.ndarray | None:
    """Window number of each row, int64. `None` unless windows are bounded together in timeline rows."""
    if over_time is None or "window" not in codes:
        return None
    return over_time.number(values["window"].to_numpy())[codes["window"]]


def _number_pairs(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    return np.unique(np.stack([first, second]), axis=1, return_inverse=True)[1].reshape(-1)


def _encode(records: pa.Table, units: tuple[np.ndarray, pa.Array]) -> tuple[dict[str, np.ndarray], dict[str, pa.Array]]:
    names = [name for name in records.column_names if name not in (*_NOT_CELLS, "unit")]
    encoded = {"unit": units, **{name: dictionary_codes(records[name]) for name in names}}
    return {name: codes for name, (codes, _) in encoded.items()}, {name: each for name, (_, each) in encoded.items()}


class RowGroups:
    """Distinct combinations of unit, key and window, sorted by unit.

    Attributes:
      codes: codes of each group, by column.
      units: unit per group, numbered from 0.
      numbers: group per row.
    """

    def __init__(self, codes: dict[str, np.ndarray]) -> None:
        places = codes["unit"].astype(np.int64)
        for name in codes:
            if name != "unit":
                count = int(codes[name].max(initial=0)) + 1
                if int(places.max(initial=0)) * count >= 1 << 62:
                    places = np.unique(places, return_inverse=True)[1]
                places = places * np.int64(count) + codes[name]
        firsts, self.numbers = _number(places)
        self.codes = {name: each[firsts] for name, each in codes.items()}
        self.units = np.cumsum(mark_starts(self.codes["unit"])) - 1

    def without_windows(self) -> RowGroups:
        return RowGroups({name: codes for name, codes in self.codes.items() if name != "window"})

    def add_up(self, values: np.ndarray) -> np.ndarray:
        """Sum per group, int64, wrapping around. Boolean values: 1 if any is true."""
        if values.dtype != bool:
            return sum_by_code(self.numbers, values, len(self.units))
        sums = np.zeros(len(self.units), dtype=np.int64)
        sums[self.numbers[values]] = 1
        return sums


def _number(places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """First row of each distinct place, in ascending order of places, and the number of each row's place."""
    if np.all(places[1:] >= places[:-1]):
        starts = mark_starts(places)
        return np.flatnonzero(starts), np.cumsum(starts) - 1
    if int(places.max()) < _DENSE * len(places):
        taken = np.zeros(int(places.max()) + 1, dtype=bool)
        taken[places] = True
        numbers = (np.cumsum(taken) - 1)[places]
        rows = np.empty(int(numbers.max()) + 1, dtype=np.int64)
        rows[numbers] = np.arange(len(places))
        return rows, numbers
    codes, distinct = dictionary_codes(pa.chunked_array([pa.array(places)]))
    order = np.argsort(distinct.to_numpy())
    rows, ranks = np.empty_like(order), np.empty_like(order)
    rows[codes] = np.arange(len(places))
    ranks[order] = np.arange(len(order))
    return rows[order], ranks[codes]
