"""What `query` and `plot` share: which releases of some files are asked, and options on how."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

from beam_dpsketch.answers.released_sketch import ReleasedSketch
from beam_dpsketch.cli.faults import AnswerError, UsageError
from beam_dpsketch.cli.over_time import group_rows
from beam_dpsketch.cli.stored import Stored, read_stored
from beam_dpsketch.cli.text import shown
from beam_dpsketch.cli.values import ITEM_TYPES, read_confidence, read_lines, read_whole
from beam_dpsketch.privacy.over_time.horizon import Horizon

_MAX_WINDOW = (1 << 17) - 1


def add_answer_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options that pick releases, items, windows and a confidence."""
    parser.add_argument("--key", help="only the releases of this output key")
    parser.add_argument("--candidates", metavar="FILE", help="the items that --top chooses from, one a line; public")
    parser.add_argument("--type", choices=ITEM_TYPES, help="what the items of a sketch are (text)")
    parser.add_argument(
        "--confidence", type=read_confidence, default=0.95, metavar="C", help="of each interval, between 0 and 1 (0.95)"
    )
    parser.add_argument(
        "--horizon",
        nargs=3,
        metavar=("START", "SIZE", "WINDOWS"),
        help="of rows over time, as declared: 2024-01-01T00:00Z 1h 24",
    )
    parser.add_argument(
        "--windows",
        nargs=2,
        type=read_whole(0, _MAX_WINDOW),
        metavar=("FIRST", "LAST"),
        help="which windows of the horizon are asked about (all that are there)",
    )


def read_asked(arguments: argparse.Namespace) -> list[Stored]:
    """Return what the files hold, of the output key that is asked for."""
    stored = read_stored(arguments.files)
    if arguments.key is not None:
        stored = [each for each in stored if each.key is not None and shown(each.key) == arguments.key]
        if not stored:
            raise AnswerError("no release in these files has this --key; `dpsketch inspect` lists their keys")
    if arguments.windows and all(isinstance(each.released, ReleasedSketch) for each in stored):
        raise UsageError("--windows is about rows over time, and these files hold none")
    return stored


def read_candidates(arguments: argparse.Namespace, option: str) -> list[str] | None:
    """Return the items that `--top` chooses from; `None` without a list."""
    if arguments.candidates is None:
        return None
    if option != "top":
        raise UsageError("--candidates is for --top alone")
    return read_lines(arguments.candidates, "--candidates")


def asked(
    stored: list[Stored], horizon: Horizon | None, windows: list[int] | None
) -> Iterator[tuple[str, dict[str, Any], ReleasedSketch | AnswerError]]:
    """Yield what can be asked, with its title and its columns; in place of an answer that is not there, the error."""
    for each in stored:
        if isinstance(each.released, ReleasedSketch):
            yield each.title, each.place, each.released
    for rows in group_rows(stored):
        if horizon is None:
            raise needs_horizon(rows.title)
        try:
            yield rows.title, *rows.answer(horizon, (windows[0], windows[1]) if windows else None)
        except AnswerError as error:
            yield rows.title, {}, error


def needs_horizon(title: str) -> UsageError:
    """Return the error about rows over time without their horizon."""
    return UsageError(f"{title}: holds rows over time; give --horizon START SIZE WINDOWS, as it was declared for them")
