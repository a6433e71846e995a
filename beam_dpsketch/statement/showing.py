"""Tables for notebooks."""

from __future__ import annotations

import html
from collections.abc import Iterable
from typing import Any


def html_table(rows: Iterable[Iterable[Any]], *, header: Iterable[str] = (), caption: str = "") -> str:
    """Return an HTML table of these rows, with every text in it escaped."""
    head = "".join(f"<th>{_escaped(name)}</th>" for name in header)
    body = "".join(f"<tr>{''.join(f'<td>{_escaped(value)}</td>' for value in row)}</tr>" for row in rows)
    return f"<table><caption>{_escaped(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _escaped(value: Any) -> str:
    return html.escape(str(value)).replace("\n", "<br>")
