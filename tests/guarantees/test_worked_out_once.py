"""Noise and choice of keys are worked out once for the terms of a transform, while its pipeline is built."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pytest

from beam_dpsketch import (
    Horizon,
    KeySelection,
    NormBound,
    PrivacyId,
    PrivacySpec,
    PublicKeys,
    RecordBounds,
    SketchSpec,
    TextDomain,
    Thresholding,
    release_frame,
)
from beam_dpsketch.config import read_release
from beam_dpsketch.noise.calibration import counter_tables
from beam_dpsketch.noise.counting import Counting
from beam_dpsketch.noise.keys import choose_keys
from beam_dpsketch.rows.base import private_transform
from beam_dpsketch.transforms import PrivateFrequencies, PrivateTopK
from tests.config.examples import RELEASES
from tests.helpers.pipelines import run

WORK = {function.__code__: function.__name__ for function in (counter_tables, choose_keys, Counting.of.__func__)}  # type: ignore[attr-defined]
SPEC, PRIVACY = SketchSpec(depth=3, width=16), PrivacySpec(epsilon=2, delta=1e-6)
PEOPLE, IN_KEYS = PrivacyId("person", RecordBounds(1)), PrivacyId("person", RecordBounds(1, max_keys=1))
ROWS = [{"person": f"p{n}", "city": ["Oslo", "Rome"][n % 2]} for n in range(200)]
TRANSFORMS: dict[str, Any] = {
    "one release": lambda: PrivateFrequencies(SPEC, PRIVACY, privacy_unit=PEOPLE, item="city"),
    "listed keys": lambda: PrivateFrequencies(
        SPEC, PRIVACY, privacy_unit=IN_KEYS, item="city", keys=PublicKeys(["Oslo"], "city")
    ),
    "chosen keys": lambda: PrivateFrequencies(
        SPEC, PRIVACY, privacy_unit=IN_KEYS, item="city", keys=KeySelection(1e-7, "city")
    ),
    "groups": lambda: PrivateTopK(
        TextDomain(4), PRIVACY, k=2, privacy_unit=IN_KEYS, item="city", method=Thresholding(1e-7)
    ),
    "rows": lambda: PrivateFrequencies(
        SPEC, PRIVACY, privacy_unit=PrivacyId("person", NormBound(2)), item="city", windows=Horizon(0, 60, 4)
    ),
}


class Worked:
    """How often each piece of work was done, for each set of terms, in all threads."""

    def __init__(self) -> None:
        self.times: Counter[tuple[str, str]] = Counter()

    def __call__(self, frame: Any, event: str, argument: Any) -> None:
        if event == "call" and frame.f_code in WORK:
            given = frame.f_locals
            terms = (given["terms"] if "terms" in given else given["declared"]).without_budget()
            self.times[WORK[frame.f_code], repr(terms)] += 1


@pytest.fixture
def worked() -> Iterator[Worked]:
    found = Worked()
    threading.setprofile(found)
    sys.setprofile(found)
    yield found
    sys.setprofile(None)
    threading.setprofile(None)  # type: ignore[arg-type]


@pytest.mark.one_fast_case
@pytest.mark.pipeline
@pytest.mark.parametrize("name", TRANSFORMS)
def test_one_pipeline_works_out_each_set_of_terms_once(name: str, worked: Worked) -> None:
    assert run(ROWS, beam.Map(lambda row: beam.window.TimestampedValue(row, 1)) | TRANSFORMS[name]())
    assert worked.times
    assert set(worked.times.values()) == {1}


def test_a_table_works_out_each_set_of_terms_once(worked: Worked) -> None:
    privacy_unit = {"privacy_id": "person", "norm": {"max_norm": 1}}
    settings = {"kind": "frequencies", "item": "city", "privacy": {"rho": 1}, "privacy_unit": privacy_unit}
    release_frame(pa.Table.from_pylist(ROWS), settings)
    assert worked.times
    assert set(worked.times.values()) == {1}


def test_a_transform_works_out_nothing_that_its_settings_did(worked: Worked) -> None:
    declared = read_release(RELEASES[0])
    done = Counter(worked.times)
    assert private_transform(declared)._declared is declared
    assert worked.times == done


def test_work_that_is_done_again_would_be_found(worked: Worked) -> None:
    declared = TRANSFORMS["listed keys"]()._declared
    counter_tables(declared.spec, declared.terms)
    assert max(worked.times.values()) == 2
