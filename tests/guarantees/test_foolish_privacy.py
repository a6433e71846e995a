"""Foolish epsilons and deltas are warned of once, at every door, and usual ones are not."""

from __future__ import annotations

import json
import re
import warnings
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from beam_dpsketch import PrivacyId, PrivacySpec, PrivacyWarning, Record, RecordBounds, SketchSpec, release_frame
from beam_dpsketch.config import read_release
from beam_dpsketch.transforms import PrivateFrequencies
from tests.cli.consoles import run

FOOLISH = {
    "huge epsilon": (
        {"epsilon": 20, "delta": 1e-6, "noise": "gaussian"},
        ["epsilon = 20 at delta = 1e-06 gives little protection: an attacker who"],
    ),
    "huge delta": (
        {"epsilon": 1, "delta": 0.1, "noise": "gaussian"},
        ["delta = 0.1 exceeds 1 / (number of people) for 1,000 people or more"],
    ),
    "tiny epsilon": (
        {"epsilon": 1e-6, "delta": 1e-6, "noise": "gaussian"},
        ["epsilon = 1e-06 at delta = 1e-06 is too small for useful answers"],
    ),
    "both": ({"epsilon": 11, "delta": 0.01, "noise": "gaussian"}, ["epsilon = 11 at", "delta = 0.01 exceeds"]),
    "usual": ({"epsilon": 2, "delta": 1e-6, "noise": "gaussian"}, []),
    "generous": ({"epsilon": 10, "delta": 1e-3, "noise": "gaussian"}, []),
    "careful": ({"rho": 1e-6}, []),
    "pure": ({"epsilon": 2}, []),
    "pure, by a delta that is not needed": ({"epsilon": 2, "delta": 0.01, "noise": "laplace"}, []),
    "pure, huge epsilon": ({"epsilon": 11}, ["epsilon = 11 at delta = 0 gives little protection: an attacker who"]),
    "pure, careful": ({"epsilon": 1e-6}, ["epsilon = 1e-06 at delta = 0 is too small for useful answers"]),
}
SETTINGS = {
    "kind": "frequencies",
    "item": "page",
    "privacy_unit": {"privacy_id": "person", "records": {"max_records": 1}},
}
TABLE = pa.table({"page": ["a", "b"], "person": ["p", "q"]})


def transform(privacy: dict[str, Any]) -> PrivateFrequencies:
    return PrivateFrequencies(
        SketchSpec(), PrivacySpec(**privacy), privacy_unit=PrivacyId("person", RecordBounds(1)), item="page"
    )


@pytest.mark.parametrize("name", FOOLISH)
@pytest.mark.parametrize("door", ["transform", "frame"])
def test_a_foolish_loss_warns_where_the_release_is_declared(door: str, name: str) -> None:
    privacy, said = FOOLISH[name]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", PrivacyWarning)
        transform(privacy) if door == "transform" else release_frame(TABLE, {**SETTINGS, "privacy": privacy})
    found = [each for each in caught if each.category is PrivacyWarning]
    assert len(found) == len(said)
    assert all(str(each.message).startswith(words) for each, words in zip(found, said, strict=True))
    assert {each.filename for each in found} <= {__file__}


@pytest.mark.parametrize("name", FOOLISH)
def test_the_command_warns_before_it_spends(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    privacy, said = FOOLISH[name]
    monkeypatch.chdir(tmp_path)
    Path("s.yaml").write_text(json.dumps({**SETTINGS, "privacy": privacy}))
    pq.write_table(TABLE, "visits.parquet")
    for line in ("run visits.parquet --config s.yaml --output x.dpsketch", "check s.yaml"):
        code, printed = run(*line.split())
        assert code == 0
        warned = re.findall(r"^(?:dpsketch: )?(?:s.yaml: )?warning: (.*)$", printed, re.MULTILINE)
        assert [words[: len(start)] for words, start in zip(warned, said, strict=True)] == said
    planned = json.loads(run("plan", "--config", "s.yaml", "--format", "json")[1])
    assert [words[: len(start)] for words, start in zip(planned["warnings"], said, strict=True)] == said
    printed = " ".join(run("plan", "--config", "s.yaml")[1].split())
    assert ("Warning" in printed) == bool(said)
    assert all(start in printed for start in said)


def test_whoever_knows_how_many_take_part_is_told_more() -> None:
    terms = read_release({**SETTINGS, "privacy": {"epsilon": 1, "delta": 1e-4, "noise": "gaussian"}}).terms
    assert terms.warnings() == terms.warnings(9_000) == []
    (words,) = terms.warnings(20_000)
    assert "(number of people), about 5e-05" in words
    assert words.endswith("Use a much smaller delta, such as 1e-06")
    assert "too small for useful answers" in terms.warnings(12)[0]
    assert terms.warnings(-3.5) == terms.warnings(1)  # a noisy count of people can be anything


def test_a_plan_counts_people_by_what_they_fill() -> None:
    declared = read_release({**SETTINGS, "privacy": {"epsilon": 1, "delta": 1e-4, "noise": "gaussian"}})
    assert "Warning" not in str(declared.plan(9_000))
    assert "Warning       delta = 0.0001 exceeds 1 / (number of people)" in str(declared.plan(20_000))
    alone = PrivateFrequencies(
        SketchSpec(), PrivacySpec(epsilon=1, delta=1e-4, noise="gaussian"), privacy_unit=Record()
    )
    assert "(number of records)" in alone.explain(20_000)
