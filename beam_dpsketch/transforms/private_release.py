"""Common steps of all private transforms: check, read and bound, sum exactly, release once, make final."""

from __future__ import annotations

import abc
import contextlib
import copy
import dataclasses
import warnings
from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import Any, Generic, Self, TypeVar

import apache_beam as beam

from beam_dpsketch import checks as _validate
from beam_dpsketch.answers.over_time import TimelineRow
from beam_dpsketch.answers.released import RELEASED_KINDS, Released
from beam_dpsketch.errors import AllAtOnce, PrivacyWarning, RefusalError, levels_to_caller
from beam_dpsketch.exact.bounding.parts import Scale
from beam_dpsketch.exact.declared.count import USUAL_QUANTILES, USUAL_TARGET_ERROR, Count, check_types
from beam_dpsketch.exact.declared.release_spec import ReleaseSpec, ResolvedRelease
from beam_dpsketch.exact.declared.windows import WindowPlan
from beam_dpsketch.exact.horizon import Horizon
from beam_dpsketch.noise.calibration import Calibration
from beam_dpsketch.noise.counting import Counting
from beam_dpsketch.noise.run import bill_of
from beam_dpsketch.privacy.loss.payment import Uses
from beam_dpsketch.privacy.norm.bounds import NormLimit
from beam_dpsketch.privacy.terms import ReleaseTerms
from beam_dpsketch.statement.noisy import NoisyReleases
from beam_dpsketch.statement.provenance import Provenance
from beam_dpsketch.transforms.outputs import MakeFinal, TopK
from beam_dpsketch.transforms.steps.bounding import shards_for
from beam_dpsketch.transforms.steps.checks.elements import ReadsElements
from beam_dpsketch.transforms.steps.checks.guards import (
    allow_one_run,
    check_before_runs,
    check_no_copies,
    check_reach,
    check_runner,
)
from beam_dpsketch.transforms.steps.exact_sums import ExactSums
from beam_dpsketch.transforms.steps.idempotent_noise import IdempotentNoise, application
from beam_dpsketch.transforms.steps.release_once import ReleaseOnce, name_of, pay_run, run_input
from beam_dpsketch.transforms.steps.rows_over_time import AllRows, RowSettings, RowsOverTime
from beam_dpsketch.transforms.steps.second_round import COST_OF_ROUNDS
from beam_dpsketch.transforms.steps.sums import key_shards_for
from beam_dpsketch.transforms.steps.thresholded_counts import ReleaseGroups
from beam_dpsketch.transforms.steps.whole_runs import DrawLost
from beam_dpsketch.transforms.steps.windows import edges_of, plan_of, windows_of

Output = TypeVar("Output")

DOORS: dict[str, type[PrivateRelease[Any]]] = {}
"""Public transforms by the name of their release kind. A class with a kind registers itself."""


@contextlib.contextmanager
def refused_together(*others: Any) -> Iterator[None]:
    """Raise the error of a kind, from the block, together with errors of the other arguments from `check_types`."""
    try:
        yield
    except RefusalError as error:
        with AllAtOnce() as checks:
            checks.refuse(error)
            checks.do(check_types, *others)


class PrivateTransform(ReadsElements):
    """Base of all private transforms: the declaration, and the checks before the run."""

    _scale: Scale | None = None
    _uses: Uses | None = None

    def __init__(self, declared: ReleaseSpec) -> None:
        super().__init__(declared)
        declared.resolved  # noqa: B018  # raises for settings that cannot work
        for words in declared.terms.warnings():
            warnings.warn(words, PrivacyWarning, stacklevel=levels_to_caller())

    def with_size_hint(self, scale: Scale) -> Self:
        """Copy the transform and divide its work for this input size. Results do not depend on it.

        Use it for more than a billion rows, or if one worker does most of the work. More rows mean more privacy id
        shards each small enough for a worker's memory, and, on bounded input, sums that are added up in two steps. More
        keys mean more key shards. `explain` then reports the data that workers exchange, and the memory of the busiest
        worker.

        Raises `ValueError` if a shard of records under a norm would exceed a worker's memory. It then needs a
        `max_distinct_items`.
        """
        _validate.instance(Scale, scale=scale)
        if self._keeps_all:
            scale.check_fits(shards_for(scale))
        changed = copy.copy(self)
        changed._scale = scale
        return changed

    def explain(
        self,
        n: int | None = None,
        *,
        target_error: Fraction | float = USUAL_TARGET_ERROR,
        typical: tuple[float, float] | None = None,
        quantiles: Iterable[float] = USUAL_QUANTILES,
    ) -> str:
        """Describe the release and its expected accuracy, before any data are read.

        Quantiles: the error of ranks, given n, and of values, given n and `typical`. Frequencies: the width of
        intervals and, given n, the error with collisions on simulated data. Top-K lists: the detection limit, the
        weight from which values are found. It warns about very noisy answers, and about an unsuitable epsilon or delta.
        Except for continual release, it then compares other bounds and epsilons, and computes the number of people for
        a wanted error, from the noise alone.

        Windows of the pipeline are still unknown, except in a `TimeRange` or a `Horizon`. In fixed windows without
        `max_windows`, `RecordBounds` protect an id within each window alone. Under `Record`, sliding windows need more
        noise. The privacy statement of the release includes this.

        Args:
          n: approximate number of records (or weight) in a release, per key if there are keys. Exclude records that the
            bounds drop.
          target_error: an error as a share of the clipped total in a release, between 0 and 1. The plan reports the
            number of people that it needs.
          typical: for quantiles of numbers, approximate median and 99 % quantile of the values, as (120, 900). The plan
            then reports errors of values, from 64 releases of simulated log-normal data, or normal data if the median
            is 0 or less.
          quantiles: quantiles whose errors are reported, each between 0 and 1.
        """
        terms = self._declared.terms
        planned = self._declared.plan(n, target_error=target_error, typical=typical, quantiles=quantiles)
        said = [str(planned), *([COST_OF_ROUNDS[terms.counts_items]] if terms.votes_twice else [])]
        if self._scale is None:
            return "\n".join(said)
        declared, horizon = self._declared, self._declared.horizon
        shards, windows = None if declared.privacy_id is None else shards_for(self._scale), 1
        if horizon is not None and declared.public_keys is None:
            windows = horizon.windows
        lines = self._scale.lines(declared.spec.cells, shards, keeps_all=self._keeps_all, windows=windows)
        return "\n".join([*said, *lines])

    @property
    def _keeps_all(self) -> bool:
        """Whether a norm includes all distinct items of a privacy id."""
        bounds = self._declared.terms.bounds
        return isinstance(bounds, NormLimit) and bounds.max_distinct_items is None

    def display_data(self) -> dict[str, Any]:
        """List the public settings, without the seed and the hash key."""
        return {**self._declared.display_data(), **self.display_of_noise()}

    def expand(self, pcoll: beam.PCollection) -> beam.PCollection:
        plan = plan_of(pcoll, self._declared)._replace(scale=self._scale)
        self._check_elements(pcoll)
        noise = self._noise(pcoll, plan.terms)
        return self._release(pcoll, self._declared.resolved.under(plan.terms), plan, noise)

    @abc.abstractmethod
    def _release(
        self, elements: beam.PCollection, resolved: ResolvedRelease, plan: WindowPlan, noise: IdempotentNoise | None
    ) -> beam.PCollection:
        """Release checked elements in supported windows."""

    def _noise(self, elements: beam.PCollection, terms: ReleaseTerms) -> IdempotentNoise | None:
        if (noise := self._idempotent_noise) is None:
            return None
        self._declared.check_replayable()
        return dataclasses.replace(noise, transform=self._declared.identify(terms, self._edges(elements)))

    def _edges(self, elements: beam.PCollection) -> tuple[int, ...]:
        """Identity of the run's windows."""
        if (horizon := self._declared.horizon) is None:
            return edges_of(elements.windowing.windowfn)
        return horizon.start_micros, horizon.size_micros, horizon.windows

    def _paid_run(
        self, elements: beam.PCollection, resolved: ResolvedRelease, noise: IdempotentNoise | None
    ) -> beam.PCollection | None:
        """Name the run after a ledger account has paid for it. `None` without a ledger."""
        facts = {"is_bounded": elements.is_bounded, "is_idempotent": noise is not None}
        if (bill := bill_of(resolved, self._edges(elements), **facts)) is None:
            return None
        check_reach(elements.pipeline, bill)
        if noise is None:  # otherwise a run that is already paid for costs nothing more
            check_before_runs(elements.pipeline, application(elements)[1], bill)
        return pay_run(elements.pipeline, bill, noise)

    def _pay(self, elements: beam.PCollection, resolved: ResolvedRelease) -> ResolvedRelease:
        """Pay for a release: from a budget share, for one transform and run, or by `_paid_run`."""
        self.check_release_id(elements)
        self._declared.privacy.note_use(elements.pipeline, application(elements), self._uses)
        if resolved.terms.privacy.payer is not None:
            return resolved.paid(resolved.terms.without_budget())
        paid = resolved.paid(resolved.terms.paying_for(application(elements)))
        if resolved.terms.privacy.is_of_budget and not self.is_idempotent:
            allow_one_run(elements.pipeline)
        return paid

    def _check_elements(self, elements: beam.PCollection) -> None:
        if self._declared.privacy_id is None:
            check_no_copies(elements)
        self.check_types(elements)
        check_runner(elements, self._idempotent_noise)


class PrivateRelease(PrivateTransform, Generic[Output]):
    """Release once, or once for each key, in each window, or release timeline rows."""

    def __init_subclass__(cls, kind: type[Count] | None = None) -> None:
        super().__init_subclass__()
        if kind is not None:
            DOORS[kind.name] = cls

    @classmethod
    def of(cls, declared: ReleaseSpec, uses: Uses | None = None) -> Self:
        """Create the transform of this declaration. `uses` counts the transforms with equal settings."""
        made = cls.__new__(cls)
        PrivateRelease.__init__(made, declared)
        made._uses = uses
        return made

    def with_provenance(self, data_set: str = "", *, date: bool = False) -> Self:
        """Copy the transform, whose releases name their data set in the privacy statement.

        In any case, releases contain column names, the package version and a settings digest. None of these change
        the noise.

        Args:
          data_set: description, a line with at most 500 characters.
          date: whether a release contains the day when its noise was drawn. Replayable noise refuses it.
        """
        changed = copy.copy(self)
        changed._declared = dataclasses.replace(self._declared, data_set=data_set, date=date)
        return changed

    def _make_final(self, elements: beam.PCollection, resolved: ResolvedRelease, kind: type = Released) -> MakeFinal:
        declared = self._declared
        provenance = Provenance.of(declared, resolved.terms, self._edges(elements))
        return MakeFinal(provenance, is_dated=declared.date, per_key=declared.is_keyed, kind=kind)

    def _release(
        self, elements: beam.PCollection, resolved: ResolvedRelease, plan: WindowPlan, noise: IdempotentNoise | None
    ) -> beam.PCollection:
        declared = self._declared
        if declared.horizon is not None:
            return self._release_rows(elements, declared.horizon, resolved, plan, noise)
        if declared.count.by_item:
            counting, run = self._pay(elements, resolved).noise(Counting), self._paid_run(elements, resolved, noise)
            noisy = elements | "Thresholding" >> ReleaseGroups(declared, plan, counting, noise, run)
            released = noisy | "MakeFinal" >> self._make_final(elements, resolved)
        else:
            released = self._release_sketches(elements, resolved, plan, noise)
        if (k := declared.count.wanted) is None:
            return released
        if not declared.is_keyed:
            return released | "TopK" >> beam.Map(TopK.of, k).with_output_types(TopK)
        search = beam.MapTuple(lambda key, release: (key, TopK.of(release, k)))
        return released | "TopK" >> search.with_output_types(tuple[Any, TopK])

    def _release_sketches(
        self, elements: beam.PCollection, resolved: ResolvedRelease, plan: WindowPlan, noise: IdempotentNoise | None
    ) -> beam.PCollection:
        """Sum each window exactly, and draw the noise of each sum once."""
        declared, paid = self._declared, self._paid_run(elements, resolved, noise)
        run, choice = name_of(paid), resolved.noise(Calibration).choice
        exact_sums = ExactSums(declared, plan, noise, run, choice=choice)
        exact = elements | "ExactSums" >> exact_sums
        calibration = self._pay(elements, resolved).noise(Calibration)
        several = declared.is_keyed or not plan.is_global
        inputs = run_input(elements, declared, plan, calibration, noise, paid) if several else run
        if "lost" in exact:
            lost = exact["lost"] | "DrawLost" >> DrawLost(calibration, noise, exact.get("max_norm"), run)
            inputs = {**inputs, "lost": beam.pvalue.AsSingleton(lost)}
        once = beam.ParDo(ReleaseOnce(calibration, noise), **inputs)
        return (
            exact["sums"]
            | "ReleaseOnce" >> once.with_output_types(tuple[Any, NoisyReleases])
            | "MakeFinal" >> self._make_final(elements, resolved, RELEASED_KINDS[declared.sketch_input.kind.name])
        )

    def _release_rows(
        self,
        elements: beam.PCollection,
        horizon: Horizon,
        resolved: ResolvedRelease,
        plan: WindowPlan,
        noise: IdempotentNoise | None,
    ) -> beam.PCollection:
        """Sum each window exactly, combine windows to timeline rows, and draw the noise of each row once."""
        declared, per_key, paid = self._declared, self._declared.is_keyed, self._paid_run(elements, resolved, noise)
        run = name_of(paid)
        exact = ExactSums(declared, plan, noise, run, choice=resolved.noise(Calibration).choice)
        sums = (elements | "Windows" >> beam.WindowInto(windows_of(horizon)) | "ExactSums" >> exact)["sums"]
        calibration = self._pay(elements, resolved).noise(Calibration)
        of_rows = run_input(
            elements, declared, plan, calibration, noise, paid
        )  # on streams, `RowsInOrder` names the run
        settings = RowSettings(horizon, horizon.rows, exact.sketch_input)
        all_rows = AllRows(settings, calibration.choice, noise)
        shards = None
        if per_key and declared.public_keys is None:  # one shard contains all windows of a key
            shards = key_shards_for(plan.scale, declared.spec.cells * horizon.windows)
        # One window longer than the horizon, because Prism may fire a timer before elements of the same time.
        longer = windows_of(horizon, horizon.windows + 1)
        named = not elements.is_bounded
        once = ReleaseOnce(calibration, noise, named=named)
        return (
            sums
            | "Rows" >> RowsOverTime(settings, longer, all_rows, shards=shards, run=run)
            | "OwnWindow" >> beam.WindowInto(windows_of(horizon))
            | "ReleaseOnce" >> beam.ParDo(once, **of_rows).with_output_types(tuple[Any, NoisyReleases])
            | "MakeFinal" >> self._make_final(elements, resolved, TimelineRow)
        )
