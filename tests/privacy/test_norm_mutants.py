"""Tempting shortcuts in norm bounding, planted: the brute force that accepts the rule refuses each of them.

The cases are the same in every run, so that a fault is found in each run or in none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from beam_dpsketch import NormBound
from beam_dpsketch.privacy import norm_bounding
from beam_dpsketch.records import reading
from beam_dpsketch.records.bounding import norm_rule
from beam_dpsketch.records.bounding.netting import NetRecords, net
from beam_dpsketch.records.bounding.norm_rule import NormRule
from beam_dpsketch.sketches.flat import ExactHistogram, LinearSketch
from tests.helpers import norms
from tests.helpers.norms import Case, Place

Plant = Callable[[pytest.MonkeyPatch], None]
CASES_OF_A_LAYOUT = 25


def cases(*, resource_limit: bool = False) -> Iterator[Case]:
    for layout in norms.LAYOUTS:
        for seed in range(CASES_OF_A_LAYOUT):
            yield norms.draw_case(layout, seed, resource_limit=resource_limit)
    for seed in range(CASES_OF_A_LAYOUT):
        yield norms.draw_cancelling_case(seed)


def factors_of_signed_lengths(rule: NormRule, netted: NetRecords, magnitudes: np.ndarray) -> np.ndarray:
    """The factors that suit the true length, in which signs cancel."""
    spec, units = rule._sketch_input.spec, netted.codes["unit"]
    columns = [netted.values[name].take(pa.array(codes)).to_pylist() for name, codes in netted.codes.items()]
    names, weights = list(netted.codes), np.sign(netted.weights) * magnitudes
    places = [Place(**dict(zip(names, row, strict=True))) for row in zip(*columns, strict=True)]
    factors = np.empty(len(units), dtype=np.int64)
    denominator = 1 << 10
    for unit in set(units.tolist()):
        rows = np.flatnonzero(units == unit)
        added = norms.change(spec, [(places[row], int(weights[row])) for row in rows.tolist()])
        norm = float(norms.squared_length(spec, added) * denominator)
        factors[rows] = norm_bounding.factors(np.array([norm]), rule.bounds.max_norm, denominator)
    return factors


def signed_sums(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(NormRule, "_factors", factors_of_signed_lengths)


def net_weights_with_their_signs(patch: pytest.MonkeyPatch) -> None:
    exact = NormRule._factors

    def factors(rule: NormRule, netted: NetRecords, magnitudes: np.ndarray) -> np.ndarray:
        patch.setattr(norm_bounding, "sum_by_place", sum_by_place)
        return exact(rule, netted, np.sign(netted.weights) * magnitudes)

    def sum_by_place(places: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        distinct, which = np.unique(places, return_inverse=True)
        sums = np.zeros(len(distinct), dtype=np.int64)
        np.add.at(sums, which, weights)
        return distinct, sums

    patch.setattr(NormRule, "_factors", factors)


def rounding_to_nearest(patch: pytest.MonkeyPatch) -> None:
    shift = norm_bounding._FACTOR_BITS - norm_bounding.SCALE_BITS
    patch.setattr(norm_bounding, "scaled", lambda size, factor, _: (size * factor + (1 << shift - 1)) >> shift)


def distinct_nodes_that_never_collide(patch: pytest.MonkeyPatch) -> None:
    def cells_of(kind: Any, spec: Any, keys: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
        for _ in range(spec.depth):
            yield 0, np.unique(keys, return_inverse=True)[1].astype(np.int64)

    exact = vars(ExactHistogram)["cells_of"]
    patch.setattr(LinearSketch, "cells_of", classmethod(cells_of))
    assert vars(ExactHistogram)["cells_of"] is exact


def clamping_after_scaling(patch: pytest.MonkeyPatch) -> None:
    def total_weights(bounded: pa.Table, bounds: NormBound) -> np.ndarray:
        return np.clip(bounded["weight"].to_numpy(), bounds.min_weight, bounds.max_weight)

    patch.setattr(reading, "total_weights", total_weights)


def a_cap_in_each_bundle(patch: pytest.MonkeyPatch) -> None:
    exact = NormRule.prune

    def prune(rule: NormRule, records: pa.Table) -> pa.Table:
        pruned = exact(rule, records)
        cap = rule.bounds.max_per_item or norm_bounding.MAX_ITEM_WEIGHT
        capped = np.clip(pruned["weight"].to_numpy(), -cap, cap)
        return pruned.set_column(pruned.column_names.index("weight"), "weight", pa.array(capped))

    patch.setattr(NormRule, "prune", prune)


def a_norm_for_each(column: str) -> Plant:
    def plant(patch: pytest.MonkeyPatch) -> None:
        exact = NormRule.select

        def select(rule: NormRule, records: pa.Table) -> pa.Table:
            values = records[column].unique()
            return pa.concat_tables(exact(rule, records.filter(pc.equal(records[column], value))) for value in values)

        patch.setattr(NormRule, "select", select)

    return plant


def other_weights_of_tables(change: Callable[[int, Fraction, int], Fraction]) -> Plant:
    """A planted weight of each table: a function of its cells, its share and the number of tables."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        exact = norm_bounding.TableWeights.of

        def of(tables: Any) -> Any:
            tables = list(tables)
            return exact([(1, change(cells, share, len(tables))) for cells, share in tables])

        patch.setattr(norm_bounding.TableWeights, "of", of)

    return plant


def weights_of_tables_rounded_down(patch: pytest.MonkeyPatch) -> None:
    def of(tables: Any) -> norm_bounding.TableWeights:
        return norm_bounding.TableWeights(tuple(int(share / cells * 64) for cells, share in tables), 64)

    patch.setattr(norm_bounding.TableWeights, "of", of)


def norms_that_are_never_exact(patch: pytest.MonkeyPatch) -> None:
    """A unit of just as many records as the norm is scaled too."""
    patch.setattr(norm_bounding, "fits_untouched", lambda totals, max_norm: totals < 0)
    exact = norm_bounding.squared_norms
    patch.setattr(norm_bounding, "squared_norms", lambda *arguments: exact(*arguments) * (1 + 2.0**-24) + 1)


def weights_that_do_not_cancel(patch: pytest.MonkeyPatch) -> None:
    def net_sizes(records: pa.Table, **settings: Any) -> NetRecords:
        sizes = np.abs(records["weight"].to_numpy())
        return net(records.set_column(records.column_names.index("weight"), "weight", pa.array(sizes)), **settings)

    patch.setattr(norm_rule, "net", net_sizes)


def one_row_for_all(patch: pytest.MonkeyPatch) -> None:
    """The first row of each table stands for the others."""
    exact = NormRule._cells

    def cells(rule: NormRule, *arguments: Any) -> Iterator[tuple[int, np.ndarray]]:
        rows = list(exact(rule, *arguments))
        first: list[np.ndarray] = []
        tables = rule._sketch_input.kind.tables(rule._sketch_input.spec)
        for table, table_kind in enumerate(tables):
            done = sum(each.cells_per_item for each in tables[:table])
            first += [rows[done][1]] * table_kind.cells_per_item
        yield from ((numerator, row) for (numerator, _), row in zip(rows, first, strict=True))

    patch.setattr(NormRule, "_cells", cells)


TOO_LONG, SPLIT = "too long", "order or the split"
KEPT = "unit within the norm was changed|lost more than its part"
FAULTS: dict[str, tuple[Plant, str]] = {
    "signed sums": (signed_sums, TOO_LONG),
    "net weights with their signs": (net_weights_with_their_signs, TOO_LONG),
    "rounding to nearest": (rounding_to_nearest, TOO_LONG),
    "distinct nodes that never collide": (distinct_nodes_that_never_collide, TOO_LONG),
    "one row for all": (one_row_for_all, TOO_LONG),
    "clamping after scaling": (clamping_after_scaling, KEPT),
    "a cap in each bundle": (a_cap_in_each_bundle, SPLIT),
    "a norm for each key": (a_norm_for_each("key"), TOO_LONG),
    "a norm for each window": (a_norm_for_each("window"), TOO_LONG),
    "equal weights of all tables": (
        other_weights_of_tables(lambda cells, _, count: Fraction(1, cells * count)),
        TOO_LONG,
    ),
    "rows that add up": (other_weights_of_tables(lambda cells, share, _: share), KEPT),
    "the mean over all cells": (other_weights_of_tables(lambda cells, share, _: share / cells**2), TOO_LONG),
    "weights of tables rounded down": (weights_of_tables_rounded_down, TOO_LONG),
    "norms that are never exact": (norms_that_are_never_exact, KEPT),
    "weights that do not cancel": (weights_that_do_not_cancel, "grew or changed its sign"),
}


def check_all(
    check: Callable[[Case], None] = norms.check, *, resource_limit: bool = False, least_norm: int = 0
) -> None:
    for case in cases(resource_limit=resource_limit):
        if case.bounds.max_norm >= least_norm:
            check(case)


@pytest.mark.one_fast_case
@pytest.mark.parametrize(
    "what",
    [{}, {"resource_limit": True}, {"check": norms.check_losses}],
    ids=["lengths", "lengths with a resource limit", "losses"],
)
def test_the_rule_itself_is_accepted(what: dict[str, Any]) -> None:
    check_all(**what)


@pytest.mark.one_fast_case
@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_refused(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant, message = FAULTS[fault]
    plant(monkeypatch)
    with pytest.raises(AssertionError, match=message):
        check_all()


@pytest.mark.slow
def test_a_limit_of_memory_that_forgets_what_cancelled_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether a row is dropped at once or at the end would change which others are kept."""

    def forget(rule: NormRule, records: pa.Table) -> NetRecords:
        netted = net(records)
        netted = netted.take(netted.weights != 0)
        limit = rule.bounds.resource_limit
        return netted if limit is None else netted.take(norm_rule._lowest_hashes(netted, limit))

    monkeypatch.setattr(NormRule, "_net", forget)
    with pytest.raises(AssertionError, match=SPLIT):
        check_all(resource_limit=True)


@pytest.mark.parametrize(
    "square", [lambda norm: norm, lambda norm: norm**2 * Fraction(99, 100)], ids=["the length", "1 % less"]
)
def test_noise_for_a_shorter_length_is_refused(square: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NormBound, "squared_length", property(lambda bounds: square(Fraction(bounds.max_norm))))
    with pytest.raises(AssertionError, match="costs 1"):
        check_all(norms.check_losses, least_norm=1)
