"""Faults that several tests plant: in votes for keys, and in noise."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from beam_dpsketch.exact.bounding import side_sums
from beam_dpsketch.privacy.noise import drawing
from beam_dpsketch.privacy.selection import SelectionRule
from tests.helpers import laws
from tests.helpers.laws import Fault


def threshold(change: Callable[[Any, SelectionRule, Fraction, int], int], words: str = "", *given: Any) -> Fault:
    """Plant another threshold: a function of the exact one, the rule, the variance and the number of windows."""
    return laws.around(
        SelectionRule,
        "threshold",
        lambda exact, rule, variance, windows=1: change(exact, rule, variance, windows),
        words,
        *given,
    )


ONE_LESS = threshold(lambda exact, *terms: exact(*terms) - 1)
TWO_LESS = threshold(lambda exact, *terms: exact(*terms) - 2)
WINDOWS_FORGOTTEN = threshold(lambda exact, rule, variance, windows: exact(rule, variance, 1))
WEIGHTS_ROUNDED_UP = laws.around(
    SelectionRule, "classes", lambda exact, rule: tuple((size, weight + (size > 1)) for size, weight in exact(rule))
)


def _for_each_record(exact: Any, rule: Any, groups: Any, *terms: Any) -> Any:
    found = exact(rule, groups, *terms)
    return found | {"votes": pa.array(found["votes"].to_numpy() * np.bincount(groups.numbers))}


A_VOTE_FOR_EACH_RECORD = laws.around(side_sums, "_votes", _for_each_record)


def noise_drawn_once(cells: int, *, anew: bool = False) -> Fault:
    """Plant noise that repeats itself after these cells; with `anew`, each draw has its own."""
    sample = drawing.discrete_gaussian.sample

    def plant(patch: pytest.MonkeyPatch) -> None:
        drawn: list[np.ndarray] = []

        def repeated(size: int, sigma_squared: Fraction, **source: Any) -> np.ndarray:
            if anew or not drawn:
                drawn[:] = [sample(cells, sigma_squared)]
            return np.resize(drawn[0], size)

        patch.setattr(drawing.discrete_gaussian, "sample", repeated)

    return Fault(plant)
