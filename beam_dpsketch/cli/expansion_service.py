"""`dpsketch expansion-service`: row transforms for pipelines in Java and Go."""

from __future__ import annotations

import argparse
import signal
import sys
import threading
from types import FrameType

from beam_dpsketch.cli.text import DONE, in_words_of, note, read_whole, write
from beam_dpsketch.errors import ConfigError, UsageError

_MAX_PORT = 65_535
_LOCAL = ("localhost", "127.0.0.1", "::1")


def declare_expansion_service(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "--port",
        type=read_whole(0, _MAX_PORT, f"a port from 0 to {_MAX_PORT}"),
        default=8097,
        help="the port to listen on; 0 chooses a free port (8097)",
    )
    parser.add_argument(
        "--host", default="localhost", help="the address to listen on (localhost: from this machine only)"
    )
    parser.add_argument(
        "--worker",
        choices=("loopback", "docker"),
        default="loopback",
        help="where the Python steps run: in this process, or in containers of --image (loopback)",
    )
    parser.add_argument("--image", help="the container image of the workers")


def serve(arguments: argparse.Namespace) -> int:
    """Run `dpsketch expansion-service`."""
    if (arguments.worker == "docker") != (arguments.image is not None):
        raise UsageError("--worker docker requires --image IMAGE, and --image requires --worker docker")
    from beam_dpsketch.rows import expansion

    with in_words_of(UsageError, ConfigError):
        service = expansion.serve(arguments.host, arguments.port, arguments.image)
    stopped = threading.Event()

    def stop(_signal: int, _frame: FrameType | None) -> None:
        stopped.set()

    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, stop)
    if arguments.host not in _LOCAL:
        note(
            "the service requires no password. Anyone who reaches this port can use it"
            f"{'' if arguments.image else ', and can run any code in this process'}. Restrict access to the port"
        )
    write(sys.stdout, f"listening on {service.address}\n")
    stopped.wait()
    service.stop()
    return DONE
