"""Releases of ranks over domains of every kind, and what Python answers about them: for answers in other languages."""

from __future__ import annotations

import datetime
import functools
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np

from beam_dpsketch import (
    DyadicCountSketch,
    FactorizationSpec,
    FloatDomain,
    IntegerDomain,
    IPv4Domain,
    LogDomain,
    TimestampDomain,
    TreeSpec,
)
from beam_dpsketch.answers.factor import ReleasedFactorization
from beam_dpsketch.cli.asking import read_values
from beam_dpsketch.errors import UsageError
from beam_dpsketch.exact.domains import Domain
from beam_dpsketch.exact.sketches.factor import FactorHistogram
from beam_dpsketch.privacy.noise.laws import Noise
from beam_dpsketch.statement.showing import in_words
from tests.helpers import trees

CONFIDENCE = 0.9
_NUDGE = 1e-12  # of the confidence, which moves bounds by some 1e-12 of their distance
_DAY = datetime.datetime(2024, 2, 28, 12)

Question = tuple[str, list[Any], Any]


def factor(domain: Domain, data: np.ndarray, total: float | None = None, runs: int = 1) -> Any:
    """A release of positions by a factor, with noise that is always the same; or of several runs."""
    spec = FactorizationSpec(domain)
    counts = np.bincount(data.astype(np.int64), minlength=domain.size)
    rows = (
        FactorHistogram(spec).accumulate_keys(np.arange(domain.size, dtype=np.uint64), counts).tables_to_release(0)[0]
    )
    sigma_squared = Fraction(9)
    noise = np.random.default_rng(5).normal(0, 3 * np.sqrt(spec.factor.squared_length * runs), domain.size)
    counters = np.rint((rows + noise) / (1 << spec.factor.dropped_bits)).astype(np.int64)
    ids = tuple(bytes([run]) * 48 for run in range(runs))
    privacy = trees.statement(1, sigma_squared_per_level=(sigma_squared * runs,), release_ids=ids)
    made = ReleasedFactorization(spec, counters, privacy)
    return made if total is None else made.with_total(total, force=True)


def tree(spec: TreeSpec, data: np.ndarray, total: float | None = None, **changes: Any) -> Any:
    """A release of positions by a tree, with noise that is always the same."""
    raw = DyadicCountSketch(spec).accumulate_keys(data.astype(np.uint64), np.ones(len(data), dtype=np.int64))
    tables, noisy = raw.tables_to_release(0), []
    for level, table in zip(spec.levels, tables, strict=True):
        is_factor = level.sketch == "factor"
        deviation = 3 * np.sqrt(spec.factor.squared_length) if is_factor else 3
        drowned = 1 << spec.factor.dropped_bits if is_factor else 1
        noise = np.random.default_rng(len(noisy)).normal(0, deviation, np.size(table))
        noisy.append(np.rint((np.ravel(table) + noise) / drowned).astype(np.int64))
    made = trees.released(spec, np.concatenate(noisy), **changes)
    return made if total is None else made.with_total(total, force=True)


def _spread(domain: Domain, count: int, seed: int = 3) -> np.ndarray:
    """Positions with much weight at a third of the domain, heavy single ones, and some anywhere."""
    random = np.random.default_rng(seed)
    around = random.normal(domain.size / 3, domain.size / 40, count)
    heavy = np.repeat(random.random(3) * domain.size, count // 10)
    anywhere = random.random(count // 5) * domain.size
    positions = np.clip(np.concatenate([around, heavy, anywhere]), 0, domain.size - 1)
    return np.minimum(positions.astype(np.uint64), np.uint64(domain.size - 1))


_NOTHING = np.zeros(0, dtype=np.uint64)
_INTEGERS = {size: IntegerDomain(-3, size - 4) for size in (1, 2, 7, 100, 1024, 1 << 14, 1 << 17)}
_FLOATS = FloatDomain(-1e3, 1e6, 1e6 / (1 << 32))
_TIMES = TimestampDomain(
    datetime.datetime(1969, 12, 31), datetime.datetime(2030, 1, 1), datetime.timedelta(microseconds=400_000)
)
_ALL = IntegerDomain(0, (1 << 64) - 1)
_EXACT = IntegerDomain(0, 4095)
_HISTOGRAM = TreeSpec.histogram(_INTEGERS[100])
_LAPLACE = {
    "noise": Noise.LAPLACE,
    "sigma_squared_per_level": (Fraction(8),),
    "pure": Fraction(1, 2),
    "pure_rho": Fraction(1, 8),
}

RELEASES: dict[str, Callable[[], Any]] = {
    **{
        f"a factor of {size}": functools.partial(factor, domain, _spread(domain, 20 * min(size, 2000)))
        for size, domain in _INTEGERS.items()
    },
    **{
        f"a factor of {size}, of a known total": functools.partial(
            factor, _INTEGERS[size], _spread(_INTEGERS[size], 3000), total=4500.0
        )
        for size in (1, 2, 100, 1 << 14)
    },
    "a factor without data": lambda: factor(_INTEGERS[1024], _NOTHING),
    "a combined factor": lambda: factor(_INTEGERS[1024], _spread(_INTEGERS[1024], 4000), runs=3),
    "one heavy value": lambda: factor(_INTEGERS[1024], np.full(100_000, 77)),
    "floats": lambda: factor(FloatDomain(-1.5, 2.0, 0.01), _spread(IntegerDomain(0, 350), 3000)),
    "floats of many decimals": lambda: factor(FloatDomain(0.0, 1e-5, 1e-5 / 300), _spread(IntegerDomain(0, 300), 3000)),
    "logarithms": lambda: factor(LogDomain(0.001, 1e7, 0.02), _spread(IntegerDomain(0, 1000), 9000)),
    "large logarithms": lambda: factor(LogDomain(7e90, 1e99, 0.3), _spread(IntegerDomain(0, 60), 9000)),
    "fine logarithms": lambda: factor(LogDomain(3.0, 3.00001, 1e-8), _spread(IntegerDomain(0, 300), 9000)),
    "times": lambda: factor(
        TimestampDomain(_DAY, _DAY + datetime.timedelta(days=3), datetime.timedelta(minutes=7)),
        _spread(IntegerDomain(0, 600), 3000),
    ),
    "a histogram with Laplace noise": lambda: tree(_HISTOGRAM, _spread(_INTEGERS[100], 3000), **_LAPLACE),
    "a histogram with Laplace noise, of a known total": lambda: tree(
        _HISTOGRAM, _spread(_INTEGERS[100], 3000), total=4500.0, **_LAPLACE
    ),
    "exact levels": lambda: tree(TreeSpec.for_memory(_EXACT), _spread(_EXACT, 9000)),
    "exact levels of a known total": lambda: tree(TreeSpec.for_memory(_EXACT), _spread(_EXACT, 9000), total=14_000.0),
    "exact levels without data": lambda: tree(TreeSpec.for_memory(_EXACT), _NOTHING),
    "exact levels of an uneven domain": lambda: tree(trees.exact_tree(1000), _spread(IntegerDomain(0, 999), 3000)),
    "addresses": lambda: tree(TreeSpec.for_memory(IPv4Domain()), _spread(IPv4Domain(), 30_000)),
    "addresses without data": lambda: tree(TreeSpec.for_memory(IPv4Domain(), 20_000), _NOTHING),
    "floats in a tree": lambda: tree(TreeSpec.for_memory(_FLOATS, 60_000), _spread(_FLOATS, 30_000)),
    "times in a tree": lambda: tree(TreeSpec.for_memory(_TIMES, 60_000, arity=16), _spread(_TIMES, 30_000)),
    "64 bits": lambda: tree(TreeSpec.for_memory(_ALL, 90_000), _spread(_ALL, 30_000)),
    "64 bits of a known total": lambda: tree(TreeSpec.for_memory(_ALL, 90_000), _spread(_ALL, 30_000), total=45_000.0),
    "Count-Min levels": lambda: tree(
        TreeSpec.for_memory(IPv4Domain(), 60_000, sketch="count_min"), _spread(IPv4Domain(), 30_000)
    ),
    "the paper's layout": lambda: tree(
        TreeSpec.paper_layout(IntegerDomain(0, 9999), depth=3, width=300), _spread(IntegerDomain(0, 9999), 9000)
    ),
    "a factor on top": lambda: tree(TreeSpec.for_ranks(IPv4Domain(), 90_000), _spread(IPv4Domain(), 30_000)),
    "a factor on top, of a known total": lambda: tree(
        TreeSpec.for_ranks(_TIMES, 90_000), _spread(_TIMES, 30_000), total=45_000.0
    ),
    "a factor on top, without data": lambda: tree(TreeSpec.for_ranks(_ALL, 30_000), _NOTHING),
    "logarithms in a tree": lambda: tree(
        TreeSpec.for_memory(LogDomain(1, 1e10, 1e-4), 90_000), _spread(LogDomain(1, 1e10, 1e-4), 30_000)
    ),
}
"""By what is special of them."""

_NUMBERS = (
    *("0", " 7 ", "+5", "-3", "12.0", "1e3", "1e400", "3.7", ".5", "5.", "1.005", "inf", "-inf", "nan", "1_000", ""),
    *("abc", "0x10", "9" * 64, "9" * 65, "-" + "9" * 63, "9007199254740993", "9007199254740993.0", "0.015", "-0.0"),
    *("1e-7", "52", "1.5", "3.0000000449", "1e16", "4,5", "1 2", "--1"),
)
_TIMES_TYPED = (
    *("2024-02-29", "2024-02-29T08:30", "2024-02-30", "2023-02-29", "20240229T0830", "2024-02-29 08:30:15.25"),
    *("2024-02-29T08:30:00Z", "2024-02-29T08:30:00+02:00", "2024-02-29T08:30-0530", "2024-02-29T08:30:00-05"),
    *("2024", "20240229", "1709200000", "1709200000.4000005", "-1.5", "0.0000005", "0.0000015", "1e12", "1e300"),
    *("0001-01-01", "9999-12-31T23:59:59.999999", "0001-01-01T00:00+01:00", "9999-12-31T23:00-02:00", "12.34.56"),
    *("0000-01-01", "2024-02-29T24:30", "2024-02-29T12:60", "2024-02-29t12:00z", "tomorrow", "", "2024-13-01"),
    *("1900-02-29", "2000-02-29", "253402300800", "-62135596800", "-62135596801", "2024-02-29T12:00+24:00"),
)
_ADDRESSES_TYPED = (
    *("10.0.0.1", "0.0.0.0", "255.255.255.255", "256.0.0.1", "1.2.3", "1.2.3.4.5", "01.2.3.4", "1.2.3.4 ", "1..2.3"),
    *("4294967295", "4294967296", "16909060", "-1", "", "1.2.3.x", "0x7f.0.0.1", "1.2.3.04"),
)
_TYPED: dict[str, tuple[str, ...]] = {"timestamp": _TIMES_TYPED, "ipv4": _ADDRESSES_TYPED}


def rank_cases(name: str) -> tuple[Any, list[Question]]:
    """What a release says of itself, and questions about it with Python's answers; positions as text."""
    released = RELEASES[name]()
    return released.reading(CONFIDENCE), [*_of_values(released), *_of_ranks(released)]


def _of_values(released: Any) -> Iterator[Question]:
    domain = released.spec.domain
    for text in _TYPED.get(domain.type_name, _NUMBERS):
        try:
            (value,) = read_values([text], released, None)
        except UsageError:
            yield "parse", [text], None
        else:
            yield "parse", [text], str(_positions(domain, [value])[0])
    positions = _asked(domain.size, 30)
    for position, value in zip(positions.tolist(), domain.values(positions), strict=True):
        yield "show", [str(position)], in_words(value)


def _of_ranks(released: Any) -> Iterator[Question]:
    domain, count = released.spec.domain, 12 if released.spec.domain.size == 1 << 17 else 30
    positions = _asked(domain.size, count)
    values, texts = domain.values(positions), [str(position) for position in positions.tolist()]
    assert (_positions(domain, values) == positions).all()
    for kind, ask in (("rank", released.rank_interval), ("cdf", released.cdf_interval), ("weight", released.interval)):
        for text, found in zip(texts, ask(values, CONFIDENCE), strict=True):
            yield kind, [text], _bounds(found)
    for low, high in (positions, np.roll(positions, 1)), (positions, np.minimum(positions + 1, domain.size - 1)):
        lows, highs = np.minimum(low, high).astype(np.uint64), np.maximum(low, high).astype(np.uint64)
        answers = released.range_interval(domain.values(lows), domain.values(highs), CONFIDENCE)
        for first, last, found in zip(lows.tolist(), highs.tolist(), answers, strict=True):
            yield "range", [str(first), str(last)], _bounds(found)
    yield from _of_shares(released)
    yield "total", [], released.total_weight().estimate


def _of_shares(released: Any) -> Iterator[Question]:
    """Quantiles with what their bounds are at slightly smaller and larger confidences."""
    shares = np.append(np.linspace(0, 1, 21), [0.001, 0.999, 1 / 3, 1e-9, 1 - 1e-9]).tolist()
    confidences = CONFIDENCE, CONFIDENCE - _NUDGE, CONFIDENCE + _NUDGE
    usual, narrow, wide = (released.quantile(shares, confidence) for confidence in confidences)

    def places(values: Any) -> list[str]:
        return [str(position) for position in _positions(released.spec.domain, list(values)).tolist()]

    estimates = [None if each is None else places([each])[0] for each in usual.estimate]
    lowers = zip(*(places(each.lower) for each in (usual, narrow, wide)), strict=True)
    uppers = zip(*(places(each.upper) for each in (usual, narrow, wide)), strict=True)
    for share, estimate, lower, upper in zip(shares, estimates, lowers, uppers, strict=True):
        yield "quantile", [share], {"estimate": estimate, "lower": lower, "upper": upper}


def _bounds(found: Any) -> dict[str, float]:
    return {name: float(getattr(found, name)) for name in ("estimate", "lower", "upper")}


def _positions(domain: Domain, values: Any) -> np.ndarray:
    positions, usable = domain.index(values)
    assert usable.all()
    return positions


def _asked(size: int, count: int) -> np.ndarray:
    """Positions at both ends, near each other, and anywhere, uint64."""
    random = np.random.default_rng(size % 1009)
    anywhere = [int(share * size) for share in random.random(count)]
    near = [size // 3 + step for step in range(-2, 3)]
    return np.array([min(max(0, each), size - 1) for each in (0, 1, size - 2, size - 1, *near, *anywhere)], np.uint64)
