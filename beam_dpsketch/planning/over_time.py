"""How much noise answers about a horizon have, before any data is read."""

from __future__ import annotations

import functools
import math

import numpy as np

from beam_dpsketch.estimators.over_time.decoders import decoder_of
from beam_dpsketch.privacy.over_time.mechanism import RowMechanism

MAX_PLANNED = 1 << 14  # longer horizons take seconds


@functools.lru_cache(maxsize=8)
def noise_of_answers(mechanism: RowMechanism) -> tuple[float, float, float] | None:
    """Return the sigma of answers when the horizon ends, over that of rows; `None` for very long horizons.

    They are about the middle window, all windows before it, and all windows.
    """
    windows, decoder = mechanism.windows, decoder_of(mechanism, lambda number: np.zeros(0))
    if windows > MAX_PLANNED:
        return None

    def sigma(first: int, last: int) -> float:
        coefficients = np.zeros(windows)
        coefficients[first : last + 1] = 1.0
        return math.sqrt(decoder.variance(coefficients))

    middle = windows // 2
    return sigma(middle, middle), sigma(0, middle - 1), sigma(0, windows - 1)
