"""One factor of a unit over all windows of rows over time: never too long over all rows, and attained.

All lengths are those of the dense matrix, in whole numbers and fractions.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_dpsketch import CountMin, NormBound, SketchSpec
from beam_dpsketch.exact.bounding.norm_rule import NormRule, PartRecords, UnitLengths
from beam_dpsketch.exact.horizon import WindowRows
from beam_dpsketch.exact.reading.items import SketchInput
from beam_dpsketch.privacy.norm import scaling
from beam_dpsketch.privacy.over_time import mechanism as base
from beam_dpsketch.privacy.over_time.mechanism import RowMechanism
from beam_dpsketch.privacy.over_time.pairs import PAIR_BITS
from tests.helpers import laws, norms, rows
from tests.helpers.norms import Place, Records
from tests.helpers.rows import UNIT

every_mechanism = pytest.mark.parametrize("made", rows.MECHANISMS)
SPECS = {
    "1 x 2": SketchSpec(kind="count_min", depth=1, width=2, seed=1),
    "2 x 3": SketchSpec(kind="count_min", depth=2, width=3, seed=2),
    "1 x 2, signs": SketchSpec(depth=1, width=2, seed=3),
    "2 x 3, signs": SketchSpec(depth=2, width=3, seed=4),
}
LAYOUTS = ("all kinds", "exact and count_sketch", "fine shares", "statistics")
TOO_LONG = "too long"


def spec_of(layout: str) -> Any:
    return SPECS[layout] if layout in SPECS else norms.LAYOUTS[layout](np.random.default_rng(5))


def input_of(layout: str, mechanism: RowMechanism, max_norm: Any, **settings: Any) -> SketchInput:
    bounds = NormBound(max_norm, **{"max_weight": 1 << 20} | settings)
    return SketchInput(spec_of(layout), bounds, over_time=rows.over(mechanism))


def mechanism_of(sketch_input: SketchInput) -> RowMechanism:
    assert sketch_input.over_time is not None
    return sketch_input.over_time.mechanism


def length(sketch_input: SketchInput, weights: Iterable[tuple[Place, int]]) -> Fraction:
    """The squared length of all rows over the longest column, in records."""
    found = rows.squared_length(sketch_input.spec, mechanism_of(sketch_input), weights, sizes=False)
    return found / UNIT**2


def at_random(sketch_input: SketchInput, seed: int, size: int = 60) -> Records:
    """Records of three units in up to two keys; a few are heavy."""
    rng, spec = np.random.default_rng(seed), sketch_input.spec
    items, windows = norms.keys_of(spec), mechanism_of(sketch_input).windows
    items = items[: rng.integers(1, len(items) + 1)]
    heavy = rng.integers(1, [2, 60, 5000][rng.integers(3)], size)
    signs = rng.choice([1, -1], size) if sketch_input.bounds.signed else np.ones(size, dtype=int)
    return [
        (
            Place(
                int(rng.integers(3)),
                b"k%d" % rng.integers(rng.integers(1, 3)),
                rows.end(int(rng.integers(windows))),
                items[rng.integers(len(items))],
            ),
            int(weight),
        )
        for weight in heavy * signs
    ]


def cases() -> Iterator[tuple[SketchInput, Records]]:
    """The same in every run."""
    rng = np.random.default_rng(18)
    for layout, made in itertools.product((*SPECS, *LAYOUTS), rows.MECHANISMS.values()):
        for windows in (2, 3, 5, 6):
            max_norm = [Fraction(5, 2), 20, 100][rng.integers(3)]
            settings = {"signed": bool(rng.integers(2)), "max_per_item": [None, 40][rng.integers(2)]}
            sketch_input = input_of(layout, made(windows), max_norm, **settings)
            yield sketch_input, at_random(sketch_input, int(rng.integers(1 << 40)))
    for layout, made in itertools.product(SPECS, rows.MECHANISMS.values()):
        # One item in all windows, and another in one of them.
        first, second = norms.keys_of(spec_of(layout))[:2]
        for max_norm, weight in ((100, 7), (100, 5000)):
            records = [(Place(0, b"k", rows.end(window), first), weight) for window in range(6)]
            yield input_of(layout, made(6), max_norm), [*records, (Place(0, b"k", rows.end(3), second), weight)]
    light = [(Place(0, b"k", rows.end(window), 3), 2) for window in range(6)]
    yield input_of("1 x 2", rows.MECHANISMS["binned"](6), 100), light


def check(sketch_input: SketchInput, records: Records) -> Fraction:
    """Raise if a unit is too long over all rows, or scaled too much; return the largest length over the bound."""
    bounds, mechanism = sketch_input.bounds, mechanism_of(sketch_input)
    assert isinstance(bounds, NormBound)
    found = norms.units_of(norms.bounded(sketch_input, records))
    net, limit, largest = norms.units_of(norms.netted(records, bounds.max_per_item)), bounds.squared_length, Fraction(0)
    for unit, weights in net.items():
        kept = found.get(unit, {})
        ratio = length(sketch_input, kept.items()) / limit
        assert ratio <= 1, f"{TOO_LONG}: {float(ratio)}"
        largest = max(largest, ratio)
        total = sum(map(abs, weights.values()))
        squared = rows.squared_length(sketch_input.spec, mechanism, weights.items(), sizes=True)
        for place, weight in weights.items():
            size = kept.get(place, 0) * (1 if weight > 0 else -1)
            assert 0 <= size <= abs(weight) * UNIT, "an item grew or changed its sign"
            if total <= bounds.max_norm:
                assert size == abs(weight) * UNIT, "a unit within the norm was changed"
            # G is rounded up by 2^-20 of its largest entry, and so are the weights of tables.
            least_square = limit / max(limit, squared + total**2 * Fraction(3, 1 << PAIR_BITS))
            assert (size + 1 + Fraction(abs(weight), 1 << 20)) ** 2 >= (abs(weight) * UNIT) ** 2 * least_square, "lost"
    return largest


def check_all() -> Fraction:
    return max(check(*case) for case in cases())


def test_no_unit_is_too_long_and_none_is_shorter_than_need_be() -> None:
    assert check_all() > Fraction(999, 1000)


@every_mechanism
@pytest.mark.parametrize("layout", SPECS)
def test_the_bound_is_attained(made: str, layout: str) -> None:
    """By heavy units of one item, in one window or in all of them, without and with signs."""
    mechanism = rows.MECHANISMS[made](6)
    item = norms.keys_of(spec_of(layout))[0]
    longest = max(range(6), key=lambda window: sum(rows.matrix(mechanism)[:, window] ** 2))
    for windows, max_norm in itertools.product(([longest], range(6), (1, 2)), (50, 1000)):
        records = [(Place(0, b"k", rows.end(window), item), 9999) for window in windows]
        assert check(input_of(layout, mechanism, max_norm), records) > Fraction(999, 1000)


def kept_in_rows(
    mechanism: RowMechanism, sketch_input: SketchInput, table: list[tuple[int, ...]], items: list[Any]
) -> np.ndarray:
    """All rows of units that hold these weights of (window, item): Python integers of shape (units, rows * cells)."""
    places = [(window, item) for window in range(mechanism.windows) for item in items]
    records = [
        (Place(unit, b"k", rows.end(window), item), weight)
        for unit, weights in enumerate(table)
        for (window, item), weight in zip(places, weights, strict=True)
        if weight
    ]
    cells = {item: norms.changed_cells(sketch_input.spec, item)[0] for item in items}
    counters = np.zeros((len(table), mechanism.windows, 6), dtype=object)
    numbers = {rows.end(window): window for window in range(mechanism.windows)}
    for place, weight in norms.bounded(sketch_input, records).items():
        for cell, sign in cells[place.item].items():
            counters[place.unit, numbers[place.window], cell] += sign * weight
    return np.matmul(rows.matrix(mechanism), counters).reshape(len(table), -1)


@pytest.mark.one_fast_case
@every_mechanism
@pytest.mark.parametrize(("windows", "largest"), [(2, 4), (3, 2)])
@pytest.mark.parametrize("layout", SPECS)
def test_all_small_units_and_all_that_replace_them(made: str, windows: int, largest: int, layout: str) -> None:
    """At most 1 for a unit; 2 for a replacement, or 4 where cells can shrink. Both are attained."""
    mechanism = rows.MECHANISMS[made](windows)
    sketch_input = input_of(layout, mechanism, max_norm := Fraction(3, 2))
    table = list(itertools.product(range(largest + 1), repeat=2 * windows))
    signs, most = layout.endswith("signs"), (max_norm * UNIT) ** 2 * rows.longest(mechanism)
    items = apart(spec_of(layout), opposite=signs)
    found = kept_in_rows(mechanism, sketch_input, table, items).astype(np.float64) / float(most) ** 0.5
    found *= spec_of(layout).depth ** -0.5
    squares = np.square(found).sum(axis=1)
    changes = squares[:, None] + squares - 2 * found @ found.T
    rounding = 1e-12
    assert 0.98 < squares.max() <= 1 + rounding
    assert 0.98 < changes.max() / (4 if signs else 2) <= 1 + rounding


def apart(spec: Any, *, opposite: bool) -> list[Any]:
    """Two items that share no cell, or all cells with opposite signs."""
    for pair in itertools.combinations(norms.keys_of(spec), 2):
        first, second = (norms.changed_cells(spec, item)[0] for item in pair)
        if first == {cell: -sign for cell, sign in second.items()} if opposite else not first.keys() & second.keys():
            return list(pair)
    raise AssertionError("no such items")


@every_mechanism
@given(seed=st.integers(0, 1 << 40))
def test_a_unit_with_as_many_records_as_the_norm_loses_nothing(made: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    mechanism = rows.MECHANISMS[made](int(rng.integers(2, 7)))
    sketch_input = input_of("2 x 3, signs", mechanism, 12, max_weight=1)
    records = [(place._replace(unit=0), 1) for place, _ in at_random(sketch_input, seed, size=12)]
    heavy = [(place._replace(unit=1), weight) for place, weight in at_random(sketch_input, seed)]
    kept = {place: weight * UNIT for place, weight in norms.netted(records).items()}
    assert norms.bounded(sketch_input, records) == kept
    together = norms.bounded(sketch_input, [*records, *heavy])
    assert {place: weight for place, weight in together.items() if place.unit == 0} == kept


@pytest.mark.one_fast_case
@every_mechanism
@given(data=st.data())
def test_order_split_and_other_units_do_not_matter(made: str, data: Any) -> None:
    mechanism = rows.MECHANISMS[made](data.draw(st.integers(2, 6)))
    signed, limit = data.draw(st.booleans()), data.draw(st.sampled_from([None, 7]))
    layout = data.draw(st.sampled_from(list(SPECS)))
    sketch_input = input_of(layout, mechanism, 9, signed=signed, max_distinct_items=limit)
    records = at_random(sketch_input, data.draw(st.integers(0, 1 << 40)))
    found = norms.bounded(sketch_input, records)
    order = data.draw(st.permutations(list(records)))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(order)), max_size=4)))
    parts = [order[start:stop] for start, stop in zip([0, *cuts], [*cuts, len(order)], strict=True)]
    assert norms.bounded(sketch_input, *parts) == found
    for unit in {place.unit for place, _ in records}:
        own = [record for record in records if record[0].unit == unit]
        assert norms.bounded(sketch_input, own) == {place: each for place, each in found.items() if place.unit == unit}


@every_mechanism
def test_above_the_dense_limit_units_are_shorter_and_never_too_long(made: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """There a unit counts as if all its windows were one: no item keeps more than by the exact rule."""
    mechanism = rows.MECHANISMS[made](6)
    cases_of = [
        (sketch_input, at_random(sketch_input, seed))
        for seed, layout in enumerate(SPECS)
        for sketch_input in [input_of(layout, mechanism, 20)]
    ]
    exact = [norms.bounded(*case) for case in cases_of]
    monkeypatch.setattr(base, "MAX_DENSE", 5)
    for (sketch_input, records), kept in zip(cases_of, exact, strict=True):
        found = norms.bounded(sketch_input, records)
        assert found.keys() <= kept.keys()
        assert all(abs(found.get(place, 0)) <= abs(weight) for place, weight in kept.items())
        for unit, weights in norms.units_of(found).items():
            assert length(sketch_input, weights.items()) <= sketch_input.bounds.squared_length
            own = [record for record in records if record[0].unit == unit]
            sizes = rows.squared_length(sketch_input.spec, mechanism, in_one_window(own), sizes=True)
            factor = min(1.0, float(sketch_input.bounds.max_norm) / float(sizes * longest_window(mechanism)) ** 0.5)
            for place, weight in norms.netted(own).items():
                assert found.get(place, 0) == pytest.approx(weight * UNIT * factor, abs=1.01)


def in_one_window(records: Records) -> list[tuple[Place, int]]:
    return list(norms.netted([(place._replace(window=rows.end(0)), weight) for place, weight in records]).items())


def longest_window(mechanism: RowMechanism) -> Fraction:
    """The longest column over that of window 0, squared."""
    return Fraction(rows.longest(mechanism), int((rows.matrix(mechanism)[:, 0] ** 2).sum()))


@every_mechanism
def test_each_window_of_a_stream_is_bounded_alone(made: str) -> None:
    """Tables without a column of windows: as ever, but with 8 bits."""
    item = norms.keys_of(SPECS["1 x 2"])[0]
    sketch_input = input_of("1 x 2", rows.MECHANISMS[made](6), 20)
    table = norms.to_table(sketch_input, [(Place(0, b"k", 0, item), 1000), (Place(1, b"k", 0, item), 7)])
    kept = NormRule(sketch_input.bounds, sketch_input).select(table.drop_columns(["window"]))
    assert dict(zip(kept["unit"].to_pylist(), kept["weight"].to_pylist(), strict=True)) == {0: 5119, 1: 7 * UNIT}
    assert sketch_input.raw_sketch().scale_bits == sketch_input.scale_bits == 8
    assert isinstance(sketch_input.raw_sketch(), CountMin)


def test_windows_are_numbered_from_their_last_millisecond() -> None:
    over_time = WindowRows(rows.MECHANISMS["tree"](4), -1, 500)
    ends = np.array([-1, 499, 999, 1499, 1999, -501, 1 << 62], dtype=np.int64)
    assert over_time.number(ends).tolist() == [0, 1, 2, 3, 3, 0, 3]


@every_mechanism
@given(seed=st.integers(0, 1 << 40))
def test_lengths_for_a_choice_of_the_norm_are_those_over_all_windows(made: str, seed: int) -> None:
    """Each unit in its bin; at the edges, what rounds G up may decide."""
    rng = np.random.default_rng(seed)
    mechanism = rows.MECHANISMS[made](int(rng.integers(2, 7)))
    sketch_input = input_of(list(SPECS)[rng.integers(4)], mechanism, 1)
    records = at_random(sketch_input, seed)
    rule = NormRule(sketch_input.bounds, sketch_input)
    bins = rule.length_histogram(norms.to_table(sketch_input, records))
    least, most = np.zeros_like(bins), np.zeros_like(bins)
    for weights in norms.units_of(norms.netted(records)).values():
        squared = rows.squared_length(sketch_input.spec, mechanism, weights.items(), sizes=True)
        for each, factor in ((least, 1), (most, 1 + Fraction(1, 1 << 10))):
            each[max(0, (math.floor(squared * factor)).bit_length() - 1)] += 1
    assert bins.sum() == least.sum()
    assert (np.cumsum(most) <= np.cumsum(bins)).all()
    assert (np.cumsum(bins) <= np.cumsum(least)).all()


# Faults.


def a_factor_for_each_window(exact: Any, rule: NormRule, records: pa.Table) -> pa.Table:
    windows = records["window"].unique()
    return pa.concat_tables(exact(rule, records.filter(pc.equal(records["window"], end))) for end in windows)


def sixteen_bits_in_full(exact: Any, rule: NormRule, *records: Any) -> Any:
    found = exact(rule, *records)
    rule._bits = 16 if found is not None else rule._bits
    return found


def keys_that_add_up(exact: Any, lengths: UnitLengths, parts: Sequence[PartRecords]) -> np.ndarray:
    """The opposite: lengths of keys are not added up, but their weights are."""
    ((_, rows, _),) = parts
    one_key = rows._replace(codes={**rows.codes, "key": np.zeros_like(rows.codes["unit"])})
    return exact(lengths, [parts[0]._replace(rows=one_key)])


FAULTS = {
    "the diagonal alone": laws.around(
        RowMechanism, "pair_weights", lambda exact, mechanism: np.diag(np.diag(exact(mechanism))), TOO_LONG
    ),
    "a factor for each window": laws.around(NormRule, "select", a_factor_for_each_window, TOO_LONG),
    "windows without rows": laws.put(  # each weighs as much as without rows, and windows do not add up
        RowMechanism, "pair_weights", lambda mechanism: np.eye(mechanism.windows, dtype=int) << PAIR_BITS, TOO_LONG
    ),
    "16 bits": laws.around(scaling, "scaled", lambda exact, sizes, factors, _: exact(sizes, factors), TOO_LONG),
    "16 bits in full": laws.around(NormRule, "_totals_in_full", sixteen_bits_in_full, f"grew|{TOO_LONG}"),
    "windows numbered wrongly": laws.around(
        WindowRows,
        "number",
        lambda exact, over_time, ends: over_time.mechanism.windows - 1 - exact(over_time, ends),
        f"lost|{TOO_LONG}",
    ),
    "keys that add up": laws.around(UnitLengths, "squares", keys_that_add_up, "lost"),
}
test_a_planted_fault_is_found = laws.mutants(FAULTS, check_all)
