"""The message of each wrong settings file; `python -m tests.config.snapshots` writes them anew."""

from __future__ import annotations

from pathlib import Path

from beam_dpsketch.config import ConfigError, read_release

FOLDER = Path(__file__).parent
FILES = sorted((FOLDER / "wrong").glob("*.yaml"))
SNAPSHOTS = FOLDER / "messages.txt"


def message(settings: str) -> str:
    """Return what is said about wrong settings, nothing if they can be used."""
    try:
        read_release(settings)
    except ConfigError as error:
        return str(error)
    return ""


def snapshots() -> str:
    """Return the name and the message of each file, with a line between them."""
    return "\n".join(f"{file.stem}\n  {message(file.read_text(encoding='utf-8'))}\n" for file in FILES)


if __name__ == "__main__":
    SNAPSHOTS.write_text(snapshots(), encoding="utf-8")
