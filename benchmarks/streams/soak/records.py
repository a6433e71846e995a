"""What the source of the soak sends: a function of the number of a tick alone, so that all of it can be made again.

A record has the time of its tick. Each user belongs to one shard of the source, which sends its ticks in order, and is
active in about half of all windows, some far more than others. Pages follow Zipf's law.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa

WINDOW, PERIOD = 10, 60
"""Seconds of a window, and of the period in which a user has a number of windows."""
PER_SECOND, SHARDS = 2, 2
TICKS = WINDOW * PER_SECOND
USERS, PAGES, MAX_WINDOWS, SEED = 2_000, 1_000, 2, 1
OF_SHARD = USERS // SHARDS
USER_NAMES = [f"user {number:05d}" for number in range(USERS)]
PAGE_NAMES = [f"/encyclopedia/article/{number:05d}" for number in range(PAGES)]
_SHARES = np.cumsum(1 / np.arange(1, PAGES + 1))
_NAMES = [pa.array(names) for names in (USER_NAMES, PAGE_NAMES)]


class Visit(NamedTuple):
    """A record."""

    user: str
    page: str


class Plan(NamedTuple):
    """A stream.

    Attributes:
      start: of its first window, in seconds; a multiple of the period.
      rates: how many records a second are sent in each window.
    """

    start: int
    rates: tuple[int, ...]

    @property
    def end(self) -> int:
        return self.start + WINDOW * len(self.rates)

    def time_of(self, tick: int) -> float:
        """When a tick is due, in seconds, which is the time of its records too."""
        return self.start + tick / PER_SECOND


def drawn(plan: Plan, shard: int, tick: int) -> np.ndarray:
    """The users and the pages of what a shard sends in a tick: int64 of shape (2, records); none after the end."""
    window = tick // TICKS
    if window >= len(plan.rates):
        return np.zeros((2, 0), dtype=np.int64)
    rate, place, places = plan.rates[window], tick % PER_SECOND * SHARDS + shard, PER_SECOND * SHARDS
    count = (place + 1) * rate // places - place * rate // places
    generator = np.random.default_rng((SEED, shard, tick))
    candidates = active(shard, window)
    users = candidates[(len(candidates) * generator.random(count) ** 2).astype(np.int64)]
    return np.stack([users, np.searchsorted(_SHARES, _SHARES[-1] * generator.random(count))])


@functools.lru_cache(maxsize=2 * SHARDS)
def active(shard: int, window: int) -> np.ndarray:
    """The users of a shard who may have records in a window."""
    half = np.random.default_rng((SEED, shard, window, USERS)).random(OF_SHARD) < 0.5
    return shard * OF_SHARD + np.flatnonzero(half)


def visits(plan: Plan, shard: int, tick: int) -> Iterator[Visit]:
    """What a shard sends in a tick."""
    users, pages = drawn(plan, shard, tick).tolist()
    for user, page in zip(users, pages, strict=True):
        yield Visit(USER_NAMES[user], PAGE_NAMES[page])


def of_window(plan: Plan, window: int) -> np.ndarray:
    """The users and the pages of all that is sent in a window: int64 of shape (2, records)."""
    ticks = range(TICKS * window, TICKS * (window + 1))
    return np.concatenate([drawn(plan, shard, tick) for shard in range(SHARDS) for tick in ticks], axis=1)


def as_table(users_and_pages: np.ndarray) -> pa.Table:
    """Records as columns."""
    columns = (
        pa.DictionaryArray.from_arrays(numbers, names) for numbers, names in zip(users_and_pages, _NAMES, strict=True)
    )
    return pa.table(dict(zip(Visit._fields, columns, strict=True)))


def in_first_windows(plan: Plan) -> Iterator[tuple[int, np.ndarray]]:
    """Each window with those of its records that are in the first windows of their user in the period."""
    seen = np.zeros(USERS, dtype=np.int64)
    for window in range(len(plan.rates)):
        if window * WINDOW % PERIOD == 0:
            seen[:] = 0
        records = of_window(plan, window)
        there = np.bincount(records[0], minlength=USERS) > 0
        kept = there & (seen < MAX_WINDOWS)
        seen += there
        yield window, records[:, kept[records[0]]]
