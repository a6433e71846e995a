"""The archives in dist/ have all files of the repository, and the wheel all files of the package: `make dist`."""

from __future__ import annotations

import subprocess
import tarfile
import zipfile
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest

import beam_dpsketch

ROOT = Path(__file__).parents[1]
NAME = f"beam_dpsketch-{beam_dpsketch.__version__}"
GENERATED = {"PKG-INFO", "setup.cfg"}

pytestmark = pytest.mark.dist


def tracked(*folders: str) -> set[str]:
    command = ["git", "-C", str(ROOT), "ls-files", *folders]
    return set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines())


def in_wheel() -> tuple[set[str], Message]:
    """The names of all files, and the metadata."""
    with zipfile.ZipFile(ROOT / "dist" / f"{NAME}-py3-none-any.whl") as wheel:
        metadata = wheel.read(f"{NAME}.dist-info/METADATA").decode()
        return {name for name in wheel.namelist() if not name.endswith("/")}, Parser().parsestr(metadata)


def test_the_wheel_has_the_package_alone() -> None:
    names, _ = in_wheel()
    assert {name for name in names if ".dist-info/" not in name} == tracked("beam_dpsketch")
    assert {f"beam_dpsketch/{name}" for name in ("py.typed", "explore/page/page.html", "rows/providers.yaml")} < names
    assert f"{NAME}.dist-info/licenses/LICENSE" in names


def test_the_source_archive_has_all_that_tests_read() -> None:
    with tarfile.open(ROOT / "dist" / f"{NAME}.tar.gz") as archive:
        names = {member.name.removeprefix(f"{NAME}/") for member in archive if member.isfile()}
    assert {name for name in names - GENERATED if ".egg-info/" not in name} == tracked()


def test_metadata_show_the_readme_and_the_versions() -> None:
    _, metadata = in_wheel()
    assert metadata["Version"] == beam_dpsketch.__version__
    assert metadata["Requires-Python"] == ">=3.11"
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert metadata.get_payload().strip() == (ROOT / "README.md").read_text(encoding="utf-8").strip()
