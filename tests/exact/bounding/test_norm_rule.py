"""Norm bounding as a step: what comes out of a privacy id depends on its own records alone."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_dpsketch import IntegerDomain, ListedItems, NormBound, SketchSpec, SummaryCounts
from beam_dpsketch.exact.bounding import netting
from beam_dpsketch.exact.bounding.bounded import Bounded
from beam_dpsketch.exact.bounding.netting import net
from beam_dpsketch.exact.bounding.norm_rule import NormRule
from beam_dpsketch.exact.bounding.record_rule import RandomPriorities
from beam_dpsketch.exact.bounding.rules import rule_of
from beam_dpsketch.exact.reading.items import SketchInput
from beam_dpsketch.exact.reading.reading import total_weights
from beam_dpsketch.exact.sketches.metrics import MetricPart, MetricsSpec
from beam_dpsketch.exact.sketches.statistics import StatisticsSpec
from beam_dpsketch.privacy.summary_counts import summary_counts
from tests.helpers import metric_specs, norms
from tests.helpers.norms import UNIT, Place, Records

FLAT = SketchSpec(depth=2, width=3, seed=5)
SPECS: dict[str, Any] = {"fingerprints": FLAT, "bytes": metric_specs.SPECS["bytes of two sketches"]}
WIDE = 1 << 25  # so much that nothing is scaled
every_spec = pytest.mark.parametrize("spec", SPECS)


def inputs(spec: str, max_norm: Any = 3, **bounds: Any) -> SketchInput:
    return SketchInput(SPECS[spec], NormBound(max_norm, **{"max_weight": 9, "signed": True} | bounds))


@st.composite
def some_records(draw: st.DrawFn, spec: str, units: Any = (0, 1, 2), least: int = 1) -> Records:
    """Draw records; many of them cancel."""
    places = st.builds(
        Place,
        st.sampled_from(units),
        st.sampled_from([b"a", b"b"]),
        st.integers(0, 1),
        st.sampled_from(norms.keys_of(SPECS[spec])[:6]),
    )
    return draw(st.lists(st.tuples(places, st.integers(-2, 2) | st.integers(-9, 9)), min_size=least, max_size=40))


@st.composite
def split(draw: st.DrawFn, records: Records) -> list[Records]:
    """Draw an order and a split of records."""
    shuffled = draw(st.permutations(list(records)))
    cuts = sorted(draw(st.lists(st.integers(0, len(shuffled)), max_size=4)))
    return [shuffled[start:stop] for start, stop in zip([0, *cuts], [*cuts, len(shuffled)], strict=True)]


BOUNDS = st.fixed_dictionaries(
    {
        "max_norm": st.sampled_from([1, 3, WIDE]),
        "max_per_item": st.sampled_from([None, 1, 4]),
        "max_distinct_items": st.sampled_from([None, 1, 2, 5]),
    }
)


@every_spec
@given(data=st.data())
def test_order_split_and_other_units_do_not_matter(spec: str, data: Any) -> None:
    sketch_input = inputs(spec, **data.draw(BOUNDS))
    records = data.draw(some_records(spec))
    found = norms.bounded(sketch_input, records)
    assert norms.bounded(sketch_input, *data.draw(split(records))) == found
    other = data.draw(st.sampled_from(["all", *{place.unit for place, _ in records}]))
    own = [record for record in records if other in ("all", record[0].unit)]
    more = data.draw(some_records(spec, units=(7, 8), least=0))
    expected = {place: weight for place, weight in found.items() if other in ("all", place.unit)}
    together = norms.bounded(sketch_input, *data.draw(split([*own, *more])))
    assert {place: weight for place, weight in together.items() if place.unit not in (7, 8)} == expected


@every_spec
@given(data=st.data())
def test_pruned_twice_is_pruned_once(spec: str, data: Any) -> None:
    sketch_input = inputs(spec, **data.draw(BOUNDS))
    rule = NormRule(sketch_input.bounds, sketch_input)
    once = rule.prune(norms.to_table(sketch_input, data.draw(some_records(spec))))
    assert rule.prune(once).equals(once)


@every_spec
@given(data=st.data())
def test_an_insert_and_its_delete_net_to_nothing(spec: str, data: Any) -> None:
    """Also where they meet only after each was pruned."""
    sketch_input = inputs(spec, **data.draw(BOUNDS))
    records = data.draw(some_records(spec))
    deletes = [(place, -weight) for place, weight in records]
    assert norms.bounded(sketch_input, *data.draw(split([*records, *deletes]))) == {}
    if sketch_input.bounds.max_distinct_items is None:
        more = data.draw(some_records(spec))
        both = data.draw(split([*records, *more, *deletes]))
        assert norms.bounded(sketch_input, *both) == norms.bounded(sketch_input, more)


@every_spec
@given(data=st.data())
def test_a_cap_of_an_item_comes_after_all_netting(spec: str, data: Any) -> None:
    cap = data.draw(st.integers(1, 5))
    records = data.draw(some_records(spec))
    found = norms.bounded(inputs(spec, WIDE, max_per_item=cap), *data.draw(split(records)))
    assert found == {place: weight * UNIT for place, weight in norms.netted(records, cap).items()}


@every_spec
@given(data=st.data())
def test_a_limit_of_memory_keeps_just_as_many_different_rows(spec: str, data: Any) -> None:
    """Rows that cancelled are among those that are kept: they count until the end."""
    limit, records = data.draw(st.integers(1, 9)), data.draw(some_records(spec))
    sketch_input = inputs(spec, WIDE, max_distinct_items=limit)
    rule = NormRule(sketch_input.bounds, sketch_input)
    tables = [norms.to_table(sketch_input, part) for part in data.draw(split(records)) if part]
    kept = rule.prune(pa.concat_tables([rule.prune(table) for table in tables]))
    for unit in {place.unit for place, _ in records}:
        different = {place for place, _ in records if place.unit == unit}
        assert sum(kept_unit == unit for kept_unit in kept["unit"].to_pylist()) == min(limit, len(different))
    net_weights = norms.netted(records)
    for place, weight in norms.bounded(sketch_input, records).items():
        assert weight == net_weights[place] * UNIT
    inserts = [(place, abs(weight) or 1) for place, weight in records]
    found = norms.units_of(norms.bounded(sketch_input, inserts))
    for unit, weights in found.items():
        assert len(weights) == min(limit, len({place for place, _ in inserts if place.unit == unit}))


def test_a_limit_of_memory_keeps_any_item_as_likely() -> None:
    """The 16 items of two keys are kept by a hash: no order of values, weights or keys decides.

    Each of 4,000 units has 32 rows of its own items, and 4 are kept. The place of a kept item among the sorted ones is
    uniform. False alarm at most 1e-9: a chi-square test at nominal level 1e-10, with 500 expected in each bin.
    """
    rng = np.random.default_rng()
    sketch_input = SketchInput(FLAT, NormBound(WIDE, max_distinct_items=4))
    items = rng.integers(0, 1 << 63, (4000, 16))
    records = [
        (Place(unit, key, 0, item), 1)
        for unit, row in enumerate(items.tolist())
        for key in (b"a", b"b")
        for item in sorted(row)
    ]
    order = {place: number % 32 for number, (place, _) in enumerate(records)}
    kept = np.bincount([order[place] for place in norms.bounded(sketch_input, records)], minlength=32)
    assert kept.sum() == 16_000
    assert (
        float(np.sum((kept - 500) ** 2 / 500)) < 109.8
    )  # exceeded with probability 1e-10 by chi-square with 31 degrees of freedom


@every_spec
@given(data=st.data())
def test_ids_may_be_integers_or_bytes(spec: str, data: Any) -> None:
    """The same ids, in columns of either type, have the same records kept."""
    sketch_input = inputs(spec, **data.draw(BOUNDS))
    records = data.draw(some_records(spec))
    as_bytes = [(place._replace(unit=b"u%d" % place.unit), weight) for place, weight in records]
    found = norms.bounded(sketch_input, *data.draw(split(as_bytes)))
    expected = norms.bounded(sketch_input, records)
    assert found == {place._replace(unit=b"u%d" % place.unit): weight for place, weight in expected.items()}


@every_spec
@given(data=st.data())
def test_codes_too_long_for_one_word_are_bounded_alike(spec: str, data: Any) -> None:
    sketch_input = inputs(spec, **data.draw(BOUNDS))
    records = data.draw(some_records(spec))
    expected = norms.bounded(sketch_input, records)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(netting, "_WORD", 0)
        assert norms.bounded(sketch_input, *data.draw(split(records)), []) == expected


def test_a_table_without_keys_and_windows_is_bounded_alike() -> None:
    sketch_input = inputs("fingerprints")
    table = pa.table(
        {"unit": pa.array([1] * 40), "item": pa.array(list(range(40)), pa.uint64()), "weight": pa.array([9] * 40)}
    )
    rule = NormRule(sketch_input.bounds, sketch_input)
    expected = norms.bounded(sketch_input, [(Place(1, b"k", 0, item), 9) for item in range(40)])
    selected = rule.select(table).to_pydict()
    assert dict(zip(selected["item"], selected["weight"], strict=True)) == {
        place.item: weight for place, weight in expected.items()
    }


def test_nothing_comes_of_nothing() -> None:
    sketch_input = inputs("fingerprints", max_distinct_items=3)
    rule = NormRule(sketch_input.bounds, sketch_input)
    empty = norms.to_table(sketch_input, [(Place(1, b"k", 0, 3), 1)]).slice(0, 0)
    assert len(rule.prune(empty)) == len(rule.select(empty)) == 0
    cancelled = norms.to_table(sketch_input, [(Place(1, b"k", 0, 3), 1), (Place(1, b"k", 0, 3), -1)])
    assert len(rule.select(cancelled)) == 0


def test_ids_are_netted_on_the_way_where_many_of_their_records_repeat() -> None:
    sketch_input = inputs("fingerprints", max_norm=1)
    rule = rule_of(sketch_input, RandomPriorities())
    assert isinstance(rule, NormRule)
    repeated = norms.to_table(sketch_input, [(Place(place // 2, b"k", 0, 3), 1) for place in range(8)])
    for table, of_keys in ((repeated, True), (repeated.drop_columns(["key", "window"]), True)):
        ids = table["unit"].to_numpy().astype(np.uint64)
        assert rule.pays_to_prune(table, ids) == of_keys
        assert not rule.pays_to_prune(table.slice(0, 1), ids[:1])
    different = norms.to_table(sketch_input, [(Place(1, b"k", 0, item), 1) for item in range(8)])
    different = different.drop_columns(["key", "window"])
    assert not rule.pays_to_prune(different, different["unit"].to_numpy().astype(np.uint64))
    assert rule.pays_to_prune(pa.concat_tables([different] * 300), np.ones(2400, dtype=np.uint64))
    single = norms.to_table(sketch_input, [(Place(unit, b"k", 0, 3), 9) for unit in range(5)])
    assert rule.select(single)["weight"].to_pylist() == rule.select(rule.prune(single))["weight"].to_pylist()
    assert max(rule.select(single)["weight"].to_pylist()) <= 1 << 16  # weights of 9, scaled


@pytest.mark.parametrize("others", [3, 9])
def test_records_that_count_in_full_are_the_same_next_to_heavy_ids_and_alone(others: int) -> None:
    """Only tables without a heavy id are not netted."""
    sketch_input = inputs("fingerprints", max_norm=5, signed=False)
    light = [(Place(1, b"k", 0, item), weight) for item, weight in ((3, 1), (3, 2), (4, 1), (3, 1))]
    heavy = [(Place(2, b"k", 0, item), 1) for item in range(others)]
    alone, together = norms.bounded(sketch_input, light), norms.bounded(sketch_input, light + heavy)
    assert alone == {Place(1, b"k", 0, 3): 4 * UNIT, Place(1, b"k", 0, 4): UNIT}
    assert {place: weight for place, weight in together.items() if place.unit == 1} == alone
    table = norms.to_table(sketch_input, light + heavy)
    is_netted = len(NormRule(sketch_input.bounds, sketch_input).select(table)) < len(table)
    assert is_netted == (others > 5)


@given(data=st.data())
def test_scaled_weights_reach_the_counters_as_they_are(data: Any) -> None:
    """They are far above max_weight, and are not clamped to it again."""
    sketch_input = inputs("fingerprints")
    records = data.draw(some_records("fingerprints"))
    rule = NormRule(sketch_input.bounds, sketch_input)
    selected = rule.select(norms.to_table(sketch_input, records))
    assert total_weights(selected, sketch_input.bounds).tolist() == selected["weight"].to_pylist()
    items = Bounded(selected).to_items(sketch_input)
    raw = sketch_input.raw_sketch().accumulate_keys(items.keys, items.weights)
    assert raw.scale_bits == 16
    expected = np.zeros((2, 3), dtype=np.int64)
    for place, weight in norms.bounded(sketch_input, records).items():
        for cell, sign in norms.changed_cells(FLAT, place.item)[0].items():
            expected.ravel()[cell] += sign * weight
    assert raw.counter_tables()[0].tolist() == expected.tolist()


def test_other_columns_are_netted_by() -> None:
    """Rows of different windows stay apart."""
    sketch_input = inputs("fingerprints", WIDE)
    records = [(Place(1, b"k", window, 3), 1) for window in (0, 1, 1, 2)]
    assert {place.window: weight // UNIT for place, weight in norms.bounded(sketch_input, records).items()} == {
        0: 1,
        1: 2,
        2: 1,
    }
    assert net(norms.to_table(sketch_input, records)).weights.tolist() == [1, 2, 1]


METRICS = [layout for layout in norms.LAYOUTS if layout.startswith("metrics")]


@pytest.mark.parametrize("layout", METRICS)
def test_each_metric_keeps_what_its_own_factor_leaves(layout: str) -> None:
    """Lengths of all metrics are in one unit, whatever each counts a record by; by brute force."""
    for seed in range(12):
        norms.check(norms.draw_case(layout, seed))


def test_what_is_counted_aside_of_metrics_is_of_the_one_that_keeps_least() -> None:
    """Four different items are 2 long, and their numbers, which are in one sum, 4: a norm of 2 keeps all, and half."""
    spec = MetricsSpec(
        (
            MetricPart("items", ListedItems(range(16)), Fraction(1, 2)),
            MetricPart("numbers", StatisticsSpec(IntegerDomain(0, 15)), Fraction(1, 2)),
        )
    )
    bounds = NormBound(2)
    sketch_input = SketchInput(spec, bounds)
    counters = summary_counts(SummaryCounts(), bounds)
    items = [item for item in norms.keys_of(spec) if len(norms.own_items(spec, item)) == 2][:4]
    records = [(Place(0, b"a", 0, item), 1) for item in items]
    kept, sums = NormRule(bounds, sketch_input, counters).select_and_count(norms.to_table(sketch_input, records))
    of_part = Counter[int]()
    for item, weight in zip(kept["item"].to_pylist(), kept["weight"].to_pylist(), strict=True):
        for number, _ in norms.own_items(spec, item):
            of_part[number] += weight
    assert of_part[1] < of_part[0]
    assert sums is not None
    assert sum(sums["weight"].to_pylist()) == pytest.approx(min(of_part.values()), abs=4)
