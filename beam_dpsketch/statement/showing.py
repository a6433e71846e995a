"""Formatting of values in sentences and tables."""

from __future__ import annotations

import datetime
import html
import ipaddress
import math
from collections.abc import Iterable
from typing import Any


def short(value: Any) -> str:
    """Format a value for tables. `None` is an unknown estimate."""
    if value is None:
        return "cannot tell"
    if not isinstance(value, float):
        return printable(str(value))
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.4g}"


def printable(text: str) -> str:
    """Escape characters that control a terminal, such as line ends."""
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape", "surrogatepass").decode("ascii") for each in text
    )


def shown(value: float) -> str:
    """Format a number for sentences."""
    return f"{value:,.0f}" if abs(value) >= 1000 else short(value)


def plain(value: Any) -> Any:
    """Convert to JSON types: bytes to hex, times to ISO 8601, tuples to lists, numpy numbers to Python numbers."""
    import numpy as np  # slow, and the command needs `printable` for its help

    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, bytes):
        return f"0x{value.hex()}"
    if isinstance(value, datetime.datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, ipaddress.IPv4Address):
        return str(value)
    if isinstance(value, (tuple, list)):
        return [plain(part) for part in value]
    if isinstance(value, dict):
        return {name: plain(part) for name, part in value.items()}
    return value


def finite(value: Any) -> Any:
    """Replace numbers that JSON lacks by `None`: unknown and unbounded values."""
    if isinstance(value, list):
        return [finite(part) for part in value]
    if isinstance(value, dict):
        return {name: finite(part) for name, part in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value


# fmt: off
OTHER_COLUMNS = frozenset({
    "file", "metric", "window", "windows", "window_start", "window_end", "time", "from", "to", "kind", "row", "over",
    "bytes", "holds", "release", "statement", "place", "item", "value", "quantile", "range_low", "range_high",
    "question", "estimate", "lower", "upper", "confidence", "truncated", "notes", "clipping", "clipped",
    "clipped_at_least", "clipped_upper_estimate", "rho", "epsilon", "delta", "keys_delta", "relation", "protected",
    "release_id", "release_ids",
})
# fmt: on
"""Columns of releases and answers, except key columns."""


def key_columns(key: Any, names: tuple[str, ...] = ()) -> dict[str, Any]:
    """Name the column of a key `key`, and the columns of a tuple by the names in its statement.

    A column without a name, or with the name of another column, is `key_1`, `key_2` and so on by its place.
    """
    if not isinstance(key, tuple):
        return {"key": key}
    names = names if len(names) == len(key) else ("",) * len(key)
    own = [is_key_column(name) and names.count(name) == 1 and not is_numbered(name) for name in names]
    found = zip(names, own, key, strict=True)
    return {name if has else f"key_{place}": part for place, (name, has, part) in enumerate(found, 1)}


def is_numbered(name: str) -> bool:
    """Whether `key_columns` may give this name to a column without a name."""
    return name[:4] in ("key", "key_")


def is_key_column(name: str) -> bool:
    """Whether a column of a release or an answer belongs to its key."""
    return bool(name) and name not in OTHER_COLUMNS


def in_words(value: Any) -> str:
    """Format a value as text, with tuples in parentheses. Empty for `None` and NaN."""
    value = plain(value)
    if isinstance(value, list):
        return f"({', '.join(map(in_words, value))})"
    return "" if value is None or value != value else str(value)


def within(value: float, lower: float, upper: float) -> str:
    """Format a number as in sentences, with more digits if its interval is narrow.

    >>> within(117.263, 116.91, 117.62), within(2763.4, 2500.0, 3000.0), within(2.872, 0.0, 100.0)
    ('117.26', '2,763', '2.872')
    """
    half = (upper - lower) / 2
    digits = 1 - math.floor(math.log10(half)) if 0 < half < math.inf else 0
    return shown(value) if digits <= 0 else f"{value:,.{digits}f}"


def interval_words(confidence: float, clipping: Any = None) -> str:
    """Name intervals by their confidence and scope."""
    is_clipped = clipping is not None and clipping.can_happen
    return f"{100 * confidence:.10g} % intervals" + " for the clipped data" * is_clipped


def html_table(rows: Iterable[Iterable[Any]], *, header: Iterable[str] = (), caption: str = "") -> str:
    """Build an HTML table for notebooks, with all text escaped."""
    head = "".join(f"<th>{_escaped(name)}</th>" for name in header)
    body = "".join(f"<tr>{''.join(f'<td>{_escaped(value)}</td>' for value in row)}</tr>" for row in rows)
    return f"<table><caption>{_escaped(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _escaped(value: Any) -> str:
    return html.escape(str(value)).replace("\n", "<br>")
