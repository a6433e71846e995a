"""`max_windows`: in how many windows of a period a privacy id counts, for any records in any order."""

from __future__ import annotations

import itertools
import math
import secrets
from collections import Counter, defaultdict
from typing import Any

import apache_beam as beam
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from apache_beam.testing.test_stream import TestStream as Stream
from apache_beam.transforms import window
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import PANE_INFO_UNKNOWN
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from beam_dpsketch import AssumePublicKeys, IntegerDomain, PrivacyId, RecordBounds, ReleaseTerms, TimeRange, TreeSpec
from beam_dpsketch.encodings import decode
from beam_dpsketch.exact.bounding import window_rule
from beam_dpsketch.exact.bounding.record_rule import RandomPriorities
from beam_dpsketch.exact.bounding.window_rule import RuleOverWindows
from beam_dpsketch.exact.reading.items import SketchInput
from beam_dpsketch.exact.reading.reading import Columns, RecordReader, read_table
from beam_dpsketch.exact.reading.selectors import Selectors
from beam_dpsketch.noise.calibration import calibrate
from beam_dpsketch.privacy.contributions import PrivacyUnit
from beam_dpsketch.privacy.terms import Disclosure
from beam_dpsketch.transforms import PrivateFrequencies, PrivateQuantiles
from beam_dpsketch.transforms.steps import bounding_over_windows as steps
from beam_dpsketch.transforms.steps.bounding import BoundShard, ShardWindowedRecords
from beam_dpsketch.transforms.steps.bounding_over_windows import FirstWindows
from beam_dpsketch.transforms.steps.windows import last_time
from tests.helpers.every_kind import RUNNERS, TABLE, VISITS
from tests.helpers.max_windows import (
    BOUNDS,
    FIXED,
    GREEDY,
    ONE_COUNTER,
    PRIVACY,
    Totals,
    assert_within,
    per_key,
    row,
    stamp,
    stream,
)
from tests.helpers.pipelines import BUNDLE_BASED, FN_API, ExactCounters, seen_by_sink
from tests.helpers.streams import Timed, WithStart

SLIDING = window.SlidingWindows(120, 60)


def globally(
    bounds: RecordBounds = RecordBounds(300),  # noqa: B008
    *,
    max_windows: int = 2,
    period: Any = None,
    item: str = "item",
    windows: TimeRange | None = None,
) -> PrivateFrequencies:
    """Return a transform with one counter in each release."""
    privacy_unit = PrivacyId("user", bounds, max_windows=max_windows, period=period)
    return PrivateFrequencies(ONE_COUNTER, PRIVACY, privacy_unit=privacy_unit, item=item, windows=windows)


def totals(source: Any, windows: Any, transform: Any, runner: str = FN_API) -> Totals:
    """Exact total weight of each window, as its start, and key that has any, before the noise."""

    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        elements = pipeline | source if isinstance(source, Stream) else pipeline | beam.Create(source) | beam.Map(stamp)
        return elements | beam.WindowInto(windows) | ExactCounters(transform) | beam.ParDo(WithStart())

    options = ["--streaming"] if isinstance(source, Stream) else []
    found = {}
    for start, output in seen_by_sink(build, *options, runner=runner):
        key, counters = output if isinstance(output, tuple) else (None, output)
        assert (start, key) not in found
        found[start, key] = counters[0][0]
    return {place: total for place, total in found.items() if total}


@pytest.mark.one_fast_case
@pytest.mark.parametrize("runner", [FN_API, BUNDLE_BASED])
@pytest.mark.parametrize("windows", [FIXED, SLIDING], ids=["fixed", "sliding"])
def test_a_greedy_id_is_bounded_in_every_period(windows: Any, runner: str) -> None:
    found = totals(GREEDY, windows, per_key(weight="weight", period=300), runner)
    assert_within(found, windows, BOUNDS, 2, 300)
    assert len({start for start, _ in found}) == (4 if windows is FIXED else 5)  # the last one ends in a third period
    whole = totals(GREEDY, windows, per_key(weight="weight"), runner)
    assert len({start for start, _ in whole}) == 2
    assert_within(whole, windows, BOUNDS, 2, 1e9)


@pytest.mark.one_fast_case
@pytest.mark.parametrize("windows", [FIXED, SLIDING], ids=["fixed", "sliding"])
def test_a_greedy_id_of_a_stream_is_bounded_in_every_period(windows: Any) -> None:
    """Out of order: of each minute a half comes with the one after it."""
    minutes = [GREEDY[start : start + 16] for start in range(0, 160, 16)]
    bundles = [[*minutes[i][::2], *(minutes[i - 1][1::2] if i else [])] for i in reversed(range(10))]
    found = totals(stream(bundles, [0] * 10), windows, per_key(weight="weight", period=300), BUNDLE_BASED)
    assert_within(found, windows, BOUNDS, 2, 300)


def batches(kind: str) -> list[Timed]:
    """The greedy records of each minute as one batch, with those of another id and of none between them."""
    found: list[Timed] = []
    for minute in range(10):
        rows = [{**record, "weight": 9} for record, time in GREEDY if 60 * minute <= time < 60 * minute + 60]
        rows = [other for record in rows for other in (record, {**record, "user": None})]
        read_table = pa.Table.from_pylist([row("other", "key 9"), *rows])
        made = {"table": read_table, "record batch": read_table.to_batches()[0], "pandas": read_table.to_pandas()}[kind]
        found.append((made, 60 * minute + 59.9))
    return found


@pytest.mark.one_fast_case
@pytest.mark.parametrize("streaming", [False, True], ids=["bounded", "stream"])
@pytest.mark.parametrize("kind", ["table", "record batch", "pandas"])
def test_batches_are_bounded_like_records(kind: str, streaming: bool) -> None:
    """The other id has one record in each window, so that two windows are kept of it as well."""
    source = batches(kind)
    found = totals(
        stream(([timed] for timed in source), range(60, 660, 60)) if streaming else source,
        FIXED,
        per_key(weight="weight", period=300),
        BUNDLE_BASED if streaming else FN_API,
    )
    others = {place: total for place, total in found.items() if place[1] == "key 9"}
    assert list(others.values()) == [1] * 4
    assert_within({place: total for place, total in found.items() if place not in others}, FIXED, BOUNDS, 2, 300)
    if streaming:
        assert {start for start, _ in found} == {0, 60, 300, 360}


def regulars(windows: int, ids: int = 30) -> list[list[Timed]]:
    """Ids, each in every window; ordered by window."""
    return [[(row(f"u{user}"), 60 * i + user / 10) for user in range(ids)] for i in range(windows)]


@pytest.mark.slow
def test_first_come_starts_again_in_each_period_of_a_stream() -> None:
    """Without a period regular users would starve: 30, 30, 0, 0, 0 and nothing ever after."""
    source = stream(regulars(10), range(60, 660, 60))
    found = totals(source, FIXED, globally(period=300), BUNDLE_BASED)
    assert found == {(start, None): 30 for start in (0, 60, 300, 360)}
    ranged = totals(stream(regulars(5), range(60, 360, 60)), FIXED, globally(windows=TimeRange(0, 300)), BUNDLE_BASED)
    assert ranged == {(start, None): 30 for start in (0, 60)}


def test_on_bounded_input_no_window_of_a_period_starves() -> None:
    """A window of the ten that none of 90 ids chose, each 2 in 5: probability below 10 * 0.6 ** 90 < 1e-18."""
    found = totals(list(itertools.chain(*regulars(10, 90))), FIXED, globally(period=300))
    assert {start for start, _ in found} == set(range(0, 600, 60))
    assert sum(found.values()) == 4 * 90


def test_a_window_once_taken_passes_all_but_late_elements() -> None:
    bundles = [
        [(row("u"), 130)],
        [(row("u"), 10), (row("v"), 10)],
        [(row("u"), 140), (row("u"), 70), (row("v"), 20)],
        [(row("u"), 20), (row("v"), 190)],  # the first one is late
    ]
    found = totals(stream(bundles, [0, 0, 61, 600]), FIXED, globally(period=300), BUNDLE_BASED)
    assert found == {(120, None): 2, (0, None): 3, (180, None): 1}


@pytest.mark.one_fast_case
@pytest.mark.parametrize("streaming", [False, True], ids=["bounded", "stream"])
def test_elements_outside_the_declared_range_take_no_window(streaming: bool) -> None:
    timed = [(row("u"), 60 * i) for i in range(10)]
    transform = globally(max_windows=1, period=300, windows=TimeRange(300, 360))
    source = stream(([each] for each in timed), range(60, 660, 60)) if streaming else timed
    assert totals(source, FIXED, transform, BUNDLE_BASED if streaming else FN_API) == {(300, None): 1}


@pytest.mark.slow
def test_periods_count_from_the_start_of_the_declared_range() -> None:
    timed = [(row("u"), 60 * i) for i in range(2, 8)]
    ranged = totals(timed, FIXED, globally(max_windows=3, period=180, windows=TimeRange(120, 480)))
    assert ranged == {(60 * i, None): 1 for i in range(2, 8)}
    assert len(totals(timed, FIXED, globally(max_windows=1, period=180, windows=TimeRange(120, 480)))) == 2
    assert len(totals(timed, FIXED, globally(max_windows=1, period=180))) == 3
    shifted = window.FixedWindows(60, offset=7)
    assert len(totals([(row("u"), 60 * i + 7) for i in range(6)], shifted, globally(max_windows=1, period=180))) == 2


@pytest.mark.one_fast_case
@pytest.mark.parametrize("runner", [FN_API, BUNDLE_BASED])
@pytest.mark.parametrize("windows", [FIXED, SLIDING], ids=["fixed", "sliding"])
def test_times_before_1970_stay_in_their_windows(windows: Any, runner: str) -> None:
    """Beam keeps milliseconds and rounds towards 1970, which would be the next window and period."""
    timed = [(row("u"), time) for time in (-600.5, -61, -1, -0.001, 59)]
    found = totals(timed, windows, globally(max_windows=10, period=600), runner)
    starts = [-660, -120, -60, 0] if windows is FIXED else [-720, -660, -180, -120, -60, 0]
    assert sorted(start for start, _ in found) == starts
    assert found[-60, None] == (2 if windows is FIXED else 3)
    if windows is FIXED:
        assert len(totals(timed, windows, globally(max_windows=1, period=600), runner)) == 3


def test_elements_and_ids_that_cannot_be_used_are_dropped() -> None:
    odd = [None, float("nan"), 1.5, True, {"a": 1}, object, 1 << 70]
    timed = [(row(user), 1.0) for user in [*odd, "u"]] + [(None, 2.0), ("text", 2.0)]
    for source, runner in ((timed, FN_API), (stream([timed], [60]), BUNDLE_BASED)):
        assert totals(source, FIXED, globally(period=300), runner) == {(0, None): 1}


@pytest.mark.slow
def test_pairs_and_rows_are_read_like_everywhere() -> None:
    pairs = [(("k", {"user": "u", "item": "x"}), 60.0 * i) for i in range(5)]
    of_pairs = per_key(keys=AssumePublicKeys(), period=300)
    for source, runner in ((pairs, FN_API), (stream([pairs], [60]), BUNDLE_BASED)):
        found = totals(source, FIXED, of_pairs, runner)
        assert [key for _, key in found] == ["k", "k"]
    rows = [(beam.Row(user="u", key="k", item="x"), 60.0 * i) for i in range(5)]
    assert len(totals(rows, FIXED, per_key(period=300))) == 2
    assert len(totals(stream([rows], [60]), FIXED, per_key(period=300), BUNDLE_BASED)) == 2
    batch = [(("k", pa.table({"user": ["u"], "item": ["x"]})), 1.0)]
    for source, runner in ((batch, FN_API), (stream([batch], [60]), BUNDLE_BASED)):
        with pytest.raises(Exception, match="Batches must contain their keys"):
            totals(source, FIXED, of_pairs, runner)


class _Passed(beam.DoFn):
    def process(self, element: Any, where: Any = beam.DoFn.WindowParam) -> Any:
        yield float(where.start), len(element) if isinstance(element, (pa.Table, pd.DataFrame)) else 1


ENGINES = [name if name == "bundle based" else pytest.param(name, marks=pytest.mark.engine) for name in RUNNERS]


@pytest.mark.one_fast_case
@pytest.mark.parametrize("name", ["fn api", *ENGINES])
def test_every_kind_of_element_passes_in_its_first_windows(name: str) -> None:
    """Seven ids, each with records in five minutes, as streams would pass them: two minutes of each pass."""
    runner, options = {"fn api": (FN_API, ()), **RUNNERS}[name]
    visits = [(visit, minute * 60.0) for visit in VISITS for minute in range(5)]
    frames = [TABLE.to_pandas(), TABLE]
    kinds: dict[str, list[Timed]] = {
        "tuples": visits,
        "dicts": [(visit._asdict(), time) for visit, time in visits],
        "rows": [(beam.Row(**visit._asdict()), time) for visit, time in visits],
        "batches": [(frame, minute * 60.0) for frame in frames for minute in range(5)],
    }
    records = RecordReader(Selectors(item="page", privacy_id="user"), per_key=False)

    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        return [
            pipeline
            | f"Create {kind}" >> beam.Create(elements, reshuffle=False)
            | f"Stamp {kind}" >> beam.Map(stamp)
            | f"Windows {kind}" >> beam.WindowInto(FIXED)
            | f"First {kind}" >> FirstWindows(records, 2, window.FixedWindows(300))
            | f"Passed {kind}" >> beam.ParDo(_Passed())
            | f"Kind {kind}" >> beam.Map(lambda passed, kind: (kind, *passed), kind)
            for kind, elements in kinds.items()
        ] | beam.Flatten()

    found = seen_by_sink(build, *options, runner=runner)
    for kind in kinds:
        assert sum(size for of, _, size in found if of == kind) == 2 * len(VISITS) * (2 if kind == "batches" else 1)


@pytest.mark.parametrize("name", ["fn api", *ENGINES])
def test_random_windows_on_every_runner(name: str) -> None:
    runner, options = {"fn api": (FN_API, ()), **RUNNERS}[name]
    transform = globally(item="page", period=300)
    elements = [(TABLE, 60.0 * minute) for minute in range(5)] + [(visit, 60.0) for visit in VISITS]

    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        source = pipeline | beam.Create(elements) | beam.Map(stamp) | beam.WindowInto(FIXED)
        return source | ExactCounters(transform)

    total = sum(counters[0][0] for counters in seen_by_sink(build, *options, runner=runner))
    assert 2 * len(VISITS) <= total <= 3 * len(VISITS)


# By hand, without a runner: any split into bundles, any windows.

RECORDS = RecordReader(Selectors(item="item", weight="weight", privacy_id="user", key="key"), per_key=True)
SMALL_BOUNDS = st.builds(
    RecordBounds,
    max_records=st.integers(1, 3),
    max_keys=st.integers(1, 3),
    max_weight=st.integers(1, 3),
    signed=st.booleans(),
)


def bounded(
    bundles: list[list[Timed]], windows: Any, bounds: RecordBounds, max_windows: int, salt: int
) -> dict[tuple[str, float, Any], int]:
    """Total net weight by (id, end of window, key) of what the steps keep; keys carry the id in front."""
    recipe = SketchInput(ONE_COUNTER, bounds)
    bound = RuleOverWindows(recipe.bounds, recipe, RandomPriorities(salt), max_windows)
    shard = ShardWindowedRecords(RECORDS, bound, recipe, window_column=True)
    shards: dict[int, list[bytes]] = defaultdict(list)
    for bundle in bundles:
        shard.start_bundle()
        emitted: list[Any] = []
        for element, time in bundle:
            for each in windows.assign(window.WindowFn.AssignContext(Timestamp(time))):
                emitted.extend(shard.process(element, each) or ())
        for value in [*emitted, *shard.finish_bundle()]:
            assert value.timestamp == last_time(value.windows[0])
            shards[value.value[0]].append(value.value[1])
    found = {}
    for payloads in shards.items():
        for kept in BoundShard(bound).process(payloads, PANE_INFO_UNKNOWN):
            for timed in steps._by_window(kept):
                for key, each in timed.value.to_keyed(recipe).each():
                    name = decode(key)
                    found[name.split()[0], float(timed.timestamp), name] = int(each.weights.sum())
    return found


def random_rows(seed: int, size: int) -> list[Timed]:
    random = np.random.default_rng(seed)
    return [
        (
            {
                "user": user,
                "key": f"{user} {random.integers(4)}",
                "item": int(random.integers(3)),
                "weight": int(random.choice([1, 1, 2, -1, 1 << 40])),
            },
            float(random.integers(600)),
        )
        for user in (f"u{random.integers(3)}" for _ in range(size))
    ]


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 1 << 20),
    size=st.sampled_from([1, 30, 400]),
    bundle_count=st.integers(2, 4),
    windows=st.sampled_from([FIXED, SLIDING, window.SlidingWindows(200, 70)]),
    max_windows=st.integers(1, 4),
    bounds=SMALL_BOUNDS,
)
def test_each_id_stays_within_the_bounds_in_any_bundles(
    seed: int, size: int, bundle_count: int, windows: Any, max_windows: int, bounds: RecordBounds
) -> None:
    rows = random_rows(seed, size)
    split = [rows[start::bundle_count] for start in range(bundle_count)]
    found, again = (bounded(each, windows, bounds, max_windows, salt=seed) for each in (split, [rows]))
    data = {
        (record["user"], float(last_time(each)))
        for record, time in rows
        for each in windows.assign(window.WindowFn.AssignContext(Timestamp(time)))
        if bounds.signed or record["weight"] > 0
    }
    for user in {user for user, _, _ in found}:
        ends = {end for of, end, _ in found if of == user}
        with_data = sum(of == user for of, _ in data)
        assert len(ends) <= max_windows if bounds.signed else len(ends) == min(max_windows, with_data)
        for end in ends:
            keys = [key for of, at, key in found if (of, at) == (user, end)]
            assert len(keys) <= bounds.kept_keys
    assert all(abs(total) <= bounds.max_weight_per_key for total in found.values())
    assert found.keys() == again.keys()  # the same windows and keys; records are chosen anew


@pytest.mark.parametrize("signed", [False, True])
def test_numbers_as_ids_have_the_windows_of_their_bytes(signed: bool) -> None:
    """Numbers of numpy among elements are written as bytes at once, Python's as they are."""
    rows, bounds = random_rows(2, 400), RecordBounds(max_records=2, signed=signed)
    as_numbers, as_bytes = (
        bounded([[({**row, "user": kind(int(row["user"][1:]))}, at) for row, at in rows]], FIXED, bounds, 2, salt=5)
        for kind in (int, np.int64)
    )
    assert len(as_numbers) >= 3
    assert as_numbers.keys() == as_bytes.keys()


@pytest.mark.slow
def test_what_gathers_is_bounded_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = random_rows(1, 2000)
    for signed in (False, True):
        bounds = RecordBounds(max_records=2, max_keys=2, signed=signed)
        whole = bounded([rows], FIXED, bounds, 2, salt=5)
        with monkeypatch.context() as patched:
            patched.setattr("beam_dpsketch.transforms.steps.bounding._READ_ELEMENTS", 3)
            patched.setattr("beam_dpsketch.transforms.steps.bounding.BUFFERED_RECORDS", 7)
            patched.setattr("beam_dpsketch.transforms.steps.bounding._READ_BYTES", 1)
            patched.setattr("beam_dpsketch.exact.bounding.parts.BLOCK", 50)
            assert bounded([rows[::2], rows[1::2]], FIXED, bounds, 2, salt=5).keys() == whole.keys()


def test_a_window_where_all_cancels_is_not_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if many records gather, and are bounded before all of them are there."""
    monkeypatch.setattr("beam_dpsketch.transforms.steps.bounding._READ_BYTES", 1)
    monkeypatch.setattr("beam_dpsketch.exact.bounding.parts.BLOCK", 1)
    bounds = RecordBounds(max_records=2, signed=True)
    churn = [(row("u", "u k", weight), 60 * i) for i in range(5) for weight in (1, -1)]
    rows = [*churn, (row("u", "u k", -1), 120), (row("u", "u k", 1), 240)]
    for salt in range(20):
        found = bounded([rows[::2], rows[1::2]], FIXED, bounds, 2, salt)
        assert found == {("u", 179.999, "u k"): -1, ("u", 299.999, "u k"): 1}


def choice_p_value(salt: int, units: int = 20_000) -> float:
    """Whether all 10 choices of 2 in 5 windows are equally frequent, over units with one record in each window."""
    bounds = RecordBounds(1)
    recipe = SketchInput(ONE_COUNTER, bounds)
    records = RecordReader(Selectors(item="item", privacy_id="user"), per_key=False)
    ids = [f"unit {privacy_unit}" for privacy_unit in range(units) for _ in range(5)]
    read = read_table(records, Columns(ids, None, ["x"] * len(ids), None), bounds, recipe)
    priorities = RandomPriorities(salt)
    read = read.append_column("window", pa.array([*range(5)] * units))
    kept = RuleOverWindows(recipe.bounds, recipe, priorities, 2).select(read)
    chosen = pd.DataFrame({"unit": kept["unit"].to_pandas(), "window": kept["window"].to_pandas()})
    counts = Counter(tuple(sorted(windows)) for windows in chosen.groupby("unit")["window"].agg(list))
    assert sum(counts.values()) == units
    return float(stats.chisquare([counts[pair] for pair in itertools.combinations(range(5), 2)]).pvalue)


def test_windows_are_chosen_uniformly(monkeypatch: pytest.MonkeyPatch) -> None:
    """False alarm <= 1e-9 (nominal 1e-10, 2,000 expected each), the keyed hash being as good as random.

    It can fail: without the unit in the hash, all units choose the same windows.
    """
    assert choice_p_value(secrets.randbits(64)) >= 1e-10
    monkeypatch.setattr(window_rule.cells, "mix", lambda keys, *, seed, row: keys if row == 3 else keys * np.uint64(0))
    assert choice_p_value(1) < 1e-10


def test_the_explanation_counts_the_windows() -> None:
    bounds = RecordBounds(1)
    text = globally(bounds, max_windows=9).explain()
    assert "rho covers the 9 windows in which a privacy id may count" in text
    (once,) = calibrate(ONE_COUNTER, ReleaseTerms(PRIVACY, bounds, privacy_unit=PrivacyUnit.PRIVACY_ID, total_cells=1))
    assert f"sigma = {3 * math.sqrt(once):.4g} on" in text
    assert "Windows" not in globally(max_windows=1).explain()
    trees = {
        windows: PrivateQuantiles(
            TreeSpec.for_memory(IntegerDomain(0, 9), 1 << 10),
            PRIVACY,
            privacy_unit=PrivacyId("user", bounds, max_windows=windows),
        ).explain(n=10_000)
        for windows in (1, 9)
    }
    assert "covers the 9 windows" in trees[9]
    error = {windows: float(text.split("at most about ")[1].split()[0]) for windows, text in trees.items()}
    assert math.isclose(error[9], 3 * error[1], rel_tol=0.01)


STATEMENTS: dict[str, tuple[Any, dict[str, Any], PrivacyUnit, Disclosure, str]] = {
    "bounded": (
        FIXED,
        {},
        PrivacyUnit.PRIVACY_ID,
        Disclosure.WINDOWS,
        "one record per privacy id and window, in up to 2 windows;",
    ),
    "range": (SLIDING, {"windows": TimeRange(0, 600)}, PrivacyUnit.PRIVACY_ID, Disclosure.NONE, "in up to 2 windows;"),
    "period": (
        SLIDING,
        {"period": 86_400},
        PrivacyUnit.PRIVACY_ID_IN_PERIOD,
        Disclosure.WINDOWS,
        "in up to 2 windows of each period of 1 day;",
    ),
    "both": (
        FIXED,
        {"period": window.Duration(300), "windows": TimeRange(0, 600)},
        PrivacyUnit.PRIVACY_ID_IN_PERIOD,
        Disclosure.NONE,
        "in up to 2 windows of each period of 5 minutes;",
    ),
}


@pytest.mark.one_fast_case
@pytest.mark.parametrize("name", STATEMENTS)
def test_the_statement_says_what_is_protected(name: str) -> None:
    windows, arguments, privacy_unit, disclosed, words = STATEMENTS[name]
    transform = globally(RecordBounds(1), **arguments)

    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        return pipeline | beam.Create([(row("u"), 1.0)]) | beam.Map(stamp) | beam.WindowInto(windows) | transform

    statement = seen_by_sink(build)[0].privacy
    assert (statement.privacy_unit, statement.window_count, statement.disclosed) == (privacy_unit, 2, disclosed)
    assert statement.period_micros == window.Duration.of(arguments.get("period", 0)).micros
    assert words in str(statement)
    assert transform.display_data()["max_windows"] == "2"
