"""The terms of a release, in the words and fields that plans and checks share."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from beam_dpsketch.privacy.terms import ReleaseTerms
from beam_dpsketch.statement.bounds_text import bounds_in_words
from beam_dpsketch.statement.statement_text import round_up


def privacy_line(terms: ReleaseTerms) -> str:
    """Return what is spent, rounded up, and whom it protects."""
    rho, epsilon, delta = loss_in_words(terms)
    return f"Privacy: {rho}, {terms.privacy.relation.name}, {epsilon} at {delta}; protected: {terms.unit.value}."


def loss_in_words(terms: ReleaseTerms) -> tuple[str, str, str]:
    """Return rho, epsilon and the delta at which epsilon is shown, each with its name and rounded up."""
    rho = f"rho = {round_up(terms.privacy.rho, 6):g}"
    epsilon = f"epsilon = {round_up(terms.epsilon, 4):g}"
    delta = f"delta = {round_up(terms.privacy.shown_delta, 6):g}"
    return rho, epsilon, delta


def bounds_line(terms: ReleaseTerms) -> str:
    """Return how much of a unit counts."""
    return f"Bounds enforced on each: {bounds_in_words(terms)}."


def windows_in_words(terms: ReleaseTerms) -> str:
    """Return which windows rho covers."""
    period = " of each period" if terms.period_micros else ""
    return f"the {terms.window_count} windows{period} in which a unit may count"


def terms_fields(terms: ReleaseTerms) -> dict[str, Any]:
    """Return what is spent, whom it protects and how much of each counts, as plain Python values."""
    return {
        "rho": float(terms.privacy.rho),
        "epsilon": terms.epsilon,
        "delta": terms.privacy.shown_delta,
        "keys_delta": float(terms.delta) or None,
        "relation": terms.privacy.relation.name,
        "protected": terms.unit.value,
        "bounds": {name: _plain(value) for name, value in terms.bounds.as_dict().items()},
        "windows_of_unit": terms.window_count,
    }


def _plain(value: Any) -> Any:
    return float(value) if isinstance(value, Fraction) else value
