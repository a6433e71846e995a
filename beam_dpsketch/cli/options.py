"""Release settings from the command line: a file, options, or both. An option overrides its setting in the file.

Guarantee: a mistake raises a `UsageError` that starts with the option, or with the file and the path of the setting. It
contains no key and no item.
"""

from __future__ import annotations

import argparse
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from beam_dpsketch.cli.text import read_lines, read_rows, refuse_header
from beam_dpsketch.config import ConfigError, read_release
from beam_dpsketch.config.forms import Block, Entry, Form, Option
from beam_dpsketch.config.plain import plain
from beam_dpsketch.config.settings import RELEASE_BLOCK
from beam_dpsketch.errors import SETTINGS, RefusalError, UsageError
from beam_dpsketch.exact.declared.release_spec import ReleaseSpec
from beam_dpsketch.planning.kinds import KINDS

Settings = dict[str, Any]


def _spelled(name: str) -> str:
    return f"--{name.replace('_', '-')}"


class _Option(NamedTuple):
    """Option with its setting's path and the settings that it excludes. A * stands for the block with the bounds."""

    name: str
    path: str
    excludes: tuple[str, ...]
    entry: Entry
    option: Option

    def declare(self, group: Any) -> None:
        """Add the option to a parser."""
        form: dict[str, Any] = {"metavar": self.option.metavar}
        if isinstance(self.entry.form, Form) and self.entry.form.shape is bool:
            form = {"action": "store_true", "default": None}
        elif self.name == "key":
            form["action"] = "append"
        elif self.name == "privacy_unit":
            form = {"choices": [self.option.metavar]}
        group.add_argument(_spelled(self.name), **form, help=(self.option.help or self._words()).replace("%", "%%"))

    def _words(self) -> str:
        """Describe the setting in the vocabulary of the shell."""
        words = re.sub(r"`(.+?)`", lambda found: _SPELLED.get(found[1], found[1]), self.entry.words)
        kinds = f"of {', '.join(self.entry.kinds)}: " * bool(self.entry.kinds)
        return kinds + words.replace("field", "column")


def _options(block: Block, path: str = "", excludes: tuple[str, ...] = ()) -> Iterator[_Option]:
    for name, entry in block.entries.items():
        others = (f"{path}{other}" for group in block.either if name in group for other in group if other != name)
        found = (*excludes, *others)
        if entry.option is not None:
            yield _Option(entry.option.name or name, f"{path}{name}", found, entry, entry.option)
        if isinstance(entry.form, Block):
            yield from _options(entry.form, f"{path}{name}.", found)


def _by_name(found: Iterable[_Option]) -> dict[str, _Option]:
    known: dict[str, _Option] = {}
    for option in found:
        several = option.name in known
        known[option.name] = option._replace(path=f"privacy_unit.*.{option.name}", excludes=()) if several else option
    return known


_OPTIONS = _by_name(_options(RELEASE_BLOCK))
_PATHS = {option.path: _spelled(name) for name, option in _OPTIONS.items()}
_SPELLED = {option.path.split(".")[-1]: _spelled(name) for name, option in reversed(_OPTIONS.items())}
"""Options by the last part of their setting's path."""

_MISSING = {
    "kind": f"--kind is missing. Set one of {', '.join(KINDS)}, or use a settings file: --config FILE",
    "metrics": (
        "--metrics is missing. With --kind metrics, set the list of metrics, such as '[{name: visits, kind: count}, "
        "{name: pages, kind: frequencies, item: page}]'"
    ),
    "item": "--item is missing. Set the column that is counted",
    "privacy": "--epsilon and --delta, or --rho, are missing. Set the privacy loss of the release",
    "privacy.ledger": "--ledger is missing. With --account, set the ledger that pays, a file or a PostgreSQL URL",
    "privacy.account": "--account is missing. With --ledger, set the account that pays",
    "privacy_unit": "--privacy-id is missing. Set the column with the privacy id, or use --privacy-unit record",
    "privacy_unit.bounds": (
        "--max-norm is missing. Set the number of records per privacy id, over all keys, that always count in full"
    ),
    "domain": "--domain is missing. Set the possible values, such as '{type: integer, low: 0, high: 99}'",
    "k": "--k is missing. Set the number of most frequent values",
    "privacy_unit.*.max_weight": (
        "--max-weight is missing. With --weight, set the largest weight of a record, at most --max-norm if that is set"
    ),
    "privacy_unit.records.max_keys": (
        "--max-keys is missing. Set the number of keys or texts in which a privacy id counts"
    ),
    "privacy_unit.norm.max_keys": (
        "--max-keys is missing. With --select-keys, set the number of keys that a privacy id votes for"
    ),
    "windows.start": "--start is missing. Set the start of the first window, such as 2024-01-01",
    "windows.end": "--end is missing. Set the end of the last window, such as 2024-02-01",
    "time": "--start and --end are missing. With --time, all windows between them are released, with data or without",
    "time.field": "--time is missing. With --every, set the column of times",
    "time.every": "--every is missing. With --time, set the time from one window to the next, such as 1d",
    "keys": "--key requires --public-keys FILE, --select-keys DELTA or --assume-public-keys",
    "keys.field": "--key is missing. Set the column of the output key",
}
"""Messages for missing settings, if there is no file."""


def add_settings_options(parser: argparse.ArgumentParser) -> None:
    """Declare `--config` and the options that replace or override a file."""
    group = parser.add_argument_group("what to release")
    group.add_argument("--config", metavar="FILE", help="a file of settings, YAML or JSON; options override it")
    for option in _OPTIONS.values():
        option.declare(group)


def read_config(arguments: argparse.Namespace) -> ReleaseSpec:
    """Read the release that file and options declare. Raise `UsageError` if it is invalid."""
    given = _given(arguments)
    settings = {} if arguments.config is None else read_settings_file(arguments.config)
    try:
        return read_release(merged(settings, arguments))
    except ConfigError as error:
        raise UsageError.of(error, lambda each: _in_words_of_options(each, given, arguments)) from None


def read_settings_file(path: str) -> Settings:
    """Read settings from a file without validation. Raise `UsageError` or `OSError`."""
    try:
        with open(path, encoding="utf-8-sig") as file:
            settings = plain(file.read(), "")
    except ConfigError as error:
        raise UsageError.of(error, lambda each: f"{path}: {each.message}") from None
    except ValueError:  # encoding, or a zero byte in the name; the original message contains bytes of the file
        raise UsageError(f"{path!a}: expected a settings file in UTF-8") from None
    if not isinstance(settings, dict):
        raise UsageError(f"{path}: expected settings such as kind: top_k, in YAML or JSON")
    return settings


def merged(settings: Settings, arguments: argparse.Namespace) -> Settings:
    """Merge options into settings. Options override settings."""
    given = [option for name, option in _OPTIONS.items() if getattr(arguments, name) is not None]
    for one, other in itertools.combinations(given, 2):
        if any(f"{other.path}.".startswith(f"{path}.") for path in one.excludes):
            raise UsageError(f"{_spelled(one.name)} and {_spelled(other.name)} cannot be combined")
    settings = plain(settings, "")
    # options that choose a block come first
    given.sort(key=lambda each: ("*" in each.path, each.name != "privacy_unit"))
    for option in given:
        value = getattr(arguments, option.name)
        for path in option.excludes:
            _remove(settings, path.split("."), option)
        path, value = _setting(option, value, settings)
        *above, last = path.split(".")
        _block(settings, above, option)[last] = value
    return settings


def _setting(option: _Option, value: Any, settings: Settings) -> tuple[str, Any]:
    if option.name == "privacy_unit":
        found = settings.get("privacy_unit")
        if isinstance(found, dict) and "record" in found:
            return option.name, {"record": found["record"]}
        return option.name, "record"
    if option.name == "max_norm" and value == "auto":
        return "privacy_unit.norm", "auto"
    if option.name == "public_keys":
        field = settings.get("keys", {}).get("field", [])
        columns = field if isinstance(field, list) else [field]
        names = [each for each in columns if isinstance(each, str) and not each.startswith("{")]
        lines = read_lines(value, "--public-keys")
        if len(names) > 1:
            return option.path, read_rows(lines, names, "--public-keys")
        return option.path, refuse_header(lines, names, "--public-keys")
    if option.name == "items":
        return option.path, refuse_header(read_lines(value, "--items"), [settings.get("item")], "--items")
    if option.name == "key":
        return option.path, value[0] if len(value) == 1 else value
    if "*" in option.path:
        bound = _bound(settings, option)
        return f"privacy_unit.{bound}.{option.name}", value
    return option.path, value


def _bound(settings: Settings, option: _Option) -> str:
    """Name of the block that contains the bounds."""
    privacy_unit = _block(settings, ["privacy_unit"], option)
    inner = next((name for name in ("record", "records", "norm") if name in privacy_unit), "norm")
    if inner == "norm" and "auto" in _block(settings, ["privacy_unit", "norm"], option):
        return "norm.auto"
    return inner


def _block(settings: Settings, path: Iterable[str], option: _Option) -> Settings:
    """Get the block at a path for changes, and create missing blocks."""
    block = settings
    for name in path:
        inner = block.setdefault(name, {})
        if isinstance(inner, str):
            inner = {inner: {}} if inner in ("record", "auto") else plain(inner, name)
        if not isinstance(inner, dict):
            raise UsageError(
                f"{_spelled(option.name)} cannot change {name} in the settings file, because it is not a block"
            )
        block[name] = inner
        block = inner
    return block


def _remove(settings: Settings, path: list[str], option: _Option) -> None:
    for name in path[:-1]:
        if name not in settings:
            return
        settings = _block(settings, [name], option)
    settings.pop(path[-1], None)


def _in_words_of_options(error: RefusalError, given: Mapping[str, str], arguments: argparse.Namespace) -> str:
    """Rewrite a message about settings with the option in place of the path, if the option was given."""
    path, message, file = error.argument, error.words, arguments.config
    if file is None and path not in given and (missing := _missing(path, given, arguments.kind)):
        return missing
    covering = _covering(path, given)
    if covering:
        inside = re.sub(r"^(\[\d+\])?\.", "", path[len(covering) :])
        return f"{given[covering]}: {inside}{': ' * (path != covering)}{message}"
    if file is not None:
        return f"{file}: {error.through(SETTINGS).message}"
    if path in _PATHS:
        return f"{_PATHS[path]} {message}"
    below = dict.fromkeys(option for each, option in given.items() if each.startswith(f"{path}."))
    return f"{', '.join(below) or path}: {message}"


def _missing(path: str, given: Mapping[str, str], kind: str | None) -> str | None:
    """Name the missing options for a missing setting, if there is no file."""
    bounds = _MISSING["privacy_unit.bounds"] + ", or use auto" * (kind == "frequencies")
    if path == "privacy_unit.norm.max_norm" or (path == "privacy_unit" and "privacy_unit.privacy_id" in given):
        return bounds
    if path == "privacy_unit" and not any(each.startswith("privacy_unit.") for each in given):
        return f"{_MISSING['privacy_unit']}. {bounds}"
    if path == "domain" and kind == "top_k":
        return f"{_MISSING['domain']} or '{{type: text, max_bytes: 16}}'"
    if path == "keys" and given.keys() & {"keys.public", "keys.select.delta", "keys.assume_public"}:
        return None  # refused, not missing
    of_bounds = path.startswith("privacy_unit.") and path.endswith(".max_weight")
    return _MISSING.get("privacy_unit.*.max_weight" if of_bounds else path)


def _covering(path: str, known: Iterable[str]) -> str:
    """Find the longest known path that equals this path or is its ancestor; empty if there is none."""
    return max(
        (each for each in known if path == each or path.startswith((f"{each}.", f"{each}["))), key=len, default=""
    )


def _given(arguments: argparse.Namespace) -> dict[str, str]:
    found: dict[str, str] = {}
    for option in _OPTIONS.values():
        if getattr(arguments, option.name) is not None:
            bounds = ("norm", "norm.auto", "records", "record") if "*" in option.path else ("",)
            found |= {option.path.replace("*", bound): _spelled(option.name) for bound in bounds}
    return found
