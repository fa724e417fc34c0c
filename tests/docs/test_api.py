"""docs/api.md lists and documents all public names, and pages and examples use only these."""

import ast
import importlib
import inspect
import re
import subprocess
import sys

import pytest

import tggm
from tests.docs.blocks import ROOT, blocks

PAGE = (ROOT / "docs" / "api.md").read_text()
# by __all__
COMPLETE = ("tggm", "data", "inference", "metrics", "paper", "plotting", "precision", "report", "special")


def rows(head):
    """Return the names in the cells of the table with this head."""
    lines = PAGE.split(f"| {head} |\n")[1].split("\n\n")[0].splitlines()[1:]
    return [[re.findall(r"`([^`]+)`", cell) for cell in line.strip("|").split("|")] for line in lines]


PUBLIC = {module: names for (module,), names in rows("import from | names")}
RESULTS = [name for names, _ in rows("type | from") for name in names]


def entries():
    """Return pairs of a dotted name after `:::` and the members listed under it."""
    for entry in re.finditer(r"^::: (\S+)\n((?:    .*\n)*)", PAGE, re.MULTILINE):
        members = re.search(r" members: \[(.*)\]", entry[2])
        yield entry[1], members[1].split(", ") if members else []


def is_class(dotted):
    return dotted.rpartition(".")[2][0].isupper()


def documented():
    """Return the dotted names that the page documents; a module is replaced by its members."""
    for dotted, members in entries():
        alone = is_class(dotted) or not members
        yield from [dotted] if alone else [f"{dotted}.{name}" for name in members]


def imported(dotted):
    module, _, name = dotted.rpartition(".")
    return getattr(importlib.import_module(module), name)


@pytest.mark.parametrize("package", COMPLETE)
def test_the_table_has_all_names_that_a_package_exports(package):
    name = package if package == "tggm" else f"tggm.{package}"
    assert set(PUBLIC[name]) == set(importlib.import_module(name).__all__) - {"__version__"}


def test_the_package_lists_only_public_names():
    assert dir(tggm) == sorted(tggm.__all__)
    code = "import tggm; print(tggm.metrics.neg_crps_scorer.__module__)"  # without `import tggm.metrics`
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "tggm.metrics\n"


@pytest.mark.parametrize("kind", [tggm.TGGMRegressor, tggm.TGGMClassifier])
def test_signatures_in_help_are_short(kind):
    names = [name for name in dir(kind) if name[0] != "_" and not name.endswith("_request")]
    methods = filter(inspect.isfunction, [getattr(kind, name) for name in names])
    signatures = [str(inspect.signature(method)) for method in methods]
    assert max(map(len, signatures)) < 500
    assert not [text for text in signatures if "Union" in text or "numpy" in text]


def test_each_public_name_is_documented_once():
    names = [dotted.rpartition(".")[2] for dotted in documented()]
    assert sorted(names) == sorted([name for names in PUBLIC.values() for name in names] + RESULTS)


def test_documented_objects_are_the_imported_ones_and_have_docstrings():
    public = {name: imported(f"{module}.{name}") for module, names in PUBLIC.items() for name in names}
    for dotted in documented():
        assert public.get(dotted.rpartition(".")[2], imported(dotted)) is imported(dotted), dotted
        assert imported(dotted).__doc__, dotted
    for dotted, members in entries():
        for name in members if is_class(dotted) else []:
            assert getattr(imported(dotted), name).__doc__, f"{dotted}.{name}"


def test_pages_and_examples_import_public_names_only():
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    code = [b.text for page in pages for b in blocks(page.read_text()) if b.kind in ("python", "py")]
    code += [path.read_text() for path in (ROOT / "examples").glob("*.py")]
    nodes = [node for text in code for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom)]
    used = {(node.module, alias.name) for node in nodes for alias in node.names}
    ours = [(module, name) for module, name in used if module.split(".")[0] == "tggm"]
    assert len(ours) > 20
    assert [p for p in ours if p[1] not in PUBLIC.get(p[0], []) and ".".join(p) not in PUBLIC] == []
