"""What a runner may do to releases: warnings while it is built, and the refusal to run it twice for one budget.

A part of a `PrivacyBudget` pays for one release, and each run makes one. Beam asks the error handlers of a pipeline
each time that `Pipeline.run` begins, before anything else, so one of them can count. What runs a pipeline in another
way is not seen: a template, a notebook, a service, or a runner that is called directly.
"""

from __future__ import annotations

import warnings
import weakref
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import PortableOptions
from apache_beam.runners.direct.direct_runner import SwitchingDirectRunner

from beam_dpsketch.errors import BudgetExceededError, LedgerError
from beam_dpsketch.transforms.steps.idempotent_noise import IdempotentNoise

_REMOTE = ("DataflowRunner", "FlinkRunner", "SparkRunner")
_REPLAYING = ("FlinkRunner", "SparkRunner")
_MAY_BE_FLINK = ("FlinkRunner", "PortableRunner")


def check_runner(elements: beam.PCollection, idempotent_noise: IdempotentNoise | None) -> None:
    """Warn of what may be released twice or lost."""
    options = elements.pipeline.options
    runner = type(elements.pipeline.runner).__name__
    served = _is_served(elements.pipeline)
    if idempotent_noise is None and (runner in _REPLAYING or served):
        warnings.warn(
            f"after a failure {runner} may draw noise again for a window that is published already, which is another "
            "release of the same data; add .with_idempotent_noise(...), or write to a transactional sink",
            stacklevel=3,
        )
    if idempotent_noise is None and isinstance(elements.pipeline.runner, SwitchingDirectRunner):
        warnings.warn(
            "DirectRunner, which Beam takes where no runner is named, may run a failed pipeline again on another "
            "runner. That draws the noise again, which is another release of the same data. Name the runner: "
            'beam.Pipeline(runner="FnApiRunner"), or runner="BundleBasedDirectRunner" for a TestStream',
            stacklevel=3,
        )
    given = options.get_all_options(retain_unknown_options=True)
    if runner in _MAY_BE_FLINK and not elements.is_bounded and _drops_what_waits(given):
        warnings.warn(
            "on Flink, records of a stream that wait for a checkpoint come late and are lost; add the option "
            "--finish_bundle_before_checkpointing to --checkpointing_interval",
            stacklevel=3,
        )


def check_reach(pipeline: beam.Pipeline, bill: Any) -> None:
    """Warn of a ledger in a file where workers may have disks of their own."""
    runner = type(pipeline.runner).__name__
    if "://" not in bill.payer.address and (runner in _REMOTE or _is_served(pipeline)):
        warnings.warn(
            f"the ledger is a file, and each worker or container of {runner} may have a disk of its own, where the "
            "file is another one or none; take PostgreSQL, as postgresql://user@host/database",
            stacklevel=3,
        )


def _is_served(pipeline: beam.Pipeline) -> bool:
    """Return whether another process runs the pipeline."""
    endpoint = pipeline.options.view_as(PortableOptions).job_endpoint
    return type(pipeline.runner).__name__ == "PortableRunner" and endpoint not in (None, "embed")


def _drops_what_waits(options: dict[str, object]) -> bool:
    """Return whether checkpoints are taken in the middle of bundles."""
    takes_checkpoints = int(str(options.get("checkpointing_interval") or -1)) > 0
    return takes_checkpoints and not options.get("finish_bundle_before_checkpointing")


class OneRun:
    """Counts the runs of a pipeline, as an error handler of Beam that handles no errors."""

    def __init__(self) -> None:
        self._ran = False

    def verify_closed(self) -> None:
        """Refuse a second run."""
        if self._ran:
            raise BudgetExceededError(
                "",
                "this pipeline has run already, and its budget has paid for one run: a second one would be "
                "another release; build the pipeline again, with a budget for it",
                "E106",
            )
        self._ran = True


class BillsChecked:
    """Asks a ledger as a run begins whether it could pay now, as an error handler of Beam that handles no errors."""

    def __init__(self) -> None:
        self.bills: dict[str, Any] = {}

    def verify_closed(self) -> None:
        """Refuse a run that could not be paid for; what this machine cannot reach, a worker may."""
        try:
            first, *others = self.bills.values()
            first.check_with(others)
        except LedgerError as error:
            if not error.is_unreachable:
                raise


_CHECKED: weakref.WeakKeyDictionary[beam.Pipeline, BillsChecked] = weakref.WeakKeyDictionary()


def check_before_runs(pipeline: beam.Pipeline, path: str, bill: Any) -> None:
    """Ask for the bill of a transform whenever a run begins, together with the others of the pipeline."""
    if pipeline not in _CHECKED:
        _CHECKED[pipeline] = BillsChecked()
        pipeline._register_error_handler(_CHECKED[pipeline])
    _CHECKED[pipeline].bills[path] = bill


def allow_one_run(pipeline: beam.Pipeline) -> None:
    """Refuse to run a pipeline twice."""
    pipeline._register_error_handler(OneRun())
