"""A pipeline that a budget pays for runs once: refuse the second run of one pipeline object.

A part of a `PrivacyBudget` pays for one release, and each run makes one. Beam asks the error handlers of a pipeline
each time that `Pipeline.run` begins, before anything else, so one of them can count. What runs a pipeline in another
way is not seen: a template, a notebook, a service, or a runner that is called directly.
"""

from __future__ import annotations

import apache_beam as beam

from beam_dpsketch.errors import BudgetExceededError


class OneRun:
    """Counts the runs of a pipeline, as an error handler of Beam that handles no errors."""

    def __init__(self) -> None:
        self._ran = False

    def verify_closed(self) -> None:
        """Refuse a second run."""
        if self._ran:
            raise BudgetExceededError(
                "this pipeline has run already, and its budget has paid for one run: a second one would be another "
                "release; build the pipeline again, with a budget for it"
            )
        self._ran = True


def allow_one_run(pipeline: beam.Pipeline) -> None:
    """Refuse to run a pipeline twice."""
    pipeline._register_error_handler(OneRun())
