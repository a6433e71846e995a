"""Pages in Chromium: what is typed, dragged and read back, hostile texts, cut files, and who cannot see."""

from __future__ import annotations

import datetime
import pathlib
import re
from typing import Any

import numpy as np
import pytest

from beam_dpsketch import (
    CountSketch,
    DyadicCountSketch,
    PrivacySpec,
    Released,
    ReleaseTerms,
    SketchSpec,
    SketchTimeline,
    TimestampDomain,
    TreeSpec,
    release,
)
from beam_dpsketch.answers.metrics import ReleasedMetrics
from beam_dpsketch.explore import Explored, explore
from beam_dpsketch.statement.clipping import COLUMNS
from tests.helpers import by_hand, golden
from tests.helpers.browser import Browser
from tests.helpers.explored import CITIES, HORIZON, HOSTILE, cities, delays, hostile, rides, statistics

pytestmark = pytest.mark.browser
STANDS = """const slider = document.getElementById('value-slider');
return [document.querySelector('.cursor').hidden, slider.className, slider.getAttribute('aria-valuetext')]"""


def shown(browser: Browser, folder: pathlib.Path, releases: Any, **more: Any) -> None:
    """Open the page of releases."""
    path = folder / "page.html"
    path.write_text(explore(releases, **more), encoding="utf-8")
    browser.open(path)


def typed(browser: Browser, selector: str, text: str) -> None:
    """Type in place of what a box holds."""
    box = browser.find(selector)
    box.clear()
    box.send_keys(text)


def cells_of(browser: Browser) -> list[list[str]]:
    """The texts of all rows of tables among the answers."""
    cells = "[...row.cells].map((cell) => cell.textContent)"
    return browser.run(f"return [...document.querySelectorAll('#ask tbody tr')].map((row) => {cells})")


def numbers(text: str) -> list[float]:
    return [float(each.replace(",", "")) for each in re.findall(r"-?\d[\d,]*(?:\.\d+)?", text)]


def test_a_typed_item(browser: Browser, tmp_path: pathlib.Path) -> None:
    """Its answer is Python's in the digits that the interval allows, and stays in the table of answers."""
    released = cities()
    shown(browser, tmp_path, released, candidates=CITIES)
    typed(browser, "#item", "Oslo\n")
    answer, expected = browser.text("#item-answer"), released.interval("Oslo")
    assert answer.startswith("Oslo: about ")
    for told, truth in zip(numbers(answer), (expected.estimate, expected.lower, expected.upper), strict=True):
        assert abs(told - truth) <= (expected.upper - expected.lower) / 40
    rows = browser.run(
        "return asked.map(({ question, answer }) => [question, answer.estimate, answer.lower, answer.upper])"
    )
    assert rows == [["records of Oslo", pytest.approx(expected.estimate), *map(pytest.approx, expected[2:])]]
    assert browser.text("#answers tbody td:nth-child(2)") == "records of Oslo"
    assert browser.text("#answers tbody td:last-child") == "cannot happen"
    assert not browser.complaints()


def test_answers_as_csv(browser: Browser, tmp_path: pathlib.Path) -> None:
    """A formula has an apostrophe, and quotes are doubled."""
    shown(browser, tmp_path, cities())
    typed(browser, "#item", '=1+"a"\n')
    lines = browser.run("return answersAsCsv()").splitlines()
    told = ",".join(COLUMNS)
    assert lines[0] == f"file,key,window,from,to,metric,question,estimate,lower,upper,confidence,{told}"
    assert '"records of =1+""a"""' in lines[1]
    assert browser.run("return csvCell('=1')") == "'=1"
    assert lines[1].endswith(",0.95,cannot happen,0,0,0")


def test_negative_numbers_as_csv(browser: Browser, tmp_path: pathlib.Path) -> None:
    """They stay numbers, and formulas that begin with a minus do not."""
    shown(browser, tmp_path, delays())
    typed(browser, "#share", "0\n")
    released = delays().quantile(0)
    assert browser.run("return answersAsCsv()").endswith(
        f",value at 0 %,{','.join(map(str, released))},0.95,cannot happen,0,0,0\n"
    )
    assert released.lower < 0  # the first value of the domain, whatever the noise is
    assert browser.run("return ['-1+1', '-1.5e-7', '-x'].map(csvCell)") == ["'-1+1", "-1.5e-7", "'-x"]


def test_an_item_of_the_type_that_is_suggested(browser: Browser, tmp_path: pathlib.Path) -> None:
    """Whole numbers that are suggested are asked as whole numbers."""
    released = release(CountSketch(SketchSpec(width=64)).accumulate([42] * 500), ReleaseTerms(PrivacySpec(rho=1.0)))
    shown(browser, tmp_path, released, candidates=[42, 43])
    typed(browser, "#item", "42\n")
    assert browser.run("return asked[0].answer.estimate") == pytest.approx(released.estimate(42))


def test_answers_that_say_more(browser: Browser, tmp_path: pathlib.Path) -> None:
    """What is not known is no number, and what is cut says so; neither breaks the page, however long."""
    shown(browser, tmp_path, golden.good()["groups_text"])
    typed(browser, "#item", "zz\n")
    assert browser.text("#item-answer").startswith("zz: records that the bounds kept cannot be told, 0.0 to ")
    typed(browser, "#item", "abc" * 1000 + "\n")
    assert "in the first 3 bytes, count as one" in browser.text("#item-answer")
    assert browser.run("return document.documentElement.scrollWidth <= window.innerWidth")


def test_windows_of_other_kinds(browser: Browser, tmp_path: pathlib.Path) -> None:
    """Where a window does not answer about an item, the line has a gap; one item has one line."""
    windows = [f"2024-05-0{day}T00:00:00Z/2024-05-0{day + 1}T00:00:00Z" for day in (1, 2, 3)]
    asked = (cities(), delays(), cities())
    shown(browser, tmp_path, [Explored(each, "a", window=place) for each, place in zip(asked, windows, strict=True)])
    for _ in range(2):
        typed(browser, "#item", "Oslo\n")
    drawn = browser.run("return document.getElementById('time-chart').data[2].y")
    assert drawn == [pytest.approx(cities().estimate("Oslo")), None, pytest.approx(cities().estimate("Oslo"))]
    options = browser.run("return [...document.getElementById('series').options].map((each) => each.text)")
    assert options.count("records of Oslo") == 1
    assert not browser.complaints()


def test_a_dragged_line(browser: Browser, tmp_path: pathlib.Path) -> None:
    """The box, the slider and the answer follow the pointer; Python says the same of the value."""
    from selenium.webdriver import ActionChains

    released = delays()
    shown(browser, tmp_path, released)
    browser.wait_for("document.querySelector('#curve .main-svg')")
    curve = browser.find("#curve")
    ActionChains(browser.driver).move_to_element(curve).click_and_hold().move_by_offset(120, 0).release().perform()
    value = int(browser.run("return document.getElementById('value').value"))
    assert value != released.quantile(0.5).estimate
    share = released.cdf_interval(value)
    told = [each / 100 for each in numbers(browser.text("#share-answer"))[:3]]
    assert told == pytest.approx([share.estimate, share.lower, share.upper], abs=0.005)
    assert not browser.run("return document.querySelector('.cursor').hidden")


def test_a_curve_of_one_value(browser: Browser, tmp_path: pathlib.Path) -> None:
    """It shows the values beside it too, and the line stands in it, though the domain has 10,000 years."""
    ends = (datetime.datetime(year, 1, 1, tzinfo=datetime.UTC) for year in (1, 9999))
    domain = TimestampDomain(*ends, datetime.timedelta(hours=1))
    tree = DyadicCountSketch(TreeSpec.for_memory(domain, 20_000))
    times = np.full(100_000, np.datetime64("2024-05-01T10:00", "us"))
    shown(browser, tmp_path, release(tree.accumulate(times), ReleaseTerms(PrivacySpec(rho=1.0))))
    browser.wait_for("document.querySelector('#curve .main-svg')")
    range_of = "document.querySelector('#curve .chart')._fullLayout.xaxis.range"
    low, high = (datetime.datetime.fromisoformat(each[:16]) for each in browser.run(f"return {range_of}"))
    assert low < datetime.datetime(2024, 5, 1, 9) < datetime.datetime(2024, 5, 1, 11) < high
    assert high - low < datetime.timedelta(hours=4)
    assert not browser.run("return document.querySelector('.cursor').hidden")


def test_the_keyboard_is_enough(browser: Browser, tmp_path: pathlib.Path) -> None:
    """A slider moves by arrow keys, and Enter keeps an answer."""
    from selenium.webdriver.common.keys import Keys

    shown(browser, tmp_path, delays())
    before = browser.text("#share-answer")
    browser.find("#value-slider").send_keys(Keys.ARROW_RIGHT * 40)
    assert browser.text("#share-answer") != before
    typed(browser, "#share", "90\n")
    assert browser.text("#answers tbody td:nth-child(2)") == "value at 90 %"
    browser.find("#clear").send_keys(Keys.ENTER)
    assert browser.run("return document.activeElement.id") == "ask"


def test_wrong_values_are_refused_in_words(browser: Browser, tmp_path: pathlib.Path) -> None:
    shown(browser, tmp_path, delays())
    typed(browser, "#value", "noon")
    assert browser.run("return document.getElementById('share-answer').className") == "answer refused"
    browser.wait_for("document.querySelector('#curve .main-svg')")
    for refused, said in (("50.5", 'in place of "50.5".'), ("", ": type such a value."), (" ", ": type such a value.")):
        typed(browser, "#value", "7")
        assert not browser.run(STANDS)[0]
        typed(browser, "#value", refused or "1\b")
        assert browser.text("#share-answer").endswith(said)
        assert browser.run(STANDS) == [True, "refused", "none"]
    typed(browser, "#value", "12")
    assert browser.run(STANDS) == [False, "", "12"]
    assert browser.run("return document.getElementById('share-answer').className") == "answer"
    typed(browser, "#share", "101")
    assert "from 0 to 100" in browser.text("#quantile-answer")
    typed(browser, "#low", "50")
    typed(browser, "#high", "10")
    assert "swap" in browser.text("#range-answer")
    assert browser.run("return asked.length") == 0
    assert not browser.complaints()


def test_windows_are_chosen(browser: Browser, tmp_path: pathlib.Path) -> None:
    """Any range of a timeline can be asked; items are drawn over time."""
    timeline = SketchTimeline(rides(), HORIZON)
    shown(browser, tmp_path, timeline)
    assert browser.text("#choice p") == ""
    for name, place in (("from", 1), ("to", 1)):
        browser.run(
            "const box = document.getElementById(arguments[0]); box.selectedIndex = arguments[1];"
            "box.dispatchEvent(new Event('change'))",
            f"choose-{name}",
            place,
        )
    typed(browser, "#item", "Oslo\n")
    expected = timeline.between(1, 2).interval("Oslo")
    found = browser.run("const { answer } = asked[0]; return [answer.estimate, answer.lower, answer.upper]")
    assert found == pytest.approx([expected.estimate, expected.lower, expected.upper])
    drawn = browser.run("return document.getElementById('time-chart').data[2].y")
    assert drawn == pytest.approx([timeline.between(each, each).estimate("Oslo") for each in range(4)])
    assert "The L2 distance" in browser.text("#changes")


def test_windows_of_a_long_timeline(browser: Browser, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a window is all that begins there, the page says where it ends too."""
    monkeypatch.setattr("beam_dpsketch.explore.content.MOST_RANGES", 5)
    shown(browser, tmp_path, SketchTimeline(rides(), HORIZON))
    assert browser.text("#choice p").startswith("This page has each window alone")
    browser.run("chosen.from = arguments[0]; show();", "2024-05-01T02:00:00Z")
    found = browser.run(
        "return [...document.querySelectorAll('#choice select')].map((each) => each.selectedOptions[0].text)"
    )
    assert found == ["2024-05-01T02:00:00Z", "2024-05-01T03:00:00Z"]


def test_keys_are_chosen(browser: Browser, tmp_path: pathlib.Path) -> None:
    """A page that a dict of releases makes answers for each key; what is chosen stays chosen."""
    by_key = {"JFK": delays(1), "EWR": delays(2)}
    shown(browser, tmp_path, by_key)
    typed(browser, "#value", "12")
    browser.run(
        "const box = document.getElementById('choose-key'); box.value = '1'; box.dispatchEvent(new Event('change'))"
    )
    assert browser.run("return document.getElementById('value').value") == "12"
    assert "lies at or below 12:" in browser.text("#share-answer")
    fits = "document.querySelector('#curve .main-svg').clientWidth - document.getElementById('curve').clientWidth"
    assert browser.run(f"return {fits}") == 0
    typed(browser, "#share", "50")
    assert browser.text("#quantile-answer").startswith(f"50 % lies at or below {by_key['EWR'].quantile(0.5).estimate} ")


def test_keys_side_by_side(browser: Browser, tmp_path: pathlib.Path) -> None:
    shown(browser, tmp_path, {"JFK": statistics(), "EWR": statistics()})
    place = list(browser.run("return data.releases[0].numbers.map((each) => each.kind)")).index("mean")
    browser.run(
        "const box = document.getElementById('number'); box.selectedIndex = arguments[0];"
        "box.dispatchEvent(new Event('change'))",
        place,
    )
    rows = dict(row[:2] for row in cells_of(browser))
    for key in ("JFK", "EWR"):
        assert float(rows[key]) == pytest.approx(statistics().mean().estimate, abs=0.01)


def test_each_column_of_a_key_is_chosen(browser: Browser, tmp_path: pathlib.Path) -> None:
    named = by_hand.released(CountSketch, SketchSpec(depth=1, width=2), [[1, 2]], key_names=("country", "day"))
    shown(browser, tmp_path, {("NO", "2026-11-16"): named, ("NO", "2026-11-17"): named, ("SE", "2026-11-16"): named})
    browser.run("chosen.day = '2026-11-17'; show();")
    chosen = "return [...document.querySelectorAll('#choice select')].map((each) => [each.id, each.value])"
    assert browser.run(chosen) == [["choose-country", "0"], ["choose-day", "1"]]
    assert browser.run("return answersAsCsv()").startswith("file,country,day,window,")


def test_numbers_that_releases_tell(browser: Browser, tmp_path: pathlib.Path) -> None:
    released = statistics()
    shown(browser, tmp_path, released)
    rows = dict(row[:2] for row in cells_of(browser))
    assert float(rows["the mean of the numbers"]) == pytest.approx(released.mean().estimate, abs=0.01)
    assert float(rows["the sum of the numbers"].replace(",", "")) == pytest.approx(released.total().estimate, abs=1)


def test_hostile_texts_are_text(browser: Browser, tmp_path: pathlib.Path) -> None:
    """Items, keys, files and titles with markup run nothing and are shown as they are."""
    key = "</script><script>window.hacked = 1</script>"
    entries = [Explored(hostile(), file=HOSTILE, key=key), Explored(hostile(), file="other", key=HOSTILE)]
    shown(browser, tmp_path, entries, title=f"{HOSTILE}&amp;", candidates=[HOSTILE, key])
    typed(browser, "#item", f"{HOSTILE}\n")
    browser.wait_for("document.querySelector('#top-chart .main-svg')")
    assert browser.text("h1") == f"{HOSTILE}&amp;"
    assert HOSTILE in browser.text("#item-answer")
    assert HOSTILE in browser.text("#ask table")
    assert not browser.run("return document.querySelectorAll('img').length")
    typed(browser, "#item", "\u202eolsO\n")
    assert browser.text("#item-answer").startswith("\\u202eolsO: ")
    assert not browser.run("return window.hacked")
    assert not browser.complaints()


@pytest.mark.parametrize("share", [0.0001, 0.001, 0.01, 0.5, 0.99])
def test_a_page_that_was_cut(browser: Browser, tmp_path: pathlib.Path, share: float) -> None:
    """Wherever it ends, it says that something is missing, or works but for its pictures."""
    path, page = tmp_path / "page.html", explore(delays())
    place = page.index("</head>") + 1000 if share < 0.001 else int(len(page) * share)
    path.write_text(page[:place], encoding="utf-8")
    browser.open(path)
    says = browser.run("const it = document.getElementById('broken'); return it && !it.hidden ? it.textContent : ''")
    answers = browser.run("const it = document.getElementById('share-answer'); return it ? it.textContent : ''")
    assert ("again" in says or "no pictures" in says) != ("lies at or below" in answers and not says)
    assert browser.run(
        "return 'Plotly' in window || [...document.querySelectorAll('.chart')].every((it) => !it.clientHeight)"
    )
    assert not [each for each in browser.complaints() if "Uncaught" in each and "Unexpected end" not in each]


def test_data_that_were_changed(browser: Browser, tmp_path: pathlib.Path) -> None:
    path, page = tmp_path / "page.html", explore(delays())
    path.write_text(page.replace('{"confidence":', '{"confidence"', 1), encoding="utf-8")
    browser.open(path)
    assert "get it again" in browser.text("#broken")


def test_nothing_is_fetched_or_sent(browser: Browser, tmp_path: pathlib.Path) -> None:
    """The file is all there is, and its policy forbids more."""
    shown(browser, tmp_path, delays())
    assert browser.run("return performance.getEntriesByType('resource').length") == 0
    browser.driver.set_script_timeout(20)
    blocked = browser.driver.execute_async_script(
        "const done = arguments[0];"
        "document.addEventListener('securitypolicyviolation', (each) => done(each.violatedDirective));"
        "fetch('https://example.org/').catch(() => {})"
    )
    assert blocked == "connect-src"
    assert browser.complaints()


def test_every_kind_of_release(browser: Browser, tmp_path: pathlib.Path) -> None:
    """All golden releases stand in one page, and each can be chosen and tells its clipping."""
    entries = [Explored(released, file=name) for name, released in golden.good().items()]
    shown(browser, tmp_path, entries, candidates=["a", "b"])
    count = browser.run("return data.releases.length")
    assert count >= len(entries)
    for place in range(count):
        browser.run("Object.assign(chosen, data.releases[arguments[0]].place); show();", place)
        file = browser.run("return data.releases[arguments[0]].place.file", place)
        released: Any = golden.good()[file]
        shown_parts = released.values() if isinstance(released, ReleasedMetrics) else [released]
        assert browser.text("#ask .clipping") in {str(each.clipping()) for each in shown_parts}
    assert not browser.complaints()


@pytest.mark.parametrize(("width", "dark"), [(1100, False), (1100, True), (390, False)])
def test_accessible(tmp_path: pathlib.Path, width: int, dark: bool) -> None:
    """axe finds no violation, on a desktop, in the dark, and on a phone."""
    from axe_core_python.selenium import Axe

    window = Browser(width=width, dark=dark)
    try:
        entries = [Explored(cities(), "cities"), Explored(delays(), "delays"), Explored(statistics(), "means")]
        shown(window, tmp_path, entries, candidates=CITIES)
        for each in ("cities", "delays", "means"):
            window.run("chosen.file = arguments[0]; show();", each)
            found = Axe().run(window.driver)
            assert [(each["id"], each["nodes"][0]["html"]) for each in found["violations"]] == []
            assert len(found["passes"]) > 10
            assert window.run("return document.documentElement.scrollWidth <= window.innerWidth")
    finally:
        window.close()


def test_in_print(browser: Browser, tmp_path: pathlib.Path) -> None:
    """Controls are left out; what is folded away is there."""
    shown(browser, tmp_path, delays())
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    browser.run("dispatchEvent(new Event('beforeprint'))")
    assert browser.run("return getComputedStyle(document.querySelector('.controls')).display") == "none"
    assert browser.run("return [...document.querySelectorAll('details')].every((each) => each.open)")
    assert browser.run("return colours().paper") == "#fff"
    browser.run("dispatchEvent(new Event('afterprint'))")
    assert browser.run("return onPaper") is False
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


def test_golden_release_types_have_readers() -> None:
    """No kind of release that answers about items or ranks is left without a program."""
    for released in golden.good().values():
        for part in released.parts.values():
            answers = any(hasattr(part, name) for name in ("interval", "quantile"))
            assert (part.reading(0.95)["type"] != "none") == answers, part
    assert isinstance(part, Released)
