from __future__ import annotations

from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture
def importable_in_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets worker processes import these tests."""
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
