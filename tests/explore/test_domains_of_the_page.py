"""The page reads and shows values of every ordered domain as Python does."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from beam_dpsketch import FloatDomain, IntegerDomain, IPv4Domain, LogDomain, TimestampDomain
from beam_dpsketch.config.asking import value_reader
from beam_dpsketch.exact.domains import DOMAINS, Domain
from beam_dpsketch.statement.showing import in_words

pytestmark = pytest.mark.browser

_VALUES = """(domains) => domains.map(({ reading, positions }) => {
  const domain = makeDomain(reading);
  return positions.map((each) => {
    const text = domain.show(BigInt(each));
    return [text, domain.parse(text), domain.axis(BigInt(each)), domain.size];
  });
})"""


def drawn_domains() -> Iterator[Domain]:
    """Domains of random settings; floats have decimals as people write them, and others."""
    random = np.random.default_rng(8)
    yield from (IPv4Domain(), IntegerDomain(5, 5), IntegerDomain(0, (1 << 64) - 1), IntegerDomain(-(1 << 63), 0))
    for _ in range(40):
        low, steps = round(random.normal(0, 100), int(random.integers(0, 4))), int(random.integers(2, 100_000))
        step = float(f"{random.integers(1, 30)}e{random.integers(-6, 3)}")
        yield FloatDomain(low, low + steps * step, step)
        yield FloatDomain(random.normal(), 2 + random.random(), random.random() / steps)
        start = datetime.datetime(1, 1, 1) + datetime.timedelta(days=int(random.integers(0, 3_000_000)))
        length = datetime.timedelta(microseconds=int(random.integers(1, 10 ** int(random.integers(1, 16)))))
        yield TimestampDomain(start, start + length, datetime.timedelta(microseconds=int(random.integers(1, 10**9))))
        relative = float(10 ** random.uniform(-4, 0))
        low = float(10 ** random.uniform(-300, 290))
        yield LogDomain(low, low * 10 ** random.uniform(0.01, 9), float(f"{relative:.3g}"))


def test_there_is_one_entry_for_each_ordered_domain(run_js: Callable[[str, Any], Any]) -> None:
    assert run_js("() => Object.keys(DOMAINS)", None) == [each.type_name for each in DOMAINS if each.is_ordered]


def test_values_are_shown_and_read_as_python_has_them(run_js: Callable[[str, Any], Any]) -> None:
    random, asked = np.random.default_rng(9), []
    for domain in drawn_domains():
        anywhere = [int(share * domain.size) for share in random.random(20)]
        positions = np.array([min(each, domain.size - 1) for each in (0, 1, domain.size - 1, *anywhere)], np.uint64)
        asked.append((domain, positions))
    given = [{"reading": each.reading(), "positions": [*map(str, positions.tolist())]} for each, positions in asked]
    for (domain, positions), answers in zip(asked, run_js(_VALUES, given), strict=True):
        for position, value, answer in zip(positions.tolist(), domain.values(positions), answers, strict=True):
            text, parsed, axis, size = answer
            words = in_words(value)
            assert text == words or ("e" in text + words and float(text) == value), (domain, position)
            assert (int(parsed), int(size)) == (int(domain.index([value])[0][0]), domain.size), (domain, text)
            assert axis == pytest.approx(on_axis(value), rel=1e-15)


def on_axis(value: Any) -> float:
    if isinstance(value, datetime.datetime):
        return value.timestamp() * 1000
    return (
        float(value)
        if not isinstance(value, str)
        else sum(int(part) << 8 * (3 - at) for at, part in enumerate(value.split(".")))
    )


def test_grids_of_equal_ratios_are_the_same_to_the_last_digit(run_js: Callable[[str, Any], Any]) -> None:
    domains = [each for each in drawn_domains() if isinstance(each, LogDomain)]
    domains += [
        LogDomain(1, 1000, 0.1),
        LogDomain(1, 1000, 0.5),
        LogDomain(5, 1000, 0.5),
        LogDomain(3.0, 3.0000001, 1e-12),
        LogDomain(5e-324, 1),
    ]
    given = [each.reading() for each in domains]
    for domain, grid in zip(domains, run_js("(readings) => readings.map(logarithmicGrid)", given), strict=True):
        assert grid == domain.values(np.arange(domain.size, dtype=np.uint64)), domain


def test_what_lies_between_two_values_is_moved_as_in_python(run_js: Callable[[str, Any], Any]) -> None:
    script = "({ reading, texts }) => texts.map((text) => makeDomain(reading).parse(text))"
    epoch, micros = datetime.datetime(1970, 1, 1), datetime.timedelta(microseconds=1)
    times = TimestampDomain(epoch - datetime.timedelta(seconds=9), epoch + datetime.timedelta(seconds=9), micros)
    seconds = ("0.0000005", "0.0000015", "0.0000025", "-0.0000005", "-0.0000015", "1.0000005", "1.2", "-7.9999999")
    cases: list[tuple[Domain, tuple[str, ...]]] = [
        (FloatDomain(-4, 100, 1), ("-0.5", "0.5", "1.5", "2.5", "2.4999", "99.5", "100.4")),
        (LogDomain(1, 100, 0.5), ("1.25", "1.2499", "1.875", "80.1", "0")),
        (times, seconds),
    ]
    for domain, texts in cases:
        read = value_reader(domain)
        expected = domain.index([read(text, "") for text in texts])[0].tolist()
        assert [*map(int, run_js(script, {"reading": domain.reading(), "texts": [*texts]}))] == expected


def test_what_is_refused_says_what_to_type(run_js: Callable[[str, Any], Any]) -> None:
    script = "(reading) => { try { makeDomain(reading).parse('x'); } catch (error) { return error.message; } }"
    said = run_js(script, IntegerDomain(0, 9).reading())
    assert said == 'This release is about whole numbers: give such a value in place of "x".'
