"""Servers on this machine: free ports, and processes that are watched while they start."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

PATIENCE = 300.0
BUSY = f"import os\nwhile os.getppid() == {os.getpid()}: pass"  # ends with its parent, however that ends


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("localhost", 0))
        return int(free.getsockname()[1])


@contextlib.contextmanager
def running(command: Sequence[str], log: Path, **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    """A process, its output in a file; killed at the end."""
    with log.open("w") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, **options)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@contextlib.contextmanager
def busy(processes: int) -> Iterator[None]:
    """Run this number of busy processes while the block lasts."""
    with contextlib.ExitStack() as started:
        for _ in range(processes):
            started.enter_context(running([sys.executable, "-c", BUSY], Path(os.devnull)))
        yield


def wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    """Waits until something listens."""

    def listens() -> bool:
        assert process.poll() is None, log.read_text()
        with socket.socket() as client:
            return client.connect_ex(("localhost", port)) == 0

    wait_until(listens)


def wait_until(happened: Callable[[], object], patience: float = PATIENCE) -> None:
    """Waits until a condition holds."""
    deadline = time.monotonic() + patience
    while not happened():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{happened} for {patience:g} seconds")
        time.sleep(0.1)
