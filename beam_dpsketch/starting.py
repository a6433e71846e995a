"""Ctrl-C while the command `dpsketch` imports the package: one line, in place of a traceback of imports."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any


def stop(*_: Any) -> None:
    """End the process at once."""
    os.write(2, b"dpsketch: interrupted before anything was read or spent\n")
    os._exit(1)


# Python itself puts -m there while it imports what `python -m beam_dpsketch` is in.
is_command = os.path.basename(sys.argv[0]) in ("dpsketch", "dpsketch.exe", "-m")
if is_command and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, stop)
