"""Choose the rule that enforces the bounds of a sketch."""

from __future__ import annotations

import dataclasses
from fractions import Fraction

from beam_dpsketch.exact.bounding.bounded import Rule
from beam_dpsketch.exact.bounding.norm_rule import NormRule
from beam_dpsketch.exact.bounding.record_rule import Priorities, RecordRule
from beam_dpsketch.exact.bounding.window_rule import RuleOverWindows
from beam_dpsketch.exact.reading.items import SketchInput
from beam_dpsketch.privacy.contributions import RecordBounds
from beam_dpsketch.privacy.norm.bounds import NormBound
from beam_dpsketch.privacy.terms import ReleaseTerms


def rule_of(sketch_input: SketchInput, priorities: Priorities, max_windows: int | None = None) -> Rule:
    """Create the rule for the bounds. Before a norm is chosen, use the smallest norm, which nets in the same way.

    `max_windows` is the number of windows per period in which an id counts. It is `None` if each window is bounded
    separately. A norm covers all windows of a period.
    """
    bounds, counters, selection = sketch_input.bounds.least, sketch_input.counters, sketch_input.selection
    if isinstance(bounds, NormBound):
        return NormRule(bounds, sketch_input, counters, selection)
    assert isinstance(bounds, RecordBounds)
    if max_windows is not None:
        return RuleOverWindows(bounds, sketch_input, priorities, max_windows)
    return RecordRule(bounds, priorities, counters, selection, sketch_input.over_time, sketch_input.lost)


def rule_of_norm(sketch_input: SketchInput, terms: ReleaseTerms, max_norm: Fraction) -> NormRule:
    """Create the rule for the norm chosen by an `AutoNorm`. Its other limits come from the input."""
    chosen, bounds = terms.under(max_norm), sketch_input.bounds.bound(max_norm)
    assert isinstance(bounds, NormBound)
    return NormRule(
        bounds, dataclasses.replace(sketch_input, lost=chosen.lost), chosen.counters, sketch_input.selection
    )
