"""No statement claims less than one unit can lose: a table of settings, and of all ways to combine their releases.

For each setting, `tests.helpers.losses` works out what every unit adds to all counters of a run. So the largest loss is
known, of the run, of some of its releases, and of several runs together. It is compared with the statements that the
package composes. In the other direction, claims must be attained, so that the comparison is not in vain.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import Any

import pytest

from beam_dpsketch import (
    ADD_OR_REMOVE_ONE,
    REPLACE_ONE,
    AutoNorm,
    Horizon,
    IncompatibleSketchError,
    NormBound,
    PrivacyId,
    PrivacyStatement,
    Record,
    RecordBounds,
    ReleaseTerms,
)
from beam_dpsketch.answers import privacy_statement as statement_module
from beam_dpsketch.exact.declared.windows import WindowPlan
from beam_dpsketch.noise import calibration, counting, tables
from beam_dpsketch.noise import keys as choosing
from beam_dpsketch.privacy import mechanism as sensitivity
from beam_dpsketch.privacy import terms as terms_module
from beam_dpsketch.privacy import two_rounds
from beam_dpsketch.privacy.contributions import NeighboringRelation
from beam_dpsketch.privacy.loss.composition import Loss
from beam_dpsketch.privacy.mechanism import Sensitivity
from beam_dpsketch.privacy.noise.laws import Noise
from beam_dpsketch.privacy.over_time.binned import BinnedRoot
from beam_dpsketch.privacy.summary_counts import LOST, LostCounter, SummaryCount
from beam_dpsketch.privacy.terms import RowTerms
from beam_dpsketch.privacy.thresholded_counts import ThresholdRule
from beam_dpsketch.statement import accounting
from beam_dpsketch.statement.accounting import add_up
from beam_dpsketch.transforms.steps import windows
from tests.helpers import laws, noise
from tests.helpers.combinations import (
    Combination,
    Leaf,
    all_trees,
    compose,
    leaves_of,
    neighbours,
    worst_delta,
    worst_loss,
)
from tests.helpers.kept_units import CHOICE, KEPT
from tests.helpers.loss_settings import (
    DELTA,
    EPSILON,
    REPORTED,
    RHO,
    SHARES,
    SIDES,
    TWO,
    Layout,
    Row,
    Setting,
    all_pairs,
)
from tests.helpers.losses import Run, claim_of
from tests.helpers.noise import no_guard
from tests.helpers.published import chances_of
from tests.helpers.side_releases import any_norm, no_noise

pytestmark = pytest.mark.usefixtures(any_norm.__name__, no_guard.__name__)
ROUNDING = 1 + 1e-9
NORM = Fraction(3, 2)


RELATIONS = (ADD_OR_REMOVE_ONE, REPLACE_ONE)
CLIPPED = ("clipped", "scaled")
POOL = (Leaf("A"), Leaf("A", draw=1), Leaf("B"), Leaf("C"), Leaf("A", 1), Leaf("B", 1))
PAIRS, TRIPLES, FOURS = (all_trees(POOL, size) for size in (2, 3, 4))
ONE_PART = [tree for tree in (*PAIRS, *TRIPLES, *FOURS) if all(leaf.part == 0 for leaf in leaves_of(tree))]
EVERY_THIRD = [*PAIRS, *TRIPLES, *FOURS][::3]
SOME = [*PAIRS, *random.Random(5).sample(TRIPLES, 60)]


def claims(run: Run, wanted: list[Any]) -> Iterator[tuple[Any, Fraction, float]]:
    """Yield combinations that are not refused, the rho that they claim, and what they lose; check the delta."""
    parts, statement, of_run = run.two_parts, run.statement, functools.cache(run.loss_of_parts)

    @functools.cache
    def statement_of(leaf: Leaf) -> PrivacyStatement:
        return dataclasses.replace(statement, release_ids=(leaf.release_id,))

    for tree in wanted:
        if max(leaf.part for leaf in leaves_of(tree)) >= len(parts):
            continue
        try:
            combined = compose(tree, statement_of)
        except IncompatibleSketchError:
            assert statement.privacy_unit.over_horizon, "only answers over time share noise"
            continue
        pairs = neighbours(tree, run.relation)
        assert worst_delta(pairs, statement.delta) <= combined.delta, "a combination loses more delta than it says"
        yield tree, claim_of(combined.loss), worst_loss(pairs, dict.fromkeys("ABC", of_run))
        other = POOL[(len(leaves_of(tree)) + wanted.index(tree)) % (len(parts) + 3)]
        first, *others = leaves_of(tree)
        for files, pairs in (
            ([combined, statement_of(other)], neighbours(tree, run.relation, (other,))),
            (map(statement_of, leaves_of(tree)), neighbours(first, run.relation, tuple(others))),
        ):
            (spent,) = add_up(files)
            lost = worst_loss(pairs, dict.fromkeys("ABC", of_run))
            assert lost <= claim_of(spent.loss) * ROUNDING, "files lose more than is added up"
            assert worst_delta(pairs, statement.delta) <= spent.lost, "files lose more delta than is added up"


def check(run: Run, wanted: list[Any]) -> int:
    """Raise unless neither the run nor combinations of such runs lose more than is said; return their number."""
    claimed, number = run.claimed, 0
    check_asked(run)
    assert run.worst <= claimed * ROUNDING, "a run loses more than it says"
    if run.relation is REPLACE_ONE:
        assert 2 * run.removal <= claimed * ROUNDING, "a removal loses more than half of what is said"
    assert max(run.parts_of_shares().values()) <= ROUNDING, "a table loses more than its share"
    for _, claimed, lost in claims(run, wanted):
        assert lost <= claimed * ROUNDING, "a combination loses more than it says"
        number += 1
    check_chances(run)
    return number


def check_asked(run: Run) -> None:
    """Raise if a run claims more than was asked for, or all shares of a budget together do."""
    name, said = run.setting.loss, run.statement.loss
    whole = functools.reduce(Loss.plus, [said] * (SHARES if "share" in name else 1))
    if name in ("rho", "share"):
        assert whole.rho == RHO, "another rho than asked for"
    elif said.is_pure:
        assert whole.pure == EPSILON, "another epsilon than asked for"
    else:
        assert name not in ("laplace", "pure", "pure share"), "another noise than asked for"
        assert whole.epsilon(REPORTED) <= EPSILON, "more epsilon than asked for"
    assert said.delta == (DELTA if run.statement.keys is not None else 0), "another delta than asked for"


def check_chances(run: Run) -> None:
    """Raise if what one unit has alone is published with more than the delta that is said."""
    if run.statement.keys is not None:
        chance = sum(chances_of(run).values())
        assert chance <= run.statement.delta * Fraction(ROUNDING), "one unit alone is published too often"


def check_attained(run: Run, sides: str) -> bool:
    """Raise if a run without parts aside could have less noise, where one sketch has it all."""
    bounds, kind, removal = run.setting.privacy_unit.bounds, run.setting.kind, run.relation is ADD_OR_REMOVE_ONE
    flat = kind in ("count_min", "count_sketch", "listed", "statistics", "variance") or (
        kind in ("ranks", "ranks above a sketch", "metrics", "metrics, ranks") and removal
    )
    attains = isinstance(bounds, RecordBounds) or (bounds.has_weights and removal)
    if sides != "none" or not flat or not attains or run.setting.layout.keys in ("chosen", "chosen twice"):
        return False
    assert run.worst >= run.claimed * Fraction(98, 100), "a run has more noise than it needs"
    return True


def check_rows(rows: Iterable[Row]) -> Counter[str]:
    """Check rows; return how many runs and combinations there are."""
    counted: Counter[str] = Counter()
    random_trees, worst = random.Random(3), defaultdict[Any, float](float)
    for setting, relation, sides in rows:
        run = Run(setting, relation, SIDES[sides])
        counted["runs"] += 1
        counted["combinations"] += check(run, random_trees.sample(SOME, 8))
        counted["attained"] += check_attained(run, sides)
        for table, part in run.parts_of_shares().items():
            at = table, relation, run.statement.noise
            worst[at] = max(worst[at], part)
    check_tables_attained(worst)
    return counted


def check_tables_attained(worst: dict[Any, float]) -> None:
    """Raise if a table could have less noise: some unit of some setting costs all of its share.

    A replacement moves the weight that is kept in a run as far as a removal does, because all units are in one number.
    """
    assert {table for table, *_ in worst} == {"counters", "units", "records", "weight", *CLIPPED, LOST, KEPT, CHOICE}
    for (table, relation, law), part in worst.items():
        least = 0.49 if (table, relation) == (KEPT, REPLACE_ONE) else 0.99
        assert part >= least, f"{table} has more noise than it needs, {relation.name}, {law.name}"


def first_third() -> Iterator[Row]:
    return itertools.islice(all_pairs().rows(), 176)


@pytest.mark.usefixtures(no_noise.__name__)
def test_no_run_and_no_combination_loses_more_than_it_says() -> None:
    counted = check_rows(first_third())
    assert counted["runs"] == 176
    assert counted["combinations"] > 1000
    assert counted["attained"] > 10


@pytest.mark.slow
@pytest.mark.usefixtures(no_noise.__name__)
def test_no_pair_of_settings_loses_more_than_it_says() -> None:
    """Each two settings are together in a run, or no run of both was found that is not refused."""
    pairs = all_pairs()
    counted = check_rows(pairs.rows())
    assert (len(pairs.covered), len(pairs.refused)) == (1893, 312)
    assert counted["combinations"] > 3000
    assert counted["attained"] > 30


def check_everything_of(setting: Setting, sides: str) -> tuple[int, Counter[str]]:
    """Check all combinations of up to four releases; return how many, and how many kinds of them lose what they say."""
    number, attained = 0, Counter[str]()
    for relation in RELATIONS:
        run = Run(setting, relation, SIDES[sides])
        for tree, claimed, lost in claims(run, ONE_PART if setting in (PLAIN, ASIDE) else EVERY_THIRD):
            assert lost <= claimed * ROUNDING, "a combination loses more than it says"
            number += 1
            if lost * ROUNDING >= claimed:
                attained[f"{relation.name}, {kind_of(tree)}"] += 1
    return number, attained


def kind_of(tree: Any) -> str:
    """Return whether units are in one release only, in all, or both."""
    promises = {each.disjoint for each in combinations_in(tree)}
    return {(True,): "disjoint", (False,): "sum", (False, True): "mixed"}[tuple(sorted(promises))]


def combinations_in(tree: Any) -> Iterator[Combination]:
    if isinstance(tree, Combination):
        yield tree
        yield from combinations_in(tree.first)
        yield from combinations_in(tree.second)


PLAIN = Setting("count_min", PrivacyId("user", RecordBounds(1)), Layout())
ASIDE = PLAIN._replace(
    privacy_unit=PrivacyId("user", RecordBounds(2))
)  # its records are not its units, which it counts aside
OF_KEYS = Setting("count_min", PrivacyId("user", RecordBounds(2, **TWO)), Layout(keys="listed"))
CHOSEN = Setting("count_min", PrivacyId("user", RecordBounds(2, **TWO)), Layout(keys="chosen"))
TWICE = Setting("count_min", PrivacyId("user", NormBound(NORM, max_weight=9, max_keys=2)), Layout(keys="chosen twice"))


@pytest.mark.usefixtures(no_noise.__name__)
def test_every_combination_of_up_to_four_releases() -> None:
    """Under `REPLACE_ONE` one release in one cell has less than it says aside; disjoint releases have all of it."""
    every = {f"{relation.name}, {kind}" for relation in RELATIONS for kind in ("sum", "disjoint", "mixed")}
    for setting, sides, not_attained in (
        (PLAIN, "none", set[str]()),
        (PLAIN, "usual", set[str]()),
        (ASIDE, "usual", {"REPLACE_ONE, sum"}),
    ):
        number, attained = check_everything_of(setting, sides)
        assert number == 2 * len(ONE_PART)
        assert set(attained) == every - not_attained


@pytest.mark.slow
@pytest.mark.usefixtures(no_noise.__name__)
@pytest.mark.parametrize("setting", [OF_KEYS, CHOSEN])
def test_every_combination_of_up_to_four_parts_of_runs(setting: Setting) -> None:
    number, attained = check_everything_of(setting, "usual")
    assert number == 2 * len(EVERY_THIRD)
    assert attained["REPLACE_ONE, mixed"] > 0 < attained["ADD_OR_REMOVE_ONE, mixed"]


ITEMS = Setting("groups", PrivacyId("user", NormBound(NORM, max_weight=9, max_keys=2)), Layout(keys="listed"))
ITEMS_ONCE = Setting("groups", PrivacyId("user", RecordBounds(2, **TWO)), Layout(60))
OVER_TIME = Setting(
    "count_min", PrivacyId("user", NormBound(NORM, max_weight=9)), Layout(keys="listed", horizon=Horizon(0, 60, 4))
)


@pytest.mark.usefixtures(no_noise.__name__)
@pytest.mark.parametrize("one_run", [False, True])
@pytest.mark.parametrize("relation", RELATIONS)
def test_keys_over_time_lose_no_more_than_is_said(relation: NeighboringRelation, one_run: bool) -> None:
    """Whether all rows of a run have one name, or those of each key their own."""
    run = Run(OVER_TIME, relation, SIDES["usual"])
    leaves = [Leaf("A"), Leaf("A", 1) if one_run else Leaf("B", 1)]
    statements = [dataclasses.replace(run.statement, release_ids=(leaf.release_id,)) for leaf in leaves]
    both = ((0, 1), (1, 1))
    lost = run.loss_of_parts(both, () if relation is ADD_OR_REMOVE_ONE else both)
    (spent,) = add_up(statements)
    assert 0 < lost <= spent.rho * ROUNDING
    for disjoint in (False, True):
        with contextlib.suppress(IncompatibleSketchError):
            assert lost <= statements[0].composed(statements[1], units_disjoint=disjoint).rho * ROUNDING


ID = functools.partial(PrivacyId, "user")
ITEMS_IN_TWO = (ID(RecordBounds(2, **TWO), max_windows=2), Layout(60, keys="listed"))


def check_published(privacy_unit: Any, layout: Layout, loss: str = "rho") -> None:
    run = Run(Setting("groups", privacy_unit, layout, loss), REPLACE_ONE, None)
    check_chances(run)
    found = chances_of(run)["counts"] / (DELTA if run.choice is None else DELTA / 2)
    assert found >= Fraction(9 if loss == "laplace" else 99, 10 if loss == "laplace" else 100), (
        "a threshold is too high"
    )


PUBLISHED_FAULTS = {
    "windows of a threshold forgotten under Laplace noise": laws.around(
        counting,
        "note_of",
        lambda exact, terms, *others: exact(
            dataclasses.replace(terms, window_count=1) if terms.noise is Noise.LAPLACE else terms, *others
        ),
    ).found("published too often", *ITEMS_IN_TWO, "laplace"),
    "windows of a threshold forgotten": laws.around(
        counting, "note_of", lambda exact, terms, *others: exact(dataclasses.replace(terms, window_count=1), *others)
    ).found("published too often", *ITEMS_IN_TWO),
    "all of delta for the counts": laws.around(
        ThresholdRule,
        "threshold",
        lambda exact, rule, *terms: exact(dataclasses.replace(rule, delta=2 * rule.delta), *terms),
    ).found("published too often", ID(RecordBounds(2, **TWO)), Layout()),
    "a threshold that is two less": laws.around(
        ThresholdRule,
        "threshold",
        lambda exact, *terms: exact(*terms) - 2 * 4,
        "published too often",
        Record(max_weight=3),
        Layout(120, 60),
    ),
}
test_a_fault_planted_in_a_threshold_is_found = pytest.mark.usefixtures(no_noise.__name__)(
    laws.mutants(PUBLISHED_FAULTS, check_published, intact=True)
)


# Faults


def removals_cost_replacements(counter: SummaryCount, relation: NeighboringRelation, *, reach: Any = 1) -> Sensitivity:
    """Noise for a replacement in the same number."""
    return Sensitivity(counter.squared_limit * reach * (4 if counter.signed and relation is REPLACE_ONE else 1))


def one_window(exact: Any, *arguments: Any) -> WindowPlan:
    plan = exact(*arguments)
    return plan._replace(terms=dataclasses.replace(plan.terms, window_count=1))


def half_of_the_variance(exact: Any, *terms: Any) -> list[Any]:
    return [noise.with_parameter(table, Fraction(1, 2)) for table in exact(*terms)]


def with_less_noise(exact: Any, spec: Any, terms: ReleaseTerms) -> Any:
    choice = exact(spec, terms)
    note = choice and dataclasses.replace(choice.note, sigma_squared=choice.note.sigma_squared * 3 / 4)
    return choice and choice._replace(note=note)


FIRST_ROW = property(lambda mechanism: (mechanism.gains[0] << mechanism.weight_bits) ** 2)
"""As if noise were for the first row of a window, and not for all rows that hold it."""
PERIOD = Setting("count_min", ID(NormBound(NORM, max_weight=9), period=60), Layout(60))
AUTO = Setting("count_min", ID(AutoNorm(max_weight=9)), Layout())
IN_TWO = Setting("count_min", ID(RecordBounds(1), max_windows=2), Layout(60))
STREAM = Setting("count_min", ID(RecordBounds(1), max_windows=2, period=240), Layout(60, streaming=True))
CLAMPED = Setting("count_min", Record(max_weight=3), Layout(120, 60))
SLIDING = Setting("count_min", Record(), Layout(120, 60))
ROWS = Setting("count_min", ID(RecordBounds(1), max_windows=2), Layout(horizon=Horizon(0, 60, 4)))
ROW = Setting("count_min", Record(), Layout(horizon=Horizon(0, 60, 12)))
SIGNS = Setting("count_sketch", Record(), Layout())
SIGNED = Setting("count_sketch", ID(RecordBounds(2, max_weight=3, signed=True)), Layout())
A_TABLE = "a table loses more than its share"
LOSES, A_RUN, A_REMOVAL = "a combination loses more than it says", "a run loses more", "a removal loses more than half"
REMOVALS = laws.put(SummaryCount, "sensitivity", removals_cost_replacements)
WINDOWS_FORGOTTEN = laws.put(ReleaseTerms, "reach", Fraction(1))
LOST_IS_FREE = laws.put(LostCounter, "shares", Fraction(0))
LOST_IN_ONE_WINDOW = laws.around(
    terms_module,
    "lost_counter",
    lambda exact, *terms, **rest: (found := exact(*terms, **rest)) and found._replace(reach=1),
)
FAULTS = {
    "removals_cost_replacements": REMOVALS.found(A_RUN, PERIOD),
    "removals_cost_replacements, in half": REMOVALS.found(A_REMOVAL, ASIDE),
    "all_runs_are_one": laws.put(statement_module, "are_parts_of_one_run", lambda release_ids: True, LOSES, PLAIN),
    "draws_are_parts": laws.put(
        statement_module,
        "are_parts_of_one_run",
        lambda release_ids: len({each[:16] for each in release_ids}) == 1,
        LOSES,
        PLAIN,
    ),
    "losses_do_not_add": laws.put(Loss, "plus", Loss.larger, LOSES, PLAIN),
    "deltas_do_not_add": laws.put(
        Loss, "plus", lambda one, two: Loss(one.rho + two.rho, max(one.delta, two.delta)), "loses more delta", CHOSEN
    ),
    "files_of_all_runs_are_one": laws.put(accounting, "runs", lambda release_ids: {b"one"}, "files lose more", PLAIN),
    "the_smaller_counts": laws.put(
        Loss, "larger", lambda one, two: Loss(one.rho / 2, min(one.delta, two.delta)), "lose more", PLAIN
    ),
    "parts_aside_are_free": laws.put(
        terms_module, "share_left", lambda counters, *others: 1 - sum(others, Fraction(0)), A_REMOVAL, ASIDE
    ),
    "the_choice_is_free": laws.put(
        terms_module,
        "share_left",
        lambda counters, spend, lost: 1 - lost - sum(each.share for each in counters),
        A_REMOVAL,
        AUTO,
    ),
    "lost_weight_is_free": LOST_IS_FREE.found(A_REMOVAL, ASIDE),
    "lost_weight_is_free, of_a_run": LOST_IS_FREE.found(f"{A_REMOVAL}|{A_RUN}", OF_KEYS),
    "windows_of_lost_weight_are_forgotten, sliding": LOST_IN_ONE_WINDOW.found(A_REMOVAL, CLAMPED),
    "votes_are_free": laws.put(calibration, "sketch_share", lambda spec, terms: terms.share_left, A_RUN, CHOSEN),
    "votes_are_free, in two rounds": laws.put(
        calibration, "sketch_share", lambda spec, terms: terms.share_left, A_RUN, TWICE
    ),
    "parts of two rounds that do not sum to the amount": laws.around(
        two_rounds, "votes_sigma_squared", lambda exact, grid, rho, relation: exact(grid, 2 * rho, relation)
    ).found(A_RUN, TWICE),
    "a replacement in two rounds at the factor of an addition": laws.around(
        two_rounds, "votes_sigma_squared", lambda exact, grid, rho, relation: exact(grid, rho, ADD_OR_REMOVE_ONE)
    ).found(A_RUN, TWICE),
    "the second of two rounds has the votes of the first": laws.put(two_rounds, "RATIO", 4, A_RUN, TWICE),
    "votes for items are free": laws.put(
        calibration, "sketch_share", lambda spec, terms: terms.share_left, A_RUN, ITEMS
    ),
    "votes for items are free, in one round": laws.put(
        calibration, "sketch_share", lambda spec, terms: terms.share_left, A_RUN, ITEMS_ONCE
    ),
    "a replacement in votes for items at the factor of an addition": laws.around(
        two_rounds, "votes_sigma_squared", lambda exact, grid, rho, relation: exact(grid, rho, ADD_OR_REMOVE_ONE)
    ).found(A_RUN, ITEMS),
    "windows_are_forgotten": WINDOWS_FORGOTTEN.found(A_RUN, IN_TWO),
    "windows_are_forgotten, sliding": WINDOWS_FORGOTTEN.found(A_RUN, SLIDING),
    "windows_are_forgotten, of_a_stream": laws.around(windows, "plan_windows", one_window, A_RUN, STREAM),
    "windows_are_forgotten, of_a_counter": laws.around(
        SummaryCount,
        "sensitivity",
        lambda exact, counter, relation, **settings: exact(counter, relation, **settings | {"reach": 1}),
    ).found(A_REMOVAL, CLAMPED),
    "windows_are_forgotten, of_what_a_run_keeps": laws.around(
        terms_module, "lost_counter", lambda exact, *terms, windows, **rest: exact(*terms, windows=1, **rest)
    ).found(A_REMOVAL, IN_TWO),
    "replacements_cost_removals": laws.put(
        SummaryCount, "sensitivity", lambda counter, relation, *, reach=1: Sensitivity(counter.squared_limit * reach)
    ).found(A_REMOVAL, ASIDE),
    "signs_of_a_counter_are_forgotten": laws.around(
        tables, "of_counter", lambda exact, counter, *terms: exact(counter._replace(signed=False), *terms)
    ).found(A_TABLE, SIGNED),
    "votes_with_less_noise": laws.around(calibration, "choose_keys", with_less_noise, A_RUN, CHOSEN),
    "rows_are_forgotten": laws.put(RowTerms, "reach", Fraction(1), A_RUN, ROWS),
    "the_length_of_the_first_row_alone": laws.put(BinnedRoot, "squared_length", FIRST_ROW, A_RUN, ROW),
    "noise_of_half_the_variance_for_items": laws.around(counting, "counter_tables", half_of_the_variance, A_RUN, ITEMS),
    "all_of_rho_for_the_sketch": laws.put(ReleaseTerms, "share_left", Fraction(1), A_REMOVAL, ASIDE),
    "signs_are_forgotten": laws.around(
        sensitivity, "change_factor", lambda exact, relation, *, has_signs=False: exact(relation), A_RUN, SIGNS
    ),
}


def check_usual(setting: Setting) -> None:
    check(Run(setting, REPLACE_ONE, SIDES["usual"]), ONE_PART)


RANKS = Setting("ranks", ID(RecordBounds(2, max_weight=3)), Layout())
FAULTS |= {
    "rows with signs, said to have none": laws.around(
        sensitivity,
        "change_factor",
        lambda exact, relation, *, has_signs=False: exact(relation),
        A_RUN,
        RANKS._replace(privacy_unit=ID(RecordBounds(2, max_weight=3, signed=True))),
    )
}
test_a_planted_fault_is_found = pytest.mark.usefixtures(no_noise.__name__)(
    laws.mutants(FAULTS, check_usual, intact=True)
)


def check_added(setting: Setting) -> None:
    check(Run(setting, ADD_OR_REMOVE_ONE, SIDES["usual"]), ONE_PART)


KEYS_OF_ROWS = ROWS._replace(
    privacy_unit=ID(RecordBounds(1, max_keys=1), max_windows=2), layout=ROWS.layout._replace(keys="chosen")
)
test_a_fault_of_added_units_is_found = pytest.mark.usefixtures(no_noise.__name__)(
    laws.mutants(
        {
            "votes of rows cost no more than a sketch can cost less": laws.around(
                choosing, "_sketch_cost", lambda exact, *terms: exact(*terms)._replace(is_joint=False)
            ).found(A_RUN, KEYS_OF_ROWS)
        },
        check_added,
        intact=True,
    )
)


def more_noise(name: str) -> laws.Fault:
    """Plant noise for twice the squared change of a counter."""

    def wrong(exact: Any, counter: SummaryCount, *given: Any, **reach: Any) -> Sensitivity:
        found = exact(counter, *given, **reach)
        return found._replace(squared=found.squared * (2 if counter.name == name else 1))

    return laws.around(SummaryCount, "sensitivity", wrong, f"{name} has more noise than it needs")


test_noise_that_no_unit_needs_is_found = pytest.mark.slow(
    pytest.mark.usefixtures(no_noise.__name__)(
        laws.mutants({name: more_noise(name) for name in ("units", *CLIPPED)}, lambda: check_rows(first_third()))
    )
)
