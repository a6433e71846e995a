"""What is missing is said, and never passes in silence."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.engines import fetch

VERSION = fetch.beam_version
Programs = Callable[[str, str], None]


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Programs:
    """An empty cache, and no programs but those that are added."""
    monkeypatch.setattr(fetch, "CACHE", tmp_path / "cache")
    monkeypatch.setenv("PATH", str(tmp_path))

    def add(name: str, script: str) -> None:
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)

    return add


def printed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(sys, "argv", ["fetch"])
    fetch.main()
    return capsys.readouterr().out


def test_programs_that_are_missing_are_named(
    programs: Programs, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert printed(capsys, monkeypatch) == "prism: SKIPPED: needs Go\nflink: SKIPPED: needs Java\n"
    programs("java", "exit 0")
    assert printed(capsys, monkeypatch).endswith("flink: SKIPPED: needs Maven\n")
    with pytest.raises(fetch.MissingError, match=f"needs Prism of Beam {VERSION}"):
        fetch.prism()


def test_refusals_are_shown(programs: Programs, capsys: pytest.CaptureFixture[str]) -> None:
    programs("java", "exit 0")
    programs("mvn", "echo '[ERROR] x: Could not find artifact a:b:jar (somewhere)'; exit 1")
    with pytest.raises(fetch.MissingError, match=r"^Could not find artifact a:b:jar$"):
        fetch.copy_job_server()
    assert f"Flink {fetch.FLINK_VERSIONS[0]}: Could not find artifact a:b:jar\n" in capsys.readouterr().err


def test_a_job_server_that_is_not_published_is_built(programs: Programs) -> None:
    """The artifact is asked for first; the name of what is built bears the version of Beam that it is built from."""
    programs("java", "exit 0")
    programs("mvn", 'case "$*" in *copy*) exit 1;; esac; /bin/mkdir target; : > target/' + fetch.BUILT)
    assert fetch.copy_job_server() == fetch.flink_job_server() == fetch.CACHE / "target" / fetch.BUILT
    assert (fetch.CACHE / "pom.xml").read_text() == fetch.BUILD.read_text()
    (beam,) = re.findall("<beam.version>(.*)</beam.version>", fetch.BUILD.read_text())
    assert f"flink-job-server-{beam}.jar" == fetch.BUILT


def test_the_newest_flink_is_taken_and_nothing_fetched_twice(programs: Programs) -> None:
    programs("java", "exit 0")
    programs("mvn", "exit 1")
    programs("go", "exit 1")
    fetch.CACHE.mkdir()
    names = [f"beam-runners-flink-{version}-job-server-{VERSION}.jar" for version in fetch.FLINK_VERSIONS]
    for name in [*names[:2], "prism"]:
        (fetch.CACHE / name).touch()
    assert fetch.copy_job_server() == fetch.CACHE / names[0]
    assert fetch.build_prism() == fetch.CACHE / "prism"
