"""What a user's typed file may say; `make lint` checks it, strictly, as mypy would check theirs."""

from __future__ import annotations

from beam_dpsketch import (
    ContributionBounds,
    FloatDomain,
    Frequencies,
    Frequency,
    Intervals,
    PrivacySpec,
    ReleasedCountSketch,
    ReleasedDyadicCountSketch,
    ReleasedFrequencies,
    ReleasedSketch,
    SketchSpec,
    __version__,
)
from beam_dpsketch.transforms import PrivateFrequencies, PrivateQuantiles, read_releases

SPEC, PRIVACY = SketchSpec(depth=5, width=1024), PrivacySpec(rho=0.5)


def of_people() -> PrivateFrequencies.Globally:
    """A checked transform is of its own type."""
    bounds = ContributionBounds(max_contributions_per_partition=10)
    transform = PrivateFrequencies.Globally(SPEC, PRIVACY, item="city", privacy_id="person", bounds=bounds)
    return transform.check([{"city": "Bern", "person": "someone"}])


def delays() -> PrivateQuantiles.Globally:
    """The unit is a literal."""
    return PrivateQuantiles.Globally(FloatDomain(0, 9, 0.1), PRIVACY, item="minutes", unit="record")


def misspelt() -> list[PrivateFrequencies.Globally]:
    """What mypy finds: with `warn_unused_ignores`, it is an error if it finds nothing."""
    return [
        PrivateFrequencies.Globally(SPEC, PRIVACY, unit="user"),  # type: ignore[arg-type]
        PrivateFrequencies.Globally(SPEC, PRIVACY, unit="record", sketch="countsketch"),  # type: ignore[arg-type]
    ]


def answers(data: bytes) -> tuple[float, list[float], Frequency, Frequencies, Intervals]:
    """Each class reads its own type; one item gives one answer, many give many."""
    tree = ReleasedDyadicCountSketch.from_bytes(data).with_total(100)
    flat: ReleasedFrequencies = ReleasedCountSketch.from_bytes(data)
    estimates: list[float] = flat.estimate(["Oslo", "Rome"]).tolist()
    top: Frequencies = ReleasedSketch.from_bytes(data).top_k(3)[:2]
    first: Frequency = top[0]
    share: float = tree.cdf(0.5, method="residual") + tree.rank_interval(0.5).lower + first.estimate
    return share, estimates, flat.interval("Oslo"), flat.top_k(1, ["Oslo"]), tree.quantile_interval([0.1, 0.9])


def misread(tree: ReleasedDyadicCountSketch) -> list[float]:
    """What mypy finds in questions."""
    return [
        tree.rank(3, method="plain"),  # type: ignore[call-overload]
        tree.estimate([3]),  # type: ignore[list-item]
    ]


def estimates(released: ReleasedSketch) -> str:
    """A version and a statement."""
    return f"{__version__}: {released.privacy} {len(read_releases('out/*'))}"
