"""Noisy release batches with equal kind, spec and terms, as sent between workers.

The releases differ in counters, release id and summary counts. The validated statement contains everything else, and is
written once. The encoding is not a release format and changes with the package.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
import zstandard

from beam_dpsketch.encodings import join_parts, split_parts
from beam_dpsketch.errors import FormatError
from beam_dpsketch.statement import release_format
from beam_dpsketch.statement.lost_notes import LostNote
from beam_dpsketch.statement.provenance import Provenance
from beam_dpsketch.statement.release_id import RELEASE_ID_BYTES
from beam_dpsketch.statement.stated import Stated
from beam_dpsketch.statement.summary_notes import SummaryNote

T = TypeVar("T")


class NoisyReleases:
    """Releases in columns, at least 1. `answers.batch` converts each to a `Released` or a `TimelineRow`.

    Args:
      spec: their spec.
      statement: any release's statement. Its release ids and noisy values are ignored.
      scale_bits: counters are in units of 2**-scale_bits.
      release_ids: an id for each release, 48 bytes.
      side: noisy summary counts, signed integers of shape (releases, notes in the statement), followed by the clipping
        histogram if each release has its own.
      counters: noisy counters, signed integers of shape (releases, cells). Narrow integers need less memory.
    """

    def __init__(
        self,
        spec: Any,
        statement: Stated,
        scale_bits: int,
        *,
        release_ids: Sequence[bytes],
        side: np.ndarray,
        counters: np.ndarray,
    ) -> None:
        if not release_ids or any(len(release_id) != RELEASE_ID_BYTES for release_id in release_ids):
            raise ValueError(f"release_ids must not be empty, and must have {RELEASE_ID_BYTES} bytes each")
        for name, values, columns in (
            ("side", side, len(_values_aside(statement))),
            ("counters", counters, spec.cells),
        ):
            if values.shape != (len(release_ids), columns) or values.dtype.kind != "i":
                raise ValueError(f"{name} must be signed integers with shape {(len(release_ids), columns)}")
        self._common = spec, statement, scale_bits
        self._release_ids, self._side, self._counters = release_ids, side, counters

    def __len__(self) -> int:
        return len(self._release_ids)

    @property
    def common(self) -> tuple[Any, int]:
        """Spec and `scale_bits`."""
        spec, _, scale_bits = self._common
        return spec, scale_bits

    def each(self) -> Iterator[tuple[Stated, np.ndarray]]:
        """Yield the statement and the counters, int64 of shape (cells,), for each release."""
        for statement, counters in zip(self._statements(), self._counters, strict=True):
            yield statement, counters.astype(np.int64)

    def take(self, places: Sequence[int]) -> NoisyReleases:
        release_ids = [self._release_ids[place] for place in places]
        side, counters = self._side[places], self._counters[places]
        return NoisyReleases(*self._common, release_ids=release_ids, side=side, counters=counters)

    def stamped(self, provenance: Provenance, *, is_dated: bool = False) -> NoisyReleases:
        """Attach provenance to the drawn releases, with this day if requested."""
        spec, statement, scale_bits = self._common
        found = (provenance.dated() if is_dated else provenance,)
        statement = unchecked(type(statement), {**vars(statement), "provenance": found})
        ids, side, counters = self._release_ids, self._side, self._counters
        return NoisyReleases(spec, statement, scale_bits, release_ids=ids, side=side, counters=counters)

    def to_bytes(self) -> bytes:
        """Encode for another worker: the first release in the published format, then the differences."""
        spec, _, scale_bits = self._common
        first = release_format.pack(spec, self._counters[0], next(self._statements()), scale_bits)
        dtype = release_format.narrowest(self._counters)
        others = self._counters[1:].astype(dtype)
        side = self._side[1:].astype("<i8")
        ids = b"".join(self._release_ids[1:])
        parts = [first, ids, side.tobytes(), dtype.encode(), _by_byte(others)]
        return zstandard.compress(join_parts(parts), 1)  # noise has fewer bits than its integer type

    @staticmethod
    def from_bytes(data: bytes) -> NoisyReleases:
        """Decode the result of `to_bytes`."""
        first, ids, side, dtype, others = split_parts(zstandard.decompress(data))
        spec, counters, statement, scale_bits = release_format.unpack(first)
        if len(ids) % RELEASE_ID_BYTES:
            raise FormatError("not a batch of releases: a release id is too short")
        size = RELEASE_ID_BYTES
        release_ids = [*statement.release_ids, *(ids[start : start + size] for start in range(0, len(ids), size))]
        values = _values_aside(statement)
        return NoisyReleases(
            spec,
            statement,
            scale_bits,
            release_ids=release_ids,
            side=_rows(np.array(values, dtype=np.int64), np.frombuffer(side, "<i8"), len(release_ids)),
            counters=_rows(counters, _from_bytes(others, np.dtype(dtype.decode())), len(release_ids)),
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return NoisyReleases.from_bytes, (self.to_bytes(),)

    def __repr__(self) -> str:
        return f"<{len(self)} releases of {self._common[0]}>"

    def _statements(self) -> Iterator[Stated]:
        """Yield each statement, without repeating the checks on common fields."""
        statement = self._common[1]
        common, common_of_notes = vars(statement), [vars(note) for note in statement.side]
        for release_id, values in zip(self._release_ids, self._side.tolist(), strict=True):
            notes, lost = zip(common_of_notes, values, strict=False), statement.lost
            side = tuple([unchecked(SummaryNote, {**note, "value": value}) for note, value in notes])
            if lost is not None and not lost.of_run:
                lost = unchecked(LostNote, {**vars(lost), "counts": tuple(values[len(side) :])})
            yield unchecked(Stated, {**common, "release_ids": (release_id,), "side": side, "lost": lost})


def _values_aside(statement: Stated) -> list[int]:
    """List the numbers that differ between releases with the same statement."""
    lost = statement.lost
    return [note.value for note in statement.side] + list(() if lost is None or lost.of_run else lost.counts)


def unchecked(kind: type[T], fields: dict[str, Any]) -> T:
    """Build an object without its constructor, from fields that are already validated."""
    made = object.__new__(kind)
    vars(made).update(fields)
    return made


def _by_byte(values: np.ndarray) -> bytes:
    """Group bytes by significance, lowest first. The highest bytes repeat, which improves compression."""
    return np.ascontiguousarray(values).view(np.uint8).reshape(-1, values.itemsize).T.tobytes()


def _from_bytes(data: bytes, dtype: np.dtype[Any]) -> np.ndarray:
    return np.ascontiguousarray(np.frombuffer(data, np.uint8).reshape(dtype.itemsize, -1).T).view(dtype).ravel()


def _rows(first: np.ndarray, others: np.ndarray, size: int) -> np.ndarray:
    """Stack the first row on the others, with shape (size, columns) and their integer type."""
    return np.concatenate([first, others], dtype=others.dtype, casting="same_kind").reshape(size, len(first))
