"""The pages of a beginner are short, their code runs one block after another, and prints what they show."""

import math
import re

import pytest

from beam_dpsketch import PrivacySpec
from beam_dpsketch.words import round_up
from tests.cli.consoles import run_block
from tests.helpers.pages import PAGES, README, ROOT, fenced, printed_by

PATH = ("first_release", "first_pipeline", "choosing")
"""The pages of a beginner, after the first page."""
WORDS, README_WORDS = 3000, 900
_NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?")


def run_page(name: str) -> str:
    return printed_by("\n".join(re.findall(r"```python\n(.*?)```", PAGES[name], re.DOTALL)))


def shown(name: str) -> str:
    return fenced("<!-- checked by tests/test_first_pages.py -->", PAGES[name])


def words(text: str) -> str:
    return _NUMBER.sub("#", text)


def test_the_path_of_a_beginner_is_short() -> None:
    assert len(README.split()) <= README_WORDS
    assert sum(len(text.split()) for text in (README, *(PAGES[name] for name in PATH))) <= WORDS


def test_a_first_release_is_near_the_truth_and_says_how_much_was_clipped() -> None:
    """A count has a deviation below 87, and a clipped one below 44: 700 and 350 are 8 of them."""
    for text in (run_page("first_release"), PAGES["first_release"]):
        found = re.findall(r"^\d +\d +(home|news|help|shop) +(-?[\d.]+) ", text, re.MULTILINE)
        counts = {item: float(estimate) for item, estimate in found}
        assert counts == pytest.approx({"home": 10_000, "news": 5000, "help": 5000, "shop": 0}, abs=700)
        home = re.findall(r"^Frequency\(item='home', estimate=([\d.]+),", text, re.MULTILINE)
        assert [*map(float, home)] == pytest.approx([5000], abs=350)
        assert re.search(r"^Clipping: (about|between) ", text, re.MULTILINE)


@pytest.mark.pipeline
def test_answers_of_a_first_pipeline_are_near_the_truth() -> None:
    """A count has a deviation below 68, and 540 is 8 of them; a quantile is far from its neighbors by rank."""
    for text in (run_page("first_pipeline"), PAGES["first_pipeline"]):
        found = re.findall(r"^Frequency\(item='(\w+)', estimate=([\d.]+),", text, re.MULTILINE)
        counts = {item: float(estimate) for item, estimate in found}
        assert counts == pytest.approx({"home": 10_000, "news": 5000, "help": 5000}, abs=540)
        (times,) = re.findall(r"^Interval\(estimate=([\d.]+), .*Interval\(estimate=([\d.]+),", text, re.MULTILINE)
        assert [*map(float, times)] == pytest.approx([68, 112], rel=0.15)


@pytest.mark.pipeline
def test_top_k_lists_of_all_ways_are_alike() -> None:
    """The deviation of a count is below 31, and 250 is more than 8 of them."""
    visits = {"/home": 12_000, "/news": 6000, "/help": 2000}
    expected = {"listed": visits, "unknown": visits, "after deletions": {"/home": 3000, "/news": 1000}}
    for text in (run_page("top_k"), PAGES["top_k"]):
        lines = dict(re.findall(r"^(listed|unknown|after deletions): (/.*)$", text, re.MULTILINE))
        assert lines.keys() == expected.keys()
        for name, line in lines.items():
            found = {item: int(count) for item, count in re.findall(r"(/\w+) (\d+) \[", line)}
            assert found == pytest.approx(expected[name], abs=250)


def test_an_attacker_guesses_as_well_as_the_pages_say() -> None:
    rows = re.findall(r"^\| (\d) \| ([\d.]+) \| ([\d.]+) % \| ([\d.]+) % \|$", PAGES["choosing"], re.MULTILINE)
    assert [row[0] for row in rows] == ["1", "2", "3"]
    for epsilon, odds, *accuracies in rows:
        assert float(odds) == pytest.approx(math.exp(int(epsilon)), abs=0.05)
        for noise, accuracy in zip(("gaussian", "laplace"), accuracies, strict=True):
            loss = PrivacySpec(epsilon=int(epsilon), delta=1e-6, noise=noise).loss()
            assert f"{round_up(100 * loss.attack_accuracy, 3):g}" == accuracy
    gaussian, laplace = rows[0][2:]
    assert f"{gaussian} % accuracy under Gaussian noise, and {laplace} % under Laplace noise" in README


def test_plots_are_drawn(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_page("plots")
    assert {path.name for path in tmp_path.iterdir()} == {"cdf.png", "bins.png"}


def test_a_narrow_domain_has_better_tails_as_the_page_says() -> None:
    """Errors of values are means of 64 releases of made-up data: those of the tails differ by a factor of 2."""
    made, of_page = run_page("choosing"), shown("choosing")
    assert words(made) == words(of_page)
    for text in (made, of_page):
        wide, narrow = (float(error.replace(",", "")) for error in re.findall(r"± ([\d,.]+) at 0\.99", text))
        assert wide > 2 * narrow


def test_a_rehearsal_shows_exact_bounded_and_private_answers() -> None:
    """A count has a deviation below 14, and 110 is 8 of them; draws of the sample differ by less than 8 of theirs."""
    pattern = r"^(\w+) +([\d,]+) +([\d,]+) +([\d,]+)  [\d,]+ to [\d,]+$"
    for text in (run_page("rehearse"), PAGES["rehearse"]):
        found = re.findall(pattern, text, re.MULTILINE)
        rows = {item: [float(number.replace(",", "")) for number in numbers] for item, *numbers in found}
        assert {item: row[0] for item, row in rows.items()} == pytest.approx(
            {"home": 12_000, "news": 5000, "help": 2000, "jobs": 1000}, abs=560
        )
        for exact, bounded, private in rows.values():
            assert bounded < exact
            assert abs(private - bounded) < 110
        assert re.search(r"^The bounds removed 1\d\.\d % of", text, re.MULTILINE)
        assert text.count("A rehearsal spends nothing.") == 1


@pytest.mark.pipeline
def test_means_and_counts_by_day_are_near_the_truth() -> None:
    """A mean has a deviation below 0.4, a count one below 43: 10 and 300 are 7 of them, or more."""
    output = run_page("from_pipelinedp")
    means = dict(re.findall(r"^(\w+) about ([\d.]+), from [\d.]+ to [\d.]+$", output, re.MULTILINE))
    assert {city: float(mean) for city, mean in means.items()} == pytest.approx({"Oslo": 100, "Rome": 100}, abs=10)
    days = re.findall(r"(\d+) \[", [line for line in output.splitlines() if line.startswith("<")][-1])
    assert [*map(int, days)] == pytest.approx([2000] * 5, abs=300)  # the first five are shown


def test_the_command_of_the_readme_releases_and_answers(tmp_path, monkeypatch) -> None:
    """The deviation of an estimate is below 8: 60 is more than 7 of them."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    printed = run_block(fenced("## In a shell"))
    found = re.findall(r"^ +\d +(\w+) +(-?[\d.]+)", printed, re.MULTILINE)
    assert {item: float(estimate) for item, estimate in found} == pytest.approx({"Oslo": 200, "Rome": 100}, abs=60)
