"""What a transform will release, in words, before it runs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from beam_dpsketch import _validate
from beam_dpsketch.planning.expected_answers import (
    noise_detection,
    noise_half_width,
    simulated_detection,
    simulated_errors,
)
from beam_dpsketch.planning.tree_plan import REMEDY, USELESS_SHARE, TreePlan
from beam_dpsketch.privacy.budget import PrivacySpec
from beam_dpsketch.privacy.contributions import ContributionBounds
from beam_dpsketch.release.noising import calibrate
from beam_dpsketch.sketches import RawSketch
from beam_dpsketch.sketches.dyadic import DyadicCountSketch
from beam_dpsketch.sketches.linear import LinearSketch
from beam_dpsketch.sketches.prefix import PrefixTree
from beam_dpsketch.sketches.tree_spec import BYTES_PER_COUNTER


def explanation(
    kind: type[RawSketch],
    spec: Any,
    privacy: PrivacySpec,
    bounds: ContributionBounds,
    weight: int | None,
    *,
    windows: int = 1,
    searched: bool = False,
) -> str:
    """Sketch, bytes, noise, privacy and expected error of a release.

    With the total weight that is expected to count, errors include collisions, on made-up data. `searched` is for a
    release that serves a list of the most frequent values.
    """
    if weight is not None:
        _validate.whole(low=1, high=1 << 50, n=weight)
    charged = f"\nWindows: rho covers the {windows} windows in which a unit may count." if windows > 1 else ""
    if kind is DyadicCountSketch and not searched and weight is not None:
        return str(TreePlan.of(spec, privacy, weight, bounds=bounds, windows=windows)) + charged
    sigma_squared = calibrate(kind, spec, privacy, bounds=bounds, windows=windows)
    sigmas = [math.sqrt(value) for value in sigma_squared]
    tables = f"{len(sigmas)} table(s)" if len(sigmas) > 1 else "1 table"
    lines = [
        f"{kind.name}: {tables}, {spec.cells} counters, {spec.cells * BYTES_PER_COUNTER} bytes at 4 a counter.",
        f"Noise: sigma = {min(sigmas):.4g} to {max(sigmas):.4g} on each counter.",
        f"Privacy: rho = {float(privacy.rho):g}, {privacy.neighboring.name}, epsilon = "
        f"{privacy.epsilon(privacy.shown_delta):.4g} at delta = {privacy.shown_delta:g}.",
        f"Bounds: at most {bounds.max_contributions_per_partition} record(s) of weight {bounds.max_weight} per "
        f"partition, {bounds.max_partitions} partition(s) a unit.",
    ]
    if searched or kind is PrefixTree:
        lines += _search(kind, spec, privacy, bounds, weight, windows, sigma_squared)
    elif issubclass(kind, LinearSketch):
        lines += _estimates(kind, spec, privacy, bounds, weight, windows, sigma_squared)
    return "\n".join(lines) + charged


def _search(
    kind: type[RawSketch],
    spec: Any,
    privacy: PrivacySpec,
    bounds: ContributionBounds,
    weight: int | None,
    windows: int,
    sigma_squared: Sequence[Fraction],
) -> list[str]:
    """From which weight on values are found."""
    counted = "kept weight" if bounds.has_weights else "kept records"
    noise = noise_detection(kind, spec, sigma_squared)
    lines = [
        f"Found: with 95 % probability, values with {noise.likely:,.0f} {counted} or more; with 50 %, those with "
        f"{noise.even:,.0f}. Values with fewer will probably be missed.",
    ]
    if weight is None:
        return [*lines, "This is from the noise alone; explain(n) adds collisions on made-up data."]
    on_data = simulated_detection(kind, spec, privacy, bounds, weight=weight, windows=windows)
    lines.append(
        f"With collisions, on {weight:,} records with frequencies like 1/rank: {on_data.likely:,.0f} and "
        f"{on_data.even:,.0f}; {on_data.reaching:,} of the values are that frequent. Other data differ."
    )
    if not on_data.reaching:
        lines.append(f"The list would be empty or mostly noise: {REMEDY}.")
    return lines


def _estimates(
    kind: type[RawSketch],
    spec: Any,
    privacy: PrivacySpec,
    bounds: ContributionBounds,
    weight: int | None,
    windows: int,
    sigma_squared: Sequence[Fraction],
) -> list[str]:
    """How wrong an estimate is."""
    noise = noise_half_width(kind, spec, sigma_squared[0])
    line = f"Estimates: 95 % intervals of about +- {noise:,.3g} from the noise alone"
    if weight is None:
        return [line + "; explain(n) adds collisions on made-up data."]
    errors = simulated_errors(kind, spec, privacy, bounds, weight=weight, windows=windows)
    lines = [
        f"{line}.",
        f"With collisions, on {weight:,} records with frequencies like 1/rank: +- {errors.half_width:,.3g}, and a root "
        f"mean square error of {errors.deviation:,.3g}. Other data differ.",
    ]
    if errors.half_width > USELESS_SHARE * weight:
        lines.append(f"Estimates would be mostly noise: {REMEDY}.")
    return lines
