"""All kinds of tables that get noise: specs, terms, and the calibration of each spec under all that it may have."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from beam_dpsketch import (
    REPLACE_ONE,
    AutoNorm,
    IntegerDomain,
    ListedItems,
    NormBound,
    PrivacySpec,
    RecordBounds,
    ReleaseTerms,
    SketchSpec,
    SummaryCounts,
    TreeSpec,
)
from beam_dpsketch.errors import ArgumentError
from beam_dpsketch.exact.sketches.factor import FactorizationSpec
from beam_dpsketch.exact.sketches.metrics import MetricPart, MetricsSpec
from beam_dpsketch.noise.calibration import Calibration
from beam_dpsketch.privacy.contributions import PrivacyUnit
from beam_dpsketch.privacy.over_time.binned import BinaryTree, BinnedRoot
from beam_dpsketch.privacy.selection import SelectionRule
from beam_dpsketch.privacy.summary_counts import LostIn
from beam_dpsketch.privacy.terms import RowTerms
from beam_dpsketch.privacy.thresholded_counts import ThresholdRule

FLAT, RANKS = SketchSpec(depth=3, width=8), FactorizationSpec(IntegerDomain(0, 99))
TREE = TreeSpec.for_memory(IntegerDomain(0, 999), 4000)
METRICS = MetricsSpec(
    (
        MetricPart("a", FLAT, Fraction(1, 2)),
        MetricPart("b", TREE, Fraction(1, 3)),
        MetricPart("c", RANKS, Fraction(1, 6)),
    )
)
SPECS: dict[str, Any] = {
    "count sketch": FLAT,
    "count-min": SketchSpec(kind="count_min", depth=3, width=8),
    "listed": ListedItems(range(30)),
    "tree": TREE,
    "factor": RANKS,
    "metrics": METRICS,
}
PEOPLE = {"privacy_unit": PrivacyUnit.PRIVACY_ID}
SOME, THIRD = PrivacySpec(rho=0.1), PrivacySpec(rho=Fraction(1, 3), relation=REPLACE_ONE)
EVERY = PrivacySpec(rho=0.1, summary_counts=SummaryCounts(records=0.02))
HORIZON = {"privacy_unit": PrivacyUnit.PRIVACY_ID_OVER_HORIZON, "output_cells": 12, "mechanism": BinnedRoot(12)}
CHOSEN = SelectionRule(delta=Fraction(1, 10**7), max_keys=4)
TERMS: dict[str, Any] = {
    "records": ReleaseTerms(SOME),
    "a large rho": ReleaseTerms(PrivacySpec(rho=40.0)),
    "replacing": ReleaseTerms(THIRD),
    "bounds": ReleaseTerms(EVERY, RecordBounds(3, max_weight=2, max_keys=2), **PEOPLE, output_cells=None),
    "bounds of a run": ReleaseTerms(
        SOME, RecordBounds(3, max_weight=2, max_keys=2), **PEOPLE, output_cells=None, lost_in=LostIn.RUN
    ),
    "a norm": ReleaseTerms(EVERY, NormBound(5), **PEOPLE, output_cells=None),
    "a norm of a run": ReleaseTerms(THIRD, NormBound(5, max_weight=9), **PEOPLE, output_cells=6, lost_in=LostIn.RUN),
    "four windows": ReleaseTerms(SOME, NormBound(Fraction(17, 16)), **PEOPLE, window_count=4, output_cells=4),
    "signs": ReleaseTerms(SOME, NormBound(5, signed=True, max_weight=5), **PEOPLE),
    "nothing aside": ReleaseTerms(PrivacySpec(rho=1.0, summary_counts=None)),
    "laplace": ReleaseTerms(PrivacySpec(epsilon=1)),
    "laplace, bounds": ReleaseTerms(PrivacySpec(epsilon=2), RecordBounds(2, max_keys=3), **PEOPLE, output_cells=None),
    "laplace, L1": ReleaseTerms(PrivacySpec(epsilon=1, relation=REPLACE_ONE), NormBound(4, norm="l1"), **PEOPLE),
    "a chosen norm": ReleaseTerms(SOME, AutoNorm(), **PEOPLE).under(Fraction(9, 2)),
    "rows of bounds": RowTerms(SOME, RecordBounds(3, max_keys=2), window_count=3, **HORIZON),
    "rows of a norm": RowTerms(SOME, NormBound(5), **HORIZON),
    "rows of a tree": RowTerms(
        THIRD, RecordBounds(1), privacy_unit=PrivacyUnit.RECORD_OVER_HORIZON, mechanism=BinaryTree(9)
    ),
}
CHOSEN_KEYS = ReleaseTerms(
    SOME, NormBound(5, max_keys=4), **PEOPLE, output_cells=None, lost_in=LostIn.RUN, selection=CHOSEN
)


def why_not(spec: Any, terms: Any) -> str | None:
    """Return the code of the error if a spec cannot have these terms."""
    try:
        Calibration.of(spec, terms)
    except ArgumentError as error:
        return error.code
    return None


def cases() -> Iterator[tuple[str, Any, Any, Calibration]]:
    """All specs under all terms that they may have."""
    for (kind, spec), (name, made) in itertools.product(SPECS.items(), TERMS.items()):
        terms = dataclasses.replace(made)  # again, so that a planted fault reaches them
        refused = why_not(spec, terms)
        if refused is None:
            yield f"{kind}, {name}", spec, terms, Calibration.of(spec, terms)
        else:
            assert refused in ("E102", "E124", "E229")  # an L2 norm bounds no factor, and Laplace noise suits few


GROUPS = dataclasses.replace(CHOSEN_KEYS, selection=ThresholdRule(delta=Fraction(1, 10**7), max_items=4))
