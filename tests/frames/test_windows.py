"""Windows of a table are those of a pipeline: exact counters, and under one secret the same releases, byte for byte."""

from __future__ import annotations

from typing import Any

import pytest

from tests.helpers.frame_cases import exact_of_frame
from tests.helpers.window_cases import CONFIGS, TABLE, bytes_of_frame, of_pipeline

COUNTED = [name for name in CONFIGS if CONFIGS[name].horizon is None]


@pytest.fixture(scope="module")
def piped() -> tuple[dict[str, Any], dict[str, Any]]:
    """What a pipeline makes of the table."""
    return of_pipeline([*CONFIGS], COUNTED)


@pytest.mark.pipeline
@pytest.mark.parametrize("name", CONFIGS)
def test_counters_and_releases_are_those_of_a_pipeline(name: str, piped: Any) -> None:
    if name in piped[0]:
        assert exact_of_frame(CONFIGS[name], name, TABLE) == piped[0][name]
    assert bytes_of_frame(name) == piped[1][name]
