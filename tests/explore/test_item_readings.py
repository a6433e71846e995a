"""What programs in other languages are given of releases that answer about items."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from beam_dpsketch import CountMin, CountSketch, ListedItems, PrivacySpec, ReleaseTerms, SketchSpec, release
from beam_dpsketch.answers.released import Released
from beam_dpsketch.exact.hashing.cells import columns_and_signs
from beam_dpsketch.exact.sketches.listed_items import ListedHistogram
from beam_dpsketch.explore.content import encoded
from tests.helpers import by_hand, golden, item_cases

SPEC = SketchSpec(depth=3, width=50, seed=8)


def parts_of(value: Any) -> Iterator[Any]:
    """All that a reading holds, however deep."""
    if isinstance(value, dict):
        yield from (part for each in value.values() for part in parts_of(each))
    elif isinstance(value, list):
        yield from (part for each in value for part in parts_of(each))
    else:
        yield value


def test_readings_hold_plain_values_and_four_types_of_numbers() -> None:
    readings = [each.reading for each in item_cases.releases()]
    assert {reading["type"] for reading in readings} == {"flat", "listed", "groups"}
    for part in parts_of(readings):
        if isinstance(part, np.ndarray):
            assert part.dtype.name in ("float64", "int64", "uint64", "int32")
        else:
            assert type(part) in (str, int, float, bool, type(None))
    json.dumps(encoded(readings), allow_nan=False)


@pytest.mark.parametrize(("name", "released"), golden.good().items())
def test_what_is_read_follows_from_the_bytes_of_a_release(name: str, released: Released) -> None:
    again = Released.from_bytes(released.to_bytes())
    assert encoded(again.reading(0.9)) == encoded(released.reading(0.9))


def test_exact_counters_of_no_release_are_read() -> None:
    """Only noisy numbers are in a reading: what it calls counters and estimates are those that the file holds."""
    words = ["Oslo"] * 900 + ["Rome"]
    raws = (
        CountSketch(SPEC),
        CountMin(SketchSpec(kind="count_min", depth=3, width=50)),
        ListedHistogram(ListedItems(["Oslo", "Rome"])),
    )
    for raw in raws:
        released = release(raw.accumulate(words), ReleaseTerms(PrivacySpec(rho=0.1)))
        reading = released.reading(0.95)
        numbers = reading["counters" if "counters" in reading else "estimates"]
        centres = np.median(released.counters, axis=1, keepdims=True) if isinstance(raw, CountMin) else 0
        assert numbers.tolist() == np.reshape(released.counters - centres, numbers.shape).tolist()
        arrays = {name: each.size for name, each in reading.items() if isinstance(each, np.ndarray)}
        assert sum(size for name, size in arrays.items() if name != "row_keys") == (released.counters.size)


def test_rows_of_a_sketch_can_be_read_from_their_keys() -> None:
    """A cell is where the mixed fingerprint, by the two keys of its row, falls; here in integers without end."""
    reading = by_hand.without_noise(CountSketch(SPEC)).reading(0.95)
    fingerprints = np.array([0, 1, 12345, (1 << 64) - 1], dtype=np.uint64)
    for row, keys in enumerate(reading["row_keys"].tolist()):
        columns, signs = columns_and_signs(fingerprints, seed=SPEC.seed, row=row, width=SPEC.width)
        mixed = [_mix(int(each), *keys) for each in fingerprints]
        assert [(each >> 32) * SPEC.width >> 32 for each in mixed] == columns.tolist()
        assert [1 if each & 1 else -1 for each in mixed] == signs.tolist()


def _mix(fingerprint: int, first: int, second: int) -> int:
    word = (fingerprint * 0x9E3779B97F4A7C15 + first) % (1 << 64)
    word = (_avalanche(word) + second) % (1 << 64)
    return _avalanche(word)


def _avalanche(word: int) -> int:
    """The finaliser of SplitMix64."""
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9 % (1 << 64)
    word = (word ^ (word >> 27)) * 0x94D049BB133111EB % (1 << 64)
    return word ^ (word >> 31)


def test_a_flat_sketch_is_read_with_its_own_hash_and_no_items() -> None:
    keyed = CountMin(SketchSpec(kind="count_min", depth=3, width=50, item_hash="blake2b", item_key=item_cases.KEY))
    reading = by_hand.without_noise(keyed.accumulate(["a secret name"])).reading(0.95)
    assert (reading["item_hash"], reading["item_key"]) == ("blake2b", item_cases.KEY.hex())
    assert "secret" not in str(reading)
    assert not reading["has_signs"]
    assert min(reading["below"], reading["above"], reading["scale"]) > 0


def test_margins_are_those_of_the_confidence() -> None:
    for name in ("count_min", "count_sketch_int16", "listed_items", "groups_text"):
        released = golden.good()[name]
        narrow, wide = (released.reading(confidence) for confidence in (0.5, 0.99))
        margins = [each for each in ("margin", "below", "above") if narrow.get(each)]
        assert margins
        assert all(narrow[each] < wide[each] for each in margins)
        with pytest.raises(ValueError, match="confidence"):
            released.reading(1.0)


def test_items_of_one_spelling_keep_their_types() -> None:
    raw = ListedHistogram(ListedItems(["1", 1, b"1", ("1", 1)])).accumulate([1])
    reading = release(raw, ReleaseTerms(PrivacySpec(rho=1))).reading(0.95)
    assert [*zip(reading["items"], reading["item_types"], strict=True)] == [
        ("1", "text"),
        ("1", "int"),
        ("0x31", "bytes"),
        ("(1, 1)", "tuple"),
    ]


def test_of_what_is_not_released_only_the_limit_is_read() -> None:
    readings = {each.name: each.reading for each in item_cases.releases()}
    reading, both = (readings[f"groups of text up to 4 bytes{more}"] for more in ("", ", combined"))
    assert len(reading["items"]) == len(reading["keys"]) == len(reading["estimates"])
    assert reading["most_unreleased"] == 12 + reading["margin"]
    assert both["most_unreleased"] is None
