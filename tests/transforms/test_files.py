"""Releases in files come back as they were, other files are refused by name, and earlier ones stay."""

from __future__ import annotations

import dataclasses
import itertools
import secrets
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.test_stream import TestStream as Stream
from apache_beam.transforms import trigger, window
from apache_beam.utils.timestamp import Timestamp

import beam_dpsketch
from beam_dpsketch import (
    ArgumentError,
    AssumePublicKeys,
    CountMin,
    CountSketch,
    FormatError,
    Horizon,
    PrivacySpec,
    PublicKeys,
    Record,
    ReleaseTerms,
    SketchSpec,
    SketchTimeline,
    TimeRange,
    WindowingError,
    release,
)
from beam_dpsketch.answers.flat import ReleasedCountSketch
from beam_dpsketch.answers.over_time import TimelineRow
from beam_dpsketch.answers.release_file import to_record
from beam_dpsketch.transforms import (
    EnvironmentSecret,
    PrivateFrequencies,
    ReadReleases,
    WriteReleases,
    read_releases,
    window_file,
)
from beam_dpsketch.transforms.files import ReleaseSink, _to_record
from tests.helpers.pipelines import BUNDLE_BASED, FN_API, SPEC, seen_by_sink

PRIVACY = PrivacySpec(rho=0.1)
RELEASED = release(CountSketch(SketchSpec(depth=2, width=4)).accumulate(["a"]), ReleaseTerms(PRIVACY))
KEYS = ["text", "", 7, -7, (1 << 63) - 1, b"bytes", b"", ("tuple", 1, (b"x",)), ()]


def written_and_read(elements: list[Any], directory: Path) -> list[Any]:
    with beam.Pipeline(runner=FN_API) as pipeline:
        pipeline | beam.Create(elements) | WriteReleases(str(directory / "releases"))
    assert list(directory.glob("releases-*.dpsketch"))
    return seen_by_sink(lambda pipeline: pipeline | ReadReleases(str(directory / "releases-*.dpsketch")))


def test_releases_with_and_without_keys_come_back_from_files(tmp_path: Path) -> None:
    sketches = [CountSketch(SPEC), CountMin(dataclasses.replace(SPEC, kind="count_min"))]
    pairs = [(key, release(sketches[i % 2], ReleaseTerms(PRIVACY))) for i, key in enumerate(KEYS)]
    alone = [release(sketch, ReleaseTerms(PRIVACY)) for sketch in sketches]
    read = written_and_read([*pairs, *alone], tmp_path)
    assert dict(each for each in read if isinstance(each, tuple)) == dict(pairs)
    assert {type(each[0]) for each in read if isinstance(each, tuple)} == {str, int, bytes, tuple}
    assert {each.to_bytes() for each in read if not isinstance(each, tuple)} == {each.to_bytes() for each in alone}


def test_a_pipeline_may_end_in_files(tmp_path: Path) -> None:
    with beam.Pipeline(runner=FN_API) as pipeline:
        released = pipeline | beam.Create(["x"]) | PrivateFrequencies(SPEC, PRIVACY, privacy_unit=Record())
        released | WriteReleases(str(tmp_path / "out"))
    (read,) = seen_by_sink(lambda pipeline: pipeline | ReadReleases(str(tmp_path / "out*")))
    assert read.spec == SPEC


VISITS = [window.TimestampedValue((key, key), second) for key, second in (("a", 1), ("b", 3601), ("a", 3602))]
NAMES = ["out-19700101T000000Z-19700101T010000Z.dpsketch", "out-19700101T010000Z-19700101T020000Z.dpsketch"]


def bounded(pipeline: beam.Pipeline) -> beam.PCollection:
    return pipeline | beam.Create(VISITS) | beam.Map(lambda visit: visit)


def unbounded(pipeline: beam.Pipeline) -> beam.PCollection:
    """The same, closing the first window before the second opens, so that its file is there while the stream runs."""
    return (
        pipeline
        | Stream()
        .add_elements(VISITS[:1])
        .advance_watermark_to(3600)
        .add_elements(VISITS[1:])
        .advance_watermark_to_infinity()
    )


@pytest.mark.one_fast_case
@pytest.mark.parametrize(("source", "runner"), [(bounded, FN_API), (bounded, BUNDLE_BASED), (unbounded, BUNDLE_BASED)])
def test_each_window_has_one_file_that_says_which_it_is(source: Any, runner: str, tmp_path: Path) -> None:
    (tmp_path / NAMES[0]).write_bytes(b"of an earlier run")
    released = PrivateFrequencies(
        SPEC, PRIVACY, privacy_unit=Record(), keys=PublicKeys(["a", "b"]), windows=TimeRange(0, 7200)
    )
    with beam.Pipeline(runner=runner) as pipeline:
        windowed = source(pipeline) | beam.WindowInto(window.FixedWindows(3600))
        windowed | released | WriteReleases(str(tmp_path / "out"), overwrite=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == NAMES
    for name in NAMES:
        assert {key for key, _ in read_releases(str(tmp_path / name))} == {"a", "b"}
    assert len({each for _, each in read_releases(str(tmp_path / "out-*"))}) == 4


def test_names_of_windows_keep_fractions_of_seconds() -> None:
    assert window_file("a/b", 0.25, Timestamp(1)) == "a/b-19700101T000000.250000Z-19700101T000001Z.dpsketch"


def test_windows_that_fire_twice_are_not_written(tmp_path: Path) -> None:
    twice = beam.WindowInto(
        window.FixedWindows(60),
        trigger=trigger.AfterWatermark(early=trigger.AfterCount(1)),
        accumulation_mode=trigger.AccumulationMode.DISCARDING,
    )
    pipeline = beam.Pipeline(runner=FN_API)
    with pytest.raises(WindowingError, match="Remove it from WindowInto"):
        pipeline | beam.Create([RELEASED]) | twice | WriteReleases(str(tmp_path / "out"))


@pytest.mark.one_fast_case
@pytest.mark.parametrize(("source", "runner"), [(bounded, FN_API), (unbounded, BUNDLE_BASED)])
def test_rows_over_time_come_back_as_rows(source: Any, runner: str, tmp_path: Path) -> None:
    """When a window closes, its row is in its file."""
    horizon = Horizon(start=0, window_size=3600, windows=2)
    with beam.Pipeline(runner=runner) as pipeline:
        count = PrivateFrequencies(SPEC, PRIVACY, windows=horizon, privacy_unit=Record(), item=lambda visit: visit)
        rows = source(pipeline) | count
        rows | WriteReleases(str(tmp_path / "out"))
    assert sorted(path.name for path in tmp_path.iterdir()) == NAMES
    first, both = (read_releases(str(tmp_path / pattern)) for pattern in (NAMES[0], "out-*"))
    assert SketchTimeline(first, horizon).available == 1
    assert SketchTimeline(both, horizon).available == 2
    found = seen_by_sink(lambda pipeline: pipeline | ReadReleases(str(tmp_path / "out-*")))
    assert all(isinstance(row, TimelineRow) for row in found)
    assert {row.number: row for row in both} == {row.number: row for row in found}


def test_rows_of_keys_come_back_with_their_keys(tmp_path: Path) -> None:
    horizon, keys = Horizon(start=0, window_size=3600, windows=2), PublicKeys(["a", 7])
    per_key = PrivateFrequencies(SPEC, PRIVACY, windows=horizon, privacy_unit=Record(), keys=keys)
    with beam.Pipeline(runner=FN_API) as pipeline:
        pairs = bounded(pipeline) | beam.Map(lambda item: ("a", item))
        pairs | per_key | WriteReleases(str(tmp_path / "out"))
    found = read_releases(str(tmp_path / "out-*"), TimelineRow, keyed=True)
    timelines = SketchTimeline.by_key(found, horizon)
    assert {key: timeline.available for key, timeline in timelines.items()} == {"a": 2, 7: 2}


def test_unbounded_releases_in_the_global_window_are_not_written(tmp_path: Path) -> None:
    """Beam's own sink would replace the files of one minute by those of the next."""
    pipeline = beam.Pipeline(runner=BUNDLE_BASED)
    with pytest.raises(WindowingError, match="Unbounded input in the global window never produces a release"):
        pipeline | Stream().add_elements([RELEASED]).advance_watermark_to_infinity() | WriteReleases(f"{tmp_path}/out")


@pytest.mark.one_fast_case
@pytest.mark.parametrize("damage", [b"", b"of an earlier run", None])
def test_a_file_that_holds_no_releases_stops_reading_and_is_named(damage: bytes | None, tmp_path: Path) -> None:
    written_and_read([RELEASED], tmp_path)
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[:-1] if damage is None else damage)
    with pytest.raises(FormatError, match=rf"{path.name} is damaged or not a release file"):
        read_releases(str(path))
    with pytest.raises(Exception, match=r"is damaged or not a release file"):
        seen_by_sink(lambda pipeline: pipeline | ReadReleases(str(path)))


def test_files_are_never_decompressed(tmp_path: Path) -> None:
    """So a small file cannot become a large one."""
    written_and_read([RELEASED], tmp_path)
    (path,) = tmp_path.iterdir()
    assert read_releases(str(path.rename(tmp_path / "releases.gz"))) == [RELEASED]


def test_no_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no file matches .*none"):
        read_releases(f"{tmp_path}/none-*")
    with pytest.raises(Exception, match=r"Empty match for pattern .*none"):
        seen_by_sink(lambda pipeline: pipeline | ReadReleases(f"{tmp_path}/none-*"))


def test_both_readers_give_the_same_in_the_order_of_names(tmp_path: Path) -> None:
    pairs = [(key, release(CountSketch(SPEC), ReleaseTerms(PRIVACY))) for key in "abc"]
    for key, released in pairs:
        with beam.Pipeline(runner=FN_API) as pipeline:
            pipeline | beam.Create([(key, released)]) | WriteReleases(f"{tmp_path}/{key}")
    pattern = f"{tmp_path}/*.dpsketch"
    expected = [("a", pairs[0][1]), ("b", pairs[1][1]), ("c", pairs[2][1])]
    assert read_releases(pattern, ReleasedCountSketch, keyed=True) == expected
    assert beam_dpsketch.read_releases(pattern, ReleasedCountSketch, keyed=True) == expected
    with pytest.raises(TypeError, match=r"kind and keyed must match the files, which contain \(key, "):
        read_releases(pattern, ReleasedCountSketch)


@pytest.mark.parametrize("element", ["Oslo", ("a", "Oslo"), ("a", "b", "c")])
def test_elements_that_are_not_releases_are_refused_without_their_values(element: Any) -> None:
    with pytest.raises(
        TypeError, match=r"must be outputs of a private transform: .*, got (str|tuple)\. Apply"
    ) as raised:
        _to_record(element)
    assert "Oslo" not in str(raised.value)


KEYS_OF_FILES = ["b", "a", "d", "c", "f", "e"]


@pytest.mark.parametrize("windows", [None, 60])
def test_files_do_not_show_the_order_of_records(windows: int | None, tmp_path: Path) -> None:
    """One record at the top would move its key to the top. Keys are sorted, in windows too."""
    found = []
    for name, records in (("up", KEYS_OF_FILES), ("down", KEYS_OF_FILES[::-1])):
        transform = PrivateFrequencies(
            SPEC, PrivacySpec(rho=1), privacy_unit=Record(), item="item", keys=AssumePublicKeys("key")
        )
        prefix = f"{tmp_path}/{name}"
        with beam.Pipeline(runner=FN_API) as pipeline:
            rows = pipeline | beam.Create([{"key": key, "item": "x"} for key in records], reshuffle=False)
            timed = rows | beam.Map(lambda row: window.TimestampedValue(row, 7))
            placed = timed if windows is None else timed | beam.WindowInto(window.FixedWindows(windows))
            placed | transform | WriteReleases(prefix)
        for path in sorted(tmp_path.glob(f"{name}*")):
            found.append([key for key, _ in read_releases(str(path))])
    up, down = found[: len(found) // 2], found[len(found) // 2 :]
    assert sorted(itertools.chain(*up)) == sorted(set(KEYS_OF_FILES))
    assert up == down or windows is None  # which shard a key is in is the runner's choice
    assert all(keys == sorted(keys) for keys in found)


@pytest.mark.parametrize("sign", [*"[]*?", "\0"])
@pytest.mark.parametrize("prefix", ["trips{}1", "{}/trips", "gs://bucket/{}/trips", "/out/run{}1/trips"])
def test_names_that_filesystems_read_as_patterns_are_refused(sign: str, prefix: str) -> None:
    """Before the pipeline is built: its last step would find none of its files, after all has been paid for."""
    with pytest.raises(ArgumentError, match=r"^file_path_prefix must not contain .* as a pattern") as caught:
        WriteReleases(prefix.format(sign), overwrite=True)
    assert caught.value.code == "E724"


@pytest.mark.parametrize("name", ["trips{1}", "50 %", "a#b", "über", "a'b", "trips(1)", "a+b", "~", "a!b", "^$"])
def test_other_names_are_those_of_files(name: str, tmp_path: Path) -> None:
    """They are written and read, and another release does not replace the first."""
    assert written_and_read([RELEASED], tmp_path / name) == [RELEASED]
    other = release(CountSketch(SketchSpec(depth=2, width=4)), ReleaseTerms(PRIVACY))
    with pytest.raises(FileExistsError, match="already exists"):
        written_and_read([other], tmp_path / name)


FIRST, SECOND = (release(CountSketch(SPEC), ReleaseTerms(PrivacySpec(rho=1.0))) for _ in range(2))
PAGES = [window.TimestampedValue(page, second) for page, second in (("a", 1), ("b", 61), ("a", 62))]
FIXED = window.FixedWindows(60)
REPLACED = r"already exists, and other releases would replace it. Use another file_path_prefix, or .*overwrite=True"


@pytest.fixture(autouse=True)
def _secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_OF_TESTS", secrets.token_hex(32))


def steps_of(prefix: Path, releases: list[Any]) -> tuple[ReleaseSink, Any, list[str]]:
    """What Beam does on workers before the last steps: the sink, its folder and its temporary files."""
    sink = ReleaseSink(str(prefix), overwrite=False)
    folder = sink.initialize_write()
    written = []
    for number, each in enumerate(releases):
        writer = sink.open_writer(folder, str(number))
        writer.write(to_record(each))
        written.append(writer.close())
    return sink, folder, written


def place(prefix: Path, releases: list[Any]) -> None:
    """Files of an earlier run."""
    sink, folder, written = steps_of(prefix, releases)
    sink.pre_finalize(folder, written)
    list(sink.finalize_write(folder, written, None))


def write(releases: list[Any], prefix: Path, **arguments: Any) -> None:
    with beam.Pipeline(runner=FN_API) as pipeline:
        pipeline | beam.Create(releases) | WriteReleases(str(prefix), **arguments)


def count(prefix: Path, *options: str, windowed: bool, idempotent: bool = False, **arguments: Any) -> None:
    """A whole job that draws noise and writes it."""
    counted = PrivateFrequencies(SPEC, PrivacySpec(rho=1.0), privacy_unit=Record())
    if idempotent:
        counted = counted.with_idempotent_noise(release_id="visits", secret=EnvironmentSecret("SECRET_OF_TESTS"))
    with beam.Pipeline(runner=FN_API, options=PipelineOptions(list(options))) as pipeline:
        visits = pipeline | beam.Create(PAGES) | beam.Map(lambda visit: visit)
        visits = visits | beam.WindowInto(FIXED) if windowed else visits
        visits | counted | WriteReleases(str(prefix), **arguments)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_files_of_an_earlier_run_are_refused_while_the_pipeline_is_built(tmp_path: Path) -> None:
    place(tmp_path / "out", [FIRST])
    before = contents(tmp_path)
    elements = beam.Pipeline(runner=FN_API) | beam.Create([SECOND])
    with pytest.raises(FileExistsError, match=r"out-00000-of-00001.dpsketch " + REPLACED):
        elements | WriteReleases(str(tmp_path / "out"))
    assert contents(tmp_path) == before


def test_asked_to_it_replaces_all_earlier_files_of_the_prefix_and_of_no_other(tmp_path: Path) -> None:
    place(tmp_path / "out", [FIRST])
    place(tmp_path / "out-of-others", [FIRST])
    stale = tmp_path / "out-00001-of-00007.dpsketch"
    stale.write_bytes((tmp_path / "out-00000-of-00001.dpsketch").read_bytes())
    write([SECOND], tmp_path / "out", overwrite=True)
    assert read_releases(str(tmp_path / "out-0*")) == [SECOND]
    assert read_releases(str(tmp_path / "out-of-others-*")) == [FIRST]
    assert beam.Pipeline(runner=FN_API) | beam.Create([SECOND]) | WriteReleases(str(tmp_path / "ou"))


def test_a_file_that_came_after_the_pipeline_was_built_is_refused_by_the_worker(tmp_path: Path) -> None:
    pipeline = beam.Pipeline(runner=FN_API)
    pipeline | beam.Create([SECOND]) | WriteReleases(str(tmp_path / "out"))
    place(tmp_path / "out", [FIRST])
    with pytest.raises(Exception, match=REPLACED):
        pipeline.run().wait_until_finish()
    assert read_releases(str(tmp_path / "out-*")) == [FIRST]


def test_the_file_of_a_window_is_refused_by_the_worker(tmp_path: Path) -> None:
    count(tmp_path / "out", windowed=True)
    before = contents(tmp_path)
    assert len(before) == 2
    with pytest.raises(Exception, match=r"out-19700101T0\d+Z-\w+.dpsketch " + REPLACED):
        count(tmp_path / "out", windowed=True)
    assert contents(tmp_path) == before  # the old ones, and nothing unfinished
    count(tmp_path / "out", windowed=True, overwrite=True)
    assert contents(tmp_path).keys() == before.keys()
    assert not set(contents(tmp_path).values()) & set(before.values())


@pytest.mark.one_fast_case
@pytest.mark.parametrize("windowed", [True, False])
def test_the_same_releases_are_written_once_more(windowed: bool, tmp_path: Path) -> None:
    """As by a job that is run again, or a stream that goes on from a checkpoint."""
    count(tmp_path / "out", windowed=windowed, idempotent=True)
    before = contents(tmp_path)
    count(tmp_path / "out", windowed=windowed, idempotent=True)
    assert contents(tmp_path) == before
    damaged = sorted(tmp_path.iterdir())[0]
    damaged.write_bytes(damaged.read_bytes()[:-1])
    with pytest.raises(Exception, match=REPLACED):
        count(tmp_path / "out", windowed=windowed, idempotent=True)


@pytest.mark.one_fast_case
@pytest.mark.parametrize("windowed", [True, False])
def test_a_replayed_bundle_finds_its_own_file(windowed: bool, tmp_path: Path) -> None:
    count(tmp_path / "out", "--direct_runner_bundle_repeat=3", windowed=windowed)
    assert len(read_releases(str(tmp_path / "out-*"))) == (2 if windowed else 1)


def test_a_window_with_its_records_in_another_order_is_the_same(tmp_path: Path) -> None:
    for releases in ([FIRST, SECOND], [SECOND, FIRST]):
        with beam.Pipeline(runner=FN_API) as pipeline:
            timed = pipeline | beam.Create([window.TimestampedValue(each, 1) for each in releases])
            timed | beam.Map(lambda each: each) | beam.WindowInto(FIXED) | WriteReleases(str(tmp_path / "out"))
    assert len(list(tmp_path.iterdir())) == 1


def test_last_steps_that_are_tried_again_leave_what_they_have_finished(tmp_path: Path) -> None:
    sink, folder, written = steps_of(tmp_path / "out", [FIRST, SECOND])
    for _ in range(2):
        sink.pre_finalize(folder, written)
    list(sink.finalize_write(folder, written, None))
    done = contents(tmp_path)
    assert len(done) == 2
    sink.pre_finalize(folder, written)
    list(sink.finalize_write(folder, written, None))
    assert contents(tmp_path) == done


def test_a_whole_job_tried_again_accepts_equal_releases_and_no_others(tmp_path: Path) -> None:
    for releases in ([FIRST, SECOND], [SECOND, FIRST]):
        place(tmp_path / "out", releases)
    for others in ([FIRST], [FIRST, FIRST], [FIRST, SECOND, SECOND]):
        sink, folder, written = steps_of(tmp_path / "out", others)
        with pytest.raises(FileExistsError, match=REPLACED):
            sink.pre_finalize(folder, written)
    assert len(read_releases(str(tmp_path / "out-*"))) == 2
