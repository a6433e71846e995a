"""The digest of a transform: other settings, other digest; equal settings, however spelled, one that never changes."""

from __future__ import annotations

import dataclasses
import datetime
import itertools
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest

from beam_dpsketch import (
    REPLACE_ONE,
    AssumePublicKeys,
    AutoNorm,
    FactorizationSpec,
    FloatDomain,
    Horizon,
    IntegerDomain,
    KeySelection,
    ListedItems,
    NormBound,
    PrivacyId,
    PrivacySpec,
    PublicKeys,
    Record,
    RecordBounds,
    SketchSpec,
    SummaryCounts,
    TextDomain,
    Thresholding,
    TimeRange,
    TimestampDomain,
    TreeSpec,
    encodings,
)
from beam_dpsketch.exact.declared import release_spec
from beam_dpsketch.exact.declared.release_spec import ReleaseSpec
from beam_dpsketch.planning.kinds.sketched import AnySketch
from beam_dpsketch.planning.kinds.thresholded_counts import ThresholdedCounts

PEOPLE = PrivacyId("person", RecordBounds(2, max_keys=2))
BASE: dict[str, Any] = {
    "spec": SketchSpec(depth=3, width=16),
    "privacy": PrivacySpec(rho=0.5),
    "privacy_unit": PEOPLE,
    "item": "city",
    "keys": PublicKeys(["a", "b"], "country"),
}


def day(domain: Any = TimestampDomain, **changes: Any) -> Any:
    return domain(datetime.datetime(2024, 1, 1), datetime.datetime(2024, 1, 2), **changes)


CHANGES: dict[str, dict[str, Any]] = {
    "nothing": {},
    "width": {"spec": SketchSpec(depth=3, width=17)},
    "kind": {"spec": SketchSpec(kind="count_min", depth=3, width=16)},
    "seed": {"spec": SketchSpec(depth=3, width=16, seed=1)},
    "key of the hash": {"spec": SketchSpec(depth=3, width=16, item_hash="blake2b", item_key=b"0123456789abcdef")},
    "listed": {"spec": ListedItems(["x", "y"])},
    "listed in another order": {"spec": ListedItems(["y", "x"])},
    "integers": {"spec": TreeSpec.for_memory(IntegerDomain(0, 9), memory=4000)},
    "other integers": {"spec": TreeSpec.for_memory(IntegerDomain(1, 10), memory=4000)},
    "ranks of integers": {"spec": FactorizationSpec(IntegerDomain(0, 9))},
    "ranks of other integers": {"spec": FactorizationSpec(IntegerDomain(1, 10))},
    "ranks of floats": {"spec": FactorizationSpec(FloatDomain(0, 9, 1))},
    "floats": {"spec": TreeSpec.for_memory(FloatDomain(0, 9, 1), memory=4000)},
    "times": {"spec": TreeSpec.for_memory(day(), memory=4000)},
    "coarser times": {"spec": TreeSpec.for_memory(day(step=datetime.timedelta(seconds=2)), memory=4000)},
    "rho": {"privacy": PrivacySpec(rho=0.25)},
    "relation": {"privacy": PrivacySpec(rho=0.5, relation=REPLACE_ONE)},
    "shown delta": {"privacy": PrivacySpec(rho=0.5, delta=1e-7)},
    "summary counts": {"privacy": PrivacySpec(rho=0.5, summary_counts=SummaryCounts(units=0.03))},
    "lost weight": {"privacy": PrivacySpec(rho=0.5, summary_counts=SummaryCounts(clipping=0.03))},
    "no summary counts": {"privacy": PrivacySpec(rho=0.5, summary_counts=None)},
    "records": {"privacy_unit": Record()},
    "bounds": {"privacy_unit": PrivacyId("person", RecordBounds(3, max_keys=2))},
    "weights": {"privacy_unit": PrivacyId("person", RecordBounds(2, max_keys=2, max_weight=2))},
    "signs": {"privacy_unit": PrivacyId("person", RecordBounds(2, max_keys=2, signed=True))},
    "norm": {"privacy_unit": PrivacyId("person", NormBound(2))},
    "chosen norm": {"privacy_unit": PrivacyId("person", AutoNorm())},
    "chosen norm of weights": {"privacy_unit": PrivacyId("person", AutoNorm(max_weight=2))},
    "id": {"privacy_unit": dataclasses.replace(PEOPLE, field="device")},
    "max_windows": {"privacy_unit": dataclasses.replace(PEOPLE, max_windows=2)},
    "period": {"privacy_unit": dataclasses.replace(PEOPLE, max_windows=2, period=60)},
    "item": {"item": "street"},
    "the element itself": {"item": None},
    "a function": {"item": lambda element: element},
    "weight": {"weight": "amount", "privacy_unit": PrivacyId("person", RecordBounds(2, max_keys=2, max_weight=1))},
    "more keys": {"keys": PublicKeys(["a", "b", "c"], "country")},
    "other keys": {"keys": PublicKeys(["a", "c"], "country")},
    "keys of another type": {"keys": PublicKeys(["a", b"b"], "country")},
    "keys of another field": {"keys": PublicKeys(["a", "b"], "region")},
    "assumed keys": {"keys": AssumePublicKeys("country")},
    "chosen keys": {"keys": KeySelection(1e-7, "country")},
    "chosen keys at another delta": {"keys": KeySelection(1e-8, "country")},
    "keys chosen in one round": {"keys": KeySelection(1e-7, "country", method="gaussian")},
    "no keys": {"keys": None, "privacy_unit": PrivacyId("person", RecordBounds(2))},
    "time range": {"windows": TimeRange(0, 60)},
    "later time range": {"windows": TimeRange(60, 120)},
}
GROUPED: dict[str, Any] = {
    "groups": ThresholdedCounts(TextDomain(3), 5, Thresholding(Fraction(1, 10**7))),
    "groups at another delta": ThresholdedCounts(TextDomain(3), 5, Thresholding(Fraction(1, 10**8))),
}
WINDOWS = [(60, 0), (60, 30), (30, 0), (60, 0, 20)]
SPELLED: dict[str, dict[str, Any]] = {
    "a fraction": {"privacy": PrivacySpec(rho=Fraction(1, 2), summary_counts=SummaryCounts(units=Fraction(1, 50)))},
    "keys in another order": {"keys": PublicKeys(("b", "a", "b"), "country")},
    "all that has a default": {"spec": SketchSpec(kind="count_sketch", depth=3, width=16, seed=0), "weight": None},
}


def declared(**changes: Any) -> ReleaseSpec:
    """The declaration with these changes; `spec` stands for any kind of release with it."""
    given = {**BASE, **changes}
    return ReleaseSpec(**{"count": AnySketch(given.pop("spec")), **given})


def digests() -> dict[str, bytes]:
    """The digest of each case."""
    cases = {name: declared(**changes) for name, changes in CHANGES.items()}
    cases |= {name: declared(count=count) for name, count in GROUPED.items()}
    found = {name: each.identify(each.terms) for name, each in cases.items()}
    plain = declared()
    for windows in WINDOWS:
        found[f"windows {windows}"] = plain.identify(plain.terms, windows)
    for horizon in (Horizon(0, 60, 4), Horizon(0, 60, 5), Horizon(0, 60, 4, mechanism="tree")):
        over_time = declared(privacy_unit=dataclasses.replace(PEOPLE, max_windows=2), windows=horizon)
        found[f"rows {horizon.rows}"] = over_time.identify(over_time.terms, (60, 0))
    return found


def test_whatever_differs_changes_the_digest() -> None:
    found = digests()
    equal = [(one, other) for one, other in itertools.combinations(found, 2) if found[one] == found[other]]
    assert equal == []
    assert {len(each) for each in found.values()} == {32}


@pytest.mark.parametrize("name", SPELLED)
def test_equal_settings_have_one_digest(name: str) -> None:
    first, second = declared(), declared(**SPELLED[name])
    assert first.identify(first.terms) == second.identify(second.terms)


def test_an_epsilon_may_be_a_whole_number_or_a_float() -> None:
    spelled = [declared(privacy=PrivacySpec(epsilon=each, delta=1e-6)) for each in (2, 2.0)]
    assert len({each.identify(each.terms) for each in spelled}) == 1


def test_functions_are_not_told_apart() -> None:
    """The address of one is another in each process."""
    spelled = [declared(item=each) for each in (str, lambda element: element)]
    assert len({each.identify(each.terms) for each in spelled}) == 1


def test_the_digest_never_changes() -> None:
    """Where this fails, a release id means another run after an upgrade."""
    found = digests()
    assert {name: found[name].hex()[:16] for name in GOLDEN} == GOLDEN


def test_the_name_of_a_class_is_no_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    before, names = [*digests().values()], {each: each.__name__ for each in encodings._NAMES if each is not type(None)}
    try:
        for settings in names:
            settings.__name__ = "Renamed"
        assert [*digests().values()] == before
        monkeypatch.setattr(encodings, "name_of", lambda settings: settings.__name__)
        assert [*digests().values()] != before, "a planted fault is not found"
    finally:
        for settings, name in names.items():
            settings.__name__ = name


def test_each_class_of_settings_has_a_name_of_its_own() -> None:
    with pytest.raises(ValueError, match="two settings classes have the name SketchSpec"):
        encodings.named("SketchSpec")(type("Another", (), {}))
    one, other = (type(name, (FloatDomain,), {}) for name in ("One", "Other"))
    settings = [encodings.canonical(domain(0, 9, 1)) for domain in (FloatDomain, one, other)]
    assert len({*settings}) == 3, "what users derive has the name of another"
    with pytest.raises(TypeError, match="Another is not a setting"):
        encodings.canonical(dataclasses.make_dataclass("Another", ["width"])(3))


GOLDEN = {
    "nothing": "754c4064ee6aaa0e",
    "chosen norm": "91214d8db1fc5cbc",
    "times": "ac076450daa2f9d4",
    "chosen keys": "8d35a40eb8fed22e",
    "groups": "8f362bd9b941dc87",
    "windows (60, 0, 20)": "cba42f69da22836f",
    "rows BinaryTree(windows=4)": "dfac52de58704d33",
}


@pytest.mark.parametrize(
    "leave_out",
    [
        lambda given: (*given[:1], None, *given[2:]),
        lambda given: (*given[:2], None, *given[3:]),
        lambda given: (*given[:3], None, *given[4:]),
        lambda given: (*given[:4], None, *given[5:]),
        lambda given: (*given[:5], None, *given[6:]),
        lambda given: given[:6],
    ],
    ids=["spec", "terms", "keys", "fields", "windows", "range"],
)
def test_planted_faults_are_found(leave_out: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    exact = release_spec.canonical
    monkeypatch.setattr(release_spec, "canonical", lambda declared: exact(leave_out(declared)))
    found = digests()
    assert len(set(found.values())) < len(found)
