"""Settings and fixtures of all tests."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings

# A busy machine is not a failure.
settings.register_profile("project", deadline=None)
settings.load_profile("project")

collect_ignore = ["typed_user.py"]  # for mypy: some of its lines are wrong on purpose


@pytest.fixture
def importable_in_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets worker processes import these tests."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))
