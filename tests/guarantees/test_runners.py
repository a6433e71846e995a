"""Exact counters are bit-identical on every runner, for every kind of element, bounded or not."""

from __future__ import annotations

import functools

import numpy as np
import pandas as pd
import pytest

from tests.helpers.every_kind import ITEMS, KEYED, KINDS, RUNNERS, branches, expected
from tests.helpers.pipelines import FN_API, seen_by_sink

pytestmark = pytest.mark.engine


def test_counters_are_the_same_for_every_kind_of_element() -> None:
    outputs = seen_by_sink(functools.partial(branches, KINDS), runner=FN_API)
    assert dict(outputs) == expected(KINDS)
    assert len(outputs) == len(expected(KINDS))


@pytest.mark.parametrize("name", RUNNERS)
def test_counters_are_the_same_on_every_runner(name: str, importable_in_workers: None) -> None:
    runner, options = RUNNERS[name]
    outputs = seen_by_sink(functools.partial(branches, KEYED), *options, runner=runner)
    assert dict(outputs) == expected(KEYED)
    assert len(outputs) == len(expected(KEYED))


def test_the_branches_differ_so_that_a_mix_up_would_show() -> None:
    counters = expected(KINDS)
    assert counters["rows, unbounded"] != counters["rows, bounded"]
    assert len({str(np.array(counters[name]).tolist()) for name in ITEMS}) == len(ITEMS)
    assert isinstance(KINDS["data frames"][0], pd.DataFrame)
