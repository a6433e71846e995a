"""Losses in the words of a plan."""

from __future__ import annotations

import re
from fractions import Fraction

import pytest

from beam_dpsketch.cli.planning import in_words
from beam_dpsketch.config import read_release


@pytest.mark.parametrize(
    "privacy", [{"rho": rho, "delta": delta} for rho in ("1", "1/3") for delta in (1e-6, 1.234564e-7)]
)
def test_no_loss_is_shown_below_the_truth(privacy: dict[str, object]) -> None:
    config = read_release({"kind": "frequencies", "item": "i", "privacy": privacy, "unit": "record"})
    for words in (str(config.plan()), in_words(config)):
        found = re.search(r"rho = ([\d.e-]+),.* epsilon = ([\d.e-]+) at delta = ([\d.e-]+)[,;]", words)
        assert found is not None
        rho, epsilon, delta = map(Fraction, found.groups())
        assert rho >= config.terms.privacy.rho
        assert epsilon >= Fraction(config.terms.epsilon)
        assert delta >= Fraction(str(privacy["delta"]))


@pytest.mark.parametrize("privacy", [{"rho": 1}, {"epsilon": 1}, {"epsilon": 1, "delta": 1e-6}], ids=str)
def test_plan_and_check_say_a_loss_alike(privacy: dict[str, object]) -> None:
    config = read_release({"kind": "frequencies", "item": "i", "privacy": privacy, "unit": "record"})
    (line,) = [line for line in str(config.plan()).splitlines() if line.startswith("Privacy: ")]
    loss = line.removeprefix("Privacy: ").split("; ")[0]
    assert ", ADD_OR_REMOVE_ONE" in loss
    assert in_words(config).endswith(f"; {loss}")
