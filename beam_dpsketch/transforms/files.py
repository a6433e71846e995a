"""`WriteReleases`, `ReadReleases`, `read_releases` and `window_file`: releases in files, and back.

Files are TFRecord files on any filesystem of Beam, protected by checksums. Each record is a key in canonical bytes
(none for releases without keys), with its length before it, and the bytes of one release. A node of a timeline has the
key (name of the type, level, index).
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from typing import Any

import apache_beam as beam
from apache_beam.io.filesystems import FileSystems
from apache_beam.io.tfrecordio import ReadFromTFRecord, _TFRecordUtil
from apache_beam.utils.timestamp import Timestamp

from beam_dpsketch import _validate
from beam_dpsketch.errors import FormatError
from beam_dpsketch.hashing.encodings import decode, encode
from beam_dpsketch.release.released_sketch import ReleasedSketch
from beam_dpsketch.release.timeline import TimelineNode
from beam_dpsketch.transforms.outputs import key_and_release
from beam_dpsketch.transforms.steps.earlier_files import SUFFIX, ReleaseSink, check_equal, check_none, records_in
from beam_dpsketch.transforms.windows.guard import check_windowing, is_global

_NODE = TimelineNode.__name__


class WriteReleases(beam.PTransform):
    """Releases, (key, release) pairs or `TimelineNode`s to files that begin with `file_path_prefix`.

    In the global window they are sharded by the runner and named `prefix-00000-of-0000n.dpsketch`. In other windows,
    of bounded and unbounded input, each window has one file with all its releases, which is there at once when the
    window closes: `prefix-20130101T050000Z-20130101T060000Z.dpsketch`, with its start and end in UTC. Names sort by
    time.

    A release that is there already has cost budget. So files of an earlier run are an error, unless they hold the same
    releases, as after a replay or a restart with idempotent noise. In the global window the error comes while the
    pipeline is built, if the files can be seen from there.

    Args:
      file_path_prefix: how the names begin, on any filesystem that Beam knows.
      overwrite: whether to replace earlier releases of the same names.
    """

    def __init__(self, file_path_prefix: str, *, overwrite: bool = False) -> None:
        super().__init__()
        _validate.instance(str, file_path_prefix=file_path_prefix)
        _validate.instance(bool, overwrite=overwrite)
        self._prefix, self._overwrite = file_path_prefix, overwrite

    def expand(self, pcoll: beam.PCollection) -> beam.PCollection:
        records = pcoll | "ToBytes" >> beam.Map(to_record).with_output_types(bytes)
        if is_global(pcoll):
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
    """Files that `WriteReleases` wrote to what was in them; the pattern may hold wildcards."""

    def __init__(self, file_pattern: str) -> None:
        super().__init__()
        self._pattern = file_pattern

    def expand(self, pbegin: Any) -> beam.PCollection:
        return pbegin | "Read" >> ReadFromTFRecord(self._pattern) | "FromBytes" >> beam.Map(from_record)


class _WriteWindow(beam.DoFn):
    """The records of a window to its file, which appears when it is complete; yields its name."""

    def __init__(self, prefix: str, overwrite: bool) -> None:
        self._prefix, self._overwrite = prefix, overwrite

    def process(self, element: tuple[str, Iterable[bytes]], window: Any = beam.DoFn.WindowParam) -> Iterator[str]:
        path = window_file(self._prefix, window.start, window.end)
        unfinished = f"{path}.{uuid.uuid4().hex}"
        with FileSystems.create(unfinished) as file:
            for record in element[1]:
                _TFRecordUtil.write_record(file, record)
        try:
            if FileSystems.exists(path) and not self._overwrite:
                check_equal([path], [unfinished])
            else:
                FileSystems.rename([unfinished], [path])
        finally:
            if FileSystems.exists(unfinished):
                FileSystems.delete([unfinished])
        yield path


def window_file(file_path_prefix: str, start: Any, end: Any) -> str:
    """The name of the file in which `WriteReleases` puts the releases of a window.

    Args:
      file_path_prefix: as given to `WriteReleases`.
      start: when the window opens: a Beam `Timestamp`, or seconds since the epoch.
      end: when it closes.

    >>> window_file("out/hours", 1357016400, 1357020000)
    'out/hours-20130101T050000Z-20130101T060000Z.dpsketch'
    """
    return f"{file_path_prefix}-{_compact(Timestamp.of(start))}-{_compact(Timestamp.of(end))}{SUFFIX}"


def _compact(time: Timestamp) -> str:
    """A time without punctuation; a fraction of a second only if there is one."""
    moment = time.to_utc_datetime()
    return moment.strftime("%Y%m%dT%H%M%S") + (f".{moment.microsecond:06}Z" if moment.microsecond else "Z")


def read_releases(file_pattern: str) -> list[Any]:
    """What `ReadReleases` gives, without a pipeline; `FileNotFoundError` if no file matches."""
    files = FileSystems.match([file_pattern])[0].metadata_list
    if not files:
        raise FileNotFoundError(f"no file matches {file_pattern}")
    return [from_record(record) for found in files for record in records_in(found.path)]


def to_record(element: Any) -> bytes:
    """A release, a (key, release) pair or a `TimelineNode` as bytes."""
    if isinstance(element, TimelineNode):
        element = (_NODE, element.level, element.index), element.release
    key, released = key_and_release(element)
    encoded = encode(key) if isinstance(element, tuple) else b""
    return len(encoded).to_bytes(4, "little") + encoded + released.to_bytes()


def from_record(data: bytes) -> Any:
    """What `to_record` wrote; raises `FormatError` for any other bytes."""
    end = 4 + int.from_bytes(data[:4], "little")
    if len(data) < end:
        raise FormatError("not a record of a release: the bytes end too early")
    released = ReleasedSketch.from_bytes(data[end:])
    if end == 4:
        return released
    try:
        key = decode(data[4:end])
    except ValueError:
        raise FormatError("not a record of a release: the key is damaged") from None
    match key:
        case (name, int(level), int(index)) if name == _NODE and released.privacy.unit.over_horizon:
            return TimelineNode(level, index, released)
    return key, released
