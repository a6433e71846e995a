"""`PrivateStatistics` as its users see it: every kind of element, keys, windows, a horizon, files and refusals."""

from __future__ import annotations

import re
from typing import Any

import pytest

from beam_dpsketch import (
    ArgumentError,
    AssumePublicKeys,
    IntegerDomain,
    KeySelection,
    PrivacyId,
    PrivacySpec,
    PublicKeys,
    Record,
    RecordBounds,
    ReleasedStatistics,
)
from beam_dpsketch.transforms import PrivateStatistics
from tests.helpers.noise import without_noise
from tests.helpers.pipelines import run

PRIVACY, DELAYS = PrivacySpec(rho=1.0, side_counters=None), IntegerDomain(-60, 195)
CARRIERS = ["AA", "AA", "BB", "BB", "AA", "CC", "AA", "BB"]
MINUTES = [-60, 0, 7, 5000, -5000, 1, 0, None]
ROWS = [
    {"carrier": carrier, "delay": delay, "tail": f"N{number % 5}"}
    for number, (carrier, delay) in enumerate(zip(CARRIERS, MINUTES, strict=True))
]
UNITS = {"record": Record(), "privacy id": PrivacyId("tail", RecordBounds(50, max_keys=3))}


def of(keys: Any = None, unit: Any = UNITS["record"], **more: Any) -> PrivateStatistics[Any]:
    return PrivateStatistics(DELAYS, PRIVACY, unit=unit, item="delay", variance=True, keys=keys, **more)


def told(released: ReleasedStatistics) -> tuple[float, ...]:
    return released.count().estimate, released.total().estimate, released.mean().estimate or 0.0


@pytest.mark.parametrize(
    "keys", [PublicKeys(["AA", "BB"], "carrier"), AssumePublicKeys("carrier"), KeySelection(1e-8, "carrier")]
)
def test_each_key_has_its_answers(keys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of two keys has 40 units, more than selection needs: it is left out with a probability below 1e-9."""
    without_noise(monkeypatch)
    spent = PrivacySpec(rho=50, side_counters=None)
    rows = [{"carrier": ["AA", "BB"][n % 2], "delay": n % 50, "tail": f"N{n}"} for n in range(400)]
    unit = PrivacyId("tail", RecordBounds(1, max_keys=1))
    found = dict(run(rows, PrivateStatistics(DELAYS, spent, unit=unit, item="delay", keys=keys)))
    assert {key: told(each) for key, each in found.items()} == {
        "AA": pytest.approx((200, 4800, 24)),
        "BB": pytest.approx((200, 5000, 25)),
    }


def test_what_is_said_before_the_data_are_read() -> None:
    words = of().explain(1000)
    assert re.search(
        r"^statistics: count, sum and squares of whole numbers -60 to 195; nothing collides\.$", words, re.M
    )
    assert re.search(r"^Means of 1,000 records: 95 % intervals of about \+- [\d.]+, and \+- [\d.]+ near", words, re.M)
    shown = {"counters": 4, "domain": "whole numbers -60 to 195", "variance": True}
    assert shown.items() <= of().display_data().items()
    with pytest.raises(ArgumentError, match=r"item='delay' is 'late' \(str\).* \[dpsketch-E612\]"):
        of().check([{"delay": "late"}])


def test_a_variance_that_was_not_asked_for_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    (released,) = run(ROWS, PrivateStatistics(DELAYS, PRIVACY, unit=Record(), item="delay"))
    for ask in (released.variance, released.std):
        with pytest.raises(ArgumentError, match=r"variance was not asked for in this release: .* \[dpsketch-E722\]"):
            ask()
