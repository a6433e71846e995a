"""Commands `dpsketch plot`, which draws answers in panels, and `explore`, which writes an interactive page."""

from __future__ import annotations

import argparse
import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from beam_dpsketch.answers.questions.ask import Ask
from beam_dpsketch.answers.questions.entries import Answered, Drawing, QuestionKind, Takes
from beam_dpsketch.answers.questions.kinds import QUESTIONS
from beam_dpsketch.answers.released import Released
from beam_dpsketch.answers.rows import Frequencies
from beam_dpsketch.cli import asking
from beam_dpsketch.cli.output import MAX_PANELS, PICTURES, add_output_options, output_kind, say_notes, write_output
from beam_dpsketch.cli.stored import Stored, add_files, name_without_window, window_of
from beam_dpsketch.cli.text import DONE, NO_ANSWER, AnswerError, in_words_of, note, read_lines, read_whole
from beam_dpsketch.config import ConfigError
from beam_dpsketch.errors import UsageError
from beam_dpsketch.exact.horizon import Horizon
from beam_dpsketch.explore import Explored, explore
from beam_dpsketch.plots import Look, plot_cdf, plot_histogram, plot_timeline, plot_top_k
from beam_dpsketch.plots.drawing import add_common_legend, panel_grid, places_of, share_limits, text, to_bytes
from beam_dpsketch.plots.pictures import WINDOW_ENDS, WINDOW_STARTS, counted, intervals_of, is_logarithmic, show_growth
from beam_dpsketch.statement.showing import in_words, is_key_column

_WIDE, _ONE_WIDE, _HIGH, _BAR = 6.0, 8.0, 3.6, 0.3


class Names(NamedTuple):
    """Labels of a picture. `None` uses the defaults of the release."""

    drawing: Drawing
    value: str | None
    weight: str | None
    so_far: bool = False
    whole_domain: bool = False


class Panel(NamedTuple):
    """Answers in a panel."""

    place: dict[str, Any]
    series: list[list[dict[str, Any]]]
    released: Released
    answered: Answered


def draw(panels: Sequence[Panel], names: Names, kind: str) -> bytes:
    """Draw all panels as a picture.

    Raises `UsageError` without matplotlib, and `AnswerError` for answers that do not fit on an axis.
    """
    columns = 1 if len(panels) == 1 else 2 if len(panels) <= 4 else 3
    size = (_ONE_WIDE if columns == 1 else _WIDE, max(_height(panel, names) for panel in panels))
    try:
        figure, grid = panel_grid(len(panels), columns, size)
        for axes, panel, title in zip(grid, panels, _titles(panels), strict=True):
            _DRAWN[names.drawing.form](axes, panel, names)
            axes.set_title(title, fontsize=11)
        share_limits(grid, *_shared(panels, names.drawing.form))
        add_common_legend(figure, grid, [panel.answered for panel in panels])
        return to_bytes(figure, kind)
    except ImportError as error:
        raise UsageError.of(error) from None
    except (ValueError, OverflowError, TypeError):  # the message may contain an item
        raise AnswerError("these answers cannot be drawn on an axis") from None


def _draw_cdf(axes: Any, panel: Panel, names: Names) -> None:
    (rows,) = panel.series
    shares, values = intervals_of(rows), [row["value"] for row in rows]
    plot_cdf(shares, values, axes=axes, look=_look(panel, names))
    if names.whole_domain:
        show_growth(axes, places_of(values), np.array(shares.estimate))


def _draw_top(axes: Any, panel: Panel, names: Names) -> None:
    (rows,) = panel.series
    answers = intervals_of(rows)
    frequencies = Frequencies([in_words(row["item"]) for row in rows], answers.estimate, answers.lower, answers.upper)
    plot_top_k(frequencies, axes=axes, look=_look(panel, names))


def _draw_histogram(axes: Any, panel: Panel, names: Names) -> None:
    (rows,) = panel.series
    edges = [*(row["range_low"] for row in rows), rows[-1]["range_high"]]
    plot_histogram(intervals_of(rows), edges, axes=axes, look=_look(panel, names))


def _draw_over_time(axes: Any, panel: Panel, names: Names) -> None:
    times = WINDOW_ENDS if names.so_far else WINDOW_STARTS
    axis = (names.value or "value") if names.drawing.axis == "value" else names.drawing.axis
    weight = axis or names.weight or counted(panel.released)
    for number, rows in enumerate(panel.series):
        look = Look(
            value=times,
            weight=_escaped(weight),
            interval_name=panel.answered.intervals,
            name=names.drawing.line.format(**{**rows[0], "item": text(in_words(rows[0].get("item")))}),
            series=number,
        )
        plot_timeline(intervals_of(rows), [row["time"] for row in rows], axes=axes, look=look)


_DRAWN = {"cdf": _draw_cdf, "bars": _draw_top, "histogram": _draw_histogram, "lines": _draw_over_time}


def _shared(panels: Sequence[Panel], form: str) -> tuple[str, list[Any]]:
    """Choose the axes with the same limits in all panels: counts, and values in equal domains."""
    if form in ("bars", "histogram"):
        return {"bars": "x", "histogram": "y"}[form], []
    return {"cdf": "x", "lines": "xy"}[form], [getattr(panel.released.spec, "domain", None) for panel in panels]


def _look(panel: Panel, names: Names) -> Look:
    return Look(
        value=None if names.value is None else _escaped(names.value),
        weight=_escaped(names.weight or counted(panel.released)),
        interval_name=panel.answered.intervals,
        logarithmic=is_logarithmic(panel.released),
    )


def _titles(panels: Sequence[Panel]) -> list[str]:
    names = dict.fromkeys(name for panel in panels for name in panel.place)
    telling = [
        name for name in names if is_key_column(name) or len({in_words(panel.place.get(name)) for panel in panels}) > 1
    ]
    return [
        ", ".join(_escaped(in_words(panel.place[name])) for name in telling if panel.place.get(name) is not None)
        for panel in panels
    ]


def _escaped(words: str) -> str:
    return " ".join(text(word) for word in words.split(" "))


def _height(panel: Panel, names: Names) -> float:
    return 0.9 + _BAR * max(5, len(panel.series[0])) if names.drawing.form == "bars" else _HIGH


_POINTS, _MAX_K, _MAX_BINS = 1000, 50, 200
_CHANGES: Mapping[Takes, dict[str, Any]] = {
    Takes.COUNT: {"type": read_whole(1, _MAX_K)},
    Takes.PARTS: {
        "nargs": "*",
        "const": None,
        "type": str,
        "metavar": "LOW HIGH",
        "help": "the share at or below values, all of them or from LOW to HIGH",
    },
}
"""Option arguments that differ from `query`."""


def declare_plot(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `plot`."""
    add_files(parser)
    alone = parser.add_argument_group("what to draw: of each release, or over the windows of a key")
    kinds = alone.add_mutually_exclusive_group(required=True)
    drawn = [entry for entry in QUESTIONS.values() if entry.drawing is not None]
    for entry in sorted(drawn, key=_is_over_time):
        words = {"help": f"over time: {entry.words}"} if _is_over_time(entry) else {}
        asking.add_question(kinds, entry, **words, **_CHANGES.get(entry.takes, {}))
    asking.add_answer_options(parser)
    parser.add_argument(
        "--so-far", action="store_true", help="over time: all windows up to each window, for timeline rows"
    )
    asking.add_labels(parser)
    add_output_options(parser, PICTURES)


def plot(arguments: argparse.Namespace) -> int:
    """Run `dpsketch plot`.

    The exit code is 1 if a release cannot answer.
    """
    kind, horizon = output_kind(arguments, PICTURES), asking.read_horizon(arguments)
    ask = _with_points(asking.read_question(arguments))
    drawing, over_time = ask.entry.drawing, _is_over_time(ask.entry)
    assert drawing is not None  # questions without a drawing have no option
    if arguments.so_far and (not over_time or horizon is None):
        raise UsageError("--so-far requires timeline rows. Set --horizon, and a question that is drawn over time")
    stored = asking.read_asked(arguments)
    panels, code = [], DONE
    found = (_over_time if over_time else _alone)(stored, horizon, arguments, ask)
    for title, make in found:
        try:
            panels.append(make())
        except AnswerError as error:
            note(f"{title}: {error}")
            code = NO_ANSWER
        if len(panels) > MAX_PANELS:
            raise UsageError(
                f"a plot can show at most {MAX_PANELS} panels. Select a key with --key, or pass fewer files"
            )
    if panels:
        labels = (arguments.value_label, arguments.weight_label)
        names = Names(drawing, *labels, so_far=arguments.so_far, whole_domain=isinstance(ask.what, int))
        write_output(arguments, draw(panels, names, kind), [each.path for each in stored])
        note(f"drew {len(panels)} panel(s) to {arguments.output}")
    return code


def _is_over_time(entry: QuestionKind) -> bool:
    return entry.drawing is not None and entry.drawing.form == "lines"


def _with_points(ask: Ask) -> Ask:
    """Add the points of a curve to a question. Refuse more bins or lines than a picture can show."""
    option, takes, what = ask.entry.option, ask.entry.takes, ask.what
    if takes is Takes.PARTS:
        if len(what) not in (0, 2):
            raise UsageError(f"--{option} must have no value, or two: LOW HIGH")
        return dataclasses.replace(ask, what=(_POINTS, *what) if what else _POINTS)
    if takes is Takes.EDGES and len(what) > _MAX_BINS + 1:
        raise UsageError(f"--{option} supports at most {_MAX_BINS} bins")
    if _is_over_time(ask.entry) and takes is not Takes.NOTHING and len(what) > asking.MAX_SERIES:
        raise UsageError(f"--{option} supports at most {asking.MAX_SERIES} lines")
    return ask


Found = Iterator[tuple[str, Callable[[], Panel]]]
"""Titles, and functions that make the panels."""


def _alone(stored: list[Stored], horizon: Horizon | None, arguments: argparse.Namespace, ask: Ask) -> Found:
    def panel(title: str, place: dict[str, Any], released: Any) -> Panel:
        found = asking.answer(ask, released, title, arguments.type)
        if not found.rows:
            raise AnswerError("there are no answers to draw")
        return Panel(place, [found.rows], released, found)

    for each in asking.releases_of(stored, horizon, ask, arguments):
        yield each[0], functools.partial(panel, *each)


def _over_time(stored: list[Stored], horizon: Horizon | None, arguments: argparse.Namespace, ask: Ask) -> Found:
    def panel(title: str, place: dict[str, Any], found: list[asking.Moment] | AnswerError) -> Panel:
        """Ask each window. Only the first window writes notes."""
        if isinstance(found, AnswerError):
            raise found
        answers = [
            asking.answer(ask, each.released, title, arguments.type, list if number else say_notes)
            for number, each in enumerate(found)
        ]
        timed = [[{"time": each.time, **row} for row in one.rows] for each, one in zip(found, answers, strict=True)]
        return Panel(place, [list(rows) for rows in zip(*timed, strict=True)], found[0].released, answers[0])

    for each in asking.moments(stored, horizon, arguments.windows, so_far=arguments.so_far):
        yield each[0], functools.partial(panel, *each)


_PAGES = ("html",)


def declare_explore(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `explore`."""
    add_files(parser)
    add_output_options(parser, _PAGES)
    parser.add_argument("--title", default="A private release", help="the title of the page (A private release)")
    asking.add_labels(parser)
    asking.add_answer_options(parser, "the public items that the page suggests, and flat sketches list, one per line")


def write_page(arguments: argparse.Namespace) -> int:
    """Run `dpsketch explore`."""
    output_kind(arguments, _PAGES)
    horizon, stored = asking.read_horizon(arguments), asking.read_asked(arguments)
    entries = [*_entries(stored, horizon, arguments)]
    if not entries:
        raise AnswerError(asking.NO_METRIC)
    with in_words_of(UsageError, ValueError, ImportError):
        page = explore(
            entries,
            title=arguments.title,
            candidates=_candidates(arguments, stored),
            value=arguments.value_label,
            weight=arguments.weight_label,
            confidence=arguments.confidence,
        )
    write_output(arguments, page.encode(), [each.path for each in stored])
    note(f"wrote a page about {len(entries)} release(s), {len(page) / 1e6:.0f} MB, to {arguments.output}")
    return DONE


def _entries(stored: list[Stored], horizon: Horizon | None, arguments: argparse.Namespace) -> Iterator[Explored]:
    for each in stored:
        if isinstance(each.released, Released):
            parts = each.released.parts
            if arguments.metric is None or arguments.metric in parts:
                asked = each.released if arguments.metric is None else parts[arguments.metric]
                yield Explored(asked, name_without_window(each.file), each.key, window_of(each.path))
    for rows in asking.group_rows(stored, horizon, arguments.windows):
        windows = None if arguments.windows is None else tuple(arguments.windows)
        yield Explored(rows.timeline(), file=rows.place["file"], key=rows.key, windows=windows)


def _candidates(arguments: argparse.Namespace, stored: list[Stored]) -> tuple[Any, ...] | None:
    if arguments.candidates is None:
        return None
    try:
        lines = read_lines(arguments.candidates, "--candidates")
        lines = asking.refuse_item_column(lines, (each.released.privacy for each in stored))
        return asking.read_items(lines, arguments.type)
    except ConfigError:
        raise UsageError("--candidates must contain whole numbers with --type int, one per line") from None
