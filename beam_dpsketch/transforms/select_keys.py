"""`SelectKeys`: private selection of keys as a public list.

Guarantee: the list is delta-approximate rho-zCDP for the unit and the neighboring relation of its privacy spec
(`privacy.selection`). The decision about a key is made once in each window, and is final before any later step reads
it.
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
from beam_dpsketch.exact.declared.units import PrivacyId, Unit
from beam_dpsketch.exact.declared.windows import WindowPlan
from beam_dpsketch.exact.reading.selectors import column_of
from beam_dpsketch.exact.sketches.spec import SketchSpec
from beam_dpsketch.noise.keys import KeyChoice, choose_keys_alone, with_best_method
from beam_dpsketch.planning.kinds.sketched import AnySketch
from beam_dpsketch.planning.plan import Line, loss_in_words
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
    """Select the keys that enough units vote for, from (key, value) pairs, or rows and batches with a key field.

    The choice uses all of rho, so more keys are released than if a sketch shares it. List them with `PublicKeys` in
    later pipelines: keys chosen once a day are then used in the windows of each hour. Later releases spend their own
    rho, but no further delta.

    Args:
      privacy: privacy loss of the list.
      privacy_unit: the privacy unit: `PrivacyId`, which votes for `max_keys` keys, or `Record`, for one key.
      keys: the delta and the key field, without `share`.
      windows: the windows in which keys are chosen. `None` uses the windows with data.
    """

    def __init__(
        self, privacy: PrivacySpec, *, privacy_unit: Unit, keys: KeySelection, windows: TimeRange | None = None
    ) -> None:
        _validate.instance(PrivacySpec, privacy=privacy)
        _validate.instance(KeySelection, keys=keys)
        if keys.share is not None:
            raise ArgumentError("keys.share", "must be left out. SelectKeys spends its whole rho on votes", "E317")
        item = _constant if keys.field is None else _item(keys, privacy_unit)
        privacy = privacy.with_summary_counts()
        super().__init__(ReleaseSpec(_KeysAlone(_NO_SKETCH), privacy, privacy_unit, item, keys=keys, windows=windows))

    @property
    def choice(self) -> KeyChoice:
        """Public parameters of the key selection."""
        return self._declared.resolved.noise(_ChosenAlone).choice

    def display_data(self) -> dict[str, Any]:
        """List the public settings, without a sketch, because no sketch is released."""
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
    """Parameters of the key selection, and their terms."""

    terms: ReleaseTerms
    choice: KeyChoice
    scaled_units: None = None

    def with_terms(self, terms: ReleaseTerms) -> _ChosenAlone:
        """Replace the terms by terms that differ only in their budget."""
        return self._replace(terms=terms)

    def __str__(self) -> str:
        terms, note = self.terms, self.choice.note
        keys = f'{selection_in_words(note, terms.delta, terms)}; method="{note.method}"'
        told = {"Protects": terms.privacy_unit.value, "Privacy": loss_in_words(terms), "Keys": keys}
        return "\n".join(Line(words, label=label).text for label, words in told.items())


class _KeysAlone(AnySketch):
    """List of keys without a released sketch."""

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
        target_error: Fraction | float,
        guess: Guess | None = None,
    ) -> Any:
        refuse_guess(guess)
        return calibrated


def _constant(value: Any) -> int:
    return 0


def _item(keys: KeySelection, privacy_unit: Unit) -> Any:
    """Choose a field with a value in each record that counts. A time is the last choice, because it may be no item."""
    ids = [privacy_unit.field] if isinstance(privacy_unit, PrivacyId) else []
    return next(iter((*keys.fields, *ids, *map(column_of, keys.columns))))
