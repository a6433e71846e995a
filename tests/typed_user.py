"""What a user's typed file may say; `make lint` checks it, strictly, as mypy would check theirs."""

from __future__ import annotations

from beam_dpsketch import ContributionBounds, FloatDomain, PrivacySpec, ReleasedSketch, SketchSpec, __version__
from beam_dpsketch.transforms import PrivateFrequencies, PrivateQuantiles, read_releases

SPEC, PRIVACY = SketchSpec(depth=5, width=1024), PrivacySpec(rho=0.5)
BOUNDS = ContributionBounds(max_contributions_per_partition=10)
OF_PEOPLE = PrivateFrequencies.Globally(SPEC, PRIVACY, item="city", privacy_id="person", bounds=BOUNDS)
CHECKED: PrivateFrequencies.Globally = OF_PEOPLE.check([{"city": "Bern", "person": "someone"}])
DELAYS = PrivateQuantiles.Globally(FloatDomain(0, 9, 0.1), PRIVACY, item="minutes", unit="record")
TYPO = PrivateFrequencies.Globally(SPEC, PRIVACY, unit="user")  # type: ignore[arg-type]
OTHER = PrivateFrequencies.Globally(SPEC, PRIVACY, unit="record", sketch="countsketch")  # type: ignore[arg-type]


def estimates(released: ReleasedSketch) -> str:
    """A version and a statement."""
    return f"{__version__}: {released.privacy} {len(read_releases('out/*'))}"
