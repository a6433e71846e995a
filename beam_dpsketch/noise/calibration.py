"""Which tables of a release get noise, and how its keys are chosen: worked out once, before there are data."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from beam_dpsketch.errors import ArgumentError
from beam_dpsketch.exact.sketches import raw_type
from beam_dpsketch.noise import tables
from beam_dpsketch.noise.keys import KeyChoice, choose_keys, sketch_share
from beam_dpsketch.noise.tables import NoisyTable
from beam_dpsketch.privacy.noise.laws import Noise
from beam_dpsketch.privacy.side_counters import BINS, SideCounter
from beam_dpsketch.privacy.terms import ReleaseTerms, RowTerms
from beam_dpsketch.statement.lost_notes import LostNote
from beam_dpsketch.statement.notes import KeyNote
from beam_dpsketch.statement.side_notes import SideNote


@dataclasses.dataclass(frozen=True)
class Calibration:
    """What the noise of releases of a spec under some terms is; workers get it, and do not work it out again.

    Where the data choose the norm, all is of a norm of 1 until then; `with_norm` makes the tables of a release.

    Attributes:
      spec: the sketch.
      terms: those of each release.
      counters: the tables of the sketch; of a norm of 1 under an `AutoNorm`, as are the next two.
      aside: the tables of one number that each release counts aside.
      lost: the histogram of lost weight, and the weight kept if it is of the run; () if it is not told.
      choice: how keys are chosen; `None` if the data do not choose them.
      scaled_units: how many units should be longer than the norm; `None` if the data do not choose it.
    """

    spec: Any
    terms: ReleaseTerms
    counters: tuple[NoisyTable, ...]
    aside: tuple[NoisyTable, ...]
    lost: tuple[NoisyTable, ...]
    choice: KeyChoice | None
    scaled_units: Fraction | None = None

    @classmethod
    def of(cls, spec: Any, terms: ReleaseTerms) -> Calibration:
        """Return the noise; refuse settings that cannot work."""
        known = terms.under(1)
        choice = choose_keys(spec, terms)
        found = cls(spec, terms, counter_tables(spec, known), tables.aside(known), tables.lost(known), choice)
        check_paid((*found.counters, *found.aside, *found.lost), known, choice)
        return found

    @property
    def per_table(self) -> tuple[Fraction, ...]:
        """The noise parameter of each table of the sketch, in squared records."""
        return tuple(table.parameter for table in self.counters)

    @property
    def of_release(self) -> tuple[NoisyTable, ...]:
        """The tables of each release but its counters, in the order in which they are drawn."""
        return self.aside if self.lost_is_of_run else self.aside + self.lost

    @functools.cached_property
    def notes(self) -> tuple[SideNote, ...]:
        """What a release says of its tables of one number."""
        return tuple(map(_note, self.terms.counters, self.aside, itertools.repeat(self.terms.scale_bits)))

    @functools.cached_property
    def empty_lost(self) -> LostNote | None:
        """What a release says of its histogram of lost weight."""
        if (counter := self.terms.lost) is None:
            return None
        bins, *of_kept = self.lost
        kept = None if counter.kept is None else _note(counter.kept, of_kept[0], self.terms.scale_bits)
        return LostNote(
            share=bins.share,
            noise=bins.noise,
            sigma_squared=bins.parameter,
            first=counter.first,
            counts=(0,) * BINS,
            kept=kept,
        )

    @property
    def lost_is_of_run(self) -> bool:
        """Whether the histogram of lost weight is drawn once for all releases of a run."""
        return len(self.lost) > 1

    @property
    def note(self) -> KeyNote | None:
        """What a release says of the choice of its keys."""
        return None if self.choice is None else self.choice.note

    def with_terms(self, terms: ReleaseTerms) -> Calibration:
        """Return the same under terms that differ in their budget, or in what is disclosed, alone."""
        return dataclasses.replace(self, terms=terms)

    def with_norm(self, max_norm: Fraction | None) -> Calibration:
        """Return the noise of a release: under this norm if the data choose it, else as it is."""
        if self.terms.norm is None:
            return self
        if max_norm not in self._under_norms:
            self._under_norms[max_norm] = Calibration.of(self.spec, self.terms.under(max_norm))
        return self._under_norms[max_norm]

    @functools.cached_property
    def _under_norms(self) -> dict[Fraction | None, Calibration]:
        return {}


def check_paid(found: Sequence[NoisyTable], terms: ReleaseTerms, choice: KeyChoice | None) -> None:
    """Refuse tables that cost more than the choices of a norm and of keys leave of what a release may spend."""
    chosen = (terms.norm_spend or Fraction(0)) + (Fraction(0) if choice is None else choice.note.share)
    left = (1 - chosen) * terms.privacy.spending.whole
    if sum(table.share for table in found) > 1 - chosen or sum(table.cost for table in found) > left:
        raise ValueError("the tables of a release cost more than it may spend")


def _note(counter: SideCounter, table: NoisyTable, scale_bits: int) -> SideNote:
    """Return the note of a side counter that is 0, on the grid of its noise."""
    return SideNote(
        names=counter.names,
        share=table.share,
        squared_limit=counter.squared_limit,
        noise=table.noise,
        sigma_squared=table.parameter,
        value=0,
        scale_bits=scale_bits + table.grid_bits,
    )


def calibrate(spec: Any, terms: ReleaseTerms) -> tuple[Fraction, ...]:
    """Return the noise parameter of each table, in squared records; refuse settings that cannot work."""
    found = counter_tables(spec, terms)
    tables.aside(terms)
    return tuple(table.parameter for table in found)


def counter_tables(spec: Any, terms: ReleaseTerms) -> tuple[NoisyTable, ...]:
    """Return the tables of a sketch; refuse settings that cannot work."""
    if terms.bounds.has_norm and terms.bounds.total_weight is None:
        _check_rows_bounded(spec)
    if terms.noise is Noise.LAPLACE and (refused := why_not_laplace(spec, terms)) is not None:
        raise refused
    return tables.counters(spec, terms, sketch_share(spec, terms))


def _check_rows_bounded(spec: Any) -> None:
    """Refuse a square-root factor under a norm of order 2, which measures counters and not the rows made of them."""
    if any(part.spec.has_factor for part in raw_type(spec).parts(spec)):
        raise ArgumentError(
            "domain",
            "has a square-root factor, and a norm of order 2 does not bound the rows of a factor. Use $tree, or a norm "
            "of order 1: $norm_of_order_1 or $auto_of_order_1",
            "E229",
        )


def table_parameters(spec: Any, terms: ReleaseTerms) -> tuple[Fraction, ...]:
    """Return the noise parameter of each table, in squared records: of what a record adds to it at most."""
    return tuple(table.parameter for table in tables.counters(spec, terms, sketch_share(spec, terms)))


def why_not_laplace(spec: Any, terms: ReleaseTerms) -> ArgumentError | None:
    """Return why a release cannot have Laplace noise; `None` if it can."""
    needs = fix = ""
    if not spec.takes_laplace:
        needs = "ranks and searches read many counters at once"
        fix = "; or take a histogram of a small domain, $histogram"
    elif isinstance(terms, RowTerms):
        needs = "rows over time depend on each other"
    elif terms.selection is not None and not terms.counts_items:
        needs = "the data choose the keys"
    if needs:
        return ArgumentError(
            "delta",
            f"must be given next to epsilon, and noise must not be laplace, because {needs}. There is Gaussian noise "
            f"alone for that, which needs a delta: less than 1 / the number of people, as 1e-6{fix}",
            "E102",
        )
    if terms.bounds.total_weight is None:
        alone = "$norm_of_order_1, $auto_of_order_1 or $RecordBounds"
        if terms.privacy.promises_delta:
            words = f"must not be laplace for a norm of order 2: leave it out, or use {alone}"
            return ArgumentError("noise", words, "E124")
        return ArgumentError(
            "delta",
            "is missing. A norm of order 2 uses Gaussian noise, which needs a delta well below 1 / the number of "
            f"people, such as 1e-6. For epsilon alone, use {alone}",
            "E124",
        )
    return None
