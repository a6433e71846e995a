"""Noisy numbers of several releases of one kind, spec and terms, as they travel between workers.

They differ in counters, release id and side values. All else is in one validated statement, written once. The bytes
travel between workers only. They are not a release format and change with the package.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
import zstandard

from beam_dpsketch.encodings import join_parts, split_parts
from beam_dpsketch.errors import FormatError
from beam_dpsketch.statement import release_format
from beam_dpsketch.statement.lost_notes import LostNote
from beam_dpsketch.statement.release_id import RELEASE_ID_BYTES
from beam_dpsketch.statement.side_notes import SideNote
from beam_dpsketch.statement.stated import Stated

T = TypeVar("T")


class NoisyReleases:
    """One or more releases in columns; `answers.batch` makes a `Released`, or a `TimelineRow`, of each.

    Args:
      kind: the name of their kind.
      spec: that of each.
      statement: of any of them; its release ids and side values are not read.
      scale_bits: counters count in units of 2**-scale_bits.
      release_ids: of each, 48 bytes.
      side: the noisy side counters, signed integers of shape (releases, notes of the statement); then the histogram
        of lost weight of each, where that is not of the run.
      counters: the noisy counters, signed integers of shape (releases, cells); narrow ones take less memory.
    """

    def __init__(
        self,
        kind: str,
        spec: Any,
        statement: Stated,
        scale_bits: int,
        *,
        release_ids: Sequence[bytes],
        side: np.ndarray,
        counters: np.ndarray,
    ) -> None:
        if not release_ids or any(len(release_id) != RELEASE_ID_BYTES for release_id in release_ids):
            raise ValueError(f"release_ids must be one or more, of {RELEASE_ID_BYTES} bytes each")
        for name, values, columns in (
            ("side", side, len(_values_aside(statement))),
            ("counters", counters, spec.cells),
        ):
            if values.shape != (len(release_ids), columns) or values.dtype.kind != "i":
                raise ValueError(f"{name} must be signed integers of shape {(len(release_ids), columns)}")
        self._common = kind, spec, statement, scale_bits
        self._release_ids, self._side, self._counters = release_ids, side, counters

    def __len__(self) -> int:
        return len(self._release_ids)

    @property
    def common(self) -> tuple[str, Any, int]:
        """The kind, the spec, and `scale_bits`."""
        kind, spec, _, scale_bits = self._common
        return kind, spec, scale_bits

    def each(self) -> Iterator[tuple[Stated, np.ndarray]]:
        """Yield the statement and the counters, int64 of shape (cells,), of each."""
        for statement, counters in zip(self._statements(), self._counters, strict=True):
            yield statement, counters.astype(np.int64)

    def take(self, places: Sequence[int]) -> NoisyReleases:
        release_ids = [self._release_ids[place] for place in places]
        side, counters = self._side[places], self._counters[places]
        return NoisyReleases(*self._common, release_ids=release_ids, side=side, counters=counters)

    def to_bytes(self) -> bytes:
        """Encode for another worker: the first in the published format, then what differs in the others."""
        _, spec, _, scale_bits = self._common
        first = release_format.pack(spec, self._counters[0], next(self._statements()), scale_bits)
        dtype = release_format.narrowest(self._counters)
        others = self._counters[1:].astype(dtype)
        side = self._side[1:].astype("<i8")
        ids = b"".join(self._release_ids[1:])
        parts = [first, ids, side.tobytes(), dtype.encode(), _by_byte(others)]
        return zstandard.compress(join_parts(parts), 1)  # noise takes fewer bits than its integers have

    @staticmethod
    def from_bytes(data: bytes) -> NoisyReleases:
        """Decode what `to_bytes` wrote."""
        first, ids, side, dtype, others = split_parts(zstandard.decompress(data))
        spec, counters, statement, scale_bits = release_format.unpack(first)
        if len(ids) % RELEASE_ID_BYTES:
            raise FormatError("not a batch of releases: an id is too short")
        size = RELEASE_ID_BYTES
        release_ids = [*statement.release_ids, *(ids[start : start + size] for start in range(0, len(ids), size))]
        values = _values_aside(statement)
        return NoisyReleases(
            spec.kind,
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
        return f"<{len(self)} releases of {self._common[1]}>"

    def _statements(self) -> Iterator[Stated]:
        """Yield the statement of each; the constructors would check again what is equal in all."""
        statement = self._common[2]
        common, common_of_notes = _fields(statement), [_fields(note) for note in statement.side]
        for release_id, values in zip(self._release_ids, self._side.tolist(), strict=True):
            notes, lost = zip(common_of_notes, values, strict=False), statement.lost
            side = tuple([unchecked(SideNote, {**note, "value": value}) for note, value in notes])
            if lost is not None and not lost.of_run:
                lost = unchecked(LostNote, {**_fields(lost), "counts": tuple(values[len(side) :])})
            yield unchecked(Stated, {**common, "release_ids": (release_id,), "side": side, "lost": lost})


def _values_aside(statement: Stated) -> list[int]:
    """Return the numbers of a statement that differ from release to release."""
    lost = statement.lost
    return [note.value for note in statement.side] + list(() if lost is None or lost.of_run else lost.counts)


def _fields(checked: Any) -> dict[str, Any]:
    return {field.name: getattr(checked, field.name) for field in dataclasses.fields(checked)}


def unchecked(kind: type[T], fields: dict[str, Any]) -> T:
    """Return an object with attributes that its constructor has checked, or that are valid in any other one."""
    made = object.__new__(kind)
    vars(made).update(fields)
    return made


def _by_byte(values: np.ndarray) -> bytes:
    """Return first the lowest byte of each integer, then the next of each: the highest repeat, and shrink."""
    return np.ascontiguousarray(values).view(np.uint8).reshape(-1, values.itemsize).T.tobytes()


def _from_bytes(data: bytes, dtype: np.dtype[Any]) -> np.ndarray:
    """Invert `_by_byte`."""
    return np.ascontiguousarray(np.frombuffer(data, np.uint8).reshape(dtype.itemsize, -1).T).view(dtype).ravel()


def _rows(first: np.ndarray, others: np.ndarray, size: int) -> np.ndarray:
    """Return the first row and the others, of shape (size, columns), in the integers of the others."""
    return np.concatenate([first, others], dtype=others.dtype, casting="same_kind").reshape(size, len(first))
