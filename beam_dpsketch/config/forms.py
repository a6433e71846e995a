"""How settings are written and read: single values, lists, and blocks, most of them made of value objects.

Numbers may be written as text. Errors begin with the path of what is wrong.
"""

from __future__ import annotations

import dataclasses
import datetime
import enum
import inspect
import math
import re
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from typing import Any, NamedTuple, TypeAlias, TypeVar

from beam_dpsketch.checks import in_list
from beam_dpsketch.config.paths import hint_of, join, nearest, refusal, shown, unknown
from beam_dpsketch.config.plain import plain
from beam_dpsketch.errors import AllAtOnce, RefusalError
from beam_dpsketch.exact.domains.base import EXACT
from beam_dpsketch.exact.domains.timestamps import from_seconds
from beam_dpsketch.words import documentation

Reader: TypeAlias = "Callable[[Any, str], Any]"
T = TypeVar("T")

_MAX_DIGITS = 64
_UTC = datetime.UTC
_INTEGER = re.compile(r"[-+]?\d+", re.ASCII)
_RATIO = re.compile(r"[-+]?\d+/[1-9]\d*", re.ASCII)
_DECIMAL = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?", re.ASCII)
_DATE = r"(\d{4})(-?)(\d\d)\2(\d\d)"
_TIME = re.compile(
    rf"{_DATE}(?:[Tt ](\d\d)(?::?(\d\d)(?::?(\d\d)(?:\.(\d{{1,6}}))?)?)?([Zz]|[-+]\d\d(?::?\d\d)?)?)?", re.ASCII
)
_PERHAPS_A_DATE = re.compile(r"\d{4}|\d{8}", re.ASCII)
_DURATION = re.compile(r"(\d+(?:\.\d+)?) ?(ms|s|m|h|d|w)", re.ASCII)
_MICROS = {"ms": 10**3, "s": 10**6, "m": 60 * 10**6, "h": 3600 * 10**6, "d": 86400 * 10**6, "w": 604800 * 10**6}
_READ_AS_NOTHING = "nothing; YAML reads null and ~ as nothing: put it in quotes"
_READ_AS_BOOLEAN = "YAML reads yes, no, on and off as booleans: put it in quotes"


class Form(NamedTuple):
    """How a value is written.

    Attributes:
      shape: its type in the schemas that Beam shows.
      read: reads it.
    """

    shape: Any
    read: Reader


def read_text(value: Any, path: str) -> str:
    """Return a text that is not empty, such as the name of a field."""
    if isinstance(value, str) and value:
        return value
    hint = f"; {_READ_AS_BOOLEAN}" if isinstance(value, bool) else ""
    raise refusal(path, f"expected text, such as the name of a field, got {shown(value)}{hint}")


def read_number(value: Any, path: str) -> int | float:
    """Return a finite number, given as such or as text: YAML reads 1e-6 as text."""
    number = _number(value)
    if number is None:
        raise refusal(path, f"expected a number, got {shown(value)}")
    if not math.isfinite(number):
        raise refusal(path, "expected a finite number")
    return number


def read_exact(value: Any, path: str) -> int | float | Fraction:
    """Return a finite number, which may also be a ratio, such as 1/50."""
    if isinstance(value, Fraction):
        return value
    if isinstance(value, str) and len(value) <= _MAX_DIGITS and _RATIO.fullmatch(value.strip()):
        return Fraction(value.strip())
    return read_number(value, path)


def read_fraction(value: Any, path: str) -> Fraction:
    """Return a number as a fraction; a float means its decimal spelling."""
    number = read_exact(value, path)
    return Fraction(repr(number)) if isinstance(number, float) else Fraction(number)


def read_whole(value: Any, path: str) -> int:
    """Return a whole number; 10.0 and 1e6 are such."""
    number = _number(value)
    if isinstance(number, float) and number.is_integer() and abs(number) <= EXACT:
        return int(number)
    if not isinstance(number, int):
        raise refusal(path, f"expected a whole number, got {shown(value)}")
    return number


def read_flag(value: Any, path: str) -> bool:
    """Return true or false."""
    if isinstance(value, bool):
        return value
    if value in ("true", "false"):
        return bool(value == "true")
    raise refusal(path, f"expected true or false, got {shown(value)}")


def read_choice(choices: Mapping[str, Any], others: Mapping[str, str] | None = None) -> Reader:
    """Return the reader of one of these words, which returns what the word stands for; `others` may be meant by it."""

    def read(value: Any, path: str) -> Any:
        if not isinstance(value, str) or value.lower() not in choices:
            hint = hint_of(value, choices, others) if isinstance(value, str) else ""
            raise refusal(path, f"expected one of {', '.join(choices)}, got {shown(value)}{hint}")
        return choices[value.lower()]

    return read


def read_bytes(value: Any, path: str) -> bytes:
    """Return bytes, given as such or in hexadecimal digits; errors do not show them, because they may be a secret."""
    if isinstance(value, bytes):
        return value
    try:
        return bytes.fromhex(value)
    except (TypeError, ValueError):
        raise refusal(path, 'expected bytes in hexadecimal digits, two for each, in quotes, as "00ff"') from None


def read_time(value: Any, path: str) -> datetime.datetime:
    """Return a point in time, in UTC, from ISO text (without a zone: UTC) or seconds since 1970.

    ISO text may lack dashes and colons, and seconds may be text. Text of 4 or 8 digits is refused: people who write it
    mean a year or a date.

    >>> {read_time(each, "start") for each in ("2024-01-01T08:00Z", "20240101T080000", "1704096000", 1704096000)}
    {datetime.datetime(2024, 1, 1, 8, 0, tzinfo=datetime.timezone.utc)}
    """
    is_a_date = isinstance(value, str) and _PERHAPS_A_DATE.fullmatch(value)
    written = _TIME.fullmatch(value) if isinstance(value, str) and not is_a_date else None
    seconds = None if written or is_a_date else _number(value)
    try:
        if written:
            year, _, month, day, hour, minute, second, part, zone = written.groups("")
            zone = "+00:00" if zone in ("", "Z", "z") else f"{zone[:3]}:{zone[3:].removeprefix(':') or '00'}"
            clock = f"{hour or '00'}:{minute or '00'}:{second or '00'}.{part:0<6}"
            return datetime.datetime.fromisoformat(f"{year}-{month}-{day}T{clock}{zone}").astimezone(_UTC)
        if seconds is not None:
            return from_seconds(seconds)
    except (ValueError, OverflowError):
        raise refusal(path, f"not a time of the calendar: {shown(value)}") from None
    raise refusal(path, f'expected a time, as "2024-01-31T08:00:00", or seconds since 1970, got {shown(value)}')


def read_duration(value: Any, path: str) -> datetime.timedelta:
    """Return a length of time from a text such as 30m, 1h or 7d, or from seconds."""
    written = _DURATION.fullmatch(value) if isinstance(value, str) and len(value) <= _MAX_DIGITS else None
    number = None if written else _number(value)
    if written:
        micros = Fraction(written[1]) * _MICROS[written[2]]
    elif number is not None and math.isfinite(number):
        micros = read_fraction(number, path) * _MICROS["s"]
    else:
        raise refusal(path, f"expected a length of time, as 30m, 1h or 7d, or seconds, got {shown(value)}")
    if micros.denominator != 1:
        raise refusal(path, "expected a length of time without parts of a microsecond")
    try:
        return datetime.timedelta(microseconds=micros.numerator)
    except OverflowError:
        raise refusal(path, "the length of time is too large") from None


def read_item(value: Any, path: str) -> Any:
    """Return an item or a key: text, a whole number, a list of such (a tuple), or bytes, also as {hex: "00ff"}."""
    if isinstance(value, list):
        return tuple(read_item(each, f"{path}[{place}]") for place, each in enumerate(value))
    if isinstance(value, dict) and set(value) == {"hex"}:
        return read_bytes(value["hex"], f"{path}.hex")
    if isinstance(value, (str, bytes, int)) and not isinstance(value, bool):
        return value
    found = {bool: f"a boolean; {_READ_AS_BOOLEAN}", type(None): _READ_AS_NOTHING, float: "a number with a point"}
    kind = found.get(type(value)) or shown(value)
    raise refusal(path, f"expected text, a whole number or a list of these, got {kind}")


def _number(value: Any) -> int | float | None:
    """Return a number, or what a text says; `None` if it is not one. Booleans are not numbers."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return value
    text = value.strip() if isinstance(value, str) and len(value) <= _MAX_DIGITS else ""
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _DECIMAL.fullmatch(text) else None


def _read_items(value: Any, path: str) -> tuple[Any, ...]:
    return tuple(read_list(value, path, read_item))


def read_list(settings: Any, path: str, read: Reader) -> list[Any]:
    """Return the values of a list."""
    given = plain(settings, path)
    if not isinstance(given, list):
        got = "text" if isinstance(given, str) else shown(given)
        raise refusal(path, f"expected a list, got {got}; {in_list(given)}")
    return [read(value, f"{path}[{place}]") for place, value in enumerate(given)]


TEXT_FORM, TIME_FORM, DURATION_FORM, BYTES_FORM = (
    Form(str, read) for read in (read_text, read_time, read_duration, read_bytes)
)
NUMBER_FORM, EXACT_FORM, FRACTION_FORM = (Form(float, read) for read in (read_number, read_exact, read_fraction))
PART_FORM = Form(float, lambda value, path: None if value == "none" else read_exact(value, path))
WHOLE_FORM, FLAG_FORM = Form(int, read_whole), Form(bool, read_flag)
ITEM_FORM, ITEMS_FORM = Form(Any, read_item), Form(list[Any], _read_items)
"""How values are written: their types in schemas, and who reads them."""
OF_TYPE = Form(None, read_text)
"""The form of an argument of a value object, by its type."""
_BY_TYPE: Mapping[str, Form] = {
    "int": WHOLE_FORM,
    "bool": FLAG_FORM,
    "float": NUMBER_FORM,
    "bytes": BYTES_FORM,
    "str": TEXT_FORM,
    "Selector": TEXT_FORM,
    "Fraction": EXACT_FORM,
    "Fraction | float": EXACT_FORM,
    "int | Fraction": EXACT_FORM,
    "datetime.datetime": TIME_FORM,
    "datetime.timedelta": DURATION_FORM,
    "Time": TIME_FORM,
    "Duration": DURATION_FORM,
}


def one_of(words: Iterable[str], others: Mapping[str, str] | None = None) -> Form:
    """Return the form of one of these words; see `read_choice`."""
    return Form(str, read_choice({word: word for word in words}, others))


class ListOf(NamedTuple):
    """How a list of blocks is written."""

    block: Block

    def read(self, settings: Any, path: str) -> tuple[Any, ...]:
        """Return the value objects of the blocks."""
        return tuple(read_list(settings, path, self.block.read))


class Option(NamedTuple):
    """The option of the command that stands for a setting.

    Attributes:
      metavar: what is given with it.
      help: what it says in place of the line of the setting.
      name: with _ in place of dashes; empty if it is that of the setting. If several settings have an option of one
        name, it is for those that are in use.
    """

    metavar: str = "N"
    help: str = ""
    name: str = ""


class Entry(NamedTuple):
    """One setting: all that reader, schemas, command and documentation know of it.

    Of an argument of a value object, an entry has only what differs: `block_of` fills in the rest.

    Attributes:
      words: its line of documentation; empty for the first sentence that the value object has for it.
      form: how it is written; an inner block may have its reader elsewhere.
      needed: what is said where it is missing, after the words if it begins with "as"; empty where it may be left out.
      kinds: the kinds of release that have it; empty for all.
      without: the kinds that do not have it, where all others do.
      usual: what is taken where it is not given, as the page shows it; `None` for the default of the argument.
      over_time: the line of documentation where a horizon is declared, if it is another.
      option: of the command, if there is one.
    """

    words: str = ""
    form: Form | Block | ListOf = OF_TYPE
    needed: str = ""
    kinds: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    usual: Any = None
    over_time: str = ""
    option: Option | None = None

    @property
    def missing(self) -> str:
        """What is said where it is missing."""
        return f"{self.words}, {self.needed}" if self.needed.startswith("as ") else self.needed


@dataclasses.dataclass(frozen=True, eq=False)
class Block:
    """A block of settings.

    Attributes:
      name: of the schema that Beam shows.
      entries: its settings, in the order in which all pages show them.
      either: groups of names that exclude each other, so that none of a group is required by itself.
      maker: what makes a value of the settings.
    """

    name: str
    entries: Mapping[str, Entry]
    either: tuple[tuple[str, ...], ...] = ()
    maker: Callable[..., Any] = dict

    def read(self, settings: Any, path: str) -> Any:
        """Return what the maker makes of a block."""
        return make(path, self.maker, read_block(settings, path, self))

    def only(self, names: Iterable[str]) -> Block:
        """Return the block with these settings alone."""
        names = tuple(names)
        either = tuple(group for group in self.either if {*group} <= {*names})
        return dataclasses.replace(self, entries={name: self.entries[name] for name in names}, either=either)

    def without(self, *names: str) -> Block:
        """Return the block without these settings."""
        return self.only(name for name in self.entries if name not in names)

    def of_kind(self, kind: str) -> Block:
        """Return the block of one kind of release, which requires all that this kind needs."""
        known = {
            name: entry._replace(kinds=())
            for name, entry in self.entries.items()
            if kind in (entry.kinds or (kind,)) and kind not in entry.without
        }
        return dataclasses.replace(self, entries=known)

    @property
    def required(self) -> dict[str, str]:
        """What is said of each setting without which no such block can be read."""
        free = {name for group in self.either for name in group}
        return {
            name: entry.missing
            for name, entry in self.entries.items()
            if entry.needed and name not in free and not entry.kinds
        }


def block_of(
    name: str,
    maker: Callable[..., Any],
    table: Mapping[str, Entry],
    *,
    like: Block | None = None,
    either: tuple[tuple[str, ...], ...] = (),
    without: tuple[str, ...] = (),
) -> Block:
    """Return the block of a value object: each argument is a setting, with its type, its default and its words.

    Args:
      name: of the schema that Beam shows.
      maker: the class, or a function that makes objects of it.
      table: what differs, and settings that the class lacks, in this order; each other argument comes after the one
        that it follows in the class.
      like: a block whose settings of the same name are the same, but for their defaults.
      either: see `Block`.
      without: arguments to leave out.
    """
    arguments = {name: each for name, each in inspect.signature(maker).parameters.items() if name not in without}
    same = {} if like is None else {name: entry._replace(usual=None) for name, entry in like.entries.items()}
    names, words = [*table], _words_of(maker)
    for before, each in zip((None, *arguments), arguments, strict=False):
        if each not in table:
            names.insert(0 if before is None else names.index(before) + 1, each)
    entries = {each: table.get(each) or same.get(each, Entry()) for each in names}
    made = {each: _filled(entries[each], argument, words.get(each, "")) for each, argument in arguments.items()}
    return Block(name, {**entries, **made}, either, maker)


def _filled(entry: Entry, argument: inspect.Parameter, words: str) -> Entry:
    """Return an entry with what the argument of a value object says."""
    form, needed, usual = entry.form, entry.needed, entry.usual
    if form is OF_TYPE:
        form = _BY_TYPE[str(argument.annotation).removesuffix(" | None")]
    if argument.default is argument.empty:
        needed = needed or words or argument.name
    if usual is None:
        usual = _spelled(argument.default)
    return entry._replace(words=entry.words or words, form=form, needed=needed, usual=usual)


def _spelled(default: Any) -> str | None:
    """Return how settings spell a default, or `None` for one that says nothing."""
    if isinstance(default, enum.Enum):
        return default.name.lower()
    if type(default) is int:  # numbers of classes that are made of int stand for what is not given
        return f"{default:,}"
    shown = (default is True or type(default) in (str, Fraction)) and default != ""
    return str(default).lower() if shown else None


def _words_of(maker: Callable[..., Any]) -> dict[str, str]:
    """Return the first sentence about each argument, spelled as settings are."""
    text = documentation(maker).partition("Args:\n")[2].partition("\n\n")[0]
    found = re.findall(r"^  (\w+): (.*(?:\n    .*)*)", text, re.MULTILINE)
    sentences = ((name, re.split(r"\.(?:\s|$)", " ".join(words.split()))[0]) for name, words in found)
    return {name: re.sub(r'"([^"]+)"', r"`\1`", words) for name, words in sentences}


def read_block(settings: Any, path: str, block: Block, **readers: Reader) -> dict[str, Any]:
    """Return the values of a block by name.

    Args:
      settings: the block, plain or as text.
      path: where it is.
      block: the settings that it may have, and those that it must have.
      readers: of single settings, in place of those of their forms.
    """
    given = plain(settings, path)
    if not isinstance(given, dict):
        raise refusal(path, f"expected a block with {', '.join(block.entries)}; got {shown(given)}")
    read = {}
    with AllAtOnce() as checks:
        for name, value in given.items():
            if name in block.entries:
                read[name] = checks.do(readers.get(name) or block.entries[name].form.read, value, join(path, name))
            else:
                checks.refuse(unknown(path, name, block.entries))
        meant = {nearest(name, block.entries) for name in given.keys() - block.entries.keys()}
        for name, words in block.required.items():
            if name not in given and name not in meant:
                checks.refuse(refusal(join(path, name), f"is missing; {words}", "E802"))
    return read


def take_one(given: Mapping[str, Any], path: str, names: Iterable[str], words: str) -> str:
    """Return the one of these names that is given; refuse none and two."""
    found = [name for name in names if name in given]
    if len(found) == 1:
        return found[0]
    if not found:
        raise refusal(path, words, "E803")
    raise refusal(path, f"{' and '.join(found)} are given at once; {words}", "E803")


def refuse_others(given: Iterable[str], path: str, known: Iterable[str], words: str) -> None:
    """Refuse settings that do not go with one that is given."""
    with AllAtOnce() as checks:
        for name in given:
            if name not in known:
                checks.refuse(refusal(join(path, name), words, "E804"))


def make(path: str, maker: Callable[..., T], given: Mapping[str, Any], where: Mapping[str, str] | None = None) -> T:
    """Call the maker of a value object; put the path before its errors.

    Args:
      path: where the block is.
      maker: the constructor.
      given: its arguments by name.
      where: paths by the names of other arguments; those of the given ones are known.
    """
    places = {**{name: join(path, name) for name in given}, **(where or {})}
    try:
        return maker(**given)
    except RefusalError as error:
        raise error.at(path or "settings", places) from None
