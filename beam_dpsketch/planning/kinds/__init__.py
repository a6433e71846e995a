"""Table of release kinds for settings, rows and the command line."""

from collections.abc import Mapping

from beam_dpsketch.exact.declared.count import Count
from beam_dpsketch.planning.kinds.metrics import Metrics, PrivacyIdCount, RecordCount
from beam_dpsketch.planning.kinds.sketched import ItemFrequencies, Quantiles, TopKSearch
from beam_dpsketch.planning.kinds.statistics import Statistics

KINDS: Mapping[str, type[Count]] = {
    kind.name: kind for kind in (ItemFrequencies, Quantiles, TopKSearch, Statistics, Metrics)
}
"""Kinds by their names in settings. A method in settings may select another kind of the same name."""

METRIC_KINDS: Mapping[str, type[Count]] = {
    **{name: kind for name, kind in KINDS.items() if kind is not Metrics},
    **{kind.name: kind for kind in (RecordCount, PrivacyIdCount)},
}
"""Kinds of metrics by their names in settings."""

ALIASES = {
    **dict.fromkeys(METRIC_KINDS.keys() - KINDS.keys(), "metrics"),
    **dict.fromkeys(("counts", "frequency", "value_counts"), "frequencies"),
    **dict.fromkeys(("quantile", "percentile", "percentiles", "median", "histogram", "cdf"), "quantiles"),
    **dict.fromkeys(("mean", "average", "avg", "sum", "total", "variance", "var", "std", "stddev"), "statistics"),
    **dict.fromkeys(("topk", "top", "heavy_hitters", "most_common"), "top_k"),
}
"""Common names for the answers of each kind."""
