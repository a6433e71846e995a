"""The clipping of real releases is true: nothing is lost that cannot be, and lower ends hold as often as they say.

Each person has records of one item, so what a bound keeps of them is known: as many as it allows, for all kinds of
releases. A table is bounded once, and each draw of its noise is another release.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from beam_dpsketch import (
    ADD_OR_REMOVE_ONE,
    REPLACE_ONE,
    AutoNorm,
    Clipping,
    Horizon,
    IntegerDomain,
    ItemFrequencies,
    ListedItems,
    Metric,
    Metrics,
    NormBound,
    PrivacyId,
    PrivacySpec,
    PublicKeys,
    Quantiles,
    Record,
    RecordBounds,
    ReleaseSpec,
    SketchSpec,
    SketchTimeline,
    Statistics,
    TextDomain,
    ThresholdedCounts,
    Thresholding,
    TimeColumn,
    TimeRange,
    TreeSpec,
)
from beam_dpsketch.answers import privacy_statement as measured
from beam_dpsketch.exact.sketches import raw_type
from beam_dpsketch.frames.releasing import TableRelease, release_table
from beam_dpsketch.frames.steps.plan import open_checked, resolve
from beam_dpsketch.statement.clipping import ClippingState
from beam_dpsketch.statement.lost_notes import LostNote
from tests.helpers.by_hand import counters_of
from tests.helpers.side_releases import no_noise

FALSE_ALARM, ROUNDED = 1e-9, 1e-4
DAY, KEYS, ITEMS = 86_400, ["a", "b"], 5
NUMBERS, LISTED = IntegerDomain(0, 63), ListedItems(range(ITEMS))
MEAN, COUNTS = Metric(Statistics(NUMBERS), "end"), Metric(ItemFrequencies(LISTED), "item")
TEXTS = [f"t{n}" for n in range(ITEMS)]
S = ClippingState
MEASURED = {S.ESTIMATED, S.LOWER_BOUND, S.NOT_DETECTED}

KINDS: dict[str, tuple[Any, str | None]] = {
    "listed": (ItemFrequencies(LISTED), "item"),
    "count_sketch": (ItemFrequencies(SketchSpec(width=64)), "item"),
    "count_min": (ItemFrequencies(SketchSpec(kind="count_min", width=64)), "item"),
    "tree": (Quantiles(TreeSpec.for_memory(NUMBERS, 4000)), "item"),
    "statistics": (Statistics(NUMBERS), "end"),
    "groups": (ThresholdedCounts(TextDomain(4), 3, Thresholding(1e-8)), "text"),
    "metrics": (Metrics({"mean": MEAN, "counts": COUNTS}), None),
}
PLACES: dict[str, dict[str, Any]] = {
    "whole": {},
    "keys": {"keys": PublicKeys(KEYS, "key")},
    "days": {"windows": TimeRange(0, 3 * DAY), "time": TimeColumn("time", every=DAY)},
    "horizon": {"windows": Horizon(0, DAY, 3), "time": TimeColumn("time")},
}
UNITS: dict[str, Any] = {
    "record": Record(),
    "weighted record": Record(max_weight=3),
    "record of weight 1": Record(max_weight=1),
    "records": PrivacyId("person", RecordBounds(4)),
    "weighted records": PrivacyId("person", RecordBounds(4, max_weight=3)),
    "norm": PrivacyId("person", NormBound(4)),
    "L1 norm": PrivacyId("person", NormBound(4, norm="l1")),
    "weighted norm": PrivacyId("person", NormBound(12, max_weight=3)),
    "chosen norm": PrivacyId("person", AutoNorm()),
}


class Case(NamedTuple):
    """What is released of a table, for whom and where; and how many records each person has."""

    kind: str
    privacy_unit: str
    place: str
    relation: Any = ADD_OR_REMOVE_ONE
    heavy: int = 300

    @property
    def counts(self) -> np.ndarray:
        """Most people are within the bounds, others lose a power of 4: the least that is in their bin."""
        return np.array([3] * 2000 + [8] * self.heavy + [20] * (self.heavy // 10) + [68] * (self.heavy // 100))

    @property
    def weight(self) -> int | None:
        return 7 if UNITS[self.privacy_unit].bounds.says_max_weight else None

    @property
    def table(self) -> pa.Table:
        people = np.repeat(np.arange(len(self.counts)), self.counts)
        return pa.table(
            {
                "person": people,
                "item": people % ITEMS,
                "end": people % 2 * 63,
                "text": pa.array(TEXTS).take(people % ITEMS),
                "key": pa.array(KEYS).take(people % 2),
                "time": pa.array(people % 3 * DAY * 10**6, pa.timestamp("us")),
                "weight": np.full(len(people), self.weight or 1),
            }
        )

    def spec(self) -> ReleaseSpec:
        count, item = KINDS[self.kind]
        privacy_unit = UNITS[self.privacy_unit]
        if self.kind == "groups" and not isinstance(privacy_unit, Record):
            privacy_unit = PrivacyId(
                "person", type(privacy_unit.bounds)(**{**privacy_unit.bounds.as_dict(), "max_keys": 3})
            )
        elif (
            self.place == "keys"
            and isinstance(privacy_unit.bounds, RecordBounds)
            and not isinstance(privacy_unit, Record)
        ):
            privacy_unit = PrivacyId("person", dataclasses.replace(privacy_unit.bounds, max_keys=1))
        privacy = PrivacySpec(epsilon=2, delta=1e-6, relation=self.relation)
        return ReleaseSpec(count, privacy, privacy_unit, item, self.weight and "weight", **PLACES[self.place])

    def lost(self, of_run: bool) -> tuple[float, float]:
        """The weight that is removed of all people, or of those in the first key or window; and what these have."""
        bounds, each = UNITS[self.privacy_unit].bounds, self.weight or 1
        total, capped = self.counts * each, self.counts * min(each, bounds.max_weight)
        kept = capped
        if not isinstance(UNITS[self.privacy_unit], Record):
            kept = np.minimum(capped, 4 * bounds.max_weight)
        here = np.arange(len(total)) % (1 if of_run else {"keys": len(KEYS), "days": 3}.get(self.place, 1)) == 0
        return float((total - kept)[here].sum()), float(total[here].sum())

    def draws(self, number: int) -> Iterator[Clipping]:
        """Yield the clipping of releases that differ in their noise alone."""
        declared = self.spec()
        ready = TableRelease(open_checked(self.table, declared), declared)
        contributed = ready.contributed()
        contributed = contributed._replace(parts=[*contributed.parts])
        for _ in range(number):
            found = ready.release(contributed)
            if declared.horizon is not None:
                yield SketchTimeline(found, declared.horizon).clipping()
            else:
                released: Any = next(iter(found.values())) if self.place != "whole" else found
                yield released.clipping()

    def states(self) -> set[ClippingState]:
        """The states that it can be in."""
        privacy_unit, over_time = UNITS[self.privacy_unit], self.place == "horizon"
        if isinstance(privacy_unit, Record) and self.weight is None:
            return {S.CANNOT_HAPPEN}
        if self.kind == "groups" or (
            isinstance(privacy_unit, Record) and (over_time or not privacy_unit.bounds.has_weights)
        ):
            return {S.NOT_MEASURED}
        if over_time:  # what exceeds max_weight is not seen
            return {S.LOWER_BOUND, S.NOT_DETECTED if self.weight is None else S.NOT_MEASURED}
        return MEASURED


@functools.cache
def cases() -> list[Case]:
    """All that the package accepts."""
    found = []
    for kind, privacy_unit, place in itertools.product(KINDS, UNITS, PLACES):
        case = Case(kind, privacy_unit, place)
        with contextlib.suppress(ValueError, TypeError):
            resolve(case.spec())
            found.append(case)
    return found


def check_states(wanted: Iterable[Case]) -> Counter[str]:
    """Raise unless all releases are in a state that they can be in, which their line says; return how often."""
    seen: Counter[str] = Counter()
    for case in wanted:
        for found in case.draws(1):
            assert found.state in case.states(), "another state"
            assert str(found).startswith("Clipping: ")
            assert ("records outside the declared time range" in found.uncounted) == (case.place in ("days", "horizon"))
            seen[found.state.name] += 1
    return seen


def test_every_combination_has_one_state_and_the_one_that_it_can_have() -> None:
    """Those that the package accepts: a tenth of them, and some with more and fewer people over their bounds."""
    assert len(cases()) == 225
    some = [case._replace(heavy=heavy) for case, heavy in zip(cases()[::10], itertools.cycle([300, 30, 3000]))]
    assert {*check_states(some)} == {each.name for each in S}


@pytest.mark.slow
def test_every_combination_of_all_has_one_state() -> None:
    for heavy, relation in ((300, ADD_OR_REMOVE_ONE), (3000, REPLACE_ONE)):
        seen = check_states(case._replace(heavy=heavy, relation=relation) for case in cases())
        assert {*seen} == {each.name for each in S}


def check_lower_end(case: Case, draws: int) -> None:
    """Raise if lower ends are too high more often than 2.5 % of the time: a false alarm below 1e-9."""
    found = [each for each in case.draws(draws) if each.state in MEASURED]
    lost, total = case.lost(of_run="over all keys" in found[0].total)
    assert len(found) > 0.9 * draws
    for wrong in (
        sum(each.at_least_weight > lost * (1 + ROUNDED) for each in found),
        sum(each.at_least > lost / total * (1 + ROUNDED) for each in found),
    ):
        assert stats.binomtest(wrong, len(found), 0.025, "greater").pvalue >= FALSE_ALARM / 2, "too high"
    assert np.median([each.at_least_weight for each in found]) > lost / 6, "says hardly anything"
    for each in found:
        assert math.isnan(each.estimate) or each.at_least <= each.estimate <= each.upper_estimate


TIGHT = [
    Case("listed", "weighted record", "keys"),
    Case("listed", "records", "whole", heavy=3000),
    Case("count_sketch", "norm", "keys", REPLACE_ONE, heavy=3000),
    Case("statistics", "L1 norm", "days", heavy=3000),
    Case("metrics", "weighted norm", "whole", heavy=3000),
    pytest.param(Case("tree", "norm", "horizon", heavy=1000), marks=pytest.mark.slow),
]


@pytest.mark.parametrize("case", TIGHT, ids=lambda case: "-".join(case[:3]))
def test_a_lower_end_holds(case: Case) -> None:
    """What people lose are the smallest losses of their bins, so a lower end is as high as it can be."""
    check_lower_end(case, 150)


@pytest.mark.slow
def test_a_lower_end_holds_for_all_that_is_measured() -> None:
    wanted = [case for case in cases() if case.states() & {S.LOWER_BOUND} and case.privacy_unit != "chosen norm"]
    assert len(wanted) > 100
    for case, relation in zip(wanted, itertools.cycle([ADD_OR_REMOVE_ONE, REPLACE_ONE])):
        check_lower_end(case._replace(heavy=3000, relation=relation), 60)


FAULTS = [
    ("no margin for the noise of the histogram", (LostNote, "deviation", property(lambda self: 1e-9))),
    ("half of what is kept", (measured, "_share", lambda part, rest: part / (part + rest / 2) if part else 0.0)),
]


@pytest.mark.parametrize(("fault", "patch"), FAULTS, ids=[name for name, _ in FAULTS])
def test_lower_ends_that_do_not_hold_are_found(fault: str, patch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*patch)
    measured.read_lost.cache_clear()
    with pytest.raises(AssertionError, match="too high"):
        check_lower_end(TIGHT[0], 150)
    measured.read_lost.cache_clear()


@pytest.mark.usefixtures(no_noise.__name__)
@pytest.mark.parametrize("kind", KINDS)
def test_where_clipping_cannot_happen_every_record_counts(kind: str) -> None:
    """Without noise, the counters are those of all records."""
    case = Case(kind, "record", "whole")
    released: Any = release_table(case.table, case.spec())[0]
    assert released.clipping().state is S.CANNOT_HAPPEN
    assert (released.clipping().estimate, released.clipping().at_least) == (0, 0)
    if kind in ("count_sketch", "count_min", "text"):  # where items collide
        exact = raw_type(released.spec)(released.spec).accumulate(case.table[KINDS[kind][1]].to_pylist())
        np.testing.assert_array_equal(np.ravel(released.counters), counters_of(exact))
        return
    for part in released.parts.values():
        items = TEXTS if kind == "groups" else range(ITEMS)
        found = part.count().estimate if hasattr(part, "count") else part.estimate(items).sum()
        assert found == pytest.approx(len(case.table))


def test_weights_above_a_largest_weight_of_1_are_not_said_to_count_in_full() -> None:
    """Six sevenths of the weight are removed, which no histogram measures."""
    case = Case("listed", "record of weight 1", "whole")
    (found,) = case.draws(1)
    assert case.lost(of_run=True) == (6 * len(case.table), 7 * len(case.table))
    assert str(found) == (
        "Clipping: not measured in this release. Intervals do not include it. Weights beyond 1 of a record and records "
        "whose item is not listed are not counted, and not measured."
    )


def test_a_norm_that_the_data_choose_is_always_told() -> None:
    """It clips few people by design, fewer than the noise shows."""
    lines = [str(each) for each in Case("count_sketch", "chosen norm", "whole", heavy=100).draws(20)]
    assert all(
        re.match(r"Clipping: (not detected \(up to \d+ privacy ids may|at least|about|between)", each) for each in lines
    )


UNCOUNTED: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    # what is declared, what one more record has, and what the statement says of it
    "no privacy id": ({}, {"person": None}, "without a privacy id or a usable value"),
    "no number": ({"count": KINDS["statistics"][0]}, {"item": None}, "without a privacy id or a usable value"),
    "an item that is not listed": ({}, {"item": 99}, "records whose item is not listed"),
    "a key that is not listed": (PLACES["keys"], {"key": "c"}, "records whose key is not listed"),
    "a time outside": (PLACES["days"], {"time": 90 * DAY * 10**6}, "records outside the declared time range"),
    "a number outside": (
        {"count": KINDS["statistics"][0]},
        {"item": 99},
        "values outside the value range are clamped, and not measured",
    ),
}


@pytest.mark.usefixtures(no_noise.__name__)
@pytest.mark.parametrize("cause", UNCOUNTED)
def test_what_is_named_is_dropped_and_all_else_counts(cause: str) -> None:
    """A further record of a new person changes no count, unless the line says that it counts as another value."""
    declared, record, words = UNCOUNTED[cause]
    given = {"count": KINDS["listed"][0], "item": "item", "privacy_unit": PrivacyId("person", NormBound(6)), **declared}
    spec = ReleaseSpec(privacy=PrivacySpec(epsilon=2, delta=1e-6), **given)
    table = Case("listed", "norm", "whole").table
    usual = {"person": 10**6, "item": 1, "end": 0, "text": "t1", "key": "a", "time": 0, "weight": 1}
    more = pa.concat_tables([table, pa.Table.from_pylist([{**usual, **record}], table.schema)])
    before, after = (release_table(each, spec)[0] for each in (table, more))
    said = (next(iter(after.values())) if isinstance(after, dict) else after).privacy.text()
    assert words in said
    assert np.array_equal(counters_in(before), counters_in(after)) == ("clamped" not in words)


def counters_in(released: Any) -> np.ndarray:
    parts = released.values() if isinstance(released, dict) else [released]
    return np.concatenate([np.ravel(each.counters) for each in parts])
