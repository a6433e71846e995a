"""The example pipeline that finds phrases runs as a user runs it, and finds those that many paragraphs have."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from beam_dpsketch.answers.counts import ReleasedCounts
from beam_dpsketch.transforms import read_releases
from pipelines import frequent_phrases
from tests.helpers.example_runs import AS_USERS, RUNNERS, on_every_runner

pytestmark = AS_USERS
LISTED = r"^  ([a-z ]+?) +([\d,]+)   [\d,]+ to [\d,]+$"


def listed(printed: str) -> dict[str, int]:
    return {phrase: int(count.replace(",", "")) for phrase, count in re.findall(LISTED, printed, re.MULTILINE)}


@on_every_runner
def test_frequent_phrases(runner: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Sigma is about 1.5, so a count is 10 off in less than 1 run in 10^10; the phrase of one paragraph is hidden."""
    text = [f"Green tea, {number}. Blue  sea. Green tea" for number in range(300)]
    text += [f"Green  tea {'i' * (n % 40 + 1)} {'j' * (n // 40 + 1)}" for n in range(100)] + ["one secret"]
    source = tmp_path / "text.txt"
    source.write_text("\n".join(text))
    options = [f"--input={source}", "--epsilon=12", "--max_norm=3", f"--output={tmp_path / 'phrases'}"]
    frequent_phrases.main([*options, *RUNNERS[runner]])
    printed = capsys.readouterr().out
    found = listed(printed)
    assert next(iter(found)) == "green tea"
    assert found == pytest.approx({"green tea": 400, "tea blue": 300, "blue sea": 300, "sea green": 300}, abs=10)
    assert "secret" not in printed
    assert "Items         released if the noisy count reaches " in printed
    (release,) = read_releases(f"{tmp_path}/phrases-*.dpsketch")
    assert isinstance(release, ReleasedCounts)


@pytest.mark.slow
def test_phrases_of_the_manual(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The three most frequent phrases are far above the rest, by 10 sigma."""
    frequent_phrases.main([f"--output={tmp_path / 'phrases'}"])
    found = listed(capsys.readouterr().out)
    exact = Counter(
        phrase.phrase for text in set(frequent_phrases.manual()) for phrase in set(frequent_phrases.phrases(text, 2))
    )
    assert {phrase for phrase, _ in exact.most_common(1)} <= set(list(found)[:3])
