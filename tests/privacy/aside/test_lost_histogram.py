"""The histogram of lost weight: its bins, what it costs, and that it costs it."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_dpsketch import NormBound, PrivacySpec, RecordBounds, ReleaseTerms, SummaryCounts
from beam_dpsketch.privacy.contributions import NeighboringRelation, PrivacyUnit
from beam_dpsketch.privacy.mechanism import Spending, change_factor, one_count
from beam_dpsketch.privacy.norm.scaling import SCALE_BITS
from beam_dpsketch.privacy.summary_counts import BINS, LostIn, histogram, least_losses, lost_counter
from beam_dpsketch.statement.lost_notes import LostNote

PEOPLE: dict[str, Any] = {"privacy_unit": PrivacyUnit.PRIVACY_ID}
RHO = Fraction(1, 10)


def counter(
    bounds: Any, where: LostIn = LostIn.RELEASE, *, windows: int = 1, one_record: bool = False, **shares: Any
) -> Any:
    return lost_counter(SummaryCounts(**shares), bounds, where, one_record=one_record, windows=windows)


@given(st.lists(st.integers(0, 1 << 40)), st.integers(-10, 14), st.sampled_from([0, 8, SCALE_BITS]))
def test_a_loss_is_in_the_bin_of_the_largest_edge_below_it(lost: list[int], first: int, bits: int) -> None:
    wanted = [0] * BINS
    for each in lost:
        places = [
            place for place, edge in enumerate(least_losses(first)) if Fraction(each, 1 << bits) >= Fraction(edge)
        ]
        if places:
            wanted[places[-1]] += 1
    assert histogram(np.array(lost, dtype=np.int64), first, bits=bits).tolist() == wanted


LIMITS: list[tuple[Any, float]] = [
    (NormBound(8), 8),
    (NormBound(Fraction(127, 2)), 63.5),
    (NormBound(100, max_distinct_items=5), 5),
    (NormBound(5000, max_weight=1000), 1000),
    (NormBound(5000, max_weight=1), 1),
    (NormBound(Fraction(1, 1 << 16)), 2.0**-16),
    (NormBound(1 << 31), 2.0**31),
    (RecordBounds(500), 8),
    (RecordBounds(5, max_weight=7), 8),
    (RecordBounds(1, max_weight=1 << 31), 2.0**31),
]


@pytest.mark.parametrize(("bounds", "limit"), LIMITS, ids=str)
def test_eleven_bins_of_a_factor_4_start_at_an_eighth_of_the_smallest_limit(bounds: Any, limit: float) -> None:
    """Or at the next power of 4 below; of records that are dropped, at 1."""
    losses = least_losses(counter(bounds).first)
    assert len(losses) == 11
    assert losses[0] <= limit / 8 < 4 * losses[0]
    assert np.array_equal(losses[1:], 4 * losses[:-1])
    assert np.array_equal(np.frexp(losses)[0], np.full(11, 0.5)), "powers of 2, so that histograms add up"
    assert LostNote(share=RHO, sigma_squared=RHO, first=counter(bounds).first, counts=(0,) * 11)


every_relation = pytest.mark.parametrize("relation", NeighboringRelation, ids=lambda relation: relation.name)


@every_relation
def test_noise_is_made_for_that_change_in_each_window(relation: NeighboringRelation) -> None:
    """That one unit is in one bin: `tests/exact/bounding/test_lost_weight.py`."""
    largest = change_factor(relation)
    assert one_count(relation) == (largest, largest)
    for bounds, windows in ((NormBound(3), 1), (NormBound(3), 4), (RecordBounds(2, max_keys=5), 7)):
        of_release = counter(bounds, windows=windows)
        found = Spending(RHO).parameter(one_count(relation, of_release.reach), share=of_release.share)
        assert found == Fraction(largest * windows) / (2 * RHO / 50)
        of_run = counter(bounds, LostIn.RUN, windows=windows)
        found = Spending(RHO).parameter(one_count(relation, of_run.reach), share=of_run.share)
        assert found == Fraction(largest) / (2 * RHO / 100)


def test_a_run_also_counts_what_it_keeps_within_what_its_bounds_let_a_unit_keep() -> None:
    bounds = RecordBounds(3, max_keys=2, max_weight=5)
    assert counter(bounds, LostIn.RUN, windows=4).kept.squared_limit == (3 * 5 * 2 * 4) ** 2
    norm = NormBound(Fraction(5, 2))
    found = counter(norm, LostIn.RUN)
    assert found.kept.squared_limit == 16 * norm.squared_length
    assert found.share == found.kept.share == Fraction(1, 100)
    assert found.shares == counter(norm).shares == Fraction(1, 50)
    assert (found.size, counter(norm).size) == (12, 11)


def test_nothing_is_told_where_nothing_can_be_lost_or_another_counter_tells_it() -> None:
    assert counter(RecordBounds(1), one_record=True) is None
    assert counter(RecordBounds(1, max_weight=9), one_record=True) is not None
    assert counter(NormBound(5), LostIn.NOWHERE) is None
    assert counter(NormBound(5, max_weight=5, signed=True)) is None
    assert counter(NormBound(5), clipping=None) is None
    assert lost_counter(None, NormBound(5), LostIn.RUN, one_record=False, windows=1) is None


@pytest.mark.parametrize("where", [LostIn.RELEASE, LostIn.RUN], ids=lambda where: where.name)
@pytest.mark.parametrize("bounds", [NormBound(20), RecordBounds(3, max_weight=2)], ids=["norm", "records"])
def test_three_counts_cost_three_fiftieths(bounds: Any, where: LostIn) -> None:
    terms = ReleaseTerms(PrivacySpec(rho=RHO), bounds, **PEOPLE, lost_in=where)
    assert terms.share_left == Fraction(47, 50)
