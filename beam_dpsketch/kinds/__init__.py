"""What kinds of release there are. Settings, rows and the command read this table."""

from collections.abc import Mapping

from beam_dpsketch.kinds.metrics.kind import Metrics
from beam_dpsketch.kinds.sketched import ItemFrequencies, Quantiles, TopKSearch
from beam_dpsketch.kinds.statistics.kind import Statistics
from beam_dpsketch.records.count import Count

KINDS: Mapping[str, type[Count]] = {
    kind.name: kind for kind in (ItemFrequencies, Quantiles, TopKSearch, Statistics, Metrics)
}
"""By the names that settings have for them. A method of settings may make another kind of the same name."""
