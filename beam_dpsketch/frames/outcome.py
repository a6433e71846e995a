"""What releases of a table come out as: one release, or mappings by window and by key, in an order without data."""

from __future__ import annotations

import datetime
from collections import defaultdict
from typing import Any, NamedTuple

from beam_dpsketch.answers.privacy_statement import Unreleased
from beam_dpsketch.domains.timestamps import from_micros
from beam_dpsketch.engine.run import Place
from beam_dpsketch.frames.steps.plan import plan_of_table
from beam_dpsketch.frames.steps.windows import Windows, windows_of
from beam_dpsketch.hashing.encodings import encode
from beam_dpsketch.records.release_spec import ReleaseSpec


class Window(NamedTuple):
    """When a window opens and closes, in UTC."""

    start: datetime.datetime
    end: datetime.datetime

    @classmethod
    def of(cls, place: Place) -> Window:
        """Return the window of a place."""
        return cls(from_micros(place.start), from_micros(place.end))


def windows_of_table(declared: ReleaseSpec) -> list[Window]:
    """Return all windows that a release of a table has, before its rows are read."""
    return [*map(Window.of, windows_of(declared, plan_of_table(declared)).every)]


class KeyedReleases(dict[Any, Any]):
    """The release of each key; under a horizon, the rows of each.

    Attributes:
      unreleased: what was spent, if the data chose the keys and chose none; else `None`, as each release says it.
    """

    unreleased: Unreleased | None = None


class WindowedReleases(dict[Window, Any]):
    """What is released of each declared window, in the order of time: a release, or with keys a `KeyedReleases`.

    Attributes:
      unreleased: as of `KeyedReleases`, if no key was chosen in any window.
    """

    unreleased: Unreleased | None = None


def in_order(released: dict[Place, Any], declared: ReleaseSpec, windows: Windows) -> Any:
    """Return releases by window and by key: keys as they are listed, else by their bytes.

    The order of records would show one.
    """
    if declared.time is None or declared.horizon is not None:
        return _by_key({place.key: each for place, each in released.items()}, declared)
    by_window: dict[Place, dict[tuple[Any, ...], Any]] = defaultdict(dict)
    for place, each in released.items():
        by_window[place._replace(key=())][place.key] = each
    return WindowedReleases({Window.of(each): _by_key(by_window[each], declared) for each in windows.every})


def _by_key(released: dict[tuple[Any, ...], Any], declared: ReleaseSpec) -> Any:
    if not declared.is_keyed:
        return released[()]
    order = declared.public_keys or sorted((key for (key,) in released), key=encode)
    return KeyedReleases({key: released[key,] for key in order if (key,) in released})
