"""Tails of binomial laws, for tests that state their false alarms."""

from __future__ import annotations

import math

import numpy as np


def binomial_tails(successes: int, trials: int, probability: float) -> float:
    """The smaller of both tails, twice."""
    logs = [math.lgamma(trials + 1) - math.lgamma(k + 1) - math.lgamma(trials - k + 1) for k in range(trials + 1)]
    pmf = np.exp(
        np.array(logs)
        + np.arange(trials + 1) * math.log(probability)
        + np.arange(trials, -1, -1) * math.log1p(-probability)
    )
    return 2 * float(min(pmf[: successes + 1].sum(), pmf[successes:].sum()))
