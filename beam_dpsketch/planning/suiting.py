"""Which noise suits a release, and how many units a chosen norm should scale: by public settings alone.

Guarantee: nothing that data say is read, so both cost no privacy.

The noise is the one with the smaller expected width. At a promise of (epsilon, delta) a Gaussian needs noise for the L2
length of what a unit adds, and a Laplace for its L1 length. So the latter is closer where a unit touches few counters.
With a rho, a Gaussian always is.

A width is that of a 95 % interval from the noise alone, of one counter or of the Huber mean over the rows of a sketch.
The width of grouped counts includes the threshold.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from beam_dpsketch.answers.estimators.row_mean import noise_margin
from beam_dpsketch.answers.estimators.tree_levels import median_variance
from beam_dpsketch.errors import ArgumentError
from beam_dpsketch.exact.sketches import raw_type
from beam_dpsketch.noise.calibration import table_parameters, why_not_laplace
from beam_dpsketch.noise.keys import sketch_share
from beam_dpsketch.noise.norms import choice_table
from beam_dpsketch.planning.expected_error import CONFIDENCE, factor_rank_deviation
from beam_dpsketch.privacy.budget import PrivacySpec
from beam_dpsketch.privacy.contributions import NeighboringRelation
from beam_dpsketch.privacy.mechanism import Spending
from beam_dpsketch.privacy.noise.laws import Noise
from beam_dpsketch.privacy.norm.bounds import AutoNorm
from beam_dpsketch.privacy.norm.choice import units_to_scale
from beam_dpsketch.privacy.terms import ReleaseTerms

_ONE_DEVIATION = math.erf(math.sqrt(0.5))
_STEPS = 1 << 10  # of a reading, so that float64 on another machine does not choose another norm
Width = Callable[[ReleaseTerms, Sequence[Fraction]], float]


def decided(spec: Any, terms: ReleaseTerms, width: Width | None = None) -> ReleaseTerms:
    """Return the terms with the noise that suits; as they are where it is known already.

    Args:
      spec: the sketch.
      terms: of each release.
      width: the expected width of answers under some terms, given the noise parameters of all tables; `None` takes that
        of items.
    """
    if terms.privacy.noise is not None:
        return terms
    gaussian = terms.with_noise(Noise.GAUSSIAN)
    if terms.privacy.pure is None or why_not_laplace(spec, terms) is not None:
        return gaussian
    laplace = terms.with_noise(Noise.LAPLACE)
    of = width or functools.partial(item_width, spec)
    narrow, wide = (width_under(each.under(1), spec, of) for each in (laplace, gaussian))
    return laplace if narrow < wide else gaussian


def crossover(spec: Any, terms: ReleaseTerms, width: Width | None = None) -> float | None:
    """Return up to which total weight of a unit, over its length, Laplace noise and a norm of order 1 are closer.

    `None` where a norm can have one order only, or where one is never closer: no weight is below the length. Arguments
    as in `decided`.
    """
    given = terms.privacy
    if not terms.bounds.has_norm or given.pure is None or not given.promises_delta:
        return None
    open_noise = PrivacySpec(
        epsilon=given.pure, delta=given.shown_delta, relation=given.relation, side_counters=given.side_counters
    ).losing(terms.delta)
    widths = []
    for order, noise in ((1, Noise.LAPLACE), (2, Noise.GAUSSIAN)):
        of_one: Any = terms.under(1)
        bounds = dataclasses.replace(of_one.bounds.bound(1), order=order)
        ordered = dataclasses.replace(of_one, bounds=bounds, privacy=open_noise.with_noise(noise))
        if noise is Noise.LAPLACE and why_not_laplace(spec, ordered) is not None:
            return None
        widths.append(width_under(ordered, spec, width or functools.partial(item_width, spec)))
    ratio = widths[1] / widths[0]
    return ratio if 1 < ratio < math.inf else None


def width_under(terms: ReleaseTerms, spec: Any, width: Width) -> float:
    """Return the expected width of answers under terms whose noise is known; infinity if they are refused."""
    try:
        return width(terms, table_parameters(spec, terms))
    except ArgumentError:  # noise that hides nothing, or for which counters have no room
        return math.inf


def item_width(spec: Any, terms: ReleaseTerms, parameters: Sequence[Fraction]) -> float:
    """Return half the width of a 95 % interval of one item that holds nothing but noise, of the one table there is."""
    noise, parameter = terms.noise, parameters[0]
    if spec.is_histogram:
        return noise.margin(parameter, CONFIDENCE, terms.scale_bits + terms.grid_bits(parameter))
    return noise_margin(spec.depth, CONFIDENCE, noise) * math.sqrt(parameter)


def norm_units(spec: Any, terms: ReleaseTerms) -> Fraction | None:
    """Return `scaled_units` for a release; `None` where the data do not choose the norm."""
    if terms.norm is None:
        return None
    choice_table(terms)
    privacy, share, cells = terms.privacy, sketch_share(spec, terms), terms.output_cells
    assert cells is not None
    return scaled_units(spec, terms.norm, privacy.spending, privacy.relation, share=share, output_cells=cells)


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
