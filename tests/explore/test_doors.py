"""`explore` and `dpsketch explore` without a browser: what is taken, what is refused, and what is in the file."""

from __future__ import annotations

import datetime
import html.parser
import json
import os
import pathlib
import sys
from typing import Any

import numpy as np
import pandas as pd
import pytest

from beam_dpsketch import (
    CountSketch,
    DyadicCountSketch,
    FactorizationSpec,
    IntegerDomain,
    PrivacySpec,
    Released,
    ReleaseTerms,
    SketchSpec,
    SketchTimeline,
    TreeSpec,
    release,
)
from beam_dpsketch.cli.main import main
from beam_dpsketch.exact.sketches.factor import FactorHistogram
from beam_dpsketch.explore import Explored, content, explore, exploring
from tests.cli.consoles import make_folder
from tests.helpers import golden
from tests.helpers.explored import CITIES, HORIZON, HOSTILE, cities, delays, rides, statistics
from tests.helpers.pages import PAGES, fenced, printed_by

DAY = tuple(datetime.datetime(2024, 5, day, tzinfo=datetime.UTC) for day in (1, 2))


class Texts(html.parser.HTMLParser):
    """The texts of scripts by id, and the elements of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: dict[str | None, str] = {}
        self._inside: str | None = None

    def handle_starttag(self, tag: str, attributes: Any) -> None:
        self.elements.append((tag, dict(attributes)))
        self._inside = dict(attributes).get("id", "program") if tag == "script" else None

    def handle_data(self, data: str) -> None:
        if self._inside is not None:
            self.scripts[self._inside] = self.scripts.get(self._inside, "") + data


def texts_of(page: str) -> Texts:
    found = Texts()
    found.feed(page)
    return found


def data_of(page: str) -> Any:
    return json.loads(texts_of(page).scripts["data"])


def test_the_documented_code(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    monkeypatch.chdir(tmp_path)
    printed_by(fenced("In Python:", PAGES["explore"]))
    data = data_of((tmp_path / "minutes.html").read_text(encoding="utf-8"))
    assert [each["name"] for each in data["releases"]] == ["first week", "second week"]
    assert {each["counted"] for each in data["releases"]} == {"trips that the bounds kept"}
    assert [each["name"] for each in data["changes"]] == ["first week to second week"]
    assert data["spent"][0].startswith("All 2 runs of this page together: epsilon = ")


@pytest.mark.parametrize(
    ("releases", "places"),
    [
        (cities(), [{"file": None, "key": None, "window": None, "metric": None}]),
        ({"JFK": delays(), 7: delays(1)}, [{"key": "JFK"}, {"key": "7"}]),
        ([Explored(cities(), "a", window="2024-05-01T00:00:00Z/2024-05-02T00:00:00Z"), Explored(cities(), "b")],
         [{"file": "a", "window": "2024-05-01T00:00:00Z/2024-05-02T00:00:00Z"}, {"file": "b"}]),
        ([cities(), {"JFK": statistics()}], [{"key": None}, {"key": "JFK"}]),
        ({DAY: {"JFK": cities()}}, [{"key": "JFK", "window": "2024-05-01T00:00:00Z/2024-05-02T00:00:00Z"}]),
        ({"JFK": delays()}.values(), [{"key": None}]),
        ([Explored(cities(), "a"), Explored(delays(), "a"), Explored(cities(), "b")],
         [{"file": "a (1)"}, {"file": "a (2)"}, {"file": "b"}]),
        ({1: cities(), "1": delays()}, [{"file": "release (1)", "key": "1"}, {"file": "release (2)", "key": "1"}]),
        ([SketchTimeline(rides()[:1], HORIZON), SketchTimeline(rides()[:1], HORIZON)],
         [{"file": "release (1)"}, {"file": "release (2)"}]),
    ],
)  # fmt: skip
def test_what_is_taken(releases: Any, places: list[dict[str, Any]]) -> None:
    """The page lists each release once, under its file, key and window."""
    found = [release["place"] for release in data_of(explore(releases))["releases"]]
    assert len({tuple(each.values()) for each in found}) == len(found)
    assert [{**each, **place} for each, place in zip(found, places, strict=True)] == found


def test_ranges_of_a_timeline() -> None:
    timeline = SketchTimeline(rides(), HORIZON)
    found = data_of(explore(timeline))["releases"]
    assert len(found) == 10
    assert [each["is_whole"] for each in found].count(True) == 1
    assert [each["moment"] for each in found if each["moment"]] == [f"2024-05-01T0{hour}:00:00Z" for hour in range(4)]
    assert {(each["place"]["from"][11:13], each["place"]["to"][11:13]) for each in found} == {
        (f"{first:02}", f"{last + 1:02}") for first in range(4) for last in range(first, 4)
    }


def test_ranges_of_a_long_timeline() -> None:
    """Up to 24 windows have all; of more there is each window, and all up to each."""
    assert len(content.ranges_of(0, 23, 1)) == content.MOST_RANGES
    assert len(content.ranges_of(3, 26, 1 << 20)) == 47
    many = content.ranges_of(0, 24, 1)
    assert {*many} == {(each, each) for each in range(25)} | {(0, each) for each in range(25)}
    assert len({*many}) == len(many)


@pytest.mark.parametrize("releases", [[], {}, 7, ["text"], None])
def test_what_is_refused(releases: Any) -> None:
    with pytest.raises((ValueError, TypeError), match=r"releases must.*E723"):
        explore(releases)


def test_what_is_refused_is_named() -> None:
    """A data frame is not a list of its columns."""
    with pytest.raises(TypeError, match="got DataFrame"):
        explore(pd.DataFrame({"a": [1]}))


def test_changes_between_keys() -> None:
    """Keys of one file are compared, and what has a window is not with what has none."""
    by_key = {"JFK": delays(1), "EWR": delays(2)}
    assert [each["name"] for each in data_of(explore(by_key))["changes"]] == ["JFK to EWR"]
    assert data_of(explore([Explored(delays(1), "a"), {DAY: delays(2)}]))["changes"] == []


def test_units_that_are_records_are_told_once() -> None:
    timeline = SketchTimeline(rides(), HORIZON)
    numbers = [{number["kind"] for number in each["numbers"]} for each in data_of(explore(timeline))["releases"]]
    assert all("privacy_units" not in kinds for kinds in numbers)


@pytest.mark.parametrize("confidence", [0.0, 1.0, "0.9"])
def test_confidences_that_are_refused(confidence: Any) -> None:
    with pytest.raises((ValueError, TypeError), match="confidence must"):
        explore(cities(), confidence=confidence)


def test_what_does_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exploring, "MOST_BYTES", 1000)
    with pytest.raises(ValueError, match=r"Use fewer keys, windows, files or candidates.*E723"):
        explore(cities())


def test_without_plotly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    with pytest.raises(ImportError, match=r"pip install 'beam-dpsketch\[explore\]'"):
        explore(cities())


def test_candidates_and_confidence() -> None:
    """Flat sketches list their largest of the candidates; the confidence is that of all intervals."""
    data = data_of(explore(cities(), candidates=CITIES, confidence=0.5))
    (release,) = data["releases"]
    assert data["suggestions"] == CITIES
    assert [data_of(explore(cities(), candidates=each))["suggested_type"] for each in ([1, 2], [1, "a"], [], None)] == [
        "int",
        "text",
        "text",
        "text",
    ]
    expected = cities().top_k(1000, CITIES, 0.5)
    assert [row["item"] for row in release["top"]["rows"]] == [*expected.item]
    assert [row["lower"] for row in release["top"]["rows"]] == pytest.approx(expected.lower)
    assert data["confidence_words"].startswith("50 % intervals")
    assert data_of(explore(cities()))["releases"][0]["top"] is None


def test_what_is_to_be_known_of_the_largest() -> None:
    """That noise picked some of them, and where all of them are within noise, as items of another type are."""
    notes = [
        data_of(explore(cities(), candidates=each))["releases"][0]["top"]["notes"] for each in (CITIES, [1, 2], ["a"])
    ]
    assert [len(each) for each in notes] == [1, 2, 0]
    assert "Check the type, unit and spelling" in notes[1][1]


def test_items_that_are_cut() -> None:
    """They are shown as such in the list of the largest."""
    (content,) = data_of(explore(golden.good()["groups_text"]))["releases"]
    assert {row["item"] for row in content["top"]["rows"]} == {"ab", "abc\u2026", ""}


def test_numbers_of_metrics() -> None:
    """What the whole of several metrics does not count, each may still tell."""
    released = golden.good()["metrics_factor"]
    (weight,) = data_of(explore(released))["releases"][0]["numbers"]
    assert weight["estimate"] == pytest.approx(released.parts["a"].total_weight().estimate)


def test_changes_behind_releases_that_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    """Releases that cannot be compared take no room from those that can."""
    monkeypatch.setattr(content, "_MOST_PAIRS", 1)
    others = [FactorHistogram(FactorizationSpec(IntegerDomain(0, high))).accumulate([1, 2]) for high in (5, 6, 7)]
    differing = [release(each, ReleaseTerms(PrivacySpec(rho=1.0))) for each in others]
    (change,) = data_of(explore([*differing, Explored(delays(1), "one"), Explored(delays(2), "two")]))["changes"]
    assert change["name"] == "one to two"


def test_changes() -> None:
    """Of two releases of one kind, it tells the largest changes and the distance."""
    entries = [Explored(delays(1), "one"), Explored(delays(2), "two"), Explored(cities(), "cities")]
    (change,) = data_of(explore(entries))["changes"]
    assert change["name"] == "one to two"
    expected = delays(2).movers(delays(1), 20)
    assert [row["item"] for row in change["rows"]] == [str(item) for item in expected.item]
    assert [row["change"] for row in change["rows"]] == pytest.approx(expected.change)
    distance = delays(2).distance(delays(1))
    assert f"squared changes, is {distance.estimate:,.1f}, from" in " ".join(change["words"])


def test_noise_is_no_change() -> None:
    """Of two releases of the same items, no row says that it changed; of others, what changed says so.

    False alarms: 2e-9 for the list of equal items, whose confidence is 1 - 1e-9; with 5 % for each, all 20 would be.
    """
    names = [f"item {number}" for number in range(1000)]
    terms, spec = ReleaseTerms(PrivacySpec(rho=1.0)), SketchSpec(width=1024, seed=1)
    releases = [release(CountSketch(spec).accumulate(names * 5), terms) for _ in range(2)]
    releases.append(release(CountSketch(spec).accumulate([*names * 5, *names[:1] * 2000]), terms))
    first, second, third = (Explored(each, str(place)) for place, each in enumerate(releases))
    (change,) = data_of(explore([first, second], candidates=names, confidence=1 - 1e-9))["changes"]
    assert [row["changed"] for row in change["rows"]] == [False] * 20
    (change,) = data_of(explore([first, second], candidates=names))["changes"]
    alone = [row for row in change["rows"] if row["lower"] > 0 or row["upper"] < 0]
    assert len(alone) > sum(row["changed"] for row in change["rows"])
    (change,) = data_of(explore([second, third], candidates=names))["changes"]
    assert change["rows"][0]["item"] == "item 0"
    assert change["rows"][0]["changed"]


def test_nothing_leads_outside() -> None:
    """No element of the page names another address, and scripts stand under a policy with their digests."""
    page = texts_of(explore(cities(), title=HOSTILE))
    for tag, attributes in page.elements:
        assert not {"src", "srcset", "action", "onerror", "onclick", "style"} & attributes.keys(), tag
        assert attributes.get("href", "#").startswith("#")
    (policy,) = (each["content"] for tag, each in page.elements if each.get("http-equiv"))
    assert policy is not None
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe-eval" not in policy
    assert "img" not in {tag for tag, _ in page.elements}


def test_texts_cannot_end_the_data() -> None:
    key = "</script><script>alert(1)</script><!--"
    found = texts_of(explore({key: cities()}, candidates=[key]))
    assert len([tag for tag, _ in found.elements if tag == "script"]) == 3
    assert json.loads(found.scripts["data"])["releases"][0]["place"]["key"] == key


def test_no_exact_number_is_in_it() -> None:
    """All numbers of a reading are those of the file, from which the same page is made."""
    released = delays()
    again = Released.from_bytes(released.to_bytes())
    assert explore(again) == explore(released)


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    code = main(["explore", *arguments])
    printed = capsys.readouterr()
    assert printed.out == ""
    return code, printed.err


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> pathlib.Path:
    make_folder(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_command(folder: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Files with windows in their names are one name with windows; keys and candidates are as elsewhere."""
    code, said = run(capsys, "delays.dpsketch", "--output", "a.html", "--title", "<b>", "--confidence", "0.9")
    assert (code, said) == (0, "dpsketch: wrote a page about 1 release(s), 5 MB, to a.html\n")
    page = (folder / "a.html").read_text(encoding="utf-8")
    assert "<title>&lt;b&gt;</title>" in page
    assert data_of(page)["confidence"] == 0.9
    code, said = run(capsys, "rides", "--horizon", "2024-05-01T00:00Z", "1h", "6", "--output", "b.html")
    assert code == 0
    assert len(data_of((folder / "b.html").read_text(encoding="utf-8"))["releases"]) == 21
    code, said = run(
        capsys, "rides", "--horizon", "2024-05-01T00:00Z", "1h", "6", "--windows", "2", "3", "--output", "c.html"
    )
    places = [each["place"] for each in data_of((folder / "c.html").read_text(encoding="utf-8"))["releases"]]
    assert [each["from"][11:13] + each["to"][11:13] for each in places] == ["0203", "0204", "0304"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["delays.dpsketch", "--output", "page.txt"], "--output must end with .html, which"),
        (
            ["rides", "--horizon", "2024-05-01T00:00Z", "1h", "6", "--windows", "2", "1", "--output", "page.html"],
            "must be at most last",
        ),
        (["delays.dpsketch", "--output", "delays.dpsketch"], "--output must end with"),
        (["rides", "--output", "page.html"], "Set --horizon START SIZE WINDOWS"),
        (
            ["delays.dpsketch", "--output", "page.html", "--metric", "none"],
            "no release in these files has this --metric",
        ),
        (["cities.dpsketch", "--output", "page.html", "--candidates", "cities.txt", "--type", "int"], "whole numbers"),
        (["missing.dpsketch", "--output", "page.html"], "no file matches"),
    ],
)
def test_what_the_command_refuses(
    folder: pathlib.Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    code, said = run(capsys, *arguments)
    assert code in (1, 2)
    assert words in said
    assert not os.path.exists("page.html")


def test_a_release_that_was_cut(folder: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = (folder / "delays.dpsketch").read_bytes()
    (folder / "cut.dpsketch").write_bytes(data[: len(data) // 2])
    code, said = run(capsys, "cut.dpsketch", "--output", "page.html")
    assert code == 2
    assert said.startswith("dpsketch: cut.dpsketch is damaged or not a release file")
    assert not os.path.exists("page.html")


def test_large_positions_are_exact() -> None:
    """Numbers of a domain beyond what floats hold stay whole in the list of the largest."""
    low = (1 << 60) + 1
    tree = DyadicCountSketch(TreeSpec.for_memory(IntegerDomain(low, low + 1000), 20_000))
    released = release(tree.accumulate(np.full(2000, low + 7)), ReleaseTerms(PrivacySpec(rho=1.0)))
    (content,) = data_of(explore(released))["releases"]
    assert content["top"]["rows"][0]["item"] == str(low + 7)
