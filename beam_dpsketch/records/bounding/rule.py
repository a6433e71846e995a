"""What enforces the bounds on a table of records, and how parts of a table are merged on the way."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import numpy as np
import pyarrow as pa

from beam_dpsketch.privacy.contributions import Bounds
from beam_dpsketch.records.bounding.bounded import Bounded
from beam_dpsketch.records.codec import concat_tables, from_bytes, to_bytes


class Rule(Protocol):
    """What becomes of the records of a table; `bound` sees all records of each privacy id at once."""

    @property
    def bounds(self) -> Bounds:
        """How much of each privacy id counts."""

    def keeps_all(self, unit_hashes: np.ndarray) -> bool:
        """Return whether `prune` changes nothing, given one hash per record, equal for equal ids."""

    def prune(self, records: pa.Table) -> pa.Table:
        """Shrink a part of the records without changing what `bound` makes of all of them."""

    def bound(self, records: pa.Table) -> Bounded:
        """Return the records that count, and what their ids add to the side counters."""


class MergeTables:
    """Merges encoded tables and prunes the result, so that the rule keeps the same records in the end."""

    def __init__(self, rule: Rule) -> None:
        self._rule = rule

    def __call__(self, payloads: Iterable[bytes]) -> bytes:
        return to_bytes(self._rule.prune(concat_tables(map(from_bytes, payloads))))
