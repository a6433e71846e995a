"""What releases cost together: against a search over all ways to split them into executions of their runs."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_dpsketch import ADD_OR_REMOVE_ONE, PrivacyStatement, RecordBounds
from beam_dpsketch.privacy.contributions import PrivacyUnit
from beam_dpsketch.statement import accounting
from beam_dpsketch.statement.accounting import add_up
from tests.helpers import by_hand

HORIZON = {"privacy_unit": PrivacyUnit.RECORD_OVER_HORIZON, "bounds": RecordBounds(1)}


def part(run: int, number: int = 0, draw: int = 0, **changes: Any) -> PrivacyStatement:
    """The statement of one part of a run; the noise of each draw is new."""
    release_id = bytes([run]) * 16 + bytes([number]) * 16 + bytes([run, number, draw]) + bytes(13)
    return by_hand.statement(release_ids=(release_id,), **{"rho": Fraction(run + 1, 3)} | changes)


def partitions(things: list[Any]) -> Iterator[list[list[Any]]]:
    """Yield all ways to split a list into sets."""
    if not things:
        yield []
        return
    first, *rest = things
    for split in partitions(rest):
        yield [[first], *split]
        for place in range(len(split)):
            yield [*split[:place], [first, *split[place]], *split[place + 1 :]]


def searched(statements: Sequence[PrivacyStatement]) -> Fraction:
    """The smallest rho over all ways to see releases as sets of different parts of one run; each set costs rho once."""
    best = None
    for split in partitions(list({each.release_ids: each for each in statements}.values())):
        if all(is_one_execution(group) for group in split):
            cost = sum(group[0].rho for group in split)
            best = cost if best is None else min(best, cost)
    assert best is not None
    return best


def is_one_execution(group: Sequence[PrivacyStatement]) -> bool:
    ids = [each.release_ids[0] for each in group]
    parts = {release_id[16:32] for release_id in ids}
    return len({release_id[:16] for release_id in ids}) == 1 and len(parts) == len(ids)


parts = st.builds(part, st.integers(0, 2), st.integers(0, 2), st.integers(0, 2))
first_draws = st.builds(part, st.integers(0, 2), st.integers(0, 3))


def disagreements() -> list[str]:
    """In which of many small cases the sum is not the one searched for."""
    wrong = []
    for size in (1, 2, 3, 4):
        statements = [part(*each, rho=Fraction(1, 3)) for each in itertools.product(range(2), repeat=3)]
        for case in itertools.combinations_with_replacement(statements, size):
            (spent,) = add_up(case)
            if spent.rho != searched(case):
                wrong.append(repr([each.release_ids for each in case]))
    return wrong


@settings(max_examples=100, deadline=None)
@given(st.lists(parts, min_size=1, max_size=6))
def test_a_run_costs_rho_once_for_each_draw_of_its_most_frequent_part(statements: list[PrivacyStatement]) -> None:
    (spent,) = add_up(statements)
    assert spent.rho == searched(statements)
    assert spent.release_count == len({each.release_ids for each in statements})


def test_all_small_cases_agree_with_the_search() -> None:
    assert disagreements() == []


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("run_and_part", lambda release_id: release_id),
        ("run_and_part", lambda release_id: release_id[:16]),
        ("runs", lambda release_ids: {b"one"}),
        ("_distinct", lambda found: {frozenset(each.release_ids): each for each in found[:-1] or found}),
    ],
    ids=["draws-are-parts", "parts-are-draws", "all-one-run", "the-last-is-lost"],
)
def test_planted_faults_are_found(name: str, fault: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accounting, name, fault)
    assert disagreements()


@settings(max_examples=50, deadline=None)
@given(st.lists(first_draws, min_size=1, max_size=8), st.randoms())
def test_the_sum_is_that_of_a_combination_of_all(statements: list[PrivacyStatement], shuffle: Any) -> None:
    """Combining all releases of each run, and then the runs, composes the same statements one by one."""
    statements = list({each.release_ids: each for each in statements}.values())
    statements.sort(key=lambda each: each.release_ids)
    by_run = itertools.groupby(statements, lambda each: each.release_ids[0][:16])
    compose = functools.partial(PrivacyStatement.composed, units_disjoint=False)
    whole = functools.reduce(compose, [functools.reduce(compose, list(group)) for _, group in by_run])
    assert [each.rho for each in add_up(statements)] == [whole.rho]
    assert [each.rho for each in add_up([whole])] == [whole.rho]
    some = shuffle.sample(statements, shuffle.randint(0, len(statements)))
    assert [each.rho for each in add_up([*some, whole])] == [whole.rho]  # what is in it costs nothing more


def test_two_draws_of_a_part_are_two_releases_and_a_copy_is_none() -> None:
    first, again, other = part(0, 0, 0), part(0, 0, 1), part(0, 1, 0)
    assert [each.rho for each in add_up([first, other, first])] == [Fraction(1, 3)]
    assert [each.rho for each in add_up([first, other, again])] == [Fraction(2, 3)]
    combined = first.composed(again, units_disjoint=False)
    assert [each.rho for each in add_up([combined, first])] == [Fraction(2, 3)]


def test_a_promise_that_units_are_disjoint_holds_for_the_combination_alone() -> None:
    first, second = part(0), part(1)
    promised = first.composed(second, units_disjoint=True)
    assert [each.rho for each in add_up([promised])] == [Fraction(2, 3)]
    assert [each.rho for each in add_up([promised, first])] == [Fraction(2, 3)]
    assert [each.rho for each in add_up([promised, first, second])] == [Fraction(1)]


def test_rows_of_a_timeline_and_its_answers_cost_rho_once() -> None:
    rows = [part(0, number, **HORIZON) for number in range(9)]
    assert [each.rho for each in add_up(rows)] == [Fraction(1, 3)]
    assert [each.rho for each in add_up([*rows, part(1, 0, **HORIZON)])] == [Fraction(1)]


def test_other_terms_of_a_run_add() -> None:
    statements = [part(0, 0), part(0, 1, bounds=RecordBounds(5)), part(0, 2, rho=Fraction(1, 7))]
    assert [each.rho for each in add_up(statements)] == [Fraction(2, 3) + Fraction(1, 7)]


def test_copies_that_differ_cost_the_most_of_each() -> None:
    lossy, failing = part(0, rho=Fraction(3)), part(0, delta=Fraction(1, 10))
    for order in ([lossy, failing], [failing, lossy]):
        (spent,) = add_up(order)
        assert (spent.rho, spent.lost) == (3, Fraction(1, 10))


def test_deltas_of_runs_compose_and_those_of_one_run_count_once() -> None:
    keys = {"delta": Fraction(1, 10)}
    assert [each.lost for each in add_up([part(0, 0, **keys), part(0, 1, **keys)])] == [Fraction(1, 10)]
    assert [each.lost for each in add_up([part(0, **keys), part(1, **keys)])] == [1 - Fraction(9, 10) ** 2]
    assert [each.lost for each in add_up([part(0, 0, 0, **keys), part(0, 0, 1, **keys)])] == [1 - Fraction(9, 10) ** 2]


def test_units_relations_and_periods_are_apart() -> None:
    others: list[dict[str, Any]] = [
        {},
        {"relation": ADD_OR_REMOVE_ONE},
        {"privacy_unit": PrivacyUnit.RECORD, "bounds": RecordBounds(1)},
        {"privacy_unit": PrivacyUnit.PRIVACY_ID_IN_PERIOD, "period_micros": 1_000_000},
        {"privacy_unit": PrivacyUnit.PRIVACY_ID_IN_PERIOD, "period_micros": 2_000_000},
    ]
    assert [each.rho for each in add_up(part(0, number, **each) for number, each in enumerate(others))] == [
        Fraction(1, 3)
    ] * 5


def test_the_smallest_delta_is_shown() -> None:
    (spent,) = add_up([part(0, reported_delta=1e-9), part(1, reported_delta=1e-6)])
    assert spent.reported_delta == 1e-9
