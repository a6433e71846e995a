"""Plans of releases under a norm: the words, and the noise and errors of bounds with as much noise."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

import pytest

from beam_dpsketch import (
    IntegerDomain,
    IPv4Domain,
    ListedItems,
    NormBound,
    PrivacyId,
    PrivacySpec,
    RecordBounds,
    ReleaseTerms,
    SketchSpec,
    TreeSpec,
)
from beam_dpsketch.planning.kinds.layouts import plan
from beam_dpsketch.planning.plan import Plan
from beam_dpsketch.privacy.contributions import NeighboringRelation, PrivacyUnit
from beam_dpsketch.privacy.summary_counts import SummaryCounts
from beam_dpsketch.transforms import PrivateFrequencies, PrivateQuantiles, PrivateTopK

SPECS = {
    "listed items": ListedItems(range(500)),
    "count_sketch": SketchSpec(width=512),
    "count_min": SketchSpec(kind="count_min", width=512),
    "exact tree": TreeSpec.for_memory(IntegerDomain(0, 1000)),
    "mixed tree": TreeSpec.for_memory(IPv4Domain(), 50_000),
}
every_spec = pytest.mark.parametrize("name", SPECS)


def planned(name: str, bounds: Any, n: int | None = None, **privacy: Any) -> Plan:
    privacy = {"rho": 0.5, "summary_counts": None} | privacy
    return plan(SPECS[name], ReleaseTerms(PrivacySpec(**privacy), bounds, privacy_unit=PrivacyUnit.PRIVACY_ID), n)


def _rounded(number: re.Match[str]) -> str:
    return f"{float(number[0].replace(',', '')):.2g}"


@pytest.mark.one_fast_case
@every_spec
@pytest.mark.parametrize("relation", NeighboringRelation)
def test_noise_is_planned_in_records_as_for_as_many_records(name: str, relation: NeighboringRelation) -> None:
    of_norm, of_records = (planned(name, bounds, relation=relation) for bounds in (NormBound(20), RecordBounds(20)))
    assert of_norm.sigma_squared == of_records.sigma_squared
    assert of_norm.half_width == (of_records.half_width and pytest.approx(of_records.half_width, rel=2**-12))
    assert of_norm.detection == of_records.detection
    words = str(of_norm).replace("clipped weight", "records after clipping").replace("  norm  ", "  max_records  ")
    lines, others = (
        re.sub(" +", " ", re.sub(r"\d[\d,]*(?:\.\d+)?", _rounded, each)).splitlines()
        for each in (words, str(of_records))
    )
    assert [line for line, other in zip(lines, others, strict=True) if line != other] == [
        "Contribution clipped to an L2 norm of 20 records per privacy id; up to 20 records always count in full"
    ]


@pytest.mark.one_fast_case
@pytest.mark.parametrize("name", [name for name in SPECS if name != "listed items"])
@pytest.mark.parametrize("rho", [0.001, 50])
def test_errors_on_made_up_data_are_those_of_as_many_records(name: str, rho: float) -> None:
    """Over little noise, which leaves parts of a record, and over much.

    A wrong unit of the counters would change errors by a factor of at least 256. Each error is a root mean square over
    hundreds of values or ranks. If only 20 of them were independent, two draws of the noise would differ by a factor of
    20 with a probability below 1e-9: one of them would be a 4.4th of its expectation, or the other 4.4 times it.
    """
    norm, records = NormBound(3, max_weight=1), RecordBounds(3, max_weight=1)
    of_norm, of_records = (planned(name, bounds, 50_000, rho=rho) for bounds in (norm, records))
    pairs = []
    if of_norm.rank_deviation is not None:
        assert of_norm.rank_deviation.keys() == of_records.rank_deviation.keys()
        pairs += [(of_norm.rank_deviation[data], of_records.rank_deviation[data]) for data in of_norm.rank_deviation]
    if of_norm.errors is not None:
        pairs += list(zip(of_norm.errors, of_records.errors, strict=True))
    if of_norm.detection_on_data is not None:
        pairs += [(of_norm.detection_on_data.likely, of_records.detection_on_data.likely)]
    assert pairs
    for found, expected in pairs:
        assert expected / 20 < found < 20 * expected


@pytest.mark.one_fast_case
@every_spec
@pytest.mark.parametrize(
    ("bounds", "counters"),
    [
        (NormBound(20), 3),
        (RecordBounds(20), 3),
        (RecordBounds(20, max_weight=5), 3),
        (RecordBounds(20, max_weight=5, signed=True), 2),  # lost weight is not told
        (RecordBounds(1, max_keys=4), 2),
    ],
    ids=str,
)
def test_side_counters_leave_the_rest_of_rho_to_what_is_planned(name: str, bounds: Any, counters: int) -> None:
    """Trees pay for no weight; and under an L2 norm its counter has 4 times the noise of a cell."""
    without, asked = planned(name, bounds), planned(name, bounds, summary_counts=SummaryCounts())
    tells_weight = "tree" in name or (bounds.has_norm and name != "count_sketch")
    left = 1 - (counters - tells_weight) * Fraction(1, 50)
    assert [left * variance for variance in asked.sigma_squared] == list(without.sigma_squared)
    assert (asked.half_width is None) == (without.half_width is None)
    if name == "count_sketch":
        assert asked.half_width == pytest.approx(float(without.half_width or 0) / float(left) ** 0.5, rel=1e-9)


@every_spec
def test_parts_of_a_record_are_planned(name: str) -> None:
    half = planned(name, NormBound(Fraction(5, 2)))
    whole = planned(name, NormBound(5))
    assert [4 * value for value in half.sigma_squared] == list(whole.sigma_squared)
    assert "clipped to an L2 norm of 2.5 records per privacy id; up to 2 records always count in full\n" in str(half)
    assert "an L2 norm of 2.5 records" in half._repr_html_()


def test_more_records_than_scaled_counters_can_hold_are_not_planned() -> None:
    assert planned("exact tree", NormBound(5), 1 << 46).n == 1 << 46
    assert planned("exact tree", RecordBounds(5), 1 << 50).n == 1 << 50
    with pytest.raises(ValueError, match="n must be between 1 and 70368744177664, got"):
        planned("exact tree", NormBound(5), (1 << 46) + 1)


def test_noise_that_counters_cannot_hold_is_not_planned() -> None:
    with pytest.raises(ValueError, match=r"rho is too small .*: sigma would exceed 2\*\*34\. Use smaller bounds"):
        planned("count_min", NormBound(1 << 31), rho=0.01)
    planned("count_min", RecordBounds(1 << 31), rho=0.01)


@pytest.mark.one_fast_case
@pytest.mark.parametrize(
    "transform",
    [
        lambda **common: PrivateFrequencies(SPECS["count_sketch"], **common),
        lambda **common: PrivateQuantiles(SPECS["mixed tree"], **common),
        lambda **common: PrivateTopK(IntegerDomain(0, 99), k=5, **common),
    ],
    ids=["frequencies", "quantiles", "top k"],
)
def test_transforms_explain_a_norm(transform: Any) -> None:
    explained = transform(
        privacy=PrivacySpec(rho=1), privacy_unit=PrivacyId("user", NormBound(20)), item="page"
    ).explain(50_000)
    assert "clipped to an L2 norm of 20 records per privacy id" in explained
    assert "Protects      all records of any one privacy id\n" in explained
