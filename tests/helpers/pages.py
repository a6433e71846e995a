"""The pages of the documentation, and what their code prints."""

import contextlib
import io
import re
import warnings
from pathlib import Path

from beam_dpsketch import InputWarning, PrivacyWarning

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = {path.stem: path.read_text(encoding="utf-8") for path in ROOT.glob("docs/*.md")}


def fenced(after: str, text: str = README) -> str:
    """The first fenced block after a marker."""
    match = re.search(re.escape(after) + r".*?```\w*\n(.*?)```", text, re.DOTALL)
    assert match, after
    return match.group(1)


def printed_by(code: str) -> str:
    """What a block of code prints."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output), warnings.catch_warnings():
        warnings.simplefilter("error", InputWarning)
        warnings.simplefilter("error", PrivacyWarning)
        exec(compile(code, "documentation", "exec"), {"__name__": "documentation"})
    return output.getvalue()
