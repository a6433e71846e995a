"""Blocks are made of value objects: names, types, defaults and words are those of the arguments."""

from __future__ import annotations

import dataclasses
from fractions import Fraction

import pytest

from beam_dpsketch import ConfigError
from beam_dpsketch.config.forms import EXACT_FORM, TEXT_FORM, WHOLE_FORM, Block, Entry, block_of


@dataclasses.dataclass
class Grown:
    """A bound.

    Args:
      old: the first. It has a second sentence.
      new: "many" or "few" of them,
        or none of them. `None` is left to Python.
      share: a part.
    """

    old: int
    share: Fraction | float = Fraction(1, 3)
    _: dataclasses.KW_ONLY
    new: str | None = None
    size: int = 10_000


def test_an_argument_with_a_line_of_documentation_is_a_setting() -> None:
    block = block_of("Grown", Grown, {"size": Entry("how many", TEXT_FORM), "more": Entry("no argument", TEXT_FORM)})
    assert {name: (each.words, each.missing, each.usual, each.form) for name, each in block.entries.items()} == {
        "old": ("the first", "the first", None, WHOLE_FORM),
        "share": ("a part", "", "1/3", EXACT_FORM),
        "new": ("`many` or `few` of them, or none of them", "", None, TEXT_FORM),
        "size": ("how many", "", "10,000", TEXT_FORM),
        "more": ("no argument", "", None, TEXT_FORM),
    }
    assert block.read({"old": 3, "share": "1/2"}, "") == Grown(3, Fraction(1, 2))
    with pytest.raises(ConfigError, match=r"^grown\.old: is missing. Set the first \["):
        block.read({}, "grown")


def test_an_argument_follows_the_one_before_it_and_settings_that_are_none_stay_where_they_are() -> None:
    block = block_of("Grown", Grown, {"size": Entry("how many"), "more": Entry("no argument", TEXT_FORM)})
    assert [*block.entries] == ["old", "share", "new", "size", "more"]
    assert [*block_of("Grown", Grown, {"new": Entry(), "old": Entry()}, without=("size",)).entries] == [
        *("new", "old", "share")
    ]


def test_settings_that_are_like_those_of_another_block_keep_their_own_defaults() -> None:
    other = Block("Other", {"old": Entry("as there", WHOLE_FORM, usual="7"), "share": Entry("of it", usual="1/2")})
    block = block_of("Grown", Grown, {"size": Entry("how many")}, like=other)
    assert [(block.entries[name].words, block.entries[name].usual) for name in ("old", "share")] == [
        ("as there", None),
        ("of it", "1/3"),
    ]
