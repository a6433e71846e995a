"""What the tests draw at random: specs, items, weights, bounds and statements, of every supported kind."""

from __future__ import annotations

import datetime
import decimal
from fractions import Fraction

import numpy as np
from hypothesis import strategies as st

from beam_dpsketch import CountMin, CountSketch, NormBound, RecordBounds, SketchSpec
from beam_dpsketch.answers.privacy_statement import PrivacyStatement
from beam_dpsketch.privacy.contributions import MAX_CONTRIBUTION, NeighboringRelation, PrivacyUnit
from beam_dpsketch.privacy.mechanism import Randomness
from beam_dpsketch.privacy.over_time.binned import BinaryTree, BinnedRoot
from beam_dpsketch.privacy.summary_counts import Uncounted
from beam_dpsketch.privacy.terms import Disclosure
from beam_dpsketch.statement.clipping import ClippingState
from beam_dpsketch.statement.notes import AnswerNote
from beam_dpsketch.statement.summary_notes import NAMES, SummaryNote

KINDS = (CountMin, CountSketch)

texts = st.text(st.characters(), max_size=12)
"""All of Unicode, surrogates included."""

integers = st.one_of(
    st.integers(-(1 << 63), (1 << 64) - 1),
    st.integers(-3, 3),
    st.sampled_from([-(1 << 63), (1 << 63) - 1, 1 << 63, (1 << 64) - 1]),
)

leaves = st.one_of(texts, st.binary(max_size=12), integers)
items = st.recursive(leaves, lambda parts: st.lists(parts, max_size=4).map(tuple), max_leaves=8)
item_lists = st.one_of(
    st.lists(items, max_size=12),
    st.lists(texts, max_size=12),
    st.lists(st.binary(max_size=8), max_size=12),
    st.lists(integers, max_size=12),
)

SECRET = 8_675_309
UNSUPPORTED = [
    None,
    True,
    8_675_309.5,
    float("nan"),
    [SECRET],
    {SECRET},
    {SECRET: 1},
    decimal.Decimal(SECRET) / 8,
    datetime.datetime.fromtimestamp(SECRET, datetime.UTC),
    8_675_309j,
    bytearray(b"8675309"),
    np.float64(SECRET),
    np.bool_(True),
]

weights = st.one_of(st.integers(-(1 << 63), (1 << 63) - 1), st.integers(-5, 5))
records = st.lists(st.tuples(items, weights), max_size=12)


@st.composite
def specs(draw: st.DrawFn, max_depth: int = 6, max_width: int = 40, kind: str = "count_sketch") -> SketchSpec:
    """Small specs of either item hash."""
    item_hash = draw(st.sampled_from(["murmur3", "blake2b"]))
    return SketchSpec(
        kind=kind,
        depth=draw(st.integers(1, max_depth)),
        width=draw(st.integers(1, max_width)),
        seed=draw(st.one_of(st.integers(0, 3), st.integers(0, (1 << 64) - 1))),
        item_hash=item_hash,
        item_key=draw(st.binary(min_size=16, max_size=16)) if item_hash == "blake2b" else b"",
    )


@st.composite
def bounds(draw: st.DrawFn, single: bool = False) -> RecordBounds:
    """Contribution bounds up to the largest that are allowed."""
    contributions = 1 if single else draw(st.integers(1, 1 << 11))
    partitions = None if single else draw(st.none() | st.integers(1, 1 << 9))
    return RecordBounds(
        max_records=contributions,
        max_keys=partitions,
        max_weight=draw(st.integers(1, MAX_CONTRIBUTION // (contributions * (partitions or 1)))),
        signed=draw(st.booleans()),
    )


_LIMITS = st.none() | st.integers(1, MAX_CONTRIBUTION)

norm_bounds = st.builds(
    NormBound,
    st.integers(1, MAX_CONTRIBUTION) | st.fractions(Fraction(1, 1 << 16), 1000, max_denominator=1 << 16),
    max_weight=st.integers(1, MAX_CONTRIBUTION),
    max_per_item=_LIMITS,
    signed=st.booleans(),
    max_distinct_items=_LIMITS,
)
"""Norms up to the largest that is allowed, in whole records and in parts of them, with and without limits."""


@st.composite
def summary_notes(draw: st.DrawFn, has_norm: bool) -> tuple[SummaryNote, ...]:
    """Draw notes of summary counts. Some count several things; their shares sum to less than 3/4 of rho."""
    left = draw(st.permutations(NAMES))[: draw(st.integers(0, len(NAMES)))]
    notes = []
    while left:
        size = draw(st.integers(1, len(left)))
        names, left = tuple(left[:size]), left[size:]
        notes.append(
            SummaryNote(
                names=names,
                share=draw(st.fractions(Fraction(1, 1000), Fraction(3, 20))),
                squared_limit=draw(st.fractions(Fraction(1, 1000), 1 << 62)),
                sigma_squared=draw(st.fractions(Fraction(1, 4), 1 << 60)),
                value=draw(weights),
                scale_bits=draw(st.sampled_from([0, 8, 16])) if has_norm else 0,
            )
        )
    return tuple(notes)


mechanisms = st.builds(
    BinnedRoot,
    st.integers(2, 99),
    ratio=st.integers(1, 16),
    weight_bits=st.integers(4, 16),
    gain_bits=st.integers(2, 8),
) | st.builds(BinaryTree, st.integers(2, 1 << 11))
answers = st.none() | mechanisms.flatmap(
    lambda mechanism: st.builds(AnswerNote, st.just(mechanism), st.integers(1, mechanism.windows))
)
"""What an answer over time was made of."""


@st.composite
def statements(draw: st.DrawFn) -> PrivacyStatement:
    """Privacy statements of one or several releases."""
    privacy_unit = draw(st.sampled_from(PrivacyUnit))
    of_unit = bounds(single=privacy_unit.is_one_record)
    drawn = draw(of_unit if privacy_unit.is_one_record else of_unit | norm_bounds)
    return PrivacyStatement(
        rho=draw(st.fractions(Fraction(1, 1000), 1000)),
        sigma_squared_per_level=(draw(st.fractions(Fraction(1, 4), 1 << 60)),),
        relation=draw(st.sampled_from(NeighboringRelation)),
        privacy_unit=privacy_unit,
        bounds=drawn,
        side=draw(summary_notes(drawn.has_norm)),
        norm_share=draw(st.none() | st.fractions(Fraction(1, 1000), Fraction(1, 4))) if drawn.has_norm else None,
        window_count=draw(st.integers(1, (1 << 32) - 1)),
        overlapping=draw(st.integers(1, (1 << 32) - 1)),
        first_windows=draw(st.booleans()),
        disclosed=draw(st.sampled_from([Disclosure(value) for value in range(4)])),
        uncounted=draw(st.sampled_from([Uncounted(value) for value in range(128)])),
        weakest=draw(st.sampled_from(ClippingState)),
        of_metric=draw(st.booleans()),
        period_micros=draw(st.integers(1, (1 << 63) - 1)) if privacy_unit is PrivacyUnit.PRIVACY_ID_IN_PERIOD else 0,
        randomness=draw(st.sampled_from([Randomness.SYSTEM, Randomness.KEYED])),
        reported_delta=draw(st.floats(1e-12, 1, exclude_max=True)),
        over_time=draw(answers) if privacy_unit.over_horizon else None,
        release_ids=tuple(draw(st.lists(st.binary(min_size=48, max_size=48), min_size=1, max_size=3, unique=True))),
    )
