"""`WriteReleases`, `ReadReleases` and `read_releases`: releases in files on any filesystem of Beam, and back.

Files are TFRecord files, sharded by the runner and protected by checksums. Each record is a key in canonical bytes
(none for releases without keys), with its length before it, and the bytes of one release.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import apache_beam as beam
from apache_beam.io.filesystems import FileSystems
from apache_beam.io.tfrecordio import ReadFromTFRecord, WriteToTFRecord, _TFRecordUtil

from beam_dpsketch.errors import FormatError
from beam_dpsketch.hashing.encodings import decode, encode
from beam_dpsketch.release.released import ReleasedSketch
from beam_dpsketch.transforms.top_k import released_in

SUFFIX = ".dpsketch"


class WriteReleases(beam.PTransform):
    """Releases, or (key, release) pairs, to files named `file_path_prefix-00000-of-0000n.dpsketch`."""

    def __init__(self, file_path_prefix: str) -> None:
        super().__init__()
        self._prefix = file_path_prefix

    def expand(self, pcoll: beam.PCollection) -> beam.PCollection:
        return (
            pcoll
            | "ToBytes" >> beam.Map(to_record).with_output_types(bytes)
            | "Write" >> WriteToTFRecord(self._prefix, file_name_suffix=SUFFIX)
        )


class ReadReleases(beam.PTransform):
    """Files that `WriteReleases` wrote to what was in them; the pattern may hold wildcards."""

    def __init__(self, file_pattern: str) -> None:
        super().__init__()
        self._pattern = file_pattern

    def expand(self, pbegin: Any) -> beam.PCollection:
        return pbegin | "Read" >> ReadFromTFRecord(self._pattern) | "FromBytes" >> beam.Map(from_record)


def read_releases(file_pattern: str) -> list[Any]:
    """What `ReadReleases` gives, without a pipeline; `FileNotFoundError` if no file matches."""
    files = FileSystems.match([file_pattern])[0].metadata_list
    if not files:
        raise FileNotFoundError(f"no file matches {file_pattern}")
    return [from_record(record) for found in files for record in _records(found.path)]


def _records(path: str) -> Iterator[bytes]:
    with FileSystems.open(path) as file:
        try:
            yield from iter(lambda: _TFRecordUtil.read_record(file), None)
        except ValueError:
            raise FormatError("not a file of releases, or a damaged one") from None


def to_record(element: Any) -> bytes:
    """A release, or a (key, release) pair, as bytes."""
    key, released = released_in(element)
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
        return decode(data[4:end]), released
    except ValueError:
        raise FormatError("not a record of a release: the key is damaged") from None
