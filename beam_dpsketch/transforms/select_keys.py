"""`SelectKeys`: which keys there are, as a list that may be published.

Guarantee: the list is delta-approximate rho-zCDP for the unit and the neighbouring relation of its privacy spec
(`privacy.selection`); a key is decided on once in each window, and final before anything downstream sees it.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, NamedTuple

import apache_beam as beam

from beam_dpsketch import checks as _validate
from beam_dpsketch.errors import ArgumentError
from beam_dpsketch.exact.declared.count import Guess, refuse_guess
from beam_dpsketch.exact.declared.public import KeySelection, TimeRange
from beam_dpsketch.exact.declared.release_spec import ReleaseSpec, ResolvedRelease
from beam_dpsketch.exact.declared.units import Unit
from beam_dpsketch.exact.declared.windows import WindowPlan
from beam_dpsketch.exact.sketches.spec import SketchSpec
from beam_dpsketch.noise.keys import KeyChoice, choose_keys_alone, with_best_method
from beam_dpsketch.planning.kinds.sketched import AnySketch
from beam_dpsketch.planning.plan import privacy_line
from beam_dpsketch.privacy.budget import PrivacySpec
from beam_dpsketch.privacy.terms import ReleaseTerms
from beam_dpsketch.statement.statement_text import selection_in_words
from beam_dpsketch.transforms.private_release import PrivateTransform
from beam_dpsketch.transforms.steps.exact_sums import ExactSums
from beam_dpsketch.transforms.steps.idempotent_noise import IdempotentNoise
from beam_dpsketch.transforms.steps.release_once import ChooseOnce, name_of

_NO_SKETCH = SketchSpec(depth=1, width=1)
_OF_SKETCH = ("sketch", "counters", "depth", "width")


class SelectKeys(PrivateTransform):
    """Turn (key, value) pairs, or rows and batches with a key field, into the keys that enough units vote for.

    All of rho pays for the choice, so more keys come out than where a sketch shares it. List them with `PublicKeys` in
    later pipelines: keys chosen once a day serve the windows of each hour. The later releases cost what they cost; no
    delta is lost again.

    Args:
      privacy: what the list spends.
      unit: whom it protects: `PrivacyId`, which votes for `max_keys` keys, or `Record`, for one.
      keys: the delta, and where an element holds its key; without `share`.
      windows: the windows in which keys are chosen; `None` takes those that have data.
    """

    def __init__(
        self, privacy: PrivacySpec, *, unit: Unit, keys: KeySelection, windows: TimeRange | None = None
    ) -> None:
        _validate.instance(PrivacySpec, privacy=privacy)
        _validate.instance(KeySelection, keys=keys)
        if keys.share is not None:
            raise ArgumentError("keys.share", "must be left out: SelectKeys spends all of rho on the votes", "E317")
        item = _constant if keys.field is None else keys.field
        privacy = privacy.without_side_counters()
        super().__init__(ReleaseSpec(_KeysAlone(_NO_SKETCH), privacy, unit, item, keys=keys, windows=windows))

    @property
    def choice(self) -> KeyChoice:
        """How keys are chosen; all of it is public."""
        return self._declared.resolved.noise(_ChosenAlone).choice

    def display_data(self) -> dict[str, Any]:
        """Return the public settings, without a sketch, because none is released."""
        return {name: value for name, value in super().display_data().items() if name not in _OF_SKETCH}

    def _release(
        self, elements: beam.PCollection, resolved: ResolvedRelease, plan: WindowPlan, noise: IdempotentNoise | None
    ) -> beam.PCollection:
        run, choice = name_of(self._paid_run(elements, resolved, noise)), resolved.noise(_ChosenAlone).choice
        exact = elements | "ExactSums" >> ExactSums(self._declared, plan, noise, run, choice=choice)
        self._pay(elements, resolved)
        return (
            exact["sums"]
            | "ChooseOnce" >> beam.ParDo(ChooseOnce(choice, noise), **run).with_output_types(Any)
            | "MakeFinal" >> beam.Reshuffle().with_output_types(Any)
        )


class _ChosenAlone(NamedTuple):
    """How keys are chosen, and under which terms."""

    terms: ReleaseTerms
    choice: KeyChoice
    scaled_units: None = None

    def with_terms(self, terms: ReleaseTerms) -> _ChosenAlone:
        """Return the same under terms that differ in their budget alone."""
        return self._replace(terms=terms)

    def __str__(self) -> str:
        terms, note = self.terms, self.choice.note
        keys = selection_in_words(note, terms.delta, terms)
        return f'{privacy_line(terms)}\nKeys: {keys}; method="{note.method}".'


class _KeysAlone(AnySketch):
    """A list of keys: what is counted of them is not released."""

    keys_alone = True

    def decide(self, terms: ReleaseTerms) -> ReleaseTerms:
        return with_best_method(terms)

    def calibrate(self, terms: ReleaseTerms) -> _ChosenAlone:  # type: ignore[override]
        return _ChosenAlone(terms, choose_keys_alone(terms))

    def plan(
        self,
        calibrated: Any,
        n: int | None,
        *,
        keys: int | None,
        wanted_error: Fraction | float,
        guess: Guess | None = None,
    ) -> Any:
        refuse_guess(guess)
        return calibrated


def _constant(value: Any) -> int:
    """Return the same item for each value of a pair."""
    return 0
