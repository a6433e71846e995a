"""Heavy hitters of ordered domains, without a candidate list."""

from __future__ import annotations

import math
from fractions import Fraction
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest

from beam_dpsketch import DyadicCountSketch, IntegerDomain, IPv4Domain, PrivacySpec, ReleaseTerms, TreeSpec, release
from tests.helpers import trees

HEAVY = {f"10.{i}.{i * i}.{(i * 77) % 256}": 12_000 - 1000 * i for i in range(10)}
HEAVY |= {"10.0.0.1": 1500, "255.255.255.255": 1200}


def top_tree(domain: Any, memory: int = 490_000) -> TreeSpec:
    """The layout of `PrivateTopK`."""
    return TreeSpec.for_memory(domain, memory, arity=16, leaf_share=Fraction(1, 2))


def clear_data() -> DyadicCountSketch:
    """Twelve heavy addresses above 20,000 different ones."""
    light = np.random.default_rng(1).integers(0, 1 << 32, 20_000).astype(np.uint64)
    raw = DyadicCountSketch(top_tree(IPv4Domain())).accumulate_keys(light, None)
    return raw.accumulate(list(HEAVY), list(HEAVY.values()))


def test_the_heaviest_are_found_in_order_with_intervals_that_hold_them() -> None:
    """Neighbours in the list differ by 300 at least, 8 deviations and more (sd < 40): misorder < 1e-9 each."""
    released = release(clear_data(), ReleaseTerms(PrivacySpec(rho=1.0), trees.ONE))
    top = released.top_k(10)
    assert [frequency.item for frequency in top] == list(HEAVY)[:10]
    assert top.truncated is None
    for frequency in released.top_k(10, confidence=1 - 1e-10):
        assert frequency.lower <= HEAVY[frequency.item] <= frequency.upper
        assert frequency.lower <= frequency.estimate <= frequency.upper


def test_what_is_above_the_detection_limit_is_found() -> None:
    raw = clear_data()
    released = release(raw, ReleaseTerms(PrivacySpec(rho=1.0), trees.ONE))
    found = released.heavy_hitters(0.0)
    assert 0 < found.detection_limit < 1200
    assert set(HEAVY) <= {frequency.item for frequency in found}
    largest = max(released.search_deviations)
    assert found.detection_limit <= (2 + NormalDist().inv_cdf(1 - 0.05 / 8)) * largest  # eight levels, all the worst
    assert found.detection_limit >= (2 + NormalDist().inv_cdf(0.95)) * largest  # the worst one alone


def test_a_threshold_leaves_out_what_is_lighter() -> None:
    released = release(clear_data(), ReleaseTerms(PrivacySpec(rho=1.0), trees.ONE))
    found = released.heavy_hitters(6500.0)
    assert [frequency.item for frequency in found] == [item for item, weight in HEAVY.items() if weight > 6500]
    assert len(released.heavy_hitters(1e9)) == 0
    assert released.heavy_hitters(1e9).detection_limit == released.top_k(1).detection_limit


def test_only_what_exceeds_the_noise_is_listed_however_many_are_asked_for() -> None:
    """Siblings of a heavy leaf are reached with it, and hold nothing but noise.

    Found by exceeding two deviations, 15 siblings each: P(more than 20 of 45) < 1e-9 where 1.03 are expected.
    """
    items = {"1.2.3.4": 50_000, "77.0.0.1": 20_000, "200.9.9.9": 9_000}
    raw = DyadicCountSketch(top_tree(IPv4Domain())).accumulate(list(items), list(items.values()))
    found = release(raw, ReleaseTerms(PrivacySpec(rho=1.0), trees.ONE)).top_k(1000)
    assert [frequency.item for frequency in found[:3]] == list(items)
    assert len(found) <= 3 + 20
    assert all(frequency.estimate > 0 for frequency in found)
    # Without noise nothing but the three is left.
    quiet = trees.without_noise(raw, sigma_squared_per_level=(Fraction(1, 4),) * len(raw.spec.levels))
    assert [frequency.item for frequency in quiet.top_k(1000)] == list(items)


def test_a_tree_that_exceeds_the_noise_nowhere_has_no_heavy_hitters() -> None:
    spec = top_tree(IPv4Domain())
    quiet = trees.without_noise(DyadicCountSketch(spec))
    assert len(quiet.top_k(5)) == 0
    assert quiet.top_k(5).detection_limit > 0


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
@pytest.mark.parametrize("size", [2, 16, 4096])
def test_a_histogram_lists_few_values_that_do_not_occur(noise: str, size: int) -> None:
    """At most 0.05 a list on average: P(more than 45 in 300 lists) <= 2e-10. An item at the limit is in most lists.

    Each list has it with a probability of 0.955 or more: P(fewer than 250 of 300) < 1e-15.
    """
    privacy = PrivacySpec(epsilon=1.0, delta=None if noise == "laplace" else 1e-6, noise=noise, summary_counts=None)
    terms = ReleaseTerms(privacy, trees.ONE)
    empty, raw = (DyadicCountSketch(TreeSpec.histogram(IntegerDomain(0, size - 1))) for _ in range(2))
    limit = release(empty, terms).top_k(1).detection_limit
    assert limit is not None
    raw.accumulate([1], [math.ceil(limit)])
    lists = [release(raw, terms).top_k(size) for _ in range(300)]
    found, false = (sum((row.item == 1) is occurs for rows in lists for row in rows) for occurs in (True, False))
    assert false <= 45
    assert found >= 250
    if size == 4096:  # the test sees the threshold of a tree, two deviations: P(45 or fewer in 3 lists) < 1e-60
        quiet = [release(empty, terms) for _ in range(3)]
        assert sum(np.sum(each.estimate(np.arange(size)) > 2 * each.level_deviations[0]) for each in quiet) > 45


def test_exact_trees_find_exactly_the_heaviest() -> None:
    weights = {3: 500, 4: 1, 63: 900, 0: 700}
    spec = top_tree(IntegerDomain(0, 63))
    raw = DyadicCountSketch(spec).accumulate(list(weights), list(weights.values()))
    released = trees.without_noise(raw, sigma_squared_per_level=(Fraction(25),) * len(spec.levels))
    found = released.heavy_hitters(0.0)
    assert [frequency.item for frequency in found] == [63, 0, 3]  # the single one does not exceed it
    assert [frequency.estimate for frequency in found] == pytest.approx([900, 700, 500], abs=1)


def test_a_deleted_heavy_hitter_is_not_found() -> None:
    """The eleven others weigh 1,200 or more: a deviation is below 4. Noise decides who would be the twelfth."""
    raw = clear_data()
    raw.accumulate(["10.0.0.0"], [-12_000])
    released = release(raw, ReleaseTerms(PrivacySpec(rho=1.0), trees.ONE))
    assert "10.0.0.0" not in {frequency.item for frequency in released.top_k(11)}
