"""A noisy row over time, as it is published, and answers that are made of several.

Guarantee: rows have the noise that `release_parts` drew, and answers are post-processing of rows. A row is a weighted
sum of windows, so it answers nothing by itself.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from beam_dpsketch.answers.privacy_statement import PrivacyStatement, unpack
from beam_dpsketch.answers.released import KINDS, Released
from beam_dpsketch.errors import FormatError, said_by
from beam_dpsketch.privacy.noise.drawing import drowned_bits
from beam_dpsketch.privacy.norm.scaling import SCALE_BITS
from beam_dpsketch.privacy.over_time.mechanism import RowMechanism
from beam_dpsketch.statement.clipping import Clipping
from beam_dpsketch.statement.format import release_format
from beam_dpsketch.statement.notes import AnswerNote, RowNote
from beam_dpsketch.statement.release_id import DRAW_BYTES, RELEASE_ID_BYTES, part_of_run, timeline
from beam_dpsketch.statement.showing import html_table
from beam_dpsketch.statement.side_notes import SideNote

_MOST = float((1 << 63) - (1 << 10))  # the largest float64 that an int64 holds


class TimelineRow:
    """One noisy row of a continual release; a `SketchTimeline` answers from all of them.

    Made by a transform, or by `from_bytes`, not by hand.
    """

    is_row: ClassVar[bool] = True
    _holds = None
    notes = ()

    def __init__(
        self, kind: str, spec: Any, counters: np.ndarray, privacy: PrivacyStatement, scale_bits: int = 0
    ) -> None:
        if not isinstance(privacy.over_time, RowNote):
            raise ValueError("this is a sketch and no row over time: read it with Released")
        if counters.size != spec.cells or counters.dtype != np.int64:
            raise ValueError(f"counters must be {spec.cells} of type int64")
        if len(privacy.sigma_squared_per_level) != len(KINDS[kind].raw_type.tables(spec)):
            raise ValueError("sigma_squared_per_level must have one value for each level of the sketch")
        self.kind, self.spec, self.privacy = kind, spec, privacy
        self._note, self._counters, self._scale_bits = privacy.over_time, counters.copy(), scale_bits
        self._counters.flags.writeable = False

    @property
    def mechanism(self) -> RowMechanism:
        """Which rows there are."""
        return self._note.mechanism

    @property
    def number(self) -> int:
        """Which row it is, from 0."""
        return self._note.number

    @property
    def window(self) -> int:
        """The window that it comes out with."""
        return self._note.window

    @functools.cached_property
    def promise(self) -> PrivacyStatement:
        """The statement without what differs between the rows of a run: noisy numbers, and which row it is."""
        side = tuple(dataclasses.replace(note, value=0) for note in self.privacy.side)
        return dataclasses.replace(self.privacy, release_ids=(bytes(RELEASE_ID_BYTES),), side=side, over_time=None)

    def clipping(self, confidence: float = 0.95) -> Clipping:
        """Return the state of its clipping, which one weighted sum of windows does not measure; ask a timeline."""
        return self.privacy.clipping(confidence)

    @property
    def counters(self) -> np.ndarray:
        """The noisy weighted sum of windows, in records times weights: float64 of shape (spec.cells,)."""
        return self._counters * 2.0 ** (self._note.dropped_bits - self._scale_bits)

    @property
    def side(self) -> np.ndarray:
        """The noisy weighted sums of the side counters, float64 of shape (notes of the statement,)."""
        return np.array([note.estimate for note in self.privacy.side])

    def to_bytes(self) -> bytes:
        """Return the row in the package's versioned format, which every later version can read."""
        return release_format.pack(self.kind, self.spec, self._counters, self.privacy, self._scale_bits)

    @classmethod
    def from_bytes(cls, data: bytes) -> TimelineRow:
        """Return the row that `to_bytes` wrote. Raises `FormatError`, and nothing else, for any other bytes."""
        content = unpack(data)
        try:
            return cls(*content)
        except ValueError as error:
            raise FormatError(f"not a row over time: {said_by(error)}") from None

    def __reduce__(self) -> tuple[Any, ...]:
        return TimelineRow.from_bytes, (self.to_bytes(),)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TimelineRow) and self.to_bytes() == other.to_bytes()

    def __hash__(self) -> int:
        return hash(self.privacy.release_ids)

    def __repr__(self) -> str:
        return f"<TimelineRow {self.number} of {self.mechanism.row_count}, {self.privacy.shown_loss}>"

    def _repr_html_(self) -> str:
        rows = [("row", self._note), ("privacy", self.privacy)]
        return html_table(rows, caption="TimelineRow")


def make_answer(
    rows: Sequence[TimelineRow],
    name: bytes,
    counters: np.ndarray,
    side: np.ndarray,
    variances: tuple[float, float],
    **stated: Any,
) -> Released:
    """Return an answer about some windows as an ordinary released sketch, which knows its noise.

    `variances` are those of counters and of side counters, and `stated` has other fields of the statement.
    """
    first, last = rows[0], rows[-1]
    sigma_squared = tuple(_above(variances[0] * float(each)) for each in first.privacy.sigma_squared_per_level)
    scale_bits = SCALE_BITS - min(drowned_bits(sigma_squared, 4**SCALE_BITS), SCALE_BITS)
    notes = tuple(_answer_note(note, value, variances[1]) for note, value in zip(first.privacy.side, side, strict=True))
    privacy = dataclasses.replace(
        first.privacy,
        sigma_squared_per_level=sigma_squared,
        side=notes,
        **stated,
        release_ids=(_name_answer(rows, name),),
        over_time=AnswerNote(first.mechanism, last.window + 1),
    )
    return KINDS[first.kind](first.spec, _to_whole(counters, scale_bits), privacy, scale_bits)


def _answer_note(note: SideNote, value: float, variance: float) -> SideNote:
    """Return the note of an answer: with fractions of a record, unless the noise drowns all of them."""
    sigma_squared = _above(variance * float(note.sigma_squared))
    scale_bits = 0 if drowned_bits((sigma_squared,), 4**SCALE_BITS) >= SCALE_BITS else SCALE_BITS
    whole = int(_to_whole(np.array(value), scale_bits))
    return dataclasses.replace(note, sigma_squared=sigma_squared, value=whole, scale_bits=scale_bits)


def _to_whole(values: np.ndarray, scale_bits: int) -> np.ndarray:
    return np.clip(np.rint(values * 2.0**scale_bits), -_MOST, _MOST).astype(np.int64)


def _name_answer(rows: Iterable[TimelineRow], name: bytes) -> bytes:
    """Return the release id of an answer, of the timeline of its rows; others for other answers and draws."""
    ids = [row.privacy.release_ids[0] for row in rows]
    draws = hashlib.blake2b(b"".join(each[-DRAW_BYTES:] for each in ids), digest_size=DRAW_BYTES)
    return part_of_run(timeline(ids[0]), name) + draws.digest()


def _above(value: float) -> Fraction:
    """Return a variance as a short fraction, rounded up."""
    return Fraction(-int(-value * 2.0**20 // 1), 1 << 20)
