"""One warning in a worker's log where an argument finds nothing that counts, in many elements and in no other.

The warning names the argument and its field, no value and no number. That it is there depends on data: logs of workers
are for those inside, as the README says.
"""

from __future__ import annotations

import functools
import logging

from beam_dpsketch.records.selectors import Selectors, argument_words

MANY = 100
_LOG = logging.getLogger(__name__)


class Unused:
    """What no element of a bundle has a usable value of; costs nothing as soon as one element counts.

    Attributes:
      anything_counts: whether an element of the bundle counts.
    """

    def __init__(self, elements: Selectors) -> None:
        self._elements = elements
        self.start_bundle()

    def start_bundle(self) -> None:
        """Forgets the bundle before."""
        self.anything_counts = False
        self._dropped = 0
        self._read: set[str] = set()
        self._used: set[str] = set()

    def dropped(self, size: int, **any_usable: bool) -> None:
        """Notes elements none of which counts.

        Args:
          size: how many.
          any_usable: for each argument that was read, whether one of them has a usable value.
        """
        self._dropped += size
        self._read.update(any_usable)
        self._used.update(argument for argument, usable in any_usable.items() if usable)

    def finish_bundle(self) -> None:
        """Warns of what no element had."""
        if self._dropped >= MANY and not self.anything_counts:
            warn_of_unused(self._elements, self._read - self._used)


def warn_of_unused(elements: Selectors, arguments: set[str]) -> None:
    """Logs a warning for each argument, once in a worker process."""
    for argument in sorted(arguments):
        _warn_once(argument_words(argument, getattr(elements, argument)))


@functools.lru_cache(maxsize=1024)
def _warn_once(argument: str) -> None:
    _LOG.warning(
        "%s: no element of a bundle has a value that can be used, so all were dropped; run .check(sample) of the "
        "transform with some public or made-up elements",
        argument,
    )
