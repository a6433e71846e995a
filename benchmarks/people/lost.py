"""What a norm takes away of people's records, and how much of that `clipped_share()` sees."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from beam_dpsketch import ADD_OR_REMOVE_ONE, NormBound, PrivacySpec, PrivacyUnit, ReleaseTerms
from beam_dpsketch.privacy.norm.scaling import SCALE_BITS
from beam_dpsketch.privacy.side_counters import CLIPPED, SCALED, WEIGHT
from beam_dpsketch.records.bounding.norm_rule import NormRule
from beam_dpsketch.records.bounding.side_sums import add_up_units
from beam_dpsketch.records.items import SketchInput
from benchmarks.people.bounded import DELTA, EPSILON, SKETCH, Counted
from benchmarks.people.data import People
from benchmarks.table import Table

_DEVIATIONS = 1.96


def measure(people: People, norms: Sequence[int | Fraction]) -> None:
    """Print one line for each norm; nothing of it is private."""
    counted, count = Counted(people, SKETCH), len(np.unique(people.units))
    privacy = PrivacySpec(epsilon=EPSILON, delta=DELTA, relation=ADD_OR_REMOVE_ONE)
    title = (
        f"{people}\nLost: the part of all records that scaling took away. Seen: what `clipped_share()` says without\n"
        f"noise. Noise: how far a release may be off, in 95 % of releases, {privacy.relation.name}. Scaled: units."
    )
    table = Table(title, ("norm", "lost", "seen", "noise", "scaled", "of all"), (-8, -10, -10, -14, -10), bar=0)
    for norm in norms:
        bound = NormBound(norm)
        terms = ReleaseTerms(privacy, bound, unit=PrivacyUnit.PRIVACY_ID)
        rule = NormRule(bound, SketchInput(SKETCH, bound), terms.counters)
        kept, sums = rule.select_and_count(counted.records)
        totals = add_up_units(sums)
        clipped, weight, scaled = (totals[name][0].as_py() for name in (CLIPPED, WEIGHT, SCALED))
        lost = 1 - kept["weight"].to_numpy().sum() / (len(people.units) << SCALE_BITS)
        counter = next(each for each in terms.counters if CLIPPED in each.names)
        variance = counter.sigma_squared(privacy.rho, privacy.relation)
        noise = _DEVIATIONS * math.sqrt(variance) * (1 << SCALE_BITS) / (clipped + weight)
        units, seen = scaled >> SCALE_BITS, clipped / (clipped + weight)
        cells = (f"{norm:g}", f"{lost:.1%}", f"{seen:.1%}", f"+- {noise:.1%}", f"{units:,}", f"{units / count:.2%}")
        table.row(*cells)
