"""Differentially private linear sketches: frequencies and top-K lists from Apache Beam and without it."""

from beam_dpsketch.domains import (
    BytesDomain,
    Domain,
    FloatDomain,
    IntegerDomain,
    IPv4Domain,
    TextDomain,
    TimestampDomain,
)
from beam_dpsketch.errors import (
    BudgetExceededError,
    ElementsWarning,
    FormatError,
    IncompatibleSketchError,
    WindowingError,
)
from beam_dpsketch.planning.planner import Plan, plan
from beam_dpsketch.privacy.budget import PrivacyBudget, PrivacySpec
from beam_dpsketch.privacy.contributions import (
    ADD_OR_REMOVE_ONE,
    REPLACE_ONE,
    NeighboringRelation,
    PrivacyUnit,
    RecordBounds,
)
from beam_dpsketch.privacy.terms import Disclosure, ReleaseTerms
from beam_dpsketch.records.keys import AssumePublicKeys, PublicKeys
from beam_dpsketch.records.time_range import TimeRange
from beam_dpsketch.records.units import PrivacyId, Record
from beam_dpsketch.release.answers import Frequencies, Frequency, Interval, Intervals
from beam_dpsketch.release.count_min import ReleasedCountMin
from beam_dpsketch.release.count_sketch import ReleasedCountSketch
from beam_dpsketch.release.frequencies import ReleasedFrequencies
from beam_dpsketch.release.horizon import Horizon
from beam_dpsketch.release.noising import release
from beam_dpsketch.release.released_sketch import ReleasedSketch
from beam_dpsketch.release.statement import PrivacyStatement
from beam_dpsketch.release.timeline import SketchTimeline, TimelineNode
from beam_dpsketch.release.tree.dyadic import ReleasedDyadicCountSketch
from beam_dpsketch.release.tree.prefix import ReleasedPrefixTree
from beam_dpsketch.sketches import CountMin, CountSketch
from beam_dpsketch.sketches.dyadic import DyadicCountSketch
from beam_dpsketch.sketches.prefix import PrefixSpec, PrefixTree
from beam_dpsketch.sketches.spec import SketchSpec
from beam_dpsketch.sketches.tree_spec import Level, TreeSpec

__version__ = "0.1.0"

__all__ = [
    "__version__",
    "ADD_OR_REMOVE_ONE",
    "BudgetExceededError",
    "BytesDomain",
    "RecordBounds",
    "CountMin",
    "CountSketch",
    "Domain",
    "DyadicCountSketch",
    "ElementsWarning",
    "FloatDomain",
    "FormatError",
    "Frequencies",
    "Frequency",
    "IPv4Domain",
    "IncompatibleSketchError",
    "IntegerDomain",
    "Interval",
    "Intervals",
    "Level",
    "NeighboringRelation",
    "PrefixSpec",
    "PrefixTree",
    "PrivacyBudget",
    "PrivacySpec",
    "PrivacyStatement",
    "PrivacyUnit",
    "REPLACE_ONE",
    "ReleasedCountMin",
    "ReleasedCountSketch",
    "ReleasedDyadicCountSketch",
    "ReleasedFrequencies",
    "ReleasedPrefixTree",
    "ReleasedSketch",
    "SketchSpec",
    "SketchTimeline",
    "TextDomain",
    "TimelineNode",
    "TimestampDomain",
    "TreeSpec",
    "WindowingError",
    "release",
    "AssumePublicKeys",
    "Disclosure",
    "Horizon",
    "Plan",
    "PrivacyId",
    "PublicKeys",
    "Record",
    "ReleaseTerms",
    "TimeRange",
    "plan",
]
