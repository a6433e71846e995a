"""Decode a flat sketch, and say in words what was found.

Guarantee: post-processing of released counters.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from beam_dpsketch.answers.decoding.decoded import Decoded, Dictionary
from beam_dpsketch.answers.rows import Many
from beam_dpsketch.estimators.decoding.decoded_rows import DecodedRows
from beam_dpsketch.estimators.decoding.rounds import FreedRows, Rounds
from beam_dpsketch.estimators.decoding.shrinking import LIMIT
from beam_dpsketch.estimators.row_mean import centred
from beam_dpsketch.hashing.cells import Places
from beam_dpsketch.privacy.side_counters import WEIGHT
from beam_dpsketch.sketches.spec import SketchSpec
from beam_dpsketch.statement.showing import shown
from beam_dpsketch.statement.statement import PrivacyStatement


def decode_flat(
    items: Many,
    spec: SketchSpec,
    counters: np.ndarray,
    privacy: PrivacyStatement,
    *,
    keys_of: Callable[[Any], np.ndarray],
    from_about: str | None,
) -> Decoded:
    """Return closer answers about these items, from the noisy counters of shape (depth, width)."""
    dictionary, has_signs = Dictionary(items, keys_of), spec.kind == "count_sketch"
    sigma_squared, signed = float(privacy.sigma_squared), privacy.bounds.signed
    places = Places(dictionary.keys, seed=spec.seed, depth=spec.depth, width=spec.width, has_signs=has_signs)
    freed = Rounds(counters, places, sigma_squared=sigma_squared, has_signs=has_signs, signed=signed).run()
    rows = DecodedRows(freed, has_signs=has_signs, signed=signed)
    before = float(np.mean(centred(counters, has_signs=has_signs) ** 2))
    lines = _summary(freed, rows, sigma_squared, before)
    lines += [
        f"Its estimates sum to about {shown(float(rows.estimates.sum()))}, of {shown(note.estimate)} in the release."
        for note in privacy.side
        if WEIGHT in note.names
    ]
    return Decoded(dictionary, rows, summary="\n".join(lines), from_about=from_about)


def _summary(freed: FreedRows, rows: DecodedRows, sigma_squared: float, before: float) -> list[str]:
    """Say what is left, how much of it is noise, and what the dictionary explains.

    Args:
      freed: the rows.
      rows: what was read of them.
      sigma_squared: of the noise.
      before: the mean square of the counters before decoding.
    """
    depth, sigma = len(freed.rows), math.sqrt(sigma_squared)
    reach = sum(rows.margins(0.95)) / 2 * float(rows.deviations.mean())
    unknown = float(np.mean(freed.residual**2)) - freed.expected
    lines = [
        f"Decoded {len(rows.estimates):,} items from {depth} rows of counters.",
        f"Residual: what is left in a counter has a scale of {shown(math.sqrt(freed.energy))}; noise alone has one of "
        f"{shown(sigma)}.",
        f"Intervals reach +-{shown(reach)} on average (95 %). Noise floor: with noise alone, +-"
        f"{shown(LIMIT * sigma / math.sqrt(depth))}.",
    ]
    if before <= sigma_squared * (1 + 6 * math.sqrt(2 / freed.residual.size)):
        return [*lines, "The counters hold little but noise, so nothing can be said of what is not listed."]
    share = 1 - max(0.0, unknown - sigma_squared) / (before - sigma_squared)
    return [
        *lines,
        f"The dictionary explains about {max(0.0, share):.1%} of the weight, by the squares of the counters.",
    ]
