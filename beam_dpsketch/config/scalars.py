"""Read single settings: numbers, texts, choices, times and durations. Numbers may be written as text."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any

from beam_dpsketch.config.blocks import Form, Reader, read_list
from beam_dpsketch.config.paths import hint_of, refusal, shown

_MAX_DIGITS = 64
_MAX_EXACT_FLOAT = 1 << 53
_UTC = datetime.UTC
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=_UTC)
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
    if isinstance(number, float) and number.is_integer() and abs(number) <= _MAX_EXACT_FLOAT:
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


def read_or_none(read: Reader) -> Reader:
    """Return the reader that also takes the word `none`."""
    return lambda value, path: None if value == "none" else read(value, path)


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
            return _EPOCH + datetime.timedelta(seconds=seconds)
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


TEXT, TIME, DURATION, BYTES = (Form(str, read) for read in (read_text, read_time, read_duration, read_bytes))
NUMBER, EXACT, FRACTION = (Form(float, read) for read in (read_number, read_exact, read_fraction))
PART = Form(float, read_or_none(read_exact))
WHOLE, FLAG = Form(int, read_whole), Form(bool, read_flag)
ITEM, ITEMS = Form(Any, read_item), Form(list[Any], _read_items)
"""How values are written: their types in schemas, and who reads them."""


def one_of(words: Iterable[str], others: Mapping[str, str] | None = None) -> Form:
    """Return the form of one of these words; see `read_choice`."""
    return Form(str, read_choice({word: word for word in words}, others))
