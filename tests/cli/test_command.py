"""The command: exit codes, streams, formats, files, and that it starts without Beam."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from beam_dpsketch import CountSketch, Released, SketchSpec, read_releases
from beam_dpsketch.answers.over_time import TimelineRow
from beam_dpsketch.answers.released_sketch import ReleasedSketch
from beam_dpsketch.cli import stored
from beam_dpsketch.cli.main import main
from tests.cli.consoles import ROOT, run, write
from tests.helpers import by_hand

RELEASES = ROOT / "docs" / "releases"


def objects(*arguments: str) -> list[dict[str, Any]]:
    code, printed = run(*arguments, "--format", "json")
    assert code == 0, printed
    return [json.loads(line) for line in printed.splitlines() if line.startswith("{")]


def test_equal_errors_of_many_releases_are_a_line() -> None:
    """`golden.md` has notes that differ in their numbers."""
    cities = str(RELEASES / "cities.dpsketch")
    code, printed = run("query", cities, "--quantile", "0.5")
    assert code == 1
    (line,) = printed.splitlines()
    assert line.startswith(f"dpsketch: {cities}, key Italy and 1 more: A release of kind frequencies does not answer")


@pytest.mark.one_fast_case
@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["inspect", "delays.dpsketch"], 0),
        (["query", "delays.dpsketch", "--total-weight"], 0),
        (["query", "cities.dpsketch", "--quantile", "0.5"], 1),
        (["spent", "rides"], 0),
        (["inspect", "words.dpsketch", "--output", "{}/words.parquet"], 0),
        (["plot", "delays.dpsketch", "--cdf", "--output", "{}/delays.png"], 0),
        (["plan", "--kind", "frequencies", "--item", "city", "--privacy-unit", "record", "--rho", "1"], 0),
        (["check", "{}/missing.yaml"], 2),
        (["inspect", "delays.txt"], 2),
        (["query", "delays.dpsketch"], 2),
    ],
    ids=lambda value: " ".join(value[:2]) if isinstance(value, list) else "",
)
def test_each_command_runs_as_a_process_without_beam(tmp_path: Path, arguments: list[str], code: int) -> None:
    """Data is on stdout, and everything else on stderr, without a traceback."""
    watched = (
        "import sys; from beam_dpsketch.cli.main import main; code = main()\n"
        "loaded = [name for name in sys.modules if name.startswith(('apache_beam', 'beam_dpsketch.transforms'))]\n"
        "assert not loaded, loaded\nsys.exit(code)"
    )
    given = [each.format(tmp_path) for each in arguments]
    found = subprocess.run(
        [sys.executable, "-c", watched, *given],
        cwd=RELEASES,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == code, found.stderr
    assert all(line.startswith("dpsketch: ") for line in found.stderr.splitlines())
    assert bool(found.stdout) == (code == 0 and "--output" not in arguments)


def test_the_package_runs_as_a_module_and_output_that_nobody_reads_is_no_error() -> None:
    line = f"{sys.executable} -m beam_dpsketch query delays.dpsketch --cdf 100000 | head -n 1"
    found = subprocess.run(
        line, shell=True, cwd=RELEASES, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True
    )
    assert found.stdout.split() == ["value", "estimate", "lower", "95", "%", "upper", "95", "%"]
    (released,) = read_releases(str(RELEASES / "delays.dpsketch"), ReleasedSketch)
    assert "% of the total count was removed (estimated)" in found.stderr
    assert found.stderr.splitlines() == [f"dpsketch: delays.dpsketch: {released.clipping()}"]


@pytest.mark.usefixtures("folder")
def test_a_new_process_reads_releases_of_every_kind() -> None:
    """Classes of releases are registered by the package itself, not by what a test imports."""
    rows = {line for line in run("inspect", "vectors", "--format", "json")[1].splitlines() if line.startswith("{")}
    found = subprocess.run(
        [sys.executable, "-m", "beam_dpsketch", "inspect", "vectors", "--format", "json"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert {*found.stdout.splitlines()} == rows
    assert {json.loads(line)["kind"] for line in rows} >= {"factor", "metrics", "statistics", "groups"}


def test_the_help_is_the_same_where_python_drops_docstrings() -> None:
    """The lines of options are those of the arguments of classes, which stand in their docstrings."""
    code = "from beam_dpsketch.cli.main import main; main(['run', '--help'])"
    shown = [
        subprocess.run([sys.executable, *flags, "-c", code], cwd=ROOT, capture_output=True, text=True).stdout
        for flags in ([], ["-OO"])
    ]
    assert "are clamped to" in shown[0]
    assert shown[0] == shown[1]


def test_the_help_and_the_version_are_printed() -> None:
    for arguments in (["--help"], ["query", "--help"], ["--version"]):
        code, printed = run(*arguments)
        assert code == 0
        assert "dpsketch" in printed


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    "arguments", [["look", "x.dpsketch"], ["query", "x.dpsketch", "--total-weight", "--type", "x"]]
)
def test_choices_that_are_not_there_are_one_line_and_exit_code_2(arguments: list[str]) -> None:
    code, printed = run(*arguments)
    assert code == 2
    assert printed.startswith("dpsketch: argument ")
    assert printed.count("\n") == 1


@pytest.mark.usefixtures("folder")
def test_json_and_csv_hold_what_the_release_answers() -> None:
    (released,) = read_releases("delays.dpsketch", ReleasedSketch)
    rows = objects("query", "delays.dpsketch", "--quantile", "0.1", "0.9", "--confidence", "0.8")
    expected = released.quantile([0.1, 0.9], 0.8).to_rows()  # type: ignore[attr-defined]
    assert [{name: row[name] for name in expected[0]} for row in rows] == expected
    _, printed = run("query", "delays.dpsketch", "--rank", "15", "60", "--format", "csv")
    said, printed = printed.split("\n", 1)
    assert said == f"dpsketch: delays.dpsketch: {released.clipping()}"
    ranks = [float(row["estimate"]) for row in csv.DictReader(io.StringIO(printed))]
    assert ranks == released.rank([15, 60]).tolist()  # type: ignore[attr-defined]


@pytest.mark.usefixtures("folder")
def test_losses_are_rounded_up() -> None:
    for path in sorted(Path().rglob("*.dpsketch")):
        for row, element in zip(objects("inspect", str(path)), read_releases(path), strict=True):
            released: Any = element[1] if isinstance(element, tuple) else element
            statement = released.privacy
            assert statement.rho <= row["rho"] * (1 + 1e-15)
            assert row["rho"] <= float(statement.rho) * 1.00001
            assert (
                row["epsilon"] is None
                or statement.reported_epsilon <= row["epsilon"] <= statement.reported_epsilon * 1.001
            )


def test_folders_stand_for_all_releases_in_them_and_below(tmp_path: Path) -> None:
    """A file that was passed over would make what was spent look smaller."""
    names = ("a.dpsketch", "b/c.dpsketch", ".hidden.dpsketch", "b/.hidden/d.dpsketch", "[x]/e.dpsketch", "other.txt")
    for name in names:
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        write(tmp_path / "in" / name, by_hand.SKETCH)
    (tmp_path / "out").mkdir()
    write(tmp_path / "out" / "f.dpsketch", by_hand.SKETCH)
    (tmp_path / "in" / "link").symlink_to(tmp_path / "out")
    (tmp_path / "in" / "round").symlink_to(tmp_path / "in")
    found = {os.path.realpath(each.path) for each in stored.read_stored([str(tmp_path / "in")])}
    assert found == {str(tmp_path / "in" / name) for name in names[:5]} | {str(tmp_path / "out" / "f.dpsketch")}
    twice = stored.read_stored([str(tmp_path / "in" / "*.dpsketch"), str(tmp_path / "in" / "a.dpsketch")])
    assert len(twice) == 1


@pytest.mark.parametrize("shape", ["table", "csv", "json"])
def test_files_of_one_name_are_told_apart_by_their_folders(shape: str, tmp_path: Path) -> None:
    names = ("may/visits.dpsketch", "june/visits.dpsketch")
    for name in names:
        (tmp_path / name).parent.mkdir()
        write(tmp_path / name, by_hand.SKETCH)
    code, printed = run("query", *(str(tmp_path / name) for name in names), "--estimate", "a", "--format", shape)
    assert code == 0
    rows = [line for line in printed.splitlines() if not line.startswith("dpsketch: ")]
    for name in names:
        assert sum(str(tmp_path / name) in row for row in rows) == 1, printed


def test_a_damaged_file_is_told_and_the_others_are_added_up(tmp_path: Path) -> None:
    write(tmp_path / "b.dpsketch", by_hand.SKETCH)
    for name in ("a.dpsketch", "c.dpsketch"):
        (tmp_path / name).write_bytes(b"damaged")
    for command, words in (("spent", "Its privacy loss is not in these sums"), ("inspect", "release_id")):
        code, printed = run(command, str(tmp_path))
        assert code == 2
        assert all(f"{name}.dpsketch is damaged or not a release file" in printed for name in "ac")
        assert by_hand.SKETCH.privacy.relation.name in printed
        assert words in printed
    code, printed = run("query", str(tmp_path), "--total-weight")
    assert (code, printed.count("is damaged or not a release file")) == (2, 2)


@pytest.mark.parametrize("name", ["x-20240501T000000Z-2024050T010000Z", "x-20249901T000000Z-20240501T010000Z", "x"])
def test_names_without_a_window_have_none(name: str) -> None:
    assert stored.window_of(f"{name}.dpsketch") is None
    assert stored.window_of("h-20240501T000000.250000Z-20240501T000001Z.dpsketch") == (
        "2024-05-01T00:00:00.250000Z/2024-05-01T00:00:01Z"
    )


def test_text_that_the_terminal_cannot_show_is_escaped(tmp_path: Path) -> None:
    write(tmp_path / "x.dpsketch", ("Łódź \ud800", by_hand.SKETCH))
    found = subprocess.run(
        [sys.executable, "-m", "beam_dpsketch", "inspect", str(tmp_path / "x.dpsketch"), "--format", "csv"],
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        check=True,
    )
    assert b"\\u0141\\xf3d\\u017a \\ud800" in found.stdout


@pytest.mark.usefixtures("folder")
def test_the_bytes_in_a_table_are_the_releases() -> None:
    assert run("inspect", ".", "--output", "all.parquet")[0] == 0
    rows, found = pq.read_table("all.parquet").to_pylist(), stored.read_stored(["."])
    for row, each in zip(rows, found, strict=True):
        assert (TimelineRow if row["row"] else Released).from_bytes(row["release"]) == each.released
        assert row["release_ids"] == [release_id.hex() for release_id in each.released.privacy.release_ids]
        assert row["statement"] == each.released.privacy.text()


@pytest.mark.usefixtures("folder")
def test_inspect_never_replaces_what_it_reads() -> None:
    Path("words.dpsketch").rename("words.parquet")
    assert run("inspect", "words.parquet", "--output", "words.parquet", "--replace")[0] == 2
    assert read_releases("words.parquet")


@pytest.mark.usefixtures("folder")
def test_errors_repeat_no_item_that_a_file_holds() -> None:
    Path("secret.txt").write_text("sesame\n")
    Path("secret.bin").write_bytes(b"sesame\xff\n")
    for path in ("secret.txt", "secret.bin"):
        for release in ("delays.dpsketch", "vectors/listed_items.dpsketch", "vectors/dyadic_ipv4.dpsketch"):
            code, printed = run("query", release, "--top", "3", "--candidates", path)
            assert code in (1, 2)
            assert "sesame" not in printed
    code, printed = run("query", "cities.dpsketch", "--records", "--key", "Rome")
    assert (code, "Norway" in printed) == (1, False)


@pytest.mark.usefixtures("folder")
def test_a_header_is_no_candidate() -> None:
    column, *_ = read_releases("vectors/count_min_provenance.dpsketch")[0].privacy.provenance[0].items
    Path("header.txt").write_text(f"{column}\nOslo\n")
    asked = ("vectors/count_min_provenance.dpsketch", "--candidates", "header.txt")
    for line in (("query", *asked, "--top", "1"), ("explore", *asked, "--output", "a.html")):
        code, printed = run(*line)
        assert (code, "--candidates must be a file without a header" in printed) == (2, True), printed


def test_keys_are_matched_as_they_are_shown(tmp_path: Path) -> None:
    released = by_hand.released(CountSketch, SketchSpec(depth=1, width=3), [[1, 2, 3]])
    keys = ["a", 7, b"\x01", ("a", 7)]
    write(tmp_path / "keys.dpsketch", *((key, released) for key in keys))
    for text, key in (("a", "a"), ("7", 7), ("0x01", "0x01")):
        rows = objects("query", str(tmp_path / "keys.dpsketch"), "--estimate", "x", "--key", text)
        assert [row["key"] for row in rows] == [key]
    (row,) = objects("query", str(tmp_path / "keys.dpsketch"), "--estimate", "x", "--key", "a", "7")
    assert (row["key_1"], row["key_2"]) == ("a", 7)


@pytest.mark.usefixtures("folder")
def test_rows_of_several_runs_and_keys_answer_apart() -> None:
    rows = [each.released for each in stored.read_stored(["rides"])]
    write(Path("keyed.dpsketch"), *((key, row) for key in ("a", "b") for row in rows))
    horizon = ["--horizon", "2024-05-01T00:00Z", "1h", "6"]
    found = objects("query", "keyed.dpsketch", "rides", "rides/", "--records", *horizon)
    assert [row["key"] for row in found] == ["a", "b", None]
    assert len({row["estimate"] for row in found}) == 1


def test_a_command_without_arguments_takes_those_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["dpsketch", "inspect", str(RELEASES / "nothing.dpsketch")])
    assert main() == 2
