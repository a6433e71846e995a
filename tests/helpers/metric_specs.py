"""Specs of several metrics: keys as one number and as bytes, with and without signs and amounts."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

from beam_dpsketch import FactorizationSpec, FloatDomain, IntegerDomain, ListedItems, SketchSpec, TreeSpec
from beam_dpsketch.exact.sketches.metrics import MetricPart, MetricsSpec
from beam_dpsketch.exact.sketches.statistics import StatisticsSpec
from beam_dpsketch.exact.sketches.trees import Level

HALF, QUARTER, TENTH = Fraction(1, 2), Fraction(1, 4), Fraction(1, 10)
NAMES = "abcdefgh"
LISTED = ListedItems(["Oslo", "Rome", 7, b"x"])
NUMBERS = StatisticsSpec(IntegerDomain(-3, 60), variance=True)
FINE = StatisticsSpec(FloatDomain(-1, 4, 1e-6))
TREE = TreeSpec(
    domain=IntegerDomain(-5, 10), levels=(Level(2, "exact", 1, 4, HALF), Level(2, "count_sketch", 2, 3, HALF))
)
RANKS = FactorizationSpec(IntegerDomain(-5, 10))
FINE_RANKS = FactorizationSpec(FloatDomain(-1, 4, 0.125))
FLAT = SketchSpec(depth=3, width=8, seed=5)
MIN = SketchSpec(kind="count_min", depth=2, width=8, seed=6)
WHOLE = TreeSpec.for_memory(IntegerDomain(-(1 << 63), (1 << 63) - 1), 1 << 14)
NEARLY_WHOLE = TreeSpec.for_memory(IntegerDomain(-(1 << 63), (1 << 63) - 2), 1 << 14)


def joined(*specs: Any, shares: tuple[Fraction, ...] = ()) -> MetricsSpec:
    """Metrics of these specs, with equal shares or these."""
    shares = shares or (Fraction(1, len(specs)),) * len(specs)
    return MetricsSpec(tuple(map(MetricPart, NAMES, specs, shares)))


SPECS: dict[str, MetricsSpec] = {
    "one number": joined(LISTED, TREE, NUMBERS),
    "one number, unequal shares": joined(NUMBERS, FINE, LISTED, shares=(HALF, Fraction(1, 3), Fraction(1, 6))),
    "one number, all of it": joined(NEARLY_WHOLE),
    "one number, ranks": joined(RANKS, LISTED, FINE_RANKS, shares=(HALF, TENTH, Fraction(2, 5))),
    "bytes of a sketch": joined(FLAT, TREE, NUMBERS, shares=(HALF, QUARTER, QUARTER)),
    "bytes of two sketches": joined(FLAT, MIN),
    "bytes of fine numbers": joined(FLAT, FINE, LISTED),
    "bytes of ranks": joined(RANKS, FLAT),
    "bytes of a whole domain": joined(WHOLE),
    "one metric": joined(FLAT),
}
IS_NUMBER = {name: name.startswith("one number") for name in SPECS}


def items_of(spec: Any) -> list[Any]:
    """Items that a spec counts, at the ends of what it takes too."""
    domain = spec.domain
    if isinstance(domain, IntegerDomain):
        low, high = domain.low, domain.high
        return [low, low + 1, (low + high) // 2, high - 1, high]
    if isinstance(domain, FloatDomain):
        return [domain.low, 0.0, 0.5, math.nextafter(domain.high, 0), domain.high]
    return [*spec.items] if spec.is_listed else ["Oslo", "", 0, -1, (1 << 64) - 1, b"\0", ("a", 1)]
