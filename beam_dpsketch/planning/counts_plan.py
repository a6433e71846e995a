"""What grouped counts will release, before any data is read."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from typing import Any

from beam_dpsketch.engine.counting import Counting
from beam_dpsketch.planning.terms_text import bounds_line, privacy_line, terms_fields, windows_in_words


@dataclasses.dataclass(frozen=True)
class CountsPlan:
    """A release of grouped counts before it is made; `print` it."""

    counting: Counting

    @property
    def sigma(self) -> float:
        """The noise parameter of each count."""
        return math.sqrt(self.counting.sigma_squared)

    @property
    def half_width(self) -> float:
        """Half the width of a 95 % interval."""
        return 1.96 * self.sigma

    def as_dict(self) -> dict[str, Any]:
        """Return the plan as plain Python values."""
        return {
            "kind": "groups",
            "sigma": [self.sigma],
            **terms_fields(self.counting.terms),
            "half_width": self.half_width,
            "items": self.counting.note.as_dict(),
        }

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        """Yield what is known, one fact a line."""
        terms, domain = self.counting.terms, self.counting.spec.domain
        yield f"groups: a count for each item of {domain}; nothing collides, and its size grows with data."
        yield f"Noise: sigma = {self.sigma:.4g} on each count; all of rho pays for it."
        yield privacy_line(terms)
        yield bounds_line(terms)
        yield f"Items: {self.counting.note}."
        if terms.window_count > 1:
            yield f"Windows: rho and delta cover {windows_in_words(terms)}."
        yield f"Estimates: 95 % intervals of about +- {self.half_width:,.3g} from the noise alone."
