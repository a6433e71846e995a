"""Writes the golden trees in `tests/vectors/v1` that do not exist yet; never changes one that does.

python -m tests.helpers.golden_trees
"""

from __future__ import annotations

from fractions import Fraction

from beam_dpsketch import ADD_OR_REMOVE_ONE, DyadicCountSketch, IntegerDomain, IPv4Domain, RecordBounds, TreeSpec
from beam_dpsketch.answers.released_sketch import ReleasedSketch
from beam_dpsketch.privacy.contributions import PrivacyUnit
from beam_dpsketch.privacy.terms import Disclosure
from tests.helpers import trees
from tests.helpers.golden import FOLDER


def good() -> dict[str, ReleasedSketch]:
    """Trees by file name, large enough to answer: every kind of level is in one of them; noise is left out."""
    mixed = trees.custom(
        IntegerDomain(-20, 1000), (2, "exact", 1, 0), (4, "count_min", 2, 24), (4, "count_sketch", 3, 32)
    )
    delays = DyadicCountSketch(mixed).accumulate([-20, -5, 0, 0, 7, 90, 2000], [3, 200, 70, 30, 50, -10, 1])
    addresses = TreeSpec.for_memory(IPv4Domain(), 24_000, arity=16, leaf_share=Fraction(1, 2), seed=(1 << 64) - 1)
    return {
        "dyadic": trees.without_noise(delays),
        "dyadic_search": trees.without_noise(
            DyadicCountSketch(addresses).accumulate(["10.0.0.1", "10.0.0.9", "99.1.2.3"], [7000, 4000, 5000]),
            rho=Fraction(22, 7),
            relation=ADD_OR_REMOVE_ONE,
            privacy_unit=PrivacyUnit.RECORD,
            bounds=RecordBounds(1, max_weight=100, signed=True),
            sigma_squared_per_level=tuple(Fraction(number + 1, 3) for number in range(8)),
            disclosed=Disclosure.KEYS,
        ),
    }


def write_missing() -> None:
    """Writes what is missing."""
    for name, release in good().items():
        path = FOLDER / f"{name}.dpsketch"
        if not path.exists():
            path.write_bytes(release.to_bytes())


if __name__ == "__main__":
    write_missing()
