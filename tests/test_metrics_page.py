"""The page about several metrics: its code runs, and prints what it shows."""

from __future__ import annotations

import re

import pytest

from tests.helpers.pages import PAGES, fenced, printed_by

PAGE = PAGES["metrics"]
_LINE = re.compile(r"^(\w+) about ([\d.]+), from [\d.]+ to [\d.]+ (\d+) (\w+)$", re.MULTILINE)


def test_a_frame_has_all_metrics_of_each_key() -> None:
    """Each limit is 10 deviations of the noise or more: a false alarm in 1 run in 10^20."""
    printed = printed_by(fenced("# Counts, people and means", PAGE))
    for text in (printed, fenced("<!-- checked by tests/test_metrics_page.py -->", PAGE)):
        found = {key: rest for key, *rest in _LINE.findall(text)}
        assert [*found] == ["Oslo", "Rome"]
        for mean, median, page in found.values():
            assert float(mean) == pytest.approx(100, abs=8)
            assert float(median) == pytest.approx(100, abs=20)
            assert page in ("home", "help")
