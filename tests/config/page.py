"""Makes the tables of `docs/settings.md` from the table of settings.

python -m tests.config.page
"""

from __future__ import annotations

import re
from pathlib import Path

from beam_dpsketch.config import layout_settings, settings
from beam_dpsketch.config.asking import ASK
from beam_dpsketch.config.blocks import Block, Entry

PAGE = Path(__file__).parents[2] / "docs" / "settings.md"
BLOCKS = {
    "privacy": settings.PRIVACY,
    "side_counters": settings.SIDE_COUNTERS,
    "unit": settings.UNIT,
    "norm": settings.NORM.without("auto"),
    "auto": settings.AUTO,
    "records": settings.RECORDS,
    "keys": settings.KEYS,
    "select": settings.SELECT,
    "windows": settings.WINDOWS,
    "horizon": settings.HORIZON,
    "time": settings.TIME_COLUMN,
    "csv": settings.CSV,
    "spec": layout_settings.SPEC,
    "tree": layout_settings.TREE.without("levels", "hash_version"),
    "levels": layout_settings.TREE.only(("levels", "seed", "hash_version")),
    "level": layout_settings.LEVEL,
    "method": settings.METHOD,
    "groups": settings.GROUPS,
    "metric": settings.METRIC,
    "ask": ASK,
}
"""The tables of the page, by name."""


def tables() -> dict[str, str]:
    """Return the lines of all tables."""
    release = "".join(
        f"| `{name}` | {_kinds(entry)} | {_words(entry)} |\n" for name, entry in settings.RELEASE.entries.items()
    )
    types = "".join(
        f"| `{name}` | {', '.join(f'`{each}`' for each in block.without('type').entries) or 'none'} |\n"
        for name, block in layout_settings.DOMAIN_TYPES.items()
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
    usual = "" if entry.usual is None else f"; `{entry.usual}` if not given"
    return f"{entry.words}{'; required' * required}{usual}"


if __name__ == "__main__":
    PAGE.write_text(made_anew(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
