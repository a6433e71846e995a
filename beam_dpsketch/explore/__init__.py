"""A page that lets anyone ask releases: one HTML file, without network; needs `pip install 'beam-dpsketch[explore]'`.

Guarantee: post-processing, which costs no privacy. The page holds what is in the releases, as their files do, and
public lists that the caller gives. It sends nothing, and names no other address.

Its answers are those of Python: a small program in it hashes items, reads counters and works out intervals. What takes
long is worked out while the page is made, as fits of trees, lists of the largest items, and changes.

    page = explore(released, title="Arrival delays", candidates=airports)
    Path("delays.html").write_text(page, encoding="utf-8")
"""

from beam_dpsketch.explore.content import Explored
from beam_dpsketch.explore.exploring import explore

__all__ = ["Explored", "explore"]
