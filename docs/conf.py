"""Settings of Sphinx: `make docs` builds the site in `out/site` from the Markdown pages of the repository.

The pages are plain Markdown for any code host. Navigation, index entries, anchors of errors, links to the API and the
texts of proofs are added to them here.
"""

import ast
import importlib
import re
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx

ROOT = Path(__file__).parents[1]
project = html_title = "beam_dpsketch"
author = project_copyright = "The beam_dpsketch authors"
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
root_doc = "docs/index"
include_patterns = ["*.md", "*/*.md", "benchmarks/*/README.md", "docs/*.ipynb", "docs/api/*.rst"]
exclude_patterns = [".*", "build", "out"]
myst_enable_extensions = ["attrs_inline"]
nb_execution_mode = "off"  # `tests/test_codelab.py` runs the notebook
myst_heading_anchors = 4
html_theme = "furo"
html_static_path = html_css_files = ["site.css"]
html_copy_source = False
default_role = "code"
napoleon_use_ivar = True
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
maximum_signature_line_length = 88
python_use_unqualified_type_names = True
nitpick_ignore_regex = [("py:.*", r"(?!beam_dpsketch\.\w+$).*")]

MODULES = ["rows", "plots", "explore", "research", "transforms", ""]  # later modules win
API = {
    name: f"{module}.{name}"
    for module in (f"beam_dpsketch.{part}".rstrip(".") for part in MODULES)
    for name in importlib.import_module(module).__all__
    if name not in {"COLOURS", "__version__"}
}
for name in re.findall(r"`(answers\.[\w.]+)`", (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")):
    API[name] = API[name.rpartition(".")[2]] = f"beam_dpsketch.{name}"
FROZEN = (ROOT / "tests" / "frozen" / "names.txt").read_text(encoding="utf-8")
MEMBERS = set(re.findall(r"\.([a-z]\w*)\b(?!\.)", FROZEN))


def with_toctrees(index: str) -> str:
    """Add the navigation: the links below each heading of the index."""
    for section in index.split("\n## ")[1:]:
        links = re.findall(r"\[([^]]+)\]\(([\w./]+)\.(?:md|ipynb)\)", section)
        pages = [f"{text[0].upper()}{text[1:]} <{page}>" for text, page in links]
        index += "\n```{toctree}\n:hidden:\n:caption: " + "\n".join([section.partition("\n")[0], *pages, "```\n"])
    return index


def with_api(page: str) -> str:
    """Add the pages of the API below the overview."""
    return page + "\n```{toctree}\n:hidden:\n:glob:\napi/*\n```\n"


def with_proofs(page: str) -> str:
    """Add the docstrings of the modules in the column of proofs, and link them."""
    texts = ["", "## Texts of the proofs"]
    column = " ".join(re.findall(r"^\|.*?\|(.*?)\|", page, flags=re.MULTILINE))
    for name in dict.fromkeys(re.findall(r"`(\w+/[\w/]+\.py)`", column)):
        page = page.replace(f"`{name}`", f"[`{name}`](#{re.sub('[/.]', '', name)})")
        module = ast.parse((ROOT / "beam_dpsketch" / name).read_text(encoding="utf-8"))
        texts += [f"### {name}", ast.get_docstring(module) or ""]
        for node in ast.walk(module):
            text = isinstance(node, ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node)
            if text and re.search("Guarantee|arXiv|hence", text):
                texts += [f"**`{node.name}`.** " + re.split(r"\n\n(?:Args:|Returns:|Attributes:|>>>)", text)[0]]
    return page + "\n\n".join(texts)


def with_entries(page: str) -> str:
    """Add the settings of each table to the index."""
    table = re.compile(r"(?<=-->\n)\| setting \|.*\n(?:\|.*\n)+")
    names = re.compile(r"^\| `(\w+)` \|", re.MULTILINE)
    entries = "```{{index}} {}\n```\n\n{}"
    return table.sub(
        lambda rows: entries.format(", ".join(f"! {name}" for name in names.findall(rows[0])), rows[0]), page
    )


def with_anchors(page: str) -> str:
    """Add an anchor and an index entry to each code: `errors.html#e126`."""
    row = r"| [{index}`! \1`]{#\1} |"
    return re.sub(r"^\| (E\d{3}) \|", row, page, flags=re.MULTILINE)


ADDED = {
    "docs/errors": with_anchors,
    "docs/index": with_toctrees,
    "docs/proofs": with_proofs,
    "docs/reference": with_api,
    "docs/settings": with_entries,
}


def complete(_: Sphinx, name: str, source: list[str]) -> None:
    """Add to a page what a code host cannot show."""
    source[0] = ADDED.get(name, str)(source[0])


def link_names(app: Sphinx, tree: nodes.document) -> None:
    """Link public names in code to their documentation."""
    outer = (each for kind in (nodes.reference, nodes.title, pending_xref) for each in tree.findall(kind))
    linked = {code for each in outer for code in each.findall(nodes.literal)}
    for code in [*tree.findall(nodes.literal)]:
        if code.astext() in API and code not in linked:
            target = API[code.astext()]
            reference = pending_xref("", refdomain="py", reftype="obj", reftarget=target, refdoc=app.env.docname)
            code.replace_self(reference)
            reference += code


def find_public(app: Sphinx, env: Any, node: pending_xref, content: nodes.Node) -> nodes.Node | None:
    """Resolve the private path of a public name in an annotation."""
    target = API.get(node["reftarget"].rpartition(".")[2])
    if target in {None, node["reftarget"]}:
        return None
    return env.domains["py"].resolve_xref(env, node["refdoc"], app.builder, "obj", target, node, content)


def swap_colon(_: Sphinx, what: str, *args: Any) -> None:
    """Hide the colon of a property's first line from Napoleon, which reads a type before it, and show it again."""
    if what == "property":
        args[-1][:1] = [line.translate(str.maketrans(":\0", "\0:")) for line in args[-1][:1]]


def is_internal(_: Sphinx, what: str, name: str, *others: Any) -> bool | None:
    """Hide members that are not public: no code on a page uses them."""
    return True if what in {"class", "exception"} and name not in MEMBERS else None


def setup(app: Sphinx) -> None:
    """Connect the steps above."""
    app.connect("autodoc-process-docstring", swap_colon, priority=400)
    app.connect("autodoc-process-docstring", swap_colon, priority=600)
    app.connect("source-read", complete)
    app.connect("autodoc-skip-member", is_internal)
    app.connect("doctree-read", link_names)
    app.connect("missing-reference", find_public)
