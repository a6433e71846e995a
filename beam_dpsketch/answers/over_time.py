"""Timeline rows, and releases for any windows in a horizon, their differences and every prefix.

Guarantee: post-processing of rows, whose noise `release_parts` drew for all rows together. Therefore rho is spent once
for the horizon, for any number of questions. Each answer is a linear estimate from the rows, with the variance of its
own noise. A row answers nothing alone, because it is a weighted sum of windows. The noise of answers is correlated,
because they share rows: compare windows by `minus`, `distance` and `movers`, which make a single estimate.

Sources: see `estimators.over_time`.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from typing import Any, ClassVar, TypeAlias

import numpy as np

from beam_dpsketch import checks as _validate
from beam_dpsketch.answers.difference import Difference, length
from beam_dpsketch.answers.estimators.over_time import RowDecoder, decoder_of
from beam_dpsketch.answers.item_answers import Changes
from beam_dpsketch.answers.privacy_statement import PrivacyStatement, unpack
from beam_dpsketch.answers.released import RELEASED_KINDS, NoisyCounters, Released, pictures
from beam_dpsketch.answers.rows import Many
from beam_dpsketch.encodings import encode
from beam_dpsketch.errors import ArgumentError, FormatError, IncompatibleSketchError, said_by
from beam_dpsketch.exact.domains.timestamps import from_micros, to_micros
from beam_dpsketch.exact.horizon import Horizon
from beam_dpsketch.privacy.noise.drawing import drowned_bits
from beam_dpsketch.privacy.norm.scaling import SCALE_BITS
from beam_dpsketch.privacy.over_time.mechanism import RowMechanism
from beam_dpsketch.statement.clipping import Clipping
from beam_dpsketch.statement.notes import AnswerNote, RowNote
from beam_dpsketch.statement.provenance import joined
from beam_dpsketch.statement.release_id import (
    DRAW_BYTES,
    RELEASE_ID_BYTES,
    part_name,
    part_of_run,
    run_and_part,
    timeline,
)
from beam_dpsketch.statement.showing import html_table
from beam_dpsketch.statement.summary_notes import Interval, SummaryNote

_MOST = float((1 << 63) - (1 << 10))  # the largest float64 within int64


class TimelineRow(NoisyCounters):
    """A noisy row in a continual release. A `SketchTimeline` answers from all rows.

    Made by a transform or by `from_bytes`, not by hand.
    """

    is_row: ClassVar[bool] = True
    _holds = None
    notes = ()

    def __init__(self, spec: Any, counters: np.ndarray, privacy: PrivacyStatement, scale_bits: int = 0) -> None:
        if not isinstance(privacy.over_time, RowNote):
            raise ValueError("this is a sketch, not a timeline row. Read it with Released")
        super().__init__(spec, counters, privacy, scale_bits)
        self._note = privacy.over_time

    @property
    def privacy(self) -> PrivacyStatement:
        """Privacy statement of the row; `print` it."""
        return self._privacy

    @property
    def kind(self) -> str:
        """Kind of the sketch, by name."""
        return str(self.spec.kind)

    @property
    def mechanism(self) -> RowMechanism:
        """Mechanism that defines the rows."""
        return self._note.mechanism

    @property
    def number(self) -> int:
        """Row number, from 0."""
        return self._note.number

    @property
    def window(self) -> int:
        """Window that the row is released with."""
        return self._note.window

    @functools.cached_property
    def promise(self) -> PrivacyStatement:
        """Statement without the fields that differ between rows: noisy numbers and the row's number."""
        side = tuple(dataclasses.replace(note, value=0) for note in self.privacy.side)
        return dataclasses.replace(self.privacy, release_ids=(bytes(RELEASE_ID_BYTES),), side=side, over_time=None)

    def clipping(self, confidence: float = 0.95) -> Clipping:
        """Report the clipping state. A row does not measure the clipped share, but a timeline does."""
        return self.privacy.clipping(confidence)

    @property
    def counters(self) -> np.ndarray:
        """The noisy weighted sum of windows, in records times weights: float64 of shape (spec.cells,)."""
        return self._counters * 2.0 ** (self._note.dropped_bits - self._scale_bits)

    @property
    def side(self) -> np.ndarray:
        """The noisy weighted sums of the summary counts: float64 of shape (notes in the statement,)."""
        return np.array([note.estimate for note in self.privacy.side])

    @classmethod
    def from_bytes(cls, data: bytes) -> TimelineRow:
        """Decode the output of `to_bytes`. Raises only `FormatError` for other bytes."""
        spec, counters, privacy, scale_bits = unpack(data)
        try:
            return cls(spec, counters, privacy, scale_bits)
        except ValueError as error:
            raise FormatError(f"not a timeline row: {said_by(error)}") from None

    def __reduce__(self) -> tuple[Any, ...]:
        return TimelineRow.from_bytes, (self.to_bytes(),)

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
    """Build the answer about some windows as an ordinary release, with the variance of its noise.

    `variances` apply to counters and to summary counts, and `stated` has other fields for the statement.
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
        provenance=joined(*(row.privacy.provenance for row in rows)),
    )
    return RELEASED_KINDS[first.kind](first.spec, _to_whole(counters, scale_bits), privacy, scale_bits)


def _answer_note(note: SummaryNote, value: float, variance: float) -> SummaryNote:
    """Build a summary count for an answer, with fractional records unless the noise drowns them."""
    sigma_squared = _above(variance * float(note.sigma_squared))
    scale_bits = 0 if drowned_bits((sigma_squared,), 4**SCALE_BITS) >= SCALE_BITS else SCALE_BITS
    whole = int(_to_whole(np.array(value), scale_bits))
    return dataclasses.replace(note, sigma_squared=sigma_squared, value=whole, scale_bits=scale_bits)


def _to_whole(values: np.ndarray, scale_bits: int) -> np.ndarray:
    return np.clip(np.rint(values * 2.0**scale_bits), -_MOST, _MOST).astype(np.int64)


def _name_answer(rows: Iterable[TimelineRow], name: bytes) -> bytes:
    """Derive the release id of an answer from its timeline, its coefficients and the draws of its rows."""
    ids = [row.privacy.release_ids[0] for row in rows]
    draws = hashlib.blake2b(b"".join(each[-DRAW_BYTES:] for each in ids), digest_size=DRAW_BYTES)
    return part_of_run(timeline(ids[0]), name) + draws.digest()


def _above(value: float) -> Fraction:
    return Fraction(-int(-value * 2.0**20 // 1), 1 << 20)


_SHOWN = 5
Windows: TypeAlias = "int | tuple[int, int]"
"""The number of one window, or the first and the last of several."""


class SketchTimeline:
    """Answers about any windows in a horizon, from its rows.

    A row is released when its window closes, and answers exist for all closed windows. Answers and their intervals
    describe the clipped data. Counters are decoded once for all windows so far, and `add` accepts later rows.

    Args:
      rows: the rows for one key from a run, in any order. Rows after a gap wait until it closes. Rows from another run,
        or for a horizon with another start or window_size, are rejected.
      horizon: the declared windows.

    Raises `TypeError` for other objects than rows, and `ValueError` for rows that do not belong together.
    """

    def __init__(self, rows: Iterable[TimelineRow], horizon: Horizon) -> None:
        _validate.instance(Horizon, horizon=horizon)
        self._horizon = horizon
        self._rows: dict[int, TimelineRow] = {}
        self._closed = 0  # number of rows before the first gap
        self.add(rows)

    @classmethod
    def by_key(cls, pairs: Iterable[tuple[Any, TimelineRow]], horizon: Horizon) -> dict[Any, SketchTimeline]:
        """Build a timeline per key from (key, row) pairs."""
        rows: dict[Any, list[TimelineRow]] = {}
        for key, row in pairs:
            rows.setdefault(key, []).append(row)
        return {key: cls(of_key, horizon) for key, of_key in rows.items()}

    def add(self, rows: Iterable[TimelineRow]) -> None:
        """Add more rows from the same run."""
        for row in rows:
            self._check_row(row)
            self._rows[row.number] = row
        while self._closed in self._rows:
            self._closed += 1

    @property
    def horizon(self) -> Horizon:
        """The declared windows."""
        return self._horizon

    @property
    def available(self) -> int:
        """Number of closed windows with answers, from the first on."""
        if not self._closed:
            return 0
        mechanism = self._first.mechanism
        return mechanism.windows if self._closed == mechanism.row_count else mechanism.window_of(self._closed)

    @property
    def key_names(self) -> tuple[str, ...]:
        """Names of the key's columns, if it has several."""
        return self._first.privacy.key_names

    @property
    def missing(self) -> tuple[int, ...]:
        """Numbers of missing rows before the last row that was added."""
        return tuple(sorted({*range(self._closed, max(self._rows, default=0))} - self._rows.keys()))

    def clipping(self, confidence: float = 0.95) -> Clipping:
        """Estimate the clipped share of the total in all available windows."""
        about: Any = self.prefix(self.available - 1) if self.available else next(iter(self._rows.values()), None)
        return Clipping() if about is None else about.clipping(confidence)

    def window_of(self, time: Any) -> int:
        """Find the window for a time, such as "2026-11-16T08:00Z", a `datetime`, or seconds since 1970."""
        window = self._horizon.index(to_micros(time=time))
        self._check_range(window, window)
        return window

    def between(self, first: int, last: int) -> Any:
        """Build the release for the windows first to last, both included.

        Under the binary tree, the answer about a window becomes closer as more rows arrive.
        """
        return self._answer(self._coefficients(first, last))

    def each_window(
        self, first: int = 0, last: int | None = None, *, so_far: bool = False
    ) -> Iterator[tuple[datetime.datetime, Any]]:
        """Yield the start of each window in UTC and its release, or with `so_far` its end and the prefix release.

        Args:
          first: the first window.
          last: the last window, by default the last available one.
          so_far: whether each release covers all windows from 0 on.
        """
        last = max(0, self.available - 1) if last is None else last
        self._coefficients(first, last)
        for window in range(first, last + 1):
            released = self.prefix(window) if so_far else self.between(window, window)
            yield from_micros(self._horizon.edges(window)[so_far]), released

    def plot(
        self,
        kind: str = "total_weight",
        what: Any = None,
        *,
        windows: tuple[int, int] | None = None,
        so_far: bool = False,
        axes: Any = None,
        look: Any = None,
    ) -> Any:
        """Draw answers about each window with their intervals, as lines; return the matplotlib axes.

        The arguments are those in `beam_dpsketch.plots.plot_timeline`: `timeline.plot("items", ["Oslo", "Rome"])`.
        Raises `ImportError` without matplotlib: `pip install 'beam-dpsketch[plot]'`.
        """
        return pictures().draw_timeline(self, kind, what, windows=windows, so_far=so_far, axes=axes, look=look)

    def prefix(self, last: int) -> Any:
        """Build the release for all windows up to this one."""
        return self.between(0, last)

    def minus(self, later: Windows, earlier: Windows) -> Difference:
        """Subtract the earlier windows from the later ones, in a single linear estimate.

        Summary counts cover both sides together.

        Args:
          later: a window, or a pair: the first and last window.
          earlier: other windows. Windows on both sides cancel.
        """
        first, second = _ends(later=later), _ends(earlier=earlier)
        if first == second:
            raise ArgumentError("", "later and earlier must be different windows, got the same windows twice", "E710")
        sides = self._coefficients(*first), self._coefficients(*second)
        after, before = (self._answer(each) for each in sides)
        state = after.clipping().state.weaker(before.clipping().state)
        both = sides[0] + sides[1]
        total = self._answer(both).privacy.own_total
        return Difference(self._answer(sides[0] - sides[1], both, weakest=state, own_total=total), after, before)

    def distance(self, later: Windows, earlier: Windows, confidence: float = 0.95) -> Interval:
        """Estimate the Euclidean distance: the square root of the summed squared changes in weight, over items.

        Distances below the noise have a lower bound of 0. Args: as in `minus`, and confidence in (0, 1).
        """
        difference = self.minus(later, earlier)
        return length(difference._signed._table, confidence).of(difference.clipping())

    def movers(
        self, later: Windows, earlier: Windows, k: int = 20, candidates: Many | None = None, confidence: float = 0.95
    ) -> Changes:
        """List the k largest changes in ``minus(later, earlier)``, with the other arguments of `Difference.top_k`."""
        return self.minus(later, earlier)._movers(k, candidates, confidence)

    def _answer(self, coefficients: np.ndarray, aside: np.ndarray | None = None, **stated: Any) -> Any:
        """Build the release for a sum of windows with these coefficients, float64 of shape (available,)."""
        decoder, cells, aside = self._decoder, self._first.spec.cells, coefficients if aside is None else aside
        estimate, used = decoder.estimate(coefficients), decoder.rows_used(coefficients)
        side = estimate if aside is coefficients else decoder.estimate(aside)
        changes = np.flatnonzero(np.diff(coefficients, append=0.0)).tolist()
        name = encode((len(used), used[-1], *((last, int(coefficients[last])) for last in changes)))
        rows = [self._rows[number] for number in used]
        variances = decoder.variance(coefficients), decoder.variance(aside)
        return make_answer(rows, name, estimate[:cells], side[cells:], variances, **stated)

    def _coefficients(self, first: int, last: int) -> np.ndarray:
        """Set 1 for each window in a range and 0 elsewhere, rejecting windows that have no answers."""
        self._check_range(first, last)
        available = self.available
        if last >= available:
            known = f"Windows 0 to {available - 1} are available" if available else "No window is available"
            after = f"row {self._closed} is missing"
            raise ArgumentError(
                "", f"Windows {first} to {last} are not all released yet. {known}; {self.gap or after}", "E710"
            )
        coefficients = np.zeros(available)
        coefficients[first : last + 1] = 1.0
        return coefficients

    def _check_range(self, first: int, last: int) -> None:
        _validate.whole(low=0, high=self._horizon.windows - 1, first=first, last=last)
        if first > last:
            raise ArgumentError("first", f"must be at most last, got {first} and {last}", "E710")

    def _check_row(self, row: TimelineRow) -> None:
        """Reject a repeated row, and a row that does not match the first row or the horizon."""
        _validate.instance(TimelineRow, row=row)
        number, mechanism, horizon = row.number, row.mechanism, self._horizon
        if mechanism.windows != horizon.windows:
            words = f"Row {number} does not belong to a horizon with {horizon.windows} windows. Pass its own horizon"
            raise ArgumentError("", words, "E711")
        if number in self._rows:
            raise ArgumentError("", f"Row {number} is given twice. Pass each row from the same run once", "E711")
        first = next(iter(self._rows.values()), row)
        name = timeline(row.privacy.release_ids[0])
        if timeline(first.privacy.release_ids[0]) != name:
            raise ArgumentError(
                "",
                f"Rows {first.number} and {number} are from different runs or keys. Pass the rows for a single key "
                "from a single run. SketchTimeline.by_key separates keys",
                "E711",
            )
        differing = [
            name for name in ("kind", "spec", "mechanism", "promise") if getattr(row, name) != getattr(first, name)
        ]
        if differing:
            raise IncompatibleSketchError(
                f"Rows {first.number} and {number} differ in {', '.join(differing)}. All rows from a run must have the "
                "same kind, spec, mechanism and promise"
            )
        part = part_of_run(name, part_name(("row", number), *horizon.edges(row.window)))
        if [*map(run_and_part, row.privacy.release_ids)] != [part]:
            raise ArgumentError("", f"Row {number} was released for another window. Pass its own horizon", "E711")

    @property
    def gap(self) -> str:
        """Sentence about missing rows, by their numbers, if later rows wait for them, or empty."""
        few = ", ".join(map(str, self.missing[:_SHOWN])) + ", ..." * (len(self.missing) > _SHOWN)
        if len(self.missing) > 1:
            return f"rows {few} are missing, and later rows wait for them"
        return f"row {few} is missing, and later rows wait for it" if few else ""

    @property
    def _first(self) -> TimelineRow:
        return self._rows[0]

    @property
    def _decoder(self) -> RowDecoder:
        if self._decoding is None:
            self._decoding = decoder_of(self._first.mechanism, self._values)
        return self._decoding

    _decoding: RowDecoder | None = None

    def _values(self, number: int) -> np.ndarray:
        return np.concatenate((self._rows[number].counters, self._rows[number].side))

    def __repr__(self) -> str:
        gap = f"; {self.gap}" if self.missing else ""
        return f"<SketchTimeline of {self._horizon.windows} windows, {self.available} available{gap}>"


def _ends(**argument: Any) -> tuple[int, int]:
    ((name, windows),) = argument.items()
    ends = windows if isinstance(windows, tuple) else (windows, windows)
    if len(ends) != 2:
        raise ArgumentError(name, "must be a window number, or a pair: the first and the last window", "E710")
    return ends
