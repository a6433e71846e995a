"""Plots of answers with their intervals, with matplotlib: `pip install 'beam-dpsketch[plot]'`.

Guarantee: post-processing of answers, at no privacy loss. Plots show only the given answers.

* `plot_cdf` draws shares at or below values, with a band
* `plot_top_k` draws items with estimates as bars, and intervals
* `plot_histogram` draws the weight of bins as bars, and intervals
* `plot_timeline` draws answers for each window, over time

Each function accepts a release or a timeline, or an answer from them. `released.plot()` and `timeline.plot()` draw the
same plots.

Each function draws on the given matplotlib axes, or in a new figure, and returns the axes. It needs no display, because
figures do not use pyplot. A new figure has a legend. On given axes, everything has a label for your own legend. Okabe
and Ito's colors are distinct for color-blind readers too. Lines also differ in dashes, for print.

    axes = plot_top_k(released, 10, candidates=airports, look=Look(weight="flights"))
    axes.figure.savefig("top.png")
"""

from beam_dpsketch.plots.drawing import COLOURS, Look
from beam_dpsketch.plots.pictures import plot_cdf, plot_histogram, plot_timeline, plot_top_k

__all__ = ["COLOURS", "Look", "plot_cdf", "plot_histogram", "plot_timeline", "plot_top_k"]
