"""Notebooks of the documentation: run their code, and store what it prints.

`python -m tests.helpers.notebooks docs/codelab.ipynb` runs a notebook again, and writes its outputs.
"""

import contextlib
import io
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.helpers.pages import ROOT

NOTEBOOKS = sorted(ROOT.glob("docs/*.ipynb"))


def text(file: Path) -> str:
    cells = json.loads(file.read_text(encoding="utf-8"))["cells"]
    return "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")


def code_cells(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def stored(notebook: dict[str, Any]) -> list[str]:
    """The outputs in the file, one for each cell of code."""
    return ["".join(text for output in cell["outputs"] for text in output["text"]) for cell in code_cells(notebook)]


def run(notebook: dict[str, Any]) -> list[str]:
    """Run the cells one after another in an empty folder, and collect the output of each."""
    names: dict[str, Any] = {"__name__": "__main__"}
    printed = []
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for cell in code_cells(notebook):
            output = io.StringIO()
            with contextlib.redirect_stdout(output):
                exec(compile("".join(cell["source"]), "codelab", "exec"), names)
            printed.append(output.getvalue())
    return printed


def write(file: Path) -> None:
    notebook = json.loads(file.read_text(encoding="utf-8"))
    for number, (cell, text) in enumerate(zip(code_cells(notebook), run(notebook), strict=True), 1):
        lines = text.splitlines(keepends=True)
        cell["execution_count"] = number
        cell["outputs"] = [{"name": "stdout", "output_type": "stream", "text": lines}] if lines else []
    file.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + os.linesep, encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
