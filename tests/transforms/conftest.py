from __future__ import annotations

import pytest

from tests.helpers.pipelines import REPOSITORY


@pytest.fixture
def importable_in_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets worker processes import these tests."""
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
