"""Which records of a privacy unit are kept: contribution bounding on columns of numbers.

Guarantee: what is kept of a unit depends on that unit's records and on randomness alone, and stays within the bounds
whatever the records are. Keeping the records of least rank is uniform for random ranks, and can be done in stages:
bounding parts first and their union again keeps what bounding everything at once would.
"""

from __future__ import annotations

import numpy as np

from beam_dpsketch.privacy.contributions import RecordBounds


def select_within_bounds(
    units: np.ndarray,
    partitions: np.ndarray,
    partition_ranks: np.ndarray,
    ranks: np.ndarray,
    bounds: RecordBounds,
) -> np.ndarray:
    """The positions of the records to keep, in no particular order.

    Args:
      units: which privacy unit each record is of, whole numbers in [0, n) of shape (n,).
      partitions: which partition each record is in, likewise.
      partition_ranks: uint64, equal within a unit and partition; the max_partitions least are kept.
      ranks: uint32 or uint64, random; in each unit and partition the max_contributions_per_partition least are kept.
      bounds: how many to keep.
    """
    size = len(units)
    most = np.bincount(units).max() if size else 0
    if most <= min(bounds.max_partitions, bounds.max_contributions_per_partition):
        return np.arange(size)
    if partitions.any() or ranks.dtype == np.uint64:
        order = np.lexsort((ranks, partitions, partition_ranks, units))
    else:
        order = np.argsort(units.astype(np.uint64) << np.uint64(32) | ranks)
    units, partitions = units[order], partitions[order]
    new_unit = np.ones(size, dtype=bool)
    new_unit[1:] = units[1:] != units[:-1]
    new_group = new_unit.copy()
    new_group[1:] |= partitions[1:] != partitions[:-1]
    keep = _since_last(new_group) < bounds.max_contributions_per_partition
    keep &= _groups_before(new_unit, new_group) < bounds.max_partitions
    return order[keep]


def in_kept_parts(units: np.ndarray, parts: np.ndarray, part_ranks: np.ndarray, most: int) -> np.ndarray:
    """The positions of the records in the parts (windows or partitions) that are kept of their unit, in no order.

    Args:
      units: which privacy unit each record is of, whole numbers in [0, n) of shape (n,).
      parts: which part each record is in, whole numbers.
      part_ranks: uint64, equal within a unit and part; the `most` least are kept.
      most: how many parts to keep of each unit.
    """
    order = np.lexsort((parts, part_ranks, units))
    units, parts = units[order], parts[order]
    new_unit = np.ones(len(order), dtype=bool)
    new_unit[1:] = units[1:] != units[:-1]
    new_part = new_unit.copy()
    new_part[1:] |= parts[1:] != parts[:-1]
    return order[_groups_before(new_unit, new_part) < most]


def net_weights(
    units: np.ndarray, partitions: np.ndarray, items: np.ndarray, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Adds up weights per (unit, partition, item): the position of one record each, and its net weight if not 0."""
    order = np.lexsort((items, partitions, units))
    starts = np.zeros(len(order), dtype=bool)
    starts[:1] = True
    for column in (units, partitions, items):
        ordered = column[order]
        starts[1:] |= ordered[1:] != ordered[:-1]
    positions = np.flatnonzero(starts)
    net = np.add.reduceat(weights[order], positions) if len(positions) else weights[:0]
    return order[positions][net != 0], net[net != 0]


def split(weights: np.ndarray, bounds: RecordBounds) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Net weights, none of them 0, as records of at most max_weight each, equal ones as one with a number of copies.

    Returns positions, weights and copies. Each net weight becomes copies of max_weight, at most as many as could be
    kept, and one record of what is left. Sampling these uses the bounds in full; clamping a net weight would drop the
    rest of it.
    """
    magnitudes = np.abs(weights).view(np.uint64)  # that of -2**63 too
    largest, most = np.uint64(bounds.max_weight), np.uint64(bounds.max_contributions_per_partition)
    whole = np.minimum(magnitudes // largest, most)
    rest = np.where(whole < most, magnitudes % largest, np.uint64(0))
    full, partial = np.flatnonzero(whole), np.flatnonzero(rest)
    positions = np.concatenate([full, partial])
    parts = np.concatenate([np.full(len(full), largest), rest[partial]]).astype(np.int64)
    copies = np.concatenate([whole[full].astype(np.int64), np.ones(len(partial), dtype=np.int64)])
    return positions, np.where(weights[positions] < 0, -parts, parts), copies


def _groups_before(new_unit: np.ndarray, new_group: np.ndarray) -> np.ndarray:
    """How many groups of the same unit come before the group of each place."""
    before = np.cumsum(new_group)
    return before - before[np.flatnonzero(new_unit)][np.cumsum(new_unit) - 1]


def _since_last(marks: np.ndarray) -> np.ndarray:
    """How many places back the last mark is; the first place is marked."""
    places = np.arange(len(marks))
    return places - places[marks][np.cumsum(marks) - 1]
