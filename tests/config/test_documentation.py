"""`docs/settings.md` names every setting, and each block of it can be used."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest
import yaml

import beam_dpsketch.config
from beam_dpsketch import IntegerDomain, config
from beam_dpsketch.config import read_release, read_tree
from beam_dpsketch.config import settings as table
from beam_dpsketch.config.forms import Block
from tests.config import page
from tests.config.snapshots import message

PAGE = (Path(__file__).parents[2] / "docs" / "settings.md").read_text(encoding="utf-8")
YAML = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)


def read(text: str) -> None:
    """Read a block of the page: a release, or single blocks by name."""
    settings = yaml.safe_load(text)
    if "item" in settings:
        read_release(text)
        return
    for name, block in settings.items():
        if name == "tree":
            read_tree(block, IntegerDomain(0, (1 << 32) - 1))
        else:
            getattr(config, f"read_{name}")(block, name)


@pytest.mark.parametrize("text", YAML, ids=range(len(YAML)))
def test_each_block_can_be_used(text: str) -> None:
    read(text)


def test_a_wrong_block_would_be_found() -> None:
    for wrong in ("norm: {max_nrom: 10}", "kind: top_k\nitem: word"):
        with pytest.raises(config.ConfigError):
            read(wrong)


def test_the_tables_are_those_of_the_settings() -> None:
    """`python -m tests.config.page` makes them anew."""
    assert page.made_anew(PAGE) == PAGE


def test_the_page_has_every_block_of_the_table() -> None:
    """Of the blocks without a table of their own, all settings are in one of the others, or told in words."""
    shown = {name for block in page.BLOCKS.values() for name in block.entries}
    blocks = {name: each for name, each in vars(table).items() if isinstance(each, Block)}
    missing = {name for name, each in blocks.items() if each not in page.BLOCKS.values() and {*each.entries} - shown}
    assert missing == {"RELEASE_BLOCK", "DOMAIN_BLOCK", "NORM_BLOCK", "ROWS_BLOCK", "NOISE_BLOCK", "EXPECT_BLOCK"}
    assert {*re.findall(r"<!-- table: (\w+) -->", PAGE)} == {*page.tables()}


def test_messages_of_the_page_are_what_is_said() -> None:
    rows = re.findall(
        r"^\| `([^`]*)` \| `([^`]*)` \|$",
        PAGE.split("| settings | message |")[1].split("## The release")[0],
        re.MULTILINE,
    )
    assert len(rows) == 3
    for settings, words in rows:
        written = settings.replace(", ...}", ', end: "2025-01-01"}')
        shown = message(f"kind: frequencies\nitem: city\n{written}\n").split("\n")[0]
        assert shown == words


def test_the_python_of_the_page_runs() -> None:
    (code,) = re.findall(r"<!-- executed by \S+ -->\n```python\n(.*?)```", PAGE, re.DOTALL)
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(code, "documentation", "exec"), {"__name__": "documentation"})
    assert output.getvalue() == "10\n"


def test_the_docstring_lists_the_functions_and_its_example_can_be_used() -> None:
    words = beam_dpsketch.config.__doc__ or ""
    functions = {name for name in config.__all__ if name.startswith("read_")}
    assert set(re.findall(r"^\| `(read_\w+)`", words, re.MULTILINE)) == functions
    example = re.search(r"\n\n((?:    .*\n)+)", words)
    assert example is not None
    assert read_release(re.sub(r"^    ", "", example[1], flags=re.MULTILINE)).count.wanted == 5


def test_no_message_on_record_names_a_value_object() -> None:
    messages = Path(__file__).with_name("messages.txt").read_text(encoding="utf-8")
    assert not re.search(
        r"\b(NormBound|AutoNorm|RecordBounds|PublicKeys|KeySelection|TimeRange|Thresholding)\b", messages
    )


def test_every_setting_has_words_of_settings() -> None:
    """Those out of docstrings name no class, and spell values as settings do."""
    blocks = [each for each in vars(table).values() if isinstance(each, Block) and each.name != "Domain"]
    words = {f"{block.name}.{name}": entry.words for block in blocks for name, entry in block.entries.items()}
    assert [name for name, each in words.items() if not each] == []
    classes = "|".join(name for name in beam_dpsketch.__all__ if name[0].isupper())
    python = re.compile(rf"\b(None|True|False|callable|{classes})\b|\"")
    assert [name for name, each in words.items() if python.search(re.sub(r"`\{.*?\}`", "", each))] == []
