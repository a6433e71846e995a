"""What several releases cost together, from their statements alone.

Guarantee: if each release is what its statement says, all of them together are delta-approximate rho-zCDP for the rho
and the delta returned, for one unit under one relation. Losses add, as `privacy.loss.composition` proves. Three
things are not counted twice:

* A release that was found several times is one release.
* A run is one mechanism, and costs its rho once for each draw of its most drawn part. Rows over time are parts of a run
  too. So are answers made of rows: these rows count as those that were found.
* A combination costs what its statement says, or what its parts cost that were found, if this is more.

What was released elsewhere, as by `SelectKeys`, is not in the files and not in the sum. A run that chose no key
releases nothing, and has spent its rho and delta all the same.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any, TypeAlias

from beam_dpsketch.privacy.contributions import NeighboringRelation, PrivacyUnit
from beam_dpsketch.privacy.loss.composition import Loss
from beam_dpsketch.statement.release_id import are_parts_of_one_run, run_and_part, runs
from beam_dpsketch.statement.stated import Stated
from beam_dpsketch.words import shown_plainly

Distinct: TypeAlias = dict[frozenset[bytes], Stated]
"""Statements by the ids of the releases that they are about."""


@shown_plainly
@dataclasses.dataclass(frozen=True)
class Spent:
    """The loss of several releases together, for one unit under one relation.

    Attributes:
      unit, relation, period_micros: as in `Stated`.
      release_count: how many different releases there are.
      run_count: the runs that they are of.
      loss: what they lose; exact, or rounded up by at most 2^-256 for each sum.
      shown_delta: the smallest delta at which one of them shows its epsilon.
    """

    unit: PrivacyUnit
    relation: NeighboringRelation
    period_micros: int
    release_count: int
    run_count: int
    loss: Loss
    shown_delta: float

    @property
    def rho(self) -> Fraction:
        """The zCDP of all of it."""
        return self.loss.rho

    @property
    def lost(self) -> Fraction:
        """The delta of chosen keys and items."""
        return self.loss.delta

    def epsilon(self, delta: float) -> float:
        """Return epsilon at a delta, rounded up; infinite where chosen keys have no less of a delta."""
        return self.loss.least_epsilon(delta)


def add_up(statements: Iterable[Stated], unreleased: Sequence[Stated] = ()) -> list[Spent]:
    """Add up the losses of releases: one sum for each unit, relation and length of period."""
    groups: dict[Any, list[Stated]] = {}
    for each in (*statements, *unreleased):
        groups.setdefault((each.unit, each.relation, each.period_micros), []).append(each)
    nothing = {release_id for each in unreleased for release_id in each.release_ids}
    return [_sum_of(found, nothing) for found in groups.values()]


def _sum_of(found: Sequence[Stated], nothing: set[bytes]) -> Spent:
    ids = {release_id for each in found for release_id in each.release_ids}
    loss = _loss_of(_distinct(found))
    shown_delta = min(each.shown_delta for each in found)
    first, run_count = found[0], len(runs(list(ids)))
    return Spent(first.unit, first.relation, first.period_micros, len(ids - nothing), run_count, loss, shown_delta)


def _distinct(found: Iterable[Stated]) -> Distinct:
    """Return one statement for each set of releases, with the largest losses where copies differ."""
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
    """Add up parts of runs: each run, with equal terms, once for each draw of a part."""
    draws: dict[Any, dict[bytes, set[bytes]]] = {}
    for each in statements:
        # The fields that `composed` compares.
        terms = (each.loss, *runs(each.release_ids), each.bounds, each.window_count)
        for release_id in each.release_ids:
            draws.setdefault(terms, {}).setdefault(run_and_part(release_id), set()).add(release_id)
    total = Loss()
    for (loss, *_), parts in draws.items():
        for _ in range(max(map(len, parts.values()))):
            total = total.plus(loss)
    return total
