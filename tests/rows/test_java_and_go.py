"""The page on Java and Go shows the programs as they are, and versions are those that are installed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from apache_beam.version import __version__ as beam_version

from beam_dpsketch.answers.questions.ask import Ask
from beam_dpsketch.config import read_privacy
from beam_dpsketch.errors import ConfigError
from beam_dpsketch.rows.schema import columns_of_answers, release_columns

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "java_go.md").read_text(encoding="utf-8")
GO = (ROOT / "pipelines" / "go" / "main.go").read_text(encoding="utf-8")
JAVA = (ROOT / "pipelines/java/src/main/java/org/example/Hours.java").read_text(encoding="utf-8")
SETUP = (ROOT / "setup.py").read_text(encoding="utf-8")


@pytest.mark.parametrize(("language", "program"), [("go", GO), ("java", JAVA)], ids=["go", "java"])
def test_excerpts_are_in_the_programs(language: str, program: str) -> None:
    excerpts = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    assert len(excerpts) >= 2
    assert [each for each in excerpts if each not in program] == []


def test_structs_in_go_have_the_columns_of_rows() -> None:
    """Go takes the fields by place, and the names but for the first letter."""
    key = dict.fromkeys(("country", "device", "day"), str)
    for name, columns in {
        "Release": release_columns(key, over_time=False, is_text=False),
        "Found": columns_of_answers(key, Ask("items", ["home", "news", "help"]), None),
    }.items():
        fields = re.findall(
            r"^\t(\w+) +\S+ +`beam:\"(\w+)\"`$", GO.split(f"type {name} struct {{")[1].split("\n}")[0], re.M
        )
        assert [tag for _, tag in fields] == [*columns]
        assert [field for field, _ in fields] == [each[0].upper() + each[1:] for each in columns]


def test_versions_are_those_that_are_installed() -> None:
    image = (ROOT / "pipelines" / "Dockerfile").read_text(encoding="utf-8")
    beam, python = (re.findall(rf"^ARG {name}=([\d.]+)$", image, re.M)[0] for name in ("BEAM", "PYTHON"))
    assert set(re.findall(r"^FROM (\S+)", image, re.M)) == {"apache/beam_python${PYTHON}_sdk:${BEAM}"}
    assert beam == beam_version
    assert f"Programming Language :: Python :: {python}" in SETUP
    low = re.search(r'"apache-beam>=([\d.]+),<3"', SETUP)
    assert low
    assert tuple(map(int, low[1].split("."))) <= tuple(map(int, beam.split(".")))[:2]
    for copied in re.findall(r"^COPY (?!--from)(.*) \S+$", image, re.M):
        assert all((ROOT / each).exists() for each in copied.split())
    go = (ROOT / "pipelines" / "go" / "go.mod").read_text(encoding="utf-8")
    assert f"require github.com/apache/beam/sdks/v2 v{beam_version}\n" in go
    assert f"names Beam {beam_version}" in PAGE
    pom = (ROOT / "pipelines" / "java" / "pom.xml").read_text(encoding="utf-8")
    java = re.search(r"<beam.version>(.*)</beam.version>", pom)
    assert java
    assert f"`pom.xml` names Beam {java[1]}" in PAGE


def test_the_error_that_the_page_shows_is_ours() -> None:
    with pytest.raises(ConfigError) as refused:
        read_privacy({})
    assert f"`expansion service error: {refused.value}`" in PAGE
