"""The listing names every transform of rows; the reference page and the schema for editors are current."""

from __future__ import annotations

import json
import re
from typing import Any

import jsonschema
import pytest
import yaml

from beam_dpsketch import rows
from beam_dpsketch.cli.main import PROVIDERS
from tests.rows.yaml import reference
from tests.rows.yaml.running import EXAMPLES


def test_the_listing_names_every_transform() -> None:
    (listing,) = yaml.safe_load(PROVIDERS.read_text(encoding="utf-8"))
    assert listing["transforms"] == {name: f"beam_dpsketch.rows.{name}" for name in listing["transforms"]}
    assert {*listing["transforms"]} == {*rows.__all__}


def test_the_reference_is_current() -> None:
    """`python -m tests.rows.yaml.reference` writes it anew."""
    made = reference.make()
    assert made.page == reference.PAGE.read_text(encoding="utf-8")
    assert made.schema == reference.SCHEMA.read_text(encoding="utf-8")


def pipeline(path: Any) -> Any:
    """Return a pipeline without Jinja."""
    return yaml.safe_load(re.sub(r"\{\{.*? \}\}", "x", path.read_text(encoding="utf-8")))


def test_the_schema_takes_the_examples_and_finds_mistakes() -> None:
    schema = json.loads(reference.SCHEMA.read_text(encoding="utf-8"))
    for path in EXAMPLES:
        jsonschema.validate(pipeline_of_numbers(pipeline(path)), schema)
    wrong = pipeline(EXAMPLES[-1])
    wrong["pipeline"]["transforms"][1]["config"]["domian"] = {"type": "ipv4"}
    with pytest.raises(jsonschema.ValidationError, match="domian"):
        jsonschema.validate(wrong, schema)


def pipeline_of_numbers(value: Any) -> Any:
    """Return a pipeline whose shares are numbers: the schema knows one spelling."""
    if isinstance(value, dict):
        return {name: pipeline_of_numbers(each) for name, each in value.items()}
    if isinstance(value, list):
        return [pipeline_of_numbers(each) for each in value]
    return 0.25 if value in ("1/4", "3/4") else value
