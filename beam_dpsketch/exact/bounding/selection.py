"""Select the records of each privacy unit that are kept, and the keys that it votes for, on columns of numbers.

Guarantee: what is kept of a unit depends on that unit's records and on randomness alone, and always stays within the
bounds. Keeping the records of smallest priority is uniform if priorities are random. It can be done in stages: bounding
parts first and their union again keeps what bounding everything at once would. Priorities may be equal. Then contents
decide, not the order in which records came: that order can depend on other units. Equal contents are exchangeable.

Votes. Guarantee: the votes of an id are a function of its own records alone, in any order and any split. It votes for
at most max_keys keys, each key once, and the squares of its votes sum to at most grid^2 (`privacy.selection`).
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
    """Return the positions of the records to keep, in no particular order.

    Args:
      units: the privacy unit of each record, whole numbers in [0, n) of shape (n,).
      partitions: the partition of each record, whole numbers in [0, n) of shape (n,).
      partition_priorities: uint64, equal within a unit and partition; the max_keys smallest are kept.
      priorities: uint32 or uint64, random; the max_per_key smallest of a partition are kept.
      contents: returns columns of numbers, which order the records of a partition by what they say; asked for only
        where one of two records of equal priority is dropped.
      bounds: how many to keep.
    """
    size = len(units)
    most = np.bincount(units).max() if size else 0
    if most <= min(bounds.kept_keys, bounds.max_per_key):
        return np.arange(size)
    if partitions.any() or priorities.dtype == np.uint64:
        order = np.lexsort((priorities, partitions, partition_priorities, units))
    else:
        order = np.argsort(units.astype(np.uint64) << np.uint64(32) | priorities)
    new_unit, new_group = mark_starts(units[order]), mark_starts(units[order], partitions[order])
    keep = count_since_mark(new_group) < bounds.max_per_key
    keep &= _count_earlier_groups(new_unit, new_group) < bounds.kept_keys
    last = np.flatnonzero(keep[:-1] & ~keep[1:] & ~new_group[1:])
    if (priorities[order[last]] == priorities[order[last + 1]]).any():
        order = np.lexsort((*contents(), priorities, partitions, partition_priorities, units))
    return order[keep]


def select_parts(units: np.ndarray, parts: np.ndarray, part_priorities: np.ndarray, most: int) -> np.ndarray:
    """Return the positions of the records in the parts (windows or partitions) that are kept, in no order."""
    order = np.lexsort((parts, part_priorities, units))
    units, parts = units[order], parts[order]
    new_unit, new_part = mark_starts(units), mark_starts(units, parts)
    return order[_count_earlier_groups(new_unit, new_part) < most]


def split_weights(weights: np.ndarray, bounds: RecordBounds) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Split net weights, none of them 0, into records of at most max_weight; return positions, weights and copies.

    Each net weight becomes copies of max_weight, at most as many as could be kept, and one record of the remainder.
    Sampling these uses the bounds in full; clamping a net weight would drop the rest of it.
    """
    magnitudes = np.abs(weights).view(np.uint64)  # that of -2**63 too
    largest, most = np.uint64(bounds.max_weight), np.uint64(bounds.max_per_key)
    whole = np.minimum(magnitudes // largest, most)
    rest = np.where(whole < most, magnitudes % largest, np.uint64(0))
    full, partial = np.flatnonzero(whole), np.flatnonzero(rest)
    positions = np.concatenate([full, partial])
    parts = np.concatenate([np.full(len(full), largest), rest[partial]]).astype(np.int64)
    copies = np.concatenate([whole[full].astype(np.int64), np.ones(len(partial), dtype=np.int64)])
    return positions, np.where(weights[positions] < 0, -parts, parts), copies


def mark_starts(*columns: np.ndarray) -> np.ndarray:
    """Return where any of the columns differs from the row before; the first row is marked."""
    marks = np.zeros(len(columns[0]), dtype=bool)
    marks[:1] = True
    for column in columns:
        marks[1:] |= column[1:] != column[:-1]
    return marks


def _count_earlier_groups(new_unit: np.ndarray, new_group: np.ndarray) -> np.ndarray:
    """Return, for each row, the number of groups of its unit before its own."""
    before = np.cumsum(new_group)
    return before - before[np.flatnonzero(new_unit)][np.cumsum(new_unit) - 1]


def count_since_mark(marks: np.ndarray) -> np.ndarray:
    """Return, for each row, the number of rows since the last mark; the first row is marked."""
    places = np.arange(len(marks))
    return places - places[marks][np.cumsum(marks) - 1]


def cast_votes(
    rule: SelectionRule,
    voters: np.ndarray,
    present: np.ndarray,
    codes: dict[str, np.ndarray],
    values: dict[str, pa.Array],
) -> np.ndarray:
    """Return the vote of each place of an id, int64 of shape (n,): 0 where it has none.

    Which keys it votes for, where they are more than max_keys, is decided by a hash of the id, the key and the window.
    Keys of equal hash can be made, so the keys themselves decide between these: other ids never do.

    Args:
      rule: for how many keys, and what a vote counts.
      voters: the id of each place as a whole number, or the id and window where each window is bounded alone.
      present: whether the id has a net weight there that is not 0, bool of shape (n,).
      codes: the id, key and window of each place, by column, as positions in `values`.
      values: the distinct values of each column.
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
    """Return how many rows each row's voter has, given rows voter by voter."""
    starts = mark_starts(voters)
    sizes = np.diff(np.append(np.flatnonzero(starts), len(voters)))
    return sizes[np.cumsum(starts) - 1]
