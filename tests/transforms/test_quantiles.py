"""`PrivateQuantiles` as its users see it: every kind of element and value, keys, bounds and refusals."""

from __future__ import annotations

import datetime
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from beam_dpsketch import (
    ADD_OR_REMOVE_ONE,
    DyadicCountSketch,
    FloatDomain,
    IntegerDomain,
    IPv4Domain,
    PrivacyId,
    PrivacySpec,
    PrivacyUnit,
    Record,
    RecordBounds,
    ReleasedDyadicCountSketch,
    TimestampDomain,
    TreeSpec,
)
from beam_dpsketch.exact.reading.items import SketchInput
from beam_dpsketch.exact.sketches import raw_type
from beam_dpsketch.exact.sums.accumulator import SketchAccumulator
from beam_dpsketch.planning.kinds.layouts import layout_of
from beam_dpsketch.privacy.terms import Disclosure
from beam_dpsketch.transforms import PrivateQuantiles
from tests.helpers.pipelines import run
from tests.helpers.tree_pipelines import exact_vectors

PRIVACY = PrivacySpec(rho=1.0, side_counters=None)
DELAYS = IntegerDomain(-60, 195)
DAY = datetime.datetime(2024, 5, 1)


ROWS = [
    {"carrier": carrier, "delay": delay, "tail": f"N{number % 5}"}
    for number, (carrier, delay) in enumerate(
        [("AA", -60), ("AA", 0), ("BB", 7), ("BB", 5000), ("AA", -5000), ("CC", 1), ("AA", 0), ("BB", None)]
    )
]


def vector_of(values: Any, domain: Any = DELAYS, weights: Any = None) -> np.ndarray:
    spec = layout_of(domain)
    return raw_type(spec)(spec).accumulate(values, weights).to_vector()


BOUND = RecordBounds(max_per_key=50)


DOMAINS = {
    "floats": (FloatDomain(0.0, 1.0, resolution=0.125), [0.1, 0.5, 7.0, -1.0], pa.float64()),
    "whole floats": (FloatDomain(0.0, 9.0, resolution=0.5), [1, 5, 8], pa.int32()),
    "times": (
        TimestampDomain(DAY, DAY + datetime.timedelta(days=1)),
        [DAY, DAY + datetime.timedelta(hours=3), DAY - datetime.timedelta(days=9)],
        pa.timestamp("ns"),
    ),
    "addresses": (IPv4Domain(), ["10.0.0.1", "1.2.3.4", "1.2.3.4"], pa.string()),
    "numbers of addresses": (IPv4Domain(), [17, 17, 1 << 31], pa.uint32()),
    "integers": (DELAYS, [1, 2, 2, 900], pa.int16()),
}


BY_RECORD, BY_USER = Record(), PrivacyId("user", RecordBounds(1))
BY_SIGNED_USER = PrivacyId("user", RecordBounds(1, signed=True))


@pytest.mark.one_fast_case
@pytest.mark.parametrize(
    "unit",
    [BY_RECORD, BY_SIGNED_USER, pytest.param(BY_USER, marks=pytest.mark.slow)],
    ids=["record", "signed", "privacy id"],
)
@pytest.mark.parametrize("name", DOMAINS)
def test_values_of_every_domain_are_read_from_columns_and_rows(name: str, unit: Any) -> None:
    domain, values, kind = DOMAINS[name]
    rows = [{"value": value, "user": number} for number, value in enumerate([*values, None])]
    transform = PrivateQuantiles(domain, PRIVACY, item="value", unit=unit)
    column = pa.array([row["value"] for row in rows], kind)
    users = [np.arange(len(rows)) + 100 * form for form in (1, 2)]  # another set in each form, so that none is bounded
    tables = [pa.table({"value": column, "user": each}) for each in users]
    expected = vector_of(values, domain)
    np.testing.assert_array_equal(exact_vectors([*rows, tables[0], tables[1].to_pandas()], transform), 3 * expected)
    if unit is BY_RECORD:
        np.testing.assert_array_equal(
            exact_vectors([row["value"] for row in rows], PrivateQuantiles(domain, PRIVACY, unit=Record())), expected
        )


@pytest.mark.one_fast_case
@pytest.mark.parametrize(
    ("domain", "column", "unit"),
    [
        (DELAYS, pa.array(["text"]), BY_RECORD),
        (DELAYS, pa.array([DAY]), BY_USER),
        (FloatDomain(0, 1, 0.5), pa.array(["0.5"]), BY_RECORD),
        (IPv4Domain(), pa.array([b"\1\2\3\4"]), BY_USER),
        (TimestampDomain(DAY, DAY + datetime.timedelta(1)), pa.array([1_714_521_600]), BY_RECORD),
        (DELAYS, pa.array([[1]]), BY_USER),
        (DELAYS, pa.array([True]), BY_RECORD),
    ],
)
def test_a_column_none_of_whose_values_could_count_is_an_error(domain: Any, column: pa.Array, unit: Any) -> None:
    transform = PrivateQuantiles(domain, PRIVACY, item="value", unit=unit)
    message = rf"item='value' must hold .* \({type(domain).__name__}\), got"
    with pytest.raises(Exception, match=message):
        run([pa.table({"value": column, "user": [1]})], transform)


def test_the_statement_says_what_was_asked_for() -> None:
    spec = TreeSpec.for_memory(DELAYS, arity=4, leaf_share=Fraction(1, 2))
    transform = PrivateQuantiles(
        spec,
        PrivacySpec(rho=0.5, relation=ADD_OR_REMOVE_ONE, side_counters=None),
        item="delay",
        unit=PrivacyId("tail", BOUND),
    )
    (released,) = run(ROWS, transform)
    assert isinstance(released, ReleasedDyadicCountSketch)
    statement = released.privacy
    assert released.spec == spec
    assert (statement.rho, statement.bounds, statement.unit) == (Fraction(1, 2), BOUND, PrivacyUnit.PRIVACY_ID)
    # Delta_l^2 = C^2 for exact levels; rho_l = rho / 6 above and rho / 2 at the leaves.
    assert statement.sigma_squared_per_level == (Fraction(2500 * 6),) * 3 + (Fraction(2500 * 2),)
    assert statement.disclosed is Disclosure.NONE


def test_answers_are_near_the_truth() -> None:
    """sigma^2 = 2 a level; the error of a rank is far below 4 x 12 x 14 sigma with probability > 1 - 1e-9."""
    (released,) = run([10] * 3000 + [20] * 1000, PrivateQuantiles(DELAYS, PRIVACY, unit=Record()))
    assert released.quantile([0.1, 0.5, 0.9]) == [10, 10, 20]
    assert released.rank([9, 10, 19, 20]) == pytest.approx([0, 3000, 3000, 4000], abs=200)
    (empty,) = run([], PrivateQuantiles(DELAYS, PRIVACY, unit=Record()))
    assert empty.total_weight().estimate < 200


def test_at_most_the_bounds_of_each_privacy_id_are_kept() -> None:
    rows = [{"user": "one", "value": value % 200} for value in range(1000)] + [{"user": "two", "value": 3}]
    bounds = RecordBounds(max_per_key=7)
    transform = PrivateQuantiles(DELAYS, PRIVACY, item="value", unit=PrivacyId("user", bounds))
    assert exact_vectors(rows, transform).sum() == 8
    tree = PrivateQuantiles(TreeSpec.for_memory(DELAYS), PRIVACY, item="value", unit=PrivacyId("user", bounds))
    levels = DyadicCountSketch.from_vector(TreeSpec.for_memory(DELAYS), exact_vectors(rows, tree)).levels
    assert {int(level.counters.sum()) for level in levels} == {8}


def test_accumulators_of_ranks_survive_their_bytes() -> None:
    for domain, count in ((DELAYS, 3), (DELAYS, 5000), (IPv4Domain(), 100), (IPv4Domain(), 90_000)):
        recipe = SketchInput(layout_of(domain), RecordBounds(1))
        accumulator = SketchAccumulator(recipe)
        for value in range(count):
            accumulator.add(value % 190)
        again = SketchAccumulator.from_bytes(recipe, accumulator.to_bytes())
        assert again.to_sketch() == accumulator.to_sketch()
