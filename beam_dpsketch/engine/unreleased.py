"""What a run spends whose keys, or items, the data choose: it may choose none, and release nothing."""

from __future__ import annotations

from beam_dpsketch.engine.calibration import Calibration
from beam_dpsketch.engine.counting import Counting
from beam_dpsketch.privacy.mechanism import Randomness
from beam_dpsketch.statement.accounting import Unreleased
from beam_dpsketch.statement.release_id import DRAW_BYTES, part_name, part_of_run
from beam_dpsketch.statement.statement import PrivacyStatement


def spent_alone(calibrated: Calibration | Counting, run: bytes, randomness: Randomness) -> Unreleased:
    """Return the record of a run with this noise that releases nothing."""
    terms, noise, note = calibrated.terms, calibrated.per_table, calibrated.note
    release_id = part_of_run(run, part_name(("nothing",))) + bytes(DRAW_BYTES)
    return Unreleased(PrivacyStatement.of(terms, noise, randomness=randomness, release_id=release_id, keys=note))
