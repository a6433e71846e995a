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


# `-m` is argv[0] while Python imports the package of a module, which may be the package of another program.
is_module = sys.argv[0] == "-m" and sys.orig_argv[-len(sys.argv)] == __package__
is_command = is_module or os.path.basename(sys.argv[0]) in ("dpsketch", "dpsketch.exe")
if is_command and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, stop)
