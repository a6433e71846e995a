"""Pictures of pages: the one of the documentation, and others to look at.

python -m tests.explore.pictures [FOLDER]
"""

from __future__ import annotations

import base64
import pathlib
import sys
import tempfile

from beam_dpsketch import SketchTimeline
from beam_dpsketch.answers.release_file import read_elements
from beam_dpsketch.explore import Explored, explore
from tests.helpers.browser import Browser
from tests.helpers.explored import CITIES, HORIZON, cities, rides, statistics

ROOT = pathlib.Path(__file__).parents[2]
SIZES = {"desktop": (1100, False), "dark": (1100, True), "phone": (390, False)}


def page_of_delays() -> str:
    """The page that the documentation shows."""
    folder = ROOT / "docs" / "releases"
    entries = [Explored(released) for released in read_elements(str(folder / "delays.dpsketch"))]
    return explore(entries, title="Delays in minutes")


def main(folder: pathlib.Path | None) -> None:
    pages = {"delays": page_of_delays()}
    if folder is not None:
        pages["rides"] = explore(SketchTimeline(rides(), HORIZON), title="Rides", candidates=CITIES)
        pages["others"] = explore([Explored(statistics(), "means"), Explored(cities(), "cities")], candidates=CITIES)
    with tempfile.TemporaryDirectory() as place:
        for name, page in pages.items():
            path = pathlib.Path(place, f"{name}.html")
            path.write_text(page, encoding="utf-8")
            for size, (width, dark) in SIZES.items():
                window = Browser(width=width, dark=dark)
                window.open(path)
                window.wait_for("window.Plotly")
                if folder is None:
                    window.driver.set_window_size(width, 1150)
                    window.driver.save_screenshot(str(ROOT / "docs" / "explore.png"))
                    window.close()
                    return
                window.picture(folder / f"{name}_{size}.png")
                if size == "desktop":
                    printed = window.driver.execute_cdp_cmd("Page.printToPDF", {})["data"]
                    (folder / f"{name}.pdf").write_bytes(base64.b64decode(printed))
                window.close()


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]) if sys.argv[1:] else None)
