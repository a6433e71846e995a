"""The prose of the project keeps the rates of words that comparable libraries have; CONTRIBUTING has the rules."""

from __future__ import annotations

import pytest

from tests.helpers import voice

PACKAGE = voice.ROOT / "beam_dpsketch"
ROOMS = sorted(path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists())
AT_THE_TOP = sorted(PACKAGE.glob("*.py"))


@pytest.mark.parametrize("room", ROOMS)
def test_docstrings_of_a_room_are_plain(room: str) -> None:
    assert voice.above(voice.docstrings(PACKAGE / room), "docstrings") == {}


def test_docstrings_at_the_top_are_plain() -> None:
    assert voice.above([text for path in AT_THE_TOP for text in voice.docstrings(path)], "docstrings") == {}


def test_pages_are_plain() -> None:
    assert voice.above(voice.pages(), "pages") == {}


def test_messages_are_plain() -> None:
    assert voice.above(voice.messages(PACKAGE), "messages") == {}


@pytest.mark.parametrize("kind", voice.KINDS)
def test_planted_prose_is_found(kind: str) -> None:
    planted = "Say what the sum of the weights of those that nobody took holds; so it tells one of them."
    assert len(voice.above([planted], kind)) >= 8
