"""What plans and checks say of bounds, windows and noise is what the statement of the release says."""

from __future__ import annotations

import math
import re
import secrets
from typing import Any

import numpy as np
import pytest

from beam_dpsketch import PrivacyStatement, SketchTimeline
from beam_dpsketch.answers.batch import answers_of
from beam_dpsketch.cli.planning import in_words
from beam_dpsketch.config import read_release
from beam_dpsketch.exact.declared.release_spec import ReleaseSpec
from beam_dpsketch.exact.sketches import raw_type
from beam_dpsketch.noise.noising import Part, release_parts
from beam_dpsketch.planning import plan as planning
from beam_dpsketch.planning.plan import noise_of_answers
from beam_dpsketch.statement.release_id import part_name
from tests.helpers.timeline_rows import released_rows

PERIOD = {"max_windows": 2, "period": "1d"}
RECORDS = {"records": {"max_records": 3}}
MANY = {"records": {"max_records": 3, "max_keys": 2, "max_weight": 5, "signed": True}}
NORM = {"norm": {"max_norm": 3}}
FULL_NORM = {"norm": {"max_norm": "5/2", "max_weight": 7, "max_per_item": 2, "max_distinct_items": 9}}
WINDOWS = {"windows": {"start": "2024-01-01", "end": "2024-01-03"}}
HORIZON = {"horizon": {"start": "2024-01-01", "window_size": "1h", "windows": 10}}
KEYS = {"keys": {"field": "k", "public": ["x", "y"]}}
UNITS: dict[str, dict[str, Any]] = {
    "records": RECORDS,
    "records of keys": {**MANY},
    "max_windows": {**RECORDS, "max_windows": 2},
    "max_windows of keys": {**MANY, "max_windows": 2},
    "period": {**MANY, **PERIOD},
    "norm": NORM,
    "all of a norm": FULL_NORM,
    "norm of windows": {**FULL_NORM, **PERIOD},
    "norm of a period": {**NORM, "period": "1d"},
}
PLACES: dict[str, dict[str, Any]] = {"": {}, "in windows": WINDOWS, "over time": HORIZON}
CASES = [
    (privacy_unit, place)
    for privacy_unit, settings in UNITS.items()
    for place in PLACES
    if place != "over time" or ("period" not in settings and ("max_windows" in settings or "norm" in settings))
]


def config_of(privacy_unit: dict[str, Any], place: dict[str, Any], **others: Any) -> ReleaseSpec:
    keys = KEYS if "max_keys" in privacy_unit.get("records", {}) else {}
    counted = {"kind": "frequencies", "item": "c", "listed_items": ["a", "b"]}
    return read_release(
        {
            **counted,
            "privacy": {"rho": 1},
            "privacy_unit": {"privacy_id": "p", **privacy_unit},
            **place,
            **keys,
            **others,
        }
    )


def statement_of(config: ReleaseSpec) -> PrivacyStatement:
    """Return the statement of a release without data."""
    terms, spec = config.terms, config.spec
    raw = raw_type(spec)(spec).in_units_of(terms.scale_bits)
    part = Part(raw, np.zeros(terms.aside, dtype=np.int64), part_name(("x",), 0, 1), secrets.token_bytes(16))
    row = None if config.horizon is None else 0
    calibrated = config.resolved.calibrated
    (released,) = answers_of(release_parts([part], calibrated, row=row, lost=calibrated.empty_lost))
    return released.privacy


@pytest.mark.parametrize(("privacy_unit", "place"), CASES)
def test_bounds_are_those_of_the_statement(privacy_unit: str, place: str) -> None:
    config = config_of(UNITS[privacy_unit], PLACES[place])
    said = statement_of(config).summary["Contribution"]
    assert f" Contribution {said} Counters " in " ".join(str(config.plan()).split())
    assert f"  contribution  {said}" in in_words(config).splitlines()


def test_a_norm_that_the_data_choose_is_not_named() -> None:
    words = "clipped to an L2 norm per privacy id and period of 1 day, chosen from the data with 5 % of rho; the "
    config = config_of({"norm": "auto", "period": "1d"}, WINDOWS)
    assert f"Contribution {words}statement" in " ".join(str(config.plan()).split())
    assert f"  contribution  {words}statement" in in_words(config)


def check_answers(kind: dict[str, Any], windows: int) -> None:
    """Compare the sigmas of a plan with those of answers when all rows are there."""
    config = read_release(
        {
            **kind,
            "item": "c",
            "privacy": {"rho": 1},
            "privacy_unit": "record",
            "horizon": {**HORIZON["horizon"], "windows": windows},
        }
    )
    assert config.horizon is not None
    spec, middle = config.spec, windows // 2
    rows = released_rows([raw_type(spec)(spec)] * windows, config.horizon)
    timeline = SketchTimeline(rows, config.horizon)
    answers = (timeline.between(middle, middle), timeline.prefix(middle - 1), timeline.prefix(windows - 1))
    found = re.search(
        r"^At the end    sigma = (.*) per counter of window (.*), (.*) of the first (.*), (.*) of all (.*)$",
        str(config.plan()),
        re.MULTILINE,
    )
    assert found is not None
    first, window, second, half, third, every = found.groups()
    assert [int(window), int(half), int(every)] == [middle, middle, windows]
    for words, answer in zip((first, second, third), answers, strict=True):
        sigmas = [math.sqrt(each) for each in answer.privacy.sigma_squared_per_level]
        said = [float(each) for each in words.split(" to ")]
        assert [said[0], said[-1]] == pytest.approx([min(sigmas), max(sigmas)], rel=1e-3)
        assert len(said) == (1 if max(sigmas) < 1.0001 * min(sigmas) else 2)


TREE = {"kind": "quantiles", "domain": {"type": "integer", "low": 0, "high": 999_999}}
LISTED = {"kind": "frequencies", "listed_items": ["a", "b"]}


@pytest.mark.one_fast_case
@pytest.mark.parametrize("windows", [3, 2, 10])
@pytest.mark.parametrize("kind", [TREE, LISTED], ids=["tree", "listed"])
def test_noise_over_time_is_that_of_answers(kind: dict[str, Any], windows: int) -> None:
    check_answers(kind, windows)


def test_the_largest_level_alone_and_a_half_with_the_middle_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(planning, "_span", lambda sigmas: f"{max(sigmas):.4g}")
        with pytest.raises(AssertionError):
            check_answers(TREE, 3)
    monkeypatch.setattr(planning, "noise_of_answers", lambda mechanism: (*noise_of_answers(mechanism)[::2], 1.0))
    with pytest.raises(AssertionError):
        check_answers(LISTED, 2)
