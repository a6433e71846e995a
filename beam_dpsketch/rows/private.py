"""Private transforms with plain settings: rows in, rows with a schema out. The settings table has their arguments."""

from beam_dpsketch.config.forms import ITEM_FORM
from beam_dpsketch.config.settings import RELEASE_BLOCK, ROWS_BLOCK
from beam_dpsketch.rows.base import PrivateRows

_ASK, _DOMAIN = ROWS_BLOCK.entries["ask"], RELEASE_BLOCK.entries["domain"]


class PrivateFrequencies(PrivateRows, kind="frequencies"):
    """Count how often each item in a field occurs, with differential privacy.

    Without `ask`, each release is a row, and you can pass it to QueryReleases any number of times.
    """


class PrivateQuantiles(
    PrivateRows,
    kind="quantiles",
    ask=_ASK._replace(words="one kind of question, such as `{quantiles: [0.5, 0.95]}`; rows of answers come out"),
):
    """Release the distribution of an ordered field, with differential privacy: quantiles, ranks, ranges and more.

    Without `ask`, each release is a row, and you can pass it to QueryReleases any number of times.
    """


class PrivateTopK(
    PrivateRows,
    kind="top_k",
    domain=_DOMAIN._replace(words="the domain of the values, such as `{type: ipv4}` or `{type: text, max_bytes: 16}`"),
    ask=_ASK._replace(
        form=ITEM_FORM, words="another kind of question, or the word releases for one row for each release"
    ),
):
    """Find the most frequent values in a field, with differential privacy, without a list of candidates.

    Text and bytes have thresholded counts, and selecting the released values costs half the delta in `privacy`. Numbers
    are released as a histogram or, over more than 2^17 values, as a searched tree. Outputs a row for each value found.
    If no value stands out from the noise, there are no rows. Choose `ask: releases` for a row in this case too.
    """


class PrivateStatistics(
    PrivateRows,
    kind="statistics",
    item=RELEASE_BLOCK.entries["item"]._replace(words="the field of numbers"),
    domain=_DOMAIN._replace(words="the value range and steps, such as `{type: integer, low: -60, high: 240}`"),
    ask=_ASK._replace(words="one kind of question, such as `{mean: true}`; rows of answers come out"),
):
    """Release the count, sum, mean and, on request, variance of numbers, with differential privacy.

    Without `ask`, each release is a row, and you can pass it to QueryReleases any number of times.
    """


class PrivateMetrics(PrivateRows, kind="metrics"):
    """Release several metrics of the same records, with differential privacy: counts, privacy ids, means and others.

    Each release is a row. QueryReleases answers questions about a metric, as `{mean: true, metric: delay}`.
    """


class PrivateContinualFrequencies(PrivateRows, kind="frequencies", over_time=True):
    """Count how often each item occurs in every range of windows in a horizon, for the privacy loss of one release.

    Outputs a timeline row when a window closes. QueryTimeline answers questions about these rows.
    """


class PrivateContinualQuantiles(PrivateRows, kind="quantiles", over_time=True):
    """Release the distribution of an ordered field in every range of windows in a horizon.

    Outputs a timeline row when a window closes. QueryTimeline answers questions about these rows.
    """


class PrivateContinualStatistics(PrivateRows, kind="statistics", over_time=True):
    """Release the count, sum and mean of numbers in every range of windows in a horizon.

    Outputs a timeline row when a window closes. QueryTimeline answers questions about these rows.
    """
