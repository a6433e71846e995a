"""The number of privacy units, by brute force over small tables: exact if and only if its clipping cannot happen."""

from __future__ import annotations

import itertools
from typing import Any

import pyarrow as pa
import pytest

from beam_dpsketch import release_frame
from beam_dpsketch.answers.questions.ask import Ask
from tests.helpers.side_releases import no_noise

KEYS, ITEMS = ["a", "b", "c"], ["0", "1", "2", "3", "4"]
WHOLE = {"item": "n", "domain": {"type": "integer", "low": 0, "high": 9}}
KINDS: dict[str, dict[str, Any]] = {
    "sketch": {"kind": "frequencies", "item": "text"},
    "listed": {"kind": "frequencies", "item": "text", "listed_items": ITEMS},
    "quantiles": {"kind": "quantiles", **WHOLE},
    "statistics": {"kind": "statistics", **WHOLE},
    "top_k": {"kind": "top_k", "k": 2, **WHOLE},
    "metrics": {"kind": "metrics", "metrics": [{"name": "mean", "kind": "statistics", **WHOLE}]},
}
OF_A_KEY = "privacy id counts in up to 2 keys."
UNITS: list[tuple[Any, str, str]] = [
    ("record", "", ""),
    ({"records": {"max_records": 2}}, "", "not with keys"),
    ({"records": {"max_records": 2, "max_keys": 2}}, "only with keys", OF_A_KEY),
    ({"norm": {"max_norm": 1}}, "", "in more than 1 key or window counts for less than 1 in each."),
    ({"norm": {"max_norm": 2}}, "", ""),
    ({"norm": {"max_norm": 2, "norm": "l1"}}, "", "in more than 2 keys and windows together counts for less than 1"),
    ({"norm": {"max_norm": 2, "max_distinct_items": 1}}, "", "with more than 1 item it may not count in all."),
]
CASES = [(unit, limits[with_keys], with_keys) for unit, *limits in UNITS for with_keys in (False, True)]
SUPPORTED = [case for case in CASES if not case[1].endswith("with keys")]


def table_of(many: tuple[int, ...]) -> pa.Table:
    """A table in which a person has these numbers of records for each key."""
    rows = [(1, key, n, str(n)) for key, of_key in zip(KEYS, many, strict=True) for n in range(of_key)]
    names, types = ("person", "key", "n", "text"), (pa.int64(), pa.string(), pa.int64(), pa.string())
    columns = zip(*rows, strict=True) if rows else [()] * 4
    return pa.table({name: pa.array(each, kind) for name, each, kind in zip(names, columns, types, strict=True)})


@pytest.mark.usefixtures(no_noise.__name__)
@pytest.mark.parametrize(("unit", "limit", "with_keys"), SUPPORTED, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_the_clipping_is_that_of_units(kind: str, unit: Any, limit: str, with_keys: bool) -> None:
    settings = KINDS[kind] | {"privacy": {"epsilon": 1, "delta": 1e-6}, "privacy_unit": unit}
    if unit != "record":
        settings["privacy_unit"] = {"privacy_id": "person", **unit}
    if with_keys:
        settings["keys"] = {"public": KEYS, "field": "key"}
    is_exact = True
    for many in itertools.product((0, 1, 5), repeat=3):
        found: Any = release_frame(table_of(many), settings)
        numbers = [found[key].privacy_units() for key in KEYS] if with_keys else [found.privacy_units()]
        expected = many if with_keys else (sum(many),)
        if unit != "record":
            expected = tuple(min(each, 1) for each in expected)
        is_exact &= [each.estimate for each in numbers] == pytest.approx(expected, abs=0.01)
        answered = Ask("privacy_units").answer(found["a"] if with_keys else found)
        for clipping in (numbers[0].clipping, answered.clipping):
            assert clipping is not None
            assert clipping.can_happen == bool(limit)
            assert limit in clipping.sentence
    assert is_exact != bool(limit)
