"""Function `explore`: an interactive page for releases, as HTML text."""

from __future__ import annotations

import base64
import hashlib
import html
import importlib.resources
import json
import math
from collections.abc import Iterable, Iterator, Sequence
from string import Template
from typing import Any

import numpy as np

from beam_dpsketch import checks as _validate
from beam_dpsketch.answers.released import Released
from beam_dpsketch.answers.rows import Many, as_list
from beam_dpsketch.errors import ArgumentError
from beam_dpsketch.explore.content import Explored, Wanted, changes_of, contents_of, distinct, entries_of
from beam_dpsketch.statement.accounting import add_up
from beam_dpsketch.statement.clipping import COLUMNS, weakest
from beam_dpsketch.statement.showing import in_words, interval_words
from beam_dpsketch.words import round_up

MOST_BYTES = 1 << 26
_NO_LIST = (
    "The most frequent items are not available, because a sketch stores no items. The author of the page can add a "
    "public list of candidates."
)
_PAGE = importlib.resources.files("beam_dpsketch.explore") / "page"
_SCRIPTS = (
    *("bytes", "typed", "hashing", "items"),
    *("domains", "fourier", "toeplitz", "ranks", "factor", "nodes", "tree", "readers"),
    *("showing", "charts", "curve", "statement", "log", "asking", "over_time", "by_key"),
    *("asking_items", "asking_ranks", "changes"),
)
"""Parts of the page's program in order of dependency. `app` starts the program."""


def explore(
    releases: Any,
    *,
    title: str = "A private release",
    candidates: Many | None = None,
    value: str | None = None,
    weight: str | None = None,
    confidence: float = 0.95,
) -> str:
    """Build an interactive page for releases: self-contained HTML that any browser opens without network access.

    Args:
      releases: a release or `SketchTimeline`, a dict by key or window as from `release_frame`, or a list with these or
        `Explored` entries.
      title: the page title.
      candidates: items that the page suggests, and from which flat sketches list the largest. They must be public,
        because the page shows them.
      value: label and unit for values, such as "delay, minutes".
      weight: label for counts, such as "flights". The default is "records", or "weight" with weights.
      confidence: the confidence of each interval, in (0, 1).

    Raises:
      ValueError: there are no releases, or too many for a page.
      TypeError: an object is not a release.
      ImportError: plotly is missing: `pip install 'beam-dpsketch[explore]'`.
    """
    _validate.open_unit_interval(confidence=confidence)
    _validate.instance(str, title=title)
    items = None if candidates is None else as_list(_validate.many(candidates=candidates))
    return assemble(title, _data(distinct(entries_of(releases)), Wanted(confidence, items, value, weight)))


def _data(entries: list[Explored], wanted: Wanted) -> dict[str, Any]:
    chosen = [each for entry in entries for each in entry.chosen]
    clipping = weakest(each.released.clipping() for each in chosen)
    changes, left = changes_of(entries, wanted)
    return {
        "confidence": wanted.confidence,
        "clipping_columns": COLUMNS,
        "confidence_words": interval_words(wanted.confidence, clipping),
        "releases": [content for each in chosen for content in contents_of(each, wanted)],
        "spent": [*_spent(each.released for each in chosen if each.is_whole)],
        "no_list": _NO_LIST,
        "changes": changes,
        "changes_left": left,
        "suggested_type": _type_of(wanted.candidates or ()),
        "suggestions": [*map(in_words, wanted.candidates or ())],
    }


def _spent(releases: Iterable[Released]) -> Iterator[str]:
    """Report the composed privacy loss of all runs in a page."""
    for spent in add_up(released.privacy for released in releases):
        if not spent.is_private:
            yield "A release of this page is NOT PRIVATE: the seed of its noise is public."
        elif spent.run_count > 1:
            epsilon, delta = spent.reported_epsilon, spent.loss.shown(spent.reported_delta)[1]
            least = epsilon if math.isinf(epsilon) else round_up(epsilon, 4)
            yield (
                f"All {spent.run_count} runs of this page together: epsilon = {least:g} at delta = "
                f"{round_up(delta, 4):g}, if all are about the same people, for {spent.privacy_unit.value}; "
                f"{spent.loss.attack_words}."
            )


def _type_of(candidates: Sequence[Any]) -> str:
    """Default type for items that a reader types."""
    return "int" if candidates and all(isinstance(item, (int, np.integer)) for item in candidates) else "text"


def assemble(title: str, data: dict[str, Any]) -> str:
    """Assemble the page from its title and data."""
    text = _as_script_data(data)
    if len(text) > MOST_BYTES:
        raise ArgumentError(
            "releases",
            f"must fit into a page of {MOST_BYTES >> 20} MiB, got {len(text) >> 20} MiB. Use fewer keys, windows, "
            "files or candidates, or make several pages",
            "E723",
        )
    script, charts = f"{read_scripts()}\n{_read('app.js')}", charts_library()
    return Template(_read("page.html")).substitute(
        policy=_policy([script, charts]),
        title=html.escape(title.encode("utf-8", "backslashreplace").decode("utf-8")),
        style=_read("page.css"),
        data=text,
        script=script,
        charts=charts,
        confidence=f"Intervals are {data['confidence_words']}.",
    )


def _as_script_data(data: dict[str, Any]) -> str:
    """Format JSON that cannot close its HTML script element."""
    return json.dumps(data, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")


def _policy(scripts: Iterable[str]) -> str:
    """Build a content security policy that allows only these scripts, inline styles for Plotly, and no network."""
    allowed = f"script-src {' '.join(map(_hash, scripts))}; style-src 'unsafe-inline'; img-src data: blob:"
    return f"default-src 'none'; {allowed}; base-uri 'none'; form-action 'none'"


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def read_scripts() -> str:
    """Load the page's program, without the call that starts it."""
    return "\n".join(_read(f"{name}.js") for name in _SCRIPTS)


def _read(name: str) -> str:
    return (_PAGE / name).read_text(encoding="utf-8")


def charts_library() -> str:
    """Load the plotly program."""
    try:
        from plotly.offline import get_plotlyjs
    except ImportError:
        raise ImportError("pages require plotly: pip install 'beam-dpsketch[explore]'") from None
    script: str = get_plotlyjs()
    return script
