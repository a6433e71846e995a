"""Questions in settings (`ask`), read into `Ask`."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any

from beam_dpsketch.answers.questions.ask import Ask
from beam_dpsketch.answers.questions.entries import Takes
from beam_dpsketch.answers.questions.kinds import QUESTIONS, Kind
from beam_dpsketch.config.forms import (
    ITEM_FORM,
    ITEMS_FORM,
    NUMBER_FORM,
    TEXT_FORM,
    WHOLE_FORM,
    Block,
    Entry,
    Form,
    Reader,
    read_block,
    read_bytes,
    read_flag,
    read_item,
    read_list,
    read_number,
    read_time,
    read_whole,
    take_one,
)
from beam_dpsketch.config.paths import join, refusal
from beam_dpsketch.config.plain import plain
from beam_dpsketch.exact.domains import BytesDomain, Domain

_WORDS = f"set a single question: {', '.join(QUESTIONS)}"


def read_ask(settings: Any, path: str = "ask", domain: Domain | BytesDomain | None = None) -> Ask:
    """Read one question, such as `{quantiles: [0.5, 0.95], confidence: 0.9}`.

    Args:
      settings: the block.
      path: its path, for errors.
      domain: the release's domain, which defines how values are spelled. `None` for a sketch without a domain, whose
        items are text, integers, bytes or lists of these.
    """
    given = plain(settings, path)
    block = read_block(given, path, ASK_BLOCK, **_readers(value_reader(domain)))
    confidence = block.pop("confidence", ASK_BLOCK.entries["confidence"].usual)
    if not 0 < confidence < 1:
        raise refusal(join(path, "confidence"), "must be between 0 and 1, such as 0.95")
    candidates, metric = block.pop("candidates", None), block.pop("metric", "")
    kind: Kind = take_one(block, path, QUESTIONS, _WORDS)  # type: ignore[assignment]
    if candidates is not None and QUESTIONS[kind].items_in != "candidates":
        raise refusal(join(path, "candidates"), "is supported with top_k only", "E804")
    if QUESTIONS[kind].needs_order and not (domain and domain.is_ordered):
        raise refusal(join(path, kind), "requires an ordered domain: integer, float, log, ipv4 or timestamp", "E808")
    limit = QUESTIONS[kind].limit
    if limit is not None and isinstance(block[kind], int) and not 1 <= block[kind] <= limit:
        raise refusal(join(path, kind), f"must be from 1 to {limit}, got {block[kind]}")
    if QUESTIONS[kind].takes is Takes.RANGES:
        _check_ranges(block[kind], join(path, kind), domain)
    return Ask(kind, None if block[kind] is True else block[kind], confidence, candidates, metric)


def _listed(read: Reader, fewest: int = 1, words: str = "must not be empty") -> Reader:
    def values(settings: Any, path: str) -> tuple[Any, ...]:
        found = tuple(read_list(settings, path, read))
        if len(found) < fewest:
            raise refusal(path, words)
        return found

    return values


def _readers(value: Reader) -> Mapping[str, Reader]:
    """Build readers for arguments whose spelling depends on the domain."""
    values = _listed(value)

    def pair(settings: Any, path: str) -> tuple[Any, ...]:
        ends: tuple[Any, ...] = _listed(value, 0)(settings, path)
        if len(ends) != 2:
            raise refusal(path, f"must contain the low and the high end, such as [0, 60], got {len(ends)} values")
        return ends

    def parts(settings: Any, path: str) -> Any:
        return values(settings, path) if isinstance(settings, list) else read_whole(settings, path)

    forms: dict[Takes, Reader] = {
        Takes.VALUES: values,
        Takes.RANGES: _listed(pair),
        Takes.EDGES: _listed(value, 2, "must contain at least two edges"),
        Takes.PARTS: parts,
    }
    found: dict[str, Reader] = {kind: forms[entry.takes] for kind, entry in QUESTIONS.items() if entry.takes in forms}
    return {**found, "candidates": _listed(value, 0)}


def _check_ranges(pairs: Any, path: str, domain: Any) -> None:
    for place, pair in enumerate(pairs):
        low, high = domain.index(pair)[0]
        if low > high:
            raise refusal(f"{path}[{place}]", f"must begin with the low end, got {pair[0]} and {pair[1]}")


def _read_share(value: Any, path: str) -> float:
    share = read_number(value, path)
    if not 0 <= share <= 1:
        raise refusal(path, "must be from 0 to 1, such as 0.5 for the median")
    return float(share)


def _read_true(value: Any, path: str) -> bool:
    if not read_flag(value, path):
        raise refusal(path, "must be true. To use another question, remove the setting")
    return True


def _read_hex(value: Any, path: str) -> bytes:
    read = read_item(value, path)
    return read if isinstance(read, bytes) else read_bytes(read, path)


def _read_real(value: Any, path: str) -> float:
    return float(value if value in ("inf", "-inf") else read_number(value, path))


def value_reader(domain: Domain | BytesDomain | None) -> Reader:
    """Build the reader for values of a domain, or for items if there is no domain."""

    def read_text(value: Any, path: str) -> Any:
        assert domain is not None
        try:
            if isinstance(value, str) or (isinstance(value, int) and domain.index([value])[1].all()):
                return domain.parse(str(value))
        except ValueError:
            pass
        raise refusal(path, f"expected {domain.written}")

    return read_item if domain is None else _READERS.get(domain.plain_type, read_text)


_READERS: Mapping[type, Reader] = {int: read_whole, float: _read_real, datetime.datetime: read_time, bytes: _read_hex}
"""Forms by value type. The spelling of text depends on the domain."""

_ASKED: Mapping[Takes, tuple[Form, str]] = {
    Takes.SHARES: (Form(list[float], _listed(_read_share)), "a list, such as `[0.5, 0.95]`"),
    Takes.VALUES: (ITEMS_FORM, "a list"),
    Takes.RANGES: (ITEMS_FORM, "a list of pairs, such as `[[0, 15], [15, 60]]`"),
    Takes.EDGES: (ITEMS_FORM, "a list, such as `[0, 15, 60]`"),
    Takes.PARTS: (ITEM_FORM, "a list of values, or a number N"),
    Takes.COUNT: (WHOLE_FORM, "a number K"),
    Takes.NOTHING: (Form(bool, _read_true), "`true`"),
}
_CANDIDATES = "with `top_k`: the public list of items to choose from; not required if the release itself finds values"

ASK_BLOCK = Block(
    "Ask",
    {
        **{
            kind: Entry(f"{words}: {entry.words}", form)
            for kind, entry in QUESTIONS.items()
            for form, words in [_ASKED[entry.takes]]
        },
        "candidates": Entry(_CANDIDATES, ITEMS_FORM),
        "metric": Entry("the name of the metric, for a release with several", TEXT_FORM),
        "confidence": Entry("the confidence of each interval, between 0 and 1", NUMBER_FORM, usual=0.95),
    },
)
"""Settings of each question. The domain defines the spelling of values."""
