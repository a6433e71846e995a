"""`plot`, `plan`, `check` and completion, beyond what the pages show."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from beam_dpsketch.config import read_release
from beam_dpsketch.transforms import PrivateFrequencies, PrivateTopK
from beam_dpsketch.transforms.steps.second_round import COST_OF_ROUNDS
from tests.cli.consoles import ROOT, run, write
from tests.helpers import by_hand

pytest.importorskip("matplotlib")
pytestmark = pytest.mark.usefixtures("folder")

VISITS = (ROOT / "docs" / "releases" / "visits.yaml").read_text()


def test_pictures_are_written_once_replaced_when_asked_and_equal() -> None:
    line = ("plot", "delays.dpsketch", "--cdf", "--output", "x.svg")
    assert run(*line)[0] == 0
    first = Path("x.svg").read_bytes()
    assert run(*line) == (2, "dpsketch: x.svg already exists. To replace it, use --replace [dpsketch-E901]\n")
    assert run(*line, "--replace")[0] == 0
    assert Path("x.svg").read_bytes() == first
    Path("delays.dpsketch").rename("delays.png")
    code, printed = run("plot", "delays.png", "--cdf", "--output", "delays.png", "--replace")
    assert (code, printed) == (2, "dpsketch: --output must differ from all input files [dpsketch-E901]\n")


def test_more_panels_than_fit_are_refused_and_no_file_is_left() -> None:
    write(Path("many.dpsketch"), *((f"sesame{number}", by_hand.SKETCH) for number in range(13)))
    line = ("plot", "many.dpsketch", "--top", "1", "--candidates", "cities.txt", "--output", "x.png")
    code, printed = run(*line)
    assert code == 2
    assert "at most 12 panels. Select a key with --key" in printed
    assert not Path("x.png").exists()
    assert run(*line, "--key", "sesame7")[0] == 0


def test_files_with_windows_in_their_names_are_drawn_over_time() -> None:
    for hour in (2, 0, 1):
        path = Path(f"h-20240501T0{hour}0000Z-20240501T0{hour + 1}0000Z.dpsketch")
        write(path, ("a", by_hand.SKETCH), ("b", by_hand.SKETCH))
    code, printed = run("plot", "h-*.dpsketch", "--estimate", "x", "y", "--output", "x.svg")
    assert (code, printed) == (0, "dpsketch: drew 2 panel(s) to x.svg\n")


def test_windows_of_one_name_in_different_folders_have_panels_with_titles() -> None:
    for month in ("05", "06"):
        Path(month).mkdir()
        write(Path(f"{month}/h-2024{month}01T000000Z-2024{month}02T000000Z.dpsketch"), by_hand.SKETCH)
    assert run("plot", "05", "06", "--estimate", "x", "--output", "x.svg")[0] == 0
    drawn = Path("x.svg").read_text(encoding="utf-8")
    assert all(f"{month}/h" in drawn for month in ("05", "06"))


def test_answers_of_some_releases_are_drawn_and_the_exit_code_says_that_others_are_not() -> None:
    code, printed = run("plot", "delays.dpsketch", "words.dpsketch", "--cdf", "--output", "x.png")
    assert code == 1
    assert "A release of kind frequencies does not answer --cdf. Use --estimate, --top, " in printed
    assert Path("x.png").exists()


def test_without_matplotlib_the_extra_is_named() -> None:
    hidden = "import sys; sys.modules['matplotlib'] = None; from beam_dpsketch.cli.main import main; sys.exit(main())"
    line = ["plot", "delays.dpsketch", "--cdf", "--output", "x.png"]
    found = subprocess.run([sys.executable, "-c", hidden, *line], capture_output=True, text=True, check=False)
    assert found.returncode == 2
    assert "pip install 'beam-dpsketch[plot]' [" in found.stderr
    assert found.stderr.count("\n") == 1


def test_a_plan_has_the_words_of_the_transform() -> None:
    config = read_release(VISITS)
    transform = PrivateFrequencies(config.spec, config.privacy, privacy_unit=config.privacy_unit, item=config.item)
    assert run("plan", "--config", "visits.yaml") == (0, f"{transform.explain()}\n")
    line = "--kind top_k --item w --k 3 --domain ipv4 --rho 1 --privacy-id p --max-norm 4"
    Path("groups.yaml").write_text("method: {threshold: {delta: 1e-8}}\n")
    config = read_release(
        "{kind: top_k, item: w, k: 3, domain: ipv4, privacy: {rho: 1}, privacy_unit: {privacy_id: p, "
        "norm: {max_norm: 4, max_keys: 2}}, method: {threshold: {delta: 1e-8}}}"
    )
    count: Any = config.count
    top: Any = PrivateTopK(count.domain, config.privacy, k=3, privacy_unit=config.privacy_unit, method=count.method)
    code, printed = run("plan", "--config", "groups.yaml", *line.split(), "--max-keys", "2")
    assert (code, f"{printed}{COST_OF_ROUNDS[True]}") == (0, top.explain())  # the command has no shuffles


def test_a_plan_as_json_has_the_numbers_of_its_words() -> None:
    code, printed = run("plan", "--config", "visits.yaml", "--format", "json", "--records", "1e4")
    row = json.loads(printed)
    planned = read_release(VISITS).plan()
    assert code == 0
    assert (row["n"], row["half_width"], row["rho"]) == (10_000, planned.half_width, float(planned.terms.privacy.rho))  # type: ignore[union-attr]
    assert row["errors"]["half_width"] > row["half_width"] * 0.9
    Path("time.yaml").write_text(f"{VISITS}horizon: {{start: '2024-01-01', window_size: 1d, windows: 30}}\n")
    code, printed = run("plan", "--config", "time.yaml", "--format", "json")
    assert code == 0
    assert "over all windows of the horizon" in json.loads(printed)["protected"]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"city": ["a"], "person": [1]}, ""),
        ({"town": ["a"], "person": [1]}, "item: 'city' is not a column"),
        (
            {"city": [1.5], "person": [1]},
            "item='city' must contain text, bytes or integers, got double. Round the column",
        ),
        ({"city": ["a"], "person": [[1]]}, "privacy_id='person' must contain"),
    ],
    ids=["fits", "missing", "floats", "lists"],
)
def test_settings_are_checked_against_columns_without_their_values(columns: dict[str, Any], message: str) -> None:
    pq.write_table(pa.table(columns), "data.parquet")
    code, printed = run("check", "visits.yaml", "--against", "data.parquet")
    assert code == (2 if message else 0)
    assert message in printed


def test_a_record_in_the_first_line_is_not_shown() -> None:
    """Nor is a value that is nearly the name of a column."""
    Path("headless.csv").write_text("citi,sesame\n")
    code, printed = run("check", "visits.yaml", "--against", "headless.csv")
    assert (code, "must contain column names" in printed) == (2, True)
    assert "citi" not in printed
    assert "sesame" not in printed


def test_a_column_of_csv_that_holds_no_usable_value_is_refused_without_its_values() -> None:
    """Its type is that of the settings, so only the values tell."""
    Path("delays.csv").write_text("delay,person\nsesame,1\nopen,2\n")
    Path("delays.yaml").write_text(
        "{kind: quantiles, item: delay, domain: {type: integer, low: 0, high: 9}, privacy: {rho: 1}, "
        "privacy_unit: record}"
    )
    code, printed = run("check", "delays.yaml", "--against", "delays.csv")
    assert code == 2
    assert (
        "item='delay': all of the values cannot be read as whole numbers (IntegerDomain). They look like A" in printed
    )
    assert "sesame" not in printed


def test_broken_data_are_refused_without_their_bytes() -> None:
    for name in ("x.parquet", "x.csv"):
        Path(name).write_bytes(b"\xffsesame" if name == "x.csv" else b"sesame")
        code, printed = run("check", "visits.yaml", "--against", name)
        assert code == 2
        assert "sesame" not in printed


@pytest.mark.one_fast_case
@pytest.mark.parametrize("shell", ["bash", "zsh", "tcsh"])
def test_shells_complete_commands_options_and_files(shell: str) -> None:
    """With the line of the page."""
    pytest.importorskip("shtab")
    (line,) = re.findall(r"^shtab .*$", (ROOT / "docs" / "command_line.md").read_text(encoding="utf-8"), re.MULTILINE)
    given = line.replace("bash", shell).split()[1:]
    found = subprocess.run([sys.executable, "-m", "shtab", *given], capture_output=True, text=True, check=True)
    printed = found.stdout
    for word in ("inspect", "plot", "plan", "check", "max-norm", "so-far"):
        assert word in printed
    files = {"bash": "_shtab_compgen_files", "zsh": "_files", "tcsh": "/f/'"}[shell]
    assert printed.count(files) > 5
