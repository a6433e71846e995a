"""The rule of key selection: weights, thresholds, and what sketches and votes cost together, derived a second time.

The joint cost is enumerated over all numbers of keys, from the noise that a release would draw, in exact fractions.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import Any, NamedTuple

import pytest

from beam_dpsketch import (
    ADD_OR_REMOVE_ONE,
    REPLACE_ONE,
    IntegerDomain,
    ListedItems,
    NormBound,
    PrivacySpec,
    RecordBounds,
    ReleaseTerms,
    SketchSpec,
    TreeSpec,
)
from beam_dpsketch.exact.sketches.trees import Level
from beam_dpsketch.noise import keys as choosing
from beam_dpsketch.noise.calibration import calibrate
from beam_dpsketch.noise.keys import choose_keys
from beam_dpsketch.privacy import selection
from beam_dpsketch.privacy.contributions import Bounds, NeighboringRelation, PrivacyUnit
from beam_dpsketch.privacy.selection import SelectionRule, SketchCost, free_share, sketch_share, votes_sigma_squared
from tests.helpers import faults, laws, norms
from tests.helpers.tails import true_tails

every_relation = pytest.mark.parametrize("relation", NeighboringRelation, ids=lambda relation: relation.name)
SIZES = [1, 2, 3, 5, 16, 17, 64, 100, 255, 256, 257, 300, 1000, 4097]


def rule_of(max_keys: int, **settings: Any) -> SelectionRule:
    return SelectionRule(**{"delta": Fraction(1, 10**8), "max_keys": max_keys} | settings)


def weight_of(rule: SelectionRule, count: int) -> int:
    """The vote of a unit with this many keys, by a linear search for its class."""
    return next(weight for size, weight in rule.classes if size >= count) if count else 0


# Weights.


def check_weights(max_keys: int) -> None:
    rule = rule_of(max_keys)
    sizes = [size for size, _ in rule.classes]
    assert sizes == sorted(set(sizes))
    assert (sizes[0], sizes[-1]) == (1, max_keys)
    assert dict(rule.classes)[1] == rule.grid
    assert min(weight for _, weight in rule.classes) >= 3
    for size, weight in rule.classes:
        assert size * weight**2 <= rule.grid**2 < size * (weight + 1) ** 2
    for before, after in itertools.pairwise(sizes):
        assert after <= max(before + 1, 2 * before)


@pytest.mark.parametrize("sizes", [range(1, 400), [2**31 - 1, 2**31, 10**6, 46_340**2]], ids=["few", "many"])
def test_the_squares_of_the_votes_of_a_unit_sum_to_the_grid_at_most(sizes: Iterable[int]) -> None:
    for max_keys in sizes:
        check_weights(max_keys)


test_weights_that_are_rounded_up_are_found = laws.mutants(
    {"rounded up": faults.WEIGHTS_ROUNDED_UP.found("", 2)}, check_weights
)


# Thresholds.

VARIANCES = [Fraction(10_000), Fraction(12_345, 67), Fraction(1)]


def check_threshold(rule: SelectionRule, sigma_squared: Fraction, window_count: int) -> None:
    """All keys of a unit together are released with probability delta at most, in all windows, where others help."""
    known, delta = true_tails(sigma_squared), rule.delta / window_count
    threshold = rule.threshold(sigma_squared, window_count)

    def tail(start: int) -> Fraction:
        return known[min(start, len(known) - 1)]  # at 8 sigma it is below all deltas here

    others = (rule.min_units - 1) * rule.grid
    for count in range(1, rule.max_keys + 1):
        assert count * tail(threshold - others - weight_of(rule, count)) <= delta
    less = threshold - 1 - others
    assert max(size * tail(less - weight) for size, weight in rule.classes) * (1 + Fraction(1, 10**6)) > delta


@pytest.mark.one_fast_case
@pytest.mark.parametrize("sigma_squared", [*VARIANCES[1:], pytest.param(VARIANCES[0], marks=pytest.mark.slow)], ids=str)
@pytest.mark.parametrize("window_count", [1, 7])
@pytest.mark.parametrize("min_units", [1, 20])
@pytest.mark.parametrize("max_keys", [1, 2, 16, 300])
def test_thresholds_hold_and_one_less_does_not(
    max_keys: int, min_units: int, window_count: int, sigma_squared: Fraction
) -> None:
    rule = rule_of(max_keys, min_units=min_units, delta=Fraction(1, 10**4))
    check_threshold(rule, sigma_squared, window_count)


test_a_threshold_that_is_too_low_is_found = laws.mutants(
    {
        "one less": faults.ONE_LESS,
        "windows forgotten": faults.WINDOWS_FORGOTTEN,
        "min_units forgotten": faults.threshold(
            lambda exact, rule, *terms: exact(rule, *terms) - (rule.min_units - 1) * rule.grid
        ),
        "the last class alone": faults.threshold(
            lambda exact, rule, *terms: exact(rule, *terms) - rule.grid + rule.classes[-1][1]
        ),
    },
    lambda: check_threshold(rule_of(2, min_units=3, delta=Fraction(1, 10**4)), VARIANCES[0], 7),
)


# What sketches and votes cost together.

MIXED = TreeSpec(
    domain=IntegerDomain(0, 15),
    levels=(
        Level(1, "exact", 1, 2, Fraction(1, 7)),
        Level(1, "count_min", 2, 2, Fraction(2, 7)),
        Level(2, "count_sketch", 3, 3, Fraction(4, 7)),
    ),
)
SPECS: dict[str, Any] = {
    "count sketch": SketchSpec(kind="count_sketch", depth=3, width=8),
    "count min": SketchSpec(kind="count_min", depth=3, width=8),
    "listed": ListedItems(["a", "b"]),
    "tree": MIXED,
}


class Setting(NamedTuple):
    spec: Any
    bounds: Bounds
    relation: NeighboringRelation
    share: Fraction | None
    max_keys: int
    window_count: int = 1

    @property
    def terms(self) -> ReleaseTerms:
        rule = rule_of(self.max_keys, share=self.share)
        privacy = PrivacySpec(rho=Fraction(3, 7), relation=self.relation)
        return ReleaseTerms(
            privacy,
            self.bounds,
            privacy_unit=PrivacyUnit.PRIVACY_ID,
            window_count=self.window_count,
            output_cells=None,
            selection=rule,
        )


def largest_loss(setting: Setting) -> Fraction:
    """The largest loss of sketches and votes, over all numbers of keys, at the noise that a release would draw."""
    terms, bounds = setting.terms, setting.bounds
    assert isinstance(bounds, RecordBounds)
    choice = choose_keys(setting.spec, terms)
    assert choice is not None
    weight = (bounds.max_weight * bounds.max_records) ** 2
    rows, signs = [rows for rows, _ in norms.tables_of(setting.spec)], norms.has_signs(setting.spec)
    noise = calibrate(setting.spec, terms)
    move = sum(row * weight / (2 * variance) for row, variance in zip(rows, noise, strict=True))
    same = sum(
        (4 if signed or bounds.signed else 2) * row * weight / (2 * variance)
        for row, signed, variance in zip(rows, signs, noise, strict=True)
    )
    vote = 1 / (2 * choice.note.sigma_squared)
    weights = [weight_of(choice.rule, count) for count in range(setting.max_keys + 1)]
    losses = []
    theirs = range(setting.max_keys + 1) if setting.relation is REPLACE_ONE else [0]
    for mine, other in itertools.product(range(setting.max_keys + 1), theirs):
        for common in range(min(mine, other) + 1):
            changed = (mine - common) * weights[mine] ** 2 + (other - common) * weights[other] ** 2
            changed += common * (weights[mine] - weights[other]) ** 2
            losses.append(common * same + (mine + other - 2 * common) * move + vote * changed)
    return max(losses) * setting.window_count


def check_loss(setting: Setting) -> None:
    """The largest loss is exactly what the summary counts leave of rho: no more, and no less."""
    assert largest_loss(setting) == setting.terms.privacy.rho * setting.terms.share_left


def settings() -> Iterator[Setting]:
    some_bounds = [RecordBounds(2, max_weight=3), RecordBounds(1, max_weight=3, signed=True)]
    shares = [None, Fraction(1, 10), Fraction(3, 5)]
    for spec, bounds, relation, share in itertools.product(SPECS.values(), some_bounds, NeighboringRelation, shares):
        for max_keys, window_count in ((1, 1), (2, 3), (9, 1)):
            limited = RecordBounds(
                bounds.max_records, max_keys=max_keys, max_weight=bounds.max_weight, signed=bounds.signed
            )
            yield Setting(spec, limited, relation, share, max_keys, window_count)


@pytest.mark.parametrize("step", [15, pytest.param(1, marks=pytest.mark.slow)])
def test_sketches_and_votes_cost_what_is_left_of_rho(step: int) -> None:
    for setting in itertools.islice(settings(), 0, None, step):
        check_loss(setting)


@pytest.mark.slow
@pytest.mark.parametrize("max_keys", [64, 100])
def test_many_keys_cost_what_is_left_of_rho(max_keys: int) -> None:
    for share in (None, Fraction(3, 5)):
        check_loss(Setting(SPECS["count sketch"], RecordBounds(1, max_keys=max_keys), REPLACE_ONE, share, max_keys))


@every_relation
@pytest.mark.parametrize("name", SPECS)
def test_what_is_free_takes_nothing_and_more_takes_something(name: str, relation: NeighboringRelation) -> None:
    for max_keys, left in itertools.product((1, 3, 16, 64), (Fraction(1), Fraction(23, 25))):
        rule = rule_of(max_keys)
        cost = choosing._sketch_cost(SPECS[name], Setting(SPECS[name], RecordBounds(1), relation, None, 1).terms)
        free = free_share(rule, left, cost, relation)
        assert sketch_share(rule, free, left, cost, relation) == left
        assert sketch_share(rule, free + Fraction(1, 10**9), left, cost, relation) < left
        if relation is ADD_OR_REMOVE_ONE or name in ("count min", "listed"):
            assert free == 0
        if relation is REPLACE_ONE and name == "count sketch":
            squares = [size * weight**2 for size, weight in rule.classes]
            assert left / 2 <= free <= left / 2 * rule.grid**2 / squares[-1]


@every_relation
def test_under_a_norm_nothing_is_free_and_the_parts_add(relation: NeighboringRelation) -> None:
    for spec in SPECS.values():
        setting = Setting(spec, NormBound(7, max_keys=9), relation, None, 9)
        choice = choose_keys(spec, setting.terms)
        assert choice is not None
        votes = setting.terms.share_left / 4
        assert choice.sketch_share == setting.terms.share_left - votes
        changed = 48**2 * (1 if relation is ADD_OR_REMOVE_ONE else 2)
        assert changed / (2 * choice.note.sigma_squared) == setting.terms.privacy.rho * votes
        assert choice.note.share == votes


@pytest.mark.usefixtures("fresh_choices")
def test_a_norm_treated_as_bounds_of_records_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choosing, "_sketch_cost", lambda spec, terms: SketchCost(Fraction(1, 4), False))
    with pytest.raises(AssertionError):
        test_under_a_norm_nothing_is_free_and_the_parts_add(REPLACE_ONE)


@pytest.fixture
def fresh_choices() -> Iterator[None]:
    clear = choosing._calibrated.cache_clear
    clear()
    yield
    clear()


def check_losses_at_most() -> None:
    for setting in settings():
        assert largest_loss(setting) <= setting.terms.privacy.rho * setting.terms.share_left, "too much"


def common_keys(rule: SelectionRule, cost: SketchCost, _: Any) -> Iterator[tuple[Fraction, int]]:
    return ((Fraction(size, rule.max_keys), 1) for size, _ in rule.classes)


def other_keys(rule: SelectionRule, cost: SketchCost, _: Any) -> Iterator[tuple[Fraction, int]]:
    return ((2 * size * cost.move / rule.max_keys, 2 * size * weight**2) for size, weight in rule.classes)


FAULTS = {
    "keys in common left out": laws.put(selection, "_cases", other_keys),
    "other keys left out": laws.put(selection, "_cases", common_keys),
    "noise of votes too small": laws.around(
        selection, "votes_sigma_squared", lambda exact, *terms: exact(*terms) * Fraction(99, 100)
    ),
    "noise of one window": laws.around(choosing, "_calibrated", lambda exact, *terms: exact(*terms[:3], 1, *terms[4:])),
    "every sketch with signs": laws.put(
        choosing, "_sketch_cost", lambda spec, terms: SketchCost(Fraction(1, 4), False)
    ),
    "every share free": laws.put(selection, "sketch_share", lambda rule, share, left, cost, relation: left),
}
test_a_planted_fault_costs_more_than_is_left_of_rho = pytest.mark.usefixtures(fresh_choices.__name__)(
    laws.mutants(
        {name: fault.found(r"too much|share between 0") for name, fault in FAULTS.items()},
        check_losses_at_most,
        error=(AssertionError, ValueError),  # a part below 0 is refused
    )
)


# What is refused.

ONE_ROW = SketchSpec(kind="count_sketch", depth=1, width=1)


def test_settings_that_cannot_work_are_refused() -> None:
    for settings, words in {
        ("delta", 0): "delta must be",
        ("delta", 1): "delta must be",
        ("delta", Fraction(1, 10**61)): "delta must be at least 1e-60",
        ("share", 0): "share must be",
        ("share", 1): "share must be",
        ("max_keys", 0): "max_keys must be",
        ("min_units", 0): "min_units must be",
        ("method", "exact"): "method must be",
    }.items():
        with pytest.raises(ValueError, match=words):
            rule_of(**{"max_keys": 1} | dict([settings]))


@pytest.mark.parametrize(
    ("share", "rho", "words"),
    [
        (Fraction(49, 50), 1, "must leave a budget share for the sketch"),
        (Fraction(1, 10**32), 1, "The sigma of votes would exceed 2"),
        (Fraction(1, 10), 10**6, "Votes need noise with sigma of at least 0.5"),
    ],
)
def test_parts_of_rho_that_cannot_work_are_refused_before_there_are_data(share: Any, rho: Any, words: str) -> None:
    terms = ReleaseTerms(
        PrivacySpec(rho=rho), privacy_unit=PrivacyUnit.PRIVACY_ID, output_cells=None, selection=rule_of(1, share=share)
    )
    with pytest.raises(ValueError, match=words):
        choose_keys(ONE_ROW, terms)


def test_geometric_is_refused_where_units_are_replaced() -> None:
    rule = rule_of(1, method="geometric")
    privacy = PrivacySpec(rho=1, relation=REPLACE_ONE)
    terms = ReleaseTerms(privacy, privacy_unit=PrivacyUnit.PRIVACY_ID, output_cells=None, selection=rule)
    with pytest.raises(ValueError, match="requires the relation ADD_OR_REMOVE_ONE"):
        choose_keys(ONE_ROW, terms)


@pytest.mark.parametrize("max_keys", [100, pytest.param(2**31, marks=pytest.mark.slow)])
def test_the_smallest_delta_has_a_threshold(max_keys: int) -> None:
    rule = rule_of(max_keys, delta=Fraction(1, 10**60))
    assert rule.threshold(votes_sigma_squared(rule.grid, Fraction(1), ADD_OR_REMOVE_ONE), 2**32 - 1) > rule.grid


@pytest.mark.parametrize("max_keys", [1, 5])
@pytest.mark.parametrize("min_units", [1, 4])
def test_the_note_says_the_fewest_votes_for_a_half_and_for_99_percent(max_keys: int, min_units: int) -> None:
    setting = Setting(ONE_ROW, RecordBounds(1, max_keys=max_keys), ADD_OR_REMOVE_ONE, None, max_keys)
    rule = rule_of(max_keys, min_units=min_units)
    choice = choose_keys(ONE_ROW, setting.terms if min_units == 1 else _with(setting.terms, rule))
    assert choice is not None
    tails = true_tails(choice.note.sigma_squared)
    for votes, least in ((choice.note.half, Fraction(1, 2)), (choice.note.most, Fraction(99, 100))):
        below = choice.note.threshold - votes  # P(Z >= -n) = 1 - P(Z >= n + 1)
        assert 1 - tails[1 - below] >= least > 1 - tails[-below]


def _with(terms: ReleaseTerms, rule: SelectionRule) -> ReleaseTerms:
    return ReleaseTerms(terms.privacy, terms.bounds, privacy_unit=terms.privacy_unit, output_cells=None, selection=rule)
