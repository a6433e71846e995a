"""The private transforms with plain settings: rows in, rows with a schema out. Their arguments are in the table."""

from beam_dpsketch.config.forms import ITEM_FORM
from beam_dpsketch.config.settings import RELEASE_BLOCK, ROWS_BLOCK
from beam_dpsketch.rows.base import PrivateRows

_ASK, _DOMAIN = ROWS_BLOCK.entries["ask"], RELEASE_BLOCK.entries["domain"]


class PrivateFrequencies(PrivateRows, kind="frequencies"):
    """Count how often each item of a field occurs, with differential privacy.

    Without `ask`, each release comes out as a row, and QueryReleases asks it as often as you like.
    """


class PrivateQuantiles(
    PrivateRows,
    kind="quantiles",
    ask=_ASK._replace(words="one kind of question, as `{quantiles: [0.5, 0.95]}`; rows of answers come out"),
):
    """Release the distribution of an ordered field, with differential privacy: quantiles, ranks, ranges and more.

    Without `ask`, each release comes out as a row, and QueryReleases asks it as often as you like.
    """


class PrivateTopK(
    PrivateRows,
    kind="top_k",
    domain=_DOMAIN._replace(words="which values there can be, as `{type: ipv4}` or `{type: text, max_bytes: 16}`"),
    ask=_ASK._replace(
        form=ITEM_FORM, words="another kind of question, or the word releases for one row for each release"
    ),
):
    """Find the most frequent values of a field, with differential privacy, without a list of candidates.

    Text and bytes are counted one by one, and half of the delta of `privacy` pays for the choice of what is released.
    Numbers are released as a histogram or, over more than 2^17 values, as a tree that is searched. One row for each
    value that is found comes out. No row comes out where nothing stands out: choose `ask: releases` for a row that
    says so.
    """


class PrivateStatistics(
    PrivateRows,
    kind="statistics",
    item=RELEASE_BLOCK.entries["item"]._replace(words="the field of numbers"),
    domain=_DOMAIN._replace(words="the clip bounds and steps, as `{type: integer, low: -60, high: 240}`"),
    ask=_ASK._replace(words="one kind of question, as `{mean: true}`; rows of answers come out"),
):
    """Release the count, sum, mean and, on request, variance of numbers, with differential privacy.

    Without `ask`, each release comes out as a row, and QueryReleases asks it as often as you like.
    """


class PrivateContinualFrequencies(PrivateRows, kind="frequencies", over_time=True):
    """Count how often each item occurs in every range of windows of a horizon, for the price of one release.

    One row comes out when a window closes. QueryTimeline asks all rows of a horizon together.
    """


class PrivateContinualQuantiles(PrivateRows, kind="quantiles", over_time=True):
    """Release the distribution of an ordered field in every range of windows of a horizon.

    One row comes out when a window closes. QueryTimeline asks all rows of a horizon together.
    """


class PrivateContinualStatistics(PrivateRows, kind="statistics", over_time=True):
    """Release the count, sum and mean of numbers in every range of windows of a horizon.

    One row comes out when a window closes. QueryTimeline asks all rows of a horizon together.
    """
