"""Docstrings, comments and pages use everyday words; `CONTRIBUTING.md` says what to write instead."""

import io
import re
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
COVERED = ("beam_dpsketch", "pipelines", "docs", "README.md", "CONTRIBUTING.md")
WORDS = (
    r"of which|so many|whatever|is there(?! a)|beside|for ever|likewise|letters(?!, digits)|stands? out of|at least one"
    r"|(?<!there )(?:is|are) no(?! longer)"
)


def prose(path: Path) -> str:
    """Return a page, or the docstrings and comments of code, without quoted phrases and with single spaces."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        tokens = [token.string for token in tokenize.generate_tokens(io.StringIO(text).readline)]
        comments = [token.removeprefix("#") for token in tokens if token.startswith("#")]
        text = " ".join(comments + [token.strip('"') for token in tokens if token.startswith('"""')])
    return " ".join(re.sub(r'"[^"\n]*"', "", text).split())


def avoided(text: str) -> list[str]:
    return re.findall(rf"\b(?:{WORDS})\b", text, re.IGNORECASE)


def test_prose_is_plain() -> None:
    files = [file for name in COVERED for file in (ROOT / name, *(ROOT / name).rglob("*"))]
    names = {str(file.relative_to(ROOT)) for file in files if file.suffix in (".py", ".md")}
    clean = {name: avoided(prose(ROOT / name)) for name in names}
    assert len(clean) > 60
    assert {name: words for name, words in clean.items() if words} == {}


@pytest.mark.parametrize("source", ['"""One of which\nwaits."""', "# These are no integers.", '"""Whatever comes."""'])
def test_planted_words_are_found(source: str, tmp_path: Path) -> None:
    (tmp_path / "planted.py").write_text(source)
    assert len(avoided(prose(tmp_path / "planted.py"))) == 1
