"""Sums of many keys are the sums of each key alone, up to the noise of a single release."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from beam_dpsketch import CountSketch, SketchSpec, release_frame
from beam_dpsketch.exact.sums.keyed_sums import GatheredSums
from beam_dpsketch.privacy.summary_counts import least_losses

KEYS, ROWS, MOST = 50, 2000, 2
SPEC = SketchSpec(depth=5, width=32)
COLUMNS = {
    "key": [n * n * n % (KEYS - 1) for n in range(ROWS)],
    "item": [n * n % 97 for n in range(ROWS)],
    "weight": [n * 7 % 40 - 3 for n in range(ROWS)],
    "id": [*range(ROWS)],
}
UNITS: dict[str, Any] = {
    "single records": {"record": {"max_weight": MOST}},
    "records of an id": {"privacy_id": "id", "records": {"max_records": 1, "max_keys": 1, "max_weight": MOST}},
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("pending", [1, 1 << 26], ids=["merged often", "merged once"])
def test_each_key_has_its_own_sums(unit: str, pending: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sigma is at most 1/16: noise changes a rounded number here with a probability below 1e-10."""
    monkeypatch.setattr("beam_dpsketch.frames.steps.sums.GatheredSums", functools.partial(GatheredSums, pending))
    monkeypatch.setattr("beam_dpsketch.frames.steps.tables.ROWS", 300)
    released = release_frame(
        pa.table(COLUMNS),
        {
            "kind": "frequencies",
            "item": "item",
            "weight": "weight",
            "spec": {"depth": SPEC.depth, "width": SPEC.width},
            "privacy": {"rho": 3328, "summary_counts": {"units": "1/26", "weight": "4/26", "clipping": "1/26"}},
            "privacy_unit": UNITS[unit],
            "keys": {"field": "key", "public": [*range(KEYS)]},
        },
    )
    assert [*released] == [*range(KEYS)]
    keys, items, weights = (np.array(COLUMNS[name]) for name in ("key", "item", "weight"))
    for key, each in released.items():
        own = (keys == key) & (weights > 0)
        kept = np.minimum(weights[own], MOST)
        assert np.array_equal(np.round(each.counters), CountSketch(SPEC).accumulate(items[own], kept).counters)
        if unit == "single records":
            assert round(each.records().estimate) == np.count_nonzero(own)
            assert round(each.total_weight().estimate) == kept.sum()
            lost = each.privacy.lost
            bins = np.searchsorted(least_losses(lost.first), weights[own] - kept, side="right")
            assert np.round(lost.counts).tolist() == [
                np.count_nonzero(bins == place) for place in range(1, len(lost.counts) + 1)
            ]
