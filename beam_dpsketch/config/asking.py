"""Read what a release is asked: `ask`."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Any

from beam_dpsketch.config.blocks import Reader, plain, read_block, read_list, take_one
from beam_dpsketch.config.paths import join, refusal
from beam_dpsketch.config.scalars import read_bytes, read_flag, read_item, read_number, read_time, read_whole
from beam_dpsketch.domains import (
    BytesDomain,
    Domain,
    FloatDomain,
    IntegerDomain,
    IPv4Domain,
    TextDomain,
    TimestampDomain,
)
from beam_dpsketch.questions.ask import KINDS, Ask, Kind

MAX_POINTS = 100_000
_WORDS = f"give one kind of question: {', '.join(KINDS)}"
_NEEDS_ORDER = ("quantiles", "ranks", "ranges", "histogram", "cdf")


def read_ask(settings: Any, path: str = "ask", domain: Domain | BytesDomain | None = None) -> Ask:
    """Return one kind of question: `{quantiles: [0.5, 0.95], confidence: 0.9}`.

    Args:
      settings: the block.
      path: where it is, for errors.
      domain: that of the release, which says how values are written; `None` for a sketch without one, whose items are
        text, whole numbers, bytes or lists of these.
    """
    given = plain(settings, path)
    value = _value_reader(domain)
    block = read_block(given, path, _readers(value))
    confidence = block.pop("confidence", 0.95)
    if not 0 < confidence < 1:
        raise refusal(join(path, "confidence"), "must be between 0 and 1, as 0.95")
    candidates = block.pop("candidates", None)
    kind: Kind = take_one(block, path, KINDS, _WORDS)  # type: ignore[assignment]
    if candidates is not None and kind != "top_k":
        raise refusal(join(path, "candidates"), "is for top_k alone, which chooses from them")
    if kind in _NEEDS_ORDER and not isinstance(domain, Domain):
        raise refusal(join(path, kind), "needs a domain with an order: integer, float, ipv4 or timestamp")
    _check(kind, block[kind], join(path, kind))
    return Ask(kind, None if block[kind] is True else block[kind], confidence, candidates)


def _readers(value: Reader) -> Mapping[str, Reader]:
    """Return the readers of all settings, by the reader of a value."""

    def values(settings: Any, path: str) -> tuple[Any, ...]:
        return tuple(read_list(settings, path, value))

    def pair(settings: Any, path: str) -> tuple[Any, ...]:
        ends = values(settings, path)
        if len(ends) != 2:
            raise refusal(path, f"expected the low and the high end, as [0, 60]; got {len(ends)} values")
        return ends

    def cdf(settings: Any, path: str) -> Any:
        return values(settings, path) if isinstance(settings, list) else read_whole(settings, path)

    return {
        "quantiles": lambda settings, path: tuple(read_list(settings, path, _read_share)),
        "ranks": values,
        "ranges": lambda settings, path: tuple(read_list(settings, path, pair)),
        "histogram": values,
        "cdf": cdf,
        "items": values,
        "top_k": read_whole,
        **dict.fromkeys(("total", "records", "units"), _read_true),
        "candidates": values,
        "confidence": read_number,
    }


def _check(kind: Kind, what: Any, path: str) -> None:
    """Refuse empty lists, and numbers out of range."""
    if isinstance(what, tuple) and len(what) < (2 if kind == "histogram" else 1):
        raise refusal(path, "needs at least two edges" if kind == "histogram" else "must not be empty")
    if isinstance(what, int) and kind in _LIMITS and not 1 <= what <= _LIMITS[kind]:
        raise refusal(path, f"must be from 1 to {_LIMITS[kind]}, got {what}")


_LIMITS = {"top_k": 1 << 31, "cdf": MAX_POINTS}


def _read_share(value: Any, path: str) -> float:
    share = read_number(value, path)
    if not 0 <= share <= 1:
        raise refusal(path, "must be from 0 to 1, as 0.5 for the median")
    return float(share)


def _read_true(value: Any, path: str) -> bool:
    if not read_flag(value, path):
        raise refusal(path, "expected true; leave it out otherwise")
    return True


def _read_address(value: Any, path: str) -> str:
    try:
        return str(ipaddress.IPv4Address(value))
    except ValueError:
        raise refusal(path, 'expected an IPv4 address, as "192.0.2.1"') from None


def _read_text(value: Any, path: str) -> str:
    if not isinstance(value, str):
        raise refusal(path, "expected text: put it in quotes")
    return value


def _read_hex(value: Any, path: str) -> bytes:
    read = read_item(value, path)
    return read if isinstance(read, bytes) else read_bytes(read, path)


def _read_float(value: Any, path: str) -> float:
    return float(read_number(value, path))


def _value_reader(domain: Domain | BytesDomain | None) -> Reader:
    return next((read for kind, read in _READERS if isinstance(domain, kind)), read_item)


_READERS: tuple[tuple[type, Reader], ...] = (
    (IntegerDomain, read_whole),
    (FloatDomain, _read_float),
    (IPv4Domain, _read_address),
    (TimestampDomain, read_time),
    (TextDomain, _read_text),
    (BytesDomain, _read_hex),
)
