"""Shared answers about single items for releases, decoded dictionaries and differences, and tables of changes.

Guarantee: post-processing of released counters. Answers describe the clipped data.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple, overload

import numpy as np

from beam_dpsketch.answers.notes import UNKNOWN, Basis
from beam_dpsketch.answers.rows import Frequencies, Frequency, Many, One, Rows, as_asked, as_many
from beam_dpsketch.statement.tabular import OneAnswer
from beam_dpsketch.words import shown_plainly


class ItemAnswers(ABC):
    """Estimates of items, with bounds.

    Methods accept a single item, for a value or a row, or many items, for an array or a sequence of rows. Put an item
    that is a tuple into a list.
    """

    @overload
    def estimate(self, items: One) -> float: ...
    @overload
    def estimate(self, items: Many) -> np.ndarray: ...
    def estimate(self, items: Any) -> Any:
        """Estimate the total weight of each item: float64 of shape (n,), or a float for a single item."""
        items, single = as_many(items)
        return as_asked(self._estimates(items), single)

    @overload
    def interval(self, items: One, confidence: float = ...) -> Frequency: ...
    @overload
    def interval(self, items: Many, confidence: float = ...) -> Frequencies: ...
    def interval(self, items: Any, confidence: float = 0.95) -> Any:
        """Estimate each item with bounds for its total weight in the clipped data.

        The bounds include noise and collisions, but not clipping: if `RecordBounds` dropped records, the total in the
        raw data may lie far outside. The confidence is over the noise and the seed, for each item alone. See `top_k`
        for lists.
        """
        items, single = as_many(items)
        return as_asked(self._frequencies(items, confidence), single)

    def as_rows(self, items: One | Many, confidence: float = 0.95) -> list[dict[str, Any]]:
        """Convert answers to one plain dict per item: item, estimate, lower and upper."""
        return self._frequencies(as_many(items)[0], confidence).to_rows()

    @abstractmethod
    def _estimates(self, items: Any) -> np.ndarray:
        """Estimate the items in an array, a column or a list."""

    @abstractmethod
    def _frequencies(self, items: Any, confidence: float) -> Frequencies:
        """Estimate the items in an array, a column or a list, with bounds."""


class _Change(NamedTuple):
    item: Any
    before: float
    after: float
    change: float
    lower: float
    upper: float


@shown_plainly
class Change(OneAnswer, _Change):
    """One item with its weights before and after, and its change with bounds."""


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Changes(Rows[Change]):
    """Items with their changes, largest first, up or down.

    Attributes:
      item, before, after, change, lower, upper: the columns.
      truncated: as in `Frequencies`.
    """

    _row_type = Change

    item: Sequence[Any]
    before: np.ndarray
    after: np.ndarray
    change: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    truncated: frozenset[Any] | None = None
    basis: Basis = dataclasses.field(default=UNKNOWN, kw_only=True)
