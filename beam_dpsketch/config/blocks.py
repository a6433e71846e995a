"""Read one block of settings by its table. Errors begin with the path of what is wrong."""

from __future__ import annotations

import dataclasses
import datetime
import numbers
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple, TypeAlias, TypeVar

from beam_dpsketch._validate import in_list
from beam_dpsketch.config.paths import join, nearest, refusal, shown, unknown
from beam_dpsketch.config.text import parse
from beam_dpsketch.errors import AllAtOnce, RefusalError
from beam_dpsketch.sketches.listed_items import MAX_ITEMS

Reader: TypeAlias = "Callable[[Any, str], Any]"
T = TypeVar("T")

MAX_DEPTH = 16
MAX_VALUES = MAX_ITEMS + (1 << 16)
_MAX_NUMBER = 1 << 64
_OF_BEAM_YAML = ("__line__", "__uuid__")
_TWO_MEANINGS = re.compile(r"(.*\.)?side_counters(\.\w+)?")


class Form(NamedTuple):
    """How a value is written.

    Attributes:
      shape: its type in the schemas that Beam shows.
      read: reads it.
    """

    shape: Any
    read: Reader


class ListOf(NamedTuple):
    """How a list of blocks is written."""

    block: Block


class Option(NamedTuple):
    """The option of the command that stands for a setting.

    Attributes:
      name: with _ in place of dashes. If several settings have an option of one name, it is for those that are in use.
      metavar: what is given with it.
      help: what it says in place of the line of the setting.
    """

    name: str
    metavar: str = "N"
    help: str = ""


class Entry(NamedTuple):
    """One setting: all that reader, schemas, command and documentation know of it.

    Attributes:
      form: how it is written; an inner block has its reader elsewhere.
      words: its line of documentation.
      needed: what is said where it is missing; empty where it may be left out.
      kinds: the kinds of release that have it; empty for all.
      without: the kinds that do not have it, where all others do.
      usual: what is taken where it is not given, if the reader or the page names it.
      over_time: the line of documentation where a horizon is declared, if it is another.
      option: of the command, if there is one.
    """

    form: Form | Block | ListOf
    words: str
    needed: str = ""
    kinds: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    usual: Any = None
    over_time: str = ""
    option: Option | None = None


@dataclasses.dataclass(frozen=True, eq=False)
class Block:
    """A block of settings.

    Attributes:
      name: of the schema that Beam shows.
      entries: its settings, in the order in which all pages show them.
      either: groups of names that exclude each other, so that none of a group is required by itself.
    """

    name: str
    entries: Mapping[str, Entry]
    either: tuple[tuple[str, ...], ...] = ()

    def only(self, names: Iterable[str]) -> Block:
        """Return the block with these settings alone."""
        names = tuple(names)
        either = tuple(group for group in self.either if {*group} <= {*names})
        return Block(self.name, {name: self.entries[name] for name in names}, either)

    def without(self, *names: str) -> Block:
        """Return the block without these settings."""
        return self.only(name for name in self.entries if name not in names)

    def of_kind(self, kind: str) -> Block:
        """Return the block of one kind of release, which requires all that this kind needs."""
        known = {
            name: entry
            for name, entry in self.entries.items()
            if kind in (entry.kinds or (kind,)) and kind not in entry.without
        }
        return Block(self.name, {name: entry._replace(kinds=()) for name, entry in known.items()}, self.either)

    @property
    def required(self) -> dict[str, str]:
        """What is said of each setting without which no such block can be read."""
        free = {name for group in self.either for name in group}
        return {
            name: entry.needed
            for name, entry in self.entries.items()
            if entry.needed and name not in free and not entry.kinds
        }


def plain(settings: Any, path: str) -> Any:
    """Return blocks as dicts, sequences as lists and values as they are; drop what is `None`.

    Text is read as JSON or YAML. Anything with `_asdict()` or `as_dict()` is a block: named tuples, rows of Beam.
    """
    if isinstance(settings, str):
        settings = parse(settings, path)
    return _Walk(MAX_VALUES).visit(settings, path, 0)


@dataclasses.dataclass
class _Walk:
    """A walk over settings that stops after MAX_VALUES: a few anchors of YAML can stand for billions of values."""

    left: int

    def visit(self, value: Any, path: str, depth: int) -> Any:
        self._count(1, path)
        if depth > MAX_DEPTH:
            raise refusal(path, f"blocks are nested more than {MAX_DEPTH} deep")
        if isinstance(value, (str, bytes, bool)) or value is None:
            return value
        if isinstance(value, numbers.Real):
            return _plain_number(value, path)
        if isinstance(value, (datetime.date, datetime.time)):
            raise refusal(path, f'put times in quotes, as "{value.isoformat()}"')
        as_dict = getattr(value, "_asdict", None) or getattr(value, "as_dict", None)
        is_row = False
        if not isinstance(value, Mapping) and callable(as_dict):
            value, is_row = as_dict(), True
        if isinstance(value, Mapping):
            return self._block(value, path, depth, may_be_null=is_row)
        if isinstance(value, (list, tuple)):
            return self._list(value, path, depth)
        raise refusal(path, f"expected text, a number, a list or a block of settings, got {type(value).__name__}")

    def _list(self, value: Sequence[Any], path: str, depth: int) -> list[Any]:
        if all(type(each) is str for each in value):  # much faster, for lists of a million items
            self._count(len(value), path)
            return list(value)
        return [self.visit(each, f"{path}[{place}]", depth + 1) for place, each in enumerate(value)]

    def _count(self, values: int, path: str) -> None:
        self.left -= values
        if self.left < 0:
            raise refusal(path, f"there are more than {MAX_VALUES} values in all; anchors of YAML count each time")

    def _block(self, value: Mapping[Any, Any], path: str, depth: int, *, may_be_null: bool) -> dict[str, Any]:
        block = {}
        for name, each in value.items():
            if not isinstance(name, str):
                raise refusal(path, f"names of settings must be text, got {type(name).__name__}")
            if each is None and not may_be_null and _TWO_MEANINGS.fullmatch(join(path, name)):
                words = "is null, which Python and settings read differently: write none, or leave it out for the usual"
                raise refusal(join(path, name), words)
            if each is not None and name not in _OF_BEAM_YAML:
                block[name] = self.visit(each, join(path, name), depth + 1)
        return block


def _plain_number(value: numbers.Real, path: str) -> int | float | Fraction:
    """Return a number of Python, also for one of numpy."""
    if isinstance(value, numbers.Integral) and abs(int(value)) > _MAX_NUMBER:
        raise refusal(path, "the number is too large: no setting takes more than 2**64")
    if isinstance(value, numbers.Integral):
        return int(value)
    return value if isinstance(value, Fraction) else float(value)


def read_block(settings: Any, path: str, block: Block, **readers: Reader) -> dict[str, Any]:
    """Return the values of a block by name.

    Args:
      settings: the block, plain or as text.
      path: where it is.
      block: the settings that it may have, and those that it must have.
      readers: of single settings, in place of those of their forms; each inner block has one.
    """
    given = plain(settings, path)
    if not isinstance(given, dict):
        raise refusal(path, f"expected a block with {', '.join(block.entries)}; got {shown(given)}")
    read = {}
    with AllAtOnce() as checks:
        for name, value in given.items():
            if name in block.entries:
                form = block.entries[name].form
                reader = form.read if isinstance(form, Form) and name not in readers else readers[name]
                read[name] = checks.do(reader, value, join(path, name))
            else:
                checks.refuse(unknown(path, name, block.entries))
        meant = {nearest(name, block.entries) for name in given.keys() - block.entries.keys()}
        for name, words in block.required.items():
            if name not in given and name not in meant:
                checks.refuse(refusal(join(path, name), f"is missing; {words}", "E802"))
    return read


def read_list(settings: Any, path: str, read: Reader) -> list[Any]:
    """Return the values of a list."""
    given = plain(settings, path)
    if not isinstance(given, list):
        got = "text" if isinstance(given, str) else shown(given)
        raise refusal(path, f"expected a list, got {got}; {in_list(given)}")
    return [read(value, f"{path}[{place}]") for place, value in enumerate(given)]


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
