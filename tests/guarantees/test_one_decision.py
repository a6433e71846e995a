"""One decision for each key and window: the same again where noise is idempotent, and unrelated where anything differs.

Keys here are released with a probability of about 1/2. Of 400 decisions, two unrelated draws differ in fewer than 100
with probability below 1e-20, and two equal ones in none.
"""

from __future__ import annotations

import dataclasses
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from beam_dpsketch import KeySelection, ListedItems, PrivacyId, PrivacySpec, RecordBounds
from beam_dpsketch.encodings import encode
from beam_dpsketch.noise import keys as choosing
from beam_dpsketch.noise import run as engine_run
from beam_dpsketch.noise.keys import KeyChoice, find_chosen
from beam_dpsketch.privacy.noise.keyed_randomness import KeyedRandomness
from beam_dpsketch.transforms import EnvironmentSecret, PrivateFrequencies
from tests.helpers.pipelines import BUNDLE_BASED, FN_API, run

COUNT, FEW = 400, 100
SECRET, OTHER = b"a secret of 32 bytes or more, made up", b"another secret of 32 bytes, made up too"
VARIABLE = "DPSKETCH_TEST_SECRET"
DELTA = Fraction(1, 100)
LISTED = ListedItems([1])


def transform(delta: Any = DELTA, *, release_id: str | None = None, max_keys: int = 1, **settings: Any) -> Any:
    privacy = PrivacySpec(rho=1, delta=0.5)
    keys = KeySelection(delta, "key", share=Fraction(1, 20), **settings)
    made = PrivateFrequencies(
        LISTED, privacy, unit=PrivacyId("user", RecordBounds(1, max_keys=max_keys)), keys=keys, item="item"
    )
    if release_id is None:
        return made
    return made.with_idempotent_noise(release_id=release_id, secret=EnvironmentSecret(VARIABLE))


def choice_of(**settings: Any) -> KeyChoice:
    choice = transform(**settings)._declared.resolved.calibrated.choice
    assert choice is not None
    return choice


def streams(secret: bytes = SECRET, context: str = "visits") -> list[KeyedRandomness]:
    return [KeyedRandomness(secret, encode((context, key))) for key in range(COUNT)]


CHOICE = choice_of()
UNITS = -(-CHOICE.note.half // CHOICE.note.grid)
VOTES = np.array([[CHOICE.note.half, UNITS]] * COUNT)


def decide(
    choice: KeyChoice = CHOICE, votes: np.ndarray = VOTES, secrets: list[KeyedRandomness] | None = None
) -> np.ndarray:
    return find_chosen(choice, votes, streams() if secrets is None else secrets)


def with_other_rule(**changes: Any) -> KeyChoice:
    """Other settings, and the same threshold and noise."""
    return CHOICE._replace(rule=dataclasses.replace(CHOICE.rule, **changes))


OTHERS: dict[str, Any] = {
    "another secret": lambda: decide(secrets=streams(OTHER)),
    "another release": lambda: decide(secrets=streams(context="other visits")),
    "one vote more": lambda: decide(votes=VOTES + np.array([1, 0])),
    "one unit more": lambda: decide(votes=VOTES + np.array([0, 1])),
    "another delta": lambda: decide(with_other_rule(delta=DELTA + Fraction(1, 10**9))),
    "another share": lambda: decide(with_other_rule(share=Fraction(1, 3))),
    "more keys": lambda: decide(with_other_rule(max_keys=2)),
    "more units": lambda: decide(with_other_rule(min_units=2)),
    "another note": lambda: decide(CHOICE._replace(note=dataclasses.replace(CHOICE.note, share=Fraction(1, 7)))),
    "no secret": lambda: find_chosen(CHOICE, VOTES),
}


def test_a_decision_under_a_secret_never_changes() -> None:
    """Where this fails, another version of the package decides otherwise: raise `NOISE_VERSION`."""
    golden = "5f7ed500f253e6294b05d05fbd68edd5b25d2983805b39171d1b896c2bb6a0eda02cd0d5b05588676d5afe74f99f1e0a51ab"
    assert np.packbits(decide()).tobytes().hex() == golden


def test_equal_secrets_votes_and_settings_decide_the_same() -> None:
    first = decide()
    assert FEW < first.sum() < COUNT - FEW
    assert np.array_equal(first, decide())
    order = np.random.default_rng(3).permutation(COUNT)
    again = decide(votes=VOTES[order], secrets=[streams()[place] for place in order])
    assert np.array_equal(first[order], again)  # whoever decides together


@pytest.mark.parametrize("name", OTHERS)
def test_what_differs_in_anything_is_decided_anew(name: str) -> None:
    assert np.count_nonzero(decide() != OTHERS[name]()) >= FEW


def test_every_key_has_randomness_of_its_own() -> None:
    """Two halves of the keys agree in about half of their decisions, with and without a secret."""
    for decided in (decide(), find_chosen(CHOICE, VOTES)):
        assert COUNT / 16 < np.count_nonzero(decided[: COUNT // 2] != decided[COUNT // 2 :]) < COUNT / 2 - COUNT / 16


def test_randomness_that_ignores_the_votes_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    exact = choosing.message
    monkeypatch.setattr(choosing, "message", lambda what, settings, numbers: exact(what, settings, []))
    assert np.count_nonzero(decide() != OTHERS["one vote more"]()) < FEW


# Whole pipelines.

KEYS = 120
ROWS = [{"user": f"{key} {user}", "key": key, "item": 1} for key in range(KEYS) for user in range(UNITS)]
"""Keys are released with a probability of 0.5 to 0.65 here, so 10 to 110 of them, but for a probability of 1e-10."""


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, SECRET.decode())


def bytes_by_key(found: list[Any]) -> dict[int, set[bytes]]:
    by_key: dict[int, set[bytes]] = {}
    for key, released in found:
        by_key.setdefault(key, set()).add(released.to_bytes())
    return by_key


AGAIN: dict[str, tuple[Any, str, tuple[str, ...]]] = {
    "in another order": (reversed, FN_API, ()),
    "another runner": (list, BUNDLE_BASED, ()),
    "replayed": (list, FN_API, ("--direct_runner_bundle_repeat=2",)),
}


@pytest.mark.one_fast_case
@pytest.mark.parametrize("name", AGAIN)
def test_idempotent_noise_gives_the_same_keys_and_bytes_again(name: str) -> None:
    order, runner, options = AGAIN[name]
    first = bytes_by_key(run(ROWS, transform(release_id="visits")))
    again = bytes_by_key(run(order(ROWS), transform(release_id="visits"), *options, runner=runner))
    assert 10 < len(first) < 110
    assert {len(each) for each in first.values()} == {1}
    assert first == again


@pytest.mark.slow
def test_another_release_id_gives_other_keys() -> None:
    first, other = (bytes_by_key(run(ROWS, transform(release_id=name))).keys() for name in ("visits", "other visits"))
    assert len(first ^ other) >= 20


def decisions(monkeypatch: pytest.MonkeyPatch, *options: str, runner: str = FN_API) -> tuple[list[Any], int]:
    """What the sink saw, and how many decisions were made."""
    made: list[int] = []
    exact = engine_run.find_chosen

    def counting(choice: Any, votes: np.ndarray, secrets: Any) -> np.ndarray:
        made.append(len(votes))
        return exact(choice, votes, secrets)

    monkeypatch.setattr(engine_run, "find_chosen", counting)
    return run(ROWS, transform(), *options, runner=runner), sum(made)


@pytest.mark.one_fast_case
@pytest.mark.parametrize("runner", [FN_API, BUNDLE_BASED])
def test_a_key_is_decided_once(runner: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found, made = decisions(monkeypatch, runner=runner)
    assert made == KEYS
    assert len(found) == len(bytes_by_key(found))


@pytest.mark.slow
def test_of_repeated_bundles_one_decision_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    """The step decides three times, and what follows sees one of them: half of the keys, and one release of each."""
    found, made = decisions(monkeypatch, "--direct_runner_bundle_repeat=2")
    by_key = bytes_by_key(found)
    assert made == 3 * KEYS
    assert {len(each) for each in by_key.values()} == {1}
    assert 10 < len(by_key) < 110


@pytest.mark.slow
def test_a_second_decision_would_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    exact = engine_run.Run.release_keys
    monkeypatch.setattr(engine_run.Run, "release_keys", lambda *given: [*exact(*given), *exact(*given)])
    found, made = decisions(monkeypatch)
    assert made == 2 * KEYS
    assert max(len(each) for each in bytes_by_key(found).values()) == 2


TWICE = transform(method="two_rounds", max_keys=2)._declared.resolved.calibrated.choice
NOISY = np.array([[200, 5, TWICE.rounds.together - 1000, 1000 - place % 20] for place in range(COUNT)])
OTHERS_OF_TWO = {
    "another secret": lambda: decide(TWICE, NOISY, streams(OTHER)),
    "another vote": lambda: decide(TWICE, NOISY + np.array([1, 0, 0, 0])),
    "another voter": lambda: decide(TWICE, NOISY + np.array([0, 1, 0, 0])),
    "another second vote": lambda: decide(TWICE, NOISY + np.array([0, 0, 1, 0])),
    "another noisy vote": lambda: decide(TWICE, NOISY + np.array([0, 0, 0, 1])),
    "no secret": lambda: find_chosen(TWICE, NOISY),
}


@pytest.mark.parametrize("name", OTHERS_OF_TWO)
def test_the_last_of_two_rounds_is_decided_anew_where_anything_differs(name: str) -> None:
    assert np.array_equal(decide(TWICE, NOISY), decide(TWICE, NOISY))
    assert np.count_nonzero(decide(TWICE, NOISY) != OTHERS_OF_TWO[name]()) >= FEW


def test_the_first_of_two_rounds_draws_the_same_for_equal_votes_alone() -> None:
    """Of 400 draws with sigma 339, unrelated ones agree in fewer than 40 but for a probability of 1e-20."""
    votes = NOISY[:, :2]
    drawn = choosing.draw_first(TWICE, votes, streams())
    assert np.array_equal(drawn, choosing.draw_first(TWICE, votes, streams()))
    others = [
        choosing.draw_first(TWICE, votes, streams(OTHER)),
        choosing.draw_first(TWICE, votes + 1, streams()) - 1,
        choosing.draw_first(TWICE, votes + np.array([0, 1]), streams()),
        choosing.draw_first(TWICE, votes),
        NOISY[:, 0] + decide(TWICE, NOISY, streams()),
    ]
    for each in others:
        assert np.count_nonzero(each == drawn) < 40
