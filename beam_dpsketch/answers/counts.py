"""Released counts: one noisy counter per item, listed or released by votes or a threshold.

Guarantee: each interval covers the clipped count with at least the given confidence, over the noise, for an item chosen
before asking. The proof is in `privacy.noise.laws`. Items never collide. Thresholded counts near the threshold are
covered less often, because without enough votes such a count is released only if its noise is not too far down.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from beam_dpsketch import checks as _validate
from beam_dpsketch.answers.estimators.comparing import ReleasedTable
from beam_dpsketch.answers.estimators.decoding import DecodedList
from beam_dpsketch.answers.estimators.presence import exceeds_noise
from beam_dpsketch.answers.flat import Decoded, Dictionary
from beam_dpsketch.answers.privacy_statement import PrivacyStatement, clipping_of_units
from beam_dpsketch.answers.released import Released
from beam_dpsketch.answers.released_sketch import ReleasedSketch
from beam_dpsketch.answers.rows import Frequencies, Many, One, as_list
from beam_dpsketch.errors import ArgumentError, IncompatibleSketchError
from beam_dpsketch.exact.sketches.listed_items import (
    CountSpec,
    GroupedHistogram,
    ListedHistogram,
    RecordCounter,
    ThresholdedItems,
    find_all,
)
from beam_dpsketch.statement.clipping import Clipping
from beam_dpsketch.statement.notes import ThresholdNote
from beam_dpsketch.statement.showing import in_words, shown
from beam_dpsketch.statement.summary_notes import Interval, SummaryNote

_MOST_COMPARED = 10_000
_TYPE_NAMES = {str: "text", int: "int", bytes: "bytes", tuple: "tuple"}


class ReleasedListedItems(ReleasedSketch):
    """A released histogram over listed items. It answers about them alone, and `top_k` needs no candidates.

    Questions about an unlisted item raise `ValueError`, because its records were dropped.
    """

    name = "listed_items"
    raw_type = ListedHistogram

    def _estimates(self, items: Any) -> np.ndarray:
        return self.counters[self._places(items)].astype(np.float64)

    def _frequencies(self, items: Any, confidence: float) -> Frequencies:
        return self._rows(items, self._estimates(items), confidence)

    def _search(self, confidence: float) -> Frequencies:
        order = np.argsort(-self.counters.astype(np.float64), kind="stable")
        return self._rows([self.spec.items[place] for place in order], self.counters[order], confidence)

    def decode(self, dictionary: Many | None = None) -> Decoded:
        """Decode listed items, with `shrunk` estimates that are closer on average.

        Estimates and intervals are the same as in the release, because listed items do not collide.

        Args:
          dictionary: 1 or more listed items, each counted once. `None` means the whole list.

        Raises `ValueError` for an unlisted item and for an empty dictionary.
        """
        items = Dictionary(self.spec.items if dictionary is None else dictionary, self._places)
        deviation, signed = math.sqrt(self._noise_variance()), self.privacy.bounds.signed
        counters = self.counters[items.keys].astype(np.float64)
        reading = DecodedList(counters, deviation, self._margin, signed=signed)
        summary = (
            f"Decoded {len(counters):,} listed items, each from one counter.\nNoise floor: intervals reach "
            f"±{shown(self._margin(0.95))} (95 %); listed items do not collide.\nUnlisted items were not counted."
        )
        return Decoded(items, reading, summary=summary, basis=self._basis(0.95))

    def reading(self, confidence: float) -> dict[str, Any]:
        """Export items as text with their types, estimates (float64) and the margin, as in `Released.reading`."""
        items = self.spec.items
        return {
            "type": "listed",
            "items": [*map(in_words, items)],
            "item_types": [_TYPE_NAMES[type(item)] for item in items],
            "estimates": self.counters.astype(np.float64),
            "margin": self._margin(confidence),
        }

    def _rows(self, items: Any, counters: np.ndarray, confidence: float) -> Frequencies:
        estimates = counters.astype(np.float64)
        margin, basis = self._margin(confidence), self._basis(confidence, len(estimates))
        return Frequencies(items, estimates, estimates - margin, estimates + margin, basis=basis)

    @property
    def _noise_reach(self) -> float:
        return self._margin(0.95)

    def _own_total(self) -> tuple[float, float]:
        return float(self.counters.sum(dtype=np.float64)), self.counters.size * self._noise_variance()

    @property
    def _table(self) -> ReleasedTable:
        return ReleasedTable.of(self.counters.reshape(1, -1), self._noise_variance(), "exact", self._fourth_cumulant())

    def _changed_candidates(self, before: Any, k: int) -> Any:
        return self.spec.items

    def _places(self, items: Any) -> np.ndarray:
        places = find_all(self.spec, items)
        if missing := np.count_nonzero(places < 0):
            raise ArgumentError(
                "items",
                f"must be listed, but {missing} of {len(places)} are not{self._meant(items, places) or '.'} $listed",
                "E708",
            )
        return places

    def _meant(self, items: Any, places: np.ndarray) -> str:
        """Suggest the listed item that is most similar to the first unlisted one."""
        asked = as_list(items)[int(np.argmax(places < 0))]
        known = [item for item in self.spec.items[:_MOST_COMPARED] if isinstance(item, str)]
        return _validate.did_you_mean(_validate.nearest(asked, known) if isinstance(asked, str) else None)

    @property
    def _size(self) -> str:
        return f"{self.spec.cells} listed items"


class ReleasedCount(Released):
    """A released number of records, or of privacy ids: ``released["people"].count()``."""

    name = kind = "count"
    raw_type = RecordCounter

    @classmethod
    def of_note(cls, spec: CountSpec, note: SummaryNote, privacy: PrivacyStatement) -> ReleasedCount:
        """Build the release of privacy ids from the summary count that contains them."""
        levels = (note.sigma_squared,)
        stated = dataclasses.replace(privacy, sigma_squared_per_level=levels, noise=note.noise, of_metric=True)
        return cls(spec, np.array([note.value]), stated, note.scale_bits)

    def count(self, confidence: float = 0.95) -> Interval:
        """Estimate the number of records, or their weight, or the number of privacy ids. Bounds may be below 0."""
        number, margin = float(self.counters[0]), self._margin(confidence)
        return Interval(number, number - margin, number + margin).of(self._clipping)

    def clipping(self, confidence: float = 0.95) -> Clipping:
        """Estimate the clipped share of all records, or describe how the number of privacy ids is limited."""
        return clipping_of_units(self.privacy) if self._spec.counts_privacy_ids else super().clipping(confidence)

    def _own_total(self) -> tuple[float, float]:
        return float(self.counters[0]), self._noise_variance()

    @property
    def _exceeds_noise(self) -> bool:
        return exceeds_noise(self.counters, self._noise_variance(), has_signs=False, fourth=self._fourth_cumulant())

    @property
    def _size(self) -> str:
        number, _, upper = self.count()
        return f"{shown(number)} ±{shown(upper - number)} {self._spec.describe()}"


class ReleasedCounts(ReleasedSketch):
    """Released items with their noisy counts, largest first. `PrivateTopK` makes it from text and bytes.

    An unreleased item has an unknown count: `estimate` gives NaN, and `interval` goes from 0 to the count that would
    have been released almost surely, with or without votes. The noise in the count is independent of the votes, so an
    item released by votes can have a count near 0 or below. Without votes, an item near the threshold is released if
    its noise is high. Therefore their estimates are about 0.9 sigma too high on average for true counts below the
    threshold plus sigma, and the 95 % intervals cover about 90 % of these counts.

    Text and bytes with max_bytes bytes or more are counted by their beginning, and answers list them as `truncated`.
    Bytes that are not valid text are ignored if items are text.
    """

    name = "groups"
    raw_type = GroupedHistogram

    def __init__(
        self, spec: ThresholdedItems, counters: np.ndarray, privacy: PrivacyStatement, scale_bits: int = 0
    ) -> None:
        super().__init__(spec, counters, privacy, scale_bits)
        if (counters[1:] > counters[:-1]).any():
            raise ValueError("counters must be in descending order")

    @property
    def items(self) -> tuple[Any, ...]:
        """The released items by descending count."""
        return self.spec.items

    @property
    def left_out(self) -> int:
        """Upper bound for the items that a combination dropped because only some releases contain them."""
        return self.spec.left_out

    def __len__(self) -> int:
        return self.spec.cells

    def reading(self, confidence: float) -> dict[str, Any]:
        """Export items as text, estimates (float64), the margin and the domain, as in `Released.reading`.

        `keys` are `ThresholdedItems.short_keys` in hex. The count of an unreleased item is at most `most_unreleased`,
        or `None` if no bound is known.
        """
        most = self._most_unreleased(confidence)
        return {
            "type": "groups",
            "domain": self.spec.domain.reading(),
            "items": [*map(in_words, self.items)],
            "keys": [key.hex() for key in self.spec.short_keys],
            "estimates": self.counters.astype(np.float64),
            "margin": self._margin(confidence),
            "most_unreleased": most if math.isfinite(most) else None,
        }

    def top_k(self, k: int, candidates: Many | None = None, confidence: float = 0.95) -> Frequencies:
        """List the k released items with the largest counts, largest first, or all if fewer were released.

        Each interval has the given confidence for an item chosen before asking. See `ReleasedSketch.top_k` for lists.

        Args:
          k: the number of items, 1 to 2**31.
          candidates: the items to choose from, ignoring unreleased items. `None` means all released items.
          confidence: confidence per interval, in (0, 1).
        """
        if candidates is not None:
            items = _validate.many(candidates=candidates)
            candidates = [item for item, is_in in zip(as_list(items), self.spec.find(items) >= 0, strict=True) if is_in]
            if not candidates:
                return self._search(confidence)[:0].with_places()
        return super().top_k(k, candidates, confidence)

    def as_rows(self, items: One | Many | None = None, confidence: float = 0.95) -> list[dict[str, Any]]:
        """Convert answers to one plain dict per item: item, estimate, lower and upper. `None` means all items."""
        return self._search(confidence).to_rows() if items is None else super().as_rows(items, confidence)

    def _estimates(self, items: Any) -> np.ndarray:
        return self._read(self.spec.find(items))

    def _frequencies(self, items: Any, confidence: float) -> Frequencies:
        estimates, margin = self._estimates(items), self._margin(confidence)
        unknown = np.isnan(estimates)
        lower = np.where(unknown, 0.0, estimates - margin)
        upper = np.where(unknown, self._most_unreleased(confidence), estimates + margin)
        basis = self._basis(confidence, len(estimates))
        return Frequencies(items, estimates, lower, upper, truncated=self.spec.truncated(as_list(items)), basis=basis)

    def _signed_frequencies(self, items: Any, confidence: float) -> Frequencies:
        rows = self._frequencies(items, confidence)
        unknown = np.isnan(rows.estimate)
        lower, upper = np.where(unknown, -np.inf, rows.lower), np.where(unknown, np.inf, rows.upper)
        return dataclasses.replace(rows, lower=lower, upper=upper)

    def _search(self, confidence: float) -> Frequencies:
        estimates, margin = self._read(np.arange(self.spec.cells)), self._margin(confidence)
        limit = None if self._chosen is None else self._chosen.least_count + self._margin(0.9)  # one-sided: 95 %
        columns, basis = (estimates, estimates - margin, estimates + margin), self._basis(confidence)
        return Frequencies(self.items, *columns, limit, self.spec.truncated(self.items), basis=basis)

    @property
    def _noise_reach(self) -> float:
        return 0.0  # items below the noise are not released

    @property
    def _exceeds_noise(self) -> bool:
        return self.spec.cells > 0

    def _read(self, places: np.ndarray) -> np.ndarray:
        return np.append(self.counters.astype(np.float64), math.nan)[places]

    def _most_unreleased(self, confidence: float) -> float:
        """Bound the count of an unreleased item from above."""
        return math.inf if self._chosen is None else self._chosen.least_count + self._margin(confidence)

    @property
    def _chosen(self) -> ThresholdNote | None:
        note = self.privacy.keys
        single = note is not None and note.of_items and len(self.privacy.release_ids) == 1
        return note if single else None  # type: ignore[return-value]

    def _plus(self, other: Released, privacy: PrivacyStatement, *, sign: int = 1) -> ReleasedCounts:
        """Add or subtract the counts of common items, because any other item has an unknown count."""
        theirs = other.spec.places
        common = [key for key in self.spec.short_keys if key in theirs]
        bits = max(self._scale_bits, other._scale_bits)
        first, second = (
            each._counters[[each.spec.places[key] for key in common]] << np.int64(bits - each._scale_bits)
            for each in (self, other)
        )
        counters = first + np.int64(sign) * second
        order = sorted(range(len(common)), key=lambda place: (-counters[place], common[place]))
        left_out = self.left_out + other.spec.left_out + self.spec.cells + other.spec.cells - 2 * len(common)
        spec = ThresholdedItems.of(self.spec.domain, [common[place] for place in order], left_out)
        return ReleasedCounts(spec, counters[order], privacy, bits)

    def _check_same_kind(self, other: Released, done: str = "combined") -> None:
        if type(other) is not type(self) or self.spec.domain != other.spec.domain:
            raise IncompatibleSketchError(f"Only releases with the same kind and domain can be {done}")

    @property
    def _table(self) -> ReleasedTable:
        raise ArgumentError(
            "",
            "Thresholded counts cannot answer questions about all items together: unreleased counts are unknown. "
            "Use $frequencies",
            "E713",
        )

    def _changed_candidates(self, before: Any, k: int) -> Any:
        return [item for item, key in zip(self.items, self.spec.short_keys, strict=True) if key in before.spec.places]

    @property
    def _size(self) -> str:
        left_out = f", up to {self.left_out:,} left out" if self.left_out else ""
        return f"{self.spec.cells:,} items{left_out}"
