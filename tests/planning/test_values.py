"""What `explain` says of errors in values is what releases of real-looking data have."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import pytest

from beam_dpsketch import (
    ArgumentError,
    DyadicCountSketch,
    FloatDomain,
    IntegerDomain,
    IPv4Domain,
    NormBound,
    PrivacySpec,
    ReleaseTerms,
    SketchSpec,
    TreeSpec,
    plan,
    release,
)
from beam_dpsketch.config import read_release
from beam_dpsketch.exact.declared.count import Guess
from beam_dpsketch.privacy.contributions import PrivacyUnit
from tests.cli.consoles import run

TERMS = ReleaseTerms(PrivacySpec(epsilon=1, delta=1e-6), NormBound(20), privacy_unit=PrivacyUnit.PRIVACY_ID)
QUANTILES = (0.5, 0.95, 0.99)
CASES = {
    "narrow": (FloatDomain(0, 2000, 5), 60, 1200, 20_000),
    "wide": (FloatDomain(0, 10_000, 1), 60, 1200, 200_000),
    "whole": (IntegerDomain(0, 1000), 60, 400, 20_000),
    "around 0": (FloatDomain(-500, 500, 1), 0, 150, 50_000),
}


def simulated(domain: Any, median: float, high: float, n: int, runs: int) -> np.ndarray:
    """The root mean square errors of released quantiles, on drawn data of the shape."""
    scores = np.random.default_rng(7).standard_normal(n) / 2.3263
    values = median * (high / median) ** scores if median else high * scores
    values = np.clip(np.rint(values) if domain.plain_type is int else values, domain.low, domain.high)
    raw = DyadicCountSketch(TreeSpec.for_memory(domain)).in_units_of(TERMS.scale_bits)
    keys, _ = domain.index(values.astype(np.int64) if domain.plain_type is int else values)
    raw = raw.accumulate_keys(keys, np.full(n, 1 << TERMS.scale_bits))
    true = np.sort(np.array(domain.values(keys)))[[round(share * n) - 1 for share in QUANTILES]]
    found: list[Any] = [release(raw, TERMS) for _ in range(runs)]
    return np.sqrt(np.mean([(np.array(each.quantile(QUANTILES).estimate) - true) ** 2 for each in found], axis=0))


def predicted(privacy: PrivacySpec, domain: Any, typical: tuple[float, float], n: int, plans: int) -> np.ndarray:
    """The errors of several plans together, because one of them simulates few releases."""
    terms = ReleaseTerms(privacy, NormBound(20), privacy_unit=PrivacyUnit.PRIVACY_ID)
    found = [[each.deviation for each in plan(domain, terms, n, typical=typical).value_errors] for _ in range(plans)]
    return np.sqrt(np.mean(np.square(found), axis=0))


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_errors_of_values_are_those_of_releases(name: str) -> None:
    """By a factor of 1.5, and a step of the domain.

    Of correct code, the logarithm of the ratio has a mean of at most 0.1, because data are drawn once, and a deviation
    of at most 0.042. 1.5 leaves seven deviations: a false alarm below 1e-9.
    """
    domain, median, high, n = CASES[name]
    step = getattr(domain, "step", 1)
    measured = simulated(domain, median, high, n, 3000)

    def agrees(deviations: np.ndarray) -> bool:
        return bool(np.all((measured / 1.5 - step <= deviations) & (deviations <= measured * 1.5 + step)))

    assert agrees(predicted(TERMS.privacy, domain, (median, high), n, 32))
    assert not agrees(predicted(PrivacySpec(epsilon=3, delta=1e-6), domain, (median, high), n, 8))


def test_a_wide_domain_costs_tails() -> None:
    """Errors in the narrow one cannot exceed 1,100; those in the other are about 2,700, with a deviation of 300."""
    narrow, wide = (
        plan(domain, TERMS, 30_000, typical=(85, 900)).value_errors[-1]
        for domain in (FloatDomain(0, 2000, 5), FloatDomain(0, 10_000, 0.1))
    )
    assert narrow.quantile == wide.quantile == 0.99
    assert narrow.value == pytest.approx(900, abs=5) == wide.value
    assert narrow.deviation < 1100 < wide.deviation


SETTINGS = {
    "kind": "quantiles",
    "item": "delay",
    "domain": {"type": "integer", "low": 0, "high": 500},
    "privacy_unit": {"privacy_id": "who", "norm": {"max_norm": 20}},
    "privacy": {"epsilon": 1, "delta": 1e-6},
}


def test_settings_and_the_command_tell_errors_of_values_and_ask_for_a_guess(tmp_path: Any) -> None:
    declared = read_release(SETTINGS)
    for n in (None, 1000):
        assert "Give the number of records and the typical median and 99th percentile to see errors in values" in str(
            declared.plan(n)
        )
    planned = declared.plan(100_000, typical=(30, 200), quantiles=[0.9])
    assert [each.quantile for each in planned.value_errors] == [0.9]
    assert re.search(r"log-normal data with median 30 and 99th percentile 200\n  p90 +\d+ ±\d", str(planned))
    assert "Rank errors only" not in str(planned)
    file = tmp_path / "delays.yaml"
    file.write_text(json.dumps(SETTINGS))
    line = f"plan --config {file} --records 1e5 --typical 30 200 --quantile 0.5 0.9 --format json"
    (middle, high) = json.loads(run(*line.split())[1])["value_errors"]
    assert (middle["quantile"], middle["value"], high["quantile"]) == (0.5, 30.0, 0.9)


@pytest.mark.parametrize(
    ("domain", "n", "asked", "words"),
    [
        (IntegerDomain(0, 500), 100, {"typical": (30, 20)}, "typical must be two finite numbers"),
        (IntegerDomain(0, 500), 100, {"typical": 30}, "typical must be two finite numbers"),
        (IntegerDomain(0, 500), 100, {"typical": (30, float("nan"))}, "typical must be two finite numbers"),
        (IntegerDomain(0, 500), 100, {"typical": (30, 501)}, "typical must be two numbers in a numeric domain"),
        (IPv4Domain(), 100, {"typical": (30, 501)}, "typical must be two numbers in a numeric domain"),
        (IntegerDomain(0, 500), 100, {"typical": (30, 90), "quantiles": [1]}, "quantiles must be greater than 0"),
        (IntegerDomain(0, 500), None, {"typical": (30, 90)}, "typical is supported only for quantiles"),
        (IntegerDomain(0, 500), 100, {"typical": (30, 90), "search": True}, "typical is supported only for"),
        (SketchSpec(), 100, {"typical": (30, 90)}, "typical is supported only for quantiles"),
    ],
)
def test_guesses_that_cannot_be_used_are_refused(domain: Any, n: int, asked: dict[str, Any], words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        plan(domain, TERMS, n, **asked)


def test_a_guess_goes_through_its_median_and_its_99_percent_point() -> None:
    for typical in ((30, 200), (-30, 20), (0, 1)):
        guess = Guess.of(typical, [0.5])
        assert guess is not None
        assert guess.values(np.array([0.5, 0.99])) == pytest.approx(typical)
    assert (Guess(30, 200, ()).shape, Guess(0, 200, ()).shape) == ("log-normal", "normal")


def test_grouped_counts_take_no_guess() -> None:
    privacy_unit = {"privacy_id": "who", "records": {"max_records": 1, "max_keys": 2}}
    groups = {"kind": "top_k", "item": "w", "k": 3, "domain": "ipv4", "method": {"threshold": {"delta": 1e-8}}}
    with pytest.raises(ArgumentError, match="typical is supported only for"):
        read_release({**groups, "privacy_unit": privacy_unit, "privacy": {"rho": 1}}).plan(100, typical=(1, 2))
