"""A run that chose no key: it releases nothing, and has spent its rho and delta all the same."""

from __future__ import annotations

import dataclasses

from beam_dpsketch.statement import statement_text
from beam_dpsketch.statement.statement import PrivacyStatement

_HEADINGS = ("Protected", "How well", "Bounds enforced on each", "Keys", "Items")


@dataclasses.dataclass(frozen=True)
class Unreleased:
    """What a run has spent, without any of its releases.

    Attributes:
      privacy: the statement that a release of the run would have, without side counters.
    """

    privacy: PrivacyStatement

    def __str__(self) -> str:
        facts = statement_text.facts(self.privacy)
        said = {"Released": "nothing, because no key was chosen. The loss is spent all the same."}
        said |= {heading: words for heading, words in facts.items() if heading in _HEADINGS}
        return "\n".join(f"{heading}: {words}" for heading, words in said.items())
