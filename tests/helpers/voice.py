"""Rates of words and forms in the prose of the project, per 1,000 words, which `tests/test_voice.py` limits.

Four kinds of text: docstrings, pages, messages (strings of exceptions, warnings and notes) and subjects of commits.
The limits are a little above the highest rates of six comparable libraries.

python -m tests.helpers.voice    # checks the subjects of the last 100 commits
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.helpers import notebooks

ROOT = Path(__file__).parents[2]
KINDS = ("docstrings", "pages", "messages", "commits")
# The limit of each kind in this order, then the pattern; "-" is no limit.
TABLE = r"""
what         1    3    1    1    \bwhat\b
one          4    3    8    4    \bones?\b(?! or more| of the| for each| per| by one| machine)
speech       2    5    4.5  1    \b(?:say|says|said|saying|tell|tells|told|know|knows|let|lets|want|wants)\b
take         1.5  2    1    1    \b(?:take|takes|took|taking)\b
hold         1    1    1    1    \b(?:hold|holds|held|holding)\b
those        0.5  0.5  0.5  0.5  \b(?:those|that) of\b|\bthose (?:that|who|in|with)\b
nobody       1    1    1    1    \b(?:nobody|nothing|no one|nowhere)\b
of           36   28   22   17   \bof\b
of-of        2.5  1.5  1    -    \bof (?:\w+ ){1,3}of\b
front-of     0.3  0.3  0.3  -    (?:^|[.;:,] )of\b(?! course|:)
so-yet       1.5  2.5  1.5  -    (?:^|[.;:,] )(?:so|yet|else|thus|also)\b
semicolon    3    2.5  12   -    ;[ ]
"""
_ROWS = [line.split(None, 5) for line in TABLE.strip().splitlines()]
_VERBS = "Return|Yield|Say|Tell|Refuse|Do|Note|Read|List"
FIRST_LINE = "first line, %"
_FIRST_LINES = {
    "docstrings": rf"(?:{_VERBS})s? (?:what|which|whether|how|as|where|those|all|the same)\b",
    "commits": r"(?:say|tell|let|know|ask|count|name|leave) (?:what|how|which|where|that|of|the|no|one|it|all|a|in)\b",
}
LIMITS = {
    kind: {row[0]: float(row[1 + place]) for row in _ROWS if row[1 + place] != "-"}
    | ({FIRST_LINE: 1.0} if kind in _FIRST_LINES else {})
    for place, kind in enumerate(KINDS)
}


def docstrings(folder: Path) -> list[str]:
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = [node for tree in _trees(folder) for node in ast.walk(tree) if isinstance(node, documented)]
    return [text for text in map(ast.get_docstring, nodes) if text]


def messages(folder: Path) -> list[str]:
    calls = [node for tree in _trees(folder) for node in ast.walk(tree) if isinstance(node, ast.Call)]
    found = [
        " ".join(text for value in (*call.args, *(each.value for each in call.keywords)) for text in _strings(value))
        for call in calls
        if re.search(r"(?:Error|Warning|Note|\bwarn)$", ast.unparse(call.func))
    ]
    return [text for text in found if len(text.split()) > 2]


def pages() -> list[str]:
    """The pages for people: all but the reference that Beam generates."""
    at_the_top = {ROOT / name for name in ("README.md", "RELEASING.md", "SECURITY.md")}
    files = {*ROOT.glob("docs/*.md"), *at_the_top} - {ROOT / "docs" / "yaml_reference.md"}
    texts = [path.read_text(encoding="utf-8") for path in sorted(files)]
    return [prose(text) for text in [*texts, *map(notebooks.text, notebooks.NOTEBOOKS)]]


def prose(text: str) -> str:
    """Drop code, tables, headings, comments and link targets; keep sentences."""
    text = re.sub(r"```.*?```|<!--.*?-->|<[^>\n]+>", " ", text, flags=re.DOTALL)
    text = re.sub(r"^\s*(?:\||>>>|#|[=~^-]{4,}).*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"^(?: {4,}|\t).*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)|`+[^`]*`+", lambda match: match[1] or "X", text)
    return re.sub(r"^\s*[*+-] |^\s*\d+\. |\*\*?", "", text, flags=re.MULTILINE)


def commits(count: int = 100) -> list[str]:
    """The subjects of the last commits, without their areas; none outside of a repository."""
    command = ["git", "-C", str(ROOT), "log", "--no-merges", "--format=%s", f"-{count}"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.splitlines()


def rates(texts: Iterable[str], kind: str) -> dict[str, float]:
    """Measure each pattern, per 1,000 words."""
    texts = [*texts]
    joined = "\n\n".join(texts)
    blocks = [re.sub(r"\s+", " ", block) for block in re.split(r"\n\s*\n", joined)]
    words = max(1, len(re.findall(r"[A-Za-z][A-Za-z']*", joined)))
    found = {row[0]: 1000 * sum(len(re.findall(row[5], each, re.I)) for each in blocks) / words for row in _ROWS}
    if kind in _FIRST_LINES:
        starts = sum(bool(re.match(_FIRST_LINES[kind], text, re.I)) for text in texts)
        found[FIRST_LINE] = 100 * starts / max(1, len(texts))
    return found


def above(texts: Iterable[str], kind: str) -> dict[str, float]:
    """Return the rates above their limits."""
    return {name: round(rate, 2) for name, rate in rates(texts, kind).items() if rate > LIMITS[kind].get(name, 1e9)}


def _trees(folder: Path) -> Iterator[ast.AST]:
    files = sorted(folder.rglob("*.py")) if folder.is_dir() else [folder]
    return (ast.parse(path.read_text(encoding="utf-8")) for path in files)


def _strings(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Constant):
        return [node.value] if isinstance(node.value, str) and " " in node.value else []
    if isinstance(node, ast.JoinedStr):
        return ["".join(str(part.value) if isinstance(part, ast.Constant) else "X" for part in node.values)]
    return [text for child in ast.iter_child_nodes(node) for text in _strings(child)]


if __name__ == "__main__":
    subjects = commits()
    long = [each for each in subjects if len(each) > 72]
    found = above((re.sub(r"^[\w, /-]+: ", "", each) for each in subjects), "commits")
    sys.exit(f"subjects of commits: {found or ''} {long or ''}" if found or long else 0)
