"""People who vote for keys in two rounds, and who visit them: data, and what decides on each key."""

from __future__ import annotations

import collections
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from apache_beam.transforms.window import TimestampedValue

from beam_dpsketch import PrivacyId, TimeRange
from beam_dpsketch.exact.reading.codec import from_bytes, to_bytes
from beam_dpsketch.privacy.two_rounds import TwoRounds

SECRET, VARIABLE = "00112233445566778899aabbccddeeff" * 2, "TWO_ROUNDS_SECRET"
WINDOWS = TimeRange(0, 240)
REPEATED = "--direct_runner_bundle_repeat=1"


def visits(people: int = 80) -> pd.DataFrame:
    """Each person is in up to 5 of 60 keys, the first ones more often, at some times of four minutes."""
    generator = np.random.default_rng(5)
    people_of = np.repeat(np.arange(people), generator.integers(2, 6, people))
    keys = (60 * generator.random(len(people_of)) ** 2).astype(int)
    times = generator.integers(0, 240, len(people_of))
    return pd.DataFrame({"user": people_of, "key": [f"k{key}" for key in keys], "item": keys % 3, "time": times})


VISITS = visits()


def person(bounds: Any, **others: Any) -> PrivacyId:
    return PrivacyId("user", bounds, **others)


def stamped(row: Any) -> TimestampedValue:
    return TimestampedValue(row, row["time"])


def rounds_of(choice: Any) -> TwoRounds:
    assert choice.rounds is not None
    return choice.rounds


def check_reference(decided: dict[Any, set[Any]], rounds: TwoRounds) -> None:
    noisy = {place.key[0]: row[3] for place, rows in decided.items() for row in rows}
    first, second = collections.Counter[str](), collections.Counter[str]()
    for _, keys in VISITS.groupby("user")["key"].agg(set).items():
        first.update(dict.fromkeys(keys, next(weight for size, weight in rounds.classes if size >= len(keys))))
        left = [key for key in keys if rounds.least <= noisy[key] < rounds.at_once]
        if left:
            second.update(dict.fromkeys(left, math.floor(5 * rounds.grid / math.sqrt(len(left)))))
    assert sum(second.values()) > 0
    assert noisy.keys() == first.keys()
    for place, rows in decided.items():
        assert {(row[0], row[2]) for row in rows} == {(first[place.key[0]], second[place.key[0]])}, "another draw"


def drawn_again(exact: Callable[..., Any], drawn: Any, *others: Any) -> Any:
    """Noisy votes of another draw in the place of those that steered.

    The shift is wider than the range of noisy votes with a second vote. Every key leaves it, so the fault is found.
    """
    table = from_bytes(drawn[0])
    noise = table["noisy"].to_numpy() + 10_000 * (1 - 2 * (np.arange(len(table)) % 2))
    return exact((to_bytes(table.drop_columns(["noisy"]).append_column("noisy", pa.array(noise))), drawn[1]), *others)
