"""Pictures of what releases answer, with their intervals; needs matplotlib: `pip install 'beam-dpsketch[plot]'`.

Guarantee: post-processing of answers, which costs no privacy. Nothing but the given answers is drawn.

| function | draws |
|---|---|
| `plot_cdf` | shares at or below values, with a band |
| `plot_top_k` | items with estimates as bars, and intervals |
| `plot_histogram` | the weight of bins as bars, and intervals |
| `plot_timeline` | answers for each window, over time |

Each takes a release, or a timeline, and asks it; or what one answered. `released.plot()` and `timeline.plot()` draw the
same.

Each draws on the matplotlib axes that it is given, or on those of a new figure, and returns them. No display is needed:
figures are made without pyplot. A new figure has a legend. On given axes, all that is drawn has a label for yours.
Colours are those of Okabe and Ito, which all people tell apart. Lines differ in dashes too, for print.

    axes = plot_top_k(released, 10, candidates=airports, look=Look(weight="flights"))
    axes.figure.savefig("top.png")
"""

from beam_dpsketch.answers.released import DRAWERS
from beam_dpsketch.plots.drawing import COLOURS, Look
from beam_dpsketch.plots.pictures import (
    draw_release,
    draw_timeline,
    plot_cdf,
    plot_histogram,
    plot_timeline,
    plot_top_k,
)

DRAWERS.update(release=draw_release, timeline=draw_timeline)

__all__ = ["COLOURS", "Look", "plot_cdf", "plot_histogram", "plot_timeline", "plot_top_k"]
