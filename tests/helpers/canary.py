"""A canary: code and a file that no request may reach. It says if it was unpickled, called, imported or opened."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from apache_beam.coders import coders
from apache_beam.internal import pickler
from google.protobuf.wrappers_pb2 import BytesValue

NAME = f"{__name__}.sing"
SECRET = "the text of the canary"

_watched: list[str] = []
_heard: list[str] = []


def sing(*_arguments: Any, **_settings: Any) -> None:
    """Say that this was called."""
    _heard.append("called")


class Canary:
    """What sings when it is unpickled."""

    def __reduce__(self) -> Any:
        return sing, ()


ID = pickler.dumps(Canary()).decode()
"""A pickle as Beam reads it from an id of a coder."""

PAYLOAD = BytesValue(value=pickler.dumps(Canary())).SerializeToString()
CODER = BytesValue(value=coders.serialize_coder(Canary())).SerializeToString()
SOURCE = f"__import__({__name__!r}, fromlist=['x']).sing() or len"
"""Python that sings when it is evaluated."""


def canary_file(folder: Path) -> Path:
    """A file that only its owner reads."""
    path = folder / "canary.txt"
    path.write_text(SECRET)
    path.chmod(0o600)
    return path


@contextmanager
def listening(path: Path) -> Iterator[list[str]]:
    """Yield what is heard while the block runs: names of events of Python, and calls."""
    _heard.clear()
    _watched[:] = [str(path), __name__]
    try:
        yield _heard
    finally:
        _watched.clear()


def _hear(event: str, arguments: Any) -> None:
    if _watched and event in ("open", "import", "pickle.find_class", "os.listdir", "os.scandir", "subprocess.Popen"):
        said = str(arguments)
        if any(each in said for each in _watched):
            _heard.append(event)


sys.addaudithook(_hear)
