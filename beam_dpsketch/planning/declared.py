"""A declared release before there are data: refuse settings that cannot work, and say what to expect of the others."""

from __future__ import annotations

from fractions import Fraction

from beam_dpsketch.engine.counting import Counting
from beam_dpsketch.engine.keys import choose_keys
from beam_dpsketch.engine.noising import calibrate
from beam_dpsketch.engine.norms import calibrate_choice
from beam_dpsketch.planning.advice import USUAL_WANTED_ERROR
from beam_dpsketch.planning.counts_plan import CountsPlan
from beam_dpsketch.planning.planned import Plan
from beam_dpsketch.planning.planner import plan
from beam_dpsketch.privacy.auto_norm import AutoNorm
from beam_dpsketch.privacy.terms import ReleaseTerms
from beam_dpsketch.records.declaration import Declaration
from beam_dpsketch.records.grouping import GroupedDeclaration


def check_declared(declaration: Declaration, terms: ReleaseTerms) -> None:
    """Refuse settings under which no noise, no choice of keys or no choice of a norm works."""
    if isinstance(declaration, GroupedDeclaration):
        Counting.of(declaration.spec, terms)
        return
    calibrate(declaration.spec, terms)
    choose_keys(declaration.spec, terms)
    if isinstance(declaration.unit.bounds, AutoNorm):
        calibrate_choice(declaration.spec, terms)


def plan_declared(
    declaration: Declaration,
    terms: ReleaseTerms,
    n: int | None = None,
    *,
    search: bool = False,
    wanted_error: Fraction | float = USUAL_WANTED_ERROR,
) -> Plan | CountsPlan:
    """Return what to expect of a release; the arguments are those of `plan`."""
    if isinstance(declaration, GroupedDeclaration):
        return CountsPlan(Counting.of(declaration.spec, terms))
    keys = declaration.public_keys
    key_count = None if keys is None else len(keys)
    return plan(declaration.spec, terms, n, keys=key_count, search=search, wanted_error=wanted_error)
