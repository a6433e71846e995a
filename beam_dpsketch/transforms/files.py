"""`WriteReleases`, `ReadReleases`, `read_releases` and `window_file`: releases in files on any filesystem of Beam."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Iterator
from typing import Any, Literal, overload

import apache_beam as beam
from apache_beam.io.fileio import EmptyMatchTreatment, MatchFiles
from apache_beam.io.filesystems import FileSystems
from apache_beam.utils.timestamp import Timestamp

from beam_dpsketch import _validate
from beam_dpsketch.answers import release_file
from beam_dpsketch.answers.over_time.row import TimelineRow
from beam_dpsketch.answers.release_file import Kind, Stored
from beam_dpsketch.errors import ArgumentError
from beam_dpsketch.hashing.encodings import Item
from beam_dpsketch.transforms.earlier_files import ReleaseSink, check_equal, check_none, open_file
from beam_dpsketch.transforms.outputs import key_and_release
from beam_dpsketch.transforms.steps.release_once import spent_before
from beam_dpsketch.transforms.steps.windows import check_windowing, is_global

_PATTERN = re.compile(r"[\[\]*?\0]")


class WriteReleases(beam.PTransform):
    """Write releases, rows over time, or pairs of a key and one of them, to files named by their prefix.

    In the global window the runner chooses the number of files, `prefix-00000-of-0000n.dpsketch`. In other windows,
    of bounded and unbounded input, each window has one file with all its releases:
    `prefix-20130101T050000Z-20130101T060000Z.dpsketch`, with its start and end in UTC, so that names sort by time. It
    appears when the window closes, and is complete then. `docs/format.md` describes the bytes.

    In the global window of bounded input, a file also says what a run spends whose keys the data choose. It may choose
    none, and `dpsketch spent` counts it all the same. In other windows, and on streams, nothing is written without a
    release, nor in pipelines of Java and Go: keep account of such a run yourself.

    A release in a file has cost budget. So files of an earlier run are an error, unless they hold the same releases, as
    after a replay or a restart with idempotent noise. In the global window the error comes while the pipeline is built,
    if the files can be seen from there.

    Args:
      file_path_prefix: how the names begin, on any filesystem that Beam knows, without the signs [ ] * ? of patterns.
      overwrite: whether to replace earlier releases of the same names.

    Raises:
      FileExistsError: other releases would be replaced.
      WindowingError: a window may fire more than once, or never.
    """

    def __init__(self, file_path_prefix: str, *, overwrite: bool = False) -> None:
        super().__init__()
        _validate.instance(str, file_path_prefix=file_path_prefix)
        _validate.instance(bool, overwrite=overwrite)
        if found := _PATTERN.search(file_path_prefix):
            words = f"must not contain {found[0]!r}: filesystems of Beam read the signs [ ] * ? of a name as a pattern"
            raise ArgumentError("file_path_prefix", words, "E724")
        self._prefix, self._overwrite = file_path_prefix, overwrite

    def expand(self, pcoll: beam.PCollection) -> beam.PCollection:
        records = pcoll | "ToBytes" >> beam.Map(_to_record).with_output_types(bytes)
        if is_global(pcoll) and pcoll.is_bounded:
            if spent := spent_before(pcoll):
                records = (records, *spent) | "WithSpent" >> beam.Flatten()
            if not self._overwrite:
                check_none(self._prefix, pcoll)
            return records | "Write" >> beam.io.Write(ReleaseSink(self._prefix, overwrite=self._overwrite))
        check_windowing(pcoll)  # a second firing would replace the file of the first
        return (
            records
            | "OneKey" >> beam.WithKeys("")  # all records of a window are one group
            | "GroupWindow" >> beam.GroupByKey()
            | "WriteWindow" >> beam.ParDo(_WriteWindow(self._prefix, self._overwrite)).with_output_types(str)
        )


class ReadReleases(beam.PTransform):
    """Read what `WriteReleases` wrote, from files on any filesystem that Beam knows.

    Args:
      file_pattern: a path, or a pattern with wildcards. A pattern that matches no file stops the job.
    """

    def __init__(self, file_pattern: str) -> None:
        super().__init__()
        self._pattern = file_pattern

    def expand(self, pbegin: Any) -> beam.PCollection:
        files = pbegin | "Match" >> MatchFiles(self._pattern, EmptyMatchTreatment.DISALLOW)
        return files | "Spread" >> beam.Reshuffle() | "Read" >> beam.FlatMap(_read)


class _WriteWindow(beam.DoFn):
    """Write the records of a window to its file, which appears when it is complete; yield its name."""

    def __init__(self, prefix: str, overwrite: bool) -> None:
        self._prefix, self._overwrite = prefix, overwrite

    def process(self, element: tuple[str, Iterable[bytes]], window: Any = beam.DoFn.WindowParam) -> Iterator[str]:
        path = window_file(self._prefix, window.start, window.end)
        unfinished = f"{path}.{uuid.uuid4().hex}"
        writer = release_file.SortedWriter(FileSystems.create(unfinished))
        for record in element[1]:
            writer.write(record)
        writer.close()
        try:
            if FileSystems.exists(path) and not self._overwrite:
                check_equal([path], [unfinished])
            else:
                FileSystems.rename([unfinished], [path])
        finally:
            if FileSystems.exists(unfinished):
                FileSystems.delete([unfinished])
        yield path


def window_file(file_path_prefix: str, start: float | Timestamp, end: float | Timestamp) -> str:
    """Return the name of the file to which `WriteReleases` writes the releases of a window.

    Args:
      file_path_prefix: as given to `WriteReleases`.
      start: when the window opens: a Beam `Timestamp`, or seconds since 1970 (UTC).
      end: when it closes.

    >>> window_file("out/hours", 1357016400, 1357020000)
    'out/hours-20130101T050000Z-20130101T060000Z.dpsketch'
    """
    times = (Timestamp.of(each).to_utc_datetime() for each in (start, end))
    return release_file.window_path(file_path_prefix, *times)


@overload
def read_releases(file_pattern: str) -> list[Stored]: ...
@overload
def read_releases(file_pattern: str, kind: type[Kind]) -> list[Kind]: ...
@overload
def read_releases(file_pattern: str, kind: type[Kind], *, keyed: Literal[True]) -> list[tuple[Item, Kind]]: ...
@_validate.explained
def read_releases(file_pattern: str, kind: type | None = None, *, keyed: bool = False) -> list[Any]:
    """Return what `beam_dpsketch.read_releases` does, from files on any filesystem that Beam knows."""
    paths = [found.path for found in FileSystems.match([file_pattern])[0].metadata_list]
    return release_file.read_files(paths, file_pattern, kind, keyed, open_file)


def _read(found: Any) -> Iterator[Any]:
    return release_file.read_file(found.path, open_file)


def _to_record(element: Any) -> bytes:
    """Return a release, a row, or a pair of a key and one of them as bytes."""
    row = element[1] if isinstance(element, tuple) and len(element) == 2 else element
    if not isinstance(row, TimelineRow):
        key, released = key_and_release(element)
        element = (key, released) if isinstance(element, tuple) else released
    return release_file.to_record(element)
