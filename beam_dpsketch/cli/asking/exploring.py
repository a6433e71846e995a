"""`dpsketch explore`: one HTML file in which anyone may ask releases, in any browser."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from typing import Any

from beam_dpsketch.answers.released import Released
from beam_dpsketch.cli.asking.over_time import group_rows, needs_horizon, read_horizon
from beam_dpsketch.cli.asking.query import add_answer_options, add_labels, read_asked
from beam_dpsketch.cli.asking.values import read_items, read_lines
from beam_dpsketch.cli.output import add_output_options, output_kind, write_output
from beam_dpsketch.cli.stored import Stored, add_files, name_without_window, window_of
from beam_dpsketch.cli.text import DONE, AnswerError, note
from beam_dpsketch.config import ConfigError
from beam_dpsketch.errors import UsageError
from beam_dpsketch.explore import Explored, explore
from beam_dpsketch.privacy.over_time.horizon import Horizon

FORMATS = ("html",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_files(parser)
    add_output_options(parser, FORMATS)
    parser.add_argument("--title", default="A private release", help="of the page (A private release)")
    add_labels(parser)
    add_answer_options(parser, "the items that the page suggests, and flat sketches list, one a line; public")


def run(arguments: argparse.Namespace) -> int:
    """Write the page."""
    output_kind(arguments, FORMATS)
    horizon, stored = read_horizon(arguments), read_asked(arguments)
    entries = [*_entries(stored, horizon, arguments)]
    if not entries:
        raise AnswerError("no release in these files has this --metric; `dpsketch inspect` lists their metrics")
    try:
        page = explore(
            entries,
            title=arguments.title,
            candidates=_candidates(arguments),
            value=arguments.value_label,
            weight=arguments.weight_label,
            confidence=arguments.confidence,
        )
    except (ValueError, ImportError) as error:
        raise UsageError.of(error) from None
    write_output(arguments, page.encode(), [each.path for each in stored])
    note(f"wrote a page about {len(entries)} release(s), {len(page) / 1e6:.0f} MB, to {arguments.output}")
    return DONE


def _entries(stored: list[Stored], horizon: Horizon | None, arguments: argparse.Namespace) -> Iterator[Explored]:
    for each in stored:
        if isinstance(each.released, Released):
            parts = each.released.parts
            if arguments.metric is None or arguments.metric in parts:
                asked = each.released if arguments.metric is None else parts[arguments.metric]
                yield Explored(asked, os.path.basename(name_without_window(each.path)), each.key, window_of(each.path))
    for rows in group_rows(stored):
        if horizon is None:
            raise needs_horizon(rows.title)
        place = rows.place
        windows = None if arguments.windows is None else tuple(arguments.windows)
        yield Explored(rows.timeline(horizon), place["file"], place["key"], windows=windows)


def _candidates(arguments: argparse.Namespace) -> tuple[Any, ...] | None:
    if arguments.candidates is None:
        return None
    try:
        return read_items(read_lines(arguments.candidates, "--candidates"), arguments.type)
    except ConfigError:
        raise UsageError("--candidates must be whole numbers with --type int, one a line") from None
