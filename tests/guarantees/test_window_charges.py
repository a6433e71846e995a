"""The rho that is declared for windows covers the worst that one record can do, found by trying every record."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.transforms import window
from apache_beam.utils.timestamp import Timestamp
from hypothesis import given
from hypothesis import strategies as st

from beam_dpsketch import ADD_OR_REMOVE_ONE, REPLACE_ONE, PrivacySpec, RecordBounds, ReleaseTerms, SketchSpec
from beam_dpsketch.exact.sketches import raw_type
from beam_dpsketch.exact.sketches.spec import FLAT_KINDS
from beam_dpsketch.noise.calibration import calibrate
from beam_dpsketch.privacy.contributions import NeighboringRelation
from beam_dpsketch.transforms.steps.windows import check_windowing
from tests.helpers.pipelines import FN_API

RHO = Fraction(1, 10)
ITEMS = range(4)


def contributions(spec: SketchSpec, windowfn: Any, bounds: RecordBounds, times: range) -> np.ndarray:
    """The counters of all windows, one after the other, for every record that there can be."""
    starts: dict[Any, int] = {}
    assigned = [[starts.setdefault(found, len(starts)) for found in windowfn.assign(context(time))] for time in times]
    records = []
    for places, item, weight in itertools.product(assigned, ITEMS, sorted({bounds.min_weight, bounds.max_weight})):
        counters = np.zeros((len(starts), spec.cells), dtype=np.int64)
        counters[places] = raw_type(spec)(spec).accumulate([item], weights=[weight]).counters.ravel()
        records.append(counters.ravel())
    return np.unique(records, axis=0)


def context(time: int) -> window.WindowFn.AssignContext:
    return window.WindowFn.AssignContext(Timestamp(time))


def worst(records: np.ndarray, relation: NeighboringRelation) -> int:
    """The largest squared distance between two neighbouring inputs."""
    squares = np.square(records).sum(axis=1)
    if relation is ADD_OR_REMOVE_ONE:
        return int(squares.max())
    return int((squares[:, None] + squares[None, :] - 2 * records @ records.T).max())


def noise(spec: SketchSpec, windowfn: Any, bounds: RecordBounds, relation: Any) -> Fraction:
    """The sigma^2 of the counters that the private transforms draw for such windows at a cost of `RHO`."""
    elements = beam.Pipeline(runner=FN_API) | beam.Create([1]) | beam.WindowInto(windowfn)
    privacy = PrivacySpec(rho=RHO, relation=relation, summary_counts=None)
    (variance,) = calibrate(spec, ReleaseTerms(privacy, bounds, window_count=check_windowing(elements).per_element))
    return variance


@pytest.mark.slow
@given(
    kind=st.sampled_from(FLAT_KINDS),
    depth=st.integers(1, 3),
    width=st.integers(1, 3),
    seed=st.integers(0, 1 << 32),
    size=st.integers(1, 12),
    period=st.integers(1, 12),
    offset=st.integers(0, 11),
    max_weight=st.integers(1, 3),
    signed=st.booleans(),
    relation=st.sampled_from([REPLACE_ONE, ADD_OR_REMOVE_ONE]),
)
def test_the_declared_rho_covers_every_record_in_windows(
    kind: str,
    depth: int,
    width: int,
    seed: int,
    size: int,
    period: int,
    offset: int,
    max_weight: int,
    signed: bool,
    relation: NeighboringRelation,
) -> None:
    spec = SketchSpec(kind=kind, depth=depth, width=width, seed=seed)
    bounds = RecordBounds(1, max_weight=max_weight, signed=signed)
    windowfn = window.SlidingWindows(size, period, offset % period)
    records = contributions(spec, windowfn, bounds, range(0, 2 * (size + period)))
    assert worst(records, relation) / (2 * noise(spec, windowfn, bounds, relation)) <= RHO


@pytest.mark.one_fast_case
@pytest.mark.parametrize("relation", [REPLACE_ONE, ADD_OR_REMOVE_ONE])
@pytest.mark.parametrize("kind", FLAT_KINDS)
@pytest.mark.parametrize(
    ("size", "period"),
    [(3, 1), (7, 3), *(pytest.param(*sizes, marks=pytest.mark.slow) for sizes in ((1, 1), (6, 2), (5, 4), (4, 9)))],
)
def test_the_charge_is_attained(kind: str, size: int, period: int, relation: NeighboringRelation) -> None:
    """By some hash: one that maps two items to opposite signs in the one cell, or to two cells."""
    windowfn, bounds = window.SlidingWindows(size, period), RecordBounds(1, max_weight=2)
    worst_loss = max(
        worst(contributions(spec, windowfn, bounds, range(0, 3 * (size + period))), relation)
        / (2 * noise(spec, windowfn, bounds, relation))
        for spec in (SketchSpec(kind=kind, depth=1, width=width, seed=seed) for width in (1, 3) for seed in range(10))
    )
    assert worst_loss == RHO


def test_fixed_windows_charge_a_record_once_whatever_their_size() -> None:
    bounds = RecordBounds(1)
    once = noise(SketchSpec(depth=2, width=2), window.GlobalWindows(), bounds, REPLACE_ONE)
    for size in (1, 60, 3600):
        windows = window.FixedWindows(size)
        assert noise(SketchSpec(depth=2, width=2), windows, bounds, REPLACE_ONE) == once


def test_an_overlap_of_a_millisecond_is_a_window_more() -> None:
    """Counted in integers: as a fraction of floats, the overlap would be rounded away."""
    size, period = 92 * 10**17 + 1000, 23 * 10**17
    windows = window.SlidingWindows(window.Duration(micros=size), window.Duration(micros=period))
    bounds, spec = RecordBounds(1), SketchSpec(depth=1, width=1)
    one = noise(spec, window.GlobalWindows(), bounds, REPLACE_ONE)
    assert noise(spec, windows, bounds, REPLACE_ONE) == 5 * one
