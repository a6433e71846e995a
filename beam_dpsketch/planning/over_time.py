"""How much noise answers about a horizon have, before any data is read."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import numpy as np

from beam_dpsketch.privacy.over_time.mechanism import RowMechanism
from beam_dpsketch.release.over_time.decoders import decoder_of

MAX_PLANNED = 1 << 14  # longer horizons take seconds


@functools.lru_cache(maxsize=8)
def noise_of_answers(mechanism: RowMechanism) -> dict[str, float] | None:
    """Return the sigma of answers when the horizon ends, over that of rows, by name; `None` for very long horizons.

    Names: "one window" (the middle one), "half" (all windows up to it) and "all" windows.
    """
    windows = mechanism.windows
    if windows > MAX_PLANNED:
        return None
    middle = windows // 2
    sigma = _sigma_of(mechanism)
    return {"one window": sigma(middle, middle), "half": sigma(0, middle), "all": sigma(0, windows - 1)}


def _sigma_of(mechanism: RowMechanism) -> Callable[[int, int], float]:
    decoder = decoder_of(mechanism, lambda number: np.zeros(0))

    def sigma(first: int, last: int) -> float:
        coefficients = np.zeros(mechanism.windows)
        coefficients[first : last + 1] = 1.0
        return math.sqrt(decoder.variance(coefficients))

    return sigma
