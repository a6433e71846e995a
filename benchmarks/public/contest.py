"""Questions to several libraries, and how far their answers are from the truth."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

EPSILON, DELTA = 1.0, 1e-6
CONFIDENCE = 0.95
OURS, OURS_AUTO = "beam_dpsketch", "beam_dpsketch, auto norm"
PIPELINE_DP, OPENDP, PLAIN = "PipelineDP", "OpenDP", "plain histogram"
DATASKETCHES = "DataSketches (not private)"


class Answers(NamedTuple):
    """Estimates of one run, with bounds if the library gives intervals."""

    estimate: np.ndarray
    lower: np.ndarray | None = None
    upper: np.ndarray | None = None

    @classmethod
    def of(cls, intervals: object) -> Answers:
        """Answers of this package."""
        return cls(*(np.asarray(getattr(intervals, name), dtype=float) for name in cls._fields))

    @classmethod
    def with_margin(cls, estimate: np.ndarray, margin: float) -> Answers:
        return cls(estimate, estimate - margin, estimate + margin)


def root_mean_square(estimate: np.ndarray, truth: np.ndarray) -> float:
    return float(np.sqrt(np.mean((estimate - truth) ** 2)))


def mean_distance(estimate: np.ndarray, truth: np.ndarray) -> float:
    return float(np.mean(np.abs(estimate - truth)))


class Question(NamedTuple):
    """A question with its exact answers, before any clipping."""

    name: str
    truth: np.ndarray
    error: Callable[[np.ndarray, np.ndarray], float] = root_mean_square


Ask = Callable[[], Mapping[str, Answers]]


class Entry(NamedTuple):
    """A library in a contest.

    Attributes:
      library: its name.
      asks: functions that make one release and answer some questions, by method and contribution bounds. The bounds
        with the least error of the first question, in releases of their own, are used.
    """

    library: str
    asks: Mapping[str, Ask]


class Contest(NamedTuple):
    """Questions about a data set.

    Attributes:
      data: its name.
      questions: each with its truth.
      entries: the libraries.
      tries: how often each bound is tried.
    """

    data: str
    questions: Sequence[Question]
    entries: Sequence[Entry]
    tries: int = 1


class Result(NamedTuple):
    """A row of the CSV file: the errors of one library."""

    data: str
    question: str
    library: str
    bounds: str
    error: float
    standard_error: float
    coverage: float | str
    processor_seconds: float
    runs: int
    tried: str


def measured(contest: Contest, runs: int) -> Iterable[Result]:
    """Run each library. An error is over all answers of a run, then the mean over runs."""
    for library, asks in contest.entries:
        tried = {bounds: _tried(contest, ask) for bounds, ask in asks.items()} if len(asks) > 1 else {}
        bounds = min(tried, key=tried.__getitem__) if tried else next(iter(asks))
        grid = "; ".join(f"{each}: {error:.4g}" for each, error in tried.items())
        answers, seconds = [], []
        for _ in range(runs):
            start = time.process_time()
            answers.append(asks[bounds]())
            seconds.append(time.process_time() - start)
        for name, truth, error in contest.questions:
            if name in answers[0]:
                errors = [error(each[name].estimate, truth) for each in answers]
                covered = [_covered(each[name], truth) for each in answers if each[name].lower is not None]
                yield Result(
                    contest.data,
                    name,
                    library,
                    bounds,
                    statistics.fmean(errors),
                    statistics.stdev(errors) / runs**0.5,
                    statistics.fmean(covered) if covered else "",
                    statistics.median(seconds),
                    runs,
                    grid,
                )


def _tried(contest: Contest, ask: Ask) -> float:
    first = contest.questions[0]
    return statistics.fmean(first.error(ask()[first.name].estimate, first.truth) for _ in range(contest.tries))


def _covered(answers: Answers, truth: np.ndarray) -> float:
    return float(np.mean((answers.lower <= truth) & (truth <= answers.upper)))
