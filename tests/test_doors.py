"""Messages are in the words of the door: no setting and no option is called by its name in Python."""

from __future__ import annotations

import ast
import pathlib
import re
import string
from collections.abc import Iterator

import pandas as pd
import pytest

import beam_dpsketch
from beam_dpsketch import errors
from tests.cli.consoles import run

PACKAGE = pathlib.Path(beam_dpsketch.__file__).parent
PYTHON = re.compile(
    r"\bPrivate[A-Z]\w*|(?<![\w.(])(?!pc\.)[A-Za-z_][\w.]*\((?!s\))|(?<![-\w])[a-z_]+=(?=[^=\s'])|\b(?:True|False|None|timedelta)\b"
    r"|\breleased\.\w"
)
"""A transform, a call, an argument by its name, a word of Python."""
ELSEWHERE = ("transforms", "rows")
"""Rooms that no command imports, or that raise nothing."""
PYTHON_ALONE = {
    "answers/privacy_statement.py:composed": "a method",
    "answers/release_file.py:load": "a function",
    "answers/released.py:": "attributes of releases",
    "answers/released.py:__getitem__": "a method",
    "answers/released.py:__init__": "releases that are made by hand",
    "answers/tree.py:with_total": "a method",
    "by_hand.py:release": "a function of raw sketches",
    "exact/declared/count.py:check_keys_type": "the type of an argument",
    "exact/declared/units.py:check_unit_type": "the type of an argument",
    "exact/declared/windows.py:_limit_periods": "windows of pipelines",
    "exact/declared/windows.py:window_starts": "windows of pipelines",
    "exact/domains/doors.py:": "how to cast a column, for those who make the table",
    "exact/domains/timestamps.py:duration_to_micros": "the type of an argument",
    "exact/reading/items.py:_readable": "how to cast a column, for those who make the table",
    "exact/reading/selectors.py:check_selector": "the type of an argument",
    "exact/reading/selectors.py:is_batch_type_by_name": "elements of pipelines",
    "exact/sketches/flat.py:__init__": "sketches that are made by hand",
    "exact/sketches/statistics.py:__post_init__": "the type of an argument",
    "frames/releasing.py:__missing__": "a mapping",
    "frames/steps/tables.py:_to_reader": "the type of a table",
    "planning/sketch_plan.py:_full": "a note in the words of Python and of settings",
    "plots/pictures.py:to_draw": "the type of an argument",
    "privacy/contributions.py:check_bounds": "the type of an argument",
    "privacy/loss/composition.py:_package": "a method",
    "privacy/loss/composition.py:event_of": "a method",
    "privacy/loss/payment.py:settle": "parts of a budget",
    "privacy/noise/keyed_randomness.py:check_secret": "secrets of pipelines",
    "privacy/shares.py:__reduce__": "parts of a budget",
    "privacy/shares.py:spend": "parts of a budget",
    "statement/stated.py:_check_parts": "fields of bytes",
    "statement/tabular.py:_refuse": "arithmetic",
    "statement/tabular.py:_require": "a method",
    "statement/tabular.py:to_arrow": "a method",
}
"""Functions whose messages no setting and no option causes, and why."""


def texts(path: pathlib.Path) -> Iterator[tuple[str, str]]:
    """Each text of a module that may be a message, with the function that it is in; docstrings are none."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    places: list[tuple[ast.AST, str]] = [(tree, "")]
    while places:
        node, function = places.pop()
        for child in ast.iter_child_nodes(node):
            inside = child.name if isinstance(child, ast.FunctionDef) else function
            if isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant):
                continue  # a docstring
            if isinstance(child, ast.JoinedStr):
                parts = (each.value if isinstance(each, ast.Constant) else "0" for each in child.values)
                yield function, "".join(map(str, parts))
            elif isinstance(child, ast.Constant) and isinstance(child.value, str):
                yield function, child.value
            elif isinstance(node, (ast.arguments, ast.arg)) or (
                isinstance(node, ast.AnnAssign) and child is node.annotation
            ):
                continue  # annotations
            else:
                places.append((child, inside))


def spelled(text: str, door: int) -> str:
    return string.Template(text).safe_substitute(errors._SPELLED[door])


def python_of(door: int) -> dict[str, list[str]]:
    """The texts that would name Python at this door, by module and function."""
    found: dict[str, list[str]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        module = path.relative_to(PACKAGE)
        if module.parts[0] in ELSEWHERE or module.name == "errors.py":
            continue
        for function, text in texts(path):
            # Regular expressions, SQL and annotations are no sentences.
            if (
                len(text.split()) > 3
                and not re.search(r"\\d|SELECT|\| None", text)
                and PYTHON.search(spelled(text, door))
            ):
                found.setdefault(f"{module}:{function}", []).append(spelled(text, door))
    return found


@pytest.mark.parametrize("door", [errors.SETTINGS, errors.SHELL])
def test_no_message_of_another_door_names_python(door: int) -> None:
    found = python_of(door)
    assert {place: words for place, words in found.items() if place not in PYTHON_ALONE} == {}


def test_the_list_of_exceptions_has_no_place_too_many() -> None:
    found = {*python_of(errors.SETTINGS), *python_of(errors.SHELL)}
    assert {*PYTHON_ALONE} - found == set()


def test_python_names_python_and_the_shell_names_options() -> None:
    assert len(python_of(errors.PYTHON)) > len(python_of(errors.SHELL)) + 10
    assert spelled("as in $norm_l1", errors.SHELL) == "as in --max-norm 20 --norm l1"
    for name, ways in errors._WAYS.items():
        for way in ways[1:]:
            assert not PYTHON.search(way), name


BASE = "visits.csv --kind frequencies --item city --privacy-id person --max-norm 3 --epsilon 2 --delta 1e-6"
OTHERS = {
    "plan": [
        "--kind frequencies --item city --privacy-id person --max-norm 3 --epsilon 2",
        "--kind frequencies --item city --privacy-id person --max-norm 3 --epsilon 2 --key k --select-keys 1e-8",
        "--kind frequencies --item city --privacy-id person --max-norm 3 --epsilon 2 --delta 1e-6 --noise laplace",
        "--kind quantiles --item n --privacy-id p --max-norm 3 --epsilon 2 --domain '{type: integer, low: 0, high: 9}'",
        "--kind statistics --item n --privacy-unit record --rho 1 --noise laplace --domain '{type: integer, "
        "low: 0, high: 9}'",
        "--kind frequencies --item city --privacy-id p --max-norm 3 --rho 1 --key k --select-keys 1e-8",
        "--kind frequencies --item city --privacy-id p --max-norm 3 --rho 1 --key k --public-keys k.txt --max-keys 2",
        "--kind frequencies --item city --privacy-id p --max-records 3 --rho 1 --key k --public-keys k.txt",
        "--kind frequencies --item city --privacy-id p --max-records 3 --max-keys 2 --rho 1",
        "--kind frequencies --item c --privacy-id p --max-records 3 --max-keys 9 --rho 1 --key k --public-keys k.txt",
        "--kind frequencies --item city --privacy-id p --max-norm 3 --rho 1 --weight w",
        "--kind frequencies --item city --privacy-id p --max-norm 3 --rho 1 --weight w --max-weight 9",
        "--kind frequencies --item city --privacy-unit record --rho 1 --weight w",
        "--kind frequencies --item city --privacy-unit record --rho 1e9",
        "--kind frequencies --item city --privacy-unit record --epsilon 500",
        "--kind frequencies --item city --privacy-unit record --rho 1 --delta 2",
        "--kind frequencies --item city --privacy-unit record --rho 1 --epsilon 2",
        "--kind frequencies --item city --privacy-unit record --rho 1 --typical 1 2",
        "--kind quantiles --item n --privacy-unit record --rho 1 --typical 9 2 --domain '{type: integer, low: "
        "0, high: 9}'",
        "--kind frequencies --item city --privacy-unit record --rho 1 --every 1d",
        "--kind frequencies --item city --privacy-unit record --rho 1 --time day --every 1d",
        "--kind frequencies --item city --privacy-unit record --rho 1 --time day --every 1d --start 2024-01-01 "
        "--end 2025-01-01"
        " --max-releases 7",
        "--kind frequencies --item c --privacy-unit record --rho 1 --time day --every 1d --start 2024-01-02 "
        "--end 2024-01-01",
        "--kind frequencies --item city --privacy-unit record --rho 1 --account a --ledger none.db",
        "--kind top_k --item t --k 0 --privacy-unit record --rho 1 --domain '{type: text, max_bytes: 9}'",
        "--kind top_k --item t --k 3 --privacy-unit record --rho 1 --domain '{type: text, max_bytes: 9999}'",
        "--kind quantiles --item t --privacy-unit record --rho 1 --domain '{type: text, max_bytes: 9}'",
        "--kind quantiles --item t --privacy-unit record --rho 1 --domain '{type: log, low: 0, high: 9, "
        "relative_step: 0.1}'",
        "--kind mean --item n --privacy-unit record --rho 1",
        "--config wrong.yaml",
        "--config groups.yaml",
        "--config geometric.yaml",
        "--config horizon.yaml",
    ],
    "run": [
        f"{BASE} --output x.csv",
        f"{BASE} --output x.dpsketch --item town",
        f"{BASE} --output x.dpsketch --max-norm 0",
        "visits.csv --kind quantiles --item city --privacy-unit record --rho 1 --domain '{type: integer, low: "
        "0, high: 9}' "
        "--output x.dpsketch",
        "visits.parquet --kind quantiles --item city --privacy-unit record --rho 1 --domain '{type: timestamp, start: "
        '"2024-01-01", end: "2024-02-01", step: 1d}\' --output x.dpsketch',
        "nothing.parquet --kind frequencies --item city --privacy-unit record --rho 1 --output x.dpsketch",
    ],
    "query": [
        "flat.dpsketch --top 3",
        "flat.dpsketch --quantile 0.5",
        "flat.dpsketch --mean",
        "flat.dpsketch --variance",
        "tree.dpsketch --range 5 3",
        "tree.dpsketch --histogram 5",
        "tree.dpsketch --estimate oslo",
        "numbers.dpsketch --variance",
        "listed.dpsketch --estimate Nowhere",
        "bare.dpsketch --privacy-units",
        "bare.dpsketch --records",
        "--top 3 flat.dpsketch",
        "flat.dpsketch --horizon 2024-01-01 1d 3 --total-weight",
    ],
    "plot": ["flat.dpsketch --top 3 --output x.png", "tree.dpsketch --histogram 3 1 --output x.png"],
    "ledger": ["create spent.db a", "create spent.db a --rho 1 --epsilon 2 --delta 1e-6", "show spent.db b"],
    "check": ["wrong.yaml", "groups.yaml", "geometric.yaml", "good.yaml --against visits.csv"],
    "rehearse": [f"{BASE} --quantile 50", "visits.csv --config good.yaml --item town"],
}
LINES = [(command, line) for command, lines in OTHERS.items() for line in lines]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Files that the lines name, with releases that do not answer what is asked."""
    path = tmp_path_factory.mktemp("doors")
    rows = pd.DataFrame({"person": range(50), "city": ["Oslo", "Bern"] * 25, "n": range(50)})
    rows.to_csv(path / "visits.csv", index=False)
    rows.to_parquet(path / "visits.parquet")
    (path / "k.txt").write_text("a\nb\n")
    text = {
        "wrong": (
            "{kind: frequencies, item: c, privacy: {epsilon: 1}, privacy_unit: {privacy_id: p, norm: {max_norm: 3}}}"
        ),
        "groups": "{kind: top_k, k: 3, item: c, domain: {type: text, max_bytes: 4}, method: threshold, "
        "privacy: {rho: 1}, privacy_unit: {privacy_id: p, norm: {max_norm: 3}}}",
        "geometric": "{kind: frequencies, item: c, privacy: {rho: 1, relation: replace_one}, privacy_unit: record, "
        "keys: {select: {delta: 1.0e-8, method: geometric}, field: k}}",
        "horizon": "{kind: quantiles, item: c, domain: {type: integer, low: 0, high: 9}, layout: factorization, "
        'privacy: {rho: 1}, privacy_unit: {privacy_id: p, norm: auto}, horizon: {start: "2024-01-01", window_size: 1d, '
        "windows: 3}}",
        "good": (
            "{kind: frequencies, item: city, privacy: {rho: 1}, privacy_unit: {privacy_id: person, norm: "
            "{max_norm: 3}}}"
        ),
    }
    for name, settings in text.items():
        (path / f"{name}.yaml").write_text(settings)
    base = {"privacy": {"rho": 1}, "privacy_unit": "record", "item": "n"}
    domain = {"type": "integer", "low": 0, "high": 99}
    made = {
        "flat": {**base, "kind": "frequencies", "item": "city"},
        "tree": {**base, "kind": "quantiles", "domain": domain},
        "numbers": {**base, "kind": "statistics", "domain": domain},
        "listed": {**base, "kind": "frequencies", "item": "city", "listed_items": ["Oslo"]},
        "bare": {**base, "kind": "frequencies", "item": "city", "privacy": {"rho": 1, "summary_counts": "none"}},
    }
    for name, settings in made.items():
        released = beam_dpsketch.release_frame(rows, settings)
        (path / f"{name}.dpsketch").write_bytes(b"")
        from beam_dpsketch.answers.release_file import RecordWriter, to_record

        with open(path / f"{name}.dpsketch", "wb") as file:
            writer = RecordWriter(file)
            writer.write(to_record(released))
            writer.close()
    return path


@pytest.mark.parametrize(("command", "line"), LINES, ids=[f"{command} {n}" for n, (command, _) in enumerate(LINES)])
def test_what_the_command_says_names_no_python(
    command: str, line: str, folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import shlex

    monkeypatch.chdir(folder)
    _, printed = run(command, *shlex.split(line))
    for each in printed.splitlines():
        assert not PYTHON.search(each), each
    assert "Traceback" not in printed
