"""Write and read releases in files on any Beam filesystem.

Guarantee: releases in files have cost budget, so they are replaced only on request. An existing file is unchanged, and
an error names it, unless it contains the same releases as the new one. Therefore, a replay of the same bytes succeeds,
with its own complete file or an interrupted attempt's.
"""

from __future__ import annotations

import contextvars
import hashlib
import re
import uuid
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO, Literal, overload

import apache_beam as beam
from apache_beam.coders import BytesCoder
from apache_beam.io.fileio import EmptyMatchTreatment, MatchFiles
from apache_beam.io.filesystem import CompressionTypes
from apache_beam.io.filesystems import FileSystems
from apache_beam.utils.timestamp import Timestamp

from beam_dpsketch import checks as _validate
from beam_dpsketch.answers import release_file
from beam_dpsketch.answers.over_time import TimelineRow
from beam_dpsketch.answers.release_file import SUFFIX, Kind, SortedWriter, Stored, read_records
from beam_dpsketch.encodings import Item
from beam_dpsketch.errors import ArgumentError, FormatError
from beam_dpsketch.transforms.outputs import key_and_release
from beam_dpsketch.transforms.steps.idempotent_noise import Replayable
from beam_dpsketch.transforms.steps.release_once import spent_before
from beam_dpsketch.transforms.steps.windows import check_windowing, is_global, steps_before

ONLY_WORKERS_LOOK = contextvars.ContextVar("ONLY_WORKERS_LOOK", default=False)
"""Whether only workers check for files, because pipeline construction must not reveal files to its client."""
_PATTERN = re.compile(r"[\[\]*?\0]")


class WriteReleases(beam.PTransform):
    """Write releases, timeline rows, or pairs of a key and one of them, to files named by their prefix.

    In the global window the runner chooses the number of files, `prefix-00000-of-0000n.dpsketch`. In other windows, of
    bounded and unbounded input, each window has one file with all its releases:
    `prefix-20130101T050000Z-20130101T060000Z.dpsketch`, with its start and end in UTC so that names sort by time. The
    file appears, complete, when the window closes. `docs/format.md` describes the bytes.

    In the global window of bounded input, a file also records the privacy loss of a run whose keys are chosen from the
    data. The run may release no key, and `dpsketch spent` still counts its loss. In other windows, on streams, and in
    pipelines of Java and Go, no file is written without a release. Record the loss of such a run yourself.

    A release in a file has cost budget. Therefore, files of an earlier run are an error, unless they contain the same
    releases, as after a replay or a restart with idempotent noise. In the global window the error is raised while the
    pipeline is built, if the files are visible there.

    Args:
      file_path_prefix: beginning of the file names, on any Beam filesystem, without the wildcard characters [ ] * ?.
      overwrite: whether to replace earlier releases with the same names.

    Raises:
      FileExistsError: other releases would be replaced.
      WindowingError: a window may fire more than once, or never.
    """

    def __init__(self, file_path_prefix: str, *, overwrite: bool = False) -> None:
        super().__init__()
        _validate.instance(str, file_path_prefix=file_path_prefix)
        _validate.instance(bool, overwrite=overwrite)
        if found := _PATTERN.search(file_path_prefix):
            words = f"must not contain {found[0]!r}. Beam filesystems read [ ] * ? in a name as a pattern"
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
        check_windowing(pcoll)  # a second firing would replace the first file
        return (
            records
            | "OneKey" >> beam.WithKeys("")  # one group with all records of a window
            | "GroupWindow" >> beam.GroupByKey()
            | "WriteWindow" >> beam.ParDo(_WriteWindow(self._prefix, self._overwrite)).with_output_types(str)
        )


class ReadReleases(beam.PTransform):
    """Read the files of `WriteReleases`, on any Beam filesystem.

    Args:
      file_pattern: a path, or a pattern with wildcards. A pattern without matching files stops the job.
    """

    def __init__(self, file_pattern: str) -> None:
        super().__init__()
        self._pattern = file_pattern

    def expand(self, pbegin: Any) -> beam.PCollection:
        files = pbegin | "Match" >> MatchFiles(self._pattern, EmptyMatchTreatment.DISALLOW)
        return files | "Spread" >> beam.Reshuffle() | "Read" >> beam.FlatMap(_read)


class _WriteWindow(beam.DoFn):
    """Write the records of a window to its file, which appears when it is complete. Yield the file name."""

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
    """Name the file to which `WriteReleases` writes the releases of a window.

    Args:
      file_path_prefix: as passed to `WriteReleases`.
      start: start of the window: a Beam `Timestamp`, or seconds since 1970 (UTC).
      end: end of the window.

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
    """Read releases like `beam_dpsketch.read_releases`, from files on any Beam filesystem."""
    paths = [found.path for found in FileSystems.match([file_pattern])[0].metadata_list]
    return release_file.read_files(paths, file_pattern, kind, keyed, open_file)


def _read(found: Any) -> Iterator[Any]:
    return release_file.read_file(found.path, open_file)


def _to_record(element: Any) -> bytes:
    """Encode a release, a timeline row, or a pair of a key and one of them."""
    row = element[1] if isinstance(element, tuple) and len(element) == 2 else element
    if not isinstance(row, TimelineRow):
        key, released = key_and_release(element)
        element = (key, released) if isinstance(element, tuple) else released
    return release_file.to_record(element)


class ReleaseSink(beam.io.FileBasedSink):
    """Write the files of the global window. Replace earlier files with the prefix only on request, or if equal."""

    def __init__(self, file_path_prefix: str, *, overwrite: bool) -> None:
        super().__init__(file_path_prefix, BytesCoder(), SUFFIX)
        self._prefix, self._overwrite = file_path_prefix, overwrite

    def open(self, temp_path: str) -> SortedWriter:
        return SortedWriter(super().open(temp_path))

    def write_encoded_record(self, file_handle: SortedWriter, encoded_value: bytes) -> None:
        file_handle.write(encoded_value)

    def pre_finalize(self, init_result: Any, writer_results: Iterable[str]) -> None:
        """Delete earlier files before the temporary files are renamed."""
        written = list(writer_results)
        if not all(map(FileSystems.exists, written)):
            return  # an earlier attempt passed this point, and has begun to rename the files
        earlier = _shards(self._prefix)
        if earlier and not self._overwrite:
            check_equal(earlier, written)
        FileSystems.delete(earlier)


def open_file(path: str) -> BinaryIO:
    """Open a file without decompressing it, even if its name ends in .gz."""
    return FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED)


def check_none(file_path_prefix: str, releases: beam.PCollection) -> None:
    """Raise while the pipeline is built if the prefix has visible files.

    With idempotent noise the pipeline may write the same releases again, so workers compare them.
    """
    if ONLY_WORKERS_LOOK.get() or _is_idempotent(releases):
        return
    try:
        earlier = _shards(file_path_prefix)
    except Exception:  # from any filesystem; perhaps only workers can read it, and they check again
        return
    if earlier:
        raise _would_replace(earlier[0])


def check_equal(earlier: Iterable[str], written: Iterable[str]) -> None:
    """Raise unless the earlier files contain the same records as the new files."""
    earlier = list(earlier)
    try:
        equal = _digests(earlier) == _digests(written)
    except FormatError:
        equal = False
    if not equal:
        raise _would_replace(earlier[0])


def _would_replace(path: str) -> FileExistsError:
    return FileExistsError(
        f"{path} already exists, and other releases would replace it. Use another file_path_prefix, or set "
        "WriteReleases(..., overwrite=True). If a runner writes again after a failure, .with_idempotent_noise(...) "
        "reproduces the same releases"
    )


def _shards(prefix: str) -> list[str]:
    """Find the files of the global window with this prefix, without files of a longer prefix."""
    name = re.compile(re.escape(_last_part(prefix)) + r"-\d{5}-of-\d{5}" + re.escape(SUFFIX))
    found = FileSystems.match([f"{prefix}-*-of-*{SUFFIX}"])[0].metadata_list
    return sorted(each.path for each in found if name.fullmatch(_last_part(each.path)))


def _last_part(path: str) -> str:
    return re.split(r"[/\\]", path)[-1]


def _digests(paths: Iterable[str]) -> list[bytes]:
    """Digest all records, sorted because a replay may read its records in another order."""
    digests = []
    for path in paths:
        with open_file(path) as file:
            digests += [hashlib.sha256(record).digest() for record in read_records(file)]
    return sorted(digests)


def _is_idempotent(releases: beam.PCollection) -> bool:
    """Whether any earlier step has idempotent noise."""
    for step in steps_before(releases):
        while step is not None:
            if isinstance(step.transform, Replayable) and step.transform.is_idempotent:
                return True
            step = step.parent
    return False
