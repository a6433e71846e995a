"""Forms of settings: single values, lists, and blocks built from the arguments of value objects.

Numbers may be written as text. Error messages begin with the path of the setting.
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

from beam_dpsketch.checks import as_key, in_list
from beam_dpsketch.config.paths import hint_of, join, nearest, refusal, shown, unknown
from beam_dpsketch.config.plain import plain
from beam_dpsketch.errors import AllAtOnce, RefusalError
from beam_dpsketch.exact.domains import timestamps
from beam_dpsketch.exact.domains.base import EXACT
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
_READ_AS_NOTHING = "nothing. YAML reads null and ~ as nothing. Put text in quotes"
_READ_AS_BOOLEAN = "YAML reads yes, no, on and off as booleans. Put text in quotes"


class Form(NamedTuple):
    """Spelling of a value.

    Attributes:
      shape: its type in Beam schemas.
      read: its reader.
    """

    shape: Any
    read: Reader


def read_text(value: Any, path: str) -> str:
    """Read a non-empty text, such as a field name."""
    if isinstance(value, str) and value:
        return value
    hint = f". {_READ_AS_BOOLEAN}" if isinstance(value, bool) else ""
    raise refusal(path, f"expected text, such as the name of a field, got {shown(value)}{hint}")


def read_number(value: Any, path: str) -> int | float:
    """Read a finite number, or its text, because YAML reads 1e-6 as text."""
    number = _number(value)
    if number is None:
        raise refusal(path, f"expected a number, got {shown(value)}")
    if not math.isfinite(number):
        raise refusal(path, "expected a finite number")
    return number


def read_exact(value: Any, path: str) -> int | float | Fraction:
    """Read a finite number or a ratio, such as 1/50."""
    if isinstance(value, Fraction):
        return value
    if isinstance(value, str) and len(value) <= _MAX_DIGITS and _RATIO.fullmatch(value.strip()):
        return Fraction(value.strip())
    return read_number(value, path)


def read_fraction(value: Any, path: str) -> Fraction:
    """Read a number as a fraction. A float stands for its decimal spelling."""
    number = read_exact(value, path)
    return Fraction(repr(number)) if isinstance(number, float) else Fraction(number)


def read_whole(value: Any, path: str) -> int:
    """Read an integer. 10.0 and 1e6 are integers."""
    number = _number(value)
    if isinstance(number, float) and number.is_integer() and abs(number) <= EXACT:
        return int(number)
    if not isinstance(number, int):
        raise refusal(path, f"expected a whole number, got {shown(value)}")
    return number


def read_flag(value: Any, path: str) -> bool:
    """Read a boolean."""
    if isinstance(value, bool):
        return value
    if value in ("true", "false"):
        return bool(value == "true")
    raise refusal(path, f"expected true or false, got {shown(value)}")


def read_choice(choices: Mapping[str, Any], others: Mapping[str, str] | None = None) -> Reader:
    """Build a reader that maps a word to its value in `choices`. `others` maps synonyms to words, for hints."""

    def read(value: Any, path: str) -> Any:
        if not isinstance(value, str) or value.lower() not in choices:
            hint = hint_of(value, choices, others) if isinstance(value, str) else ""
            raise refusal(path, f"expected one of {', '.join(choices)}, got {shown(value)}{hint}")
        return choices[value.lower()]

    return read


def read_bytes(value: Any, path: str) -> bytes:
    """Read bytes, or their hexadecimal digits. Errors do not show them, because they may be a secret."""
    if isinstance(value, bytes):
        return value
    try:
        return bytes.fromhex(value)
    except (TypeError, ValueError):
        raise refusal(path, 'expected hexadecimal digits in quotes, two per byte, such as "00ff"') from None


def read_time(value: Any, path: str) -> datetime.datetime:
    """Read a UTC time from ISO text (UTC if it has no time zone) or seconds since 1970.

    ISO text may lack dashes and colons, and seconds may be text. Text of 4 or 8 digits is refused, because people who
    write it mean a year or a date.

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
            return timestamps.from_seconds(seconds)
    except (ValueError, OverflowError):
        raise refusal(path, f"must be a valid time, got {shown(value)}") from None
    raise refusal(path, f'expected a time, such as "2024-01-31T08:00:00", or seconds since 1970, got {shown(value)}')


def read_duration(value: Any, path: str) -> datetime.timedelta:
    """Read a duration from text such as 30m, 1h or 7d, or from seconds."""
    micros, number = timestamps.read_duration(value) if isinstance(value, str) else None, _number(value)
    if number is not None and math.isfinite(number):
        micros = read_fraction(number, path) * 10**6
    if micros is None:
        words = f"expected a duration, such as 30m, 1h or 7d, or seconds, got {shown(value)}{as_key(value)}"
        raise refusal(path, words)
    if micros.denominator != 1:
        raise refusal(path, "must be a whole number of microseconds")
    try:
        return datetime.timedelta(microseconds=micros.numerator)
    except OverflowError:
        raise refusal(path, "the duration is too long") from None


def read_item(value: Any, path: str) -> Any:
    """Read an item or a key: text, an integer, bytes (also {hex: "00ff"}), or a list of these, as a tuple."""
    if isinstance(value, list):
        return tuple(read_item(each, f"{path}[{place}]") for place, each in enumerate(value))
    if isinstance(value, dict) and set(value) == {"hex"}:
        return read_bytes(value["hex"], f"{path}.hex")
    if isinstance(value, (str, bytes, int)) and not isinstance(value, bool):
        return value
    found = {
        bool: f"a boolean. {_READ_AS_BOOLEAN}",
        type(None): _READ_AS_NOTHING,
        float: "a number with a decimal point",
    }
    kind = found.get(type(value)) or shown(value)
    raise refusal(path, f"expected text, a whole number or a list of these, got {kind}")


def _number(value: Any) -> int | float | None:
    """Convert a number or its text, or return `None` for other values. Booleans are not numbers."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return value
    text = value.strip() if isinstance(value, str) and len(value) <= _MAX_DIGITS else ""
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _DECIMAL.fullmatch(text) else None


def _read_items(value: Any, path: str) -> tuple[Any, ...]:
    return tuple(read_list(value, path, read_item))


def read_list(settings: Any, path: str, read: Reader) -> list[Any]:
    """Read each value in a list."""
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
"""Schema type and reader for each form."""
OF_TYPE = Form(None, read_text)
"""Form of an argument, by its type."""
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
    """Build the form for a choice between words. See `read_choice`."""
    return Form(str, read_choice({word: word for word in words}, others))


class ListOf(NamedTuple):
    """Spelling of a block list."""

    block: Block

    def read(self, settings: Any, path: str) -> tuple[Any, ...]:
        """Read each block into its value object."""
        return tuple(read_list(settings, path, self.block.read))


class Option(NamedTuple):
    """Command-line option for a setting.

    Attributes:
      metavar: placeholder for its value.
      help: help text, in place of the setting's line of documentation.
      name: name with _ in place of dashes, or empty to use the setting's name. If several settings share a name, the
        option applies to the settings in use.
    """

    metavar: str = "N"
    help: str = ""
    name: str = ""


class Entry(NamedTuple):
    """A setting, as used by reader, schemas, command and documentation.

    If the setting is a value object's argument, its entry contains only the differences. `block_of` adds the rest.

    Attributes:
      words: line of documentation, or empty to use the first sentence in the value object's docstring.
      form: its spelling. An inner block may have a reader elsewhere.
      needed: message if a required setting is missing, a noun phrase after "Set", appended to `words` if it begins with
        "such as". Empty for optional settings.
      kinds: release kinds with this setting, or empty for all kinds.
      without: release kinds without this setting, if all other kinds have it.
      usual: default shown on the page, or `None` to use the argument's default.
      over_time: line of documentation under a horizon, if it differs.
      option: command-line option, if there is one.
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
        """Message for a missing setting."""
        return f"{self.words}, {self.needed}" if self.needed.startswith("such as ") else self.needed


@dataclasses.dataclass(frozen=True, eq=False)
class Block:
    """A settings block.

    Attributes:
      name: name of its Beam schema.
      entries: its settings, in page order.
      either: groups of mutually exclusive names. No setting in a group is required by itself.
      maker: function that builds the value.
    """

    name: str
    entries: Mapping[str, Entry]
    either: tuple[tuple[str, ...], ...] = ()
    maker: Callable[..., Any] = dict

    def read(self, settings: Any, path: str) -> Any:
        """Read a block and build its value."""
        return make(path, self.maker, read_block(settings, path, self))

    def only(self, names: Iterable[str]) -> Block:
        """Keep only these settings."""
        names = tuple(names)
        either = tuple(group for group in self.either if {*group} <= {*names})
        return dataclasses.replace(self, entries={name: self.entries[name] for name in names}, either=either)

    def without(self, *names: str) -> Block:
        """Remove these settings."""
        return self.only(name for name in self.entries if name not in names)

    def of_kind(self, kind: str) -> Block:
        """Restrict the block to one release kind, with all settings that this kind requires."""
        known = {
            name: entry._replace(kinds=())
            for name, entry in self.entries.items()
            if kind in (entry.kinds or (kind,)) and kind not in entry.without
        }
        return dataclasses.replace(self, entries=known)

    def nested(self, path: str, name: str, value: Any) -> str:
        """Advise to write a setting in the inner block that has it, if a single inner block has it."""
        inner = [each for each, entry in self.entries.items() if name in getattr(entry.form, "entries", ())]
        if len(inner) != 1:
            return ""
        words = f"{inner[0]}: {{{name}: {'...' if _number(value) is None else value}}}"
        return f". Write {f'{path}: {{{next(iter(self.entries))}: ..., {words}}}' if path else words}"

    @property
    def required(self) -> dict[str, str]:
        """Message for each required setting."""
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
    """Build a value object's block. Each argument becomes a setting with its type, default and documentation.

    Args:
      name: name of the Beam schema.
      maker: the class, or a factory function.
      table: overridden entries and settings that the class lacks, in this order. Each other argument follows its
        predecessor in the class.
      like: block that supplies settings with the same name, except for defaults.
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
    """Fill in an entry from its value object's argument."""
    form, needed, usual = entry.form, entry.needed, entry.usual
    if form is OF_TYPE:
        form = _BY_TYPE[str(argument.annotation).removesuffix(" | None")]
    if argument.default is argument.empty:
        needed = needed or words or argument.name
    if usual is None:
        usual = _spelled(argument.default)
    return entry._replace(words=entry.words or words, form=form, needed=needed, usual=usual)


def _spelled(default: Any) -> str | None:
    """Format a default as in settings, or return `None` if there is no meaningful default."""
    if isinstance(default, enum.Enum):
        return default.name.lower()
    if type(default) is int:  # integer subclasses are placeholders for missing values
        return f"{default:,}"
    shown = (default is True or type(default) in (str, Fraction)) and default != ""
    return str(default).lower() if shown else None


def _words_of(maker: Callable[..., Any]) -> dict[str, str]:
    """Extract the first sentence about each argument, in the spelling of settings."""
    text = documentation(maker).partition("Args:\n")[2].partition("\n\n")[0]
    found = re.findall(r"^  (\w+): (.*(?:\n    .*)*)", text, re.MULTILINE)
    sentences = ((name, re.split(r"\.(?:\s|$)", " ".join(words.split()))[0]) for name, words in found)
    return {name: re.sub(r'"([^"]+)"', r"`\1`", words) for name, words in sentences}


def read_block(settings: Any, path: str, block: Block, **readers: Reader) -> dict[str, Any]:
    """Read a block's values by name.

    Args:
      settings: the block, plain or as text.
      path: its path.
      block: its optional and required settings.
      readers: readers for single settings, in place of their forms.
    """
    given = plain(settings, path)
    if not isinstance(given, dict):
        words = f"expected a block with {', '.join(block.entries)}, got {shown(given)}"
        if _number(given) is not None and len(block.required) == 1:
            words += f". Write {path.split('.')[-1]}: {{{next(iter(block.required))}: {given}}}"
        raise refusal(path, words)
    read = {}
    with AllAtOnce() as checks:
        for name, value in given.items():
            if name in block.entries:
                read[name] = checks.do(readers.get(name) or block.entries[name].form.read, value, join(path, name))
            else:
                checks.refuse(unknown(path, name, block.entries, block.nested(path, name, value)))
        meant = {nearest(name, block.entries) for name in given.keys() - block.entries.keys()}
        for name, words in block.required.items():
            if name not in given and name not in meant:
                checks.refuse(refusal(join(path, name), f"is missing. Set {words}", "E802"))
    return read


def take_one(given: Mapping[str, Any], path: str, names: Iterable[str], words: str) -> str:
    """Find the only given name among `names`. Refuse none or two."""
    found = [name for name in names if name in given]
    if len(found) == 1:
        return found[0]
    if not found:
        raise refusal(path, words, "E803")
    raise refusal(path, f"{' and '.join(found)} cannot be combined. {words[0].upper()}{words[1:]}", "E803")


def refuse_others(given: Iterable[str], path: str, known: Iterable[str], words: str) -> None:
    """Refuse settings that conflict with a given setting."""
    with AllAtOnce() as checks:
        for name in given:
            if name not in known:
                checks.refuse(refusal(join(path, name), words, "E804"))


def make(path: str, maker: Callable[..., T], given: Mapping[str, Any], where: Mapping[str, str] | None = None) -> T:
    """Build a value object, and prefix its errors with the path.

    Args:
      path: the block's path.
      maker: the constructor.
      given: its arguments by name.
      where: paths for further arguments by name. Paths for given arguments are derived.
    """
    places = {**{name: join(path, name) for name in given}, **(where or {})}
    try:
        return maker(**given)
    except RefusalError as error:
        raise error.at(path or "settings", places) from None
