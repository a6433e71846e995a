"""Whatever is drawn is drawn once for all that read it: two sinks, behind steps that fuse, see one version of it.

Each bundle runs three times, and the last run is kept, as after failures. Where a choice and what depends on it were in
different bundles without a barrier between them, versions would mix. Versions that are drawn twice are equal with
probability below 1e-9 for each transform.
"""

from __future__ import annotations

import pickle
import tempfile
from collections import defaultdict
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.pipeline import PipelineVisitor
from apache_beam.transforms.util import Reshuffle
from apache_beam.transforms.window import FixedWindows, TimestampedValue

from beam_dpsketch import (
    AutoNorm,
    Horizon,
    KeySelection,
    NormBound,
    PrivacyId,
    PrivacySpec,
    PublicKeys,
    RecordBounds,
    SketchSpec,
    TextDomain,
    Thresholding,
    TimeRange,
)
from beam_dpsketch.answers.over_time import TimelineRow
from beam_dpsketch.answers.released_sketch import ReleasedSketch
from beam_dpsketch.statement.release_id import RUN_BYTES
from beam_dpsketch.transforms import PrivateFrequencies, PrivateTopK, SelectKeys
from beam_dpsketch.transforms.steps.idempotent_noise import DrawsNoise
from tests.helpers.pipelines import FN_API, Sink

REPLAYED = ["--direct_runner_bundle_repeat=2"]
SPEC, PRIVACY = SketchSpec(depth=2, width=16), PrivacySpec(rho=Fraction(1, 100), delta=0.5)
KEYS = 60
ROWS = [
    {"user": f"{key} {user}", "key": f"k{key}", "item": f"i{user % 5}"}
    for key in range(KEYS)
    for user in range(key % 30)
]
UNIT = PrivacyId("user", RecordBounds(1, max_keys=1), max_windows=1)
ALONE = PrivacyId("user", RecordBounds(1, max_keys=1))
WEEK = PrivacyId("user", AutoNorm(max_weight=1 << 20), period=20)
SELECTION = KeySelection(Fraction(1, 10), "key")
HORIZON = Horizon(0, 10, 4)
TRANSFORMS: dict[str, tuple[Callable[[], Any], bool]] = {
    "chosen norm": (
        lambda: PrivateFrequencies(
            SPEC,
            PrivacySpec(rho=Fraction(1, 10**4)),
            privacy_unit=WEEK,
            keys=PublicKeys(["k1", "k29", "none"], "key"),
            item="item",
            windows=TimeRange(0, 40),
        ),
        True,
    ),
    "chosen keys": (lambda: PrivateFrequencies(SPEC, PRIVACY, privacy_unit=ALONE, keys=SELECTION, item="item"), False),
    "chosen keys over time": (
        lambda: PrivateFrequencies(SPEC, PRIVACY, windows=HORIZON, privacy_unit=UNIT, keys=SELECTION, item="item"),
        False,
    ),
    "grouped counts": (
        lambda: PrivateTopK(
            TextDomain(4),
            PrivacySpec(rho=1, delta=0.5),
            k=9,
            privacy_unit=UNIT,
            keys=PublicKeys(["k1", "k29", "none"], "key"),
            item="item",
            method=Thresholding(0.1),
            windows=TimeRange(0, 40),
        ),
        True,
    ),
    "list of keys": (lambda: SelectKeys(PRIVACY, privacy_unit=ALONE, keys=SELECTION), False),
}
IN_TWO_ROUNDS = "keys chosen in two rounds"


class _Nothing(beam.PTransform):
    def expand(self, pcoll: beam.PCollection) -> beam.PCollection:
        return pcoll | beam.Map(lambda element: element).with_output_types(pcoll.element_type)


class _Readers(PipelineVisitor):
    """The readers of each collection, and all steps that draw."""

    def __init__(self) -> None:
        self.of: dict[Any, list[Any]] = defaultdict(list)
        self.draws: list[Any] = []

    def visit_transform(self, transform_node: Any) -> None:
        for read in (*transform_node.inputs, *(side.pvalue for side in transform_node.side_inputs)):
            self.of[read].append(transform_node)
        if isinstance(getattr(transform_node.transform, "fn", None), DrawsNoise):
            self.draws.append(transform_node)

    def check(self, drawn: Any) -> None:
        for read in drawn.outputs.values():
            assert len(self.of[read]) <= 1, "a draw has two readers before it is final"
            for reader in self.of[read]:
                assert read in reader.inputs, "a draw is a side input before it is final"
                if not isinstance(reader.transform, beam.GroupByKey):
                    self.check(reader)


def check_readers(name: str) -> None:
    """Raise unless each draw has a single reader up to the next shuffle: steps that do not fuse would draw again."""
    twice = PrivateFrequencies(
        SPEC, PRIVACY, privacy_unit=PrivacyId("user", NormBound(2, max_keys=3)), keys=SELECTION, item="item"
    )
    make, windowed = (TRANSFORMS | {IN_TWO_ROUNDS: (lambda: twice, False)})[name]
    pipeline, readers = beam.Pipeline(runner=FN_API), _Readers()
    elements = pipeline | beam.Create(ROWS, reshuffle=False)
    if windowed:
        elements = elements | beam.WindowInto(FixedWindows(10))
    released = elements | make()
    for sink in "ab":
        released | sink >> beam.Map(version)
    pipeline.visit(readers)
    assert readers.draws
    for each in readers.draws:
        readers.check(each)


@pytest.mark.parametrize("name", [*TRANSFORMS, IN_TWO_ROUNDS])
def test_every_draw_is_final_before_two_steps_read_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also found: any single shuffle that is missing."""
    shuffles = 0

    def shuffle(*given: Any) -> beam.PTransform:
        nonlocal shuffles
        shuffles += 1
        return _Nothing() if shuffles == missing else Reshuffle(*given)

    monkeypatch.setattr(beam, "Reshuffle", shuffle)
    missing = 0
    check_readers(name)
    for number in range(1, shuffles + 1):
        shuffles, missing = 0, number
        with pytest.raises(AssertionError, match="before it is final"):
            check_readers(name)


def sinks(transform: Any, windowed: bool) -> list[set[Any]]:
    """What three sinks saw: two next to each other, and one behind another shuffle."""
    with tempfile.TemporaryDirectory() as folder:
        places = [Path(folder, name) for name in "abc"]
        with beam.Pipeline(runner=FN_API, options=PipelineOptions(REPLAYED)) as pipeline:
            timed = [TimestampedValue(row, number * 7 % 40) for number, row in enumerate(ROWS)]
            elements = pipeline | beam.Create(timed, reshuffle=False) | beam.Map(lambda row: row)
            if windowed:
                elements = elements | beam.WindowInto(FixedWindows(10))
            released = elements | transform | "Read" >> beam.Map(version)
            for place in places:
                place.mkdir()
                after = released | Reshuffle() if place.name == "c" else released
                after | place.name >> beam.ParDo(Sink(str(place)))
        return [{pickle.loads(path.read_bytes()) for path in place.iterdir()} for place in places]


def version(element: Any) -> Any:
    """A key, and the bytes of the release that it has; equal for equal versions."""
    key, released = element if isinstance(element, tuple) else (element, None)
    released = getattr(released, "release", released)
    return key, None if released is None else released.to_bytes()


def norms_and_runs(seen: set[Any]) -> tuple[set[Any], set[Any]]:
    """The bounds and the runs in the statements of what was seen."""
    norms, runs = set(), set()
    for _, data in seen:
        try:
            privacy = ReleasedSketch.from_bytes(data).privacy
        except ValueError:
            privacy = TimelineRow.from_bytes(data).privacy
        norms.add(privacy.bounds)
        runs.add(privacy.release_ids[0][:RUN_BYTES])
    return norms, runs


@pytest.mark.slow
@pytest.mark.parametrize("name", TRANSFORMS)
def test_all_sinks_see_one_version(name: str) -> None:
    make, windowed = TRANSFORMS[name]
    first, second, third = sinks(make(), windowed)
    assert first == second == third
    assert first
    if name == "list of keys":
        return
    norms, runs = norms_and_runs(first)
    assert len(norms) == 1
    if name == "chosen keys over time":  # each key is a run
        places = [key for key, _ in first]
        assert {places.count(key) for key in places} == {HORIZON.rows.row_count}
    else:
        assert len(runs) == 1
        if windowed:
            assert len(first) == 3 * 4  # keys and windows, each once


@pytest.mark.slow
@pytest.mark.parametrize("name", ["chosen norm", "list of keys"])
def test_a_version_without_a_barrier_would_be_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if steps did without their last shuffle: a sink next to them sees what is thrown away later."""
    monkeypatch.setattr(beam, "Reshuffle", _Nothing)
    make, windowed = TRANSFORMS[name]
    first, _, third = sinks(make(), windowed)
    assert third < first
