"""Judge releases of people by how they are read: the top 10 of each sketch, a search, or a distribution function."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from beam_dpsketch import PrivacySpec, ReleaseTerms
from beam_dpsketch.answers.released_sketch import ReleasedSketch
from beam_dpsketch.answers.tree import ReleasedDyadicCountSketch
from beam_dpsketch.exact.bounding.norm_rule import NormRule
from beam_dpsketch.exact.reading.items import SketchInput
from beam_dpsketch.exact.sketches import RawSketch, raw_type
from beam_dpsketch.planning.suiting import scaled_units
from beam_dpsketch.privacy.contributions import NeighboringRelation, PrivacyUnit
from beam_dpsketch.privacy.mechanism import Spending
from beam_dpsketch.privacy.norm.bounds import AutoNorm
from benchmarks.people.bounded import Counted, release_sketch
from benchmarks.people.data import People
from benchmarks.people.trees import shares_at

_AUTO, _TOP = AutoNorm(), 10


class Judge(ABC):
    """The error of releases of the same people, each with noise of its own.

    Args:
      people: whose records.
      spec: of the sketches, but for their seed.
    """

    title = ""

    def __init__(self, people: People, spec: Any) -> None:
        self.people, self.spec, self._counted = people, spec, Counted(people, spec)
        self.sketches = 1 if people.keys is None else int(people.keys.max()) + 1

    def __str__(self) -> str:
        """The sketch, and what is judged."""
        each = f" of each of {self.sketches} keys" if self.sketches > 1 else ""
        return f"{raw_type(self.spec).__name__}, {self.title}{each}"

    def lengths(self) -> np.ndarray:
        """Return the exact histogram of lengths."""
        bound = _AUTO.bound(1)
        return NormRule(bound, SketchInput(self.spec, bound)).length_histogram(self._counted.records)

    def raw(self, seed: int, norm: int | Fraction) -> list[RawSketch]:
        """Return the exact sketches under a norm."""
        spec = dataclasses.replace(self.spec, seed=seed) if hasattr(self.spec, "seed") else self.spec
        return self._counted.raw(spec, _AUTO.bound(norm))

    def error(
        self, raw: Sequence[RawSketch], norm: int | Fraction, relation: NeighboringRelation, rho: Fraction
    ) -> float:
        """Return the error of a release."""
        spec = PrivacySpec(rho=rho, relation=relation)
        terms = ReleaseTerms(spec, _AUTO.bound(norm), privacy_unit=PrivacyUnit.PRIVACY_ID)
        return self._of([release_sketch(each, terms) for each in raw])

    def units_to_scale(self, auto: AutoNorm, relation: NeighboringRelation, rho: Fraction) -> Fraction:
        """Return how many units should be longer than the norm, where the counters get rho."""
        return scaled_units(self.spec, auto, Spending(rho), relation, output_cells=self.sketches)

    @abstractmethod
    def _of(self, released: Sequence[ReleasedSketch]) -> float: ...


class TopJudge(Judge):
    """The mean absolute error of the true top 10 of each sketch, or of other items in order of frequency."""

    title = f"top {_TOP}"

    def __init__(self, people: People, spec: Any, ranks: slice = slice(_TOP)) -> None:
        super().__init__(people, spec)
        if ranks.start:
            self.title = f"items {ranks.start + 1} to {ranks.stop}"
        self._tops = []
        for key in range(self.sketches):
            items = people.items if people.keys is None else people.items[people.keys == key]
            distinct, counts = np.unique(items, return_counts=True)
            order = np.argsort(-counts, kind="stable")[ranks]
            self._tops.append((distinct[order], counts[order]))

    def _of(self, released: Sequence[ReleasedSketch]) -> float:
        pairs = zip(released, self._tops, strict=True)
        errors = [np.abs(self._estimates(each, items) - truth).mean() for each, (items, truth) in pairs]
        return float(np.mean(errors))

    def _estimates(self, released: ReleasedSketch, items: Any) -> np.ndarray:
        return np.asarray(released.estimate(items))


class SearchJudge(TopJudge):
    """The same where items must be found first; those that are missed count 0."""

    title = f"top {_TOP} found"

    def _estimates(self, released: ReleasedSketch, items: Any) -> np.ndarray:
        assert isinstance(released, ReleasedDyadicCountSketch)
        found = released.heavy_hitters(0.0)
        estimates = dict(zip(found.item, found.estimate, strict=True))
        return np.array([estimates.get(item, 0.0) for item in items])


class DistributionJudge(Judge):
    """The mean absolute error of the distribution function of each sketch, in percent."""

    title = "distribution"

    def __init__(self, people: People, spec: Any) -> None:
        super().__init__(people, spec)
        self._truth = shares_at(people)

    def _of(self, released: Sequence[ReleasedSketch]) -> float:
        errors = []
        for each, (at, shares) in zip(released, self._truth, strict=True):
            assert isinstance(each, ReleasedDyadicCountSketch)
            errors.append(np.abs(each.cdf(at) - shares).mean())
        return 100 * float(np.mean(errors))
