"""The path that every private transform shares: guard, read and bound, sum exactly, release once, make it final."""

from __future__ import annotations

import dataclasses
from fractions import Fraction
from typing import Any, ClassVar, NoReturn

import apache_beam as beam

from beam_dpsketch.answers.batch import Releases
from beam_dpsketch.engine.counting import Counting
from beam_dpsketch.engine.keys import choose_keys
from beam_dpsketch.engine.noising import calibrate
from beam_dpsketch.planning.advice import USUAL_WANTED_ERROR
from beam_dpsketch.planning.planner import check_declared, plan_declared
from beam_dpsketch.privacy.terms import DeclaredTerms
from beam_dpsketch.records.declaration import Declaration
from beam_dpsketch.records.grouping import GroupedDeclaration
from beam_dpsketch.transforms.steps.choosing.spent import RecordSpent, may_release_nothing
from beam_dpsketch.transforms.steps.copies.copy_guard import check_no_copies
from beam_dpsketch.transforms.steps.exact_sums import ExactSums
from beam_dpsketch.transforms.steps.groups.release_counts import ReleaseGroups
from beam_dpsketch.transforms.steps.idempotent_noise import IdempotentNoise, application
from beam_dpsketch.transforms.steps.release_once import MakeFinal, ReleaseOnce, draw_run
from beam_dpsketch.transforms.steps.runner_guard import allow_one_run, check_runner
from beam_dpsketch.transforms.steps.sample_check import ReadsElements
from beam_dpsketch.transforms.windows.window_plan import WindowPlan, edges_of


class Family(type):
    """Metaclass of a namespace of transforms, which is not called itself."""

    def __call__(cls, *args: object, **kwargs: object) -> NoReturn:
        members = " or ".join(f"{cls.__name__}.{name}(...)" for name in ("Globally", "PerKey") if hasattr(cls, name))
        raise TypeError(f"{cls.__name__} names several transforms: use {members}")


class PrivateTransform(ReadsElements):
    """Holds what releases and continual releases share: the declaration, and the checks before they run."""

    _is_search: ClassVar[bool] = False

    def __init__(self, declaration: Declaration) -> None:
        super().__init__(declaration)
        self._check_settings()

    def default_label(self) -> str:
        """Return the name for users, such as `PrivateFrequencies.PerKey`."""
        return type(self).__qualname__

    def explain(self, n: int | None = None, *, wanted_error: Fraction | float = USUAL_WANTED_ERROR) -> str:
        """Return what will be released, in words, with what to expect of it, before any data is read.

        Quantiles: the error of ranks, given n. Frequencies: how wide intervals are, and given n, the error with
        collisions on made-up data. Top-K lists: the detection limit, the weight from which values are found. It says
        where answers would be mostly noise. Then, but for continual release: what another bound or epsilon would give,
        and how many people a wanted error needs, from the noise alone.

        Windows of the pipeline are not known yet, other than those of a `TimeRange` or a `Horizon`. In fixed windows
        without `max_windows`, `RecordBounds` protect an id within each window alone. Under `Record`, sliding windows
        need more noise. The statement of the release says so.

        Args:
          n: about how many records (or what weight) count in one release, and per key, in that of one key. Records
            that the bounds drop do not count.
          wanted_error: an error as a share of the weight that counts in one release, between 0 and 1; the words say
            how many people it needs.
        """
        terms, search = self._terms(), self._is_search
        return str(plan_declared(self._declaration, terms, n, search=search, wanted_error=wanted_error))

    def display_data(self) -> dict[str, Any]:
        """Return the public settings; neither the seed nor a key of the hash."""
        return {**self._declaration.display_data(), **self.display_of_noise()}

    def _terms(self) -> DeclaredTerms:
        return self._declaration.terms()

    def _check_settings(self) -> None:
        """Refuse settings under which what is released cannot work."""
        check_declared(self._declaration, self._terms())

    def _noise(
        self, elements: beam.PCollection, terms: DeclaredTerms, edges: tuple[int, ...] | None = None
    ) -> IdempotentNoise | None:
        """Return the idempotent noise of the transform with these terms, if any; `edges` of a horizon."""
        if (noise := self._idempotent_noise) is None:
            return None
        windows = edges_of(elements.windowing.windowfn) if edges is None else edges
        return dataclasses.replace(noise, transform=self._declaration.identify(terms, windows))

    def _pay(self, elements: beam.PCollection, terms: DeclaredTerms) -> DeclaredTerms:
        """Return terms that are paid for: by a part of a budget for one transform, and for one run of the pipeline."""
        paid = terms.paying_for(application(elements))
        if terms.privacy.is_of_budget and not self.is_idempotent:
            allow_one_run(elements.pipeline)
        return paid

    def _check_elements(self, elements: beam.PCollection) -> None:
        if self._declaration.privacy_id is None:
            check_no_copies(elements)
        self.check_types(elements)
        check_runner(elements, self._idempotent_noise)


class PrivateRelease(PrivateTransform):
    """Turn elements into one release, or one per key; the transforms for users choose the sketch."""

    def __init__(self, declaration: Declaration) -> None:
        super().__init__(declaration)
        declaration.check_max_partitions()

    def expand(self, pcoll: beam.PCollection) -> beam.PCollection:
        window_plan, per_key = WindowPlan.of(pcoll, self._declaration), self._declaration.is_keyed
        self._check_elements(pcoll)
        if isinstance(self._declaration, GroupedDeclaration):
            return self._expand_groups(pcoll, self._declaration, window_plan)
        calibrate(self._declaration.spec, window_plan.terms.resolved(1))  # refuses windows that cannot work
        noise = self._noise(pcoll, window_plan.terms)
        sums = pcoll | "ExactSums" >> ExactSums(self._declaration, window_plan, noise)
        self.check_release_id(pcoll)
        terms = self._pay(pcoll, window_plan.terms)
        single, run = window_plan.is_global and not per_key, {}
        if pcoll.is_bounded and not single:  # a stream would wait for a side input
            names = draw_run(pcoll.pipeline)
            if noise is None:
                run["run"] = beam.pvalue.AsSingleton(names)
            if window_plan.is_global and may_release_nothing(self._declaration, terms):
                names | "Spent" >> RecordSpent(self._declaration.spec, terms.resolved(None), noise)
        choice = choose_keys(self._declaration.spec, terms)
        release_once = ReleaseOnce(terms, per_key=per_key, choice=choice, idempotent_noise=noise)
        return (
            sums
            | "ReleaseOnce" >> beam.ParDo(release_once, **run).with_output_types(tuple[Any, Releases])
            | "MakeFinal" >> MakeFinal(per_key=per_key)
        )

    def _expand_groups(
        self, pcoll: beam.PCollection, declaration: GroupedDeclaration, window_plan: WindowPlan
    ) -> beam.PCollection:
        counting = Counting.of(declaration.spec, window_plan.terms.resolved(None))
        self.check_release_id(pcoll)
        counting = counting._replace(terms=self._pay(pcoll, window_plan.terms).resolved(None))
        noise = self._noise(pcoll, window_plan.terms)
        return pcoll | "Groups" >> ReleaseGroups(declaration, window_plan, counting, noise)
