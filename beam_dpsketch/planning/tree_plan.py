"""What a release of a tree will be like: layout, bytes, noise and expected error, all before any data is read."""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction

from beam_dpsketch import _validate
from beam_dpsketch.planning.expected_error import REFERENCES, exact_tree_deviation, simulated_deviation
from beam_dpsketch.privacy.budget import PrivacySpec
from beam_dpsketch.privacy.contributions import DEFAULT_BOUNDS, ContributionBounds
from beam_dpsketch.release.noising import calibrate
from beam_dpsketch.sketches.dyadic import DyadicCountSketch
from beam_dpsketch.sketches.tree_spec import BYTES_PER_COUNTER, TreeSpec

USELESS_SHARE = 0.1
REMEDY = "raise rho or memory, lower the bounds, or collect more records"


@dataclasses.dataclass(frozen=True)
class TreePlan:
    """A layout with what to expect of it.

    Attributes:
      spec: the layout.
      privacy: what the release spends.
      bounds: what one unit may contribute.
      weight: the expected total weight of the data, n.
      sigma_squared: the noise parameter of each level.
      rank_deviation: the expected root mean square rank error, by data: "any" for trees of exact levels, otherwise by
        reference distribution.
      rank_deviation_known_total: the same where the total weight is public; trees of exact levels only.
    """

    spec: TreeSpec
    privacy: PrivacySpec
    bounds: ContributionBounds
    weight: int
    sigma_squared: tuple[Fraction, ...]
    rank_deviation: dict[str, float]
    rank_deviation_known_total: float | None

    @classmethod
    def of(
        cls,
        spec: TreeSpec,
        privacy: PrivacySpec,
        weight: int,
        *,
        bounds: ContributionBounds = DEFAULT_BOUNDS,
        windows: int = 1,
    ) -> TreePlan:
        """The plan of a layout."""
        _validate.whole(low=1, high=1 << 50, weight=weight)
        sigma_squared = calibrate(DyadicCountSketch, spec, privacy, bounds=bounds, windows=windows)
        known_total = None
        if all(level.sketch == "exact" for level in spec.levels):
            deviations = {"any": exact_tree_deviation(spec, sigma_squared, known_total=False)}
            known_total = exact_tree_deviation(spec, sigma_squared, known_total=True)
        else:
            deviations = {
                name: simulated_deviation(spec, privacy, bounds, weight=weight, reference=name, windows=windows)
                for name in REFERENCES
            }
        return cls(spec, privacy, bounds, weight, sigma_squared, deviations, known_total)

    @property
    def is_mostly_noise(self) -> bool:
        """Whether ranks would be wrong by more than a tenth of the weight, on any data."""
        return min(self.rank_deviation.values()) > USELESS_SHARE * self.weight

    @property
    def memory(self) -> int:
        """Bytes of the counters, at 4 a counter."""
        return self.spec.cells * BYTES_PER_COUNTER

    def __str__(self) -> str:
        lines = [
            f"Tree over {self.spec.domain.size} values: {len(self.spec.levels)} levels, {self.spec.cells} counters, "
            f"{self.memory} bytes.",
            f"Privacy: rho = {float(self.privacy.rho):g}, {self.privacy.neighboring.name}, at most "
            f"{self.bounds.max_contributions_per_partition} record(s) of weight {self.bounds.max_weight} in each of "
            f"{self.bounds.max_partitions} partition(s) a unit.",
        ]
        for number, (level, sigma) in enumerate(zip(self.spec.levels, self.sigma_squared, strict=True)):
            shape = f"{level.width}" if level.sketch == "exact" else f"{level.depth} x {level.width}"
            lines.append(f"  level {number}: {level.sketch} {shape}, sigma = {math.sqrt(sigma):.4g}")
        for name, deviation in self.rank_deviation.items():
            data = "on any data, at most about" if name == "any" else f"on {name} data, about"
            share = deviation / self.weight
            lines.append(f"Rank error {data} {deviation:.3g} of {self.weight} ({share:.2g}), root mean square.")
        if self.rank_deviation_known_total is not None:
            lines.append(f"With a public total: {self.rank_deviation_known_total:.3g}.")
        if self.is_mostly_noise:
            lines.append(f"Ranks and quantiles would be mostly noise: {REMEDY}.")
        return "\n".join(lines)
