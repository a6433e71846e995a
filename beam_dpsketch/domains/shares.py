"""Shares of a column in words, which tell no exact number of records."""

from __future__ import annotations

MOST = 0.01
"""Which share of the values of a column may be unreadable: more is a mistake."""


def share_of(part: int, whole: int) -> str:
    """Return a share in words: in steps of 5 %, or whether it is above 1 %."""
    return rounded(part, whole) or ("over 1 %" if part > MOST * whole else "under 1 %")


def rounded(part: int, whole: int) -> str:
    """Return a share in words, in steps of 5 %; nothing for a small one."""
    percent = round(20 * part / whole) * 5 if whole else 0
    words = "over 95 %" if percent == 100 else f"about {percent} %"
    return "all" if 0 < part == whole else words * bool(percent)
