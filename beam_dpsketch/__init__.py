"""Differentially private linear sketches for Apache Beam, frames and files: frequencies, top-K lists, quantiles."""

from beam_dpsketch import starting as _starting  # before slow imports

# isort: split
from beam_dpsketch import checks as _checks
from beam_dpsketch import plots  # registers the functions behind `plot`
from beam_dpsketch.answers.counts import ReleasedCounts, ReleasedListedItems
from beam_dpsketch.answers.difference import Difference
from beam_dpsketch.answers.factor import ReleasedFactor
from beam_dpsketch.answers.flat import Decoded, ReleasedCountMin, ReleasedCountSketch, ReleasedFrequencies
from beam_dpsketch.answers.item_answers import Change, Changes
from beam_dpsketch.answers.metrics import ReleasedMetrics
from beam_dpsketch.answers.notes import Note
from beam_dpsketch.answers.over_time import SketchTimeline, TimelineRow
from beam_dpsketch.answers.privacy_statement import PrivacyStatement
from beam_dpsketch.answers.release_file import read_releases
from beam_dpsketch.answers.released import Released
from beam_dpsketch.answers.released_sketch import ReleasedSketch
from beam_dpsketch.answers.rows import Frequencies, Frequency, Intervals
from beam_dpsketch.answers.statistics import ReleasedStatistics, Statistic
from beam_dpsketch.answers.tree import ReleasedDyadicCountSketch, ReleasedRanks
from beam_dpsketch.by_hand import release
from beam_dpsketch.errors import (
    ArgumentError,
    ArgumentTypeError,
    BudgetExceededError,
    ConfigError,
    ElementsWarning,
    FormatError,
    IncompatibleSketchError,
    LedgerError,
    PrivacyWarning,
    WindowingError,
)
from beam_dpsketch.exact.bounding.parts import Scale
from beam_dpsketch.exact.declared.public import AssumePublicKeys, KeySelection, PublicKeys, TimeColumn, TimeRange
from beam_dpsketch.exact.declared.release_spec import ReleaseSpec
from beam_dpsketch.exact.declared.units import PrivacyId, Record
from beam_dpsketch.exact.domains import (
    BytesDomain,
    Domain,
    FloatDomain,
    IntegerDomain,
    IPv4Domain,
    LogDomain,
    TextDomain,
    TimestampDomain,
)
from beam_dpsketch.exact.domains.spelling import Spelling
from beam_dpsketch.exact.horizon import Horizon
from beam_dpsketch.exact.sketches import CountMin, CountSketch
from beam_dpsketch.exact.sketches.factor import FactorSpec
from beam_dpsketch.exact.sketches.listed_items import ListedHistogram, ListedItems
from beam_dpsketch.exact.sketches.spec import SketchSpec
from beam_dpsketch.exact.sketches.trees import DyadicCountSketch, TreeSpec
from beam_dpsketch.frames.rehearsal import Rehearsal, rehearse
from beam_dpsketch.frames.releasing import release_frame
from beam_dpsketch.ledger.entries import Account
from beam_dpsketch.ledger.ledger import Ledger
from beam_dpsketch.ledger.limits import LossLimit
from beam_dpsketch.planning.kinds.grouped_counts import GroupedCounts, Groups
from beam_dpsketch.planning.kinds.layouts import plan
from beam_dpsketch.planning.kinds.metrics import Metric, Metrics
from beam_dpsketch.planning.kinds.sketched import ItemFrequencies, Quantiles, TopKSearch
from beam_dpsketch.planning.kinds.statistics import Statistics
from beam_dpsketch.planning.plan import Plan
from beam_dpsketch.privacy.budget import PrivacySpec
from beam_dpsketch.privacy.contributions import (
    ADD_OR_REMOVE_ONE,
    REPLACE_ONE,
    NeighboringRelation,
    PrivacyUnit,
    RecordBounds,
)
from beam_dpsketch.privacy.norm.bounds import AutoNorm, NormBound
from beam_dpsketch.privacy.shares import PrivacyBudget
from beam_dpsketch.privacy.side_counters import SideCounters
from beam_dpsketch.privacy.terms import ReleaseTerms
from beam_dpsketch.statement.clipping import Clipping, ClippingState
from beam_dpsketch.statement.side_notes import Interval

__version__ = "0.1.0"

# fmt: off
__all__ = [
    "ADD_OR_REMOVE_ONE", "Account", "ArgumentError", "ArgumentTypeError", "AssumePublicKeys", "AutoNorm",
    "BudgetExceededError", "BytesDomain", "Change", "Changes", "Clipping", "ClippingState",
    "ConfigError", "CountMin",
    "CountSketch", "Decoded", "Difference", "Domain", "DyadicCountSketch", "ElementsWarning", "FactorSpec",
    "FloatDomain", "FormatError", "Frequencies", "Frequency", "GroupedCounts", "Groups", "Horizon", "IPv4Domain",
    "IncompatibleSketchError", "IntegerDomain", "Interval", "Intervals", "ItemFrequencies", "KeySelection", "Ledger",
    "LedgerError", "ListedHistogram", "ListedItems", "LogDomain", "LossLimit", "Metric", "Metrics",
    "NeighboringRelation", "NormBound", "Note", "Plan", "PrivacyBudget", "PrivacyId",
    "PrivacySpec", "PrivacyStatement", "PrivacyUnit", "PrivacyWarning", "PublicKeys", "Quantiles", "REPLACE_ONE",
    "Record", "RecordBounds", "Rehearsal", "ReleaseSpec", "ReleaseTerms", "Released", "ReleasedCountMin",
    "ReleasedCountSketch", "ReleasedCounts", "ReleasedDyadicCountSketch", "ReleasedFactor", "ReleasedFrequencies",
    "ReleasedListedItems", "ReleasedMetrics", "ReleasedRanks", "ReleasedSketch",
    "ReleasedStatistics", "Scale", "SideCounters", "SketchSpec", "SketchTimeline", "Spelling", "Statistic",
    "Statistics", "TextDomain", "TimeColumn", "TimeRange", "TimelineRow", "TimestampDomain", "TopKSearch",
    "TreeSpec", "WindowingError", "__version__", "plan", "read_releases", "rehearse", "release",
    "release_frame",
]
# fmt: on
_checks.explain_calls(*(each for each in map(globals().get, __all__) if isinstance(each, type)))
