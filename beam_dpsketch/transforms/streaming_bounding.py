"""Contribution bounding of streams: one table in state for each shard and window, of records that may still be kept."""

from __future__ import annotations

from collections.abc import Iterable

from beam_dpsketch.records.bounding import Bound
from beam_dpsketch.records.codec import from_bytes, joined, to_bytes


class MergeTables:
    """Bytes of tables to those of one table, without records that are too many whatever else comes.

    Which records are kept in the end is as if all had been bounded at once.

    Args:
      bound: the rule; its `partly` says which records are too many.
    """

    def __init__(self, bound: Bound) -> None:
        self._bound = bound

    def __call__(self, payloads: Iterable[bytes]) -> bytes:
        return to_bytes(self._bound.partly(joined(map(from_bytes, payloads))))
