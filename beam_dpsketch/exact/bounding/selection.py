"""Select the records of each privacy unit, and the keys that it votes for, on numeric columns.

Guarantee: the selected records of a unit depend on its own records and on randomness alone, and are always within the
bounds. Keeping the records with the smallest priorities is uniform if priorities are random. It can be done in stages:
bounding parts first and then their union selects the same records as bounding everything at once. If priorities are
equal, contents decide, because the order of arrival can depend on other units. Equal contents are exchangeable.

Votes. Guarantee: the votes of an id depend on its own records alone, in any order and any split. An id votes for at
most max_keys keys, each key once, and the squares of its votes sum to at most grid^2 (`privacy.selection`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from beam_dpsketch.exact.bounding.parts import shard_hash
from beam_dpsketch.exact.hashing import cells
from beam_dpsketch.exact.reading.groups import in_order_of_values
from beam_dpsketch.privacy.contributions import RecordBounds
from beam_dpsketch.privacy.selection import SelectionRule


def select_within_bounds(
    units: np.ndarray,
    partitions: np.ndarray,
    partition_priorities: np.ndarray,
    priorities: np.ndarray,
    contents: Callable[[], Sequence[np.ndarray]],
    bounds: RecordBounds,
) -> np.ndarray:
    """Positions of the selected records, in no particular order.

    Args:
      units: privacy unit per record, whole numbers in [0, n), shape (n,).
      partitions: partition per record, whole numbers in [0, n), shape (n,).
      partition_priorities: uint64, equal within a unit and partition. The max_keys smallest are selected.
      priorities: uint32 or uint64, random. The max_records smallest in a partition are selected.
      contents: returns numeric columns that order the records of a partition by content. Called only if a record is
        dropped in favor of another with equal priority.
      bounds: the record bounds.
    """
    size = len(units)
    most = np.bincount(units).max() if size else 0
    if most <= min(bounds.kept_keys, bounds.max_records):
        return np.arange(size)
    if partitions.any() or priorities.dtype == np.uint64:
        order = np.lexsort((priorities, partitions, partition_priorities, units))
    else:
        order = np.argsort(units.astype(np.uint64) << np.uint64(32) | priorities)
    new_unit, new_group = mark_starts(units[order]), mark_starts(units[order], partitions[order])
    keep = count_since_mark(new_group) < bounds.max_records
    keep &= _count_earlier_groups(new_unit, new_group) < bounds.kept_keys
    last = np.flatnonzero(keep[:-1] & ~keep[1:] & ~new_group[1:])
    if (priorities[order[last]] == priorities[order[last + 1]]).any():
        order = np.lexsort((*contents(), priorities, partitions, partition_priorities, units))
    return order[keep]


def select_parts(units: np.ndarray, parts: np.ndarray, part_priorities: np.ndarray, most: int) -> np.ndarray:
    """Positions of the records in the selected parts (windows or partitions), in no particular order."""
    order = np.lexsort((parts, part_priorities, units))
    units, parts = units[order], parts[order]
    new_unit, new_part = mark_starts(units), mark_starts(units, parts)
    return order[_count_earlier_groups(new_unit, new_part) < most]


def split_weights(weights: np.ndarray, bounds: RecordBounds) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Split nonzero net weights into records with at most max_weight. Return positions, weights and copies.

    Each net weight becomes copies with max_weight, at most as many as could be selected, and one record with the
    remainder. Sampling these records uses the bounds in full. Clamping a net weight would drop the rest of it.
    """
    magnitudes = np.abs(weights).view(np.uint64)  # correct for -2**63 too
    largest, most = np.uint64(bounds.max_weight), np.uint64(bounds.max_records)
    whole = np.minimum(magnitudes // largest, most)
    rest = np.where(whole < most, magnitudes % largest, np.uint64(0))
    full, partial = np.flatnonzero(whole), np.flatnonzero(rest)
    positions = np.concatenate([full, partial])
    parts = np.concatenate([np.full(len(full), largest), rest[partial]]).astype(np.int64)
    copies = np.concatenate([whole[full].astype(np.int64), np.ones(len(partial), dtype=np.int64)])
    return positions, np.where(weights[positions] < 0, -parts, parts), copies


def mark_starts(*columns: np.ndarray) -> np.ndarray:
    """Mark the rows where any column differs from the previous row. The first row is marked."""
    marks = np.zeros(len(columns[0]), dtype=bool)
    marks[:1] = True
    for column in columns:
        marks[1:] |= column[1:] != column[:-1]
    return marks


def _count_earlier_groups(new_unit: np.ndarray, new_group: np.ndarray) -> np.ndarray:
    """Count the earlier groups of the same unit, for each row."""
    before = np.cumsum(new_group)
    return before - before[np.flatnonzero(new_unit)][np.cumsum(new_unit) - 1]


def count_since_mark(marks: np.ndarray) -> np.ndarray:
    """Count the rows since the last mark, for each row. The first row must be marked."""
    places = np.arange(len(marks))
    return places - places[marks][np.cumsum(marks) - 1]


def cast_votes(
    rule: SelectionRule,
    voters: np.ndarray,
    present: np.ndarray,
    codes: dict[str, np.ndarray],
    values: dict[str, pa.Array],
) -> np.ndarray:
    """Vote of an id in each place, int64, shape (n,): 0 where it does not vote.

    If an id has more than max_keys keys, a hash of the id, the key and the window chooses among them. An attacker can
    construct keys with equal hashes, so the keys themselves break ties. Other ids never influence the choice.

    Args:
      rule: number of keys per id, and the vote size.
      voters: id of each place as a whole number, or the id and window if each window is bounded separately.
      present: whether the id has a nonzero net weight there, bool, shape (n,).
      codes: id, key and window of each place, by column, as positions in `values`.
      values: distinct values per column.
    """
    places = np.flatnonzero(present)
    order = places[np.argsort(voters[places], kind="stable")]
    if len(order) and _degrees(voters[order]).max() > rule.max_keys:
        hashes = np.zeros(len(order), dtype=np.uint64)
        ranks = []
        for row, name in enumerate(codes):
            hashes = cells.mix(hashes ^ shard_hash(values[name])[codes[name][order]], seed=0, row=row)
            ranks.append(in_order_of_values(codes[name][order], values[name])[0])
        order = order[np.lexsort((*ranks, hashes, voters[order]))]
        order = order[count_since_mark(mark_starts(voters[order])) < rule.max_keys]
    sizes, weights = (np.array(column, dtype=np.int64) for column in zip(*rule.classes, strict=True))
    votes = np.zeros(len(present), dtype=np.int64)
    votes[order] = weights[np.searchsorted(sizes, _degrees(voters[order]))]
    return votes


def _degrees(voters: np.ndarray) -> np.ndarray:
    """Count the rows of each row's voter. Rows must be grouped by voter."""
    starts = mark_starts(voters)
    sizes = np.diff(np.append(np.flatnonzero(starts), len(voters)))
    return sizes[np.cumsum(starts) - 1]
