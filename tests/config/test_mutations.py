"""Whatever is wrong with settings, the error is a `ConfigError` with a path."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
import yaml

from beam_dpsketch.config import ConfigError, read_release
from beam_dpsketch.exact.declared.release_spec import ReleaseSpec
from tests.config.examples import BLOCKS, RELEASES, TABLES, release
from tests.config.mutating import mutate, mutate_text, places

START = [
    *RELEASES,
    *TABLES,
    release("frequencies", privacy=BLOCKS[1][1], privacy_unit=BLOCKS[6][1], spec=BLOCKS[39][1]),
    release("frequencies", privacy_unit={"privacy_id": "p", "norm": BLOCKS[12][1]}, keys=BLOCKS[18][1]),
    release("quantiles", domain={"type": "integer", "low": 0, "high": 255}, tree=BLOCKS[-3][1]),
    release("top_k", k=3, domain={"type": "float", "low": 0, "high": 1, "step": 0.1}, privacy_unit=BLOCKS[7][1]),
]


def outcome(settings: Any) -> str:
    """Read settings; any error but a `ConfigError` with a path comes through."""
    try:
        assert isinstance(read_release(settings), ReleaseSpec)
    except ConfigError as error:
        words = str(error)
        assert ": " in words
        assert all(len(line) < 600 for line in words.splitlines())
        return words
    return ""


def run(count: int) -> set[str]:
    """Return the different messages about this many mutated settings."""
    source, found = random.Random(19), set()
    for _ in range(count):
        settings = source.choice(START)
        for _ in range(source.choice((1, 1, 2, 3))):
            if places(settings)[1:]:
                settings = mutate(settings, source)
        found.add(outcome(settings))
        start = source.choice(START)
        text = source.choice((json.dumps, lambda value: yaml.safe_dump(value, sort_keys=False)))(start)
        found.add(outcome(mutate_text(text, source)))
    return found


def test_mutated_settings_raise_nothing_else() -> None:
    found = run(150)
    assert "" in found
    assert len(found) > 60


@pytest.mark.slow
def test_many_mutated_settings_raise_nothing_else() -> None:
    assert len(run(3_000)) > 500


def test_another_error_would_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(text: str, path: str) -> Any:
        raise KeyError(text)

    monkeypatch.setattr("beam_dpsketch.config.plain.parse", broken)
    with pytest.raises(KeyError):
        run(150)
