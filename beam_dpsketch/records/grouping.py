"""Grouped counts as a method of `PrivateTopK`: what the caller says of them, checked with all else."""

from __future__ import annotations

import dataclasses
import functools
from fractions import Fraction
from typing import Any

from beam_dpsketch import _validate
from beam_dpsketch.privacy.contributions import Bounds
from beam_dpsketch.privacy.grouped_counts import GroupRule
from beam_dpsketch.privacy.terms import DeclaredTerms
from beam_dpsketch.records.declaration import Declaration
from beam_dpsketch.records.items import SketchInput


@dataclasses.dataclass(frozen=True)
class Groups:
    """Count each item for itself, and release those whose noisy count exceeds a threshold: a method of `PrivateTopK`.

    Guarantee: the release is delta-approximate rho-zCDP; `privacy.grouped_counts` has the proof. An item that one unit
    alone brings in is released with a probability of at most delta, over all items, keys and windows of that unit.

    Beam groups the records by item, so nothing collides, and all of rho pays for one count an item. A partition of the
    bounds is an item (with keys, a pair of key and item): `RecordBounds(2, max_partitions=100)` counts 2 records of
    each of 100 items of a person. `NormBound(20, max_keys=100)` counts 100 items, scaled down to that norm. What a
    person has of further items is dropped. Weights cannot be signed, and units, records and weight are not counted
    aside.

    Args:
      delta: that probability, between 0 and 1; a float means its decimal spelling. Take less than 1 over the number of
        people, such as 1e-8.
    """

    delta: Fraction

    def __post_init__(self) -> None:
        object.__setattr__(self, "delta", self.rule(1).delta)

    def rule(self, max_items: int) -> GroupRule:
        """Return the rule where each unit counts for this many items."""
        return GroupRule(delta=self.delta, max_items=max_items)


@dataclasses.dataclass(frozen=True)
class GroupedDeclaration(Declaration):
    """A declaration whose partitions are items, or pairs of key and item."""

    method: Groups = dataclasses.field(kw_only=True)

    def _check_keys(self) -> None:
        _validate.instance(Groups, method=self.method)
        bounds = self.unit.bounds
        if self.keys is not None and self.keys.chosen_by_data:
            raise ValueError(
                "keys must be PublicKeys or AssumePublicKeys with method=Groups(...), which chooses pairs of key and "
                "item itself, at its own delta: with AssumePublicKeys a key shows only if one of its items is released"
            )
        self._given_bounds()
        if bounds.max_keys is None:
            raise ValueError(
                "max_keys must be given with method=Groups(...), as in NormBound(20, max_keys=100): for how many items "
                "one unit counts"
            )
        if bounds.signed:
            raise ValueError(
                "signed must be False with method=Groups(...): a deletion could hide that an item is of one person "
                "alone; leave method out, trees take deletions"
            )

    @functools.cached_property
    def sketch_input(self) -> SketchInput:
        """How items are read, and bounds that drop the items of a unit beyond max_keys."""
        return SketchInput(self.spec, self._given_bounds().within_max_keys())

    def _given_bounds(self) -> Bounds:
        return self.unit.bounds.given(
            "bounds must be RecordBounds or a NormBound with method=Groups(...): take the norm that an AutoNorm "
            "chose for another release, released.privacy.bounds, and add max_keys"
        )

    @property
    def hides_keys_and_windows(self) -> bool:
        return True

    def terms(self) -> DeclaredTerms:
        """Return the terms; all of rho pays for the counts of items."""
        rule = self.method.rule(self.unit.bounds.max_keys or 1)
        privacy = self.privacy.losing(rule.delta).without_side_counters()
        return dataclasses.replace(super().terms(), privacy=privacy, selection=rule)

    def display_data(self) -> dict[str, Any]:
        """Return the public settings."""
        return {**super().display_data(), "delta": float(self.method.delta)}

    @property
    def has_partitions(self) -> bool:
        return True
