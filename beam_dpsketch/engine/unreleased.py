"""What a run spends whose keys, or items, the data choose: it may choose none, and release nothing."""

from __future__ import annotations

from typing import Any

from beam_dpsketch.engine.counting import Counting
from beam_dpsketch.engine.keys import choose_keys
from beam_dpsketch.engine.noising import calibrate
from beam_dpsketch.privacy.mechanism import Randomness
from beam_dpsketch.privacy.terms import ReleaseTerms
from beam_dpsketch.statement.release_id import DRAW_BYTES, part_name, part_of_run
from beam_dpsketch.statement.statement import PrivacyStatement
from beam_dpsketch.statement.unreleased import Unreleased


def spent_alone(spec: Any, terms: ReleaseTerms, run: bytes, randomness: Randomness) -> Unreleased:
    """Return the record of a run under these terms that releases nothing."""
    sigma_squared = calibrate(spec, terms)
    choice = choose_keys(spec, terms)
    note = Counting.of(spec, terms).note if choice is None else choice.note
    release_id = part_of_run(run, part_name(("nothing",))) + bytes(DRAW_BYTES)
    return Unreleased(
        PrivacyStatement.of(terms, sigma_squared, randomness=randomness, release_id=release_id, keys=note)
    )
