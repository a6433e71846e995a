"""What noise other libraries, and a few lines of numpy, have for the same promise."""

from __future__ import annotations

import functools
import importlib
import math
from collections.abc import Callable
from typing import Any

from benchmarks.accuracy.noise_peers.promises import (
    GAUSSIAN,
    LAPLACE,
    Person,
    Promise,
    gaussian_scale,
    laplace_deviation,
)

PDP_LAPLACE, PDP_GAUSSIAN, PDP_PLD = "PDP Lap.", "PDP Gauss", "PDP PLD"
ODP_LAPLACE, ODP_GAUSSIAN = "OpenDP Lap.", "OpenDP G."
NP_LAPLACE, NP_GAUSSIAN = "plain Lap.", "plain G."
IS_LAPLACE = (PDP_LAPLACE, ODP_LAPLACE, NP_LAPLACE)
Deviation = Callable[[Promise, Person], float]


def module(name: str) -> Any:
    """A library that only this comparison needs."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise SystemExit(f"{name} is not installed: pip install 'beam-dpsketch[peers,test]'") from error


@functools.cache
def opendp() -> Any:
    """OpenDP, with what it calls contributed."""
    dp = module("opendp.prelude")
    dp.enable_features("contrib", "honest-but-curious")
    return dp


@functools.cache
def pdp_spec(kind: str, accountant: str, promise: Promise) -> Any:
    """What an accountant of PipelineDP gives to one of some equal counts."""
    accounting = module("pipeline_dp.budget_accounting")
    kinds = module("pipeline_dp.aggregate_params").MechanismType
    accounts = getattr(accounting, f"{accountant}BudgetAccountant")(promise.epsilon, promise.delta)
    specs = [accounts.request_budget(kinds[kind.upper()]) for _ in range(promise.releases)]
    accounts.compute_budgets()
    return specs[0]


def pdp(kind: str, accountant: str = "Naive") -> Deviation:
    """PipelineDP, whose bounds are a number of partitions and of records in each."""

    def deviation(promise: Promise, person: Person) -> float:
        computations = module("pipeline_dp.dp_computations")
        sensitivities = computations.Sensitivities(l0=person.items, linf=person.each)
        return computations.create_additive_mechanism(pdp_spec(kind, accountant, promise), sensitivities).std

    return deviation


def pdp_pld(promise: Promise, person: Person) -> float:
    """The better noise under PipelineDP's accountant of loss distributions, which it calls experimental."""
    return min(pdp(kind, "PLD")(promise, person) for kind in (LAPLACE, GAUSSIAN))


@functools.cache
def opendp_scale(kind: str, promise: Promise) -> float:
    """The least scale that OpenDP's map allows for a change of 1, of each of some releases."""
    dp = opendp()
    space = dp.vector_domain(dp.atom_domain(T="i64"))

    def epsilon(scale: float) -> float:
        if kind == LAPLACE:
            each = (space, dp.l1_distance(T="i64")) >> dp.m.then_laplace(scale=scale)
            return dp.c.make_composition([each] * promise.releases).map(1)
        each = (space, dp.l2_distance(T="f64")) >> dp.m.then_gaussian(scale=scale)
        return (
            dp.c.make_zCDP_to_approxDP(dp.c.make_composition([each] * promise.releases)).map(1.0).epsilon(promise.delta)
        )

    low, high = 1e-2, 1e4
    for _ in range(50):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if epsilon(middle) <= promise.epsilon else (middle, high)
    return high


def opendp_laplace(promise: Promise, person: Person) -> float:
    """OpenDP's discrete Laplace."""
    return laplace_deviation(person.total * opendp_scale(LAPLACE, promise), 1.0)


def opendp_gaussian(promise: Promise, person: Person) -> float:
    """OpenDP's discrete Gaussian, whose map is that of zCDP."""
    return person.length * opendp_scale(GAUSSIAN, promise)


def plain_laplace(promise: Promise, person: Person) -> float:
    """A histogram with Laplace noise; with a delta, by the exact loss of all its changes if that is closer."""
    linear = laplace_deviation(person.total * promise.releases / promise.epsilon)
    changes = person.items * promise.releases
    if not promise.delta or changes == 1:
        return linear
    return min(linear, person.each * laplace_deviation(composed_scale(promise.epsilon, promise.delta, changes)))


@functools.cache
def composed_scale(epsilon: float, delta: float, changes: int) -> float:
    """The least scale of Laplace noise for this number of changes by 1, by the distribution of the loss."""
    library = module("dp_accounting.pld.privacy_loss_distribution")
    low, high = changes / epsilon / 8, changes / epsilon
    for _ in range(12):
        middle = math.sqrt(low * high)
        step = max(1e-3 * min(1 / middle, epsilon / math.sqrt(changes)), 2e-5 * epsilon)
        losses = library.from_laplace_mechanism(middle, value_discretization_interval=step)
        is_within = losses.self_compose(changes).get_epsilon_for_delta(delta) <= epsilon
        low, high = (low, middle) if is_within else (middle, high)
    return high


def plain_gaussian(promise: Promise, person: Person) -> float:
    """A histogram with the analytic Gaussian; releases add up as the squares of their lengths do."""
    return person.length * math.sqrt(promise.releases) * gaussian_scale(promise.epsilon, promise.delta)


PURE: dict[str, Deviation] = {PDP_LAPLACE: pdp(LAPLACE), ODP_LAPLACE: opendp_laplace, NP_LAPLACE: plain_laplace}
WITH_DELTA: dict[str, Deviation] = {
    PDP_LAPLACE: pdp(LAPLACE),
    PDP_GAUSSIAN: pdp(GAUSSIAN),
    PDP_PLD: pdp_pld,
    ODP_LAPLACE: opendp_laplace,
    ODP_GAUSSIAN: opendp_gaussian,
    NP_LAPLACE: plain_laplace,
    NP_GAUSSIAN: plain_gaussian,
}


def of(promise: Promise) -> dict[str, Deviation]:
    """Those that can keep a promise."""
    return WITH_DELTA if promise.delta else PURE
