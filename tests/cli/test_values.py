"""Command and settings read times, lengths of time and numbers alike, in every spelling, and refuse the same ones."""

from __future__ import annotations

import argparse
import datetime
from types import SimpleNamespace
from typing import Any

import pytest

from beam_dpsketch import FloatDomain, IntegerDomain, IPv4Domain, LogDomain, TimestampDomain
from beam_dpsketch import config as settings
from beam_dpsketch.cli.asking import read_horizon, read_values
from beam_dpsketch.cli.text import read_open_share, read_rows, read_share, read_whole
from beam_dpsketch.errors import ConfigError, UsageError
from beam_dpsketch.exact.domains import Domain

DAY = datetime.timedelta(days=1)
NEW_YEAR = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
TIMES = ["2024-01-01", "2024-01-01T08:00:00.250Z", "20240101T080000", "20240101T0800+0200", "2024-01-01T08-01:00"]
TIMES += ["0", "1704067200", "1e9", "1704067200.5"]
LENGTHS = ["1w", "90ms", "30 m", "1h", "7d", "60", "1.5s", "0.5", "1e3"]
NOT_TIMES = ["today", "2024", "20240101", "2024-13-01", "nan", "-1", "1e300", ""]
NOT_LENGTHS = ["1y", "-1h", "0", "h", "inf", "1e-9", ""]
DOMAINS: dict[Domain, list[str]] = {
    IntegerDomain(0, 10**6): ["7", "+7", "-7", "12.0", "1e6", " 5 "],
    FloatDomain(0, 9, 0.5): ["7", "-.5", "1e-3", "inf", "-inf"],
    LogDomain(1, 9): ["7", "-.5", "1e-3", "inf", "-inf"],
    IPv4Domain(): ["10.0.0.1", "3232235777"],
    TimestampDomain(NEW_YEAR, NEW_YEAR + DAY, DAY): TIMES,
}
WRONG: dict[type, list[str]] = {
    IntegerDomain: ["a", "1_0", "1.5", "0x1", "inf", ""],
    FloatDomain: ["a", "1_0", "nan", "1,5", ""],
    LogDomain: ["a", "1_0", "nan", ""],
    IPv4Domain: ["10.0.0", "-1", "4294967296", "a"],
    TimestampDomain: ["today", "20240101", "nan"],
}


@pytest.mark.parametrize(
    ("size", "short"), [("1day", "1d"), ("2 Days", "2d"), ("90minutes", "90m"), ("3 weeks", "3w"), ("5seconds", "5s")]
)
def test_a_length_of_time_in_words_is_refused_with_its_short_form(size: str, short: str) -> None:
    with pytest.raises(ConfigError, match=rf"\. Write {short}$|\. Write {short} \["):
        by_settings("0", size)
    with pytest.raises(TypeError, match=rf"\. Write {short} "):
        TimestampDomain(NEW_YEAR, NEW_YEAR + DAY, size)


def by_command(start: str, size: str, windows: str = "30") -> Any:
    return read_horizon(argparse.Namespace(horizon=[start, size, windows], windows=None))


def by_settings(start: str, size: str, windows: str = "30") -> Any:
    return settings.read_horizon({"start": start, "window_size": size, "windows": windows}, "--horizon")


@pytest.mark.parametrize(("start", "size"), [*((each, "1h") for each in TIMES), *(("0", each) for each in LENGTHS)])
def test_a_horizon_is_the_same_by_both_doors(start: str, size: str) -> None:
    assert by_command(start, size) == by_settings(start, size)
    assert by_command(start, size, "3e1").windows == 30


@pytest.mark.parametrize(
    ("start", "size", "windows"),
    [
        *((each, "1h", "30") for each in NOT_TIMES),
        *(("0", each, "30") for each in NOT_LENGTHS),
        *(("0", "1h", each) for each in ("1", "many", "2.5", "1e9")),
    ],
)
def test_what_is_not_a_horizon_is_refused_in_the_same_words(start: str, size: str, windows: str) -> None:
    with pytest.raises(ConfigError) as expected:
        by_settings(start, size, windows)
    with pytest.raises(UsageError) as found:
        by_command(start, size, windows)
    assert str(found.value) == str(expected.value)


@pytest.mark.parametrize("domain", DOMAINS, ids=lambda domain: type(domain).__name__)
def test_values_are_the_same_by_both_doors(domain: Domain) -> None:
    released: Any = SimpleNamespace(spec=SimpleNamespace(domain=domain, is_listed=False))
    found = read_values(DOMAINS[domain], released, None)
    assert found == settings.read_ask({"ranks": DOMAINS[domain]}, "ask", domain).what
    for wrong in WRONG[type(domain)]:
        with pytest.raises(UsageError, match=r"^values for this release must be [a-zA-Z0-9 ,]+ \["):
            read_values([wrong], released, None)
        with pytest.raises(ConfigError):
            settings.read_ask({"ranks": [wrong]}, "ask", domain)


def test_numbers_of_options_are_those_of_settings() -> None:
    """1e400 is infinite."""
    assert [read_whole(1, 10**6)(each) for each in ("7", "12.0", "1e6")] == [7, 12, 10**6]
    assert [read_share(each) for each in ("0", "1", "5e-1", ".5")] == [0.0, 1.0, 0.5, 0.5]
    assert isinstance(read_share("1"), float)
    for read, wrong in ((read_whole(1, 9), ["0", "10", "1.5", "a", ""]), (read_share, ["1.1", "nan", "-0.1", "1e400"])):
        for each in wrong:
            with pytest.raises(argparse.ArgumentTypeError, match=r"^expected a "):
                read(each)
    for each in ("0", "1"):
        with pytest.raises(argparse.ArgumentTypeError):
            read_open_share(each)


@pytest.mark.parametrize("lines", [['"Oslo,web', 'Rome",app'], ['"Oslo"x,web'], ["x" * (1 << 18) + ",web"]])
def test_a_line_of_listed_keys_is_a_whole_row(lines: list[str]) -> None:
    """An open quote would join two keys to one, and the message contains no key."""
    assert read_rows(["page,city", ' "a, b", Oslo '], ["city", "page"], "--public-keys") == [["Oslo", "a, b"]]
    with pytest.raises(UsageError, match="--public-keys must be a CSV file with one key per line") as caught:
        read_rows(["city,page", *lines], ["city", "page"], "--public-keys")
    assert "Oslo" not in str(caught.value)
