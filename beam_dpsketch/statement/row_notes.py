"""What a release over time says of itself: which row it is, or which rows its answer was made of."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from beam_dpsketch import _validate
from beam_dpsketch.privacy.over_time.mechanism import RowMechanism

_MAX_DROPPED = 62


@dataclasses.dataclass(frozen=True)
class RowNote:
    """One noisy row.

    Attributes:
      mechanism: which rows there are.
      number: which of them it is, from 0.
      dropped_bits: counters are in units of 2**dropped_bits of what the noise was drawn for, rounded.
    """

    is_row: ClassVar[bool] = True
    mechanism: RowMechanism
    number: int
    dropped_bits: int

    def __post_init__(self) -> None:
        _validate.instance(RowMechanism, mechanism=self.mechanism)
        _validate.whole_fields(self, "number", low=0, high=self.mechanism.row_count - 1)
        _validate.whole_fields(self, "dropped_bits", low=0, high=_MAX_DROPPED)

    @property
    def window(self) -> int:
        """The window that the row comes out with."""
        return self.mechanism.window_of(self.number)

    def noise(self, sigma: str) -> str:
        """Return in words what noise there is, of this sigma."""
        return (
            f"a discrete Gaussian with sigma = {sigma} records on each counter of each row, drawn once; this is {self}"
            ". rho covers all rows together, for any number of questions, even if later data depend on them"
        )

    def __str__(self) -> str:
        return f"row {self.number} of {self.mechanism.row_count}, {_of(self.mechanism)}"


@dataclasses.dataclass(frozen=True)
class AnswerNote:
    """An answer about some windows.

    Attributes:
      mechanism: which rows there are.
      windows: the rows of how many windows were there, from the first on.
    """

    is_row: ClassVar[bool] = False
    mechanism: RowMechanism
    windows: int

    def __post_init__(self) -> None:
        _validate.instance(RowMechanism, mechanism=self.mechanism)
        _validate.whole_fields(self, "windows", low=1, high=self.mechanism.windows)

    def noise(self, sigma: str) -> str:
        """Return in words what noise there is, of this sigma."""
        return (
            f"of sigma = {sigma} on each counter, a sum of discrete Gaussians; answered from {self}. Answers of one "
            "timeline share noise, so they do not combine"
        )

    def __str__(self) -> str:
        rows = self.mechanism.first_row(self.windows)
        return f"the first {rows} of {self.mechanism.row_count} rows, {_of(self.mechanism)}"


def _of(mechanism: RowMechanism) -> str:
    """Return in words what makes the rows."""
    return f"made by {mechanism.words} over {mechanism.windows} windows"
