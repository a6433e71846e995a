"""Total privacy loss over several releases, from their statements alone.

Guarantee: if each statement is true, the releases together are delta-approximate rho-zCDP with the returned rho and
delta, for a privacy unit under a relation. Losses add up, as `privacy.loss.composition` proves. Three rules avoid
double counting:

* A release found several times counts once.
* A run is one mechanism. Its rho counts once for each draw of its most frequently drawn component. Timeline rows are
  components too, and an answer computed from rows counts as these rows.
* A combination counts with the loss in its statement, or with the total over its components in the files, if larger.

The sum does not include releases outside the files, such as those made by `SelectKeys`. A run that selected no keys has
no releases, but has spent its rho and delta.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any, TypeAlias

from beam_dpsketch.privacy.contributions import NeighboringRelation, PrivacyUnit
from beam_dpsketch.privacy.loss.composition import Loss
from beam_dpsketch.statement.release_id import are_parts_of_one_run, run_and_part, runs
from beam_dpsketch.statement.stated import Stated
from beam_dpsketch.words import shown_plainly

Distinct: TypeAlias = dict[frozenset[bytes], Stated]
"""Statements by their sets of release ids."""


@shown_plainly
@dataclasses.dataclass(frozen=True)
class Spent:
    """Total privacy loss over several releases, for a privacy unit under a relation.

    Attributes:
      unit, relation, period_micros: as in `Stated`.
      release_count: number of distinct releases.
      run_count: number of distinct runs.
      loss: total loss, exact or rounded up by at most 2^-256 for each sum.
      reported_delta: smallest delta at which any release reports its epsilon.
      is_private: whether the noise of all releases protects anyone, as in `Stated`.
    """

    privacy_unit: PrivacyUnit
    relation: NeighboringRelation
    period_micros: int
    release_count: int
    run_count: int
    loss: Loss
    reported_delta: float
    is_private: bool = True

    @property
    def rho(self) -> Fraction:
        """Total zCDP loss."""
        return self.loss.rho

    @property
    def lost(self) -> Fraction:
        """Total delta for key and item selection."""
        return self.loss.delta

    def epsilon(self, delta: float) -> float:
        """Compute epsilon, rounded up.

        Infinite for a delta below `lost`, or equal to it if the loss is not pure, and for noise from a public seed.
        """
        return self.loss.least_epsilon(delta) if self.is_private else math.inf

    @property
    def reported_epsilon(self) -> float:
        """Epsilon at the delta that statements report. Infinite if the seed of any noise is public."""
        return self.loss.shown(self.reported_delta)[0] if self.is_private else math.inf

    @property
    def attack_accuracy(self) -> float:
        """Highest accuracy of an attacker's guess, as in `Stated`."""
        return self.loss.attack_accuracy if self.is_private else 1.0


def add_up(statements: Iterable[Stated], unreleased: Sequence[Stated] = ()) -> list[Spent]:
    """Add up releases' losses, separately for each privacy unit, relation and period length."""
    groups: dict[Any, list[Stated]] = {}
    for each in (*statements, *unreleased):
        groups.setdefault((each.privacy_unit, each.relation, each.period_micros), []).append(each)
    nothing = {release_id for each in unreleased for release_id in each.release_ids}
    return [_sum_of(found, nothing) for found in groups.values()]


def _sum_of(found: Sequence[Stated], nothing: set[bytes]) -> Spent:
    ids = {release_id for each in found for release_id in each.release_ids}
    loss = _loss_of(_distinct(found))
    reported_delta = min(each.reported_delta for each in found)
    first, run_count = found[0], len(runs(list(ids)))
    is_private = all(each.is_private for each in found)
    unit = first.privacy_unit, first.relation, first.period_micros
    return Spent(*unit, len(ids - nothing), run_count, loss, reported_delta, is_private)


def _distinct(found: Iterable[Stated]) -> Distinct:
    """Merge statements with the same release ids, and keep the larger losses."""
    distinct: Distinct = {}
    for each in found:
        ids = frozenset(each.release_ids)
        other = distinct.setdefault(ids, each)
        loss = each.loss.larger(other.loss)
        distinct[ids] = other.losing(loss)
    return distinct


def _loss_of(distinct: Distinct) -> Loss:
    combined = [ids for ids in distinct if not are_parts_of_one_run(list(ids))]
    whole = [ids for ids in combined if not any(ids < other for other in combined)]
    covered = {ids: {part: each for part, each in distinct.items() if part < ids} for ids in whole}
    single = set(distinct).difference(combined, *covered.values())
    total = _loss_of_runs(distinct[ids] for ids in single)
    for ids, parts in covered.items():
        total = total.plus(distinct[ids].loss.larger(_loss_of(parts)))
    return total


def _loss_of_runs(statements: Iterable[Stated]) -> Loss:
    """Add up run losses. A run with equal terms counts once for each draw of its most frequently drawn component."""
    draws: dict[Any, dict[bytes, set[bytes]]] = {}
    for each in statements:
        # Same fields as in `composed`.
        terms = (each.loss, *runs(each.release_ids), each.bounds, each.window_count)
        for release_id in each.release_ids:
            draws.setdefault(terms, {}).setdefault(run_and_part(release_id), set()).add(release_id)
    total = Loss()
    for (loss, *_), parts in draws.items():
        for _ in range(max(map(len, parts.values()))):
            total = total.plus(loss)
    return total
