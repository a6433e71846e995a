"""The words of what grouped counts will release, before any data is read."""

from __future__ import annotations

import math
from collections.abc import Iterator

from beam_dpsketch.planning.plan_text import bounds_line, privacy_line
from beam_dpsketch.release.groups.counting import Counting


def counting_lines(counting: Counting) -> Iterator[str]:
    """Yield what is known of a release of grouped counts, one fact a line."""
    terms, note, sigma = counting.terms, counting.note, math.sqrt(counting.sigma_squared)
    yield f"groups: a count for each item of {counting.spec.domain}; nothing collides, and its size grows with data."
    yield f"Noise: sigma = {sigma:.4g} on each count; all of rho pays for it."
    yield privacy_line(terms)
    yield from bounds_line(terms)
    yield f"Items: {note}."
    if terms.window_count > 1:
        yield f"Windows: rho and delta cover the {terms.window_count} windows in which a unit may count."
    yield f"Estimates: 95 % intervals of about +- {1.96 * sigma:,.3g} from the noise alone."
