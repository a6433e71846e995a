"""A kind of question is one entry: settings, pipelines, rows and the command follow it."""

from __future__ import annotations

import dataclasses
import json
import typing
from typing import Any

import pytest

from beam_dpsketch import (
    DyadicCountSketch,
    IntegerDomain,
    Interval,
    PrivacySpec,
    ReleaseTerms,
    TreeSpec,
    read_releases,
    release,
)
from beam_dpsketch.answers.questions import QUESTIONS, Ask, Kind, answer_columns
from beam_dpsketch.answers.questions.entries import Answered, Takes
from beam_dpsketch.config import read_ask
from beam_dpsketch.config.asking import ASK_BLOCK
from tests.cli.consoles import ROOT, run

DELAYS, CITIES = (str(ROOT / "docs" / "releases" / f"{name}.dpsketch") for name in ("delays", "cities"))


def test_every_entry_has_a_name_an_option_and_a_field_of_rows() -> None:
    assert tuple(QUESTIONS) == typing.get_args(Kind)
    assert len({entry.option for entry in QUESTIONS.values()}) == len(QUESTIONS)
    assert {*ASK_BLOCK.entries} == {*QUESTIONS, "candidates", "confidence", "metric"}


def twice(released: Any, confidence: float) -> Interval:
    return Interval(*(2 * each for each in released.total_weight(confidence)))


def test_a_new_entry_is_asked_by_settings_and_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twice the total weight of a release, which no kind asks for."""

    def asked(released: Any, what: None, confidence: float, candidates: None) -> Answered:
        answer = twice(released, confidence)
        return Answered([answer._asdict()], answer)

    planted: Any = {"method": "total_weight", "asked": asked, "option": "twice"}
    monkeypatch.setitem(QUESTIONS, "twice", dataclasses.replace(QUESTIONS["total_weight"], **planted))  # type: ignore[arg-type]
    monkeypatch.setitem(
        ASK_BLOCK.entries, "twice", ASK_BLOCK.entries["total_weight"]
    )  # the table of settings is made on import
    ask = read_ask({"twice": True, "confidence": 0.9})
    (_, released), *_ = read_releases(CITIES)  # type: ignore[misc]
    expected = twice(released, 0.9)._asdict()
    assert ask.entry.takes is Takes.NOTHING
    assert ask.answer(released).rows == [expected]
    assert [*answer_columns(ask.kind, str, truncates=False)] == [*expected]
    code, printed = run("query", CITIES, "--twice", "--confidence", "0.9", "--format", "json")
    assert code == 0
    first = json.loads(next(line for line in printed.splitlines() if line.startswith("{")))
    assert {name: first[name] for name in expected} == expected


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="kind must be one of 'quantiles'"):
        Ask("squares")  # type: ignore[arg-type]


def test_an_empty_list_is_a_row_without_values_in_the_columns_of_the_question() -> None:
    raw = DyadicCountSketch(TreeSpec.for_memory(IntegerDomain(0, 99))).accumulate([])
    answered = Ask("top_k", 3).answer(release(raw, ReleaseTerms(PrivacySpec(rho=1.0))))
    if not answered.rows:  # noise alone is listed with a probability below 1 %
        assert answered.listed == [dict.fromkeys(answer_columns("top_k", int, truncates=False))]
    assert (full := Ask("quantiles", (0.5,)).answer(read_releases(DELAYS)[0])).listed == full.rows  # type: ignore[arg-type]
