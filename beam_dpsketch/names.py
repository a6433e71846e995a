"""Public names of the package, without Beam. `beam_dpsketch` imports this file when a program uses the first name."""

from beam_dpsketch import checks as _checks
from beam_dpsketch.answers.over_time import SketchTimeline
from beam_dpsketch.answers.privacy_statement import PrivacyStatement
from beam_dpsketch.answers.release_file import load, read_releases
from beam_dpsketch.answers.released import Released
from beam_dpsketch.answers.rows import Frequencies
from beam_dpsketch.by_hand import release
from beam_dpsketch.errors import (
    ArgumentError,
    BudgetExceededError,
    ConfigError,
    FormatError,
    IncompatibleSketchError,
    InputWarning,
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
    FloatDomain,
    IntegerDomain,
    IPv4Domain,
    LogDomain,
    TextDomain,
    TimestampDomain,
)
from beam_dpsketch.exact.domains.calendar import Calendar
from beam_dpsketch.exact.domains.spelling import Spelling
from beam_dpsketch.exact.horizon import Horizon
from beam_dpsketch.exact.sketches import CountMin, CountSketch
from beam_dpsketch.exact.sketches.factor import FactorizationSpec
from beam_dpsketch.exact.sketches.listed_items import ListedItems
from beam_dpsketch.exact.sketches.spec import SketchSpec
from beam_dpsketch.exact.sketches.trees import DyadicCountSketch, TreeSpec
from beam_dpsketch.frames.rehearsal import rehearse
from beam_dpsketch.frames.releasing import release_frame
from beam_dpsketch.ledger.entries import Account
from beam_dpsketch.ledger.ledger import Ledger
from beam_dpsketch.ledger.limits import LossLimit
from beam_dpsketch.planning.kinds.layouts import plan
from beam_dpsketch.planning.kinds.metrics import Metric, Metrics, PrivacyIdCount, RecordCount
from beam_dpsketch.planning.kinds.sketched import ItemFrequencies, Quantiles, TopKSearch
from beam_dpsketch.planning.kinds.statistics import Statistics
from beam_dpsketch.planning.kinds.thresholded_counts import ThresholdedCounts, Thresholding
from beam_dpsketch.planning.plan import Plan
from beam_dpsketch.privacy.budget import PrivacySpec
from beam_dpsketch.privacy.contributions import ADD_OR_REMOVE_ONE, REPLACE_ONE, RecordBounds
from beam_dpsketch.privacy.norm.bounds import AutoNorm, NormBound
from beam_dpsketch.privacy.shares import PrivacyBudget
from beam_dpsketch.privacy.summary_counts import SummaryCounts
from beam_dpsketch.privacy.terms import ReleaseTerms
from beam_dpsketch.statement.clipping import Clipping
from beam_dpsketch.statement.summary_notes import Interval
from beam_dpsketch.version import __version__

# fmt: off
__all__ = [
    "ADD_OR_REMOVE_ONE", "Account", "ArgumentError", "AssumePublicKeys", "AutoNorm", "BudgetExceededError",
    "BytesDomain", "Calendar", "Clipping", "ConfigError", "CountMin", "CountSketch", "DyadicCountSketch",
    "FactorizationSpec", "FloatDomain", "FormatError", "Frequencies", "Horizon", "IPv4Domain",
    "IncompatibleSketchError", "InputWarning", "IntegerDomain", "Interval", "ItemFrequencies", "KeySelection",
    "Ledger", "LedgerError", "ListedItems", "LogDomain", "LossLimit", "Metric", "Metrics", "NormBound", "Plan",
    "PrivacyBudget", "PrivacyId", "PrivacyIdCount", "PrivacySpec", "PrivacyStatement", "PrivacyWarning", "PublicKeys",
    "Quantiles", "REPLACE_ONE", "Record", "RecordBounds", "RecordCount", "ReleaseSpec", "ReleaseTerms", "Released",
    "Scale", "SketchSpec", "SketchTimeline", "Spelling", "Statistics", "SummaryCounts", "TextDomain",
    "ThresholdedCounts", "Thresholding", "TimeColumn", "TimeRange", "TimestampDomain", "TopKSearch", "TreeSpec",
    "WindowingError", "__version__", "load", "plan", "read_releases", "rehearse", "release", "release_frame",
]
# fmt: on
_checks.explain_calls(*(each for each in map(globals().get, __all__) if isinstance(each, type)))
