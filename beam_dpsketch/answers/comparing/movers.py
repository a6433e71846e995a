"""Rows that say what changed between two releases."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from beam_dpsketch.answers.rows import Rows


class Change(NamedTuple):
    """One item with its weights before and after, and its change with bounds for the true one."""

    item: Any
    before: float
    after: float
    change: float
    lower: float
    upper: float


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Changes(Rows[Change]):
    """Items with their changes, largest first, up or down.

    Attributes:
      item, before, after, change, lower, upper: the columns.
    """

    _row_type = Change

    item: Sequence[Any]
    before: np.ndarray
    after: np.ndarray
    change: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    from_about: str | None = dataclasses.field(default=None, kw_only=True)
