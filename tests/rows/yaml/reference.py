"""The reference of Beam YAML and the schema for editors; `python -m tests.rows.yaml.reference` writes both."""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import re
from pathlib import Path
from typing import Any, NamedTuple

from apache_beam.yaml import generate_yaml_docs

from beam_dpsketch.cli.main import PROVIDERS

DOCS = Path(__file__).parents[3] / "docs"
PAGE, SCHEMA = DOCS / "yaml_reference.md", DOCS / "yaml_schema.json"
_TITLE = """# Settings of the transforms in Beam YAML

Look up the settings of each transform in `beam_dpsketch.rows`. [Settings](settings.md) explains every block and its
other spellings. Beam generates this page; `?` stands for values of several types.

"""


class Reference(NamedTuple):
    """What Beam makes: the page, and the schema that editors check pipelines with."""

    page: str
    schema: str


def make() -> Reference:
    """Return the reference of the transforms that are listed now."""
    options = argparse.Namespace(
        provider_source_file=str(PROVIDERS.resolve()), markdown_file="page", html_file=None, schema_file="schema"
    )
    with contextlib.redirect_stdout(io.StringIO()):
        schemas, page = generate_yaml_docs.create_index(lambda name: True, lambda name: False, options)
    page = re.sub(r'<a href="(#\w+)">(\w+)</a>', r"[\2](\1)", page)
    page = re.sub(r"\n{3,}", "\n\n", re.sub(r"[ \t]+$", "", page, flags=re.MULTILINE))
    return Reference(_TITLE + page.strip() + "\n", json.dumps(_pipeline(schemas), indent=1) + "\n")


def _pipeline(schemas: list[Any]) -> dict[str, Any]:
    """Return the schema of a pipeline, whose transforms of ours have the settings that are listed."""
    transform = {"type": "object", "properties": {"type": {"type": "string"}}, "allOf": schemas}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {
            "pipeline": {"type": "object", "properties": {"transforms": {"type": "array", "items": transform}}}
        },
        "required": ["pipeline"],
    }


if __name__ == "__main__":
    reference = make()
    PAGE.write_text(reference.page, encoding="utf-8")
    SCHEMA.write_text(reference.schema, encoding="utf-8")
