"""One decision for each key and window, and the same again where noise is idempotent.

Keys here are released with a probability of about 1/2. Of 400 decisions, two unrelated draws differ in fewer than 100
with probability below 1e-20, and two equal ones in none.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from beam_dpsketch import KeySelection, ListedItems, PrivacyId, PrivacySpec, RecordBounds
from beam_dpsketch.encodings import encode
from beam_dpsketch.noise import run as engine_run
from beam_dpsketch.noise.keys import find_chosen
from beam_dpsketch.privacy.noise.keyed_randomness import KeyedRandomness
from beam_dpsketch.transforms import EnvironmentSecret, PrivateFrequencies
from tests.helpers.pipelines import BUNDLE_BASED, FN_API, run

COUNT, FEW = 400, 100
SECRET = b"a secret of 32 bytes or more, made up"
VARIABLE = "DPSKETCH_TEST_SECRET"
DELTA = Fraction(1, 100)
LISTED = ListedItems([1])


def transform(*, release_id: str | None = None) -> Any:
    privacy = PrivacySpec(rho=1, delta=0.5)
    keys = KeySelection(DELTA, "key", share=Fraction(1, 20))
    made = PrivateFrequencies(
        LISTED, privacy, privacy_unit=PrivacyId("user", RecordBounds(1, max_keys=1)), keys=keys, item="item"
    )
    if release_id is None:
        return made
    return made.with_idempotent_noise(release_id=release_id, secret=EnvironmentSecret(VARIABLE))


def streams() -> list[KeyedRandomness]:
    return [KeyedRandomness(SECRET, encode(("visits", key))) for key in range(COUNT)]


CHOICE = transform()._declared.resolved.calibrated.choice
UNITS = -(-CHOICE.note.half // CHOICE.note.grid)
VOTES = np.array([[CHOICE.note.half, UNITS]] * COUNT)


def decide(votes: np.ndarray = VOTES, secrets: list[KeyedRandomness] | None = None) -> np.ndarray:
    return find_chosen(CHOICE, votes, streams() if secrets is None else secrets)


def test_a_decision_under_a_secret_never_changes() -> None:
    """Where this fails, another version of the package decides otherwise: raise `NOISE_VERSION`."""
    golden = "1ed301868bce5fba9fa45c30f38d8e3259df65e7c3859bd0ad3a4d9fe4f73010d6ed9f3f47cde7fe07d3932a6585af27d04a"
    assert np.packbits(decide()).tobytes().hex() == golden


def test_equal_secrets_votes_and_settings_decide_the_same() -> None:
    first = decide()
    assert FEW < first.sum() < COUNT - FEW
    assert np.array_equal(first, decide())
    order = np.random.default_rng(3).permutation(COUNT)
    again = decide(votes=VOTES[order], secrets=[streams()[place] for place in order])
    assert np.array_equal(first[order], again)  # whoever decides together


def test_every_key_has_randomness_of_its_own() -> None:
    """Two halves of the keys agree in about half of their decisions, with and without a secret."""
    for decided in (decide(), find_chosen(CHOICE, VOTES)):
        assert COUNT / 16 < np.count_nonzero(decided[: COUNT // 2] != decided[COUNT // 2 :]) < COUNT / 2 - COUNT / 16


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
    exact = engine_run.Run.release
    monkeypatch.setattr(engine_run.Run, "release", lambda *given: [*exact(*given), *exact(*given)])
    found, made = decisions(monkeypatch)
    assert made == 2 * KEYS
    assert max(len(each) for each in bytes_by_key(found).values()) == 2
