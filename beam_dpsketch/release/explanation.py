"""What a transform will release, in words, before it runs."""

from __future__ import annotations

import math
from typing import Any

from beam_dpsketch.privacy.budget import PrivacySpec
from beam_dpsketch.privacy.contributions import ContributionBounds
from beam_dpsketch.release.releasing import calibrate
from beam_dpsketch.release.tree_plan import TreePlan
from beam_dpsketch.sketches import RawSketch
from beam_dpsketch.sketches.dyadic import DyadicCountSketch
from beam_dpsketch.sketches.tree_spec import BYTES_PER_COUNTER


def explanation(
    kind: type[RawSketch],
    spec: Any,
    privacy: PrivacySpec,
    bounds: ContributionBounds,
    weight: int | None,
    *,
    windows: int = 1,
) -> str:
    """Sketch, bytes, noise and privacy of a release; with the expected total weight, also a tree's expected error."""
    charged = f"\nWindows: rho covers the {windows} windows in which a unit may count." if windows > 1 else ""
    if kind is DyadicCountSketch and weight is not None:
        return str(TreePlan.of(spec, privacy, weight, bounds=bounds, windows=windows)) + charged
    sigmas = [math.sqrt(value) for value in calibrate(kind, spec, privacy, bounds=bounds, windows=windows)]
    tables = f"{len(sigmas)} table(s)" if len(sigmas) > 1 else "1 table"
    lines = "\n".join(
        (
            f"{kind.name}: {tables}, {spec.cells} counters, {spec.cells * BYTES_PER_COUNTER} bytes at 4 a counter.",
            f"Noise: sigma = {min(sigmas):.4g} to {max(sigmas):.4g} on each counter.",
            f"Privacy: rho = {float(privacy.rho):g}, {privacy.neighboring.name}, epsilon = "
            f"{privacy.epsilon(privacy.shown_delta):.4g} at delta = {privacy.shown_delta:g}.",
            f"Bounds: at most {bounds.max_contributions_per_partition} record(s) of weight {bounds.max_weight} per "
            f"partition, {bounds.max_partitions} partition(s) a unit.",
        )
    )
    return lines + charged
