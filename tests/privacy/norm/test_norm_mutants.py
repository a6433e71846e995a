"""Tempting shortcuts in norm bounding, planted: the brute force that accepts the rule refuses each of them.

The cases are the same in every run, so that a fault is found in each run or in none.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from beam_dpsketch import NormBound
from beam_dpsketch.exact.bounding import norm_rule
from beam_dpsketch.exact.bounding.netting import NetRecords, net
from beam_dpsketch.exact.bounding.norm_rule import NormRule, PartRecords, UnitLengths
from beam_dpsketch.exact.reading import reading
from beam_dpsketch.exact.sketches.flat import LinearSketch
from beam_dpsketch.exact.sketches.metrics import JoinedSketches, MetricsSpec
from beam_dpsketch.exact.sketches.statistics import NumberSums
from beam_dpsketch.privacy.norm import scaling
from beam_dpsketch.privacy.norm.scaling import Row, TableWeights
from tests.helpers import laws, norms
from tests.helpers.laws import Fault
from tests.helpers.norms import Case, Place

CASES_OF_A_LAYOUT = 25


def cases(*, max_distinct_items: bool = False) -> Iterator[Case]:
    for layout in norms.LAYOUTS:
        for seed in range(CASES_OF_A_LAYOUT):
            yield norms.draw_case(layout, seed, max_distinct_items=max_distinct_items)
    for seed in range(CASES_OF_A_LAYOUT):
        yield norms.draw_cancelling_case(seed)


def factors_of_signed_lengths(rule: NormRule, parts: Sequence[PartRecords]) -> np.ndarray:
    """The factors that suit the true length, in which signs cancel."""
    spec, denominator = rule._sketch_input.spec, 1 << 10
    added: dict[int, list[tuple[Place, int]]] = defaultdict(list)
    for _, rows, sizes in parts:
        columns = [rows.values[name].take(pa.array(codes)).to_pylist() for name, codes in rows.codes.items()]
        places = [Place(**dict(zip(rows.codes, row, strict=True))) for row in zip(*columns, strict=True)]
        weights = (np.sign(rows.weights) * sizes).tolist()
        for unit, place, weight in zip(rows.codes["unit"].tolist(), places, weights, strict=True):
            added[unit].append((place, weight))
    factors = np.full((len(parts), len(parts[0].rows.values["unit"])), scaling.NO_SCALING)
    for unit, weights in added.items():
        norm = float(norms.squared_length(spec, norms.change(spec, weights)) * denominator)
        factors[:, unit] = scaling.factors(np.array([norm]), rule.bounds.max_norm, denominator)
    return factors


def net_weights_with_their_signs(exact: Any, rule: NormRule, parts: Sequence[PartRecords]) -> np.ndarray:
    return exact(rule, [part._replace(sizes=np.sign(part.rows.weights) * part.sizes) for part in parts])


def sum_by_place(places: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    distinct, which = np.unique(places, return_inverse=True)
    sums = np.zeros(len(distinct), dtype=np.int64)
    np.add.at(sums, which, weights)
    return distinct, sums


def never_colliding(_: Any, spec: Any, keys: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    for _ in range(spec.depth):
        yield 0, np.unique(keys, return_inverse=True)[1].astype(np.int64)


def capped(exact: Any, rule: NormRule, records: pa.Table) -> pa.Table:
    pruned = exact(rule, records)
    cap = rule.bounds.max_per_item or scaling.MAX_ITEM_WEIGHT
    weights = np.clip(pruned["weight"].to_numpy(), -cap, cap)
    return pruned.set_column(pruned.column_names.index("weight"), "weight", pa.array(weights))


def a_norm_for_each(column: str) -> Fault:
    def select(exact: Any, rule: NormRule, records: pa.Table) -> pa.Table:
        values = records[column].unique()
        return pa.concat_tables(exact(rule, records.filter(pc.equal(records[column], value))) for value in values)

    return laws.around(NormRule, "select", select, TOO_LONG)


def other_weights_of_tables(change: Callable[[int, Fraction, int], Fraction], words: str) -> Fault:
    """A planted weight of each table: a function of its cells, its share and the number of tables."""

    def of(exact: Any, tables: Any) -> Any:
        tables = list(tables)
        return exact([(1, change(cells, share, len(tables))) for cells, share in tables])

    return laws.around(TableWeights, "of", of, words)


def sizes_netted(exact: Any, records: pa.Table, **settings: Any) -> NetRecords:
    sizes = np.abs(records["weight"].to_numpy())
    return exact(records.set_column(records.column_names.index("weight"), "weight", pa.array(sizes)), **settings)


def one_row_for_all(exact: Any, lengths: UnitLengths, part: PartRecords) -> Iterator[Row]:
    """The first row of each table stands for the others."""
    rows, (kind, spec, _) = list(exact(lengths, part)), lengths._parts[part.place]
    first: list[np.ndarray] = []
    tables = kind.tables(spec)
    for table, table_kind in enumerate(tables):
        done = sum(each.cells_per_item for each in tables[:table])
        first += [rows[done].cells] * table_kind.cells_per_item
    yield from (row._replace(cells=cells) for row, cells in zip(rows, first, strict=True))


def forget(_: Any, rule: NormRule, records: pa.Table, *_units: Any) -> NetRecords:
    netted = net(records)
    netted = netted.take(netted.weights != 0)
    limit = rule.bounds.max_distinct_items
    return netted if limit is None else netted.take(norm_rule._lowest_hashes(netted, limit))


SHIFT = scaling._FACTOR_BITS - scaling.SCALE_BITS
TOO_LONG, SPLIT = "too long", "order or the split"
KEPT = "unit within the norm was changed|lost more than its part"
FAULTS = {
    "signed sums": laws.put(NormRule, "_factors", factors_of_signed_lengths, TOO_LONG),
    "net weights with their signs": laws.together(
        laws.put(scaling, "sum_by_place", sum_by_place), laws.around(NormRule, "_factors", net_weights_with_their_signs)
    ).found(TOO_LONG),
    "rounding to nearest": laws.put(
        scaling, "scaled", lambda size, factor, _: (size * factor + (1 << SHIFT - 1)) >> SHIFT, TOO_LONG
    ),
    "distinct nodes that never collide": laws.around(LinearSketch, "cells_of", never_colliding, TOO_LONG),
    "one row for all": laws.around(UnitLengths, "_added", one_row_for_all, TOO_LONG),
    "clamping after scaling": laws.put(
        reading,
        "total_weights",
        lambda bounded, bounds: np.clip(bounded["weight"].to_numpy(), bounds.min_weight, bounds.max_weight),
        KEPT,
    ),
    "a cap in each bundle": laws.around(NormRule, "prune", capped, SPLIT),
    "a norm for each key": a_norm_for_each("key"),
    "a norm for each window": a_norm_for_each("window"),
    "equal weights of all tables": other_weights_of_tables(
        lambda cells, _, count: Fraction(1, cells * count), TOO_LONG
    ),
    "rows that add up": other_weights_of_tables(lambda cells, share, _: share, KEPT),
    "the mean over all cells": other_weights_of_tables(lambda cells, share, _: share / cells**2, TOO_LONG),
    "weights of tables rounded down": laws.put(
        TableWeights,
        "of",
        lambda tables: TableWeights(tuple(int(share / cells * 64) for cells, share in tables), 64),
        TOO_LONG,
    ),
    "norms that are never exact": laws.together(  # a unit of just as many records as the norm is scaled too
        laws.put(scaling, "fits_untouched", lambda totals, max_norm: totals < 0),
        laws.around(scaling, "squared_norms", lambda exact, *terms: exact(*terms) * (1 + 2.0**-24) + 1),
    ).found(KEPT),
    "weights that do not cancel": laws.around(norm_rule, "net", sizes_netted, "grew or changed its sign"),
}


def check_metrics() -> None:
    for layout in ("metrics", "metrics, bytes"):
        for seed in range(CASES_OF_A_LAYOUT):
            norms.check(norms.draw_case(layout, seed))


def whole_norm(_: Any, squares: np.ndarray, shares: Any, max_norm: Any, denominator: int) -> np.ndarray:
    """The share of each part counts twice."""
    return np.stack([scaling.factors(each, max_norm, denominator) for each in squares])


def of_the_next_part(exact: Any, spec: MetricsSpec, place: int, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return exact(spec, (place + 1) % len(spec.parts), keys)


def the_first_factor(exact: Any, rule: NormRule, parts: Sequence[PartRecords]) -> np.ndarray:
    return exact(rule, parts)[[0] * len(parts)]


FAULTS_OF_METRICS = {
    "a whole norm for each": laws.around(scaling, "factors_of_parts", whole_norm, TOO_LONG),
    "one factor for all": laws.around(NormRule, "_factors", the_first_factor, TOO_LONG),
    "parts swapped": laws.around(JoinedSketches, "alone", of_the_next_part, f"{TOO_LONG}|lost more"),
    "records that lack an item": laws.around(
        JoinedSketches, "alone", lambda exact, *terms: (exact(*terms)[0], np.ones(len(terms[-1]), bool)), "lost more"
    ),
    "records taken apart, and whole": laws.around(PartRecords, "take", lambda exact, part, among: part, TOO_LONG),
    "shares of tables alone": laws.around(
        UnitLengths, "squares", lambda exact, *terms: exact(*terms) / 4, f"{TOO_LONG}|lost more"
    ),
}
test_a_planted_fault_of_metrics_is_refused = laws.mutants(FAULTS_OF_METRICS, check_metrics, intact=True)


def check_all(
    check: Callable[[Case], None] = norms.check, *, max_distinct_items: bool = False, least_norm: int = 0
) -> None:
    for case in cases(max_distinct_items=max_distinct_items):
        if case.bounds.max_norm >= least_norm:
            check(case)


@pytest.mark.one_fast_case
@pytest.mark.parametrize(
    "what",
    [{}, {"max_distinct_items": True}, {"check": norms.check_losses}],
    ids=["lengths", "lengths of few distinct items", "losses"],
)
def test_the_rule_itself_is_accepted(what: dict[str, Any]) -> None:
    check_all(**what)


test_a_planted_fault_is_refused = pytest.mark.one_fast_case(laws.mutants(FAULTS, check_all))


def left_out(cell: int) -> Fault:
    """Plant that norms leave out one of the counters of numbers; -1 is the last one."""

    def without(exact: Any, spec: Any, keys: np.ndarray) -> np.ndarray:
        found = exact(spec, keys)
        found[cell] = 0
        return found

    return laws.around(NumberSums, "amounts_of", without, TOO_LONG)


def rounded_down(_: Any, spec: Any, keys: np.ndarray) -> np.ndarray:
    return (spec.added(keys) << np.int64(NumberSums.amount_bits)) // spec.amount


FAULTS_OF_NUMBERS = {
    "the first sum left out": left_out(0),
    "the second sum left out": left_out(1),
    "parts rounded down": laws.around(NumberSums, "amounts_of", rounded_down, TOO_LONG),
}


def check_numbers() -> None:
    for layout in ("statistics", "statistics, rounded"):
        for seed in range(CASES_OF_A_LAYOUT):
            norms.check(norms.draw_case(layout, seed))


test_a_planted_fault_of_numbers_is_refused = laws.mutants(FAULTS_OF_NUMBERS, check_numbers, intact=True)

# Whether a row is dropped at once or at the end would change which others are kept.
test_a_limit_of_memory_that_forgets_what_cancelled_is_refused = pytest.mark.slow(
    laws.mutants(
        {"forgotten": laws.around(NormRule, "_net", forget, SPLIT)},
        functools.partial(check_all, max_distinct_items=True),
    )
)


def shorter(square: Callable[[Fraction], Fraction]) -> Fault:
    return laws.put(NormBound, "squared_length", property(lambda bounds: square(Fraction(bounds.max_norm))), "costs 1")


test_noise_for_a_shorter_length_is_refused = laws.mutants(
    {"the length": shorter(lambda norm: norm), "1 % less": shorter(lambda norm: norm**2 * Fraction(99, 100))},
    functools.partial(check_all, norms.check_losses, least_norm=1),
)
