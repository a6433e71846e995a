"""Noisy tables cost what the release may spend, exactly, and messages tell apart all that they depend on."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import pytest

from beam_dpsketch import (
    ADD_OR_REMOVE_ONE,
    REPLACE_ONE,
    AutoNorm,
    NormBound,
    PrivacySpec,
    RecordBounds,
    ReleaseTerms,
    SummaryCounts,
    TextDomain,
)
from beam_dpsketch.exact.sketches import raw_type
from beam_dpsketch.exact.sketches.listed_items import ThresholdedItems
from beam_dpsketch.noise import calibration, tables
from beam_dpsketch.noise.calibration import Calibration
from beam_dpsketch.noise.counting import Counting
from beam_dpsketch.noise.tables import NoisyTable
from beam_dpsketch.privacy import terms as terms_module
from beam_dpsketch.privacy.mechanism import Sensitivity
from beam_dpsketch.privacy.noise.laws import Noise
from beam_dpsketch.privacy.summary_counts import LostIn, SummaryCount
from beam_dpsketch.privacy.terms import RowTerms
from tests.helpers import laws
from tests.helpers.noise import no_guard
from tests.helpers.noisy_tables import CHOSEN_KEYS, FLAT, GROUPS, METRICS, PEOPLE, SOME, TERMS, cases


def asked(terms: ReleaseTerms) -> dict[str, Fraction]:
    """Return the share that each number aside was asked to have, by its name."""
    if terms.privacy.summary_counts is None:
        return {}
    share = functools.partial(terms.privacy.summary_counts.share, noise=terms.noise)
    found = {name: share(name) for name in ("units", "records", "weight")}
    bounds: Any = terms.bounds
    in_records, half = isinstance(bounds, RecordBounds), share("clipping") / 2
    if isinstance(terms, RowTerms) or bounds.signed:
        found |= {} if in_records else {"clipped": half, "scaled": half}
    elif terms.lost_in is LostIn.RUN:
        found |= {"lost": half, "kept": half}
    elif not terms.privacy_unit.is_one_record or bounds.max_weight > 1:
        found |= {"lost": 2 * half}
    if in_records:
        weighs, once = bounds.signed or bounds.max_weight > 1, bounds.max_records == 1
        equal = [("units", "records", *(() if weighs else ("weight",)))] if once else []
        equal += [] if weighs or once else [("records", "weight")]
        found |= {name: max(found[each] for each in group) for group in equal for name in group}
    return {name: share for name, share in found.items() if share}


def cost(change: Any, table: NoisyTable) -> Fraction:
    """Return what a table costs by the law of its noise."""
    if table.noise is Noise.LAPLACE:
        half = table.parameter / 2
        return change.total * Fraction(math.isqrt(half.denominator), math.isqrt(half.numerator))
    return change.squared / (2 * table.parameter)


def check_costs() -> int:
    """Raise unless each table costs its share, all of them all that there is, and is on the grid that it should be."""
    count = 0
    for name, spec, terms, found in cases():
        spending = terms.privacy.spending
        whole = spending.rho if spending.epsilon is None else spending.epsilon
        every = (*found.counters, *found.aside, *found.lost)
        assert [cost(table.change, table) for table in every] == [table.share * whole for table in every], name
        assert sum(table.share for table in every) == 1 - (terms.norm_share or 0), f"{name}: not all of it"
        assert sum(table.cost for table in every) == (1 - (terms.norm_share or 0)) * whole, name
        of_counts = {name: table.share for table in (*found.aside, *found.lost) for name in table.names}
        assert of_counts == asked(terms), f"{name}: other counts or shares than asked for"
        facts, unit = raw_type(spec).tables(spec), 4**terms.scale_bits
        squared = terms.mechanism.squared_length if isinstance(terms, RowTerms) else 1
        units = [unit * squared * fact.squared_amount for fact in facts]
        assert [table.unit for table in found.counters] == units, f"{name}: another unit"
        assert [table.dropped_bits for table in found.counters] == [fact.dropped_bits for fact in facts], name
        assert len({table.grid_bits for table in found.counters}) == 1, f"{name}: another grid"
        of_weights = (*found.aside, *found.lost[1:])
        assert [(table.unit, table.dropped_bits) for table in of_weights] == [(unit * squared, 0)] * len(of_weights)
        of_units = found.lost[:1]
        assert [(table.unit, table.grid_bits) for table in of_units] == [
            (1, table.dropped_bits) for table in of_units
        ], f"{name}: no whole numbers"
        count += 1
    return count


def test_each_table_costs_its_share_and_all_cost_everything() -> None:
    assert check_costs() > 70


def test_the_tables_of_metrics_are_those_of_each_with_its_share() -> None:
    terms, whole = TERMS["a norm"], Fraction(1)
    joined = [(table.share, table.parameter, table.unit) for table in tables.counters(METRICS, terms, whole)]
    alone = [
        (table.share * part.share, table.parameter / part.share, table.unit)
        for part in METRICS.parts
        for table in tables.counters(part.spec, terms, whole)
    ]
    assert sorted(joined) == sorted(alone)


def test_votes_and_counts_of_a_chosen_norm_cost_all_of_rho() -> None:
    """Where votes are part of one norm, or of none, their share and those of the tables are everything."""
    found = Calibration.of(FLAT, CHOSEN_KEYS)
    assert found.choice is not None
    every = (*found.counters, *found.aside, *found.lost, *found.choice.votes)
    assert sum(table.cost for table in every) == SOME.rho


@pytest.mark.parametrize("relation", [ADD_OR_REMOVE_ONE, REPLACE_ONE])
def test_the_choice_of_a_norm_and_its_tables_cost_all_of_rho(relation: Any) -> None:
    privacy = PrivacySpec(rho=0.1, relation=relation)
    terms = ReleaseTerms(privacy, AutoNorm(), **PEOPLE)
    choice = tables.lengths(AutoNorm(), privacy.spending, relation)
    assert choice.dropped_bits == choice.grid_bits
    found = Calibration.of(FLAT, terms.under(Fraction(9, 2)))
    assert choice.cost + sum(table.cost for table in (*found.counters, *found.aside, *found.lost)) == privacy.rho


def check_windows() -> None:
    """A unit changes each of three windows as much as a single one: all squares add up, and so do all sizes."""
    for loss, relation in itertools.product(({"rho": 0.1}, {"epsilon": 1}), (ADD_OR_REMOVE_ONE, REPLACE_ONE)):
        privacy = PrivacySpec(**loss, relation=relation, summary_counts=SummaryCounts(records=0.02))
        for bounds in (RecordBounds(3, max_weight=2, max_keys=2), NormBound(5, norm="l1")):
            one, three = (
                Calibration.of(FLAT, ReleaseTerms(privacy, bounds, **PEOPLE, window_count=count)) for count in (1, 3)
            )
            for name in ("counters", "aside", "lost"):
                for alone, together in zip(getattr(one, name), getattr(three, name), strict=True):
                    assert alone.change.total is not None
                    change = Sensitivity(3 * alone.change.squared, 3 * alone.change.total)
                    assert together.change == change, f"{name}: windows are not added up"


def of_one_window(owner: Any, name: str) -> laws.Fault:
    """Plant an L1 sensitivity to a single window."""

    def faulty(exact: Any, *given: Any, **rest: Any) -> Sensitivity:
        return exact(*given, **rest)._replace(total=exact(*given, **rest | {"reach": 1}).total)

    return laws.around(owner, name, faulty)


test_a_forgotten_window_is_found = laws.mutants(
    {
        "counters": of_one_window(tables, "sensitivity"),
        "aside": of_one_window(SummaryCount, "sensitivity"),
        "lost": laws.around(
            tables, "one_count", lambda exact, relation, reach=1: exact(relation, reach)._replace(total=Fraction(1))
        ),
    },
    check_windows,
    words="windows are not added up",
    intact=True,
)


DECLARED: dict[str, Any] = {
    "records": lambda: Calibration.of(FLAT, TERMS["records"]),
    "a chosen norm": lambda: Calibration.of(FLAT, TERMS["a chosen norm"]),
    "chosen keys": lambda: Calibration.of(FLAT, CHOSEN_KEYS),
    "groups": lambda: Counting.of(ThresholdedItems(TextDomain(4)), GROUPS),
}


def of_more(factor: Fraction) -> laws.Fault:
    """Let counters have more than their share: what is too much, or costs as much as if the choice were free."""
    return laws.around(tables, "counters", lambda exact, spec, terms, share: exact(spec, terms, share * factor))


FREE_VOTES = laws.put(calibration, "sketch_share", lambda spec, terms: terms.share_left)


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("records", of_more(Fraction(21, 20))),
        ("a chosen norm", of_more(Fraction(20, 19))),
        ("chosen keys", FREE_VOTES),
        ("groups", FREE_VOTES),
    ],
)
def test_tables_that_cost_too_much_are_refused(name: str, fault: laws.Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    DECLARED[name]()
    fault.plant(monkeypatch)
    with pytest.raises(ValueError, match="the tables cost more than the privacy loss of the release"):
        DECLARED[name]()


def message_of(**changes: Any) -> bytes:
    """Return a message that differs in these parts from another."""
    given = {"what": "release", "spec": FLAT, "terms": TERMS["bounds"], "place": (b"run", b"part", 3)} | changes
    found = changes.get("found", Calibration.of(given["spec"], given["terms"]).counters)
    exact = changes.get("exact", [np.arange(3), np.arange(4)])
    return tables.message(
        given["what"], tables.settings_of(found, given["spec"], given["terms"]), exact, given["place"]
    )


def test_a_message_tells_apart_whatever_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    (table,) = Calibration.of(FLAT, TERMS["bounds"]).counters
    changed: dict[str, Any] = {
        "change": Sensitivity(Fraction(7)),
        "share": Fraction(1, 7),
        "noise": Noise.LAPLACE,
        "parameter": table.parameter + 1,
        **dict.fromkeys(("size", "unit", "grid_bits", "dropped_bits"), 7),
        "names": ("others",),
    }
    assert changed.keys() == {field.name for field in dataclasses.fields(NoisyTable)}
    messages = [
        message_of(),
        message_of(what="lost"),
        message_of(spec=dataclasses.replace(FLAT, seed=1)),
        *(message_of(terms=terms) for name, terms in TERMS.items() if name in ("records", "replacing", "signs")),
        *(message_of(place=place) for place in ((), (b"run", b"part"), (b"run", b"part", 4), (b"runp", b"art", 3))),
        *(message_of(exact=exact) for exact in ([np.arange(3)], [np.arange(7)], [np.arange(4), np.arange(3)])),
        message_of(exact=[np.arange(3), np.array([0, 1, 2, 4])]),
        *(message_of(found=[dataclasses.replace(table, **{name: value})]) for name, value in changed.items()),
        message_of(found=[table, table]),
        message_of(found=[]),
    ]
    monkeypatch.setattr(tables, "NOISE_VERSION", tables.NOISE_VERSION + 1)
    messages.append(message_of())
    assert len(set(messages)) == len(messages)
    assert message_of(exact=[np.arange(3, dtype=np.int32), np.arange(4)]) == messages[-1]


def of_counters(change: Any) -> laws.Fault:
    return laws.around(tables, "counters", lambda exact, *given: tuple(map(change, exact(*given))))


def own_grid(table: NoisyTable) -> NoisyTable:
    return dataclasses.replace(table, grid_bits=table.noise.grid_bits(table.parameter, table.unit))


def share_left(share: Any) -> laws.Fault:
    return laws.around(terms_module, "share_left", share)


def other_share(share: Any) -> laws.Fault:
    """Plant the noise of another share: a function of the counter."""
    return laws.around(
        tables,
        "of_counter",
        lambda exact, counter, *given: dataclasses.replace(
            exact(counter._replace(share=share(counter)), *given), share=counter.share
        ),
    )


def twice_the_share(exact: Any, *given: Any, **settings: Any) -> Any:
    found = exact(*given, **settings)
    return found and found._replace(share=found.share * (2 if found.of_run else 1))


def with_half_of_the_terms(exact: Any, terms: ReleaseTerms, norm: Any) -> ReleaseTerms:
    settings = {name: getattr(terms, name) for name in ("privacy_unit", "window_count", "output_cells", "lost_in")}
    return ReleaseTerms(terms.privacy, exact(terms, norm).bounds, **settings)


class Whole(NamedTuple):
    """A kind whose tables all have the whole share."""

    kind: Any

    def tables(self, spec: Any) -> list[Any]:
        return [table._replace(share=Fraction(1)) for table in self.kind.tables(spec)]


FAULTS = {
    "no rounding to whole numbers": laws.put(NoisyTable, "in_whole_numbers", lambda table: table),
    "a grid of its own for each level": of_counters(own_grid),
    "an amount forgotten": of_counters(lambda table: dataclasses.replace(table, unit=1)),
    "a share that is not all of it": laws.around(
        tables, "counters", lambda exact, spec, terms, share: exact(spec, terms, share * Fraction(9, 10))
    ),
    "less noise than the share pays for": of_counters(
        lambda table: dataclasses.replace(table, parameter=table.parameter * Fraction(101, 100))
    ),
    "what a run keeps in units of people": laws.around(
        tables, "of_counter", lambda exact, *given: dataclasses.replace(exact(*given), unit=1)
    ),
    "all of it for the sketch": share_left(lambda exact, counters, *others: Fraction(1)),
    "the share of one counter forgotten": share_left(lambda exact, counters, *others: exact(counters[1:], *others)),
    "the choice not paid for": share_left(lambda exact, counters, spend, lost: exact(counters, lost)),
    "lost weight not paid for": share_left(lambda exact, counters, spend, lost: exact(counters, spend)),
    "shares taken from the sketch twice": share_left(lambda exact, *all_: 2 * exact(*all_) - 1),
    "what a run lost with twice its share": laws.around(terms_module, "lost_counter", twice_the_share),
    "counters without their share": other_share(lambda counter: Fraction(1)),
    "one counter with twice its share": other_share(lambda counter: counter.share * (1 + (counter.name == "scaled"))),
    "tables without their shares": laws.put(tables, "raw_type", lambda spec: Whole(raw_type(spec))),
    "the choice forgotten afterwards": laws.around(ReleaseTerms, "under", with_half_of_the_terms),
}
test_a_planted_fault_is_found = pytest.mark.usefixtures(no_guard.__name__)(
    laws.mutants(FAULTS, check_costs, intact=True)
)
