"""`ReleaseOnce` keeps keys of a bundle until they are many or it ends, and releases each in its place, once."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.transforms import window
from apache_beam.utils.timestamp import MIN_TIMESTAMP
from apache_beam.utils.windowed_value import PANE_INFO_UNKNOWN, PaneInfo, PaneInfoTiming

from beam_dpsketch import (
    AssumePublicKeys,
    AutoNorm,
    PrivacyId,
    PrivacySpec,
    Record,
    RecordBounds,
    ReleaseTerms,
    SketchSpec,
    WindowingError,
)
from beam_dpsketch.encodings import encode
from beam_dpsketch.exact.reading.items import SketchInput, WeightedItems
from beam_dpsketch.exact.sums.accumulator import SketchAccumulator
from beam_dpsketch.exact.sums.keyed_sums import KeyedSums
from beam_dpsketch.noise.calibration import Calibration
from beam_dpsketch.privacy.contributions import PrivacyUnit
from beam_dpsketch.statement.release_id import part_name, part_of_run, run_and_part
from beam_dpsketch.transforms import EnvironmentSecret, PrivateFrequencies
from beam_dpsketch.transforms.outputs import each_release
from beam_dpsketch.transforms.steps import release_once
from beam_dpsketch.transforms.steps.idempotent_noise import IdempotentNoise
from beam_dpsketch.transforms.steps.release_once import ReleaseOnce
from tests.helpers.one_bundle import bundle, released_by
from tests.helpers.pipelines import BUNDLE_BASED, FN_API, run, seen_by_sink

SPEC = SketchSpec(depth=3, width=16)
TERMS = ReleaseTerms(PrivacySpec(rho=0.1))
RUN = b"a run of 16 byte"
KEYS = ["a", 7, b"a", ("a", (1, "b"))]
FIRST, SECOND = window.IntervalWindow(0, 10), window.IntervalWindow(10, 20)
SECRET = IdempotentNoise("visits", EnvironmentSecret("DPSKETCH_TEST_SECRET"))


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DPSKETCH_TEST_SECRET", "planted-secret-4711-4711-4711-4711-4711")


def accumulator(*items: Any, terms: ReleaseTerms = TERMS) -> SketchAccumulator:
    sketch_input = SketchInput(SPEC, terms.bounds, terms.counters, lost=terms.lost)
    made = SketchAccumulator(sketch_input)
    if items:
        keys, _ = sketch_input.keys(list(items))
        side = np.full(terms.aside, len(items), dtype=np.int64)
        made.add_contributions(WeightedItems(keys, np.ones(len(keys), dtype=np.int64), side))
    return made


def step(**settings: Any) -> ReleaseOnce:
    made = ReleaseOnce(Calibration.of(SPEC, TERMS), **settings)
    made.setup()
    return made


def elements() -> list[KeyedSums]:
    return [accumulator(*range(number)).to_sums(encode(key)) for number, key in enumerate(KEYS)]


def placed(emitted: list[Any]) -> list[tuple[Any, Any, bytes]]:
    """The window, key and bytes of each release."""
    return [
        (where, key, released.to_bytes())
        for value in emitted
        for where in value.windows
        for key, released in each_release(value.value)
    ]


def test_keys_in_several_windows_are_released_each_in_its_own() -> None:
    windows = [FIRST, SECOND, FIRST, FIRST]
    emitted = bundle(step(named=True), [(RUN, each) for each in elements()], windows)
    assert len(emitted) == 2
    found = {}
    for value in emitted:
        (where,) = value.windows
        assert value.timestamp == where.max_timestamp()
        for key, released in each_release(value.value):
            (release_id,) = released.privacy.release_ids
            name = part_name(("key", key), where.start.micros, where.end.micros)
            assert run_and_part(release_id) == part_of_run(RUN, name)
            found[key] = where
    assert found == dict(zip(KEYS, windows, strict=True))


def test_time_and_pane_of_an_element_stay_with_it() -> None:
    first, late = (PaneInfo(True, False, timing, 0, 0) for timing in (PaneInfoTiming.ON_TIME, PaneInfoTiming.LATE))
    once = step()
    for key, pane, time in (("a", first, MIN_TIMESTAMP), ("b", late, MIN_TIMESTAMP), ("c", late, 3)):
        assert once.process(accumulator().to_sums(encode(key)), pane, window.GlobalWindow(), time) is None
    emitted = {tuple(value.value[0]): (value.pane_info, value.timestamp) for value in once.finish_bundle()}
    assert emitted == {("a",): (first, MIN_TIMESTAMP), ("b",): (late, MIN_TIMESTAMP), ("c",): (late, 3)}


def test_keyed_bytes_do_not_depend_on_what_is_released_together(monkeypatch: pytest.MonkeyPatch) -> None:
    keyed, windows = step(idempotent_noise=SECRET), [FIRST, SECOND, FIRST, FIRST]
    together = placed(bundle(keyed, elements(), windows))
    alone = [placed(bundle(keyed, [element], [where]))[0] for element, where in zip(elements(), windows, strict=True)]
    assert sorted(together, key=repr) == sorted(alone, key=repr)
    monkeypatch.setattr(release_once, "COUNTERS", 2 * SPEC.cells)
    by_twos = placed(bundle(keyed, elements()[::-1], windows[::-1]))
    assert sorted(by_twos, key=repr) == sorted(alone, key=repr)
    assert len({released for _, _, released in together}) == 4


def test_a_full_buffer_is_emitted_at_once_and_each_key_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(release_once, "COUNTERS", 2 * SPEC.cells)
    once, where = step(), window.GlobalWindow()
    sizes = []
    for element in elements()[:3]:
        sizes.append(len(once.process(element, PANE_INFO_UNKNOWN, where, where.max_timestamp()) or ()))
    assert sizes == [0, 1, 0]
    (rest,) = once.finish_bundle()
    assert rest.value[0] == [b"a"]


def test_nothing_is_left_at_the_end_of_a_bundle_or_of_one_that_failed() -> None:
    once = step()
    assert len(placed(bundle(once, elements()))) == 4
    assert list(once.finish_bundle()) == []
    where = window.GlobalWindow()
    failed = accumulator().to_sums(encode("failed"))
    assert once.process(failed, PANE_INFO_UNKNOWN, where, where.max_timestamp()) is None
    assert [key for _, key, _ in placed(bundle(once, elements()))] == KEYS


def test_a_window_that_fires_twice_still_raises() -> None:
    once, where = step(), window.GlobalWindow()
    again = PaneInfo(False, False, PaneInfoTiming.ON_TIME, 1, 1)
    once.process(accumulator().to_sums(encode("a")), PANE_INFO_UNKNOWN, where, where.max_timestamp())
    with pytest.raises(WindowingError, match="fired more than once"):
        once.process(accumulator().to_sums(encode("a")), again, where, where.max_timestamp())
    before_time = window.IntervalWindow(MIN_TIMESTAMP, MIN_TIMESTAMP + 10)
    with pytest.raises(WindowingError, match="no timestamps"):
        once.process(accumulator().to_sums(encode("a")), PANE_INFO_UNKNOWN, before_time, before_time.max_timestamp())


def test_windows_with_norms_of_their_own_have_noise_of_their_own() -> None:
    terms = ReleaseTerms(PrivacySpec(rho=1.0), AutoNorm(), privacy_unit=PrivacyUnit.PRIVACY_ID, output_cells=None)
    sums = [accumulator(*range(3), terms=terms) for _ in range(4)]
    for number, each in enumerate(sums):
        each.max_norm = Fraction(2 + number % 2)
    once = ReleaseOnce(Calibration.of(SPEC, terms))
    emitted = bundle(once, [each.to_sums() for each in sums], [FIRST, SECOND] * 2)
    norms = {
        value.windows[0]: [each.privacy.bounds.max_norm for each in each_release(value.value)] for value in emitted
    }
    assert norms == {FIRST: [2, 2], SECOND: [3, 3]}
    sigmas = {each.privacy.sigma_squared for value in emitted for each in each_release(value.value)}
    assert max(sigmas) / min(sigmas) == 9 / 4


def test_one_sum_without_a_key_is_one_release() -> None:
    (released,) = released_by(ReleaseOnce(Calibration.of(SPEC, TERMS)), accumulator("a").to_sums())
    assert released.spec == SPEC


UNITS = {"privacy id": PrivacyId("user", RecordBounds(1, max_keys=12)), "record": Record()}


def rows() -> Iterator[window.TimestampedValue]:
    for number in range(600):
        row = {"user": f"u{number % 50}", "key": f"key {number % 100}", "item": number % 7}
        yield window.TimestampedValue(row, number // 100 % 2 * 10)


@pytest.mark.one_fast_case
@pytest.mark.parametrize("runner", [FN_API, BUNDLE_BASED])
@pytest.mark.parametrize(
    "privacy_unit", [PrivacyId("user", RecordBounds(1, max_keys=12)), Record()], ids=["id", "record"]
)
def test_a_pipeline_releases_every_key_of_every_window_once(
    privacy_unit: Any, runner: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(release_once, "COUNTERS", 7 * SPEC.cells)
    transform = PrivateFrequencies(
        SPEC, PrivacySpec(rho=0.1), item="item", privacy_unit=privacy_unit, keys=AssumePublicKeys("key")
    )

    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        timed = pipeline | beam.Create([0]) | beam.FlatMap(lambda _: rows())
        return timed | beam.WindowInto(window.FixedWindows(10)) | transform | beam.Map(_with_window)

    seen = seen_by_sink(build, runner=runner)
    assert len({(where, key) for where, key, _ in seen}) == len(seen) == 200
    ids = {release_id for _, _, released in seen for release_id in released.privacy.release_ids}
    assert len(ids) == len(seen)
    (of_run,) = {release_id[:16] for release_id in ids}
    for where, key, released in seen:
        name = part_name(("key", key), where.start.micros, where.end.micros)
        assert run_and_part(released.privacy.release_ids[0]) == part_of_run(of_run, name)


def _with_window(element: tuple[Any, Any], where: Any = beam.DoFn.WindowParam) -> tuple[Any, Any, Any]:
    return where, *element


def test_keys_of_every_type_come_back() -> None:
    pairs = [(key, "x") for key in KEYS]
    transform = PrivateFrequencies(SPEC, PrivacySpec(rho=0.1), privacy_unit=Record(), keys=AssumePublicKeys())
    assert {key for key, _ in run(pairs, transform)} == set(KEYS)
