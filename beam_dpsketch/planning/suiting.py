"""Which noise suits a release: the one with the smaller expected width, by public settings alone.

Guarantee: nothing that data say is read, so the choice costs no privacy. At a promise of (epsilon, delta) a Gaussian
needs noise for the L2 length of what a unit adds, and a Laplace for its L1 length. So the latter is closer where a unit
touches few counters. With a rho, a Gaussian always is.

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

from beam_dpsketch.engine.calibration import table_parameters, why_not_laplace
from beam_dpsketch.errors import ArgumentError
from beam_dpsketch.estimators.row_mean import noise_margin
from beam_dpsketch.privacy.budget import PrivacySpec
from beam_dpsketch.privacy.noise.laws import Noise
from beam_dpsketch.privacy.terms import DeclaredTerms, ReleaseTerms

_CONFIDENCE = 0.95
Width = Callable[[ReleaseTerms, Sequence[Fraction]], float]


def decided(spec: Any, terms: DeclaredTerms, width: Width | None = None) -> DeclaredTerms:
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
    narrow, wide = (width_under(each.resolved(1), spec, of) for each in (laplace, gaussian))
    return laplace if narrow < wide else gaussian


def crossover(spec: Any, terms: DeclaredTerms, width: Width | None = None) -> float | None:
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
        of_one: Any = terms.resolved(1)
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
        return noise.margin(parameter, _CONFIDENCE, terms.scale_bits + terms.grid_bits(parameter))
    return noise_margin(spec.depth, _CONFIDENCE, noise) * math.sqrt(parameter)
