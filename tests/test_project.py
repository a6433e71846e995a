"""Files about the project agree with each other: continuous integration, citation, versions, releases."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

import beam_dpsketch

ROOT = Path(__file__).parents[1]
SETUP, MAKEFILE, RELEASING, CI = (
    (ROOT / name).read_text(encoding="utf-8") for name in ("setup.py", "Makefile", "RELEASING.md", ".ci/run")
)
WORKFLOW = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8"))
STEPS = [step for job in WORKFLOW["jobs"].values() for step in job["steps"]]
CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))


def targets(text: str) -> set[str]:
    return set(re.findall(r"\bmake ([a-z][\w-]*)", text))


@pytest.mark.parametrize("text", [CI, RELEASING, "\n".join(step.get("run", "") for step in STEPS)])
def test_commands_exist(text: str) -> None:
    named = targets(text)
    assert named
    assert named <= set(re.findall(r"^([\w-]+):", MAKEFILE, re.MULTILINE))
    assert all((ROOT / script).is_file() for script in re.findall(r"\.ci/\w+", text))


def test_every_target_is_explained_and_phony() -> None:
    explained = set(re.findall(r'@echo "make ([\w-]+)', MAKEFILE)) | {"demo-flink", "engines", "help", "clean"}
    phony = re.search(r"^\.PHONY: (.*)$", MAKEFILE, re.MULTILINE)
    assert phony
    assert explained == set(phony[1].split()) == set(re.findall(r"^([a-z][\w-]*):(?!=)", MAKEFILE, re.MULTILINE))


def test_the_workflow_has_all_versions_and_may_only_read() -> None:
    versions = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', SETUP)
    assert WORKFLOW["jobs"]["versions"]["strategy"]["matrix"]["python"] == versions
    assert f"PYTHONS ?= {' '.join(f'python{version}' for version in versions)}\n" in MAKEFILE
    assert WORKFLOW["permissions"] == {"contents": "read"}
    assert not any("permissions" in job for job in WORKFLOW["jobs"].values())
    assert all(re.fullmatch(r"actions/[\w-]+@v\d+", step["uses"]) for step in STEPS if "uses" in step)


def test_git_reads_the_repository_in_a_container() -> None:
    """Otherwise no commit subject is checked, and `make dist` fails, because both ask git as root."""
    for job in WORKFLOW["jobs"].values():
        runs = [step.get("run", "") for step in job["steps"]]
        assert "container" not in job or any("safe.directory" in run for run in runs[: runs.index(".ci/run")])


def test_the_citation_is_the_one_of_the_page() -> None:
    assert CITATION["version"] == beam_dpsketch.__version__
    (paper,) = CITATION["references"]
    page = (ROOT / "docs" / "researchers.md").read_text(encoding="utf-8")
    authors = " and ".join(f"{each['family-names']}, {each['given-names']}" for each in paper["authors"])
    for field, value in {"title": paper["title"], "author": authors, "url": paper["url"]}.items():
        assert re.search(rf"^  {field} += {{{re.escape(value)}}},?$", page, re.MULTILINE), field


def test_the_version_page_lists_every_public_module() -> None:
    page = (ROOT / "docs" / "versions.md").read_text(encoding="utf-8").split("\n|---|---|\n")[1].split("\n")[0]
    modules = {"transforms", "rows", "plots", "explore", "research"}
    assert set(re.findall(r"`(\w+)`", page)) == {"__all__", "beam_dpsketch"} | modules
    assert all(hasattr(__import__(f"beam_dpsketch.{name}", fromlist=["_"]), "__all__") for name in modules)


def test_a_missing_target_is_found() -> None:
    assert targets("run: make test-all && make lint") == {"test-all", "lint"}
