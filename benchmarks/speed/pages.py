"""Pages in Chromium: their size, when they first answer, and how smoothly a line is dragged.

``python -m benchmarks.speed.pages``

Sizes are next to the library that draws, which all pages have. The first answer is told from the opening of the file.
Needs the extra `browser`, and Debian's packages chromium and chromium-driver. Takes a minute.
"""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from beam_dpsketch import (
    CountSketch,
    DyadicCountSketch,
    FactorizationSpec,
    FloatDomain,
    IntegerDomain,
    PrivacySpec,
    ReleaseTerms,
    SketchSpec,
    TreeSpec,
    release,
)
from beam_dpsketch.exact.sketches.factor import FactorHistogram
from beam_dpsketch.explore import explore
from beam_dpsketch.explore.exploring import charts_library
from benchmarks.command import Command
from benchmarks.table import Bar, Table, spread
from tests.helpers.browser import Browser

RECORDS = 200_000
MOST_MEGABYTES, MOST_SECONDS, FRAMES = 3.0, 1.0, 20.0
_DRAG = """
const done = arguments[0], curve = document.getElementById("curve"), box = curve.getBoundingClientRect();
const send = (kind, x) => curve.dispatchEvent(new PointerEvent(kind, {pointerId: 1, clientX: x, clientY: box.y + 40}));
curve.setPointerCapture = () => {}; curve.hasPointerCapture = () => true;
send("pointerdown", box.x + 80);
let frames = 0; const start = performance.now();
const step = () => {
  frames += 1;
  send("pointermove", box.x + 80 + (frames * 7) % (box.width - 120));
  if (performance.now() - start < 2000) requestAnimationFrame(step);
  else done(1000 * frames / (performance.now() - start));
};
requestAnimationFrame(step);
"""


def releases() -> dict[str, Any]:
    """Releases of values whose logarithms are normal, and of as many items."""
    values = np.random.default_rng(0).lognormal(3.0, 1.0, RECORDS)
    terms = ReleaseTerms(PrivacySpec(rho=0.1))
    tree = DyadicCountSketch(TreeSpec.for_memory(FloatDomain(0.0, 1e6, 1e-3), 490_000))
    factor = FactorHistogram(FactorizationSpec(IntegerDomain(0, (1 << 17) - 1)))
    return {
        "factor, 2^17 values": release(factor.accumulate((values * 100).astype(np.int64)), terms),
        "tree, 2^30 values": release(tree.accumulate(values), terms),
        "sketch of items": release(CountSketch(SketchSpec(width=1 << 14)).accumulate(values.astype(np.int64)), terms),
    }


def main() -> None:
    command = Command(__file__, __doc__, "beam-dpsketch", "plotly")
    command.number("--runs", 5, "of each")
    arguments = command.parse_args()
    browser = Browser()
    with tempfile.TemporaryDirectory() as folder, command.writing(arguments, f"Median (range) of {arguments.runs}"):
        table = Table(None, ("release", "file, KB", "page, MB", "first answer, s", "frames a second"), (24, 10, 10, 24))
        for name, released in releases().items():
            path = Path(folder, "page.html")
            path.write_text(explore(released), encoding="utf-8")
            size = (path.stat().st_size - len(charts_library())) / 1e6
            first, frames = zip(*(_measure(browser, path) for _ in range(arguments.runs)), strict=True)
            bars = [Bar(size, "<=", MOST_MEGABYTES, " MB"), Bar(statistics.median(first), "<=", MOST_SECONDS, " s")]
            has_curve = not np.isnan(frames[0])
            bars += [Bar(statistics.median(frames), ">=", FRAMES, " frames")] if has_curve else []
            shown = spread(frames, 0) if has_curve else "-"
            cells = f"{len(released.to_bytes()) / 1e3:,.0f}", f"{size:.2f}", spread(first, 2), shown
            table.row(name, *cells, bars=bars)
    browser.close()


def _measure(browser: Browser, path: Path) -> tuple[float, float]:
    browser.open(path)
    first = browser.run('return performance.getEntriesByName("answers")[0].startTime') / 1000
    if not browser.run('return document.getElementById("curve") !== null'):
        return first, float("nan")
    return first, browser.driver.execute_async_script(_DRAG)


if __name__ == "__main__":
    main()
