"""Released flat sketches: estimates for single items, and joint estimates for a public dictionary.

Guarantee: each interval covers the clipped weight with about the given confidence, over the seed and the noise, for
data of any skew, including deletions. `row_mean` has the argument. Source: Charikar, Chen and Farach-Colton 2002, who
use the median over rows. Private form: Zhao et al., NeurIPS 2022.

Guarantee of `ReleasedCountMin.minimum`, if no net weight is negative: no item is underestimated, with probability at
least 1 - failure_probability / 2. Source: Zhao et al., NeurIPS 2022, with E from the actual depth, width and sigma^2;
tails of the discrete Gaussian, and of sums of independent ones, are at most exp(-t^2 / (2 sigma^2)) (Canonne, Kamath
and Steinke 2020). Tails of a discrete Laplace are at most exp(-t / scale). `tail_margin` applies Chernoff's bound to
sums with a Laplace.

Guarantee of `decode`: post-processing of a release. The dictionary must be public, because an answer depends on all its
items.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import warnings
from collections.abc import Callable
from fractions import Fraction
from typing import Any, Protocol, overload

import numpy as np

from beam_dpsketch import checks as _validate
from beam_dpsketch.answers.estimators.comparing import Hashing, ReleasedTable
from beam_dpsketch.answers.estimators.decoding import LIMIT, MIN_ITEMS, DecodedRows, FreedRows, Rounds
from beam_dpsketch.answers.estimators.row_mean import RowReader, centred, noise_margin
from beam_dpsketch.answers.item_answers import ItemAnswers
from beam_dpsketch.answers.notes import Basis
from beam_dpsketch.answers.privacy_statement import PrivacyStatement
from beam_dpsketch.answers.released_sketch import ReleasedSketch
from beam_dpsketch.answers.rows import Frequencies, Many, One, as_asked, as_list, as_many
from beam_dpsketch.encodings import decode, encode
from beam_dpsketch.errors import ArgumentError, InputWarning
from beam_dpsketch.exact.hashing import cells
from beam_dpsketch.exact.hashing.cells import Places
from beam_dpsketch.exact.hashing.fingerprints import fingerprints
from beam_dpsketch.exact.sketches import CountMin, CountSketch
from beam_dpsketch.exact.sketches.spec import SketchSpec
from beam_dpsketch.privacy.noise.laws import Noise
from beam_dpsketch.privacy.summary_counts import WEIGHT
from beam_dpsketch.statement.showing import shown


class ReleasedFrequencies(ReleasedSketch):
    """A released flat sketch: the frequency of any item. `top_k` needs `candidates`, because no items are stored.

    Estimates are Huber means over rows: the median plus the mean distance to it, with each distance clamped to a common
    scale.
    """

    @property
    def _shape(self) -> tuple[int, ...]:
        return self._spec.depth, self._spec.width

    @property
    def _size(self) -> str:
        return f"{self._spec.depth} x {self._spec.width} counters"

    def decode(self, dictionary: Many) -> Decoded:
        """Decode all items in a public dictionary together, for closer estimates.

        Rounds subtract the estimate for one item from the counters that it shares with others. This reduces collisions
        within the dictionary. A fuller dictionary gives closer answers. Items outside it remain in the counters, and
        intervals cover them. `estimate` of the release itself does not change.

        Args:
          dictionary: 1 or more public items, in any order, each counted once. A list from the data would publish it.
            Decoding needs about 125 bytes for each item and row.

        Raises `TypeError` or `ValueError` for items that cannot be counted, and `ValueError` for an empty dictionary.
        Source: see `estimators/decoding.py`.
        """
        return decode_flat(
            dictionary, self._spec, self.counters, self.privacy, keys_of=self._keys, basis=self._basis(0.95)
        )

    def reading(self, confidence: float) -> dict[str, Any]:
        """Export the hash functions and the estimation constants, as `Released.reading` does.

        An estimate is the Huber mean of an item's counters with this `scale`. The truth is at most `below` under it and
        at most `above` over it. `hashing.cells` makes `row_keys`, of shape (depth, 2). `counters` are float64 of shape
        (depth, width), less the median of the row for a Count-Min.
        """
        _validate.open_unit_interval(confidence=confidence)
        spec, (below, above) = self._spec, self._rows.margins(confidence)
        return {
            "type": "flat",
            "item_hash": spec.item_hash,
            "item_key": spec.item_key.hex(),
            "depth": spec.depth,
            "width": spec.width,
            "row_keys": np.hstack(cells.keys_of_rows(spec.seed, range(spec.depth))),
            "has_signs": spec.kind == "count_sketch",
            "counters": self._rows.counters.astype(np.float64),
            "scale": self._rows.scale,
            "below": below,
            "above": above,
        }

    def _estimates(self, items: Any) -> np.ndarray:
        return self._rows.estimates(self._keys(items))

    def _frequencies(self, items: Any, confidence: float) -> Frequencies:
        _validate.open_unit_interval(confidence=confidence)
        middle, (below, above) = self._estimates(items), self._rows.margins(confidence)
        return Frequencies(items, middle, middle - below, middle + above, basis=self._basis(confidence, len(items)))

    @property
    def _noise_reach(self) -> float:
        return noise_margin(self._spec.depth, 0.95, self._privacy.noise) * math.sqrt(self._privacy.sigma_squared)

    @functools.cached_property
    def _rows(self) -> RowReader:
        return RowReader(self._spec, self.counters, self._privacy.sigma_squared, self._privacy.noise)

    @property
    def _table(self) -> ReleasedTable:
        hashing: Hashing = "signs" if self._spec.kind == "count_sketch" else "columns"
        return ReleasedTable.of(self.counters, self._noise_variance(), hashing, self._fourth_cumulant())

    def _changed_candidates(self, before: Any, k: int) -> Any:
        return self._search(0.5)

    def _keys(self, items: Any) -> np.ndarray:
        _warn_of_spellings(items)
        return fingerprints(items, item_hash=self._spec.item_hash, item_key=self._spec.item_key)

    def _search(self, confidence: float) -> Frequencies:
        raise ArgumentError(
            "candidates",
            "is required, because this release does not store items. To find unknown items, use $top_k",
            "E714",
        )


def _warn_of_spellings(items: Any) -> None:
    """Warn about mixed item types and surrounding blanks, because a flat sketch has no items to compare with."""
    listed = items if isinstance(items, list) else []
    one_of_each = {type(item): item for item in listed}
    names = {type(decode(encode(item))).__name__ for item in one_of_each.values()} if len(one_of_each) > 1 else ()
    words = 'Items have several types: {}. 1 and "1" are different items. Use the type that was counted'
    found = [words.format(", ".join(sorted(names)))] if len(names) > 1 else []
    if any(isinstance(item, str) and item != item.strip() for item in listed):
        found.append('Some items begin or end with a blank. "a" and "a " are different items')
    for words in found:
        warnings.warn(words, InputWarning, stacklevel=5)


_STEPS = 1 << 12


class ReleasedCountMin(ReleasedFrequencies):
    """A released Count-Min: Huber means over rows, less the median of the row's cells, and two-sided intervals.

    Under `REPLACE_ONE` with unsigned weights, its noise is 1/sqrt(2) of the noise in a CountSketch. It is then the
    better choice unless collisions dominate. If they do, its estimates are too large on average. Under
    `ADD_OR_REMOVE_ONE` both have equal noise, and a CountSketch is at least as good. `minimum` is the paper's estimate.
    """

    name = "count_min"
    raw_type = CountMin

    @overload
    def minimum(self, items: One, failure_probability: float = ...) -> float: ...
    @overload
    def minimum(self, items: Many, failure_probability: float = ...) -> np.ndarray: ...
    def minimum(self, items: Any, failure_probability: float = 0.01) -> Any:
        """Compute the paper's upper bound for each item: the minimum over rows plus the offset E.

        Args:
          items: one item or many.
          failure_probability: beta, in (0, 1): some item is underestimated with probability at most beta / 2.
        """
        items, single = as_many(items)
        _validate.open_unit_interval(failure_probability=failure_probability)
        rows = cells.read_rows(self.counters, self._keys(items), seed=self._spec.seed, has_signs=False)
        offset = noise_offset(
            self._spec, self._privacy.sigma_squared, failure_probability=failure_probability, noise=self._privacy.noise
        )
        return as_asked(rows.min(axis=0) + offset, single)

    def _own_total(self) -> tuple[float, float]:
        """Average the row sums. Each equals the total, with the noise from all cells in the row."""
        depth, width = self._spec.depth, self._spec.width
        return float(self.counters.sum()) / depth, width / depth * self._noise_variance()


class ReleasedCountSketch(ReleasedFrequencies):
    """A released CountSketch: Huber means over rows, unbiased also with deletions, and two-sided intervals."""

    name = "count_sketch"
    raw_type = CountSketch


def noise_offset(
    spec: SketchSpec, parameter: Fraction, *, failure_probability: float, noise: Noise = Noise.GAUSSIAN
) -> float:
    """Compute E: with probability 1 - failure_probability / 2, no counter has noise beyond -E or E.

    For a Gaussian this is the paper's sigma sqrt(2 ln(4 depth width / beta)).
    """
    return tail_margin(noise, parameter, failure_probability / (4 * spec.cells))


def tail_margin(noise: Noise, parameter: Fraction, probability: float) -> float:
    """Compute a number that noise with this parameter exceeds with at most this probability.

    Chernoff's bound. Let L be the logarithm of 1 / probability and s the scale of a Laplace. A Laplace noise plus other
    noises exceeds t with at most exp(-t x) / (1 - s^2 x^2), for all x below 1 / s. A Gaussian, or a sum of Laplace
    noises, with the same parameter has no larger moments. A single Laplace needs t = s L.
    """
    rare, variance = -math.log(probability), float(parameter)
    if noise is Noise.GAUSSIAN:
        return math.sqrt(2 * variance * rare)
    scale = math.sqrt(variance / 2)
    if noise is Noise.LAPLACE:
        return scale * rare
    x = np.linspace(0, 1, _STEPS + 2)[1:-1]
    return scale * float(np.min((rare - np.log1p(-(x**2))) / x))


_SHRUNK = (
    "\n`shrunk` is closer on average over all items, but farther off for the largest items: use `estimate` for them."
)


class Reading(Protocol):
    """Estimates for all items in a dictionary, with margins below and above in standard deviations."""

    estimates: np.ndarray
    deviations: np.ndarray
    shrunk: np.ndarray

    def margins(self, confidence: float) -> tuple[float, float]: ...


class Dictionary:
    """Distinct items to decode in their given order, with their hash keys in ascending order."""

    def __init__(self, items: Many, keys_of: Callable[[Any], np.ndarray]) -> None:
        plain = _validate.many(dictionary=items)
        self._keys_of = keys_of
        self.keys, first = np.unique(keys_of(plain), return_index=True)
        if not len(self.keys):
            raise ArgumentError("dictionary", "must not be empty. List the items to decode", "E707")
        listed = as_list(plain)
        self.items = tuple(listed[place] for place in np.sort(first))

    def find(self, items: Any) -> np.ndarray:
        asked = self._keys_of(items)
        places = np.minimum(np.searchsorted(self.keys, asked), len(self.keys) - 1)
        if missing := np.count_nonzero(self.keys[places] != asked):
            raise ArgumentError(
                "items",
                f"must be in the dictionary, but {missing} of {len(asked)} are not. Decode a dictionary that contains "
                "them, or query the release itself",
                "E708",
            )
        return places


class Decoded(ItemAnswers):
    """Answers about the items in a dictionary, closer to the truth than the release alone.

    Made by a release's `decode`. Answers describe the clipped data. Methods accept a dictionary item or many, as in
    `ItemAnswers`. They raise `ValueError` for an item outside the dictionary.

    `estimate` and `interval` are unbiased, or nearly. Bounds can be below 0, and cover collisions with items outside
    the dictionary. `shrunk` moves each estimate towards the weights that the other items suggest. It is closer on
    average over the whole list, biased in a known direction for a single rare item, and farther off for the largest
    items.

    >>> from beam_dpsketch import CountSketch, PrivacySpec, ReleaseTerms, SketchSpec, release
    >>> raw = CountSketch(SketchSpec(width=64)).accumulate(["a"] * 900 + ["b"] * 100)
    >>> decoded = release(raw, ReleaseTerms(PrivacySpec(rho=2.0))).decode(["a", "b", "c"])
    >>> [row.item for row in decoded.top_k(2)], 850 < decoded.estimate("a") < 950
    (['a', 'b'], True)
    """

    def __init__(self, dictionary: Dictionary, reading: Reading, *, summary: str, basis: Basis) -> None:
        self._dictionary, self._reading, self._summary, self._basis = dictionary, reading, summary, basis

    @property
    def items(self) -> tuple[Any, ...]:
        """The distinct items in the dictionary, in their order."""
        return self._dictionary.items

    @overload
    def shrunk(self, items: One) -> float: ...
    @overload
    def shrunk(self, items: Many) -> np.ndarray: ...
    def shrunk(self, items: Any) -> Any:
        """Shrink each estimate towards the usual weights in the dictionary: float64 of shape (n,), or a float.

        The result is the posterior mean under the distribution of weights that best fits all estimates, clamped to the
        item's own 95 % interval. It has no interval. With fewer than 200 items it equals the estimate. For the largest
        items use `estimate`: they are too few to fit a distribution, and `shrunk` is farther from the truth.
        """
        items, single = as_many(items)
        return as_asked(self._reading.shrunk[self._dictionary.find(items)], single)

    def top_k(self, k: int, confidence: float = 0.95) -> Frequencies:
        """List the k items with the largest estimates, largest first, or all if there are fewer.

        Equal estimates keep the order of the dictionary. Confidence for lists is as in `ReleasedSketch.top_k`.
        """
        _validate.whole(low=1, high=1 << 31, k=k)
        return self._frequencies(self.items, confidence).largest(k)

    def as_rows(self, items: One | Many | None = None, confidence: float = 0.95) -> list[dict[str, Any]]:
        """Convert answers to one plain dict per item: item, estimate, lower, upper and shrunk.

        Args:
          items: items in the dictionary, or `None` for all.
          confidence: confidence per interval, in (0, 1).
        """
        asked = self.items if items is None else as_many(items)[0]
        shrunk = self._reading.shrunk[self._dictionary.find(asked)].tolist()
        rows = self._frequencies(asked, confidence).to_rows()
        return [{**row, "shrunk": value} for row, value in zip(rows, shrunk, strict=True)]

    def explain(self) -> str:
        """Summarize the residual counters, the noise floor and the share of the weight that the dictionary explains.

        The share compares squared counters. Therefore light items outside the dictionary have little effect on it.
        """
        return self._summary + _SHRUNK * (len(self.items) >= MIN_ITEMS)

    def _estimates(self, items: Any) -> np.ndarray:
        return self._reading.estimates[self._dictionary.find(items)]

    def _frequencies(self, items: Any, confidence: float) -> Frequencies:
        _validate.open_unit_interval(confidence=confidence)
        places = self._dictionary.find(items)
        middle, deviations = self._reading.estimates[places], self._reading.deviations[places]
        below, above = self._reading.margins(confidence)
        lower, upper = middle - below * deviations, middle + above * deviations
        basis = dataclasses.replace(self._basis, confidence=confidence, asked=len(places))
        return Frequencies(items, middle, lower, upper, basis=basis)

    def __repr__(self) -> str:
        return f"<Decoded of {len(self.items)} items>"


def decode_flat(
    items: Many,
    spec: SketchSpec,
    counters: np.ndarray,
    privacy: PrivacyStatement,
    *,
    keys_of: Callable[[Any], np.ndarray],
    basis: Basis,
) -> Decoded:
    """Decode a dictionary from noisy counters of shape (depth, width)."""
    dictionary, has_signs = Dictionary(items, keys_of), spec.kind == "count_sketch"
    signed = privacy.bounds.signed
    sigma_squared = privacy.noise.variance(privacy.sigma_squared, privacy.weight_bits)
    places = Places(dictionary.keys, seed=spec.seed, depth=spec.depth, width=spec.width, has_signs=has_signs)
    freed = Rounds(counters, places, sigma_squared=sigma_squared, has_signs=has_signs, signed=signed).run()
    rows = DecodedRows(freed, has_signs=has_signs, signed=signed)
    before = float(np.mean(centred(counters, has_signs=has_signs) ** 2))
    lines = _summary(freed, rows, sigma_squared, before)
    if (total := privacy.note(WEIGHT)) is not None:
        known = shown(total.estimate)
        lines.append(f"Its estimates sum to about {shown(float(rows.estimates.sum()))}, of {known} in the release.")
    return Decoded(dictionary, rows, summary="\n".join(lines), basis=basis)


def _summary(freed: FreedRows, rows: DecodedRows, sigma_squared: float, before: float) -> list[str]:
    depth, sigma = len(freed.rows), math.sqrt(sigma_squared)
    reach = sum(rows.margins(0.95)) / 2 * float(rows.deviations.mean())
    unknown = float(np.mean(freed.residual**2)) - freed.expected
    lines = [
        f"Decoded {len(rows.estimates):,} items from {depth} rows of counters.",
        f"Residual: what is left in a counter has a scale of {shown(math.sqrt(freed.energy))}; noise alone has one of "
        f"{shown(sigma)}.",
        f"Intervals reach ±{shown(reach)} on average (95 %). Noise floor: with noise alone, ±"
        f"{shown(LIMIT * sigma / math.sqrt(depth))}.",
    ]
    if before <= sigma_squared * (1 + 6 * math.sqrt(2 / freed.residual.size)):
        return [*lines, "The counters hold little but noise, so nothing can be said of what is not listed."]
    share = 1 - max(0.0, unknown - sigma_squared) / (before - sigma_squared)
    return [
        *lines,
        f"The dictionary explains about {max(0.0, share):.1%} of the weight, by the squares of the counters.",
    ]
