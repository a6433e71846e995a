"""`dpsketch query`: ask releases, as often as you like; and what `plot` shares with it."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from beam_dpsketch.answers.notes import codes
from beam_dpsketch.answers.questions.ask import Ask
from beam_dpsketch.answers.questions.entries import Answered, QuestionKind, Takes
from beam_dpsketch.answers.questions.kinds import KINDS, Kind, even_values
from beam_dpsketch.answers.released import Released
from beam_dpsketch.cli.asking.over_time import group_rows, needs_horizon, read_horizon
from beam_dpsketch.cli.asking.values import (
    ITEM_TYPES,
    ItemType,
    count_outside,
    read_confidence,
    read_lines,
    read_share,
    read_values,
    read_whole,
)
from beam_dpsketch.cli.output import add_format, print_rows, say_notes
from beam_dpsketch.cli.stored import Stored, add_files, read_stored
from beam_dpsketch.cli.text import DONE, NO_ANSWER, AnswerError, note
from beam_dpsketch.domains import Domain
from beam_dpsketch.errors import UsageError
from beam_dpsketch.privacy.over_time.horizon import Horizon
from beam_dpsketch.statement.showing import in_words

_FEW = 20
_MAX_WINDOW = (1 << 17) - 1
FORMS: Mapping[Takes, dict[str, Any]] = {
    Takes.SHARES: {"nargs": "+", "type": read_share, "action": "extend"},
    Takes.VALUES: {"nargs": "+", "action": "extend"},
    Takes.RANGES: {"nargs": 2, "action": "append"},
    Takes.EDGES: {"nargs": "+", "action": "extend"},
    Takes.PARTS: {"nargs": "?", "const": 20},
    Takes.COUNT: {},
    Takes.NOTHING: {"action": "store_true", "default": None},
}
"""How each form of a question is an option."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_files(parser)
    add_format(parser)
    kinds = parser.add_argument_group("one kind of question").add_mutually_exclusive_group(required=True)
    for entry in KINDS.values():
        add_question(kinds, entry)
    add_answer_options(parser)


def add_question(kinds: Any, entry: QuestionKind, **changes: Any) -> None:
    """Declare the option of a kind of question, with changes to what an option of its form is."""
    form = dict(FORMS[entry.takes])
    if entry.takes is not Takes.NOTHING:
        form["metavar"] = entry.metavar
    if entry.limit is not None:
        form["type"] = read_whole(1, entry.limit)
    more = "; repeat for more" if entry.takes is Takes.RANGES else ""
    kinds.add_argument(f"--{entry.option}", **{**form, "help": f"{entry.words}{more}", **changes})


def add_labels(parser: argparse.ArgumentParser) -> None:
    """Declare the options that name values and weights."""
    parser.add_argument("--value-label", metavar="TEXT", help="what the values are, with their unit: 'delay, minutes'")
    parser.add_argument("--weight-label", metavar="TEXT", help="what is counted: 'flights'")


def add_answer_options(
    parser: argparse.ArgumentParser, candidates: str = "the items that --top chooses from, one a line; public"
) -> None:
    """Declare the options that pick releases, items, windows and a confidence; `candidates` says what these are for."""
    parser.add_argument("--key", help="only the releases of this output key")
    parser.add_argument("--metric", metavar="NAME", help="only this one of several metrics of a release")
    parser.add_argument("--candidates", metavar="FILE", help=candidates)
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


def run(arguments: argparse.Namespace) -> int:
    """Print the answers of all releases; return 1 if one of them does not answer."""
    ask, horizon = read_question(arguments), read_horizon(arguments)
    rows, told, code = [], [], DONE
    stored = read_asked(arguments)
    for title, place, released in parts_of(releases_of(stored, horizon, arguments.windows), ask, arguments.metric):
        try:
            if isinstance(released, AnswerError):
                raise released
            answered = answer(ask, released, title, arguments.type)
            of_all = {"notes": codes(answered.notes), **answered.clipping.columns()}
            rows += [{**place, **row, **of_all} for row in answered.rows]
            told.append((title, answered.clipping, answered.notes))
        except AnswerError as error:
            note(f"{title}: {error}")
            code = NO_ANSWER
    say_notes(told)
    level = f"{100 * arguments.confidence:.10g} %"
    print_rows(rows, arguments, {"lower": f"lower {level}", "upper": f"upper {level}"})
    return code


def read_question(arguments: argparse.Namespace) -> Ask:
    """Return the question that the arguments ask, with texts in place of values: `answer` reads them by release."""
    given: dict[Kind, Any] = {
        kind: getattr(arguments, entry.option.replace("-", "_"), None) for kind, entry in KINDS.items()
    }
    ((kind, what),) = ((kind, what) for kind, what in given.items() if what is not None)
    candidates = None
    if arguments.candidates is not None:
        if KINDS[kind].items_in != "candidates":
            raise UsageError("--candidates is for --top alone")
        candidates = read_lines(arguments.candidates, "--candidates")
    return Ask(kind, what, arguments.confidence, candidates)


def read_asked(arguments: argparse.Namespace) -> list[Stored]:
    """Read the releases of the output key that is asked for."""
    stored = read_stored(arguments.files)
    if arguments.key is not None:
        stored = [each for each in stored if each.key is not None and in_words(each.key) == arguments.key]
        if not stored:
            raise AnswerError("no release in these files has this --key; `dpsketch inspect` lists their keys")
    if arguments.windows and all(isinstance(each.released, Released) for each in stored):
        raise UsageError("--windows is about rows over time, and these files hold none")
    return stored


def releases_of(
    stored: list[Stored], horizon: Horizon | None, windows: list[int] | None
) -> Iterator[tuple[str, dict[str, Any], Released | AnswerError]]:
    """Yield each release with its title and columns; in place of an answer that is not there, the error."""
    for each in stored:
        if isinstance(each.released, Released):
            yield each.title, each.place, each.released
    for rows in group_rows(stored):
        if horizon is None:
            raise needs_horizon(rows.title)
        try:
            yield rows.title, *rows.answer(horizon, (windows[0], windows[1]) if windows else None)
        except AnswerError as error:
            yield rows.title, {}, error


def parts_of(
    found: Iterable[tuple[str, dict[str, Any], Released | AnswerError]], ask: Ask, metric: str | None
) -> Iterator[tuple[str, dict[str, Any], Released | AnswerError]]:
    """Yield the metric of each release that is asked for, as `releases_of` does; else those that answer, or all."""
    is_there = metric is None
    for title, place, released in found:
        parts: Mapping[str, Released | AnswerError] = {"": released}
        if not (isinstance(released, AnswerError) or (metric is None and ask.is_of_the_whole)):
            parts = released.parts
        answering = [name for name, each in parts.items() if isinstance(each, Released) and ask.is_answered_by(each)]
        for name in answering or parts if metric is None else parts.keys() & {metric}:
            is_there = True
            of_metric = {"metric": name} if name else {}
            yield f"{title}, metric {name}" if name else title, {**place, **of_metric}, parts[name]
    if not is_there:
        raise AnswerError("no release in these files has this --metric; `dpsketch inspect` lists their metrics")


def answer(ask: Ask, released: Released, title: str, item_type: ItemType | None, *, quiet: bool = False) -> Answered:
    """Return the answer of one release, with its rows; say on stderr what else there is to know, if not quiet.

    Args:
      ask: the question, with texts in place of values.
      released: the release.
      title: where it was found, for messages.
      item_type: see `read_values`.
      quiet: whether nothing is said.

    Raises `AnswerError` where the release does not answer, and `UsageError` where a value is not one of its domain.
    """
    if not ask.is_answered_by(released):
        raise AnswerError(ask.refusal(released, lambda kind: f"--{KINDS[kind].option}"))
    try:
        ask = _with_values(ask, released, item_type, quiet)
    except UsageError as error:
        raise UsageError.of(error, lambda each: f"{title}: {each.message}") from None
    try:
        answered = ask.answer(released)
    except (ValueError, TypeError) as error:
        raise AnswerError.of(error) from None
    limit = getattr(answered.answer, "detection_limit", None)
    if limit is not None and not quiet:
        note(f"{title}: items of {limit:.6g} or more that the bounds kept exceed the noise with 95 %")
    return answered


def _steps(ends: tuple[Any, ...], domain: Domain) -> int:
    """Return how many steps of a domain lie between two values; 0 for one."""
    positions, _ = domain.index(ends)
    return int(positions[-1]) - int(positions[0])


def _with_values(ask: Ask, released: Released, item_type: ItemType | None, quiet: bool) -> Ask:
    """Return a question about values of a release in place of texts; say how many lie outside its domain."""
    domain = getattr(released.spec, "domain", None)

    def values(texts: list[str]) -> tuple[Any, ...]:
        read = read_values(texts, released, item_type)
        if not quiet and isinstance(domain, Domain) and (outside := count_outside(read, domain)):
            note(f"{outside} value(s) lie outside the domain, which moves them to its nearest end")
        return read

    def edges(texts: list[str]) -> tuple[Any, ...]:
        read = values(texts)
        if (
            not quiet
            and isinstance(domain, Domain)
            and 0 < _steps(read[-2:], domain) < _FEW
            and domain.is_inside(read[-1])
        ):
            note(
                "each bin ends before the next one, and the last bin holds its end too, so it is one value longer; an "
                "edge after the end of the domain avoids it"
            )
        return read

    def ranges(pairs: list[list[str]]) -> tuple[Any, ...]:
        return tuple(zip(*(values([*ends]) for ends in zip(*pairs, strict=True)), strict=True))

    def parts(given: Any) -> Any:
        """Return a number of parts, or the ends of equal parts from one value to another."""
        if isinstance(given, int):
            return given
        number, *ends = given
        first, last = domain.index(values(ends))[0].tolist()  # type: ignore[union-attr]
        if first > last:
            raise UsageError(f"--{ask.entry.option} LOW HIGH must be ascending")
        return even_values(domain, number, first, last)  # type: ignore[arg-type]

    readers: Mapping[Takes, Callable[[Any], Any]] = {
        Takes.VALUES: values,
        Takes.EDGES: edges,
        Takes.RANGES: ranges,
        Takes.PARTS: parts,
    }
    what = readers.get(ask.entry.takes, lambda given: given)(ask.what)
    candidates = None if ask.candidates is None else read_values(ask.candidates, released, item_type)
    return dataclasses.replace(ask, what=what, candidates=candidates)
