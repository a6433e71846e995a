"""Settings of a release from the command line: a file, options, or both; an option overrides its setting of the file.

Guarantee: a mistake is one `UsageError` that begins with the option, or with the file and the path of the setting. It
shows no key and no item.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from beam_dpsketch.cli.asking.values import read_lines
from beam_dpsketch.cli.text import UsageError
from beam_dpsketch.config import ConfigError, read_release
from beam_dpsketch.config.blocks import plain
from beam_dpsketch.config.release import KINDS
from beam_dpsketch.errors import RefusalError
from beam_dpsketch.records.release_spec import ReleaseSpec

Settings = dict[str, Any]


class _Option(NamedTuple):
    """An option: the setting that it stands for, and the settings that exclude it."""

    name: str
    path: str
    help: str
    metavar: str = "N"
    excludes: tuple[str, ...] = ()


_OPTIONS = (
    _Option("kind", "kind", f"what is released: {', '.join(KINDS)}", "KIND"),
    _Option("item", "item", "the column that is counted", "COLUMN"),
    _Option("weight", "weight", "the column that says how much a record counts (1)", "COLUMN"),
    _Option("domain", "domain", "which values there can be, as '{type: integer, low: 0, high: 99}' or ipv4", "DOMAIN"),
    _Option("k", "k", "of top_k: how many values are wanted", "K"),
    _Option("epsilon", "privacy.epsilon", "what the release may spend, with --delta", "E", ("privacy.rho",)),
    _Option("delta", "privacy.delta", "less than 1 / the number of people, as 1e-6", "D"),
    _Option("rho", "privacy.rho", "what the release may spend, in place of --epsilon", "R", ("privacy.epsilon",)),
    _Option(
        "privacy_id", "unit.privacy_id", "protect all records of each id in this column", "COLUMN", ("unit.record",)
    ),
    _Option(
        "max_norm",
        "unit.norm.max_norm",
        "how many records of one item of an id count in full; auto lets the data choose",
        "N|auto",
        ("unit.records", "unit.norm.auto"),
    ),
    _Option(
        "max_contributions",
        "unit.records.max_contributions_per_partition",
        "how many records of an id count, for each key, in place of --max-norm",
        excludes=("unit.norm",),
    ),
    _Option("max_partitions", "unit.*.max_partitions", "in how many keys an id counts, or votes under --max-norm"),
    _Option("max_weight", "unit.*.max_weight", "the largest weight of a record; needed with --weight", "W"),
    _Option("key", "keys.field", "the column of the output key: one release for each key", "COLUMN"),
    _Option(
        "public_keys",
        "keys.public",
        "the keys to release, one a line, known without the data",
        "FILE",
        ("keys.select", "keys.assume_public"),
    ),
    _Option(
        "select_keys",
        "keys.select.delta",
        "release keys that enough ids are in; the probability that one id shows a key, as 1e-8",
        "DELTA",
        ("keys.public", "keys.assume_public"),
    ),
)
_ASSUME = _Option("assume_public_keys", "keys.assume_public", "", excludes=("keys.public", "keys.select"))
_RECORD = _Option("unit", "unit.record", "")
_EITHER = (("epsilon", "rho"), ("privacy_id", "unit"), ("max_norm", "max_contributions"))

_MISSING = {
    "kind": f"--kind is missing: one of {', '.join(KINDS)}",
    "item": "--item is missing: the column that is counted",
    "privacy": "--epsilon and --delta are missing, or --rho: what the release may spend",
    "privacy.delta": "--delta is missing next to --epsilon: less than 1 / the number of people, as 1e-6",
    "unit": "--privacy-id is missing: the column that says whose a record is; or take --unit record",
    "unit.bounds": "--max-norm is missing: how many records of one item of an id count in full; or auto",
    "domain": "--domain is missing: which values there can be, as '{type: integer, low: 0, high: 99}'",
    "k": "--k is missing: how many values are wanted",
    "unit.*.max_weight": "--max-weight is missing next to --weight: the largest weight of a record",
    "unit.norm.max_keys": "--max-partitions is missing next to --select-keys: for how many keys an id votes",
    "keys": "--key needs --public-keys FILE, --select-keys DELTA or --assume-public-keys",
    "keys.field": "--key is missing: the column of the output key",
}
"""What is said of a setting that is missing, where there is no file."""


def add_settings_options(parser: argparse.ArgumentParser) -> None:
    """Declare `--config` and the options in place of a file."""
    group = parser.add_argument_group("what to release")
    group.add_argument("--config", metavar="FILE", help="a file of settings, YAML or JSON; options override it")
    for option in _OPTIONS:
        group.add_argument(_spelled(option.name), metavar=option.metavar, help=option.help)
    group.add_argument("--unit", choices=("record",), help="protect single records, and no person")
    group.add_argument(
        "--assume-public-keys",
        action="store_true",
        default=None,
        help="release each key that has data; your word that these may be published",
    )


def read_config(arguments: argparse.Namespace) -> ReleaseSpec:
    """Return what the options of `add_settings_options` declare, checked together; raise `UsageError`."""
    given = _given(arguments)
    settings = {} if arguments.config is None else read_settings_file(arguments.config)
    if not given and arguments.config is None:
        raise UsageError("give --config FILE, or options such as --kind, --item, --epsilon and --privacy-id")
    try:
        return read_release(merged(settings, arguments))
    except ConfigError as error:
        raise UsageError.of(error, lambda each: _in_words_of_options(each, given, arguments.config)) from None


def read_settings_file(path: str) -> Settings:
    """Return the settings in a file, plain and not checked yet; raise `UsageError` or `OSError`."""
    try:
        with open(path, encoding="utf-8-sig") as file:
            settings = plain(file.read(), "")
    except ConfigError as error:
        raise UsageError.of(error, lambda each: f"{path}: {each.message}") from None
    except ValueError:  # of the encoding, or a zero byte in the name; its message would contain bytes of the file
        raise UsageError(f"{path!a}: expected a file of settings in UTF-8") from None
    if not isinstance(settings, dict):
        raise UsageError(f"{path}: expected settings such as kind: top_k, in YAML or JSON")
    return settings


def merged(settings: Settings, arguments: argparse.Namespace) -> Settings:
    """Return settings with those of the options in place of their own."""
    for first, second in _EITHER:
        if None not in (getattr(arguments, first), getattr(arguments, second)):
            raise UsageError(f"{_spelled(first)} and {_spelled(second)} exclude each other")
    chosen = [name for name in ("public_keys", "select_keys", "assume_public_keys") if getattr(arguments, name)]
    if len(chosen) > 1:
        raise UsageError(f"{' and '.join(map(_spelled, chosen))} exclude each other")
    settings = plain(settings, "")
    for option in (_RECORD, _ASSUME, *_OPTIONS):
        if (value := getattr(arguments, option.name)) is None:
            continue
        for path in option.excludes:
            _remove(settings, path.split("."), option)
        path, value = _setting(option, value, settings)
        *above, last = path.split(".")
        _block(settings, above, option)[last] = value
    return settings


def _setting(option: _Option, value: Any, settings: Settings) -> tuple[str, Any]:
    """Return the path and the value of the setting that an option stands for."""
    if option is _RECORD:
        found = settings.get("unit")
        return "unit", {"record": found["record"]} if isinstance(found, dict) and "record" in found else "record"
    if option.name == "max_norm" and value == "auto":
        return "unit.norm", "auto"
    if option.name == "public_keys":
        return option.path, read_lines(value, "--public-keys")
    if "*" in option.path:
        bound = _bound(settings, option)
        is_votes = bound == "norm" and option.name == "max_partitions"
        return f"unit.{bound}.{'max_keys' if is_votes else option.name}", value
    return option.path, value


def _bound(settings: Settings, option: _Option) -> str:
    """Return which block of the unit has the bounds."""
    unit = _block(settings, ["unit"], option)
    inner = next((name for name in ("record", "records", "norm") if name in unit), "norm")
    if inner == "norm" and "auto" in _block(settings, ["unit", "norm"], option):
        return "norm.auto"
    return inner


def _block(settings: Settings, path: Iterable[str], option: _Option) -> Settings:
    """Return the block at a path, to be changed; make it where it is missing."""
    block = settings
    for name in path:
        inner = block.setdefault(name, {})
        if isinstance(inner, str):
            inner = {inner: {}} if inner in ("record", "auto") else plain(inner, name)
        if not isinstance(inner, dict):
            raise UsageError(f"{_spelled(option.name)} cannot change {name} of the file, which is not a block")
        block[name] = inner
        block = inner
    return block


def _remove(settings: Settings, path: list[str], option: _Option) -> None:
    """Remove the setting at a path, where it is."""
    for name in path[:-1]:
        if name not in settings:
            return
        settings = _block(settings, [name], option)
    settings.pop(path[-1], None)


def _in_words_of_options(error: RefusalError, given: Mapping[str, str], file: str | None) -> str:
    """Return a message about settings that names the option in place of the path, where one was given."""
    path, message = error.argument, error.words
    if file is None and path not in given and (missing := _missing(path, given)):
        return missing
    covering = _covering(path, given)
    if covering:
        return f"{given[covering]}: {path[len(covering) + 1 :]}{': ' * (path != covering)}{message}"
    if file is not None:
        return f"{file}: {error.message}"
    below = dict.fromkeys(option for each, option in given.items() if each.startswith(f"{path}."))
    return f"{', '.join(below) or path}: {message}"


def _missing(path: str, given: Mapping[str, str]) -> str | None:
    """Return which option is missing, where a setting is and there is no file."""
    if path == "unit" and "unit.privacy_id" in given:
        path = "unit.bounds"
    of_bounds = path.startswith("unit.") and path.endswith(".max_weight")
    return _MISSING.get("unit.*.max_weight" if of_bounds else path)


def _covering(path: str, known: Iterable[str]) -> str:
    """Return the longest of the known paths that is this path, or is above it; nothing if none is."""
    return max(
        (each for each in known if path == each or path.startswith((f"{each}.", f"{each}["))), key=len, default=""
    )


def _given(arguments: argparse.Namespace) -> dict[str, str]:
    """Return the options that are given, by the paths of what they set."""
    found: dict[str, str] = {}
    for option in (_RECORD, _ASSUME, *_OPTIONS):
        if getattr(arguments, option.name) is not None:
            bounds = ("norm", "norm.auto", "records", "record") if "*" in option.path else ("",)
            found |= {option.path.replace("*", bound): _spelled(option.name) for bound in bounds}
            if option.name == "max_partitions":
                found["unit.norm.max_keys"] = _spelled(option.name)
    return found


def _spelled(name: str) -> str:
    return f"--{name.replace('_', '-')}"
