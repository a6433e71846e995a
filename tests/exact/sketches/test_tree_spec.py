"""Layouts of trees: what every one obeys, and that memory is shared out in the best way."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_dpsketch import IntegerDomain, IPv4Domain, TextDomain, TreeSpec
from beam_dpsketch.errors import ArgumentTypeError
from beam_dpsketch.exact.sketches.trees import Level, water_fill
from tests.helpers import trees

CAPACITY = 4
"""Bytes a counter is counted at."""


@given(spec=trees.layouts())
def test_shares_sum_to_one_and_bits_to_those_of_the_domain(spec: TreeSpec) -> None:
    assert sum(level.share for level in spec.levels) == 1
    assert all(isinstance(level.share, Fraction) and level.share > 0 for level in spec.levels)
    assert sum(level.bits for level in spec.levels) == spec.domain.bits
    assert spec.shift(len(spec.levels) - 1) == 0
    assert spec.nodes(len(spec.levels) - 1) == spec.domain.size
    assert spec.cells == sum(level.depth * level.width for level in spec.levels)


@given(spec=trees.layouts())
def test_every_position_has_one_node_on_every_level(spec: TreeSpec) -> None:
    for number in range(len(spec.levels)):
        last = (spec.domain.size - 1) >> spec.shift(number)
        assert last == spec.nodes(number) - 1
        if number:
            assert (last >> spec.levels[number].bits) == spec.nodes(number - 1) - 1


@given(spec=trees.layouts())
def test_exact_levels_have_a_counter_for_each_node_and_sketches_hash_differently(spec: TreeSpec) -> None:
    seeds = []
    for number, level in enumerate(spec.levels):
        if level.sketch == "exact":
            assert (level.depth, level.width) == (1, spec.nodes(number))
        else:
            seeds.append(spec.level_spec(number).seed)
    assert len(set(seeds)) == len(seeds)


@given(
    domain=trees.domains,
    arity=st.sampled_from([None, 2, 4, 8, 16, 32]),
    depth=st.integers(1, 5),
    memory=st.integers(1, 1 << 16),
)
def test_memory_is_respected_or_refused_with_a_number_that_is_enough(
    domain: Any, arity: int | None, depth: int, memory: int
) -> None:
    try:
        spec = TreeSpec.for_memory(domain, memory, arity=arity, depth=depth)
    except ValueError as error:
        words = str(error).split()
        enough = int(words[words.index("least") + 1])
        assert enough > memory
        spec, memory = TreeSpec.for_memory(domain, enough, arity=arity, depth=depth), enough
    assert spec.cells * CAPACITY <= memory
    for number, level in enumerate(spec.levels):
        if level.sketch != "exact":
            assert level.width >= 16
            # The next coarser layout of this level would be better: it holds fewer counters than nodes.
            assert level.depth * level.width <= spec.nodes(number)


def test_too_little_memory_is_refused_with_the_number() -> None:
    with pytest.raises(ValueError, match="memory must be at least 5120 bytes for 16 levels with 5 rows, got 1000"):
        TreeSpec.for_memory(IPv4Domain(), 1000)
    assert len(TreeSpec.for_memory(IPv4Domain(), 5120).levels) == 16


@given(nodes=st.lists(st.integers(1, 60), min_size=1, max_size=5), counters=st.integers(0, 150))
def testwater_filling_is_the_best_of_all_equal_fills(nodes: list[int], counters: int) -> None:
    """By brute force over the fill: the largest whose sum fits, and one more does not."""

    def filled(fill: int) -> list[int]:
        return [min(size, fill) for size in nodes]

    best = max(fill for fill in range(max(nodes) + 1) if sum(filled(fill)) <= counters)
    assert water_fill(nodes, counters) == filled(best)


@given(nodes=st.lists(st.integers(1, 12), min_size=1, max_size=3), counters=st.integers(0, 30))
def testwater_filling_maximises_the_smallest_unfilled_level(nodes: list[int], counters: int) -> None:
    """By brute force over all divisions: no other gives the level that is worst off more counters."""
    found = water_fill(nodes, counters)
    assert sum(found) <= counters

    def worst(sizes: Any) -> int:
        return min((size for size, needed in zip(sizes, nodes, strict=True) if size < needed), default=1 << 30)

    divisions = itertools.product(*(range(needed + 1) for needed in nodes))
    assert worst(found) == max(worst(sizes) for sizes in divisions if sum(sizes) <= counters)


def test_the_smallest_arity_whose_exact_tree_fits_is_taken() -> None:
    domain = IntegerDomain(0, (1 << 16) - 1)
    for bits in (2, 3, 4):
        nodes = sum(-(-domain.size >> (bits * level)) for level in range(-(-16 // bits)))
        spec = TreeSpec.for_memory(domain, nodes * CAPACITY)
        assert {level.sketch for level in spec.levels} == {"exact"}
        assert [level.bits for level in spec.levels[1:]] == [bits] * (len(spec.levels) - 1)
        smaller = TreeSpec.for_memory(domain, nodes * CAPACITY - 1)
        assert smaller.levels[1].bits != bits or "count_sketch" in {level.sketch for level in smaller.levels}


def test_levels_that_fit_are_exact_and_the_others_share_the_rest() -> None:
    spec = TreeSpec.for_memory(IPv4Domain(), 490_000)
    kinds = [level.sketch for level in spec.levels]
    assert kinds == ["exact"] * 6 + ["count_sketch"] * 10
    widths = {level.width for level in spec.levels if level.sketch == "count_sketch"}
    assert len(widths) == 1
    assert spec.cells * CAPACITY <= 490_000 < (spec.cells + 5 * 10 + 1) * CAPACITY


def test_leaf_share_goes_to_the_finest_level() -> None:
    spec = TreeSpec.for_memory(IPv4Domain(), arity=16, leaf_share=Fraction(1, 2))
    assert [level.share for level in spec.levels] == [Fraction(1, 14)] * 7 + [Fraction(1, 2)]
    alone = TreeSpec.for_memory(IntegerDomain(0, 2), leaf_share=Fraction(1, 2))
    assert [level.share for level in alone.levels] == [1]


def test_the_paper_layout_is_binary_and_sketched_on_every_level() -> None:
    spec = TreeSpec.paper_layout(IntegerDomain(0, 1000), depth=3, width=50)
    assert [(level.bits, level.sketch, level.depth, level.width) for level in spec.levels] == [
        (1, "count_sketch", 3, 50)
    ] * 10
    assert {level.share for level in spec.levels} == {Fraction(1, 10)}
    assert spec.nodes(0) == 2


def test_a_universe_of_one_and_of_two_to_the_64() -> None:
    one = TreeSpec.for_memory(IntegerDomain(7, 7))
    assert [(level.bits, level.sketch, level.width) for level in one.levels] == [(0, "exact", 1)]
    assert TreeSpec.paper_layout(IntegerDomain(7, 7), depth=1, width=1).levels[0].bits == 0
    assert len(TreeSpec.for_memory(trees.ALL_64_BITS).levels) == 32
    assert len(TreeSpec.for_memory(trees.ALL_64_BITS, arity=2, depth=1).levels) == 64


@pytest.mark.parametrize("memory", [1 << 33, 1 << 40])
def test_very_much_memory_makes_levels_as_large_as_a_sketch_may_be(memory: int) -> None:
    spec = TreeSpec.for_memory(IPv4Domain(), memory)
    assert spec.cells * CAPACITY <= memory


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"arity": 3}, "arity must be a power of two and at least 2, got 3"),
        ({"arity": 1}, "arity must be a power of two and at least 2, got 1"),
        ({"arity": 0}, "arity must be a power of two and at least 2, got 0"),
        ({"arity": -4}, "arity must be a power of two and at least 2, got -4"),
        ({"arity": 4.0}, "arity must be a power of two and at least 2, got 4.0"),
        ({"memory": 0}, "memory must be between 1 and"),
        ({"memory": 1e6}, "memory must be a whole number, got float"),
        ({"depth": 0}, "depth must be between 1 and 64, got 0"),
        ({"depth": 65}, "depth must be between 1 and 64, got 65"),
        ({"sketch": "bloom"}, "sketch must be one of 'exact', 'count_sketch', 'count_min', 'factor', got 'bloom'"),
        ({"seed": -1}, "seed must be between 0 and"),
        ({"leaf_share": Fraction(1)}, "share must be greater than 0 and at most 1"),
        ({"leaf_share": Fraction(0)}, "share must be greater than 0 and at most 1"),
        ({"domain": TextDomain(4)}, "domain must be a Domain, got TextDomain"),
    ],
)
def test_bad_settings_are_refused_by_name(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        TreeSpec.for_memory(**({"domain": IPv4Domain()} | arguments))


HALF = Fraction(1, 2)


@pytest.mark.parametrize(
    ("levels", "message"),
    [
        ((), "levels must contain 1 to 65 levels, got 0"),
        ((Level(2, "exact", 1, 2, Fraction(1)),), "The level bits must sum to 3"),
        ((Level(3, "exact", 1, 6, HALF),), "The level shares must sum to 1"),
        ((Level(3, "exact", 1, 8, Fraction(1)),), "Level 0 .exact. must have depth 1 and width 6"),
        ((Level(3, "exact", 2, 6, Fraction(1)),), "Level 0 .exact. must have depth 1 and width 6"),
        ((Level(3, "count_min", 0, 6, Fraction(1)),), "depth must be between 1 and 64, got 0"),
        ((Level(1, "exact", 1, 2, HALF), Level(2, "count_min", 1, 0, HALF)), "width must be between"),
    ],
)
def test_levels_that_do_not_fit_the_domain_are_refused(levels: tuple[Level, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TreeSpec(domain=IntegerDomain(0, 5), levels=levels)


@pytest.mark.parametrize("share", [Fraction(0), Fraction(-1, 2), Fraction(3, 2)])
def test_shares_outside_zero_to_one_are_refused(share: Fraction) -> None:
    with pytest.raises(ValueError, match="share must be greater than 0 and at most 1"):
        Level(1, "exact", 1, 2, share)


@pytest.mark.parametrize("share", ["1/2", None, True])
def test_shares_that_are_no_numbers_are_refused(share: Any) -> None:
    with pytest.raises(ArgumentTypeError, match="share must be a number"):
        Level(1, "exact", 1, 2, share)
