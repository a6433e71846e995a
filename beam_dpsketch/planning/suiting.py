"""Choice between Gaussian and Laplace noise, and how many units a chosen norm should clip, from public settings.

Guarantee: both choices read no data and cost no privacy.

The noise with the smaller expected width is chosen. For (epsilon, delta), Gaussian noise depends on the L2 norm of a
unit's contribution, and Laplace noise on its L1 norm. Therefore Laplace noise is more accurate if a unit touches few
counters. With rho, Gaussian noise is always more accurate.

The width is for a 95 % interval from the noise alone, for a counter or the Huber mean over a sketch's rows. The width
for thresholded counts includes the threshold.
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
_STEPS = 1 << 10  # rounds a reading, so that all machines choose the same norm
Width = Callable[[ReleaseTerms, Sequence[Fraction]], float]


def decided(spec: Any, terms: ReleaseTerms, width: Width | None = None) -> ReleaseTerms:
    """Choose the more accurate noise for the terms. Terms with given noise are unchanged.

    Args:
      spec: the sketch.
      terms: the terms of each release.
      width: the expected width of answers, from terms and the noise parameters of all tables. `None` uses the width for
        items.
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
    """Largest ratio of total weight to L2 norm, per unit, at which Laplace noise and an L1 norm are more accurate.

    `None` if a single norm is supported, or Laplace noise is never more accurate, because this ratio is at least 1.
    Arguments are as in `decided`.
    """
    given = terms.privacy
    if not terms.bounds.has_norm or given.pure is None or not given.promises_delta or given.part_of:
        return None
    open_noise = PrivacySpec(
        epsilon=given.pure, delta=given.reported_delta, relation=given.relation, summary_counts=given.summary_counts
    ).losing(terms.delta)
    widths = []
    for norm, noise in (("l1", Noise.LAPLACE), ("l2", Noise.GAUSSIAN)):
        of_one: Any = terms.under(1)
        bounds = dataclasses.replace(of_one.bounds.bound(1), norm=norm)
        ordered = dataclasses.replace(of_one, bounds=bounds, privacy=open_noise.with_noise(noise))
        if noise is Noise.LAPLACE and why_not_laplace(spec, ordered) is not None:
            return None
        widths.append(width_under(ordered, spec, width or functools.partial(item_width, spec)))
    ratio = widths[1] / widths[0]
    return ratio if 1 < ratio < math.inf else None


def width_under(terms: ReleaseTerms, spec: Any, width: Width) -> float:
    """Compute the expected width of answers under terms with given noise. Infinite for refused terms."""
    try:
        return width(terms, table_parameters(spec, terms))
    except ArgumentError:  # noise too small to protect, or too large for the counters
        return math.inf


def item_width(spec: Any, terms: ReleaseTerms, parameters: Sequence[Fraction]) -> float:
    """Compute the 95 % half-width for an item that contains only noise, in the only table."""
    noise, parameter = terms.noise, parameters[0]
    if spec.is_histogram:
        return noise.margin(parameter, CONFIDENCE, terms.scale_bits + terms.grid_bits(parameter))
    return noise_margin(spec.depth, CONFIDENCE, noise) * math.sqrt(parameter)


def norm_units(spec: Any, terms: ReleaseTerms) -> Fraction | None:
    """Compute `scaled_units` for a release, or `None` if the norm is not chosen from the data."""
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
    """Compute the target number of units above the norm, by `units_to_scale` for the finest table of a sketch.

    Args:
      spec: the sketch.
      auto: the requested norm choice.
      spending: the privacy loss of the release.
      relation: the relation between neighboring inputs.
      share: the share of the loss for all counters.
      output_cells: the number of sketches under the same norm.
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
    """Compute an answer's standard deviation divided by that for a counter in the last table.

    For trees and factorizations, the answer is a rank. A rank in a tree adds about one node per level. Otherwise it is
    an item's estimate, which Count-Min reads as the mean over rows.
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
