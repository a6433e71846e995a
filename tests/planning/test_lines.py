"""A plan is its lines: attributes, text and `as_dict` have the same numbers, and each number is computed once."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from typing import Any

import pytest

from beam_dpsketch import AutoNorm, NormBound, PrivacyId, Record, RecordBounds
from beam_dpsketch.config import read_release
from beam_dpsketch.noise import calibration
from beam_dpsketch.planning import advice

SMALL = {"type": "integer", "low": 0, "high": 120}
KINDS: dict[str, dict[str, Any]] = {
    "frequencies": {"kind": "frequencies", "item": "i"},
    "quantiles": {"kind": "quantiles", "item": "i", "domain": SMALL},
    "search": {"kind": "top_k", "k": 3, "item": "i", "domain": {**SMALL, "high": 5000}},
    "groups": {"kind": "top_k", "k": 3, "item": "i", "domain": {"type": "text", "max_bytes": 8}},
    "statistics": {"kind": "statistics", "item": "i", "domain": SMALL},
    "metrics": {
        "kind": "metrics",
        "metrics": [
            {"name": "a", "kind": "frequencies", "item": "i"},
            {"name": "b", "kind": "statistics", "item": "j", "domain": SMALL},
        ],
    },
}
UNITS = {
    "a record": Record(),
    "records": PrivacyId("p", RecordBounds(2, max_keys=3)),
    "a norm": PrivacyId("p", NormBound(20, max_keys=3)),
    "a chosen norm": PrivacyId("p", AutoNorm(max_keys=3)),
}
every_kind = pytest.mark.parametrize("kind", KINDS)
every_unit = pytest.mark.parametrize("privacy_unit", UNITS)


def declared(kind: str, privacy_unit: str) -> Any:
    privacy = {"epsilon": 1, "delta": 1e-6}
    found = read_release({**KINDS[kind], "privacy": privacy, "privacy_unit": "record"})
    given = UNITS[privacy_unit]
    if kind != "groups" and isinstance(given, PrivacyId):
        given = dataclasses.replace(given, bounds=dataclasses.replace(given.bounds, max_keys=None))
    return dataclasses.replace(found, privacy_unit=given)


@every_unit
@every_kind
def test_attributes_text_and_fields_are_those_of_the_lines(kind: str, privacy_unit: str) -> None:
    plan = declared(kind, privacy_unit).plan(1000)
    lines = [line for line in plan.lines if line.words]
    labelled = [line.text for line in lines if line.label]
    assert str(plan) == "\n\n".join(["\n".join(labelled), *(line.text for line in lines if not line.label)])
    for line in lines:
        (first, *more), start = line.text.splitlines(), len(line.label) and 14
        assert first[:start].rstrip() == line.label
        assert not start or all(not each[:start].strip() for each in more)
        assert " ".join(line.text[start:].split()) == " ".join(line.words.split())
        assert max(map(len, (first, *more))) <= 120
    named = [line for line in (*plan.about, *plan.promised, *plan.expected) if line.name]
    assert len({line.name for line in named}) == len(named)
    assert all(getattr(plan, line.name) is line.number for line in named)
    fields = [name for line in plan.lines for name in line.fields]
    assert sorted(fields) == sorted(plan.as_dict())


@every_kind
def test_a_plan_is_copied_with_its_numbers_and_has_no_others(kind: str) -> None:
    plan = declared(kind, "records").plan(1000)
    for same in (copy.copy(plan), copy.deepcopy(plan), pickle.loads(pickle.dumps(plan))):
        assert (str(same), same.as_dict()) == (str(plan), plan.as_dict())
    with pytest.raises(AttributeError, match="'Plan' object has no attribute 'halfwidth'"):
        _ = plan.halfwidth


def calibrated(monkeypatch: pytest.MonkeyPatch, kind: str, privacy_unit: str) -> list[Any]:
    """The terms whose noise is computed for a plan, and those of the release itself."""
    release = declared(kind, privacy_unit)
    found, compute = [release.resolved.terms.under(1)], calibration.counter_tables

    def noted(spec: Any, terms: Any) -> Any:
        found.append(terms)
        return compute(spec, terms)

    with monkeypatch.context() as patch:
        patch.setattr(calibration, "counter_tables", noted)
        release.plan(1000).as_dict()
    return found


@every_unit
@every_kind
def test_the_noise_under_some_terms_is_computed_once(
    kind: str, privacy_unit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = calibrated(monkeypatch, kind, privacy_unit)
    assert [each for number, each in enumerate(found) if each in found[:number]] == []


def test_noise_that_is_computed_again_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = declared("frequencies", "a norm").spec
    monkeypatch.setattr(advice, "errors_by_bound", lambda terms, _: calibration.calibrate(spec, terms) and ())
    found = calibrated(monkeypatch, "frequencies", "a norm")
    assert any(each in found[:number] for number, each in enumerate(found))
