"""The privacy statement of every kind of promise: its headings and layout, and no line that its settings contradict."""

from __future__ import annotations

import dataclasses
import itertools
import math
import re
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import example, given

from beam_dpsketch import NormBound, PrivacyStatement, RecordBounds
from beam_dpsketch.privacy.contributions import NeighboringRelation, PrivacyUnit
from beam_dpsketch.privacy.mechanism import Randomness
from beam_dpsketch.privacy.noise.laws import Noise
from beam_dpsketch.privacy.over_time.binned import BinnedRoot
from beam_dpsketch.privacy.summary_counts import Uncounted
from beam_dpsketch.privacy.terms import Disclosure
from beam_dpsketch.statement import statement_text
from beam_dpsketch.statement.lost_notes import LostNote
from beam_dpsketch.statement.notes import AnswerNote, KeyNote, RowNote, ThresholdNote
from beam_dpsketch.statement.statement_text import HEADINGS
from tests.helpers import by_hand, golden, strategies

REPLACE = NeighboringRelation.REPLACE_ONE
VOTES = KeyNote(
    method="gaussian",
    max_keys=16,
    min_units=2,
    grid=48,
    sigma_squared=Fraction(2304),
    threshold=400,
    half=400,
    most=512,
    share=Fraction(1, 10),
)
GROUPS = ThresholdNote(max_items=7, threshold=12, most=15)
LAPLACE: dict[str, Any] = {
    "noise": Noise.LAPLACE,
    "pure": Fraction(1, 2),
    "pure_rho": Fraction(1, 8),
    "rho": Fraction(1, 8),
    "sigma_squared_per_level": (Fraction(98),),
}
LOSSES: dict[str, dict[str, Any]] = {
    "Gaussian": {},
    "large": {"rho": Fraction(10**3)},
    "pure": LAPLACE,
    "mixed": {**LAPLACE, "noise": Noise.SUM, "rho": Fraction(1, 2)},
    "keys": {"delta": Fraction(1, 10**8), "keys": VOTES},
    "keys of one vote": {"delta": Fraction(1, 10**8), "keys": dataclasses.replace(VOTES, max_keys=1)},
    "keys in two rounds": {"delta": Fraction(1, 10**8), "keys": dataclasses.replace(VOTES, method="two_rounds")},
    "pure with keys": {**LAPLACE, "delta": Fraction(1, 10**8), "keys": VOTES},
    "delta above the shown one": {"delta": Fraction(1, 100), "keys": VOTES},
    "items": {"delta": Fraction(1, 10**8), "keys": GROUPS},
    "items and votes": {"delta": Fraction(1, 10**8), "keys": dataclasses.replace(GROUPS, votes=VOTES)},
    "several rules": {"delta": Fraction(1, 10**8)},
}
LIMITS: dict[str, dict[str, Any]] = {
    "records": {"bounds": RecordBounds(5)},
    "records of keys": {"bounds": RecordBounds(5, max_keys=2, max_weight=3, signed=True), "window_count": 3},
    "norm": {"bounds": NormBound(8)},
    "chosen norm": {"bounds": NormBound(Fraction(54, 5)), "norm_share": Fraction(1, 20)},
    "total": {"bounds": NormBound(8, norm="l1", max_weight=4)},
    "one of each item": {"bounds": NormBound(8, max_per_item=1), "first_windows": True, "window_count": 2},
}
ONE_RECORD: dict[str, dict[str, Any]] = {
    "single": {"bounds": RecordBounds(1)},
    "weights": {"bounds": RecordBounds(1, max_weight=4)},
    "excess": {"bounds": RecordBounds(1), "uncounted": Uncounted.EXCESS_WEIGHT | Uncounted.CLAMPED},
}
SIDES: dict[str, dict[str, Any]] = {
    "nothing": {},
    "counts": {
        "side": (by_hand.note("units", value=1200), by_hand.note("records", value=4000)),
        "lost": LostNote(share=Fraction(1, 50), sigma_squared=Fraction(100), first=0, counts=(900, 500, 200, 0, 0)),
    },
    "weight": {"side": (by_hand.note(("records", "weight"), value=4000),)},
}
OF_RECORDS: dict[str, dict[str, Any]] = {
    "nothing": {},
    "counts": {"side": (by_hand.note(("units", "records", "weight"), value=4000),)},
    "weight": {"side": (by_hand.note(("units", "records"), value=0),)},
}
PLACES: dict[str, dict[str, Any]] = {
    "one": {},
    "keyed": {"randomness": Randomness.KEYED, "disclosed": Disclosure.KEYS},
    "replaced": {"relation": REPLACE, "disclosed": Disclosure.WINDOWS, "of_metric": True},
    "two runs": {"release_ids": (bytes(range(48)), bytes(48))},
    "two keys of a run": {"release_ids": (bytes(48), bytes(47) + b"1")},
}


def cases() -> Iterator[tuple[str, PrivacyStatement]]:
    others = itertools.cycle(itertools.product(SIDES, PLACES))
    for privacy_unit, loss in itertools.product(PrivacyUnit, LOSSES):
        for limit, bounds in (ONE_RECORD if privacy_unit.is_one_record else LIMITS).items():
            side, place = next(others)
            changes: dict[str, Any] = {
                "privacy_unit": privacy_unit,
                "relation": NeighboringRelation.ADD_OR_REMOVE_ONE,
                "period_micros": 7 * 86400 * 10**6 * (privacy_unit is PrivacyUnit.PRIVACY_ID_IN_PERIOD),
                **bounds,
                **LOSSES[loss],
                **(OF_RECORDS if privacy_unit.is_one_record else SIDES)[side],
                **PLACES[place],
            }
            if privacy_unit is PrivacyUnit.PRIVACY_ID_IN_WINDOW:
                changes |= {"window_count": 1, "first_windows": False}
            if privacy_unit.over_horizon:
                rows = BinnedRoot(9)
                changes["over_time"] = RowNote(rows, 5, dropped_bits=3) if side == "counts" else AnswerNote(rows, 4)
            yield f"{privacy_unit.name}, {loss}, {side}, {place}, {limit}", by_hand.statement(**changes)
    yield from ((name, released.privacy) for name, released in golden.good().items() if hasattr(released, "privacy"))


def check_layout(it: PrivacyStatement) -> None:
    """Raise unless the text has all headings, in order and aligned, one line each."""
    summary = it.summary
    selected = ["Items" if it.keys is not None and it.keys.of_items else "Keys"] if it.delta else []
    assert [*summary] == [each for each in HEADINGS if each not in ("Keys", "Items") or each in selected]
    assert str(it).splitlines() == [f"{heading:<14}{words}" for heading, words in summary.items()]
    assert f"{it}\n{it.details()}" == it.text()
    assert {*summary} < {*it.facts}
    for heading, words in it.facts.items():
        assert len(heading) < 13
        assert words == words.strip()
        assert words[-1] not in ".;,"
        assert not re.search(
            r"\(s\)|  |\bNone\b|\bnan\b|;;|\b1 (scaled )?(records|keys|windows|items|privacy ids)\b", words
        ), words


def check_truth(it: PrivacyStatement) -> None:
    """Raise if a line says what the settings contradict, or leaves out what they say."""
    found, privacy_unit, row = it.facts, it.privacy_unit, it.is_row
    whole = {heading: words for heading, words in found.items() if heading not in ("Clipping", "Contents", "Counts")}
    one, span, epsilon, delta = privacy_unit.is_one_record, privacy_unit.span, it.reported_epsilon, it.delta_of_epsilon
    text, guarantee, contribution = " ".join(whole.values()), found["Guarantee"], found["Contribution"]
    assert found["Protects"].startswith("any one record" if one else ("what any one" if "period" in span else "all "))
    assert ("privacy id" in text.replace("records without a privacy id", "")) == (not one), text
    assert ("horizon" in found["Protects"]) == privacy_unit.over_horizon
    # the loss
    assert ("pure" in guarantee) == (it.loss.is_pure and not it.delta)
    assert ("delta" in guarantee) == (delta > 0)
    assert ("replacing" in guarantee) == (it.relation is REPLACE)
    assert ("adding or removing" in guarantee) == (it.relation is not REPLACE)
    assert ("was included" in found["Meaning"]) == (it.relation is not REPLACE)
    for words in (guarantee, found["Meaning"]):
        assert ("window" in words, "period" in words) == (span == "window", span == "period")
    assert ("secret" in guarantee) == (it.randomness is Randomness.KEYED)
    accuracy = float(re.search(r"at most (\S+) % accuracy", found["Meaning"])[1])  # type: ignore[index]
    assert max(0.5, it.attack_accuracy) <= accuracy / 100 <= min(1, it.attack_accuracy * 1.006)
    if math.isinf(epsilon):
        assert "epsilon =" not in guarantee + found["Definition"]
    else:
        assert epsilon <= float(re.search(r"epsilon = (\S+?),? ", guarantee)[1]) <= epsilon * 1.001  # type: ignore[index]
        factor = re.search(r"at most a factor of (e\^)?(\d(?:[\d.,e+]*\d)?)", found["Definition"])
        assert factor is not None
        exponent = float(factor[2]) if factor[1] else math.log(float(factor[2].replace(",", "")))
        assert epsilon <= exponent <= epsilon * 1.001 + 0.001
        assert ("plus" in found["Definition"]) == (delta > 0)
    assert it.rho <= Fraction(re.search(r"rho = (\S+?),? ", found["Accounting"])[1])  # type: ignore[index]
    assert ("epsilons of several releases add up" in found["Accounting"]) == it.loss.is_pure
    several = len({each[:16] for each in it.release_ids}) > 1
    assert ("runs" in found["Accounting"]) == several
    # the bounds
    assert ("clipped to" in contribution) == it.bounds.has_norm
    assert ("chosen from the data" in contribution) == (it.norm_share is not None)
    assert ("weight" in contribution.replace("a total weight of", "")) == it.bounds.has_weights
    assert "always count" not in contribution or (it.bounds.has_norm and not several)
    if (always := re.search(r"up to (\d+) records always", contribution)) is not None:
        limit: Any = it.bounds
        assert int(always[1]) <= limit.max_norm
        assert int(always[1]) <= (limit.max_per_item or math.inf)
    # the selection
    assert ("included in delta" in " ".join(found.get(each, "") for each in ("Keys", "Items"))) == (it.delta > 0)
    stated = re.search(r"delta = ([\d.e-]+)", guarantee)
    assert it.delta <= (Fraction(stated[1]) if stated else 0)
    assert ("Selection" in found) <= (it.keys is not None)
    # clipping and counts
    assert found["Clipping"].startswith("none; ") == (not it.is_bounded)
    assert ("intervals do not include it" in found["Clipping"]) == it.is_bounded
    assert it.is_bounded or "after clipping" not in " ".join(found.values())
    assert ("weighted sums of windows" in found["Contents"]) == row
    assert not (row and {"Counts", "Intervals", "Assumptions"} & found.keys())
    assert ("not counted" in found["Contents"]) == (not row and not it.contents)
    assert ("of all metrics" in found["Contents"]) == (it.of_metric and bool(it.contents) and not row)
    assert ("Timeline" in found) == (it.over_time is not None)
    assert ("which keys" in found["Not hidden"]) == (Disclosure.KEYS in it.disclosed)
    assert ("which windows" in found["Not hidden"]) == (Disclosure.WINDOWS in it.disclosed)
    assert ("outside the value range are clamped" in found["Clipping"]) == (Uncounted.CLAMPED in it.uncounted)
    assert ("scale =" in found["Noise"]) == (it.noise is Noise.LAPLACE)
    split = [float(each) for each in re.findall(r"([\d.e-]+) % ", found.get("Budget split", ""))]
    assert not split or sum(split) == pytest.approx(100, abs=0.1)


def test_every_promise_has_its_lines_in_order_and_none_that_its_settings_contradict() -> None:
    number = 0
    for number, (name, it) in enumerate(cases(), 1):  # noqa: B007
        try:
            check_layout(it)
            check_truth(it)
        except AssertionError as error:
            raise AssertionError(f"{name}:\n{it.text()}") from error
    assert number > 400


ONE_CLIPPED = by_hand.note(("records", "clipped"), sigma_squared=Fraction(1, 4))


@example(it=by_hand.statement(bounds=RecordBounds(1), side=(ONE_CLIPPED,)))
@given(it=strategies.statements())
def test_any_promise_has_its_lines_in_order(it: PrivacyStatement) -> None:
    check_layout(it)


Words = dict[str, str]
WRONG: dict[str, tuple[dict[str, Any], Callable[[Words], Words]]] = {
    "another order": ({}, lambda words: dict(reversed(words.items()))),
    "a line less": ({}, lambda words: {name: each for name, each in words.items() if name != "Contents"}),
    "all records": ({"bounds": NormBound(8)}, lambda words: words | {"Contribution": "each record counts once"}),
    "no clipping": ({}, lambda words: words | {"Clipping": "none; every record counts in full"}),
    "a better guarantee": (
        {},
        lambda words: words | {"Guarantee": words["Guarantee"].replace("epsilon = 4", "epsilon = 3")},
    ),
    "a worse attacker": ({}, lambda words: words | {"Meaning": words["Meaning"].replace("at most 6", "at most 5")}),
    "more windows": (
        {"privacy_unit": PrivacyUnit.PRIVACY_ID_IN_WINDOW},
        lambda words: (
            words | {"Guarantee": "epsilon = 4.887, delta = 1e-06, for replacing the records of one privacy id"}
        ),
    ),
    "the other relation": (
        {},
        lambda words: words | {"Meaning": words["Meaning"].replace("which of two versions", "whether it was included")},
    ),
}


@pytest.mark.parametrize("fault", WRONG)
def test_a_wrong_line_is_found(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    changes, wrong = WRONG[fault]
    it, right = by_hand.statement(**changes), statement_text.summary
    check_layout(it)
    check_truth(it)
    monkeypatch.setattr(statement_text, "summary", lambda *args: wrong(right(*args)))
    with pytest.raises(AssertionError):
        (check_layout(it), check_truth(it))
