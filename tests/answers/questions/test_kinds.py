"""A kind of question is one entry: settings, pipelines, rows and the command follow it."""

from __future__ import annotations

import dataclasses
import json
import typing
from typing import Any

import pytest

from beam_dpsketch import read_releases
from beam_dpsketch.answers.questions import KINDS, Ask, Kind, answer_columns
from beam_dpsketch.answers.questions.entries import Answered, Takes
from beam_dpsketch.config import read_ask
from beam_dpsketch.config.asking import ASK
from tests.cli.consoles import ROOT, run

CITIES = str(ROOT / "docs" / "releases" / "cities.dpsketch")


def test_every_entry_has_a_name_an_option_and_a_field_of_rows() -> None:
    assert tuple(KINDS) == typing.get_args(Kind)
    assert len({entry.option for entry in KINDS.values()}) == len(KINDS)
    assert {*ASK.entries} == {*KINDS, "candidates", "confidence"}


def test_a_new_entry_is_asked_by_settings_and_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second moment of a release, which no kind asks for."""

    def asked(released: Any, what: None, confidence: float, candidates: None) -> Answered:
        answer = released.second_moment(confidence)
        return Answered([answer._asdict()], answer)

    planted: Any = {"method": "second_moment", "asked": asked, "option": "squares", "side_counter": None}
    monkeypatch.setitem(KINDS, "squares", dataclasses.replace(KINDS["total_weight"], **planted))  # type: ignore[arg-type]
    monkeypatch.setitem(ASK.entries, "squares", ASK.entries["total_weight"])  # the table of settings is made on import
    ask = read_ask({"squares": True, "confidence": 0.9})
    (_, released), *_ = read_releases(CITIES)  # type: ignore[misc]
    expected = released.second_moment(0.9)._asdict()
    assert ask.entry.takes is Takes.NOTHING
    assert ask.answer(released).rows == [expected]
    assert [*answer_columns(ask.kind, str, truncates=False)] == [*expected]
    code, printed = run("query", CITIES, "--squares", "--confidence", "0.9", "--format", "json")
    assert code == 0
    first = json.loads(next(line for line in printed.splitlines() if line.startswith("{")))
    assert {name: first[name] for name in expected} == expected


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="kind must be one of 'quantiles'"):
        Ask("squares")  # type: ignore[arg-type]
