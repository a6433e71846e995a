"""Where a page leaves something out, it says so, and no sentence of it counts what is left out as missing."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

from beam_dpsketch import release_frame
from beam_dpsketch.explore import Explored, explore
from tests.helpers.browser import Browser
from tests.helpers.explored import cities

MANY = 1000
FOLDED, LARGEST = "#ask details summary", "The 1,000 most frequent"
UNIT = {"privacy_id": "person", "records": {"max_records": 1}}


def names(count: int) -> list[str]:
    return [f"city {number:04}" for number in range(count)]


def listed(count: int, **more: Any) -> Any:
    table = pa.table({"person": list(range(2 * count)), "item": names(count) * 2})
    settings = {"kind": "frequencies", "item": "item", "privacy": {"rho": 5}, "privacy_unit": UNIT}
    return release_frame(table, {**settings, **more})


def of_keys(count: int) -> Any:
    key = {"keys": {"assume_public": True, "field": "item"}}
    table = pa.table({"person": list(range(2 * count)), "item": names(count) * 2, "value": [1, 2] * count})
    domain = {"type": "integer", "low": 0, "high": 10}
    privacy_unit = {"privacy_id": "person", "records": {"max_records": 1, "max_keys": 1}}
    return release_frame(
        table,
        {
            "kind": "statistics",
            "item": "value",
            "domain": domain,
            "privacy": {"rho": 1},
            "privacy_unit": privacy_unit,
            **key,
        },
    )


class Cut(NamedTuple):
    """Something that a page may leave out: what makes it, how much is whole, and the words where it is not."""

    make: Callable[[int], str]
    most: int
    selector: str
    words: str


CUTS = {
    "rows of a list": Cut(
        lambda n: explore(listed(n, listed_items=names(n))), MANY - 1, "#ask details summary", "1,000 most frequent"
    ),
    "rows of candidates": Cut(
        lambda n: explore(listed(n), candidates=names(n)), MANY - 1, "#ask details summary", "1,000 most frequent"
    ),
    "rows of keys": Cut(
        lambda n: explore(of_keys(n)), MANY, "#ask", "the first 1,000 of 1,001 keys. Choose another key"
    ),
}


@pytest.mark.browser
@pytest.mark.parametrize("name", CUTS)
@pytest.mark.parametrize("is_cut", [False, True])
def test_what_is_left_out_is_said(name: str, is_cut: bool, browser: Browser, tmp_path: pathlib.Path) -> None:
    cut = CUTS[name]
    (tmp_path / "page.html").write_text(cut.make(cut.most + is_cut), encoding="utf-8")
    browser.open(tmp_path / "page.html")
    assert (cut.words in browser.text(cut.selector)) == is_cut
    assert ("All 999 of the list" in browser.text(cut.selector)) == (
        not is_cut and "list" in browser.text(cut.selector)
    )


@pytest.mark.browser
@pytest.mark.parametrize("count", [30, 2600])
def test_every_candidate_is_known(count: int, browser: Browser, tmp_path: pathlib.Path) -> None:
    """Only an item that is none is called strange, and what is typed finds candidates at the end of a long list."""
    (tmp_path / "page.html").write_text(explore(cities(), candidates=names(count)), encoding="utf-8")
    browser.open(tmp_path / "page.html")
    for item, is_strange in (("city 0003", False), (names(count)[-1], False), ("city", True)):
        box = browser.find("#item")
        box.clear()
        box.send_keys(item)
        assert ("not in the list" in browser.text("#item-answer")) == is_strange, item
        options = browser.run("return [...document.querySelectorAll('#known option')].map((it) => it.value)")
        assert options[-1] == (item if not is_strange else names(min(count, MANY))[-1])


@pytest.mark.browser
def test_a_key_is_chosen_without_making_all_again(browser: Browser, tmp_path: pathlib.Path) -> None:
    """Lists and the table of all keys stay, with what was chosen in them; another file has its own."""
    keys = of_keys(1200)
    entries = [Explored(each, file=file, key=key) for file in "ab" for key, each in keys.items()]
    (tmp_path / "page.html").write_text(explore(entries), encoding="utf-8")
    browser.open(tmp_path / "page.html")
    choose = (
        "const box = document.getElementById(arguments[0]); box.selectedIndex = arguments[1];"
        "box.dispatchEvent(new Event('change'))"
    )
    mark = "document.querySelectorAll('#choose-key, #number').forEach((it) => { it.made = 'before' })"
    kept = "return [...document.querySelectorAll('#choose-key, #number')].map((it) => it.made ?? null)"
    browser.run(mark)
    browser.run(choose, "number", 1)
    before = browser.text("#ask table:last-of-type caption")
    browser.run(choose, "choose-key", 1100)
    assert browser.run("return chosen.key") == names(1200)[1100]
    assert browser.run(kept) == ["before", "before"]
    assert browser.text("#ask table:last-of-type caption") == before
    assert browser.run("return document.activeElement.id") == "choose-key"
    browser.run(choose, "choose-file", 1)
    assert browser.run("return [chosen.file, chosen.key]") == ["b", names(1200)[1100]]
    assert browser.run("return document.querySelector('#choose-key').selectedIndex") == 1100
    assert browser.run(kept) == ["before", None]
    assert not browser.complaints()


@pytest.mark.browser
def test_a_table_of_keys_has_the_key_columns_of_its_file(browser: Browser, tmp_path: pathlib.Path) -> None:
    """Other files on the page may have other key columns."""
    table = pa.table({"person": [*range(60)], "item": ["a", "b"] * 30, "city": ["Oslo"] * 30 + ["Rome"] * 30})
    settings = {"kind": "frequencies", "item": "item", "listed_items": ["a", "b"], "privacy": {"rho": 5}}
    unit = {"privacy_id": "person", "records": {"max_records": 1, "max_keys": 1}}
    entries = []
    for file, field in (("one", "city"), ("two", ["city", "item"])):
        keys = {"assume_public": True, "field": field}
        found = release_frame(table, {**settings, "privacy_unit": unit, "keys": keys})
        entries += [Explored(each, file=file, key=key) for key, each in found.items()]
    (tmp_path / "page.html").write_text(explore(entries), encoding="utf-8")
    browser.open(tmp_path / "page.html")
    of_keys = "[...document.querySelectorAll('#ask table')].at(-1).querySelectorAll('th[scope=col]')"
    heads = f"return [...{of_keys}].map((it) => it.innerText)"
    shown = []
    for file in range(2):
        choose = "const box = document.getElementById('choose-file'); box.selectedIndex = arguments[0];"
        browser.run(choose + "box.dispatchEvent(new Event('change'))", file)
        shown.append([head.strip() for head in browser.run(heads)][:-3])
    assert shown == [["key"], ["city", "key_2"]]
    assert not browser.complaints()


def test_all_candidates_are_in_the_page() -> None:
    page = explore(cities(), candidates=names(2600))
    assert json.dumps(names(2600), separators=(",", ":")) in page
