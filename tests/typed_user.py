"""What a user's typed file may say; `make lint` checks it, strictly, as mypy would check theirs."""

from __future__ import annotations

import dataclasses

from beam_dpsketch import (
    FloatDomain,
    PrivacyId,
    PrivacySpec,
    Record,
    RecordBounds,
    ReleasedSketch,
    SketchSpec,
    __version__,
)
from beam_dpsketch.transforms import PrivateFrequencies, PrivateQuantiles, read_releases

SPEC, PRIVACY = SketchSpec(depth=5, width=1024), PrivacySpec(rho=0.5)


def of_people() -> PrivateFrequencies.Globally:
    """A checked transform is of its own type."""
    bounds = RecordBounds(max_contributions_per_partition=10)
    transform = PrivateFrequencies.Globally(SPEC, PRIVACY, item="city", unit=PrivacyId("person", bounds))
    return transform.check([{"city": "Bern", "person": "someone"}])


def delays() -> PrivateQuantiles.Globally:
    """The unit is a literal."""
    return PrivateQuantiles.Globally(FloatDomain(0, 9, 0.1), PRIVACY, item="minutes", unit=Record())


def misspelt() -> list[PrivateFrequencies.Globally]:
    """What mypy finds: with `warn_unused_ignores`, it is an error if it finds nothing."""
    return [
        PrivateFrequencies.Globally(SPEC, PRIVACY, unit="user"),  # type: ignore[arg-type]
        PrivateFrequencies.Globally(dataclasses.replace(SPEC, kind="countsketch"), PRIVACY, unit=Record()),  # type: ignore[arg-type]
    ]


def estimates(released: ReleasedSketch) -> str:
    """A version and a statement."""
    return f"{__version__}: {released.privacy} {len(read_releases('out/*'))}"
