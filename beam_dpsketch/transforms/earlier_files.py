"""Releases that are in files already: they cost budget, so nothing replaces them unless the caller asks for it.

Guarantee: a file stays as it is, and an error names it, unless it holds the same releases as those to be written. So a
replay of the same bytes succeeds, with its own file whole or that of an attempt that ended half way.
"""

from __future__ import annotations

import contextvars
import hashlib
import re
from collections.abc import Iterable
from typing import Any, BinaryIO

import apache_beam as beam
from apache_beam.coders import BytesCoder
from apache_beam.io.filesystem import CompressionTypes
from apache_beam.io.filesystems import FileSystems

from beam_dpsketch.answers.release_file import SUFFIX, SortedWriter, read_records
from beam_dpsketch.errors import FormatError
from beam_dpsketch.transforms.steps.idempotent_noise import Replayable
from beam_dpsketch.transforms.steps.windows import steps_before

ONLY_WORKERS_LOOK = contextvars.ContextVar("ONLY_WORKERS_LOOK", default=False)
"""Whether files are looked for by workers alone, because what builds the pipeline must not show files to who asked."""


class ReleaseSink(beam.io.FileBasedSink):
    """Write the files of the global window. Replace earlier ones of the prefix only if asked to, or if equal."""

    def __init__(self, file_path_prefix: str, *, overwrite: bool) -> None:
        super().__init__(file_path_prefix, BytesCoder(), SUFFIX)
        self._prefix, self._overwrite = file_path_prefix, overwrite

    def open(self, temp_path: str) -> SortedWriter:
        return SortedWriter(super().open(temp_path))

    def write_encoded_record(self, file_handle: SortedWriter, encoded_value: bytes) -> None:
        file_handle.write(encoded_value)

    def pre_finalize(self, init_result: Any, writer_results: Iterable[str]) -> None:
        """Make room for the finished files, given the temporary ones."""
        written = list(writer_results)
        if not all(map(FileSystems.exists, written)):
            return  # an earlier attempt passed this point, and has begun to rename them
        earlier = _shards(self._prefix)
        if earlier and not self._overwrite:
            check_equal(earlier, written)
        FileSystems.delete(earlier)


def open_file(path: str) -> BinaryIO:
    """Open a file without decompressing it, even if its name ends in .gz."""
    return FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED)


def check_none(file_path_prefix: str, releases: beam.PCollection) -> None:
    """Refuse a prefix that has files while the pipeline is built, if they can be seen from here.

    With idempotent noise the pipeline may be about to write the same again: then workers compare.
    """
    if ONLY_WORKERS_LOOK.get() or _is_idempotent(releases):
        return
    try:
        earlier = _shards(file_path_prefix)
    except Exception:  # of any filesystem: perhaps only workers reach it, and they look again
        return
    if earlier:
        raise _would_replace(earlier[0])


def check_equal(earlier: Iterable[str], written: Iterable[str]) -> None:
    """Refuse to replace earlier files by others that do not hold the same records."""
    earlier = list(earlier)
    try:
        equal = _digests(earlier) == _digests(written)
    except FormatError:
        equal = False
    if not equal:
        raise _would_replace(earlier[0])


def _would_replace(path: str) -> FileExistsError:
    return FileExistsError(
        f"{path} exists already, and other releases would replace it; give another file_path_prefix, or "
        "WriteReleases(..., overwrite=True). If a runner writes again after a failure, .with_idempotent_noise(...) "
        "makes it the same releases"
    )


def _shards(prefix: str) -> list[str]:
    """Return the files of the global window with this prefix, and none of a longer prefix."""
    name = re.compile(re.escape(_last_part(prefix)) + r"-\d{5}-of-\d{5}" + re.escape(SUFFIX))
    found = FileSystems.match([f"{prefix}-*-of-*{SUFFIX}"])[0].metadata_list
    return sorted(each.path for each in found if name.fullmatch(_last_part(each.path)))


def _last_part(path: str) -> str:
    return re.split(r"[/\\]", path)[-1]


def _digests(paths: Iterable[str]) -> list[bytes]:
    """Return digests of all records in sorted order, because a replay may find its records in another."""
    digests = []
    for path in paths:
        with open_file(path) as file:
            digests += [hashlib.sha256(record).digest() for record in read_records(file)]
    return sorted(digests)


def _is_idempotent(releases: beam.PCollection) -> bool:
    """Return whether any step before the releases has idempotent noise."""
    for step in steps_before(releases):
        while step is not None:
            if isinstance(step.transform, Replayable) and step.transform.is_idempotent:
                return True
            step = step.parent
    return False
