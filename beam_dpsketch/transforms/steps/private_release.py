"""The path that every private transform shares: guard, read and bound, sum exactly, release once, make it final."""

from __future__ import annotations

from typing import Any, ClassVar

import apache_beam as beam

from beam_dpsketch.planning.planner import plan
from beam_dpsketch.privacy.terms import ReleaseTerms
from beam_dpsketch.records.declaration import Declaration
from beam_dpsketch.release.noising import calibrate
from beam_dpsketch.release.released_sketch import ReleasedSketch
from beam_dpsketch.transforms.steps.application import application
from beam_dpsketch.transforms.steps.copy_guard import check_no_copies
from beam_dpsketch.transforms.steps.exact_sums import ExactSums
from beam_dpsketch.transforms.steps.release_once import DrawRun, ReleaseOnce
from beam_dpsketch.transforms.steps.runner_guard import check_runner
from beam_dpsketch.transforms.steps.sample_check import ReadsElements
from beam_dpsketch.transforms.windows.window_plan import WindowPlan


class PrivateTransform(ReadsElements):
    """What releases and continual releases share: what is declared, and what is checked of elements before they run."""

    _is_search: ClassVar[bool] = False

    def __init__(self, declaration: Declaration) -> None:
        super().__init__(declaration)
        calibrate(declaration.spec, self._terms())  # refuses settings that cannot work

    def default_label(self) -> str:
        """Return the name for users, such as `PrivateFrequencies.PerKey`."""
        return type(self).__qualname__

    def explain(self, n: int | None = None) -> str:
        """Return what will be released, in words, with what to expect of it, before any data is read.

        Quantiles: the error of ranks, given n. Frequencies: how wide intervals are, and given n, the error with
        collisions on made-up data. Top-K lists: the detection limit, from which weight on values are found. It says
        where answers would be mostly noise.

        Args:
          n: about how many records (or what weight) count in one release, and per key, in that of one key. Records
            that the bounds drop do not count.
        """
        keys = self._declaration.public_keys
        return str(
            plan(
                self._declaration.spec,
                self._terms(),
                n,
                keys=None if keys is None else len(keys),
                search=self._is_search,
            )
        )

    def display_data(self) -> dict[str, Any]:
        """Return the public settings; neither the seed nor a key of the hash."""
        return {**self._declaration.display_data(), **self.display_of_noise()}

    def _terms(self) -> ReleaseTerms:
        return self._declaration.terms()

    def _check_elements(self, elements: beam.PCollection) -> None:
        if self._declaration.privacy_id is None:
            check_no_copies(elements)
        self.check_types(elements)
        check_runner(elements, self._idempotent_noise)


class PrivateRelease(PrivateTransform):
    """Turn elements into one release, or one per key; the transforms for users say of which sketch."""

    def __init__(self, declaration: Declaration) -> None:
        super().__init__(declaration)
        if not declaration.is_keyed and declaration.unit.bounds.max_partitions > 1:
            raise ValueError("bounds.max_partitions must be 1 without keys: there is one partition")

    def expand(self, pcoll: beam.PCollection) -> beam.PCollection:
        window_plan, keyed = WindowPlan.of(pcoll, self._declaration), self._declaration.is_keyed
        self._check_elements(pcoll)
        calibrate(self._declaration.spec, window_plan.terms)
        sums = pcoll | "ExactSums" >> ExactSums(self._declaration, window_plan, self._idempotent_noise)
        self.check_release_id(pcoll)
        terms = window_plan.terms.paying_for(application(pcoll))
        output_type = tuple[Any, ReleasedSketch] if keyed else ReleasedSketch
        release_once = ReleaseOnce(terms, keyed=keyed, idempotent_noise=self._idempotent_noise)
        return (
            sums
            | "ReleaseOnce" >> beam.ParDo(release_once, **self._run(pcoll, window_plan)).with_output_types(output_type)
            | "MakeFinal" >> beam.Reshuffle().with_output_types(output_type)
        )

    def _run(self, elements: beam.PCollection, window_plan: WindowPlan) -> dict[str, Any]:
        """Return the side input that names a run of several releases; a stream does not wait for one."""
        single = window_plan.is_global and not self._declaration.is_keyed
        if single or not elements.is_bounded or self._idempotent_noise is not None:
            return {}
        return {"run": beam.pvalue.AsSingleton(elements.pipeline | "Run" >> DrawRun())}
