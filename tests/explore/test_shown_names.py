"""Names on the page: two items or keys that differ look different, whatever they are made of; and texts of charts."""

from __future__ import annotations

import pathlib
import sys
import unicodedata
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from beam_dpsketch import CountSketch, PrivacySpec, ReleaseTerms, SketchSpec, release
from beam_dpsketch.explore import explore
from tests.helpers.browser import Browser
from tests.helpers.explored import delays, statistics

pytestmark = pytest.mark.browser

LOOKALIKES = [
    *("Oslo", " Oslo", "Oslo ", "Oslo\n", "Os\tlo", "Os lo", "Os  lo", "Os\xa0lo", "Os\u2003lo", "Os\u3000lo"),
    *(f"Os{hidden}lo" for hidden in "\u200b\u200c\u200d\u2060\ufeff\xad\u061c\u2028\u2029\u034f\u115f\u3164\uffa0"),
    *(f"Oslo{hidden}" for hidden in "\u200e\u202e\u2066\u180e\ufe0f\u2800\U000e0041\x00\x1b\x7f\x9b\udc80\ud83d"),
    *("", " ", "  ", "\t", "\u200b"),
]
EMOJI = ["❤", "❤\ufe0f", "👩\u200d💻", "👩🏽\u200d💻", "🏳\ufe0f\u200d🌈", "👍🏽", "🇳🇴"]
ESCAPED = """({ last }) =>
  Array.from({ length: last + 1 }, (_, code) => plainly(String.fromCodePoint(code)).length > 2)"""
SEEN = "({ texts }) => texts.map(named)"


def test_names_that_differ_look_different(run_js: Callable[[str, Any], Any]) -> None:
    """No two of the list are drawn alike: what is left has no signs that are not seen, and no spaces that are lost."""
    shown = run_js(SEEN, {"texts": LOOKALIKES})
    assert len(set(shown)) == len(LOOKALIKES)
    for text in shown:
        assert text == " ".join(text.split()), text
        assert text.isprintable(), ascii(text)
    assert shown[:3] == ["Oslo", "\\u0020Oslo", "Oslo\\u0020"]
    assert shown[LOOKALIKES.index("")] == "(empty)"


def test_emoji_stay_whole(run_js: Callable[[str, Any], Any]) -> None:
    """What joins or changes an emoji is seen, so it is not escaped; after a letter it is."""
    assert run_js(SEEN, {"texts": EMOJI}) == EMOJI
    assert run_js(SEEN, {"texts": ["a\ufe0f", "a\u200d💻", "👩\u200d", "👩\u200dx"]}) == [
        *("a\\ufe0f", "a\\u200d💻", "👩\\u200d", "👩\\u200dx")
    ]


def test_what_a_terminal_escapes_a_page_does_too(run_js: Callable[[str, Any], Any]) -> None:
    """Of all characters: those that Python does not print, but for those that its version or the browser's lacks."""
    texts = [chr(code) for code in range(sys.maxunicode + 1)]
    shown = run_js(ESCAPED, {"last": sys.maxunicode})
    assigned = [text for text in texts if unicodedata.category(text) != "Cn"]
    left = [text for text in assigned if not text.isprintable() and not shown[ord(text)]]
    assert left == []
    more = {unicodedata.category(text) for text in assigned if text.isprintable() and shown[ord(text)]}
    assert more == {"Lo", "Mn", "So"}  # fillers, variation selectors, the empty Braille pattern
    assert sum(text.isprintable() and shown[ord(text)] for text in assigned) < 300


def texts_of(browser: Browser, selector: str) -> list[str]:
    return browser.run("return [...document.querySelectorAll(arguments[0])].map((it) => it.textContent)", selector)


def shown_page(browser: Browser, folder: pathlib.Path, items: list[str], **more: Any) -> None:
    counts = np.repeat(items, range(400, 400 - 20 * len(items), -20)).tolist() if items else []
    released = release(CountSketch(SketchSpec(width=256)).accumulate(counts), ReleaseTerms(PrivacySpec(rho=50.0)))
    path = folder / "page.html"
    path.write_text(explore(released, candidates=items, **more), encoding="utf-8")
    browser.open(path)
    browser.wait_for("document.querySelector('#top-chart .main-svg')")


def test_labels_of_charts(browser: Browser, tmp_path: pathlib.Path) -> None:
    """A long label ends at a whole character, and no sign steers what it stands in."""
    long, bells = "😀" * 30, "a\x1b[31m\u202eolsO"
    shown_page(browser, tmp_path, [long, bells, "<b>x</b>&amp;", "", " "])
    labels = texts_of(browser, "#top-chart .ytick text")
    assert {*labels} == {"😀" * 23 + "…", "a\\u001b[31m\\u202eolsO", "<b>x</b>&amp;", "(empty)", "\\u0020"}
    cells = browser.run(
        "return [...document.querySelectorAll('#ask tbody tr td:nth-child(2)')].map((it) => it.textContent)"
    )
    assert {"(empty)", "\\u0020"} <= {*cells}


def test_the_empty_item_has_a_name_where_it_is_asked(browser: Browser, tmp_path: pathlib.Path) -> None:
    shown_page(browser, tmp_path, ["", "a"])
    browser.find("#item").send_keys("\n")
    assert browser.text("#item-answer").startswith("(empty): about ")
    assert browser.text("#answers tbody td:nth-child(2)") == "records of (empty)"


MARKUP = '<b>w</b><a href="https://example.org">w</a> & <EUR>\u202e'


@pytest.mark.parametrize("kind", ["bars", "curve"])
def test_titles_of_axes_are_text(kind: str, browser: Browser, tmp_path: pathlib.Path) -> None:
    """What is counted, and what values are, stand on axes; Plotly would read tags there."""
    if kind == "bars":
        shown_page(browser, tmp_path, ["a", "b"], weight=MARKUP)
        title = browser.text("#top-chart .xtitle")
    else:
        path = tmp_path / "page.html"
        path.write_text(explore(delays(), value=MARKUP), encoding="utf-8")
        browser.open(path)
        browser.wait_for("document.querySelector('#curve .xtitle')")
        title = browser.text("#curve .xtitle")
    assert title.startswith(MARKUP.replace("\u202e", "\\u202e"))
    assert browser.run("return document.querySelectorAll('a:not(.skip), b').length") == 0


def test_keys_without_text_have_names(browser: Browser, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "page.html"
    path.write_text(explore({"": statistics(), " ": statistics(), "Os\u200blo": statistics()}), encoding="utf-8")
    browser.open(path)
    options = texts_of(browser, "#choose-key option")
    assert options == ["(empty)", "\\u0020", "Os\\u200blo"]
    assert {*options} <= {*texts_of(browser, "#ask td.text:first-child")}
