"""`docs/beam_yaml.md` lists the columns that come out, and its code runs."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

from beam_dpsketch import rows
from beam_dpsketch.answers.questions import PRIVACY_COLUMNS, QUESTIONS, answer_columns

PAGE = (Path(__file__).parents[2] / "docs" / "beam_yaml.md").read_text(encoding="utf-8")


def table(first: str) -> dict[str, str]:
    """Return the rows of the table whose heading begins so."""
    body = PAGE.split(f"| {first} |")[1].split("\n\n")[0]
    return dict(re.findall(r"^\| (`[^|]*`) \| (.*) \|$", body, re.MULTILINE))


def names(words: str) -> list[str]:
    return re.findall(r"`(\w+)`", words)


def test_the_columns_of_each_question_are_those_of_the_page() -> None:
    listed = {names(kind)[0]: names(words) for kind, words in table("question").items()}
    assert listed == {kind: [*answer_columns(kind, int, truncates=False)] for kind in QUESTIONS}
    assert [names(name)[0] for name in table("column")] == [*PRIVACY_COLUMNS]


def test_the_types_of_each_question_are_those_of_the_page() -> None:
    for kind, words in table("question").items():
        typed = {name for part in words.split(";") if "of type T" in part for name in names(part)}
        found = answer_columns(names(kind)[0], bytes, truncates=False)  # type: ignore[arg-type]
        assert typed == {name for name, each in found.items() if each in (bytes, bytes | None)}


def test_the_page_names_every_transform() -> None:
    assert {name for each in table("transform") for name in names(each)} == {*rows.__all__}


def test_the_code_of_the_page_runs() -> None:
    """The median is 29 or 30, and each range holds about 1,500: the deviation is below 30, so 250 is 8 of them."""
    (code,) = re.findall(r"<!-- executed by \S+ -->\n```python\n(.*?)```", PAGE, re.DOTALL)
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(code, "documentation", "exec"), {"__name__": "documentation"})
    estimates = sorted(float(line.split()[0]) for line in output.getvalue().splitlines())
    assert abs(estimates[0] - 29.5) < 12
    assert all(abs(estimate - 1500) < 250 for estimate in estimates[1:])
    assert len(estimates) == 3
