"""`ask` is read by the domain of the release; what is wrong is refused with its path."""

from __future__ import annotations

import datetime
import random
from typing import Any

import pytest

from beam_dpsketch import BytesDomain, FloatDomain, IntegerDomain, IPv4Domain, LogDomain, TextDomain, TimestampDomain
from beam_dpsketch.answers.questions import Ask
from beam_dpsketch.config import ConfigError, read_ask
from tests.config.mutating import mutate, places

NEW_YEAR = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
DOMAINS: dict[str, Any] = {
    "integer": IntegerDomain(0, 100),
    "float": FloatDomain(0, 1, 0.1),
    "log": LogDomain(1, 1000),
    "ipv4": IPv4Domain(),
    "timestamp": TimestampDomain(NEW_YEAR, NEW_YEAR + datetime.timedelta(days=9)),
    "text": TextDomain(8),
    "bytes": BytesDomain(8),
    "none": None,
}
READ: list[tuple[str, Any, Ask]] = [
    ("integer", {"quantiles": [0, "0.5", 1]}, Ask("quantiles", (0.0, 0.5, 1.0))),
    ("integer", {"ranks": ["5", 7.0]}, Ask("ranks", (5, 7))),
    ("integer", {"ranges": [[0, 5], [6, 9]], "confidence": 0.5}, Ask("ranges", ((0, 5), (6, 9)), 0.5)),
    ("integer", "{histogram: [0, 5, 9]}", Ask("histogram", (0, 5, 9))),
    ("integer", {"cdf": 20}, Ask("cdf", 20)),
    ("float", {"cdf": [0, 0.5]}, Ask("cdf", (0.0, 0.5))),
    ("log", {"ranks": [1, "2.5"]}, Ask("ranks", (1.0, 2.5))),
    ("ipv4", {"items": ["10.0.0.1"]}, Ask("items", ("10.0.0.1",))),
    ("timestamp", {"ranks": ["2024-01-01"]}, Ask("ranks", (NEW_YEAR,))),
    ("text", {"top_k": 3}, Ask("top_k", 3)),
    ("bytes", {"items": [{"hex": "00"}, "ff"]}, Ask("items", (b"\0", b"\xff"))),
    ("none", {"items": ["a", 3, ["b", 4]]}, Ask("items", ("a", 3, ("b", 4)))),
    ("none", {"top_k": 1, "candidates": ["a"]}, Ask("top_k", 1, candidates=("a",))),
    ("none", {"privacy_units": True, "total_weight": None}, Ask("privacy_units")),
]
WRONG: list[tuple[str, Any, str]] = [
    ("integer", {}, "ask: set a single question: quantiles, "),
    (
        "integer",
        {"total_weight": True, "privacy_units": True},
        "ask: total_weight and privacy_units cannot be combined. ",
    ),
    ("integer", {"quantile": [0.5]}, "ask.quantile: unknown setting. Did you mean 'quantiles'?"),
    ("integer", {"quantiles": 0.5}, "ask.quantiles: expected a list"),
    ("integer", {"quantiles": []}, "ask.quantiles: must not be empty"),
    ("integer", {"quantiles": [1.1]}, r"ask.quantiles\[0\]: must be from 0 to 1"),
    ("integer", {"quantiles": [True]}, r"ask.quantiles\[0\]: expected a number"),
    ("integer", {"ranges": [[0, 1, 2]]}, r"ask.ranges\[0\]: must contain the low and the high end"),
    ("integer", {"ranges": [[0, 9], [9, 1]]}, r"ask.ranges\[1\]: must begin with the low end, got 9 and 1"),
    ("integer", {"ranks": ["a"]}, r"ask.ranks\[0\]: expected a whole number"),
    ("integer", {"histogram": [1]}, "ask.histogram: must contain at least two edges"),
    ("integer", {"cdf": 0}, "ask.cdf: must be from 1 to 100000"),
    ("integer", {"total_weight": False}, "ask.total_weight: must be true"),
    ("integer", {"total_weight": True, "confidence": 1}, "ask.confidence: must be between 0 and 1"),
    ("integer", {"items": [1], "candidates": [1]}, "ask.candidates: is supported with top_k only"),
    ("integer", {"top_k": 0}, "ask.top_k: must be from 1"),
    ("ipv4", {"ranks": ["10.0.0"]}, r"ask.ranks\[0\]: expected an IPv4 address"),
    ("timestamp", {"ranks": [NEW_YEAR]}, r"ask.ranks\[0\]: must be in quotes"),
    ("text", {"items": [1]}, r"ask.items\[0\]: expected text in quotes"),
    ("text", {"quantiles": [0.5]}, "ask.quantiles: requires an ordered domain"),
    ("bytes", {"items": ["xyz"]}, r"ask.items\[0\]: expected hexadecimal digits"),
    ("none", {"items": [1.5]}, r"ask.items\[0\]: expected text, a whole number"),
    ("none", "sesame", "ask: expected a block"),
]


@pytest.mark.parametrize(("domain", "settings", "expected"), READ, ids=range(len(READ)))
def test_values_are_read_by_the_domain(domain: str, settings: Any, expected: Ask) -> None:
    assert read_ask(settings, "ask", DOMAINS[domain]) == expected


@pytest.mark.parametrize(("domain", "settings", "words"), WRONG, ids=range(len(WRONG)))
def test_what_is_wrong_is_refused_with_its_path(domain: str, settings: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=f"^{words}") as caught:
        read_ask(settings, "ask", DOMAINS[domain])
    assert len(str(caught.value)) < 500


def mutations(count: int) -> set[str]:
    """Return the messages about mutated questions; any error but a `ConfigError` with a path comes through."""
    source, found = random.Random(23), set()
    start = [(domain, settings) for domain, settings, _ in READ if isinstance(settings, dict)]
    for _ in range(count):
        domain, settings = source.choice(start)
        for _ in range(source.choice((1, 1, 2))):
            if places(settings)[1:]:
                settings = mutate(settings, source)
        try:
            assert isinstance(read_ask(settings, "ask", DOMAINS[domain]), Ask)
            found.add("")
        except ConfigError as error:
            found.add(str(error))
    assert all(words == "" or (words.startswith("ask") and len(words) < 1000) for words in found)
    return found


def test_mutated_questions_raise_nothing_else() -> None:
    found = mutations(400)
    assert "" in found
    assert len(found) > 60


@pytest.mark.slow
def test_many_mutated_questions_raise_nothing_else() -> None:
    mutations(20_000)
