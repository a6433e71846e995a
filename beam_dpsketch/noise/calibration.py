"""Calibration of a release: its noisy tables and key selection, fixed before the data are read."""

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
from beam_dpsketch.privacy.summary_counts import BINS, SummaryCount
from beam_dpsketch.privacy.terms import ReleaseTerms, RowTerms
from beam_dpsketch.statement.lost_notes import LostNote
from beam_dpsketch.statement.notes import KeyNote
from beam_dpsketch.statement.summary_notes import SummaryNote


@dataclasses.dataclass(frozen=True)
class Calibration:
    """Noise for all releases with the same spec and terms; workers receive it and do not recompute it.

    If the norm is chosen from the data, all tables assume a norm of 1 until then. `with_norm` builds the tables of a
    release.

    Attributes:
      spec: the sketch.
      terms: privacy terms per release.
      counters: the sketch's tables, for a norm of 1 under an `AutoNorm`, like `aside` and `lost`.
      aside: the tables of the summary counts, with a single number per release.
      lost: the clipping histogram, and the clipped weight if it is counted per run, or () without one.
      choice: key selection, or `None` if keys are not chosen from the data.
      scaled_units: target for the number of units longer than the norm, or `None` if no norm is chosen
        from the data.
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
        """Calibrate the noise, or raise if the settings cannot work."""
        known = terms.under(1)
        choice = choose_keys(spec, terms)
        found = cls(spec, terms, counter_tables(spec, known), tables.aside(known), tables.lost(known), choice)
        check_paid((*found.counters, *found.aside, *found.lost), known, choice)
        return found

    @property
    def per_table(self) -> tuple[Fraction, ...]:
        """Noise parameter per sketch table, in squared records."""
        return tuple(table.parameter for table in self.counters)

    @property
    def of_release(self) -> tuple[NoisyTable, ...]:
        """All tables of a release except its counters, in drawing order."""
        return self.aside if self.lost_is_of_run else self.aside + self.lost

    @functools.cached_property
    def notes(self) -> tuple[SummaryNote, ...]:
        """Statement notes for the summary counts."""
        return tuple(map(_note, self.terms.counters, self.aside, itertools.repeat(self.terms.scale_bits)))

    @functools.cached_property
    def empty_lost(self) -> LostNote | None:
        """Statement note for the clipping histogram."""
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
        """Whether the clipping histogram is drawn once for all releases in a run."""
        return len(self.lost) > 1

    @property
    def note(self) -> KeyNote | None:
        """Statement note for key selection."""
        return None if self.choice is None else self.choice.note

    def with_terms(self, terms: ReleaseTerms) -> Calibration:
        """Replace the terms, which may differ only in their budget or their disclosed facts."""
        return dataclasses.replace(self, terms=terms)

    def with_norm(self, max_norm: Fraction | None) -> Calibration:
        """Calibrate the noise for a chosen norm; unchanged unless it is chosen from the data."""
        if self.terms.norm is None:
            return self
        if max_norm not in self._under_norms:
            self._under_norms[max_norm] = Calibration.of(self.spec, self.terms.under(max_norm))
        return self._under_norms[max_norm]

    @functools.cached_property
    def _under_norms(self) -> dict[Fraction | None, Calibration]:
        return {}


def check_paid(found: Sequence[NoisyTable], terms: ReleaseTerms, choice: KeyChoice | None) -> None:
    """Raise if the tables cost more than the choices of norm and keys leave from the release's loss."""
    chosen = (terms.norm_share or Fraction(0)) + (Fraction(0) if choice is None else choice.note.share)
    left = (1 - chosen) * terms.privacy.spending.whole
    if sum(table.share for table in found) > 1 - chosen or sum(table.cost for table in found) > left:
        raise ValueError("the tables cost more than the privacy loss of the release")


def _note(counter: SummaryCount, table: NoisyTable, scale_bits: int) -> SummaryNote:
    return SummaryNote(
        names=counter.names,
        share=table.share,
        squared_limit=counter.squared_limit,
        noise=table.noise,
        sigma_squared=table.parameter,
        value=0,
        scale_bits=scale_bits + table.grid_bits,
    )


def calibrate(spec: Any, terms: ReleaseTerms) -> tuple[Fraction, ...]:
    """Compute the noise parameter per table, in squared records, or raise if the settings cannot work."""
    found = counter_tables(spec, terms)
    tables.aside(terms)
    return tuple(table.parameter for table in found)


def counter_tables(spec: Any, terms: ReleaseTerms) -> tuple[NoisyTable, ...]:
    """Build a sketch's tables, or raise if the settings cannot work."""
    if terms.bounds.has_norm and terms.bounds.total_weight is None:
        _check_rows_bounded(spec)
    if terms.noise is Noise.LAPLACE and (refused := why_not_laplace(spec, terms)) is not None:
        raise refused
    return tables.counters(spec, terms, sketch_share(spec, terms))


def _check_rows_bounded(spec: Any) -> None:
    if any(part.spec.has_factor for part in raw_type(spec).parts(spec)):
        raise ArgumentError(
            "domain",
            "has a square-root factorization, which an L2 norm does not support. Use an L1 norm ($norm_l1 or $auto_l1) "
            "or $tree",
            "E229",
        )


def table_parameters(spec: Any, terms: ReleaseTerms) -> tuple[Fraction, ...]:
    """Compute the noise parameter per table, in squared records that a record adds at most."""
    return tuple(table.parameter for table in tables.counters(spec, terms, sketch_share(spec, terms)))


def why_not_laplace(spec: Any, terms: ReleaseTerms) -> ArgumentError | None:
    """Build the error if a release cannot have Laplace noise, or return `None`."""
    needs = fix = ""
    if not spec.takes_laplace:
        needs = "ranks and searches combine many counters"
        fix = ". For a small domain, a histogram does not need a delta: $histogram"
    elif isinstance(terms, RowTerms):
        needs = "timeline rows depend on each other"
    elif terms.selection is not None and not terms.counts_items:
        needs = "keys are selected from the data"
    if needs:
        return ArgumentError(
            "delta",
            f"is required with epsilon, and noise must not be laplace, because {needs}. This release uses Gaussian "
            f"noise. Set delta well below 1 / (number of people), such as 1e-6{fix}",
            "E102",
        )
    if terms.bounds.total_weight is None:
        alone = "$norm_l1, $auto_l1 or $RecordBounds"
        if terms.privacy.promises_delta:
            words = f"must not be laplace for an L2 norm. Omit it, or use {alone}"
            return ArgumentError("noise", words, "E124")
        return ArgumentError(
            "delta",
            "is missing. An L2 norm uses Gaussian noise, which needs a delta well below 1 / (number of people), such "
            f"as 1e-6. For epsilon alone, use {alone}",
            "E124",
        )
    return None
