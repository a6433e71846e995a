"""What one unit costs in a sketch and in all side counters together."""

from __future__ import annotations

from fractions import Fraction

from beam_dpsketch import NormBound, PrivacySpec, PrivacyUnit, ReleaseTerms, SketchSpec
from beam_dpsketch.exact.reading.items import SketchInput
from beam_dpsketch.noise import tables
from beam_dpsketch.noise.calibration import calibrate
from tests.helpers import norms, side_sums
from tests.helpers.norms import UNIT, Place

_WIDE = SketchSpec(kind="count_sketch", depth=1, width=1 << 12, seed=3)
_COPIES = 60


def joint_loss(max_norm: int, rho: Fraction) -> Fraction:
    """Return the loss of adding a unit that is as long as it can be in all counters, at the noise of this rho."""
    bounds = NormBound(max_norm, max_weight=1 << 20)
    sketch_input = SketchInput(_WIDE, bounds)
    counters = side_sums.counters_of(bounds, 1)
    items = norms.keys_of(_WIDE)
    records = [(Place(0, b"", 0, item), 1 << 20) for item in items for _ in range(_COPIES)]
    (added,) = side_sums.side_sums(sketch_input, counters, records).values()
    change = norms.change(_WIDE, norms.bounded(sketch_input, records).items())
    terms = ReleaseTerms(PrivacySpec(rho=rho, side_counters=side_sums.EVERY), bounds, unit=PrivacyUnit.PRIVACY_ID)
    ((table,), (noise,)) = change, calibrate(_WIDE, terms)
    spent = [Fraction(sum(each**2 for each in table.values()), UNIT**2) / (2 * noise)]
    for counter in counters:
        square = Fraction(sum(each**2 for each in added[counter.name].values()), UNIT**2)
        spent.append(square / (2 * tables.of_counter(counter, counter.names, terms).parameter))
    return sum(spent, Fraction(0))
