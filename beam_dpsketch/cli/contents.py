"""Which files `dpsketch run` writes, and what is in each: one file, or one for each window, named as in pipelines."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from beam_dpsketch.answers.release_file import SUFFIX, window_path
from beam_dpsketch.domains.timestamps import from_micros
from beam_dpsketch.frames.outcome import Window, windows_of_table
from beam_dpsketch.privacy.over_time.horizon import Horizon
from beam_dpsketch.records.release_spec import ReleaseSpec


def window_files(output: str, declared: ReleaseSpec) -> list[str]:
    """Return the names of the files of all windows; none where there are no windows."""
    return [] if declared.time is None else [_named(output, window) for window in windows_of_table(declared)]


def contents(output: str, declared: ReleaseSpec, released: Any) -> dict[str, list[Any]]:
    """Return what goes into each file: releases or rows, or pairs of a key and one of them.

    A window in which no key was chosen, or that brings no row, has no file.
    """
    if declared.horizon is not None:
        return _rows(output, declared.horizon, released if declared.is_keyed else {None: released}, declared.is_keyed)
    if declared.time is None:
        return {output: _elements(released, declared.is_keyed)}
    files = {_named(output, window): _elements(each, declared.is_keyed) for window, each in released.items()}
    return {path: elements for path, elements in files.items() if elements}


def _elements(released: Any, is_keyed: bool) -> list[Any]:
    return [*released.items()] if is_keyed else [released]


def _rows(output: str, horizon: Horizon, by_key: dict[Any, Any], is_keyed: bool) -> dict[str, list[Any]]:
    files: dict[int, list[Any]] = defaultdict(list)
    for key, rows in by_key.items():
        for row in rows:
            files[row.window].append((key, row) if is_keyed else row)
    return {_named(output, Window(*map(from_micros, horizon.edges(each)))): files[each] for each in sorted(files)}


def _named(output: str, window: Window) -> str:
    return window_path(output.removesuffix(SUFFIX), *window)
