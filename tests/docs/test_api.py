"""The table of public names in docs/api.md: what packages export, documented below it, and nothing else."""

import ast
import importlib
import re

import pytest

from tests.docs.blocks import ROOT, blocks

PAGE = (ROOT / "docs" / "api.md").read_text()
WHOLE = ("tggm", "inference", "plotting", "precision", "report", "special", "data")  # all that they export


def rows(head):
    """First cell → names of the second, of the table that begins with this head."""
    lines = PAGE.split(f"| {head} |\n")[1].split("\n\n")[0].splitlines()[1:]
    return [[re.findall(r"`([^`]+)`", cell) for cell in line.strip("|").split("|")] for line in lines]


PUBLIC = {module: names for (module,), names in rows("import from | names")}
RESULTS = [name for names, _ in rows("type | from") for name in names]


def entries():
    """Dotted names after `:::`, and the members listed under them."""
    for entry in re.finditer(r"^::: (\S+)\n((?:    .*\n)*)", PAGE, re.MULTILINE):
        members = re.search(r" members: \[(.*)\]", entry[2])
        yield entry[1], members[1].split(", ") if members else []


def is_class(dotted):
    return dotted.rpartition(".")[2][0].isupper()


def documented():
    """Dotted names that the page documents; a module stands for its members."""
    for dotted, members in entries():
        alone = is_class(dotted) or not members
        yield from [dotted] if alone else [f"{dotted}.{name}" for name in members]


def found(dotted):
    module, _, name = dotted.rpartition(".")
    return getattr(importlib.import_module(module), name)


@pytest.mark.parametrize("package", WHOLE)
def test_the_table_has_all_that_a_public_package_exports(package):
    name = package if package == "tggm" else f"tggm.{package}"
    exported = set(importlib.import_module(name).__all__) - {"__version__"}
    assert set(PUBLIC[name]) == exported


def test_each_public_name_is_documented_once_and_nothing_else_is():
    names = [dotted.rpartition(".")[2] for dotted in documented()]
    listed = [name for names in PUBLIC.values() for name in names] + RESULTS
    assert sorted(names) == sorted(listed)


def test_what_is_documented_is_what_is_imported():
    imported = {name: found(f"{module}.{name}") for module, names in PUBLIC.items() for name in names}
    for dotted in documented():
        name = dotted.rpartition(".")[2]
        assert imported.get(name, found(dotted)) is found(dotted), dotted
        assert found(dotted).__doc__, dotted


def test_members_that_are_listed_of_a_class_are_there_and_have_docstrings():
    listed = {dotted: members for dotted, members in entries() if is_class(dotted) and members}
    assert len(listed) >= 2  # both estimators
    for dotted, members in listed.items():
        for name in members:
            assert getattr(found(dotted), name).__doc__, f"{dotted}.{name}"


def test_pages_and_examples_import_public_names_only():
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    code = [
        block.text for page in pages for block in blocks(page.read_text()) if block.kind in ("python", "py")
    ]
    code += [path.read_text() for path in (ROOT / "examples").glob("*.py")]
    nodes = [node for text in code for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom)]
    taken = {(node.module, alias.name) for node in nodes for alias in node.names}
    ours = {(module, name) for module, name in taken if module.split(".")[0] == "tggm"}
    assert len(ours) > 20
    private = [
        pair for pair in ours if pair[1] not in PUBLIC.get(pair[0], []) and ".".join(pair) not in PUBLIC
    ]
    assert private == []
