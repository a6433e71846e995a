"""A run that chose no key: it releases nothing, and has spent its rho and delta all the same."""

from __future__ import annotations

import dataclasses
from typing import Any

from beam_dpsketch.engine.counting import Counting
from beam_dpsketch.engine.keys import choose_keys
from beam_dpsketch.engine.noising import calibrate
from beam_dpsketch.privacy.grouped_counts import GroupRule
from beam_dpsketch.privacy.mechanism import Randomness
from beam_dpsketch.privacy.terms import ReleaseTerms
from beam_dpsketch.statement import statement_text
from beam_dpsketch.statement.release_id import DRAW_BYTES, part_name, part_of_run
from beam_dpsketch.statement.statement import PrivacyStatement

_HEADINGS = ("Protected", "How well", "Bounds enforced on each", "Keys", "Items")


@dataclasses.dataclass(frozen=True)
class Unreleased:
    """What a run has spent, without any of its releases.

    Attributes:
      privacy: the statement that a release of the run would have, without side counters.
    """

    privacy: PrivacyStatement

    @classmethod
    def of(cls, spec: Any, terms: ReleaseTerms, run: bytes, randomness: Randomness) -> Unreleased:
        """Return what a run spends whose keys, or items, the data choose."""
        sigma_squared = calibrate(spec, terms)
        if isinstance(terms.selection, GroupRule):
            note: Any = Counting.of(spec, terms).note
        else:
            choice = choose_keys(spec, terms)
            assert choice is not None
            note = choice.note
        release_id = part_of_run(run, part_name(("nothing",))) + bytes(DRAW_BYTES)
        return cls(PrivacyStatement.of(terms, sigma_squared, randomness=randomness, release_id=release_id, keys=note))

    def __str__(self) -> str:
        facts = statement_text.facts(self.privacy)
        said = {"Released": "nothing, because no key was chosen. The loss is spent all the same."}
        said |= {heading: words for heading, words in facts.items() if heading in _HEADINGS}
        return "\n".join(f"{heading}: {words}" for heading, words in said.items())
