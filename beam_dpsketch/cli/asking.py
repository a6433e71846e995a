"""Command `dpsketch query`, and the questions that `plot` and `explore` share with it.

The type of the domain decides how values are parsed. Timeline rows are grouped by run and key.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

from beam_dpsketch.answers.notes import codes
from beam_dpsketch.answers.over_time import SketchTimeline, TimelineRow
from beam_dpsketch.answers.privacy_statement import PrivacyStatement
from beam_dpsketch.answers.questions.ask import Ask
from beam_dpsketch.answers.questions.entries import Answered, QuestionKind, Takes
from beam_dpsketch.answers.questions.kinds import QUESTIONS, Kind, even_values
from beam_dpsketch.answers.released import Released
from beam_dpsketch.cli.output import Said, Say, add_format, print_rows, say_notes
from beam_dpsketch.cli.stored import (
    Stored,
    add_files,
    add_key,
    files_in_tables,
    name_without_window,
    read_stored,
    window_of,
    with_key,
)
from beam_dpsketch.cli.text import (
    DONE,
    NO_ANSWER,
    AnswerError,
    in_words_of,
    note,
    read_confidence,
    read_lines,
    read_share,
    read_whole,
    refuse_header,
)
from beam_dpsketch.config import ConfigError
from beam_dpsketch.config import read_horizon as read_settings
from beam_dpsketch.config.asking import value_reader
from beam_dpsketch.config.forms import read_time
from beam_dpsketch.config.forms import read_whole as read_whole_number
from beam_dpsketch.errors import UsageError
from beam_dpsketch.exact.domains import Domain
from beam_dpsketch.exact.horizon import Horizon
from beam_dpsketch.statement.release_id import timeline
from beam_dpsketch.statement.showing import in_words
from beam_dpsketch.statement.tabular import Note

ItemType: TypeAlias = Literal["int", "text"]
ITEM_TYPES: tuple[ItemType, ...] = ("text", "int")
MAX_SERIES, MAX_MOMENTS = 7, 2000
_FEW = 20
NO_METRIC = "no release in these files has this --metric. `dpsketch inspect` lists their metrics"
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
"""Arguments of `add_argument` for each form of question."""


def read_values(texts: Iterable[str], released: Released, item_type: ItemType | None) -> tuple[Any, ...]:
    """Parse texts as values of a release.

    Args:
      texts: typed values, or lines from a file. Bytes are text, or hexadecimal digits after 0x.
      released: the release to ask. The type of its domain, or of each listed item, decides how texts are parsed.
      item_type: the item type for a flat sketch, which does not store it. `None` means text. For listed items it
        chooses between "1" and 1 if both are listed.

    Raises `UsageError` if a text has another type. The message does not contain the text.
    """
    spec = released.spec
    if spec.is_listed:
        wanted = {"int": (int,), "text": (str,), None: (object,)}[item_type]
        listed = {in_words(item): item for item in reversed(spec.items) if isinstance(item, wanted)}
        return tuple(listed.get(text, text) for text in texts)
    domain = spec.domain
    try:
        if domain is not None:
            own = {int: read_whole_number, bytes: _read_bytes}
            read = own.get(domain.plain_type) or value_reader(domain)
            return tuple(read(text, "") for text in texts)
        return read_items(texts, item_type)
    except ConfigError:
        expected = "whole numbers" if domain is None else domain.parsed
        raise UsageError(f"values for this release must be {expected}") from None


def read_items(texts: Iterable[str], item_type: ItemType | None) -> tuple[Any, ...]:
    """Parse texts as items for a flat sketch. Raise `ConfigError` if a text has another type."""
    return tuple(read_whole_number(text, "") for text in texts) if item_type == "int" else tuple(texts)


def refuse_item_column(candidates: list[str], statements: Iterable[PrivacyStatement]) -> list[str]:
    """Refuse a first candidate that equals an item column in the provenance."""
    columns = {name for each in statements for made in each.provenance for name in made.items}
    return refuse_header(candidates, columns, "--candidates")


def count_outside(values: Iterable[Any], domain: Domain) -> int:
    """Count the values outside a domain, which are clamped to its nearest end."""
    return sum(not domain.is_inside(value) for value in values)


def _read_bytes(text: str, path: str) -> bytes:
    try:
        return bytes.fromhex(text[2:]) if text[:2] == "0x" else text.encode("utf-8", "surrogateescape")
    except ValueError:
        raise ConfigError(path, "expected bytes in hexadecimal digits after 0x") from None


class RunRows:
    """Timeline rows from a run and key, and the range of windows to ask. `None` means all windows."""

    def __init__(self, stored: list[Stored], horizon: Horizon | None, windows: Sequence[int] | None) -> None:
        files = list(dict.fromkeys(each.path for each in stored))
        more = f" and {len(files) - 1} more" if len(files) > 1 else ""
        self._stored, self._windows = stored, windows
        self.key, self.place = stored[0].key, {"file": stored[0].file + more, **stored[0].key_columns}
        self.title = f"{files[0]}{more}" + ("" if stored[0].key is None else f", key {in_words(stored[0].key)}")
        if horizon is None:
            words = "contains timeline rows. Set --horizon START SIZE WINDOWS, as declared for the release"
            raise UsageError(f"{self.title}: {words}")
        self._horizon = horizon

    def answer(self) -> tuple[dict[str, Any], Released]:
        """Combine the windows into a release, with columns for its file, key and windows."""
        timeline, first, last = self._range()
        with in_words_of(AnswerError, ValueError):
            return {**self.place, "windows": f"{first} to {last}"}, timeline.between(first, last)

    def each_window(self, *, so_far: bool) -> list[Moment]:
        """List a release per window, or per running total of windows with `so_far`."""
        timeline, first, last = self._range()
        _check_number(last - first + 1)
        if first > last:
            raise AnswerError("--windows FIRST LAST must be ascending")
        with in_words_of(AnswerError, ValueError):
            return [Moment(*each) for each in timeline.each_window(first, last, so_far=so_far)]

    def timeline(self) -> SketchTimeline:
        """Build the timeline from all available rows, and write a note that names missing rows."""
        with in_words_of(AnswerError, ValueError):
            timeline = SketchTimeline((each.released for each in self._stored), self._horizon)
        if not timeline.available:
            raise AnswerError(f"no window is available yet: {timeline.gap or 'row 0 is missing'}")
        if timeline.missing:
            note(f"{self.title}: {timeline.gap}. Pass all files of the run")
        return timeline

    def _range(self) -> tuple[SketchTimeline, int, int]:
        timeline = self.timeline()
        first, last = self._windows or (0, timeline.available - 1)
        return timeline, first, last


def group_rows(stored: Iterable[Stored], horizon: Horizon | None, windows: Sequence[int] | None) -> Iterator[RunRows]:
    """Yield the timeline rows of each run and key. Copies of a row count once."""
    found: dict[Any, dict[bytes, Stored]] = {}
    for each in stored:
        if isinstance(each.released, TimelineRow):
            release_id = each.released.privacy.release_ids[0]
            found.setdefault((each.key, timeline(release_id)), {}).setdefault(release_id, each)
    return (RunRows([*rows.values()], horizon, windows) for rows in found.values())


def read_horizon(arguments: argparse.Namespace) -> Horizon | None:
    """Parse the horizon from the arguments; `None` if it was not given."""
    if arguments.horizon is None:
        if arguments.windows is not None:
            raise UsageError("--windows requires --horizon START SIZE WINDOWS, as declared for the release")
        return None
    settings = dict(zip(("start", "window_size", "windows"), arguments.horizon, strict=True))
    with in_words_of(UsageError, ConfigError):
        return read_settings(settings, "--horizon")


class Moment(NamedTuple):
    """Release for a window with its start, or for a running total with its end."""

    time: datetime.datetime
    released: Released


def moments(
    stored: Sequence[Stored], horizon: Horizon | None, windows: Sequence[int] | None, *, so_far: bool
) -> Iterator[tuple[str, dict[str, Any], list[Moment] | AnswerError]]:
    """Yield the windows of each key, with a title and the columns for file and key."""
    found: dict[Any, list[tuple[Moment, Stored]]] = {}
    for each in stored:
        window = window_of(each.path)
        if isinstance(each.released, Released) and window is None:
            raise UsageError(
                f"{each.title}: is not the release of a window. Plots over time require timeline rows, or files with "
                "windows in their names. To ask a single release, use `dpsketch query`"
            )
        if isinstance(each.released, Released) and window is not None:
            moment = Moment(read_time(window.split("/")[0], ""), each.released)
            found.setdefault((name_without_window(each.path), each.key), []).append((moment, each))
    files = files_in_tables({name for name, _ in found})
    for (name, _), of_key in found.items():
        _check_number(len(of_key))
        in_order, first = sorted((moment for moment, _ in of_key), key=lambda moment: moment.time), of_key[0][1]
        yield first.title, {"file": files[name], **first.key_columns}, in_order
    for rows in group_rows(stored, horizon, windows):
        try:
            yield rows.title, rows.place, rows.each_window(so_far=so_far)
        except AnswerError as error:
            yield rows.title, rows.place, error


def _check_number(windows: int) -> None:
    if windows > MAX_MOMENTS:
        raise UsageError(
            f"a plot can show at most {MAX_MOMENTS} windows, got {windows}. Select fewer windows or pass fewer files"
        )


def declare_query(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `query`."""
    add_files(parser)
    add_format(parser)
    kinds = parser.add_argument_group("one kind of question").add_mutually_exclusive_group(required=True)
    for entry in QUESTIONS.values():
        add_question(kinds, entry)
    add_answer_options(parser)


def add_question(kinds: Any, entry: QuestionKind, **changes: Any) -> None:
    """Declare the option for a question kind. `changes` override the arguments of its form."""
    form = dict(FORMS[entry.takes])
    if entry.takes is not Takes.NOTHING:
        form["metavar"] = entry.metavar
    if entry.limit is not None:
        form["type"] = read_whole(1, entry.limit)
    more = "; repeat for more" if entry.takes is Takes.RANGES else ""
    kinds.add_argument(f"--{entry.option}", **{**form, "help": f"{entry.words}{more}", **changes})


def add_labels(parser: argparse.ArgumentParser) -> None:
    """Declare the options that label values and weights."""
    parser.add_argument("--value-label", metavar="TEXT", help="the label and unit of values, such as 'delay, minutes'")
    parser.add_argument("--weight-label", metavar="TEXT", help="the label of counts, such as 'flights'")


def add_answer_options(
    parser: argparse.ArgumentParser, candidates: str = "the public items that --top chooses from, one per line"
) -> None:
    """Declare the options for releases, items, windows and confidence. `candidates` is the help for `--candidates`."""
    add_key(parser)
    parser.add_argument("--metric", metavar="NAME", help="only this metric of a release with several metrics")
    parser.add_argument("--candidates", metavar="FILE", help=candidates)
    parser.add_argument("--type", choices=ITEM_TYPES, help="the type of the items in a sketch (text)")
    parser.add_argument(
        "--confidence", type=read_confidence, default=0.95, metavar="C", help="the confidence of each interval (0.95)"
    )
    parser.add_argument(
        "--horizon",
        nargs=3,
        metavar=("START", "SIZE", "WINDOWS"),
        help="the horizon of timeline rows, as declared: 2024-01-01T00:00Z 1h 24",
    )
    parser.add_argument(
        "--windows",
        nargs=2,
        type=read_whole(0, _MAX_WINDOW),
        metavar=("FIRST", "LAST"),
        help="the windows of the horizon to ask about (all available windows)",
    )


def query(arguments: argparse.Namespace) -> int:
    """Run `dpsketch query`.

    The exit code is 1 if a release cannot answer.
    """
    ask, horizon = read_question(arguments), read_horizon(arguments)
    rows, said, code = [], list[Said](), DONE
    for title, place, released in releases_of(read_asked(arguments), horizon, ask, arguments):
        try:
            answered = answer(ask, released, title, arguments.type, said.extend)
        except AnswerError as error:
            said.append((title, error, ()))
            code = NO_ANSWER
        else:
            of_all = {"notes": codes(answered.notes), **answered.clipping.columns()}
            rows += [{**place, **row, **of_all} for row in answered.listed]
            said.append((title, answered.clipping, answered.notes))
    say_notes(said)
    level = f"{100 * arguments.confidence:.10g} %"
    print_rows(rows, arguments, {"lower": f"lower {level}", "upper": f"upper {level}"})
    return code


def read_question(arguments: argparse.Namespace) -> Ask:
    """Build the question from the arguments. Its values stay text until `answer` parses them for a release."""
    given: dict[Kind, Any] = {
        kind: getattr(arguments, entry.option.replace("-", "_"), None) for kind, entry in QUESTIONS.items()
    }
    ((kind, what),) = ((kind, what) for kind, what in given.items() if what is not None)
    candidates = None
    if arguments.candidates is not None:
        if QUESTIONS[kind].items_in != "candidates":
            raise UsageError("--candidates is supported with --top only")
        candidates = read_lines(arguments.candidates, "--candidates")
    return Ask(kind, what, arguments.confidence, candidates)


def read_asked(arguments: argparse.Namespace) -> list[Stored]:
    """Read the releases, restricted to the requested output key."""
    stored = with_key(read_stored(arguments.files), arguments.key)
    if arguments.windows and all(isinstance(each.released, Released) for each in stored):
        raise UsageError("--windows requires timeline rows, and these files contain none")
    return stored


Found: TypeAlias = tuple[str, dict[str, Any], Released | AnswerError]


def releases_of(
    stored: list[Stored], horizon: Horizon | None, ask: Ask, arguments: argparse.Namespace
) -> Iterator[Found]:
    """Yield each release with its title and columns, or an error in place of an unavailable release.

    For a release with several metrics, yield the requested metric. Without a request, yield all metrics that support
    the question, or every metric if none does.
    """
    metric, is_there = arguments.metric, arguments.metric is None
    for title, place, released in _whole_releases(stored, horizon, arguments.windows):
        parts: Mapping[str, Released | AnswerError] = {"": released}
        if not (isinstance(released, AnswerError) or (metric is None and ask.is_of_the_whole)):
            parts = released.parts
        answering = [name for name, each in parts.items() if isinstance(each, Released) and ask.is_answered_by(each)]
        for name in answering or parts if metric is None else parts.keys() & {metric}:
            is_there = True
            of_metric = {"metric": name} if name else {}
            yield f"{title}, metric {name}" if name else title, {**place, **of_metric}, parts[name]
    if not is_there:
        raise AnswerError(NO_METRIC)


def _whole_releases(stored: list[Stored], horizon: Horizon | None, windows: Sequence[int] | None) -> Iterator[Found]:
    yield from ((each.title, each.place, each.released) for each in stored if isinstance(each.released, Released))
    for rows in group_rows(stored, horizon, windows):
        try:
            yield rows.title, *rows.answer()
        except AnswerError as error:
            yield rows.title, {}, error


def answer(
    ask: Ask, released: Released | AnswerError, title: str, item_type: ItemType | None, say: Say = say_notes
) -> Answered:
    """Answer the question from a release, and report notes about the question.

    Args:
      ask: the question, with texts in place of values.
      released: the release, or an error, which is raised.
      title: the title of the release in messages.
      item_type: see `read_values`.
      say: reports notes.

    Raises `AnswerError` if the release does not support the question, and `UsageError` if a value is invalid for it.
    """
    if isinstance(released, AnswerError):
        raise released
    if not ask.is_answered_by(released):
        raise AnswerError(ask.refusal(released, lambda kind: f"--{QUESTIONS[kind].option}"))
    try:
        ask = _with_values(ask, released, item_type, lambda words: say([(title, "", [Note("", words)])]))
    except UsageError as error:
        raise UsageError.of(error, lambda each: f"{title}: {each.message}") from None
    with in_words_of(AnswerError, ValueError, TypeError):
        answered = ask.answer(released)
    limit = getattr(answered.answer, "detection_limit", None)
    if limit is not None:
        words = f"items with a clipped total of {limit:.6g} or more exceed the noise with 95 % probability"
        say([(title, "", [Note("", words)])])
    return answered


def _steps(ends: tuple[Any, ...], domain: Domain) -> int:
    positions, _ = domain.index(ends)
    return int(positions[-1]) - int(positions[0])


def _with_values(ask: Ask, released: Released, item_type: ItemType | None, say: Callable[[str], object]) -> Ask:
    """Parse the values in a question for a release, and report the number outside its domain."""
    domain = getattr(released.spec, "domain", None)

    def values(texts: list[str]) -> tuple[Any, ...]:
        read = read_values(texts, released, item_type)
        if isinstance(domain, Domain) and (outside := count_outside(read, domain)):
            say(f"{outside} value(s) are outside the domain, and are clamped to its nearest end")
        return read

    def edges(texts: list[str]) -> tuple[Any, ...]:
        read = values(texts)
        if isinstance(domain, Domain) and 0 < _steps(read[-2:], domain) < _FEW and domain.is_inside(read[-1]):
            say(
                "the last bin includes its upper end, unlike the other bins. For bins of equal length, put the last "
                "edge after the end of the domain"
            )
        return read

    def ranges(pairs: list[list[str]]) -> tuple[Any, ...]:
        return tuple(zip(*(values([*ends]) for ends in zip(*pairs, strict=True)), strict=True))

    def parts(given: Any) -> Any:
        """Parse a number of parts, or the ends of equal parts between two values."""
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
    candidates = ask.candidates
    if candidates is not None:
        candidates = read_values(refuse_item_column([*candidates], [released.privacy]), released, item_type)
    return dataclasses.replace(ask, what=what, candidates=candidates)
