"""The rho in the statements that transforms put into their releases is at least what brute force finds, and is reached.

The loss of a pair of neighbouring inputs is the sum over all counters of all releases of change^2 / (2 sigma^2). It is
maximised over everything that one unit may contribute, over two items in one row of two columns, placed in every way.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections import defaultdict
from fractions import Fraction
from typing import Any

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.pipeline import PipelineVisitor
from apache_beam.testing.test_stream import TestStream as Stream
from apache_beam.transforms import window
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import PaneInfo, PaneInfoTiming
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from beam_dpsketch import (
    ADD_OR_REMOVE_ONE,
    AssumePublicKeys,
    Horizon,
    IntegerDomain,
    NeighboringRelation,
    PrivacyId,
    PrivacySpec,
    PrivacyUnit,
    PublicKeys,
    Record,
    RecordBounds,
    ReleaseTerms,
    SketchSpec,
    TimeRange,
    TreeSpec,
)
from beam_dpsketch.answers.privacy_statement import PrivacyStatement
from beam_dpsketch.encodings import encode
from beam_dpsketch.exact.reading.items import SketchInput
from beam_dpsketch.exact.sketches.spec import FLAT_KINDS
from beam_dpsketch.exact.sums.accumulator import SketchAccumulator
from beam_dpsketch.exact.sums.keyed_sums import KeyedSums
from beam_dpsketch.noise.calibration import calibrate
from beam_dpsketch.statement.release_id import RUN_BYTES
from beam_dpsketch.transforms import PrivateFrequencies, PrivateQuantiles, PrivateTopK
from beam_dpsketch.transforms.outputs import key_and_release
from beam_dpsketch.transforms.steps.release_once import ReleaseKeys, ReleaseOnce
from tests.helpers.one_bundle import released_by
from tests.helpers.over_time import worst as worst_over_time
from tests.helpers.pipelines import BUNDLE_BASED, FN_API, exact_sums, seen_by_sink

RHO = Fraction(1, 10)
TINY = {kind: SketchSpec(kind=kind, depth=1, width=2) for kind in FLAT_KINDS}
RELATIONS = st.sampled_from(NeighboringRelation)
MOST_INPUTS = 1000


class _Releases(PipelineVisitor):
    """The steps of a pipeline that draw noise."""

    def __init__(self) -> None:
        self.found: list[ReleaseOnce | ReleaseKeys] = []

    def visit_transform(self, node: Any) -> None:
        if isinstance(getattr(node.transform, "dofn", None), (ReleaseOnce, ReleaseKeys)):
            self.found.append(node.transform.dofn)


def declared(transform: Any, windows: Any, *, unbounded: bool = False) -> PrivacyStatement:
    """The statement of a release of the transform in such windows: of the step in its pipeline, run by hand."""
    pipeline = beam.Pipeline(runner=FN_API)
    keyed = transform._declared.is_keyed
    records = [("k", "a") if keyed else "a"]
    source: Any = Stream().add_elements(records) if unbounded else beam.Create(records)
    elements = pipeline | source
    _ = (elements if windows is None else elements | beam.WindowInto(windows)) | transform
    visitor = _Releases()
    pipeline.visit(visitor)
    sketch_input = SketchInput(transform._declared.spec, RecordBounds(1))
    accumulator = SketchAccumulator(sketch_input)
    element, run = accumulator, None
    if transform._declared.horizon is not None:
        accumulator.row, run = 0, bytes(RUN_BYTES)
        element = (run, accumulator) if unbounded else accumulator  # on streams each row comes with the name of its run

    def given_to(step: ReleaseOnce | ReleaseKeys) -> Any:
        if isinstance(step, ReleaseKeys):
            return KeyedSums.of_nothing(sketch_input, [encode("k")])
        return ("k", element) if keyed else element

    on_time = PaneInfo(True, True, PaneInfoTiming.ON_TIME, 0, 0)
    statements = {
        (
            privacy.rho,
            privacy.sigma_squared_per_level,
            privacy.window_count,
            privacy.unit,
            privacy.period_micros,
        ): privacy
        for step in visitor.found
        for output in released_by(step, given_to(step), on_time, run)
        for privacy in [(output[1] if isinstance(output, tuple) else output).privacy]
    }
    (statement,) = statements.values()
    return statement


def frequencies(spec: SketchSpec, privacy: PrivacySpec, *, keys: Any, is_keyed: bool, **arguments: Any) -> Any:
    """The transform, per key if there are several."""
    if is_keyed:
        return PrivateFrequencies(spec, privacy, keys=keys, **arguments)
    return PrivateFrequencies(spec, privacy, **arguments)


def in_keys(bounds: RecordBounds, keys: int) -> RecordBounds:
    """The bounds; of one key, which has none, without a limit of keys."""
    return bounds if keys > 1 else dataclasses.replace(bounds, max_keys=None)


def held(bounds: RecordBounds) -> list[np.ndarray]:
    """Net weight by item of what a unit may hold in one release: two items, weights at their ends."""
    weights = (0, bounds.min_weight, bounds.max_weight)
    records = [np.array(record) for weight in weights for record in ((weight, 0), (0, weight))]
    chosen = itertools.combinations_with_replacement(records, bounds.max_per_key)
    return [np.array(net) for net in sorted({tuple(sum(each).tolist()) for each in chosen})]


def inputs_of_id(bounds: RecordBounds, *, windows: int, reached: int, keys: int) -> np.ndarray:
    """All that an id may contribute, (n, windows * keys, 2): in `reached` windows, to max_keys keys in each."""
    found = set()
    partitions = min(bounds.kept_keys, keys)
    size = len(held(bounds)) ** (reached * partitions)
    places = [
        [(where, key) for where, of_window in zip(chosen, chosen_keys, strict=True) for key in of_window]
        for chosen in itertools.combinations(range(windows), reached)
        for chosen_keys in itertools.product(itertools.combinations(range(keys), partitions), repeat=reached)
    ]
    assume(size * len(places) <= MOST_INPUTS)
    for place, contents in itertools.product(places, itertools.product(held(bounds), repeat=reached * partitions)):
        unit = np.zeros((windows, keys, 2), dtype=np.int64)
        for (where, key), content in zip(place, contents, strict=True):
            unit[where, key] = content
        found.add(unit.tobytes())
    return np.array([np.frombuffer(unit, dtype=np.int64).reshape(windows * keys, 2) for unit in found])


def inputs_of_record(bounds: RecordBounds, windows: window.SlidingWindows) -> np.ndarray:
    """All that a record may contribute, (n, windows, 2): at any time, in each window that has it."""
    starts: dict[Any, int] = {}
    span = range(0, 2 * (windows.size + windows.period).micros, 500_000)
    assigned = {
        tuple(starts.setdefault(each, len(starts)) for each in windows.assign(window.WindowFn.AssignContext(time)))
        for time in (Timestamp(micros=micros) for micros in span)
    }
    contents = [content for content in held(bounds) if np.count_nonzero(content) < 2]
    found = np.zeros((len(assigned) * len(contents), len(starts), 2), dtype=np.int64)
    for record, (places, content) in zip(found, itertools.product(assigned, contents), strict=True):
        record[list(places)] = content
    return found


def worst(inputs: np.ndarray, *, signs: bool, relation: NeighboringRelation) -> int:
    """The largest squared change of all counters, over all pairs of neighbouring inputs and all hash functions."""
    largest = 0
    for column, sign in itertools.product((0, 1), (1, -1) if signs else (1,)):
        matrix = np.zeros((2, 2), dtype=np.int64)  # item, column
        matrix[0, 0], matrix[1, column] = 1, sign
        counters = (inputs @ matrix).reshape(len(inputs), -1)
        squares = np.square(counters).sum(axis=1)
        if relation is ADD_OR_REMOVE_ONE:
            largest = max(largest, int(squares.max()))
        else:
            largest = max(largest, int((squares[:, None] + squares - 2 * counters @ counters.T).max()))
    return largest


def loss(change: int, statement: PrivacyStatement) -> Fraction:
    (variance,) = statement.sigma_squared_per_level
    return Fraction(change) / (2 * variance)


SETTINGS = {
    "sketch": st.sampled_from(sorted(TINY)),
    "relation": RELATIONS,
    "bounds": st.builds(
        RecordBounds,
        max_per_key=st.integers(1, 3),
        max_keys=st.integers(1, 2),
        max_weight=st.integers(1, 3),
        signed=st.booleans(),
    ),
}


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(
    **SETTINGS,
    max_windows=st.integers(1, 3),
    spare_windows=st.integers(0, 1),
    overlap=st.integers(1, 4),
    keys=st.integers(1, 3),
    horizon=st.sampled_from(["bounded", "period", "range", "both"]),
    unbounded=st.booleans(),
)
def test_an_id_over_several_windows(
    sketch: str,
    relation: NeighboringRelation,
    bounds: RecordBounds,
    max_windows: int,
    spare_windows: int,
    overlap: int,
    keys: int,
    horizon: str,
    unbounded: bool,
) -> None:
    """In a period, or in all, of so many windows, fixed or sliding, it reaches any max_windows."""
    assume(bounds.kept_keys <= keys and not (unbounded and horizon == "bounded"))
    bounds = in_keys(bounds, keys)
    windows = max_windows + spare_windows
    inputs = inputs_of_id(bounds, windows=windows, reached=max_windows, keys=keys)
    in_range = horizon in ("range", "both")
    transform = frequencies(
        TINY[sketch],
        PrivacySpec(rho=RHO, relation=relation, side_counters=None),
        unit=PrivacyId(
            str, bounds, max_windows=max_windows, period=10 * windows if horizon in ("period", "both") else None
        ),
        keys=PublicKeys(range(keys)) if in_range else AssumePublicKeys(),
        windows=TimeRange(0, 10 * (windows + overlap - 1)) if in_range else None,
        is_keyed=keys > 1,
    )
    windowfn = window.SlidingWindows(10 * overlap, 10) if overlap > 1 else window.FixedWindows(10)
    statement = declared(transform, windowfn, unbounded=unbounded)
    assert (statement.bounds, statement.window_count) == (bounds, max_windows)
    assert statement.unit is (
        PrivacyUnit.PRIVACY_ID_IN_PERIOD if horizon in ("period", "both") else PrivacyUnit.PRIVACY_ID
    )
    of: dict[str, Any] = {"signs": sketch == "count_sketch", "relation": relation}
    change = worst(inputs, **of)
    assert loss(change, statement) == statement.rho == RHO
    # Shown to fail: noise for one window would cost max_windows times as much.
    terms = ReleaseTerms(
        PrivacySpec(rho=RHO, relation=relation, side_counters=None), bounds, unit=PrivacyUnit.PRIVACY_ID
    )
    (of_one,) = calibrate(TINY[sketch], terms)
    assert Fraction(change) / (2 * of_one) == max_windows * RHO


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@given(**SETTINGS, keys=st.integers(1, 3), fixed=st.booleans())
def test_an_id_within_one_window(
    sketch: str, relation: NeighboringRelation, bounds: RecordBounds, keys: int, fixed: bool
) -> None:
    assume(bounds.kept_keys <= keys)
    bounds = in_keys(bounds, keys)
    inputs = inputs_of_id(bounds, windows=2 if fixed else 1, reached=1, keys=keys)
    privacy, unit = PrivacySpec(rho=RHO, relation=relation, side_counters=None), PrivacyId(str, bounds)
    transform = frequencies(TINY[sketch], privacy, unit=unit, keys=AssumePublicKeys(), is_keyed=keys > 1)
    statement = declared(transform, window.FixedWindows(10) if fixed else None)
    assert statement.unit is (PrivacyUnit.PRIVACY_ID_IN_WINDOW if fixed else PrivacyUnit.PRIVACY_ID)
    of: dict[str, Any] = {"signs": sketch == "count_sketch", "relation": relation}
    assert loss(worst(inputs, **of), statement) == statement.rho == RHO


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@given(
    sketch=SETTINGS["sketch"],
    relation=RELATIONS,
    max_weight=st.integers(1, 3),
    signed=st.booleans(),
    size=st.integers(1, 9),
    step=st.integers(1, 9),
)
def test_a_record_in_overlapping_windows(
    sketch: str, relation: NeighboringRelation, max_weight: int, signed: bool, size: int, step: int
) -> None:
    privacy, unit = (
        PrivacySpec(rho=RHO, relation=relation, side_counters=None),
        Record(max_weight=max_weight, signed=signed),
    )
    transform = PrivateFrequencies(TINY[sketch], privacy, unit=unit)
    windows = window.SlidingWindows(size, step)
    statement = declared(transform, windows)
    assert statement.unit is PrivacyUnit.RECORD
    inputs, of = inputs_of_record(unit.bounds, windows), {"signs": sketch == "count_sketch", "relation": relation}
    assert loss(worst(inputs, **of), statement) == statement.rho == RHO


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@given(**SETTINGS, windows=st.integers(2, 7), record=st.booleans(), unbounded=st.booleans())
def test_all_rows_of_a_horizon(
    sketch: str, relation: NeighboringRelation, bounds: RecordBounds, windows: int, record: bool, unbounded: bool
) -> None:
    """Of a record, or of an id that reaches one or two windows of the horizon, by the tree, where it is attained."""
    reached = 1 if record else bounds.kept_keys
    bounds = dataclasses.replace(bounds, max_keys=None)
    unit: Any = PrivacyId(str, bounds, max_windows=reached)
    if record:
        unit = Record(max_weight=bounds.max_weight, signed=bounds.signed)
        bounds = unit.bounds
    assume(len(held(bounds)) ** reached * windows**reached <= MOST_INPUTS)
    privacy, horizon = PrivacySpec(rho=RHO, relation=relation, side_counters=None), Horizon(0, 10, windows, "tree")
    transform = PrivateFrequencies(TINY[sketch], privacy, windows=horizon, unit=unit)
    statement = declared(transform, None, unbounded=unbounded)
    assert statement.unit is (PrivacyUnit.RECORD_OVER_HORIZON if record else PrivacyUnit.PRIVACY_ID_OVER_HORIZON)
    change = worst_over_time(
        horizon.rows, reached=reached, bounds=bounds, signs=sketch == "count_sketch", relation=relation
    )
    assert loss(change, statement) / horizon.rows.squared_length == statement.rho == RHO


# Whole pipelines: an id that does its worst, through bounding, against the noise of the releases.

DOMAIN = IntegerDomain(0, 99)
BOUNDS = RecordBounds(max_per_key=2, max_keys=2, max_weight=3)
ONE_KEY = RecordBounds(max_per_key=2, max_weight=3)
FIXED, SLIDING = window.FixedWindows(60), window.SlidingWindows(120, 60)
GREEDY = [
    ({"user": "u", "key": f"key {key}", "item": 7, "weight": 1 << 70}, 60 * minute + second)
    for minute, key, second in itertools.product(range(10), range(3), (0, 1, 59.9))
]


def transforms(**limit: int) -> dict[str, beam.PTransform]:
    """All private transforms whose ids have this limit of windows."""
    privacy, spec = PrivacySpec(rho=RHO, relation=ADD_OR_REMOVE_ONE, side_counters=None), SketchSpec(depth=2, width=3)
    values = {"item": "item", "weight": "weight"}
    of_all: dict[str, Any] = {**values, "unit": PrivacyId("user", ONE_KEY, **limit)}
    of_keys: dict[str, Any] = {**values, "unit": PrivacyId("user", BOUNDS, **limit), "keys": AssumePublicKeys("key")}
    return {
        "frequencies": PrivateFrequencies(spec, privacy, **of_all),
        "frequencies per key": PrivateFrequencies(spec, privacy, **of_keys),
        "quantiles": PrivateQuantiles(TreeSpec.for_memory(DOMAIN, 1 << 10), privacy, **of_all),
        "quantiles per key": PrivateQuantiles(TreeSpec.for_memory(DOMAIN, 1 << 10), privacy, **of_keys),
        "top-K": PrivateTopK(TreeSpec.for_search(DOMAIN, 1 << 10), privacy, k=1, **of_all),
        "top-K per key": PrivateTopK(TreeSpec.for_search(DOMAIN, 1 << 10), privacy, k=1, **of_keys),
    }


class _Both(beam.PTransform):
    """Whole releases, and the exact tables of counters behind them with the period in which their window ends."""

    def __init__(self, private: Any) -> None:
        super().__init__()
        self._private = private

    def expand(self, pcoll: beam.PCollection) -> beam.PCollection:
        exact = exact_sums(pcoll, self._private) | "Tables" >> beam.ParDo(_Tables())
        return (exact, pcoll | self._private) | beam.Flatten()


class _Tables(beam.DoFn):
    def process(self, combined: Any, where: Any = beam.DoFn.WindowParam) -> Any:
        accumulator = combined[1] if isinstance(combined, tuple) else combined
        tables = accumulator.to_sketch().counter_tables()
        yield int(float(where.max_timestamp()) // 300), [int(np.square(table).sum()) for table in tables]


def losses(transform: Any, windows: Any, unbounded: bool) -> tuple[dict[int, Fraction], PrivacyStatement]:
    """What the greedy id, against none, costs in the windows that end in each period of 300 seconds."""
    timed = [window.TimestampedValue(*each) for each in GREEDY]
    stream = Stream().advance_watermark_to(0).add_elements(timed[::2]).add_elements(timed[1::2])

    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        source: Any = stream.advance_watermark_to_infinity() if unbounded else beam.Create(GREEDY) | beam.Map(_stamp)
        return pipeline | source | beam.WindowInto(windows) | _Both(transform)

    options, runner = (["--streaming"], BUNDLE_BASED) if unbounded else ([], FN_API)
    outputs = seen_by_sink(build, *options, runner=runner)
    changes = [output for output in outputs if isinstance(output, tuple) and isinstance(output[0], int)]
    statement = key_and_release(next(output for output in outputs if output not in changes))[1].privacy
    found: dict[int, Fraction] = defaultdict(Fraction)
    for period, squares in changes:
        found[period] += sum(
            (Fraction(square) / (2 * variance))
            for square, variance in zip(squares, statement.sigma_squared_per_level, strict=True)
        )
    return found, statement


def _stamp(timed: Any) -> window.TimestampedValue:
    return window.TimestampedValue(*timed)


@pytest.mark.one_fast_case
@pytest.mark.parametrize(
    ("name", "windows", "unbounded"),
    [
        *itertools.product(transforms(), [SLIDING], [True]),
        *itertools.product(transforms(), [FIXED], [False]),
        ("frequencies per key", SLIDING, False),
        ("frequencies per key", FIXED, True),
    ],
)
def test_a_greedy_id_costs_rho_in_each_period(name: str, windows: Any, unbounded: bool) -> None:
    found, statement = losses(transforms(max_windows=3, period=300)[name], windows, unbounded)
    assert statement.rho == RHO
    assert (found[0], found[1]) == (RHO, RHO)
    assert found.keys() == ({0, 1} if windows is FIXED else {0, 1, 2})
    assert found.get(2, 0) <= RHO


@pytest.mark.one_fast_case
@pytest.mark.parametrize("name", ["frequencies", "quantiles per key"])
def test_a_greedy_id_costs_rho_over_all_windows(name: str) -> None:
    found, _ = losses(transforms(max_windows=3)[name], SLIDING, unbounded=False)
    assert sum(found.values()) == RHO


def test_windows_that_are_not_bounded_cost_more_than_rho() -> None:
    """The statement without `max_windows` is about one window; over ten, the greedy id costs ten times as much."""
    found, statement = losses(transforms()["frequencies"], FIXED, unbounded=False)
    assert statement.unit is PrivacyUnit.PRIVACY_ID_IN_WINDOW
    assert sum(found.values()) == 10 * RHO
