"""Released flat sketches: estimates of single items, and of all items of a public dictionary together.

Guarantee: each item's interval holds with about the given confidence, over the seed and the noise, for data of any
skew, also with deletions; `row_mean` has the argument. Source: Charikar, Chen and Farach-Colton 2002, who take the
median over rows; private form: Zhao et al., NeurIPS 2022.

Released flat sketches: Count-Min and CountSketch, and the offset of the paper's Count-Min.

Guarantee of `ReleasedCountMin.minimum`, while no item's net weight is negative: no item at all is underestimated, with
probability at least 1 - failure_probability / 2. Source: Zhao et al., NeurIPS 2022, with E from the actual depth, width
and sigma^2; tails of the discrete Gaussian, and of sums of independent ones, are at most exp(-t^2 / (2 sigma^2))
(Canonne, Kamath and Steinke 2020). Tails of a discrete Laplace are at most exp(-t / scale). `tail_margin` applies
Chernoff's bound to sums with a Laplace.

What `decode` returns: closer answers about the items of one dictionary, and a summary in words.

Guarantee: post-processing of a release. Answers about an item depend on the rest of the dictionary, so the dictionary
must be public.
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
from beam_dpsketch.errors import ArgumentError, ElementsWarning
from beam_dpsketch.exact.hashing import cells
from beam_dpsketch.exact.hashing.cells import Places
from beam_dpsketch.exact.hashing.fingerprints import fingerprints
from beam_dpsketch.exact.sketches import CountMin, CountSketch
from beam_dpsketch.exact.sketches.spec import SketchSpec
from beam_dpsketch.privacy.noise.laws import Noise
from beam_dpsketch.privacy.side_counters import WEIGHT
from beam_dpsketch.statement.showing import shown


class ReleasedFrequencies(ReleasedSketch):
    """A released flat sketch: how often any item occurred. It stores no items, so `top_k` needs `candidates`.

    Estimates are Huber means over rows: the median plus the mean of the rows' distances from it, each clipped at one
    scale.
    """

    @property
    def _shape(self) -> tuple[int, ...]:
        return self._spec.depth, self._spec.width

    @property
    def _size(self) -> str:
        return f"{self._spec.depth} x {self._spec.width} counters"

    def decode(self, dictionary: Many) -> Decoded:
        """Return closer answers about all items of a public dictionary together.

        What is known of one item is subtracted from the counters that it shares with others, round by round. So
        collisions between items of the dictionary fade. The fuller the dictionary, the closer the answers. Items that
        it lacks stay in the counters, and the intervals cover them. `estimate` of the release itself does not change.

        Args:
          dictionary: the items, 1 or more, in any order; repeated ones count once. They must be public: a list that
            is taken from the data would publish it. Decoding takes about 125 bytes of memory for each item and row.

        Raises `TypeError` or `ValueError` for items that cannot be counted, and `ValueError` if there are none. Source:
        see `estimators/decoding.py`.
        """
        return decode_flat(
            dictionary, self._spec, self.counters, self.privacy, keys_of=self._keys, basis=self._basis(0.95)
        )

    def reading(self, confidence: float) -> dict[str, Any]:
        """Return the hashing of items and the reading of rows, as `Released.reading` does.

        An estimate is the Huber mean of an item's counters with this `scale`. The truth is at most `below` under it and
        `above` over it. `row_keys`, of shape (depth, 2), are made by `hashing.cells`. `counters` are float64 of shape
        (depth, width); from each counter of a Count-Min the median of its row is subtracted.
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
            "must be given, because this release stores no items. A release with $top_k finds items that are not known",
            "E714",
        )


def _warn_of_spellings(items: Any) -> None:
    """Warn of items of several types, or with blanks around them: a flat sketch does not know its own items."""
    listed = items if isinstance(items, list) else []
    one_of_each = {type(item): item for item in listed}
    names = {type(decode(encode(item))).__name__ for item in one_of_each.values()} if len(one_of_each) > 1 else ()
    words = 'items are of several types, {}; 1 and "1" are two items, so each must be of the type that was counted'
    found = [words.format(", ".join(sorted(names)))] if len(names) > 1 else []
    if any(isinstance(item, str) and item != item.strip() for item in listed):
        found.append('some items begin or end with a blank; "a" and "a " are two items')
    for words in found:
        warnings.warn(words, ElementsWarning, stacklevel=5)


_STEPS = 1 << 12


class ReleasedCountMin(ReleasedFrequencies):
    """A released Count-Min: Huber means over rows, each less the median of its cells, and two-sided intervals.

    Under `REPLACE_ONE`, with weights that are not signed, its noise is 1/sqrt(2) of that in a CountSketch: there it is
    the better choice, unless collisions dominate. Where they do, its estimates are too large on average. Under
    `ADD_OR_REMOVE_ONE` both have equal noise, and a CountSketch is at least as good. `minimum` is the paper's estimate.
    """

    name = "count_min"
    raw_type = CountMin

    @overload
    def minimum(self, items: One, failure_probability: float = ...) -> float: ...
    @overload
    def minimum(self, items: Many, failure_probability: float = ...) -> np.ndarray: ...
    def minimum(self, items: Any, failure_probability: float = 0.01) -> Any:
        """Compute the paper's estimate of each item: the minimum over rows plus the offset E, an upper bound.

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
        """Each row sums to the total, with the noise of all its cells."""
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

    The paper's, of a Gaussian sigma sqrt(2 ln(4 depth width / beta)).
    """
    return tail_margin(noise, parameter, failure_probability / (4 * spec.cells))


def tail_margin(noise: Noise, parameter: Fraction, probability: float) -> float:
    """Compute a number that a noise of this parameter exceeds with at most this probability.

    Chernoff's bound. With L the logarithm of 1 / probability and s the scale of a Laplace, a Laplace noise with others
    exceeds t with at most exp(-t x) / (1 - s^2 x^2), for all x below 1 / s. A Gaussian, or a sum of Laplace noises, of
    the same parameter has no larger moments. A single Laplace needs t = s L.
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
    "\n`shrunk` is closer on average over all items, and farther off for the largest ones: of these take `estimate`."
)


class Reading(Protocol):
    """Estimates of all items of a dictionary; margins are how far the truth may be below and above, in deviations."""

    estimates: np.ndarray
    deviations: np.ndarray
    shrunk: np.ndarray

    def margins(self, confidence: float) -> tuple[float, float]: ...


class Dictionary:
    """The items that are decoded, each once, in their order, with their keys in ascending order."""

    def __init__(self, items: Many, keys_of: Callable[[Any], np.ndarray]) -> None:
        plain = _validate.many(dictionary=items)
        self._keys_of = keys_of
        self.keys, first = np.unique(keys_of(plain), return_index=True)
        if not len(self.keys):
            raise ArgumentError("dictionary", "must not be empty: list the items to decode", "E707")
        listed = as_list(plain)
        self.items = tuple(listed[place] for place in np.sort(first))

    def find(self, items: Any) -> np.ndarray:
        asked = self._keys_of(items)
        places = np.minimum(np.searchsorted(self.keys, asked), len(self.keys) - 1)
        if missing := np.count_nonzero(self.keys[places] != asked):
            raise ArgumentError(
                "items",
                f"must be in the dictionary, and {missing} of {len(asked)} are not: decode a dictionary that has "
                "them, or ask the release itself",
                "E708",
            )
        return places


class Decoded(ItemAnswers):
    """Answers about the items of one dictionary, closer to the truth than those of the release alone.

    Made by `decode` of a release. Answers are about the records that bounding kept. Methods take one item of the
    dictionary or many; see `ItemAnswers`. They raise `ValueError` for an item that is not in it.

    `estimate` and `interval` are unbiased, or nearly. Bounds can be below 0, and cover collisions with items that the
    dictionary lacks. `shrunk` draws each estimate towards what the other items show of the usual weights. It is closer
    on average over the whole list, off in a known direction for a single rare item, and farther off for the largest.

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
        """The items of the dictionary, each once, in their order."""
        return self._dictionary.items

    @overload
    def shrunk(self, items: One) -> float: ...
    @overload
    def shrunk(self, items: Many) -> np.ndarray: ...
    def shrunk(self, items: Any) -> Any:
        """Return each estimate, drawn towards the usual weights of the dictionary: float64 of shape (n,), or a float.

        It is the posterior mean under the law of weights that fits all the estimates best, clipped to the item's own
        95 % interval. No interval is offered for it. With fewer than 200 items it is the estimate. Of the largest items
        take `estimate`: they are few, so the law says little of them, and `shrunk` is farther from the truth there.
        """
        items, single = as_many(items)
        return as_asked(self._reading.shrunk[self._dictionary.find(items)], single)

    def top_k(self, k: int, confidence: float = 0.95) -> Frequencies:
        """Return the k items of largest estimate, largest first; all, if there are fewer.

        Equal estimates keep the order of the dictionary. What `ReleasedSketch.top_k` says of lists holds here too.
        """
        _validate.whole(low=1, high=1 << 31, k=k)
        return self._frequencies(self.items, confidence).largest(k)

    def as_rows(self, items: One | Many | None = None, confidence: float = 0.95) -> list[dict[str, Any]]:
        """Return one plain dict per item with the fields item, estimate, lower, upper and shrunk, for any sink.

        Args:
          items: of the dictionary; `None` stands for all of them.
          confidence: of each interval, in (0, 1).
        """
        asked = self.items if items is None else as_many(items)[0]
        shrunk = self._reading.shrunk[self._dictionary.find(asked)].tolist()
        rows = self._frequencies(asked, confidence).to_rows()
        return [{**row, "shrunk": value} for row, value in zip(rows, shrunk, strict=True)]

    def explain(self) -> str:
        """Return a few sentences: what is left in the counters, the noise floor, and what the dictionary explains.

        The share of the weight is that of squares, so light items that are not listed hardly show in it.
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
    """Return closer answers about these items, from the noisy counters of shape (depth, width)."""
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
    """Say what is left, how much of it is noise, and what the dictionary explains."""
    depth, sigma = len(freed.rows), math.sqrt(sigma_squared)
    reach = sum(rows.margins(0.95)) / 2 * float(rows.deviations.mean())
    unknown = float(np.mean(freed.residual**2)) - freed.expected
    lines = [
        f"Decoded {len(rows.estimates):,} items from {depth} rows of counters.",
        f"Residual: what is left in a counter has a scale of {shown(math.sqrt(freed.energy))}; noise alone has one of "
        f"{shown(sigma)}.",
        f"Intervals reach +-{shown(reach)} on average (95 %). Noise floor: with noise alone, +-"
        f"{shown(LIMIT * sigma / math.sqrt(depth))}.",
    ]
    if before <= sigma_squared * (1 + 6 * math.sqrt(2 / freed.residual.size)):
        return [*lines, "The counters hold little but noise, so nothing can be said of what is not listed."]
    share = 1 - max(0.0, unknown - sigma_squared) / (before - sigma_squared)
    return [
        *lines,
        f"The dictionary explains about {max(0.0, share):.1%} of the weight, by the squares of the counters.",
    ]
