"""A pipeline of Beam YAML pays an account of a ledger, and a second run is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from beam_dpsketch import LossLimit
from beam_dpsketch.errors import BudgetExceededError
from tests.helpers.ledgers import payments, with_account
from tests.rows.yaml.running import VISITS, run

PIPELINE = """
options: {runner: FnApiRunner}
pipeline:
  transforms:
    - type: ReadFromCsv
      config: {path: "{{ VISITS }}.csv", dtype: {person: str, city: str}}
    - type: PrivateFrequencies
      input: ReadFromCsv
      config:
        item: city
        listed_items: [Oslo, Bern, Rome]
        privacy: {epsilon: 2, delta: 1.0e-6, ledger: "{{ LEDGER }}", account: visits}
        privacy_unit: {privacy_id: person, norm: {max_norm: 3}}
        ask: {items: [Oslo, Bern, Rome]}
    - type: WriteToJson
      input: PrivateFrequencies
      config: {path: "{{ OUT }}/cities"}
providers:
  - type: python
    config: {}
    transforms: {PrivateFrequencies: beam_dpsketch.rows.PrivateFrequencies}
"""


def test_a_run_pays_and_the_next_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "pipeline.yaml"
    file.write_text(PIPELINE)
    ledger = with_account(str(tmp_path / "spent.db"), LossLimit(epsilon=2, delta=1e-6))
    variables = {"VISITS": str(VISITS), "LEDGER": ledger.address}
    run(file, OUT=str(tmp_path / "first"), **variables)
    assert len(payments(ledger)) == 1
    assert [*(tmp_path / "first").iterdir()]
    with pytest.raises(BudgetExceededError, match=r"account 'visits' cannot pay for this release\. Limit: epsilon = 2"):
        run(file, OUT=str(tmp_path / "second"), **variables)
    assert len(payments(ledger)) == 1
    assert not (tmp_path / "second").exists()
