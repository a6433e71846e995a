"""How many units a chosen norm should scale: a public number, worked out before the data. No guarantee rests on it."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

from beam_dpsketch.engine.keys import sketch_share
from beam_dpsketch.engine.norms import choice_table
from beam_dpsketch.estimators.row_mean import noise_margin
from beam_dpsketch.estimators.tree.levels import median_variance
from beam_dpsketch.planning.expected_error import factor_rank_deviation
from beam_dpsketch.privacy.contributions import NeighboringRelation
from beam_dpsketch.privacy.mechanism import Spending
from beam_dpsketch.privacy.noise.laws import Noise
from beam_dpsketch.privacy.norm.bounds import AutoNorm
from beam_dpsketch.privacy.norm.choice import units_to_scale
from beam_dpsketch.privacy.terms import DeclaredTerms
from beam_dpsketch.sketches import raw_type

_ONE_DEVIATION = math.erf(math.sqrt(0.5))
_STEPS = 1 << 10  # of a reading, so that float64 on another machine does not choose another norm


def norm_units(spec: Any, terms: DeclaredTerms) -> Fraction | None:
    """Return `scaled_units` for a release; `None` where the data do not choose the norm."""
    if (choosing := terms.choosing) is None:
        return None
    choice_table(choosing)
    privacy, share, cells = choosing.privacy, sketch_share(spec, choosing), choosing.output_cells
    assert cells is not None
    return scaled_units(spec, choosing.bounds, privacy.spending, privacy.relation, share=share, output_cells=cells)


def scaled_units(
    spec: Any,
    auto: AutoNorm,
    spending: Spending,
    relation: NeighboringRelation,
    *,
    share: Fraction = Fraction(1),
    output_cells: int = 1,
) -> Fraction:
    """Return how many units should be longer than the norm, as `units_to_scale` says of the finest table of a sketch.

    Args:
      spec: the sketch.
      auto: what is asked for.
      spending: what the release spends.
      relation: the relation between neighbouring inputs.
      share: the part of it that all counters get.
      output_cells: how many sketches one norm covers.
    """
    spec, part = spec.leading
    last = raw_type(spec).tables(spec)[-1]
    return units_to_scale(
        auto,
        cells_per_item=last.cells_per_item,
        has_signs=last.has_signs,
        relation=relation,
        spending=spending,
        share=share * part * last.share,
        reading=_reading(spec, spending.noise),
        output_cells=output_cells,
    )


def _reading(spec: Any, noise: Noise) -> Fraction:
    """Return the standard deviation of an answer over that of a counter of the last table.

    An answer is the estimate of an item, where a Count-Min is read by its mean over rows; of a factor, a rank; of a
    tree, a rank, which is about one node of each level.
    """
    tables = raw_type(spec).tables(spec)
    depth = tables[-1].cells_per_item
    if (of_ranks := factor_rank_deviation(spec, [Fraction(1)])) is not None:
        reading = of_ranks
    elif len(tables) > 1:
        reading = math.sqrt(len(tables) * median_variance(depth))
    else:
        reading = 1.0 if depth == 1 else noise_margin(depth, _ONE_DEVIATION, noise)
    return Fraction(round(reading * _STEPS), _STEPS)
