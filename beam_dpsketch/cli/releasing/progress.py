"""How much of a long input is read, in per cent, on stderr.

Guarantee: the per cent say how far reading is in the files, and nothing about what is in them.
"""

from __future__ import annotations

import time

from beam_dpsketch.cli.faults import note

_QUIET_SECONDS, _STEP = 5.0, 10


class Progress:
    """Says every ten per cent, from five seconds on."""

    def __init__(self) -> None:
        self._start, self._said = time.monotonic(), 0

    def __call__(self, share: float) -> None:
        """Take the share of the input that is read, 0 to 1."""
        step = int(share * 100) // _STEP * _STEP
        if step > self._said and time.monotonic() - self._start > _QUIET_SECONDS:
            self._said = step
            note(f"read {step} % of the input")
