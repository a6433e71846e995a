"""A large table is bounded in parts by privacy id, which changes nothing that is released."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from beam_dpsketch.config import read_release
from beam_dpsketch.exact.bounding import parts
from beam_dpsketch.frames.releasing import release_table
from beam_dpsketch.privacy.noise.keyed_randomness import KeyedRandomness

ROWS = 3000
TABLE = pa.table(
    {
        "person": [f"p{n * n % 211}" for n in range(ROWS)],
        "page": [n * n % 17 for n in range(ROWS)],
        "city": [f"c{n % 3}" for n in range(ROWS)],
    }
)
UNITS: dict[str, Any] = {
    "records": {"records": {"max_records": 4}},
    "norm": {"norm": {"max_norm": 2}},
    "auto": {"norm": "auto"},
}
KINDS: dict[str, Any] = {
    "one": {"kind": "frequencies"},
    "keys": {"kind": "frequencies", "keys": {"field": "city", "public": ["c0", "c1", "c9"]}},
    "groups": {
        "kind": "top_k",
        "k": 3,
        "domain": {"type": "integer", "low": 0, "high": 20},
        "method": {"threshold": {"delta": 1e-8}},
    },
}


def released(kind: str, privacy_unit: str) -> Any:
    whom = {"privacy_id": "person", **UNITS[privacy_unit]}
    if kind == "groups" and privacy_unit == "norm":
        whom = {"privacy_id": "person", "norm": {"max_norm": 2, "max_keys": 9}}
    if kind != "one" and privacy_unit == "records":
        whom = {"privacy_id": "person", "records": {"max_records": 4, "max_keys": 1}}
    settings = {"item": "page", "privacy": {"rho": 0.5, "delta": 1e-6}, "privacy_unit": whom, **KINDS[kind]}
    found, _ = release_table(TABLE, read_release(settings), KeyedRandomness(bytes(range(32)), b"parts"))
    return {key: each.to_bytes() for key, each in found.items()} if kind == "keys" else found.to_bytes()


CASES = [case for case in itertools.product(KINDS, UNITS) if case not in (("groups", "auto"), ("keys", "auto"))]


@pytest.mark.one_fast_case
@pytest.mark.parametrize(("kind", "privacy_unit"), CASES)
def test_parts_change_nothing(kind: str, privacy_unit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = released(kind, privacy_unit)
    monkeypatch.setattr("beam_dpsketch.frames.steps.tables.ROWS", 100)
    monkeypatch.setattr(parts, "BLOCK", 640)
    assert released(kind, privacy_unit) == expected


@pytest.mark.one_fast_case
@pytest.mark.parametrize(("kind", "privacy_unit"), CASES)
def test_a_privacy_id_in_two_parts_is_found(kind: str, privacy_unit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = released(kind, privacy_unit)
    monkeypatch.setattr("beam_dpsketch.frames.steps.tables.ROWS", 100)
    monkeypatch.setattr(parts, "BLOCK", 640)
    monkeypatch.setattr(parts, "shard_hash", lambda units: np.arange(len(units), dtype=np.uint64) << np.uint64(58))
    assert released(kind, privacy_unit) != expected
