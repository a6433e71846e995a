"""Spending of an account over time, against its limit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from beam_dpsketch.ledger.entries import SPEND, WRITE_OFF, Account, LedgerEntry
from beam_dpsketch.plots.drawing import COLOURS, axes_for, mark, places_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST, _ROOM = 1.0, 1.15


def draw_account(account: Account, entries: Sequence[LedgerEntry], axes: Axes | None = None) -> Axes:
    """Draw the spent share of an account's limit after each entry, with a line for each period.

    Args:
      account: the account.
      entries: its entries, oldest first.
      axes: where to draw. `None` makes a new figure.
    """
    axes, moves = axes_for(axes), [each for each in entries if each.kind in (SPEND, WRITE_OFF)]
    for number, period in enumerate(dict.fromkeys(each.period for each in moves)):
        found = [each for each in moves if each.period == period]
        times = places_of([each.time for each in found])
        shares = np.array([account.limit.share(each.total) for each in found])
        line = {"color": COLOURS[number % 2 and 4], "where": "post"}
        label = "spent" if number == 0 else "spent in the next period" if number == 1 else None
        axes.step(times, shares, label=label, linewidth=1.6, **line)
        _mark(axes, times, shares, [each.kind for each in found])
    limit = f"limit: {account.limit.words()}" + ("" if account.period == "none" else f", each {account.period}")
    axes.axhline(_MOST, color=COLOURS[1], linestyle="--", linewidth=1.4, label="limit")
    axes.text(
        0.01, _MOST + 0.02, limit, transform=axes.get_yaxis_transform(), color=COLOURS[1], fontsize=9, va="bottom"
    )
    axes.set_ylim(0, _ROOM)
    axes.yaxis.set_major_formatter("{x:.0%}")
    axes.grid(alpha=0.3)
    if moves:
        mark(axes.xaxis, [each.time for each in moves])
    axes.set_xlabel("time of the payment (UTC)")
    axes.set_ylabel("share of the limit")
    return axes


def _mark(axes: Axes, times: np.ndarray, shares: np.ndarray, kinds: Sequence[str]) -> None:
    off = np.array([kind == WRITE_OFF for kind in kinds])
    dots = {"linestyle": "", "markersize": 4, "color": COLOURS[0]}
    axes.plot(times[~off], shares[~off], marker="o", **dots)
    if off.any():
        axes.plot(
            times[off], shares[off], marker="X", label="written off", **{**dots, "color": COLOURS[2], "markersize": 8}
        )
