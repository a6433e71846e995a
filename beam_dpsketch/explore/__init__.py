"""Interactive page for releases: one HTML file without network access. Requires `pip install 'beam-dpsketch[explore]'`.

Guarantee: post-processing, which costs no privacy. The page contains the releases, as their files do, and public lists
that the caller passes. It neither sends nor fetches data.

The page gives the same answers as Python: its program hashes items, reads counters and computes intervals. Slow
results, such as tree fits, top lists and changes, are computed when the page is made.

    page = explore(released, title="Arrival delays", candidates=airports)
    Path("delays.html").write_text(page, encoding="utf-8")
"""

from beam_dpsketch.explore.content import Explored
from beam_dpsketch.explore.exploring import explore

__all__ = ["Explored", "explore"]
