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
from beam_dpsketch.answers.questions import KINDS
from beam_dpsketch.config import keys, layouts, privacy, read_release, read_tree, release, units, windows
from tests.config.snapshots import message

PAGE = (Path(__file__).parents[2] / "docs" / "settings.md").read_text(encoding="utf-8")
YAML = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
TABLES = {
    "kind": release.RELEASE,
    "epsilon": privacy.PRIVACY,
    "units": privacy.SIDE_COUNTERS,
    "privacy_id": units.UNIT,
    "max_norm": units.NORM,
    "spend": units.AUTO,
    "max_contributions_per_partition": units.RECORDS,
    "public": keys.KEYS,
    "delta": keys.SELECT,
    "start": windows.WINDOWS,
    "memory": layouts.TREE_MEMORY,
    "levels": layouts.TREE_LEVELS,
    "groups": keys.METHOD,
    "quantiles": dict.fromkeys((*KINDS, "candidates", "confidence")),
}
"""The tables of the page, by their first setting."""


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


def tables(page: str) -> dict[str, list[str]]:
    """Return the settings of each table of a page, by the first of them."""
    found = {}
    for rows in re.findall(r"\| setting(?: of `\w+`)? \|[^\n]*\n\|[-|]+\n((?:\|[^\n]*\n)+)", page):
        names = re.findall(r"^\| `(\w+)`", rows, re.MULTILINE)
        found.setdefault(names[0], names)
    return found


def test_tables_list_all_settings() -> None:
    found = tables(PAGE)
    horizon = tables(PAGE.split("## `horizon`")[1])["start"]
    spec = tables(PAGE.split("## `spec`")[1])["kind"]
    assert {first: sorted(names) for first, names in found.items()} == {
        first: sorted(known) for first, known in TABLES.items()
    }
    assert sorted(horizon) == sorted(windows.HORIZON)
    assert sorted(spec) == sorted({**layouts.SPEC, **layouts.ACCURACY})
    domains = dict(re.findall(r"^\| `(\w+)` \|(.*)\|$", PAGE.split("| type |")[1].split("## ")[0], re.MULTILINE))
    assert {name: re.findall(r"`(\w+)`", words) for name, words in domains.items()} == {
        name: list(kind) for name, kind in layouts.DOMAIN_SETTINGS.items()
    }


def test_the_table_of_the_release_says_which_kind_has_a_setting() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| (all|[a-z_, ]+) \|", PAGE.split("## `privacy`")[0], re.MULTILINE))
    for kind, names in release.KINDS.items():
        assert {name for name, kinds in rows.items() if kinds == "all" or kind in kinds.split(", ")} == set(names) - {
            "kind"
        }


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
    assert not re.search(r"\b(NormBound|AutoNorm|RecordBounds|PublicKeys|KeySelection|TimeRange|Groups)\b", messages)
