"""What `decode` returns: closer answers about the items of one dictionary, and a summary in words.

Guarantee: post-processing of a release. Answers about an item depend on the rest of the dictionary, so the dictionary
must be public.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any, Protocol, overload

import numpy as np

from beam_dpsketch import _validate
from beam_dpsketch.answers.item_answers import ItemAnswers
from beam_dpsketch.answers.notes import Basis
from beam_dpsketch.answers.privacy_statement import PrivacyStatement
from beam_dpsketch.answers.rows import Frequencies, Many, One, as_asked, as_list, as_many
from beam_dpsketch.errors import ArgumentError
from beam_dpsketch.estimators.decoding import LIMIT, MIN_ITEMS, DecodedRows, FreedRows, Rounds
from beam_dpsketch.estimators.row_mean import centred
from beam_dpsketch.hashing.cells import Places
from beam_dpsketch.privacy.aside.side_counters import WEIGHT
from beam_dpsketch.sketches.spec import SketchSpec
from beam_dpsketch.statement.showing import shown

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
