"""Warn once in a worker's log if an argument finds no usable value in all of many elements.

The warning names the argument, its field and what it must hold, and shows neither a value nor a number. Whether it
appears depends on data: worker logs are for insiders, as docs/limits.md says.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Mapping

from beam_dpsketch.records.columns import Readable, readable_of
from beam_dpsketch.records.selectors import Selectors, describe_argument

MANY = 100
_LOG = logging.getLogger(__name__)


class Unused:
    """The arguments without a usable value in a bundle; costs nothing as soon as one element counts."""

    def __init__(self, selectors: Selectors, items: Mapping[str, Readable] = {}) -> None:
        self._selectors, self._items = selectors, items
        self.start_bundle()

    def start_bundle(self) -> None:
        self.anything_counts = False
        self._dropped = 0
        self._read: set[str] = set()
        self._used: set[str] = set()

    def note_dropped(self, size: int, any_usable: Mapping[str, bool]) -> None:
        """Note elements that all do not count."""
        self._dropped += size
        self._read.update(any_usable)
        self._used.update(argument for argument, usable in any_usable.items() if usable)

    def finish_bundle(self) -> None:
        warn_of_unused(self._selectors, self.arguments, self._items)

    @property
    def arguments(self) -> set[str]:
        """The arguments that gave no usable value, if many elements were dropped and none counts."""
        return self._read - self._used if self._dropped >= MANY and not self.anything_counts else set()


def warn_of_unused(selectors: Selectors, arguments: set[str], items: Mapping[str, Readable]) -> None:
    """Log a warning for each argument, once in a worker process."""
    for argument in sorted(arguments):
        described = describe_argument(argument, selectors.all[argument])
        _warn_once(described, effect(argument, selectors), readable_of(argument, items).description)


def effect(argument: str, selectors: Selectors) -> str:
    """Return in words what becomes of elements without a usable value of an argument."""
    is_one_of_several = len(selectors.items) > 1 and argument in selectors.items
    return "so none counts for this metric" if is_one_of_several else "so all were dropped"


@functools.lru_cache(maxsize=1024)
def _warn_once(argument: str, dropped: str, wanted: str) -> None:
    _LOG.warning(
        "%s: no element of a bundle has a value that can be used, %s; it must hold %s; run "
        ".check(sample) of the transform with some public or made-up elements",
        argument,
        dropped,
        wanted,
    )
