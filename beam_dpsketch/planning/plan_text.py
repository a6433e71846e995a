"""The words and numbers of a plan that come from its terms: what is spent, whom it protects, and the noise of rows."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from beam_dpsketch._showing import round_up
from beam_dpsketch.estimators.over_time.decoders import decoder_of
from beam_dpsketch.privacy.noise.laws import Noise
from beam_dpsketch.privacy.over_time.mechanism import RowMechanism
from beam_dpsketch.privacy.terms import DeclaredTerms, RowTerms

MAX_PLANNED = 1 << 14  # longer horizons take seconds


def privacy_line(terms: DeclaredTerms) -> str:
    """Say in one line the loss, rounded up, and whom it protects."""
    rho, epsilon, delta = loss_in_words(terms)
    loss = f"{rho}, {terms.privacy.relation.name}, {epsilon} at {delta}"
    if terms.loss.is_pure:
        loss = f"{epsilon} at {delta}, {terms.privacy.relation.name}, by Laplace noise"
    return f"Privacy: {loss}; protected: {terms.unit.value}."


def loss_in_words(terms: DeclaredTerms) -> tuple[str, str, str]:
    """Return rho, epsilon and the delta at which epsilon is shown, each with its name and rounded up."""
    rho = f"rho = {round_up(terms.privacy.rho, 6):g}"
    epsilon = f"epsilon = {round_up(terms.epsilon, 4):g}"
    delta = f"delta = {round_up(terms.shown[1], 6):g}"
    return rho, epsilon, delta


def noise_in_words(terms: DeclaredTerms, parameters: Sequence[Fraction]) -> str:
    """Return which noise it is, with the sigma of Gaussians or the scale of a Laplace; of several tables, its span."""
    noise = terms.noise
    kind = "" if noise is Noise.GAUSSIAN else f"{noise.value} with "
    return f"{kind}{noise.measure} = {span([noise.spread(each) for each in parameters])}"


def bounds_line(terms: DeclaredTerms) -> str:
    """Return how much of a unit counts."""
    return f"Bounds enforced on each: {terms.bounds.words(terms.unit, terms.window_count, terms.period_micros)}."


def windows_in_words(terms: DeclaredTerms) -> str:
    """Return which windows rho covers."""
    period = " of each period" if terms.period_micros else ""
    return f"the {terms.window_count} windows{period} in which a unit may count"


def terms_fields(terms: DeclaredTerms) -> dict[str, Any]:
    """List the loss, the unit and its bounds, as plain Python values."""
    return {
        "rho": float(terms.privacy.rho),
        "epsilon": terms.epsilon,
        "delta": terms.shown[1],
        "noise": terms.noise.value,
        "keys_delta": float(terms.delta) or None,
        "relation": terms.privacy.relation.name,
        "protected": terms.unit.value,
        "bounds": {name: _plain(value) for name, value in terms.bounds.as_dict().items()},
        "windows_of_unit": terms.window_count,
    }


def _plain(value: Any) -> Any:
    return float(value) if isinstance(value, Fraction) else value


def over_time_lines(terms: RowTerms, sigmas: Sequence[float], copies: str) -> Iterator[str]:
    """Say how many rows there are, and how much noise answers have."""
    mechanism = terms.mechanism
    yield f"Rows: {mechanism.row_count} over {mechanism.windows} windows{copies}, rho for all of them together."
    if (noise := noise_of_answers(mechanism)) is not None:
        window, half, every = (span([each * sigma for sigma in sigmas]) for each in noise)
        middle = mechanism.windows // 2
        yield (
            f"Answers at the end: sigma = {window} on each counter of window {middle}, {half} of the first {middle}, "
            f"{every} of all {mechanism.windows}."
        )


def span(sigmas: Sequence[float]) -> str:
    """Return the least and the largest, or one number."""
    return " to ".join(dict.fromkeys(f"{each:.4g}" for each in (min(sigmas), max(sigmas))))


@functools.lru_cache(maxsize=8)
def noise_of_answers(mechanism: RowMechanism) -> tuple[float, float, float] | None:
    """Return the sigma of answers when the horizon ends, over that of rows; `None` for very long horizons.

    They are about the middle window, all windows before it, and all windows.
    """
    windows, decoder = mechanism.windows, decoder_of(mechanism, lambda number: np.zeros(0))
    if windows > MAX_PLANNED:
        return None

    def sigma(first: int, last: int) -> float:
        coefficients = np.zeros(windows)
        coefficients[first : last + 1] = 1.0
        return math.sqrt(decoder.variance(coefficients))

    middle = windows // 2
    return sigma(middle, middle), sigma(0, middle - 1), sigma(0, windows - 1)
