"""A release that is in a file already is not replaced, unless it is the same or the caller asks for it."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms import window

from beam_dpsketch import CountSketch, PrivacySpec, Record, ReleaseTerms, release
from beam_dpsketch.answers.release_file import to_record
from beam_dpsketch.transforms import EnvironmentSecret, PrivateFrequencies, WriteReleases, read_releases
from beam_dpsketch.transforms.files import ReleaseSink
from tests.helpers.pipelines import FN_API, SPEC

FIRST, SECOND = (release(CountSketch(SPEC), ReleaseTerms(PrivacySpec(rho=1.0))) for _ in range(2))
VISITS = [window.TimestampedValue(page, second) for page, second in (("a", 1), ("b", 61), ("a", 62))]
FIXED = window.FixedWindows(60)
REFUSED = r"exists already, and other releases would replace it; give another file_path_prefix, or .*overwrite=True"


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
    counted = PrivateFrequencies(SPEC, PrivacySpec(rho=1.0), unit=Record())
    if idempotent:
        counted = counted.with_idempotent_noise(release_id="visits", secret=EnvironmentSecret("SECRET_OF_TESTS"))
    with beam.Pipeline(runner=FN_API, options=PipelineOptions(list(options))) as pipeline:
        visits = pipeline | beam.Create(VISITS) | beam.Map(lambda visit: visit)
        visits = visits | beam.WindowInto(FIXED) if windowed else visits
        visits | counted | WriteReleases(str(prefix), **arguments)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_files_of_an_earlier_run_are_refused_while_the_pipeline_is_built(tmp_path: Path) -> None:
    place(tmp_path / "out", [FIRST])
    before = contents(tmp_path)
    elements = beam.Pipeline(runner=FN_API) | beam.Create([SECOND])
    with pytest.raises(FileExistsError, match=r"out-00000-of-00001.dpsketch " + REFUSED):
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
    with pytest.raises(Exception, match=REFUSED):
        pipeline.run().wait_until_finish()
    assert read_releases(str(tmp_path / "out-*")) == [FIRST]


def test_the_file_of_a_window_is_refused_by_the_worker(tmp_path: Path) -> None:
    count(tmp_path / "out", windowed=True)
    before = contents(tmp_path)
    assert len(before) == 2
    with pytest.raises(Exception, match=r"out-19700101T0\d+Z-\w+.dpsketch " + REFUSED):
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
    with pytest.raises(Exception, match=REFUSED):
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
        with pytest.raises(FileExistsError, match=REFUSED):
            sink.pre_finalize(folder, written)
    assert len(read_releases(str(tmp_path / "out-*"))) == 2
