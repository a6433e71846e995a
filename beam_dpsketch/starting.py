"""Ctrl-C handler during imports by the command `dpsketch`: one line instead of a traceback."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any


def stop(*_: Any) -> None:
    """Exit at once."""
    os.write(2, b"dpsketch: interrupted before anything was read or spent\n")
    os._exit(1)


# `-m` is argv[0] while Python imports the package for `python -m beam_dpsketch`.
is_command = os.path.basename(sys.argv[0]) in ("dpsketch", "dpsketch.exe", "-m")
if is_command and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, stop)
