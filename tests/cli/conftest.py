"""A folder with the files that the pages speak of."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.consoles import make_folder


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder, which the commands run in."""
    make_folder(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path
