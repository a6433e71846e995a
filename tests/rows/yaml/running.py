"""Run pipelines of Beam YAML in this process, and the error lines that users see."""

from __future__ import annotations

import contextlib
import io
import json
import re
from pathlib import Path

from apache_beam.yaml import main

ROOT = Path(__file__).parents[3]
EXAMPLES = sorted((ROOT / "pipelines" / "yaml").glob("*.yaml"))
FOLDER = Path(__file__).parent
SNAPSHOTS = FOLDER / "messages.txt"
WRONG = sorted((FOLDER / "wrong").glob("*.yaml"))
VISITS = ROOT / "pipelines" / "yaml" / "visits"


def run(file: Path, **variables: str) -> None:
    """Run a pipeline; its variables are for Jinja."""
    with contextlib.redirect_stdout(io.StringIO()):
        main.run([f"--yaml_pipeline_file={file}", f"--jinja_variables={json.dumps(variables)}"])


def run_tests(file: Path) -> None:
    """Run the tests of a pipeline."""
    with contextlib.redirect_stderr(io.StringIO()):
        main.run_tests([f"--yaml_pipeline_file={file}"], exit=False)


def message(file: Path) -> str:
    """Return the last line of the error of a wrong pipeline."""
    try:
        run(file, VISITS=str(VISITS))
    except Exception as error:
        return re.sub(r"/\S*/", "", str(error)).strip().splitlines()[-1]
    return ""


def snapshots() -> str:
    """Return the name and the message of each wrong pipeline, with a line between them."""
    return "\n".join(f"{file.stem}\n  {message(file)}\n" for file in WRONG)


if __name__ == "__main__":
    SNAPSHOTS.write_text(snapshots(), encoding="utf-8")
