"""What a runner takes beside the package's steps, fitted on small jobs; and what larger ones should then take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from scipy.optimize import nnls

from benchmarks.scale.costs import Costs
from benchmarks.scale.flink_runs import FlinkRun
from benchmarks.scale.jobs import Engine, Job
from benchmarks.scale.kinds import KINDS
from benchmarks.scale.scenarios import Settings

FITTED_ROWS = 10**7


def is_fitted(run: FlinkRun) -> bool:
    """Return whether the fit sees a run: one worker, and no more than 10**7 rows."""
    return run.parallelism == 1 and run.rows <= FITTED_ROWS


def predict(run: FlinkRun, costs: Mapping[str, Costs], engine: Engine) -> float:
    """Return the seconds of processor time that a job should take: each worker has one bundle of a step."""
    settings = Settings(expecting=False, bundle_rows=-(-run.rows // run.parallelism), spread=0.0, made=True)
    job = Job(KINDS[run.kind], costs[run.kind], engine, run.given, settings)
    return engine.job + engine.worker * run.parallelism + sum(stage.work for stage in job.stages())


def fit(runs: Sequence[FlinkRun], costs: Mapping[str, Costs]) -> Engine:
    """Return what the engine takes, from jobs at parallelism 1: least squares of relative errors, none below 0.

    Java takes something for a job, and Python to start a worker and beyond the steps of the package; both, for each
    byte and element.
    """
    fitted = [run for run in runs if is_fitted(run)]
    steps = np.array([predict(run, costs, Engine()) for run in fitted])
    ways = [Engine(byte=1.0), Engine(element=1.0)]
    effects = np.array(
        [[1.0, *(predict(run, costs, way) - own for way in ways)] for run, own in zip(fitted, steps, strict=True)]
    )
    of_all = np.array([run.seconds for run in fitted])
    java, python = np.array([run.engine for run in fitted]), np.array([run.workers for run in fitted]) - steps
    job, worker = (nnls(effects / of_all[:, None], measured / of_all)[0] for measured in (java, python))
    return Engine(*map(float, (job[0], worker[0], *(job + worker)[1:])))
