"""Losses as events of `dp_accounting`, for its accountants."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from beam_dpsketch._showing import float_above
from beam_dpsketch.errors import ArgumentError
from beam_dpsketch.privacy.loss.composition import Loss


def event_of(loss: Loss, *, ignore_delta: bool) -> Any:
    """Return a loss as an event: a `GaussianDpEvent`, or a `ZCDpEvent` where not all noise is Gaussian.

    Args:
      loss: what is lost; its pure epsilons are told by their rho, because that package has no event for them.
      ignore_delta: whether to leave out a delta, which that package has no event for; else a loss with one is refused.
    """
    if loss.delta and not ignore_delta:
        raise ArgumentError(
            "ignore_delta",
            "must be True for a release whose keys were chosen: dp_accounting has no event for its delta, so "
            "add statement.delta to the delta that the accountant gives",
            "E720",
        )
    name, fields = event_fields(loss)
    return getattr(_package(), name)(**fields)


def event_fields(loss: Loss) -> tuple[str, dict[str, float]]:
    """Return the name of the event of a loss, without its delta, and its fields."""
    rho = float_above(loss.rho)
    if loss.pure or not rho:
        return "ZCDpEvent", {"rho": rho}
    return "GaussianDpEvent", {"noise_multiplier": (1 - 2.0**-50) / math.sqrt(2 * rho)}


def composed_event_of(losses: Iterable[Loss], *, ignore_delta: bool) -> Any:
    """Return several losses as one event."""
    events = [event_of(each, ignore_delta=ignore_delta) for each in losses]
    return _package().ComposedDpEvent(events)


def _package() -> Any:
    try:
        import dp_accounting
    except ImportError as error:
        raise ImportError("to_dp_event() needs the package dp-accounting: pip install dp-accounting") from error
    return dp_accounting
