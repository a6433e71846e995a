"""What the tests of trees share: layouts of every kind, and releases whose counters are of our choice."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from hypothesis import strategies as st

from beam_dpsketch import (
    DyadicCountSketch,
    FloatDomain,
    IntegerDomain,
    IPv4Domain,
    PrivacyStatement,
    RecordBounds,
    TimestampDomain,
    TreeSpec,
)
from beam_dpsketch.answers.estimators.tree_fit import CumulativeTree, fitted_tree
from beam_dpsketch.answers.estimators.tree_levels import TreeLevel, tree_levels
from beam_dpsketch.answers.tree import ReleasedDyadicCountSketch
from beam_dpsketch.exact.domains import Domain
from beam_dpsketch.exact.sketches.trees import Level
from beam_dpsketch.privacy.contributions import NeighboringRelation, PrivacyUnit
from beam_dpsketch.privacy.terms import Disclosure

ALL_64_BITS = IntegerDomain(-(1 << 63), (1 << 63) - 1)
_START = datetime.datetime(2024, 1, 1)

domains = st.one_of(
    st.integers(1, 100).map(lambda size: IntegerDomain(-3, size - 4)),
    st.integers(1, 1 << 20).map(lambda size: IntegerDomain(5, size + 4)),
    st.sampled_from(
        [
            IPv4Domain(),
            ALL_64_BITS,
            IntegerDomain(0, (1 << 64) - 1),
            FloatDomain(-1.5, 2.0, step=0.25),
            TimestampDomain(_START, _START + datetime.timedelta(hours=3), datetime.timedelta(microseconds=250_000)),
        ]
    ),
)
"""Ordered domains of every kind, of 1 to 2**64 values."""


@st.composite
def layouts(draw: st.DrawFn, sizes: st.SearchStrategy[Domain] = domains) -> TreeSpec:
    """What `for_memory` makes of any of its arguments that it does not refuse, `for_ranks`, and the paper's layout."""
    domain = draw(sizes)
    depth = draw(st.integers(1, 6))
    sketch = draw(st.sampled_from(["count_sketch", "count_min"]))
    seed = draw(st.integers(0, 3) | st.integers(0, (1 << 64) - 1))
    if draw(st.integers(0, 3)) == 0:
        return TreeSpec.paper_layout(domain, depth=depth, width=draw(st.integers(1, 40)), sketch=sketch, seed=seed)
    if domain.bits > 2 and draw(st.integers(0, 3)) == 0:
        return TreeSpec.for_ranks(domain, 64 * depth * 64 + draw(st.integers(0, 1 << 14)), depth=depth, seed=seed)
    return TreeSpec.for_memory(
        domain,
        64 * depth * 64 + draw(st.integers(0, 1 << 14)),  # enough for 64 levels
        seed=seed,
        arity=draw(st.sampled_from([None, 2, 4, 8, 16, 256])),
        depth=depth,
        sketch=sketch,
        exact_levels=draw(st.booleans()),
        leaf_share=draw(st.none() | st.fractions(Fraction(1, 100), Fraction(99, 100), max_denominator=100)),
    )


def custom(domain: Domain, *levels: tuple[int, str, int, int]) -> TreeSpec:
    """A tree of levels (bits, sketch, depth, width) with equal shares; exact levels and factors have a width."""
    bits = [level[0] for level in levels]
    made = []
    for number, (own_bits, sketch, depth, width) in enumerate(levels):
        if sketch in ("exact", "factor"):
            width = -(-domain.size >> sum(bits[number + 1 :]))
        made.append(Level(own_bits, sketch, depth, width, Fraction(1, len(levels))))
    return TreeSpec(domain=domain, levels=tuple(made))


def exact_tree(size: int, arity: int = 4) -> TreeSpec:
    """A tree of exact levels only over 0 to size - 1."""
    return TreeSpec.for_memory(IntegerDomain(0, size - 1), 1 << 30, arity=arity)


def statement(levels: int, **changes: Any) -> PrivacyStatement:
    """A privacy statement with these fields and ordinary others."""
    fields: dict[str, Any] = {
        "rho": Fraction(1, 2),
        "sigma_squared_per_level": (Fraction(9),) * levels,
        "relation": NeighboringRelation.REPLACE_ONE,
        "privacy_unit": PrivacyUnit.PRIVACY_ID,
        "bounds": RecordBounds(max_records=3),
        "release_ids": (bytes(range(48)),),
    }
    return PrivacyStatement(**fields | changes)


def released(spec: TreeSpec, counters: Any, **changes: Any) -> Any:
    """A release with exactly these counters."""
    counted = np.array(counters, dtype=np.int64)
    return ReleasedDyadicCountSketch(spec, counted, statement(len(spec.levels), **changes))


def without_noise(raw: DyadicCountSketch, **changes: Any) -> Any:
    """The raw counters as if they had been released."""
    return released(raw.spec, raw.to_vector(), **changes)


def noiseless(spec: TreeSpec, items: Sequence[Any]) -> list[TreeLevel]:
    """The levels of the exact counters of items, with the noise parameter of no noise."""
    raw = DyadicCountSketch(spec).accumulate(items)
    return tree_levels(spec, raw.to_vector(), (0.0,) * len(spec.levels))


def cumulative(spec: TreeSpec, items: Sequence[Any], total: float | None = None) -> CumulativeTree:
    """The distribution of the exact counters of items."""
    levels = noiseless(spec, items)
    return CumulativeTree(levels, fitted_tree(levels, total=total), size=spec.domain.size, total=total)


@st.composite
def releases(draw: st.DrawFn) -> Any:
    """Releases of trees with any counters and statement, as far as the format has room."""
    spec = draw(layouts().filter(lambda tree: tree.cells < 3000))
    reach = draw(st.sampled_from([1 << 7, 1 << 15, 1 << 31, 1 << 63]))
    few = draw(st.lists(st.integers(-reach, reach - 1), min_size=1, max_size=20))
    return released(
        spec,
        np.resize(np.array(few, dtype=np.int64), spec.cells),
        rho=draw(st.fractions(Fraction(1, 1000), 1000)),
        sigma_squared_per_level=tuple(np.resize(draw(st.lists(_SIGMAS, min_size=1, max_size=4)), len(spec.levels))),
        relation=draw(st.sampled_from(NeighboringRelation)),
        privacy_unit=draw(st.sampled_from([PrivacyUnit.PRIVACY_ID, PrivacyUnit.PRIVACY_ID_IN_WINDOW])),
        disclosed=draw(st.sampled_from([Disclosure(value) for value in range(4)])),
        release_ids=tuple(draw(st.lists(st.binary(min_size=48, max_size=48), min_size=1, max_size=3, unique=True))),
    )


_SIGMAS = st.fractions(Fraction(1, 4), 1 << 60)

ONE = RecordBounds(1, max_weight=1)
"""One record of weight 1: for raw sketches whose weights stand for as many records."""
