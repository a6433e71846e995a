"""What a release with chosen keys says and spends, what it refuses, and that nobody reads exact votes anywhere.

Keys of many units exceed their threshold by ten sigma or more, and a key of one unit shows with probability 1e-10.
"""

from __future__ import annotations

import functools
import logging
import pickle
import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.transforms.window import TimestampedValue
from hypothesis import given
from hypothesis import strategies as st

from beam_dpsketch import (
    AssumePublicKeys,
    AutoNorm,
    BudgetExceededError,
    KeySelection,
    NormBound,
    PrivacyBudget,
    PrivacyId,
    PrivacySpec,
    PublicKeys,
    Record,
    RecordBounds,
    ReleaseTerms,
    TimeRange,
    release,
)
from beam_dpsketch.answers.released_sketch import ReleasedSketch
from beam_dpsketch.exact.sketches import raw_type
from beam_dpsketch.privacy.budget import PrivacySpec as Spec
from beam_dpsketch.privacy.contributions import NeighboringRelation
from beam_dpsketch.privacy.loss import gaussian_curve
from beam_dpsketch.privacy.loss.composition import Loss, composed_delta, left_of_delta
from beam_dpsketch.privacy.selection import SelectionRule
from beam_dpsketch.privacy.terms import Disclosure
from beam_dpsketch.transforms import PrivateFrequencies
from beam_dpsketch.transforms.steps.release_once import ReleaseOnce
from tests.helpers.pipelines import FN_API, SPEC, ExactCounters, run, seen_by_sink
from tests.helpers.streams import in_windows

DELTA = Fraction(1, 10**10)
ROWS = [{"user": user, "key": key, "item": 1} for user in range(60) for key in "ab"] + [
    {"user": 7, "key": "of one", "item": 1}
]
BY_ID = PrivacyId("user", RecordBounds(1, max_keys=4))


def per_key(privacy: Any = None, privacy_unit: Any = BY_ID, delta: Any = DELTA, **settings: Any) -> Any:
    arguments = {"keys": KeySelection(delta, "key"), "item": "item"} | settings
    return PrivateFrequencies(
        SPEC, PrivacySpec(rho=1) if privacy is None else privacy, privacy_unit=privacy_unit, **arguments
    )


# What is refused.


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: per_key(privacy_unit=Record(max_weight=2, signed=True)), "signed is not supported with KeySelection"),
        (lambda: per_key(privacy_unit=PrivacyId("user", NormBound(5))), "max_keys is required with KeySelection"),
        (lambda: per_key(privacy_unit=PrivacyId("user", AutoNorm())), "max_keys is required with KeySelection"),
        (
            lambda: per_key(privacy_unit=PrivacyId("user", NormBound(5, max_keys=2)), keys=PublicKeys(["a"], "key")),
            "max_keys is supported only with KeySelection",
        ),
        (
            lambda: per_key(privacy_unit=PrivacyId("user", NormBound(5, max_keys=2)), keys=AssumePublicKeys("key")),
            "max_keys is supported only with KeySelection",
        ),
        (
            lambda: PrivateFrequencies(
                SPEC, PrivacySpec(rho=1), privacy_unit=PrivacyId("user", NormBound(5, max_keys=2))
            ),
            "max_keys is supported only with KeySelection",
        ),
        (lambda: per_key(delta=1e-6), "delta must be above 1e-06, the delta that KeySelection or Thresholding spends"),
        (
            lambda: per_key(PrivacySpec(rho=1, delta=1e-11)),
            "delta must be above 1e-10, the delta that KeySelection or Thresholding spends",
        ),
        (
            lambda: per_key(PrivacySpec(epsilon=1, delta=1e-10)),
            "delta must be above 1e-10, the delta that KeySelection or Thresholding spends",
        ),
        (lambda: PrivacyBudget(rho=1, keys_delta=1e-6), "delta must be above 1e-06"),
    ],
    ids=[
        "deletions of records",
        "no max_keys",
        "a chosen norm",
        "listed keys",
        "assumed keys",
        "no keys",
        "usual delta",
        "given delta",
        "delta with epsilon",
        "budget",
    ],
)
def test_what_cannot_be_promised_is_refused(make: Callable[[], Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make()


def test_without_beam_no_keys_are_chosen() -> None:
    terms = ReleaseTerms(PrivacySpec(rho=1), selection=SelectionRule(delta=DELTA, max_keys=1))
    with pytest.raises(ValueError, match=r"selection must be None\. Only transforms select keys"):
        release(raw_type(SPEC)(SPEC), terms)


# Epsilon and delta.


@given(
    epsilon=st.floats(0.05, 20),
    delta=st.floats(1e-12, 1e-2),
    part=st.floats(1e-6, 0.999),
    relation=st.sampled_from(NeighboringRelation),
    pickled=st.booleans(),
)
def test_a_given_epsilon_and_delta_hold_for_sketches_and_keys_together(
    epsilon: float, delta: float, part: float, relation: Any, pickled: bool
) -> None:
    privacy = PrivacySpec(epsilon=epsilon, delta=delta, relation=relation)
    privacy = pickle.loads(pickle.dumps(privacy)) if pickled else privacy
    lost = Fraction(repr(delta * part))
    spec = privacy.losing(lost)
    left = (Fraction(repr(delta)) - lost) / (1 - lost)
    assert gaussian_curve.delta(rho=spec.rho, epsilon=epsilon) <= left
    assert spec.losing(lost) == spec
    terms = ReleaseTerms(spec, selection=SelectionRule(delta=lost, max_keys=1))
    assert terms.epsilon <= epsilon * (1 + 1e-12)
    assert terms.epsilon >= epsilon * (1 - 1e-6)


def test_a_release_keeps_the_epsilon_that_was_given() -> None:
    privacy = pickle.loads(pickle.dumps(PrivacySpec(epsilon=2, delta=1e-6)))
    found = run(MANY, per_key(privacy, delta=5e-7))
    assert found
    for _, released in found:
        assert released.privacy.rho < privacy.rho
        assert 1.999 < released.privacy.epsilon(1e-6) <= 2 * (1 + 1e-12)
        assert released.privacy.delta == Fraction(5, 10**7)


@pytest.mark.slow
def test_a_spec_that_forgets_its_epsilon_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Spec, "__reduce__", lambda spec: (functools.partial(PrivacySpec, rho=spec.rho), ()))
    with pytest.raises(AssertionError):
        test_a_release_keeps_the_epsilon_that_was_given()


@given(
    epsilon=st.floats(0.1, 10), deltas=st.lists(st.integers(1, 100), min_size=1, max_size=5), rest=st.integers(1, 1000)
)
def test_all_releases_of_a_budget_together_are_within_epsilon_and_delta(
    epsilon: float, deltas: list[int], rest: int
) -> None:
    unit, total = Fraction(1, 10**8), sum(deltas)
    delta = float(unit * (total + rest))
    budget = PrivacyBudget(epsilon=epsilon, delta=delta, keys_delta=unit * total)
    share, spent, lost = budget.remaining.rho / len(deltas), Fraction(0), Fraction(0)
    for part in deltas:
        spec = budget.spend(rho=share)
        spec.losing(unit * part).paying_for(object(), unit * part)
        spent, lost = spent + spec.rho, composed_delta(lost, unit * part)
    assert budget.remaining.rho == budget.remaining.keys_delta == 0
    assert lost <= unit * total
    assert Loss(spent, lost).epsilon(delta) <= epsilon * (1 + 1e-12)


@given(delta=st.floats(1e-300, 1, exclude_max=True), lost=st.fractions(0, Fraction(99, 100)))
def test_what_is_left_of_delta_is_never_above_the_exact_one(delta: float, lost: Fraction) -> None:
    exact = (Fraction(repr(delta)) - lost) / (1 - lost)
    if exact <= 0:
        with pytest.raises(ValueError, match="delta must be above"):
            left_of_delta(delta, lost)
    else:
        found = Fraction(left_of_delta(delta, lost))
        assert exact * (1 - Fraction(1, 1 << 50)) - Fraction(1, 1 << 1060) <= found <= exact


# Budgets.


def elements() -> beam.PCollection:
    return beam.Pipeline(FN_API) | beam.Create(ROWS)


def test_a_budget_pays_for_keys_once_for_each_transform() -> None:
    budget, rows = PrivacyBudget(rho=1, keys_delta=2 * DELTA), elements()
    first = per_key(budget.spend(rho=0.25))
    first.explain()
    assert budget.remaining.keys_delta == 2 * DELTA  # nothing is applied yet
    _ = rows | "first" >> first
    assert budget.remaining.keys_delta == DELTA
    with pytest.raises(BudgetExceededError, match="already paid for another release"):
        _ = rows | "again" >> first
    _ = rows | "second" >> per_key(budget.spend(rho=0.25))
    assert budget.remaining.keys_delta == 0
    third = per_key(budget.spend(rho=0.25))
    with pytest.raises(
        BudgetExceededError, match=r"delta = 0 left for KeySelection and Thresholding; this release needs 1e-10"
    ):
        _ = rows | "third" >> third
    _ = rows | "public" >> per_key(budget.spend(rho=0.25), privacy_unit=Record(), keys=PublicKeys(["a"], "key"))


def test_a_budget_without_delta_for_keys_pays_for_none() -> None:
    transform = per_key(PrivacyBudget(rho=1).spend(rho=1))
    with pytest.raises(BudgetExceededError, match="Use a larger keys_delta in PrivacyBudget"):
        _ = elements() | transform


# What releases say.


def released_of(rows: Any = ROWS, **settings: Any) -> dict[Any, ReleasedSketch]:
    return dict(run(rows, per_key(**settings)))


@pytest.mark.slow
def test_keys_of_one_run_lose_delta_once_and_those_of_two_runs_twice() -> None:
    first, second = released_of(), released_of()
    assert first.keys() == second.keys() == {"a", "b"}
    together = first["a"].combine(first["b"])
    assert (together.privacy.delta, together.privacy.rho) == (DELTA, 1)
    assert together.privacy.keys == first["a"].privacy.keys
    for other in (second["a"], second["b"]):
        both = together.combine(other)
        assert (both.privacy.delta, both.privacy.rho) == (1 - (1 - DELTA) ** 2, 2)
        assert ReleasedSketch.from_bytes(both.to_bytes()) == both
        apart = first["a"].combine(other, units_disjoint=True).privacy
        assert (apart.delta, apart.rho) == (DELTA, 1)
    other_rule = released_of(delta=2 * DELTA)["a"]
    mixed = first["a"].combine(other_rule).privacy
    assert (mixed.delta, mixed.keys) == (1 - (1 - DELTA) * (1 - 2 * DELTA), None)
    assert mixed.epsilon(1e-6) > first["a"].privacy.epsilon(1e-6)


@pytest.mark.one_fast_case
@pytest.mark.parametrize("windows", [None, TimeRange(0, 120)], ids=["found", "declared"])
def test_neither_keys_nor_windows_are_said_to_be_shown(windows: Any) -> None:
    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        timed = pipeline | beam.Create(ROWS) | beam.Map(lambda row: TimestampedValue(row, 5.0))
        return timed | in_windows(60) | per_key(windows=windows)

    seen = seen_by_sink(build)
    assert {key for key, _ in seen} == {"a", "b"}  # an empty window shows no key
    for _, released in seen:
        assert released.privacy.disclosed is Disclosure.NONE
        assert "which keys have data" not in str(released.privacy)
        assert "which windows" not in str(released.privacy)
        assert released.privacy.as_dict()["keys_delta"] >= float(DELTA)


@pytest.mark.slow
def test_an_accountant_is_told_of_delta() -> None:
    released = released_of()["a"]
    with pytest.raises(ValueError, match="ignore_delta must be True"):
        released.privacy.to_dp_event()


# Nobody reads exact votes.

UNITS = 1237
MANY = [{"user": user, "key": "popular", "item": 1} for user in range(UNITS)]
MARKS = re.compile(rf"\b({UNITS}|{UNITS * 48})\b")


def failing(*given: Any, **more: Any) -> Any:
    """Fail in the middle of the work, as a worker may."""
    raise RuntimeError("a disk is full")


def shown(error: BaseException | None) -> str:
    words = ""
    while error is not None:
        words, error = f"{words} {error!r} {error}", error.__cause__ or error.__context__
    return words


def test_logs_and_errors_show_no_votes(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = logging.getLogger("beam_dpsketch")
    with caplog.at_level(logging.DEBUG, logger=ours.name):
        assert [key for key, _ in run(MANY, per_key(privacy_unit=Record()))] == ["popular"]
        monkeypatch.setattr("beam_dpsketch.noise.run.release_parts", failing)
        with pytest.raises(Exception, match="a disk is full") as raised:
            run(MANY, per_key(privacy_unit=Record()))
    assert not MARKS.search(shown(raised.value))
    assert not MARKS.search(
        "".join(record.getMessage() for record in caplog.records if record.name.startswith(ours.name))
    )


def hidden(accumulator: Any) -> list[Any]:
    sums = accumulator.to_sums()
    words = [text for each in (accumulator, sums) for text in (repr(each), str(each), f"{each}")]
    return [sums.votes[0].tolist(), *words]


def test_representations_show_no_votes() -> None:
    ((_, (votes, *words)),) = run(MANY, ExactCounters(per_key(privacy_unit=Record()), hidden))
    assert votes == [UNITS * 48, UNITS]
    transform = per_key(privacy_unit=Record())
    choice = transform._declared.resolved.calibrated.choice
    assert not MARKS.search(" ".join([*words, repr(choice), str(transform.display_data())]))


def test_a_second_firing_shows_no_votes_and_decides_nothing() -> None:
    transform = per_key(privacy_unit=Record())
    once = ReleaseOnce(transform._declared.resolved.calibrated)
    pane = beam.utils.windowed_value.PaneInfo(False, False, beam.utils.windowed_value.PaneInfoTiming.ON_TIME, 1, 0)
    with pytest.raises(Exception, match="fired") as raised:
        once.process(None, pane, beam.transforms.window.GlobalWindow())
    assert not MARKS.search(shown(raised.value))
