"""One window of Chromium for all tests of a process, and scripts of pages in it."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from beam_dpsketch.explore.content import encoded
from beam_dpsketch.explore.exploring import read_scripts
from tests.helpers.browser import Browser


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    window = Browser()
    yield window
    window.close()


@pytest.fixture
def run_js(browser: Browser, tmp_path: pathlib.Path) -> Callable[[str, Any], Any]:
    """Return what a function of JavaScript makes of a payload, where a page is defined; whole numbers as text."""

    def run(script: str, payload: Any) -> Any:
        given = json.dumps(encoded(payload)).replace("<", "\\u003c")
        page = f'<script type="application/json" id="payload">{given}</script><script>{read_scripts()}</script>'
        path = tmp_path / "scripts.html"
        path.write_text(page, encoding="utf-8")
        browser.open(path)
        call = f"const found = ({script})(JSON.parse(byId('payload').textContent));"
        spell = "(_, each) => (typeof each === 'bigint' ? String(each) : each)"
        return json.loads(browser.run(f"{call} return JSON.stringify(found, {spell});"))

    return run
