"""The privacy statement: in words, as plain values, and never more optimistic than the truth."""

from __future__ import annotations

import dataclasses
import json
import re
import sys
from fractions import Fraction
from typing import Any

import dp_accounting
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_dpsketch import (
    ADD_OR_REMOVE_ONE,
    CountSketch,
    NormBound,
    PrivacySpec,
    PrivacyStatement,
    RecordBounds,
    ReleaseTerms,
    SketchSpec,
    release,
)
from beam_dpsketch.errors import IncompatibleSketchError
from beam_dpsketch.planning.kinds.layouts import plan
from beam_dpsketch.privacy.contributions import PrivacyUnit
from beam_dpsketch.privacy.loss import gaussian_curve
from beam_dpsketch.privacy.mechanism import Randomness
from beam_dpsketch.privacy.noise.laws import Noise
from beam_dpsketch.privacy.summary_counts import Uncounted
from beam_dpsketch.privacy.terms import Disclosure
from beam_dpsketch.statement import statement_text
from tests.helpers import laws, strategies
from tests.helpers.by_hand import statement


def test_the_statement_in_words():
    it = statement(
        rho=Fraction(1, 10),
        sigma_squared_per_level=(Fraction(400),),
        bounds=RecordBounds(max_records=3, max_keys=2, max_weight=7, signed=True),
        window_count=4,
        disclosed=Disclosure.KEYS | Disclosure.WINDOWS,
    )
    assert it.details().splitlines() == [
        "Definition    replacing the records of one privacy id changes the probability of any set of results by at "
        "most a factor of 7.353, plus 1e-06",
        "Accounting    rho = 0.1 (zCDP); neighbors: REPLACE_ONE; the loss covers all keys, windows and metrics of the "
        "run together",
        "Noise         discrete Gaussian, sigma = 20 (unit: the contribution of one record of weight 1) per counter; "
        "drawn once; source: the entropy of the operating system",
        "Not counted   records without a privacy id or a usable value",
    ]
    lines = str(it).splitlines()
    assert lines[:2] == [
        "Protects      all records of any one privacy id",
        "Guarantee     epsilon = 1.995, delta = 1e-06 (differential privacy), for replacing the records of one privacy "
        "id",
    ]
    assert lines[2:] == [
        "Meaning       an attacker who knows all other records guesses which of two versions of a given privacy id was "
        "used with at most 58.9 % accuracy, if both are equally likely beforehand (50 % is a coin flip)",
        "Contribution  up to 3 records per privacy id and window in each of up to 2 keys, with weights from -7 to 7, "
        "in up to 4 windows; the rest are dropped",
        "Clipping      not measured in this release; intervals do not include it",
        "Contents      not counted (there are no summary counts)",
        "Not hidden    that this release exists and when it was made, which keys have data, which windows have data",
    ]


@given(it=strategies.statements())
def test_a_statement_says_its_clipping_in_the_words_of_its_state(it):
    (said,) = (line for line in str(it).splitlines() if line.startswith("Clipping "))
    assert said.split(maxsplit=1)[1] == it.clipping().clauses
    assert _parts(str(it.clipping()).removeprefix("Clipping: ")) == _parts(it.clipping().clauses)
    single = it.privacy_unit.value.startswith("any one record")
    is_cut = it.bounds.signed or it.bounds.max_weight > 1 or Uncounted.EXCESS_WEIGHT in it.uncounted
    assert ("intervals do not include it" in said) == (is_cut or not single)
    assert ("none; every " in said) == (single and not is_cut)


def _parts(words: str) -> list[str]:
    """Clauses and sentences alike."""
    return [each.strip(". ").lower() for each in re.split(r"; |\. ", words)]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"bounds": NormBound(1_234_567_890)},
            "clipped to an L2 norm of 1234567890 records per privacy id; up to 1234567890 records always count in full",
        ),
        (
            {"bounds": NormBound(Fraction(5, 2), max_per_item=1, max_weight=7, signed=True), "window_count": 4},
            "weights clamped to [-7, 7], then clipped to an L2 norm of 2.5 per privacy id and window, at most 1 in "
            "each item count, in up to 4 windows; a clamped total weight of up to 1, without signs, counts in full in "
            "each window",
        ),
        (
            {
                "bounds": NormBound(3, max_distinct_items=9),
                "privacy_unit": PrivacyUnit.PRIVACY_ID_IN_PERIOD,
                "period_micros": 60_000_000,
            },
            "clipped to an L2 norm of 3 records per privacy id and period of 1 minute, in at most 9 item counts; up "
            "to 3 records always count in full",
        ),
    ],
)
def test_a_norm_in_words(changes, words):
    lines = str(statement(**changes)).splitlines()
    assert lines[3] == f"Contribution  {words}"
    assert lines[4].startswith("Clipping      not measured in this release; intervals do not include it")


def test_a_norm_as_plain_values():
    plain = statement(bounds=NormBound(Fraction(5, 2), max_per_item=4)).as_dict()
    names = ("max_norm", "max_weight", "max_per_item", "signed", "max_distinct_items")
    assert [plain[name] for name in names] == [2.5, 1, 4, False, None]
    assert json.loads(json.dumps(plain)) == plain


def test_the_relation_and_the_unit_are_in_the_words():
    text = str(
        statement(relation=ADD_OR_REMOVE_ONE, privacy_unit=PrivacyUnit.PRIVACY_ID_IN_WINDOW, bounds=RecordBounds(1))
    )
    assert "guesses whether what a given privacy id contributed to one window was included" in text
    assert "for adding or removing what one privacy id contributes to one window\n" in text
    assert "within one window; not across windows, where losses add up\n" in text
    assert "one record per privacy id and window; the rest are dropped at random\n" in text
    assert "which keys" not in text


def test_a_period_and_a_secret_key_are_in_the_words():
    text = statement(
        privacy_unit=PrivacyUnit.PRIVACY_ID_IN_PERIOD,
        window_count=3,
        period_micros=3_600_000_000,
        randomness=Randomness.KEYED,
    ).text()
    assert "contributes to the windows that end in one period; not across periods, where losses add up" in text
    assert "one period; it holds against everyone who does not know the secret that the noise is derived from" in text
    assert "does not know" not in str(statement())
    assert "in up to 3 windows of each period of 1 hour" in text
    assert "drawn once; source: a generator keyed with a secret" in text
    for micros, seconds in (
        (1_234_567_891_000, "1234567.891 seconds"),
        (31_536_000_000_000, "365 days"),
        (5_400_000_000, "90 minutes"),
        (1000, "0.001 seconds"),
    ):
        exact = str(statement(privacy_unit=PrivacyUnit.PRIVACY_ID_IN_PERIOD, period_micros=micros))
        assert f"of each period of {seconds}" in exact


def test_releases_of_different_periods_are_not_combined():
    privacy_unit = PrivacyUnit.PRIVACY_ID_IN_PERIOD
    hour, day = (statement(privacy_unit=privacy_unit, period_micros=3_600_000_000 * hours) for hours in (1, 24))
    with pytest.raises(IncompatibleSketchError, match="different period lengths"):
        hour.composed(dataclasses.replace(day, release_ids=(bytes(48),)), units_disjoint=False)


def test_a_combination_with_a_keyed_release_is_keyed():
    system, keyed = statement(), statement(randomness=Randomness.KEYED, release_ids=(bytes(48),))
    for first, second in ((system, keyed), (keyed, system)):
        assert first.composed(second, units_disjoint=False).randomness is Randomness.KEYED


def test_several_levels_show_their_range():
    text = statement(sigma_squared_per_level=(Fraction(4), Fraction(9), Fraction(1))).details()
    assert "sigma = 1 to 3 (unit: the contribution of one record) per counter" in text


@given(it=strategies.statements())
def test_printed_and_exported_losses_are_never_below_the_truth(it):
    epsilon, delta = re.search(
        r"\nGuarantee +epsilon = (\S+), delta = (\S+) \(differential privacy\)", str(it)
    ).groups()
    (rho,) = re.search(r"\nAccounting +rho = (\S+) \(zCDP\); ", it.details()).groups()
    assert it.rho <= Fraction(rho) <= it.rho * Fraction(100_001, 100_000)
    exact = gaussian_curve.epsilon(rho=it.rho, delta=it.reported_delta)
    assert exact <= float(epsilon) <= exact * 1.001
    assert it.reported_delta <= float(delta) <= it.reported_delta * 1.00001
    plain = it.as_dict()
    assert it.rho <= Fraction(repr(plain["rho"])) <= it.rho * (1 + Fraction(1, 1 << 50))
    assert plain["epsilon"] == it.epsilon(plain["delta"]) >= exact * (1 - 1e-12)
    assert plain["delta"] == it.reported_delta


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-7), (0.1, 1e-5), (2.5, 3e-9)])
def test_what_was_asked_for_is_printed(epsilon, delta):
    asked = PrivacySpec(epsilon=epsilon, delta=delta, noise="gaussian")
    privacy = release(CountSketch(SketchSpec(depth=2, width=4)), ReleaseTerms(asked)).privacy
    assert f"epsilon = {epsilon:g}, delta = {delta:g} (differential privacy), for adding" in str(privacy)
    assert (privacy.as_dict()["epsilon"], privacy.as_dict()["delta"]) == (asked.epsilon(delta), delta)
    words = str(plan(SketchSpec(depth=2, width=4), ReleaseTerms(asked)))
    assert f"epsilon = {epsilon:g}, delta = {delta:g} (rho = " in words
    other = release(CountSketch(SketchSpec(depth=2, width=4)), ReleaseTerms(PrivacySpec(rho=0.5))).privacy
    for both in (privacy.composed(other, units_disjoint=False), other.composed(privacy, units_disjoint=False)):
        assert both.reported_delta == min(delta, 1e-6)


def test_a_rho_of_many_digits_is_printed_rounded_up():
    assert "rho = 1.23457 (zCDP)" in statement(rho=Fraction("1.2345600001")).details()
    assert statement(rho=Fraction(1, 3)).as_dict()["rho"] > Fraction(1, 3)


@given(it=strategies.statements())
def test_the_dictionary_is_plain(it):
    plain = it.as_dict()
    assert json.loads(json.dumps(plain)) == plain
    assert plain["privacy_unit"] == it.privacy_unit.value
    assert plain["relation"] == it.relation.name
    assert {name: plain[name] for name in it.bounds.as_dict()} == {
        name: value if value is None else type(plain[name])(value) for name, value in it.bounds.as_dict().items()
    }
    assert plain["window_count"] == it.window_count
    assert plain["sigma_squared"] == [float(it.sigma_squared)]
    assert [bytes.fromhex(release_id) for release_id in plain["release_ids"]] == list(it.release_ids)


@given(it=strategies.statements())
def test_the_event_of_an_accountant_is_rounded_up(it):
    event = it.to_dp_event()
    assert isinstance(event, dp_accounting.GaussianDpEvent)
    assert it.rho <= 1 / (2 * Fraction(event.noise_multiplier) ** 2) <= it.rho * (1 + Fraction(1, 1 << 48))
    event = dataclasses.replace(it, pure=Fraction(1, 100), pure_rho=Fraction(1, 20000)).to_dp_event()
    assert isinstance(event, dp_accounting.ZCDpEvent)
    assert it.rho <= Fraction(repr(event.rho)) <= it.rho * (1 + Fraction(1, 1 << 50))


def test_an_accountant_accepts_the_event():
    accountant = dp_accounting.rdp.RdpAccountant()
    accountant.compose(statement().to_dp_event())
    assert accountant.get_epsilon(1e-6) >= statement().epsilon(1e-6) * (1 - 1e-6)


def test_without_the_accountant_the_event_names_the_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    with pytest.raises(ImportError, match="pip install dp-accounting"):
        statement().to_dp_event()


@given(first=st.fractions(Fraction(1, 1000), 100), second=st.fractions(Fraction(1, 1000), 100))
def test_epsilon_of_a_composition_is_at_least_that_of_its_parts(first, second):
    parts = [statement(rho=first), statement(rho=second, release_ids=(bytes(48),))]
    composed = parts[0].composed(parts[1], units_disjoint=False)
    assert composed.rho == first + second
    assert composed.epsilon(1e-6) >= max(part.epsilon(1e-6) for part in parts)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rho": Fraction(0)}, "rho must be between"),
        ({"period_micros": -1}, "period_micros"),
        ({"period_micros": 5}, "period_micros must be above 0 for a privacy unit"),
        ({"privacy_unit": PrivacyUnit.PRIVACY_ID_IN_PERIOD}, "period_micros must be above 0 for a privacy unit"),
        ({"rho": Fraction(-1)}, "rho must be between"),
        ({"rho": Fraction(1 << 65)}, "rho must be between"),
        ({"rho": Fraction(10**3000 + 1, 10**3000)}, "denominators up to"),
        ({"sigma_squared_per_level": (Fraction(1, 257),)}, "sigma_squared_per_level must be at least 1/256"),
        ({"sigma_squared_per_level": (Fraction(1 << 201),)}, "at most 2\\*\\*200"),
        ({"sigma_squared_per_level": (1 + Fraction(1, 3**5000),)}, "denominators up to"),
        ({"sigma_squared_per_level": ()}, "sigma_squared_per_level and release_ids must not be empty"),
        ({"release_ids": ()}, "sigma_squared_per_level and release_ids must not be empty"),
        ({"release_ids": (bytes(16),)}, "release_ids must have 48 bytes each"),
        ({"reported_delta": 0.0}, "reported_delta must be greater than 0"),
        ({"reported_delta": 1.0}, "reported_delta must be greater than 0"),
        ({"reported_delta": float("nan")}, "reported_delta must be greater than 0"),
        ({"release_ids": (bytes(48), bytes(48))}, "release_ids must differ"),
        ({"window_count": 0}, "window_count must be between"),
        ({"window_count": 1 << 32}, "window_count must be between"),
        ({"privacy_unit": PrivacyUnit.RECORD}, "if the privacy unit is a record"),
    ],
)
def test_statements_that_cannot_be_true_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        statement(**changes)


def test_a_statement_is_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        statement().rho = Fraction(1)


def test_notebooks_show_the_words_escaped_and_logs_a_line(monkeypatch):
    it = statement(rho=Fraction("1.2345600001"), bounds=RecordBounds(3, max_weight=7))
    assert repr(it) == "<PrivacyStatement of 1 release(s), rho=1.23457, REPLACE_ONE>"
    shown = it._repr_html_()
    for heading, words in it.facts.items():
        assert f"{heading:14}{words}" in it.text().splitlines()
        assert f"<tr><td>{heading}</td><td>{words}</td></tr>" in shown
    monkeypatch.setitem(statement_text._CHANGE, it.relation, "whether <script>")
    assert "guesses whether &lt;script&gt; with" in it._repr_html_()


JOINED: dict[str, tuple[Any, Any, Any]] = {
    # a field of two statements, in any order, and of their combination
    "noise": (Noise.GAUSSIAN, Noise.LAPLACE, Noise.SUM),
    "bounds": (RecordBounds(3), RecordBounds(1, max_keys=5), RecordBounds(3, max_keys=5)),
    "window_count": (1, 4, 4),
    "overlapping": (1, 3, 3),
    "first_windows": (False, True, True),
    "disclosed": (Disclosure.KEYS, Disclosure.WINDOWS, Disclosure.KEYS | Disclosure.WINDOWS),
    "uncounted": (Uncounted.LATE, Uncounted.OUTSIDE, Uncounted.LATE | Uncounted.OUTSIDE),
    "randomness": (Randomness.SYSTEM, Randomness.KEYED, Randomness.KEYED),
    "reported_delta": (1e-6, 1e-7, 1e-7),
    "sigma_squared_per_level": ((Fraction(9),), (Fraction(2),), (Fraction(11),)),
}


def check_joined() -> None:
    one, two = (
        statement(
            **{name: values[place] for name, values in JOINED.items()}, release_ids=(bytes([place] * 48),), **loss
        )
        for place, loss in enumerate(({}, {"pure": Fraction(1), "pure_rho": Fraction(1, 2)}))
    )
    for first, second, disjoint in ((one, two, False), (two, one, False), (one, two, True), (two, one, True)):
        together = first.composed(second, units_disjoint=disjoint)
        assert {name: getattr(together, name) for name in JOINED} == {name: each for name, (*_, each) in JOINED.items()}


def of_one(name: str) -> laws.Fault:
    """Plant a combination with a field of the first statement."""
    return laws.around(
        PrivacyStatement,
        "_joined",
        lambda exact, one, *others: dataclasses.replace(exact(one, *others), **{name: getattr(one, name)}),
    )


test_a_field_of_one_release_is_found_in_combinations = laws.mutants(
    {name: of_one(name) for name in JOINED}, check_joined, intact=True
)
