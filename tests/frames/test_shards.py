"""A large table is bounded in shards by privacy id, which changes nothing that is released."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from beam_dpsketch.config import read_release
from beam_dpsketch.frames import sums
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
    "records": {"records": {"max_per_key": 4}},
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
        "method": {"groups": {"delta": 1e-8}},
    },
}


def released(kind: str, unit: str) -> Any:
    whom = {"privacy_id": "person", **UNITS[unit]}
    if kind == "groups" and unit == "norm":
        whom = {"privacy_id": "person", "norm": {"max_norm": 2, "max_keys": 9}}
    settings = {"item": "page", "privacy": {"rho": 0.5, "delta": 1e-6}, "unit": whom, **KINDS[kind]}
    found, _ = release_table(TABLE, read_release(settings), KeyedRandomness(bytes(range(32)), b"shards"))
    return {key: each.to_bytes() for key, each in found.items()} if kind == "keys" else found.to_bytes()


CASES = [case for case in itertools.product(KINDS, UNITS) if case not in (("groups", "auto"), ("keys", "auto"))]


@pytest.mark.one_fast_case
@pytest.mark.parametrize(("kind", "unit"), CASES)
def test_shards_change_nothing(kind: str, unit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = released(kind, unit)
    monkeypatch.setattr("beam_dpsketch.frames.tables.ROWS", 100)
    monkeypatch.setattr(sums, "BLOCK", 640)
    assert released(kind, unit) == expected


@pytest.mark.one_fast_case
@pytest.mark.parametrize(("kind", "unit"), CASES)
def test_a_privacy_id_in_two_shards_is_found(kind: str, unit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = released(kind, unit)
    monkeypatch.setattr("beam_dpsketch.frames.tables.ROWS", 100)
    monkeypatch.setattr(sums, "BLOCK", 640)
    monkeypatch.setattr(sums, "shard_hash", lambda units: np.arange(len(units), dtype=np.uint64))
    assert released(kind, unit) != expected


def test_large_tables_have_shards_and_drop_what_never_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sums, "BLOCK", 640)

    class Rule:
        def prune(self, table: pa.Table) -> pa.Table:
            return table.slice(0, 3)

    units = pa.chunked_array([pa.array([1] * 100, pa.int64())])
    tables = [pa.table({"unit": units}) for _ in range(20)]
    found = sums.into_shards(Rule(), tables)  # type: ignore[arg-type]
    assert len(found) == sums.SHARDS
    assert 3 <= sum(map(len, found)) < 700  # of 2,000: pruned each time a shard has grown
    assert [len(each) for each in sums.into_shards(Rule(), tables[:2])] == [200]  # type: ignore[arg-type]
