"""All units with all limits, and all windows and keys, of which settings are made."""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

from beam_dpsketch import AutoNorm, Horizon, NormBound, PrivacyId, Record, RecordBounds
from beam_dpsketch.privacy.over_time.horizon import MECHANISMS
from tests.helpers.loss_settings import Layout

TWO: dict[str, Any] = {"max_keys": 2}
UNITS: list[Callable[..., Any]] = [
    lambda: Record(),
    lambda: Record(max_weight=3),
    lambda: Record(max_weight=3, signed=True),
    *(
        functools.partial(PrivacyId, "user", bounds)
        for bounds in (
            RecordBounds(1),
            RecordBounds(2, max_weight=3),
            RecordBounds(2, **TWO),
            RecordBounds(2, **TWO, max_weight=3, signed=True),
            NormBound(Fraction(3, 2), max_weight=9),
            NormBound(Fraction(3, 2), max_weight=9, signed=True),
            NormBound(2, max_per_item=1),
            NormBound(Fraction(3, 2), max_weight=9, max_keys=2),
            AutoNorm(max_weight=9),
            AutoNorm(max_weight=9, signed=True),
        )
    ),
]
LIMITS: list[dict[str, int]] = [
    {},
    *({"period": period} for period in (60, 120)),
    *({"max_windows": most} for most in (1, 2)),
    *({"max_windows": most, "period": period} for most, period in ((1, 60), (1, 120), (2, 120))),
]
LAYOUTS = [
    *(Layout(keys=keys) for keys in ("none", "one", "listed", "open", "chosen", "chosen twice")),
    *(
        Layout(size, step, declared, streaming, keys)
        for (size, step), declared, streaming, keys in itertools.product(
            ((60, None), (120, 60)), (False, True), (False, True), ("none", "listed", "open", "chosen", "chosen twice")
        )
    ),
    *(
        Layout(streaming=streaming, keys=keys, horizon=Horizon(0, 60, 4, mechanism))
        for streaming, keys, mechanism in itertools.product(
            (False, True), ("none", "listed", "chosen", "chosen twice"), MECHANISMS
        )
    ),
]


def units() -> Iterator[Any]:
    """All units, ids with all limits that suit their bounds."""
    for unit, limit in itertools.product(UNITS, LIMITS):
        with contextlib.suppress(TypeError, ValueError):
            yield unit(**limit)
