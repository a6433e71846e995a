"""The steps that choose a norm: one bin for each unit, however the records are split, and one draw for all readers."""

from __future__ import annotations

import dataclasses
import logging
import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.transforms.display import DisplayData
from apache_beam.transforms.window import FixedWindows, GlobalWindow, GlobalWindows, TimestampedValue
from apache_beam.utils.windowed_value import PANE_INFO_UNKNOWN, PaneInfo, PaneInfoTiming

from beam_dpsketch import ListedItems, NormBound, PrivacySpec, ReleaseTerms, SketchSpec
from beam_dpsketch.errors import WindowingError
from beam_dpsketch.exact.bounding.norm_rule import NormRule
from beam_dpsketch.exact.reading.items import SketchInput
from beam_dpsketch.exact.reading.reading import RecordReader
from beam_dpsketch.exact.reading.selectors import Selectors
from beam_dpsketch.noise import norms as norm_choosing
from beam_dpsketch.planning.suiting import scaled_units
from beam_dpsketch.privacy.contributions import PrivacyUnit
from beam_dpsketch.privacy.norm.bounds import AutoNorm
from beam_dpsketch.privacy.norm.choice import bin_count
from beam_dpsketch.transforms import EnvironmentSecret
from beam_dpsketch.transforms.steps import bounding, whole_runs
from beam_dpsketch.transforms.steps.idempotent_noise import IdempotentNoise
from beam_dpsketch.transforms.steps.whole_runs import ChooseNorm, CountLengths, DrawNorm, LengthHistogram, WrappingSum
from tests.helpers import laws, lengths, norms
from tests.helpers.norms import Case, Place, Records
from tests.helpers.pipelines import BUNDLE_BASED, FN_API, seen_by_sink

LAYOUTS = [layout for layout in norms.LAYOUTS if layout not in norms.ROUNDED]
READER = RecordReader(Selectors(item="item", weight="n", privacy_id="user", key="key"), per_key=True)
SPEC = SketchSpec(depth=3, width=16)
AUTO = AutoNorm(max_weight=1 << 31)
INPUT = SketchInput(SPEC, AUTO)
TERMS = ReleaseTerms(
    PrivacySpec(rho=Fraction(1, 10**6), summary_counts=None), AUTO, privacy_unit=PrivacyUnit.PRIVACY_ID
)
REPLAYED = "--direct_runner_bundle_repeat=12"
VARIABLE = "DPSKETCH_TEST_SECRET"
SECRET = "planted-secret-4711-4711-4711-4711-4711"


@pytest.fixture(autouse=True)
def any_norm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let norms be chosen whose noise no counter could hold: with little rho they tell many draws apart."""
    monkeypatch.setattr(norm_choosing, "_largest_norm", lambda spec, terms: Fraction(1 << 40))


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, SECRET)


# The histogram, by hand and without a runner.


def payloads(sketch_input: SketchInput, bundles: Iterable[Records]) -> Iterator[tuple[int, tuple[bytes, bytes]]]:
    """The shards of each bundle as the steps before make them, each with the window of its records."""
    assert isinstance(sketch_input.bounds, NormBound)
    shard_records = bounding.ShardRecords(READER, NormRule(sketch_input.bounds, sketch_input), sketch_input)
    for bundle in bundles:
        for window in sorted({place.window for place, _ in bundle}):
            table = norms.to_table(sketch_input, [each for each in bundle if each[0].window == window])
            for value in shard_records._emit(table, GlobalWindow()):
                yield window, value.value


def by_hand(sketch_input: SketchInput, bundles: Iterable[Records], *, periods: bool = False) -> np.ndarray:
    """The histogram that the steps make; with periods, each window is a period of its own."""
    assert isinstance(sketch_input.bounds, NormBound)
    groups: dict[Any, list[bytes]] = defaultdict(list)
    for window, (shard, payload) in payloads(sketch_input, bundles):
        groups[window if periods else None, shard].append(payload)
    count, add_up = CountLengths(NormRule(sketch_input.bounds, sketch_input)), WrappingSum()
    nothing = [0] * bin_count(sketch_input.bounds.max_weight)
    sums = [add_up.create_accumulator(), add_up.create_accumulator(), nothing]
    for number, ((_, shard), parts) in enumerate(groups.items()):
        for counts in count.process((shard, iter(parts)), PANE_INFO_UNKNOWN):
            sums[number % 2] = add_up.add_input(sums[number % 2], counts)
    return np.array(add_up.extract_output(add_up.merge_accumulators(iter(sums))))


def expected(case: Case, *, periods: bool) -> list[int]:
    if not periods:
        return lengths.histogram(case)
    windows = {place.window for place, _ in case.records}
    by_window = [[each for each in case.records if each[0].window == window] for window in windows]
    return [
        sum(counts)
        for counts in zip(*(lengths.histogram(case._replace(records=each)) for each in by_window), strict=True)
    ]


def check(case: Case) -> None:
    """Raise unless the steps count each unit, or each one within a period, in the bin of its length."""
    for periods in (False, True):
        wanted = expected(case, periods=periods)
        for bundles in ([case.records], case.parts, [[each] for each in case.records]):
            assert by_hand(case.sketch_input, bundles, periods=periods).tolist() == wanted, "wrong bins"


def check_changes(case: Case) -> None:
    """Raise if a unit changes the histogram by more than 1, or its replacement two counts by more than 1."""
    for periods in (False, True):
        by_unit: dict[Any, Records] = defaultdict(list)
        for each in case.records:
            by_unit[each[0].unit, each[0].window if periods else None] += [each]  # type: ignore[operator]
        (*changing, others) = sorted(by_unit.values(), key=len)
        without = by_hand(case.sketch_input, [others], periods=periods)
        changes = []
        for records in changing[:3]:
            split = [[*others, *records[::2]], records[1::2]]
            changes.append(by_hand(case.sketch_input, split, periods=periods) - without)
            assert sorted(changes[-1])[:-1] == [0] * (len(without) - 1), "one unit is in several bins"
            assert 0 <= changes[-1].max() <= 1, "one unit counts more than once"
        assert all(((a - b) ** 2).sum() <= 2 for a in changes for b in changes), "a replacement counts more"


def check_all(checks: Callable[[Case], None]) -> None:
    for layout in LAYOUTS:
        for seed in range(6):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(bounding, "SHARDS", (1, 2, 256)[seed % 3])
                patch.setattr("beam_dpsketch.exact.bounding.parts.BLOCK", (3, 1 << 20)[seed % 2])
                patch.setattr(bounding, "_READ_BYTES", 1)
                checks(norms.draw_case(layout, seed))


@pytest.mark.one_fast_case
@pytest.mark.parametrize("checks", [check_changes, check])
def test_each_unit_is_in_the_bin_of_its_length_in_any_split(checks: Callable[[Case], None]) -> None:
    check_all(checks)


def a_bin_for_each_payload(
    exact: Any, step: CountLengths, element: tuple[bytes, Iterable[bytes]], pane: Any
) -> Iterator[list[int]]:
    for payload in element[1]:
        yield from exact(step, (element[0], [payload]), pane)


def not_netted(rule: NormRule, records: pa.Table) -> np.ndarray:
    counts = np.zeros(bin_count(rule.bounds.max_weight), dtype=np.int64)
    totals = records.append_column("size", pa.array(np.abs(records["weight"].to_numpy()))).group_by("unit")
    for total in totals.aggregate([("size", "sum")])["size_sum"].to_pylist():
        counts[min(len(counts) - 1, max(0, (total**2).bit_length() - 1))] += 1
    return counts


A_BIN_FOR_EACH_PAYLOAD = laws.around(CountLengths, "process", a_bin_for_each_payload)
FAULTS = {
    "records in place of units": lengths.RECORDS_IN_PLACE_OF_UNITS.found("wrong bins", check),
    "records change it": lengths.RECORDS_IN_PLACE_OF_UNITS.found("one unit counts more than once", check_changes),
    "a bin for each payload": A_BIN_FOR_EACH_PAYLOAD.found("wrong bins", check),
    "payloads change it": A_BIN_FOR_EACH_PAYLOAD.found("one unit is in several bins", check_changes),
    "weights that are not netted": laws.put(NormRule, "length_histogram", not_netted, "wrong bins", check),
    "the last payload alone": laws.around(
        whole_runs, "gather_records", lambda exact, rule, parts: exact(rule, list(parts)[-1:]), "wrong bins", check
    ),
}
test_planted_faults_are_refused = laws.mutants(FAULTS, check_all)


# In pipelines.

LISTED = SketchInput(ListedItems(range(4)), AUTO.bound(1))


def people(*weights: int) -> list[Records]:
    """Bundles of people who have this weight of one item in two windows, and half of it in a third."""
    return [
        [(Place(number, b"k", window, 0), weight >> (window == 2))]
        for window in range(3)
        for number, weight in enumerate(weights)
    ]


CROWD = people(*[1000] * 60)


class Grouped(beam.PTransform):
    """Shards of bundles, grouped as the steps before do, in periods of this many windows; `None` is one period."""

    def __init__(self, bundles: list[Records], windows: int | None = None) -> None:
        super().__init__()
        self._stamped = [TimestampedValue(each, window) for window, each in payloads(LISTED, bundles)]
        self._windows = windows

    def expand(self, pbegin: Any) -> beam.PCollection:
        created = pbegin | beam.Create(self._stamped, reshuffle=False)
        shards = created | "Stamp" >> beam.Map(lambda each: each).with_output_types(tuple[bytes, bytes])
        if self._windows is not None:
            shards = shards | beam.WindowInto(FixedWindows(self._windows))
        return shards | beam.GroupByKey()


def histogram_of(*squares: int) -> list[int]:
    """The histogram of units by the squares of their lengths."""
    counts = [0] * bin_count(AUTO.max_weight)
    for square in squares:
        counts[square.bit_length() - 1] += 1
    return counts


@pytest.mark.one_fast_case
@pytest.mark.parametrize("runner", [FN_API, BUNDLE_BASED])
def test_a_pipeline_adds_up_shards_and_periods(runner: str) -> None:
    """By hand: a person has weights of n, n and n / 2 in three windows."""
    weights = (2, 4, 10)
    wanted = {
        None: histogram_of(*(2 * n**2 + (n // 2) ** 2 for n in weights)),
        2: histogram_of(*(2 * n**2 for n in weights), *((n // 2) ** 2 for n in weights)),
        1: histogram_of(*(n**2 for n in weights * 2), *((n // 2) ** 2 for n in weights)),
    }

    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        return [
            pipeline
            | f"Grouped {windows}" >> Grouped(people(*weights), windows)
            | f"Histogram {windows}" >> LengthHistogram(NormRule(AUTO.bound(1), LISTED))
            | f"Name {windows}" >> beam.Map(lambda found, windows: (windows, found), windows)
            for windows in wanted
        ] | beam.Flatten()

    found = seen_by_sink(build, runner=runner)
    assert len(found) == 3
    assert dict(found) == wanted


SCALED = scaled_units(LISTED.spec, AUTO, PrivacySpec(rho=1).spending, PrivacySpec(rho=1).relation)


def choose(bundles: list[Records], windows: int | None = None, noise: IdempotentNoise | None = None) -> Any:
    """The steps up to the norm. The noise of a count is 3, so one of sixty units leaves more than ten norms."""
    terms = dataclasses.replace(TERMS, privacy=PrivacySpec(rho=1, summary_counts=None))
    return lambda pipeline: pipeline | Grouped(bundles, windows) | ChooseNorm(LISTED, terms, noise, scaled_units=SCALED)


def norms_seen(steps: Callable[[beam.Pipeline], beam.PCollection], runner: str = FN_API) -> set[int]:
    """The norms that the sink sees of one choice, of replayed bundles."""
    seen = seen_by_sink(steps, *([REPLAYED] if runner == FN_API else []), runner=runner)
    assert all(type(norm) is int and norm >= 16 for norm in seen)
    return set(seen)


@pytest.mark.one_fast_case
@pytest.mark.parametrize("windows", [2, None])
def test_the_sink_sees_one_norm_of_replayed_bundles(windows: int | None) -> None:
    assert len(norms_seen(choose(CROWD, windows))) == 1


@pytest.mark.one_fast_case
@pytest.mark.parametrize("runner", [BUNDLE_BASED, FN_API])
def test_readers_in_windows_of_their_own_see_one_norm(runner: str) -> None:
    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        norm = choose(CROWD, 2)(pipeline)
        readers = [
            pipeline
            | f"Create {size}" >> beam.Create([0])
            | f"Stamp {size}" >> beam.Map(lambda _: TimestampedValue(0, 7))
            | f"Windows {size}" >> beam.WindowInto(FixedWindows(size))
            | f"Read {size}" >> beam.Map(lambda _, norm: norm, beam.pvalue.AsSingleton(norm))
            | f"Global {size}" >> beam.WindowInto(GlobalWindows())
            for size in (1, 5)
        ]
        return (*readers, norm) | beam.Flatten()

    seen = seen_by_sink(build, runner=runner)
    assert len(seen) == 3
    assert len(set(seen)) == 1


def test_the_test_finds_a_norm_that_is_not_final(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thirteen draws are one norm by chance with a probability below 1e-9."""
    monkeypatch.setattr(beam, "Reshuffle", lambda: beam.Map(lambda norm: norm))
    assert len(norms_seen(choose(CROWD))) > 1


@pytest.mark.one_fast_case
@pytest.mark.parametrize("runner", [FN_API, BUNDLE_BASED])
def test_empty_input_has_a_norm(runner: str) -> None:
    assert len(norms_seen(choose([]), runner)) == 1


def noise_named(release_id: str = "visits of one day") -> IdempotentNoise:
    return IdempotentNoise(release_id, EnvironmentSecret(VARIABLE))


@pytest.mark.slow
def test_with_a_secret_another_split_and_runner_choose_the_same_norm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even a norm that is drawn again differs."""
    records = [record for bundle in CROWD for record in bundle]
    shuffled = random.Random(5).sample(records, len(records))
    again = norms_seen(choose([shuffled[::3], shuffled[1::3], shuffled[2::3]], noise=noise_named()), BUNDLE_BASED)
    monkeypatch.setattr(beam, "Reshuffle", lambda: beam.Map(lambda norm: norm))
    assert norms_seen(choose(CROWD, noise=noise_named())) == again
    assert len(again) == 1


# Single draws.


def drawn(noise: IdempotentNoise | None, terms: ReleaseTerms = TERMS, spec: Any = SPEC, extra: int = 0) -> list[int]:
    """40 norms, each with more than ten values in use: all are equal by chance with a probability below 1e-20."""
    step = DrawNorm(spec, terms, noise, scaled_units=SCALED)
    step.setup()
    counts = [[0] * (bin_count(terms.bounds.max_weight) - 2) + [30_000 + place + extra, 0] for place in range(40)]
    found = [norm for each in counts for norm in step.process(each)]
    step.teardown()
    assert (step._run is None) == (noise is not None)
    return found


def test_the_secret_the_release_and_all_settings_decide_the_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    first = drawn(noise_named())
    assert len(set(first)) > 10
    assert drawn(noise_named()) == first
    others = [
        drawn(None),
        drawn(None),
        drawn(noise_named("visits of another day")),
        drawn(noise_named(), terms=dataclasses.replace(TERMS, output_cells=3)),
        drawn(noise_named(), spec=dataclasses.replace(SPEC, seed=1)),
        drawn(noise_named(), extra=100),
    ]
    monkeypatch.setenv(VARIABLE, SECRET + "!")
    others.append(drawn(noise_named()))
    assert all(found != first for found in others)
    assert others[0] != others[1]


# What is refused, and what is not shown.


@pytest.mark.parametrize(
    "pane", [PaneInfo(False, False, PaneInfoTiming.ON_TIME, 1, 1), PaneInfo(True, False, PaneInfoTiming.EARLY, 0, -1)]
)
def test_a_window_that_fires_again_is_refused(pane: PaneInfo) -> None:
    with pytest.raises(WindowingError, match="A window fired more than once"):
        list(CountLengths(NormRule(AUTO.bound(1), LISTED)).process((b"s", []), pane))


def test_settings_that_cannot_work_are_refused_before_they_run() -> None:
    with pytest.raises(ValueError, match="rho must be at most"):
        ChooseNorm(
            INPUT, dataclasses.replace(TERMS, privacy=PrivacySpec(rho=9999, summary_counts=None)), scaled_units=SCALED
        )


MARK = 86_753_090_123


def test_no_count_and_no_secret_is_shown(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    step = DrawNorm(SPEC, TERMS, noise_named(), scaled_units=SCALED)
    step.setup()
    assert list(step.process([MARK] * bin_count(AUTO.max_weight)))
    with pytest.raises(ValueError, match="histogram must be int64") as raised:
        list(step.process([MARK]))
    shown = [str(raised.value), caplog.text, repr(vars(step))]
    for each in (step, ChooseNorm(INPUT, TERMS, noise_named(), scaled_units=SCALED), WrappingSum()):
        shown.append(str(DisplayData.create_from(each).items))
    assert not any(mark in text for text in shown for mark in (str(MARK), SECRET))
