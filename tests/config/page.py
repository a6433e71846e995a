"""Makes the tables of `docs/settings.md` from the table of settings.

python -m tests.config.page
"""

from __future__ import annotations

import re
from pathlib import Path

from beam_dpsketch.config import settings
from beam_dpsketch.config.asking import ASK_BLOCK
from beam_dpsketch.config.forms import Block, Entry

PAGE = Path(__file__).parents[2] / "docs" / "settings.md"
BLOCKS = {
    "privacy": settings.PRIVACY_BLOCK,
    "summary_counts": settings.SUMMARY_BLOCK,
    "privacy_unit": settings.UNIT_BLOCK,
    "norm": settings.NORM_BLOCK.without("auto"),
    "auto": settings.AUTO_BLOCK,
    "records": settings.RECORDS_BLOCK,
    "keys": settings.KEYS_BLOCK,
    "calendar": settings.CALENDAR_BLOCK,
    "select": settings.SELECT_BLOCK,
    "windows": settings.WINDOWS_BLOCK,
    "horizon": settings.HORIZON_BLOCK,
    "time": settings.TIME_BLOCK,
    "csv": settings.CSV_BLOCK,
    "spec": settings.SPEC_BLOCK,
    "tree": settings.TREE_BLOCK.without("levels", "hash_version"),
    "levels": settings.TREE_BLOCK.only(("levels", "seed", "hash_version")),
    "level": settings.LEVEL_BLOCK,
    "method": settings.METHOD_BLOCK,
    "threshold": settings.THRESHOLD_BLOCK,
    "metric": settings.METRIC_BLOCK,
    "ask": ASK_BLOCK,
}
"""The tables of the page, by name."""


def tables() -> dict[str, str]:
    """Return the lines of all tables."""
    release = "".join(
        f"| `{name}` | {_kinds(entry)} | {_words(entry)} |\n" for name, entry in settings.RELEASE_BLOCK.entries.items()
    )
    types = "".join(
        f"| `{name}` | {', '.join(f'`{each}`' for each in block.without('type').entries) or 'none'} |\n"
        for name, block in settings.DOMAIN_TYPES.items()
    )
    return {
        "release": f"| setting | kinds | value |\n|---|---|---|\n{release}",
        "domain": f"| type | settings |\n|---|---|\n{types}",
        **{name: _table(block) for name, block in BLOCKS.items()},
    }


def made_anew(page: str) -> str:
    """Return the page with its tables as they should be."""
    known = tables()
    return re.sub(
        r"(<!-- table: (.+?) -->\n).*?(?=<!-- end -->)", lambda found: found[1] + known[found[2]], page, flags=re.DOTALL
    )


def _table(block: Block) -> str:
    rows = (f"| `{name}` | {_words(entry, name in block.required)} |\n" for name, entry in block.entries.items())
    return f"| setting | value |\n|---|---|\n{''.join(rows)}"


def _kinds(entry: Entry) -> str:
    return f"all but {', '.join(entry.without)}" if entry.without else ", ".join(entry.kinds) or "all"


def _words(entry: Entry, is_required: bool | None = None) -> str:
    required = bool(entry.needed) if is_required is None else is_required
    usual = "" if entry.usual in (None, "") else str(entry.usual)
    usual = usual if "`" in usual or not usual else f"`{usual}`"
    return f"{entry.words}{'; required' * required}{f'; {usual} if not given' * bool(usual)}"


if __name__ == "__main__":
    PAGE.write_text(made_anew(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
