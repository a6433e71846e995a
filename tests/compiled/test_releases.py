"""Whole releases are the same bytes with kernels and without them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from beam_dpsketch.config import read_release
from beam_dpsketch.frames.releasing import release_table
from beam_dpsketch.privacy.noise.keyed_randomness import KeyedRandomness
from beam_dpsketch.records.bounding import parts
from tests.helpers.frame_cases import CONFIGS, TABLE, bytes_of_frame, counters_of_frame
from tests.helpers.kernels import compiled, numpy_only, uses_kernels

pytestmark = pytest.mark.compiled

ROWS = 3000
VISITS = pa.table(
    {
        "person": [f"p{n * n % 211}" for n in range(ROWS)],
        "page": [f"page {n * n % 17}" for n in range(ROWS)],
        "number": [n * n % 1001 for n in range(ROWS)],
    }
)
COUNTS: dict[str, Any] = {
    "frequencies": {"kind": "frequencies", "item": "page"},
    "quantiles": {"kind": "quantiles", "item": "number", "domain": {"type": "integer", "low": 0, "high": 1000}},
}
UNITS: dict[str, Any] = {
    "single records": "record",
    "records": {"privacy_id": "person", "records": {"max_per_key": 4}},
    "norm": {"privacy_id": "person", "norm": {"max_norm": 2}},
    "chosen norm": {"privacy_id": "person", "norm": "auto"},
}


@pytest.mark.parametrize("name", CONFIGS)
def test_every_kind_of_release(name: str) -> None:
    found = {}
    for block in (numpy_only, compiled):
        with block():
            found[block] = counters_of_frame(name, TABLE), bytes_of_frame(name, TABLE)
    assert found[numpy_only] == found[compiled]


@pytest.fixture
def in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small tables are bounded in parts."""
    monkeypatch.setattr("beam_dpsketch.frames.tables.ROWS", 100)
    monkeypatch.setattr(parts, "BLOCK", 640)


@pytest.mark.usefixtures("in_parts")
@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("count", COUNTS)
def test_releases_of_text_ids_in_parts(count: str, unit: str) -> None:
    declared = read_release({"privacy": {"rho": 0.5}, "unit": UNITS[unit], **COUNTS[count]})
    found = []
    for block in (numpy_only, compiled):
        with block() as kernels:
            secret = KeyedRandomness(bytes(range(32)), b"compiled")
            found.append(release_table(VISITS, declared, secret)[0].to_bytes())
    assert found[0] == found[1]
    assert uses_kernels(kernels)
