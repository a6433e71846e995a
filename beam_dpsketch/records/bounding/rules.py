"""Which rule enforces the bounds of a sketch, and the tables that it is applied to."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from fractions import Fraction

import pyarrow as pa

from beam_dpsketch.privacy.contributions import RecordBounds
from beam_dpsketch.privacy.norm.bounds import AutoNorm, NormBound
from beam_dpsketch.privacy.terms import ReleaseTerms
from beam_dpsketch.records.bounding.bounded import Rule
from beam_dpsketch.records.bounding.norm_rule import NormRule
from beam_dpsketch.records.bounding.priorities import Priorities
from beam_dpsketch.records.bounding.record_rule import RecordRule
from beam_dpsketch.records.codec import concat_tables
from beam_dpsketch.records.items import SketchInput

_MANY_TABLES = 256  # a table takes kilobytes, however few records it has


def rule_of(sketch_input: SketchInput, priorities: Priorities) -> Rule:
    """Make the rule of the bounds; before a norm is chosen, that of the least one, which nets all the same."""
    bounds, counters, selection = sketch_input.bounds.least, sketch_input.counters, sketch_input.selection
    if isinstance(bounds, RecordBounds):
        return RecordRule(bounds, priorities, counters, selection, sketch_input.over_time, sketch_input.lost)
    assert isinstance(bounds, NormBound)
    return NormRule(bounds, sketch_input, counters, selection)


def rule_of_norm(sketch_input: SketchInput, terms: ReleaseTerms[AutoNorm], max_norm: Fraction) -> NormRule:
    """Return the rule of the norm that an `AutoNorm` has chosen; its other limits are those of the input."""
    chosen, bounds = terms.with_norm(max_norm), sketch_input.bounds.bound(max_norm)
    assert isinstance(bounds, NormBound)
    return NormRule(bounds, dataclasses.replace(sketch_input, lost=chosen.lost), chosen.counters)


def gather_tables(rule: Rule, tables: Iterable[pa.Table], most: int) -> pa.Table:
    """Return one or more tables of records as one, pruned above `most` records: the rule keeps the same of them."""
    gathered = Gathered(rule, most)
    for table in tables:
        gathered.add(table)
    return gathered.table()


class Gathered:
    """Records that grow, pruned where more than `most` have come: the rule keeps the same of them."""

    def __init__(self, rule: Rule, most: int) -> None:
        self._rule, self._most, self._new, self._kept = rule, most, 0, 0
        self._tables: list[pa.Table] = []
        self._small: list[pa.Table] = []

    def add(self, table: pa.Table) -> None:
        self._small.append(table)
        self._new += len(table)
        if self._new > max(self._most, self._kept):
            self._tables, self._small, self._new = [self._rule.prune(self.table())], [], 0
            self._kept = len(self._tables[0])  # what must be kept anyway is not sorted again and again
        elif len(self._small) >= _MANY_TABLES:
            self._tables.append(concat_tables(self._small).combine_chunks())
            self._small = []

    def table(self) -> pa.Table:
        return concat_tables([*self._tables, *self._small])
