"""Users of Beam YAML see one line that says where the mistake is and how to repair it."""

from __future__ import annotations

import re

import pytest

from tests.rows.yaml.running import SNAPSHOTS, WRONG, message, snapshots


def on_record() -> dict[str, str]:
    return dict(re.findall(r"^(\w+)\n  (.*)$", SNAPSHOTS.read_text(encoding="utf-8"), re.MULTILINE))


@pytest.mark.slow
def test_messages_are_those_on_record() -> None:
    """`python -m tests.rows.yaml.running` writes them anew."""
    assert len(WRONG) >= 12
    assert snapshots() == SNAPSHOTS.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["unknown_setting", "error_handling"])
def test_a_message_is_that_on_record(name: str) -> None:
    (file,) = (each for each in WRONG if each.stem == name)
    assert message(file) == on_record()[name]


def test_each_message_names_the_transform_the_line_and_the_setting() -> None:
    assert {*on_record()} == {file.stem for file in WRONG}
    for words in on_record().values():
        assert re.match(r'(Invalid transform specification at|Error applying transform) "\w+" at line \d+: \S', words)
        assert "__init__" not in words
