"""The rows over time that windows go into, and which number a window has among them."""

from __future__ import annotations

import dataclasses

import numpy as np

from beam_dpsketch.privacy.over_time.mechanism import RowMechanism


@dataclasses.dataclass(frozen=True)
class WindowRows:
    """Windows of one size in a row, and what becomes of them.

    Args:
      mechanism: which rows there are over them.
      first_end_millis: the last millisecond of the first window, as in the column `window` of bounded records.
      size_millis: how long a window is, in whole milliseconds.
    """

    mechanism: RowMechanism
    first_end_millis: int
    size_millis: int

    def number(self, ends: np.ndarray) -> np.ndarray:
        """Return the number of each window from its last millisecond: int64, 0 to windows - 1.

        Times outside all windows count as the nearest window, by which a norm only grows.
        """
        numbers = (ends - np.int64(self.first_end_millis)) // np.int64(self.size_millis)
        return np.clip(numbers, 0, self.mechanism.windows - 1)
