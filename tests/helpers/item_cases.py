"""Releases that answer about items, and what Python answers, for programs that should answer the same."""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from beam_dpsketch import (
    ADD_OR_REMOVE_ONE,
    BytesDomain,
    CountMin,
    CountSketch,
    FloatDomain,
    IntegerDomain,
    IPv4Domain,
    ListedItems,
    NormBound,
    PrivacySpec,
    RecordBounds,
    ReleaseTerms,
    SketchSpec,
    TextDomain,
    TimestampDomain,
    release,
)
from beam_dpsketch.answers.counts import ReleasedCounts, ReleasedListedItems
from beam_dpsketch.answers.released_sketch import ReleasedSketch
from beam_dpsketch.cli.asking import read_values
from beam_dpsketch.errors import UsageError
from beam_dpsketch.exact.domains.base import short_keys
from beam_dpsketch.exact.sketches.listed_items import ListedHistogram, ThresholdedItems
from beam_dpsketch.privacy.contributions import PrivacyUnit
from beam_dpsketch.privacy.noise.keyed_randomness import KeyedRandomness
from beam_dpsketch.statement.notes import ThresholdNote
from beam_dpsketch.statement.showing import in_words
from tests.helpers import by_hand
from tests.helpers.raw import of_kind

REFUSED = "refused"
KEY = bytes(range(200, 216))
LISTED_TYPES = {"text": str, "int": int, "bytes": bytes, "tuple": tuple}
HEAVY = RecordBounds(1, max_weight=1 << 31, signed=True)
WORDS = ["", " ", "a", "Oslo", "Bern", "é", "e\u0301", "日本語", "😀", "a😀b", "\ud800", "\udc80x", "<b>&amp;", "\0"]
WORDS += ["x" * size for size in (7, 8, 13, 14, 15, 16, 17, 31, 32, 127, 128, 129, 300)]
WORDS += ["1", "01", *(f"item {number}" for number in range(60))]
NUMBERS = ["0", "1", "-1", " 42 ", "+7", "007", "1e3", "10.0", "-.0", "2.5", "x", "", "1_0", "\x1c5\x85", "\ufeff5"]
NUMBERS += [str(each + shift) for each in (1 << 53, -(1 << 63), 1 << 63, 1 << 64) for shift in (-1, 0, 1)]
NUMBERS += ["9007199254740993.0", "1e15", "1e16", "1e400", "7".zfill(64), "7".zfill(65), *map(str, range(-20, 20))]
HEX = ["0x", "0x00ff", "0x00 fF\n", "0x0", "0x0g", "0X00", "0x e2 80", "0xff\u2003ff", "0x" + "61" * 9]


class Asked(NamedTuple):
    """A question of a kind ("interval", or "at" for a place in a list), and estimate, lower and upper, or `REFUSED`."""

    kind: str
    arguments: list[Any]
    answer: list[float] | str


class Askable(NamedTuple):
    """A release, the texts that it is asked about by the type they are read as, and a confidence."""

    name: str
    released: ReleasedSketch
    texts: dict[str, Sequence[str]]
    confidence: float

    @property
    def reading(self) -> dict[str, Any]:
        return self.released.reading(self.confidence)


def releases() -> list[Askable]:
    """Return releases of every kind that answers about items."""
    made = (*_flat(), *_groups(), *_listed())
    confidences = itertools.cycle((0.95, 0.5, 0.999))
    return [Askable(*each, confidence) for each, confidence in zip(made, confidences, strict=False)]


def cases() -> Iterator[tuple[Askable, list[Asked]]]:
    """Yield each release, and what it answers."""
    for each in releases():
        released, confidence = each.released, each.confidence
        asked = [
            Asked("interval", [text, kind], _answer(released, text, kind, confidence))
            for kind, texts in each.texts.items()
            for text in texts
        ]
        listed = released.top_k(1 << 31, None, confidence) if isinstance(released, ReleasedCounts) else ()
        listed = released.interval(released.spec.items, confidence) if released.spec.is_listed else listed
        yield each, asked + [Asked("at", [place], [*map(float, row[1:])]) for place, row in enumerate(listed)]


def _answer(released: ReleasedSketch, text: str, kind: str, confidence: float) -> list[float] | str:
    """What a command answers where a text is typed; of listed items of one type, the first with these words."""
    try:
        if kind in LISTED_TYPES and released.spec.is_listed:
            own = [item for item in released.spec.items if isinstance(item, LISTED_TYPES[kind])]
            fitting = [item for item in own if in_words(item) == text]
            return _of(released, fitting[0], confidence) if fitting else REFUSED
        (item,) = read_values((text,), released, "int" if kind == "int" else None)
        return _of(released, item, confidence)
    except (UsageError, ValueError):
        return REFUSED


def _of(released: ReleasedSketch, item: Any, confidence: float) -> list[float]:
    return [float(each) for each in released.interval([item], confidence)[0][1:]]


def _noise(name: str) -> KeyedRandomness:
    return KeyedRandomness(b"the same noise in every run of it", name.encode())


def _flat() -> Iterator[tuple[str, ReleasedSketch, dict[str, Sequence[str]]]]:
    texts = {"text": WORDS, "int": NUMBERS}
    laws = (
        {"rho": 0.5},
        {"rho": 0.01, "relation": ADD_OR_REMOVE_ONE},
        {"epsilon": 0.5},
        {"epsilon": 2, "relation": ADD_OR_REMOVE_ONE},
    )
    widths = itertools.cycle((1000, 64, 5, 333, 1, 4096, 17))
    releases: dict[str, ReleasedSketch] = {}
    for depth, kind in itertools.product(range(1, 10), (CountMin, CountSketch)):
        number = len(releases)
        hashed = {"item_hash": "blake2b", "item_key": KEY} if number % 5 in (1, 2) else {}
        seed = (0, 1, (1 << 64) - 1, 12345)[number % 4]
        spec = SketchSpec(kind=kind.name, depth=depth, width=next(widths), seed=seed, **hashed)
        law = laws[(number + depth) % 4]
        raw = _counted(kind(spec), signed=False)
        releases[f"{kind.name} {spec} {law}"] = release(raw, ReleaseTerms(PrivacySpec(**law)), _noise(str(number)))
    spec = SketchSpec(depth=5, width=99, seed=3)
    for kind, is_signed in itertools.product((CountMin, CountSketch), (False, True)):
        bounds = HEAVY if is_signed else RecordBounds(1, max_weight=1 << 31)
        raw = _counted(kind(of_kind(kind, spec)), signed=is_signed, most=1 << 31)
        heavy = release(raw, ReleaseTerms(PrivacySpec(rho=1), bounds), _noise(f"heavy {is_signed}"))
        other = release(raw, ReleaseTerms(PrivacySpec(rho=2), bounds), _noise(f"more {is_signed}"))
        both = {"heavy": heavy, "combined": heavy.combine(other), "changed": heavy.minus(other)._signed}
        releases |= {f"{kind.name} {name}, signed {is_signed}": each for name, each in both.items()}
        counters = np.arange(-250, 245).reshape(5, 99) * 37
        people = {"bounds": NormBound(Fraction(5, 2), max_weight=9), "scale_bits": 5}
        releases[f"{kind.name} in parts, {is_signed}"] = by_hand.released(kind, spec, counters, **people)
    yield from ((name, released, texts) for name, released in releases.items())


def _counted(raw: Any, *, signed: bool, most: int = 1) -> Any:
    """A sketch of some words and numbers, a few of them often."""
    draws = np.random.default_rng(7)
    words = [WORDS[place] for place in draws.zipf(1.5, 5000) % len(WORDS)]
    for items in (words, draws.integers(-40, 40, 2000)):
        if most == 1:
            raw.accumulate(items)
        else:
            raw.accumulate(items, draws.integers(-most if signed else 0, most, len(items)))
    return raw


def _groups() -> Iterator[tuple[str, ReleasedSketch, dict[str, Sequence[str]]]]:
    cut = ["", "to", "tea", "long", "longer", "日本", "日x", "ab😀", "abé", "éé", "ééé", "a\0", "1"]
    start = datetime.datetime(2024, 1, 1)
    hours = TimestampDomain(start, start + datetime.timedelta(days=30), datetime.timedelta(hours=1))
    times = ["2024-01-02T03:30:00Z", "2024-01-03", "20240104T05", "1704096000", "2030-01-01", "2024", "x"]
    addresses = ["10.0.0.1", "167772161", "0.0.0.0", "255.255.255.255", "10.0.0.01", "1.2.3", "x", "4294967296"]
    reals = ["0.3", "7", "-1e9", "1e9", "inf", "nan", "x", "0.25", ".5", " 1 "]
    ordered = (
        (IntegerDomain(-5, 90), range(-5, 60), NUMBERS),
        (IPv4Domain(), ["10.0.0.1", "0.0.0.0", "255.255.255.255"], addresses),
        (FloatDomain(-1.0, 2.0, 0.25), [-1.0, 0.25, 0.5, 2.0], reals),
        (hours, [start + datetime.timedelta(hours=each) for each in (0, 27, 48, 77, 8)], times),
    )
    texts = cut + WORDS
    for number, (domain, items, asked) in enumerate(
        ((TextDomain(4), cut, texts), (BytesDomain(3), [b"", b"ab", b"abc", b"\xff", b"0x"], [*texts, *HEX]), *ordered)
    ):
        released = _grouped(domain, items, run=number)
        yield f"groups of {domain.describe()}", released, {domain.type_name: asked}
        both = released.combine(_grouped(domain, items[1:], run=99))
        yield f"groups of {domain.describe()}, combined", both, {domain.type_name: asked}


def _grouped(domain: Any, items: Iterable[Any], run: int) -> ReleasedCounts:
    keys = [*dict.fromkeys(short_keys(domain.index(list(items))[0].tolist()))]
    note = ThresholdNote(max_items=7, threshold=12, most=15)
    said = by_hand.statement(
        delta=Fraction(1, 10**8), keys=note, privacy_unit=PrivacyUnit.PRIVACY_ID, release_ids=(bytes([run]) * 48,)
    )
    known = {item: key for item, key in zip(domain.from_short_keys(keys), keys, strict=True) if item is not None}
    return ReleasedCounts(ThresholdedItems.of(domain, known.values()), 1000 - np.arange(len(known)) ** 2 // 5, said)


def _listed() -> Iterator[tuple[str, ReleasedSketch, dict[str, Sequence[str]]]]:
    twins = ["1", 1, b"1", "0x31", ("a", 1), ("a", "1"), "(a, 1)"]
    mixed = [*twins, -5, (1 << 64) - 1, b"", (), *WORDS, *range(9)]
    for name, items, law in (
        ("mixed", mixed, {"rho": 0.5}),
        ("numbers", [5, -7, 1 << 63], {"epsilon": 1}),
        ("text", WORDS[16:], {"rho": 0.01, "relation": ADD_OR_REMOVE_ONE}),
    ):
        raw = ListedHistogram(ListedItems(items)).accumulate([*items, *items[:20]])
        released = release(raw, ReleaseTerms(PrivacySpec(**law)), _noise(name))
        assert isinstance(released, ReleasedListedItems)
        shown = [*map(in_words, released.spec.items), "none", "2", "01"]
        yield f"listed {name}", released, dict.fromkeys(("any", *LISTED_TYPES), shown)
