"""The votes of each privacy id for the keys that it is in, by which keys are chosen.

Guarantee: the votes of an id are a function of its own records alone, in any order and any split. It votes for at most
max_keys keys, each key once, and the squares of its votes sum to at most grid^2 (`privacy.key_selection`).
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from beam_dpsketch.hashing import cells
from beam_dpsketch.privacy.key_selection import SelectionRule
from beam_dpsketch.records.bounding.selection import count_since_mark, mark_starts
from beam_dpsketch.records.bounding.shard_hash import shard_hash
from beam_dpsketch.records.groups import in_order_of_values


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
