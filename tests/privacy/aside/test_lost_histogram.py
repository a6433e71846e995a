"""The histogram of lost weight: its bins, what it costs, and that it costs it."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_dpsketch import NeighboringRelation, NormBound, PrivacySpec, RecordBounds, ReleaseTerms, SideCounters
from beam_dpsketch.privacy.aside.lost_histogram import LostIn, histogram, least_losses, lost_counter
from beam_dpsketch.privacy.contributions import PrivacyUnit
from beam_dpsketch.privacy.mechanism import Spending, change_factor
from beam_dpsketch.privacy.norm.scaling import SCALE_BITS

PEOPLE: dict[str, Any] = {"unit": PrivacyUnit.PRIVACY_ID}
RHO = Fraction(1, 10)


def counter(
    bounds: Any, where: LostIn = LostIn.RELEASE, *, windows: int = 1, one_record: bool = False, **shares: Any
) -> Any:
    return lost_counter(SideCounters(**shares), bounds, where, one_record=one_record, windows=windows)


@given(st.lists(st.integers(0, 1 << 40)), st.integers(2, 40), st.sampled_from([0, 8, SCALE_BITS]))
def test_a_loss_is_in_the_bin_of_the_largest_edge_below_it(lost: list[int], bins: int, bits: int) -> None:
    wanted = [0] * bins
    for each in lost:
        places = [place for place, edge in enumerate(least_losses(bins)) if Fraction(each, 1 << bits) >= Fraction(edge)]
        if places:
            wanted[places[-1]] += 1
    assert histogram(np.array(lost, dtype=np.int64), bins, bits=bits).tolist() == wanted


def test_bins_double_from_a_quarter_of_a_record() -> None:
    assert least_losses(4).tolist() == [0.25, 0.5, 1, 2]
    assert counter(NormBound(5)).bins == counter(RecordBounds(5)).bins == 27
    assert counter(NormBound(5000, max_weight=1000)).bins == 37
    assert counter(RecordBounds(1, max_weight=1 << 31)).bins == 58


@pytest.mark.parametrize("relation", NeighboringRelation, ids=lambda relation: relation.name)
def test_the_squared_change_is_attained_and_no_unit_causes_more(relation: NeighboringRelation) -> None:
    """All pairs of losses of one unit, beside others: what a change costs is what the noise is made for."""
    losses = [0, 1, 16384, 20000, 32768, 65536, 1 << 30, (1 << 62) - 1]
    others, largest = [70000, 5, 0], 0
    neighbours = [[each] for each in losses] + [[]]
    for first, second in itertools.product(neighbours, neighbours):
        adds = not first or not second
        if adds == (relation is NeighboringRelation.ADD_OR_REMOVE_ONE):
            both = (histogram(np.array(others + each), 27, bits=SCALE_BITS) for each in (first, second))
            largest = max(largest, int(np.sum(np.subtract(*both) ** 2)))
    assert largest == change_factor(relation)
    for bounds, windows in ((NormBound(3), 1), (NormBound(3), 4), (RecordBounds(2, max_keys=5), 7)):
        of_release = counter(bounds, windows=windows)
        assert of_release.parameter(Spending(RHO), relation) == Fraction(largest * windows) / (2 * RHO / 50)
        of_run = counter(bounds, LostIn.RUN, windows=windows)
        assert of_run.parameter(Spending(RHO), relation) == Fraction(largest) / (2 * RHO / 100)


def test_a_run_also_counts_what_it_keeps_within_what_its_bounds_let_a_unit_keep() -> None:
    bounds = RecordBounds(3, max_keys=2, max_weight=5)
    assert counter(bounds, LostIn.RUN, windows=4).kept.squared_limit == (3 * 5 * 2 * 4) ** 2
    norm = NormBound(Fraction(5, 2))
    found = counter(norm, LostIn.RUN)
    assert found.kept.squared_limit == 16 * norm.squared_length
    assert found.share == found.kept.share == Fraction(1, 100)
    assert found.shares == counter(norm).shares == Fraction(1, 50)
    assert (found.size, counter(norm).size) == (28, 27)


def test_nothing_is_told_where_nothing_can_be_lost_or_another_counter_tells_it() -> None:
    assert counter(RecordBounds(1), one_record=True) is None
    assert counter(RecordBounds(1, max_weight=9), one_record=True) is not None
    assert counter(NormBound(5), LostIn.NOWHERE) is None
    assert counter(NormBound(5, max_weight=5, signed=True)) is None
    assert counter(NormBound(5), lost=None) is None
    assert lost_counter(None, NormBound(5), LostIn.RUN, one_record=False, windows=1) is None


@pytest.mark.parametrize("where", [LostIn.RELEASE, LostIn.RUN], ids=lambda where: where.name)
@pytest.mark.parametrize("bounds", [NormBound(20), RecordBounds(3, max_weight=2)], ids=["norm", "records"])
def test_four_counts_cost_four_fiftieths(bounds: Any, where: LostIn) -> None:
    terms = ReleaseTerms(PrivacySpec(rho=RHO), bounds, **PEOPLE, lost_in=where)
    assert terms.share_left == Fraction(23, 25)
